"""Repair of drawn rows that break a rule: their grid points are drawn again within the bins.

Structural zeros already leave out bins in which no row can satisfy the rules.  Rules that cut through a bin are handled
here, so that every released row satisfies every rule.  The module uses grid points and rules only, never a private
row.
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
"""Function type.  Draws one grid point of a column for each given row, within the row's coarse bin; a mask, if given,
restricts the grid points."""

PLAIN_REDRAWS = 4
"""Number of times that rows which break a rule are drawn again without restriction.  Accepted rows then have the exact
conditional distribution given their bins.  A safety limit of time."""

NARROW_REDRAWS = 8
"""Number of times that rows which still break a rule after `PLAIN_REDRAWS` are drawn again, among grid points that the
other columns' bins leave possible.  For comparisons of columns the distribution stays exact, and fewer draws fail.  A
safety limit of time."""

REMEMBERED = 100
"""Largest number of bin combinations whose possible grid points are cached for later draws.  A safety limit of
memory."""


@dataclass(slots=True, eq=False)
class Repair:
    """Draws grid points of rows again, in place, until the rows satisfy all rules.  Rows stay in their coarse bins.

    Parameters
    ----------
    domain
        The coarse bins of each column.
    rules
        The rules between columns.
    codes
        (n, d) coarse bins of the rows.
    indices
        By column, the (n,) grid points of the rows, changed in place.
    allowed
        By column, a mask of the grid points that the user's ``given`` values allow; absent columns are free.
    redraw
        Draws new grid points.
    rng
        Source of the random choices that the rules leave open.
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
        """Return the positions of the rows that break at least one rule, (broken,), among ``rows`` (default: all)."""
        rows = np.arange(len(self.codes)) if rows is None else rows
        rules = self.rules if rules is None else rules
        names = {name for rule in rules for name in rule.names}
        indices = {name: self.indices[name][rows] for name in names}
        wrong = np.zeros(len(rows), np.bool_)
        for rule in rules:
            wrong |= rule.broken(indices)
        return rows[wrong]

    def mend(self) -> IntArray:
        """Repair rows within their bins, in place; return the positions of the rows that still break a rule, (broken,).

        The steps, in order: plain redraws, redraws among possible grid points, then raising the larger side of
        comparisons.  The caller replaces the rows that are left.
        """
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
        """Draw some columns again in some rows, in place, within their bins, among the points that ``given`` permits.

        The new values may satisfy the rule that the old values break.
        """
        for name in names:
            self.indices[name][rows] = self.redraw(name, rows, self.allowed.get(name))

    def _escape(self, rule: Excluded, rows: IntArray) -> None:
        """Draw random columns of each row again, outside the values that an exclusion rule forbids together.

        Each column is redrawn with probability 1 / columns, and only in rows whose bin has grid points outside.
        """
        outside = {name: ~meant & self.allowed.get(name, True) for name, meant in rule.masks.items()}
        for name in self.rng.permutation(rule.names).tolist():
            j = self.domain.index(name)[0]
            mine = rows[holds_any(self.domain.axes[j], outside[name])[self.codes[rows, j]]]
            mine = mine[self.rng.random(len(mine)) < 1 / len(rule.names)]
            if len(mine):
                self.indices[name][mine] = self.redraw(name, mine, outside[name])

    def _draw_narrowly(self, orders: Sequence[ColumnOrder], rows: IntArray) -> None:
        """Draw the columns of comparison rules again, in place, among the grid points that the rules leave possible.

        Rows with the same bins share one computation of the possible grid points.  Columns whose bin has no such grid
        point stay as they are.
        """
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
        """Return by column a mask, (grid points,), true at the points of its bin that comparison rules allow in these bins.

        Results are cached for up to `REMEMBERED` combinations of bins.
        """
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
        """Return the grid points of one bin of a column, (points,), that may be released and that ``given`` permits."""
        axis = self.domain.axes[self.domain.index(name)[0]]
        ends = np.minimum(np.append(axis.starts[1:], axis.grid.releasable), axis.grid.releasable)
        runs = np.flatnonzero(axis.cells == cell)
        points = np.concatenate([np.arange(axis.starts[run], ends[run], dtype=np.int64) for run in runs])
        return points[self.allowed[name][points]] if name in self.allowed else points

    def _lift(self, orders: Sequence[ColumnOrder], rows: IntArray) -> None:
        """Raise the right side of each comparison left <= right to its left side, in place, within the bins.

        Only rows that break the comparison are changed.  This is the last step of the repair.

        The first pass starts from the current values, the second from the smallest values of the bins.
        """
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
        """Return a column's allowed numeric grid points, their numbers and their bins, sorted by bin and number.

        `_raise` looks the next larger number up in it.

        Missing and special values are left out.
        """
        axis = self.domain.axes[self.domain.index(name)[0]]
        numbers, bound = grid_numbers(axis.column)
        points = np.flatnonzero(bound & self.allowed.get(name, True))
        cells = axis.cells_of(points.astype(np.uint32)).astype(np.int64)
        order = np.lexsort((numbers[points], cells))
        return points[order], numbers[points[order]], cells[order]

    def _raise(
        self, name: str, ladder: tuple[IntArray, AnyArray, IntArray], rows: IntArray, least: AnyArray | None
    ) -> None:
        """Set rows to the first grid point of their bin whose number is at least ``least``, in place.

        A row so obeys a rule such as "end is at least start" without leaving its bin. ``ladder`` comes from `_ladder`.
        Without ``least``, the smallest number of the bin is taken. Rows with a missing or special value stay unchanged,
        as do rows whose bin has no such number.
        """
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
    """Remove from ``points``, in place, each grid point with which every grid point of the other column breaks a rule.

    The rule compares the two columns.  Draws among the remaining grid points break it less often.

    Missing and special values satisfy every comparison.  A side is not narrowed if the other side may take such a
    value.
    """
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
    """Return the rules in groups that share no column: for each group its sorted columns and its rules.

    Each group can then be repaired alone.
    """
    groups: list[tuple[set[str], list[Rule]]] = []
    for rule in rules:
        touching = [group for group in groups if group[0] & set(rule.names)]
        groups = [group for group in groups if group not in touching]
        names = set(rule.names).union(*(group[0] for group in touching))
        groups.append((names, [*(r for group in touching for r in group[1]), rule]))
    return [(tuple(sorted(names)), inside) for names, inside in groups]
