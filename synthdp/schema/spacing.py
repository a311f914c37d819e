"""Numbers of so many decimals, or multiples of a step, as evenly spaced values in whole arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

from synthdp.errors import SchemaError
from synthdp.schema.column import Steps

MOST_DECIMALS = 15
POWERS_OF_TEN = tuple(Fraction(10) ** power for power in range(3, -7, -1))
"""Spacings that a release looks for where none is declared: thousands to millionths."""

LARGEST_EXACT = 2**53
"""Whole numbers up to here are exact as floats, so that a quotient of two is the float nearest to it."""


def spacing(decimals: int | None, step: float | None) -> Fraction:
    """Return the distance of neighbouring values."""
    return Fraction(1, 10 ** (decimals or 0)) if step is None else _exact(step)


def evenly_spaced(lower: float, upper: float, distance: Fraction, *, special: tuple[float, ...]) -> Steps:
    """Return the values from one bound to the other."""
    first = _exact(lower)
    denominator = math.lcm(first.denominator, distance.denominator)
    last = math.floor((_exact(upper) - first) / distance)
    size, offset = int(distance * denominator), int(first * denominator)
    return Steps(0, last, size=size, offset=offset, denominator=denominator, special=special)


def outer_multiples(lower: float, upper: float, distance: Fraction) -> tuple[float, float]:
    """Return the multiples of a distance next to an interval, different ones, within what is exact as a float."""
    most = LARGEST_EXACT // distance.numerator
    low = min(max(math.floor(Fraction(lower) / distance), -most), most - 1)
    high = max(min(math.ceil(Fraction(upper) / distance), most), low + 1)
    return float(low * distance), float(high * distance)


def check_spacing(
    lower: float | None, upper: float | None, decimals: int | None, step: float | None, where: str
) -> None:
    """Raise SchemaError if decimals or a step make no sense, or bounds are none of the values."""
    if decimals is not None and step is not None:
        raise SchemaError(f"decimals and step must not be given together {where}")
    if decimals is not None and (
        isinstance(decimals, bool) or not isinstance(decimals, int) or not 0 <= decimals <= MOST_DECIMALS
    ):
        raise SchemaError(f"decimals ({decimals!r}) must be a whole number from 0 to {MOST_DECIMALS} {where}")
    if step is not None and (isinstance(step, bool) or not isinstance(step, (int, float)) or not 0 < step < math.inf):
        raise SchemaError(f"step ({step!r}) must be a number above 0 {where}")
    if lower is None or upper is None or (decimals is None and step is None):
        return
    distance = spacing(decimals, step)
    for end, bound in (("lower", lower), ("upper", upper)):
        if decimals is not None and (_exact(bound) / distance).denominator > 1:
            raise SchemaError(f"{end} ({bound}) must have at most {decimals} decimals {where}")
    if ((_exact(upper) - _exact(lower)) / distance).denominator > 1:
        raise SchemaError(f"upper - lower must be a multiple of step ({step}) {where}")
    if isinstance(step, int) and isinstance(lower, int) and isinstance(upper, int):
        return
    steps = evenly_spaced(lower, upper, distance, special=())
    if max(abs(steps.offset), abs(steps.offset + steps.last * steps.size), steps.denominator or 1) > LARGEST_EXACT:
        raise SchemaError(f"bounds have too many digits for such decimals or such a step {where}")


def _exact(number: float) -> Fraction:
    """Return a number as it is written: 0.1 is a tenth."""
    return Fraction(repr(number))
