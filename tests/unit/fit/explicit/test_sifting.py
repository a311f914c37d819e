"""Sifting: agreement with a direct HiGHS call, sparse vertices, limits and failures."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from contracts.fit_problems import constructed
from hypothesis import given, strategies as st

from synthdp.errors import ParameterError, SolverFailedError
from synthdp.fit.explicit import sifting
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.sifting import Sifting
from synthdp.fit.explicit.solver import FitStatus


def primal_optimum(problem: FitProblem) -> float:
    """Solve the primal with slacks, as a textbook has it: min r'(p + q), A w + p − q = b, sum w = 1."""
    A = sp.csr_array(problem.A).toarray()
    k, m = A.shape
    equality = np.block([[A, np.eye(k), -np.eye(k)], [np.ones((1, m)), np.zeros((1, 2 * k))]])
    cost = np.concatenate([np.zeros(m), problem.row_weights, problem.row_weights])
    found = scipy.optimize.linprog(cost, A_eq=equality, b_eq=np.append(problem.b, 1.0), method="highs")
    return float(found.fun)


@st.composite
def problems(draw) -> FitProblem:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    k, m = draw(st.integers(1, 12)), draw(st.integers(1, 60))
    A = draw(st.sampled_from([rng.uniform(-1, 1, (k, m)), rng.integers(0, 2, (k, m)).astype(float)]))
    truth = A @ rng.dirichlet(np.full(m, 0.3))
    stddev = rng.choice([0.0, 0.01, 0.1], k)
    return FitProblem(A=A, b=truth + rng.normal(size=k) * draw(st.sampled_from([0.0, 0.1, 3.0])), stddev=stddev)


@given(problem=problems())
def test_the_optimum_is_that_of_the_textbook_program(problem):
    result = Sifting().solve(problem)
    expected = primal_optimum(problem)
    assert result.status is FitStatus.OPTIMAL
    assert result.objective == pytest.approx(expected, abs=1e-6)
    assert result.objective - result.gap == pytest.approx(expected, abs=1e-5)


@given(problem=problems())
def test_sparse_features_give_the_same_optimum(problem):
    sparse = FitProblem(A=sp.csc_array(problem.A), b=problem.b, stddev=problem.stddev)
    assert Sifting().solve(sparse).objective == pytest.approx(Sifting().solve(problem).objective, abs=1e-9)


def test_the_support_has_at_most_one_point_more_than_there_are_queries():
    known = constructed(20, 3000, seed=8)
    assert np.count_nonzero(Sifting().solve(known.problem).weights) <= 21


def test_an_exact_answer_that_can_be_met_is_met():
    rng = np.random.default_rng(3)
    A = rng.uniform(-1, 1, (15, 400))
    stddev = np.append(np.full(14, 0.1), 0.0)
    b = A @ rng.dirichlet(np.ones(400)) + rng.normal(size=15) * 0.3 * (stddev > 0)
    weights = Sifting().solve(FitProblem(A=A, b=b, stddev=stddev)).weights
    assert A[14] @ weights == pytest.approx(b[14], abs=1e-9)


def test_no_pivots_at_all_are_a_failure_with_a_status(monkeypatch):
    whole = sifting.minimise
    monkeypatch.setattr(
        sifting, "minimise", lambda *args, limits, **kw: whole(*args, limits=limits, **kw)._replace(duals=np.empty(0))
    )
    with pytest.raises(SolverFailedError) as failure:
        Sifting().solve(constructed(5, 50, seed=0).problem)
    assert failure.value.status.endswith(".")


@pytest.mark.parametrize("pivots", [15, 40, 100])
def test_an_interrupted_solve_returns_its_weights_with_a_valid_bound(pivots):
    known = constructed(20, 3000, seed=9)
    result = Sifting(pivots=pivots).solve(known.problem)
    assert result.status is FitStatus.LIMIT
    assert result.pivots <= pivots
    assert result.objective == pytest.approx(known.problem.objective(result.weights))
    assert result.objective > known.optimum + 1e-6
    assert result.bound <= known.optimum


def test_a_pull_is_refused():
    with pytest.raises(ParameterError, match="pull"):
        Sifting().solve(FitProblem(A=np.eye(2), b=np.zeros(2), stddev=0.1, pull=0.1))


def test_unusable_duals_are_a_failure_with_a_status(monkeypatch):
    whole = sifting.minimise
    monkeypatch.setattr(
        sifting,
        "minimise",
        lambda *args, limits, **kw: whole(*args, limits=limits, **kw)._replace(
            duals=np.zeros(limits.size), finished=False
        ),
    )
    with pytest.raises(SolverFailedError):
        Sifting().solve(constructed(5, 50, seed=0).problem)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"pivots": 0}, "pivots"),
        ({"tolerance": 1.0}, "tolerance"),
    ],
)
def test_a_setting_outside_its_range_is_refused(settings_, message):
    with pytest.raises(ParameterError, match=message):
        Sifting(**settings_)
