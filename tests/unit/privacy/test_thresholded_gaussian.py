"""Thresholded Gaussian noise: the law of its output on all neighbours of a tiny domain against (mu, delta)."""

import itertools
import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, strategies as st
from no_noise import without_noise
from scipy.special import ndtr

from synthdp.curator import Curator
from synthdp.errors import BudgetExceededError, ParameterError
from synthdp.measurements import NoiseLaw
from synthdp.privacy import noise
from synthdp.privacy.accounting import gdp_from_discrete_gaussian, gdp_to_delta
from synthdp.privacy.calibration import gaussian_account
from synthdp.privacy.key_histogram import plan_histogram
from synthdp.privacy.loss import ApproxDP, GaussianDP, combined, components, from_document, to_document
from synthdp.privacy.neighbors import Adjacency, Neighbors

SIGMA = 4.0
REACH = 60
EPSILONS = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0)


@cache
def pmf(sigma):
    z = np.arange(-10 * REACH, 10 * REACH + 1)
    law = np.exp(-(z**2) / (2 * sigma**2))
    return z, law / law.sum()


def key_law(count, sigma, threshold):
    """Index 0: silence, or absence; then the noisy counts from the threshold on."""
    law = np.zeros(REACH + 1)
    law[0] = 1.0
    if count:
        z, p = pmf(sigma)
        law[0] = p[z + count < threshold].sum()
        law[1:] = p[(z + count >= threshold) & (z + count < threshold + REACH)]
    return law


def output_law(counts, sigma, threshold):
    law = np.ones(1)
    for count in counts:
        law = np.outer(law, key_law(count, sigma, threshold)).ravel()
    return law


def tables(rows):
    """The counts that one unit of at most so many rows can have over three keys."""
    return [c for c in itertools.product(range(rows + 1), repeat=3) if sum(c) <= rows]


REST = [(0, 0, 0), (5, 0, 0), (14, 0, 1)]
UNITS = {
    ("add_remove", 1): [((0, 0, 0), (1, 0, 0)), ((0, 0, 0), (0, 1, 0))],
    ("add_remove", 2): [((0, 0, 0), unit) for unit in tables(2)],
    ("add_remove", 3): [((0, 0, 0), unit) for unit in tables(3)],
    ("replace_one", 1): [(a, b) for a in tables(1) for b in tables(1) if sum(a) and sum(b)],
}
SHARES = {"add_remove": 1, "replace_one": 2}


def hockey_stick(p, q, epsilon):
    return max(np.maximum(p - math.exp(epsilon) * q, 0).sum(), np.maximum(q - math.exp(epsilon) * p, 0).sum())


def worst(relation, rows, threshold):
    """The largest loss of each epsilon, over all pairs of units beside all rests."""
    largest = np.zeros(len(EPSILONS))
    for rest, pair in itertools.product(REST, UNITS[relation, rows]):
        tables = [tuple(r + x for r, x in zip(rest, unit, strict=True)) for unit in pair]
        laws = [output_law(table, SIGMA, threshold) for table in tables]
        largest = np.maximum(largest, [hockey_stick(*laws, epsilon) for epsilon in EPSILONS])
    return largest


@pytest.mark.sampled
@pytest.mark.parametrize("delta", [1e-2, 1e-4])
@pytest.mark.parametrize(("relation", "rows"), UNITS)
def test_every_output_is_as_likely_on_neighbours_as_mu_and_delta_allow(relation, rows, delta):
    threshold = noise.gaussian_threshold_for(rows, scale=SIGMA, delta=delta)
    l2 = Adjacency(Neighbors(relation), *(("who", rows) if rows > 1 else ())).histogram.l2
    mu = gdp_from_discrete_gaussian(l2, sigma=SIGMA)
    allowed = [gdp_to_delta(mu, epsilon) + SHARES[relation] * delta for epsilon in EPSILONS]
    assert (worst(relation, rows, threshold) <= allowed).all()


@pytest.mark.parametrize(("relation", "rows"), UNITS)
def test_a_threshold_of_two_steps_less_breaks_the_promise_on_the_delta(relation, rows):
    """Where nothing but the delta is left of the promise: the bound of the tail wastes one step and no more."""
    threshold = noise.gaussian_threshold_for(rows, scale=SIGMA, delta=1e-3)
    exact = max(
        1 - math.prod(key_law(count, SIGMA, threshold - 2)[0] for count in unit if count)
        for _, unit in UNITS[relation, rows]
    )
    assert exact > 1e-3


