"""The range and the number of digits of a column's numbers, from noisy histograms.

The module holds the bins of values and what is computed from their noisy counts.  A first histogram has a bin for each
power of two.  Later ones have equal-width bins and narrow the range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from synthdp.arrays import BoolArray, FloatArray
from synthdp.measurements import UNLIKELY, NoiseLaw

EXPONENTS = 64
"""Bound of the exponents: each power of two from 2^-64 to 2^63 has a histogram bin, for either sign.  Numbers beyond
count in the end bins, so that the histogram stays small.  A safety limit.
"""

POWER_BINS = 4 * EXPONENTS + 1
"""Bins of the first histogram of a numeric column: negative powers of two, zero, positive powers.  Derived: 2 EXPONENTS
for each sign, and zero."""

PARTS = 32
"""Equal-width bins of a later histogram, which narrows the range.  There are twice as many after the range shrank to
about five bins, because a point mass on a border fills two bins.  More bins narrow a range more closely, but each
holds fewer numbers against the same noise.  A convention: as many as `bins` of a release by default.  Half and twice of it
change the three-way error of three undeclared tables by +6.6 ± 4.4 and +1.3 ± 4.8 % (docs/benchmarks/constants.md).
"""

MANY = 0.07
"""A fraction of a column's numbers that may not be clipped or moved.  A range is not cut if significantly more of them
seem to lie outside.  A range is cut to a point mass only if noise may hide more of them.  A range is widened on weaker
evidence (`UNLIKELY`) if more of them would be needed for significant evidence.  Rounding to a spacing that is wide for
the range may move as many.  More clips and moves more numbers; less keeps wider ranges and more digits.  Tuned: before,
it was .05, .07, .1 and .2 in four uses.  Half and twice of each change the three-way error of three undeclared tables
by -.2 to +.4 % (docs/benchmarks/constants.md)."""

CLEAR = 1e-6
"""Probability that noise alone makes any empty bin of a histogram significant, or one of four bins next to significant
ones.  A larger value finds ends of a range with fewer numbers, and more ends that are noise.  Where a mistake costs
little, weaker evidence counts (`LIKELY`).  A convention: a level of significance at which a release of hundreds of columns
has no range of noise.  Half and twice of it change no release of three undeclared tables."""

LIKELY = 2.0
"""Noise stddevs that evidence must exceed where a mistake costs little: noise exceeds them once in 44 counts.  A power of
two next to the range is added to the range if its count exceeds them and the range stays narrow (`NARROW`).  An end of a
range is cut off if it holds at most `HARDLY_ANY` of the numbers, these stddevs included.  The count of numbers with finer
digits is raised by this noise, and the count of all lowered, before comparison.  A convention: the usual level of a test.
Half and twice of it change the three-way error of three undeclared tables by 0 and +.1 % (docs/benchmarks/constants.md)."""

NEAR = PARTS.bit_length() - 1
"""Number of bins: a likely power of two (`LIKELY`) is added to the column's total if a significant bin is at most this
far away.  Derived: smaller powers are below 2^-5 of the range, one of its `PARTS` equal-width bins."""

NARROW = 4.0
"""A range at most this many times as wide as the span of its numbers is narrow enough.  Then only ends that surely hold
hardly any numbers (`HARDLY_ANY`) are cut off; the later one-way marginal has less noise and shows empty bins.  A larger
value saves histograms, and leaves wider ranges.  Derived: the least power of two that the
histogram of powers of two can guarantee.  With one bin between the outermost filled bins, the range is at most
(2^3 - 1) / (2^2 - 2) = 3.5 times too wide."""

HARDLY_ANY = 0.005
"""Largest fraction of the numbers that an end of a range may hold to be cut off, at z-score `LIKELY`: it bounds the fraction
that is clipped.  A tolerance: half and twice of it change the three-way error of three undeclared tables by 0 and +.1 %
(docs/benchmarks/constants.md)."""

FEW_PARTS = 2
"""Most bins that a point mass fills.  Derived: a point mass lies in one bin, or on the border of two."""

WINDOWS = (1, 2, 4, 8)
"""Numbers of adjacent bins whose sums are also tested, because values spread over several bins may be significant
only together.  Wider windows find thinner tails, but each more gives noise another chance.  A tolerance: widths double,
so that a window holds at least half of any run of up to 16 bins.  Half and twice of them change the three-way error of
three undeclared tables by 0 and +2.2 ± 1.5 % (docs/benchmarks/constants.md)."""

MOST_VALUES = 32**4
"""Most grid points of a range whose spacing was chosen although noise may hide numbers with a finer one; with more points
all digits are kept.  32^4 is the resolution of the one-way histogram: on a finer grid a point mass would spread over
its neighbours.  A safety limit."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyCounts:
    """A noisy histogram of k bins, with the scale of its noise.

    Parameters
    ----------
    rows
        (k,) noisy counts, in rows.
    stddev
        Standard deviation of the noise on each.
    law
        Distribution of the noise, Laplace or Gaussian.
    """

    rows: FloatArray
    stddev: float
    law: NoiseLaw

    def above(self, chance: float) -> float:
        """Return the count, in rows, that noise of one empty bin exceeds with probability ``chance``, 0 < chance < 1/2.

        A larger count is evidence that a bin is not empty.
        """
        return self.stddev * self.law.distribution.quantile(2 * chance, len(self.rows))

    @property
    def least_clear(self) -> float:
        """Return the count, in rows, above which a bin is significant.

        Noise makes any of k empty bins significant with probability `CLEAR`.
        """
        return self.above(CLEAR / len(self.rows))

    def clear(self) -> BoolArray:
        """Return a (k,) mask of the significant bins, whose counts exceed `least_clear`."""
        return np.asarray(self.rows > self.least_clear)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyCount:
    """A noisy number of rows, with the standard deviation of its noise in rows."""

    rows: float
    stddev: float


