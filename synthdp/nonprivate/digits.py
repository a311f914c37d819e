"""NOT private: the digits that all numbers of a column have, read off them for a draft."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

MOST_DECIMALS = 6
FEWEST_NUMBERS = 8
"""Different numbers of which it is no accident that they are multiples of a step."""

MOST_VALUES, OFTEN, EMPTY = 20, 20, 4
"""Few values are so many at most, repeat so often on average, and the digits would allow so many times more."""

TOLERANCE = 1e-7
"""Relative error of a number stored in 32 bits."""


def spacing_of(numbers: Collection[float]) -> Fraction | None:
    """Return the widest spacing that all numbers are multiples of: a power of ten, or another one if there are many.

    ``None`` if they have more than six decimals.
    """
    values = np.array(list(numbers), np.float64)
    for decimals in range(MOST_DECIMALS + 1):
        with np.errstate(over="ignore", invalid="ignore"):  # beyond the floats: nothing to learn
            scaled = values * 10.0**decimals
            whole = np.rint(scaled)
            error = np.abs(scaled - whole)
        if (np.abs(whole) < 2**53).all() and (error <= np.minimum(TOLERANCE * np.abs(scaled), 0.01)).all():
            step = math.gcd(*(int(one) for one in np.unique(whole)))
            return Fraction(step if step > 1 and len(values) >= FEWEST_NUMBERS else 1, 10**decimals)
    return None


def few_values(counts: Mapping[Any, int]) -> list[float]:
    """Return all numbers of a column, in order, if they are few, repeat often and leave most of their range empty.

    Such as logarithms of small counts: as levels they stay the only values there are.
    """
    values = sorted(counts)
    if not 1 < len(values) <= MOST_VALUES or sum(counts.values()) < OFTEN * len(values):
        return []
    spacing = spacing_of(values)
    room = math.inf if spacing is None else (Fraction(str(values[-1])) - Fraction(str(values[0]))) / spacing
    return values if room >= EMPTY * len(values) else []


def settings_of(spacing: Fraction) -> dict[str, Any]:
    """Return the setting ``decimals`` or ``step`` that says a spacing; none for whole numbers."""
    if spacing.numerator == 1 and spacing.denominator in {10**power for power in range(MOST_DECIMALS + 1)}:
        return {"decimals": len(str(spacing.denominator)) - 1} if spacing < 1 else {}
    return {"step": int(spacing) if spacing.denominator == 1 else float(spacing)}


def outer(lower: float, upper: float, spacing: Fraction) -> tuple[float, float]:
    """Return the multiples of a spacing next to two bounds; whole ones if the spacing is."""
    low, high = (
        math.floor(Fraction(str(lower)) / spacing) * spacing,
        math.ceil(Fraction(str(upper)) / spacing) * spacing,
    )
    return (int(low), int(high)) if spacing.denominator == 1 else (float(low), float(high))
