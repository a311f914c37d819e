"""What every solver promises: a problem in, weights on the simplex with an honest bound and a reason out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, cast

import numpy as np

from synthdp.arrays import Weights, frozen
from synthdp.codec import DocumentSource, Store, file_form
from synthdp.errors import InternalError
from synthdp.fit.explicit.problem import FitProblem


class FitStatus(Enum):
    """How a fit ended; each value is a sentence for receipts."""

    OPTIMAL = "The weights are optimal: the objective meets its proven bound within the tolerance."
    WITHIN_NOISE = "The objective is within a twentieth of the noise of its proven bound."
    LIMIT = "The limit on evaluations was reached; the gap says how far the weights may be from the optimum."
    PRIOR = "The noise is as large as the table, so the weights stay at the prior."
    FAILED = "The linear program failed, and the weights come from multiplicative weights."
    NOISE_LEVEL = "The fit stopped at the noise level: a closer fit would fit noise."
    HEURISTIC = "A heuristic search found no better support point; optimality is not certified."
    INACCURATE = "The solver ended with a gap above the tolerance; the weights are feasible."


@file_form("FitResult")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitResult:
    """Weights on the simplex and how good they are.

    Parameters
    ----------
    weights
        (m,) non-negative weights that sum to 1.
    status
        The way in which the fit ended.
    objective
        `FitProblem.objective` of ``weights``.
    bound
        A proven lower bound on the objective of all weights; minus infinity where none is known.
    solver
        The name of the solver that found ``weights``.
    objective_lp, objective_mw
        The objectives of the linear program's best weights and of the best multiplicative update; infinite where
        there is none.
    evaluations
        Products with the features and with their transpose.
    pivots
        Steps of the simplex, over all programs.
    reason
        A sentence on why a linear program failed, and on what is released instead; empty if none failed.
    """

    weights: Weights
    status: FitStatus
    objective: float
    bound: float
    solver: str
    objective_lp: float = math.inf
    objective_mw: float = math.inf
    evaluations: int = 0
    pivots: int = 0
    reason: str = ""

    def __post_init__(self) -> None:
        if self.weights.ndim != 1 or (self.weights < 0).any() or not np.isclose(self.weights.sum(), 1.0):
            raise InternalError("a solver returned weights that are not on the simplex")
        frozen(self.weights)

    def to_saved(self, store: Store) -> dict[str, Any]:
        """Return all fields in the form that a file stores."""
        return store.fields(self)

    @classmethod
    def of_saved(cls, document: Mapping[str, Any], source: DocumentSource) -> FitResult:
        """Read a result from a file; older files have a gap in place of the bound, and other status names."""
        if "bound" in document:
            return cast("FitResult", source.fields(cls, document))
        objective, gap = (float(source.read(document[name], float)) for name in ("objective", "gap"))
        ended = str(document["status"])
        return cls(
            weights=source.read(document["weights"], Weights),
            status=FitStatus[ended] if ended in FitStatus.__members__ else FitStatus.LIMIT,
            objective=objective, bound=-math.inf if math.isnan(gap) else objective - gap,
            solver=str(source.read(document["solver"], str)), pivots=int(source.read(document["iterations"], int)),
        )  # fmt: skip

    @property
    def gap(self) -> float:
        """How far the objective may be above the least possible one, >= 0."""
        return max(self.objective - self.bound, 0.0)

    def __str__(self) -> str:
        """Return a line for a receipt: whose weights, both objectives, the gap, and how the fit ended."""
        reached = {"linear program": self.objective_lp, "multiplicative weights": self.objective_mw}
        both = ", ".join(f"{name} {value:.4g}" for name, value in reached.items() if math.isfinite(value))
        counts = {"evaluations": self.evaluations, "pivots": self.pivots}
        done = (
            " after " + " and ".join(f"{n} {what}" for what, n in counts.items() if n) if any(counts.values()) else ""
        )
        return (
            f"by {self.solver}: objective {self.objective:.4g}{f' ({both})' if both else ''}, gap {self.gap:.2g}{done}. "
            f"{self.reason or self.status.value}"
        )


class Solver(Protocol):
    """A method that fits weights on explicit support points."""

    @property
    def name(self) -> str:
        """The name of the solver in results and receipts."""
        ...

    def solve(self, problem: FitProblem) -> FitResult:
        """Return (m,) weights whose averages come close to the answers of ``problem``, with a bound on the objective.

        Raises
        ------
        SolverFailedError
            If the solver ended without usable weights.
        """
        ...