@given(
    st.integers(1, 6), st.sampled_from([4.0, 5.5, 9.0]), st.sampled_from([1, 3]), st.integers(1, 80),
)  # fmt: skip
@example(6, 9.0, 1, 15)
def test_the_delta_is_never_below_the_chance_that_a_unit_of_its_own_keys_is_seen(rows, sigma, resolution, threshold):
    claimed = noise.gaussian_threshold_delta(rows, scale=sigma, threshold=threshold, resolution=resolution)
    z, p = pmf(sigma)
    seen = {count: p[z + resolution * count >= threshold].sum() for count in range(1, rows + 1)}
    for keys in range(1, rows + 1):
        for unit in itertools.combinations_with_replacement(range(1, rows + 1), keys):
            chance = 1 - math.prod(1 - seen[count] for count in unit)
            assert sum(unit) > rows or chance <= claimed + 1e-12


@given(st.integers(1, 60), st.floats(4.0, 300.0), st.sampled_from([1, 3]), st.integers(1, 400))
@example(6, 4.0, 1, 7)
def test_the_delta_is_the_largest_bound_over_all_numbers_of_keys(rows, sigma, resolution, threshold):
    """Brute force over the keys: each has the most rows that the others leave it."""
    claimed = noise.gaussian_threshold_delta(rows, scale=sigma, threshold=threshold, resolution=resolution)
    margins = [threshold - (rows - keys + 1) * resolution for keys in range(1, rows + 1)]
    chances = [1.0 if margin < 1 else float(ndtr(-(margin - 1) / sigma)) for margin in margins]
    assert claimed == pytest.approx(min(1.0, max(i * one for i, one in enumerate(chances, 1))), rel=1e-8)


@given(st.integers(1, 50), st.floats(4.0, 2.0**40), st.floats(1e-30, 0.1), st.sampled_from([1, 2**10, 2**20]))
def test_the_threshold_is_the_least_that_keeps_the_delta(rows, sigma, delta, resolution):
    threshold = noise.gaussian_threshold_for(rows, scale=sigma, delta=delta, resolution=resolution)
    cost = lambda at: noise.gaussian_threshold_delta(rows, scale=sigma, threshold=at, resolution=resolution)  # noqa: E731
    assert cost(threshold) <= delta < cost(threshold - 1)


@pytest.mark.sampled
@pytest.mark.parametrize("rows", [4095, 4096, 4097, 4098, 9999, 100_000])
@pytest.mark.parametrize("sigma", [50.0, 3000.0, 3e4, 1e6])
@pytest.mark.parametrize("deviations", [0.01, 1.0, 7.0])
def test_the_delta_of_a_unit_of_many_rows_is_bounded_for_every_number_of_keys(rows, sigma, deviations):
    threshold = round(rows + deviations * sigma)
    claimed = noise.gaussian_threshold_delta(rows, scale=sigma, threshold=threshold)
    keys = np.arange(1, rows + 1)
    margin = threshold - (rows - keys + 1)
    exact = min(1.0, float((keys * np.where(margin < 1, 1.0, ndtr(-(margin - 1) / sigma))).max()))
    assert exact <= claimed <= 1.02 * exact


def test_a_threshold_is_found_at_once_however_many_the_rows_of_a_unit():
    loss, most = GaussianDP(1.0, 1e-9), 10**9
    plan = plan_histogram(loss, adjacency=Adjacency(Neighbors.ADD_REMOVE, "who", most))
    assert plan.threshold / plan.resolution > most


def test_a_delta_that_no_threshold_keeps_is_refused():
    with pytest.raises(ParameterError, match="delta"):
        noise.gaussian_threshold_for(2, scale=2.0**53, delta=1e-9, resolution=2**30)


