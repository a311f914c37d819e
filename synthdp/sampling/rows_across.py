"""Rules between the tables of a database, applied to synthetic persons.

Values are drawn within bins such that rules hold.  Rows that still break a rule are marked.  Columns that are computed
across tables are filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, GridIndices, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.derive import derive
from synthdp.domain.differences import Difference
from synthdp.domain.encoder import Numbers, RawColumn, rows_of
from synthdp.domain.grid import grid_of
from synthdp.domain.histories import Layout, Order
from synthdp.domain.history_rules import axis_at, broken, ends_of_points, kept_among
from synthdp.domain.refinement import Refinement
from synthdp.domain.rules import ColumnOrder, rules_of
from synthdp.domain.values import grid_numbers, numbers_at
from synthdp.queries.persons import Persons
from synthdp.randomness import Generator
from synthdp.schema.rules_across import AmongRows, Condition, Place, dotted
from synthdp.schema.sibling_rules import NeverFalls, UniquePerParent

REDRAWN = 12
"""Number of times that rows which break a rule are drawn again within their bins, and then again from any bin.  Rows that
still break a rule are left out.  A safety limit of time; not measured."""


@dataclass(slots=True, eq=False)
class Obedience:
    """Draws the grid points of all rows of some synthetic persons such that the rules of the database hold.

    Call `drawn` for tables from the root downwards, because rules refer to values of the rows above.

    Parameters
    ----------
    layout, persons
        The record of a person, and persons drawn as bins.
    refinement
        Function that returns how grid points are divided into a column's bins, by position of the table and column
        name.

    Attributes
    ----------
    points
        By table and column, the (rows,) grid points drawn so far.
    """

    layout: Layout
    persons: Persons
    refinement: Callable[[int, str], Refinement]
    points: dict[Place, GridIndices] = field(default_factory=dict)

    def drawn(self, place: Place, draw: Callable[[], GridIndices], rng: Generator, *, fixed: BoolArray) -> GridIndices:
        """Return one grid point for each row of a column, (rows,), in the row's coarse bin where rules allow it.

        Rows that break a rule are drawn again up to `REDRAWN` times within the bin, then as often from any bin.  Some
        rows may still break a rule; `kept` finds them.

        Parameters
        ----------
        place
            The column.
        draw
            Draws grid points within bins, without regard to rules.
        rng
            Source of the draws.
        fixed
            (rows,) whether the first draw stands, because ``given`` fixes the row's value.
        """
        mine = [one for one in self.layout.schema.conditions if place in (one.above, one.below)]
        indices = draw()
        compared = [one for one in mine if _compares(one)]
        if compared:
            indices = np.where(fixed, indices, self._between(place, compared, indices, rng))
        between = self.layout.differences.get(place)
        if between is not None:
            indices = np.where(fixed, indices, self._days_after(between, compared, indices, rng))
        below = [one for one in mine if one.below == place and not _compares(one)]
        law = self.refinement(self.layout.position(place[0]), place[1])
        for attempt in range(2 * REDRAWN if below else 0):
            wrong = np.logical_or.reduce([self._wrong(one, indices) for one in below]) & ~fixed
            if not wrong.any():
                break
            again = draw() if attempt < REDRAWN else _of_any_cell(law, self.cells(place), rng)
            indices = np.where(wrong, again, indices)
        for among in (one for one in self.layout.schema.among if one.place == place):
            indices = self._among(among, indices, rng)
        if place[1] == self.layout.tables[self.layout.position(place[0])].period:
            rows = self.persons.tables[self.layout.position(place[0])]
            indices = indices[np.lexsort([indices, rows.parent])]  # those of one cell are in any order
        self.points[place] = indices
        return indices

    def names_values(self, table: str, column: str) -> bool:
        """Return whether a column has a rule between two tables that names values, such as a forbidden combination.

        Comparisons name none.  A rule that names values is checked by grid point only.  So the column's rows take the
        roundest value of each grid point, which is the value that the rule names.
        """
        conditions = self.layout.schema.conditions
        return any((table, column) in (one.above, one.below) and not _compares(one) for one in conditions)

    def cells(self, place: Place) -> IntArray:
        """Return the coarse bins of a column's rows, (rows,), as the model drew them."""
        return cells_of_rows(self.layout, self.persons, self.layout.position(place[0]), place[1])

    def mended(self, table: str) -> BoolArray:
        """Return which rows of a table have a value outside of the bin that the model drew, (rows,).

        A receipt reports their number.
        """
        found = np.zeros(len(self.persons.tables[self.layout.position(table)]), np.bool_)
        for place, points in self.points.items():
            if place[0] == table and place not in self.layout.differences:
                found |= axis_at(self.layout, place).cells_of(points) != self.cells(place)
        return found

    def _between(self, place: Place, compared: list[Condition], indices: GridIndices, rng: Generator) -> GridIndices:
        """Return grid points between the limits that comparison rules set, (rows,), in the row's bin if it has one.

        If the bin has none, the limits from tables below are dropped.  If it still has none, a grid point of another
        bin is drawn, if the limits from tables above allow any.
        """
        axis, cells = axis_at(self.layout, place), self.cells(place)
        refinement = self.refinement(self.layout.position(place[0]), place[1])
        numbers = grid_numbers(axis.column)[0][: axis.grid.regular].astype(np.float64)
        first_of_cell, last_of_cell = ends_of_points(axis)
        low, high = self._ends(place, compared, len(indices))
        above_low, above_high = self._ends(place, [one for one in compared if one.below == place], len(indices))
        whole = np.zeros(len(cells), np.int64), np.full(len(cells), len(numbers) - 1)
        inside = first_of_cell[cells], last_of_cell[cells]
        free = (indices >= axis.grid.regular) | (np.isneginf(low) & np.isposinf(high))
        first, last = np.ones(len(cells), np.int64), np.zeros(len(cells), np.int64)
        for ends, (least, most) in (
            (inside, (low, high)), (inside, (above_low, above_high)), (whole, (above_low, above_high)),
        ):  # fmt: skip
            empty = first > last
            first = np.where(empty, np.maximum(ends[0], np.searchsorted(numbers, least, side="left")), first)
            last = np.where(empty, np.minimum(ends[1], np.searchsorted(numbers, most, side="right") - 1), last)
        some = np.flatnonzero((first <= last) & ~free)
        found = indices.copy()
        found[some] = refinement.indices_between(first[some], last[some], rng)
        return found

    def _days_after(
        self, between: Difference, compared: list[Condition], indices: GridIndices, rng: Generator
    ) -> GridIndices:
        """Return grid points that lie the drawn number of days after or before the day in a table above, (rows,).

        The points lie in the row's bin if possible.  Bins with one value keep that value.
        """
        place, table = between.second, self.layout.position(between.second[0])
        axis, rows = axis_at(self.layout, place), self.persons.tables[table]
        days_axis, days_cells = self.layout.axis(table, between.name), rows.values[between.name]
        first = self._of_row_above(table, self.layout.position(between.first[0]), self.points[between.first]).astype(
            int
        )
        start = between.second_day(first, np.zeros(len(first), np.int64))
        numbers = grid_numbers(axis.column)[0][: axis.grid.regular].astype(np.float64)
        least, most = (ends[days_cells] for ends in ends_of_points(days_axis))
        inside = tuple(ends[self.cells(place)] for ends in ends_of_points(axis))
        every, above = self._ends(place, compared, len(indices)), [one for one in compared if one.below == place]
        ends_above = self._ends(place, above, len(indices))
        regular = grid_of(self.layout.schema.tables[between.first[0]][between.first[1]]).regular
        left = (first < regular) & (days_cells < days_axis.regular) & (indices < axis.grid.regular)
        left &= inside[0] < inside[1]
        found = indices.copy()
        for bounds, cells in ((every, inside), (ends_above, inside), (every, None), (ends_above, None)):
            low = np.searchsorted(numbers, bounds[0], side="left")
            high = np.searchsorted(numbers, bounds[1], side="right") - 1
            if cells is not None:
                low, high = np.maximum(low, cells[0]), np.minimum(high, cells[1])
            near, far = (low - start, high - start) if between.sign > 0 else (start - high, start - low)
            near, far = np.maximum(near, least), np.minimum(far, most)
            some = np.flatnonzero(left & (near <= far))
            days = self.refinement(table, between.name).indices_between(near[some], far[some], rng)
            found[some] = start[some] + between.sign * days.astype(np.int64)
            left[some] = False
        return found

    def _among(self, one: AmongRows, points: GridIndices, rng: Generator) -> GridIndices:
        """Return grid points, (rows,), in the same bins that satisfy one rule between rows of a parent, where possible.

        The rule is that values differ, or that values never fall.
        """
        parent = self.persons.tables[self.layout.position(one.place[0])].parent
        axis = axis_at(self.layout, one.place)
        bound = np.flatnonzero(points < axis.grid.regular)
        found = points.copy()
        if isinstance(one.rule, UniquePerParent):
            found[bound] = _unlike(axis, self.cells(one.place)[bound], points[bound], parent[bound], rng)
        if isinstance(one.rule, NeverFalls):  # cells do not fall already
            found[bound] = points[bound][np.lexsort([points[bound], parent[bound]])]
        return found

    def settled(self, place: Place, raw: RawColumn) -> RawColumn:
        """Return the final values of a column, in the order of its rows.

        If the column orders its rows or must never fall, the regular values of each parent's rows are sorted: two
        values drawn within one grid point need not be in order.
        """
        rules = [one.rule for one in self.layout.schema.among if one.place == place]
        table = self.layout.tables[self.layout.position(place[0])]
        ordered = place[1] == table.period or any(isinstance(rule, NeverFalls) for rule in rules)
        if not isinstance(raw, Numbers) or not ordered:
            return raw
        parent = self.persons.tables[self.layout.position(place[0])].parent
        bound = np.flatnonzero(self.points[place] < axis_at(self.layout, place).grid.regular)
        values = raw.values.copy()
        values[bound] = values[bound][np.lexsort([values[bound], parent[bound]])]
        return Numbers(values, raw.missing)

    def kept(self, raw: Mapping[Place, RawColumn]) -> list[BoolArray]:
        """Return by table a (rows,) mask of the rows that satisfy all rules, and whose rows above do too.

        Parameters
        ----------
        raw
            By table and column, the final values.
        """
        found: list[BoolArray] = []
        for i, rows in enumerate(self.persons.tables):
            above = self.layout.tables[i].parent
            obeys = found[above][rows.parent] if above >= 0 else np.ones(len(rows), np.bool_)
            for one in self.layout.schema.conditions:
                if one.below[0] == self.layout.schema.names[i]:
                    obeys = obeys & ~self._wrong(one, self.points[one.below]) & ~self._above(one, raw)
            found.append(self._together(i, obeys, raw))
        return found

    def _together(self, table: int, kept: BoolArray, raw: Mapping[Place, RawColumn]) -> BoolArray:
        """Return which of the rows in ``kept`` also satisfy the rules between the rows of one parent row, (rows,).

        The check repeats until nothing changes, because a row left out by one rule can change the result of another.
        """
        mine = [one for one in self.layout.schema.among if one.place[0] == self.layout.schema.names[table]]
        parent, before = self.persons.tables[table].parent, -1
        while mine and kept.sum() != before:  # what goes by one rule may be what another asks for
            before = kept.sum()
            for one in mine:
                points, values = self.points[one.place], raw[one.place]
                numbers = values.values if isinstance(values, Numbers) else points
                kept = kept_among(one, points, numbers, parent, kept)
        return kept

    def computed(self, raw: Mapping[Place, RawColumn], table: str) -> dict[str, RawColumn]:
        """Return the columns of a table that are computed from columns of several tables, by name."""
        i = self.layout.position(table)
        found = {}
        for name, one in self.layout.schema.computed_in(table).items():
            sources = {}
            for place in one.sources:
                above = self.layout.position(place[0])
                column = raw[place]
                sources[dotted(place)] = rows_of(column, self._row_above(i, above))
            (rule,) = one.all.derived.values()
            found[name] = derive(one.all, rule, sources)
        return found

    def _from_above(self, condition: Condition, values: AnyArray) -> AnyArray:
        """Return the values of the condition's upper table, one for each row of its lower table, (rows,)."""
        below, above = (self.layout.position(place[0]) for place in (condition.below, condition.above))
        return self._of_row_above(below, above, values)

    def _of_row_above(self, table: int, above: int, values: AnyArray) -> AnyArray:
        """Return the values of table ``above``, one for each row of ``table``, (rows,)."""
        return values[self._row_above(table, above)]

    def _row_above(self, table: int, above: int) -> IntArray:
        """Return the position of each row's ancestor in table ``above``, (rows,); its own position in its own table.

        Rules between tables compare a row with this ancestor.
        """
        return np.arange(len(self.persons.tables[table])) if table == above else self.persons.ancestor(table, above)

    def _wrong(self, condition: Condition, below: GridIndices) -> BoolArray:
        """Return which rows of the lower table break a rule between two tables by their grid points, (rows,)."""
        return broken(condition, self._from_above(condition, self.points[condition.above]), below)

    def _above(self, condition: Condition, raw: Mapping[Place, RawColumn]) -> BoolArray:
        """Return which rows of the lower table break a comparison rule by their final values, (rows,).

        A check of grid points is not enough, because one grid point can stand for several values.
        """
        size = len(self.points[condition.below])
        if not _compares(condition):
            return np.zeros(size, np.bool_)
        values, free = {}, np.zeros(size, np.bool_)
        for place in (condition.above, condition.below):
            column = condition.both[condition.name(place)]
            one, points = raw[place], self.points[place]
            if not isinstance(one, Numbers):
                return np.zeros(size, np.bool_)
            unbound = ~numbers_at(column, points)[1]
            number = one.values
            if place == condition.above:
                number, unbound = self._from_above(condition, number), self._from_above(condition, unbound)
            values[condition.name(place)] = number
            free |= unbound
        (order,) = (rule for rule in rules_of(condition.both) if isinstance(rule, ColumnOrder))
        return np.asarray((values[order.left] > values[order.right]) & ~free)

    def _ends(self, place: Place, compared: list[Condition], rows: int) -> tuple[AnyArray, AnyArray]:
        """Return the lower and the upper limit that comparison rules set for each row's number, two (rows,) arrays.

        Limits are infinite where no rule binds.
        """
        low, high = np.full(rows, -np.inf), np.full(rows, np.inf)
        for one in compared:
            (order,) = (rule for rule in rules_of(one.both) if isinstance(rule, ColumnOrder))
            smaller = order.left == one.name(place)
            if one.below == place:
                numbers, bound = numbers_at(one.both[one.names[0]], self.points[one.above])
                other = self._from_above(one, np.where(bound, numbers, np.inf if smaller else -np.inf))
            else:
                other = self._of_rows_below(one, smaller=smaller, rows=rows)
            if smaller:
                high = np.minimum(high, other)
            else:
                low = np.maximum(low, other)
        return low, high

    def _of_rows_below(self, condition: Condition, *, smaller: bool, rows: int) -> AnyArray:
        """Return for each row the limit on its number within which all rows below it can satisfy the comparison, (rows,).

        A row below can satisfy it if its bin has a valid number.  The limit is an upper limit if ``smaller``, else a
        lower limit.  The limit is infinite if the comparison binds no row below.
        """
        below, above = (self.layout.position(place[0]) for place in (condition.below, condition.above))
        axis, cells = axis_at(self.layout, condition.below), self.cells(condition.below)
        least, most, bound = _ends_of_cells(axis)
        found = np.full(rows, np.inf if smaller else -np.inf)
        number = np.where(bound, most if smaller else least, np.inf if smaller else -np.inf)[cells]
        (np.minimum if smaller else np.maximum).at(found, self._row_above(below, above), number)
        return found


