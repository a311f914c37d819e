"""The fitting problem: row weights, the common measure, its bounds, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from synthdp.errors import ParameterError
from synthdp.fit.explicit.problem import (
    INSENSITIVE,
    FitProblem,
    expected_noise,
    pull_of,
    relative_entropy,
    row_weights,
)

finite = st.floats(-10, 10)


@st.composite
def problems(draw) -> FitProblem:
    k, m = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    A = draw(hnp.arrays(float, (k, m), elements=finite))
    b = draw(hnp.arrays(float, k, elements=finite))
    stddev = draw(hnp.arrays(float, k, elements=st.one_of(st.just(0.0), st.floats(1e-3, 1.0))))
    return FitProblem(A=A, b=b, stddev=stddev)


def test_row_weights_are_inverse_to_the_noise_with_the_surest_at_one():
    np.testing.assert_allclose(row_weights(np.array([0.1, 0.2, 0.4])), [1.0, 0.5, 0.25])


def test_an_exact_query_outweighs_all_noisy_ones_together():
    np.testing.assert_allclose(row_weights(np.array([0.1, 0.0, 0.2])), [1.0, 2.5, 0.5])


def test_only_exact_queries_weigh_the_same():
    np.testing.assert_array_equal(row_weights(np.zeros(3)), np.ones(3))


def test_expected_noise_is_that_of_laplace_draws():
    stddev = np.array([0.1, 0.3])
    draws = np.random.default_rng(0).laplace(scale=stddev / math.sqrt(2), size=(200_000, 2))
    assert expected_noise(stddev) == pytest.approx((np.abs(draws) @ row_weights(stddev)).mean(), rel=0.01)


@given(problem=problems(), data=st.data())
def test_every_dual_vector_bounds_every_objective_from_below(problem, data):
    y = data.draw(hnp.arrays(float, problem.k, elements=st.floats(-100, 100)))
    raw = data.draw(hnp.arrays(float, problem.m, elements=st.floats(0.01, 1)))
    weights = raw / raw.sum()
    assert problem.dual_bound(y) <= problem.objective(weights) + 1e-9 * (1 + problem.objective(weights))


@given(problem=problems())
def test_sparse_and_dense_features_give_the_same_measure(problem):
    sparse = FitProblem(A=sp.coo_array(problem.A), b=problem.b, stddev=problem.stddev)
    y = problem.row_weights / 2
    assert sparse.objective(problem.start) == pytest.approx(problem.objective(problem.start), abs=1e-9)
    assert sparse.dual_bound(y) == pytest.approx(problem.dual_bound(y), abs=1e-9)
    assert sparse.magnitude == problem.magnitude


def test_nonzeros_are_stored_entries():
    dense = FitProblem(A=np.eye(3), b=np.zeros(3), stddev=0.1)
    sparse = FitProblem(A=sp.eye_array(3), b=np.zeros(3), stddev=0.1)
    assert (dense.nonzeros, sparse.nonzeros) == (9, 3)


@given(seed=st.integers(0, 2**32), drawn=st.sampled_from([0, 50]), pull=st.sampled_from([None, 0.0, 0.3, math.inf]))
def test_what_is_free_is_the_noise_and_the_error_of_the_draws(seed, drawn, pull):
    rng = np.random.default_rng(seed)
    A, stddev, prior = rng.uniform(-1, 1, (4, 9)), rng.uniform(0.01, 0.1, 4), rng.dirichlet(np.ones(9))
    problem = FitProblem.of_noisy(A, np.zeros(4), stddev, prior=prior, drawn=drawn, pull=pull)
    assert problem.pull == (pull_of(A, stddev) if pull is None else pull)
    if not drawn:
        np.testing.assert_allclose(problem.insensitive, INSENSITIVE * stddev)
    else:
        means = A @ prior
        spread = ((A - means[:, None]) ** 2) @ prior / drawn
        np.testing.assert_allclose(problem.insensitive, INSENSITIVE * np.sqrt(stddev**2 + spread))


@given(seed=st.integers(0, 2**32))
def test_the_relative_entropy_is_zero_at_the_prior_and_infinite_beyond_it(seed):
    rng = np.random.default_rng(seed)
    prior, weights = rng.dirichlet(np.ones(5), size=2)
    assert relative_entropy(prior, prior) == pytest.approx(0, abs=1e-12)
    assert relative_entropy(weights, prior) == pytest.approx(
        float((weights * np.log(weights / prior)).sum()), abs=1e-12
    )
    assert relative_entropy(np.append(weights, 0.0), np.append(prior, 0.0)) >= 0
    assert relative_entropy(np.array([0.5, 0.5]), np.array([1.0, 0.0])) == math.inf


def test_a_prior_is_normalised_and_its_absence_means_uniform():
    given_prior = FitProblem(A=np.ones((1, 2)), b=[1.0], stddev=0.1, prior=np.array([1.0, 3.0]))
    np.testing.assert_allclose(given_prior.start, [0.25, 0.75])
    np.testing.assert_allclose(FitProblem(A=np.ones((1, 2)), b=[1.0], stddev=0.1).start, [0.5, 0.5])


def test_arrays_are_read_only_and_the_callers_stay_writable():
    A, b = np.ones((1, 2)), np.array([0.5])
    problem = FitProblem(A=A, b=b, stddev=0.1, prior=np.ones(2))
    stored = (problem.A, problem.b, problem.stddev, problem.prior)
    assert not any(array.flags.writeable for array in stored)
    assert A.flags.writeable
    assert b.flags.writeable


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"A": np.ones(2)}, r"\bA\b.*shape \(2,\)"),
        ({"A": np.ones((2, 0))}, r"\bA\b.*\(2, 0\)"),
        ({"A": np.ones((3, 4))}, r"\bA\b.*2.*3"),
        ({"A": np.full((2, 4), np.nan)}, r"\bA\b.*finite"),
        ({"A": sp.coo_array(np.full((2, 4), np.inf))}, r"\bA\b.*finite"),
        ({"b": np.ones((2, 1))}, r"\bb\b.*\(2, 1\)"),
        ({"b": np.array([0.0, np.inf])}, r"\bb\b.*finite"),
        ({"stddev": np.ones(3)}, "stddev.*shape"),
        ({"stddev": -0.1}, "stddev.*finite"),
        ({"stddev": np.array([0.1, np.nan])}, "stddev.*finite"),
        ({"prior": np.ones(3)}, "prior.*shape"),
        ({"prior": np.zeros(4)}, "prior.*finite"),
        ({"prior": np.array([1.0, -1, 1, 1])}, "prior.*finite"),
    ],
)
def test_a_malformed_problem_is_refused(changed, message):
    arguments = {"A": np.ones((2, 4)), "b": np.zeros(2), "stddev": 0.1, **changed}
    with pytest.raises(ParameterError, match=message):
        FitProblem(**arguments)
