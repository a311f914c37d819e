"""Multiplicative weights on an explicit support: the fallback that is never too large and stops at the noise level.

Accelerated entropic mirror descent on the smoothed L1 objective.  Two products with the feature matrix a step, a few
vectors of memory, no factorisation.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from synthdp.arrays import FloatArray, Weights
from synthdp.checks import check_number, check_whole
from synthdp.fit.explicit.problem import FitProblem, ProblemSize
from synthdp.fit.explicit.solver import Cost, FitResult, FitStatus

_SHARPEST = 1e-4
"""Least smoothing, in multiples of max |A|: below it steps become shorter than they are worth."""

_RELAX = 1.1
"""How much the curvature may fall between steps."""

_ROUNDING = 1e-13


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiplicativeWeights:
    """Minimise the L1 objective, smoothed below the noise, from the prior, by multiplicative updates.

    With t = r · (A w − b), in which every noisy query has the same noise scale s, the solver minimises the sum of
    Huber functions h(t) = t² / 2δ for |t| <= δ and |t| − δ/2 beyond, at δ = ``smoothing`` · s.  It lies within kδ/2
    below the L1 objective: least squares for residuals that noise explains, L1 for those it does not.  The gradient
    in t is clipped to [−1, 1], so each step yields a feasible dual vector of the L1 program and with it a valid gap.

    The updates are those of Auslender and Teboulle's accelerated method with the entropy as distance (Tseng 2008, "On
    accelerated proximal gradient methods", algorithm 1; step sizes by backtracking and restart as in Becker, Candès,
    Grant 2011, "Templates for convex cone problems", section 5).  Weights start at the prior and are only ever
    multiplied, so where the answers say nothing the prior's proportions stay.  That and the early stop are what holds
    them near the prior: the pull of the problem is counted in the objective but not minimised, and the gap, a bound on
    the misfit alone, is then too large.

    Parameters
    ----------
    smoothing
        δ in multiples of the noise; at least 1e-4 · max |A|.
    noise_multiple
        Stop once the objective is at most this multiple of `FitProblem.noise_level`; 0 to minimise to the end.  A
        quarter is the default because a fit shares k errors among few degrees of freedom: in 24 simulated releases
        stopping at the full level left up to 30 % more error on the measured queries, a quarter at most 2 %.
    tolerance
        Gap, as a fraction of k · δ, up to which the answer counts as optimal up to smoothing.  At the minimum of the
        smoothed objective the gap is at most k · δ / 4.
    max_iterations
        Limit on steps.
    seconds
        Time limit.
    """

    name: ClassVar[str] = "mw"

    smoothing: float = 0.5
    noise_multiple: float = 0.25
    tolerance: float = 0.3
    max_iterations: int = 5000
    seconds: float = math.inf

    def __post_init__(self) -> None:
        check_number("smoothing", self.smoothing, above=0)
        check_number("noise_multiple", self.noise_multiple, least=0, infinite=True)
        check_number("tolerance", self.tolerance, above=0, infinite=True)
        check_whole("max_iterations", self.max_iterations)
        check_number("seconds", self.seconds, above=0, infinite=True)

    def width(self, problem: FitProblem) -> float:
        """Return δ, the half-width of the quadratic part, in multiples of r · (A w − b)."""
        noise = float((problem.row_weights * problem.stddev).max())
        return max(self.smoothing * noise, _SHARPEST * problem.magnitude)

    def solve(self, problem: FitProblem) -> FitResult:
        """Return weights close to the prior that explain the answers; see `Solver.solve`."""
        begin = time.perf_counter()
        width = self.width(problem)
        enough = self.noise_multiple * problem.noise_level
        tolerance = self.tolerance * problem.k * width
        descent = _Descent(problem, width=width)
        status, moving = FitStatus.ITERATION_LIMIT, True
        while descent.steps < self.max_iterations:
            if descent.objective <= enough:
                status = FitStatus.NOISE_LEVEL
                break
            if descent.objective - descent.bound <= tolerance:
                status = FitStatus.WITHIN_SMOOTHING
                break
            if not moving:
                status = FitStatus.STALLED
                break
            if time.perf_counter() - begin >= self.seconds:
                status = FitStatus.TIME_LIMIT
                break
            moving = descent.step()
        weights = descent.best / descent.best.sum()
        objective = problem.objective(weights)
        return FitResult(
            weights=weights,
            status=status,
            objective=objective,
            gap=max(objective - descent.bound, 0.0),
            iterations=descent.steps,
            solver=self.name,
        )

    def estimate(self, size: ProblemSize) -> Cost:
        """Return the predicted cost of 1000 steps."""
        return Cost(seconds=0.01 + 1000 * (3e-9 * size.nonzeros + 4e-8 * size.m), bytes=80.0 * size.m)


class _Descent:
    """The state of one descent: the iterate x and the multiplicative iterate z with their answers A x and A z."""

    def __init__(self, problem: FitProblem, *, width: float) -> None:
        self._A = problem.A
        self._transposed = problem.A.T
        self._b = problem.b
        self._r = problem.row_weights
        self._insensitive = problem.insensitive
        self._some_miss_is_free = bool(np.any(problem.insensitive))
        self._width = width
        self._x: Weights = problem.start
        self._Ax: FloatArray = self._A @ self._x
        beyond = self._beyond(self._Ax)
        self._value = self._smoothed(beyond)
        self._curvature = max(self._value, width)  # any start: backtracking finds the scale
        self._restart()
        self.best = self._x
        self.objective = self._exact(beyond)
        self.bound = 0.0
        self.steps = 0

    def step(self) -> bool:
        """Move once; return False when not even a plain step lowers the smoothed objective."""
        self.steps += 1
        if self._advance():
            return True
        self._restart()
        return self._advance()

    def _restart(self) -> None:
        self._z, self._Az, self._theta = self._x, self._Ax, math.inf

    def _advance(self) -> bool:
        """Try one accelerated step, curvature found by doubling; keep it only if the smoothed objective falls."""
        curvature = self._curvature / _RELAX
        while True:
            theta = self._next_theta(curvature)
            Ay = (1.0 - theta) * self._Ax + theta * self._Az
            beyond_y = self._beyond(Ay)
            dual = self._r * np.minimum(np.maximum(self._r * beyond_y / self._width, -1.0), 1.0)
            gradient = self._transposed @ dual
            self.bound = max(self.bound, float(gradient.min() - dual @ self._b - np.abs(dual) @ self._insensitive))
            z, divergence = _multiply(self._z, gradient / (theta * curvature))
            Az = self._A @ z
            Ax = (1.0 - theta) * self._Ax + theta * Az
            beyond_x = self._beyond(Ax)
            value = self._smoothed(beyond_x)
            model = self._smoothed(beyond_y) + theta * float(dual @ (Az - self._Az)) + theta**2 * curvature * divergence
            if value <= model + _ROUNDING * self._value or curvature > self._curvature / _ROUNDING:
                break
            curvature *= 2.0
        self._curvature = curvature
        if not value < self._value:
            return False
        self._x = (1.0 - theta) * self._x + theta * z
        self._Ax, self._z, self._Az, self._theta, self._value = Ax, z, Az, theta, value
        objective = self._exact(beyond_x)
        if objective < self.objective:
            self.best, self.objective = self._x, objective
        return True

    def _next_theta(self, curvature: float) -> float:
        """Return θ with (1 − θ) / (θ² L) = 1 / (θ₀² L₀), which keeps the O(1/steps²) rate as L changes."""
        if math.isinf(self._theta):
            return 1.0
        return 2.0 / (1.0 + math.sqrt(1.0 + 4.0 * curvature / (self._curvature * self._theta**2)))

    def _smoothed(self, beyond: FloatArray) -> float:
        t = np.abs(self._r * beyond)
        return float(np.where(t <= self._width, t * t / (2.0 * self._width), t - self._width / 2.0).sum())

    def _exact(self, beyond: FloatArray) -> float:
        return float(self._r @ np.abs(beyond))

    def _beyond(self, answers: FloatArray) -> FloatArray:
        """Return how far the answers miss, beyond what costs nothing."""
        miss = answers - self._b
        if self._some_miss_is_free:
            miss -= np.clip(miss, -self._insensitive, self._insensitive)
        return miss


def _multiply(weights: Weights, exponent: FloatArray) -> tuple[Weights, float]:
    """Return weights · exp(−exponent), normalised, and its relative entropy to ``weights``."""
    shift = float(exponent.min())
    multiplied = weights * np.exp(shift - exponent)
    total = float(multiplied.sum())
    if total <= 0:  # every point with a small exponent has weight 0
        return weights, 0.0
    multiplied /= total
    divergence = shift - math.log(total) - float(exponent @ multiplied)
    return multiplied, max(divergence, 0.0)
