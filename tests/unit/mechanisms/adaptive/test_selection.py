"""Selection: what is measured next, how the share is divided, and that the limits hold."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.arrays import MEAN_ABS
from synthdp.distribution.junction_tree import TreePlanner
from synthdp.mechanisms.adaptive.energies import EstimatedRelation
from synthdp.mechanisms.adaptive.selection import Candidate, Planner, divided
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.privacy.loss import GaussianDP, PureDP
from synthdp.privacy.neighbors import Adjacency, Neighbors

ADJACENCY = Adjacency(Neighbors.ADD_REMOVE, None, 1)
BUDGETS = {
    "gaussian": BudgetAllocation(GaussianDP(0.5), ADJACENCY),
    "laplace": BudgetAllocation(PureDP(1.0), ADJACENCY),
}
SHAPE = (10, 10, 10, 10)


def candidate(clique, error, *, cells=100, total=10_000.0, weight=1.0, **more):
    return Candidate(clique, EstimatedRelation(0.0, error), np.full(cells, total / cells), weight, **more)


def cliques(batch):
    return {one.clique for one in batch.shares}


def chosen(candidates, *, budget=BUDGETS["gaussian"], share=0.5, base=(), shape=SHAPE, **limits):
    return Planner(**limits).choose_next_tables(candidates, budget, share=share, base=list(base), shape=shape)


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_shares_add_up_and_nothing_without_gain_is_taken(budget):
    unlikely = Candidate((2, 3), EstimatedRelation(0.8, 5000.0), np.full(100, 100.0))
    candidates = [candidate((0, 1), 5000.0), candidate((1, 2), 3000.0), unlikely]
    batch = chosen(candidates, budget=budget, share=0.3)
    assert cliques(batch) == {(0, 1), (1, 2)}
    assert sum(batch.shares.values()) == pytest.approx(0.3)


def test_an_empty_batch_where_no_relation_is_likely():
    batch = chosen([Candidate((0, 1), EstimatedRelation(0.6, 5000.0), np.full(100, 100.0))])
    assert batch.shares == {}


@pytest.mark.parametrize("limit", [200, 1200, 20_000])
def test_the_tree_stays_within_its_cells_and_off_tree_cliques_within_their_number(limit):
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    candidates = [candidate(pair, 6000.0 - 10 * i) for i, pair in enumerate(pairs)]
    batch = chosen(candidates, tree_cells=limit, max_off_tree=1)
    assert TreePlanner(SHAPE).cells(list(batch.tree)) <= limit
    assert len(cliques(batch) - batch.tree) <= 1


@pytest.mark.parametrize("pairs", [5, 7, 27])
def test_as_many_strong_relations_as_there_are_come_into_one_batch(pairs):
    """Whatever numbers of tables are tried: a relation that is left out is lost."""
    candidates = [candidate((2 * i, 2 * i + 1), 8000.0, cells=36) for i in range(pairs)]
    batch = chosen(candidates, shape=(6,) * (2 * pairs))
    assert cliques(batch) == {one.clique for one in candidates}


def test_of_small_tables_all_that_pay_come_into_one_batch():
    """All 435 pairs of 30 binary columns; a column of 900 levels beside them changes nothing."""
    shape = (2,) * 30 + (900,)
    pairs = [(a, b) for a in range(30) for b in range(a + 1, 30)]
    large = [candidate((a, 30), 8000.0, cells=1800) for a in range(30)]
    candidates = [*(candidate(pair, 8000.0, cells=4) for pair in pairs), *large]
    assert set(pairs) <= cliques(chosen(candidates, shape=shape))
    few = chosen(candidates, shape=shape, max_batch=5, max_off_tree=3)
    assert len(cliques(few)) <= 5 * 16
    assert len(cliques(few) - few.tree) <= 3


def test_no_two_tables_of_a_batch_share_two_columns():
    some = [(0, 1, 2), (0, 1), (1, 2, 3), (2, 3)]
    candidates = [candidate(c, 8000.0 - i, cells=10 ** len(c)) for i, c in enumerate(some)]
    batch = chosen(candidates, tree_cells=1e6)
    taken = [one.clique for one in batch.shares]
    assert taken
    assert all(len(set(a) & set(b)) < 2 for i, a in enumerate(taken) for b in taken[:i])


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_no_other_division_of_a_share_gains_more(budget):
    some = [candidate((0, 1), 9000.0, cells=100), candidate((2, 3), 4000.0, cells=400), candidate((1, 3), 900.0)]
    shares = list(divided(some, budget, 0.5).values())
    assert sum(shares) == pytest.approx(0.5)
    gain = gain_of(some, budget, shares)
    for a, b in itertools.permutations(range(3), 2):
        moved = [share + 0.03 * ((i == a) - (i == b)) for i, share in enumerate(shares)]
        if min(moved) > 0:
            assert gain_of(some, budget, moved) <= gain * 1.001


def test_a_candidate_that_all_others_outbid_gets_nothing():
    some = [*(candidate((0, i), 6000.0, cells=16) for i in range(1, 9)), candidate((1, 2), 30.0, cells=3000)]
    budget = BudgetAllocation(GaussianDP(0.02), ADJACENCY)
    shares = divided(some, budget, 0.5)
    assert shares[some[-1]] == 0.0
    assert sum(shares.values()) == pytest.approx(0.5)


@given(
    st.lists(st.tuples(st.floats(0.0, 1e4), st.integers(2, 400), st.floats(0.0, 1e5)), min_size=1, max_size=5),
    st.sampled_from(sorted(BUDGETS)),
    st.floats(1e-6, 0.9),
)
def test_shares_are_finite_and_add_up_to_the_share_or_to_nothing(tables, budget, share):
    """Noise can be so large that no candidate tells anything, and a table can be estimated to hold no row."""
    some = [candidate((i, i + 1), error, cells=cells, total=total) for i, (error, cells, total) in enumerate(tables)]
    shares = np.array(list(divided(some, BUDGETS[budget], share).values()))
    assert (shares >= 0).all()
    assert shares.sum() == pytest.approx(share) or not shares.any()


def test_a_batch_is_empty_where_the_whole_share_tells_nothing_of_any_table():
    nearly_nothing = [candidate((i, i + 1), 0.5) for i in range(3)]
    batch = chosen(nearly_nothing, budget=BudgetAllocation(GaussianDP(1e-4), ADJACENCY), share=0.01)
    assert batch.shares == {}


def test_a_table_that_was_measured_has_less_left_to_gain_and_its_gains_add_up():
    one = candidate((0, 1), 900.0, noise=0.8)
    once = one.measured(20.0)
    assert once.gain(20.0) < one.gain(20.0)
    assert one.gain(20.0) + once.gain(20.0) == pytest.approx(one.gain(20.0 / np.sqrt(2)))


def gain_of(candidates, budget, shares):
    return sum(c.gain(budget.table_stddev(share)) for c, share in zip(candidates, shares, strict=True))


def test_weight_decides_between_equal_candidates():
    candidates = [candidate((0, 1), 4000.0), candidate((1, 2), 4000.0, weight=3.0)]
    batch = chosen(candidates, share=0.2, max_batch=1)
    assert cliques(batch) == {(1, 2)}


def test_a_column_of_which_no_relation_is_likely_keeps_nothing_from_the_others():
    some = [candidate((0, 1), 6000.0), candidate((1, 2), 5000.0), candidate((0, 2), 4000.0)]
    batch = chosen([*some, Candidate((2, 3), EstimatedRelation(0.9, 6000.0), np.full(100, 100.0))])
    assert cliques(batch) == {(0, 1), (1, 2), (0, 2)}


@given(st.floats(0.0, 9000.0), st.floats(0.01, 1000.0), st.integers(2, 500))
def test_a_gain_is_between_nothing_and_the_present_error_and_falls_with_noise(error, stddev, cells):
    one = candidate((0, 1), error, cells=cells)
    present = MEAN_ABS * np.sqrt(one.variances).sum()
    assert -1e-9 <= one.gain(2 * stddev) <= one.gain(stddev) <= present * (1 + 1e-9)


def test_the_gain_is_what_the_best_linear_estimate_takes_off_the_error_of_drawn_rows():
    """Of normal deviations with normal noise, by simulation; rows drawn from a table deviate by chance again."""
    rng = np.random.default_rng(0)
    one = candidate((0, 1), 900.0)
    deviation, drawn = (np.sqrt(v) * rng.standard_normal(200_000) for v in (one.variances[0], one.expected[0]))
    answer = deviation + 15.0 * rng.standard_normal(200_000)
    part = one.variances[0] / (one.variances[0] + 15.0**2)
    left = np.abs(deviation - part * answer + drawn).mean()
    assert one.gain(15.0) == pytest.approx(100 * (np.abs(deviation + drawn).mean() - left), rel=0.05)


def test_what_may_be_no_relation_gains_in_proportion():
    sure, doubtful = (Candidate((0, 1), EstimatedRelation(none, 900.0), np.full(100, 50.0)) for none in (0.0, 0.25))
    assert doubtful.gain(3.0) == pytest.approx(0.75 * sure.gain(3.0))


def test_chance_counts_as_signal_and_errors_of_margins_for_tables_alone():
    table, interaction = (candidate((0, 1), 300.0, cells=4, total=200.0, noise=n, margins=75.0**2) for n in (1.0, 0.5))
    related = 75.0 / MEAN_ABS
    assert interaction.variances == pytest.approx(np.full(4, related**2 + 50))
    assert table.variances == pytest.approx(np.full(4, related**2 + 50 + 75.0**2))


def test_a_whole_table_comes_before_merged_groups_where_it_pays_however_its_errors_lie():
    """A diagonal shows as much over merged groups as a smooth relation, and has nothing of either inside them."""
    for distance, level in ((5300.0, 0), (1500.0, 1)):
        whole = Candidate((0, 1), EstimatedRelation(0.0, distance), np.full(4096, 6000 / 4096))
        merged = Candidate((0, 1), EstimatedRelation(0.0, 0.85 * distance), np.full(36, 6000 / 36), level=1)
        assert merged.gain(8.0) > whole.gain(8.0)
        assert [one.level for one in chosen([whole, merged], shape=(64, 64, 2, 2)).shares] == [level]
