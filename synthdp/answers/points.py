"""Columns of numbers as points of [-1, 1], for averages of smooth functions.  Pure arithmetic on public axes."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from synthdp.answers.expressions import grid_values
from synthdp.arrays import AnyArray, FloatArray
from synthdp.domain.axis import Axis
from synthdp.domain.grid import bounds_of
from synthdp.errors import ParameterError
from synthdp.randomness import Generator
from synthdp.schema.column import Column


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
