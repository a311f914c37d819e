"""The L1 program with a pull: against a textbook program, and what pulling more or less must do."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from synthdp.errors import ParameterError
from synthdp.fit.explicit import pulled
from synthdp.fit.explicit.l1_highs import L1Highs
from synthdp.fit.explicit.multiplicative_weights import MultiplicativeWeights
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.relative_entropy import least_pulled, pieces, relative_entropy
from synthdp.fit.explicit.solver import FitStatus

EXACT = L1Highs(noise_multiple=0.0)
PULLS = (0.0, 0.01, 0.1, 0.4, 1.0, 3.0, 1e5, math.inf)


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
    """Solve with one variable per weight and one per piece: cost_j >= each chord of w · log(w / prior)."""
    k, m = problem.A.shape
    kinks = pieces(m).kinks
    inside = kinks[1:-1]
    values = np.append(0.0, inside * np.log(inside))
    slopes = np.append(np.diff(values) / np.diff(kinks[:-1]), np.log(inside[-1]) + 1)
    blocks, limits = [], []
    for sign in (1.0, -1.0):
        blocks.append(np.hstack([sign * problem.A, np.zeros((k, m)), -np.eye(k)]))
        limits.append(sign * problem.b + problem.insensitive)
    for slope, kink, value in zip(slopes, kinks[:-1], values, strict=True):
        blocks.append(np.hstack([slope * np.eye(m), -np.eye(m), np.zeros((m, k))]))
        limits.append((slope * kink - value) * problem.start)
    cost = np.concatenate([np.zeros(m), np.full(m, problem.pull), problem.row_weights])
    bounds = [(0, None)] * m + [(None, None) if problem.pull else (0, None)] * m + [(0, None)] * k
    total = np.concatenate([np.ones(m), np.zeros(m + k)])[None, :]
    found = scipy.optimize.linprog(
        cost, A_ub=np.vstack(blocks), b_ub=np.concatenate(limits), A_eq=total, b_eq=[1.0], bounds=bounds
    )
    return float(found.fun)


@given(problem=problems())
def test_the_optimum_is_that_of_the_textbook_program(problem):
    result = EXACT.solve(dataclasses.replace(problem, insensitive=np.maximum(problem.insensitive, 1e-9)))
    assert result.objective == pytest.approx(textbook_optimum(problem), abs=1e-6)
    assert result.status is FitStatus.OPTIMAL
    assert result.gap <= 1e-6


@settings(max_examples=15, deadline=None)
@given(problem=problems(), seed=st.integers(0, 2**32))
def test_no_weights_have_an_objective_below_a_dual_bound(problem, seed):
    rng = np.random.default_rng(seed)
    bound = problem.dual_bound(rng.normal(size=problem.k))
    for weights in (*rng.dirichlet(np.full(problem.m, 0.3), size=20), problem.start):
        assert problem.objective(weights) >= bound - 1e-9


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("solver", [EXACT, MultiplicativeWeights()], ids=["lp", "mw"])
def test_the_misfit_is_never_larger_than_that_of_the_prior_and_the_gap_is_honest(solver, seed):
    problem = random_problem(seed, k=10, m=60)
    found = solver.solve(problem)
    optimum = EXACT.solve(problem).objective
    assert problem.misfit(found.weights) <= problem.misfit(problem.start) + 1e-9
    assert found.objective == pytest.approx(problem.objective(found.weights))
    assert found.objective - found.gap <= optimum + 1e-9


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_pulling_harder_comes_nearer_to_the_prior_and_misses_more_until_it_is_the_prior(seed):
    whole = random_problem(seed, k=10, m=60)
    fits = [EXACT.solve(dataclasses.replace(whole, pull=pull)) for pull in PULLS]
    distances = [relative_entropy(fit.weights, whole.start) for fit in fits]
    misfits = [whole.misfit(fit.weights) for fit in fits]
    objectives = [fit.objective for fit in fits]
    np.testing.assert_array_less(np.diff(distances), 1e-7)
    np.testing.assert_array_less(-np.diff(misfits), 1e-7)
    np.testing.assert_array_less(-np.diff(objectives), 1e-7)
    assert all(fit.objective <= whole.misfit(whole.start) + 1e-9 for fit in fits)
    for fit in fits[-2:]:
        np.testing.assert_allclose(fit.weights, whole.start, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_points_and_of_answers_does_not_matter(seed):
    whole = random_problem(seed, k=10, m=60)
    points, answers = (np.random.default_rng(seed).permutation(size) for size in (60, 10))
    moved = FitProblem(
        A=whole.A[answers][:, points], b=whole.b[answers], stddev=whole.stddev[answers], prior=whole.start[points],
        insensitive=whole.insensitive[answers], pull=whole.pull,
    )  # fmt: skip
    assert EXACT.solve(moved).objective == pytest.approx(EXACT.solve(whole).objective, abs=1e-7)


def test_sparse_features_give_the_same_optimum():
    dense = random_problem(1, k=10, m=60)
    sparse = dataclasses.replace(dense, A=sp.csc_array(dense.A))
    assert EXACT.solve(sparse).objective == pytest.approx(EXACT.solve(dense).objective, abs=1e-9)


def test_answers_that_the_prior_meets_leave_it_as_it_is():
    rng = np.random.default_rng(0)
    A, prior = rng.uniform(-1, 1, (8, 50)), rng.dirichlet(np.ones(50))
    problem = FitProblem(A=A, b=A @ prior + 0.01, stddev=0.1, prior=prior, insensitive=0.011, pull=0.1)
    found = EXACT.solve(problem)
    np.testing.assert_array_equal(found.weights, problem.start)
    assert (found.objective, found.gap, found.iterations) == (0.0, 0.0, 0)


def test_no_time_leaves_the_prior_with_an_honest_gap():
    problem = random_problem(3, k=10, m=60)
    found = L1Highs(seconds=1e-9).solve(problem)
    np.testing.assert_array_equal(found.weights, problem.start)
    assert found.status is FitStatus.TIME_LIMIT
    assert found.objective - found.gap <= EXACT.solve(problem).objective


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), m=st.integers(1, 30))
def test_the_pieces_are_zero_at_the_prior_alone_and_above_the_relative_entropy(seed, m):
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.ones(m))
    weights = prior * rng.uniform(0.2, 5, m)
    weights /= weights.sum()
    exact = float(weights @ np.log(weights / prior))
    assert relative_entropy(prior, prior) == pytest.approx(0.0, abs=1e-12)
    assert exact - 1e-12 <= relative_entropy(weights, prior) <= exact + 0.1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pull": -1.0}, "pull"),
        ({"pull": math.nan}, "pull"),
        ({"insensitive": -0.1}, "insensitive must be finite and non-negative"),
        ({"insensitive": np.zeros(3)}, "insensitive must have one value per answer"),
    ],
)
def test_a_pull_or_insensitivity_out_of_range_is_refused(changed, message):
    with pytest.raises(ParameterError, match=message):
        dataclasses.replace(random_problem(0, k=5, m=9), **changed)


@pytest.mark.parametrize("insensitive", [0.0, 0.05, 0.2])
def test_the_noise_level_is_the_misfit_that_noise_gives_the_truth(insensitive):
    rng = np.random.default_rng(0)
    A, truth = rng.uniform(-1, 1, (20_000, 5)), rng.dirichlet(np.ones(5))
    b = A @ truth + rng.laplace(scale=0.1 / math.sqrt(2), size=20_000)
    problem = FitProblem(A=A, b=b, stddev=0.1, insensitive=insensitive)
    assert problem.misfit(truth) == pytest.approx(problem.noise_level, rel=0.05)


@given(seed=st.integers(0, 2**32), m=st.integers(1, 12), pull=st.sampled_from([0.01, 0.3, 20.0]))
def test_the_least_pulled_is_what_filling_the_cheapest_pieces_first_gives(seed, m, pull):
    rng = np.random.default_rng(seed)
    prior, rewards = rng.dirichlet(np.full(m, 0.3)), rng.normal(size=m)
    prices = (pull * pieces(m).slopes - rewards[:, None]).ravel()
    widths = np.column_stack([np.outer(prior, np.diff(pieces(m).kinks[:-1])), np.full(m, np.inf)]).ravel()
    order = np.argsort(prices, kind="stable")
    below = np.minimum(np.cumsum(widths[order]), 1.0)
    filled = float(np.diff(below, prepend=0.0) @ prices[order])
    assert least_pulled(rewards, prior, pull) == pytest.approx(filled, abs=1e-9)


@pytest.mark.parametrize("columns", [4, 10])
def test_rows_a_thousand_times_likelier_than_the_prior_are_reached(columns):
    """Columns that are all equal: two rows hold everything, and independent columns give each 1 / 2^columns."""
    rows = np.array(list(itertools.product((0, 1), repeat=columns)))
    A = np.array([(rows[:, i] == rows[:, j]).astype(float) for i, j in itertools.combinations(range(columns), 2)])
    problem = FitProblem(A=A, b=np.ones(len(A)), stddev=1e-4, insensitive=5e-5, pull=0.01)
    found = L1Highs().solve(problem)
    assert found.status is FitStatus.OPTIMAL
    assert found.weights[[0, -1]].sum() > 0.99
    np.testing.assert_allclose(found.weights[[0, -1]], 0.5, atol=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_a_gap_below_the_noise_is_told_and_honest(seed):
    problem = random_problem(seed, k=30, m=200)
    exact, near = EXACT.solve(problem), L1Highs(noise_multiple=0.1).solve(problem)
    assert near.status is FitStatus.OPTIMAL
    assert near.gap <= max(0.1 * problem.noise_level, 1e-6)
    assert near.objective - near.gap - 1e-9 <= exact.objective <= near.objective + 1e-9


@pytest.mark.parametrize("start", ["the prior", "far off"])
def test_wherever_the_program_begins_its_optimum_is_the_same(start, monkeypatch):
    problem = random_problem(5, k=12, m=80)
    optimum = EXACT.solve(problem).objective
    far = np.roll(problem.start, 7)
    begun = {"the prior": problem.start, "far off": far}[start]
    monkeypatch.setattr(pulled, "_smooth_optimum", lambda one: (begun, np.zeros(one.k)))
    monkeypatch.setattr(pulled, "ALL_ANSWERS", 3)
    found = EXACT.solve(problem)
    assert found.status is FitStatus.OPTIMAL
    assert found.objective == pytest.approx(optimum, abs=1e-7)
