"""Means, variances and correlations from sums of powers of columns, with survey weights or without.  Pure arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from synthdp.answers.expressions import grid_values
from synthdp.answers.questions import Count, Mean, Moments, Share, Sum, Variance
from synthdp.arrays import AnyArray, FloatArray, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.grid import bounds_of, grid_of, starts_of_classes
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
    """Return where each releasable grid point lies: the declared bounds at -1 and 1, a missing or the only value at 0."""
    values, missing = grid_values(column)
    lower, upper = bounds_of(column)
    return np.where(missing, 0.0, (2 * values.astype(np.float64) - lower - upper) / ((upper - lower) or 1))


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


Weighable = Count | Share | Sum | Mean

EVENLY = 1 / 3
"""Variance of a number that is uniform on [-1, 1].  Derived: 1/3, the integral of x^2 / 2."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassWeights:
    """What is known of the weights of groups of grid points of a weight.

    Parameters
    ----------
    kind
        (g,) class of each group; -1 of rows without a weight.
    means, errors
        (classes,) mean of each class and its standard error.
    within
        (classes,) variance of weights within each class.
    """

    kind: IntArray
    means: FloatArray
    errors: FloatArray
    within: FloatArray

    @classmethod
    def of(cls, column: Column, groups: IntArray, count: int) -> ClassWeights:
        """Return the moments of groups of grid points; no group has points of several classes.

        Parameters
        ----------
        column
            A survey weight with measured means.
        groups
            (grid points,) group of each, -1 for none.
        count
            How many groups there are.
        """
        first = np.full(count, 0)
        inside = np.flatnonzero(groups >= 0)
        first[groups[inside][::-1]] = inside[::-1]
        kind = np.searchsorted(starts_of_classes(column), first, side="right") - 1
        kind = np.where(first < grid_of(column).regular, kind, -1)
        from synthdp.queries.class_offsets import class_middles

        _, half = class_middles(column)
        return cls(
            kind=kind, means=np.array(column.class_values()), errors=np.array(column.class_errors()), within=EVENLY * half**2
        )  # fmt: skip

    def summed(self, rows: FloatArray, values: FloatArray) -> FloatArray:
        """Return sums over classes of rows, (g, ...), times a value of each class."""
        return np.asarray(np.tensordot(self._each(values), rows, axes=(0, 0)))

    def error(self, slope: FloatArray, squares: FloatArray) -> FloatArray:
        """Return the standard error, (q,), of an answer that is not in its rows but in its weights.

        Parameters
        ----------
        slope
            (g, q) by how much the answer rises with the weight of all rows of a group.
        squares
            (g, q) sum over the rows of a group of the square of the same, row by row.
        """
        there = self.kind >= 0
        of_class = np.zeros((len(self.means), slope.shape[1]))
        np.add.at(of_class, self.kind[there], slope[there])
        variance = self.errors**2 @ of_class**2 + self.summed(np.maximum(squares, 0.0), self.within)
        return np.asarray(np.sqrt(variance))

    def _each(self, values: FloatArray) -> FloatArray:
        """Return a value for each code, from values by class; 0 for codes of no class."""
        return np.where(self.kind >= 0, values[self.kind], 0.0)


class Slope(NamedTuple):
    """An answer, (q,), and what `ClassWeights.error` needs."""

    estimate: FloatArray
    slope: FloatArray
    squares: FloatArray


Rows = Callable[[int], FloatArray]
"""From the number of a condition to rows by power of the column that is summed, (3 or 1, g, q)."""


def weighed(question: Weighable, weights: ClassWeights, rows: Rows) -> Slope:
    """Answer a question from the rows of each class."""
    sums = rows(0)
    total = partial(weights.summed, values=weights.means)
    match question:
        case Count():
            return Slope(total(sums[0]), sums[0], sums[0])
        case Sum():
            return Slope(total(sums[1]), sums[1], sums[2])
        case Share():
            both, every = sums[0], rows(1)[0]
            whole = positive(total(every))
            part = total(both) / whole
            return Slope(part, (both - part * every) / whole, ((1 - 2 * part) * both + part**2 * every) / whole**2)
        case Mean():
            whole = positive(total(sums[0]))
            mean = total(sums[1]) / whole
            squares = sums[2] - 2 * mean * sums[1] + mean**2 * sums[0]
            return Slope(mean, (sums[1] - mean * sums[0]) / whole, squares / whole**2)


def has_classes(column: Column) -> bool:
    """Say whether a column is a survey weight whose classes have measured means."""
    return bool(column.class_values())