def significant_total(counts: NoisyCounts) -> NoisyCount:
    """Return a noisy count of a column's numbers, with its stddev, from a histogram of powers of two.

    A bin is added if it is significant.  A bin with more than `LIKELY` stddevs is also added if it is zero's bin or
    within `NEAR` bins of a significant one.  Other bins would add noise and hardly any numbers.
    """
    clear = counts.clear()
    likely = counts.rows > LIKELY * counts.stddev
    near = np.convolve(clear, np.ones(2 * NEAR + 1), mode="same") > 0.5
    near[2 * EXPONENTS] = True
    taken = clear | (likely & near)
    return NoisyCount(rows=float(counts.rows[taken].sum()), stddev=counts.stddev * math.sqrt(taken.sum()))


def power_bins(values: FloatArray) -> FloatArray:
    """Return the histogram bin of each number, (n,): zero in the middle, positive powers of two above, negative below.

    So a small number of bins covers numbers of any size.
    """
    with np.errstate(divide="ignore"):
        power = np.clip(np.floor(np.log2(np.abs(values))), -EXPONENTS, EXPONENTS - 1) + EXPONENTS + 1
    power = np.where(values == 0, 0, power)
    return np.asarray(2 * EXPONENTS + np.sign(values) * power, np.float64)


def clear_ends(counts: NoisyCounts) -> tuple[float, float] | None:
    """Return the outer edges of the significant powers of two; ``None`` if there are none, (0, 0) if only zero is.

    Adjacent bins may be significant as a sum.  Bins next to significant ones are added on weaker evidence, so that a range
    is not clipped; see `_widened`.
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
    """Return a first range (lower, upper) of a column's numbers, from a histogram of powers of two.

    The range is ``None`` if no bin is significant, and (0, 1) if only zero is.  If both ends have the same sign and
    differ by a factor of four or more, the end near zero becomes zero.
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


def is_beyond(counts: NoisyCounts, largest: float) -> bool:
    """Return whether all significant powers of two are at least as large as ``largest``, a power of two, in size.

    Such a column gets no range: larger numbers are clipped, and all would become one value.
    """
    size = np.abs(np.flatnonzero(counts.clear()) - 2 * EXPONENTS) - EXPONENTS - 1  # exponents, and less for zero
    return bool(len(size) and (size >= math.log2(largest)).all())


