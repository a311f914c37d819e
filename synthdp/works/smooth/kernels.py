"""Gaussian kernels as smooth queries: K, B and t for a width sigma, and the error of a truncated series.

The kernel exp(-|x - c|^2 / 2 sigma^2) is a product of one function per column, and all its derivatives have closed
forms. All functions are pure functions of public numbers; proofs are in docs/mechanisms/smooth-queries.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.polynomial import hermite_e

from synthdp.arrays import FloatArray, Weights, frozen
from synthdp.checks import check_number, check_whole
from synthdp.errors import ParameterError
from synthdp.privacy.loss import PrivacyLoss
from synthdp.privacy.neighbors import Neighbors
from synthdp.randomness import Generator
from synthdp.works.smooth.chebyshev import MAX_TERMS, chebyshev_table
from synthdp.works.smooth.theory import coefficient_stddev, projection_norm

_BLOCK = 4_000_000
"""Most kernel values held in memory at once. A safety limit of memory: 32 MB of 64-bit numbers."""


@runtime_checkable
class SeparableQueries(Protocol):
    """k functions f_q(x) = sum_j weights[q, j] * prod_i g_{q,j,i}(x_i), which need one-dimensional transforms only."""

    @property
    def k(self) -> int:
        """Return the number of functions."""
        ...

    @property
    def d(self) -> int:
        """Return the number of columns."""
        ...

    @property
    def weights(self) -> FloatArray:
        """Return the (k, J) weights of the products."""
        ...

    def factors(self, column: int, x: FloatArray, queries: slice) -> FloatArray:
        """Return the factors g_{q,j,column} at N numbers ``x``, for some queries of J products each, (q, J, N)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GaussianKernels:
    """k queries f_q(x) = sum_j weights[q, j] exp(-‖x - centers[q, j]‖² / (2 sigma²)).

    Parameters
    ----------
    centers
        (k, J, d) points.
    weights
        (k, J) weights of the kernels.
    sigma
        Width of all kernels, from 1e-100 to 1e100, so that its square stays within the range of floats.

    Raises
    ------
    ParameterError
        If shapes disagree, a value is not finite, or sigma is out of range.
    """

    centers: FloatArray
    weights: FloatArray
    sigma: float

    def __post_init__(self) -> None:
        centers, weights = np.array(self.centers, np.float64), np.array(self.weights, np.float64)
        if centers.ndim != 3 or 0 in centers.shape or weights.shape != centers.shape[:2]:
            raise ParameterError(
                f"centers must have a shape (k, J, d), not {centers.shape}, and weights must have the shape (k, J), "
                f"not {weights.shape}"
            )
        if not (np.isfinite(centers).all() and np.isfinite(weights).all()):
            raise ParameterError("centers and weights must be finite")
        check_number("sigma", self.sigma, least=1e-100, most=1e100)
        object.__setattr__(self, "centers", frozen(centers))
        object.__setattr__(self, "weights", frozen(weights))

    @classmethod
    def random(cls, count: int, *, d: int, sigma: float, rng: Generator, terms: int = 10) -> GaussianKernels:
        """Draw the workload of the slides' table: uniform centres in [-1, 1]^d, and uniform weights scaled to sum 1."""
        centers = rng.uniform(-1.0, 1.0, (count, terms, d))
        weights = rng.uniform(0.0, 1.0, (count, terms))
        return cls(centers=centers, weights=weights / weights.sum(axis=1, keepdims=True), sigma=sigma)

    @classmethod
    def at(cls, points: FloatArray, *, sigma: float) -> GaussianKernels:
        """Return one query for each of (k, d) points: a kernel of height 1 with its centre there."""
        return cls(centers=points[:, None, :], weights=np.ones((len(points), 1)), sigma=sigma)

    @property
    def k(self) -> int:
        """Return the number of queries."""
        return int(self.centers.shape[0])

    @property
    def d(self) -> int:
        """Return the number of columns."""
        return int(self.centers.shape[2])

    def with_sigma(self, sigma: float) -> GaussianKernels:
        """Return the same centres and weights with another width."""
        return GaussianKernels(centers=self.centers, weights=self.weights, sigma=sigma)

    def factors(self, column: int, x: FloatArray, queries: slice) -> FloatArray:
        """Return exp(-(x - c)^2 / (2 sigma^2)) of one column at N numbers x, for every centre c of some of the queries.

        The result is (q, J, N) for q queries of J kernels each.  The product of these factors over all columns is a kernel.
        """
        apart = x - self.centers[queries, :, column, None]
        return np.exp(apart * apart * (-0.5 / self.sigma**2))

    def values(self, points: FloatArray) -> FloatArray:
        """Return the value of every query at (m, d) points, (m, k)."""
        found = np.empty((len(points), self.k))
        for queries, kernels in self._kernels(points):
            found[:, queries] = (kernels * self.weights[queries]).sum(axis=2)
        return found

    def averages(self, points: FloatArray, weights: Weights | None = None) -> FloatArray:
        """Return the average of every query over (m, d) points, (k,), such as the true answers on a table.

        Parameters
        ----------
        points
            Rows of a table scaled to [-1, 1]^d.
        weights
            (m,) weights of the points with sum 1; equal if absent.
        """
        found = np.empty(self.k)
        shares = np.full(len(points), 1 / len(points)) if weights is None else weights
        for queries, kernels in self._kernels(points):
            means = (shares @ kernels.reshape(len(points), -1)).reshape(kernels.shape[1:])
            found[queries] = (means * self.weights[queries]).sum(axis=1)
        return found

    def _kernels(self, points: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Yield blocks of queries with their kernels at all points, (m, q, J), each block within `_BLOCK` values."""
        x = np.asarray(points, np.float64)
        if x.ndim != 2 or x.shape[1] != self.d or len(x) == 0:
            raise ParameterError(f"points must be an (m, {self.d}) array of at least one point, not {x.shape}")
        terms = self.centers.shape[1]
        step = max(1, _BLOCK // (len(x) * terms))
        squares = (x * x).sum(axis=1)[:, None]
        for start in range(0, self.k, step):
            queries = slice(start, min(start + step, self.k))
            centers = self.centers[queries].reshape(-1, self.d)
            exponents = x @ centers.T
            exponents *= 2.0
            exponents -= squares
            exponents -= (centers * centers).sum(axis=1)
            exponents *= 0.5 / self.sigma**2
            yield queries, np.exp(np.minimum(exponents, 0.0, out=exponents), out=exponents).reshape(len(x), -1, terms)


MAX_ORDER = 60
"""Largest order of derivatives that bounds are minimised over. A safety limit: factorials and powers of the width stay
within the range of floats."""

LEAST_WIDTH, MOST_WIDTH = 1e-3, 1e6
"""Least and largest width of a kernel for which degrees are chosen, so that 60 derivatives stay within the range of
floats. A safety limit."""

MOST_DEGREES = 512
"""Most degrees that `kernel_degrees` tries: beyond, planning would take longer than the release.  A safety limit."""

_RADII = np.concatenate([1 + np.geomspace(1e-3, 1, 120), np.geomspace(2, 1e4, 200)[1:]])
"""Grid of r, the sum of the half-axes of an ellipse, for the least bound on a kernel's Chebyshev coefficients. A
numerical tolerance."""

_CENTRES, _NODES = 41, 512
"""Numbers of kernel centres, and of quadrature nodes, for the largest norm of a kernel's coefficients. More compute it
more closely. A numerical tolerance."""


def check_width(sigma: object) -> None:
    """Raise ParameterError unless a width is a number from `LEAST_WIDTH` to `MOST_WIDTH`."""
    check_number("sigma", sigma, least=LEAST_WIDTH, most=MOST_WIDTH)


def kernel_smoothness(sigma: float) -> int:
    """Return K, the largest whole number up to 2 sigma^2, at least 1 and at most `MAX_ORDER`.

    All derivatives of a kernel up to order K are then at most 1, in any number of columns. The rule fails for sigma
    below 1/sqrt(2), where K is 1 nevertheless; `kernel_bound` returns B there.
    """
    check_width(sigma)
    return int(min(MAX_ORDER, max(1, math.floor(2 * sigma**2 * (1 + 1e-12)))))  # sigma = sqrt(K / 2) gives K


def kernel_bound(smoothness: int, *, sigma: float) -> float:
    """Return B, the largest derivative up to order K of a kernel of width sigma, in any number of columns: exact."""
    check_whole("smoothness", smoothness, most=MAX_ORDER)
    check_width(sigma)
    return max(derivative_peak(k) * sigma**-k for k in range(smoothness + 1))


@lru_cache(maxsize=MAX_ORDER + 1)
def derivative_peak(k: int) -> float:
    """Return the largest partial derivative of total order k of exp(-|x|^2/2), over all points, in k or more columns.

    In one column the peak is max |He_k(u)| exp(-u^2/2), which is (k-1)!! for even k. In more columns peaks of lower
    orders multiply.
    """
    across = (derivative_peak(j) * derivative_peak(k - j) for j in range(1, k // 2 + 1))
    return max(_peak(k), *across, 0.0)


def _peak(k: int) -> float:
    """Return the largest k-th derivative of exp(-u^2/2) in size, max |He_k(u)| exp(-u^2/2).

    The maximum is attained at a root of He_{k+1}.  It bounds the derivatives of a kernel.
    """
    roots = np.abs(hermite_e.hermegauss(k + 1)[0])
    values = np.abs(hermite_e.hermeval(roots, [0.0] * k + [1.0])) * np.exp(-(roots**2) / 2)
    return float(values.max())


@lru_cache(maxsize=4096)
def kernel_gap(t: int, *, nodes: int, sigma: float) -> float:
    """Return a bound on sup |g - Pg| for a kernel g of width sigma, with projection P as in `truncation_bound`.

    The kernel is g(x) = exp(-(x - c)^2 / 2 sigma^2) with |c| <= 1. The bound is the smaller of two. The first is
    Jackson's: (1 + Λ) times the best bound over all orders. The second uses the Chebyshev coefficients, which are at
    most 2 M r^-m.  Here M = exp((r - 1/r)^2 / 8 sigma^2) is the largest |g| on the ellipse of radius r around [-1, 1].
    Truncation adds their sum from t on, and aliasing their sum from 2 N - t + 1 on.
    """
    if sigma < LEAST_WIDTH:  # the bounds below overflow, and |g| <= 1 gives this one
        return 1 + projection_norm(t, nodes)
    sigma = min(sigma, MOST_WIDTH)
    tails = _tail(t, sigma) + _tail(2 * nodes - t + 1, sigma)
    product, best = 1.0, 1.0
    for k in range(1, min(MAX_ORDER, t - 1) + 1):
        product *= math.pi / 2 / (t - k + 1)
        best = min(best, product * _peak(k) * sigma**-k)
    # the norm is at least 1, so it need not be computed if the second bound is at most 2 times the first's factor
    return tails if tails <= 2 * best else min((1 + projection_norm(t, nodes)) * best, tails)


def _tail(start: int, sigma: float) -> float:
    """Return the bound of `kernel_gap` on the summed sizes of a kernel's Chebyshev coefficients of degree >= ``start``.

    The bound is 2 M r^-m summed over m, with M = exp((r - 1/r)^2 / 8 sigma^2), and the least of these over r.
    """
    logs = (_RADII - 1 / _RADII) ** 2 / (8 * sigma**2) + (1 - start) * np.log(_RADII) - np.log(_RADII - 1)
    return float(2 * np.exp(min(logs.min(), 700.0)))  # e^710 exceeds the range of floats


def kernel_truncation(queries: GaussianKernels, t: int, *, nodes: int, cells: int) -> FloatArray:
    """Return a proven bound on the bias of each query's answer, (k,).

    The bound is sum_j |weight_j| ((1 + e)^d - 1 + d L / cells), with e of `kernel_gap`. Kernels are at most 1, so
    errors e of d factors add up to no more than (1 + e)^d - 1. The last term covers the cells on which the table is
    read; L is the largest slope in a column.
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
    """Return the expected error of a kernel's answer at t degrees, which `kernel_degrees` minimises over t.

    The error adds the truncation of one kernel at N = 2t and its noise for the worst centre.
    """
    truncation = (1 + kernel_gap(t, nodes=2 * t, sigma=sigma)) ** d - 1
    noise = coefficient_stddev(t, rows=rows, d=d, loss=loss, neighbors=neighbors)
    return truncation + kernel_norm(sigma=sigma, d=d) * noise


def kernel_degrees(
    rows: float, *, d: int, sigma: float, loss: PrivacyLoss, neighbors: Neighbors | str = Neighbors.REPLACE_ONE
) -> int:
    """Return the number t of degrees with the least `kernel_error`, within the limits `MOST_DEGREES` and `MAX_TERMS`.

    Beyond 64 the search tries degrees that are a thirty-second apart.
    """
    check_number("rows", rows, least=1)
    check_whole("d", d)
    check_width(sigma)
    best, least, t = 2, math.inf, 2
    while t**d <= MAX_TERMS and t <= MOST_DEGREES:
        error = kernel_error(t, rows=rows, d=d, sigma=sigma, loss=loss, neighbors=neighbors)
        if error < least:
            best, least = t, error
        noise = coefficient_stddev(t, rows=rows, d=d, loss=loss, neighbors=neighbors)
        if kernel_norm(sigma=sigma, d=d) * noise > least:  # noise grows with t, so no later t is better
            break
        t += max(1, t // 32)
    return best


@lru_cache(maxsize=256)
def kernel_norm(*, sigma: float, d: int) -> float:
    """Return the largest Euclidean norm of a kernel's coefficients except the constant, over centres (c, ..., c).

    Times the noise of an average, it is the noise of the worst kernel's answer among these. Centres c from 0 to 1
    suffice, because -c has coefficients of the same size.
    """
    x = np.cos((np.arange(_NODES) + 0.5) * np.pi / _NODES)
    centres = np.linspace(0.0, 1.0, _CENTRES)
    values = np.exp(-((x - centres[:, None]) ** 2) / (2 * sigma**2))
    coefficients = values @ chebyshev_table(x, _NODES // 2) * (2 / _NODES)
    coefficients[:, 0] /= 2
    squares = (coefficients**2).sum(axis=1)
    return float(np.sqrt(np.max(squares**d - coefficients[:, 0] ** (2 * d))))
