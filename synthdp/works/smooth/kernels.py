"""Gaussian kernels as smooth queries: from a width sigma to K, B and t, and how far a truncated series is off.

exp(-|x - c|^2 / 2 sigma^2) is a product of one function per column, and all its derivatives are known.  Pure functions of
public numbers; proofs in docs/mechanisms/smooth-queries.md.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.polynomial import hermite_e

from synthdp.arrays import FloatArray
from synthdp.checks import check_number, check_whole
from synthdp.privacy.loss import PrivacyLoss
from synthdp.privacy.neighbors import Neighbors
from synthdp.works.smooth.chebyshev import MAX_TERMS, chebyshev_table
from synthdp.works.smooth.gaussian_kernels import GaussianKernels
from synthdp.works.smooth.theory import coefficient_stddev, projection_norm

MAX_ORDER = 60
"""Largest order of derivatives that is looked at."""

LEAST_WIDTH, MOST_WIDTH = 1e-3, 1e6
"""The widths for which degrees are chosen; 60 derivatives stay within the range of floating point there."""

MOST_DEGREES = 512
"""Most degrees that `kernel_degrees` tries: beyond, planning would take longer than the release."""

_RADII = np.concatenate([1 + np.geomspace(1e-3, 1, 120), np.geomspace(2, 1e4, 200)[1:]])
"""Sums of the half-axes of the ellipses that bound the coefficients of a kernel."""

_CENTRES, _NODES = 41, 512


def check_width(sigma: object) -> None:
    """Refuse a width out of range."""
    check_number("sigma", sigma, least=LEAST_WIDTH, most=MOST_WIDTH)


def kernel_smoothness(sigma: float) -> int:
    """Return K of the rule K <= 2 sigma^2, at least 1: all derivatives of a kernel up to order K are at most 1, in any d.

    At K = 1 and sigma below 1/sqrt(2) the rule gives nothing; `kernel_bound` says what B is then.
    """
    check_width(sigma)
    return int(min(MAX_ORDER, max(1, math.floor(2 * sigma**2 * (1 + 1e-12)))))


def kernel_bound(smoothness: int, *, sigma: float) -> float:
    """Return B, the largest derivative up to order K of a kernel of width sigma, in any number of columns: exact."""
    check_whole("smoothness", smoothness, most=MAX_ORDER)
    check_width(sigma)
    return max(derivative_peak(k) * sigma**-k for k in range(smoothness + 1))


@lru_cache(maxsize=MAX_ORDER + 1)
def derivative_peak(k: int) -> float:
    """Return the largest partial derivative of total order k of exp(-|x|^2/2), over all points, in k or more columns.

    In one column it is max |He_k(u)| exp(-u^2/2), (k-1)!! for even k; in more columns products of such peaks.
    """
    across = (derivative_peak(j) * derivative_peak(k - j) for j in range(1, k // 2 + 1))
    return max(_peak(k), *across, 0.0)


def _peak(k: int) -> float:
    """Return max |He_k(u)| exp(-u^2/2), which is attained at a root of He_{k+1}, the derivative's factor."""
    roots = np.abs(hermite_e.hermegauss(k + 1)[0])
    values = np.abs(hermite_e.hermeval(roots, [0.0] * k + [1.0])) * np.exp(-(roots**2) / 2)
    return float(values.max())


@lru_cache(maxsize=4096)
def kernel_gap(t: int, *, nodes: int, sigma: float) -> float:
    """Return a bound on sup |g - Pg| for g(x) = exp(-(x - c)^2 / 2 sigma^2), |c| <= 1, P as in `truncation_bound`.

    The least of two: Jackson's, (1 + Λ) times the best over all orders; and that of the Chebyshev coefficients, at most
    2 M r^-m on the ellipse of radius r around [-1, 1], where |g| is at most M = exp((r - 1/r)^2 / 8 sigma^2).  What is
    left out is their sum from t on, and what aliasing adds their sum from 2 N - t + 1 on.
    """
    if sigma < LEAST_WIDTH:
        return 1 + projection_norm(t, nodes)
    sigma = min(sigma, MOST_WIDTH)
    tails = _tail(t, sigma) + _tail(2 * nodes - t + 1, sigma)
    product, best = 1.0, 1.0
    for k in range(1, min(MAX_ORDER, t - 1) + 1):
        product *= math.pi / 2 / (t - k + 1)
        best = min(best, product * _peak(k) * sigma**-k)
    return tails if tails <= 2 * best else min((1 + projection_norm(t, nodes)) * best, tails)


