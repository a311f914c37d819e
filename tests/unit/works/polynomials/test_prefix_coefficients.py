"""Long decision lists by polynomials of their prefixes: the same lists, exact norms, and a bound that holds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from synthdp import ApproxDP, PureDP
from synthdp.domain.domain import domain_of
from synthdp.errors import ParameterError
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.works.polynomials.decision_list_release import pattern_table, plan_at, plan_prefixes, prefix_table
from synthdp.works.polynomials.decision_lists import decision_list_schema
from synthdp.works.polynomials.list_coefficients import (
    ListCoefficients,
    PrefixCoefficients,
    list_values,
    subset_parities,
)

SCALE = 2**12


def prefixes(m, length, order, row_scale=0):
    schema = decision_list_schema([f"v{j}" for j in range(m)], length=length)
    table = prefix_table(length, order).values
    return PrefixCoefficients(domain_of(schema), m, order, (SCALE,) * (order + 1), table, row_scale)


def every_list(queries):
    """Return the codes of all lists, and of lists with rules that are missing."""
    rules = range(4 * queries.m + 1)
    return np.array([[*chosen, word] for chosen in itertools.product(rules, repeat=queries.length) for word in (0, 1)])


def test_at_full_order_the_coefficients_are_those_of_the_lists():
    m, length = 3, 3
    queries = prefixes(m, length, length)
    tables = tuple(pattern_table(r, length).values for r in range(length + 1))
    exact = ListCoefficients(queries.domain, m, length, queries.scales, tables, 0)
    codes = every_list(queries)[::37]
    np.testing.assert_allclose(queries.features(codes), exact.features(codes), atol=length + 1)


@pytest.mark.parametrize("order", [1, 2])
def test_the_norms_are_the_largest_of_all_lists(order):
    queries = prefixes(2, 2, order, row_scale=5)
    features = queries.features(every_list(queries))
    size = np.abs(features)
    one = queries.bounds.one
    assert one.l1 == size.sum(axis=1).max()
    assert one.l2_squared == (size**2).sum(axis=1).max()
    assert one.linf == size.max()
    changes = features[:, None, :] - features[None, :, :]
    assert np.abs(changes).sum(axis=2).max() <= queries.bounds.swap.l1
    assert (changes**2).sum(axis=2).max() <= queries.bounds.swap.l2_squared


@pytest.mark.parametrize(("length", "order"), [(4, 2), (6, 3), (8, 4)])
def test_no_list_is_further_from_its_polynomial_than_the_bound_and_none_is_nearer_than_the_best(length, order):
    queries = prefixes(length, length, order)
    targets = list_values(length) - 0.5
    masks, parities = subset_parities(length, order)
    constant, last = queries.of_patterns(np.arange(len(targets)), length)
    coefficients = np.empty((len(targets), len(masks)))
    for place, mask in enumerate(masks.tolist()):
        size = mask.bit_count()
        coefficients[:, place] = last[:, size, mask.bit_length() - 1] if mask else constant
    error = np.abs(coefficients / SCALE @ parities.T - targets).max()
    assert error <= prefix_table(length, order).error + 0.01  # of rounding
    assert pattern_table(min(length, 4), min(order, 2)).error <= error + 0.01


@pytest.mark.landing
def test_longer_lists_than_can_be_enumerated_are_planned():
    adjacency, loss = Adjacency(Neighbors.REPLACE_ONE), ApproxDP(1.0, 1e-6)
    variables = [f"v{j}" for j in range(12)]
    errors = [prefix_table(12, order).error for order in (4, 8, 11)]
    assert errors == sorted(errors, reverse=True)
    plan = plan_prefixes(variables, 12, 5, adjacency, loss)
    assert plan.stddev > 0
    assert plan.error == prefix_table(12, 5).error


def test_the_sum_for_several_lists_is_the_sum_of_their_features():
    queries = prefixes(4, 3, 2, row_scale=3)
    codes = every_list(prefixes(4, 3, 2))[::91]
    np.testing.assert_array_equal(queries.sums(codes), queries.features(codes).sum(axis=0))


def test_short_lists_are_answered_with_less_noise_by_their_own_polynomials():
    adjacency = Adjacency(Neighbors.REPLACE_ONE)
    variables = [f"v{j}" for j in range(6)]
    best, prefix = (make(variables, 4, 2, adjacency, PureDP(1.0)) for make in (plan_at, plan_prefixes))
    assert best.error <= prefix.error


@pytest.mark.parametrize("scales", [(3, 4, 4), (4, 4), (2**30,) * 3])
def test_scales_that_do_not_fit_are_refused(scales):
    schema = decision_list_schema(["a", "b"], length=2)
    with pytest.raises(ParameterError, match="scales"):
        PrefixCoefficients(domain_of(schema), 2, 2, scales, prefix_table(2, 2).values, 0)
