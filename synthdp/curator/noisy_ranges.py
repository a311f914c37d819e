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
"""Powers of two on each side of zero, for each sign, that the first look at a number tells apart.  A safety limit."""

POWER_BINS = 4 * EXPONENTS + 1
"""Bins of the first look: negative powers, zero, positive powers.  Derived: 2 EXPONENTS for each sign, and zero."""

PARTS = 32
"""Equal parts of the found range that a later look tells apart; twice as many where the one before left four to six of its
own, of a heap at a border of them.  Tuned; not measured."""

HIDDEN = 0.07
"""Largest share of the numbers that may seem to lie in the parts that are cut off.  Tuned; not measured."""

CLEAR = 1e-6
"""Chance that noise alone passes for values anywhere in a histogram.  Tuned; not measured."""

BESIDE = 3e-6
"""Chance that noise alone passes for values in one of the bins, four at most, beside clear ones: once in
80 000 columns.  Weaker evidence counts where the range surely stays narrow (`LIKELY`).  Tuned; not measured."""

BESIDE_FEW, FEW = 1e-3, 0.05
"""The same where it would take a larger share of the numbers: to clip them costs more than a range that is too wide.
Tuned; not measured."""

LIKELY = 2.0
"""A power beyond the last is taken with it if it holds more than this many standard deviations of noise, where that leaves
the range narrow.  Tuned; not measured."""

NEAR = 5
"""Powers so near to a clear one are counted with it if they are likely: others tell two parts of 32 apart no better.
Tuned; not measured."""

NARROW = 4.0
"""Of a range that is surely at most this many times as wide as its numbers, only ends that surely hold hardly any of them
are cut off: the one-way histogram, which has less noise, finds which others are empty.  Tuned; not measured."""

HARDLY_ANY = 0.005
"""Largest share of the numbers that such an end may hold, with `SURELY` standard deviations of noise.
Tuned; not measured."""

SURELY = 2.0
"""Z-score with which that must hold.  Tuned; not measured."""

OUTSIDE = 5.2
"""A part is filled, and others hold values too, alone or with their neighbours, if they have more than this many standard
deviations of noise: noise alone has once in 60 000 looks.  Tuned; not measured."""

FEW_PARTS, MUCH = 2, 0.2
"""Where noise may hide a larger share of the numbers in eight parts together, a heap has so few parts at most.
Tuned; not measured."""

HIDING = 4.0
"""A range is not clipped if the noisy count outside of it exceeds this many standard deviations of its noise and the
fraction `HIDDEN` of the numbers.  Tuned; not measured."""

WINDOWS = (1, 2, 4, 8)
"""Numbers of neighbouring bins that are looked at together, where fewer of them are not clear.  Tuned; not measured."""

OFF_DIGITS = 0.1
"""Largest share of numbers that may be rounded to digits that are wide for the range of the numbers.
Tuned; not measured."""

MOST_VALUES = 32**4
"""Most values that digits which are only not excluded may leave in a range: the one-way histogram tells this many apart,
and a heap among more of them would be spread over its neighbours.  A safety limit."""

DEVIATIONS = 2.0
"""Standard deviations of noise that finer digits may hide in.  Tuned; not measured."""


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
class NoisyCount:
    """A number of rows with the standard deviation of its noise."""

    rows: float
    stddev: float


def significant_total(counts: NoisyCounts) -> NoisyCount:
    """Return a noisy count of a column's numbers, with its stddev, by its power-of-two bins.

    A bin is added if it is significant.  A bin with more than `LIKELY` stddevs is also added if it is zero's bin or within
    `NEAR` bins of a significant one.
    """
    clear = counts.clear()
    likely = counts.rows > LIKELY * counts.stddev
    near = np.convolve(clear, np.ones(2 * NEAR + 1), mode="same") > 0.5
    near[2 * EXPONENTS] = True
    taken = clear | (likely & near)
    return NoisyCount(rows=float(counts.rows[taken].sum()), stddev=counts.stddev * math.sqrt(taken.sum()))


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


def is_narrow(counts: NoisyCounts, lower: float, upper: float, *, whole: bool = False) -> bool:
    """Return whether a range is surely at most `NARROW` times as wide as what its numbers span, by their powers of two.

    They span at least the distance between the first and the last power that are clear alone.
    """
    clear = np.flatnonzero(counts.clear())
    if not len(clear):
        return False
    gap = _edge(int(clear[-1]), low=True) - _edge(int(clear[0]), low=False)
    return _width(lower, upper, whole=whole) <= NARROW * _least_span(gap, apart=len(clear) > 1, whole=whole)


