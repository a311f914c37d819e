"""Chebyshev's construction, optimal coefficients, and the division of noise among levels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from synthdp.errors import ParameterError
from synthdp.mechanisms.fourier.monomial_release import approximation
from synthdp.mechanisms.fourier.polynomials import (
    chebyshev_conjunction,
    chebyshev_degree,
    least_worst_use,
    newton_coefficients,
    optimal_coefficients,
)
from synthdp.queries.fourier.krawtchouk import fourier_coefficients, krawtchouk


def conjunction(k: int) -> tuple[float, ...]:
    return (0.0,) * k + (1.0,)


@pytest.mark.parametrize(("k", "chebyshev", "optimal"), [(8, 5, 4), (16, 6, 6)])
def test_degrees_for_an_error_of_a_tenth_are_those_of_the_table(k, chebyshev, optimal):
    assert chebyshev_degree(k, 0.1) == chebyshev
    errors = [optimal_coefficients(conjunction(k), t, (0.0,) * (t + 1)).error for t in range(1, k)]
    assert 1 + next(i for i, error in enumerate(errors) if error <= 0.1) == optimal


@pytest.mark.parametrize("k", range(2, 17))
def test_the_chebyshev_polynomial_is_one_at_the_conjunction_and_small_elsewhere(k):
    for degree in range(1, k + 1):
        values = chebyshev_conjunction(k, degree)
        bound = 1 / math.cosh(degree * math.acosh((k + 1) / (k - 1)))
        assert values[-1] == pytest.approx(1.0)
        assert np.abs(values[:-1]).max() <= bound * (1 + 1e-9)
        assert np.abs(fourier_coefficients(values)[degree + 1 :]).max(initial=0.0) < 1e-9
        optimal = optimal_coefficients(conjunction(k), degree, (0.0,) * (degree + 1)).error
        assert optimal <= bound + 1e-7


def test_chebyshev_degree_is_the_least_that_suffices():
    for k in range(2, 20):
        degree = chebyshev_degree(k, 0.05)
        assert degree == k or np.abs(chebyshev_conjunction(k, degree)[:-1]).max() <= 0.05
        assert degree == 1 or 1 / math.cosh((degree - 1) * math.acosh((k + 1) / (k - 1))) > 0.05


@settings(max_examples=50)
@given(st.lists(st.floats(-3, 3), min_size=2, max_size=9))
def test_newton_coefficients_give_the_function_back(values):
    a = newton_coefficients(np.array(values))
    k = len(values) - 1
    rebuilt = [sum(a[i] * math.comb(k - true, i) for i in range(k + 1)) for true in range(k + 1)]
    np.testing.assert_allclose(rebuilt, values, atol=1e-9)


def test_newton_coefficients_of_the_paper_are_small_but_their_weighted_sum_explodes():
    a = newton_coefficients(chebyshev_conjunction(16, 6))[:7]
    assert np.abs(a).max() <= 1.24
    assert 1e3 < sum(math.comb(16, i) * abs(a[i]) for i in range(7)) < 1e5


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=9), st.data())
def test_the_polynomial_is_within_its_error_of_the_query(values, data):
    k = len(values) - 1
    order = data.draw(st.integers(1, k))
    noise = tuple(data.draw(st.floats(0, 0.1)) for _ in range(order + 1))
    found = optimal_coefficients(tuple(values), order, noise)
    assert np.abs(krawtchouk(k, order) @ found.values - values).max() <= found.error + 1e-9


def test_at_full_order_the_exact_polynomial_is_taken_unless_noise_forbids():
    exact = optimal_coefficients(conjunction(3), 3, (0.0, 1e-3, 1e-3, 1e-3))
    np.testing.assert_array_equal(exact.values, fourier_coefficients(conjunction(3)))
    assert exact.error == 0.0
    assert optimal_coefficients(conjunction(3), 3, (0.0, 0.01, 0.01, 9.0)).values[3] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("degree", range(1, 6))
def test_approximations_have_their_degree_and_the_right_ends(degree):
    conjunctive, disjunctive = approximation(conjunction(5), degree), approximation((0.0,) + (1.0,) * 5, degree)
    assert conjunctive[-1] == pytest.approx(1.0)
    assert disjunctive[0] == pytest.approx(0.0)
    majority = approximation((0.0, 0.0, 0.0, 1.0, 1.0, 1.0), degree)
    for values in (conjunctive, disjunctive, majority):
        assert np.abs(fourier_coefficients(values)[degree + 1 :]).max(initial=0.0) < 1e-9


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0.01, 10), min_size=3, max_size=3),
    st.lists(st.lists(st.floats(0.01, 5), min_size=3, max_size=3), min_size=1, max_size=4),
)
def test_shares_of_noise_are_feasible_and_no_random_share_is_better(costs, use):
    costs, use = np.array(costs), np.array(use)
    v = least_worst_use(costs, use)
    assert (use @ v).max() == pytest.approx(1.0)
    other = v * np.exp(np.random.default_rng(0).normal(0, 0.3, (500, 3)))
    other /= (other @ use.T).max(axis=1, keepdims=True)
    assert (costs / v).sum() <= (costs / other).sum(axis=1).min() * (1 + 1e-3)


def test_with_one_constraint_the_share_is_the_square_root_rule():
    costs, use = np.array([1.0, 4.0, 9.0]), np.array([[2.0, 1.0, 5.0]])
    expected = np.sqrt(costs / use[0])
    np.testing.assert_allclose(least_worst_use(costs, use), expected / (use[0] @ expected))


def test_a_degree_out_of_range_is_refused():
    with pytest.raises(ParameterError, match=r"degree \(4\) must be from 1 to the number of literals \(3\)"):
        chebyshev_conjunction(3, 4)
