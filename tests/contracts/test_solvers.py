"""What every solver promises, checked on problems whose optimum is known."""

from __future__ import annotations

import dataclasses
import math
from functools import cache
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from contracts.fit_problems import KNOWN_PROBLEMS, KnownProblem

from synthdp.fit.explicit.column_generation import ColumnGeneration, GridProblem
from synthdp.fit.explicit.l1_highs import L1Highs
from synthdp.fit.explicit.multiplicative_weights import MultiplicativeWeights
from synthdp.fit.explicit.pricing import Enumeration
from synthdp.fit.explicit.problem import FitProblem, ProblemSize
from synthdp.fit.explicit.product_basis import ProductBasis
from synthdp.fit.explicit.registry import Auto
from synthdp.fit.explicit.solver import FitResult, FitStatus, Solver


@dataclasses.dataclass(frozen=True)
class OnALine:
    """Column generation as a solver of listed problems: the support is a grid of one column."""

    name: ClassVar[str] = "column_generation"

    def solve(self, problem: FitProblem) -> FitResult:
        A = sp.csr_array(problem.A).toarray()
        basis = ProductBasis(axes=(np.arange(problem.m),), terms=tuple({0: row} for row in A))
        grid = GridProblem(basis=basis, b=problem.b, stddev=problem.stddev)
        found = ColumnGeneration(pricer=Enumeration()).solve(grid)
        weights = np.zeros(problem.m)
        weights[found.support[:, 0]] = found.fit.weights
        return dataclasses.replace(found.fit, weights=weights)


EXACT = MultiplicativeWeights(noise_multiple=0.0)
EARLY = MultiplicativeWeights()


def _exact_claim(known: KnownProblem) -> float:
    return 1e-6 * max(known.problem.magnitude, known.optimum)


def _smoothing_claim(known: KnownProblem) -> float:
    return EXACT.tolerance * known.problem.k * EXACT.width(known.problem)


def _noise_claim(known: KnownProblem) -> float:
    return max(_smoothing_claim(known), EARLY.noise_multiple * known.problem.noise_level - known.optimum)


SOLVERS = (
    pytest.param(L1Highs(), _exact_claim, id="lp"),
    pytest.param(EXACT, _smoothing_claim, id="mw"),
    pytest.param(EARLY, _noise_claim, id="mw to the noise level"),
    pytest.param(Auto(), _exact_claim, id="auto"),
    pytest.param(OnALine(), _exact_claim, id="column generation"),
)
SIZED = (L1Highs(), MultiplicativeWeights(), Auto())

over_problems = pytest.mark.parametrize("known", KNOWN_PROBLEMS, ids=lambda known: known.name)
over_solvers = pytest.mark.parametrize(("solver", "claim"), SOLVERS)


@cache
def solved(solver: Solver, known: KnownProblem) -> FitResult:
    """Solve a known problem once for all that is said of its solution."""
    return solver.solve(known.problem)


@over_problems
def test_the_known_dual_proves_the_known_optimum(known):
    assert known.problem.dual_bound(known.dual) == pytest.approx(known.optimum, abs=1e-9)


@over_problems
@over_solvers
def test_weights_lie_on_the_simplex_and_the_objective_is_theirs(solver: Solver, claim, known: KnownProblem):
    result = solved(solver, known)
    assert result.weights.shape == (known.problem.m,)
    assert (result.weights >= 0).all()
    assert result.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert result.objective == pytest.approx(known.problem.objective(result.weights), rel=1e-9, abs=1e-12)
    assert result.status.value.endswith(".")


@over_problems
@over_solvers
def test_the_objective_is_as_close_to_the_optimum_as_claimed(solver: Solver, claim, known: KnownProblem):
    result = solved(solver, known)
    assert known.optimum - 1e-9 * max(known.optimum, 1) <= result.objective
    assert result.objective <= known.optimum + claim(known) + 1e-12


@over_problems
@over_solvers
def test_objective_minus_gap_never_exceeds_the_optimum(solver: Solver, claim, known: KnownProblem):
    result = solved(solver, known)
    assert result.gap >= 0
    assert result.objective - result.gap <= known.optimum + 1e-9 * max(known.optimum, 1)


@over_problems
@over_solvers
def test_an_optimal_status_comes_with_a_small_gap(solver: Solver, claim, known: KnownProblem):
    result = solved(solver, known)
    allowed = {
        FitStatus.OPTIMAL: _exact_claim(known),
        FitStatus.WITHIN_SMOOTHING: _smoothing_claim(known),
        FitStatus.NOISE_LEVEL: EARLY.noise_multiple * known.problem.noise_level,
    }
    assert result.gap <= allowed[result.status] + 1e-12


@over_problems
@over_solvers
def test_permuting_the_queries_changes_nothing(solver: Solver, claim, known: KnownProblem):
    problem = known.problem
    order = np.random.default_rng(5).permutation(problem.k)
    permuted = FitProblem(A=problem.A[order], b=problem.b[order], stddev=problem.stddev[order])
    first, second = solved(solver, known), solver.solve(permuted)
    assert second.objective == pytest.approx(first.objective, abs=claim(known) + 1e-9)
    assert problem.objective(second.weights) == pytest.approx(second.objective, rel=1e-9, abs=1e-12)


@over_problems
@over_solvers
def test_the_unit_of_the_answers_scales_the_objective_and_nothing_else(solver: Solver, claim, known: KnownProblem):
    problem, first = known.problem, solved(solver, known)
    for unit in (1e-3, 1e4):
        scaled = FitProblem(A=problem.A * unit, b=problem.b * unit, stddev=problem.stddev * unit)
        assert solver.solve(scaled).objective / unit == pytest.approx(first.objective, abs=claim(known) + 1e-9)


@over_problems
@over_solvers
def test_solving_twice_gives_the_same_weights(solver: Solver, claim, known: KnownProblem):
    first, second = solved(solver, known), solver.solve(known.problem)
    np.testing.assert_array_equal(first.weights, second.weights)


@pytest.mark.parametrize("solver", SIZED, ids=lambda solver: solver.name)
def test_the_estimate_is_finite_and_grows_with_the_problem(solver: Solver):
    sizes = [ProblemSize(k=k, m=m, nonzeros=k * m) for k, m in [(1, 1), (10, 100), (100, 10_000), (300, 50_000)]]
    costs = [solver.estimate(size) for size in sizes]
    assert all(math.isfinite(cost.seconds) and math.isfinite(cost.bytes) for cost in costs)
    assert [cost.seconds for cost in costs] == sorted(cost.seconds for cost in costs)
    assert [cost.bytes for cost in costs] == sorted(cost.bytes for cost in costs)
