"""The finest public grid of one column: a finite number of grid points that depends on the declaration alone.

Grid points are numbered, and their number is the grid index: the regular ones first (values in order, or levels as
declared), then one per special value, then the missing value if the column is nullable, then "other" for whatever the
schema does not foresee.  "Other" is counted but never released, unless the column declares a label for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from synthdp.errors import SchemaError
from synthdp.schema.column import Column, Fresh, Interval, Level, Levels, Steps

MAX_POINTS = 32**4
"""Most regular grid points of a column: four levels of 32 parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The grid points of one column.

    Parameters
    ----------
    regular
        Number of regular grid points, numbered from 0.
    width
        Whole steps per grid point for whole-numbered columns, else 1.
    ordered
        Whether neighbouring regular grid points are alike.
    special
        Numbers with a grid point of their own, numbered from ``regular``.
    null
        Grid point of the missing value, if the column is nullable.
    other
        Grid point of values that the schema does not foresee.
    size
        Number of grid points in all.
    """

    regular: int
    width: int = 1
    ordered: bool = True
    special: tuple[float, ...] = ()
    null: int | None
    other: int
    size: int

    @property
    def hidden(self) -> int | None:
        """The grid point that is never released: "other", always the last one, unless it has a declared label."""
        return self.other if self.other == self.size - 1 and self.other >= self.regular else None

    @property
    def releasable(self) -> int:
        """Number of grid points that a released row may have; they come first."""
        return self.size if self.hidden is None else self.size - 1


def grid_of(column: Column) -> Grid:
    """Return the grid of a declared column.

    Raises
    ------
    SchemaError
        If its bounds or levels are not declared.
    """
    if not column.is_complete:
        raise SchemaError("bounds or levels must be declared or discovered before values can be coded")
    match column.support():
        case Interval() as interval:
            return _layout(_parts(interval), special=interval.special, nullable=column.nullable)
        case Steps(first, last) as steps:
            width = -(-(last - first + 1) // MAX_POINTS)
            indices = -(-(last - first + 1) // width)
            return _layout(indices, width=width, special=steps.special, nullable=column.nullable)
        case Levels(levels, None):
            return _layout(len(levels), ordered=column.ordered, nullable=column.nullable)
        case Levels(levels, other):
            return Grid(
                regular=len(levels),
                ordered=column.ordered,
                null=len(levels) if column.nullable else None,
                other=levels.index(other),
                size=len(levels) + column.nullable,
            )
        case Fresh():
            return Grid(regular=1, ordered=False, null=None, other=0, size=1)


def labels_of(column: Column) -> tuple[Level, ...]:
    """Return the levels of a column that has some, in grid point order; the label for "other" comes last."""
    support = column.support()
    if not isinstance(support, Levels):
        raise SchemaError(f"a column of type {type(column).__name__} has no levels")
    return support.levels


def has_labels(column: Column) -> bool:
    """Say whether the column's grid points are levels rather than intervals of numbers."""
    return column.labelled


def has_order(column: Column) -> bool:
    """Say whether the column's regular grid points have an order, as numbers, moments and ordered levels do."""
    return column.ordered


def bounds_of(column: Column) -> tuple[float, float]:
    """Return the least and the greatest number that stand for a regular value of a column without levels."""
    match column.support():
        case Interval(lower, upper):
            return lower, upper
        case Steps(first, last) as steps:
            return steps.value(first), steps.value(last)
        case _:
            raise SchemaError(f"a column of type {type(column).__name__} has no bounds")


def starts_of_classes(column: Column) -> np.ndarray:
    """Return the first regular grid point of each class that a column's values are always counted in; none for equal bins.

    A class that is narrower than a grid point is part of the one below.
    """
    ends, support = column.class_ends(), column.support()
    if not ends or not isinstance(support, Interval):
        return np.zeros(0, np.int64)
    place = (np.array(ends[:-1]) - support.lower) / (support.upper - support.lower)
    return np.unique(np.minimum(np.ceil(place * _parts(support)), _parts(support) - 1).astype(np.int64))


def edges_of(interval: Interval, indices: np.ndarray) -> np.ndarray:
    """Lower ends of regular grid points of an interval: grid point u holds edge(u) <= x < edge(u + 1)."""
    return interval.lower + (interval.upper - interval.lower) * (indices / _parts(interval))


def _layout(
    regular: int, *, nullable: bool, special: tuple[float, ...] = (), width: int = 1, ordered: bool = True
) -> Grid:
    """Return a grid of regular points, then special codes, then null, then the point for others."""
    after = regular + len(special)
    return Grid(
        regular=regular,
        width=width,
        ordered=ordered,
        special=special,
        null=after if nullable else None,
        other=after + nullable,
        size=after + nullable + 1,
    )


def _parts(interval: Interval) -> int:
    """Return how many parts an interval is cut into: at most `MAX_POINTS`, none narrower than four floats."""
    spacing = math.ulp(max(abs(interval.lower), abs(interval.upper)))
    return int(max(1, min(MAX_POINTS, (interval.upper - interval.lower) / (4 * spacing))))
