"""A distribution on few points from noisy linear moments: the range of an average, and maximum entropy.

Used for the 2^k truth assignments of k literals; knows neither tables nor noise laws.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from synthdp.arrays import FloatArray, Weights
from synthdp.errors import InternalError
from synthdp.fit.explicit.linear_program import optimum
from synthdp.fit.moments.damped_newton import closest_to_moments, dual_hessians

_MAX_STEPS = 60
_GRADIENT = 1e-13
_LEAST_VARIANCE = 1e-12
"""Variance that exact moments count as having, so that the dual has a minimum also on the boundary."""


class Interval(NamedTuple):
    """A lower and an upper end."""

    lower: float
    upper: float


def average_range(f: FloatArray, A: FloatArray, *, lower: FloatArray, upper: FloatArray) -> Interval:
    """Return the least and the largest average of f over measures whose moments lie in given ranges.

    Over measures u >= 0 on m points with total N = sum u > 0 and lower <= A u <= upper, the range of f'u / N.
    The ratio is made linear by v = u / N, s = 1 / N (Charnes, Cooper 1962).  Ranges that no measure meets are widened
    together, by the least common factor that makes them meet one.

    Parameters
    ----------
    f
        (m,) the function.
    A
        (p, m) the moments' functions.
    lower, upper
        (p,) their ranges, on the scale of u.
    """
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    scale = float(np.abs(middle).max()) or 1.0
    middle, half = middle / scale, half / scale
    cost = np.append(f, 0.0)
    least = _least_average(cost, A, middle, half)
    if least is None:
        half = half + _least_widening(A, middle, half)
        least = _least_average(cost, A, middle, half)
    most = _least_average(-cost, A, middle, half)
    if least is None or most is None:  # only measures near 0 meet the ranges: they say nothing
        return Interval(float(f.min()), float(f.max()))
    return Interval(least, -most)


def _least_average(cost: FloatArray, A: FloatArray, middle: FloatArray, half: FloatArray) -> float | None:
    m = A.shape[1]
    found = optimum(
        cost,
        rows=np.vstack([np.column_stack([A, -(middle + half)]), np.column_stack([-A, middle - half])]),
        limits=np.zeros(2 * len(A)),
        equal=(np.append(np.ones(m), 0.0)[None, :], np.ones(1)),
    )
    return None if found is None else found.value


def _least_widening(A: FloatArray, middle: FloatArray, half: FloatArray) -> float:
    """Return how much wider the ranges must be, plus a rounding, for some measure to meet them."""
    p, m = A.shape
    free = np.ones((p, 1))
    found = optimum(
        np.append(np.zeros(m), 1.0),
        rows=np.vstack([np.hstack([A, -free]), np.hstack([-A, -free])]),
        limits=np.concatenate([middle + half, half - middle]),
    )
    if found is None:
        raise InternalError("a program that always has a solution had none")
    return found.value * (1 + 1e-6) + 1e-9


def max_entropy(A: FloatArray, moments: FloatArray, *, stddev: FloatArray) -> Weights:
    """Return the distribution closest to uniform that explains noisy averages.

    Minimises KL(w || uniform) + 1/2 sum_i (A_i w - moment_i)^2 / stddev_i^2, see `closest_to_moments`.

    Parameters
    ----------
    A
        (p, m) bounded functions on m points.
    moments
        (p,) their noisy averages.
    stddev
        (p,) of the noise.

    Returns
    -------
    (m,) weights, >= 0, sum 1.
    """
    uniform = np.full(A.shape[1], -np.log(A.shape[1]))
    found = closest_to_moments(
        moments[None], _variance(stddev)[None], features=A, log_prior=uniform, tolerance=_GRADIENT, max_steps=_MAX_STEPS
    )
    return np.asarray(found.weights[0], np.float64)


def max_entropy_sensitivity(f: FloatArray, A: FloatArray, weights: Weights, *, stddev: FloatArray) -> FloatArray:
    """Return by how much the average of f under `max_entropy` moves with each of its (p,) moments.

    Parameters as there; ``weights`` is what it returned.
    """
    hessian = dual_hessians(weights[None], _variance(stddev)[None], features=A)[0]
    covariance = (A * weights) @ f - (A @ weights) * float(f @ weights)
    return np.asarray(np.linalg.solve(hessian, covariance), np.float64)


def _variance(stddev: FloatArray) -> FloatArray:
    return np.maximum(np.asarray(stddev, np.float64) ** 2, _LEAST_VARIANCE)
