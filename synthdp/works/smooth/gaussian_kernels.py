"""Sums of Gaussian kernels on [-1, 1]^d: the smooth queries that the papers are tested with.

Public functions of points; they read no table.  Separable, so that a trigonometric summary answers them in one
dimension at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from synthdp.arrays import FloatArray, Weights, frozen
from synthdp.checks import check_number
from synthdp.errors import ParameterError
from synthdp.randomness import Generator

_BLOCK = 4_000_000
"""Most kernel values held at once."""


@runtime_checkable
class SeparableQueries(Protocol):
    """k functions f_q(x) = sum_j weights[q, j] * prod_i g_{q,j,i}(x_i)."""

    @property
    def k(self) -> int:
        """Number of functions."""
        ...

    @property
    def d(self) -> int:
        """Number of columns."""
        ...

    @property
    def weights(self) -> FloatArray:
        """(k, J) weights of the products."""
        ...

    def factors(self, column: int, x: FloatArray, queries: slice) -> FloatArray:
        """Return g of one column at N points, for some of the queries: (q, J, N)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GaussianKernels:
    """k queries f_q(x) = sum_j weights[q, j] exp(-‖x - centers[q, j]‖² / (2 sigma²)).

    Parameters
    ----------
    centers
        (k, J, d) points.
    weights
        (k, J) weights.
    sigma
        Width of all kernels, from 1e-100 to 1e100.

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
            raise ParameterError(f"centers {centers.shape} must be (k, J, d), and weights {weights.shape} (k, J)")
        if not (np.isfinite(centers).all() and np.isfinite(weights).all()):
            raise ParameterError("centers and weights must be finite")
        check_number("sigma", self.sigma, least=1e-100, most=1e100)
        object.__setattr__(self, "centers", frozen(centers))
        object.__setattr__(self, "weights", frozen(weights))

    @classmethod
    def random(cls, count: int, *, d: int, sigma: float, rng: Generator, terms: int = 10) -> GaussianKernels:
        """Return the workload of the slides' table: uniform centres in [-1, 1]^d, uniform weights with sum 1."""
        centers = rng.uniform(-1.0, 1.0, (count, terms, d))
        weights = rng.uniform(0.0, 1.0, (count, terms))
        return cls(centers=centers, weights=weights / weights.sum(axis=1, keepdims=True), sigma=sigma)

    @classmethod
    def at(cls, points: FloatArray, *, sigma: float) -> GaussianKernels:
        """Return one kernel of height 1 on each of (k, d) points."""
        return cls(centers=points[:, None, :], weights=np.ones((len(points), 1)), sigma=sigma)

    @property
    def k(self) -> int:
        """Number of queries."""
        return int(self.centers.shape[0])

    @property
    def d(self) -> int:
        """Number of columns."""
        return int(self.centers.shape[2])

    def with_sigma(self, sigma: float) -> GaussianKernels:
        """Return the same centres and weights with another width."""
        return GaussianKernels(centers=self.centers, weights=self.weights, sigma=sigma)

    def factors(self, column: int, x: FloatArray, queries: slice) -> FloatArray:
        """Return exp(-(x - c)^2 / (2 sigma^2)) of one column; see `SeparableQueries.factors`."""
        apart = x - self.centers[queries, :, column, None]
        return np.exp(apart * apart * (-0.5 / self.sigma**2))

    def values(self, points: FloatArray) -> FloatArray:
        """Return every query at (m, d) points, (m, k)."""
        found = np.empty((len(points), self.k))
        for queries, kernels in self._kernels(points):
            found[:, queries] = (kernels * self.weights[queries]).sum(axis=2)
        return found

    def averages(self, points: FloatArray, weights: Weights | None = None) -> FloatArray:
        """Return every query averaged over (m, d) points, (k,).

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
        """Yield blocks of queries with their kernels at all points, (m, q, J)."""
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
