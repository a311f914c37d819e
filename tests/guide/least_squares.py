"""A solver added from outside of the package: non-negative least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from synthdp.errors import ParameterError, SolverFailedError
from synthdp.fit.explicit.problem import FitProblem, ProblemSize
from synthdp.fit.explicit.solver import Cost, FitResult, FitStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastSquares:
    """Weights that minimise the sum of squares of r · (A w − b), instead of absolute values.

    Lawson and Hanson 1974, chapter 23; that weights sum to 1 is one more, heavy equation.

    Parameters
    ----------
    penalty
        Weight of that equation, in units of the features.
    tolerance
        Relative gap of the common L1 objective up to which the result is called optimal.
    """

    name: ClassVar[str] = "nnls"

    penalty: float = 1e4
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        if not (self.penalty > 0 and self.tolerance > 0):
            raise ParameterError(f"penalty and tolerance ({self.penalty}, {self.tolerance}) must be positive")

    def solve(self, problem: FitProblem) -> FitResult:
        """Return weights for ``problem``; see `Solver.solve`."""
        dense = problem.A.toarray() if sp.issparse(problem.A) else np.asarray(problem.A)
        r, heavy = problem.row_weights, self.penalty * problem.magnitude
        try:
            found, _ = nnls(np.vstack([r[:, None] * dense, np.full(problem.m, heavy)]), np.append(r * problem.b, heavy))
        except RuntimeError as error:
            raise SolverFailedError(f"nnls failed: {error}", status=str(error)) from None
        if found.sum() <= 0:
            raise SolverFailedError("nnls found no weights", status="all zero")
        weights = found / found.sum()
        objective = problem.objective(weights)
        gap = max(0.0, objective - self._bound(problem, weights))
        optimal = gap <= self.tolerance * max(objective, problem.magnitude)
        return FitResult(
            weights=weights,
            status=FitStatus.OPTIMAL if optimal else FitStatus.INACCURATE,
            objective=objective,
            gap=gap,
            iterations=int(np.count_nonzero(weights)),
            solver=self.name,
        )

    def estimate(self, size: ProblemSize) -> Cost:
        """Return the predicted cost: about k pivots, each a small dense solve."""
        return Cost(seconds=0.001 + 2e-9 * size.k * size.k * size.m, bytes=16.0 * (size.k + 1) * size.m)

    @staticmethod
    def _bound(problem: FitProblem, weights: np.ndarray) -> float:
        """Return a proven lower bound on the L1 objective: any dual vector gives one, the residuals' signs a good one."""
        residual = problem.b - problem.A @ weights
        signs = problem.row_weights * np.sign(np.where(np.abs(residual) > 1e-9, residual, 0.0))
        return max(0.0, problem.dual_bound(signs), problem.dual_bound(residual))
