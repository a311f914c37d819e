"""Noise on every query: how much, how it is divided, and what the answers say of themselves."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from silence import silence
from small_worlds import binary_table, binary_world, curator_of, skewed_codes

from synthdp import ZCDP, ApproxDP, Curator, GaussianDP, Integer, PureDP, Schema
from synthdp.domain.domain import domain_of, releasable_domain
from synthdp.errors import ParameterError
from synthdp.measurements import NoiseLaw
from synthdp.mechanisms.direct_answers import GaussianAnswers, LaplaceAnswers, best_shares, parts_of
from synthdp.privacy import accounting, calibration
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.linear import CellQueries, Stack, Subset
from synthdp.queries.marginals import Marginals, all_cliques

SCHEMA, DOMAIN = binary_world(3)
TABLES = Marginals(DOMAIN, all_cliques(DOMAIN, 1) + all_cliques(DOMAIN, 3))
CODES = skewed_codes(3, 500)
TABLE = binary_table(SCHEMA, CODES)
TRUTH = TABLES.sums(CODES)
PAID = [
    (LaplaceAnswers, PureDP(1.0)),
    (LaplaceAnswers, ApproxDP(1.0, 1e-6)),
    (GaussianAnswers, ApproxDP(1.0, 1e-6)),
    (GaussianAnswers, ZCDP(0.1)),
    (GaussianAnswers, GaussianDP(0.4)),
]


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("aim", ["mean", "max"])
@pytest.mark.parametrize(("mechanism", "budget"), PAID)
def test_without_noise_the_answers_are_exact(monkeypatch, mechanism, budget, aim, neighbors):
    silence(monkeypatch)
    curator = curator_of(TABLE, SCHEMA, budget, neighbors)
    release = mechanism(TABLES, aim=aim).release(curator)
    np.testing.assert_array_equal(release.output.answer(TABLES), TRUTH)
    np.testing.assert_array_equal(release.output.answer(np.array([3, 0])), TRUTH[[3, 0]])
    assert curator.remaining is None
    assert release.loss == budget


@pytest.mark.slow
@pytest.mark.parametrize("aim", ["mean", "max"])
@pytest.mark.parametrize(("mechanism", "budget"), PAID)
def test_intervals_hold_the_truth_as_often_as_they_say(mechanism, budget, aim):
    inside = 0
    for _ in range(20):
        low, high = mechanism(TABLES, aim=aim).release(curator_of(TABLE, SCHEMA, budget)).output.interval(0.9)
        inside += int(((low <= TRUTH) & (high >= TRUTH)).sum())
    assert 0.75 < inside / (20 * TABLES.k) < 0.98


@pytest.mark.parametrize("law", [NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN])
def test_the_shares_make_the_sum_of_variances_least(law):
    parts = parts_of(TABLES)
    adjacency = Adjacency()
    weights = np.array([part.k for part in parts], float)
    power = 2 if law is NoiseLaw.LAPLACE else 1

    def variance(x):
        shares = np.exp(x) / np.exp(x).sum()
        return float(weights @ shares**-power)

    best = minimize(variance, np.zeros(len(parts)), method="BFGS")
    shares = best_shares(parts, adjacency, law=law)
    np.testing.assert_allclose(shares, np.exp(best.x) / np.exp(best.x).sum(), rtol=1e-3)
    assert shares.sum() == pytest.approx(1)


@pytest.mark.parametrize(("mechanism", "budget"), [PAID[0], PAID[2], PAID[3]])
def test_the_aim_decides_which_error_is_least(mechanism, budget):
    spreads = {
        aim: mechanism(TABLES, aim=aim).release(curator_of(TABLE, SCHEMA, budget)).output.stddev
        for aim in ("mean", "max")
    }
    assert np.mean(spreads["mean"] ** 2) < np.mean(spreads["max"] ** 2)
    assert spreads["max"].max() < spreads["mean"].max()


def test_parts_of_a_stack_are_the_parts_of_its_parts():
    stack = Stack((TABLES, CellQueries(DOMAIN, np.arange(8)[None, :])))
    assert [part.k for part in parts_of(stack)] == [2, 2, 2, 8, 1]


def test_composition_pays_for_less_noise_where_there_are_many_queries():
    many = CellQueries(DOMAIN, np.random.default_rng(0).integers(0, 2, (400, 8)))
    scales = [
        LaplaceAnswers(many).release(curator_of(TABLE, SCHEMA, budget)).output.stddev[0]
        for budget in (PureDP(1.0), ApproxDP(1.0, 1e-6))
    ]
    assert scales[1] < 0.6 * scales[0]


def test_the_errors_keep_the_accuracy_bounds_of_the_lecture():
    k, n = 100, 500
    queries = CellQueries(DOMAIN, np.random.default_rng(0).integers(0, 2, (k, 8)))
    truth = queries.sums(CODES)
    for budget, delta in ((PureDP(1.0), 0.0), (ApproxDP(1.0, 1e-6), 1e-6)):
        answers = LaplaceAnswers(queries).release(curator_of(TABLE, SCHEMA, budget)).output.values
        bound = calibration.laplace_bound(k, sensitivity=1 / n, epsilon=1.0, beta=1e-9, delta=delta)
        assert np.abs(answers - truth).max() / n <= bound


@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 0.0)])
def test_gaussian_noise_has_no_pure_epsilon(budget):
    curator = curator_of(TABLE, SCHEMA, budget)
    with pytest.raises(ParameterError, match="LaplaceAnswers"):
        GaussianAnswers(TABLES).release(curator)
    assert curator.remaining == budget


def test_unknown_aims_levels_and_queries_are_refused():
    with pytest.raises(ParameterError, match="aim"):
        LaplaceAnswers(TABLES, aim="median")
    output = LaplaceAnswers(TABLES).release(curator_of(TABLE, SCHEMA, PureDP(1.0))).output
    with pytest.raises(ParameterError, match="confidence"):
        output.interval(1.0)
    with pytest.raises(ParameterError, match="queries"):
        output.answer(Marginals(DOMAIN, ((0,),)))


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("subset", [False, True])
@pytest.mark.parametrize("unit", [1, 1000, 10**8])
@pytest.mark.parametrize(
    ("mechanism", "spend", "stddev"),
    [
        (GaussianAnswers, ApproxDP(1.0, 1e-6), math.sqrt(1000) / accounting.gdp_from_approx(1.0, 1e-6)),
        (GaussianAnswers, GaussianDP(0.5), math.sqrt(1000) / 0.5),
        (GaussianAnswers, ZCDP(0.125), math.sqrt(1000) / 0.5),
        (LaplaceAnswers, PureDP(1.0), math.sqrt(2) * 1000),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_thousand_counts_have_the_same_noise_in_any_unit(mechanism, spend, stddev, unit, subset):
    """One row counted a thousand times: in units of 1e8 its squares add up to 1e19, which no 64-bit number holds."""
    schema = Schema({"n": Integer(0, 9)})
    domain = releasable_domain(domain_of(schema))
    values = np.zeros((1000, domain.cells), np.int64)
    values[:, 3] = unit
    counts = CellQueries(domain, values, denominator=unit)
    asked = {False: counts, True: Subset(counts, np.arange(1000))}[subset]
    curator = Curator(pd.DataFrame({"n": [3] + [5] * 50}), schema=schema, budget=spend)
    answers = mechanism(asked, aim="max").release(curator).output
    assert answers.stddev == pytest.approx(np.full(1000, stddev), rel=2e-3)
    assert float(np.std(answers.values - 1.0)) == pytest.approx(stddev, rel=0.3)
