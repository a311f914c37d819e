"""The L1 program with insensitive answers and a pull towards the prior: one linear program, with rows for what is missed.

An answer that is met within its insensitivity costs nothing, so the program starts with the answers that the prior misses
and takes in those that its weights miss, until there are none: then its weights are optimal for all answers.
"""

from __future__ import annotations

import math
import time

import numpy as np
import scipy.sparse as sp

from synthdp.arrays import FloatArray, IntArray, Weights
from synthdp.errors import InternalError
from synthdp.fit.explicit.l1_dual import FEASIBILITY
from synthdp.fit.explicit.linear_program import Minimum, minimise
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.relative_entropy import KINKS, SLOPES
from synthdp.fit.explicit.solver import FitResult, FitStatus

ROWS_PER_ROUND = 1000


def solve_pulled(problem: FitProblem, *, seconds: float, tolerance: float, name: str) -> FitResult:
    """Return weights that minimise `FitProblem.objective`.

    Every round's weights are feasible and its multipliers prove a bound, so an interrupted solve has both.

    Parameters
    ----------
    problem
        What to fit.
    seconds, tolerance
        As in `L1Highs`.
    name
        The solver's name.
    """
    begin = time.perf_counter()
    weights, iterations, status = problem.start, 0, FitStatus.INACCURATE
    objective, bound = problem.objective(weights), 0.0
    active, new = np.empty(0, np.int64), _missed(problem, weights)
    allowed = tolerance * max(objective, problem.k * problem.magnitude)
    if math.isinf(problem.pull):
        bound, new = objective, new[:0]
    while True:
        if objective - bound <= allowed:
            status = FitStatus.OPTIMAL
            break
        left = seconds - (time.perf_counter() - begin)
        if left <= 0:
            status = FitStatus.TIME_LIMIT
            break
        active = np.union1d(active, new)
        found = _over(problem, active, seconds=left)
        iterations += found.iterations
        candidate, y = _solution(problem, active, found)
        bound = max(bound, problem.dual_bound(y))
        if candidate is not None and (reached := problem.objective(candidate)) < objective:
            weights, objective = candidate, reached
        if candidate is None or not found.finished:
            status = FitStatus.TIME_LIMIT
            break
        new = np.setdiff1d(_missed(problem, candidate), active)
        if not new.size:
            status = FitStatus.OPTIMAL if objective - bound <= allowed else FitStatus.INACCURATE
            break
    return FitResult(
        weights=weights,
        status=status,
        objective=objective,
        gap=max(objective - bound, 0.0),
        iterations=iterations,
        seconds=time.perf_counter() - begin,
        solver=name,
    )


def _missed(problem: FitProblem, weights: Weights) -> IntArray:
    """Return the answers missed by more than costs nothing, those that cost most, in order."""
    beyond = np.abs(problem.A @ weights - problem.b) - problem.insensitive
    cost = problem.row_weights * beyond
    missed = np.flatnonzero(beyond > FEASIBILITY * problem.magnitude)
    return np.sort(missed[np.argsort(-cost[missed], kind="stable")[:ROWS_PER_ROUND]])


def _over(problem: FitProblem, active: IntArray, *, seconds: float) -> Minimum:
    """Solve the program over some answers, in weights and misses of mean weight 1.

    Its columns: for each segment of the relative entropy the weight within it, at all points; then the misses.
    """
    m, k, segments = problem.m, active.size, SLOPES.size if problem.pull > 0 else 1
    features = sp.csr_array(problem.A)[active] / problem.magnitude
    across = sp.hstack([features] * segments)
    misses = sp.eye_array(k)
    rows = sp.csc_array(sp.vstack([sp.hstack([across, -misses]), sp.hstack([-across, -misses])]))
    aim, free = (m / problem.magnitude * values[active] for values in (problem.b, np.asarray(problem.insensitive)))
    prices = np.repeat(problem.pull * SLOPES[:segments], m) / problem.magnitude
    found = minimise(
        np.append(prices, problem.row_weights[active]),
        rows=rows,
        limits=np.append(aim + free, free - aim),
        lower=np.zeros(m * segments + k),
        upper=np.append(_widths(problem, segments), np.full(k, np.inf)),
        equal=(np.append(np.ones(m * segments), np.zeros(k))[None, :], np.array([float(m)])),
        options=_options(seconds),
    )
    if found is None:
        raise InternalError("a program that always has a solution had none")
    return found


def _widths(problem: FitProblem, segments: int) -> FloatArray:
    if segments == 1:
        return np.full(problem.m, np.inf)
    prior = problem.m * problem.start
    inner = np.diff(KINKS)[:-1, None] * prior[None, :]
    return np.append(inner.ravel(), np.full(problem.m, np.inf))


def _options(seconds: float) -> dict[str, object]:
    limit = {"time_limit": seconds} if math.isfinite(seconds) else {}
    return {
        "solver": "simplex",
        "primal_feasibility_tolerance": FEASIBILITY,
        "dual_feasibility_tolerance": FEASIBILITY,
        **limit,
    }


def _solution(problem: FitProblem, active: IntArray, found: Minimum) -> tuple[Weights | None, FloatArray]:
    """Return the weights, if HiGHS has any, and the (k,) dual vector of all answers."""
    y = np.zeros(problem.k)
    if found.duals.size == 2 * active.size and np.isfinite(found.duals).all():
        y[active] = found.duals[active.size :] - found.duals[: active.size]
    filled = np.maximum(found.x[: found.x.size - active.size].reshape(-1, problem.m).sum(axis=0), 0.0)
    total = float(filled.sum())
    if not 0.5 * problem.m <= total < np.inf:
        return None, y
    return filled / total, y
