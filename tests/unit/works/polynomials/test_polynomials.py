"""Chebyshev's construction, optimal coefficients, and the division of noise among levels."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.errors import ParameterError
from synthdp.works.polynomials.monomial_release import approximation
from synthdp.works.polynomials.polynomials import (
    chebyshev_conjunction,
    chebyshev_degree,
    fourier_coefficients,
    krawtchouk,
    krawtchouk_sums,
    least_worst_use,
    newton_coefficients,
    optimal_coefficients,
)


def conjunction(k: int) -> tuple[float, ...]:
    return (0.0,) * k + (1.0,)


@pytest.mark.landing
@pytest.mark.parametrize(("k", "chebyshev", "optimal"), [(8, 5, 4), (16, 6, 6)])
def test_degrees_for_an_error_of_a_tenth_are_those_of_the_table(k, chebyshev, optimal):
    assert chebyshev_degree(k, 0.1) == chebyshev
    errors = [optimal_coefficients(conjunction(k), t, (0.0,) * (t + 1)).error for t in range(1, k)]
    assert 1 + next(i for i, error in enumerate(errors) if error <= 0.1) == optimal


@pytest.mark.landing
@pytest.mark.sampled
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


SHAPES = {
    "conjunction": conjunction,
    "disjunction": lambda k: (0.0,) + (1.0,) * k,
    "majority": lambda k: tuple(float(2 * true > k) for true in range(k + 1)),
    "parity": lambda k: tuple((-1.0) ** true for true in range(k + 1)),
    "ramp": lambda k: tuple(true / k for true in range(k + 1)),
}


def true_error(values: tuple[float, ...], b: np.ndarray) -> float:
    """The largest error of a polynomial, in exact arithmetic."""
    sums = krawtchouk_sums(len(values) - 1, len(b) - 1)
    answers = [sum(Fraction(float(one)) * size for one, size in zip(b, row, strict=True)) for row in sums]
    return float(max(abs(answer - Fraction(value)) for answer, value in zip(answers, values, strict=True)))


WIDTHS, PRICES = [1, 2, 9, 33, 52, 56, 64, 80, 128], [0.0, 1e-9, 1e-3, 1.0]
IN_TURNS = [
    pytest.param(SHAPES[shape], k, price, marks=[pytest.mark.slow] * ((i + j) % 16 != p), id=f"{shape} {k} {price}")
    for (i, shape), (j, k), (p, price) in itertools.product(*map(enumerate, (SHAPES, WIDTHS, PRICES)))
]
"""Some pairs of a shape and a width, with prices in turns; the others are ``slow``."""


@pytest.mark.parametrize(("shape", "k", "price"), IN_TURNS)
def test_a_query_of_any_width_and_price_has_a_polynomial_that_is_never_worse_than_a_constant(shape, k, price):
    values = shape(k)
    middle = (max(values) + min(values)) / 2
    for order in {1, min(k, 4), max(1, k // 2), k}:
        found = optimal_coefficients(values, order, (price,) * (order + 1))
        assert found.values.shape == (order + 1,)
        assert found.error == true_error(values, found.values)
        cost = found.error + price * np.abs(found.values).sum()
        assert cost <= (max(values) - min(values)) / 2 + price * abs(middle) + 2e-6


@pytest.mark.landing
@pytest.mark.sampled("landing")
@pytest.mark.parametrize("k", [9, 48, 56, 64, 80])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_all_levels_without_a_price_give_the_query_itself(shape, k):
    assert optimal_coefficients(shape(k), k, (0.0,) * (k + 1)).error < 1e-9


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("k", [48, 56, 64, 80])
def test_a_wide_conjunction_is_no_worse_than_by_the_chebyshev_polynomial(k):
    for degree in (2, 7, k // 4, k // 2):
        bound = 1 / math.cosh(degree * math.acosh((k + 1) / (k - 1)))
        assert optimal_coefficients(conjunction(k), degree, (0.0,) * (degree + 1)).error <= bound + 1e-6


@pytest.mark.parametrize("k", [1, 2, 5, 12])
def test_krawtchouk_sums_are_sums_of_parities(k):
    expected = [
        [sum((-1) ** j * math.comb(m, j) * math.comb(k - m, i - j) for j in range(i + 1)) for i in range(k + 3)]
        for m in range(k + 1)
    ]
    assert [list(row) for row in krawtchouk_sums(k, k + 2)] == expected


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("k", [16, 64, 200])
def test_fourier_coefficients_are_right_to_the_last_digit(k):
    values = tuple(math.sin(true) for true in range(k + 1))
    table = krawtchouk_sums(k, k)
    for i, b in enumerate(fourier_coefficients(values)):
        exact = sum(Fraction(f) * table[i][m] for m, f in enumerate(values)) / 2**k
        assert b == float(exact)


@pytest.mark.parametrize("degree", range(1, 6))
def test_approximations_have_their_degree_and_the_right_ends(degree):
    conjunctive, disjunctive = approximation(conjunction(5), degree), approximation((0.0,) + (1.0,) * 5, degree)
    assert conjunctive[-1] == pytest.approx(1.0)
    assert disjunctive[0] == pytest.approx(0.0)
    majority = approximation((0.0, 0.0, 0.0, 1.0, 1.0, 1.0), degree)
    for values in (conjunctive, disjunctive, majority):
        assert np.abs(fourier_coefficients(values)[degree + 1 :]).max(initial=0.0) < 1e-9


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
    with pytest.raises(ParameterError, match="degree"):
        chebyshev_conjunction(3, 4)
