"""A verdict on the accuracy of each column of a release, from the noise of its marginal; it costs no privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from synthdp.answers.answer import answer_engine
from synthdp.answers.direct import GLSEstimates
from synthdp.answers.relations import Relations, ShownRelation, associations
from synthdp.arrays import MEAN_ABS
from synthdp.pictures.column_views import drawn_indices
from synthdp.release import Release
from synthdp.sampling.synthetic_model import SyntheticModel

GOOD, FAIR = 0.02, 0.1
"""Expected total variation distance of a column's shares, as a fraction of all rows, below which the verdict is "good"
or "fair".  Larger values would praise columns with more noise.  Tolerances."""

MUCH_LOST = 0.05
"""Fraction of a column's values out of its declared domain from which the verdict is "poor" and reports the fraction.
A larger value would praise columns that lost more values.  A tolerance."""

SHOWN = 12
"""Columns of one verdict that a text names, at most.  A safety limit of length."""

USES = {
    "good": "good enough for counts and shares",
    "fair": "fair, for large groups",
    "poor": "poor, not to be used by itself",
    "unknown": "not known: the mechanism does not say its noise",
}
"""Use of a column by verdict, as the beginning of a line of text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnVerdict:
    """The accuracy of one column's marginal, in a word and in numbers.

    Parameters
    ----------
    name
        The column.
    word
        ``"good"``, ``"fair"`` or ``"poor"``; ``"unknown"`` if the mechanism does not report its noise.
    error
        Expected total variation distance of the column's shares from the real shares, a fraction; ``nan`` if unknown.
    lost
        Estimated fraction of the values out of the declared domain; 0 below `MUCH_LOST`.
    """

    name: str
    word: str
    error: float
    lost: float

    def in_words(self) -> str:
        """Return the reason of the verdict as a clause without a full stop."""
        if self.word == "unknown":
            return "the release does not say how much noise is in it"
        said = f"about {max(100 * self.error, 0.1):.2g} of 100 rows would need another value to make its counts right"
        return (
            f"{said}; about {100 * self.lost:.2g} % of the values were outside what was declared" if self.lost else said
        )


def column_verdicts(direct: GLSEstimates) -> list[ColumnVerdict]:
    """Return a verdict on every column, in the order of the domain.

    Parameters
    ----------
    direct
        GLS estimates from the noisy marginals of a release.
    """
    total = max(direct.total[0], 1.0)
    found = []
    for j, name in enumerate(direct.model.domain.names):
        errors = direct.cell_errors(j)
        lost = float(direct.misfits[j]) / total
        lost = lost if lost >= MUCH_LOST else 0.0
        if errors is None:
            found.append(ColumnVerdict(name=name, word="unknown", error=math.nan, lost=lost))
            continue
        error = min(1.0, 0.5 * MEAN_ABS * float(errors.sum()) / total)
        word = "good" if error < GOOD and not lost else "fair" if error < FAIR and not lost else "poor"
        found.append(ColumnVerdict(name=name, word=word, error=error, lost=lost))
    return found


def verdicts_of(release: Release[SyntheticModel]) -> list[ColumnVerdict]:
    """Return a verdict on every column of a release, in the order of its domain."""
    return column_verdicts(answer_engine(release.output, release.measurements).direct)


def judged(release: Release[SyntheticModel]) -> tuple[list[ColumnVerdict], list[ShownRelation]]:
    """Return a verdict on every column of a release, and its significant relations."""
    found = Relations(release.output, release.measurements)
    return column_verdicts(found.direct), found.listed(*associations(release.output, drawn_indices(release.output)))


def in_lines(verdicts: Sequence[ColumnVerdict]) -> list[str]:
    """Return a line of text for each verdict that occurs, with the names of its columns; poor columns first.

    Poor columns have their reasons; at most `SHOWN` columns are named in a line.
    """
    lines = []
    for word in ("poor", "unknown", "fair", "good"):
        some = [one for one in verdicts if one.word == word]
        named = [f"{one.name} ({one.in_words()})" if word == "poor" else one.name for one in some[:SHOWN]]
        more = f", and {len(some) - SHOWN} more" if len(some) > SHOWN else ""
        lines += [f"{USES[word]}: {', '.join(named)}{more}"] * bool(some)
    return lines