def is_narrow(counts: NoisyCounts, lower: float, upper: float, *, whole: bool = False) -> bool:
    """Return whether a range is surely at most `NARROW` times as wide as the span of its numbers.

    No further histogram is needed to narrow such a range.  The span is at least the distance between the outermost
    significant powers of two in ``counts``.  ``whole`` is whether the column's numbers are integers.
    """
    clear = np.flatnonzero(counts.clear())
    if not len(clear):
        return False
    gap = _edge(int(clear[-1]), low=True) - _edge(int(clear[0]), low=False)
    return _width(lower, upper, whole=whole) <= NARROW * _least_span(gap, apart=len(clear) > 1, whole=whole)


def span_of_parts(counts: NoisyCounts, part: float, *, whole: bool = False) -> float:
    """Return a lower bound on the numbers' span: the gap between the first and last filled bin, each ``part`` wide.

    The bound shows whether a range is at most `NARROW` times too wide, and limits how narrow a range is cut.
    """
    first, last = _filled(counts)
    return _least_span(part * (last - first - 2), apart=last - first > 1, whole=whole)


def may_stay(counts: NoisyCounts, part: float, lower: float, upper: float, *, whole: bool = False) -> bool:
    """Return whether a narrowed range is surely at most `NARROW` times as wide as its numbers, so that narrowing may stop.

    ``counts`` is a histogram of the range before, in bins of width ``part``.
    """
    return _width(lower, upper, whole=whole) <= NARROW * span_of_parts(counts, part, whole=whole)


def parts_of_range(lower: float, upper: float, *, whole: bool, most: int) -> tuple[float, float, int]:
    """Return a range (lower, upper) and the number of equal-width bins of its histogram.

    There are ``most`` bins; for whole numbers at most one per integer, and the range is rounded outwards to integers.
    """
    if not whole:
        return lower, upper, most
    lower, upper = math.floor(lower), max(math.ceil(upper), math.floor(lower) + 1)
    return float(lower), float(upper), min(upper - lower, most)


def stretched(counts: NoisyCounts, lower: float, upper: float, *, whole: bool = False) -> tuple[float, float]:
    """Return a range, doubled at either end if the next power of two likely holds numbers and the range stays narrow.

    Clipping costs more than a slightly wide range.
    """
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
    """Return whether a histogram with noise ``stddev`` can show that an end holds hardly any of ``rows`` numbers.

    The fraction `HARDLY_ANY` of the numbers must be at least `LIKELY` stddevs.  Otherwise the histogram could not narrow
    the range, and its budget would be wasted.
    """
    return HARDLY_ANY * rows >= LIKELY * stddev


def part_bins(values: FloatArray, lower: float, upper: float, *, parts: int) -> FloatArray:
    """Return the equal-width bin of [lower, upper] that each number lies in, (n,), 0 to ``parts`` - 1.

    Numbers outside go to the end bins.
    """
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
    """Return a range without the outer bins that surely hold hardly any numbers.

    A range that may be more than `NARROW` times as wide as its numbers is cut to its filled bins and some neighbours: as
    many on either side as are filled, or fewer if no histogram follows.  If the range is narrower, or a bin outside is
    significant, only ends with at most the fraction `HARDLY_ANY` of the numbers are cut off.  Clipping numbers costs more
    than keeping empty bins, which the one-way marginal finds with less noise.

    Parameters
    ----------
    counts
        Noisy counts of the bins of `part_bins`.
    lower, upper
        The range.
    held
        Number of the column's numbers, by an earlier noisy count, with its stddev.
    narrow
        Whether the range is already known to be narrow enough, by `is_narrow`.
    whole
        Whether the numbers are integers.
    last_look
        Whether no histogram follows.
    heap
        Whether the range was cut to a point mass before.  If not, a range where noise may hide more than the fraction
        `MANY` of the numbers is cut to a point mass only.
    """
    parts = len(counts.rows)
    part = (upper - lower) / parts
    first, last = _surely_filled(counts)
    start, stop = _filled(counts)
    span = span_of_parts(counts, part, whole=whole)
    if start < stop and not narrow and _width(0.0, (last - first) * part, whole=whole) > NARROW * span:
        few = stop - start <= FEW_PARTS
        careful = not heap and counts.least_clear > MANY * held.rows
        tight = not careful and (last_look or (whole and part == 1) or span >= 2 * part)
        most = int(NARROW * span / part + 1e-9) + (whole and part == 1) if tight else None
        kept = _with_neighbours(counts, start, stop, most)
        near = max(start - 1, kept[0]), min(stop + 1, kept[1])
        if (few or not careful) and not _others(counts, *kept) and not _much_outside(counts, *near, held=held):
            first, last = kept
    return lower + first * part, lower + last * part


