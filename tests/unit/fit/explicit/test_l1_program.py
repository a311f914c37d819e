"""The L1 program over columns: its bound, its mixtures, what it never does worse, and what does not matter."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from contracts.fit_problems import KNOWN_PROBLEMS, PULLED_PROBLEMS, pulled
from hypothesis import given, settings, strategies as st
from threadpoolctl import threadpool_limits

from synthdp.errors import ParameterError
from synthdp.fit.explicit import l1_program
from synthdp.fit.explicit.l1_program import GAP, Columns, L1Program, mixture_of
from synthdp.fit.explicit.problem import FitProblem, relative_entropy
from synthdp.fit.explicit.solver import FitStatus

TIGHT = L1Program(gap=1e-4, evaluations=3000)
PULLS = (0.0, 0.01, 0.1, 0.4, 1.0, 3.0, 1e5, math.inf)
COLUMNS = L1Program(name="mw")


def random_problem(seed: int, *, k: int, m: int, pull: float = 0.2, insensitive: float = 0.02) -> FitProblem:
    rng = np.random.default_rng(seed)
    A = [rng.uniform(-1, 1, (k, m)), rng.integers(0, 2, (k, m)).astype(float)][seed % 2]
    b = A @ rng.dirichlet(np.full(m, 0.3)) + rng.normal(size=k) * 0.1
    prior = rng.dirichlet(np.ones(m))
    return FitProblem(A=A, b=b, stddev=rng.choice([0.05, 0.1], k), prior=prior, insensitive=insensitive, pull=pull)


@st.composite
def problems(draw) -> FitProblem:
    return random_problem(
        draw(st.integers(0, 2**32)),
        k=draw(st.integers(1, 8)),
        m=draw(st.integers(1, 10)),
        pull=draw(st.sampled_from([0.0, 0.05, 0.5])),
        insensitive=draw(st.sampled_from([0.0, 0.05])),
    )


def textbook_optimum(problem: FitProblem) -> float:
    """Solve the program with one variable per weight and the relative entropy by 400 tangents a point: from below."""
    k, m = problem.A.shape
    blocks, limits = [], []
    for sign in (1.0, -1.0):
        blocks.append(np.hstack([sign * problem.A, np.zeros((k, m)), -np.eye(k)]))
        limits.append(sign * problem.b + problem.insensitive)
    for ratio in np.geomspace(1e-4, 1 / problem.start.min(), 400):  # q log q >= q (1 + log ratio) - ratio
        blocks.append(np.hstack([(1 + math.log(ratio)) * np.eye(m), -np.eye(m), np.zeros((m, k))]))
        limits.append(ratio * problem.start)
    cost = np.concatenate([np.zeros(m), np.full(m, problem.pull), problem.row_weights])
    bounds = [(0, None)] * m + [(None, None) if problem.pull else (0, None)] * m + [(0, None)] * k
    total = np.concatenate([np.ones(m), np.zeros(m + k)])[None, :]
    found = scipy.optimize.linprog(
        cost, A_ub=np.vstack(blocks), b_ub=np.concatenate(limits), A_eq=total, b_eq=[1.0], bounds=bounds
    )
    return float(found.fun)


@given(problem=problems())
def test_the_bound_lies_below_and_the_objective_above_the_optimum_of_the_textbook_program(problem):
    found = L1Program().solve(problem)
    optimum = textbook_optimum(problem)  # of tangents: at most 1e-3 · pull below the true one
    assert found.bound <= optimum + 1e-3 * problem.pull + 1e-7
    assert found.objective >= optimum - 1e-7
    assert found.objective == pytest.approx(problem.objective(found.weights), rel=1e-9, abs=1e-12)


@given(problem=problems())
def test_small_problems_close_their_gap(problem):
    found = L1Program().solve(problem)
    assert found.gap <= max(GAP * problem.noise_level, 1e-5)
    assert found.status in (FitStatus.OPTIMAL, FitStatus.WITHIN_NOISE)


@given(problem=problems(), seed=st.integers(0, 2**32))
def test_no_weights_have_an_objective_below_the_bound_of_any_vector(problem, seed):
    rng = np.random.default_rng(seed)
    bound = problem.dual_bound(rng.normal(size=problem.k))
    for weights in (*rng.dirichlet(np.full(problem.m, 0.3), size=20), problem.start):
        assert problem.objective(weights) >= bound - 1e-9


@given(problem=problems(), seed=st.integers(0, 2**32))
def test_a_mixture_is_never_dearer_than_its_program_and_that_never_than_a_column(problem, seed):
    rng = np.random.default_rng(seed)
    columns = Columns(problem, limit=100, enough=0.01)
    for _ in range(12):
        columns.add(rng.normal(size=problem.k) * problem.row_weights, temperature=max(problem.pull, 0.01))
    found = mixture_of(problem, columns)
    at = np.arange(len(columns))
    master = master_value(problem, columns.answers(at), columns.entropies(at))
    assert problem.objective(found.weights) <= master + 1e-6
    assert master <= columns.best + 1e-6
    assert problem.dual_bound(found.y) <= problem.objective(found.weights) + 1e-9


def master_value(problem: FitProblem, answers: np.ndarray, entropies: np.ndarray) -> float:
    """Solve the mixture of columns in its primal form, by another route than the package."""
    T, k = answers.shape
    e, r = np.broadcast_to(problem.insensitive, problem.b.shape), problem.row_weights
    equality = np.block([[answers.T, np.eye(k), np.eye(k), -np.eye(k)], [np.ones((1, T)), np.zeros((1, 3 * k))]])
    bounds = [(0, None)] * T + list(zip(-e, e, strict=True)) + [(0, None)] * (2 * k)
    cost = np.concatenate([problem.pull * entropies, np.zeros(k), r, r])
    return float(scipy.optimize.linprog(cost, A_eq=equality, b_eq=np.append(problem.b, 1.0), bounds=bounds).fun)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("known", [*KNOWN_PROBLEMS, *PULLED_PROBLEMS], ids=lambda known: known.name)
def test_the_program_is_never_worse_than_multiplicative_weights(known):
    mixed, alone = L1Program().solve(known.problem), COLUMNS.solve(known.problem)
    assert mixed.objective == min(mixed.objective_lp, mixed.objective_mw)
    assert mixed.objective <= alone.objective + 0.02 * known.problem.noise_level
    assert alone.objective_lp == math.inf
    assert alone.pivots == 0


@pytest.mark.parametrize("seed", range(4))
def test_the_program_is_worth_its_time(seed):
    """Where steps run out, mixing what they went through is better than the best of them."""
    problem = pulled(60, 400, seed=seed).problem
    short = dataclasses.replace(L1Program(), evaluations=60)
    found = short.solve(problem)
    assert found.objective_lp < found.objective_mw
    assert found.solver == "lp"


@pytest.mark.parametrize("seed", range(4))
def test_the_misfit_is_never_larger_than_that_of_the_prior(seed):
    problem = random_problem(seed, k=10, m=60)
    for solver in (L1Program(), COLUMNS):
        found = solver.solve(problem)
        assert problem.misfit(found.weights) <= problem.misfit(problem.start) + 1e-9


@pytest.mark.landing
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
@pytest.mark.parametrize("name", ["lp", "mw"])
def test_pulling_harder_comes_nearer_to_the_prior_and_misses_more_until_it_is_the_prior(seed, name):
    whole = random_problem(seed, k=10, m=60)
    fits = [dataclasses.replace(TIGHT, name=name).solve(dataclasses.replace(whole, pull=pull)) for pull in PULLS]
    distances = [relative_entropy(fit.weights, whole.start) for fit in fits[1:]]  # at 0 there are many optima
    misfits = [whole.misfit(fit.weights) for fit in fits]
    assert (np.diff(distances) <= 1e-3).all()
    assert (np.diff(misfits) >= -1e-3).all()
    assert (np.diff([fit.objective for fit in fits]) >= -1e-4).all()
    for fit in fits[-2:]:
        np.testing.assert_allclose(fit.weights, whole.start, atol=1e-4)
    assert fits[-1].status is FitStatus.PRIOR


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_points_and_of_answers_does_not_matter(seed):
    whole = random_problem(seed, k=10, m=60)
    points, answers = (np.random.default_rng(seed).permutation(size) for size in (60, 10))
    moved = FitProblem(
        A=whole.A[answers][:, points], b=whole.b[answers], stddev=whole.stddev[answers], prior=whole.start[points],
        insensitive=whole.insensitive[answers], pull=whole.pull,
    )  # fmt: skip
    first, second = TIGHT.solve(whole), TIGHT.solve(moved)
    assert second.objective == pytest.approx(first.objective, abs=1e-5)
    np.testing.assert_allclose(second.weights, first.weights[points], atol=1e-2)


@pytest.mark.landing
@given(seed=st.integers(0, 2**32), factor=st.sampled_from([1e-3, 1e3]))
@settings(max_examples=10, deadline=None)
def test_the_unit_of_the_answers_scales_the_objective(seed, factor):
    whole = random_problem(seed, k=6, m=20)
    scaled = FitProblem(
        A=whole.A * factor, b=whole.b * factor, stddev=whole.stddev * factor, prior=whole.start,
        insensitive=whole.insensitive * factor, pull=whole.pull * factor,
    )  # fmt: skip
    gap = 2 * GAP * whole.noise_level
    assert L1Program().solve(scaled).objective / factor == pytest.approx(L1Program().solve(whole).objective, abs=gap)


def test_sparse_features_give_the_same_fit():
    dense = random_problem(1, k=10, m=60)
    sparse = dataclasses.replace(dense, A=sp.csc_array(dense.A))
    np.testing.assert_allclose(L1Program().solve(sparse).weights, L1Program().solve(dense).weights, atol=1e-3)


def test_answers_that_the_prior_meets_leave_it_as_it_is():
    rng = np.random.default_rng(0)
    A, prior = rng.uniform(-1, 1, (8, 50)), rng.dirichlet(np.ones(50))
    problem = FitProblem(A=A, b=A @ prior + 0.01, stddev=0.1, prior=prior, insensitive=0.011, pull=0.1)
    found = L1Program().solve(problem)
    np.testing.assert_allclose(found.weights, problem.start, rtol=1e-12)
    assert (found.objective, found.gap) == (0.0, 0.0)


def test_a_point_without_a_prior_stays_without_weight():
    rng = np.random.default_rng(0)
    prior = np.append(rng.dirichlet(np.ones(30)), np.zeros(5))
    A = rng.uniform(-1, 1, (8, 35))
    problem = FitProblem(A=A, b=A[:, -1], stddev=0.05, prior=prior, pull=0.01)
    found = L1Program().solve(problem)
    assert (found.weights[-5:] == 0).all()
    assert math.isfinite(found.objective)


@pytest.mark.parametrize("columns", [4, 10])
def test_rows_a_thousand_times_likelier_than_the_prior_are_reached(columns):
    """Columns that are all equal: two rows hold everything, and independent columns give each 1 / 2^columns."""
    rows = np.array(list(itertools.product((0, 1), repeat=columns)))
    A = np.array([(rows[:, i] == rows[:, j]).astype(float) for i, j in itertools.combinations(range(columns), 2)])
    problem = FitProblem(A=A, b=np.ones(len(A)), stddev=1e-4, insensitive=5e-5, pull=0.01)
    found = L1Program().solve(problem)
    assert found.weights[[0, -1]].sum() > 0.99
    np.testing.assert_allclose(found.weights[[0, -1]], 0.5, atol=0.05)


@pytest.mark.landing
@pytest.mark.parametrize("name", ["lp", "mw"])
def test_the_same_problem_has_the_same_weights_with_any_number_of_threads(name):
    problem = random_problem(0, k=200, m=3000)
    fits = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            fits.append(L1Program(name=name).solve(problem))
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.weights, fits[0].weights)


def test_limits_are_counts_and_are_kept(monkeypatch):
    problem = random_problem(2, k=40, m=300, pull=0.01, insensitive=0.0)
    found = L1Program(evaluations=7, gap=0.0).solve(problem)
    assert found.evaluations == 7
    assert found.status is FitStatus.LIMIT
    monkeypatch.setattr(l1_program, "MAX_PIVOTS", 3)
    stopped = L1Program().solve(problem)
    assert stopped.status is FitStatus.FAILED
    assert "stopped after 3 pivots" in stopped.reason  # with or without multipliers, by HiGHS's version
    assert stopped.objective <= stopped.objective_mw


def test_more_answers_than_a_program_takes_are_fitted_without_it(monkeypatch):
    monkeypatch.setattr(l1_program, "MAX_ANSWERS", 9)
    found = L1Program().solve(random_problem(2, k=10, m=60))
    assert (found.solver, found.pivots, found.objective_lp) == ("mw", 0, math.inf)
    assert "more than 9 answers" in found.reason


@pytest.mark.parametrize(
    "changed", [{"pull": -1.0}, {"pull": math.nan}, {"insensitive": -0.1}, {"insensitive": np.zeros(3)}]
)
def test_a_pull_or_insensitivity_out_of_range_is_refused(changed):
    with pytest.raises(ParameterError, match=next(iter(changed))):
        dataclasses.replace(random_problem(0, k=5, m=9), **changed)


@pytest.mark.parametrize("changed", [{"name": "qp"}, {"evaluations": 0}, {"gap": -0.1}])
def test_a_setting_out_of_range_is_refused(changed):
    with pytest.raises(ParameterError, match=next(iter(changed))):
        L1Program(**changed)
