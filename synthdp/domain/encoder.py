"""Values of one column <-> its grid points: `encode` gives a cell of a table its grid index, `decode` gives it back.

The grid index of a value becomes its code, the bin of a question, in `synthdp.domain.domain.Domain.codes`.

Encoding is total: it never raises on a value and drops no row.  Numbers beyond the bounds are clipped, unforeseen
values go to "other", missing ones to the null grid point.  Decoding gives the roundest value of a grid point, or one
drawn from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, AnyArray, BoolArray, FloatArray, GridIndices, IntArray, narrow
from synthdp.domain.fresh_keys import keys_of_pattern
from synthdp.domain.grid import Grid, bounds_of, edges_of, grid_of, starts_of_classes
from synthdp.randomness import Generator
from synthdp.schema.column import Column, Fresh, Interval, Level, Levels, Steps


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """A column of numbers; datetimes are microseconds since 1970 UTC, durations microseconds.

    Parameters
    ----------
    values
        (n,) float64 (NaN is missing) or int64.
    missing
        (n,) where the value is missing; ``None`` if only NaN stands for missing.
    """

    values: FloatArray | IntArray
    missing: BoolArray | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.values)

    @property
    def gone(self) -> BoolArray:
        """(n,) whether a value is missing, which the mask or NaN says."""
        missing = np.isnan(self.values) if self.values.dtype.kind == "f" else np.zeros(len(self.values), np.bool_)
        return missing if self.missing is None else missing | self.missing


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

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def gone(self) -> BoolArray:
        """(n,) whether a value is missing."""
        return np.asarray(self.codes < 0)


RawColumn: TypeAlias = Numbers | Labels


def rows_of(raw: RawColumn, rows: AnyArray) -> RawColumn:
    """Return some rows of a raw column, given by their positions, (m,), or by a mask, (rows,)."""
    if isinstance(raw, Labels):
        return Labels(raw.levels, raw.codes[rows])
    return Numbers(raw.values[rows], None if raw.missing is None else raw.missing[rows])


def together(parts: Sequence[RawColumn]) -> RawColumn:
    """Concatenate raw columns, such as the blocks of one; labels with different levels get a common list of levels."""
    if len(parts) == 1:
        return parts[0]
    labels = [one for one in parts if isinstance(one, Labels)]
    if labels:
        if all(one.levels == labels[0].levels for one in labels):
            return Labels(labels[0].levels, np.concatenate([one.codes for one in labels]))
        ends = np.cumsum([0, *(len(one.levels) for one in labels)])
        codes = [np.where(one.codes < 0, -1, one.codes + start) for one, start in zip(labels, ends, strict=False)]
        return Labels([level for one in labels for level in one.levels], np.concatenate(codes))
    numbers = [one for one in parts if isinstance(one, Numbers)]
    missing = None
    if any(one.missing is not None for one in numbers):
        missing = np.concatenate(
            [np.zeros(one.rows, np.bool_) if one.missing is None else one.missing for one in numbers]
        )
    return Numbers(np.concatenate([one.values for one in numbers]), missing)


@np.errstate(all="ignore")  # a floating-point warning would tell of one value, an error where those are errors the more
def encode(column: Column, raw: RawColumn) -> GridIndices:
    """Return the grid index of every value, (n,) in the narrowest unsigned type; never raises on a value."""
    grid = grid_of(column)
    match column.support():
        case Fresh():
            return np.zeros(raw.rows, np.uint8)
        case Levels(levels):
            indices = _encode_labels(levels, grid, raw if isinstance(raw, Labels) else labels_of_numbers(raw))
        case (Interval() | Steps()) as support:
            if isinstance(raw, Labels):
                raw = whole_numbers_of_labels(raw) if column.whole else numbers_of_labels(raw)
            indices = _encode_numbers(support, grid, raw)
    return narrow(indices, grid.size)


def decode(column: Column, indices: GridIndices, *, rng: Generator | None = None) -> RawColumn:
    """Return the value of every grid point; the inverse of `encode` on the grid points that may be released.

    Parameters
    ----------
    column
        The column.
    indices
        (n,) the grid indices.
    rng
        Draws a value for every grid point, uniformly among the evenly spaced values that it holds; ``None`` gives the
        roundest of them.
    """
    grid, support = grid_of(column), column.support()
    if rng is None and len(indices) > grid.size and not isinstance(support, Fresh):
        each = narrow(np.arange(grid.size), grid.size)  # the value of each grid point is computed once
        found = decode(column, each)
        if isinstance(found, Labels):
            return Labels(found.levels, found.codes.take(indices))
        gone = None if found.missing is None else found.missing.take(indices)
        return Numbers(found.values.take(indices), gone if gone is not None and gone.any() else None)
    codes = indices.astype(np.int64)
    regular = np.minimum(codes, grid.regular - 1)
    match support:
        case Fresh() as labels:
            return fresh_labels(labels, len(codes))
        case Levels(levels):
            return Labels(list(levels), np.where(codes < grid.regular, codes, -1))
        case Interval() as interval:
            values: AnyArray = _class_values(column, regular)
            if not len(values):
                values = _decimal_values(interval, grid, regular)
        case Steps() as steps:
            values = steps.value(_roundest(steps, grid, regular) if rng is None else _spread(steps, grid, regular, rng))
    missing = codes >= grid.regular + len(grid.special)
    for i, special in enumerate(grid.special):
        values = np.where(codes == grid.regular + i, np.asarray(special, dtype=values.dtype), values)
    return Numbers(values, missing if missing.any() else None)


def _encode_labels(levels: Sequence[Level], grid: Grid, raw: Labels) -> IntArray:
    """Return the (rows,) grid indices of labels; unknown labels get the grid point "other".

    Missing labels get the grid point of missing values, or "other" if the column declares none missing.
    """
    position = {level: i for i, level in enumerate(levels)}
    null = grid.other if grid.null is None else grid.null
    of_level = np.array([_position(position, level, grid.other, null) for level in raw.levels] + [null], np.int64)
    return of_level[raw.codes]


def _position(position: dict[Any, int], level: object, other: int, null: int) -> int:
    """Return the grid index of one label: ``null`` if it is missing, ``other`` if unknown or not to be compared."""
    try:
        if level is None or (isinstance(level, float) and math.isnan(level)):
            return null
        found = position.get(level)
    except Exception:  # noqa: BLE001 - not hashable, or an object that refuses comparison: no label is an error
        return other
    return other if found is None else found


def _encode_numbers(support: Interval | Steps, grid: Grid, raw: Numbers) -> IntArray:
    """Return the grid indices of numbers, (rows,), after clipping to the bounds.

    Missing numbers and special values have grid points of their own.
    """
    values, missing = raw.values, raw.gone
    match support:
        case Interval(lower, upper):
            x = np.clip(np.where(missing, lower, values).astype(np.float64), lower, upper)
            indices = _cell_of(support, x, grid.regular)
        case Steps(first, last):
            if values.dtype.kind == "f" and not support.rounds_down and support.denominator is None:
                values = np.rint(values)
            steps = _steps_of(support, np.where(missing, support.value(first), values))
            indices = grid.points_of(_whole(steps, first, last))
    for i, special in enumerate(grid.special):
        indices = np.where(values == special, grid.regular + i, indices)
    return np.where(missing, grid.other if grid.null is None else grid.null, indices)


def _cell_of(interval: Interval, x: FloatArray, regular: int) -> IntArray:
    """Return the part of an interval that each number lies in, (rows,); a number on an edge is in the upper part.

    There are ``regular`` equal parts, and numbers beyond the bounds are in the end parts.
    """
    lower, upper = interval.lower, interval.upper
    indices = np.clip(np.floor((x - lower) / (upper - lower) * regular), 0, regular - 1).astype(np.int64)
    indices -= (x < edges_of(interval, indices)) & (indices > 0)  # rounding above may miss by one
    indices += (x >= edges_of(interval, indices + 1)) & (indices < regular - 1)
    return indices


def _steps_of(steps: Steps, values: AnyArray) -> AnyArray:
    """Return each value as a number of steps, (n,), rounded to the nearest, or down where the column says so.

    Values beyond the bounds come out at the last steps or beyond, for `_whole` to clip.
    """
    size, offset = steps.size, steps.offset
    if steps.denominator is not None:
        return np.asarray(np.rint((values.astype(np.float64) * steps.denominator - offset) / size))
    if (size, offset) == (1, 0):
        return values
    half = 0 if steps.rounds_down else size // 2
    if values.dtype.kind == "f":
        return np.asarray(np.floor((values - offset + half) / size))
    inside = np.clip(values, steps.value(steps.first), steps.value(steps.last) + size - 1)
    return np.asarray((inside - offset + half) // size)


def _whole(values: AnyArray, first: int, last: int) -> AnyArray:
    """Clip whole numbers of steps, (n,), to first..last, and return their distance from ``first``, (n,).

    The distance may be up to 2^63, so the result is unsigned.
    """
    if values.dtype.kind == "f":
        values = np.clip(values, -float(LARGEST_WHOLE), float(LARGEST_WHOLE))
    inside = np.clip(values.astype(np.int64), first, last)
    return np.asarray(inside.view(np.uint64) - np.array(first).view(np.uint64))  # up to 2^63: unsigned


def labels_of_numbers(raw: Numbers) -> Labels:
    """Return a numeric column as labels, with each distinct number as a level, for columns declared by levels."""
    missing = raw.gone
    levels, codes = np.unique(np.where(missing, 0, raw.values), return_inverse=True)
    return Labels(levels.tolist(), np.where(missing, -1, codes))


def numbers_of_labels(raw: Labels) -> Numbers:
    """Return a column of labels as real numbers; labels that are no numbers become missing."""
    of_level: FloatArray = np.array([*(_number(level) for level in raw.levels), math.nan], np.float64)
    return Numbers(np.asarray(of_level[raw.codes]))


def whole_numbers_of_labels(raw: Labels) -> Numbers:
    """Return labels as the nearest whole numbers, exact within ±2^62; labels that are no numbers become missing."""
    return read_each(raw, _whole_number)


def read_each(raw: Labels, read: Callable[[Any], int | None]) -> Numbers:
    """Return labels as integers; each distinct label is read once, and a label is missing where ``read`` returns None."""
    found = [*(read(level) for level in raw.levels), None]
    values = np.array([0 if number is None else number for number in found], np.int64)
    missing = np.array([number is None for number in found])[raw.codes]
    return Numbers(values[raw.codes], missing if missing.any() else None)


def _number(level: object) -> float:
    """Return a label as a float: infinite if too large, NaN if it is no number; never raises."""
    try:
        return float(level)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf if level > 0 else -math.inf  # type: ignore[operator]
    except Exception:  # noqa: BLE001 - whatever the object does, it is not a number
        return math.nan


def _whole_number(level: object) -> int | None:
    """Return a label as the nearest whole number within ±2^62, which int64 holds, or None if it is no number.

    A label that is a whole number is converted exactly, not through a float.
    """
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


def _decimal_values(interval: Interval, grid: Grid, indices: IntArray) -> FloatArray:
    """Return the value of each regular grid point of an interval, (n,): the shortest decimal inside.

    The first and the last grid point have the column's bounds as values. A special value is never returned, because
    special values have grid points of their own.
    """
    different, place = _different(indices, grid.regular)
    low, high = edges_of(interval, different), edges_of(interval, different + 1)
    values = shortest_decimals(low, high)
    values[different == 0] = interval.lower
    values[different == grid.regular - 1] = interval.upper
    parts = len(grid.special) + 1
    for k in range(1, parts):
        values = np.where(np.isin(values, grid.special), low + (high - low) * (k / parts), values)
    return np.asarray(values[place])


def _class_values(column: Column, indices: IntArray) -> FloatArray:
    """Return the number that stands for the class of each regular grid point, (n,), such as a class's mean weight.

    The result is empty if the column has no classes.
    """
    of_class = np.array(column.class_values(), np.float64)
    if not len(of_class):
        return of_class
    return np.asarray(of_class[np.searchsorted(starts_of_classes(column), indices, side="right") - 1])


def _different(indices: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return the distinct grid indices, sorted, and the position of each index among them, (n,).

    Each distinct index is then decoded once. For many indices a table of all grid points is faster than ``np.unique``.
    """
    if len(indices) < size // 8:
        different, place = np.unique(indices, return_inverse=True)
        return different, place
    present = np.zeros(size, np.bool_)
    present[indices] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[indices]


