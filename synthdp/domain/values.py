"""Values that a person names in a rule, a condition or a question, as grid points; and grid points as exact numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, AnyArray, BoolArray, FloatArray, IntArray
from synthdp.domain.encoder import Numbers, decode, encode
from synthdp.domain.grid import Grid, bounds_of, grid_of, labels_of
from synthdp.errors import ParameterError, SchemaError
from synthdp.schema.column import Column, Steps


@dataclass(frozen=True, slots=True, eq=False)
class Allowed:
    """A ready-made mask of allowed grid points, accepted wherever values of a column may be named.

    Parameters
    ----------
    mask
        (size,) whether each grid point is allowed.
    """

    mask: BoolArray


def mask_of_values(column: Column, values: object, *, name: str = "") -> BoolArray:
    """Return which grid points the values in a rule, condition or question stand for, (size,).

    Parameters
    ----------
    column
        The column.
    values
        One value or a list of values, where ``None`` is the missing value; for an ordered column also ``(lower,
        upper)``, both inclusive, with ``None`` for no end on that side.  A range within one grid point stands for that
        grid point.  Special values between the column's bounds are numbers and belong to a range around them; special
        values beyond the bounds are codes and belong to none.  Or an `Allowed`, whose ready-made mask is returned.
    name
        Name of the column in errors.

    Raises
    ------
    ParameterError
        If the column cannot hold such a value.
    """
    if column.names_rows:
        raise ParameterError(
            f"column {name!r} is an identifier, whose labels carry no information: name another column"
        )
    if isinstance(values, Allowed):
        return values.mask
    grid = grid_of(column)
    allowed = np.zeros(grid.size, np.bool_)
    for value in _listed(column, grid, values):
        if isinstance(value, tuple):
            first, last = _range(column, grid, value, name)
            allowed[first : last + 1] = True
            allowed[grid.regular :][: len(grid.special)] |= _special_within(column, grid, value, name)
        else:
            index = _index_of(column, grid, value, name)
            allowed[index] = True
            if index in _special_points(
                column, grid
            ):  # between the bounds, the same number may be a regular value, too
                numbers, _ = grid_numbers(column)
                twin = _regular_index(column, grid, numbers[index : index + 1])
                allowed[twin] |= numbers[twin] == numbers[index]
    if not allowed.any():
        raise ParameterError(f"no value is given for column {name!r}: give at least one")
    return allowed


def check_told_apart(column: Column, values: object, *, name: str) -> None:
    """Raise SchemaError if a rule names a value that shares its grid point with other values and is never released.

    Rows under a rule get the roundest value of a grid point. A grid point of numbers or times holds several values only
    if the column has very many.

    Raises
    ------
    SchemaError
        Naming the column, the value and its neighbour.
    """
    grid = grid_of(column)
    for value in _listed(column, grid, values) if grid.width > 1 else ():
        points = np.flatnonzero(mask_of_values(column, value, name=name)[: grid.regular])
        numbers, _ = numbers_at(column, points[[0, -1]] if len(points) else points)
        ends = value if isinstance(value, tuple) else (value, value)
        for number, end, sign in zip(numbers, ends, (-1, 1), strict=False):
            if end is not None and sign * (number - _number(column, end, name)[0]) > 0:
                raise SchemaError(
                    f"a rule names {end!r}, but column {name!r} has too many values to tell it from {column.shown(number)}: "
                    f"declare {'it as special' if hasattr(column, 'special') else 'a coarser column'}, or narrower bounds"
                )


def is_range(column: Column, value: object) -> bool:
    """Return whether a value in a condition is a (lower, upper) pair for an ordered column."""
    return isinstance(value, tuple) and len(value) == 2 and grid_of(column).ordered


def numbers_at(column: Column, indices: AnyArray) -> tuple[AnyArray, BoolArray]:
    """Return the exact number at each grid point, and whether rules apply to it; (n,) each.

    Rules apply to regular values, and to special values between the column's bounds; all others compare with nothing.
    """
    raw = decode(column, indices.astype(np.uint32, copy=False))
    numbers = raw.values if isinstance(raw, Numbers) else raw.codes
    grid = grid_of(column)
    return numbers, np.asarray((indices < grid.regular) | np.isin(indices, _special_points(column, grid)))


@lru_cache(maxsize=8)
def grid_numbers(column: Column) -> tuple[AnyArray, BoolArray]:
    """Return the exact number at every grid point, and whether rules apply to it, (grid.size,) each; see `numbers_at`.

    Both arrays are cached, because every rule about the column needs them, and therefore read-only.
    """
    numbers, bound = numbers_at(column, np.arange(grid_of(column).size))
    numbers.flags.writeable = bound.flags.writeable = False
    return numbers, bound


def _listed(column: Column, grid: Grid, values: object) -> Sequence[object]:
    """Return named values as a flat sequence; a (lower, upper) range of an ordered column is one value."""
    if is_range(column, values):
        return [values]
    if isinstance(values, (list, tuple, set, frozenset, range, np.ndarray)):
        return [part for value in values for part in _listed(column, grid, value)]
    return [values]


def _index_of(column: Column, grid: Grid, value: object, name: str) -> int:
    """Return the grid point of one named value; raise ParameterError if the column cannot hold it."""
    found = None
    if value is None or (isinstance(value, float) and np.isnan(value)):
        found = grid.null
    elif column.labelled:
        found = _position(column, column.level_named(value))
    else:
        number = _number(column, value, name)
        inside = number[0] in grid.special or _lowest(column) <= number[0] <= _highest(column)
        found = int(encode(column, Numbers(number))[0]) if inside else None
    if found is None:
        raise ParameterError(
            f"column {name!r} cannot hold the value {value!r}: give a value within the bounds or levels of the schema"
        )
    return found


def _position(column: Column, value: object) -> int | None:
    """Return the position of a value among a column's levels; None if it is none of them or cannot be compared."""
    levels = labels_of(column)
    try:
        return levels.index(value) if value in levels else None
    except (TypeError, ValueError):
        return None


