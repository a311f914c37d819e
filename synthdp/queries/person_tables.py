"""Contingency tables over the rows of persons, with weights such that each person counts as one.

A person has several rows, so one person changes a plain count of rows by their number.  Here a person's rows in a table
have weights that depend on their number.  Each of m rows counts 1/m; each of k steps from a row to the next counts 1/k;
so does each of k pairs of rows without an order.  If the cells of a person's m rows are known to differ, as with
periods, each counts 1/sqrt(m).  Weights are whole numbers (`synthdp.queries.persons`), so that sums and sensitivities
are exact (docs/proofs/persons.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from synthdp.arrays import BoolArray, Codes, FloatArray, IntArray, Totals, frozen
from synthdp.checks import whole
from synthdp.domain.domain import Domain
from synthdp.domain.histories import Layout
from synthdp.errors import ParameterError
from synthdp.queries.linear import Counting
from synthdp.queries.norms import LARGEST_DENOMINATOR, Norms, RecordBounds, expectations
from synthdp.queries.persons import Persons, mean_by_precision, pair_shares, pairs_of, whole_of_table
from synthdp.queries.protocol import check_overflow

RANKS = 2**16
"""The whole number that stands for rank 1 (the largest value), so that sums of ranks are exact.  A convention."""


class Kind(StrEnum):
    """What the two axes of a table of persons' rows are; each value describes them in words."""

    STATE = "what is unusual of a person"
    ONE = "one attribute, by period"
    ROW = "two attributes of a row"
    PARENT = "an attribute of a row above and one of the row"
    ENTRY = "the period of the row before, or that there is none, and that of the row"
    STEP = "an attribute of the row before and one of the row"
    STAY = "whether an attribute is that of the row before, by its value"
    BEFORE = "what the rows before have been and an attribute of the row"
    SIBLING = "an attribute of a row and one of another row of the same parent row"
    ALIKE = "whether two rows of a parent row have the same value, by the value"
    TRIPLE = "an attribute of a row and two others, each of the row, of one above or of the one before"


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Groups of an attribute's cells; the groups may depend on the group of periods.

    Parameters
    ----------
    name
        Name that distinguishes it from other groupings of the attribute.
    groups
        (1 or groups of periods, cells) the group of each cell.
    ranks
        (same shape) the rank of each cell: its place in the order of its period's values, from 0 to `RANKS`; -1 for
        cells without an order, such as missing values.  ``None`` for an attribute without an order.
    """

    name: str
    groups: IntArray
    ranks: IntArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", frozen(np.atleast_2d(np.asarray(self.groups, np.int64))))

    @property
    def size(self) -> int:
        """Number of groups."""
        return int(self.groups.max()) + 1

    def of(self, cells: IntArray, period_group: IntArray) -> IntArray:
        """Return the group of each cell, (n,).

        ``period_group`` (n,) is the group of periods of each; it matters only for groups that depend on it.
        """
        if len(self.groups) == 1:
            return np.asarray(self.groups[0][cells])
        return np.asarray(self.groups[period_group, cells])

    @property
    def ranked(self) -> BoolArray:
        """(groups,) whether a group holds numbers, which have ranks in order; special and missing values have none."""
        found = np.zeros(self.size, np.bool_)
        if self.ranks is not None:
            found[self.groups[:, (self.ranks >= 0).any(axis=0)]] = True
        return found


@dataclass(frozen=True, slots=True, eq=False)
class PersonTable:
    """One contingency table of two attributes of persons' rows, in which each person counts as one.

    Parameters
    ----------
    kind
        Kind of the table.
    table
        Position of the table whose rows are counted.
    attribute, grouping
        The attribute of the second axis, and the groups of its cells.
    above
        For `Kind.PARENT` the position of the table of the first axis.
    other, other_grouping
        The attribute of the first axis and the groups of its cells; for `Kind.ONE` the first axis is the group of
        periods.
    parts
        For `Kind.TRIPLE` two tables of the attribute and one other each, whose first axes together make the first axis.
    """

    kind: Kind
    table: int
    attribute: str
    grouping: Grouping
    above: int = -1
    other: str = ""
    other_grouping: Grouping | None = None
    parts: tuple[PersonTable, ...] = ()

    @classmethod
    def of_three(cls, a: PersonTable, b: PersonTable) -> PersonTable:
        """Return the table of three attributes (`Kind.TRIPLE`) from two tables with the same second axis.

        The groups of its first axis are all pairs of groups of the two first axes, in C order.
        """
        pairs = " and ".join(f"{one.kind.name} {one.above} {one.other}" for one in (a, b))
        return cls(Kind.TRIPLE, a.table, a.attribute, a.grouping, other=pairs, parts=(a, b))

    @property
    def weighs_as(self) -> Kind:
        """The kind that rows are weighted by: its own; of three attributes `Kind.STEP` if a part is one, else `Kind.ROW`."""
        if self.kind is not Kind.TRIPLE:
            return self.kind
        return Kind.STEP if any(one.kind is Kind.STEP for one in self.parts) else Kind.ROW

    @property
    def name(self) -> tuple[str, int, str, int, str]:
        """A key of the table's kind and attributes, without its groupings: tables of one statistic have equal keys."""
        return self.kind.value, self.table, self.attribute, self.above, self.other

    def sizes(self, layout: Layout) -> tuple[int, int]:
        """Return the table's shape: the numbers of groups on its two axes."""
        if self.kind is Kind.ONE:
            return (layout.tables[self.table].groups if self.by_period else 1), self.grouping.size
        if self.kind is Kind.STATE:
            return 1, self.grouping.size
        if self.kind in (Kind.STAY, Kind.ALIKE):
            return self.grouping.size, 1
        if self.kind is Kind.TRIPLE:
            return math.prod(one.sizes(layout)[0] for one in self.parts), self.grouping.size
        return self._other.size + (self.kind is Kind.ENTRY), self.grouping.size

    @property
    def by_period(self) -> bool:
        """Whether a table of one attribute (`Kind.ONE`) counts each group of periods by itself, as attributes may change."""
        return self.other == "period"

    @property
    def symmetric(self) -> bool:
        """Whether both axes are one attribute of two unordered rows; only cells on and above the diagonal count."""
        return self.kind is Kind.SIBLING and self.other == self.attribute

    @property
    def mirrored(self) -> PersonTable:
        """The same table with its axes exchanged: either attribute of two siblings may be drawn first."""
        if self.other_grouping is None:
            raise ParameterError(
                "a table of two columns needs other_grouping, the groups of the second column's values"
            )
        return replace(
            self, attribute=self.other, grouping=self.other_grouping, other=self.attribute, other_grouping=self.grouping
        )

    def even(self, layout: Layout) -> bool:
        """Return whether all rows of one parent surely lie in different cells: rows then have larger weights.

        See `Persons.even_shares`.
        """
        one = layout.tables[self.table]
        return self.kind is Kind.ONE and self.by_period and one.unique and one.groups == one.regular_periods

    def norms(self, layout: Layout) -> Norms:
        """Return the sensitivity of the table: norms of what one person adds, in multiples of 1 / `whole_of_table`."""
        one = whole_of_table(layout, self.table)
        if not self.even(layout):
            return Norms(one, one * one, one)
        most = layout.tables[self.table].at_most
        return Norms.within(
            math.prod(self.sizes(layout)), one, l1=one * (math.isqrt(most - 1) + 1), l2_squared=one * one
        )

    def cells(self, persons: Persons) -> tuple[IntArray, IntArray]:
        """Return the flat cell and the weight of every entry that counts in the table, (entries,) each.

        Weights are whole numbers; `Persons.whole` stands for one person.
        """
        return self.entries(persons)[1:]

    def entries(self, persons: Persons) -> tuple[IntArray, IntArray, IntArray]:
        """Return the rows that count, with the flat cell and the whole-number weight of each, (entries,) each.

        A row may count more than once, in pairs.  For `Kind.STATE` they are positions of persons in ``persons.states``.
        """
        rows = persons.tables[self.table]
        size = self.grouping.size
        if self.kind is Kind.STATE:
            one = np.ones(len(persons.states), np.int64)
            return np.arange(len(one)), self.grouping.of(persons.states, persons.states), one
        if self.kind is Kind.STAY:
            later = rows.later
            same = rows[self.attribute][later] == rows[self.attribute][later - 1]
            later = later[same]
            inside = self.grouping.of(rows[self.attribute][later - 1], rows.group[later - 1])
            return later, inside, persons.step_shares(self.table, 1)[later]
        second = self.grouping.of(rows[self.attribute], rows.group)
        if self.kind in (Kind.SIBLING, Kind.ALIKE):
            return self._of_siblings(persons, second)
        every = np.arange(len(rows))
        if self.kind is Kind.ONE:
            weights = persons.even_shares(self.table) if self.even(persons.layout) else persons.shares(self.table)
            return every, (rows.group * size if self.by_period else 0) + second, weights
        if self.kind in (Kind.STEP, Kind.TRIPLE):
            first = self.given(persons)
            some = np.flatnonzero(first >= 0)
            after = self.weighs_as is Kind.STEP
            weights = persons.step_shares(self.table, 1) if after else persons.shares(self.table)
            return some, first[some] * size + second[some], weights[some]
        if self.kind is Kind.ENTRY:
            before = np.concatenate([second[:1], second[:-1]])
            return every, np.where(rows.rank > 0, before, size) * size + second, persons.shares(self.table)
        if self.kind is Kind.BEFORE:
            third = rows.third
            cells = self.before(persons)[third] * size + second[third]
            return third, cells, persons.step_shares(self.table, 2)[third]
        return every, self.given(persons) * size + second, persons.shares(self.table)

    def given(self, persons: Persons) -> IntArray:
        """Return each row's group on the first axis, (rows,); -1 for a row that follows no row where the axis needs one."""
        rows = persons.tables[self.table]
        if self.kind is Kind.TRIPLE:
            a, b = (one.given(persons) for one in self.parts)
            return np.where((a < 0) | (b < 0), -1, a * self.parts[1].sizes(persons.layout)[0] + b)
        if self.kind is Kind.PARENT:
            above = persons.tables[self.above]
            return self._first(above[self.other], above.group)[persons.ancestor(self.table, self.above)]
        first = self._first(rows[self.other], rows.group)
        if self.kind is not Kind.STEP:
            return first
        return np.where(rows.rank > 0, np.concatenate([first[:1], first[:-1]]), -1)

    def _of_siblings(self, persons: Persons, second: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return, for pairs of sibling rows, the later row, the flat cell and the whole-number weight, each (pairs,).

        ``second`` is the group of each row on the second axis.  Of two different attributes each pair is listed twice;
        for `Kind.ALIKE` only pairs of equal values are.
        """
        rows = persons.tables[self.table]
        a, b = pairs_of(rows)
        weights = pair_shares(persons, self.table, ordered=self.kind is Kind.SIBLING and not self.symmetric)[b]
        if self.kind is Kind.ALIKE:
            same = rows[self.attribute][a] == rows[self.attribute][b]
            return b[same], second[b][same], weights[same]
        size = self.grouping.size
        if self.symmetric:
            return b, np.minimum(second[a], second[b]) * size + np.maximum(second[a], second[b]), weights
        first = self._first(rows[self.other], rows.group)
        cells = np.concatenate([first[a] * size + second[b], first[b] * size + second[a]])
        return np.concatenate([b, b]), cells, np.concatenate([weights, weights])

    def before(self, persons: Persons) -> IntArray:
        """Return the group of each row's history, (rows,), the first axis of `Kind.BEFORE`.

        The history is the mean rank of all earlier rows; for an unordered attribute it is the value two rows before.
        The result has a meaning only for rows with two or more earlier rows.
        """
        rows = persons.tables[self.table]
        grouping, values = self._other, rows[self.other]
        if grouping.ranks is None:
            return np.asarray(grouping.of(values, rows.group)[np.maximum(np.arange(len(rows)) - 2, 0)])
        ranks = grouping.ranks[rows.group if len(grouping.ranks) > 1 else 0, values]
        sums = np.cumsum(np.maximum(ranks, 0)) - np.maximum(
            ranks, 0
        )  # whole numbers: no rounding, whoever comes before
        many = np.cumsum(ranks >= 0) - (ranks >= 0)
        first = np.arange(len(rows)) - rows.rank
        return group_of_mean(grouping, sums - sums[first], many - many[first])

    def tabulate(self, persons: Persons) -> FloatArray:
        """Return the table of some persons, (groups, groups) as `sizes` says, in persons: the rows of one person share 1."""
        cells, weights = self.cells(persons)
        rows, columns = self.sizes(persons.layout)
        found = np.bincount(cells, weights / persons.whole(self.table), rows * columns)
        return np.asarray(found.reshape(rows, columns))

    def _first(self, values: IntArray, group: IntArray) -> IntArray:
        """Return the group on the first axis of each value, (n,); ``group`` is the group of periods of each.

        Groups of an attribute's values may differ between groups of periods.
        """
        return self._other.of(values, group)

    @property
    def _other(self) -> Grouping:
        """The grouping of the first axis's attribute; raises ParameterError if there is none."""
        if self.other_grouping is None:
            raise ParameterError(
                "a table of two columns needs other_grouping, the groups of the second column's values"
            )
        return self.other_grouping


def group_of_mean(grouping: Grouping, sums: IntArray, many: IntArray) -> IntArray:
    """Return the group of each mean rank, (n,): ``sums`` / ``many``, which stands for all earlier rows of a parent.

    Groups are equally wide parts of the range; where ``many`` is 0, it is the last group.
    """
    parts = int(grouping.ranked.sum())
    inside = np.minimum(sums * parts // np.maximum(many * RANKS, 1), parts - 1)
    return np.asarray(np.where(many > 0, inside, grouping.size - 1))


class NoisyPersonTable(NamedTuple):
    """A noisy table of persons: what it is about, its counts in persons, and the standard deviation of a cell."""

    layout: Layout
    table: PersonTable
    counts: FloatArray
    stddev: float


def each_once(tables: Iterable[NoisyPersonTable]) -> list[NoisyPersonTable]:
    """Return noisy tables in their order; a one-way table that was measured twice is the mean of both, by precision."""
    found: list[NoisyPersonTable] = []
    for new in tables:
        twin = next((i for i, old in enumerate(found) if _is_same(old, new)), None)
        if twin is None:
            found.append(new)
        else:
            counts, stddev = mean_by_precision(found[twin][2:], new[2:])
            found[twin] = new._replace(counts=counts, stddev=stddev)
    return found


def _is_same(one: NoisyPersonTable, other: NoisyPersonTable) -> bool:
    """Return whether two noisy tables are of the same statistic over the same bins, so that they can be averaged.

    Only one-way tables are measured twice.
    """
    (cells, table, noisy, _), (others, new, counts, _) = one, other
    if table.name != new.name or noisy.shape != counts.shape or table.kind not in (Kind.ONE, Kind.STATE):
        return False
    mine, its = (of.axis(table.table, table.attribute) for of in (cells, others))
    return np.array_equal(mine.starts, its.starts) and np.array_equal(mine.cells, its.cells)


@dataclass(frozen=True, slots=True, eq=False)
class PersonTables(Counting):
    """Several tables of persons in one query, each multiplied by a whole number to set its share of the noise.

    Parameters
    ----------
    layout
        The record of a person.
    tables
        The tables to count.
    multipliers
        One a table, >= 1.

    Attributes
    ----------
    offsets
        (tables + 1,) where each table begins and ends.
    """

    layout: Layout
    tables: tuple[PersonTable, ...]
    multipliers: tuple[int, ...]
    offsets: IntArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "multipliers", tuple(whole("multipliers", one, least=1) for one in self.multipliers))
        if len(self.tables) != len(self.multipliers) or not self.tables:
            raise ParameterError("tables must hold at least one table, and multipliers must hold one number per table")
        sizes = [math.prod(table.sizes(self.layout)) for table in self.tables]
        object.__setattr__(self, "offsets", frozen(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)))

    @property
    def domain(self) -> Domain:
        """The domain of a person's record, whose codes the sums are computed from."""
        return self.layout.domain

    @property
    def unit(self) -> str:
        """What an answer counts, in the word that receipts use for persons: people."""
        return "people"

    @property
    def denominator(self) -> int:
        """The largest of `ones`, by which all answers are divided; `split` corrects the other tables."""
        return int(self.ones.max())

    @property
    def k(self) -> int:
        """Number of cells in all."""
        return int(self.offsets[-1])

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity to one person, in the whole numbers of the sums.

        As all cells are >= 0, a replaced person moves the sums by at most twice the squared length of an added one.
        """
        one = Norms(0, 0, 0)
        for table, times in zip(self.tables, self.multipliers, strict=True):
            one = one.plus(table.norms(self.layout).times(times))
        return RecordBounds(one, Norms.within(self.k, one.linf, l1=2 * one.l1, l2_squared=2 * one.l2_squared))

    @property
    def ones(self) -> FloatArray:
        """(tables,) the whole number that stands for one person in each table."""
        return np.array(
            [
                whole_of_table(self.layout, table.table) * times
                for table, times in zip(self.tables, self.multipliers, strict=True)
            ],
            np.float64,
        )

    def sums(self, codes: Codes) -> Totals:
        """Return the sum over persons in each cell, exactly, (k,); `ones` has the whole number of one person.

        The persons are given by their records, (n, d) codes.
        """
        return self.sums_of(Persons.of_records(self.layout, codes))

    def sums_of(self, persons: Persons) -> Totals:
        """Return the sum over persons in each cell, exactly, (k,); `ones` has the whole number of one person.

        The persons are given row by row; a person's rows in a table share the person's whole number.
        """
        found = np.zeros(self.k, np.int64)
        for i, (table, times) in enumerate(zip(self.tables, self.multipliers, strict=True)):
            cells, weights = table.cells(persons)
            start, stop = self.offsets[i], self.offsets[i + 1]
            # Weights of a person add up to 2**24 at most, of new releases to 2**16: of 2**28 persons the sums are exact.
            counted = np.bincount(cells, weights, stop - start)
            found[start:stop] = counted.astype(np.int64) * times
        return found

    def finish(self, sums: Totals) -> Totals:
        """Return the sums unchanged, as they are the answers."""
        return sums

    def noisy_person_tables(self, answers: FloatArray, stddev: float) -> list[NoisyPersonTable]:
        """Return (k,) noisy answers as tables in persons, each with its own noise stddev, for a fit.

        ``stddev`` is the noise stddev of the answers, in their unit: sums divided by ``denominator``.
        """
        noise = stddev * self.denominator / self.ones
        return [
            NoisyPersonTable(self.layout, table, counts, float(one))
            for table, counts, one in zip(self.tables, self.split(answers), noise, strict=True)
        ]

    def split(self, answers: FloatArray) -> list[FloatArray]:
        """Return (k,) answers, which are sums divided by ``denominator``, as tables in persons, each in its own shape."""
        parts = np.split(np.asarray(answers, np.float64) * self.denominator, self.offsets[1:-1])
        return [
            part.reshape(table.sizes(self.layout)) / one
            for part, table, one in zip(parts, self.tables, self.ones, strict=True)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class PersonDistances(Counting):
    """For each table of persons its L1 distance from an expected table; plans score tables by it.

    By the triangle inequality a person moves each by at most what it moves the table in l1.

    Parameters
    ----------
    queries
        The tables.
    expected
        (queries.k,) expected sums, in the whole numbers of ``queries``.
    """

    queries: PersonTables
    expected: IntArray

    def __post_init__(self) -> None:
        most = LARGEST_DENOMINATOR // self.queries.k
        object.__setattr__(self, "expected", expectations("expected", self.expected, most=most))
        if self.expected.shape != (self.queries.k,):
            raise ParameterError(f"expected must be {self.queries.k} whole numbers, one per cell")
        check_overflow(self)

    @property
    def domain(self) -> Domain:
        """The domain of a person's record."""
        return self.queries.domain

    @property
    def unit(self) -> str:
        """What an answer counts, in the word that receipts use for persons: people."""
        return "people"

    @property
    def denominator(self) -> int:
        """The whole number that stands for one person: the denominator of the tables."""
        return self.queries.denominator

    @property
    def k(self) -> int:
        """Number of distances."""
        return len(self.queries.tables)

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity: a person moves every distance by at most its table's l1 norm; twice that if replaced."""
        one = Norms(0, 0, 0)
        for table, times in zip(self.queries.tables, self.queries.multipliers, strict=True):
            most = table.norms(self.queries.layout).l1 * times
            one = one.plus(Norms(most, most * most, most))
        return RecordBounds.of(one)

    def sums(self, codes: Codes) -> Totals:
        """Return the sum over persons in each cell, (queries.k,), in the whole numbers of ``queries``.

        `finish` computes distances from these sums.
        """
        return self.queries.sums(codes)

    def finish(self, sums: Totals) -> Totals:
        """Return each table's L1 distance from the expected one, (k,), in the whole numbers of ``queries``."""
        return np.add.reduceat(np.abs(sums - self.expected), self.queries.offsets[:-1])
