"""Values of one column <-> units of its grid.

Encoding is total: it never raises on a value and drops no row.  Numbers beyond the bounds are clipped, unforeseen
values go to "other", missing ones to the null unit.  Decoding is deterministic: the value of a unit is the roundest one
it holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, FloatArray, IntArray, Units, narrow
from synthdp.domain.grid import Grid, edges_of, grid_of, has_labels, labels_of
from synthdp.schema.columns import RESOLUTIONS, Column, Continuous, Datetime, Duration, Identifier, Integer

LARGEST_WHOLE = 2**62
"""Whole numbers beyond are clipped before anything else; no declared bound lies beyond."""


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """A column of numbers; datetimes are microseconds since 1970 UTC, durations microseconds.

    Parameters
    ----------
    values
        (n,) float64 (NaN is missing) or int64.
    missing
        (n,) where the value is missing, or ``None`` for nowhere else.
    """

    values: FloatArray | IntArray
    missing: BoolArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """A column of labels.

    Parameters
    ----------
    levels
        The different values, in any order.
    codes
        (n,) index of each row's value in ``levels``; -1 is missing.
    """

    levels: list[Any]
    codes: IntArray


RawColumn: TypeAlias = Numbers | Labels


def encode(column: Column, raw: RawColumn) -> Units:
    """Return the unit of every value, (n,) in the narrowest unsigned type."""
    grid = grid_of(column)
    if isinstance(column, Identifier):
        n = len(raw.codes) if isinstance(raw, Labels) else len(raw.values)
        return np.zeros(n, np.uint8)
    if has_labels(column):
        units = _encode_labels(column, grid, raw if isinstance(raw, Labels) else labels_of_numbers(raw))
    else:
        if isinstance(raw, Labels):
            raw = whole_numbers_of_labels(raw) if isinstance(column, Integer) else numbers_of_labels(raw)
        units = _encode_numbers(column, grid, raw)
    return narrow(units, grid.size)


def decode(column: Column, units: Units) -> RawColumn:
    """Return the value of every unit; the inverse of `encode` on the units that may be released."""
    grid = grid_of(column)
    codes = units.astype(np.int64)
    if isinstance(column, Identifier):
        return fresh_labels(column, len(codes))
    if has_labels(column):
        return Labels(list(labels_of(column)), np.where(codes < grid.regular, codes, -1))
    missing = codes >= grid.regular + len(grid.special)
    regular = np.minimum(codes, grid.regular - 1)
    match column:
        case Continuous():
            values: AnyArray = _decimal_values(column, grid, regular)
        case Integer(lower, upper):
            values = _whole_values(column, grid, regular, int(lower or 0), int(upper or 0))
        case Datetime() | Duration():
            values = _whole_values(column, grid, regular, *column.steps) * RESOLUTIONS[column.resolution]
        case _:  # pragma: no cover - the cases above are all columns without labels
            raise TypeError(type(column).__name__)
    for i, special in enumerate(grid.special):
        values = np.where(codes == grid.regular + i, np.asarray(special, dtype=values.dtype), values)
    return Numbers(values, missing if missing.any() else None)


def _encode_labels(column: Column, grid: Grid, raw: Labels) -> IntArray:
    position = {level: i for i, level in enumerate(labels_of(column))}
    null = grid.other if grid.null is None else grid.null
    of_level = np.array([_position(position, level, grid.other, null) for level in raw.levels] + [null], np.int64)
    return of_level[raw.codes]


def _position(position: dict[Any, int], level: object, other: int, null: int) -> int:
    try:
        if level is None or (isinstance(level, float) and math.isnan(level)):
            return null
        found = position.get(level)
    except Exception:  # noqa: BLE001 - not hashable, or an object that refuses comparison: no label is an error
        return other
    return other if found is None else found


def _encode_numbers(column: Column, grid: Grid, raw: Numbers) -> IntArray:
    values = raw.values
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), np.bool_)
    if raw.missing is not None:
        missing |= raw.missing
    if isinstance(column, Integer) and values.dtype.kind == "f":
        values = np.rint(values)
    match column:
        case Continuous(lower, upper):
            x = np.clip(np.where(missing, float(lower or 0.0), values).astype(np.float64), lower, upper)
            units = _cell_of(column, x, grid.regular)
        case Integer(lower, upper):
            units = (_whole(np.where(missing, int(lower or 0), values), int(lower or 0), int(upper or 0))) // grid.width
        case Datetime() | Duration():
            first, last = column.steps
            step = RESOLUTIONS[column.resolution]
            x = np.where(missing, first * step, values)
            whole = np.floor(x / step) if x.dtype.kind == "f" else x // step
            units = _whole(whole, first, last) // grid.width
        case _:  # pragma: no cover - the cases above are all columns without labels
            raise TypeError(type(column).__name__)
    for i, special in enumerate(grid.special):
        units = np.where(values == special, grid.regular + i, units)
    return np.where(missing, grid.other if grid.null is None else grid.null, units)


def _cell_of(column: Continuous, x: FloatArray, regular: int) -> IntArray:
    lower, upper = float(column.lower or 0.0), float(column.upper or 0.0)
    units = np.clip(np.floor((x - lower) / (upper - lower) * regular), 0, regular - 1).astype(np.int64)
    units -= (x < edges_of(column, units)) & (units > 0)  # rounding above may miss by one
    units += (x >= edges_of(column, units + 1)) & (units < regular - 1)
    return units


def _whole(values: AnyArray, first: int, last: int) -> AnyArray:
    """Return the steps above ``first`` of whole numbers clipped to first <= x <= last."""
    if values.dtype.kind == "f":
        values = np.clip(values, -(2.0**62), 2.0**62)
    inside = np.clip(values.astype(np.int64), first, last)
    return np.asarray(inside.view(np.uint64) - np.array(first).view(np.uint64))  # up to 2^63: unsigned


def labels_of_numbers(raw: Numbers) -> Labels:
    """Return numbers as labels, each different number a level."""
    missing = np.isnan(raw.values) if raw.values.dtype.kind == "f" else np.zeros(len(raw.values), np.bool_)
    if raw.missing is not None:
        missing |= raw.missing
    levels, codes = np.unique(np.where(missing, 0, raw.values), return_inverse=True)
    return Labels(levels.tolist(), np.where(missing, -1, codes))


def numbers_of_labels(raw: Labels) -> Numbers:
    """Return labels as real numbers; what is no number is missing."""
    of_level: FloatArray = np.array([*(_number(level) for level in raw.levels), math.nan], np.float64)
    return Numbers(np.asarray(of_level[raw.codes]))


def whole_numbers_of_labels(raw: Labels) -> Numbers:
    """Return labels as the nearest whole numbers, exact to 63 bits; what is no number is missing."""
    found = [*(_whole_number(level) for level in raw.levels), None]
    values = np.array([0 if number is None else number for number in found], np.int64)
    missing = np.array([number is None for number in found])[raw.codes]
    return Numbers(values[raw.codes], missing if missing.any() else None)


def _number(level: object) -> float:
    try:
        return float(level)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf if level > 0 else -math.inf  # type: ignore[operator]
    except Exception:  # noqa: BLE001 - whatever the object does, it is no number
        return math.nan


def _whole_number(level: object) -> int | None:
    if isinstance(level, str):
        try:
            level = int(level)
        except ValueError:  # a text of a number that is not whole, or of none
            level = _number(level)
    if not isinstance(level, (int, Decimal, Fraction)) or (isinstance(level, Decimal) and level.is_nan()):
        level = _number(level)
        if math.isnan(level):
            return None
    # Clipped before it is rounded: a decimal of few digits may be a whole number of a billion.
    return round(max(-LARGEST_WHOLE, min(level, LARGEST_WHOLE)))


def _decimal_values(column: Continuous, grid: Grid, units: IntArray) -> FloatArray:
    """Value of each regular unit: the bounds themselves at the ends, else the shortest decimal, none that is special."""
    different, place = _different(units, grid.regular)
    low, high = edges_of(column, different), edges_of(column, different + 1)
    values = shortest_decimals(low, high)
    values[different == 0] = column.lower
    values[different == grid.regular - 1] = column.upper
    parts = len(grid.special) + 1
    for k in range(1, parts):
        values = np.where(np.isin(values, grid.special), low + (high - low) * (k / parts), values)
    return np.asarray(values[place])


def _different(units: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return the different units in order, and the place of every unit among them."""
    if len(units) < size // 8:
        different, place = np.unique(units, return_inverse=True)
        return different, place
    present = np.zeros(size, np.bool_)
    present[units] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[units]


