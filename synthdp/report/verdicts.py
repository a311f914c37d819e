"""How good each column of a release is by itself, by the noise of its own answers; costs no privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from synthdp.answers.answer import answer_engine
from synthdp.answers.direct import GLSEstimates
from synthdp.release import Release
from synthdp.sampling.synthetic_model import SyntheticModel

GOOD, FAIR = 0.02, 0.1
"""Expected distance of a column's shares from the real ones, as a part of all rows: good, and fair.  A tolerance."""

MUCH_LOST = 0.05
"""Part of a column's values outside what was declared, from which the verdict says so.  A tolerance."""

SHOWN = 12
"""A safety limit: this many columns of one verdict are named in a few lines."""

USES = {
    "good": "good enough for counts and shares",
    "fair": "fair, for large groups",
    "poor": "poor, not to be used by itself",
    "unknown": "not known: the mechanism does not say its noise",
}
"""What a column of each verdict may be used for, as a line of text begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnVerdict:
    """How good one column is by itself.

    Parameters
    ----------
    name
        The column.
    word
        ``"good"``, ``"fair"`` or ``"poor"``; ``"unknown"`` where its noise is not known.
    error
        Expected distance of its shares from the real ones, as a part of all rows: the total variation distance.
    lost
        Estimated part of the values that were outside what was declared.
    """

    name: str
    word: str
    error: float
    lost: float

    def in_words(self) -> str:
        """Return the reason of the verdict in one sentence."""
        if self.word == "unknown":
            return "the release does not say how much noise is in it"
        said = f"about {max(100 * self.error, 0.1):.2g} of 100 rows would need another value to make its counts right"
        return (
            f"{said}; about {100 * self.lost:.2g} % of the values were outside what was declared" if self.lost else said
        )


def column_verdicts(direct: GLSEstimates) -> list[ColumnVerdict]:
    """Return a verdict on every column, in order.

    Parameters
    ----------
    direct
        What the noisy tables of a release say.
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
        error = min(1.0, 0.5 * math.sqrt(2 / math.pi) * float(errors.sum()) / total)
        word = "good" if error < GOOD and not lost else "fair" if error < FAIR and not lost else "poor"
        found.append(ColumnVerdict(name=name, word=word, error=error, lost=lost))
    return found


def verdicts_of(release: Release[SyntheticModel]) -> list[ColumnVerdict]:
    """Return a verdict on every column of a release, in order."""
    return column_verdicts(answer_engine(release.output, release.measurements).direct)


def in_lines(verdicts: Sequence[ColumnVerdict]) -> list[str]:
    """Return verdicts in a few lines of text: poor columns first, each with its reason, then the others by their names."""
    lines = []
    for word in ("poor", "unknown", "fair", "good"):
        some = [one for one in verdicts if one.word == word]
        named = [f"{one.name} ({one.in_words()})" if word == "poor" else one.name for one in some[:SHOWN]]
        more = f", and {len(some) - SHOWN} more" if len(some) > SHOWN else ""
        lines += [f"{USES[word]}: {', '.join(named)}{more}"] * bool(some)
    return lines
