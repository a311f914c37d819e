"""Rules between columns, compiled to grid indices by `rules_of`: which rows break them, and which cells can obey them.

`sampling.structural_zeros` forbids combinations of cells in which no row can obey; `sampling.constraint_repair` draws rows
that break a rule again.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, GridIndices, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.domain.grid import grid_of
from synthdp.domain.values import check_told_apart, grid_numbers, mask_of_values, numbers_at
from synthdp.schema.columns import Column
from synthdp.schema.constraints import (
    SHORTER_MONTHS,
    CalendarDate,
    Combinations,
    Constraint,
    Forbidden,
    Implies,
    LessEqual,
)
from synthdp.schema.schema import Schema


@dataclass(frozen=True, slots=True)
class ColumnOrder:
    """The number in one column is at most that in another; missing values and special ones beyond the bounds are free.

    Parameters
    ----------
    left, right
        The columns' names.
    columns
        Their declarations.
    """

    left: str
    right: str
    columns: tuple[Column, Column]

    @property
    def names(self) -> tuple[str, ...]:
        """The two columns that the rule is about."""
        return self.left, self.right

    def broken(self, indices: Mapping[str, GridIndices]) -> BoolArray:
        """Return which rows break the rule, (n,), from grid indices by column."""
        low, bound_low = numbers_at(self.columns[0], indices[self.left])
        high, bound_high = numbers_at(self.columns[1], indices[self.right])
        return np.asarray((low > high) & bound_low & bound_high)

    def possible(self, axes: Sequence[Axis]) -> BoolArray:
        """Return which pairs of cells of the two axes can hold a row that obeys the rule, (cells, cells)."""
        low, _, left_free = cell_numbers(axes[0])
        _, high, right_free = cell_numbers(axes[1])
        return np.asarray((low[:, None] <= high[None, :]) | left_free[:, None] | right_free[None, :])


@dataclass(frozen=True, slots=True, eq=False)
class Excluded:
    """The rule that no row has all of these grid points together.

    Parameters
    ----------
    masks
        For each column which grid points are meant, (grid.size,).
    """

    masks: Mapping[str, BoolArray]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that the rule is about."""
        return tuple(self.masks)

    def broken(self, indices: Mapping[str, GridIndices]) -> BoolArray:
        """Return which rows break the rule, (n,), from grid indices by column."""
        every = [meant[indices[name]] for name, meant in self.masks.items()]
        return np.asarray(np.logical_and.reduce(every))

    def possible(self, axes: Sequence[Axis]) -> BoolArray:
        """Return which combinations of cells, one of each of ``axes``, can hold a row that obeys the rule.

        The result has one dimension for each axis.
        """
        possible = np.zeros([axis.size for axis in axes], np.bool_)
        for i, (axis, meant) in enumerate(zip(axes, self.masks.values(), strict=True)):
            outside = holds_any(axis, ~meant)
            possible |= outside.reshape([-1 if i == j else 1 for j in range(len(axes))])
        return possible


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """The rule that some columns have one of the listed combinations of values, and no other.

    Values that occur in the same combinations are one kind, so that the list is short.

    Parameters
    ----------
    kinds
        For each column the kind of each grid point, (grid.size,); -1 for grid points in no combination.
    combinations
        (m, k) kinds of the k columns.
    """

    kinds: Mapping[str, IntArray]
    combinations: IntArray

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that the rule is about."""
        return tuple(self.kinds)

    def broken(self, indices: Mapping[str, GridIndices]) -> BoolArray:
        """Return which rows break the rule, (n,), from grid indices by column."""
        rows = len(indices[self.names[0]])
        found, listed = np.zeros(rows, np.int64), np.zeros(len(self.combinations), np.int64)
        for j, (name, kinds) in enumerate(self.kinds.items()):  # the number of the first columns' combination, or -1
            step = int(kinds.max()) + 2
            begun, listed = np.unique(listed * step + self.combinations[:, j], return_inverse=True)
            wanted = np.where(found < 0, -1, found * step + np.where(kinds < 0, step - 1, kinds)[indices[name]])
            place = np.minimum(np.searchsorted(begun, wanted), len(begun) - 1)
            found = np.where(begun[place] == wanted, place, -1)
        return np.asarray(found < 0)

    def possible(self, axes: Sequence[Axis]) -> BoolArray:
        """Return which combinations of cells, one of each of ``axes``, can hold a row that obeys the rule.

        The result has one dimension for each axis.
        """
        possible = np.zeros([axis.size for axis in axes], np.bool_)
        cells = [_cells_of_kinds(axis, kinds) for axis, kinds in zip(axes, self.kinds.values(), strict=True)]
        for combination in self.combinations.tolist():
            possible[np.ix_(*(of_kind[kind] for of_kind, kind in zip(cells, combination, strict=True)))] = True
        return possible


Rule: TypeAlias = ColumnOrder | Excluded | Listed


@lru_cache(maxsize=8)
def rules_of(schema: Schema) -> tuple[Rule, ...]:
    """Return a schema's rules compiled to conditions on grid points, and the orders that follow from two of them.

    From a <= b and b <= c follows a <= c, if every value of b is compared: none is missing or a special value beyond the
    bounds.
    """
    rules = [rule for constraint in schema.constraints for rule in _compiled(schema, constraint)]
    orders = [rule for rule in rules if isinstance(rule, ColumnOrder)]
    return (*rules, *_implied(orders))


def check_values(schema: Schema) -> None:
    """Raise SchemaError if a rule names a value that no released row can have; see `check_told_apart`."""
    for constraint in schema.constraints:
        for name, values in constraint.named(schema):
            check_told_apart(schema[name], values, name=name)


def _compiled(schema: Schema, constraint: Constraint) -> list[Rule]:
    """Return one declared rule as conditions on grid points, which rows are checked by.

    A kind of rule without a condition of its own is replaced by simpler rules that mean the same.
    """
    match constraint:
        case LessEqual(left, right):
            return [ColumnOrder(left, right, (schema[left], schema[right]))]
        case Forbidden(values):
            return [Excluded({name: _meant(schema, name, given) for name, given in values.items()})]
        case Implies(when, then):
            condition = {name: _meant(schema, name, given) for name, given in when.items()}
            return [Excluded({**condition, name: ~_meant(schema, name, given)}) for name, given in then.items()]
        case Combinations():
            return [_listed(schema, constraint)]
        case CalendarDate():
            return [*_calendar(schema, constraint)]
    return [rule for simpler in constraint.means() for rule in _compiled(schema, simpler)]


def rule_domain(schema: Schema, rules: Sequence[Rule], *, bins: int) -> Domain:
    """Return axes on whose cells it can be decided exactly whether some row obeys all rules.

    A rule excludes all grid points of a cell or none. Columns that are compared are cut at the same numbers: the
    borders of ``bins`` equal parts of each column, and all numbers at which one of the columns is cut.
    """
    names = list(schema)
    marks: dict[str, list[AnyArray]] = {}
    for name in names:
        grid = grid_of(schema[name])
        marks[name] = [np.arange(grid.size) < grid.regular, np.arange(grid.size) < grid.releasable]
        marks[name] += [rule.masks[name] for rule in rules if isinstance(rule, Excluded) and name in rule.masks]
        marks[name] += [rule.kinds[name] for rule in rules if isinstance(rule, Listed) and name in rule.kinds]
    compared = {name for rule in rules if isinstance(rule, ColumnOrder) for name in rule.names}
    for kind in {type(schema[name]) for name in compared}:
        alike = [name for name in names if name in compared and type(schema[name]) is kind]
        cuts = np.unique(np.concatenate([_cuts(schema[name], marks[name], bins) for name in alike]))
        for name in alike:
            grid = grid_of(schema[name])
            numbers, bound = grid_numbers(schema[name])
            bin_ = np.full(grid.size, -1)
            bin_[bound] = np.searchsorted(cuts, numbers[bound], side="right")
            marks[name].append(bin_)
    return Domain(tuple(_marked_axis(name, schema[name], np.column_stack(marks[name])) for name in names))


def _cuts(column: Column, marks: Sequence[AnyArray], bins: int) -> AnyArray:
    """Return one sorted array: the numbers at which a column's marks change, and the borders of ``bins`` equal parts.

    Each of several compared columns is then cut at the numbers of all, so that their cells are comparable.
    """
    regular = grid_of(column).regular
    stacked = np.column_stack(marks)[:regular]
    changes = np.flatnonzero((stacked[1:] != stacked[:-1]).any(axis=1)) + 1
    parts = np.arange(1, bins) * regular // bins
    return numbers_at(column, np.unique(np.concatenate([changes, parts])))[0]


def _marked_axis(name: str, column: Column, marks: AnyArray) -> Axis:
    """Return the axis whose cells are the sets of grid points with equal marks, (grid points, marks).

    Marks say what rules exclude or where a cut is, so that each cell obeys or breaks a rule as a whole.
    """
    starts = np.append(0, np.flatnonzero((marks[1:] != marks[:-1]).any(axis=1)) + 1)
    cells = np.unique(marks[starts], axis=0, return_inverse=True)[1]
    return Axis(name, column, starts, cells.ravel())


def holds_any(axis: Axis, mask: BoolArray) -> BoolArray:
    """Return which cells hold at least one masked grid point that a released row may have, (axis.size,)."""
    cells = axis.cells_of(np.flatnonzero(mask[: axis.grid.releasable]).astype(np.uint32))
    return np.bincount(cells, minlength=axis.size) > 0


def cell_numbers(axis: Axis) -> tuple[AnyArray, AnyArray, BoolArray]:
    """Return the least and largest number in each cell, and whether the cell holds values that no order rule binds.

    All three are (size,). They decide whether two cells can hold a row that obeys a rule a <= b. A missing value, a
    code beyond the bounds and "other" obey every such rule. If a cell holds no number, the least is larger than any
    number, and the largest is smaller than any.
    """
    grid = axis.grid
    regular = axis.starts < grid.regular
    first = axis.starts[regular]
    last = np.minimum(np.append(axis.starts[1:], grid.size)[regular], grid.regular) - 1
    least, _ = numbers_at(axis.column, first)
    most, _ = numbers_at(axis.column, last)
    limits = np.iinfo(np.int64) if least.dtype.kind == "i" else np.finfo(np.float64)
    low, high = np.full(axis.size, limits.max, least.dtype), np.full(axis.size, limits.min, most.dtype)
    np.minimum.at(low, axis.cells[regular], least)
    np.maximum.at(high, axis.cells[regular], most)
    numbers, bound = grid_numbers(axis.column)
    special = grid.regular + np.flatnonzero(bound[grid.regular :])
    cells = axis.cells_of(special.astype(np.uint32))
    np.minimum.at(low, cells, numbers[special])
    np.maximum.at(high, cells, numbers[special])
    return low, high, holds_any(axis, ~bound)


def _calendar(schema: Schema, date: CalendarDate) -> list[Excluded]:
    """Return the dates that do not exist as exclusions: the 31st of short months, 30 February, and 29 February.

    29 February is excluded only if the rule names a column of years, and only in years that are no leap years.
    """
    months, days = (_bound_numbers(schema, name) for name in (date.month, date.day))
    february = months == 2
    excluded = [
        {date.month: np.isin(months, SHORTER_MONTHS), date.day: days > 30},
        {date.month: february, date.day: days > 29},
    ]
    if date.year is not None:
        years = _bound_numbers(schema, date.year)
        leap = (years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0))
        excluded.append({date.month: february, date.day: days == 29, date.year: ~leap & (years > 0)})
    return [Excluded(masks) for masks in excluded if all(meant.any() for meant in masks.values())]


def _bound_numbers(schema: Schema, name: str) -> IntArray:
    """Return the year, month or day at each grid point, (grid.size,); -1 for points that no rule applies to."""
    numbers, bound = grid_numbers(schema[name])
    return np.asarray(np.where(bound, numbers, -1), np.int64)


def _listed(schema: Schema, rule: Combinations) -> Listed:
    """Compile a list of combinations of values, with values numbered by kind.

    Values that occur in the same combinations are one kind, which makes the list shorter.
    """
    kinds, of_value = {}, []
    for name, given in zip(rule.columns, zip(*rule.combinations, strict=True), strict=True):
        number: dict[str, int] = {}
        places = [number.setdefault(repr(value), len(number)) for value in given]
        distinct = dict(zip(places, given, strict=True))
        meant = [_meant(schema, name, distinct[place]) for place in range(len(number))]
        kinds[name] = kind = _kinds(meant)
        inside = [np.unique(kind[mask]).tolist() for mask in meant]
        of_value.append([inside[place] for place in places])
    combinations = {one for row in zip(*of_value, strict=True) for one in itertools.product(*row)}
    return Listed(kinds, np.array(sorted(combinations), np.int64))


def _kinds(meant: Sequence[BoolArray]) -> IntArray:
    """Return a kind number for each grid point, (points,), equal for points in the same sets; -1 outside of all sets.

    Values that occur in the same combinations need not be told apart, which makes the list of combinations short.
    """
    within = np.zeros(len(meant[0]), np.int64)
    kind = np.full(len(within), -1)
    for number, mask in enumerate(meant):
        within += mask
        kind[mask] = number
    if within.max() > 1:
        kind[:] = 0
        for mask in meant:
            kind = np.unique(2 * kind + mask, return_inverse=True)[1]
    return np.asarray(np.where(within > 0, kind, -1))


def _cells_of_kinds(axis: Axis, kinds: IntArray) -> dict[int, list[int]]:
    """Return, for each kind number of `_kinds`, the cells that hold a releasable grid point of this kind.

    A combination of cells is possible if it holds an allowed combination of kinds. Kind -1, of points that the rule
    does not name, gets an empty list.
    """
    indices = np.flatnonzero(kinds[: axis.grid.releasable] >= 0)
    pairs = np.unique(np.column_stack([kinds[indices], axis.cells_of(indices.astype(np.uint32))]), axis=0)
    found: dict[int, list[int]] = {int(kind): [] for kind in np.unique(kinds)}
    for kind, cell in pairs.tolist():
        found[kind].append(cell)
    return found


def _meant(schema: Schema, name: str, given: object) -> BoolArray:
    """Return a mask, (grid.size,), of the grid points that the values in a rule stand for."""
    return mask_of_values(schema[name], given, name=name)


def _implied(orders: list[ColumnOrder]) -> list[ColumnOrder]:
    """Return the orders between columns that follow from given orders: a <= b and b <= c give a <= c.

    Nothing follows if b may be released without a number that is compared, for example as missing.
    """
    known = {order.names: order for order in orders}
    waiting = list(orders)
    while waiting:
        first = waiting.pop()
        for second in list(known.values()):
            for a, b in ((first, second), (second, first)):
                pair = (a.left, b.right)
                bound = grid_numbers(a.columns[1])[1][: grid_of(a.columns[1]).releasable].all()
                if a.right == b.left and bound and a.left != b.right and pair not in known:
                    known[pair] = ColumnOrder(*pair, (a.columns[0], b.columns[1]))
                    waiting.append(known[pair])
    return [order for order in known.values() if order not in orders]
