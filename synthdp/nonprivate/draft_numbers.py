"""NOT private: digits, steps, frequent values and bounds of a column of numbers or moments, found in the rows for a draft.

Bounds are round, and close around the smallest and the largest value of the table.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, BoolArray, FloatArray
from synthdp.domain.grid import MAX_POINTS
from synthdp.schema.known_columns import known_column, suggested
from synthdp.schema.numbers import LARGEST_EXACT
from synthdp.schema.times import CALENDAR

SHARED = 10
"""Fewest rows with a value for a draft to name the value: a rarer value could point at a person.  A safety limit."""

MOST_DECIMALS = 12
"""Decimals of a number that are examined, at most.  A safety limit: further digits of a float are rounding."""

ACCIDENT = 1e-3
"""Chance that numbers of some number of digits are all multiples of a step by accident.  Below this chance a draft
proposes the step.  More would propose steps by accident; less overlooks steps of few numbers.  A tolerance."""

ODD_ONES = 0.01
"""Fraction of the different numbers that may have more decimals than all others; a release rounds such numbers.
More would round away real digits; less lets a few typing errors refine the grid.  A tolerance."""

ODD_ROWS, PLACES = 0.05, 100
"""Fraction of the rows whose numbers may have more decimals than all others, if rounding loses hardly anything.

At least `PLACES` rounding steps must lie between the quartiles of these numbers.  At least half of the different
numbers must need no more decimals.  Tolerances.
"""

MOST_VALUES, OFTEN = 100, 20
"""Most different numbers, and fewest rows for each on average, of a column whose numbers are drafted as levels.  More
make long lists, with few rows for each; fewer let a release invent numbers in between.  Tolerances."""

EMPTY, VERY_FEW, VERY_EMPTY = 4, 20, 100
"""Fewest grid places per different number for the range to count as mostly empty; for more than `VERY_FEW` numbers
`VERY_EMPTY` places.  Lower ones draft ordinary numbers as levels; higher ones let a release invent numbers in between.
Tolerances."""

SINGLE = 64
"""Number of possible values of a column up to which a release counts each value by itself.  A draft then lists no
frequent values, because the release finds them.  Derived: twice the 32 bins of a release's first histograms."""

MOST_HEAPS, FEWEST_ROWS, HEAP, LARGE_HEAP, HEIGHT = 20, 20, 0.005, 0.05, 10
"""A draft lists at most `MOST_HEAPS` frequent numbers as special values.  A number needs `FEWEST_ROWS` rows, `HEIGHT`
times the rows of an even spread over the range, and the fraction `LARGE_HEAP` of the rows.  If nearly the whole range
is empty, the fraction `HEAP` is enough.

Lower limits list more numbers, which could be numbers of single persons; higher ones miss real point masses.
Tolerances; not measured."""

TOLERANCE = 1e-7
"""Relative error of a number that was stored in 32 bits; digits below it are ignored.  A tolerance."""


@dataclass(frozen=True, slots=True)
class Lattice:
    """Evenly spaced numbers ``offset + k * spacing`` for whole k, with 0 <= offset < spacing."""

    spacing: Fraction
    offset: Fraction = Fraction(0)


def lattice_of(numbers: Collection[float]) -> Lattice | None:
    """Return the widest lattice on which numbers lie: of a power of ten, or of a step that accident does not explain.

    A draft declares it as ``decimals`` or ``step``.  Up to `ODD_ONES` of the different numbers may have more decimals,
    or up to `ODD_ROWS` of the rows if rounding loses hardly anything.  A step with an offset needs strong evidence:
    many different numbers, or a mapping of counts in which each number is frequent and no place is empty.  Return
    ``None`` if no lattice of at most twelve decimals fits.
    """
    values = np.array(list(numbers), np.float64)
    rows = np.array([*numbers.values()] if isinstance(numbers, Mapping) else np.ones(len(values)), np.float64)
    often = isinstance(numbers, Mapping) and min(numbers.values()) >= OFTEN
    for decimals in range(MOST_DECIMALS + 1):
        on = _on(values, decimals)
        if on.all():
            found = _stepped(values, decimals, often=often)
            return _of_round_numbers(values) if found == Lattice(Fraction(1)) else found
        if (~on).mean() <= ODD_ONES or _hardly_lose(values, rows, ~on, decimals):
            return Lattice(Fraction(1, 10**decimals))
    return None


