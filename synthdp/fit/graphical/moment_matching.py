"""Moment matching by exponential tilting: weighted rows whose products of column scores have given means.

Used by `raking`: the second moments of many columns lie in no table that fits the tree, but weighted rows have them all.
Knows no private row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from synthdp.arrays import AnyArray, Codes, FloatArray, IntArray
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
        Standard deviation of their noise.
    """

    queries: ClippedProducts
    columns: tuple[int, ...]
    means: FloatArray
    stddev: float


class Tilt(NamedTuple):
    """One step of moment matching: the factor of each row's weight, (m,), and the coefficients after it, (k,)."""

    factor: FloatArray
    coefficients: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MomentMatching:
    """Exponential tilting of weighted rows: every row gets the factor exp(coefficients · its clipped products).

    Minimises log Z - coefficients · means + ridge / 2 · |coefficients|².  The ridge is the variance of the noise over that
    of the signal, which is estimated from the gaps between the noisy means and the untilted rows'; where they are no larger
    than noise, nothing is tilted.

    Parameters
    ----------
    target
        (k,) the noisy means.
    ridge
        As above; inf for no tilt.
    pairs
        The two columns of each product, two (k,) arrays.
    scores
        (m, columns) scores of the rows, in standard deviations.
    clipping
        (m,) the factor that clips each row's products.
    products
        (some, k) clipped products of the first rows, for the slope of a step.
    """

    target: FloatArray
    ridge: float
    pairs: tuple[IntArray, IntArray]
    scores: AnyArray
    clipping: AnyArray
    products: AnyArray

    @classmethod
    def of(cls, noisy: NoisyProducts, codes: Codes, weights: FloatArray) -> MomentMatching:
        """Prepare the matching of weighted rows to noisy means.

        Parameters
        ----------
        noisy
            What to come near to.
        codes
            (m, d) rows, of all columns.
        weights
            (m,) their weights before any step.
        """
        queries = noisy.queries
        whole = queries.scores_of(codes[:, list(noisy.columns)])
        clipping = queries.clipping(whole).astype(np.float32)
        scores = (whole / queries.resolution).astype(np.float32)
        left, right = queries.pairs
        some = slice(0, SLOPE_ROWS)
        products = scores[some, left] * scores[some, right] * clipping[some, None]
        untilted = _means(scores, clipping, weights, queries.pairs)
        signal = float(np.mean((noisy.means - untilted) ** 2)) - noisy.stddev**2
        ridge = noisy.stddev**2 / signal if signal > 0 else math.inf
        return cls(
            target=noisy.means, ridge=ridge, pairs=queries.pairs, scores=scores, clipping=clipping, products=products
        )

    @property
    def start(self) -> FloatArray:
        """The coefficients before the first step, (k,)."""
        return np.zeros(len(self.target))

    def means(self, weights: FloatArray) -> FloatArray:
        """Return the mean clipped products of weighted rows; (k,)."""
        return _means(self.scores, self.clipping, weights, self.pairs)

    def step(self, weights: FloatArray, coefficients: FloatArray) -> Tilt:
        """Take a damped Newton step from the rows' weights and the coefficients that they were tilted by."""
        if math.isinf(self.ridge):
            return Tilt(np.ones(len(weights)), coefficients)
        share = weights[:SLOPE_ROWS] / weights[:SLOPE_ROWS].sum()
        centred = self.products - share @ self.products
        slope = centred.T @ (centred * share[:, None]) + self.ridge * np.eye(len(self.target))
        gap = self.target - self.means(weights) - self.ridge * coefficients
        change = DAMPING * np.linalg.solve(slope, gap)
        matrix = np.zeros((self.scores.shape[1],) * 2, np.float32)
        matrix[self.pairs] = change
        exponent = self.clipping * np.einsum("ij,ij->i", self.scores @ matrix, self.scores).astype(np.float64)
        shorter = min(1.0, LONGEST / max(float(np.abs(exponent).max()), LONGEST))
        return Tilt(np.asarray(np.exp(shorter * exponent), np.float64), coefficients + shorter * change)


def _means(scores: AnyArray, clipping: AnyArray, weights: FloatArray, pairs: tuple[IntArray, IntArray]) -> FloatArray:
    weighted = scores * (weights / weights.sum() * clipping).astype(np.float32)[:, None]
    return np.asarray((scores.T @ weighted)[pairs], np.float64)
