"""Estimates over time: differences, trends and bands follow from the covariance of their errors."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.answers.over_time import OverTime
from synthdp.errors import ParameterError
from synthdp.privacy.series_factor import optimal_factor, prefix_covariance


def over(covariance, estimates=None):
    count = len(covariance)
    estimates = np.arange(count, dtype=float) if estimates is None else estimates
    return OverTime(tuple(range(count)), estimates, np.asarray(covariance, float))


def test_the_band_of_one_period_is_its_interval():
    assert over([[4.0]]).band() == pytest.approx(1.96, abs=0.03)


def test_independent_periods_need_a_wider_band_and_equal_ones_do_not():
    assert over(np.eye(12)).band() == pytest.approx(2.86, abs=0.03)  # (1 - .05) ** (1 / 12)
    assert over(np.ones((12, 12))).band() == pytest.approx(1.96, abs=0.03)


def test_the_band_of_twelve_prefix_sums_of_a_series():
    assert over(prefix_covariance(optimal_factor(12))).band() == pytest.approx(2.79, abs=0.04)


def test_a_band_holds_all_periods_as_often_as_it_says():
    covariance = prefix_covariance(optimal_factor(12))
    shown, root = over(covariance), np.linalg.cholesky(covariance)
    draws = root @ np.random.default_rng(1).standard_normal((12, 20_000))
    inside = (np.abs(draws) <= shown.band() * shown.standard_errors[:, None]).all(axis=0).mean()
    assert inside == pytest.approx(0.95, abs=0.007)


@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_single_periods_are_differences_with_the_covariance_of_these(count, number):
    rng = np.random.default_rng(number)
    root, estimates = rng.normal(size=(count, count)), rng.normal(size=count)
    so_far = over(root @ root.T, estimates)
    single = so_far.of_single_periods()
    np.testing.assert_allclose(np.cumsum(single.estimates), estimates)
    for t in range(1, count):
        estimate, error = so_far.difference(t - 1, t)
        assert estimate == pytest.approx(single.estimates[t])
        assert error == pytest.approx(single.standard_errors[t])


def test_a_trend_of_independent_equal_errors_is_the_slope_of_least_squares():
    estimates = np.array([1.0, 3.0, 2.0, 5.0])
    slope, error = over(np.eye(4) * 0.25, estimates).trend()
    times = np.arange(4)
    assert slope == pytest.approx(np.polyfit(times, estimates, 1)[0])
    assert error == pytest.approx(0.5 / np.sqrt(((times - 1.5) ** 2).sum()))


def test_a_trend_needs_two_periods():
    with pytest.raises(ParameterError):
        over([[1.0]]).trend()


def test_a_frame_has_a_row_a_period_and_no_count_below_nothing():
    frame = over(np.eye(3) * 100.0).to_frame(least=0.0)
    assert list(frame["period"]) == [0, 1, 2]
    assert (frame["band_lower"] >= 0).all()
    assert (frame["band_upper"] > frame["upper"]).all()


def test_a_number_without_noise_has_no_band():
    frame = over(np.zeros((2, 2))).to_frame()
    assert (frame["band_upper"] == frame["estimate"]).all()