def odd_share(counts: Mapping[Any, int], lattice: Lattice) -> float:
    """Return the fraction of the rows whose numbers do not lie on a lattice; a release rounds them to it.

    The fraction is 0 for rows whose lattice `lattice_of` found without exceptions.
    """
    rows = np.array([*counts.values()], np.float64)
    return float(rows[~_on_lattice(np.array([*counts], np.float64), lattice)].sum() / rows.sum())


def exact_lattice(largest: float) -> Lattice | None:
    """Return the finest lattice of a power of ten on which floats up to ``largest`` are told apart.

    The lattice has at most twelve decimals.  A draft declares it where numbers lie on no wider lattice.

    Return ``None`` if not even one decimal fits.
    """
    decimals = min(MOST_DECIMALS, math.floor(math.log10(LARGEST_EXACT / max(largest, 1.0))))
    return Lattice(Fraction(1, 10**decimals)) if decimals > 0 else None


def _hardly_lose(values: FloatArray, rows: FloatArray, odd: BoolArray, decimals: int) -> bool:
    """Return whether rounding the odd numbers to ``decimals`` decimals, as all others have, loses hardly anything.

    The answer is True if at most half of the different numbers and 5 % of the rows (`ODD_ROWS`) are odd, and the odd
    numbers' quartiles lie at least `PLACES` steps apart.
    """
    if odd.mean() > 1 / 2 or rows[odd].sum() > ODD_ROWS * rows.sum():
        return False
    low, high = np.quantile(np.repeat(values[odd], rows[odd].astype(np.int64)), [0.25, 0.75])
    return bool(high - low >= PLACES * 10.0**-decimals)


def _on(values: FloatArray, decimals: int) -> BoolArray:
    """Return which numbers have at most ``decimals`` decimals, (values,) booleans.

    A negative number of decimals means zeros before the decimal point.
    """
    return _on_lattice(values, Lattice(Fraction(10) ** -decimals))


def _on_lattice(values: FloatArray, lattice: Lattice) -> BoolArray:
    """Return which numbers lie on a lattice, (values,) booleans.

    Digits that rounding to 32 bits made do not count.  A number of 2^53 steps or more never counts, since floats do not
    tell its digits.
    """
    up, down = float(lattice.spacing.denominator), float(lattice.spacing.numerator)
    with np.errstate(over="ignore", invalid="ignore"):  # beyond the floats: nothing to learn
        scaled = values * up / down
        steps = (values * up - float(lattice.offset * lattice.spacing.denominator)) / down
        whole = np.rint(steps)
        near = np.abs(steps - whole) <= np.minimum(TOLERANCE * np.abs(scaled), 0.01)
    return np.asarray(near & (np.abs(whole) < LARGEST_EXACT))


def _of_round_numbers(values: FloatArray) -> Lattice:
    """Return the lattice of 1000, 100 or 10 if 99 % of the numbers are its multiples, the largest first, else of 1.

    Such numbers were rounded by hand.  Fewer than 100 different numbers give the lattice of 1.
    """
    many = len(values) * ODD_ONES >= 1
    power = next((power for power in (3, 2, 1) if many and (~_on(values, -power)).mean() <= ODD_ONES), 0)
    return Lattice(Fraction(10**power))


def _stepped(values: FloatArray, decimals: int, *, often: bool) -> Lattice:
    """Return the widest lattice of numbers that all have at most ``decimals`` decimals.

    The lattice has a step, with or without offset, or holds all numbers of these decimals.  A step must be no accident,
    see `ACCIDENT`.  With ``often``, a step without an empty place between the numbers is taken too.
    """
    whole = [int(one) for one in np.unique(np.rint(values * 10.0**decimals))]
    telling = sum(one % 10 != 0 for one in whole) if decimals else len(whole)
    finest, most = Fraction(1, 10**decimals), math.log(ACCIDENT)
    if len(whole) == 1:  # one number says of its neighbours nothing
        return Lattice(finest)
    step, wider = math.gcd(*whole), math.gcd(*(one - whole[0] for one in whole))
    if often and wider > 1 and (whole[-1] - whole[0]) // wider + 1 == len(whole):  # no place between them is left empty
        return Lattice(wider * finest, whole[0] % wider * finest)
    if step > 1 and telling * math.log(_chance(step, decimals)) > most:
        step = 1
    if wider > max(step, 1) and (telling - 1) * math.log(max(step, 1) / wider) <= most:
        return Lattice(wider * finest, whole[0] % wider * finest)
    return Lattice(max(step, 1) * finest)


