"""Rules between tables on synthetic persons: values within cells that obey, rows that cannot, and computed columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, GridIndices, IntArray, narrow
from synthdp.domain.axis import Axis
from synthdp.domain.derive import derive
from synthdp.domain.encoder import Labels, Numbers, RawColumn
from synthdp.domain.histories import Layout, Order as Numbering
from synthdp.domain.rules import Order, rules_of
from synthdp.domain.rules_across import axis_at, broken
from synthdp.domain.values import grid_numbers, numbers_at
from synthdp.queries.related.persons import Persons
from synthdp.randomness import Generator
from synthdp.schema.rules_across import Condition, Place, dotted

REDRAWN = 12
"""How often values within cells are drawn again for rows that break a rule, before the rows are left out."""


@dataclass(slots=True, eq=False)
class Obedience:
    """Which grid points the rows of some persons get, so that rules between tables hold.

    Tables are filled in from the root downwards.

    Parameters
    ----------
    layout, persons
        Persons as cells.

    Attributes
    ----------
    points
        By table and column the grid points so far.
    """

    layout: Layout
    persons: Persons
    points: dict[Place, GridIndices] = field(default_factory=dict)

    def drawn(self, place: Place, draw: Callable[[], GridIndices], rng: Generator, *, fixed: BoolArray) -> GridIndices:
        """Return the grid points of a column, drawn within its cells, as far as they can such that rules hold.

        Parameters
        ----------
        place
            The column.
        draw
            Draws grid points within cells, rules aside.
        rng
            Source of the draws.
        fixed
            (rows,) whose first draw stands, since a condition asks for it.
        """
        mine = [one for one in self.layout.schema.conditions if place in (one.above, one.below)]
        indices = draw()
        low, high = self._ends(place, mine, len(indices))
        if low is not None and high is not None:
            moved = _between(axis_at(self.layout, place), self.cells(place), indices, low, high, rng)
            indices = np.where(fixed, indices, moved)
        below = [one for one in mine if one.below == place]
        for _ in range(REDRAWN if any(not _compares(one) for one in below) else 0):
            wrong = np.logical_or.reduce([self._wrong(one, indices) for one in below])
            if not wrong.any():
                break
            indices = np.where(wrong, draw(), indices)
        if place[1] == self.layout.tables[self.layout.position(place[0])].period:
            rows = self.persons.tables[self.layout.position(place[0])]
            indices = indices[np.lexsort([indices, rows.parent])]  # those of one cell are in any order
        self.points[place] = indices
        return indices

    def cells(self, place: Place) -> IntArray:
        """Return the cells of a column's rows."""
        i = self.layout.position(place[0])
        table, rows = self.layout.tables[i], self.persons.tables[i]
        in_pattern = place[1] == table.period and table.order is Numbering.PATTERN
        return rows.period if in_pattern else rows.values[place[1]]

    def kept(self, raw: Mapping[Place, RawColumn]) -> list[BoolArray]:
        """Return by table which rows obey all rules, as do all rows above them.

        Parameters
        ----------
        raw
            The values as they come out.
        """
        found: list[BoolArray] = []
        for i, rows in enumerate(self.persons.tables):
            above = self.layout.tables[i].parent
            obeys = found[above][rows.parent] if above >= 0 else np.ones(len(rows), np.bool_)
            for one in self.layout.schema.conditions:
                if one.below[0] == self.layout.schema.names[i]:
                    obeys = obeys & ~self._wrong(one, self.points[one.below]) & ~self._above(one, raw)
            found.append(obeys)
        return found

    def computed(self, raw: Mapping[Place, RawColumn], table: str) -> dict[str, RawColumn]:
        """Return the columns of a table that are computed across tables."""
        i = self.layout.position(table)
        found = {}
        for name, one in self.layout.schema.computed_in(table).items():
            sources = {}
            for place in one.sources:
                above = self.layout.position(place[0])
                column = raw[place]
                sources[dotted(place)] = column if above == i else rows_of(column, self.persons.ancestor(i, above))
            (rule,) = one.all.derived.values()
            found[name] = derive(one.all, rule, sources)
        return found

    def _from_above(self, condition: Condition, values: AnyArray) -> AnyArray:
        """Return what rows of the upper table have, for each row of the lower."""
        below, above = (self.layout.position(place[0]) for place in (condition.below, condition.above))
        return values[self.persons.ancestor(below, above)]

    def _wrong(self, condition: Condition, below: GridIndices) -> BoolArray:
        return broken(condition, self._from_above(condition, self.points[condition.above]), below)

    def _above(self, condition: Condition, raw: Mapping[Place, RawColumn]) -> BoolArray:
        """Return which rows break an order with the values that come out: a grid point may stand for several."""
        size = len(self.points[condition.below])
        if not _compares(condition):
            return np.zeros(size, np.bool_)
        values, free = {}, np.zeros(size, np.bool_)
        for place in (condition.above, condition.below):
            column = condition.both[dotted(place)]
            one, points = raw[place], self.points[place]
            if not isinstance(one, Numbers):
                return np.zeros(size, np.bool_)
            unbound = ~numbers_at(column, points)[1]
            number = one.values
            if place == condition.above:
                number, unbound = self._from_above(condition, number), self._from_above(condition, unbound)
            values[dotted(place)] = number
            free |= unbound
        (order,) = (rule for rule in rules_of(condition.both) if isinstance(rule, Order))
        return np.asarray((values[order.left] > values[order.right]) & ~free)

    def _ends(self, place: Place, mine: list[Condition], rows: int) -> tuple[AnyArray | None, AnyArray | None]:
        """Return the least and the largest number that each row may have, by rules that compare; ``None`` without one."""
        compared = [one for one in mine if _compares(one)]
        if not compared:
            return None, None
        low, high = np.full(rows, -np.inf), np.full(rows, np.inf)
        for one in compared:
            (order,) = (rule for rule in rules_of(one.both) if isinstance(rule, Order))
            smaller = order.left == dotted(place)
            if one.below == place:
                numbers, bound = numbers_at(one.both[dotted(one.above)], self.points[one.above])
                other = self._from_above(one, np.where(bound, numbers, np.inf if smaller else -np.inf))
            else:
                other = self._of_rows_below(one, smaller=smaller, rows=rows)
            if smaller:
                high = np.minimum(high, other)
            else:
                low = np.maximum(low, other)
        return low, high

    def _of_rows_below(self, condition: Condition, *, smaller: bool, rows: int) -> AnyArray:
        """Return the largest (least) number that leaves all rows below some value within their cells."""
        below, above = (self.layout.position(place[0]) for place in (condition.below, condition.above))
        axis, cells = axis_at(self.layout, condition.below), self.cells(condition.below)
        least, most, bound = _ends_of_cells(axis)
        found = np.full(rows, np.inf if smaller else -np.inf)
        number = np.where(bound, most if smaller else least, np.inf if smaller else -np.inf)[cells]
        (np.minimum if smaller else np.maximum).at(found, self.persons.ancestor(below, above), number)
        return found