def shortest_decimals(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return for each interval low <= x < high, (n,), the decimal with the fewest digits, or the lower end if none is.

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


def _spread(steps: Steps, grid: Grid, indices: IntArray, rng: Generator) -> IntArray:
    """Draw a step uniformly from each regular grid point, (n,); a special value is never drawn.

    So values inside a grid point vary as freely as the column's declaration allows.
    """
    if grid.width == 1:
        return steps.first + indices
    low, high = (steps.first + grid.first_steps(indices + end).view(np.int64) for end in (0, 1))
    drawn: IntArray = rng.integers(low, high)
    special = np.isin(steps.value(drawn), grid.special)
    drawn[special] = _roundest(steps, grid, indices[special])
    return drawn


def _roundest(steps: Steps, grid: Grid, indices: IntArray) -> IntArray:
    """Return the step with the fewest digits in each regular grid point, (n,); the bounds at both ends of the range.

    A special value is never returned, because special values have grid points of their own.
    """
    lower, upper = steps.first, steps.last
    if grid.width == 1:
        return lower + indices
    low, high = (lower + grid.first_steps(indices + end).view(np.int64) for end in (0, 1))
    values, open_ = low.copy(), np.ones(len(low), np.bool_)
    for step in _round_steps(steps, grid.width):
        rounded = -(-low // step) * step
        fits = open_ & (rounded < high)
        values[fits] = rounded[fits]
        open_ &= ~fits
    values[indices == 0] = lower
    values[high == upper + 1] = upper
    for k in range(len(grid.special) + 1):
        values = np.where(np.isin(steps.value(values), grid.special), np.minimum(low + k, high - 1), values)
    return values


def _round_steps(steps: Steps, width: int) -> list[int]:
    """Return round step sizes, the roundest first, among whose multiples `_roundest` looks for a grid point's value.

    Sizes of numbers are powers of ten; sizes of times are days, hours, minutes and their parts. If a grid point of
    ``width`` steps is wider than a week, years, months of 30 days and weeks come first.
    """
    if not steps.clock:
        return [10**power for power in range(len(str(width)), -1, -1)]
    day = steps.clock[0]
    return [days * day for days in (365, 30, 7) if width > 7 * day] + list(steps.clock)


def fresh_labels(labels: Fresh, rows: int, *, first: int = 0) -> RawColumn:
    """Return meaningless identifiers for ``rows`` new rows, which are numbered from ``first``.

    Blocks of one synthetic table begin at different numbers, so that no identifier occurs twice.
    """
    if labels.pattern is not None:
        return Labels(keys_of_pattern(labels.pattern, first, rows), np.arange(rows))
    numbers = np.arange(first + 1, first + rows + 1, dtype=np.int64)
    if labels.prefix is None:
        return Numbers(numbers)
    return Labels([f"{labels.prefix}{i}" for i in numbers.tolist()], np.arange(rows))


def conform(column: Column, raw: RawColumn) -> RawColumn:
    """Return values as the schema allows them: numbers clipped, unforeseen labels made missing or "other".

    Identifiers, and columns without declared bounds or levels, are left unchanged.
    """
    if column.names_rows or not column.is_complete:
        return raw
    if column.quantity != "number" or not isinstance(raw, Numbers):
        return decode(column, encode(column, raw))
    grid, (lower, upper) = grid_of(column), bounds_of(column)
    clipped = np.clip(raw.values, lower, upper)
    for special in grid.special:
        clipped = np.where(raw.values == special, raw.values, clipped)
    if column.whole and clipped.dtype.kind == "f":
        clipped = np.rint(clipped)
    whole = raw.values.dtype.kind == "i"
    return replace(raw, values=clipped.astype(np.int64) if whole else clipped.astype(np.float64))
