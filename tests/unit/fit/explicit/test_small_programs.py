"""Coefficients, ranges and maximum entropy on few points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.fit.explicit.linear_program import optimum
from synthdp.fit.explicit.moment_fits import average_range, max_entropy, max_entropy_sensitivity
from synthdp.works.polynomials.polynomials import best_coefficients, fourier_coefficients, krawtchouk

CUBE = (np.arange(8)[:, None] >> np.arange(3)) & 1
PARITIES = (
    np.array([(1 - 2 * CUBE)[:, list(s)].prod(axis=1) for s in ([], [0], [1], [2], [0, 1], [0, 2], [1, 2])]) * 1.0
)


@pytest.mark.parametrize(("k", "order"), [(4, 2), (8, 4), (8, 5), (16, 6)])
def test_the_polynomial_stays_within_its_error(k, order):
    f = np.append(np.zeros(k), 1.0)
    found = best_coefficients(krawtchouk(k, order), f)
    gap = np.abs(krawtchouk(k, order) @ found.values - f)
    assert gap.max() <= found.error
    # Chebyshev's alternation: the best approximation from order + 1 functions touches its error order + 2 times.
    assert (gap > found.error - 1e-7).sum() >= order + 2


def test_without_noise_and_with_all_levels_the_polynomial_is_exact():
    f = np.array([0.0, 1.0, 0.0, 1.0, 1.0])
    found = best_coefficients(krawtchouk(4, 4), f)
    np.testing.assert_allclose(found.values, fourier_coefficients(f), atol=1e-9)


def test_dear_coefficients_are_small():
    f = np.append(np.zeros(6), 1.0)
    K = krawtchouk(6, 4)
    errors, sizes = [], []
    for price in (0.0, 0.01, 0.05, 100.0):
        found = best_coefficients(K, f, noise=price * np.ones(5))
        errors.append(found.error)
        sizes.append(np.abs(found.values).sum())
    assert (np.diff(errors) > -1e-9).all()
    assert (np.diff(sizes) < 1e-9).all()
    assert errors[0] < errors[-1]
    assert sizes[-1] == pytest.approx(0.0, abs=1e-9)


def test_a_program_without_a_solution_says_so():
    assert optimum(np.ones(1), rows=np.ones((1, 1)), limits=-np.ones(1)) is None


@pytest.mark.landing
@given(
    st.lists(st.integers(0, 40), min_size=8, max_size=8).filter(any), st.lists(st.floats(-2, 2), min_size=8, max_size=8)
)
def test_the_range_contains_the_average_that_the_moments_come_from(counts, f):
    counts, f = np.array(counts, np.float64), np.array(f)
    sums = PARITIES @ counts
    truth = float(f @ counts / counts.sum())
    for half in (0.0, 0.5, 3.0):
        found = average_range(f, PARITIES, lower=sums - half, upper=sums + half)
        assert found.lower <= truth + 1e-6
        assert found.upper >= truth - 1e-6


def test_the_range_is_a_point_where_all_moments_are_known():
    counts = np.arange(1.0, 9.0)
    f = CUBE.prod(axis=1) * 1.0
    full = np.vstack([PARITIES, (1 - 2 * CUBE).prod(axis=1)])
    found = average_range(f, full, lower=full @ counts, upper=full @ counts)
    np.testing.assert_allclose(found, [8 / 36, 8 / 36], atol=1e-7)


def test_one_moment_leaves_the_range_of_inclusion_and_exclusion():
    # P(a) = .7, P(b) = .6, nothing on the pair: .3 <= P(a and b) <= .6
    A = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1]], np.float64)
    sums = np.array([100.0, 100 - 140, 100 - 120])
    found = average_range(np.array([0.0, 0, 0, 1]), A, lower=sums, upper=sums)
    np.testing.assert_allclose(found, [0.3, 0.6], atol=1e-7)


def test_moments_that_no_measure_has_are_widened_until_one_does():
    A = np.array([[1.0, 1.0], [1.0, -1.0]])
    sums = np.array([100.0, 120.0])  # more difference than mass
    found = average_range(np.array([0.0, 1.0]), A, lower=sums - 1, upper=sums + 1)
    np.testing.assert_allclose(found, [0.0, 0.0], atol=1e-3)


@given(st.lists(st.floats(0.05, 1.0), min_size=8, max_size=8), st.floats(0.001, 0.3))
def test_maximum_entropy_satisfies_its_optimality_conditions(weights, stddev):
    truth = np.array(weights) / sum(weights)
    A = PARITIES[1:]
    fitted = max_entropy(A, A @ truth, stddev=np.full(6, stddev))
    assert fitted.sum() == pytest.approx(1.0)
    # log w is linear in the features with multipliers (moment - fitted) / variance
    y = (A @ truth - A @ fitted) / stddev**2
    exponent = np.log(fitted) - y @ A
    np.testing.assert_allclose(exponent, exponent.mean(), atol=1e-4)


def test_maximum_entropy_of_exact_margins_is_their_product():
    p = np.array([0.2, 0.5, 0.9])
    fitted = max_entropy(PARITIES[1:4], 1 - 2 * p, stddev=np.zeros(3))
    product = np.where(CUBE == 1, p, 1 - p).prod(axis=1)
    np.testing.assert_allclose(fitted, product, atol=1e-8)


def test_maximum_entropy_survives_moments_on_and_beyond_the_boundary():
    fitted = max_entropy(PARITIES[1:4], np.array([1.0, -1.0, 1.3]), stddev=np.array([0.0, 0.0, 0.1]))
    assert fitted.max() == pytest.approx(1.0, abs=1e-3)
    assert np.argmax(fitted) == 2


def test_the_sensitivity_of_maximum_entropy_is_its_derivative():
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(8))
    A, f, spread = PARITIES[1:], rng.normal(size=8), np.full(6, 0.05)
    moments = A @ truth
    moved = max_entropy_sensitivity(f, A, max_entropy(A, moments, stddev=spread), stddev=spread)
    for i in range(6):
        step = np.zeros(6)
        step[i] = 1e-4
        up, down = (f @ max_entropy(A, moments + sign * step, stddev=spread) for sign in (1, -1))
        assert moved[i] == pytest.approx((up - down) / 2e-4, abs=1e-4)
