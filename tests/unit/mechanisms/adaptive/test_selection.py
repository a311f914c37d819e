"""Selection: what is measured next, how the share is divided, and that the limits hold."""

import numpy as np
import pytest

from synthdp.distribution.junction_tree import TreePlanner
from synthdp.mechanisms.adaptive.energies import MEAN_ABS, Relation
from synthdp.mechanisms.adaptive.selection import Candidate, Planner
from synthdp.mechanisms.budget import BudgetAllocation
from synthdp.privacy.loss import GaussianDP, PureDP
from synthdp.privacy.neighbors import Adjacency, Neighbors

ADJACENCY = Adjacency(Neighbors.ADD_REMOVE, None, 1)
BUDGETS = {
    "gaussian": BudgetAllocation(GaussianDP(0.5), ADJACENCY),
    "laplace": BudgetAllocation(PureDP(1.0), ADJACENCY),
}
SHAPE = (10, 10, 10, 10)


def candidate(clique, error, *, cells=100, total=10_000.0, weight=1.0):
    return Candidate(clique, Relation(0.0, error), np.full(cells, total / cells), weight, fresh=False)


def chosen(candidates, *, budget=BUDGETS["gaussian"], share=0.5, base=(), shape=SHAPE, **limits):
    return Planner(**limits).choose_next_tables(candidates, budget, share=share, base=list(base), shape=shape)


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_shares_add_up_and_nothing_without_gain_is_taken(budget):
    candidates = [candidate((0, 1), 5000.0), candidate((1, 2), 3000.0), candidate((2, 3), 5.0)]
    batch = chosen(candidates, budget=budget, share=0.3)
    assert set(batch.shares) == {(0, 1), (1, 2)}
    assert sum(batch.shares.values()) == pytest.approx(0.3)
    assert batch.gain > 0


def test_an_empty_batch_when_noise_outweighs_every_error():
    batch = chosen([candidate((0, 1), 5.0)], share=1e-4)
    assert batch.shares == {}
    assert batch.gain == 0


@pytest.mark.parametrize("limit", [200, 1200, 20_000])
def test_the_tree_stays_within_its_cells_and_off_tree_cliques_within_their_number(limit):
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    candidates = [candidate(pair, 6000.0 - 10 * i) for i, pair in enumerate(pairs)]
    batch = chosen(candidates, tree_cells=limit, max_off_tree=1)
    assert TreePlanner(SHAPE).cells(list(batch.tree)) <= limit
    assert len(batch.off_tree) <= 1


def test_no_two_tables_of_a_batch_share_two_columns():
    cliques = [(0, 1, 2), (0, 1), (1, 2, 3), (2, 3)]
    candidates = [candidate(c, 8000.0 - i, cells=10 ** len(c)) for i, c in enumerate(cliques)]
    batch = chosen(candidates, tree_cells=1e6)
    taken = list(batch.shares)
    assert taken
    assert all(len(set(a) & set(b)) < 2 for i, a in enumerate(taken) for b in taken[:i])


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_the_shares_minimise_the_expected_noise_of_the_batch(budget):
    candidates = [candidate((0, 1), 9000.0, cells=100), candidate((2, 3), 9000.0, cells=400)]
    batch = chosen(candidates, budget=budget, shape=(10, 10, 20, 20))
    weights = {c.clique: len(c.expected) for c in candidates}

    def noise(shares):
        return sum(weights[clique] * budget.table_stddev(share) for clique, share in shares.items())

    (a, b), step = batch.shares, 0.02
    assert noise(batch.shares) <= noise({a: batch.shares[a] + step, b: batch.shares[b] - step})
    assert noise(batch.shares) <= noise({a: batch.shares[a] - step, b: batch.shares[b] + step})


def test_weight_decides_between_equal_candidates():
    candidates = [candidate((0, 1), 4000.0), candidate((1, 2), 4000.0, weight=3.0)]
    batch = chosen(candidates, share=0.2, max_batch=1)
    assert list(batch.shares) == [(1, 2)]


def test_what_joins_columns_comes_before_what_they_have_by_way_of_others():
    """In a chain the pair of the ends may look better than a link that has more cells."""
    chain = [candidate((0, 1), 6000.0), candidate((1, 2), 5000.0), candidate((0, 2), 5500.0), candidate((2, 3), 2000.0)]
    shares = {size: set(chosen(chain, max_batch=size).shares) for size in (2, 3, 4)}
    assert shares[2] == {(0, 1), (0, 2)}
    assert shares[3] == {(0, 1), (0, 2), (2, 3)}
    assert shares[4] == {(0, 1), (0, 2), (2, 3), (1, 2)}


def test_what_the_base_joins_counts_as_joined():
    some = [candidate((0, 1), 6000.0), candidate((2, 3), 2000.0)]
    batch = chosen(some, base=[(0, 1, 2)], max_batch=1)
    assert set(batch.shares) == {(2, 3)}


def test_a_column_that_is_not_worth_its_noise_keeps_nothing_from_the_others():
    some = [candidate((0, 1), 6000.0), candidate((1, 2), 5000.0), candidate((0, 2), 4000.0), candidate((2, 3), -10.0)]
    batch = chosen(some)
    assert set(batch.shares) == {(0, 1), (1, 2), (0, 2)}


def test_the_gain_is_what_a_relation_moves_on_average_less_noise():
    sure, doubtful, unlikely = (
        Candidate((0, 1), Relation(none, 900.0), np.full(100, 50.0), fresh=False) for none in (0.0, 0.25, 0.75)
    )
    noise = MEAN_ABS * 3.0 * 100
    assert sure.gain(3.0) == pytest.approx(900.0 - noise)
    assert doubtful.gain(3.0) == pytest.approx(675.0 - noise)
    assert unlikely.gain(3.0) == pytest.approx(-noise)


def test_what_chance_moves_counts_where_it_is_told_and_the_model_does_not_have_it():
    nothing = Relation(1.0, 900.0)
    known, fresh = (Candidate((0, 1), nothing, np.full(100, 50.0), fresh=fresh) for fresh in (False, True))
    chance = MEAN_ABS * np.sqrt(50.0) * 100
    assert fresh.gain(1.0) - known.gain(1.0) == pytest.approx(chance)
    assert fresh.gain(8.0) == known.gain(8.0) < 0  # noise of 8 hides what a cell of 50 scatters


def test_errors_of_margins_count_for_tables_alone():
    table, interaction = (
        Candidate((0, 1), Relation(0.0, 300.0), np.full(4, 50.0), noise=noise, margins=400.0, fresh=False)
        for noise in (1.0, 0.5)
    )
    assert table.gain(1e-9) == pytest.approx(500.0)
    assert interaction.gain(1e-9) == pytest.approx(300.0)


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
