"""Solvers by name, and the one function that fits answers that are paid for."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from synthdp.errors import FitWarning, SolverUnavailableError
from synthdp.fit.explicit.l1_program import LARGE_GAP, ROUNDING, L1Program, told
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.sifting import Sifting
from synthdp.fit.explicit.solver import FitResult, FitStatus, Solver

AUTO = "auto"
"""Solver name that stands for the default, ``"lp"``."""

SOLVERS: Mapping[str, Solver] = MappingProxyType({"lp": L1Program(), "mw": L1Program(name="mw"), "sifting": Sifting()})
"""Solvers by name: the L1 program, its multiplicative-weights updates alone, and sifting, which minimises the misfit
alone."""

BARE = "sifting"
"""Name of the solver that minimises the misfit alone, without a pull to the prior and without a cost-free deviation."""


def ready(name: str) -> None:
    """Import the packages that a solver needs, so that a missing one is found before anything is spent.

    The L1 program also finds weights without HiGHS, so a package that it lacks, or that cannot be loaded, is no error.

    Raises
    ------
    SolverUnavailableError
        If there is no solver of that name, or it is ``"sifting"`` and HiGHS or CVXPY is missing.
    """
    solver_named(name)
    if name == "mw":
        return
    try:
        for part in ("highspy", "cvxpy"):
            importlib.import_module(part)
    except Exception as error:
        if name == BARE:
            raise SolverUnavailableError(
                f"solver {name!r} cannot import highspy and cvxpy {told(error)}: use solver='mw'"
            ) from error


def solver_named(name: str) -> Solver:
    """Return the solver called ``name``.

    Raises
    ------
    SolverUnavailableError
        If there is no solver of that name.
    """
    key = "lp" if name == AUTO else name
    if key not in SOLVERS:
        raise SolverUnavailableError(f"solver {name!r} is not available: use one of {', '.join((AUTO, *SOLVERS))}")
    return SOLVERS[key]


def solved(problem: FitProblem, name: str) -> FitResult:
    """Solve with the named solver, or with multiplicative weights if it fails; warn of a failure or a large gap.

    The answers are paid for, so weights are returned in any case.  ``"sifting"`` minimises the misfit alone, without
    the pull and the insensitive answers of the problem.
    """
    solver = solver_named(name)
    try:
        found = solver.solve(replace(problem, pull=0.0, insensitive=0.0) if name == BARE else problem)
    except Exception as error:  # noqa: BLE001 -- whatever it is: the answers are paid for
        return fallback(problem, name, error)
    if found.reason:
        _warn(found.reason)
    elif found.gap > max(LARGE_GAP * problem.noise_level, ROUNDING * problem.k * problem.magnitude):
        message = f"the gap of the fit ({found.gap:.2g}) is above a quarter of the noise ({problem.noise_level:.2g})"
        _warn(f"{message}: its weights may be far from the best ones")
    return found


def _warn(message: str) -> None:
    """Warn about a fit without ever raising, since its answers are already paid for."""
    with suppress(FitWarning):  # a filter that makes errors of warnings must not take away weights that are paid for
        warnings.warn(message, FitWarning, stacklevel=4)


def fallback(problem: FitProblem, name: str, error: Exception) -> FitResult:
    """Return weights from multiplicative weights after a solver raised ``error``, and warn.

    So a release is made in any case.
    """
    reason = f"Solver {name!r} failed {told(error)}; solver 'mw', which may be less accurate, made the fit instead."
    _warn(reason)
    return replace(SOLVERS["mw"].solve(problem), status=FitStatus.FAILED, reason=reason)
