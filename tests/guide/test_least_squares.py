"""What every solver promises, asked of one that lives outside of the package."""

import numpy as np
import pytest
from contracts.fit_problems import KNOWN_PROBLEMS, KnownProblem
from guide.least_squares import LeastSquares

from synthdp.errors import ParameterError
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.solver import FitStatus

over_problems = pytest.mark.parametrize("known", KNOWN_PROBLEMS, ids=lambda known: known.name)


@over_problems
def test_weights_lie_on_the_simplex_and_the_objective_is_theirs(known: KnownProblem) -> None:
    result = LeastSquares().solve(known.problem)
    assert (result.weights >= 0).all()
    assert result.weights.sum() == pytest.approx(1.0)
    assert result.objective == pytest.approx(known.problem.objective(result.weights))


@over_problems
def test_the_gap_is_proven(known: KnownProblem) -> None:
    result = LeastSquares().solve(known.problem)
    assert result.objective >= known.optimum - 1e-9
    assert result.objective - result.gap <= known.optimum + 1e-9 * max(known.optimum, 1)


def test_answers_that_can_be_met_are_met() -> None:
    rng = np.random.default_rng(1)
    A = rng.choice([0.0, 1.0], (6, 40))
    result = LeastSquares().solve(FitProblem(A=A, b=A @ rng.dirichlet(np.ones(40)), stddev=0.1))
    assert result.objective == pytest.approx(0.0, abs=1e-6)
    assert result.status is FitStatus.OPTIMAL


def test_a_penalty_must_be_positive() -> None:
    with pytest.raises(ParameterError, match="penalty"):
        LeastSquares(penalty=0.0)
