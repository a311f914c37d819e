"""Means, variances and correlations from sums of powers of columns; columns as points of [-1, 1].  Pure arithmetic."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from synthdp.answers.expressions import grid_values
from synthdp.answers.questions import Mean, Moments, Sum, Variance
from synthdp.arrays import AnyArray, FloatArray
from synthdp.domain.axis import Axis
from synthdp.domain.grid import bounds_of
from synthdp.errors import ParameterError
from synthdp.randomness import Generator
from synthdp.schema.column import Column


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


@runtime_checkable
class FunctionFamily(Protocol):
    """Several functions on [-1, 1] at once, such as `GaussianKernels`."""

    def averages(self, points: FloatArray) -> FloatArray:
        """Return the average of each over points."""
        ...

    def values(self, points: FloatArray) -> FloatArray:
        """Return the values of each at points, (m, q)."""
        ...


def points_in(axis: Axis, leaves: AnyArray, rng: Generator) -> FloatArray:
    """Draw the point of [-1, 1] of a column for rows in leaves."""
    points: FloatArray = points_of_grid(axis.column)[axis.indices_in(leaves, rng)]
    return points


def points_of_grid(column: Column) -> FloatArray:
    """Return where each releasable grid point lies: the declared bounds at -1 and 1, a missing value at 0."""
    values, missing = grid_values(column)
    lower, upper = bounds_of(column)
    return np.where(missing, 0.0, (2 * values.astype(np.float64) - lower - upper) / (upper - lower))


def averages(function: Any, points: FloatArray) -> FloatArray:
    """Return the average over points of a function, or of each one of a family."""
    if isinstance(function, FunctionFamily):
        return function.averages(points)
    return np.array([values_at(function, points).mean()])


def values_of(function: Any, points: FloatArray) -> FloatArray:
    """Return the values at points, (m, q), of a function, or of each one of a family."""
    if isinstance(function, FunctionFamily):
        return function.values(points)
    return values_at(function, points)[:, None]


def values_at(function: Any, points: FloatArray) -> FloatArray:
    """Return a function's values at points; ParameterError if they are not one finite number each."""
    found = np.asarray(function(points), np.float64)
    if found.shape != (len(points),) or not np.isfinite(found).all():
        raise ParameterError(f"a smooth function must return ({len(points)},) finite values, not {found.shape}")
    return found