def _tail(start: int, sigma: float) -> float:
    """Return min over r of the sum of 2 M r^-m from m = start on."""
    logs = (_RADII - 1 / _RADII) ** 2 / (8 * sigma**2) + (1 - start) * np.log(_RADII) - np.log(_RADII - 1)
    return float(2 * np.exp(min(logs.min(), 700.0)))


def kernel_truncation(queries: GaussianKernels, t: int, *, nodes: int, cells: int) -> FloatArray:
    """Return a proven bound on the bias of each query's answer, (k,).

    sum_j |weight_j| ((1 + e)^d - 1 + d L / cells): kernels are at most 1, so that errors e of d factors add up to no more
    than (1 + e)^d - 1; the last term covers the cells on which the table is read, L the largest slope in a column.
    """
    gap = (1 + kernel_gap(t, nodes=nodes, sigma=queries.sigma)) ** queries.d - 1
    rounding = queries.d * _peak(1) / queries.sigma / cells
    return np.asarray(np.abs(queries.weights).sum(axis=1) * (gap + rounding))


def kernel_error(
    t: int,
    *,
    rows: float,
    d: int,
    sigma: float,
    loss: PrivacyLoss,
    neighbors: Neighbors | str = Neighbors.REPLACE_ONE,
) -> float:
    """Return what `kernel_degrees` minimises: the truncation of a kernel at N = 2t, and its noise for the worst centre."""
    truncation = (1 + kernel_gap(t, nodes=2 * t, sigma=sigma)) ** d - 1
    noise = coefficient_stddev(t, rows=rows, d=d, loss=loss, neighbors=neighbors)
    return truncation + kernel_norm(sigma=sigma, d=d) * noise


def kernel_degrees(
    rows: float, *, d: int, sigma: float, loss: PrivacyLoss, neighbors: Neighbors | str = Neighbors.REPLACE_ONE
) -> int:
    """Return the number t of degrees that minimises `kernel_error`; beyond 64, of those a thirty-second apart."""
    check_number("rows", rows, least=1)
    check_whole("d", d)
    check_width(sigma)
    best, least, t = 2, math.inf, 2
    while t**d <= MAX_TERMS and t <= MOST_DEGREES:
        error = kernel_error(t, rows=rows, d=d, sigma=sigma, loss=loss, neighbors=neighbors)
        if error < least:
            best, least = t, error
        if (
            kernel_norm(sigma=sigma, d=d) * coefficient_stddev(t, rows=rows, d=d, loss=loss, neighbors=neighbors)
            > least
        ):
            break
        t += max(1, t // 32)
    return best


@lru_cache(maxsize=256)
def kernel_norm(*, sigma: float, d: int) -> float:
    """Return the largest Euclidean norm of a kernel's coefficients without the constant one, over centres (c, ..., c)."""
    x = np.cos((np.arange(_NODES) + 0.5) * np.pi / _NODES)
    centres = np.linspace(0.0, 1.0, _CENTRES)
    values = np.exp(-((x - centres[:, None]) ** 2) / (2 * sigma**2))
    coefficients = values @ chebyshev_table(x, _NODES // 2) * (2 / _NODES)
    coefficients[:, 0] /= 2
    squares = (coefficients**2).sum(axis=1)
    return float(np.sqrt(np.max(squares**d - coefficients[:, 0] ** (2 * d))))