def spacing_bins(spacings: Sequence[Fraction], values: FloatArray) -> FloatArray:
    """Return the histogram bin of each number by its rounding, (n,), so that counts show how many digits a column has.

    Bin 0 is for zero.  Bin i is for multiples of the i-th of ``spacings`` that are no multiples of a wider spacing.  The
    last bin is for multiples of none.
    """
    bins = np.full(len(values), len(spacings) + 1.0)
    for i in range(len(spacings) - 1, -1, -1):
        bins[_multiples(values, spacings[i])] = i + 1
    bins[values == 0] = 0
    return bins


def spacing_of(counts: NoisyCounts, spacings: Sequence[Fraction], *, width: float) -> Fraction | None:
    """Return the spacing to which a column's numbers are rounded; ``None`` if they keep all digits.

    The result is the finest spacing with a significant count, if it is at most a `PARTS`-th of the range.  A wider
    spacing would move other numbers far: then at most the fraction `MANY` of the numbers, noise included, may need a finer
    spacing than the result.  The result is ``None`` if no count is significant, if no spacing will do, or if significantly
    many numbers are multiples of none.

    Parameters
    ----------
    counts
        Noisy counts of the bins of `spacing_bins`.
    spacings
        The spacings that these bins stand for, the widest first.
    width
        Width of the range.
    """
    rows, stddev = counts.rows[1:], counts.stddev
    needed = np.flatnonzero(counts.clear()[1:])
    if not len(needed) or needed[-1] == len(spacings):
        return None
    if spacings[needed[-1]] <= width / PARTS:
        return spacings[int(needed[-1])]
    total = rows.sum() - LIKELY * stddev * math.sqrt(len(rows))
    for i in range(int(needed[-1]), len(spacings)):
        finer = rows[i + 1 :].sum() + LIKELY * stddev * math.sqrt(len(rows) - i - 1)
        if finer <= MANY * total:
            return spacings[i] if width <= MOST_VALUES * spacings[i] else None
    return None


def _clear_bins(counts: NoisyCounts, start: int, stop: int) -> list[int]:
    """Return the first and the last significant bin from ``start`` to ``stop``; an empty list if none is significant.

    Where no single bin is significant, runs of 2, of 4 and of 8 adjacent bins are tested as sums.
    """
    for width in WINDOWS:
        sums = (
            np.convolve(counts.rows[start:stop], np.ones(width), mode="valid") if width <= stop - start else np.empty(0)
        )
        clear = np.flatnonzero(sums > math.sqrt(width) * counts.above(CLEAR / POWER_BINS / len(WINDOWS)))
        if len(clear):
            return [start + int(clear[0]), start + int(clear[-1]) + width - 1]
    return []


def _widened(counts: NoisyCounts, place: int, step: int) -> int:
    """Return the last bin of a chain of likely filled bins that begins at ``place`` and goes in direction ``step``.

    A bin joins the chain if noise would exceed its count with a probability of `CLEAR` at most.  If `CLEAR` needs more
    than the fraction `MANY` of the numbers, the probability is `UNLIKELY` / 4.  The chain may jump over one bin.  The
    range is extended to the chain's end, so that numbers there are not clipped.
    """
    near = counts.above(CLEAR)
    if near > MANY * significant_total(counts).rows:
        near = counts.above(UNLIKELY / 4)  # four bins are beside significant ones
    while True:
        beside = [place + step * i for i in (1, 2) if 0 <= place + step * i < POWER_BINS]
        farther = [bin_ for bin_ in beside if counts.rows[bin_] > near]
        if not farther:
            return place
        place = farther[-1]


