"""How far the values of a column lie from the middle of their class: what the mean of a class is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from synthdp.arrays import Codes, Features, FloatArray, IntArray, Totals, frozen
from synthdp.codec import file_form
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.domain.grid import edges_of, grid_of, starts_of_classes
from synthdp.errors import ParameterError
from synthdp.queries.linear import LinearFamily
from synthdp.queries.marginals import Marginals
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.schema.column import Column, Interval

PARTS = 256
"""Cells into which each class is divided.  A tolerance: a value counts as the middle of its cell, at most 1/512 of the
class away.
"""

UNIT = 2**10
"""The whole number that stands for half the width of a class, so that sums are exact.  A tolerance: offsets are rounded
to multiples of 1 / UNIT.
"""


@file_form("ClassOffsets")
@dataclass(frozen=True, slots=True, eq=False)
class ClassOffsets(LinearFamily):
    """For each class of a column the sum of its values' distances from its middle, in halves of its width.

    One row adds a number from -1 to 1 to the sum of its class, whatever the class: in these units all classes are alike, and
    large values need no more noise than small ones.  A replaced row moves two sums by 1 each, or one by 2.

    Parameters
    ----------
    domain
        One axis whose cells lie inside the classes; see `axis_of_offsets`.

    Raises
    ------
    ParameterError
        If there are more axes, the column has no classes, or a cell lies in several.
    """

    domain: Domain
    denominator: ClassVar[int] = UNIT
    k: int = field(init=False)
    _offsets: IntArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        axis, classes = self.domain.axes[0], starts_of_classes(self.domain.axes[0].column)
        if len(self.domain) != 1 or not len(classes) or not np.isin(classes, axis.starts).all():
            raise ParameterError(
                "domain must have exactly one column, with a cell that starts at the first value of each class"
            )
        object.__setattr__(self, "k", len(classes))
        object.__setattr__(self, "_offsets", frozen(_offsets(axis)))

    @property
    def unit(self) -> str:
        """What an answer counts, for receipts: a row adds its distance from its class's middle, in half widths."""
        return "half widths"

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity, in 1 / `UNIT` of half a class's width: an added row moves one class's sum by at most `UNIT`.

        A replaced row moves the sums of two classes, or one by the range of the distances in that class.
        """
        high, low = self._offsets.max(axis=0), self._offsets.min(axis=0)
        each = sorted(int(one) for one in np.maximum(np.abs(high), np.abs(low)))
        largest, next_one, span = each[-1], each[-2] if len(each) > 1 else 0, int((high - low).max())
        in_two = Norms(largest + next_one, largest**2 + next_one**2, largest)
        return RecordBounds(Norms(largest, largest**2, largest), in_two.either(Norms(span, span**2, span)))

    def features(self, codes: Codes) -> Features:
        """Return what each row, (n, 1) codes, adds to each class's sum, (n, k).

        To its own class a row adds its cell's distance from the middle of the class, in 1 / `UNIT` of half the class's
        width; to all others 0.
        """
        return self._offsets[codes[:, 0]]

    @property
    def counted(self) -> Marginals:
        """The table of cells from whose counts the answers follow, so that rows need be counted only once.

        Databases can count cells, but have no SQL for offsets: they count these cells, and `of_tables` does the rest.
        """
        return Marginals(self.domain, ((0,),))

    def sums(self, codes: Codes) -> Totals:
        """Return each class's sum of its rows' distances from its middle, (k,), in 1 / `UNIT` of half its width."""
        return self.of_tables(self.counted.sums(codes))

    def of_tables(self, counts: Totals) -> Totals:
        """Return the answers of `sums`, (k,), from the counts of rows in all cells, (cells,), that `counted` asks for.

        So a database that can count cells never sends single rows.
        """
        return np.asarray(counts @ self._offsets, np.int64)


def axis_of_offsets(name: str, column: Column, *, parts: int = PARTS) -> Axis:
    """Return an axis that divides each class of a column into at most ``parts`` cells of about as many grid points.

    Special and missing values have cells of their own.  From its counts the distances from class middles are known.
    """
    grid, classes = grid_of(column), starts_of_classes(column)
    ends = np.append(classes[1:], grid.regular)
    inside = [begin + np.arange(parts) * (end - begin) // parts for begin, end in zip(classes, ends, strict=True)]
    starts = np.unique(np.concatenate([*inside, np.arange(grid.regular, grid.size)]))
    return Axis(name, column, starts, np.arange(len(starts)))


def class_middles(column: Column) -> tuple[FloatArray, FloatArray]:
    """Return the middle and half the width of each class, (classes,) each, in the column's own unit.

    A row's distance from the middle is counted in fractions of that half width, see `UNIT`.  ParameterError is raised
    for a column without bounds.
    """
    support, classes = column.support(), starts_of_classes(column)
    if not isinstance(support, Interval):
        raise ParameterError(
            "column must be a numeric column with a lower and an upper bound, to be divided into classes of round "
            "numbers"
        )
    ends = edges_of(support, np.append(classes, grid_of(column).regular))
    return (ends[1:] + ends[:-1]) / 2, (ends[1:] - ends[:-1]) / 2


def _offsets(axis: Axis) -> IntArray:
    """Return what a row in each cell adds to each class's sum of distances from its middle, (cells, classes).

    The offset is in whole multiples of 1 / `UNIT` of half the class's width; cells of special and missing values add 0.
    """
    column, support = axis.column, axis.column.support()
    classes = starts_of_classes(column)
    middle, half = class_middles(column)
    regular = axis.starts < axis.grid.regular
    starts = axis.starts[regular]
    ends = np.minimum(np.append(starts[1:], axis.grid.regular), axis.grid.regular)
    found = np.zeros((axis.size, len(classes)), np.int64)
    if not isinstance(support, Interval):
        return found
    of_cell = np.searchsorted(classes, starts, side="right") - 1
    values = (edges_of(support, starts) + edges_of(support, ends)) / 2
    offsets = np.clip(np.rint((values - middle[of_cell]) / half[of_cell] * UNIT), -UNIT, UNIT)
    found[axis.cells[regular], of_cell] = offsets.astype(np.int64)
    return found
