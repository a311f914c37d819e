"""Values that a person names (in a rule, a condition, a question) to units of a column, and cells to ranges of values."""

from __future__ import annotations

import numpy as np

from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.encoder import Labels, Numbers, decode, encode
from synthdp.domain.grid import grid_of, has_labels
from synthdp.errors import ParameterError
from synthdp.schema.columns import RESOLUTIONS, Column, Datetime, Duration, Identifier


def unit_of(column: Column, value: object) -> int:
    """Return the unit of one value; the null unit for ``None``, the "other" unit for what the column cannot hold.

    Raises
    ------
    ParameterError
        If the value is of another kind than the column's.
    """
    grid = grid_of(column)
    if value is None:
        return grid.other if grid.null is None else grid.null
    if has_labels(column):
        return int(encode(column, Labels([value], np.zeros(1, np.int64)))[0])
    try:
        return int(encode(column, Numbers(_numbers(column, value)))[0])
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{value!r} is not a value of a {type(column).__name__} column") from None


def units_of_values(column: Column, values: object, *, name: str = "") -> BoolArray:
    """Return which units a condition allows, (size,).

    Parameters
    ----------
    column
        The column.
    values
        One value, a list of values, or ``(lower, upper)`` for a column of numbers, both inclusive; ``None`` is missing.
    name
        What errors call the column.

    Raises
    ------
    ParameterError
        If the column cannot hold such a value.
    """
    grid = grid_of(column)
    if isinstance(column, Identifier):
        raise ParameterError(f"column {name!r} is an identifier: its labels carry no information")
    allowed = np.zeros(grid.size, np.bool_)
    if isinstance(values, tuple) and len(values) == 2 and not has_labels(column):
        first, last = (unit_of(column, bound) for bound in values)
        allowed[min(first, last) : max(first, last) + 1] = True
        return allowed
    for value in values if isinstance(values, (list, tuple, set, frozenset, range)) else [values]:
        unit = unit_of(column, value)
        if unit == grid.hidden:
            raise ParameterError(f"column {name!r} cannot hold the value {value!r}")
        allowed[unit] = True
    return allowed


def numbers_of_units(column: Column, units: IntArray) -> FloatArray:
    """Return the number behind each unit, comparable between columns of one kind; NaN for missing and special values."""
    grid = grid_of(column)
    raw = decode(column, units.astype(np.uint32))
    values = np.asarray(raw.values if isinstance(raw, Numbers) else raw.codes, np.float64)
    return np.where(units < grid.regular, values, np.nan)


def cell_bounds(axis: Axis) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest number of each cell's regular units, (size,) each; NaN where there are none."""
    regular = axis.starts < axis.grid.regular
    starts = axis.starts[regular]
    stops = np.minimum(np.append(axis.starts[1:], axis.grid.size)[regular], axis.grid.regular)
    low, high = np.full(axis.size, np.nan), np.full(axis.size, np.nan)
    np.fmin.at(low, axis.cells[regular], numbers_of_units(axis.column, starts))
    np.fmax.at(high, axis.cells[regular], numbers_of_units(axis.column, stops - 1))
    return low, high


def _numbers(column: Column, value: object) -> FloatArray | IntArray:
    if isinstance(column, Datetime):
        return np.array([value], "datetime64[us]").astype(np.int64)
    if isinstance(column, Duration):
        if isinstance(value, (int, float)):
            return np.array([value * RESOLUTIONS[column.resolution]], np.float64)
        return np.array([value], "timedelta64[us]").astype(np.int64)
    if isinstance(value, int):
        return np.array([value], np.int64)
    return np.array([float(value)], np.float64)  # type: ignore[arg-type]
