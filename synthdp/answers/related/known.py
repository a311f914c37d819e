"""Noisy tables of a release of several tables, with their precision, and the answers that one of them determines.

The module uses measurements only.  Strengths of relations are root mean squares over a table's cells, or sums of absolute
values, in persons.  Questions about one attribute are answered by its noisy table: unbiased, with a closed-form error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.answers.grouping import leaf_means, numbers_of
from synthdp.answers.leaves import (
    FineBinEstimates,
    Histogram,
    NoisyRows,
    effective_counts,
    gls_fine_bins,
    intraclass_correlation,
    number_of_rows,
)
from synthdp.answers.questions import Count, Mean, Share, Sum
from synthdp.answers.related.resolved import Asked
from synthdp.answers.related.terms import ROWS, Term, column_of, points_met
from synthdp.arrays import FloatArray
from synthdp.domain.axis import Axis
from synthdp.domain.histories import NO_PARENT_ROW, Layout
from synthdp.measurements import Measurements, beyond_noise
from synthdp.queries.person_tables import (
    Grouping,
    Kind,
    NoisyPersonTable,
    PersonDistances,
    PersonTable,
    each_once,
)
from synthdp.queries.persons import symmetric, symmetric_stddev

STRONG = 3.0
"""Largest strength of a measured relation, in stddevs of its noise; a fit recovers stronger relations up to noise.
More would widen error bars of strong relations for nothing.  A convention."""

CHANCE = 0.8
"""The mean absolute difference that chance makes in a cell of n persons is at most this times sqrt(n + 1).  Derived:
sqrt(2 / pi), rounded up."""


Pair = frozenset[tuple[int, str]]
"""Two attributes, each by the position of its table and its name, in no order."""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Holds a noisy table that the model was fitted to, and the possible strength of its relation.

    Parameters
    ----------
    table
        The statistic.
    counts
        (cells,) noisy cells, in persons.
    stddev
        Stddev of the noise in a cell, in persons.
    strength
        Root mean square distance of its cells from the product of its margins, in persons, at most `STRONG` times
        ``stddev``.
    """

    table: PersonTable
    counts: FloatArray
    stddev: float
    strength: float

    @property
    def kept(self) -> float:
        """Return the fraction of a noisy table's difference from the model that a fit adopts; the rest counts as noise.

        It is the shrinkage factor strength^2 / (strength^2 + stddev^2).
        """
        return self.strength**2 / (self.strength**2 + self.stddev**2) if self.stddev > 0 else 1.0

    def settled(self, counts: FloatArray, layout: Layout) -> FloatArray:
        """Return noisy cells, (cells, r), with near-empty cells of one-way tables shrunk towards their mean.

        Noise alone may make their counts, so they are mostly empty.  Unshrunk and clipped at 0, they would add a tail of
        noise.
        """
        if self.table.kind is not Kind.ONE:
            return counts
        groups, size = self.table.sizes(layout)
        found = counts.reshape(groups, size, -1)
        faint = np.abs(found) < beyond_noise(self.stddev, size)
        many = np.maximum(faint.sum(axis=1, keepdims=True), 1)
        mean = np.where(faint, found, 0.0).sum(axis=1, keepdims=True) / many
        spread = np.where(faint, (found - mean) ** 2, 0.0).sum(axis=1, keepdims=True) / many
        kept = np.maximum(spread - self.stddev**2, 0.0) / np.maximum(spread, 1e-12)
        shrunk = np.maximum(np.maximum(mean, 0.0) + kept * (found - mean), 0.0)
        return np.asarray(np.where(faint & (many > 1), shrunk, found).reshape(counts.shape))


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Holds a table that was scored but not measured, with its distance from the model.

    Parameters
    ----------
    table
        The statistic.
    distance
        Sum of absolute differences from the model, in persons, beyond chance.
    stddev
        Stddev of the noise in this sum.
    """

    table: PersonTable
    distance: float
    stddev: float

    @property
    def pair(self) -> Pair:
        """Return the two attributes of the table."""
        return _pair(self.table)


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredDatabase:
    """Holds the noisy information of a release about persons: their number, measured tables and scored tables.

    Parameters
    ----------
    total, total_stddev
        Number of persons with a row in the root table, and the stddev of its error.
    measured
        The tables that the model was fitted to.
    scored
        The tables that were scored but not measured.
    told
        Pairs of attributes of a row, or of a row and one above it, that a noisy answer is about.
    """

    total: float
    total_stddev: float
    measured: tuple[Measured, ...]
    scored: tuple[Scored, ...]
    told: frozenset[Pair]

    @classmethod
    def of(cls, measurements: Sequence[Measurements], layout: Layout) -> MeasuredDatabase:
        """Return the number of persons, the measured tables and the scored tables of a release, all noisy.

        Tables are over the bins of ``layout``, the model's, since replicates of the model are compared with them.
        """
        total, error = 1.0, 0.0
        measured: list[Measured] = []
        for cells, table, noisy, stddev in noisy_person_tables(measurements):
            if table.kind is Kind.STATE:
                alive = _alive(noisy)
                total = max(1.0, float(noisy[0, alive].sum()))
                error = stddev * len(alive) ** 0.5
            elif not table.attribute.startswith("#left out of ") and (of := _over(table, cells, layout)):
                measured.append(Measured(of, noisy.ravel(), stddev, _strength(of, noisy, stddev)))
        known = {one.table.name for one in measured}
        scored = [pair for one in measurements for pair in _scores(one, known)]
        every = [one.table for one in measured] + [one.table for one in scored]
        told = frozenset(
            _pair(part) for one in every for part in one.parts or (one,) if part.kind in (Kind.ROW, Kind.PARENT)
        )
        return cls(total, error, tuple(measured), tuple(scored), told)

    def unseen(self, terms: Sequence[Term], layout: Layout) -> float:
        """Return the fraction of the persons that noise may hide from a question: the noise stddev of a column.

        Of several columns, the one with the least noise decides; without a counted column the fraction is 0.  Errors of
        rare counts include this fraction.

        For a column that is counted by periods, the noise of all counts of a category adds up.
        """
        found = [
            one.stddev * math.sqrt(one.table.sizes(layout)[0]) / self.total
            for one in self.measured for term in terms
            if one.table.kind is Kind.ONE and (one.table.table, one.table.attribute) == _attribute(layout, term)
        ]  # fmt: skip
        return min(found, default=0.0)


def _pair(table: PersonTable) -> Pair:
    """Return the two attributes of a table of one row, or of a row and one above it, by which the table is looked up."""
    level = table.above if table.kind is Kind.PARENT else table.table
    return frozenset({(table.table, table.attribute), (level, table.other)})


def _attribute(layout: Layout, term: Term) -> tuple[int, str]:
    """Return the table and the attribute whose counts decide the noise of a name.

    For a summary of child rows, such as ``visits.cost.mean``, the attribute is the number of these child rows.
    """
    return term.table, term.name if term.child < 0 else layout.tables[term.child].count


def noisy_person_tables(measurements: Iterable[Measurements]) -> Iterator[NoisyPersonTable]:
    """Yield every noisy table of persons, once: one that was measured twice is the mean of both, by precision.

    Each has the layout of its bins, the statistic, the counts in persons, and the stddev of a cell.
    """
    yield from each_once(table for one in measurements for table in one.person_tables)


def persons_with_rows(measurements: Iterable[Measurements], table: int) -> list[NoisyRows]:
    """Return the noisy numbers of persons with rows of a table: sums of the tables in which each such person counts 1.

    Their mean by precision has less noise than any of them.
    """
    found = []
    for layout, of, noisy, stddev in noisy_person_tables(measurements):
        counts, columns = noisy, {of.attribute}
        if of.table != table:
            continue
        if of.kind is Kind.STATE:
            counts, columns = noisy[0, _alive(noisy)], set()
        elif of.kind is Kind.ROW:
            columns.add(of.other)
        elif of.kind is not Kind.ONE or of.attribute not in layout.tables[table].axes or of.even(layout):
            continue
        found.append(NoisyRows(frozenset(columns), float(counts.sum()), counts.size * stddev**2))
    return found


def _alive(states: FloatArray) -> list[int]:
    """Return the cells of persons with a row in the root table, in the table of persons' states, (1, cells).

    The sum of these cells is the number of persons that a model draws.
    """
    return [cell for cell in range(states.size - 1) if not cell & NO_PARENT_ROW]


def _over(table: PersonTable, measured: Layout, layout: Layout) -> PersonTable | None:
    """Return a measured table with its bins expressed in the bins of ``layout``; ``None`` if they cut these bins.

    The drawn persons, whom replicates weight, have the model's bins.  Only one-way tables can differ; other tables are
    over the model's bins.
    """
    if measured is layout or table.kind is not Kind.ONE:
        return table
    mine = layout.axis(table.table, table.attribute)
    inside = measured.axis(table.table, table.attribute).groups_of(mine)
    return None if inside is None else replace(table, grouping=Grouping("cells", inside))


def _strength(table: PersonTable, noisy: FloatArray, stddev: float) -> float:
    """Return the strength of a measured relation beyond margins and noise, in persons: a root mean square over cells.

    Random relations of this strength stand for what a refit does not recover.  The strength is at most `STRONG` stddevs
    of noise, which tables without margins get.
    """
    if table.kind in (Kind.ONE, Kind.STAY, Kind.ALIKE):
        return STRONG * max(stddev, 1e-9)
    if table.symmetric:
        noisy, stddev = symmetric(noisy), symmetric_stddev(stddev, len(noisy))
    rows, columns = (np.maximum(noisy.sum(axis=axis), 0) for axis in (1, 0))
    gap = noisy - np.outer(rows, columns) / max(float(rows.sum()), 1.0)
    beyond = max(float((gap**2).mean()) - stddev**2, 0.0)
    return float(min(beyond**0.5, STRONG * max(stddev, 1e-9)))


def _scores(one: Measurements, known: set[tuple[str, int, str, int, str]]) -> list[Scored]:
    """Return the tables that were scored but not measured, with distances shrunk towards their mean, in persons.

    The highest scores are high by noise in part.  What noise leaves room for is added, so that no distance is too
    small.
    """
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
    return [Scored(queries.tables[i], float(value), float(noise[i])) for i, value in zip(left, likely, strict=True)]


def by_noisy_table(
    layout: Layout, measurements: Sequence[Measurements], known: MeasuredDatabase, asked: Asked
) -> tuple[float, float] | None:
    """Return the answer and standard error of a question about one attribute of persons; ``None`` for other questions.

    A condition that cuts a bin is answered from the parts of the bin, if these were measured.  Otherwise values inside
    the bin are taken to be as uneven as adjacent bins are, and this variance is added.
    """
    question = asked.question
    if not isinstance(question, Count | Share | Sum | Mean) or question.by or question.weight is not None or asked.of:
        return None
    if isinstance(question, Count) and question.where is None:
        return known.total, known.total_stddev
    terms = {*asked.terms.values()}
    if len(terms) != 1:
        return None
    (term,) = terms
    if term.table != 0 or (term.child >= 0 and term.summary != ROWS):
        return None
    noisy = _counted(measurements, term)
    schema = layout.schema.tables[layout.schema.root]
    if noisy is None or (term.child < 0 and term.name not in schema):
        return None
    inside = points_met(layout, term, question.where).astype(np.float64)
    match question:
        case Count():
            values = inside
        case Share():
            values = inside * points_met(layout, term, question.condition)
        case _:
            numbers, there = numbers_of(column_of(layout, term))
            inside = inside * there
            values = inside * numbers
    if isinstance(question, Count | Sum):
        means = noisy.means(layout, term, values)
        return float(means @ noisy.leaves.counts), noisy.error(layout, term, values)
    below, above = (noisy.means(layout, term, one) for one in (inside, values))
    rows = max(float(below @ noisy.leaves.counts), 1.0)
    used = values[inside > 0]
    ratio = float(np.clip(above @ noisy.leaves.counts / rows, used.min(initial=0.0), used.max(initial=0.0)))
    return ratio, noisy.error(layout, term, values - ratio * inside) / rows


@dataclass(frozen=True, slots=True, eq=False)
class _Counted:
    """Holds the counts of a person's attribute, combined from its noisy tables and the number of persons by least squares.

    Parameters
    ----------
    axis
        The fine bins: standard bins, and parts of bins that were split.
    leaves
        Counts of the fine bins.
    """

    axis: Axis
    leaves: FineBinEstimates

    def means(self, layout: Layout, term: Term, values: FloatArray) -> FloatArray:
        """Return the mean of ``values``, (releasable,), over the grid points of each fine bin, (fine bins,).

        A fine bin of a number of child rows holds one number of rows, whose value is taken.
        """
        if term.summary != ROWS:
            return leaf_means(self.axis, values)
        rows = layout.rows_of_count(term.child)
        possible = rows < len(values)
        possible[-1] = False  # the last cell never occurs
        return np.where(possible, values[np.minimum(rows, len(values) - 1)], 0.0)

    def error(self, layout: Layout, term: Term, values: FloatArray) -> float:
        """Return the standard error of a function summed over persons; ``values`` holds it at each grid point.

        The error includes noise and the unknown positions of persons inside fine bins.
        """
        means, squares = (self.means(layout, term, one) for one in (values, values**2))
        uneven = (
            intraclass_correlation(self.leaves, self.axis) if term.summary != ROWS and self.axis.grid.ordered else 0.0
        )
        inside = float(np.maximum(squares - means**2, 0.0) @ effective_counts(self.leaves.counts, uneven))
        return float(np.sqrt(float(self.leaves.variances(means[None])[0]) + inside))


def _counted(measurements: Sequence[Measurements], term: Term) -> _Counted | None:
    """Return the noisy counts of a person's attribute from its noisy tables; ``None`` if no table has it.

    A question about this attribute alone then needs no model.  The counts are least-squares estimates over the finest
    bins that the tables distinguish.  They also use the number of persons by all tables without the attribute, so that
    a fraction of all persons has a precise denominator.  Tables of classes of round numbers are left out, since such
    classes cut every bin.
    """
    found: list[tuple[Axis, FloatArray, float]] = []
    for layout, table, noisy, stddev in noisy_person_tables(measurements):
        axis = layout.axis(0, term.name)
        own = (table.kind, table.table, table.attribute, noisy.size) == (Kind.ONE, 0, term.name, axis.size)
        if own and (not found or _is_of_parts(axis)):
            found.append((axis, noisy.ravel(), stddev))
    if not found:
        return None
    starts = np.unique(np.concatenate([axis.starts for axis, _, _ in found]))
    inside = [axis.cells_of(starts.astype(np.uint32)).astype(np.int64) for axis, _, _ in found]
    _, leaf = np.unique(np.column_stack(inside), axis=0, return_inverse=True)
    first = found[0][0]
    fine = Axis(first.name, first.column, starts, leaf.ravel())
    of_leaf = np.unique(fine.cells, return_index=True)[1]
    histograms = [Histogram(cell[of_leaf], counts, sd) for cell, (_, counts, sd) in zip(inside, found, strict=True)]
    persons = number_of_rows(persons_with_rows(measurements, 0), without=term.name)
    if persons is not None:
        histograms.append(Histogram(np.zeros(len(of_leaf), np.int64), np.array([persons[0]]), persons[1]))
    return _Counted(fine, gls_fine_bins(histograms))


def _is_of_parts(axis: Axis) -> bool:
    """Return whether an axis divides bins into runs of adjacent grid points, and not into classes of round numbers.

    Classes of round numbers cut every bin, so a table of them is not combined with others.
    """
    return bool((np.bincount(axis.cells, minlength=axis.size)[:-1] == 1).all())
