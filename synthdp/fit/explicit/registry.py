"""Solvers by name, and `auto`: the linear program unless it is too large or fails."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from synthdp.checks import check_number
from synthdp.errors import SolverFailedError, SolverUnavailableError
from synthdp.fit.explicit.l1_highs import L1Highs
from synthdp.fit.explicit.multiplicative_weights import MultiplicativeWeights
from synthdp.fit.explicit.problem import FitProblem, ProblemSize
from synthdp.fit.explicit.solver import Cost, FitResult, Solver

_logger = logging.getLogger(__name__)

_DEFAULT_SECONDS = 60.0
_DEFAULT_BYTES = 2e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """Solve by the linear program, or by multiplicative weights where it exceeds the budget or fails.

    Parameters
    ----------
    seconds
        Budget of wall time; also the linear program's own limit.
    memory_bytes
        Budget of memory on top of the problem itself.
    """

    name: ClassVar[str] = "auto"

    seconds: float = _DEFAULT_SECONDS
    memory_bytes: float = _DEFAULT_BYTES

    def __post_init__(self) -> None:
        check_number("seconds", self.seconds, above=0, infinite=True)
        check_number("memory_bytes", self.memory_bytes, above=0, infinite=True)

    def choose(self, size: ProblemSize) -> Solver:
        """Return the solver that a problem of ``size`` starts with."""
        program = L1Highs(seconds=self.seconds)
        cost = program.estimate(size)
        fits = cost.seconds <= self.seconds and cost.bytes <= self.memory_bytes
        return program if fits else self._fallback

    def solve(self, problem: FitProblem) -> FitResult:
        """Return weights from the chosen solver, or from the fallback where it fails; see `Solver.solve`."""
        solver = self.choose(problem.size)
        try:
            return solver.solve(problem)
        except SolverFailedError as error:
            _logger.info("solver %s failed (%s); %s takes over", solver.name, error.status, self._fallback.name)
            return self._fallback.solve(problem)

    def estimate(self, size: ProblemSize) -> Cost:
        """Return the predicted cost of the solver that would be chosen."""
        return self.choose(size).estimate(size)

    @property
    def _fallback(self) -> MultiplicativeWeights:
        return MultiplicativeWeights(seconds=self.seconds)


SOLVERS: Mapping[str, Callable[[float], Solver]] = MappingProxyType(
    {
        L1Highs.name: lambda seconds: L1Highs(seconds=seconds),
        MultiplicativeWeights.name: lambda seconds: MultiplicativeWeights(seconds=seconds),
    }
)
"""Name -> solver with a time limit in seconds."""


def solved(problem: FitProblem, name: str) -> FitResult:
    """Return weights from the solver of that name, or from multiplicative weights where it fails; the result says which.

    For a fit to answers that are paid for: whoever has spent must get weights.
    """
    solver = solver_named(name)
    try:
        return solver.solve(problem)
    except SolverFailedError as error:
        _logger.info("solver %s failed (%s); %s takes over", name, error.status, MultiplicativeWeights.name)
        return MultiplicativeWeights().solve(problem)


def solver_named(name: str, *, seconds: float | None = None) -> Solver:
    """Return the solver called ``name``: "lp", "mw", or "auto" for the choice between them.

    Parameters
    ----------
    name
        The solver's name.
    seconds
        Time limit; for "auto" the budget of time, 60 seconds if absent; otherwise none if absent.

    Raises
    ------
    SolverUnavailableError
        If there is no solver of that name.
    """
    if name == Auto.name:
        return Auto(seconds=_DEFAULT_SECONDS if seconds is None else seconds)
    if name not in SOLVERS:
        raise SolverUnavailableError(f"solver {name!r} is not installed; available: {', '.join(sorted(SOLVERS))}")
    return SOLVERS[name](math.inf if seconds is None else seconds)