def rows_of(raw: RawColumn, rows: AnyArray) -> RawColumn:
    """Return some rows of raw values."""
    if isinstance(raw, Labels):
        return Labels(raw.levels, raw.codes[rows])
    return Numbers(raw.values[rows], None if raw.missing is None else raw.missing[rows])


def _compares(condition: Condition) -> bool:
    return any(isinstance(rule, Order) for rule in rules_of(condition.both))


def _ends_of_cells(axis: Axis) -> tuple[AnyArray, AnyArray, BoolArray]:
    """Return the least and the largest number of each cell of regular values, and which cells are of these."""
    numbers, _ = grid_numbers(axis.column)
    regular = axis.grid.regular
    runs = np.flatnonzero(axis.starts < regular)
    last = np.minimum(np.append(axis.starts[1:], axis.grid.size)[runs], regular) - 1
    least, most = np.full(axis.size, np.inf), np.full(axis.size, -np.inf)
    np.minimum.at(least, axis.cells[runs], numbers[axis.starts[runs]].astype(np.float64))
    np.maximum.at(most, axis.cells[runs], numbers[last].astype(np.float64))
    alone = np.bincount(axis.cells, minlength=axis.size) == 1
    return least, most, np.isfinite(least) & alone


def _between(
    axis: Axis, cells: IntArray, indices: GridIndices, low: AnyArray, high: AnyArray, rng: Generator
) -> GridIndices:
    """Return grid points drawn anew within cells and between numbers, where there are some; else those given."""
    numbers = grid_numbers(axis.column)[0][: axis.grid.regular].astype(np.float64)
    least, most, bound = _ends_of_cells(axis)
    first = np.searchsorted(numbers, np.maximum(least[cells], low), side="left")
    last = np.searchsorted(numbers, np.minimum(most[cells], high), side="right") - 1
    drawn = first + (rng.random(len(cells)) * np.maximum(last - first + 1, 1)).astype(np.int64)
    free = np.isneginf(low) & np.isposinf(high)
    return narrow(np.where(bound[cells] & (first <= last) & ~free, drawn, indices), axis.grid.size)
