"""What the noisy tables of a release of several tables say: how sure each is, and how far the model may be from the others.

Reads measurements only.  Strengths are root mean squares of a table's cells, or sums of their absolute values, in persons.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.answers.related.terms import Term
from synthdp.arrays import FloatArray
from synthdp.domain.histories import NO_PARENT_ROW, Layout
from synthdp.measurements import Measurements
from synthdp.queries.related.person_tables import (
    Grouping,
    Kind,
    NoisyPersonTable,
    PersonDistances,
    PersonTable,
    PersonTables,
)
from synthdp.queries.related.siblings import symmetric, symmetric_stddev

STRONG = 3.0
"""The strength of a measured relation is capped at this many standard deviations of its noise, since a fit finds
stronger ones up to noise.  A convention.
"""

FAINT = 3.0
"""A cell counts as hardly standing out of noise if it is within this many standard deviations of 0. A convention."""

CHANCE = 0.8
"""In a cell of n persons chance makes a mean absolute difference of at most this times sqrt(n). Derived: sqrt(2 / pi),
rounded up.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A noisy table that the model was fitted to, and how strong the relation in it may be.

    Parameters
    ----------
    table
        Which.
    counts
        (cells,) its noisy cells, in persons.
    stddev
        Of the noise in a cell, in persons.
    strength
        How far its cells may be from what other tables say, in persons: root mean square, at most `STRONG` of ``stddev``.
    """

    table: PersonTable
    counts: FloatArray
    stddev: float
    strength: float

    @property
    def kept(self) -> float:
        """The fraction of a difference that a fit takes over, the rest being attributed to noise."""
        return self.strength**2 / (self.strength**2 + self.stddev**2) if self.stddev > 0 else 1.0

    def settled(self, counts: FloatArray, layout: Layout) -> FloatArray:
        """Return noisy cells, (cells, r), where cells of one-way tables close to 0 are shrunk towards their mean.

        Such cells are mostly empty; one by one, and cut at 0, they would make a tail of noise.
        """
        if self.table.kind is not Kind.ONE:
            return counts
        groups, size = self.table.sizes(layout)
        found = counts.reshape(groups, size, -1)
        faint = np.abs(found) < FAINT * self.stddev
        many = np.maximum(faint.sum(axis=1, keepdims=True), 1)
        mean = np.where(faint, found, 0.0).sum(axis=1, keepdims=True) / many
        spread = np.where(faint, (found - mean) ** 2, 0.0).sum(axis=1, keepdims=True) / many
        kept = np.maximum(spread - self.stddev**2, 0.0) / np.maximum(spread, 1e-12)
        shrunk = np.maximum(np.maximum(mean, 0.0) + kept * (found - mean), 0.0)
        return np.asarray(np.where(faint & (many > 1), shrunk, found).reshape(counts.shape))


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """A table that was scored but not measured, with its distance from the model.

    Parameters
    ----------
    table
        Which.
    distance
        Sum of absolute differences from the model, in persons, beyond what chance makes.
    """

    table: PersonTable
    distance: float


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredDatabase:
    """What a release's noisy answers say about persons: their number, measured tables and scored ones.

    Parameters
    ----------
    total, total_stddev
        Number of persons with a row in the root, and the error's standard deviation.
    measured
        The tables of the model.
    scored
        The others.
    """

    total: float
    total_stddev: float
    measured: tuple[Measured, ...]
    scored: tuple[Scored, ...]

    @classmethod
    def of(cls, measurements: Sequence[Measurements], layout: Layout) -> MeasuredDatabase:
        """Collect what the noisy answers of a release say, over the cells of ``layout``."""
        total, error = 1.0, 0.0
        measured: list[Measured] = []
        for cells, table, noisy, stddev in noisy_person_tables(measurements):
            if table.kind is Kind.STATE:
                alive = [cell for cell in range(noisy.size - 1) if not cell & NO_PARENT_ROW]
                total = max(1.0, float(noisy[0, alive].sum()))
                error = stddev * len(alive) ** 0.5
            elif not table.attribute.startswith("#left out of ") and (of := _over(table, cells, layout)):
                measured.append(Measured(of, noisy.ravel(), stddev, _strength(of, noisy, stddev)))
        known = {one.table.name for one in measured}
        scored = [pair for one in measurements for pair in _scores(one, known)]
        return cls(total, error, tuple(measured), tuple(scored))

    def unseen(self, terms: Sequence[Term], layout: Layout) -> float:
        """Return which part of the rows noise may hide, where some columns are asked for: of the one that is known best.

        A level of a column that is counted by periods is hidden by the noise of all its counts together.
        """
        found = [
            one.stddev * math.sqrt(one.table.sizes(layout)[0]) / self.total
            for one in self.measured for term in terms
            if one.table.kind is Kind.ONE and (one.table.table, one.table.attribute) == (term.table, term.name)
        ]  # fmt: skip
        return min(found, default=0.0)


def noisy_person_tables(measurements: Iterable[Measurements]) -> Iterator[NoisyPersonTable]:
    """Yield all noisy tables of persons among the answers of a release."""
    for one in measurements:
        if isinstance(one.queries, PersonTables):
            yield from one.queries.noisy_tables(one.answers, one.stddev)


def _over(table: PersonTable, measured: Layout, layout: Layout) -> PersonTable | None:
    """Return a measured table with its cells expressed in ``layout``'s; ``None`` if those cut through its cells.

    One-way tables only: others are over the cells of the model.
    """
    if measured is layout or table.kind is not Kind.ONE:
        return table
    mine = layout.axis(table.table, table.attribute)
    inside = measured.axis(table.table, table.attribute).groups_of(mine)
    return None if inside is None else replace(table, grouping=Grouping("cells", inside))


def _strength(table: PersonTable, noisy: FloatArray, stddev: float) -> float:
    """Return the strength of a measured relation beyond margins and noise; the cap for tables without margins."""
    if table.kind in (Kind.ONE, Kind.STAY, Kind.ALIKE):
        return STRONG * max(stddev, 1e-9)
    if table.symmetric:
        noisy, stddev = symmetric(noisy), symmetric_stddev(stddev, len(noisy))
    rows, columns = (np.maximum(noisy.sum(axis=axis), 0) for axis in (1, 0))
    gap = noisy - np.outer(rows, columns) / max(float(rows.sum()), 1.0)
    beyond = max(float((gap**2).mean()) - stddev**2, 0.0)
    return float(min(beyond**0.5, STRONG * max(stddev, 1e-9)))


def _scores(one: Measurements, known: set[tuple[str, int, str, int, str]]) -> list[Scored]:
    """Return the tables that were scored and not measured, with their distances shrunk towards the mean."""
    scores = one.queries
    if not isinstance(scores, PersonDistances):
        return []
    queries = scores.queries
    parts = np.split(scores.expected.astype(np.float64), queries.offsets[1:-1])
    chance = [
        CHANCE * np.sqrt(np.maximum(part / unit, 0) + 1).sum() for part, unit in zip(parts, queries.ones, strict=True)
    ]
    beyond = one.answers * queries.denominator / queries.ones - np.array(chance)
    noise = one.stddev * queries.denominator / queries.ones
    left = [i for i, table in enumerate(queries.tables) if table.name not in known]
    if not left:
        return []
    some = beyond[left]
    varied = max(float(some.var()) - float((noise[left] ** 2).mean()), 0.0) / max(float(some.var()), 1e-9)
    shrunk = np.maximum(some.mean() + varied * (some - some.mean()), 0.0)
    likely = np.hypot(shrunk, math.sqrt(varied) * noise[left])  # what noise leaves room for, too
    return [Scored(queries.tables[i], float(value)) for i, value in zip(left, likely, strict=True)]
