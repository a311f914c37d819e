"""The L1-fitting linear program on a listed support, posed in the form that is fast.

The program is solved on its dual, where a support point is a row, over a small working set of rows that grows by the
rows it violates.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.checks import check_number, check_share
from synthdp.errors import InternalError, SolverFailedError
from synthdp.fit.explicit.l1_dual import FEASIBILITY, L1Dual, weights_from
from synthdp.fit.explicit.linear_program import Minimum, minimise
from synthdp.fit.explicit.problem import FitProblem, ProblemSize
from synthdp.fit.explicit.pulled import solve_pulled
from synthdp.fit.explicit.solver import Cost, FitResult, FitStatus

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class L1Highs:
    """Minimise the sum of r · |A w − b| over the simplex, exactly.

    The dual max b'y − z subject to A'y <= z, |y| <= r has k + 1 columns and one row per support point; the weights are
    its row duals.  At most k + 1 rows are tight at a vertex, so the solver starts from k + 1 rows spread over the
    support, adds the most violated ones and drops slack ones while the objective falls (sifting: Bixby et al. 1992,
    "Very large-scale linear programming", Operations Research 40).  Each round is one small CVXPY problem, solved by
    HiGHS's dual simplex without presolve.  Every round's weights are feasible, and every round's ``y`` gives a lower
    bound over all support points, so an interrupted solve still returns weights with a valid gap.

    The prior does not matter where nothing pulls towards it: an optimal vertex has at most k + 1 points.  A problem with
    a pull or insensitive answers goes to `pulled`.

    Parameters
    ----------
    seconds
        Time limit of the whole solve.
    tolerance
        Gap, relative to max(objective, k · max |A|), up to which the answer counts as optimal.
    noise_multiple
        Gap in multiples of `FitProblem.noise_level`, too, for a problem with a pull or insensitive answers: its optimum
        is not nearer to the truth than that.
    """

    name: ClassVar[str] = "lp"

    seconds: float = math.inf
    tolerance: float = 1e-8
    noise_multiple: float = 0.01

    def __post_init__(self) -> None:
        check_number("seconds", self.seconds, above=0, infinite=True)
        check_share("tolerance", self.tolerance)
        check_number("noise_multiple", self.noise_multiple, least=0)

    def solve(self, problem: FitProblem) -> FitResult:
        """Return optimal weights; see `Solver.solve`."""
        if not problem.plain:
            return solve_pulled(
                problem,
                seconds=self.seconds,
                tolerance=self.tolerance,
                noise_multiple=self.noise_multiple,
                name=self.name,
            )
        begin = time.perf_counter()
        dual = L1Dual(b=problem.b, r=problem.row_weights, scale=problem.magnitude)
        active = _first_rows(problem)
        weights, objective, bound = None, math.inf, 0.0  # y = 0 proves 0
        iterations, status = 0, FitStatus.INACCURATE
        while True:
            left = self.seconds - (time.perf_counter() - begin)
            if left <= 0:
                status = FitStatus.TIME_LIMIT
                break
            found = _over(problem, active, dual, seconds=left)
            y, z = dual.point(found.x)
            iterations += found.iterations
            before = objective
            carried = weights_from(found.duals, points=active.size)
            if carried is not None:
                candidate = np.zeros(problem.m)
                candidate[active] = carried
                reached = problem.objective(candidate)
                if reached < objective:
                    weights, objective = candidate, reached
            scores = problem.A.T @ y
            bound = max(bound, float(y @ problem.b - scores.max()))
            allowed = self.tolerance * max(objective, problem.k * dual.scale)
            if objective - bound <= allowed:
                status = FitStatus.OPTIMAL
                break
            if not found.finished:
                status = FitStatus.TIME_LIMIT
                break
            violated = scores - z > FEASIBILITY * dual.scale
            violated[active] = False
            if not violated.any():
                break
            if before - objective > allowed:  # dropping rows only while the objective falls cannot cycle
                active = active[_nearly_tight(scores[active], found.duals)]
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
            solver=self.name,
        )

    def estimate(self, size: ProblemSize) -> Cost:
        """Return the predicted cost: an upper envelope of the times in ``benchmarks/speed/l1_lp.py``, or of fits of Adult.

        Those had a pull, 5000 points and up to 4200 answers, of tables, of cosines and of both, and took 1 to 6 seconds.
        """
        if not size.plain:
            return Cost(seconds=0.5 + 5e-7 * (size.nonzeros + size.k * size.m), bytes=40.0 * (size.nonzeros + size.m))
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


def _over(problem: FitProblem, active: IntArray, dual: L1Dual, *, seconds: float) -> Minimum:
    """Solve the dual over the ``active`` rows."""
    rows = dual.rows(problem.A[:, active])
    found = minimise(
        dual.costs,
        rows=rows,
        limits=np.zeros(active.size),
        lower=-dual.upper,
        upper=dual.upper,
        options=dual.options(seconds),
    )
    if found is None:
        raise InternalError("a program that always has a solution had none")
    return found


def _nearly_tight(scores: FloatArray, multipliers: FloatArray) -> BoolArray:
    """Return the rows worth keeping: those that carry weight and the tighter half."""
    return (multipliers > 0) | (scores >= np.median(scores))


def _most_violated(scores: FloatArray, violated: BoolArray, count: int) -> IntArray:
    rows = np.flatnonzero(violated)
    if rows.size <= count:
        return rows
    return rows[np.argsort(-scores[rows], kind="stable")[:count]]
