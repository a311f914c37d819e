"""Differences of two days as attributes of a row: how long a policy runs, how late a claim is reported.  Public facts only.

A rule may state that one day is at most another, both of one row, or of a row and a row above it.  Then the days between
both are drawn like any column, before the second day.  Tables of the two days, in wide cells, hide how a difference is
distributed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import AnyArray, IntArray
from synthdp.domain.grid import grid_of
from synthdp.domain.rules import ColumnOrder, rules_of
from synthdp.schema.column import Column, Steps
from synthdp.schema.columns import Date, Integer
from synthdp.schema.database import DatabaseSchema
from synthdp.schema.rules_across import Condition, Place


@dataclass(frozen=True, slots=True)
class Difference:
    """The number of days between two date columns, modelled as a column since relations often depend on it.

    Parameters
    ----------
    first, second
        Table and column of the day that is drawn first, which is in the same row or a row above; and of the other day.
    sign
        1 if the second day is the later one, else -1.
    shift
        Grid points by which the second column begins later than the first.
    column
        Declaration of the difference: whole days from 0, one grid point each.
    """

    first: Place
    second: Place
    sign: int
    shift: int
    column: Column

    @property
    def name(self) -> str:
        """The name of the difference as an attribute of the second day's row."""
        first = self.first[1] if self.first[0] == self.second[0] else ".".join(self.first)
        return f"#{self.second[1]} - {first}" if self.sign > 0 else f"#{first} - {self.second[1]}"

    def points(self, first: AnyArray, second: AnyArray, columns: tuple[Column, Column]) -> IntArray:
        """Return the grid points of the difference in days, (n,), from the grid points of the two days, (n,) each.

        ``columns`` are the columns of the first and the second day.  A missing day gives the missing value, a difference
        out of range gives "other".
        """
        grids = tuple(grid_of(one) for one in columns)
        mine = grid_of(self.column)
        a, b = (one.astype(np.int64) for one in (first, second))
        days = self.sign * (b + self.shift - a)
        regular = (a < grids[0].regular) & (b < grids[1].regular) & (days >= 0) & (days < mine.regular)
        found = np.where(regular, days, mine.other)
        if mine.null is not None:
            for points, grid in ((a, grids[0]), (b, grids[1])):
                if grid.null is not None:
                    found = np.where(points == grid.null, mine.null, found)
        return found

    def second_day(self, first: IntArray, days: IntArray) -> IntArray:
        """Return the grid points of the second day, (n,), from the first day's grid points and the difference in days.

        The result may be out of range.
        """
        return first - self.shift + self.sign * days


def differences_of(schema: DatabaseSchema) -> dict[Place, Difference]:
    """Return the differences that a database's model draws, by table and column of the second day.

    Each column is the second day of at most one difference. A difference to a day of the same row is preferred.
    """
    found: dict[Place, Difference] = {}
    if not schema.relations:
        return found
    every = [one for condition in schema.conditions if (one := _difference(schema, condition)) is not None]
    for one in sorted(every, key=lambda one: (one.first[0] != one.second[0], one.sign < 0)):
        taken = {place for done in found.values() for place in (done.second,)}
        if one.second not in taken and not _leads_to(found, one.first, one.second):
            found[one.second] = one
    return found


def _leads_to(found: Mapping[Place, Difference], place: Place, end: Place) -> bool:
    """Return whether a day at ``place`` follows, by chosen differences, from the day at ``end``; prevents cycles."""
    while place in found:
        place = found[place].first
        if place == end:
            return True
    return place == end


def _difference(schema: DatabaseSchema, condition: Condition) -> Difference | None:
    """Return the difference of two days for a rule "one day is at most another", to be drawn in place of the second day.

    The first day and a difference of at least 0 give a second day that obeys the rule.  Return ``None`` for any other
    rule, and if a column has no days.  Return ``None`` too if the second column orders the rows of its table, or if the
    bounds of the columns allow no difference above 0.
    """
    first, second = condition.above, condition.below
    period = _period(schema, second[0])
    if first[0] == second[0] and second[1] == period:  # periods are drawn before all columns of their row
        first, second = second, first
    if second[1] == period:
        return None
    orders = [rule for rule in rules_of(condition.both) if isinstance(rule, ColumnOrder)]
    if len(orders) != 1:
        return None
    columns = [schema.tables[table][name] for table, name in (first, second)]
    steps = [_days(one) for one in columns]
    if steps[0] is None or steps[1] is None:
        return None
    sign = 1 if orders[0].left == condition.name(first) else -1
    span = steps[1].last - steps[0].first if sign > 0 else steps[0].last - steps[1].first
    if span < 1:
        return None
    column = Integer(0, span, nullable=any(one.nullable for one in columns))
    return Difference(first, second, sign, steps[1].first - steps[0].first, column)


def _period(schema: DatabaseSchema, table: str) -> str | None:
    """Return the column that orders a table's rows and is drawn before the row's others; ``None`` if there is none."""
    relation = schema.relation_to(table)
    return None if relation is None else relation.order


def _days(column: Column) -> Steps | None:
    """Return the first and last day, as `Steps`, of a date column with one grid point per day; else ``None``.

    Only between two such columns is a difference in days a difference of grid points.
    """
    if not isinstance(column, Date) or not column.is_complete:
        return None
    support = column.support()
    whole = isinstance(support, Steps) and grid_of(column).width == 1 and not support.special
    return support if whole and isinstance(support, Steps) else None
