"""What noisy histograms say of the range and the digits of numbers.  Bins of values, and post-processing of their counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from synthdp.arrays import BoolArray, FloatArray
from synthdp.measurements import NoiseLaw

EXPONENTS = 64
"""Powers of two on each side of zero, for each sign, that the first look at a number tells apart."""

POWER_BINS = 4 * EXPONENTS + 1
"""Bins of the first look: negative powers, zero, positive powers."""

PARTS = 32
"""Equal parts of the found range that a later look tells apart."""

FEW_PARTS = 4
"""A range whose clear parts are so few is narrowed to them and their neighbours, if `HIDDEN` allows; two of them, if no more
than noise or `HIDDEN` seem to lie in all others together."""

HIDDEN = 0.07
"""Largest share of the numbers that noise may hide in eight other parts, or that may seem to lie in all others."""

CLEAR = 1e-6
"""Chance that noise alone passes for values anywhere in a histogram."""

BESIDE = 1e-3
"""Chance that noise alone passes for values in a bin beside clear ones: it widens a range, but makes none."""

LIKELY = 2.0
"""A power beyond the last is taken with it if it holds more than so many standard deviations of noise, where that leaves
the range narrow."""

NEAR = 5
"""Powers so near to a clear one are counted with it if they are likely: others tell two parts of 32 apart no better."""

NARROW = 4.0
"""Of a range that is surely at most so many times as wide as its numbers, only ends that surely hold hardly any of them are
cut off: the one-way histogram, which has less noise, finds which others are empty."""

HARDLY_ANY = 0.005
"""Largest share of the numbers that such an end may hold, with `SURELY` standard deviations of noise."""

SURELY = 2.0

OUTSIDE = 4.0
"""Parts outside a few clear ones that hold more than so many standard deviations of noise, alone, with their neighbours or
all together, hold values too."""

WINDOWS = (1, 2, 4, 8)
"""Numbers of neighbouring bins that are looked at together, where fewer of them are not clear."""

OFF_DIGITS = 0.1
"""Largest share of numbers that may be rounded to digits that are wide for the range of the numbers."""

MOST_VALUES = 32**4
"""Most values that digits which are only not excluded may leave in a range: the one-way histogram tells so many apart, and a
heap among more of them would be spread over its neighbours."""

DEVIATIONS = 2.0
"""Standard deviations of noise that finer digits may hide in."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyCounts:
    """A noisy histogram.

    Parameters
    ----------
    rows
        (k,) noisy counts.
    stddev
        Standard deviation of the noise on each.
    law
        Its law, Laplace or Gaussian.
    """

    rows: FloatArray
    stddev: float
    law: NoiseLaw

    def above(self, chance: float) -> float:
        """Return the count that noise alone exceeds in one bin with so small a chance, 0 < chance < 1/2."""
        return self.stddev * self.law.distribution.quantile(2 * chance, len(self.rows))

    def clear(self) -> BoolArray:
        """Return which bins hold more than noise explains in any of them."""
        return np.asarray(self.rows > self.above(CLEAR / len(self.rows)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number of rows with the standard deviation of its noise."""

    rows: float
    stddev: float


def held_clearly(counts: NoisyCounts) -> Estimate:
    """Return how many numbers lie in powers that are clear, or likely and near to clear ones, or in zero."""
    clear = counts.clear()
    likely = counts.rows > LIKELY * counts.stddev
    near = np.convolve(clear, np.ones(2 * NEAR + 1), mode="same") > 0.5
    near[2 * EXPONENTS] = True
    taken = clear | (likely & near)
    return Estimate(rows=float(counts.rows[taken].sum()), stddev=counts.stddev * math.sqrt(taken.sum()))


def power_bins(values: FloatArray) -> FloatArray:
    """Return the bin of each number: 0 in the middle, then by power of two, mirrored for negative numbers."""
    with np.errstate(divide="ignore"):
        power = np.clip(np.floor(np.log2(np.abs(values))), -EXPONENTS, EXPONENTS - 1) + EXPONENTS + 1
    power = np.where(values == 0, 0, power)
    return np.asarray(2 * EXPONENTS + np.sign(values) * power, np.float64)


def clear_ends(counts: NoisyCounts) -> tuple[float, float] | None:
    """Return the ends of the powers of two that are clear, or ``None`` if there are none; both 0 if only zero is.

    Neighbouring powers that are clear only together count together.  Bins beside the clear ones are taken with them on
    weaker evidence.
    """
    zero = 2 * EXPONENTS
    sides = [
        _clear_bins(counts, 0, zero),
        _clear_bins(counts, zero, zero + 1),
        _clear_bins(counts, zero + 1, POWER_BINS),
    ]
    found = [place for side in sides for place in side]
    if not found:
        return None
    first, last = _widened(counts, min(found), -1), _widened(counts, max(found), 1)
    return _edge(first, low=True), _edge(last, low=False)


def coarse_range(counts: NoisyCounts) -> tuple[float, float] | None:
    """Return a range that holds the clear bins of powers of two, or ``None`` if there are none.

    A range over a factor of four or more begins (or ends) at zero.
    """
    found = clear_ends(counts)
    if found is None:
        return None
    lower, upper = found
    if lower == upper:  # nothing but zeros
        return 0.0, 1.0
    if 0 < 4 * lower <= upper:
        return 0.0, upper
    if lower <= 4 * upper < 0:
        return lower, 0.0
    return lower, upper


def is_narrow(counts: NoisyCounts, lower: float, upper: float) -> bool:
    """Return whether a range is surely at most `NARROW` times as wide as what its numbers span, by their powers of two.

    They span at least the distance between the first and the last power that are clear alone.
    """
    clear = np.flatnonzero(counts.clear())
    if not len(clear):
        return False
    span = _edge(int(clear[-1]), low=True) - _edge(int(clear[0]), low=False)
    return upper - lower <= NARROW * span


def is_narrow_by_parts(counts: NoisyCounts, width: float) -> bool:
    """Return the same by the parts of an earlier range, for a range of this width in parts."""
    clear = np.flatnonzero(counts.clear())
    return bool(len(clear)) and width <= NARROW * (clear[-1] - clear[0] - 1)


def stretched(counts: NoisyCounts, lower: float, upper: float) -> tuple[float, float]:
    """Return a range with the next power at either end that is likely to hold values, as far as it stays narrow."""
    likely, last = counts.rows > LIKELY * counts.stddev, 2.0**EXPONENTS
    if -last < lower < 0 and likely[int(power_bins(np.array(lower)))] and is_narrow(counts, 2 * lower, upper):
        lower *= 2
    if 0 < upper < last and likely[int(power_bins(np.array(upper)))] and is_narrow(counts, lower, 2 * upper):
        upper *= 2
    return lower, upper


def may_cut(rows: float, stddev: float) -> bool:
    """Return whether a look at parts with such noise could tell that an end holds hardly any of so many numbers."""
    return HARDLY_ANY * rows >= SURELY * stddev


def part_bins(values: FloatArray, lower: float, upper: float) -> FloatArray:
    """Return the part of a range that each number lies in; the ends take what lies beyond."""
    with np.errstate(over="ignore"):  # a warning would tell of one far value
        return np.clip(np.floor((values - lower) / ((upper - lower) / PARTS)), 0, PARTS - 1)


def narrowed(
    counts: NoisyCounts, lower: float, upper: float, *, held: Estimate, narrow: bool = False
) -> tuple[float, float]:
    """Return a range without parts at its ends.

    If a few parts are clear, and no others hold clearly more than noise explains, together or by windows, it is these and as
    many on either side, unless the range is ``narrow`` as it is.  Otherwise the ends that surely hold hardly any numbers are
    cut off.  To clip numbers costs more than to keep empty parts, which the one-way histogram, with less noise, finds.

    Parameters
    ----------
    counts
        Of `part_bins`.
    lower, upper
        The range.
    held
        How many numbers there are, by an earlier look.
    narrow
        Whether the range surely is hardly too wide.
    """
    first, last = _surely_filled(counts)
    clear = np.flatnonzero(counts.clear())
    if len(clear) and not narrow:
        width = int(clear[-1]) + 1 - int(clear[0])
        hidden = OUTSIDE * counts.stddev * math.sqrt(WINDOWS[-1])
        few = max(int(clear[0]) - width, 0), min(int(clear[-1]) + 1 + width, PARTS)
        allowed = FEW_PARTS if hidden <= HIDDEN * counts.rows[clear].sum() else FEW_PARTS // 2
        if width <= allowed and not _others(counts, *few) and not _much_outside(counts, *few, held=held):
            first, last = few
    part = (upper - lower) / PARTS
    return lower + first * part, lower + last * part


def spacing_bins(spacings: Sequence[Fraction], values: FloatArray) -> FloatArray:
    """Return the bin of each number: 0 for zero, then by the widest spacing that it is a multiple of, last for none."""
    bins = np.full(len(values), len(spacings) + 1.0)
    for i in range(len(spacings) - 1, -1, -1):
        bins[_multiples(values, spacings[i])] = i + 1
    bins[values == 0] = 0
    return bins


def spacing_of(counts: NoisyCounts, spacings: Sequence[Fraction], *, width: float) -> Fraction | None:
    """Return the finest spacing that clearly some numbers need, if there is one.

    A spacing that is wide for the range would move numbers by much: there, a share of `OFF_DIGITS` at most of the numbers
    may have a finer one, with what noise may have hidden.

    Parameters
    ----------
    counts
        Of `spacing_bins`.
    spacings
        The spacings that these tell apart, the widest first.
    width
        Of the range.
    """
    rows, stddev = counts.rows[1:], counts.stddev
    needed = np.flatnonzero(counts.clear()[1:])
    if not len(needed) or needed[-1] == len(spacings):
        return None
    if spacings[needed[-1]] <= width / PARTS:
        return spacings[int(needed[-1])]
    total = rows.sum() - DEVIATIONS * stddev * math.sqrt(len(rows))
    for i in range(int(needed[-1]), len(spacings)):
        finer = rows[i + 1 :].sum() + DEVIATIONS * stddev * math.sqrt(len(rows) - i - 1)
        if finer <= OFF_DIGITS * total:
            return spacings[i] if width <= MOST_VALUES * spacings[i] else None
    return None


def _clear_bins(counts: NoisyCounts, start: int, stop: int) -> list[int]:
    """Return the bins of one side that are clear, or of the narrowest windows that are."""
    for width in WINDOWS:
        sums = (
            np.convolve(counts.rows[start:stop], np.ones(width), mode="valid") if width <= stop - start else np.empty(0)
        )
        clear = np.flatnonzero(sums > math.sqrt(width) * counts.above(CLEAR / POWER_BINS / len(WINDOWS)))
        if len(clear):
            return [start + int(clear[0]), start + int(clear[-1]) + width - 1]
    return []


def _widened(counts: NoisyCounts, place: int, step: int) -> int:
    """Return the last of the bins beside one another, from a clear one on, that hold more than noise explains."""
    near = counts.above(BESIDE)
    while True:
        beside = [place + step * i for i in (1, 2) if 0 <= place + step * i < POWER_BINS]
        farther = [bin_ for bin_ in beside if counts.rows[bin_] > near]
        if not farther:
            return place
        place = farther[-1]


def _others(counts: NoisyCounts, first: int, last: int) -> bool:
    """Return whether parts outside some hold more than noise explains, alone or with their neighbours."""
    rows = counts.rows.copy()
    rows[first:last] = 0
    sums = (np.convolve(rows, np.ones(width), mode="valid") / math.sqrt(width) for width in WINDOWS)
    return any(bool((one > OUTSIDE * counts.stddev).any()) for one in sums)


def _much_outside(counts: NoisyCounts, first: int, last: int, *, held: Estimate) -> bool:
    """Return whether parts outside some seem to hold more than a small share of the numbers, and more than noise explains.

    Hardly any part may be clear, and yet all of them together hold many.  What the inner ones lack of all numbers says so
    with less noise than the sum of all the others.
    """
    stddev = math.hypot(held.stddev, counts.stddev * math.sqrt(last - first))
    outside = held.rows - float(counts.rows[first:last].sum())
    return outside > max(HIDDEN * held.rows, OUTSIDE * stddev)


def _surely_filled(counts: NoisyCounts) -> tuple[int, int]:
    """Return the first part and the one after the last without the ends that surely hold hardly any numbers."""
    most = HARDLY_ANY * counts.rows.sum()
    noise = SURELY * counts.stddev * np.sqrt(np.arange(1, PARTS + 1))
    first, last = (
        int(np.argmin(np.maximum.accumulate(np.cumsum(rows) + noise) <= most))
        for rows in (counts.rows, counts.rows[::-1])
    )
    return (first, PARTS - last) if first + last < PARTS else (0, PARTS)


def _multiples(values: FloatArray, spacing: Fraction) -> BoolArray:
    with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of one far value
        if spacing.denominator == 1:
            return np.asarray(np.fmod(values, float(spacing)) == 0)
        return np.asarray(np.rint(values * spacing.denominator) / spacing.denominator == values)


def _edge(bin_: int, *, low: bool) -> float:
    signed = bin_ - 2 * EXPONENTS
    if signed == 0:
        return 0.0
    exponent = abs(signed) - 1 - EXPONENTS
    outer = (signed < 0) == low
    return math.copysign(2.0 ** (exponent + outer), signed)
