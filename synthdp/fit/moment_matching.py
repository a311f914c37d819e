"""Moment matching by exponential tilting: weighted rows whose products of column scores have given means.

Used by `raking`: the second moments of many columns lie in no table that fits the tree, but weighted rows have them all.
Knows no private row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from synthdp.arrays import AnyArray, Codes, FloatArray
from synthdp.queries.products import Products, RowProducts

SLOPE_ROWS = 8192
"""Number of rows from which the Hessian of a step is estimated; the gap itself uses all rows.  A safety limit of time.
"""

LONGEST = 3.0
"""Largest change of a weight's logarithm in one step, a factor of 20.  A numerical tolerance, so that no row dominates."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyProducts:
    """Noisy mean products of the scores of some columns.

    Parameters
    ----------
    queries
        The products, over the axes of ``columns``.
    columns
        Positions of the scored columns among all columns.
    means
        (queries.k,) noisy means over the rows.
    stddev
        Standard deviation of the noise of a mean.
    """

    queries: Products
    columns: tuple[int, ...]
    means: FloatArray
    stddev: float

    def of_codes(self, codes: Codes) -> RowProducts:
        """Return the clipped products of rows, given as (m, d) codes of all columns, to be averaged after each step."""
        return self.queries.of_codes(codes[:, list(self.columns)])


class Tilt(NamedTuple):
    """The result of one step: the factor of each row's weight, (m,), and the coefficients after the step, (k,)."""

    factor: FloatArray
    coefficients: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MomentMatching:
    """Weights rows so that their mean products approach noisy ones: each gets the factor exp(coefficients · products).

    Minimises log Z - coefficients · means + the sum of ridge / 2 · coefficients².  A ridge is the ratio of noise
    variance to signal variance of its question, times the variance of its product over the rows.  A larger ridge trusts
    the noisy mean less.  The signal is estimated from the gaps between the noisy means and the means of the untilted
    rows.  A question is left out if its gaps are no larger than noise.

    Parameters
    ----------
    target
        (k,) the noisy means of all questions that are not left out.
    ridge
        (k,) ridges of the coefficients.
    products
        Clipped products per row of each question.
    slope_products
        (some, k) clipped products of the first rows, for the slope of a step.
    """

    target: FloatArray
    ridge: FloatArray
    products: tuple[RowProducts, ...]
    slope_products: AnyArray

    @classmethod
    def of(cls, questions: Sequence[NoisyProducts], codes: Codes, weights: FloatArray) -> MomentMatching | None:
        """Prepare the matching of weighted rows to noisy means; ``None`` if noise explains the gaps of all questions.

        Parameters
        ----------
        questions
            Measured products that the fit should meet.
        codes
            (m, d) rows, of all columns.
        weights
            (m,) their weights before any step.
        """
        kept: list[RowProducts] = []
        targets, ridges, firsts = [], [], []
        for noisy in questions:
            products = noisy.of_codes(codes)
            signal = float(np.mean((noisy.means - products.means(weights)) ** 2)) - noisy.stddev**2
            if signal > 0:
                kept.append(products)
                firsts.append(products.of_rows(slice(0, SLOPE_ROWS)))
                targets.append(noisy.means)
                spread = firsts[-1].var(axis=0, dtype=np.float64)
                spread[spread == 0] = 1  # of two scores: these rows lack one's levels, and no step may divide by 0
                ridges.append(noisy.stddev**2 / signal * spread)
        if not kept:
            return None
        return cls(
            target=np.concatenate(targets), ridge=np.concatenate(ridges), products=tuple(kept),
            slope_products=np.concatenate(firsts, axis=1),
        )  # fmt: skip

    @property
    def start(self) -> FloatArray:
        """The coefficients of the products before the first step: zeros, (k,), for weights that are not tilted."""
        return np.zeros(len(self.target))

    def means(self, weights: FloatArray) -> FloatArray:
        """Return the mean of each clipped product over rows with (m,) weights, (k,), to compare with the noisy ones."""
        return np.concatenate([one.means(weights) for one in self.products])

    def step(self, weights: FloatArray, coefficients: FloatArray) -> Tilt:
        """Take a Newton step towards the noisy means, from (m,) weights that (k,) coefficients have tilted.

        Return the factor of each row's weight, and the coefficients after the step.
        """
        share = (weights[:SLOPE_ROWS] / weights[:SLOPE_ROWS].sum()).astype(np.float32)
        centred = (self.slope_products - share @ self.slope_products) * np.sqrt(share)[:, None]
        slope = (centred.T @ centred).astype(np.float64) + np.diag(self.ridge)  # where a step goes: few digits will do
        gap = self.target - self.means(weights) - self.ridge * coefficients
        change = np.linalg.solve(slope, gap)
        ends = np.cumsum([one.of_rows(slice(0, 1)).shape[1] for one in self.products])[:-1]
        parts = zip(self.products, np.split(change, ends), strict=True)
        exponent = sum((one.sums(part) for one, part in parts), np.zeros(len(weights)))
        shorter = min(1.0, LONGEST / max(float(np.abs(exponent).max()), LONGEST))
        return Tilt(np.asarray(np.exp(shorter * exponent), np.float64), coefficients + shorter * change)