def _others(counts: NoisyCounts, first: int, last: int) -> bool:
    """Return whether counts outside ``first`` to ``last`` are significant, alone or in sums scaled to equal noise.

    Then numbers lie outside, and the range is not cut to ``first`` to ``last``.
    """
    rows = counts.rows.copy()
    rows[first:last] = 0
    sums = (np.convolve(rows, np.ones(width), mode="valid") / math.sqrt(width) for width in WINDOWS)
    return any(bool((one > counts.least_clear).any()) for one in sums)


def _filled(counts: NoisyCounts) -> tuple[int, int]:
    """Return the first significant bin, and the position after the last; (0, 0) if there is none.

    Such bins surely hold numbers.
    """
    filled = np.flatnonzero(counts.clear())
    return (int(filled[0]), int(filled[-1]) + 1) if len(filled) else (0, 0)


def _with_neighbours(counts: NoisyCounts, first: int, last: int, most: int | None) -> tuple[int, int]:
    """Return a range of bins, (first, after last), widened by neighbours, so that numbers that noise hides stay inside.

    There are twice as many neighbours as bins in the range.  There are fewer, but at least one on either side, if the
    result would have more than ``most`` bins.  An odd neighbour goes to the side with more rows.
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
    """Return whether bins outside ``first`` to ``last`` hold more than the fraction `MANY` of the numbers, significantly.

    The bins outside may hold many numbers together although no single bin is significant.  Their count is the total
    ``held`` minus the bins inside, which has less noise than a sum of the bins outside.
    """
    stddev = math.hypot(held.stddev, counts.stddev * math.sqrt(last - first))
    outside = held.rows - float(counts.rows[first:last].sum())
    return outside > max(MANY * held.rows, counts.above(CLEAR) * stddev / counts.stddev)


def _surely_filled(counts: NoisyCounts) -> tuple[int, int]:
    """Return the bins, (first, after last), that remain if ends that surely hold hardly any numbers are cut off.

    An end is cut off if it holds at most `HARDLY_ANY` of the numbers even with `LIKELY` noise stddevs added.  So noise
    alone does not cut off numbers.  If nothing would remain, nothing is cut off.
    """
    most = HARDLY_ANY * counts.rows.sum()
    parts = len(counts.rows)
    noise = LIKELY * counts.stddev * np.sqrt(np.arange(1, parts + 1))
    first, last = (
        int(np.argmin(np.maximum.accumulate(np.cumsum(rows) + noise) <= most))
        for rows in (counts.rows, counts.rows[::-1])
    )
    return (first, parts - last) if first + last < parts else (0, parts)


def _width(lower: float, upper: float, *, whole: bool) -> float:
    """Return the width of a range; for whole numbers one less, because the upper end of their range is exclusive."""
    return upper - lower - whole


def _least_span(gap: float, *, apart: bool, whole: bool) -> float:
    """Return the least distance of two numbers on either side of a gap of width ``gap``, at least 0.

    This distance bounds the span of all numbers from below, by which a range is known to be narrow enough.  Whole
    numbers in two different bins (``apart``) differ by one more than the whole part of the gap.
    """
    return math.floor(gap) + 1.0 if whole and apart else max(gap, 0.0)


def _multiples(values: FloatArray, spacing: Fraction) -> BoolArray:
    """Return an (n,) mask of the values that are multiples of a spacing, up to rounding, to count roundings."""
    with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of one far value
        if spacing.denominator == 1:
            return np.asarray(np.fmod(values, float(spacing)) == 0)
        return np.asarray(np.rint(values * spacing.denominator) / spacing.denominator == values)


def _edge(bin_: int, *, low: bool) -> float:
    """Return the lower or upper edge of a bin of `power_bins`, as a number, so that outermost bins become a range."""
    signed = bin_ - 2 * EXPONENTS
    if signed == 0:
        return 0.0
    exponent = abs(signed) - 1 - EXPONENTS
    outer = (signed < 0) == low
    return math.copysign(2.0 ** (exponent + outer), signed)
