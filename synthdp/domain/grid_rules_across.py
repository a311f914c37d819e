"""Rules of a database, compiled for histories: which cells may not follow which, and which rows break a rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from synthdp.arrays import BoolArray, GridIndices, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.differences import Difference
from synthdp.domain.histories import Layout, Order
from synthdp.domain.rules import Rule, rules_of
from synthdp.schema.rules_across import Condition


@dataclass(frozen=True, slots=True, eq=False)
class Barrier:
    """Cells of an attribute that no row may have, given a cell that was drawn before.

    Parameters
    ----------
    table, attribute
        Position of the table, and name of the attribute, that is drawn.
    above, other
        Position of the table, and name of the attribute, that was drawn before: of a row above, or of the row itself.
    possible
        (cells of the other, cells of the attribute) whether some row with both obeys.
    days
        The days between the two, an attribute of the row that was drawn before: then the first axis of ``possible`` is of
        cells of the other and of these.
    """

    table: int
    attribute: str
    above: int
    other: str
    possible: BoolArray
    days: str = ""


@lru_cache(maxsize=4)
def barriers_of(layout: Layout) -> tuple[Barrier, ...]:
    """Return the restrictions by rules on two columns, each on the column drawn later, given the earlier one.

    Rows are drawn under them.  Those of differences of days come last.
    """
    found = [_barrier(layout, one) for one in layout.schema.conditions]
    return (*found, *(one for between in layout.differences.values() for one in _of_days(layout, between)))


@lru_cache(maxsize=4)
def open_cells(layout: Layout) -> dict[tuple[int, str], BoolArray]:
    """Return the cells, (cells,), that some row can have that obeys all rules pairwise.

    Only for columns with rules within a row, by table and column.  So no value is drawn which leaves none for a later
    column.
    """
    inside = [one for one in layout.schema.conditions if one.above[0] == one.below[0]]
    found = {
        place: np.ones(axis_at(layout, place).size, np.bool_) for one in inside for place in (one.above, one.below)
    }
    pairs = [(one.above, one.below, _possible(layout, one)) for one in inside]
    for _ in range(len(found) + 1):  # what is closed closes others
        for above, below, possible in pairs:
            found[above] = found[above] & (possible & found[below]).any(axis=1)
            found[below] = found[below] & (possible & found[above][:, None]).any(axis=0)
    return {(layout.position(table), column): cells for (table, column), cells in found.items()}


def axis_at(layout: Layout, place: tuple[str, str]) -> Axis:
    """Return the axis of the column at (table, column), which may be the column that orders the table's rows."""
    table, column = layout.position(place[0]), place[1]
    periods = layout.tables[table].periods
    if column == layout.tables[table].period and periods is not None:
        return periods
    return layout.axis(table, column)


def broken(condition: Condition, above: GridIndices, below: GridIndices) -> BoolArray:
    """Return which rows of the lower table break a rule, (n,), from the grid points of both columns."""
    indices: Mapping[str, GridIndices] = dict(zip(condition.names, (above, below), strict=True))
    return np.asarray(np.logical_or.reduce([rule.broken(indices) for rule in rules_of(condition.both)]))


def _barrier(layout: Layout, condition: Condition) -> Barrier:
    """Return a condition as a restriction of the later drawn of its two columns, given the earlier one."""
    above, below = layout.position(condition.above[0]), layout.position(condition.below[0])
    possible = _possible(layout, condition)
    table = layout.tables[below]
    if above == below:  # periods are drawn before the columns of their row
        first, second = condition.above[1], condition.below[1]
        if second == table.period:
            return Barrier(below, first, above, second, possible.T)
        return Barrier(below, second, above, first, possible)
    if table.order is not Order.PATTERN or condition.below[1] != table.period:
        return Barrier(below, condition.below[1], above, condition.above[1], possible)
    # Periods are drawn with the row above them, as a pattern: each of its periods must be possible.
    periods = layout.periods_of_pattern(below)
    inside = np.where(periods < 0, possible.shape[1], periods)
    padded = np.column_stack([possible, np.ones(len(possible), np.bool_)])
    of_pattern = np.asarray(padded[:, inside].all(axis=2), np.bool_)[:, : layout.axis(table.parent, table.count).size]
    if table.parent == above:  # counts are drawn before columns
        return Barrier(above, condition.above[1], above, table.count, of_pattern.T)
    return Barrier(table.parent, table.count, above, condition.above[1], of_pattern)


def _of_days(layout: Layout, between: Difference) -> Iterator[Barrier]:
    """Yield the restrictions for a difference of days.

    Which differences fit the first day, which second days fit both.
    """
    (above, other), (table, attribute) = between.first, between.second
    axes = [axis_at(layout, (above, other)), layout.axis(layout.position(table), between.name)]
    axes.append(axis_at(layout, between.second))
    least, most = zip(*(ends_of_points(axis) for axis in axes), strict=True)
    first, days = (np.arange(axis.size) for axis in axes[:2])
    low, high = between.second_day(least[0][:, None], least[1]), between.second_day(most[0][:, None], most[1])
    if between.sign < 0:
        low, high = between.second_day(least[0][:, None], most[1]), between.second_day(most[0][:, None], least[1])
    inside = (low[:, :, None] <= most[2]) & (high[:, :, None] >= least[2])
    regular = (first < axes[0].regular)[:, None] & (days < axes[1].regular)
    open_ = np.where(regular[:, :, None], inside & (np.arange(axes[2].size) < axes[2].regular), True)
    here, up = layout.position(table), layout.position(above)
    yield Barrier(here, between.name, up, other, np.asarray(open_.any(axis=2), np.bool_))
    yield Barrier(here, attribute, up, other, open_.reshape(-1, axes[2].size), between.name)


def ends_of_points(axis: Axis) -> tuple[IntArray, IntArray]:
    """Return the first and last regular grid point of each cell, (cells,) each; (0, -1) where it has none.

    They say how many days two cells are apart at least and at most.
    """
    first, last = np.full(axis.size, axis.grid.size), np.full(axis.size, -1)
    runs = np.flatnonzero(axis.starts < axis.grid.regular)
    stops = np.minimum(np.append(axis.starts[1:], axis.grid.size)[runs], axis.grid.regular)
    np.minimum.at(first, axis.cells[runs], axis.starts[runs])
    np.maximum.at(last, axis.cells[runs], stops - 1)
    return np.where(last < 0, 0, first), last


def _possible(layout: Layout, condition: Condition) -> BoolArray:
    """Return which pairs of cells, (cells above, cells below), some row can have that obeys a condition."""
    axes = {condition.name(place): axis_at(layout, place) for place in (condition.above, condition.below)}
    found = np.ones([axis.size for axis in axes.values()], np.bool_)
    for rule in rules_of(condition.both):
        found &= _oriented(rule, axes)
    return found


def _oriented(rule: Rule, axes: Mapping[str, Axis]) -> BoolArray:
    """Return which pairs of cells a rule allows, shaped by the two ``axes`` in their order."""
    possible = rule.possible([axes[name] for name in rule.names])
    return possible if list(rule.names) == list(axes) else possible.T
