"""The finest public grid of one column: a finite number of grid points that depends on the declaration alone.

Grid points are numbered, and their number is the grid index: the regular ones first (values in order, or levels as
declared), then one per special value, then the missing value if the column is nullable, then "other" for whatever the
schema does not foresee.  "Other" is counted but never released, unless the column declares a label for it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import AnyArray, IntArray
from synthdp.errors import SchemaError
from synthdp.schema.column import Column, Fresh, Interval, Level, Levels, Steps

MAX_POINTS = 32**4
"""Most regular grid points of a column with very many values, not counting finer points near 0: four levels of splits into
32 parts.  More would distinguish values more finely.  A safety limit of memory."""

NEAR = 32**3
"""Numbers within this many grid points of 0 have grid points of half the width, and so on down to single steps.  Derived:
1 / 32 of the grid; so values are still distinguished if the bounds are 32 or more times too wide for them."""


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring grid points of the same width.

    Parameters
    ----------
    point
        The first grid point of the run.
    step
        The first step in it, counted from the lower bound.
    width
        Number of steps in each grid point; the last one may hold fewer.
    """

    point: int
    step: int
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The grid points of one column.

    Parameters
    ----------
    regular
        Number of regular grid points, numbered from 0.
    width
        Largest number of steps in a grid point, for evenly spaced values; else 1.
    steps
        Number of steps in all regular grid points; for other values the number of regular grid points.
    runs
        Runs of grid points of one width, for numbers with several steps in a grid point: narrower ones nearer to 0.
    ordered
        Whether neighbouring regular grid points are similar values.
    special
        Numbers with a separate grid point, numbered from ``regular``.
    null
        Grid point of the missing value, if the column is nullable.
    other
        Grid point of values that the schema does not foresee.
    size
        Number of all grid points.
    """

    regular: int
    width: int = 1
    steps: int = 0
    runs: tuple[Run, ...] = ()
    ordered: bool = True
    special: tuple[float, ...] = ()
    null: int | None
    other: int
    size: int

    def __post_init__(self) -> None:
        if not self.steps:
            object.__setattr__(self, "steps", self.regular)

    @property
    def hidden(self) -> int | None:
        """The grid point of values that the schema does not foresee, which is never released.

        It is ``None`` if these values have a declared label.
        """
        return self.other if self.other == self.size - 1 and self.other >= self.regular else None

    @property
    def releasable(self) -> int:
        """Number of grid points that a released row may have; they come first."""
        return self.size if self.hidden is None else self.size - 1

    def first_steps(self, points: AnyArray) -> AnyArray:
        """Return the first step of each regular grid point, (n,), counted from the lower bound.

        The grid point after the last one gives the number of all steps. Steps may be up to 2^63, so they are unsigned.
        """
        found, last = np.asarray(points, np.uint64), np.uint64(self.steps)
        if not self.runs:
            return np.asarray(np.minimum(found * np.uint64(self.width), last))
        ends = np.array([run.point for run in self.runs], np.uint64)
        at = np.searchsorted(ends, found, side="right") - 1
        first, width = (
            np.array([getattr(run, part) for run in self.runs], np.uint64)[at] for part in ("step", "width")
        )
        return np.asarray(np.minimum(first + (found - ends[at]) * width, last))

    def points_of(self, steps: AnyArray) -> IntArray:
        """Return the regular grid point that holds each step, counted from the lower bound, (n,)."""
        if not self.runs:
            return np.asarray(steps // self.width)
        found = np.asarray(steps, np.uint64)
        first = np.array([run.step for run in self.runs], np.uint64)
        at = np.searchsorted(first, found, side="right") - 1
        point, width = (
            np.array([getattr(run, part) for run in self.runs], np.uint64)[at] for part in ("point", "width")
        )
        return np.asarray((point + (found - first[at]) // width).astype(np.int64))

    def even_starts(self, count: int) -> IntArray:
        """Return the first grid points of ``count`` equal parts of the range, (count,), at which bins begin.

        With fewer grid points than parts, several parts begin at one grid point, which then occurs several times. If
        widths differ (`runs`), each start occurs once, and there may be fewer than ``count``.
        """
        if not self.runs:
            return np.asarray(-(-np.arange(count) * self.regular // count))
        return np.unique(self.points_of(np.array([part * self.steps // count for part in range(count)], np.uint64)))

    def parts_of(self, points: AnyArray, count: int) -> IntArray:
        """Return which of ``count`` equal parts of the range each regular grid point begins in, (n,), counted from 0.

        The parts have equal widths in values, although grid points near 0 may be narrower.
        """
        if not self.runs:
            return np.asarray(points * count // self.regular)
        return np.asarray(np.searchsorted(self.even_starts(count), points, side="right") - 1)


def grid_of(column: Column) -> Grid:
    """Return the finest public grid of a declared column, which depends on its declaration alone.

    Raises
    ------
    SchemaError
        If its bounds or levels are not declared.
    """
    if not column.is_complete:
        raise SchemaError(
            f"this column of type {type(column).__name__} has no bounds or levels yet: declare or discover them first"
        )
    match column.support():
        case Interval() as interval:
            return _layout(_parts(interval), special=interval.special, nullable=column.nullable)
        case Steps(first, last) as steps:
            count = last - first + 1
            width = -(-count // MAX_POINTS)
            runs = _runs(count, steps, width) if width > 1 and column.quantity == "number" else ()
            last_run = runs[-1] if runs else Run(0, 0, width)
            regular = last_run.point + -(-(count - last_run.step) // last_run.width)
            return _layout(
                regular, width=width, steps=count, runs=runs, special=steps.special, nullable=column.nullable
            )  # fmt: skip
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


def points_of_today(column: Column, points: AnyArray) -> IntArray:
    """Return the present grid points, (n,), of grid points stored in an old file, in which all had one width.

    Parameters
    ----------
    column
        The column.
    points
        Grid points of any kind, as the file has them.
    """
    grid = grid_of(column)
    if not grid.runs:
        return np.asarray(points, np.int64)
    before = -(-grid.steps // grid.width)
    old = np.asarray(points, np.int64)
    regular = grid.points_of(np.minimum(old, before - 1).astype(np.uint64) * np.uint64(grid.width))
    return np.where(old < before, regular, old - before + grid.regular)


def labels_of(column: Column) -> tuple[Level, ...]:
    """Return the levels of a labelled column in the order of its grid points, including the label for "other".

    Raise SchemaError for a column without levels.
    """
    support = column.support()
    if not isinstance(support, Levels):
        raise SchemaError(f"a column of type {type(column).__name__} has no levels: give a column with declared levels")
    return support.levels


def bounds_of(column: Column) -> tuple[float, float]:
    """Return the least and the greatest number that stand for a regular value; raise SchemaError for levels."""
    match column.support():
        case Interval(lower, upper):
            return lower, upper
        case Steps(first, last) as steps:
            return steps.value(first), steps.value(last)
        case _:
            raise SchemaError(
                f"a column of type {type(column).__name__} has no bounds: give a column with declared bounds"
            )


def starts_of_classes(column: Column) -> np.ndarray:
    """Return the first regular grid point of each class of a column, (classes,), such as a survey weight's classes.

    Columns with classes are counted by class. The result is empty for other columns. A class narrower than a grid point
    is merged into the class below.
    """
    ends, support = column.class_ends(), column.support()
    if not ends or not isinstance(support, Interval):
        return np.zeros(0, np.int64)
    place = (np.array(ends[:-1]) - support.lower) / (support.upper - support.lower)
    return np.unique(np.minimum(np.ceil(place * _parts(support)), _parts(support) - 1).astype(np.int64))


def edges_of(interval: Interval, indices: np.ndarray) -> np.ndarray:
    """Return the lower end of each regular grid point of an interval: point u holds edge(u) <= x < edge(u + 1)."""
    return interval.lower + (interval.upper - interval.lower) * (indices / _parts(interval))


def _runs(count: int, steps: Steps, width: int) -> tuple[Run, ...]:
    """Return the runs of grid points for ``count`` steps: far from 0 a grid point has ``width`` steps.

    Nearer to 0 it has half as many, and so on down to 1, so that small numbers stay apart even if bounds are too wide.
    """
    zero = -(steps.offset // steps.size) - steps.first
    inner: list[tuple[int, int, int]] = []  # how far from 0 grid points of a width begin and end, in steps
    outer, wide = count + abs(zero), width
    while wide > 1:
        inner.append((min(NEAR * wide, outer), outer, wide))
        outer, wide = min(NEAR * wide, outer), -(-wide // 2)
    starts = [(zero - end + 1, wide) for _, end, wide in inner]  # from the lowest number to 0
    starts += [(zero - outer + 1, 1), *((zero + begin, wide) for begin, _, wide in reversed(inner))]
    found: list[Run] = []
    point = 0
    for (begin, wide), (end, _) in itertools.pairwise([*starts, (count, 1)]):
        first, last = max(begin, 0), min(end, count)
        if first < last:
            found.append(Run(point, first, wide))
            point += -(-(last - first) // wide)
    return tuple(found)


def _layout(
    regular: int, *, nullable: bool, special: tuple[float, ...] = (), width: int = 1, steps: int = 0,
    runs: tuple[Run, ...] = (), ordered: bool = True,
) -> Grid:  # fmt: skip
    """Return a grid with its points numbered in order: regular, special, missing, "other".

    All columns have this order, so that code elsewhere finds the kind of a point by its number alone.  A column is
    ``nullable`` if it may have missing values; the other parameters are fields of `Grid`.
    """
    after = regular + len(special)
    return Grid(
        regular=regular,
        width=width,
        steps=steps,
        runs=runs,
        ordered=ordered,
        special=special,
        null=after if nullable else None,
        other=after + nullable,
        size=after + nullable + 1,
    )


def _parts(interval: Interval) -> int:
    """Return the number of grid points of an interval: at most `MAX_POINTS`, each at least four floats wide.

    The ends of narrower grid points could become equal by rounding.
    """
    spacing = math.ulp(max(abs(interval.lower), abs(interval.upper)))
    return int(max(1, min(MAX_POINTS, (interval.upper - interval.lower) / (4 * spacing))))
