"""The L1-fitting linear program through CVXPY with HiGHS, posed in the form that is fast.

The program is solved on its dual, where a support point is a row, over a small working set of rows that grows by the
rows it violates.  The only module that knows CVXPY.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from synthdp.arrays import BoolArray, FloatArray, IntArray, Weights
from synthdp.errors import ParameterError, SolverFailedError
from synthdp.fit.explicit.problem import FeatureMatrix, FitProblem, ProblemSize
from synthdp.fit.explicit.solver import Cost, FitResult, FitStatus

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_VIOLATION = 1e-9
"""How far a dual row may be violated, in units of max |A|; HiGHS is asked for the same."""


class _Master(NamedTuple):
    """The dual over some rows: max b'y − z subject to A_s'y <= z on the rows s, |y| <= r."""

    y: FloatArray
    z: float
    weights: FloatArray
    finished: bool
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class L1Highs:
    """Minimise the sum of r · |A w − b| over the simplex, exactly.

    The dual max b'y − z subject to A'y <= z, |y| <= r has k + 1 columns and one row per support point; the weights are
    its row duals.  At most k + 1 rows are tight at a vertex, so the solver starts from k + 1 rows spread over the
    support, adds the most violated ones and drops slack ones while the objective falls (sifting: Bixby et al. 1992,
    "Very large-scale linear programming", Operations Research 40).  Each round is one small CVXPY problem, solved by
    HiGHS's dual simplex without presolve.  Every round's weights are feasible, and every round's ``y`` gives a lower
    bound over all support points, so an interrupted solve still returns weights with a valid gap.

    The prior of the problem is not used: an optimal vertex has at most k + 1 points.

    Parameters
    ----------
    seconds
        Time limit of the whole solve.
    tolerance
        Gap, relative to max(objective, k · max |A|), up to which the answer counts as optimal.
    """

    name: ClassVar[str] = "lp"

    seconds: float = math.inf
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ParameterError(f"seconds ({self.seconds}) must be positive")
        if not 0 < self.tolerance < 1:
            raise ParameterError(f"tolerance ({self.tolerance}) must lie strictly between 0 and 1")

    def solve(self, problem: FitProblem) -> FitResult:
        """Return optimal weights; see `Solver.solve`."""
        begin = time.perf_counter()
        scale = problem.magnitude
        active = _first_rows(problem)
        weights, objective, bound = None, math.inf, 0.0  # y = 0 proves 0
        iterations, status = 0, FitStatus.INACCURATE
        while True:
            left = self.seconds - (time.perf_counter() - begin)
            if left <= 0:
                status = FitStatus.TIME_LIMIT
                break
            master = _solve_master(problem, active, scale=scale, seconds=left)
            iterations += master.iterations
            before = objective
            candidate = _on_simplex(master.weights, active, m=problem.m)
            if candidate is not None and problem.objective(candidate) < objective:
                weights, objective = candidate, problem.objective(candidate)
            scores = problem.A.T @ master.y
            bound = max(bound, float(master.y @ problem.b - scores.max()))
            allowed = self.tolerance * max(objective, problem.k * scale)
            if objective - bound <= allowed:
                status = FitStatus.OPTIMAL
                break
            if not master.finished:
                status = FitStatus.TIME_LIMIT
                break
            violated = scores - master.z > _VIOLATION * scale
            violated[active] = False
            if not violated.any():
                break
            if before - objective > allowed:  # dropping rows only while the objective falls cannot cycle
                active = active[_nearly_tight(scores[active], master)]
            active = np.concatenate([active, _most_violated(scores, violated, problem.k + 1)])
        if weights is None:
            message = f"the linear program ended without usable weights: {status.value}"
            raise SolverFailedError(message, status=status.value)
        return FitResult(
            weights=weights,
            status=status,
            objective=objective,
            gap=max(objective - bound, 0.0),
            iterations=iterations,
            seconds=time.perf_counter() - begin,
            solver=self.name,
        )

    def estimate(self, size: ProblemSize) -> Cost:
        """Return the predicted cost; an upper envelope of the times in ``benchmarks/speed/l1_lp.py``."""
        density = size.nonzeros / (size.k * size.m)
        rounds = 8
        pivots = 2e-8 * size.k**2.6 * max(density, 0.15)
        seconds = 0.5 + rounds * (pivots + 4e-9 * size.nonzeros)
        working_set = 3.0 * (size.k + 1) ** 2 * max(density, 0.15)
        return Cost(seconds=seconds, bytes=120.0 * working_set + 40.0 * size.m)


def _first_rows(problem: FitProblem) -> IntArray:
    """Return k + 1 rows spread evenly over the support, in an order that no grid resonates with."""
    count = problem.k + 1
    if problem.m <= 2 * count:
        return np.arange(problem.m)
    spread = np.floor(np.mod(np.arange(1, count + 1) * _GOLDEN, 1.0) * problem.m).astype(np.int64)
    return np.unique(spread)


def _solve_master(problem: FitProblem, active: IntArray, *, scale: float, seconds: float) -> _Master:
    """Solve the dual over ``active`` rows in the variables u = y / r, in units where max |A| is 1."""
    import cvxpy as cp

    r = problem.row_weights
    rows = _scaled_rows(problem.A, active, r / scale)
    unit = np.ones(problem.k)
    x = cp.Variable(problem.k + 1, bounds=[np.append(-unit, -np.inf), np.append(unit, np.inf)])
    constraint = rows @ x <= 0
    program = cp.Problem(cp.Minimize(np.append(-r * problem.b / scale, 1.0) @ x), [constraint])
    options = {
        "solver": "simplex",
        "simplex_strategy": 1,
        "presolve": "off",
        "primal_feasibility_tolerance": _VIOLATION,
        "dual_feasibility_tolerance": _VIOLATION,
        **({"time_limit": seconds} if math.isfinite(seconds) else {}),
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # CVXPY's "may be inaccurate": the gap says it better
            program.solve(solver=cp.HIGHS, ignore_dpp=True, highs_options=options)
    except cp.error.SolverError as error:
        status = "HiGHS ended without a solution."
        raise SolverFailedError(f"the linear program failed: {status}", status=status) from error
    if x.value is None or constraint.dual_value is None:
        status = f"HiGHS ended with status {program.status}."
        raise SolverFailedError(f"the linear program failed: {status}", status=status)
    solution = np.asarray(x.value, dtype=np.float64)
    stats = program.solver_stats
    return _Master(
        y=r * np.clip(solution[:-1], -1.0, 1.0),
        z=float(solution[-1]) * scale,
        weights=np.asarray(constraint.dual_value, dtype=np.float64),
        finished=program.status == cp.OPTIMAL,
        iterations=int(stats.num_iters or 0) if stats is not None else 0,
    )


def _scaled_rows(A: FeatureMatrix, active: IntArray, row_scale: FloatArray) -> FeatureMatrix:
    """Return [ (row_scale · A)' , −1 ] on the ``active`` support points."""
    if isinstance(A, np.ndarray):
        return np.column_stack([(A[:, active] * row_scale[:, None]).T, -np.ones(active.size)])
    chosen = sp.csc_array(A[:, active].T @ sp.diags_array(row_scale))
    bound = sp.csc_array(-np.ones((active.size, 1)))
    return sp.csc_array(sp.hstack([chosen, bound]))


def _on_simplex(duals: FloatArray, active: IntArray, *, m: int) -> Weights | None:
    """Return row duals as weights of all m points; None where HiGHS was stopped before it had any."""
    positive = np.maximum(duals, 0.0)
    total = positive.sum()
    if positive.size != active.size or not np.isfinite(total) or total < 0.5:
        return None
    weights = np.zeros(m)
    weights[active] = positive / total
    return weights


def _nearly_tight(scores: FloatArray, master: _Master) -> BoolArray:
    """Return the rows worth keeping: those that carry weight and the tighter half."""
    return (master.weights > 0) | (scores >= np.median(scores))


def _most_violated(scores: FloatArray, violated: BoolArray, count: int) -> IntArray:
    rows = np.flatnonzero(violated)
    if rows.size <= count:
        return rows
    return rows[np.argpartition(-scores[rows], count - 1)[:count]]
