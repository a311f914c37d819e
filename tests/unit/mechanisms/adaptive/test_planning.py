"""Planning: what is taken, how the share is divided, and that the limits hold."""

import numpy as np
import pytest

from synthdp.distribution.junction_tree import TreePlanner
from synthdp.mechanisms.adaptive.selection import Candidate, Planner
from synthdp.mechanisms.budget import Purse
from synthdp.privacy.loss import GaussianDP, PureDP
from synthdp.privacy.neighbors import Adjacency, Neighbors

ADJACENCY = Adjacency(Neighbors.ADD_REMOVE, None, 1)
PURSES = {"gaussian": Purse(GaussianDP(0.5), ADJACENCY), "laplace": Purse(PureDP(1.0), ADJACENCY)}
SHAPE = (10, 10, 10, 10)


def candidate(clique, error, *, cells=100, total=10_000.0, weight=1.0):
    return Candidate(clique, error, np.full(cells, total / cells), weight)


@pytest.mark.parametrize("purse", PURSES.values(), ids=PURSES)
def test_shares_add_up_and_nothing_without_gain_is_taken(purse):
    candidates = [candidate((0, 1), 5000.0), candidate((1, 2), 3000.0), candidate((2, 3), -50.0)]
    plan = Planner().plan(candidates, purse, share=0.3, base=[], shape=SHAPE)
    assert set(plan.shares) == {(0, 1), (1, 2)}
    assert sum(plan.shares.values()) == pytest.approx(0.3)
    assert plan.gain > 0


def test_an_empty_plan_when_noise_outweighs_every_error():
    plan = Planner().plan([candidate((0, 1), 5.0)], PURSES["gaussian"], share=1e-4, base=[], shape=SHAPE)
    assert plan.shares == {}
    assert plan.gain == 0


@pytest.mark.parametrize("limit", [200, 1200, 20_000])
def test_the_tree_stays_within_its_cells_and_extras_within_their_number(limit):
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    candidates = [candidate(pair, 6000.0 - 10 * i) for i, pair in enumerate(pairs)]
    plan = Planner(tree_cells=limit, max_extras=1).plan(candidates, PURSES["gaussian"], share=0.5, base=[], shape=SHAPE)
    assert TreePlanner(SHAPE).cells(list(plan.tree)) <= limit
    assert len(plan.extras) <= 1


def test_no_two_tables_of_a_batch_share_two_columns():
    cliques = [(0, 1, 2), (0, 1), (1, 2, 3), (2, 3)]
    candidates = [candidate(c, 8000.0 - i, cells=10 ** len(c)) for i, c in enumerate(cliques)]
    plan = Planner(tree_cells=1e6).plan(candidates, PURSES["gaussian"], share=0.5, base=[], shape=SHAPE)
    taken = list(plan.shares)
    assert taken
    assert all(len(set(a) & set(b)) < 2 for i, a in enumerate(taken) for b in taken[:i])


def test_the_shares_minimise_the_expected_noise_of_the_batch():
    purse = PURSES["gaussian"]
    candidates = [candidate((0, 1), 9000.0, cells=100), candidate((2, 3), 9000.0, cells=400)]
    plan = Planner().plan(candidates, purse, share=0.5, base=[], shape=(10, 10, 20, 20))
    weights = {c.clique: len(c.expected) for c in candidates}

    def noise(shares):
        return sum(weights[clique] * purse.table_stddev(share) for clique, share in shares.items())

    (a, b), step = plan.shares, 0.02
    assert noise(plan.shares) <= noise({a: plan.shares[a] + step, b: plan.shares[b] - step})
    assert noise(plan.shares) <= noise({a: plan.shares[a] - step, b: plan.shares[b] + step})


def test_weight_decides_between_equal_candidates():
    candidates = [candidate((0, 1), 4000.0), candidate((1, 2), 4000.0, weight=3.0)]
    plan = Planner(max_batch=1).plan(candidates, PURSES["gaussian"], share=0.2, base=[], shape=SHAPE)
    assert list(plan.shares) == [(1, 2)]


def test_what_joins_columns_comes_before_what_they_have_by_way_of_others():
    """In a chain the pair of the ends may look better than a link that has more cells."""
    chain = [candidate((0, 1), 6000.0), candidate((1, 2), 5000.0), candidate((0, 2), 5500.0), candidate((2, 3), 2000.0)]
    shares = {
        size: set(Planner(max_batch=size).plan(chain, PURSES["gaussian"], share=0.5, base=[], shape=SHAPE).shares)
        for size in (2, 3, 4)
    }
    assert shares[2] == {(0, 1), (0, 2)}
    assert shares[3] == {(0, 1), (0, 2), (2, 3)}
    assert shares[4] == {(0, 1), (0, 2), (2, 3), (1, 2)}


def test_what_the_base_joins_counts_as_joined():
    some = [candidate((0, 1), 6000.0), candidate((2, 3), 2000.0)]
    plan = Planner(max_batch=1).plan(some, PURSES["gaussian"], share=0.5, base=[(0, 1, 2)], shape=SHAPE)
    assert set(plan.shares) == {(2, 3)}


def test_a_column_that_is_not_worth_its_noise_keeps_nothing_from_the_others():
    some = [candidate((0, 1), 6000.0), candidate((1, 2), 5000.0), candidate((0, 2), 4000.0), candidate((2, 3), -10.0)]
    plan = Planner().plan(some, PURSES["gaussian"], share=0.5, base=[], shape=SHAPE)
    assert set(plan.shares) == {(0, 1), (1, 2), (0, 2)}
