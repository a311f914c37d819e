"""Column generation against the full program on grids small enough to list."""

from __future__ import annotations

import itertools
import math

import highspy
import numpy as np
import pytest

from synthdp.errors import ParameterError, SolverFailedError
from synthdp.fit.explicit.column_generation import ColumnGeneration, GridProblem
from synthdp.fit.explicit.pricing import CoordinateAscent, Enumeration, ProductBasis
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.sifting import Sifting
from synthdp.fit.explicit.solver import FitStatus
from synthdp.randomness import generator


def chebyshev_basis(*, d: int, N: int, degree: int, order: int) -> ProductBasis:
    """Return products of at most ``order`` Chebyshev polynomials of degree 1 … ``degree`` on the grid of the slides."""
    axis = (2 * np.arange(N) + 1 - N) / N
    tables = [np.cos(t * np.arccos(axis)) for t in range(degree + 1)]
    terms = tuple(
        dict(zip(columns, (tables[t] for t in degrees), strict=True))
        for size in range(1, order + 1)
        for columns in itertools.combinations(range(d), size)
        for degrees in itertools.product(range(1, degree + 1), repeat=size)
    )
    return ProductBasis(axes=(axis,) * d, terms=terms)


def noisy_problem(basis: ProductBasis, *, seed: int, stddev: float) -> GridProblem:
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.binomial(size - 1, 0.3, 500) for size in basis.shape], axis=1)
    b = basis.features(rows).mean(axis=1) + rng.normal(size=basis.k) * stddev
    return GridProblem(basis=basis, b=b, stddev=stddev)


def listed(problem: GridProblem) -> FitProblem:
    shape = problem.basis.shape
    points = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1)
    return FitProblem(A=problem.basis.features(points), b=problem.b, stddev=problem.stddev)


PLANE = chebyshev_basis(d=2, N=33, degree=4, order=2)


@pytest.mark.sampled
@pytest.mark.parametrize("stddev", [0.0, 0.02, 0.1, 0.5])
def test_exact_pricing_reaches_the_optimum_of_the_full_program_and_certifies_it(stddev):
    problem = noisy_problem(PLANE, seed=1, stddev=stddev)
    whole = Sifting().solve(listed(problem))
    found = ColumnGeneration(pricer=Enumeration()).solve(problem)
    assert found.fit.status is FitStatus.OPTIMAL
    assert found.fit.objective == pytest.approx(whole.objective, abs=1e-6)
    assert found.fit.gap <= 1e-5


@pytest.mark.landing
@pytest.mark.parametrize("stddev", [0.02, 0.5])
def test_heuristic_pricing_reaches_the_same_optimum_here_and_does_not_claim_it(stddev):
    problem = noisy_problem(PLANE, seed=2, stddev=stddev)
    found = ColumnGeneration(pricer=CoordinateAscent()).solve(problem)
    assert found.fit.objective == pytest.approx(Sifting().solve(listed(problem)).objective, abs=1e-6)
    assert found.fit.status is FitStatus.HEURISTIC
    assert found.fit.gap == found.fit.objective


def test_weights_and_support_give_the_objective():
    problem = noisy_problem(PLANE, seed=3, stddev=0.1)
    found = ColumnGeneration(pricer=Enumeration()).solve(problem)
    A = problem.basis.features(found.support)
    measured = FitProblem(A=A, b=problem.b, stddev=problem.stddev).objective(found.fit.weights)
    assert found.fit.objective == pytest.approx(measured, abs=1e-12)
    assert (found.fit.weights > 0).all()
    assert found.support.shape[0] <= problem.basis.k + 1
    assert np.unique(found.support, axis=0).shape == found.support.shape


def test_three_columns_by_enumeration_are_certified():
    problem = noisy_problem(chebyshev_basis(d=3, N=20, degree=2, order=3), seed=4, stddev=0.2)
    found = ColumnGeneration(pricer=Enumeration()).solve(problem)
    assert found.fit.status is FitStatus.OPTIMAL
    assert found.fit.objective == pytest.approx(Sifting().solve(listed(problem)).objective, abs=1e-6)


@pytest.mark.landing
def test_many_columns_beat_the_program_on_as_many_random_points():
    basis = chebyshev_basis(d=12, N=16, degree=1, order=2)
    problem = noisy_problem(basis, seed=5, stddev=0.1)
    codes = np.random.default_rng(0).integers(16, size=(2000, 12))
    random = Sifting().solve(FitProblem(A=basis.features(codes), b=problem.b, stddev=problem.stddev))
    found = ColumnGeneration().solve(problem)
    assert found.fit.objective < 0.5 * random.objective


def test_the_noise_level_stops_it():
    problem = noisy_problem(chebyshev_basis(d=8, N=16, degree=2, order=2), seed=6, stddev=0.1)
    level = level_of_noise(problem)
    found = ColumnGeneration(noise_multiple=1.0).solve(problem)
    assert found.fit.status is FitStatus.NOISE_LEVEL
    assert 0 < found.fit.objective <= level