def span_of_parts(counts: NoisyCounts, part: float, *, whole: bool = False) -> float:
    """Return what the numbers of a range surely span, by its filled parts of width ``part``."""
    first, last = _filled(counts)
    return _least_span(part * (last - first - 2), apart=last - first > 1, whole=whole)


def may_stay(counts: NoisyCounts, part: float, lower: float, upper: float, *, whole: bool = False) -> bool:
    """Return whether the same is so of a range by the parts, of width ``part``, of the range around it."""
    return _width(lower, upper, whole=whole) <= NARROW * span_of_parts(counts, part, whole=whole)


def parts_of_range(lower: float, upper: float, *, whole: bool, most: int) -> tuple[float, float, int]:
    """Return a range with the number of equal parts of it that are looked at: at most one for each whole number."""
    if not whole:
        return lower, upper, most
    lower, upper = math.floor(lower), max(math.ceil(upper), math.floor(lower) + 1)
    return float(lower), float(upper), min(upper - lower, most)


def stretched(counts: NoisyCounts, lower: float, upper: float, *, whole: bool = False) -> tuple[float, float]:
    """Return a range with the next power at either end that is likely to hold values, while it stays narrow."""
    likely, last = counts.rows > LIKELY * counts.stddev, 2.0**EXPONENTS
    if (
        -last < lower < 0
        and likely[int(power_bins(np.array(lower)))]
        and is_narrow(counts, 2 * lower, upper, whole=whole)
    ):
        lower *= 2
    if (
        0 < upper < last
        and likely[int(power_bins(np.array(upper)))]
        and is_narrow(counts, lower, 2 * upper, whole=whole)
    ):
        upper *= 2
    return lower, upper


def may_cut(rows: float, stddev: float) -> bool:
    """Return whether a look at parts with such noise could tell that an end holds hardly any of the numbers."""
    return HARDLY_ANY * rows >= SURELY * stddev


def part_bins(values: FloatArray, lower: float, upper: float, *, parts: int) -> FloatArray:
    """Return the part of a range that each number lies in; the ends take what lies beyond."""
    with np.errstate(over="ignore"):  # a warning would tell of one far value
        return np.clip(np.floor((values - lower) / ((upper - lower) / parts)), 0, parts - 1)


def narrowed(
    counts: NoisyCounts,
    lower: float,
    upper: float,
    *,
    held: NoisyCount,
    narrow: bool = False,
    whole: bool = False,
    last_look: bool = True,
    heap: bool = False,
) -> tuple[float, float]:
    """Return a range without the parts at its ends that surely hold hardly any numbers.

    If it may be more than `NARROW` times as wide as its numbers span, and the other parts hold no more than noise explains,
    together or by windows, it is the filled parts with some on either side: as many as there are, or, if no further look
    would tell more, no more than keep it so narrow.  Otherwise the ends that surely hold hardly any numbers are cut off.  To
    clip numbers costs more than to keep empty parts, which the one-way histogram, with less noise, finds.

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
    whole
        Whether the numbers are whole.
    last_look
        Whether there is no further one.
    heap
        Whether the range was cut to a heap before.  If not, and noise may hide many numbers, only a heap of one or two parts
        is cut out, with weaker evidence of others and more neighbours.
    """
    parts = len(counts.rows)
    part = (upper - lower) / parts
    first, last = _surely_filled(counts)
    start, stop = _filled(counts)
    span = span_of_parts(counts, part, whole=whole)
    if start < stop and not narrow and _width(0.0, (last - first) * part, whole=whole) > NARROW * span:
        few = stop - start <= FEW_PARTS
        careful = not heap and OUTSIDE * counts.stddev * math.sqrt(WINDOWS[-1]) > MUCH * held.rows
        tight = not careful and (last_look or (whole and part == 1) or span >= 2 * part)
        most = int(NARROW * span / part + 1e-9) + (whole and part == 1) if tight else None
        kept = _with_neighbours(counts, start, stop, most)
        near = max(start - 1, kept[0]), min(stop + 1, kept[1])
        others = _others(counts, *kept, deviations=HIDING if careful else OUTSIDE)
        if (few or not careful) and not others and not _much_outside(counts, *near, held=held):
            first, last = kept
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
    if near > FEW * significant_total(counts).rows:
        near = counts.above(BESIDE_FEW)
    while True:
        beside = [place + step * i for i in (1, 2) if 0 <= place + step * i < POWER_BINS]
        farther = [bin_ for bin_ in beside if counts.rows[bin_] > near]
        if not farther:
            return place
        place = farther[-1]