def _range(column: Column, grid: Grid, ends: tuple[Any, Any], name: str) -> tuple[int, int]:
    """Return the first and the last grid point between two named ends, both inclusive.

    A range within one grid point gives that grid point. Raise ParameterError if the lower end is above the upper end,
    or if the column has no value between them.
    """
    low, high = ends
    if column.labelled:
        first = 0 if low is None else _index_of(column, grid, low, name)
        last = grid.regular - 1 if high is None else _index_of(column, grid, high, name)
        if first > last:
            raise ParameterError(
                f"given of column {name!r} is a range whose lower end ({low!r}) is above its upper end "
                f"({high!r}): exchange them, or give a list for single values"
            )
        return first, last
    lower = _number(column, low, name) if low is not None else np.array([_lowest(column)])
    upper = _number(column, high, name) if high is not None else np.array([_highest(column)])
    if not lower[0] <= upper[0]:
        raise ParameterError(
            f"given of column {name!r} is a range whose lower end ({low!r}) is above its upper end "
            f"({high!r}): exchange them, or give a list for single values"
        )
    if upper[0] < _lowest(column) or lower[0] > _highest(column):
        raise ParameterError(
            f"column {name!r} has no value between {low!r} and {high!r}: give a range within the bounds of the schema"
        )
    first, last = (_regular_index(column, grid, end) for end in (lower, upper))
    values, _ = numbers_at(column, np.array([first, last]))
    inner = first + int(values[0] < lower[0]), last - int(values[1] > upper[0])
    return inner if inner[0] <= inner[1] else (first, first)


def _special_within(column: Column, grid: Grid, ends: tuple[Any, Any], name: str) -> BoolArray:
    """Return which special values lie between two named ends and between the bounds, (special,)."""
    if not grid.special:
        return np.zeros(0, np.bool_)
    low, high = (None if end is None else _number(column, end, name)[0] for end in ends)
    least = max(_lowest(column), _lowest(column) if low is None else low)
    most = min(_highest(column), _highest(column) if high is None else high)
    return np.array([least <= number <= most for number in grid.special])


def _special_points(column: Column, grid: Grid) -> IntArray:
    """Return the grid points of the special values that lie between a column's bounds, which rules and ranges bind."""
    if not grid.special:
        return np.zeros(0, np.int64)
    return grid.regular + np.flatnonzero(_special_within(column, grid, (None, None), ""))


def _regular_index(column: Column, grid: Grid, number: AnyArray) -> int:
    """Return the regular grid point of a number, clipped to the bounds, even if the number is a special value."""
    clipped = np.clip(number, _lowest(column), _highest(column))
    index = int(encode(column, Numbers(clipped))[0])
    return index if index < grid.regular else int(encode(replace(column, special=()), Numbers(clipped))[0])


def _lowest(column: Column) -> int | float:
    """Return the least regular value of a column, in its own unit, at which a range without a lower end begins."""
    return bounds_of(column)[0]


def _highest(column: Column) -> int | float:
    """Return the greatest value of a column before rounding, in its own unit.

    A column that rounds down, as moments do, holds all values up to the end of its last step.
    """
    support = column.support()
    if isinstance(support, Steps) and support.rounds_down:
        return int(support.value(support.last + 1)) - 1
    return bounds_of(column)[1]


def _number(column: Column, value: Any, name: str) -> FloatArray | IntArray:
    """Return a named value in the form that encoders take, (1,): a number, or microseconds for times.

    Raise ParameterError if the value is no number or time.
    """
    try:
        found = column.number_named(value)
        whole = isinstance(found, int) and abs(found) <= LARGEST_WHOLE  # beyond, an end of a range beyond the bounds
        return np.array([found], np.int64) if whole else np.array([found], np.float64)
    except (TypeError, ValueError, OverflowError):
        kind = type(column).__name__
        refusal = ParameterError(f"{value!r} is not a value of column {name!r}, which is of type {kind}")
    raise refusal
