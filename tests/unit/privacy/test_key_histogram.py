"""The stability histogram: its (epsilon, delta) by brute force, for both relations between neighbours."""

import math
from types import SimpleNamespace

import mpmath
import numpy as np
import pandas as pd
import pytest
from mpmath import mpf
from no_noise import without_noise

from synthdp import ApproxDP, Curator, GaussianDP, PureDP
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements, Noise, NoiseLaw
from synthdp.privacy.key_histogram import HistogramPlan, plan_histogram
from synthdp.privacy.neighbors import Adjacency, Neighbors

REACH = 400


def cell_law(count, plan):
    """Probabilities of one key's outcome: index 0 is silence (or absence), then threshold, threshold + 1, ..."""
    outcomes = np.zeros(REACH + 1)
    outcomes[0] = 1.0
    if count == 0:
        return outcomes
    z = np.arange(-REACH, 2 * REACH)
    law = np.exp(-np.abs(z - count) / plan.scale) * math.tanh(0.5 / plan.scale)
    outcomes[1:] = law[(z >= plan.threshold) & (z < plan.threshold + REACH)]
    outcomes[0] = law[z < plan.threshold].sum()
    return outcomes


def hockey_stick(p, q, epsilon):
    return np.maximum(p - math.exp(epsilon) * q, 0).sum()


def joint(counts, plan):
    laws = [cell_law(count, plan) for count in counts]
    return laws[0] if len(laws) == 1 else np.outer(laws[0], laws[1]).ravel()


PAIRS = {
    "add_remove": [((1,), (0,)), ((0,), (1,)), ((5,), (4,)), ((9,), (10,)), ((30,), (31,))],
    "replace_one": [((1, 0), (0, 1)), ((2, 0), (1, 1)), ((5, 3), (4, 4)), ((1, 30), (0, 31)), ((9, 9), (10, 8))],
}


@pytest.mark.parametrize("neighbors", PAIRS)
@pytest.mark.parametrize("loss", [ApproxDP(1.0, 1e-2), ApproxDP(0.5, 1e-3), ApproxDP(2.0, 1e-6)])
def test_the_promise_holds_on_neighbours_and_the_threshold_is_nearly_the_least(neighbors, loss):
    plan = plan_histogram(loss, adjacency=Adjacency(Neighbors(neighbors)))
    worst = max(hockey_stick(joint(a, plan), joint(b, plan), loss.epsilon) for a, b in PAIRS[neighbors])
    assert worst <= loss.delta
    assert worst >= loss.delta / 40  # one key more reaches it; the bound for two keys adds both up


def test_the_constants_are_those_of_the_papers():
    epsilon, delta = 1.0, 1e-6
    one = plan_histogram(ApproxDP(epsilon, delta), adjacency=Adjacency(Neighbors.ADD_REMOVE))
    two = plan_histogram(ApproxDP(epsilon, delta), adjacency=Adjacency(Neighbors.REPLACE_ONE))
    assert one.scale == pytest.approx(1 / epsilon)
    assert two.scale == pytest.approx(2 / epsilon)
    assert abs(one.threshold - (1 + math.log(1 / (2 * delta)) / epsilon)) <= 1.5
    assert abs(two.threshold - (1 + 2 * math.log(2 / delta) / epsilon)) <= 3.5


@pytest.mark.parametrize("loss", [PureDP(1.0), ApproxDP(1.0, 0.0)])
def test_unlisted_keys_need_a_delta(loss):
    curator = Curator(pd.DataFrame({"p": ["a"]}), budget=loss)
    with pytest.raises(ParameterError, match="delta"):
        curator.histogram(("p",))
    assert curator.remaining == loss


def test_without_noise_the_keys_at_the_threshold_come_out_and_no_others(monkeypatch):
    without_noise(monkeypatch)
    loss = ApproxDP(1.0, 1e-6)
    threshold = plan_histogram(loss, adjacency=Adjacency()).threshold
    rows = ["canary"] * (threshold - 1) + ["seen"] * threshold + [None] * (threshold + 5)
    found = Curator(pd.DataFrame({"p": rows}), budget=loss).histogram(("p",))
    assert found.counts == {"\x00": threshold + 5, "seen": threshold}


def test_a_unit_of_several_rows_is_counted_as_several_keys():
    three = plan_histogram(ApproxDP(1.0, 1e-6), adjacency=Adjacency(Neighbors.ADD_REMOVE, "who", 3))
    assert three.scale == pytest.approx(3.0)
    assert three.sensitivity == 3
    assert three.threshold > 3 * math.log(1e6)


@pytest.mark.parametrize(("resolution", "unit"), [(1, 1), (8, 1), (1, 4), (16, 4)])
def test_answers_are_in_rows(resolution, unit):
    law = Noise(law=NoiseLaw.GAUSSIAN, scale=48.0, k=3)
    queries, values = SimpleNamespace(denominator=unit), np.array([-96, 0, 160])
    answers = Measurements(queries=queries, values=values, resolution=resolution, noise=law)
    assert answers.answers.tolist() == [value / resolution / unit for value in (-96, 0, 160)]
    assert answers.stddev == 48.0 / resolution / unit


@pytest.mark.parametrize("scale", [1e-4, 0.005, 0.02, 0.3, 1.0, 17.0])
def test_the_spread_of_a_count_is_that_of_the_discrete_law(scale):
    q = mpmath.exp(-1 / mpf(scale))
    exact = float(mpmath.sqrt(2 * q) / (1 - q))
    stated = HistogramPlan(scale=scale, threshold=5, sensitivity=1).stddev
    assert stated == pytest.approx(max(exact, 1e-9), rel=1e-9)  # what is stated can be divided by


def test_two_persons_who_are_exchanged_share_the_delta_and_no_more_is_kept_back():
    """Each is one who is added or removed, at a mu that is smaller by the square root of two, with half of the delta."""
    exchanged = plan_histogram(GaussianDP(1.0, 1e-6), adjacency=Adjacency(Neighbors.REPLACE_ONE))
    removed = plan_histogram(GaussianDP(math.sqrt(0.5), 5e-7), adjacency=Adjacency(Neighbors.ADD_REMOVE))
    assert exchanged.scale / exchanged.resolution == pytest.approx(removed.scale / removed.resolution, rel=1e-6)
    assert exchanged.threshold / exchanged.resolution == pytest.approx(removed.threshold / removed.resolution, abs=1e-3)


@pytest.mark.parametrize(("eighths", "rows"), [(79, 10), (80, 10), (81, 10), (83, 10), (85, 11), (87, 11)])
def test_a_count_with_finer_noise_is_told_to_the_nearest_row(monkeypatch, eighths, rows):
    plan = HistogramPlan(scale=1.0, threshold=1, sensitivity=1.0, law=NoiseLaw.GAUSSIAN, resolution=8)
    monkeypatch.setattr("synthdp.privacy.noise.gaussian_threshold", lambda counts, **_: dict.fromkeys(counts, eighths))
    assert plan.noised({"a": 7}) == {"a": rows}
