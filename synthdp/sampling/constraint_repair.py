"""Rows that break a rule are drawn anew within their cells, so that every released row obeys every rule.

Between `distribution`, whose structural zeros leave out the cells where no row can obey, and `sampling`.  Knows grid
points and rules, no private row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, Codes, GridIndices, IntArray
from synthdp.domain.domain import Domain
from synthdp.domain.rules import ColumnOrder, Excluded, Listed, Rule, holds_any
from synthdp.domain.values import grid_numbers, numbers_at
from synthdp.randomness import Generator

Redraw: TypeAlias = Callable[[str, IntArray, BoolArray | None], GridIndices]
"""Draws grid points of a column for some rows, within their coarse cells, perhaps only among some grid points."""

PLAIN_REDRAWS = 4
"""How often rows are drawn anew just as they were drawn; each time the law is the exact one given their cells.
A safety limit of time."""

NARROW_REDRAWS = 8
"""How often they are drawn anew after that, among grid points that the other columns' cells leave possible.

For orders that leaves the law as it is and wastes fewer draws.  A safety limit of time."""

REMEMBERED = 100
"""Combinations of cells whose possible grid points are kept for the next draw.  A safety limit of memory."""


@dataclass(slots=True, eq=False)
class Repair:
    """Mends rows in place.

    Parameters
    ----------
    domain
        The coarse axes.
    rules
        What rows must obey.
    codes
        (n, d) coarse cells of the rows.
    indices
        Their grid points, changed in place.
    allowed
        For some columns the grid points that a condition allows.
    redraw
        Draws grid points anew.
    rng
        For choices that the rules leave open.
    """

    domain: Domain
    rules: Sequence[Rule]
    codes: Codes
    indices: dict[str, GridIndices]
    allowed: Mapping[str, BoolArray]
    redraw: Redraw
    rng: Generator
    _known: dict[tuple[int, ...], dict[str, BoolArray]] = field(default_factory=dict)

    def broken(self, rows: IntArray | None = None, rules: Sequence[Rule] | None = None) -> IntArray:
        """Return which rows break a rule, among some."""
        rows = np.arange(len(self.codes)) if rows is None else rows
        rules = self.rules if rules is None else rules
        names = {name for rule in rules for name in rule.names}
        indices = {name: self.indices[name][rows] for name in names}
        wrong = np.zeros(len(rows), np.bool_)
        for rule in rules:
            wrong |= rule.broken(indices)
        return rows[wrong]

    def mend(self) -> IntArray:
        """Mend what can be mended within the rows' cells; return the rows that still break a rule."""
        for names, rules in connected(self.rules):
            rows = self.broken(rules=rules)
            for _ in range(PLAIN_REDRAWS):
                if len(rows):
                    self._draw(names, rows)
                    rows = self.broken(rows, rules)
            orders = [rule for rule in rules if isinstance(rule, ColumnOrder)]
            for _ in range(NARROW_REDRAWS):
                if len(rows):
                    for rule in rules:
                        if isinstance(rule, Excluded):
                            self._escape(rule, self.broken(rows, [rule]))
                        elif isinstance(rule, Listed):
                            self._draw(rule.names, self.broken(rows, [rule]))
                    self._draw_narrowly(orders, self.broken(rows, orders))
                    rows = self.broken(rows, rules)
            if len(rows) and orders:
                self._lift(orders, rows)
        return self.broken()

    def _draw(self, names: Sequence[str], rows: IntArray) -> None:
        """Draw some columns anew in some rows, among the grid points that are allowed."""
        for name in names:
            self.indices[name][rows] = self.redraw(name, rows, self.allowed.get(name))

    def _escape(self, rule: Excluded, rows: IntArray) -> None:
        """Draw a random column of each row outside what a rule excludes, if its cell has other grid points."""
        outside = {name: ~meant & self.allowed.get(name, True) for name, meant in rule.masks.items()}
        for name in self.rng.permutation(rule.names).tolist():
            j = self.domain.index(name)[0]
            mine = rows[holds_any(self.domain.axes[j], outside[name])[self.codes[rows, j]]]
            mine = mine[self.rng.random(len(mine)) < 1 / len(rule.names)]
            if len(mine):
                self.indices[name][mine] = self.redraw(name, mine, outside[name])

    def _draw_narrowly(self, orders: Sequence[ColumnOrder], rows: IntArray) -> None:
        """Draw rows of the same cells together, each column among the grid points that orders leave it."""
        if not len(rows):
            return
        names = sorted({name for order in orders for name in order.names})
        columns = list(self.domain.index(*names))
        kinds, kind = np.unique(self.codes[rows][:, columns], axis=0, return_inverse=True)
        by_kind = np.argsort(kind.ravel(), kind="stable")
        mine = np.split(rows[by_kind], np.cumsum(np.bincount(kind.ravel()))[:-1])
        for cells, same in zip(kinds, mine, strict=True):
            masks = self._possible(names, orders, cells)
            for name in names:
                if masks[name].any():
                    self.indices[name][same] = self.redraw(name, same, masks[name])

    def _possible(self, names: Sequence[str], orders: Sequence[ColumnOrder], cells: AnyArray) -> dict[str, BoolArray]:
        """Return for each column the grid points of its cell that orders leave, once the others are within theirs."""
        key = tuple(int(cell) for cell in (*self.domain.index(*names), *cells))
        if key in self._known:
            return self._known[key]
        points = {name: self._points(name, int(cell)) for name, cell in zip(names, cells, strict=True)}
        for _ in orders:
            for order in orders:
                _narrow(order, points)
        masks = {}
        for name, left in points.items():
            masks[name] = np.zeros(self.domain.axes[self.domain.index(name)[0]].grid.size, np.bool_)
            masks[name][left] = True
        if len(self._known) < REMEMBERED:
            self._known[key] = masks
        return masks

    def _points(self, name: str, cell: int) -> IntArray:
        """Return the grid points of a cell that may be drawn."""
        axis = self.domain.axes[self.domain.index(name)[0]]
        ends = np.minimum(np.append(axis.starts[1:], axis.grid.releasable), axis.grid.releasable)
        runs = np.flatnonzero(axis.cells == cell)
        points = np.concatenate([np.arange(axis.starts[run], ends[run], dtype=np.int64) for run in runs])
        return points[self.allowed[name][points]] if name in self.allowed else points

    def _lift(self, orders: Sequence[ColumnOrder], rows: IntArray) -> None:
        """Raise right sides to their left sides: first from the current values, then from the least values of the cells."""
        ladders = {name: self._ladder(name) for name in sorted({name for order in orders for name in order.names})}
        for from_least in (False, True):
            for name, ladder in ladders.items() if from_least else ():
                self._raise(name, ladder, rows, None)
            for _ in range(2 * len(ladders) + 2):
                for order in orders:
                    left, bound = numbers_at(order.columns[0], self.indices[order.left][rows])
                    right, free = numbers_at(order.columns[1], self.indices[order.right][rows])
                    low = bound & free & (left > right)
                    self._raise(order.right, ladders[order.right], rows[low], left[low])
            rows = self.broken(rows, orders)

    def _ladder(self, name: str) -> tuple[IntArray, AnyArray, IntArray]:
        """Return a column's grid points that rules bind and that may be drawn, their numbers and cells, by cell."""
        axis = self.domain.axes[self.domain.index(name)[0]]
        numbers, bound = grid_numbers(axis.column)
        points = np.flatnonzero(bound & self.allowed.get(name, True))
        cells = axis.cells_of(points.astype(np.uint32)).astype(np.int64)
        order = np.lexsort((numbers[points], cells))
        return points[order], numbers[points[order]], cells[order]

    def _raise(
        self, name: str, ladder: tuple[IntArray, AnyArray, IntArray], rows: IntArray, least: AnyArray | None
    ) -> None:
        """Set rows whose value rules bind to the first grid point of their cell whose number is at least ``least``."""
        if not len(rows):
            return
        indices, numbers, cells = ladder
        j = self.domain.index(name)[0]
        _, bound = numbers_at(self.domain.axes[j].column, self.indices[name][rows])
        for cell in np.unique(self.codes[rows, j]):
            here = self.codes[rows, j] == cell
            first, stop = np.searchsorted(cells, [cell, cell + 1])
            at = np.zeros(int(here.sum()), np.int64)
            if least is not None:
                at = np.searchsorted(numbers[first:stop], least[here])
            fits = (at < stop - first) & bound[here]
            self.indices[name][rows[here][fits]] = indices[first + at[fits]].astype(self.indices[name].dtype)


