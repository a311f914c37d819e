"""One axis of a domain: a public partition of a column's grid points into bins, also called its cells."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, FloatArray, GridIndices, IntArray, frozen, narrow
from synthdp.domain.grid import Grid, grid_of, points_of_today
from synthdp.errors import InternalError
from synthdp.randomness import Generator
from synthdp.schema.columns import Column


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """A partition of one column's grid points into cells, as runs of neighbouring grid points.

    Parameters
    ----------
    name, column
        The column and its declaration.
    starts
        (r,) first grid point of each run, increasing from 0.
    cells
        (r,) cell of each run; every cell from 0 to the largest occurs.

    Attributes
    ----------
    grid
        The column's grid points.
    size
        Number of cells.
    width
        (size,) number of grid points of each cell that a released row may have.
    """

    name: str
    column: Column
    starts: IntArray
    cells: IntArray
    grid: Grid = field(init=False)
    size: int = field(init=False)
    width: IntArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", grid_of(self.column))
        starts, cells = np.array(self.starts, np.int64), np.array(self.cells, np.int64)
        if not (len(starts) == len(cells) > 0 and starts[0] == 0 and (np.diff(starts) > 0).all()):
            raise InternalError("the runs of an axis must start at 0 and increase")
        if starts[-1] >= self.grid.size or not (
            0 <= cells.min() <= cells.max() < len(cells) and np.bincount(cells).all()
        ):
            raise InternalError("the cells of an axis must be numbered from 0 without gaps")
        object.__setattr__(self, "starts", frozen(starts))
        object.__setattr__(self, "cells", frozen(cells))
        object.__setattr__(self, "size", int(cells.max()) + 1)
        width = np.bincount(cells, weights=self._lengths(self.grid.releasable), minlength=self.size)
        object.__setattr__(self, "width", frozen(width.astype(np.int64)))

    @classmethod
    def of_file(cls, name: str, column: Column, starts: AnyArray, cells: AnyArray, points: object) -> Axis:
        """Restore an axis from a file; ``points`` is the column's number of grid points, if the file has it.

        Older files have grid points of one width only; their starts are converted.
        """
        known = points == grid_of(column).size
        return cls(name, column, starts if known else points_of_today(column, starts), np.asarray(cells))

    @property
    def points_in_file(self) -> dict[str, int]:
        """Return what a file says of the grid: ``{"points": n}``, or an empty dict if all grid points have one width.

        n is the number of grid points.  By it `of_file` recognises files of older versions, whose grids differ.
        """
        return {"points": self.grid.size} if self.grid.runs else {}

    def __repr__(self) -> str:
        return f"Axis({self.name!r}, {type(self.column).__name__}, {self.size} cells)"

    def named(self, name: str) -> Axis:
        """Return the same cells for another column with the same declaration, such as another slot of a person's record."""
        found = copy(self)
        object.__setattr__(found, "name", name)
        return found

    def cells_of(self, indices: GridIndices) -> GridIndices:
        """Return the cell of each grid index, (n,), in the narrowest unsigned type."""
        if len(indices) < self.grid.size // 8:
            return narrow(self.cells, self.size)[np.searchsorted(self.starts, indices, side="right") - 1]
        return np.repeat(narrow(self.cells, self.size), self._lengths(self.grid.size)).take(indices)

    def cell_of_alone(self, index: int) -> int | None:
        """Return the cell that holds this grid point and no other; ``None`` if the grid point shares a cell.

        A count of such a cell is a count of one value.
        """
        cell = int(self.cells[np.searchsorted(self.starts, index, side="right") - 1])
        run = np.flatnonzero(self.cells == cell)
        alone = len(run) == 1 and self.starts[run[0]] == index and self._lengths(self.grid.size)[run[0]] == 1
        return cell if alone else None

    def groups_of(self, finer: Axis) -> IntArray | None:
        """Return, for each cell of a finer axis of the column, (cells,), the cell of this axis that holds it.

        Counts of this axis are then sums of counts of the finer axis. Return ``None`` if a cell of the finer axis lies
        in several cells of this axis.
        """
        starts = np.union1d(self.starts, finer.starts)
        inside = finer.cells[np.searchsorted(finer.starts, starts, side="right") - 1]
        mine = self.cells[np.searchsorted(self.starts, starts, side="right") - 1]
        groups = np.zeros(finer.size, np.int64)
        groups[inside] = mine
        return groups if (groups[inside] == mine).all() else None

    def merged(self, groups: IntArray) -> Axis:
        """Return the axis with merged cells: ``groups``, (size,), is the new cell of each cell."""
        return Axis(self.name, self.column, self.starts, groups[self.cells])

    @property
    def regular(self) -> int:
        """The number of cells of regular values, which come before the cells of special and missing values."""
        return int(self.cells[np.searchsorted(self.starts, self.grid.regular - 1, side="right") - 1]) + 1

    @property
    def first_points(self) -> IntArray:
        """(size,) first grid point of each cell, which gives the order of the cells and the kind of their values."""
        found = np.zeros(self.size, np.int64)
        found[self.cells[::-1]] = self.starts[::-1]
        return found

    @property
    def regular_in_order(self) -> IntArray:
        """(regular cells,) the cells that begin with a regular value, in increasing order of their values."""
        first = self.first_points
        order = np.argsort(first, kind="stable")
        return np.asarray(order[first[order] < self.grid.regular])

    @property
    def releasable(self) -> BoolArray:
        """(size,) whether a released row may lie in the cell.

        A cell that holds only values outside of the column's domain is never released.
        """
        return np.asarray(self.width > 0)

    @property
    def points(self) -> FloatArray:
        """(size,) middle of each cell's regular grid points in [-1, 1], at which functions of the column are evaluated.

        NaN for a cell without regular grid points, and in a column without an order.  The middle of grid points
        a <= u < b among R regular ones is (a + b) / R - 1.  If their widths differ, a, b and R count steps instead.
        """
        grid = self.grid
        if not grid.ordered:
            return np.full(self.size, np.nan)
        starts = np.minimum(self.starts, grid.regular)
        stops = np.append(starts[1:], grid.regular)
        length = stops - starts
        if grid.runs:
            middle = (grid.first_steps(starts) / grid.steps + grid.first_steps(stops) / grid.steps) - 1
        else:
            middle = (starts + stops) / grid.regular - 1
        mass = np.bincount(self.cells, weights=length, minlength=self.size)
        total = np.bincount(self.cells, weights=length * middle, minlength=self.size)
        return np.asarray(np.divide(total, mass, out=np.full(self.size, np.nan), where=mass > 0), np.float64)

    def indices_in(self, cells: AnyArray, rng: Generator) -> GridIndices:
        """Draw a grid point for every cell, uniformly among the points that a released row may have; (n,).

        Raises
        ------
        InternalError
            If a cell may not be released.
        """
        width = self.width
        present = np.bincount(cells, minlength=self.size) > 0
        if not width[present].all():
            raise InternalError(f"a row was drawn in a cell of column {self.name!r} that is never released")
        order = np.argsort(self.cells, kind="stable")
        runs = np.bincount(self.cells, minlength=self.size)
        first_run = (np.cumsum(runs) - runs)[cells]
        place = np.zeros(len(cells), np.int64)
        if width[present].max(initial=1) > 1:
            place = (rng.random(len(cells)) * width[cells]).astype(np.int64)
        starts, length = self.starts[order], self._lengths(self.grid.releasable)[order]
        run, before = first_run, np.zeros(1, np.int64)
        if runs[present].max(initial=1) > 1:  # the runs of a cell one after the other
            passed = np.cumsum(length)
            place += (passed - length)[first_run]
            run = np.searchsorted(passed, place, side="right")
            before = (passed - length)[run]
        return narrow(starts[run] + place - before, self.grid.size)

    def _lengths(self, stop: int) -> IntArray:
        """Return the number of grid points below ``stop`` in each run of grid points of one cell, (runs,).

        With ``stop`` the number of releasable grid points, which come first, a cell's width is the sum over its runs.
        """
        return np.maximum(np.append(self.starts[1:], stop) - self.starts, 0)