def _chance(step: int, decimals: int) -> float:
    """Return the chance that a random number is a multiple of a step, as a fraction.

    With decimals the last digit of the random number is not 0, else the number would need fewer decimals.
    """
    return sum(k * step % 10 != 0 for k in range(10)) / (9 * step) if decimals else 1 / step


def few_values(counts: Mapping[Any, int]) -> list[float]:
    """Return all numbers of a column in order if they repeat often and leave most of their range empty, else [].

    Logarithms of small counts are an example.  As levels they stay the only values of the release.  There are at most
    `MOST_VALUES` numbers, and each has `SHARED` rows or more.
    """
    values = sorted(counts)
    if len(values) > MOST_VALUES or sum(counts.values()) < OFTEN * len(values) or min(counts.values()) < SHARED:
        return []
    lattice = lattice_of(values)
    room = math.inf if lattice is None else (Fraction(str(values[-1])) - Fraction(str(values[0]))) / lattice.spacing
    empty = room / len(values)
    return values if empty >= (EMPTY if len(values) <= VERY_FEW else VERY_EMPTY) else []


def heaps_of(counts: Mapping[Any, int], places: float) -> list[float]:
    """Return in order the frequent numbers that a draft lists as special, because a release's bins would hide them.

    If a range has few places, or many of its places are filled, the bins' counts show them anyway, and the list is
    empty.

    Parameters
    ----------
    counts
        Rows of each number.
    places
        Number of values that the column's bounds and digits allow.

    """
    if places <= SINGLE or places < EMPTY * len(counts):
        return []
    rows = sum(counts.values())
    share = HEAP if places >= min(MAX_POINTS, VERY_EMPTY * len(counts)) else LARGE_HEAP
    least = max(FEWEST_ROWS, share * rows, HEIGHT * rows / places)
    often = sorted(
        (value for value, count in counts.items() if count >= least), key=lambda value: (-counts[value], value)
    )
    return sorted(often[:MOST_HEAPS])


def settings_of(lattice: Lattice) -> dict[str, Any]:
    """Return the column setting ``decimals`` or ``step`` of a lattice; an empty dict for all whole numbers."""
    spacing, powers = lattice.spacing, {10**power for power in range(MOST_DECIMALS + 1)}
    if lattice.offset == 0 and spacing.numerator == 1 and spacing.denominator in powers:
        return {"decimals": len(str(spacing.denominator)) - 1} if spacing < 1 else {}
    return {"step": int(spacing) if spacing.denominator == 1 else float(spacing)}


def outer(lower: float, upper: float, spacing: Fraction) -> tuple[float, float]:
    """Return the multiples of a spacing at or next outside two bounds, so that bounds have a decimal column's digits.

    The multiples are ints if the spacing is a whole number, else floats.
    """
    low, high = (
        math.floor(Fraction(str(lower)) / spacing) * spacing,
        math.ceil(Fraction(str(upper)) / spacing) * spacing,
    )
    return (int(low), int(high)) if spacing.denominator == 1 else (float(low), float(high))


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
            inside = outwards(
                *(round((Fraction(_exact(value)) - offset) / spacing) for value in (low, high)), whole=True
            )
        lower, upper = (end * spacing + offset for end in inside)
    return (int(lower), int(upper)) if whole else (float(lower), float(upper))


def without_far_values(counts: Mapping[Any, int]) -> tuple[float, float]:
    """Return the smallest and the largest number of a column; a few far values are left out.

    Far values are left out only if most of the range would be empty with them, see `EMPTY`.

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

    A bound lies at most 7 % (`SLACK`) of ``high`` - ``low`` beyond its value; for ``whole`` numbers a distance of 1 is
    always allowed.  If ``low`` equals ``high``, the bounds are this value and a number one round step above.
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

    Bounds are whole years, months, days or shorter units.  The unit is the longest that is at most 7 % of the range
    (`SLACK`) or at most ``step`` long, so that bounds say little about the outermost rows.

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
