"""The rows of persons, table by table, from which statistics of persons are computed.

One class holds private persons, decoded from their records inside a statistic, and synthetic persons.  So a model is
compared with exactly the statistics that were measured.

Rows of one parent row without an order, such as members of a household, make pairs.  All pairs of a person count as one
together: each of its k pairs counts 1 / k.  Only the first few of many rows make pairs, so that weights stay whole
numbers.  A hash numbers the rows, so the first are as good as any.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from synthdp.arrays import Codes, FloatArray, IntArray
from synthdp.domain.histories import NO_PARENT_ROW, STATE, Layout, Order

MOST_SHARED = 2**16
"""A least common multiple up to this limit stands for one person, so that shares are exact; else a power of two does.  A
safety limit, so that weighted sums fit 64 bits.
"""


@dataclass(slots=True, eq=False)
class Rows:
    """The rows of one table for some persons, sorted by parent row and by their order within it.

    Parameters
    ----------
    parent
        (n,) position of the parent row in its table; for rows of the root table, position of the person.
    rank
        (n,) place among the rows of the parent, from 0.
    many
        (n,) how many rows the parent has.
    values
        By attribute the (n,) codes; filled as they are drawn, or read when asked for.
    period
        (n,) code of the period; zeros where there is none.
    group
        (n,) group of the period.
    read
        Returns the codes of an attribute that is not in ``values`` yet.
    """

    parent: IntArray
    rank: IntArray
    many: IntArray
    period: IntArray
    group: IntArray
    values: dict[str, IntArray] = field(default_factory=dict)
    read: Callable[[str], IntArray] | None = None

    def __len__(self) -> int:
        return len(self.parent)

    def __getitem__(self, attribute: str) -> IntArray:
        if attribute not in self.values and self.read is not None:
            self.values[attribute] = self.read(attribute)
        return self.values[attribute]

    @property
    def later(self) -> IntArray:
        """(later,) positions of the rows that follow another row of the same parent, for tables of successive rows."""
        return np.flatnonzero(self.rank > 0)

    @property
    def third(self) -> IntArray:
        """(third,) positions of the rows that follow at least two rows of the same parent, for tables with a history."""
        return np.flatnonzero(self.rank > 1)


def whole_of(most: int) -> int:
    """Return the whole number that stands for 1 where up to ``most`` rows share it, so that shares are nearly exact.

    It is the least common multiple of 1 ... ``most`` where that is small, so that shares are exact.  Else it is a power of
    two of at least 64 ``most``: shares of ``most`` rows, or of their up to 7 ``most`` pairs, lose little by rounding.
    """
    return min(math.lcm(*range(1, most + 1)), max(MOST_SHARED, 1 << math.ceil(math.log2(64 * most))))


@dataclass(frozen=True, slots=True, eq=False)
class Persons:
    """All rows of some persons, private or synthetic, in the form from which tables are counted.

    Parameters
    ----------
    layout
        The record of a person.
    tables
        Rows of each table, in the order of the layout.
    states
        Record status of each person, also of persons without a root row, who are in no table.
    """

    layout: Layout
    tables: tuple[Rows, ...]
    states: IntArray

    def __len__(self) -> int:
        return len(self.tables[0])

    @classmethod
    def of_records(cls, layout: Layout, codes: Codes) -> Persons:
        """Return the rows of persons from (n, d) codes of their records; a person without a root row has none.

        Every row follows from the record of its own person, so that a person's sensitivity is bounded.
        """
        states = codes[:, int(layout.place[0][STATE][0])].astype(np.int64)
        alive = np.flatnonzero((states & NO_PARENT_ROW) == 0)
        person, slot = [alive], [np.zeros(len(alive), np.int64)]
        none, first = np.zeros(len(alive), np.int64), np.arange(len(alive))
        tables = [Rows(first, none, none + 1, none, none, {}, _reader(layout, 0, codes, alive, none))]
        for i, table in enumerate(layout.tables[1:], start=1):
            above = tables[table.parent]
            pattern = above[table.count]
            parent, rank, many = spread(layout.rows_of_count(i)[pattern])
            person.append(person[table.parent][parent])
            slot.append(slot[table.parent][parent] * table.at_most + rank)
            read = _reader(layout, i, codes, person[i], slot[i])
            tables.append(Rows(parent, rank, many, *_periods(layout, i, pattern[parent], rank, read), {}, read))
        return cls(layout, tuple(tables), states)

    def ancestor(self, table: int, above: int) -> IntArray:
        """Return the position of each row's ancestor in the table ``above``, (rows,), to look up the ancestor's values."""
        rows = self.tables[table].parent
        while (table := self.layout.tables[table].parent) != above:
            rows = self.tables[table].parent[rows]
        return rows

    def person(self, table: int) -> IntArray:
        """Return the position of each row's person, (rows,), because weights are divided among the rows of a person."""
        return self.ancestor(table, 0) if table else np.arange(len(self.tables[0]))

    def shares(self, table: int) -> IntArray:
        """Return the whole-number weight of each row, (rows,).

        All rows of one person share `whole` equally, so that a person counts as one.
        """
        return self.divided(table, np.ones(len(self.tables[table]), np.int64))

    def divided(self, table: int, parts: IntArray) -> IntArray:
        """Return the weights of entries, whole numbers, (rows,): a person's entries share `whole` equally.

        Parameters
        ----------
        table
            Position of the table whose rows are meant.
        parts
            (rows,) how often each row counts; a row that does not count has the weight 0.
        """
        if self.layout.nested and self.layout.tables[table].parent > 0:
            return nested_shares(self, table, parts)
        person, one = self.person(table), self.whole(table)
        every = np.bincount(person, parts, len(self)).astype(np.int64)
        return np.where(parts > 0, one // np.maximum(every, 1)[person], 0)

    def even_shares(self, table: int) -> IntArray:
        """Return the weights of rows, whole numbers, (rows,), if rows of one parent are known to be in different cells.

        With m of its person's M rows below its parent, a row has sqrt(m) / M of `whole`.  One parent's rows then have
        the Euclidean length m / M, and all of a person together at most 1.  So rows have more weight than by `shares`,
        at the same L2 sensitivity.
        """
        if self.layout.nested and self.layout.tables[table].parent > 0:
            return nested_even_shares(self, table)
        rows, person, one = self.tables[table], self.person(table), self.whole(table)
        every = np.bincount(person, minlength=len(self))[person]
        pairs, which = np.unique(np.column_stack([rows.many, every]), axis=0, return_inverse=True)
        each = np.array([math.isqrt(one * one * int(m) // int(k) ** 2) for m, k in pairs], np.int64)
        return each[which.ravel()]

    def step_shares(self, table: int, before: int) -> IntArray:
        """Return the whole-number weight of each row that follows at least ``before`` rows, (rows,); 0 for others.

        One person's rows of this kind share `whole` equally, for tables of rows and earlier rows.
        """
        return self.divided(table, (self.tables[table].rank >= before).astype(np.int64))

    def whole(self, table: int) -> int:
        """Return the whole number that stands for one person in a table; see `whole_of_table`."""
        return whole_of_table(self.layout, table)


def whole_of_table(layout: Layout, table: int) -> int:
    """Return the whole number to which the weights of one person's rows of a table add up at most.

    Weights are whole numbers, so that sums are exact; this number stands for one person.
    """
    if layout.nested:
        return nested_whole(layout, table)
    return whole_of(layout.tables[table].slots)


def _reader(layout: Layout, i: int, codes: Codes, person: IntArray, slot: IntArray) -> Callable[[str], IntArray]:
    """Return a function that reads an attribute's (rows,) codes from persons' records when they are needed.

    ``person`` is the record of each row of table ``i``, and ``slot`` the number of the row's columns in the record,
    from 0.
    """

    def read(attribute: str) -> IntArray:
        return codes[person, layout.place[i][attribute][slot]].astype(np.int64)

    return read


def spread(many: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return each row's parent, its rank from 0 among the parent's rows, and how many rows the parent has, (rows,) each.

    ``many`` is the number of rows of each parent, (parents,).
    """
    parent = np.repeat(np.arange(len(many)), many)
    rank = np.arange(len(parent)) - (np.cumsum(many) - many)[parent]
    return parent, rank, many[parent]


def _periods(
    layout: Layout, i: int, pattern: IntArray, rank: IntArray, read: Callable[[str], IntArray]
) -> tuple[IntArray, IntArray]:
    """Return the code of each row's period, and the group of periods by which attributes are counted, (rows,) each.

    The period is set by the parent row's pattern, or read from the record; 0 where the table has no periods.
    """
    table = layout.tables[i]
    if table.order is Order.PATTERN:
        period = layout.periods_of_pattern(i)[pattern, rank]
    elif table.order is Order.SEQUENCE and table.period is not None:
        period = read(table.period)
    else:
        period = np.zeros(len(rank), np.int64)
    return period, table.group_of_period[period]


def nested_whole(layout: Layout, table: int) -> int:
    """Return the whole number to which one person's weights of a table add up at most, in releases of earlier versions.

    It is a product of one number for each table above, because rows then shared the weight of their parent row.
    """
    found = 1
    while layout.tables[table].parent >= 0:
        found *= _nested_one(layout, table)
        table = layout.tables[table].parent
    return found


def nested_shares(persons: Persons, table: int, parts: IntArray) -> IntArray:
    """Return the weights of entries, whole numbers, (rows,), as `Persons.divided` had them in earlier versions.

    Entries of one parent row share its weight equally; a row that does not count has the weight 0.  A release of an
    earlier version was measured with these weights, so the answers from it need them.

    Parameters
    ----------
    persons
        The persons, of a nested layout.
    table
        Position of the table whose rows are meant.
    parts
        (rows,) how often each row counts.
    """
    rows, above = persons.tables[table], persons.shares(persons.layout.tables[table].parent)
    every = np.bincount(rows.parent, parts, len(above)).astype(np.int64)[rows.parent]
    one = _nested_one(persons.layout, table)
    return np.where(parts > 0, above[rows.parent] * (one // np.maximum(every, 1)), 0)


def nested_even_shares(persons: Persons, table: int) -> IntArray:
    """Return the weights of rows, whole numbers, (rows,), as `Persons.even_shares` had them in earlier versions.

    Each of m rows of a parent row has 1 / sqrt(m) of the parent row's weight.  A release of an earlier version was
    measured with these weights, so the answers from it need them.
    """
    rows, above = persons.tables[table], persons.shares(persons.layout.tables[table].parent)
    one = _nested_one(persons.layout, table)
    each = [math.isqrt(one * one // max(m, 1)) for m in range(persons.layout.tables[table].at_most + 1)]
    return np.asarray(above[rows.parent] * np.array(each)[rows.many], np.int64)


def _nested_one(layout: Layout, table: int) -> int:
    """Return the whole number that stood for one parent row in releases of earlier versions.

    It is the least common multiple of all numbers of rows, so that shares are whole, where this is small enough; else it
    is a limit or a power of two.
    """
    most, deepest = layout.tables[table].at_most, max(len(layout.ancestors(i)) for i in range(len(layout.tables)))
    multiple = math.lcm(*range(1, most + 1))
    if deepest <= 1:
        return min(multiple, MOST_SHARED)
    return multiple if multiple <= 2**10 else 2 ** math.ceil(math.log2(16 * most))


MOST_SIBLINGS = 8
"""Most rows of a parent that form pairs, so a row has at most `MOST_SIBLINGS` - 1 pairs with earlier ones.  A safety
limit of time: the number of pairs grows with its square."""


def pairs_of(rows: Rows) -> tuple[IntArray, IntArray]:
    """Return the positions of the earlier and the later row of each pair of sibling rows, (pairs,) each.

    Of each parent only the first `MOST_SIBLINGS` rows form pairs.
    """
    inside = rows.rank < MOST_SIBLINGS
    later = [np.flatnonzero(inside & (rows.rank >= back)) for back in range(1, MOST_SIBLINGS)]
    earlier = [some - back for back, some in enumerate(later, start=1)]
    return np.concatenate(earlier), np.concatenate(later)


def pair_shares(persons: Persons, table: int, *, ordered: bool) -> IntArray:
    """Return, for each row, the weight of each pair in which it is the later one, (rows,); 0 where it forms none.

    Weights are whole numbers: all pairs of one person share `Persons.whole`, so that a person counts as one.

    Parameters
    ----------
    persons, table
        The persons, and the table whose rows are meant.
    ordered
        Whether each pair counts twice, once in either order, with half of the weight.
    """
    rows = persons.tables[table]
    inside = (rows.rank >= 1) & (rows.rank < MOST_SIBLINGS)
    return persons.divided(table, np.where(inside, rows.rank * (2 if ordered else 1), 0))


def symmetric(upper: FloatArray) -> FloatArray:
    """Return a table of unordered pairs, (groups, groups), made symmetric: half of a count above the diagonal moves below.

    Only the cells on and above the diagonal are measured.
    """
    kept = np.triu(upper)
    return np.asarray((kept + kept.T) / 2, np.float64)


def mean_by_precision(one: tuple[FloatArray, float], other: tuple[FloatArray, float]) -> tuple[FloatArray, float]:
    """Return the precision-weighted mean of two noisy tables of one shape, and its stddev.

    Each table comes with the stddev of its noise in a cell, in the unit of the table.
    """
    (first, a), (second, b) = one, other
    both = a**2 + b**2
    return np.asarray((first * b**2 + second * a**2) / both, np.float64), a * b / math.sqrt(both)


def symmetric_stddev(stddev: float, groups: int) -> float:
    """Return one noise stddev for all cells of a table from `symmetric`, from the stddev before: the root mean square.

    Diagonal cells keep their noise, all others have half of it; fits take one stddev.  ``groups`` is the number of rows.
    """
    return stddev * math.sqrt((1 + (groups - 1) / 4) / groups)
