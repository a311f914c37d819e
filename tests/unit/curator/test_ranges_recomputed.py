"""Ranges and digits from noisy histograms, against the documented rules recomputed bin by bin.

Counts are whole numbers around the thresholds, so that sums are exact and ties occur.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from synthdp.curator.noisy_ranges import (
    CLEAR,
    EXPONENTS,
    FEW_PARTS,
    HARDLY_ANY,
    LIKELY,
    MANY,
    MOST_VALUES,
    NARROW,
    NEAR,
    PARTS,
    POWER_BINS,
    WINDOWS,
    NoisyCount,
    NoisyCounts,
    clear_ends,
    coarse_range,
    is_beyond,
    is_narrow,
    may_cut,
    may_stay,
    narrowed,
    part_bins,
    parts_of_range,
    power_bins,
    significant_total,
    spacing_bins,
    spacing_of,
    stretched,
)
from synthdp.measurements import UNLIKELY, NoiseLaw

ZERO = 2 * EXPONENTS
LAWS = st.sampled_from([NoiseLaw.GAUSSIAN, NoiseLaw.LAPLACE])
SOME = st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 16, 20, 40, 100, 1000, -2, -5])
"""Noisy counts; significant ones begin at 6 with Gaussian noise, at 14 with Laplace noise, of stddev 1."""


def exceeds(counts: NoisyCounts, chance: float) -> float:
    """The count that noise of one empty bin exceeds with so small a probability."""
    return counts.stddev * counts.law.distribution.quantile(2 * chance, len(counts.rows))


def significant(counts: NoisyCounts) -> list[int]:
    """The bins whose counts noise makes in any of them with probability `CLEAR`."""
    least = exceeds(counts, CLEAR / len(counts.rows))
    return [i for i, rows in enumerate(counts.rows) if rows > least]


def bin_edges(bin_: int) -> tuple[float, float]:
    """The two ends of a bin of powers of two."""
    if bin_ == ZERO:
        return 0.0, 0.0
    exponent = abs(bin_ - ZERO) - 1 - EXPONENTS
    near, far = 2.0**exponent, 2.0 ** (exponent + 1)
    return (near, far) if bin_ > ZERO else (-far, -near)


@st.composite
def powers(draw: st.DrawFn) -> NoisyCounts:
    """A histogram of powers of two with a few counts, most of them beside each other, and some at the ends."""
    rows = np.zeros(POWER_BINS)
    start = draw(st.sampled_from([0, 3, ZERO - EXPONENTS, ZERO - 6, ZERO, ZERO + EXPONENTS - 4, POWER_BINS - 14]))
    beside = draw(st.lists(SOME, min_size=1, max_size=14))
    rows[start : start + len(beside)] = beside
    for bin_ in draw(st.lists(st.integers(0, POWER_BINS - 1), max_size=2)):
        rows[bin_] = draw(SOME)
    rows[ZERO] = draw(SOME)
    return NoisyCounts(rows=rows, stddev=draw(st.sampled_from([1.0, 0.5, 3.0])), law=draw(LAWS))


def total_again(counts: NoisyCounts) -> tuple[float, float]:
    clear, rows, added = significant(counts), 0.0, 0
    for i, count in enumerate(counts.rows):
        near = i == ZERO or any(abs(i - one) <= NEAR for one in clear)
        if i in clear or (count > LIKELY * counts.stddev and near):
            rows, added = rows + count, added + 1
    return rows, counts.stddev * math.sqrt(added)


@given(powers())
def test_the_number_of_numbers_is_the_sum_of_bins_that_are_significant_or_likely_and_near(counts):
    found = significant_total(counts)
    assert (found.rows, found.stddev) == pytest.approx(total_again(counts))


def ends_again(counts: NoisyCounts) -> tuple[float, float] | None:
    """The edges of the outermost bins of each sign that are significant, alone or else in windows, and their chains."""
    least, outermost = exceeds(counts, CLEAR / POWER_BINS / len(WINDOWS)), []
    for side in (range(ZERO), range(ZERO, ZERO + 1), range(ZERO + 1, POWER_BINS)):
        for width in WINDOWS:
            windows = [side[i : i + width] for i in range(len(side) - width + 1)]
            clear = [one for one in windows if sum(counts.rows[i] for i in one) > math.sqrt(width) * least]
            if clear:
                outermost += [clear[0][0], clear[-1][-1]]
                break
    if not outermost:
        return None
    few = exceeds(counts, CLEAR) > MANY * total_again(counts)[0]
    chain = exceeds(counts, UNLIKELY / 4 if few else CLEAR)
    ends = []
    for place, step in ((min(outermost), -1), (max(outermost), 1)):
        while beside := [i for i in (place + 2 * step, place + step) if 0 <= i < POWER_BINS and counts.rows[i] > chain]:
            place = beside[0]
        ends.append(place)
    return bin_edges(ends[0])[0], bin_edges(ends[1])[1]


@settings(max_examples=60)
@given(powers())
def test_ends_are_the_outermost_significant_powers_and_likely_ones_in_a_chain_from_them(counts):
    found = ends_again(counts)
    assert clear_ends(counts) == found
    if found is None:
        assert coarse_range(counts) is None
    elif found == (0.0, 0.0):
        assert coarse_range(counts) == (0.0, 1.0)
    else:
        near, far = sorted(map(abs, found))
        one_sign = min(found) > 0 or max(found) < 0
        begins_at_zero = one_sign and far >= 4 * near
        assert coarse_range(counts) == (tuple(0.0 if begins_at_zero and abs(end) == near else end for end in found))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("exponent", [-EXPONENTS, -3, 0, 5, EXPONENTS - 1])
@pytest.mark.parametrize("times", [1.0, 1.25, 1.99])
def test_a_number_lies_between_the_edges_of_its_power_of_two(sign, exponent, times):
    number = sign * times * 2.0**exponent
    rows = np.zeros(POWER_BINS)
    rows[int(power_bins(np.array([number]))[0])] = 100.0
    found = coarse_range(NoisyCounts(rows=rows, stddev=1.0, law=NoiseLaw.GAUSSIAN))
    assert sorted(map(abs, found)) == [2.0**exponent, 2.0 ** (exponent + 1)]
    assert found[0] <= number <= found[1]


@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_beyond_the_powers_count_in_the_outermost_bins_of_their_sign(sign):
    far, last = sign * np.array([2.0**EXPONENTS, 2.0 ** (EXPONENTS + 1), 1e300]), sign * 2.0 ** (EXPONENTS - 1)
    near, first = sign * np.array([2.0 ** (-EXPONENTS - 1), 1e-300, 5e-324]), sign * 2.0**-EXPONENTS
    assert (power_bins(far) == power_bins(np.array([last]))).all()
    assert (power_bins(near) == power_bins(np.array([first]))).all()
    assert sorted(power_bins(np.array([last, first, 0.0]))) == sorted([ZERO, ZERO + sign, ZERO + sign * 2 * EXPONENTS])


@given(powers(), st.integers(-EXPONENTS, EXPONENTS + 1))
def test_numbers_are_beyond_a_power_if_all_significant_ones_are(counts, exponent):
    near = [min(map(abs, bin_edges(bin_))) for bin_ in significant(counts)]
    assert is_beyond(counts, 2.0**exponent) == (bool(near) and all(one >= 2.0**exponent for one in near))


def least_span(filled: list[int], gap: float, *, whole: bool) -> float:
    """The least distance of the outermost numbers, from the gap between the bins that they lie in."""
    return math.floor(gap) + 1 if whole and len(set(filled)) > 1 else max(gap, 0)


def narrow_again(counts: NoisyCounts, lower: float, upper: float, *, whole: bool) -> bool:
    clear = significant(counts)
    if not clear:
        return False
    gap = bin_edges(clear[-1])[0] - bin_edges(clear[0])[1]
    return upper - lower - whole <= NARROW * least_span(clear, gap, whole=whole)


@st.composite
def powers_around_one(draw: st.DrawFn) -> NoisyCounts:
    """A histogram of powers of two from 1/8 to 64 of either sign, some of them likely and some significant."""
    rows = np.zeros(POWER_BINS)
    for sign in (-1, 1):
        start = ZERO + sign * (EXPONENTS + 1)
        rows[start - 3 : start + 7] = draw(
            st.lists(st.sampled_from([0, 0, 0, 2, 3, 3, 40, 40]), min_size=10, max_size=10)
        )
    return NoisyCounts(rows=rows, stddev=1.0, law=draw(LAWS))


@settings(max_examples=200)
@given(powers_around_one(), st.integers(-4, 7), st.integers(-4, 7), st.integers(0, 3), st.booleans())
def test_a_range_is_stretched_to_a_likely_power_at_either_end_that_leaves_it_narrow(counts, low, high, kind, whole):
    lower, upper = [
        (-(2.0**low), 2.0**high),
        (0.0, 2.0**high),
        (-(2.0**low), 0.0),
        (2.0 ** min(low, high - 1), 2.0**high),
    ][kind]
    assert is_narrow(counts, lower, upper, whole=whole) == narrow_again(counts, lower, upper, whole=whole)
    wanted = [lower, upper]
    for side, sign in ((0, -1), (1, 1)):
        trial = [*wanted]
        trial[side] *= 2
        if sign * wanted[side] > 0:
            beyond = next(bin_ for bin_ in range(POWER_BINS) if set(bin_edges(bin_)) == {wanted[side], trial[side]})
            if counts.rows[beyond] > LIKELY * counts.stddev and narrow_again(counts, *trial, whole=whole):
                wanted = trial
    assert stretched(counts, lower, upper, whole=whole) == tuple(wanted)


@pytest.mark.parametrize(("rows", "may"), [(400.0, True), (399.0, False)])
def test_an_end_may_be_cut_where_hardly_any_of_the_numbers_exceed_likely_noise(rows, may):
    assert may_cut(rows, HARDLY_ANY * 400.0 / LIKELY) is may


@pytest.mark.parametrize("parts", [1, 3, PARTS])
def test_each_number_of_a_range_lies_in_its_part_and_the_others_in_the_outermost(parts):
    lower, upper = -8.0, -8.0 + 4 * parts
    inside = np.arange(lower, upper, 0.5)
    assert part_bins(inside, lower, upper, parts=parts).tolist() == [(i // 8) for i in range(8 * parts)]
    far = np.array([lower - 0.5, -np.finfo(float).max, upper, np.finfo(float).max])
    assert part_bins(far, lower, upper, parts=parts).tolist() == [0, 0, parts - 1, parts - 1]


@given(st.floats(-50, 50), st.floats(0.01, 60), st.integers(1, 40))
def test_parts_of_whole_numbers_hold_one_number_or_more_each(lower, width, most):
    upper = lower + width
    assert parts_of_range(lower, upper, whole=False, most=most) == (lower, upper, most)
    low, high, parts = parts_of_range(lower, upper, whole=True, most=most)
    assert low == math.floor(lower)
    assert high == max(math.ceil(upper), low + 1)
    assert parts == min(most, high - low)


@st.composite
def parts_of_a_range(draw: st.DrawFn) -> NoisyCounts:
    """Equal-width bins: a filled run, with smaller counts on both sides and between; or noise alone."""
    parts = draw(st.sampled_from([8, 12, PARTS, 2 * PARTS]))
    if draw(st.integers(0, 4)) == 0:
        noise = draw(st.lists(st.integers(-20, 20), min_size=parts, max_size=parts))
        return NoisyCounts(rows=np.array(noise, float), stddev=draw(st.sampled_from([1.0, 5.0])), law=draw(LAWS))
    rows = np.array(draw(st.lists(st.sampled_from([0, 0, 0, 0, 1, 2, 3, 5]), min_size=parts, max_size=parts)), float)
    rows *= draw(st.sampled_from([0, 0, 1]))
    start, width = draw(st.integers(0, parts - 1)), draw(st.sampled_from([1, 2, 2, 3, 4, 5, 5, 7, 9]))
    for beside in draw(st.lists(st.sampled_from([-3, -2, -1, width, width + 1, width + 2, 9]), max_size=4)):
        rows[(start + beside) % parts] = draw(st.one_of(st.integers(1, 5), SOME))
    rows[start : start + width] = draw(st.sampled_from([0, 7, 14, 40, 300, 1000, 10**5]))
    return NoisyCounts(rows=rows, stddev=draw(st.sampled_from([1.0, 3.0])), law=draw(LAWS))


def narrowed_again(counts, lower, upper, *, held, narrow, whole, last_look, heap):
    """The bins that stay, (first, after last), by the rules of `narrowed` and of the functions it names."""
    rows, parts = counts.rows.tolist(), len(counts.rows)
    part = (upper - lower) / parts

    def hardly_any(some):
        kept = next(
            n for n in range(1, parts + 2)
            if n > parts or sum(some[:n]) + LIKELY * counts.stddev * math.sqrt(n) > HARDLY_ANY * sum(rows)
        )  # fmt: skip
        return 0 if kept > parts else kept - 1

    first, last = hardly_any(rows), parts - hardly_any(rows[::-1])
    if first >= last:
        first, last = 0, parts
    filled = significant(counts)
    if not filled or narrow:
        return first, last
    start, stop = filled[0], filled[-1] + 1
    span = least_span(filled, part * (stop - start - 2), whole=whole)
    if (last - first) * part - whole <= NARROW * span:
        return first, last
    uncertain = not heap and exceeds(counts, CLEAR / parts) > MANY * held.rows  # noise may hide many numbers
    ones = whole and part == 1
    neighbours = 2 * (stop - start)
    if not uncertain and (last_look or ones or span >= 2 * part):
        most = int(NARROW * span / part + 1e-9) + ones
        neighbours = min(neighbours, max(most - (stop - start), 2))
    before = after = neighbours // 2
    if neighbours % 2:
        more_before = sum(rows[max(start - before - 1, 0) : start]) > sum(rows[stop : stop + after + 1])
        before, after = before + more_before, after + (not more_before)
    kept = max(start - before, 0), min(stop + after, parts)
    outside = [0.0 if kept[0] <= i < kept[1] else rows[i] for i in range(parts)]
    least = exceeds(counts, CLEAR / parts)
    others = any(
        sum(outside[i : i + width]) / math.sqrt(width) > least for width in WINDOWS for i in range(parts - width + 1)
    )
    near = max(start - 1, kept[0]), min(stop + 1, kept[1])
    noise = math.sqrt(held.stddev**2 + (near[1] - near[0]) * counts.stddev**2)
    missed = held.rows - sum(rows[near[0] : near[1]])
    much = missed > MANY * held.rows and missed > exceeds(counts, CLEAR) / counts.stddev * noise
    if others or much or (uncertain and stop - start > FEW_PARTS):
        return first, last
    return kept


@settings(max_examples=300)
@given(
    parts_of_a_range(), st.sampled_from([1.0, 0.25, 3.0]), st.sampled_from([0.0, 0.04, 0.07, 0.075, 0.1]),
    st.sampled_from([0, 0, 3, 6, 8, 9, 10, 12, 15, 20]), st.sampled_from([0.0, 3.0, 40.0]), st.booleans(),
    st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
def test_a_range_keeps_the_bins_that_the_rules_name(counts, part, hidden, more, stddev, narrow, whole, last_look, heap):
    lower, upper = -3.0, -3.0 + part * len(counts.rows)
    held = NoisyCount(rows=float(counts.rows.sum()) * (1 + hidden) + more, stddev=stddev)
    options = {"held": held, "narrow": narrow and more > 3, "whole": whole, "last_look": last_look, "heap": heap}
    first, last = narrowed_again(counts, lower, upper, **options)
    assert narrowed(counts, lower, upper, **options) == (lower + first * part, lower + last * part)


@given(parts_of_a_range(), st.sampled_from([1.0, 0.25, 3.0]), st.integers(0, 70), st.booleans())
def test_a_narrowed_range_may_stay_by_the_gap_between_its_outermost_filled_bins(counts, part, bins, whole):
    filled = significant(counts)
    gap = part * (filled[-1] - filled[0] - 1) if filled else 0.0
    wide = bins * part - whole > NARROW * least_span(filled, gap, whole=whole)
    assert may_stay(counts, part, 5.0, 5.0 + bins * part, whole=whole) is not wide


DIGITS = [Fraction(100), Fraction(10), Fraction(1), Fraction(1, 10), Fraction(1, 1000)]


@given(st.lists(st.tuples(st.integers(-(10**6), 10**6), st.integers(-2, 4)), min_size=1, max_size=20))
def test_a_number_counts_at_the_widest_spacing_that_divides_it(written):
    exact = [Fraction(number) / Fraction(10) ** digits for number, digits in written]
    wanted = [
        0 if not one else next((i + 1 for i, spacing in enumerate(DIGITS) if not one % spacing), len(DIGITS) + 1)
        for one in exact
    ]
    assert spacing_bins(DIGITS, np.array([float(one) for one in exact])).tolist() == wanted


def spacing_again(counts: NoisyCounts, width: float) -> Fraction | None:
    """The finest significant spacing, or a wider range's widest one that hardly any number misses."""
    needed = [i - 1 for i in significant(counts) if i > 0]
    if not needed or needed[-1] == len(DIGITS):
        return None
    if width / DIGITS[needed[-1]] >= PARTS:
        return DIGITS[needed[-1]]
    rows = counts.rows[1:].tolist()
    total = sum(rows) - LIKELY * counts.stddev * math.sqrt(len(rows))
    for i, spacing in enumerate(DIGITS):
        finer = rows[i + 1 :]
        if i >= needed[-1] and sum(finer) + LIKELY * counts.stddev * math.sqrt(len(finer)) <= MANY * total:
            return spacing if width / spacing <= MOST_VALUES else None
    return None


@settings(max_examples=300)
@given(
    st.lists(SOME, min_size=len(DIGITS) + 2, max_size=len(DIGITS) + 2), st.integers(0, len(DIGITS)), LAWS,
    st.one_of(st.integers(14, 200), st.just(1000)),
    st.sampled_from([PARTS / 10, PARTS * 1.0, 31.0, 320.0, 3200.0, 3300.0, 1.0, MOST_VALUES / 10, MOST_VALUES * 1.5]),
)  # fmt: skip
def test_the_spacing_is_the_finest_significant_or_the_widest_that_moves_few_numbers(few, most, law, rows, width):
    found = np.array(few, float)
    found[1 + most] = rows
    counts = NoisyCounts(rows=found, stddev=1.0, law=law)
    assert spacing_of(counts, DIGITS, width=width) == spacing_again(counts, width)
