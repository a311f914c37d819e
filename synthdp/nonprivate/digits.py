"""NOT private: the digits that all numbers of a column have, read off them for a draft."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from synthdp.arrays import BoolArray, FloatArray
from synthdp.domain.grid import MAX_POINTS
from synthdp.schema.numbers import LARGEST_EXACT

SHARED = 10
"""A draft names a value that at least this many rows have: one that fewer have could point at somebody."""

MOST_DECIMALS = 12
"""Most decimals that are looked for.  A safety limit: further digits of a float are rounding."""

ACCIDENT = 1e-3
"""Chance below which it is no accident that numbers of this many digits are all multiples of a step."""

ODD_ONES = 0.01
"""Share of the different numbers that may have more decimals than the rest: released ones are rounded as the rest is."""

ODD_ROWS, PLACES = 0.05, 100
"""Share of the rows whose numbers may have more decimals than the rest, if hardly anything of them is lost by rounding: at
least this many steps lie between their quartiles, and half of the different numbers need no more.  A tolerance."""

MOST_VALUES, OFTEN = 100, 20
"""Few values are this many at most, and repeat so often on average."""

EMPTY, VERY_FEW, VERY_EMPTY = 4, 20, 100
"""The digits would allow this many times more values; of more than very few, this many times more."""

SINGLE = 64
"""Up to this many places of a range have a bin each in a release's first counts."""

MOST_HEAPS, FEWEST_ROWS, HEAP, LARGE_HEAP, HEIGHT = 20, 20, 0.005, 0.05, 10
"""Heaps are this many values at most, each of this many rows and so large a share of them, and this many times as many as an
even spread over the range would give it.  Where the range is not all but empty only large ones are listed."""

TOLERANCE = 1e-7
"""Relative error of a number stored in 32 bits."""


@dataclass(frozen=True, slots=True)
class Lattice:
    """Evenly spaced numbers: ``offset + k * spacing`` for whole k, with 0 <= offset < spacing."""

    spacing: Fraction
    offset: Fraction = Fraction(0)


def lattice_of(numbers: Collection[float]) -> Lattice | None:
    """Return the widest lattice on which numbers lie: of a power of ten, or of another step if that is no accident.

    It is none where so many different numbers are all multiples, nor where the counts of a mapping say that each of them
    occurs in many rows: then a number between two of them would occur, too.  One number in a hundred may have more digits
    than the others, or one row in twenty has them, if hardly anything is lost by rounding.  ``None`` if there is no lattice
    of twelve decimals.
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
    """Return the share of the rows whose numbers lie on no place of a lattice of decimals, and are rounded to it."""
    decimals = len(str(lattice.spacing.denominator)) - 1
    if lattice.spacing.numerator != 1 or lattice.offset:
        return 0.0
    rows = np.array([*counts.values()], np.float64)
    return float(rows[~_on(np.array([*counts], np.float64), decimals)].sum() / rows.sum())


def exact_lattice(largest: float) -> Lattice | None:
    """Return the lattice of as many decimals as numbers up to some size have in a float, but twelve at most."""
    decimals = min(MOST_DECIMALS, math.floor(math.log10(LARGEST_EXACT / max(largest, 1.0))))
    return Lattice(Fraction(1, 10**decimals)) if decimals > 0 else None


def _hardly_lose(values: FloatArray, rows: FloatArray, odd: BoolArray, decimals: int) -> bool:
    """Say whether the numbers of more decimals belong to few rows, and hardly differ from themselves rounded."""
    if odd.mean() > 1 / 2 or rows[odd].sum() > ODD_ROWS * rows.sum():
        return False
    low, high = np.quantile(np.repeat(values[odd], rows[odd].astype(np.int64)), [0.25, 0.75])
    return bool(high - low >= PLACES * 10.0**-decimals)


def _on(values: FloatArray, decimals: int) -> BoolArray:
    """Return which numbers have a number of decimals at most; negative ones are zeros at the end."""
    with np.errstate(over="ignore", invalid="ignore"):  # beyond the floats: nothing to learn
        scaled = values * 10.0**decimals
        whole = np.rint(scaled)
        near = np.abs(scaled - whole) <= np.minimum(TOLERANCE * np.abs(scaled), 0.01)
    return np.asarray(near & (np.abs(whole) < LARGEST_EXACT))


def _of_round_numbers(values: FloatArray) -> Lattice:
    """Return the lattice of whole numbers if all but one in a hundred are tens, hundreds or thousands."""
    many = len(values) * ODD_ONES >= 1
    power = next((power for power in (3, 2, 1) if many and (~_on(values, -power)).mean() <= ODD_ONES), 0)
    return Lattice(Fraction(10**power))


def _stepped(values: FloatArray, decimals: int, *, often: bool) -> Lattice:
    """Return the lattice of numbers that all have a limited number of decimals, and that may each occur often."""
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
    """Return the chance that a whole number is a multiple of a step; of numbers with decimals, one that needs the last."""
    return sum(k * step % 10 != 0 for k in range(10)) / (9 * step) if decimals else 1 / step


def few_values(counts: Mapping[Any, int]) -> list[float]:
    """Return all numbers of a column, in order, if they are few, repeat often and leave most of their range empty.

    Each of them must be one that many rows have.  Such as logarithms of small counts: as levels they stay the only values
    there are.
    """
    values = sorted(counts)
    if len(values) > MOST_VALUES or sum(counts.values()) < OFTEN * len(values) or min(counts.values()) < SHARED:
        return []
    lattice = lattice_of(values)
    room = math.inf if lattice is None else (Fraction(str(values[-1])) - Fraction(str(values[0]))) / lattice.spacing
    empty = room / len(values)
    return values if empty >= (EMPTY if len(values) <= VERY_FEW else VERY_EMPTY) else []


def heaps_of(counts: Mapping[Any, int], places: float) -> list[float]:
    """Return in order the numbers of a column that stand out where a release could not find them by itself.

    Where a range has so few places that each has a bin, or many of them are filled, counts of bins find what stands out.

    Parameters
    ----------
    counts
        How often each number occurs.
    places
        How many numbers a column of these bounds and digits may hold.
    """
    if places <= SINGLE or places < EMPTY * len(counts):
        return []
    rows = sum(counts.values())
    share = HEAP if places >= min(MAX_POINTS, VERY_EMPTY * len(counts)) else LARGE_HEAP
    least = max(FEWEST_ROWS, share * rows, HEIGHT * rows / places)
    often = sorted((value for value, count in counts.items() if count >= least), key=lambda value: -counts[value])
    return sorted(often[:MOST_HEAPS])


def settings_of(lattice: Lattice) -> dict[str, Any]:
    """Return the setting ``decimals`` or ``step`` that says a lattice; none for whole numbers."""
    spacing, powers = lattice.spacing, {10**power for power in range(MOST_DECIMALS + 1)}
    if lattice.offset == 0 and spacing.numerator == 1 and spacing.denominator in powers:
        return {"decimals": len(str(spacing.denominator)) - 1} if spacing < 1 else {}
    return {"step": int(spacing) if spacing.denominator == 1 else float(spacing)}


def outer(lower: float, upper: float, spacing: Fraction) -> tuple[float, float]:
    """Return the multiples of a spacing next to two bounds; whole ones if the spacing is."""
    low, high = (
        math.floor(Fraction(str(lower)) / spacing) * spacing,
        math.ceil(Fraction(str(upper)) / spacing) * spacing,
    )
    return (int(low), int(high)) if spacing.denominator == 1 else (float(low), float(high))
