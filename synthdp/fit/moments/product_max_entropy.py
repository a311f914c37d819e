"""Product maximum entropy: one smooth density per column that explains that column's noisy moments.

Candidates for a fit on an explicit support are drawn from it.  Columns are independent and fitted all at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from synthdp.arrays import BoolArray, FloatArray
from synthdp.errors import ParameterError, SolverFailedError

_LEAST_STDDEV = 1e-4
"""Exact moments are matched to about the resolution of the grid: a moment on the edge has no density."""

_MAX_STEPS = 100
_MAX_HALVINGS = 60
_GRADIENT = 1e-10
_INFLATION = 10.0
_MAX_INFLATIONS = 30
_SUFFICIENT_DECREASE = 1e-4


class ChebyshevGrid(NamedTuple):
    """(N,) nodes in (−1, 1), ascending, and the (N,) weights that make sums over them uniform averages."""

    nodes: FloatArray
    weights: FloatArray


class _Dual(NamedTuple):
    """The dual at y per column: (d,) values, (d, N) densities, (d, p) gradients."""

    values: FloatArray
    weights: FloatArray
    gradients: FloatArray


def chebyshev_grid(nodes: int = 201) -> ChebyshevGrid:
    """Return the Gauss-Chebyshev nodes cos((i + ½)π / N) with weights ∝ sqrt(1 − g²), the uniform law on [−1, 1].

    Raises
    ------
    ParameterError
        If ``nodes`` is below 2.
    """
    if nodes < 2:
        raise ParameterError(f"nodes ({nodes}) must be at least 2")
    angles = (np.arange(nodes)[::-1] + 0.5) * np.pi / nodes
    weights = np.sin(angles)
    return ChebyshevGrid(nodes=np.cos(angles), weights=weights / weights.sum())


def chebyshev_moments(nodes: FloatArray, count: int) -> FloatArray:
    """Return (count, N): T_1 … T_count at ``nodes`` in [−1, 1]."""
    return np.cos(np.arange(1, count + 1)[:, None] * np.arccos(nodes)[None, :])


def product_max_entropy(
    moments: FloatArray, stddev: FloatArray | float, *, nodes: int | FloatArray = 201, prior: FloatArray | None = None
) -> FloatArray:
    """Return for each column the density closest to the prior that explains its noisy Chebyshev moments.

    Column by column the minimum of KL(w ‖ prior) + ½ Σ_i (E_w[T_i] − moment_i)² / stddev_i², by damped Newton steps on
    its dual log Σ prior · exp(Σ_i y_i T_i) − y'moments + ½ Σ_i stddev_i² y_i².  A moment within its noise of the
    prior's hardly moves the density, and moments that no density has (noise can do that) are met as closely as one can.
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
        found, converged = _newton(b[pending], inflated, T=T, log_prior=log_prior)
        weights[pending[converged]] = found[converged]
        pending = pending[~converged]
        if pending.size == 0:
            return weights
    status = f"Newton's method did not converge in {_MAX_STEPS} steps."
    raise SolverFailedError(f"the product fit failed: {status}", status=status)


def _checked(moments: FloatArray, stddev: FloatArray | float) -> tuple[FloatArray, FloatArray]:
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
    nodes = np.asarray(points, dtype=np.float64)
    if nodes.ndim != 1 or nodes.size == 0 or not (np.abs(nodes) <= 1).all():
        raise ParameterError("nodes must be a number of nodes or a vector of points in [-1, 1]")
    return ChebyshevGrid(nodes=nodes, weights=np.full(nodes.size, 1 / nodes.size))


def _log_prior(prior: FloatArray, *, nodes: int) -> FloatArray:
    weights = np.asarray(prior, dtype=np.float64)
    if weights.shape != (nodes,):
        raise ParameterError(f"prior must have one weight per node ({nodes}), not shape {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() <= 0:
        raise ParameterError("prior must be finite, non-negative and not all zero")
    with np.errstate(divide="ignore"):
        logarithms: FloatArray = np.log(weights / weights.sum())
    return logarithms


def _dual(y: FloatArray, b: FloatArray, variance: FloatArray, *, T: FloatArray, log_prior: FloatArray) -> _Dual:
    exponents = y @ T + log_prior
    shift = exponents.max(axis=1, keepdims=True)
    weights = np.exp(exponents - shift)
    totals = weights.sum(axis=1, keepdims=True)
    weights /= totals
    log_partition = (shift + np.log(totals))[:, 0]
    values = log_partition - (y * b).sum(axis=1) + 0.5 * (variance * y * y).sum(axis=1)
    return _Dual(values=values, weights=weights, gradients=weights @ T.T - b + variance * y)


def _newton(
    b: FloatArray, variance: FloatArray, *, T: FloatArray, log_prior: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Return the densities that damped Newton steps reach and which columns converged."""
    y = np.zeros_like(b)
    state = _dual(y, b, variance, T=T, log_prior=log_prior)
    for _ in range(_MAX_STEPS):
        if _converged(state, b).all():
            break
        y, state = _newton_step(y, state, b, variance, T=T, log_prior=log_prior)
    return state.weights, _converged(state, b)


def _converged(state: _Dual, b: FloatArray) -> BoolArray:
    """Return per column whether the gradient, in units of moments, is as small as rounding lets it be."""
    small: BoolArray = np.abs(state.gradients).max(axis=1) <= _GRADIENT * (1.0 + np.abs(b).max(axis=1))
    return small


def _newton_step(
    y: FloatArray, state: _Dual, b: FloatArray, variance: FloatArray, *, T: FloatArray, log_prior: FloatArray
) -> tuple[FloatArray, _Dual]:
    """Make one Newton step per column, halved until the dual falls enough."""
    direction = -np.linalg.solve(_hessians(state.weights, variance, T=T), state.gradients[:, :, None])[:, :, 0]
    slope = (direction * state.gradients).sum(axis=1)
    slack = 1e-13 * (np.abs(state.values) + 1.0)
    steps = np.ones(y.shape[0])
    for _ in range(_MAX_HALVINGS):
        moved = y + steps[:, None] * direction
        candidate = _dual(moved, b, variance, T=T, log_prior=log_prior)
        short = candidate.values > state.values + _SUFFICIENT_DECREASE * steps * slope + slack
        if not short.any():
            break
        steps[short] *= 0.5
    return moved, candidate


def _hessians(weights: FloatArray, variance: FloatArray, *, T: FloatArray) -> FloatArray:
    """Return (d, p, p): the covariance of the features under each density, plus the regulariser."""
    means = weights @ T.T
    hessians: FloatArray = np.einsum("dn,in,jn->dij", weights, T, T, optimize=True)
    hessians -= means[:, :, None] * means[:, None, :]
    diagonal = np.arange(T.shape[0])
    hessians[:, diagonal, diagonal] += variance
    return hessians
