"""Answers for every period of a series, with error bars that include the correlation of noise between periods.

One plan of queries makes the noise of all periods.  Errors of adjacent periods are correlated, so a difference has a
smaller error than independent periods would give.  The module is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthdp.answers.answers import LEVEL, NORMAL
from synthdp.arrays import FloatArray
from synthdp.errors import ParameterError
from synthdp.randomness import generator
from synthdp.tables.results import dataframe

DRAWS = 40_000
"""Random draws from which the width of a simultaneous band is computed, accurate to about half a per cent.  A numerical
tolerance."""


@dataclass(frozen=True, slots=True, eq=False)
class OverTime:
    """Holds the estimates of one number for several periods, and the covariance of their errors.

    Parameters
    ----------
    names
        Names of the periods.
    estimates
        (t,) one estimate per period.
    covariance
        (t, t) covariance of the errors.
    """

    names: tuple[Any, ...]
    estimates: FloatArray
    covariance: FloatArray

    @property
    def standard_errors(self) -> FloatArray:
        """Return the standard error of each estimate, (t,)."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def of_single_periods(self) -> OverTime:
        """Return estimates for the single periods, as differences of estimates for all rows up to each period.

        The first period keeps its estimate.  The covariance is the covariance of the differences.
        """
        steps = np.eye(len(self.estimates)) - np.eye(len(self.estimates), k=-1)
        return OverTime(self.names, steps @ self.estimates, steps @ self.covariance @ steps.T)

    def band(self) -> float:
        """Return the half width of a simultaneous 95 % band for all periods, in standard errors."""
        errors = self.standard_errors
        known = errors > 0
        if not known.any():
            return NORMAL
        correlation = self.covariance[np.ix_(known, known)] / np.outer(errors[known], errors[known])
        values, vectors = np.linalg.eigh(correlation)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        draws = root @ generator(0).standard_normal((len(correlation), DRAWS))
        return float(np.quantile(np.abs(draws).max(axis=0), LEVEL))

    def difference(self, first: int, second: int) -> tuple[float, float]:
        """Return the second period's estimate minus the first's, and its standard error."""
        weights = np.zeros(len(self.estimates))
        weights[second] += 1.0
        weights[first] -= 1.0
        return self.linear(weights)

    def trend(self) -> tuple[float, float]:
        """Return the mean change per period by generalised least squares, and its standard error.

        Raises
        ------
        ParameterError
            If there are fewer than two periods.
        """
        count = len(self.estimates)
        if count < 2:
            raise ParameterError("a trend needs two or more periods: add a period, then ask again")
        design = np.column_stack([np.ones(count), np.arange(count)])
        errors = self.covariance + np.eye(count) * 1e-12 * max(float(np.trace(self.covariance)), 1e-12)
        weighed = np.linalg.solve(errors, design)
        return self.linear(np.linalg.solve(design.T @ weighed, weighed.T)[1])

    def linear(self, weights: FloatArray) -> tuple[float, float]:
        """Return the sum of the estimates times ``weights``, (t,), and its standard error: a difference or a trend."""
        variance = float(weights @ self.covariance @ weights)
        return float(weights @ self.estimates), math.sqrt(max(variance, 0.0))

    def to_frame(self, *, least: float = -np.inf, most: float = np.inf) -> Any:
        """Return a DataFrame with one row per period: estimate, standard error, and the ends of interval and band.

        The ends are clipped to ``least`` and ``most``.

        Each interval covers its period with probability 95 %; the band covers all periods at once with probability 95
        %.
        """
        errors, width = self.standard_errors, NORMAL
        wide = self.band()
        limits = {
            "lower": self.estimates - width * errors, "upper": self.estimates + width * errors,
            "band_lower": self.estimates - wide * errors, "band_upper": self.estimates + wide * errors,
        }  # fmt: skip
        inside = {name: np.clip(values, least, most) for name, values in limits.items()}
        return dataframe({"period": list(self.names), "estimate": self.estimates, "standard_error": errors} | inside)
