"""Whole bounds of what was found in real numbers."""

import numpy as np
from hypothesis import given, strategies as st

from synthdp.schema.times import whole_bounds


@given(st.floats(-50, 50), st.floats(-50, 50), st.integers(-9, 9), st.integers(1, 18))
def test_whole_bounds_are_two_numbers_of_the_reach_around_the_interval(one, two, first, size):
    low, high = whole_bounds(min(one, two), max(one, two), first, first + size)
    assert first <= low < high <= first + size
    around = [x for x in range(first, first + size + 1) if min(one, two) - 1 < x < max(one, two) + 1]
    assert low <= min(around, default=low)
    assert high >= max(around, default=high)
    assert low >= min(np.floor(min(one, two)), first + size - 1) or low == first
    assert high <= max(np.ceil(max(one, two)), low + 1)
