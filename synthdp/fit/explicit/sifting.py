"""The L1-fitting linear program on a listed support, posed in the form that is fast.

The program is solved on its dual, where a support point is a row, over a small working set of rows that grows by the
rows it violates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from synthdp.arrays import Answers, BoolArray, FloatArray, IntArray, Weights
from synthdp.checks import check_share, check_whole
from synthdp.errors import InternalError, ParameterError, SolverFailedError
from synthdp.fit.explicit.linear_program import FEASIBILITY, SIMPLEX, Minimum, minimise
from synthdp.fit.explicit.problem import FeatureMatrix, FitProblem
from synthdp.fit.explicit.solver import FitResult, FitStatus


class DualPoint(NamedTuple):
    """Values of the dual's variables: y (k,) with |y| <= r, and z."""

    y: FloatArray
    z: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class L1Dual:
    """Minimise z − b'y subject to A_g'y <= z at the support points g, and |y| <= r.

    HiGHS gets the variables x = (u, z / scale) with u = y / r, so that the features are at most 1.

    Parameters
    ----------
    b
        (k,) noisy answers.
    r
        (k,) weights of the queries in the objective.
    scale
        The largest |feature|, > 0.
    """

    b: Answers
    r: FloatArray
    scale: float

    @property
    def costs(self) -> FloatArray:
        """The (k + 1,) coefficients of the objective (z − b'y) / scale in HiGHS's variables x = (y / r, z / scale)."""
        return np.append(-self.r * self.b / self.scale, 1.0)

    @property
    def upper(self) -> FloatArray:
        """The (k + 1,) upper bounds of x = (y / r, z / scale): 1, since |y| <= r, and infinity for z.

        The lower bounds are their negatives.
        """
        return np.append(np.ones(self.b.size), np.inf)

    def rows(self, features: FeatureMatrix) -> FeatureMatrix:
        """Return the (c, k + 1) rows of the constraints A'y <= z at c points with (k, c) features; sparse if those are.

        Each row times HiGHS's variables x = (y / r, z / scale) is at most 0.
        """
        row_scale = self.r / self.scale
        if isinstance(features, np.ndarray):
            return np.column_stack([(features * row_scale[:, None]).T, -np.ones(features.shape[1])])
        scaled = sp.csc_array(features.T @ sp.diags_array(row_scale))
        bound = sp.csc_array(-np.ones((scaled.shape[0], 1)))
        return sp.csc_array(sp.hstack([scaled, bound]))

    def point(self, x: FloatArray) -> DualPoint:
        """Return the dual variables, y (k,) and z, from HiGHS's solution x = (y / r, z / scale), (k + 1,).

        HiGHS solves for scaled variables, because its tolerances are absolute.
        """
        return DualPoint(y=self.r * np.clip(x[:-1], -1.0, 1.0), z=float(x[-1]) * self.scale)

    def options(self, pivots: int | None = None) -> dict[str, object]:
        """Return HiGHS's options: the dual simplex without presolve, with a limit on its steps if ``pivots`` is given.

        Its multipliers, which become the points' weights, are never negative, even if HiGHS stops at the limit.
        """
        limit = {} if pivots is None else {"simplex_iteration_limit": pivots}
        return {**SIMPLEX, **limit}


def weights_from(multipliers: FloatArray, *, points: int) -> Weights | None:
    """Return the multipliers of the points' constraints as the points' weights, (points,), of sum 1.

    None if HiGHS stopped before it had any, or if they sum to less than a half: at the optimum the sum is 1.
    """
    positive = np.maximum(multipliers, 0.0)
    total = positive.sum()
    if positive.size != points or not 0.5 <= total < np.inf:
        return None
    return np.asarray(positive / total, np.float64)