def _narrow(order: ColumnOrder, points: dict[str, IntArray]) -> None:
    """Take away, in place, the grid points of either side whose number no number of the other can stand beside."""
    known = [grid_numbers(column) for column in order.columns]
    bound = [binds[points[name]] for name, (_, binds) in zip(order.names, known, strict=True)]
    low, high = (
        numbers[points[name][some]] for name, (numbers, _), some in zip(order.names, known, bound, strict=True)
    )
    if not len(low) or not len(high):
        return
    if bound[1].all():
        points[order.left] = np.delete(points[order.left], np.flatnonzero(bound[0])[low > high.max()])
    if bound[0].all():
        points[order.right] = np.delete(points[order.right], np.flatnonzero(bound[1])[high < low.min()])


def connected(rules: Sequence[Rule]) -> list[tuple[tuple[str, ...], list[Rule]]]:
    """Divide rules into groups that share no column; the columns and the rules of each."""
    groups: list[tuple[set[str], list[Rule]]] = []
    for rule in rules:
        touching = [group for group in groups if group[0] & set(rule.names)]
        groups = [group for group in groups if group not in touching]
        names = set(rule.names).union(*(group[0] for group in touching))
        groups.append((names, [*(r for group in touching for r in group[1]), rule]))
    return [(tuple(sorted(names)), inside) for names, inside in groups]
