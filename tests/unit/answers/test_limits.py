"""Intervals of numbers with limits: what noise puts beyond a limit keeps an interval that noise allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.answers.answers import MEASURED, MODEL, NORMAL, with_intervals


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e5), st.sampled_from([MEASURED, MODEL]))
def test_no_interval_is_a_point_or_narrower_than_without_limits(estimate, stddev, basis):
    limited = with_intervals({}, np.array([estimate]), np.array([stddev]), [basis], lowest=0.0, highest=100.0)
    free = with_intervals({}, np.array([estimate]), np.array([stddev]), [basis])
    lower, upper = float(limited.lower[0]), float(limited.upper[0])
    assert 0 <= lower <= limited.estimate[0] <= upper <= 100
    if max(-estimate, estimate - 100) < 1e4 * stddev:  # further off, floats cannot tell
        assert upper - lower > 0
    assert lower <= np.clip(free.lower[0], 0, 100) + 1e-9
    assert upper >= np.clip(free.upper[0], 0, 100) - 1e-9
    if min(estimate, 100 - estimate) > 5 * stddev:
        assert upper - lower == pytest.approx(float(free.upper[0] - free.lower[0]), rel=1e-4)


@pytest.mark.parametrize("truth", [0.0, 0.5, 1.0, 2.0, 5.0])
def test_intervals_hold_the_truth_wherever_it_lies(truth):
    estimates = truth + np.random.default_rng(0).normal(size=20_000)
    found = with_intervals({}, estimates, np.ones(len(estimates)), [MEASURED] * len(estimates), lowest=0.0)
    assert ((found.lower <= truth) & (truth <= found.upper)).mean() >= 0.945


def test_without_noise_an_interval_is_its_answer_and_of_no_rows_nothing_is_known():
    estimate, stddev = np.array([3.0, -1.0, np.nan]), np.array([0.0, 0.0, 1.0])
    found = with_intervals({}, estimate, stddev, [MEASURED] * 3, lowest=0.0)
    np.testing.assert_array_equal(found.lower, [3.0, 0.0, np.nan])
    np.testing.assert_array_equal(found.upper, [3.0, 0.0, np.nan])


def test_limits_far_away_change_nothing():
    found = with_intervals({}, np.array([10.0]), np.array([1.0]), [MEASURED], lowest=-1e9, highest=1e9)
    assert found.upper[0] - found.lower[0] == pytest.approx(2 * NORMAL)
