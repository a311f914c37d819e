"""Means, variances and correlations from sums of powers of columns, perhaps weighted; and which columns have them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from synthdp.answers.expressions import grid_values
from synthdp.answers.grouping import numbers_of
from synthdp.answers.questions import Count, Mean, Moments, Share, Sum, Variance
from synthdp.arrays import AnyArray, FloatArray, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.grid import bounds_of, grid_of, starts_of_classes
from synthdp.errors import ParameterError
from synthdp.randomness import Generator
from synthdp.schema.column import Column

LARGEST = {"sum": 1e140, "mean": 1e140, "variance": 1e70, "correlation": 1e70, "regression": 1e70}
"""Largest size of a number that has each statistic.  Derived: its error squares numbers, and for variances squares again,
and a sum of such squares over 10^20 rows stays below 10^308, the largest 64-bit float."""


def check_numbers(name: str, column: Column, what: str) -> None:
    """Raise ParameterError unless a column has a statistic: numbers have all; times have a mean, and lengths of time a sum.

    Numbers so large that their squares are no 64-bit floats have none.

    Parameters
    ----------
    name, column
        The column.
    what
        The statistic: sum, mean, variance, correlation or regression.

    Raises
    ------
    ParameterError
        Saying what the column holds.
    """
    taken = {"mean", "sum"} if column.quantity == "length" else {"mean"}
    if column.quantity == "label" or (column.temporal and what not in taken):
        raise ParameterError(f"column {name!r} holds {column.holds}, which have no {what}: name a column of numbers")
    if max(map(abs, value_range(column))) > LARGEST[what]:
        raise ParameterError(
            f"the bounds of column {name!r} are too far apart for a {what}, which needs numbers of at most "
            f"{LARGEST[what]:g} in size: ask for quantiles or counts, or declare narrower bounds in the next release"
        )


def check_order(name: str, column: Column) -> None:
    """Raise ParameterError unless the values of a column have an order, and so quantiles.

    Raises
    ------
    ParameterError
        Naming the column.
    """
    if column.labelled and not column.ordered:
        raise ParameterError(
            f"column {name!r} has levels without order, which have no quantiles: name an ordered column"
        )


def check_weight(name: str, column: Column, *, of: str | None) -> None:
    """Raise ParameterError unless a column can weight rows; the question asks for a statistic of column ``of``.

    Raises
    ------
    ParameterError
        If it holds no numbers, may be negative, or is the column that is asked about.
    """
    if column.quantity not in ("number", "truth"):
        raise ParameterError(f"column {name!r} holds {column.holds}, which cannot be weights: name a column of numbers")
    if name == of:
        raise ParameterError(f"column {name!r} cannot be its own weight: name another column as weight")
    if numbers_of(column)[0].min() < 0:
        raise ParameterError(
            f"the schema allows negative values of column {name!r}, which a weight must not have: name another "
            "column as weight"
        )


def ends_of(question: Sum | Mean, column: Column) -> tuple[float, float]:
    """Return the least and the largest sum or mean that the values of a column may have; answers are cut off there.

    A sum is bounded only by 0, on the side that no value lies on.
    """
    return ends_of_values(question, *value_range(column))


def ends_of_values(question: Sum | Mean, least: float, most: float) -> tuple[float, float]:
    """Return the least and the largest sum or mean of values from ``least`` to ``most``.

    A sum has no other limit than 0, which it cannot pass if all values lie on one side of 0.
    """
    if isinstance(question, Mean):
        return least, most
    return (0.0 if least >= 0 else -math.inf), (0.0 if most <= 0 else math.inf)


def value_range(column: Column) -> tuple[float, float]:
    """Return the least and the largest number that a column may hold, in the numbers of `numbers_of`."""
    values, there = numbers_of(column)
    return float(values[there > 0].min()), float(values[there > 0].max())


def positive(sums: FloatArray) -> FloatArray:
    """Return numbers of rows as denominators, in their shape, with NaN for 0 or less, where an answer is undefined."""
    return np.where(sums > 0, sums, np.nan)


def moment(question: Moments, sums: FloatArray) -> FloatArray:
    """Return the sum, mean or variance of a question, (q,), from sums of the powers 0, 1 and 2 of values, (3, q)."""
    rows, first, second = sums
    match question:
        case Sum():
            return np.asarray(first)
        case Mean():
            return np.asarray(first / positive(rows))
        case Variance():
            return np.asarray(np.maximum(second / positive(rows) - (first / positive(rows)) ** 2, 0.0))


def pearson(sums: FloatArray) -> FloatArray:
    """Return correlations, (q,), from sums of products of powers, (3, 3, q); 0 if a column does not vary."""
    means = sums / positive(sums[0, 0])
    covariance = means[1, 1] - means[1, 0] * means[0, 1]
    variances = (means[2, 0] - means[1, 0] ** 2) * (means[0, 2] - means[0, 1] ** 2)
    found = np.where(np.isnan(variances), np.nan, 0.0)
    np.divide(covariance, np.sqrt(np.maximum(variances, 0.0)), out=found, where=variances > 0)
    return np.asarray(np.clip(found, -1.0, 1.0))


@runtime_checkable
class FunctionFamily(Protocol):
    """Several functions on [-1, 1]^d evaluated at once, such as `GaussianKernels`."""

    def averages(self, points: FloatArray) -> FloatArray:
        """Return the mean of each function, (q,), over points, (m, d), such as points of rows drawn from a model."""
        ...

    def values(self, points: FloatArray) -> FloatArray:
        """Return the values of each function, (m, q), at points, (m, d)."""
        ...


def points_in(axis: Axis, leaves: AnyArray, rng: Generator) -> FloatArray:
    """Return the place in [-1, 1] of a random grid point inside each given fine bin of a column, (n,).

    Smooth functions are evaluated there, because a row's fine bin alone is known.
    """
    points: FloatArray = points_of_grid(axis.column)[axis.indices_in(leaves, rng)]
    return points


def points_of_grid(column: Column) -> FloatArray:
    """Return each releasable grid point's place in [-1, 1], (releasable,): bounds at the ends, missing values at 0.

    Smooth functions in questions take such places.
    """
    values, missing = grid_values(column)
    lower, upper = bounds_of(column)
    return np.where(missing, 0.0, (2 * values.astype(np.float64) - lower - upper) / ((upper - lower) or 1))


def averages(function: Any, points: FloatArray) -> FloatArray:
    """Return the mean over points, (m, d), of a function, (1,), or of each function of a family, (q,).

    It answers a smooth question from rows drawn from the model.
    """
    if isinstance(function, FunctionFamily):
        return function.averages(points)
    return np.array([values_at(function, points).mean()])


def values_of(function: Any, points: FloatArray) -> FloatArray:
    """Return the values at points, (m, d), of a function, (m, 1), or of each function of a family, (m, q).

    The bootstrap weighs these values differently in each replicate.
    """
    if isinstance(function, FunctionFamily):
        return function.values(points)
    return values_at(function, points)[:, None]


def values_at(function: Any, points: FloatArray) -> FloatArray:
    """Return a function's values at points, (m,); raise ParameterError unless it gives one finite number each."""
    found = np.asarray(function(points), np.float64)
    if found.shape != (len(points),):
        raise ParameterError(
            f"the function of a smooth question must return an array of shape ({len(points)},), one number per point, "
            f"not {found.shape}"
        )
    if not np.isfinite(found).all():
        raise ParameterError("the function of a smooth question must return finite numbers at all points of [-1, 1]")
    return found


