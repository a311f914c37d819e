"""What the curator writes into its receipt of each question: noise and sensitivity in rows, and the loss."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from no_noise import recorded

from synthdp import ZCDP, ApproxDP, Boolean, Curator, GaussianDP, PureDP, Schema
from synthdp.curator.noisy_ranges import (
    PARTS,
)
from synthdp.curator.noisy_values import MAGNITUDE_BINS
from synthdp.domain.domain import domain_of
from synthdp.measurements import NoiseLaw
from synthdp.privacy.above_threshold import plan_watch
from synthdp.privacy.accounting import gdp_from_approx
from synthdp.queries.linear import CellQueries
from synthdp.schema.columns import Continuous


def halves(schema: Schema) -> CellQueries:
    """Three queries over a Boolean and what is neither, in quarters of a row."""
    return CellQueries(domain_of(schema), np.array([[0, 3, 0, 0], [1, 2, 0, 0], [4, 0, 0, 0]]), 4)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 0.0), ApproxDP(1.0, 1e-6), ZCDP(0.5), GaussianDP(1.0)])
def test_a_measured_step_says_noise_and_sensitivity_in_rows(budget, neighbors):
    schema = Schema({"b": Boolean(nullable=True)})
    curator = Curator(pd.DataFrame({"b": [True]}), schema=schema, budget=budget, neighbors=neighbors)
    queries = halves(schema)
    measured = curator.measure(queries, spend=budget.fraction(0.5), step="here")
    (item,) = curator.receipt().items
    norms = curator.adjacency.sensitivity(queries)
    norm = {NoiseLaw.LAPLACE: norms.l1, NoiseLaw.LINF: norms.linf, NoiseLaw.GAUSSIAN: norms.l2}[measured.noise.law]
    assert (item.step, item.mechanism, item.answers) == ("here", str(measured.noise.law), 3)
    assert item.sensitivity == pytest.approx(norm / 4)
    assert item.stddev == pytest.approx(measured.stddev)
    assert item.stddev == pytest.approx(measured.noise.stddev / measured.resolution / 4)
    assert item.loss == budget.fraction(0.5)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.5)])
def test_a_selection_says_noise_and_sensitivity_in_rows(budget, neighbors):
    schema = Schema({"b": Boolean(nullable=True)})
    curator = Curator(pd.DataFrame({"b": [True]}), schema=schema, budget=budget, neighbors=neighbors)
    spend = {ZCDP: ZCDP(0.125)}.get(type(budget), PureDP(0.5))
    curator.select(halves(schema), spend=spend)
    (item,) = curator.receipt().items
    linf = curator.adjacency.sensitivity(halves(schema)).linf
    scale = 2 * linf / {ZCDP: 1.0}.get(type(budget), 0.5) / 4  # of e^(score / scale): rho = (2 linf / scale)^2 / 8
    spread = {ZCDP: np.pi / np.sqrt(6)}.get(type(budget), 1.0)
    assert (item.step, item.answers) == ("selection", 1)
    assert item.mechanism == {ZCDP: "exponential mechanism"}.get(type(budget), "noisy max")
    assert item.sensitivity == linf / 4
    assert item.stddev == pytest.approx(scale * spread)


def test_a_histogram_of_keys_and_a_watch_say_their_noise():
    table = pd.DataFrame({"p": ["a"] * 5, "who": range(5)})
    curator = Curator(table, budget=ApproxDP(2.0, 1e-6), privacy_unit="who", max_rows_per_unit=3)
    counts = curator.histogram(("p",), spend=ApproxDP(1.0, 1e-7))
    watch = curator.watch(("p",), max_alarms=4, spend=PureDP(0.5), alarm_share=0.75, queries=100)
    first, second = curator.receipt().items
    assert (first.step, first.answers, first.sensitivity) == ("frequent records", 1, 3.0)
    assert first.stddev == counts.plan.stddev
    assert first.stddev == pytest.approx(np.sqrt(2) * 3, rel=0.01)
    assert (second.step, second.answers, second.sensitivity) == ("watch", 4, 3.0)
    assert second.mechanism == "sparse vector with geometric noise; discrete Laplace"
    assert second.stddev == watch.plan.answer_stddev
    assert second.stddev == pytest.approx(np.sqrt(2) * 3 * 4 / (0.25 * 0.5), rel=1e-3)
    assert watch.plan == plan_watch(ApproxDP(0.5, 0.0), max_alarms=4, alarm_share=0.75, rows=3)
    assert watch.threshold == round(watch.plan.threshold_for(100) * 1024)


def test_the_default_of_a_watch_is_a_share_of_four_fifths_and_ten_thousand_queries():
    curator = Curator(pd.DataFrame({"p": ["a"]}), budget=PureDP(1.0))
    watch = curator.watch(("p",), max_alarms=2)
    assert watch.plan == plan_watch(PureDP(1.0), max_alarms=2, alarm_share=0.8)
    assert watch.threshold == round(watch.plan.threshold_for(10_000) * 1024)
    assert watch.plan.threshold_for(1) == watch.plan.query_scale / 1024


def test_a_discovery_asks_for_a_histogram_of_powers_one_of_parts_and_one_of_digits(monkeypatch):
    trace = recorded(monkeypatch, exact=True)
    curator = Curator(pd.DataFrame({"n": np.arange(1000.0)}), schema=Schema({"n": Continuous()}), budget=PureDP(10.0))
    curator.discover(spend=PureDP(8.0))
    assert [draw.shape for draw in trace.draws] == [(MAGNITUDE_BINS,), (PARTS,), (12,)]
    items = curator.receipt().items
    assert [item.answers for item in items] == [MAGNITUDE_BINS, PARTS, 12]
    assert [item.loss.epsilon for item in items] == pytest.approx([4.0, 4 / 3, 4 / 3])
    assert [item.sensitivity for item in items] == [1, 1, 1]


def test_a_discovery_of_levels_says_their_noise():
    frame = pd.DataFrame({"c": pd.array(["a"] * 300, dtype="string"), "who": range(300)})
    loss = ApproxDP(1.0, 1e-6)
    curator = Curator(frame[["c"]], budget=loss, neighbors="replace_one")
    curator.discover(spend=loss)
    (item,) = curator.receipt().items
    assert item.sensitivity == pytest.approx(math.sqrt(2))
    assert item.stddev == pytest.approx(math.sqrt(2) / gdp_from_approx(1.0, 9e-7), rel=1e-6)
    assert item.loss.delta == pytest.approx(1e-7)
    assert item.mechanism == "thresholded discrete Gaussian"
