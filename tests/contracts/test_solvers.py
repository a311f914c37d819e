"""What every solver promises, checked on problems whose optimum is known."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from contracts.fit_problems import KNOWN_PROBLEMS, PULLED_PROBLEMS, KnownProblem

from synthdp.fit.explicit.column_generation import ColumnGeneration, GridProblem
from synthdp.fit.explicit.l1_program import GAP, ROUNDING, L1Program
from synthdp.fit.explicit.pricing import Enumeration, ProductBasis
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.sifting import Sifting
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


PROGRAM, COLUMNS = L1Program(evaluations=1000), L1Program(name="mw", evaluations=1000)


def _exact_claim(known: KnownProblem) -> float:
    return 1e-6 * max(known.problem.magnitude, known.optimum)


def _noise_claim(known: KnownProblem) -> float:
    problem = known.problem
    return max(GAP * problem.noise_level, ROUNDING * problem.k * problem.magnitude)


SOLVERS = (
    pytest.param(PROGRAM, _noise_claim, id="lp"),
    pytest.param(COLUMNS, _noise_claim, id="mw"),
    pytest.param(Sifting(), _exact_claim, id="sifting"),
    pytest.param(OnALine(), _exact_claim, id="column generation"),
)
OF_A_PULL = SOLVERS[:2]


def over_solvers(test):
    """Run a test with every solver on every problem that it is made for."""
    pairs = [(known, *one.values) for one in SOLVERS for known in KNOWN_PROBLEMS]
    pairs += [(known, *one.values) for one in OF_A_PULL for known in PULLED_PROBLEMS]
    names = [f"{known.name}, {getattr(solver, 'name', '')}" for known, solver, _ in pairs]
    return pytest.mark.parametrize(("known", "solver", "claim"), pairs, ids=names)(test)


@cache
def solved(solver: Solver, known: KnownProblem) -> FitResult:
    """Solve a known problem once for all that is said of its solution."""
    return solver.solve(known.problem)


@pytest.mark.parametrize("known", [*KNOWN_PROBLEMS, *PULLED_PROBLEMS], ids=lambda known: known.name)
def test_the_known_dual_proves_the_known_optimum(known):
    assert known.problem.dual_bound(known.dual) == pytest.approx(known.optimum, abs=1e-9)


@pytest.mark.sampled("landing")
@over_solvers
def test_weights_lie_on_the_simplex_and_the_objective_is_theirs(solver: Solver, claim, known: KnownProblem):
    result = solved(solver, known)
    assert result.weights.shape == (known.problem.m,)
    assert (result.weights >= 0).all()
    assert result.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert result.objective == pytest.approx(known.problem.objective(result.weights), rel=1e-9, abs=1e-12)
    assert result.status.value.endswith(".")


@pytest.mark.sampled("landing")
@over_solvers
def test_the_objective_is_as_close_to_the_optimum_as_claimed(solver: Solver, claim, known: KnownProblem):
    result = solved(solver, known)
    assert known.optimum - 1e-9 * max(known.optimum, 1) <= result.objective
    assert result.objective <= known.optimum + claim(known) + 1e-12


@pytest.mark.sampled("landing")
@over_solvers
def test_objective_minus_gap_never_exceeds_the_optimum(solver: Solver, claim, known: KnownProblem):
    result = solved(solver, known)
    assert result.gap >= 0
    assert result.objective - result.gap <= known.optimum + 1e-9 * max(known.optimum, 1)


@over_solvers
def test_an_optimal_status_comes_with_a_small_gap(solver: Solver, claim, known: KnownProblem):
    result = solved(solver, known)
    allowed = {
        FitStatus.OPTIMAL: max(_exact_claim(known), ROUNDING * known.problem.k * known.problem.magnitude),
        FitStatus.WITHIN_NOISE: _noise_claim(known),
    }
    assert result.gap <= allowed[result.status] + 1e-12


@pytest.mark.sampled
@over_solvers
def test_permuting_the_queries_changes_nothing(solver: Solver, claim, known: KnownProblem):
    problem = known.problem
    order = np.random.default_rng(5).permutation(problem.k)
    permuted = dataclasses.replace(
        problem, A=problem.A[order], b=problem.b[order], stddev=problem.stddev[order],
        insensitive=np.asarray(problem.insensitive)[order],
    )  # fmt: skip
    first, second = solved(solver, known), solver.solve(permuted)
    assert second.objective == pytest.approx(first.objective, abs=claim(known) + 1e-9)
    assert problem.objective(second.weights) == pytest.approx(second.objective, rel=1e-9, abs=1e-12)


@pytest.mark.sampled("landing")
@over_solvers
def test_the_unit_of_the_answers_scales_the_objective_and_nothing_else(solver: Solver, claim, known: KnownProblem):
    problem, first = known.problem, solved(solver, known)
    for unit in (1e-3, 1e4):
        scaled = dataclasses.replace(
            problem, A=problem.A * unit, b=problem.b * unit, stddev=problem.stddev * unit,
            insensitive=problem.insensitive * unit, pull=problem.pull * unit,
        )  # fmt: skip
        assert solver.solve(scaled).objective / unit == pytest.approx(first.objective, abs=claim(known) + 1e-9)


@pytest.mark.sampled
@over_solvers
def test_solving_twice_gives_the_same_weights(solver: Solver, claim, known: KnownProblem):
    first, second = solved(solver, known), solver.solve(known.problem)
    np.testing.assert_array_equal(first.weights, second.weights)