@pytest.mark.slow
def test_two_histograms_one_chosen_by_the_other_cost_what_their_losses_add_up_to():
    """The second one's noise depends on whether the first one published the first key."""
    counts = ((12, 0), (12, 1))
    options = [(6.0, 1e-3), (9.0, 5e-4)]
    first = [output_law(c, SIGMA, noise.gaussian_threshold_for(1, scale=SIGMA, delta=1e-3)) for c in counts]
    second = [
        [output_law(c, sigma, noise.gaussian_threshold_for(1, scale=sigma, delta=delta)) for sigma, delta in options]
        for c in counts
    ]
    published = np.arange(len(first[0])) // (REACH + 1) > 0
    laws = [
        np.concatenate([np.outer(f[published], s[0]).ravel(), np.outer(f[~published], s[1]).ravel()])
        for f, s in zip(first, second, strict=True)
    ]
    mu = math.hypot(gdp_from_discrete_gaussian(1, sigma=SIGMA), gdp_from_discrete_gaussian(1, sigma=6.0))
    for epsilon in EPSILONS:
        assert hockey_stick(*laws, epsilon) <= gdp_to_delta(mu, epsilon) + 2e-3


@pytest.mark.parametrize("thresholds", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("loss", [ApproxDP(1.0, 1e-9), ApproxDP(0.1, 1e-6), ApproxDP(8.0, 1e-12)])
def test_what_is_set_aside_for_thresholds_and_what_is_not_make_the_promise(loss, thresholds):
    account = gaussian_account(loss, thresholds=thresholds)
    assert gdp_to_delta(account.mu, loss.epsilon) + account.delta <= loss.delta
    assert account.delta == thresholds * loss.delta


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_plan_keeps_both_numbers_of_its_loss(relation):
    loss = GaussianDP(0.01, 1e-11)
    adjacency = Adjacency(Neighbors(relation))
    plan = plan_histogram(loss, adjacency=adjacency)
    assert plan.law is NoiseLaw.GAUSSIAN
    assert gdp_from_discrete_gaussian(plan.resolution * adjacency.histogram.l2, sigma=plan.scale) <= loss.mu
    margin = (plan.threshold - plan.resolution - 1) / plan.scale
    assert SHARES[relation] * float(ndtr(-margin)) <= loss.delta
    assert plan.stddev == pytest.approx(adjacency.histogram.l2 / loss.mu, rel=1e-6)


def test_a_unit_of_several_rows_moves_the_threshold_by_its_rows():
    one = plan_histogram(GaussianDP(1.0, 1e-9), adjacency=Adjacency())
    ten = plan_histogram(GaussianDP(10.0, 1e-9), adjacency=Adjacency(Neighbors.ADD_REMOVE, "who", 10))
    assert ten.stddev == pytest.approx(one.stddev)
    assert ten.threshold / ten.resolution >= one.threshold / one.resolution + 9 - 1e-6


def test_without_noise_the_keys_at_the_threshold_come_out_and_no_others(monkeypatch):
    without_noise(monkeypatch)
    loss = GaussianDP(0.1, 1e-9)
    plan = plan_histogram(loss, adjacency=Adjacency())
    least = math.ceil(plan.threshold / plan.resolution)
    rows = ["canary"] * (least - 1) + ["seen"] * least
    found = Curator(pd.DataFrame({"p": rows}), budget=loss).histogram(("p",))
    assert found.counts == {"seen": least}


def test_a_gaussian_budget_pays_for_a_threshold_once():
    frame = pd.DataFrame({"p": ["a"] * 10_000})
    curator = Curator(frame, budget=GaussianDP(1.0, 1e-9))
    curator.histogram(("p",), spend=GaussianDP(0.1, 6e-10))
    assert components(curator.remaining) == (pytest.approx(0.99), pytest.approx(4e-10))
    with pytest.raises(BudgetExceededError):
        curator.histogram(("p",), spend=GaussianDP(0.1, 6e-10))
    with pytest.raises(ParameterError, match="delta"):
        curator.histogram(("p",), spend=GaussianDP(0.1))


def test_both_numbers_of_a_loss_add_up_and_are_kept_in_files():
    both = combined([GaussianDP(0.3, 1e-9), GaussianDP(0.4), GaussianDP(1.2, 2e-9)])
    assert components(both) == (pytest.approx(1.69), pytest.approx(3e-9))
    assert from_document(to_document(both)) == both
    assert to_document(GaussianDP(1.0)) == {"kind": "GaussianDP", "mu": 1.0}
    assert components(both.fraction(0.25)) == (pytest.approx(1.69 / 4), pytest.approx(3e-9 / 4))
