"""Maximum entropy on an interval or a product of intervals, from a few noisy moments, by damped Newton steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from synthdp.arrays import BoolArray, FloatArray, Weights
from synthdp.checks import check_whole
from synthdp.errors import InternalError, ParameterError, SolverFailedError
from synthdp.fit.explicit.linear_program import optimum
from synthdp.fit.explicit.problem import checked_prior

_MAX_HALVINGS = 60
"""Most halvings of a Newton step in the line search.  A numerical tolerance: a 2^60th of a step is lost in rounding."""
_SUFFICIENT_DECREASE = 1e-4
"""Fraction of the predicted decrease that a step must achieve (Armijo's constant). A numerical tolerance."""
_ROUNDING = 1e-13
"""Relative increase of the objective that the line search forgives as rounding.  A numerical tolerance: some hundred times
the rounding of one 64-bit operation."""


class NewtonFit(NamedTuple):
    """For each of d problems its distribution, (d, N), and whether Newton's method converged, (d,)."""

    weights: FloatArray
    converged: BoolArray


class _Dual(NamedTuple):
    """The dual of d problems at y: values (d,), distributions (d, N), gradients (d, p)."""

    values: FloatArray
    weights: FloatArray
    gradients: FloatArray


def closest_to_moments(
    moments: FloatArray,
    variance: FloatArray,
    *,
    features: FloatArray,
    log_prior: FloatArray,
    tolerance: float,
    max_steps: int,
) -> NewtonFit:
    """Return for each problem the distribution closest to the prior that explains its noisy moments.

    Minimises KL(w ‖ prior) + ½ Σ_i (A_i w − moment_i)² / variance_i by damped Newton steps on its dual
    log Σ prior · exp(A'y) − y'moments + ½ Σ_i variance_i y_i².

    Parameters
    ----------
    moments
        (d, p) noisy averages of the features, one row a problem.
    variance
        (d, p) variances of their noise, > 0.
    features
        (p, N) the functions A on the N points.
    log_prior
        (N,) logarithms of the prior.
    tolerance
        Largest gradient, in the size of the moments, at which a problem has converged; about the rounding or more.
    max_steps
        Most Newton steps.
    """
    y = np.zeros_like(moments)
    state = _dual(y, moments, variance, features, log_prior)
    for _ in range(max_steps):
        if _converged(state, moments, tolerance).all():
            break
        y, state = _step(y, state, moments, variance, features, log_prior)
    return NewtonFit(state.weights, _converged(state, moments, tolerance))


def dual_hessians(weights: FloatArray, variance: FloatArray, *, features: FloatArray) -> FloatArray:
    """Return the second derivative of each problem's dual, (d, p, p), which Newton steps and error bars invert.

    It is the covariance of the features, plus the variance of the noise on the diagonal.

    Parameters
    ----------
    weights
        (d, N) distributions.
    variance
        (d, p) variances of the noise of the problems' moments.
    features
        (p, N) the functions whose averages are the moments, on the N points.
    """
    means = weights @ features.T
    hessians: FloatArray = np.einsum("dn,in,jn->dij", weights, features, features, optimize=True)
    hessians -= means[:, :, None] * means[:, None, :]
    diagonal = np.arange(len(features))
    hessians[:, diagonal, diagonal] += variance
    return hessians


def _dual(
    y: FloatArray, moments: FloatArray, variance: FloatArray, features: FloatArray, log_prior: FloatArray
) -> _Dual:
    """Evaluate the dual of each problem at y, (d, p): value, distribution and gradient, for Newton's steps."""
    exponents = y @ features + log_prior
    shift = exponents.max(axis=1, keepdims=True)
    weights = np.exp(exponents - shift)
    totals = weights.sum(axis=1, keepdims=True)
    weights /= totals
    log_partition = (shift + np.log(totals))[:, 0]
    values = log_partition - (y * moments).sum(axis=1) + 0.5 * (variance * y * y).sum(axis=1)
    return _Dual(values=values, weights=weights, gradients=weights @ features.T - moments + variance * y)


def _converged(state: _Dual, moments: FloatArray, tolerance: float) -> BoolArray:
    """Return which problems, (d,), have a gradient of at most ``tolerance`` times 1 plus their largest moment."""
    small: BoolArray = np.abs(state.gradients).max(axis=1) <= tolerance * (1.0 + np.abs(moments).max(axis=1))
    return small


def _step(
    y: FloatArray,
    state: _Dual,
    moments: FloatArray,
    variance: FloatArray,
    features: FloatArray,
    log_prior: FloatArray,
) -> tuple[FloatArray, _Dual]:
    """Take one Newton step for each problem, halved until its dual falls enough; return new y, (d, p), and state."""
    hessians = dual_hessians(state.weights, variance, features=features)
    direction = -np.linalg.solve(hessians, state.gradients[:, :, None])[:, :, 0]
    slope = (direction * state.gradients).sum(axis=1)
    slack = _ROUNDING * (np.abs(state.values) + 1.0)
    steps = np.ones(y.shape[0])
    for _ in range(_MAX_HALVINGS):
        moved = y + steps[:, None] * direction
        candidate = _dual(moved, moments, variance, features, log_prior)
        short = candidate.values > state.values + _SUFFICIENT_DECREASE * steps * slope + slack
        if not short.any():
            break
        steps[short] *= 0.5
    return moved, candidate


_MAX_STEPS = 60
"""Most Newton iterations of `max_entropy`. A numerical tolerance."""
_GRADIENT = 1e-13
"""Gradient at which `max_entropy` has converged, relative to the moments.  A numerical tolerance, not far above rounding."""
_LEAST_VARIANCE = 1e-12
"""Least variance that moments are given, so that the dual has a minimum also for exact moments on the boundary.  A
numerical tolerance.
"""


class MomentRange(NamedTuple):
    """The least and the largest possible average."""

    lower: float
    upper: float


def average_range(f: FloatArray, A: FloatArray, *, lower: FloatArray, upper: FloatArray) -> MomentRange:
    """Return the least and the largest average of f over measures whose moments lie in given ranges.

    The average is f'u / N.  The measures are u >= 0 on m points with total N = sum u > 0 and lower <= A u <= upper.
    The ratio is made linear by v = u / N, s = 1 / N (Charnes, Cooper 1962).  Ranges that no measure meets are widened
    at both ends, all by the least amount that makes them meet one.  If only measures near 0 meet them, the result is
    the range of f.

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
        return MomentRange(float(f.min()), float(f.max()))
    return MomentRange(least, -most)


def _least_average(cost: FloatArray, A: FloatArray, middle: FloatArray, half: FloatArray) -> float | None:
    """Return the least average of ``cost`` over measures whose moments lie within middle ± half.

    ``cost`` is (m + 1,), with a 0 for the scale.  None if there is no such measure.  `average_range` asks it for both
    ends.
    """
    m = A.shape[1]
    found = optimum(
        cost,
        rows=np.vstack([np.column_stack([A, -(middle + half)]), np.column_stack([-A, middle - half])]),
        limits=np.zeros(2 * len(A)),
        equal=(np.append(np.ones(m), 0.0)[None, :], np.ones(1)),
    )
    return None if found is None else found.value


def _least_widening(A: FloatArray, middle: FloatArray, half: FloatArray) -> float:
    """Return the least t at which some measure has all moments within middle ± (half + t).

    The result is in the unit of ``middle``, >= 0, with a margin for rounding.  The measure may have any total.  Noise
    can leave no measure at t = 0, and the range of an average would then be empty.
    """
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
        (p,) standard deviations of their noise.

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
    """Return the derivative of the average of f under `max_entropy` in each of its moments, (p,), for error bars.

    ``A`` and ``stddev`` are parameters of `max_entropy`, ``weights`` is its result, and ``f``, (m,), is any function.
    """
    hessian = dual_hessians(weights[None], _variance(stddev)[None], features=A)[0]
    covariance = (A * weights) @ f - (A @ weights) * float(f @ weights)
    return np.asarray(np.linalg.solve(hessian, covariance), np.float64)


def _variance(stddev: FloatArray) -> FloatArray:
    """Return the squares of moments' standard deviations, (p,), at least `_LEAST_VARIANCE`, so that a fit exists."""
    return np.maximum(np.asarray(stddev, np.float64) ** 2, _LEAST_VARIANCE)


_LEAST_STDDEV = 1e-4
"""Least standard deviation that a moment is given: exact moments are met to about the grid's resolution, since a moment
on the edge has no density.  A numerical tolerance.
"""

_MAX_PRODUCT_STEPS = 100
"""Most Newton steps of `product_max_entropy`; more are not needed where a density exists.  A safety limit."""
_PRODUCT_GRADIENT = 1e-10
"""Gradient at which `product_max_entropy` has converged, relative to the moments.  A numerical tolerance."""
_INFLATION = 10.0
"""Factor on a column's variance when its fit fails and is repeated.  A larger value needs fewer repetitions, but may forget
more of the moments than is needed.  A numerical tolerance: only fits that fail without it are repeated."""
_MAX_INFLATIONS = 30
"""Most repetitions of a failed fit with larger variance.  A safety limit."""


class ChebyshevGrid(NamedTuple):
    """Grid points in (−1, 1), ascending, (N,), and the weights, (N,), that make weighted sums uniform averages."""

    nodes: FloatArray
    weights: FloatArray


def chebyshev_grid(nodes: int = 201) -> ChebyshevGrid:
    """Return the Gauss-Chebyshev nodes cos((i + ½)π / N) with weights ∝ sqrt(1 − g²), the uniform law on [−1, 1].

    Averages of Chebyshev polynomials under a density become sums over these N nodes.

    Raises
    ------
    ParameterError
        If ``nodes`` is below 2.
    """
    check_whole("nodes", nodes, least=2)
    angles = (np.arange(nodes)[::-1] + 0.5) * np.pi / nodes
    weights = np.sin(angles)
    return ChebyshevGrid(nodes=np.cos(angles), weights=weights / weights.sum())


def chebyshev_moments(nodes: FloatArray, count: int) -> FloatArray:
    """Return the values of the Chebyshev polynomials T_1 … T_count at (N,) points of [−1, 1], (count, N).

    Their averages over a distribution on the points are its moments.
    """
    return np.cos(np.arange(1, count + 1)[:, None] * np.arccos(nodes)[None, :])


def product_max_entropy(
    moments: FloatArray, stddev: FloatArray | float, *, nodes: int | FloatArray = 201, prior: FloatArray | None = None
) -> FloatArray:
    """Return for each column the density closest to the prior that explains its noisy Chebyshev moments.

    Column by column the minimum of KL(w ‖ prior) + ½ Σ_i (E_w[T_i] − moment_i)² / stddev_i², by damped Newton steps on
    its dual log Σ prior · exp(Σ_i y_i T_i) − y'moments + ½ Σ_i stddev_i² y_i².  A moment within its noise of the
    prior's hardly moves the density.  Moments that no density has (noise can do that) are met as closely as one can.
    Moments hundreds of standard deviations from any density's make the dual too steep for floating point: such a column
    is fitted again with its variance multiplied by 10 until Newton's method converges.

    Parameters
    ----------
    moments
        (d, p) noisy averages of T_1 … T_p, one row per column.
    stddev
        Standard deviation of the noise, scalar or broadcast to (d, p); values below 1e-4 count as 1e-4.
    nodes
        Number N of Chebyshev nodes, see `chebyshev_grid`; or (N,) points of [−1, 1] to use instead.
    prior
        (N,) prior weights on the nodes; if absent, uniform on [−1, 1], or on the given points.

    Returns
    -------
    FloatArray
        (d, N) weights; each row is non-negative and sums to 1.

    Raises
    ------
    ParameterError
        If shapes disagree or a value is not finite or a standard deviation or prior weight is negative.
    SolverFailedError
        If Newton's method does not converge.
    """
    b, variance = _checked(moments, stddev)
    grid = chebyshev_grid(nodes) if isinstance(nodes, int) else _points_grid(nodes)
    count = grid.nodes.size
    T = chebyshev_moments(grid.nodes, b.shape[1])
    log_prior = _log_prior(grid.weights if prior is None else prior, nodes=count)
    weights = np.empty((b.shape[0], count))
    pending = np.arange(b.shape[0])
    for inflation in range(_MAX_INFLATIONS):
        inflated = variance[pending] * _INFLATION**inflation
        found, converged = closest_to_moments(
            b[pending],
            inflated,
            features=T,
            log_prior=log_prior,
            tolerance=_PRODUCT_GRADIENT,
            max_steps=_MAX_PRODUCT_STEPS,
        )
        weights[pending[converged]] = found[converged]
        pending = pending[~converged]
        if pending.size == 0:
            return weights
    status = f"Newton's method did not converge in {_MAX_PRODUCT_STEPS} steps."
    raise SolverFailedError(f"{status[:-1]}: give fewer moments, or a larger stddev", status=status)


def _checked(moments: FloatArray, stddev: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """Return (columns, moments) moments and variances of their noise, at least the square of `_LEAST_STDDEV`.

    Raise ParameterError for other shapes, numbers that are not finite, or negative standard deviations.
    """
    b = np.asarray(moments, dtype=np.float64)
    if b.ndim != 2 or b.shape[1] == 0:
        raise ParameterError(f"moments must have shape (columns, moments), not {b.shape}")
    try:
        spread = np.broadcast_to(np.asarray(stddev, dtype=np.float64), b.shape)
    except ValueError:
        raise ParameterError(f"stddev must broadcast to the shape of moments {b.shape}") from None
    if not np.isfinite(b).all():
        raise ParameterError("moments must be finite")
    if not (np.isfinite(spread).all() and (spread >= 0).all()):
        raise ParameterError("stddev must be finite and non-negative")
    return b, np.maximum(spread, _LEAST_STDDEV) ** 2


def _points_grid(points: FloatArray) -> ChebyshevGrid:
    """Return given points of [-1, 1] as a grid of equal weights; raise ParameterError for any others."""
    nodes = np.asarray(points, dtype=np.float64)
    if nodes.ndim != 1 or nodes.size == 0 or not (np.abs(nodes) <= 1).all():
        raise ParameterError("nodes must be a number of nodes or a vector of points in [-1, 1]")
    return ChebyshevGrid(nodes=nodes, weights=np.full(nodes.size, 1 / nodes.size))


def _log_prior(prior: FloatArray, *, nodes: int) -> FloatArray:
    """Return the logarithms of a prior over nodes, (nodes,), normalised; -inf where it is 0.

    Raise ParameterError unless it is finite, not negative and not all zero.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(checked_prior(prior, m=nodes, of="node")), np.float64)
