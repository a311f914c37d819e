"""Noisy histograms of numbers: what counts as zero, and what counts together."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.curator.noisy_ranges import EXPONENTS, POWER_BINS, NoisyCounts, coarse_range, is_narrow, spacing_bins
from synthdp.measurements import NoiseLaw

SPACINGS = [Fraction(10), Fraction(1), Fraction(1, 10)]
ZERO = 2 * EXPONENTS


@given(st.floats(min_value=0, exclude_min=True, allow_infinity=False))
def test_a_number_has_the_digits_of_its_negative_and_not_those_of_zero(number):
    one, other, zero = spacing_bins(SPACINGS, np.array([number, -number, 0.0]))
    assert one == other != zero


@pytest.mark.parametrize("side", [-1, 1])
def test_zeros_and_numbers_that_are_not_zero_are_not_clear_together(side):
    """Each alone is what noise may make; the powers of two of one sign would be clear together."""
    found = []
    for bins in ([ZERO, ZERO + side], [ZERO + side, ZERO + 2 * side]):
        rows = np.zeros(POWER_BINS)
        rows[bins] = 5.0
        found.append(coarse_range(NoisyCounts(rows=rows, stddev=1.0, law=NoiseLaw.GAUSSIAN)) is not None)
    assert found == [False, True]


def test_a_range_of_one_clear_power_is_not_called_narrow():
    """All its numbers may be the same."""
    rows = np.zeros(POWER_BINS)
    rows[3 * EXPONENTS + 7] = 1e6
    counts = NoisyCounts(rows=rows, stddev=1.0, law=NoiseLaw.LAPLACE)
    assert not is_narrow(counts, *coarse_range(counts))