def _others(counts: NoisyCounts, first: int, last: int, *, deviations: float) -> bool:
    """Return whether parts outside some hold more than noise explains, alone or with their neighbours."""
    rows = counts.rows.copy()
    rows[first:last] = 0
    sums = (np.convolve(rows, np.ones(width), mode="valid") / math.sqrt(width) for width in WINDOWS)
    return any(bool((one > deviations * counts.stddev).any()) for one in sums)


def _filled(counts: NoisyCounts) -> tuple[int, int]:
    """Return the first part that holds more than noise explains, and the one after the last; both 0 if there is none."""
    filled = np.flatnonzero(counts.rows > OUTSIDE * counts.stddev)
    return (int(filled[0]), int(filled[-1]) + 1) if len(filled) else (0, 0)


def _with_neighbours(counts: NoisyCounts, first: int, last: int, most: int | None) -> tuple[int, int]:
    """Return some parts with as many neighbours on either side.

    There are fewer neighbours, one more on the side with more rows, if all together are more than ``most``; but at
    least one on either side.
    """
    wanted = 2 * (last - first)
    spare = wanted if most is None else min(wanted, max(most - (last - first), 2))
    half, odd = divmod(spare, 2)
    before, after = counts.rows[max(first - half - 1, 0) : first].sum(), counts.rows[last : last + half + 1].sum()
    return (
        max(first - half - odd * int(before > after), 0),
        min(last + half + odd * int(before <= after), len(counts.rows)),
    )


def _much_outside(counts: NoisyCounts, first: int, last: int, *, held: NoisyCount) -> bool:
    """Return whether parts outside some seem to hold more than a small share of the numbers, and more than noise explains.

    Hardly any part may be clear, and yet all of them together hold many.  What the inner ones lack of all numbers says so
    with less noise than the sum of all the others.
    """
    stddev = math.hypot(held.stddev, counts.stddev * math.sqrt(last - first))
    outside = held.rows - float(counts.rows[first:last].sum())
    return outside > max(HIDDEN * held.rows, HIDING * stddev)


def _surely_filled(counts: NoisyCounts) -> tuple[int, int]:
    """Return the first part and the one after the last without the ends that surely hold hardly any numbers."""
    most = HARDLY_ANY * counts.rows.sum()
    parts = len(counts.rows)
    noise = SURELY * counts.stddev * np.sqrt(np.arange(1, parts + 1))
    first, last = (
        int(np.argmin(np.maximum.accumulate(np.cumsum(rows) + noise) <= most))
        for rows in (counts.rows, counts.rows[::-1])
    )
    return (first, parts - last) if first + last < parts else (0, parts)


def _width(lower: float, upper: float, *, whole: bool) -> float:
    """Return how wide a range is, in which the upper end itself is no value if numbers are whole."""
    return upper - lower - whole


def _least_span(gap: float, *, apart: bool, whole: bool) -> float:
    """Return how far two numbers are apart at least that lie on either side of a gap, which may be empty."""
    return math.floor(gap) + 1.0 if whole and apart else max(gap, 0.0)


def _multiples(values: FloatArray, spacing: Fraction) -> BoolArray:
    """Return a mask of the values that are multiples of a spacing, up to rounding of floats."""
    with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of one far value
        if spacing.denominator == 1:
            return np.asarray(np.fmod(values, float(spacing)) == 0)
        return np.asarray(np.rint(values * spacing.denominator) / spacing.denominator == values)


def _edge(bin_: int, *, low: bool) -> float:
    """Return the lower or upper edge of a bin of powers of two."""
    signed = bin_ - 2 * EXPONENTS
    if signed == 0:
        return 0.0
    exponent = abs(signed) - 1 - EXPONENTS
    outer = (signed < 0) == low
    return math.copysign(2.0 ** (exponent + outer), signed)
