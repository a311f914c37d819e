"""How the noise of many periods is shared: variances, costs of units, and what is left for a later plan."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.privacy.series_factor import (
    UNIT,
    cost_matrix,
    largest_first,
    optimal_factor,
    prefix_covariance,
    prefix_sums,
    worst_cost,
)


def largest_variance(periods, at_most=1):
    """Of a prefix sum, at a cost of 1 to every unit."""
    factor = optimal_factor(periods, at_most)
    cost = worst_cost(cost_matrix(factor, range(periods), first_rows=1), at_most)
    return float(np.diag(prefix_covariance(factor)).max()) * int(factor[0, 0]) ** 2 * cost


@pytest.mark.parametrize(("periods", "least"), [(1, 1.0), (2, 4 / 3), (12, 2.64), (24, 3.33)])
def test_the_variance_of_prefix_sums_is_the_optimum(periods, least):
    assert least * 0.999 <= largest_variance(periods) <= least * 1.007


@pytest.mark.slow
def test_the_variance_of_sixty_prefix_sums_is_the_optimum():
    assert 4.35 <= largest_variance(60) <= 4.43


@pytest.mark.parametrize(("at_most", "least"), [(2, 8.3), (3, 16.0), pytest.param(12, 144.0, marks=pytest.mark.slow)])
def test_units_in_several_periods_cost_what_they_must(at_most, least):
    assert least * 0.99 <= largest_variance(12, at_most) <= least * 1.02


def test_a_factor_is_whole_triangular_and_small():
    for periods, at_most in ((1, 1), (5, 2), (12, 1)):
        factor = optimal_factor(periods, at_most)
        assert factor.dtype == np.int64
        assert not np.triu(factor, 1).any()
        assert (np.diag(factor) > 0).all()
        assert np.abs(factor).max() <= 2 * UNIT


@given(st.integers(2, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_worst_cost_is_that_of_the_worst_set_of_periods(periods, at_most, number):
    rng = np.random.default_rng(number)
    root = np.tril(rng.integers(-5, 9, (periods, periods)))
    costs = np.abs(root.T @ root).astype(float)
    sets = [s for size in range(1, min(at_most, periods) + 1) for s in itertools.combinations(range(periods), size)]
    brute = max(costs[np.ix_(s, s)].sum() for s in sets)
    assert worst_cost(costs, at_most) == pytest.approx(brute)


@given(st.integers(2, 7), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_the_bound_for_many_sets_holds(periods, at_most, number):
    import synthdp.privacy.series_factor as module

    rng = np.random.default_rng(number)
    root = np.tril(rng.integers(-5, 9, (periods, periods)))
    costs = np.abs(root.T @ root).astype(float)
    exact, most = worst_cost(costs, at_most), module.MOST_PATTERNS
    try:
        module.MOST_PATTERNS = 0
        bound = worst_cost(costs, at_most)
        assert bound >= exact * (1 - 1e-12)
    finally:
        module.MOST_PATTERNS = most
    size = min(at_most, periods)
    others = [sorted(np.delete(row, i))[::-1][: size - 1] for i, row in enumerate(costs)]
    each = sorted(row[i] + sum(most) for i, (row, most) in enumerate(zip(costs, others, strict=True)))
    assert bound == pytest.approx(sum(each[-size:]))


@pytest.mark.parametrize("signs", list(itertools.product((1, -1), repeat=3)))
def test_no_signs_of_a_units_rows_cost_more_than_the_matrix_says(signs):
    """A row that is taken back counts -1: the cost of any signs lies below that of absolute values."""
    factor = optimal_factor(3, 3)
    moved = factor @ np.array(signs)
    costs = cost_matrix(factor, range(3), first_rows=1)
    assert float(moved @ moved) <= worst_cost(costs, 3) * int(factor[0, 0]) ** 2 * (1 + 1e-12)


def test_what_a_plan_costs_counts_each_period_of_its_first_column():
    factor = optimal_factor(2)
    costs = cost_matrix(factor, [0, 0, 1, -1], first_rows=2)
    first = float((factor[:, 0] ** 2).sum()) / int(factor[0, 0]) ** 2
    assert costs[0, 0] == pytest.approx(first / 4)
    assert costs[:2, :2].sum() == pytest.approx(first)
    assert not costs[3].any()


def test_a_later_plan_gets_what_is_left():
    factor = optimal_factor(2)
    spent = cost_matrix(factor, [0, 1, -1, -1], first_rows=1)
    spent *= 0.3 / worst_cost(spent, 1)
    later = cost_matrix(optimal_factor(3, 1, 0.7, 2), [0, 0, 1, 2], first_rows=1)
    first = largest_first(spent, later, 1, mu=1.0)
    assert worst_cost(spent + first**2 * later, 1) == pytest.approx(1.0, rel=1e-6)
    assert worst_cost(spent + first**2 * later, 1) <= 1.0


def test_decoding_is_exact_whatever_rounding_made_the_factor():
    factor = optimal_factor(12)
    sums = np.random.default_rng(0).integers(0, 1000, (12, 4))
    answers = factor @ sums
    found = prefix_sums(12) @ np.linalg.inv(factor.astype(float)) @ answers
    np.testing.assert_allclose(found, np.cumsum(sums, axis=0), rtol=1e-9)
