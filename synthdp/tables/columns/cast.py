"""Converts released values to the values that a column's type can hold, within the declared range.

The builders of all dataframe libraries use it; it depends on none of them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import suppress
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, AnyArray, FloatArray, IntArray
from synthdp.domain.encoder import Numbers
from synthdp.domain.grid import bounds_of, grid_of
from synthdp.errors import FormatError
from synthdp.schema.column import Column, Fresh, Level, Levels
from synthdp.schema.times import CALENDAR
from synthdp.tables.parse import MICROSECONDS, text_of_level
from synthdp.tables.refusals import instead_of

LARGEST_NANO = 2**63 // 1000 - 1
"""Largest number of microseconds that fits in a 64-bit number of nanoseconds; times beyond are clipped to it where an
output type counts nanoseconds.  A safety limit."""


def levels_as_text(levels: Sequence[Level], column: Column | None = None) -> list[str]:
    """Return levels as texts, in the column's declared text format if it has one."""
    form = None if column is None else column.cells
    return [text_of_level(level) if form is None else form.write(level) for level in levels]


def levels_as_whole(levels: Sequence[Level], *, first: int, last: int) -> list[int]:
    """Return levels as integers from ``first`` to ``last``, the range of an output type.

    Raises
    ------
    FormatError
        If a level is no whole number in this range.
    """
    numbers = [_number(level) for level in levels]
    if any(number != int(number) or not first <= number <= last for number in numbers):
        raise FormatError(
            f"this type holds whole numbers from {first} to {last} only, and a declared level is not one of them"
        )
    return [int(number) for number in numbers]


def levels_as_float(levels: Sequence[Level]) -> list[float]:
    """Return levels as floats, for an output type of real numbers.

    Raises
    ------
    FormatError
        If a level is not a number.
    """
    return [float(_number(level)) for level in levels]


def levels_as_bool(levels: Sequence[Level]) -> list[bool]:
    """Return levels as booleans, for an output type of truth values.

    Raises
    ------
    FormatError
        If a level is neither true nor false.
    """
    return [number == 1 for number in levels_as_whole(levels, first=0, last=1)]


def _number(level: Level) -> float | int:
    """Return a level as a number ("true" and "false" as 1 and 0); raise FormatError for any other word."""
    if not isinstance(level, str):
        return level
    words = {"true": 1, "false": 0}
    if level.casefold() in words:
        return words[level.casefold()]
    with instead_of(ValueError, say=FormatError("this type holds numbers only, and a declared level is not a number")):
        return int(level) if level.strip().lstrip("+-").isdigit() else float(level)


def whole(column: Column, raw: Numbers, *, first: int, last: int) -> AnyArray:
    """Return numbers as integers within an output type's range, (n,), rounded inside the declared bounds; 0 where missing.

    Integers are unsigned if ``first`` is not negative.  Times with a text format are its digits, such as 20260131.
    """
    if column.temporal and column.cells is not None:
        raw = Numbers(np.array([int(text or 0) for text in _digits(column, raw, last)], np.int64), raw.gone)
    else:
        _check_numbers(column)
    missing = raw.gone
    values: AnyArray = np.where(missing, 0, raw.values) if missing.any() else raw.values
    if values.dtype.kind == "f":
        lower, upper = bounds(column)
        inside = np.clip(np.rint(values), np.ceil(lower), np.floor(upper))
        largest = float(last) if int(float(last)) <= last else np.nextafter(float(last), 0)
        values = np.clip(np.where(np.isin(values, _special(column)), np.rint(values), inside), first, largest)
    else:
        values = np.clip(values, max(first, -(2**63)), min(last, 2**63 - 1))
    found = values.astype(np.int64 if first < 0 else np.uint64, copy=False)
    found[missing] = 0
    return found


