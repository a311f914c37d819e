"""Decision lists released: exact without noise at full order, within the stated bias below it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from no_noise import recorded, replayed, without_noise

from synthdp import ZCDP, ApproxDP, Curator, GaussianDP, PureDP
from synthdp.errors import ParameterError
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.works.polynomials.decision_list_release import DecisionListRelease, plan_at
from synthdp.works.polynomials.decision_lists import DecisionList, Rule, decision_list_columns, decision_list_schema

VARIABLES = [f"v{j}" for j in range(6)]
SCHEMA = decision_list_schema(VARIABLES, length=3)
LOSSES = [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.1), GaussianDP(0.3)]
BOTH = ["add_remove", "replace_one"]


def some_lists(rows: int, seed: int = 0) -> list[DecisionList]:
    rng = np.random.default_rng(seed)

    def rule() -> Rule:
        return Rule(VARIABLES[rng.integers(6)], bool(rng.integers(2)), bool(rng.integers(2)))

    return [DecisionList(tuple(rule() for _ in range(rng.integers(4))), bool(rng.random() < 0.7)) for _ in range(rows)]


LISTS = some_lists(200)
FRAME = pd.DataFrame(decision_list_columns(LISTS, length=3))
INPUTS = [{name: int(bit) for name, bit in zip(VARIABLES, f"{i:06b}", strict=True)} for i in range(0, 64, 5)]
TRUTH = np.array([np.mean([one(values) for one in LISTS]) for values in INPUTS])


def curator(frame=FRAME, loss=LOSSES[1], neighbors="add_remove") -> Curator:
    return Curator(frame, schema=SCHEMA, budget=loss, neighbors=neighbors)


@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_without_noise_full_order_is_the_direct_evaluation_of_the_lists(neighbors, loss, monkeypatch):
    without_noise(monkeypatch)
    release = DecisionListRelease(3, 3).release(curator(loss=loss, neighbors=neighbors))
    answer = release.output.answer(INPUTS)
    np.testing.assert_allclose(answer.estimate, TRUTH, atol=1e-4)  # coefficients are rounded to scales
    assert answer.truncation_bound == 0
    assert float(release.output.answer(INPUTS[0])) == answer.estimate[0]


@pytest.mark.parametrize("order", [1, 2])
def test_without_noise_a_lower_order_is_within_its_bias(order, monkeypatch):
    without_noise(monkeypatch)
    answer = DecisionListRelease(3, order).release(curator(neighbors="replace_one")).output.answer(INPUTS)
    assert 0 < np.abs(answer.estimate - TRUTH).max() <= answer.truncation_bound + 1e-4


@pytest.mark.sampled
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("neighbors", BOTH)
def test_the_trace_is_the_same_on_neighbours(loss, neighbors, monkeypatch):
    first = recorded(monkeypatch)
    release = DecisionListRelease(3, spend=loss).release(curator(loss=loss, neighbors=neighbors))
    assert release.loss == loss
    other = {"add_remove": FRAME.iloc[1:], "replace_one": FRAME.iloc[[5, *range(1, 200)]]}[neighbors]
    second = replayed(monkeypatch, first)
    DecisionListRelease(3, spend=loss).release(curator(other, loss, neighbors))
    assert first.draws == second.draws


@pytest.mark.landing
def test_more_rows_choose_a_higher_degree():
    adjacency = Adjacency(Neighbors.REPLACE_ONE)
    orders = [
        DecisionListRelease(3, rows=rows).plan(VARIABLES, adjacency, LOSSES[1]).statistic.order
        for rows in (20, 200, 10**6)
    ]
    assert orders == sorted(orders)
    assert (orders[0], orders[-1]) == (1, 3)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_planned_noise_is_that_of_the_answers(loss):
    plan = DecisionListRelease(3, 3).plan(VARIABLES, Adjacency(Neighbors.REPLACE_ONE), loss)
    answer = DecisionListRelease(3, 3).release(curator(loss=loss, neighbors="replace_one")).output.answer(INPUTS[0])
    assert answer.stderr == pytest.approx(plan.stddev / len(FRAME), rel=1e-6)


@pytest.mark.parametrize(("m", "least"), [(16, 0.002), (24, 0.0045)])
def test_noise_of_four_rules_is_below_the_table(m, least):
    plan = plan_at([f"v{j}" for j in range(m)], 4, 4, Adjacency(Neighbors.REPLACE_ONE), ApproxDP(1.0, 1e-6))
    assert plan.error == 0
    assert plan.stddev / 1e5 < least


def test_settings_out_of_range_are_refused():
    with pytest.raises(ParameterError, match="length"):
        DecisionListRelease(17)
    with pytest.raises(ParameterError, match="order"):
        DecisionListRelease(3, 4)
    with pytest.raises(ParameterError, match="rows"):
        DecisionListRelease(3, rows=0)
    with pytest.raises(ParameterError, match="decision_list_schema"):
        DecisionListRelease(2).release(curator())
    with pytest.raises(ParameterError, match="order"):
        DecisionListRelease(4, 4).plan([f"v{j}" for j in range(300)], Adjacency(), PureDP(1.0))
    with pytest.raises(ParameterError, match="'v5'"):
        DecisionListRelease(3).release(curator()).output.answer(dict.fromkeys(VARIABLES[:5], 1))
