"""Bounds for numbers and moments of a draft: round, and close around the values.

NOT private: the bounds depend on the smallest and the largest value of a table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from synthdp.arrays import LARGEST_WHOLE
from synthdp.nonprivate.digits import SHARED, Lattice
from synthdp.schema.known_columns import known_column, suggested
from synthdp.schema.times import CALENDAR

SLACK = Decimal("0.07")
"""Largest distance of a rounded bound from the outermost value, as a fraction of the range.  More makes rounder bounds
that say less about the outermost row, and a wider range to count.  A tolerance."""

FEW_IN = 200
"""Rows of the table for each row that a drafted bound may cut off, at each end: 1 in 200, and `SHARED` at most.  More
cuts off fewer far values, and leaves most of a range empty.  A tolerance."""

EMPTY = 5
"""Width of the range with the few far values of one end, relative to the range without far values, above which they
are left out.

Tuned on sixteen skewed laws (benchmarks/utility/skewed.py): columns come out equally near for 3, 5, 10 and 30, and
means are .014, .022, .030 and .032 of a column's width off.
"""

_STEPS = tuple(map(Decimal, ("5", "2.5", "2", "1")))
"""Leading digits of round numbers, largest first.  Neighbours differ by a factor of 2 at most, so a step is more than
half of the largest allowed.  A convention."""

_SHAPES = (
    "month", "weekday_from_0", "weekday", "day_of_year", "day", "week", "quarter", "hour", "minute", "second",
    "latitude", "longitude", "percentage",
)  # fmt: skip
"""Kinds of `known_column` whose bounds a draft takes if the column's name suggests them and no value lies beyond."""

_CALENDAR_STEPS = (
    ("Y", 365 * 86_400),
    ("M", 30 * 86_400),
    ("D", 86_400),
    ("h", 3_600),
    ("m", 60),
    ("s", 1),
    ("ms", 1e-3),
    ("us", 1e-6),
)
"""Units of time to which bounds of moments are rounded, in numpy's codes, and their seconds, longest first.  A
convention."""


def number_bounds(
    name: str, low: float, high: float, *, whole: bool, lattice: Lattice | None = None
) -> tuple[Any, Any]:
    """Return bounds for numbers: a known kind's bounds if the column's name suggests it, else wider than the values.

    Parameters
    ----------
    name
        Column name.
    low, high
        Smallest and largest value.
    whole
        Whether the bounds must be whole numbers.
    lattice
        Lattice of the values, on which the bounds will lie; ``None`` if there is none.
    """
    shape = known_shape(name, low, high)
    if lattice is None:
        lower, upper = shape or outwards(low, high, whole=whole)
    else:
        spacing, offset = lattice.spacing, lattice.offset
        ends = [] if shape is None else [(end - offset) / spacing for end in shape]
        inside = (math.ceil(ends[0]), math.floor(ends[1])) if ends else (0, 0)
        if inside[0] >= inside[1]:
            inside = outwards(*(round((_fraction(value) - offset) / spacing) for value in (low, high)), whole=True)
        lower, upper = (end * spacing + offset for end in inside)
    return (int(lower), int(upper)) if whole else (float(lower), float(upper))