def shortest_decimals(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return for each interval low <= x < high the decimal with the fewest digits; the lower end if there is none.

    Parameters
    ----------
    low, high
        (n,) ends of the intervals.
    """
    values, open_ = low.copy(), np.arange(len(low))
    widest = float(np.max(high - low, initial=0.0))
    first = -math.floor(math.log10(widest)) - 1 if widest > 0 else 0
    for digits in range(max(first, -308), min(first + 18, 309)):  # the powers of ten that are floats
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.ceil(low * 10.0**digits) if digits >= 0 else np.ceil(low / 10.0**-digits)
            rounded = scaled / 10.0**digits if digits >= 0 else scaled * 10.0**-digits
        fits = (low <= rounded) & (rounded < high)
        values[open_[fits]] = rounded[fits]
        open_, low, high = open_[~fits], low[~fits], high[~fits]
    return values


def _whole_values(column: Column, grid: Grid, units: IntArray, lower: int, upper: int) -> IntArray:
    """Value of each regular unit: the bounds themselves at the ends, else the roundest step, none that is special."""
    low = lower + units * grid.width
    if grid.width == 1:
        return low
    high = np.minimum(low + grid.width, upper + 1)
    values, open_ = low.copy(), np.ones(len(low), np.bool_)
    for step in _round_steps(column, grid.width):
        rounded = -(-low // step) * step
        fits = open_ & (rounded < high)
        values[fits] = rounded[fits]
        open_ &= ~fits
    values[units == 0] = lower
    values[high == upper + 1] = upper
    for k in range(len(grid.special)):
        values = np.where(np.isin(values, grid.special), np.minimum(low + k, high - 1), values)
    return values


def _round_steps(column: Column, width: int) -> list[int]:
    """Return round numbers of steps, the roundest first: powers of ten, or days, hours, minutes and their parts."""
    if not isinstance(column, (Datetime, Duration)):
        return [10**power for power in range(len(str(width)), -1, -1)]
    step = RESOLUTIONS[column.resolution]
    clock = [1_000_000 * seconds for seconds in (86_400, 43_200, 21_600, 3_600, 1_800, 900, 600, 300, 60, 30, 10, 5)]
    steps = [length // step for length in (*clock, *(10**power for power in range(6, -1, -1))) if length % step == 0]
    return [days * steps[0] for days in (365, 30, 7)] + steps if width > 7 * steps[0] else steps


def fresh_labels(column: Identifier, rows: int, *, first: int = 0) -> RawColumn:
    """Return meaningless labels of an identifier for rows that follow on ``first`` others."""
    numbers = np.arange(first + 1, first + rows + 1, dtype=np.int64)
    if column.prefix is None:
        return Numbers(numbers)
    return Labels([f"{column.prefix}{i}" for i in numbers.tolist()], np.arange(rows))
