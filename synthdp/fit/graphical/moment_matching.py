"""Tilt weighted rows so that the products of column scores have given means.

Used by `particles`: the second moments of many columns lie in no table that fits the tree, but weighted rows have them all.
Knows no private row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Codes, FloatArray
from synthdp.queries.products import ClippedProducts

SLOPE_ROWS = 8192
"""Rows that the slope of a step is computed from; the gap that it closes is computed from all."""

DAMPING = 0.7
"""Share of each step that is taken: tables are raked between the steps, and undo a little of it."""

LONGEST = 3.0
"""Most that a step may add to the logarithm of a weight."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyProducts:
    """Noisy mean products of the scores of some columns.

    Parameters
    ----------
    queries
        The products, over the axes of ``columns``.
    columns
        Their positions among all columns.
    means
        (queries.k,) noisy means over the rows.
    stddev
        Of their noise.
    """

    queries: ClippedProducts
    columns: tuple[int, ...]
    means: FloatArray
    stddev: float


class ProductTilt:
    """A factor exp(sum of a coefficient times a clipped product) for every row, and its way to the optimum.

    Minimises log Z - coefficients · means + ridge / 2 · |coefficients|².  The ridge is the variance of the noise over that
    of the signal, which is estimated from the gaps between the noisy means and the untilted rows'; where they are no larger
    than noise, nothing is tilted.

    Parameters
    ----------
    noisy
        What to come near to.
    codes
        (m, d) rows, of all columns.
    weights
        (m,) their weights before the tilt.
    """

    def __init__(self, noisy: NoisyProducts, codes: Codes, weights: FloatArray) -> None:
        queries = noisy.queries
        scores = queries.scores_of(codes[:, list(noisy.columns)])
        self._clipping = queries.clipping(scores).astype(np.float32)
        self._scores = (scores / queries.resolution).astype(np.float32)
        left, right = queries.pairs
        some = slice(0, SLOPE_ROWS)
        self._products = self._scores[some, left] * self._scores[some, right] * self._clipping[some, None]
        self._target, self._pairs = noisy.means, (left, right)
        signal = float(np.mean((self._target - self.means(weights)) ** 2)) - noisy.stddev**2
        self.ridge = noisy.stddev**2 / signal if signal > 0 else math.inf
        self.coefficients = np.zeros(queries.k)

    def means(self, weights: FloatArray) -> FloatArray:
        """Return the mean clipped products of weighted rows; (k,)."""
        weighted = self._scores * (weights / weights.sum() * self._clipping).astype(np.float32)[:, None]
        return np.asarray((self._scores.T @ weighted)[self._pairs], np.float64)

    def step(self, weights: FloatArray) -> FloatArray:
        """Take a damped Newton step; return the factor of each row's weight, (m,)."""
        if math.isinf(self.ridge):
            return np.ones(len(weights))
        share = weights[:SLOPE_ROWS] / weights[:SLOPE_ROWS].sum()
        centred = self._products - share @ self._products
        slope = centred.T @ (centred * share[:, None]) + self.ridge * np.eye(len(self._target))
        gap = self._target - self.means(weights) - self.ridge * self.coefficients
        change = DAMPING * np.linalg.solve(slope, gap)
        matrix = np.zeros((self._scores.shape[1],) * 2, np.float32)
        matrix[self._pairs] = change
        exponent = self._clipping * np.einsum("ij,ij->i", self._scores @ matrix, self._scores).astype(np.float64)
        shorter = min(1.0, LONGEST / max(float(np.abs(exponent).max()), LONGEST))
        self.coefficients += shorter * change
        return np.asarray(np.exp(shorter * exponent), np.float64)