_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
"""The golden section, (sqrt(5) - 1) / 2, whose multiples modulo 1 spread evenly: they place the first support points.
Derived.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sifting:
    """Minimise the sum of r · |A w − b| over the simplex, exactly.

    The dual max b'y − z subject to A'y <= z, |y| <= r has k + 1 columns and one row per support point; the weights are
    its row duals.  At most k + 1 rows are tight at a vertex.  So the solver starts from k + 1 rows spread over the
    support.  The solver adds the most violated rows and drops slack ones while the objective falls (sifting: Bixby et
    al. 1992, "Very large-scale linear programming", Operations Research 40).  Each round is one small CVXPY problem,
    solved by HiGHS's dual simplex without presolve.  Every round's weights are feasible, and every round's ``y`` gives
    a lower bound over all support points.  So an interrupted solve still returns weights with a valid gap.

    The prior does not matter where nothing pulls towards it: an optimal vertex has at most k + 1 points.  Such a vertex
    fits the noise; `L1Program` is nearer to the truth.

    Parameters
    ----------
    pivots
        The most steps of the simplex, over all programs.
    tolerance
        Gap, relative to max(objective, k · max |A|), up to which the answer counts as optimal.

    Raises
    ------
    ParameterError
        If a setting is out of range.
    """

    name: ClassVar[str] = "sifting"

    pivots: int = 50_000
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        check_whole("pivots", self.pivots)
        check_share("tolerance", self.tolerance)

    def solve(self, problem: FitProblem) -> FitResult:
        """Return weights with the least weighted L1 distance from the noisy answers; see `Solver.solve`.

        Programs over a few support points grow by the points that violate the dual most.  They end once the dual bound
        proves the weights optimal, or `pivots` are used up.

        Raises
        ------
        ParameterError
            If the problem has a pull or insensitive answers.
        """
        if not problem.plain:
            raise ParameterError(
                "solver 'sifting' does not support pull and insensitive: leave both out, or take another solver"
            )
        dual = L1Dual(b=problem.b, r=problem.row_weights, scale=problem.magnitude)
        active = _first_rows(problem)
        weights, objective, bound = None, math.inf, 0.0  # y = 0 proves 0
        pivots, status = 0, FitStatus.INACCURATE
        while True:
            found = _over(problem, active, dual, pivots=self.pivots - pivots)
            if not np.isfinite(found.x).all():
                raise SolverFailedError(
                    "the solver HiGHS returned values that are not numbers: try solver='mw'", status="not numbers"
                )
            y, z = dual.point(found.x)
            pivots += found.iterations
            before = objective
            carried = weights_from(found.duals, points=active.size)
            if carried is not None:
                candidate = np.zeros(problem.m)
                candidate[active] = carried
                reached = problem.objective(candidate)
                if reached < objective:
                    weights, objective = candidate, reached
            scores = problem.A.T @ y
            bound = max(bound, problem.bound_from(y, scores))
            allowed = self.tolerance * max(objective, problem.k * dual.scale)
            if objective - bound <= allowed:
                status = FitStatus.OPTIMAL
                break
            if not found.finished or pivots >= self.pivots:
                status = FitStatus.LIMIT
                break
            violated = scores - z > FEASIBILITY * dual.scale
            violated[active] = False
            if not violated.any():
                break
            if before - objective > allowed:  # dropping rows only while the objective falls cannot cycle
                active = active[_nearly_tight(scores[active], found.duals)]
            active = np.concatenate([active, _most_violated(scores, violated, problem.k + 1)])
        if weights is None:
            message = f"the linear program ended without usable weights ({status.value}): try solver='mw'"
            raise SolverFailedError(message, status=status.value)
        stopped = f"The linear program stopped after {pivots} pivots; the best of its weights are released."
        return FitResult(
            weights=weights, status=status, objective=objective, bound=bound, solver=self.name,
            objective_lp=objective, pivots=pivots, reason=stopped if status is FitStatus.LIMIT else "",
        )  # fmt: skip


def _first_rows(problem: FitProblem) -> IntArray:
    """Return the positions of k + 1 support points spread evenly over the support, to start from.

    All points if there are at most twice as many.  Steps of the golden section avoid resonance with a grid's order.
    """
    count = problem.k + 1
    if problem.m <= 2 * count:
        return np.arange(problem.m)
    spread = np.floor(np.mod(np.arange(1, count + 1) * _GOLDEN, 1.0) * problem.m).astype(np.int64)
    return np.unique(spread)


def _over(problem: FitProblem, active: IntArray, dual: L1Dual, *, pivots: int) -> Minimum:
    """Solve the dual with only the constraints of the ``active`` support points, in at most ``pivots`` steps.

    The program is then small; points that its solution violates are added for the next one.
    """
    rows = dual.rows(problem.A[:, active])
    found = minimise(
        dual.costs,
        rows=rows,
        limits=np.zeros(active.size),
        lower=-dual.upper,
        upper=dual.upper,
        options=dual.options(pivots),
    )
    if found is None:
        raise InternalError("a program that always has a solution had none")
    return found


def _nearly_tight(scores: FloatArray, multipliers: FloatArray) -> BoolArray:
    """Return which active rows to keep, (active,): the rows that carry weight, and the half nearest to being violated.

    ``scores`` is how near each row is to being violated, and a row carries weight if its multiplier is above 0.  The
    other rows are dropped, so that programs stay small.
    """
    return (multipliers > 0) | (scores >= np.median(scores))


def _most_violated(scores: FloatArray, violated: BoolArray, count: int) -> IntArray:
    """Return the positions of the most violated rows, (rows,), at most ``count``, to be added to the program."""
    rows = np.flatnonzero(violated)
    if rows.size <= count:
        return rows
    return rows[np.argsort(-scores[rows], kind="stable")[:count]]