def real(column: Column, raw: Numbers, dtype: np.dtype[Any]) -> FloatArray:
    """Return numbers as floats of an output precision, (n,), rounded inside the declared bounds; NaN where missing.

    Times with a text format are its digits, such as 20260131.
    """
    if column.temporal and column.cells is not None:
        digits = [np.nan if text is None else float(text) for text in _digits(column, raw, LARGEST_WHOLE)]
        return np.array(digits, np.float64).astype(dtype)
    _check_numbers(column)
    exact = raw.values.astype(np.float64, copy=False)
    limits = np.finfo(dtype)
    values = np.clip(exact, limits.min, limits.max).astype(dtype, copy=False)
    if limits.dtype != np.float64:  # fewer digits may lie on the other side of a bound
        lower, upper = bounds(column)
        inside = (lower <= exact) & (exact <= upper)
        values = np.where(inside & (values.astype(np.float64) > upper), np.nextafter(values, limits.min), values)
        values = np.where(inside & (values.astype(np.float64) < lower), np.nextafter(values, limits.max), values)
    values[raw.gone] = np.nan
    return values


def decimals(column: Column | None, raw: Numbers, *, precision: int, scale: int) -> list[Decimal | None]:
    """Return numbers as ``Decimal`` with ``scale`` decimals, rounded inside declared bounds; ``None`` where missing.

    Numbers are clipped to ``precision`` digits in all, the most that the output type holds.
    """
    _check_numbers(column)
    lower, upper = (Decimal(bound) for bound in bounds(column))
    step = Decimal(1).scaleb(-scale)
    largest = Decimal(10) ** (precision - scale) - step
    special = _special(column)

    def rounded(value: Decimal, exact: float) -> Decimal:
        near = value.quantize(step, ROUND_HALF_EVEN)
        if exact not in special and near > upper:
            near = value.quantize(step, ROUND_FLOOR)
        if exact not in special and near < lower:
            near = value.quantize(step, ROUND_CEILING)
        return max(-largest, min(near, largest))

    missing = raw.gone
    exact = {value: rounded(Decimal(repr(value)), value) for value in set(raw.values[~missing].tolist())}
    return [None if gone else exact[value] for value, gone in zip(raw.values.tolist(), missing, strict=True)]


def ticks(column: Column, raw: Numbers, resolution: str) -> IntArray:
    """Return times, (n,), as integers in units of ``resolution`` ("D", "s", "ms", "us" or "ns"); 0 where missing.

    Times are rounded within the bounds, and clipped to what the resolution, and for moments Python's calendar, can
    hold.

    Raises
    ------
    FormatError
        If the column holds no times.
    """
    if not column.temporal:
        raise FormatError("this type holds dates or times only, and the schema declares neither")
    first, last = CALENDAR if column.quantity == "moment" else (-LARGEST_WHOLE, LARGEST_WHOLE)
    if resolution == "ns":
        first, last = max(first, -LARGEST_NANO), min(last, LARGEST_NANO)
    step = MICROSECONDS.get(resolution, 1)
    lower, upper = bounds_of(column)
    micros = np.where(raw.gone, 0, raw.values).astype(np.int64)
    down = micros - micros % step
    down = np.where((down < lower) & (down + step <= upper), down + step, down)
    micros = np.clip(np.where(raw.gone, 0, down), first, last)
    return micros * 1000 if resolution == "ns" else micros // step


def kind(column: Column) -> str:
    """Return the word for how a column's values are stored, by which each library's default type is found.

    The word is "text" with a declared text format; text, flag, whole, real or mixed for labels; text or whole for
    identifiers; else `Column.stored_as`.  Labels that are whole numbers of more than 64 bits are mixed.
    """
    if column.cells is not None:
        return "text"
    match column.example().support():
        case Fresh(prefix, pattern):
            return "whole" if prefix is None and pattern is None else "text"
        case Levels(levels):
            kinds = {type(level) for level in levels}
            plain = {str: "text", bool: "flag", int: "whole", float: "real"}
            found = plain.get(kinds.pop(), "mixed") if len(kinds) == 1 else "mixed"
            return "mixed" if found == "whole" and not all(map(_is_64_bit, levels)) else found
        case _:
            return column.stored_as


