"""Linear programs through CVXPY with HiGHS.  The only module that knows CVXPY."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.errors import SolverFailedError

if TYPE_CHECKING:
    from synthdp.fit.explicit.problem import FeatureMatrix


FEASIBILITY = 1e-9
"""Feasibility tolerance of HiGHS where the largest coefficient is 1. A tolerance: HiGHS's own 1e-7 left programs with
nearly noiseless answers without a solution.
"""

SIMPLEX: Mapping[str, object] = MappingProxyType(
    {
        "solver": "simplex",
        "simplex_strategy": 1,
        "presolve": "off",
        "primal_feasibility_tolerance": FEASIBILITY,
        "dual_feasibility_tolerance": FEASIBILITY,
    }
)
"""Options for HiGHS's dual simplex in one thread: its multipliers are never negative, so that an interrupted run still
has weights.  A convention of HiGHS.
"""


class Minimum(NamedTuple):
    """The minimum that HiGHS found: weights, multipliers and the objective.

    Parameters
    ----------
    x
        (m,) values of the variables.
    value
        The minimum, cost'x.
    duals
        (p,) multipliers of the rows, >= 0.
    finished
        Whether ``x`` is optimal; otherwise HiGHS was stopped before it was.
    iterations
        Simplex pivots.
    """

    x: FloatArray
    value: float
    duals: FloatArray
    finished: bool
    iterations: int


def minimise(
    cost: FloatArray,
    *,
    rows: FeatureMatrix,
    limits: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    equal: tuple[FeatureMatrix, FloatArray] | None = None,
    options: Mapping[str, object] | None = None,
) -> Minimum | None:
    """Minimise cost'x subject to rows x <= limits and lower <= x <= upper; ``None`` if no x satisfies them.

    Parameters
    ----------
    cost
        (m,) prices.
    rows, limits
        (p, m), dense or sparse by columns, and (p,).
    lower, upper
        (m,) bounds of the variables, infinite where there is none.
    equal
        A matrix and a vector that the matrix times x must equal.
    options
        Settings of HiGHS, by their names.

    Raises
    ------
    SolverFailedError
        If HiGHS ends without a solution, and does not prove that there is none.
    """
    import cvxpy as cp

    x = cp.Variable(len(cost), bounds=[lower, upper])
    below = rows @ x <= limits
    constraints = [below] if equal is None else [below, equal[0] @ x == equal[1]]
    program = cp.Problem(cp.Minimize(cost @ x), constraints)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # CVXPY's "may be inaccurate": `finished` says it better
            program.solve(solver=cp.HIGHS, ignore_dpp=True, highs_options=dict(options or {}))
    except (cp.error.SolverError, ValueError) as error:  # ValueError: HiGHS 1.16 takes no coefficients of 1e15 and more
        status = "HiGHS ended without a solution; use fewer columns or another mechanism."
        raise SolverFailedError(f"the linear program failed: {status}", status=status) from error
    if program.status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE):
        return None
    if x.value is None or below.dual_value is None:
        status = f"HiGHS ended with status {program.status}; use fewer columns or another mechanism."
        raise SolverFailedError(f"the linear program failed: {status}", status=status)
    solution = np.asarray(x.value, dtype=np.float64)
    stats = program.solver_stats
    return Minimum(
        x=solution,
        value=float(cost @ solution),
        duals=np.asarray(below.dual_value, dtype=np.float64),
        finished=program.status == cp.OPTIMAL,
        iterations=int(stats.num_iters or 0) if stats is not None else 0,
    )


def optimum(
    cost: FloatArray,
    *,
    rows: FloatArray,
    limits: FloatArray,
    equal: tuple[FloatArray, FloatArray] | None = None,
    free: int = 0,
) -> Minimum | None:
    """Minimise cost'x as `minimise` does, where the first ``free`` variables are unbounded and the others >= 0.

    The result is optimal, or ``None`` if no x is feasible.

    Raises
    ------
    SolverFailedError
        If HiGHS ends with neither an optimal solution nor a proof that there is none.
    """
    lower = np.where(np.arange(len(cost)) < free, -math.inf, 0.0)
    upper = np.full(len(cost), math.inf)
    found = minimise(cost, rows=rows, limits=limits, lower=lower, upper=upper, equal=equal)
    if found is not None and not found.finished:
        status = "HiGHS stopped before the optimum; use fewer columns or another mechanism."
        raise SolverFailedError(f"the linear program failed: {status}", status=status)
    return found
