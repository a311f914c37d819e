"""Totals, shares and means of a population by survey weights that are known by class.

Pure arithmetic on tables of rows by class.  With T_c rows of a class whose mean weight is w_c, a total is sum_c w_c T_c.
Two things are not known of the weights: the mean of a class has the error of its noise, and the rows that a question counts
are some of the class, whose own weights differ from its mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from synthdp.answers.moments import positive
from synthdp.answers.questions import Count, Mean, Share, Sum
from synthdp.arrays import FloatArray, IntArray
from synthdp.domain.grid import grid_of, starts_of_classes
from synthdp.schema.column import Column

Weighable = Count | Share | Sum | Mean

EVENLY = 1 / 3
"""Variance of weights that lie evenly in their class, in squares of half its width."""


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
        """Return those of groups of grid points; no group has points of several classes.

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
