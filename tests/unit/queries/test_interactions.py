"""Interactions are the residuals of tables, and their sensitivity is exact: attained by some pair of neighbours."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from query_cases import cells_of, hiding, of_sizes

from synthdp.errors import ParameterError, SensitivityError
from synthdp.queries.interactions import Interactions
from synthdp.queries.marginals import Marginals
from synthdp.queries.norms import Norms

SHAPES = [(2,), (3,), (5,), (2, 2), (2, 3), (3, 3), (5, 2), (2, 2, 2), (2, 3, 2), (3, 4, 2), (2, 2, 2, 2)]


def largest(changes):
    changes = abs(changes)
    return Norms(int(changes.sum(axis=1).max()), int((changes**2).sum(axis=1).max()), int(changes.max()))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weight", [1, 7])
def test_the_sensitivity_of_an_interaction_is_what_some_neighbours_attain(shape, weight):
    queries = Interactions(of_sizes(*shape), (tuple(range(len(shape))),), (weight,))
    each = queries.features(cells_of(queries.domain))
    assert queries.bounds.one == largest(each)
    assert queries.bounds.swap == largest((each[:, None] - each[None]).reshape(-1, queries.k))


@pytest.mark.parametrize("shape", SHAPES)
def test_in_rows_the_squared_sensitivity_is_the_product_of_one_minus_one_over_each_size(shape):
    queries = Interactions(of_sizes(*shape), (tuple(range(len(shape))),), (3,))
    exact = np.prod([1 - 1 / n for n in shape])
    assert queries.bounds.one.l2_squared / queries.scales[0] ** 2 == pytest.approx(exact)


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4), data=st.data())
@settings(max_examples=2 * settings.default.max_examples)
def test_a_table_is_the_sum_of_its_interactions_spread_evenly(sizes, data):
    domain = of_sizes(*sizes)
    whole = tuple(range(len(sizes)))
    codes = cells_of(domain)[data.draw(st.lists(st.integers(0, domain.cells - 1), min_size=1, max_size=30))]
    parts = [part for size in range(1, len(sizes) + 1) for part in itertools.combinations(whole, size)]
    queries = Interactions(domain, tuple(parts), tuple(range(1, len(parts) + 1)))
    found = np.full(sizes, len(codes) / domain.cells)
    for part, effect in zip(parts, queries.split(queries.sums(codes)), strict=True):
        inside = [sizes[j] if j in part else 1 for j in whole]
        found = found + effect.reshape(inside) * effect.size / domain.cells
    assert found.ravel() == pytest.approx(Marginals(domain, (whole,)).sums(codes))


@given(data=st.data())
def test_what_is_summed_is_what_each_row_adds(data):
    queries = Interactions(hiding(), ((0,), (2, 1), (0, 1, 2)), (2, 1, 5))
    codes = cells_of(queries.domain)[data.draw(st.lists(st.integers(0, queries.domain.cells - 1), max_size=20))]
    assert (queries.sums(codes) == queries.features(codes).sum(axis=0)).all()


def test_a_misfit_adds_nothing_to_the_interactions_of_its_column_and_what_it_does_to_others():
    queries = Interactions(hiding(), ((0,), (1,), (0, 1)), (1, 1, 1))
    of_a, of_b, of_both = queries.split(queries.features(np.array([[2, 1, 0]]))[0])
    assert not of_a.any()
    assert not of_both.any()
    assert of_b == pytest.approx(np.array([0, 1, 0]) - 1 / 3)


@pytest.mark.parametrize(
    ("cliques", "weights"),
    [((), ()), (((0, 0),), (1,)), (((0, 9),), (1,)), (((),), (1,)), (((0,),), (0,)), (((0,),), ())],
)
def test_cliques_and_weights_that_make_no_sense_are_refused(cliques, weights):
    with pytest.raises(ParameterError, match=r"must|needs"):
        Interactions(of_sizes(2, 3), cliques, weights)


def test_weights_that_might_overflow_are_refused():
    with pytest.raises(SensitivityError, match="denominator"):
        Interactions(of_sizes(4, 4), ((0, 1),), (2**27,))