def level_of_noise(problem: GridProblem) -> float:
    return math.sqrt(0.5) * problem.basis.k * float(problem.stddev[0])


def test_a_good_start_is_kept():
    problem = noisy_problem(PLANE, seed=7, stddev=0.1)
    solver = ColumnGeneration(pricer=Enumeration())
    first = solver.solve(problem)
    again = solver.solve(problem, start=first.support)
    assert again.fit.objective == pytest.approx(first.fit.objective, abs=1e-9)
    assert again.fit.pivots <= first.fit.pivots


@pytest.mark.landing
def test_the_same_generator_state_gives_the_same_fit():
    problem = noisy_problem(chebyshev_basis(d=6, N=16, degree=2, order=2), seed=8, stddev=0.1)
    first = ColumnGeneration().solve(problem, rng=generator(3))
    second = ColumnGeneration().solve(problem, rng=generator(3))
    np.testing.assert_array_equal(first.support, second.support)
    np.testing.assert_array_equal(first.fit.weights, second.fit.weights)


def test_the_limits_are_named_in_the_status():
    problem = noisy_problem(chebyshev_basis(d=8, N=16, degree=2, order=2), seed=9, stddev=0.1)
    rounds = ColumnGeneration(max_rounds=2).solve(problem)
    assert rounds.fit.status is FitStatus.LIMIT
    assert rounds.fit.weights.sum() == pytest.approx(1.0)
    pivots = ColumnGeneration(pivots=60).solve(problem)
    assert pivots.fit.status is FitStatus.LIMIT
    assert pivots.fit.pivots <= 60


def test_no_weights_at_all_are_a_failure(monkeypatch):
    problem = noisy_problem(chebyshev_basis(d=8, N=16, degree=2, order=2), seed=9, stddev=0.1)
    monkeypatch.setattr(highspy.Highs, "run", lambda solver: None)
    with pytest.raises(SolverFailedError):
        ColumnGeneration().solve(problem)


def test_an_interrupted_simplex_leaves_the_weights_of_the_round_before(monkeypatch):
    problem = noisy_problem(chebyshev_basis(d=8, N=16, degree=2, order=2), seed=9, stddev=0.1)
    one_round = ColumnGeneration(max_rounds=1).solve(problem)
    pending = [highspy.Highs.run]

    def run_only_once(solver):
        while pending:
            pending.pop()(solver)

    monkeypatch.setattr(highspy.Highs, "run", run_only_once)
    interrupted = ColumnGeneration().solve(problem)
    assert interrupted.fit.status is FitStatus.LIMIT
    assert interrupted.fit.objective == one_round.fit.objective
    np.testing.assert_array_equal(interrupted.support, one_round.support)


def test_the_unit_of_a_query_is_taken_up_by_its_noise():
    problem = noisy_problem(PLANE, seed=10, stddev=0.1)
    units = np.geomspace(0.1, 10, PLANE.k)
    terms = tuple(
        {j: table * (unit if j == min(term) else 1.0) for j, table in term.items()}
        for unit, term in zip(units, PLANE.terms, strict=True)
    )
    scaled = GridProblem(
        basis=ProductBasis(axes=PLANE.axes, terms=terms), b=problem.b * units, stddev=problem.stddev * units
    )
    first = ColumnGeneration(pricer=Enumeration()).solve(problem)
    second = ColumnGeneration(pricer=Enumeration()).solve(scaled)
    assert second.fit.objective / units.min() == pytest.approx(first.fit.objective, abs=1e-6)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (np.zeros((3, 1)), "start.*shape"),
        (np.zeros((0, 2)), "start.*shape"),
        (np.array([[0, 33]]), "start.*indices"),
        (np.array([[-1, 0]]), "start.*indices"),
    ],
)
def test_a_start_off_the_grid_is_refused(start, message):
    with pytest.raises(ParameterError, match=message):
        ColumnGeneration().solve(noisy_problem(PLANE, seed=0, stddev=0.1), start=start)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"points_per_round": 0}, "points_per_round"),
        ({"max_rounds": 0}, "max_rounds"),
        ({"initial_points": 0}, "initial_points"),
        ({"pivots": 0}, "pivots"),
        ({"tolerance": 0}, "tolerance"),
        ({"noise_multiple": -1}, "noise_multiple"),
    ],
)
def test_a_setting_outside_its_range_is_refused(settings_, message):
    with pytest.raises(ParameterError, match=message):
        ColumnGeneration(**settings_)


def test_answers_must_match_the_basis():
    with pytest.raises(ParameterError, match=r"\b24\b.*\b3\b"):
        GridProblem(basis=PLANE, b=np.zeros(3), stddev=0.1)
