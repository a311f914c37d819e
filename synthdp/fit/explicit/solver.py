"""What every solver promises: a problem in, weights on the simplex with an honest status and gap out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from synthdp.arrays import Weights, frozen
from synthdp.errors import InternalError
from synthdp.fit.explicit.problem import FitProblem, ProblemSize


class FitStatus(Enum):
    """How a fit ended, as a sentence."""

    OPTIMAL = "The weights are optimal: the primal and the dual objective agree within the tolerance."
    WITHIN_SMOOTHING = "The weights are optimal up to the smoothing of the objective, which is below the noise."
    NOISE_LEVEL = "The fit stopped at the noise level: a closer fit would fit noise."
    HEURISTIC = "A heuristic search found no better support point; optimality is not certified."
    INACCURATE = "The solver ended with a gap above the tolerance; the weights are feasible."
    STALLED = "The solver made no more progress above the tolerance; the weights are feasible."
    ITERATION_LIMIT = "The iteration limit was reached; the weights are feasible, the gap says how far they may be."
    TIME_LIMIT = "The time limit was reached; the weights are feasible, the gap says how far they may be."


class Cost(NamedTuple):
    """Predicted wall time in seconds and memory in bytes on top of the problem itself."""

    seconds: float
    bytes: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitResult:
    """Weights on the simplex and how good they are.

    Parameters
    ----------
    weights
        (m,) non-negative weights that sum to 1.
    status
        How the solver ended.
    objective
        The sum over queries of r · |A w − b| at ``weights``; see `FitProblem.objective`.
    gap
        ``objective`` minus a proven lower bound on it, absolute; NaN where no bound is known.
    iterations
        The solver's own count (simplex pivots, gradient steps).
    solver
        The name of the solver that found the weights.
    """

    weights: Weights
    status: FitStatus
    objective: float
    gap: float
    iterations: int
    solver: str

    def __post_init__(self) -> None:
        if self.weights.ndim != 1 or (self.weights < 0).any() or not np.isclose(self.weights.sum(), 1.0):
            raise InternalError("a solver returned weights that are not on the simplex")
        frozen(self.weights)


class Solver(Protocol):
    """Fit weights on an explicit support."""

    name: ClassVar[str]

    def solve(self, problem: FitProblem) -> FitResult:
        """Return weights for ``problem``.

        Raises
        ------
        SolverFailedError
            If the solver ended without usable weights.
        """
        ...

    def estimate(self, size: ProblemSize) -> Cost:
        """Return the predicted cost of a problem of ``size``, measured on one core of a 2020s machine."""
        ...
