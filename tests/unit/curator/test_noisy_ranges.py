"""What noisy histograms say of ranges: post-processing of their counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from synthdp.curator.noisy_ranges import (
    CLEAR,
    EXPONENTS,
    HARDLY_ANY,
    PARTS,
    POWER_BINS,
    WINDOWS,
    NoisyCount,
    NoisyCounts,
    coarse_range,
    is_narrow,
    may_cut,
    may_stay,
    narrowed,
    power_bins,
    stretched,
)
from synthdp.measurements import NoiseLaw


def held(rows):
    """That there are as many numbers as in these parts."""
    return NoisyCount(rows=float(np.sum(rows)), stddev=0.0)


def powers_with(rows, law, stddev=1.0):
    counts = np.zeros(POWER_BINS)
    one = 3 * EXPONENTS + 1  # the bin of 1 <= x < 2
    for bin_, count in rows.items():
        counts[one + bin_] = count
    return NoisyCounts(rows=counts, stddev=stddev, law=law)


@pytest.mark.parametrize("law", [NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN])
@pytest.mark.parametrize(("factor", "found"), [(0.999, None), (1.001, (1.0, 2.0))])
def test_noise_alone_makes_a_range_once_in_a_million_times(law, factor, found):
    """A bin counts if it has more than noise alone reaches in any of the bins, or windows of them, with that chance."""
    quantile = law.distribution.quantile(2 * CLEAR / POWER_BINS / len(WINDOWS), 1)
    assert coarse_range(powers_with({0: factor * quantile}, law)) == found


def test_far_bins_need_more_rows_than_those_beside_clear_ones():
    gaussian = NoiseLaw.GAUSSIAN
    assert coarse_range(powers_with({0: 1000, 2: 5.0}, gaussian)) == (0.0, 8.0)
    assert coarse_range(powers_with({0: 1000, 2: 4.0}, gaussian)) == (1.0, 2.0)
    assert coarse_range(powers_with({0: 50, 2: 4.0}, gaussian)) == (0.0, 8.0)
    assert coarse_range(powers_with({0: 1000, 3: 5.0}, gaussian)) == (1.0, 2.0)
    assert coarse_range(powers_with({0: 1000, 10: 7.0}, gaussian)) == (0.0, 2.0**11)


def test_noise_of_four_standard_deviations_beside_clear_powers_widens_no_range():
    """Answers from 1 to 5 came out as 0 to 31, once in 53 releases of eight tables."""
    counts = powers_with({0: 100, 1: 1000, 2: 5000, 4: 4.0}, NoiseLaw.GAUSSIAN)
    assert coarse_range(counts) == (0.0, 8.0)
    assert stretched(counts, 0.0, 8.0, whole=True) == (0.0, 8.0)


def test_powers_that_are_clear_together_only_make_a_range():
    assert coarse_range(powers_with(dict.fromkeys(range(4), 4.0), NoiseLaw.GAUSSIAN)) == (0.0, 16.0)
    assert coarse_range(powers_with(dict.fromkeys(range(0, 40, 10), 4.0), NoiseLaw.GAUSSIAN)) is None


def test_a_tail_of_zeros_is_no_reason_to_cut_off_what_lies_far_from_them():
    rows = np.zeros(PARTS)
    rows[0], rows[10:20] = 1e6, 3.0
    counts = NoisyCounts(rows=rows, stddev=1.0, law=NoiseLaw.GAUSSIAN)
    assert narrowed(counts, 0.0, 32.0, held=held(rows))[1] >= 20.0 or rows[10:].sum() <= HARDLY_ANY * rows.sum()
    rows[10:20] = 0.1
    assert narrowed(counts, 0.0, 32.0, held=held(rows)) == (0.0, 2.0)


@given(  # thousandths: all powers of two that are far below one are one bin
    st.lists(st.integers(-(10**6), 10**6).map(lambda n: n / 1000), min_size=1, max_size=6),
    st.lists(st.integers(1, 3000), min_size=6, max_size=6),
    st.floats(1.0, 100.0),
)
def test_a_range_that_is_called_narrow_is_never_wider_than_four_times_what_its_numbers_span(values, repeats, stddev):
    table = np.repeat(values, repeats[: len(values)])
    rows = np.bincount(power_bins(table).astype(int), minlength=POWER_BINS).astype(float)
    counts = NoisyCounts(rows=rows, stddev=stddev, law=NoiseLaw.GAUSSIAN)
    found = coarse_range(counts)
    assume(found is not None and is_narrow(counts, *found))
    lower, upper = stretched(counts, *found)
    assert upper - lower <= 4 * np.ptp(table)


@given(st.lists(st.floats(0, 500), min_size=PARTS, max_size=PARTS))
def test_what_is_cut_off_a_narrow_range_is_surely_hardly_any(rows):
    counts = NoisyCounts(rows=np.array(rows), stddev=1.0, law=NoiseLaw.GAUSSIAN)
    lower, upper = narrowed(counts, 0.0, float(PARTS), held=held(rows), narrow=True)
    assert 0 <= lower < upper <= PARTS
    assert max(sum(rows[: int(lower)]), sum(rows[int(upper) :])) <= HARDLY_ANY * sum(rows)
    assert lower == upper - PARTS == 0 or sum(rows) * HARDLY_ANY >= 2.0 * (1 - 1e-12)


def test_a_few_parts_are_kept_with_as_many_on_either_side_if_another_look_follows():
    rows = np.zeros(PARTS)
    rows[10:12] = 1e4
    counts = NoisyCounts(rows=rows, stddev=1.0, law=NoiseLaw.GAUSSIAN)
    assert narrowed(counts, 0.0, float(PARTS), held=held(rows), last_look=False) == (8.0, 14.0)
    assert narrowed(counts, 0.0, float(PARTS), held=held(rows)) == (9.0, 13.0)
    assert narrowed(counts, 0.0, float(PARTS), held=held(rows), narrow=True) == (10.0, 12.0)


@given(st.integers(0, PARTS - 1), st.integers(4, PARTS), st.booleans(), st.integers(1, 100))
def test_what_is_left_of_a_range_is_at_most_four_times_what_its_filled_parts_span(first, width, whole, part):
    rows = np.zeros(PARTS)
    rows[first : first + width] = 1e4
    least = (rows > 0).sum() - 2 + whole
    assume(least > 1)
    counts = NoisyCounts(rows=rows, stddev=1.0, law=NoiseLaw.GAUSSIAN)
    lower, upper = narrowed(counts, 0.0, float(part * PARTS), held=held(rows), whole=whole)
    assert lower <= first * part
    assert upper >= part * min(first + width, PARTS)
    assert upper - lower - whole <= 4 * part * least


def test_the_side_with_more_rows_keeps_one_part_more():
    rows = np.zeros(PARTS)
    rows[9:13] = [3.0, 1e3, 1e3, 0.0]
    counts = NoisyCounts(rows=rows, stddev=10.0, law=NoiseLaw.GAUSSIAN)
    assert narrowed(counts, 0.0, float(PARTS), held=held(rows), whole=True) == (8.0, 13.0)


@pytest.mark.parametrize(("hidden", "found"), [(0.0, (9.0, 14.0)), (300.0, (0.0, 32.0))])
def test_a_range_is_cut_to_a_heap_unless_many_numbers_are_missed_in_it(hidden, found):
    rows = np.zeros(PARTS)
    rows[10:13] = 240.0
    counts = NoisyCounts(rows=rows, stddev=8.0, law=NoiseLaw.GAUSSIAN)
    assert narrowed(counts, 0.0, float(PARTS), held=held([*rows, hidden])) == found


@pytest.mark.parametrize(("beside", "found"), [(8, (0, 32)), (9, (8, 16)), (14, (8, 16)), (15, (0, 32))])
def test_numbers_beside_a_heap_count_in_it_up_to_the_first_part_on_either_side(beside, found):
    """They are as many as noise may hide, and with what is missed elsewhere more than that."""
    rows = np.zeros(PARTS)
    rows[10:14] = 240.0
    rows[beside] = 36.0
    counts = NoisyCounts(rows=rows, stddev=8.0, law=NoiseLaw.GAUSSIAN)
    assert narrowed(counts, 0.0, float(PARTS), held=held([*rows, 70.0])) == found


@pytest.mark.parametrize(("parts", "heap", "found"), [(2, False, (8, 14)), (3, False, (0, 32)), (3, True, (9, 14))])
def test_where_noise_may_hide_many_numbers_only_the_narrowest_heaps_are_cut_out_at_first(parts, heap, found):
    rows = np.zeros(PARTS)
    rows[10 : 10 + parts] = 20.0
    counts = NoisyCounts(rows=rows, stddev=1.0, law=NoiseLaw.GAUSSIAN)
    assert narrowed(counts, 0.0, float(PARTS), held=held(rows), heap=heap) == found


@given(st.floats(1, 1e6), st.floats(0.1, 1e4))
def test_a_look_that_may_cut_nothing_is_told_beforehand(rows, stddev):
    """Whatever the noise: if it says that nothing may be cut off, nothing is, not even one empty part."""
    assume(not may_cut(rows, stddev))
    counts = NoisyCounts(rows=np.array([0.0] * 16 + [rows / 16] * 16), stddev=stddev, law=NoiseLaw.GAUSSIAN)
    assert narrowed(counts, 0.0, 32.0, held=held(rows), narrow=True) == (0.0, 32.0)


@pytest.mark.parametrize(("beside", "found"), [(0.0, (9.0, 12.0)), (0.05, (9.0, 12.0)), (0.1, (0.0, 32.0))])
def test_a_heap_is_not_cut_out_of_many_numbers_none_of_whose_parts_is_clear(beside, found):
    """Three in four of them lie in one part and the others in all parts alike: each of these holds less than noise."""
    rows = np.full(PARTS, 1000 * beside / PARTS)
    rows[10] += 1000 * (1 - beside)
    counts = NoisyCounts(rows=rows, stddev=10.0, law=NoiseLaw.GAUSSIAN)
    assert narrowed(counts, 0.0, float(PARTS), held=held(rows)) == found


def test_the_next_power_is_taken_with_a_narrow_range_if_it_is_likely_to_hold_values():
    counts = powers_with({3: 100.0, 5: 100.0, 6: 2.5, 7: 2.5}, NoiseLaw.GAUSSIAN)
    assert stretched(counts, 0.0, 64.0) == (0.0, 64.0)
    assert stretched(counts, 8.0, 32.0) == (8.0, 64.0)
    assert stretched(powers_with({EXPONENTS - 1: 100.0}, NoiseLaw.GAUSSIAN), 0.0, 2.0**EXPONENTS)[1] == 2.0**EXPONENTS


@pytest.mark.parametrize("apart", [2, 3, 9])
def test_parts_say_that_a_range_is_narrow_where_the_nearest_numbers_that_they_may_hold_do(apart):
    rows = np.zeros(PARTS)
    rows[[5, 5 + apart]] = 1000.0  # at the end of the one and at the beginning of the other, at worst
    counts = NoisyCounts(rows=rows, stddev=1.0, law=NoiseLaw.GAUSSIAN)
    assert may_stay(counts, 1.0, 0.0, 4.0 * (apart - 1))
    assert not may_stay(counts, 1.0, 0.0, 4.0 * (apart - 1) + 0.01)


@pytest.mark.parametrize("filled", [False, True])
def test_a_range_of_one_whole_number_may_stay_whether_a_part_is_filled_or_not(filled):
    counts = NoisyCounts(rows=np.array([1000.0 * filled]), stddev=1.0, law=NoiseLaw.GAUSSIAN)
    assert may_stay(counts, 1.0, 5.0, 6.0, whole=True)
    assert not may_stay(counts, 1.0, 5.0, 7.0, whole=True)