def _unlike(axis: Axis, cells: IntArray, points: GridIndices, parent: IntArray, rng: Generator) -> GridIndices:
    """Return grid points within the same bins, all different among the rows of one parent where possible, (rows,).

    ``parent`` must be sorted.  Repeated values are drawn again up to `REDRAWN` times, then replaced by the first free
    value of the bin.
    """
    points = points.copy()
    for _ in range(REDRAWN):
        again = _repeated(points, parent)
        if not len(again):
            return points
        points[again] = axis.indices_in(cells[again], rng)
    first, last = ends_of_points(axis)
    for row in _repeated(points, parent):  # few: cells of which nearly all grid points are taken
        mine = slice(*np.searchsorted(parent, [parent[row], parent[row] + 1]))
        every = np.arange(first[cells[row]], last[cells[row]] + 1)
        free = np.setdiff1d(every, points[mine])
        points[row] = free[0] if len(free) else points[row]
    return points


def _repeated(points: GridIndices, parent: IntArray) -> IntArray:
    """Return the positions of rows with the same grid point as an earlier row of their parent, to be drawn again."""
    order = np.lexsort([points, parent])
    again = (np.diff(parent[order]) == 0) & (np.diff(points[order].astype(np.int64)) == 0)
    return np.asarray(order[1:][again])


