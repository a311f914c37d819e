"""Multiplicative weights: never worse than the prior, close to the program, kind to what nobody asked about."""

from __future__ import annotations

import numpy as np
import pytest
from contracts.fit_problems import constructed
from hypothesis import given, settings, strategies as st

from synthdp.errors import ParameterError
from synthdp.fit.explicit.l1_highs import L1Highs
from synthdp.fit.explicit.multiplicative_weights import MultiplicativeWeights
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.solver import FitStatus


def noisy_problem(seed: int, *, k: int = 20, m: int = 500, stddev: float = 0.02) -> FitProblem:
    rng = np.random.default_rng(seed)
    A = rng.uniform(-1, 1, (k, m))
    return FitProblem(A=A, b=A @ rng.dirichlet(np.full(m, 0.1)) + rng.normal(size=k) * stddev, stddev=stddev)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 40))
def test_the_objective_never_rises_above_the_priors(seed, steps):
    problem = noisy_problem(seed)
    result = MultiplicativeWeights(max_iterations=steps).solve(problem)
    assert result.objective <= problem.objective(problem.start)
    assert result.iterations <= steps


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_the_gap_is_at_least_the_distance_to_the_programs_optimum(seed):
    problem = noisy_problem(seed)
    optimum = L1Highs().solve(problem).objective
    result = MultiplicativeWeights(noise_multiple=0.0).solve(problem)
    assert result.objective - result.gap <= optimum + 1e-9
    assert result.status is FitStatus.WITHIN_SMOOTHING


def test_less_smoothing_comes_closer_to_the_program():
    known = constructed(12, 300, seed=2)
    results = [
        MultiplicativeWeights(smoothing=smoothing, noise_multiple=0.0, tolerance=0.26).solve(known.problem)
        for smoothing in (1.0, 0.1, 0.01)
    ]
    excess = [result.objective - known.optimum for result in results]
    assert excess[0] > 2 * excess[1] > 4 * excess[2]
    assert excess[2] < 2e-3


def test_points_that_no_query_tells_apart_keep_the_priors_proportions():
    rng = np.random.default_rng(0)
    A = np.repeat(rng.uniform(-1, 1, (3, 10)), 2, axis=1)
    prior = np.tile([1.0, 3.0], 10)
    problem = FitProblem(A=A, b=np.array([0.2, -0.1, 0.3]), stddev=0.01, prior=prior)
    weights = MultiplicativeWeights(noise_multiple=0.0).solve(problem).weights
    np.testing.assert_allclose(weights[1::2], 3 * weights[::2], rtol=1e-9)


def test_a_point_without_prior_weight_stays_without():
    problem = FitProblem(A=np.array([[0.0, 0.5, 1.0]]), b=[0.9], stddev=0.01, prior=np.array([1.0, 1.0, 0.0]))
    weights = MultiplicativeWeights().solve(problem).weights
    assert weights[2] == 0.0
    assert weights[1] > 0.99


def test_answers_that_the_prior_explains_leave_it_as_it_is():
    problem = FitProblem(A=np.array([[0.0, 1.0]]), b=[0.501], stddev=0.1)
    result = MultiplicativeWeights().solve(problem)
    assert result.status is FitStatus.NOISE_LEVEL
    np.testing.assert_array_equal(result.weights, [0.5, 0.5])


def test_the_limits_are_named_in_the_status():
    problem = noisy_problem(1)
    assert MultiplicativeWeights(max_iterations=1).solve(problem).status is FitStatus.ITERATION_LIMIT
    assert MultiplicativeWeights(seconds=1e-9).solve(problem).status is FitStatus.TIME_LIMIT


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"smoothing": 0.0}, r"smoothing \(0.0\) must be"),
        ({"noise_multiple": -1.0}, r"noise_multiple \(-1.0\) must be"),
        ({"tolerance": 0.0}, r"tolerance \(0.0\) must be"),
        ({"max_iterations": 0}, r"max_iterations \(0\) must be"),
        ({"seconds": 0.0}, r"seconds \(0.0\) must be"),
    ],
)
def test_a_setting_outside_its_range_is_refused(settings_, message):
    with pytest.raises(ParameterError, match=message):
        MultiplicativeWeights(**settings_)
