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
from synthdp.fit.explicit.relative_entropy import pieces
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
    active = np.empty(0, np.int64)
    new = _missed(problem, weights, active)
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
        new = _missed(problem, candidate, active)
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


def _missed(problem: FitProblem, weights: Weights, active: IntArray) -> IntArray:
    """Return the answers that are not in the program and missed by more than costs nothing, those that cost most."""
    beyond = np.abs(problem.A @ weights - problem.b) - problem.insensitive
    beyond[active] = 0.0
    missed = np.flatnonzero(beyond > FEASIBILITY * problem.magnitude)
    cost = problem.row_weights[missed] * beyond[missed]
    return missed[np.argsort(-cost, kind="stable")[:ROWS_PER_ROUND]]


def _over(problem: FitProblem, active: IntArray, *, seconds: float) -> Minimum:
    """Solve the program over some answers, in weights and misses of mean weight 1.

    Its columns: for each piece of the relative entropy the weight within it, at all points; then for each answer what it
    misses at no cost, from below, and from above.
    """
    m, k = problem.m, active.size
    prices, widths = _prices_and_widths(problem)
    features = sp.csr_array(problem.A)[active] / problem.magnitude
    misses = sp.eye_array(k)
    beside = sp.kron(np.ones((1, prices.size)), features, format="csc")  # the same of every piece
    across = sp.csc_array(sp.hstack([beside, misses, misses, -misses]))
    aim, free = (m / problem.magnitude * values[active] for values in (problem.b, np.asarray(problem.insensitive)))
    all_weight = np.append(np.ones(m * prices.size), np.zeros(3 * k))
    cost = np.concatenate([np.repeat(prices, m), np.zeros(k), np.tile(problem.row_weights[active], 2)])
    found = minimise(
        cost,
        rows=np.stack([all_weight, -all_weight]),
        limits=np.array([m, -m], np.float64),
        lower=np.concatenate([np.zeros(m * prices.size), -free, np.zeros(2 * k)]),
        upper=np.concatenate([widths, free, np.full(2 * k, np.inf)]),
        equal=(across, aim),
        options=_options(seconds),
    )
    if found is None:
        raise InternalError("a program that always has a solution had none")
    return found


def _prices_and_widths(problem: FitProblem) -> tuple[FloatArray, FloatArray]:
    """Return the price of each piece, and the widths of all pieces at all points, piece by piece."""
    if problem.pull == 0:
        return np.zeros(1), np.full(problem.m, np.inf)
    chosen = pieces(problem.m)
    return problem.pull / problem.magnitude * chosen.slopes, chosen.widths(problem.m * problem.start).T.ravel()


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
    if found.equal_duals.size == active.size and np.isfinite(found.equal_duals).all():
        y[active] = found.equal_duals
    filled = np.maximum(found.x[: found.x.size - 3 * active.size].reshape(-1, problem.m).sum(axis=0), 0.0)
    total = float(filled.sum())
    if not 0.5 * problem.m <= total < np.inf:
        return None, y
    return filled / total, y