def _is_64_bit(level: object) -> bool:
    """Return whether a level is a whole number of at most 64 signed bits, the widest integer type of every library."""
    return isinstance(level, int) and -(2**63) <= level < 2**63


def scale(column: Column) -> int:
    """Return the number of decimals of a decimal column, 0 without any: the scale of its output type."""
    return int(getattr(column, "decimals", 0) or 0)


def zone(column: Column) -> str | None:
    """Return the declared zone in which a column's moments are shown; ``None`` without one, or with a text format."""
    return None if column.cells is not None else getattr(column, "zone", None)


def texts(column: Column, raw: Numbers) -> list[str | None]:
    """Return numbers or times as texts, (n,), in the column's format; ``None`` where missing.

    Without a format, a text has the fewest digits that give the same value when it is read.

    Moments of a zone are written in ISO 8601, with a ``Z`` for UTC.
    """
    form = column.cells
    if form is not None:
        values = ticks(column, raw, "us").tolist() if column.temporal else objects(column, raw)
        return [None if gone else form.write(value) for value, gone in zip(values, raw.gone, strict=True)]
    found, place = objects(column, raw), zone(column)
    if place is not None:
        there = _zone_named(place)
        found = [_in_zone(value, there) if isinstance(value, dt.datetime) else value for value in found]
    return [None if value is None else str(value) for value in found]


def zoned(moment: dt.datetime) -> str:
    """Return a zoned moment in ISO 8601, with ``Z`` for UTC."""
    text = moment.isoformat()
    return f"{text[:-6]}Z" if text.endswith("+00:00") else text


def _zone_named(name: str) -> dt.tzinfo:
    """Return a time zone by its name or its offset; raise FormatError if there is none."""
    with suppress(KeyError, ValueError, OSError):
        return ZoneInfo(name)
    with instead_of(ValueError, say=FormatError(f"no time zone is called {name}")):
        return dt.datetime.fromisoformat(f"2000-01-01T00:00{name}").tzinfo or dt.UTC


def _in_zone(moment: dt.datetime, zone: dt.tzinfo) -> str:
    """Return a moment in UTC as text in a time zone."""
    return zoned(moment.replace(tzinfo=dt.UTC).astimezone(zone))


def objects(column: Column, raw: Numbers) -> list[Any]:
    """Return numbers or times as Python objects, such as datetimes; ``None`` where missing."""
    plain = (ticks(column, raw, "us") if column.temporal else raw.values).tolist()
    return [None if gone else column.as_object(value) for value, gone in zip(plain, raw.gone, strict=True)]


def _digits(column: Column, raw: Numbers, last: int) -> list[str | None]:
    """Return times as texts of the digits of their format, such as "20260131", for an output type of integers.

    Missing times are ``None``.

    Raises
    ------
    FormatError
        If the format has other characters than digits, or more digits than every number up to ``last`` can show.
    """
    found = texts(column, raw)
    if not all(text is None or (text.isascii() and text.isdigit() and 10 ** len(text) <= last) for text in found):
        raise FormatError(
            "this type holds whole numbers only, but the declared format of the dates has other characters than "
            "digits, or too many digits"
        )
    return found


def bounds(column: Column | None) -> tuple[float, float]:
    """Return a number column's declared bounds, to round inside them; (-inf, inf) for labels, times and ``None``."""
    if column is None or column.quantity != "number":
        return -np.inf, np.inf
    lower, upper = bounds_of(column)
    return float(lower), float(upper)


def _special(column: Column | None) -> tuple[float, ...]:
    """Return the special values of a column (such as -1 for "refused"), which rounding must not move."""
    return () if column is None else grid_of(column).special


def _check_numbers(column: Column | None) -> None:
    """Raise FormatError if the column holds times, which a type of numbers cannot show."""
    if column is not None and column.temporal:
        raise FormatError("this type holds numbers only, and the schema declares dates or times")
