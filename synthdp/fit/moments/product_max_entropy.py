"""Product maximum entropy: one smooth density per column that explains that column's noisy moments.

Candidates for a fit on an explicit support are drawn from it.  Columns are independent and fitted all at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.checks import check_whole
from synthdp.errors import ParameterError, SolverFailedError
from synthdp.fit.moments.damped_newton import closest_to_moments

_LEAST_STDDEV = 1e-4
"""Exact moments are matched to about the resolution of the grid: a moment on the edge has no density."""

_MAX_STEPS = 100
_GRADIENT = 1e-10
_INFLATION = 10.0
_MAX_INFLATIONS = 30


class ChebyshevGrid(NamedTuple):
    """(N,) nodes in (−1, 1), ascending, and the (N,) weights that make sums over them uniform averages."""

    nodes: FloatArray
    weights: FloatArray


def chebyshev_grid(nodes: int = 201) -> ChebyshevGrid:
    """Return the Gauss-Chebyshev nodes cos((i + ½)π / N) with weights ∝ sqrt(1 − g²), the uniform law on [−1, 1].

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
        found, converged = closest_to_moments(
            b[pending], inflated, features=T, log_prior=log_prior, tolerance=_GRADIENT, max_steps=_MAX_STEPS
        )
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
