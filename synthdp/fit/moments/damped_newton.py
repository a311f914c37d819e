"""Maximum entropy under noisy moments: damped Newton steps on the dual, for many small problems at once.

Used where a quasi-Newton method would stop far too early.  Knows neither tables nor noise laws.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from synthdp.arrays import BoolArray, FloatArray

_MAX_HALVINGS = 60
_SUFFICIENT_DECREASE = 1e-4
_ROUNDING = 1e-13


class NewtonFit(NamedTuple):
    """For each of d problems its distribution, (d, N), and whether Newton's method converged, (d,)."""

    weights: FloatArray
    converged: BoolArray


class _Dual(NamedTuple):
    """The dual at y per problem: (d,) values, (d, N) distributions, (d, p) gradients."""

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
        (d, p) of their noise, > 0.
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
    """Return the second derivative of each problem's dual, (d, p, p): the covariance of the features, plus the variance.

    Parameters
    ----------
    weights
        (d, N) distributions.
    variance, features
        As in `closest_to_moments`.
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
    exponents = y @ features + log_prior
    shift = exponents.max(axis=1, keepdims=True)
    weights = np.exp(exponents - shift)
    totals = weights.sum(axis=1, keepdims=True)
    weights /= totals
    log_partition = (shift + np.log(totals))[:, 0]
    values = log_partition - (y * moments).sum(axis=1) + 0.5 * (variance * y * y).sum(axis=1)
    return _Dual(values=values, weights=weights, gradients=weights @ features.T - moments + variance * y)


def _converged(state: _Dual, moments: FloatArray, tolerance: float) -> BoolArray:
    """Return per problem whether the gradient is small for the size of the moments."""
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
    """Make one Newton step per problem, halved until the dual falls enough."""
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
