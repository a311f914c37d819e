"""What the user asks of the flagship beyond a budget: a workload, a target, to be told of progress, and to stop it."""

from collections import defaultdict

import numpy as np
import pandas as pd
import pytest

from synthdp import AdaptiveMarginals, ApproxDP, Curator, Integer, Schema
from synthdp.errors import BudgetExceededError
from synthdp.fit.listed_entropy import ListedEntropy
from synthdp.mechanisms.adaptive.adaptive_marginals import STAGES
from synthdp.mechanisms.adaptive.selection import KEPT
from synthdp.queries.interactions import Interactions

NAMES = ["a", "b", "c", "d", "e"]
SCHEMA = Schema({name: Integer(0, 9) for name in NAMES})
BUDGET = ApproxDP(2.0, 1e-9)


def followers() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    first = rng.integers(0, 10, 8000)
    return pd.DataFrame({name: np.where(rng.random(8000) < 0.6, first, rng.integers(0, 10, 8000)) for name in NAMES})


FOLLOWERS = followers()


class Stop:
    """Presses Ctrl-C when a stage begins."""

    def __init__(self, stage: str) -> None:
        self.stage = stage

    def __call__(self, progress) -> None:
        if progress.stage == self.stage:
            raise KeyboardInterrupt


def curator() -> Curator:
    return Curator(FOLLOWERS, schema=SCHEMA, budget=BUDGET)


def noise_of_tables(**wishes) -> dict[tuple[int, ...], float]:
    """The noise of each pair's table or interaction, of all its measurements, where there is one round."""
    chosen = ListedEntropy(max_cells=1)  # never all interactions at once
    release = AdaptiveMarginals(second_stage=0.0, listed=chosen, **wishes).release(curator(), random_state=0)
    precisions = defaultdict(float)
    for measured in release.measurements:
        for table in measured.tables:
            precisions[table.clique] += table.stddev**-2
    return {clique: precision**-0.5 for clique, precision in precisions.items() if len(clique) == 2}


@pytest.mark.landing
def test_what_the_workload_wishes_is_measured_with_less_noise_than_the_rest_and_than_without_a_wish():
    measured, every = noise_of_tables(workload=[("a", "b"), ("c", "e")]), noise_of_tables()
    wished = {(0, 1), (2, 4)}
    assert wished <= set(measured)
    assert max(measured[pair] for pair in wished) < min(
        (stddev for pair, stddev in measured.items() if pair not in wished), default=np.inf
    )
    assert all(measured[pair] < every.get(pair, np.inf) for pair in wished)


@pytest.mark.landing
def test_of_all_interactions_pairs_outside_of_the_wishes_keep_a_fifth_of_the_cost():
    release = AdaptiveMarginals(workload=[("a", "b"), ("c", "e")]).release(curator(), random_state=0)
    (measured,) = [m for m in release.measurements if isinstance(m.queries, Interactions)]
    # one row moves an effect of one column by .9
    cost = {one.clique: 0.9 ** len(one.clique) / one.stddev**2 for one in measured.tables}
    outside = sum(cost[clique] for clique in cost if len(clique) == 2 and clique not in {(0, 1), (2, 4)})
    assert len([clique for clique in cost if len(clique) == 2]) == 10
    assert 0.75 * KEPT < outside / sum(cost.values()) <= 1.01 * KEPT
    assert cost[(0, 1)] == pytest.approx(cost[(2, 4)], rel=0.02)


@pytest.mark.landing
def test_a_set_of_more_weight_has_less_noise():
    measured = noise_of_tables(workload={("a", "b"): 20.0, ("c", "e"): 1.0})
    assert measured[(0, 1)] < 0.5 * measured[(2, 4)]


@pytest.mark.slow
def test_relations_with_the_target_have_less_noise():
    measured = noise_of_tables(target="d")
    with_target = [noise for clique, noise in measured.items() if 3 in clique]
    others = [noise for clique, noise in measured.items() if 3 not in clique]
    assert len(with_target) == 4
    assert max(with_target) < min([*others, *noise_of_tables().values()])


@pytest.mark.landing
def test_progress_is_told_stage_by_stage():
    told = []
    AdaptiveMarginals(second_stage=0.4, on_progress=told.append).release(curator(), random_state=0)
    assert [progress.stage for progress in told] == list(STAGES)
    assert [progress.done for progress in told] == [0, 1, 2, 3]
    assert {progress.total for progress in told} == {4}


@pytest.mark.parametrize("stage", STAGES)
def test_a_release_can_be_stopped_at_any_stage_and_what_it_cost_stays_charged(stage):
    asked = curator()
    with pytest.raises(KeyboardInterrupt):
        AdaptiveMarginals(second_stage=0.4, on_progress=Stop(stage)).release(asked, random_state=0)
    assert asked.remaining is None
    with pytest.raises(BudgetExceededError):
        AdaptiveMarginals(spend=BUDGET).release(asked)


def test_pairs_of_which_the_interaction_alone_was_measured_come_through():
    release = AdaptiveMarginals(second_stage=0.0).release(
        Curator(FOLLOWERS, schema=SCHEMA, budget=ApproxDP(20.0, 1e-9)), random_state=0
    )
    asked = [m.queries for m in release.measurements if isinstance(m.queries, Interactions)]
    assert {clique for queries in asked for clique in queries.cliques} >= {(0, 1), (0, 2), (0, 3), (0, 4)}
    real = np.histogram2d(FOLLOWERS["a"], FOLLOWERS["b"], bins=10)[0] / len(FOLLOWERS)
    fitted = release.output.distribution.marginal((0, 1)).reshape(real.shape)
    alone = np.outer(real.sum(axis=1), real.sum(axis=0))
    assert np.abs(fitted - real).sum() < 0.1 * np.abs(alone - real).sum()