Weighable = Count | Share | Sum | Mean
"""Type of the questions that may have survey weights."""

EVENLY = 1 / 3
"""Variance of a weight inside its class, in squared half widths, as of a uniform number on [-1, 1].  Derived: 1/3, the
integral of x^2 / 2."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassWeights:
    """Holds the survey weights of groups of rows, if only the mean weight of each class is known.

    Parameters
    ----------
    kind
        (g,) class of each group; -1 for rows without a weight.
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
        """Return the class of each group of grid points, with the classes' mean weights, errors and variances.

        Parameters
        ----------
        column
            A survey weight column with measured class means.
        groups
            (grid points,) group of each grid point, -1 for none.
        count
            Number of groups.
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
        """Return the sum over groups of each group's ``rows``, (g, ...), times its class's value, in the shape (...).

        ``values``, (classes,), holds the mean weights, for totals of a population, or the variances.
        """
        return np.asarray(np.tensordot(self._each(values), rows, axes=(0, 0)))

    def error(self, slope: FloatArray, squares: FloatArray) -> FloatArray:
        """Return the standard error of an answer, (q,), from uncertain weights alone, without the error of the counts.

        Parameters
        ----------
        slope
            (g, q) derivative of the answer by the weight of all rows of a group.
        squares
            (g, q) sum over a group's rows of the squared derivative by the row's weight.
        """
        there = self.kind >= 0
        of_class = np.zeros((len(self.means), slope.shape[1]))
        np.add.at(of_class, self.kind[there], slope[there])
        variance = self.errors**2 @ of_class**2 + self.summed(np.maximum(squares, 0.0), self.within)
        return np.asarray(np.sqrt(variance))

    def _each(self, values: FloatArray) -> FloatArray:
        """Return each group's value, (g,), from values by class; 0 for groups without a class.

        Rows without a weight then add nothing to a sum or to its error.
        """
        return np.where(self.kind >= 0, values[self.kind], 0.0)


class Slope(NamedTuple):
    """Holds an answer, (q,), and its derivatives by the weights, from which `ClassWeights.error` computes the error.

    ``slope`` and ``squares``, (g, q), are the parameters of that method.
    """

    estimate: FloatArray
    slope: FloatArray
    squares: FloatArray


Rows = Callable[[int], FloatArray]
"""Function type.  Returns for the number of a condition its rows by power of the summed column, (3 or 1, g, q).  Three
powers are rows, sums of values and sums of squares; a question without values needs rows alone."""


def weighed(question: Weighable, weights: ClassWeights, rows: Rows) -> Slope:
    """Return the answer to a question with survey weights, (q,), and what `ClassWeights.error` needs for its error.

    These are, (g, q) each, the derivative by the common weight of a group's rows; and the sum over these rows of
    squared derivatives by single weights.  ``rows(i)`` returns the rows that meet condition i, by power of the summed
    column.
    """
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
    """Return whether a column is a survey weight whose class means were measured."""
    return bool(column.class_values())