def _compares(condition: Condition) -> bool:
    """Return whether a rule between two tables compares two columns by order, so that it sets limits."""
    return any(isinstance(rule, ColumnOrder) for rule in rules_of(condition.both))


def _ends_of_cells(axis: Axis) -> tuple[AnyArray, AnyArray, BoolArray]:
    """Return the smallest and the largest number of each bin, and whether these limit a row above, (bins,) each.

    The numbers limit a row above if the bin is one run of regular values; for other bins they mean nothing.
    """
    first, last = ends_of_points(axis)
    numbers = grid_numbers(axis.column)[0].astype(np.float64)
    return numbers[first], numbers[last], (axis.width > 0) & (axis.width == last - first + 1)


def cells_of_rows(layout: Layout, persons: Persons, table: int, column: str) -> IntArray:
    """Return the coarse bins of a column's rows, (rows,).

    The column may also be the period of a table with patterns, which is stored apart from other columns.
    """
    of, rows = layout.tables[table], persons.tables[table]
    return rows.period if column == of.period and of.order is Order.PATTERN else rows.values[column]


def _of_any_cell(refinement: Refinement, cells: IntArray, rng: Generator) -> GridIndices:
    """Draw one grid point per row, (rows,), from the distribution of all rows, whatever the row's bin.

    It is the last resort for rows whose own bin has no grid point that satisfies the rules.  ``cells`` holds the
    (rows,) bins of all rows, whose frequencies are the bins' probabilities.
    """
    inside, coarse = refinement.weights, refinement.coarse_cell
    held = np.bincount(coarse, weights=inside, minlength=refinement.groups)
    rows = np.bincount(cells, minlength=refinement.groups)
    share = np.divide(rows, held, out=np.zeros(refinement.groups), where=held > 0)[coarse] * inside
    share = inside / inside.sum() if share.sum() <= 0 else share / share.sum()
    return refinement.indices_in(rng.choice(len(share), len(cells), p=share), rng)
