"""Selection: what is measured next, how the share is divided, and that the limits hold."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.arrays import MEAN_ABS
from synthdp.distribution.junction_tree import TreePlanner
from synthdp.mechanisms.adaptive import selection
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


def candidate(clique, error, *, cells=100, total=10_000.0, weight=1.0):
    return Candidate(clique, EstimatedRelation(0.0, error), np.full(cells, total / cells), weight, fresh=False)


def chosen(candidates, *, budget=BUDGETS["gaussian"], share=0.5, base=(), shape=SHAPE, **limits):
    return Planner(**limits).choose_next_tables(candidates, budget, share=share, base=list(base), shape=shape)


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_shares_add_up_and_nothing_without_gain_is_taken(budget):
    unlikely = Candidate((2, 3), EstimatedRelation(0.8, 5000.0), np.full(100, 100.0))
    candidates = [candidate((0, 1), 5000.0), candidate((1, 2), 3000.0), unlikely]
    batch = chosen(candidates, budget=budget, share=0.3)
    assert set(batch.shares) == {(0, 1), (1, 2)}
    assert sum(batch.shares.values()) == pytest.approx(0.3)
    assert batch.gain > 0


def test_an_empty_batch_where_no_relation_is_likely():
    batch = chosen([Candidate((0, 1), EstimatedRelation(0.6, 5000.0), np.full(100, 100.0))])
    assert batch.shares == {}
    assert batch.gain == 0


@pytest.mark.parametrize("limit", [200, 1200, 20_000])
def test_the_tree_stays_within_its_cells_and_off_tree_cliques_within_their_number(limit):
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    candidates = [candidate(pair, 6000.0 - 10 * i) for i, pair in enumerate(pairs)]
    batch = chosen(candidates, tree_cells=limit, max_off_tree=1)
    assert TreePlanner(SHAPE).cells(list(batch.tree)) <= limit
    assert len(batch.off_tree) <= 1


@pytest.mark.parametrize("pairs", [5, 7, 27])
def test_as_many_strong_relations_as_there_are_come_into_one_batch(pairs):
    """Whatever numbers of tables are tried: a relation that is left out is lost."""
    candidates = [candidate((2 * i, 2 * i + 1), 8000.0, cells=36) for i in range(pairs)]
    batch = chosen(candidates, shape=(6,) * (2 * pairs))
    assert set(batch.shares) == {one.clique for one in candidates}


def test_no_two_tables_of_a_batch_share_two_columns():
    cliques = [(0, 1, 2), (0, 1), (1, 2, 3), (2, 3)]
    candidates = [candidate(c, 8000.0 - i, cells=10 ** len(c)) for i, c in enumerate(cliques)]
    batch = chosen(candidates, tree_cells=1e6)
    taken = list(batch.shares)
    assert taken
    assert all(len(set(a) & set(b)) < 2 for i, a in enumerate(taken) for b in taken[:i])


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_no_other_division_of_a_share_gains_more(budget):
    some = [candidate((0, 1), 9000.0, cells=100), candidate((2, 3), 4000.0, cells=400), candidate((1, 3), 900.0)]
    shares, gain = divided(some, budget, 0.5)
    assert sum(shares) == pytest.approx(0.5)
    assert gain == pytest.approx(gain_of(some, budget, shares), rel=0.005)
    for a, b in itertools.permutations(range(3), 2):
        moved = [share + 0.03 * ((i == a) - (i == b)) for i, share in enumerate(shares)]
        if min(moved) > 0:
            assert gain_of(some, budget, moved) <= gain * 1.01


def gain_of(candidates, budget, shares):
    return sum(c.gain(budget.table_stddev(share)) for c, share in zip(candidates, shares, strict=True))


def test_weight_decides_between_equal_candidates():
    candidates = [candidate((0, 1), 4000.0), candidate((1, 2), 4000.0, weight=3.0)]
    batch = chosen(candidates, share=0.2, max_batch=1)
    assert list(batch.shares) == [(1, 2)]


def test_a_column_of_which_no_relation_is_likely_keeps_nothing_from_the_others():
    some = [candidate((0, 1), 6000.0), candidate((1, 2), 5000.0), candidate((0, 2), 4000.0)]
    batch = chosen([*some, Candidate((2, 3), EstimatedRelation(0.9, 6000.0), np.full(100, 100.0))])
    assert set(batch.shares) == {(0, 1), (1, 2), (0, 2)}


@given(st.floats(0.0, 9000.0), st.floats(0.01, 1000.0), st.integers(2, 500))
def test_a_gain_is_between_nothing_and_the_distance_and_falls_with_noise(error, stddev, cells):
    one = candidate((0, 1), error, cells=cells)
    assert -1e-9 <= one.gain(2 * stddev) <= one.gain(stddev) <= error * (1 + 1e-9)
    assert one.gain(1e-9) == pytest.approx(error, abs=1e-4)


def test_many_candidates_gain_together_what_each_gains(monkeypatch):
    monkeypatch.setattr(selection, "FEW_CELLS", 20)  # so that some are asked one by one
    rng = np.random.default_rng(0)
    some = [
        Candidate(
            (0, i), EstimatedRelation(rng.random(), 50 * rng.random()), 20 * rng.random(k), noise=noise, margins=3.0
        )
        for i, (k, noise) in enumerate([(4, 1.0), (30, 0.7), (20, 0.6), (1, 1.0), (25, 1.0)], 1)
    ]
    for stddev in (0.1, 4.0, 60.0):
        together = selection._Together.of(some)
        np.testing.assert_allclose(together.gains(stddev), [one.gain(stddev) for one in some], rtol=1e-12)
        assert together.pay(stddev).tolist() == [one.pays(stddev) for one in some]


def test_the_gain_is_what_the_best_linear_estimate_takes_off_the_error():
    """Of normal deviations with normal noise, by simulation."""
    rng = np.random.default_rng(0)
    one = candidate((0, 1), 900.0)
    deviation = 900.0 / MEAN_ABS / 100 * rng.standard_normal(200_000)
    answer = deviation + 15.0 * rng.standard_normal(200_000)
    part = np.var(deviation) / (np.var(deviation) + 15.0**2)
    left = np.abs(deviation - part * answer).mean()
    assert one.gain(15.0) == pytest.approx(100 * (np.abs(deviation).mean() - left), rel=0.03)


def test_what_may_be_no_relation_gains_in_proportion():
    sure, doubtful = (Candidate((0, 1), EstimatedRelation(none, 900.0), np.full(100, 50.0)) for none in (0.0, 0.25))
    assert doubtful.gain(3.0) == pytest.approx(0.75 * sure.gain(3.0))


def test_what_chance_moves_counts_where_the_model_does_not_have_it():
    known, fresh = (
        Candidate((0, 1), EstimatedRelation(0.0, 0.01), np.full(100, 50.0), fresh=fresh) for fresh in (False, True)
    )
    assert fresh.gain(1e-6) - known.gain(1e-6) == pytest.approx(MEAN_ABS * np.sqrt(50.0) * 100, rel=1e-3)


def test_errors_of_margins_count_for_tables_alone():
    table, interaction = (
        Candidate((0, 1), EstimatedRelation(0.0, 300.0), np.full(4, 50.0), noise=noise, margins=75.0**2, fresh=False)
        for noise in (1.0, 0.5)
    )
    assert interaction.gain(1e-9) == pytest.approx(300.0)
    assert table.gain(1e-9) == pytest.approx(MEAN_ABS * 4 * np.hypot(75.0 / MEAN_ABS, 75.0))


def test_a_whole_table_comes_before_merged_groups_where_it_pays_however_its_errors_lie():
    """A diagonal shows as much over merged groups as a smooth relation, and has nothing of either inside them."""
    for distance, levels in ((5300.0, {}), (1500.0, {(0, 1): 1})):
        whole = Candidate((0, 1), EstimatedRelation(0.0, distance), np.full(4096, 6000 / 4096))
        merged = Candidate((0, 1), EstimatedRelation(0.0, 0.85 * distance), np.full(36, 6000 / 36), level=1)
        assert merged.gain(8.0) > whole.gain(8.0)
        assert chosen([whole, merged], shape=(64, 64, 2, 2)).levels == levels


def test_a_batch_leaves_what_is_worth_more_elsewhere_and_no_less_for_a_little_more():
    """Where all or nothing would be a cliff, the part that tables get falls step by step."""
    candidates = [candidate((0, 1), 6000.0), candidate((1, 2), 5000.0)]

    def spent(worth: float) -> tuple[float, float]:
        batch = Planner().choose_next_tables(
            candidates, BUDGETS["gaussian"], share=0.5, base=[], shape=SHAPE, beside=lambda share: worth * share**0.5
        )
        return sum(batch.shares.values()), batch.gain

    parts = [spent(worth)[0] for worth in (0.0, 100.0, 1000.0, 4000.0, 16_000.0, 1e6)]
    assert parts[0] == pytest.approx(0.5)
    assert parts == sorted(parts, reverse=True)
    assert len(set(parts)) >= 4
    assert spent(1e6) == (0, 0.0)
    assert spent(0.0)[1] == pytest.approx(chosen(candidates).gain)
