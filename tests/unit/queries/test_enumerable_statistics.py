"""Statistics over enumerable domains: their declared bounds are the largest changes over all neighbouring tables."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from small_worlds import answers, binary_world, labelled_world, largest_change

from synthdp.domain.domain import domain_of, releasable_domain, universe, universe_size
from synthdp.errors import ParameterError, SensitivityError
from synthdp.queries.linear import CellQueries, Subset
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.works.net.mwem import QueryDistances
from synthdp.works.net.net import NetScores, multiset_count, multisets
from synthdp.works.net.private_boosting import BoostingScores
from synthdp.works.polynomials.fourier_marginals import CellParities, closure, masks_below, table_of, widths

SCHEMA, DOMAIN = labelled_world(3, 2)
CELLS = universe(DOMAIN)
VALUES = np.array([[0, 3, 1, 4, 1, 5], [2, 2, -2, 0, 1, 0], [0, 0, 0, 0, 0, 1]])
QUERIES = CellQueries(DOMAIN, VALUES, denominator=5)


def equal(bounds, change):
    assert (bounds.l1, bounds.l2_squared, bounds.linf) == (change.l1, change.l2_squared, change.linf)


def test_bounds_of_cell_queries_are_the_largest_changes():
    equal(QUERIES.bounds.one, largest_change(QUERIES, 1, swap=False))
    equal(QUERIES.bounds.swap, largest_change(QUERIES, 2, swap=True))


@given(st.lists(st.lists(st.integers(-4, 4), min_size=6, max_size=6), min_size=1, max_size=3))
def test_bounds_of_any_cell_queries_are_the_largest_changes(values):
    queries = CellQueries(DOMAIN, np.array(values))
    equal(queries.bounds.one, largest_change(queries, 1, swap=False))
    equal(queries.bounds.swap, largest_change(queries, 1, swap=True))


def test_bounds_by_ranges_are_safe(monkeypatch):
    exact = QUERIES.bounds.swap
    monkeypatch.setattr("synthdp.queries.linear.EXACT_PAIRS", 2)
    loose = CellQueries(DOMAIN, VALUES, denominator=5).bounds.swap
    assert loose.linf == exact.linf
    assert loose.l1 >= exact.l1
    assert loose.l2_squared >= exact.l2_squared


def test_sums_of_cell_queries_are_the_sums_of_their_features():
    codes = np.array([[0, 1], [2, 0], [2, 1], [2, 1]])
    np.testing.assert_array_equal(QUERIES.sums(codes), QUERIES.features(codes).sum(axis=0))
    np.testing.assert_array_equal(QUERIES.features(CELLS), VALUES.T)


@pytest.mark.parametrize(
    ("values", "denominator"),
    [(np.zeros((1, 5), int), 1), (np.zeros((0, 6), int), 1), (np.zeros((1, 6)), 1), (VALUES, 0)],
)
def test_cell_queries_need_whole_values_for_every_cell(values, denominator):
    with pytest.raises(ParameterError):
        CellQueries(DOMAIN, values, denominator=denominator)


def test_cell_queries_that_may_overflow_are_refused():
    with pytest.raises(SensitivityError):
        CellQueries(DOMAIN, np.full((1, 6), 2**40))


@pytest.mark.parametrize("positions", [[0], [2, 1], [0, 0], [0, 1, 2]])
def test_a_subset_has_the_chosen_answers_and_safe_bounds(positions):
    subset = Subset(QUERIES, np.array(positions))
    codes = CELLS[[0, 3, 3, 5]]
    np.testing.assert_array_equal(answers(subset, codes), answers(QUERIES, codes)[positions])
    for declared, swap in ((subset.bounds.one, False), (subset.bounds.swap, True)):
        change = largest_change(subset, 1, swap=swap)
        assert declared.l1 >= change.l1
        assert declared.l2_squared >= change.l2_squared
        assert declared.linf >= change.linf


def test_one_query_of_a_marginal_costs_one_cell():
    tables = Marginals(DOMAIN, all_cliques(DOMAIN, 1))
    equal(Subset(tables, np.array([3])).bounds.swap, largest_change(Subset(tables, np.array([3])), 1, swap=True))


@pytest.mark.parametrize("positions", [[], [3], [-1]])
def test_a_subset_needs_positions_of_the_family(positions):
    with pytest.raises(ParameterError):
        Subset(QUERIES, np.array(positions, int))


@pytest.mark.parametrize("swap", [False, True])
def test_query_distances_move_no_more_than_their_queries(swap):
    distances = QueryDistances(QUERIES, np.array([7, 0, -3]), 4)
    declared = distances.bounds.swap if swap else distances.bounds.one
    change = largest_change(distances, 2, swap=swap)
    assert change.linf == declared.linf
    assert change.l1 <= declared.l1
    assert change.l2_squared <= declared.l2_squared


def test_query_distances_are_in_the_finer_unit():
    distances = QueryDistances(QUERIES, np.array([0, 0, 40]), 4)
    codes = CELLS[[5, 5]]
    np.testing.assert_array_equal(answers(distances, codes), [40, 0, 32])
    assert distances.denominator == 20


@pytest.mark.parametrize(("cells", "size"), [(1, 4), (2, 3), (3, 2), (4, 5), (6, 1)])
def test_multisets_are_all_counts_of_one_size_once(cells, size):
    counts = multisets(cells, size)
    assert counts.shape == (multiset_count(cells, size), cells) == (math.comb(cells + size - 1, size), cells)
    assert (counts >= 0).all()
    assert (counts.sum(axis=1) == size).all()
    assert len(np.unique(counts, axis=0)) == len(counts)


def net_scores(rows: int = 2) -> NetScores:
    return NetScores(QUERIES, CELLS, multisets(len(CELLS), 2), rows)


@pytest.mark.parametrize("swap", [False, True])
def test_net_scores_move_by_their_bound_and_attain_it(swap):
    scores = net_scores()
    declared = scores.bounds.swap if swap else scores.bounds.one
    assert largest_change(scores, 2, swap=swap).linf == declared.linf


@pytest.mark.parametrize("magnify", [1, 2**45])
def test_net_scores_are_the_largest_errors_of_averages(magnify):
    """The second case leaves the whole numbers that floats hold exactly."""
    rows = 3 * magnify
    scores = net_scores(rows)
    totals = magnify * QUERIES.sums(CELLS[[0, 1, 4]])
    truth = totals / rows
    averages = scores.candidates @ VALUES.T / 2
    expected = -np.abs(averages - truth).max(axis=1)
    np.testing.assert_allclose(scores.finish(totals) / (2 * rows), expected, rtol=0, atol=1e-12)


def test_net_scores_need_candidates_of_one_size():
    with pytest.raises(ParameterError, match="candidates"):
        NetScores(QUERIES, CELLS, np.eye(6, dtype=int)[:2] * [[1], [2]], 3)
    with pytest.raises(ParameterError, match="rows"):
        NetScores(QUERIES, CELLS, multisets(6, 2), 0)


def boosting_scores() -> BoostingScores:
    return BoostingScores(QUERIES, np.array([[6, 0, 2], [9, -3, 1]]), 6, 4, 2)


@pytest.mark.parametrize("swap", [False, True])
def test_boosting_scores_move_by_at_most_their_bound(swap):
    scores = boosting_scores()
    declared = scores.bounds.swap if swap else scores.bounds.one
    assert 0 < largest_change(scores, 2, swap=swap).linf <= declared.linf


def test_boosting_scores_attain_their_bound_where_both_rounds_fall():
    one = CellQueries(DOMAIN, np.array([[0, 0, 0, 0, 0, 1]]))
    scores = BoostingScores(one, np.array([[0], [0]]), 5, 5)
    assert largest_change(scores, 2, swap=True).linf == scores.bounds.swap.linf == 2


def test_a_good_answer_lowers_the_score_and_a_bad_one_raises_it():
    scores = BoostingScores(QUERIES, np.array([[0, 0, 0]]), 3, 2)
    np.testing.assert_array_equal(scores.finish(np.array([0, 3, 9])), [-2, 0, 2])


PARITY_WORLDS = {"binary": binary_world(3)[1], "mixed": DOMAIN, "one cell": labelled_world(1, 2)[1]}


@pytest.mark.parametrize("name", PARITY_WORLDS)
@pytest.mark.parametrize("order", [1, 2])
def test_parity_bounds_are_the_largest_changes(name, order):
    domain = PARITY_WORLDS[name]
    parities = CellParities(domain, closure(domain, all_cliques(domain, order)))
    equal(parities.bounds.one, largest_change(parities, 1, swap=False))
    change, declared = largest_change(parities, 1, swap=True), parities.bounds.swap
    assert change.linf == declared.linf == 2
    assert change.l1 <= declared.l1 <= 2 * parities.bounds.one.l1


@pytest.mark.parametrize("order", [1, 2, 3])
def test_parity_bounds_are_exact_where_every_bit_pattern_is_a_cell(order):
    domain = binary_world(4)[1]
    parities = CellParities(domain, closure(domain, all_cliques(domain, order)))
    equal(parities.bounds.swap, largest_change(parities, 1, swap=True))


def test_parity_bounds_without_a_transform_are_safe(monkeypatch):
    domain = binary_world(4)[1]
    masks = closure(domain, all_cliques(domain, 2))
    exact = CellParities(domain, masks).bounds.swap
    monkeypatch.setattr("synthdp.works.polynomials.fourier_marginals.MAX_TABLE_BITS", 2)
    loose = CellParities(domain, masks).bounds.swap
    assert loose.l1 == 2 * len(masks) >= exact.l1
    codes = universe(domain)[[0, 3, 3, 9]]
    np.testing.assert_array_equal(
        CellParities(domain, masks).sums(codes), CellParities(domain, masks).features(codes).sum(axis=0)
    )


@pytest.mark.parametrize("name", PARITY_WORLDS)
def test_parity_sums_are_the_sums_of_features(name):
    domain = PARITY_WORLDS[name]
    codes = universe(domain)[[0, 1, 1, -1]]
    parities = CellParities(domain, closure(domain, all_cliques(domain, 2)))
    np.testing.assert_array_equal(parities.sums(codes), parities.features(codes).sum(axis=0))


@pytest.mark.parametrize("name", PARITY_WORLDS)
@pytest.mark.parametrize("clique", [(0,), (1,), (0, 1), (1, 0)])
def test_a_table_is_recovered_exactly_from_its_parities(name, clique):
    domain = PARITY_WORLDS[name]
    codes = universe(domain)[[0, 1, 1, -1, -1, -1]]
    parities = CellParities(domain, masks_below(domain, clique)).sums(codes)
    np.testing.assert_allclose(table_of(domain, clique, parities), Marginals(domain, (clique,)).sums(codes), atol=1e-12)


def test_the_closure_holds_every_set_of_bits_once():
    domain = binary_world(4)[1]
    assert [len(closure(domain, all_cliques(domain, order))) for order in (1, 2, 3)] == [5, 11, 15]
    assert widths(labelled_world(3, 2, 1, 5)[1]) == (2, 1, 0, 3)


def test_masks_must_be_different_sets_of_bits():
    domain = binary_world(2)[1]
    for masks in ([], [4], [1, 1], [-1]):
        with pytest.raises(ParameterError, match="masks"):
            CellParities(domain, np.array(masks, int))
    with pytest.raises(ParameterError, match=r"\b64\b"):
        CellParities(binary_world(64)[1], np.array([1]))


def test_the_universe_is_the_cells_that_can_be_released():
    schema, _ = binary_world(2)
    hidden = domain_of(schema)
    assert hidden.shape == (3, 3)
    assert universe_size(hidden) == 4
    np.testing.assert_array_equal(universe(hidden), [[0, 0], [0, 1], [1, 0], [1, 1]])
    assert releasable_domain(hidden).shape == (2, 2)


def test_a_universe_too_large_is_refused_with_its_size():
    _, domain = binary_world(30)
    with pytest.raises(ParameterError, match=str(2**30)):
        universe(domain)
