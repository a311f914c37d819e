"""The L1 program with insensitive answers and a pull towards the prior: one linear program, over what may matter.

With the relative entropy itself in place of its pieces the dual is smooth, and a few steps say about where every weight
will lie.  So the program begins with the pieces next to it, and with the answers that hold a weight there; those beyond go
on in straight lines, which can only lower the optimum.  It takes in more of both until nothing lies beyond and nothing
else is missed: then its weights are optimal for all pieces and answers, and its multipliers prove it.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from synthdp.arrays import FloatArray, IntArray, Weights
from synthdp.errors import InternalError
from synthdp.fit.explicit.l1_dual import FEASIBILITY
from synthdp.fit.explicit.linear_program import Minimum, minimise
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.relative_entropy import piece_of, pieces
from synthdp.fit.explicit.solver import FitResult, FitStatus

ALL_ANSWERS = 400
"""So many answers are in the program from the start; of more, those that matter."""

ANSWERS_PER_ROUND = 1000

NEAR, WIDER = 1, 4
"""Pieces on each side of where a weight is expected, and how many times as many after a weight lay beyond."""

SMOOTH_STEPS = 100


@dataclass(frozen=True, slots=True, eq=False)
class _Window:
    """The pieces of each point that are in the program: the first and the last, (m,)."""

    first: IntArray
    last: IntArray

    @classmethod
    def around(cls, problem: FitProblem, weights: Weights, *, near: int) -> _Window:
        """Return so many pieces on each side of some weights; without a pull there is but one, without end."""
        ends = len(pieces(problem.m).slopes) - 1
        if problem.pull == 0:
            only = np.full(problem.m, ends)
            return cls(only, only)
        at = piece_of(weights, problem.start)
        last = np.minimum(at + near, ends)
        return cls(np.where(problem.start > 0, np.maximum(at - near, 0), last), last)


def solve_pulled(
    problem: FitProblem, *, seconds: float, tolerance: float, noise_multiple: float, name: str
) -> FitResult:
    """Return weights that minimise `FitProblem.objective`.

    Every round's weights are feasible and its multipliers prove a bound, so an interrupted solve has both.

    Parameters
    ----------
    problem
        What to fit.
    seconds, tolerance, noise_multiple
        As in `L1Highs`.
    name
        The solver's name.
    """
    begin = time.perf_counter()
    expected, y = _smooth_optimum(problem)
    weights, iterations, status, near = problem.start, 0, FitStatus.INACCURATE, NEAR
    objective, bound = problem.objective(weights), max(problem.dual_bound(y), 0.0)
    if math.isinf(problem.pull):
        bound = objective
    active = np.arange(problem.k) if problem.k <= ALL_ANSWERS else np.flatnonzero(y)
    active = np.union1d(active, _missed(problem, expected, active))
    allowed = max(noise_multiple * problem.noise_level, tolerance * max(objective, problem.k * problem.magnitude))
    while True:
        if objective - bound <= allowed:
            status = FitStatus.OPTIMAL
            break
        left = seconds - (time.perf_counter() - begin)
        if left <= 0:
            status = FitStatus.TIME_LIMIT
            break
        found = _over(problem, active, _Window.around(problem, expected, near=near), seconds=left)
        iterations += found.minimum.iterations
        bound = max(bound, problem.dual_bound(found.y))
        if found.weights is not None and (reached := problem.objective(found.weights)) < objective:
            weights, objective = found.weights, reached
        if found.weights is None or not found.minimum.finished:
            status = FitStatus.TIME_LIMIT
            break
        new = _missed(problem, found.weights, active)
        if not new.size and not found.beyond:
            status = FitStatus.OPTIMAL if objective - bound <= allowed else FitStatus.INACCURATE
            break
        active = np.union1d(active, new)
        near *= WIDER if found.beyond else 1
    return FitResult(
        weights=weights,
        status=status,
        objective=objective,
        gap=max(objective - bound, 0.0),
        iterations=iterations,
        solver=name,
    )


def _smooth_optimum(problem: FitProblem) -> tuple[Weights, FloatArray]:
    """Return about the weights that are optimal with the relative entropy itself, and their (k,) dual vector.

    They are prior · exp(A'y / pull), normalised, at the y of the largest y'b − e'|y| − pull · log sum of these.
    """
    from scipy.optimize import minimize

    if problem.pull == 0 or math.isinf(problem.pull):
        return problem.start, np.zeros(problem.k)
    transposed, r = problem.A.T, problem.row_weights
    free = np.broadcast_to(problem.insensitive, problem.b.shape)
    logs = np.log(np.maximum(problem.start, np.finfo(float).tiny))

    def weights_of(y: FloatArray) -> tuple[Weights, float]:
        exponents = logs + (transposed @ y) / problem.pull
        largest = float(exponents.max())
        weights = np.where(problem.start > 0, np.exp(exponents - largest), 0.0)
        total = float(weights.sum())
        return weights / total, largest + math.log(total)

    def negative(parts: FloatArray) -> tuple[float, FloatArray]:
        y = parts[: problem.k] - parts[problem.k :]  # |y| is their sum: at the optimum one of both is 0
        weights, log_total = weights_of(y)
        misses = problem.A @ weights - problem.b
        value = (
            problem.pull * log_total - float(y @ problem.b) + float(free @ (parts[: problem.k] + parts[problem.k :]))
        )
        return value, np.concatenate([free + misses, free - misses])

    found = minimize(
        negative,
        np.zeros(2 * problem.k),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, limit) for limit in np.tile(r, 2)],
        options={"maxiter": SMOOTH_STEPS},
    )
    y = found.x[: problem.k] - found.x[problem.k :]
    return weights_of(y)[0], y


def _missed(problem: FitProblem, weights: Weights, active: IntArray) -> IntArray:
    """Return the answers that are not in the program and missed by more than costs nothing, those that cost most."""
    beyond = np.abs(problem.A @ weights - problem.b) - problem.insensitive
    beyond[active] = 0.0
    missed = np.flatnonzero(beyond > FEASIBILITY * problem.magnitude)
    cost = problem.row_weights[missed] * beyond[missed]
    return missed[np.argsort(-cost, kind="stable")[:ANSWERS_PER_ROUND]]


class _Found(NamedTuple):
    """What one program says: weights, if HiGHS has any, the (k,) dual vector, and whether a weight is beyond the window."""

    minimum: Minimum
    weights: Weights | None
    y: FloatArray
    beyond: bool


def _over(problem: FitProblem, active: IntArray, window: _Window, *, seconds: float) -> _Found:
    """Solve the program over some answers and some pieces, in weights and misses of mean weight 1.

    Its columns: the weight within each piece of the window, piece by piece; how far each weight is below the window, and
    above it, at the price of the next piece; then for each answer what it misses at no cost, from below, and from above.
    """
    m, k, prior = problem.m, active.size, problem.m * problem.start
    kinks, slopes_of, _ = pieces(m)
    ends = len(slopes_of) - 1
    base = prior * kinks[window.first] if problem.pull > 0 else np.zeros(m)
    blocks = []
    for step in range(int((window.last - window.first).max()) + 1):
        points = np.flatnonzero(window.first + step <= window.last)
        piece = (window.first + step)[points]
        width = np.where(piece < ends, prior[points] * np.diff(kinks)[np.minimum(piece, ends - 1)], np.inf)
        blocks.append((points, slopes_of[piece], np.zeros(len(points)), width))
    inside = sum(len(block[0]) for block in blocks)
    below, above = np.flatnonzero((window.first > 0) & (base > 0)), np.flatnonzero(window.last < ends)
    blocks.append((below, slopes_of[window.first[below] - 1], -base[below], np.zeros(len(below))))
    blocks.append((above, slopes_of[window.last[above] + 1], np.zeros(len(above)), np.full(len(above), np.inf)))
    points, slopes, lower, upper = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    features = sp.csr_array(problem.A)[active] / problem.magnitude
    misses = sp.eye_array(k)
    across = sp.csc_array(sp.hstack([sp.csc_array(features)[:, points], misses, misses, -misses]))
    aim, free = (m / problem.magnitude * values[active] for values in (problem.b, np.asarray(problem.insensitive)))
    all_weight = np.append(np.ones(len(points)), np.zeros(3 * k))
    left = m - float(base.sum())
    prices = problem.pull / problem.magnitude * slopes
    found = minimise(
        np.concatenate([prices, np.zeros(k), np.tile(problem.row_weights[active], 2)]),
        rows=np.stack([all_weight, -all_weight]),
        limits=np.array([left, -left]),
        lower=np.concatenate([lower, -free, np.zeros(2 * k)]),
        upper=np.concatenate([upper, free, np.full(2 * k, np.inf)]),
        equal=(across, aim - features @ base),
        options=_options(seconds),
    )
    if found is None:
        raise InternalError("a program that always has a solution had none")
    y = np.zeros(problem.k)
    if found.equal_duals.size == k and np.isfinite(found.equal_duals).all():
        y[active] = found.equal_duals
    moved = found.x[: len(points)]
    filled = np.maximum(base + np.bincount(points, weights=moved, minlength=m), 0.0)
    total = float(filled.sum())
    beyond = bool((np.abs(moved[inside:]) > FEASIBILITY).any())
    return _Found(found, filled / total if 0.5 * m <= total < np.inf else None, y, beyond)


def _options(seconds: float) -> dict[str, object]:
    limit = {"time_limit": seconds} if math.isfinite(seconds) else {}
    return {
        "solver": "simplex",
        "simplex_strategy": 1,
        "presolve": "off",
        "primal_feasibility_tolerance": FEASIBILITY,
        "dual_feasibility_tolerance": FEASIBILITY,
        **limit,
    }
