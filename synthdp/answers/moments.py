"""Means, variances and correlations from sums of powers of columns.  Pure arithmetic."""

from __future__ import annotations

import numpy as np

from synthdp.answers.questions import Mean, Moments, Sum, Variance
from synthdp.arrays import FloatArray


def positive(sums: FloatArray) -> FloatArray:
    """Return numbers of rows as denominators: of no rows nothing is known."""
    return np.where(sums > 0, sums, np.nan)


def moment(question: Moments, sums: FloatArray) -> FloatArray:
    """Return what is asked from the sums of the powers 0, 1 and 2, (3, q)."""
    rows, first, second = sums
    match question:
        case Sum():
            return np.asarray(first)
        case Mean():
            return np.asarray(first / positive(rows))
        case Variance():
            return np.asarray(np.maximum(second / positive(rows) - (first / positive(rows)) ** 2, 0.0))


def pearson(sums: FloatArray) -> FloatArray:
    """Return correlations from the sums of products of powers, (3, 3, q); 0 where a column does not vary."""
    means = sums / positive(sums[0, 0])
    covariance = means[1, 1] - means[1, 0] * means[0, 1]
    variances = (means[2, 0] - means[1, 0] ** 2) * (means[0, 2] - means[0, 1] ** 2)
    found = np.where(np.isnan(variances), np.nan, 0.0)
    np.divide(covariance, np.sqrt(np.maximum(variances, 0.0)), out=found, where=variances > 0)
    return np.asarray(np.clip(found, -1.0, 1.0))