def without_far_values(counts: Mapping[Any, int]) -> tuple[float, float]:
    """Return the smallest and the largest number of a column; a few far values are left out.

    They are left out only if most of the range would be empty with them, see `EMPTY`.

    Parameters
    ----------
    counts
        Rows of each number.
    """
    values = sorted(counts)
    few = min(SHARED, sum(counts.values()) // FEW_IN)
    rows = np.cumsum([counts[value] for value in values])
    first = values[int(np.searchsorted(rows, few, side="right"))]
    last = values[int(np.searchsorted(rows, rows[-1] - few))]
    inside = last - first
    low = values[0] if first - values[0] <= (EMPTY - 1) * inside or not inside else first
    high = values[-1] if values[-1] - last <= (EMPTY - 1) * inside or not inside else last
    return low, high


def known_shape(name: str, low: float, high: float) -> tuple[int, int] | None:
    """Return the bounds of a known kind, such as month or latitude, that a column's name suggests.

    Return ``None`` if there is none, or if a value lies beyond.
    """
    known: list[Any] = [known_column(one) for one in suggested(name) if one in _SHAPES]
    return next(((one.lower, one.upper) for one in known if one.lower <= low and high <= one.upper), None)


def outwards(low: float, high: float, *, whole: bool) -> tuple[Any, Any]:
    """Return round numbers at or below ``low`` and at or above ``high``, for bounds that do not point at one row.

    Each is at most 7 % of their distance beyond, or 1 if that is more and ``whole``.  Equal values give the value
    itself and a number a round step above.
    """
    first, last = _exact(low), _exact(high)
    if first == last:  # one value: the bounds are it and the next round step
        step = Decimal(1) if whole else _round(max(abs(first) * SLACK, Decimal("1e-320")) if first else Decimal(1))
        last += step
    else:
        step = _round((last - first) * SLACK)
        step = max(step.to_integral_value(ROUND_FLOOR), Decimal(1)) if whole else step
        first, last = _down(first, step), -_down(-last, step)
    if whole:
        return max(int(first), -LARGEST_WHOLE), min(int(last), LARGEST_WHOLE)
    return min(float(first), low), max(float(last), high)


def moment_bounds(low: int, high: int, *, step: int) -> tuple[str, str]:
    """Return the bounds of moments, in ISO 8601, a little beyond the first and the last moment.

    They are whole years, months, days or shorter units: the longest unit of at most 7 % of the range, or of at most
    ``step`` if that is more.

    Parameters
    ----------
    low, high
        Microseconds since 1970.
    step
        Microseconds of the resolution of all values.
    """
    low, high = (min(max(value, CALENDAR[0]), CALENDAR[1]) for value in (low, high))
    room = max(float(SLACK) * (high - low), step)
    resolution: Any = next(step for step, seconds in _CALENDAR_STEPS if seconds * 1e6 <= room)
    ends: list[Any] = [np.datetime64(value, "us") for value in (low, high)]
    first = ends[0].astype(f"datetime64[{resolution}]")
    last: Any = ends[1].astype(f"datetime64[{resolution}]")
    if last.astype("datetime64[us]") < ends[1] or last == first:
        last += np.timedelta64(1, resolution)
    if int((last - np.timedelta64(1, resolution)).astype("datetime64[us]").astype(np.int64)) > CALENDAR[1] - step:
        first = min(first, last - np.timedelta64(2, resolution))  # the calendar ends within the last step
    return _text(first), _text(last)


def _text(moment: np.datetime64) -> str:
    """Return a moment in ISO 8601, as people write it: without zeros at its end, and in the calendar of a schema."""
    micros = min(max(int(moment.astype("datetime64[us]").astype(np.int64)), CALENDAR[0]), CALENDAR[1])
    return str(np.datetime64(micros, "us")).removesuffix(".000000").removesuffix("T00:00:00")


def _exact(value: float) -> Decimal:
    """Return a number as an exact decimal: a float by its shortest digits, as people would write it."""
    return Decimal(value) if isinstance(value, int) else Decimal(repr(float(value)))


def _fraction(value: float) -> Fraction:
    """Return a number as the exact fraction of its shortest decimal digits, so that 0.1 is one step of 1/10."""
    return Fraction(_exact(value))


def _round(most: Decimal) -> Decimal:
    """Return the largest round number up to ``most``: a digit of `_STEPS` times a power of ten.

    Bounds are drafted as multiples of it, so that they do not give away the smallest and the largest value.
    """
    power = Decimal(1).scaleb(most.adjusted())
    return next(step * power for step in _STEPS if step * power <= most)


def _down(value: Decimal, step: Decimal) -> Decimal:
    """Return the largest multiple of a step that is at most a value, however many digits a division drops."""
    multiple = (value / step).to_integral_value(ROUND_FLOOR) * step
    return multiple if multiple <= value else multiple - step
