"""How the cells of a coarse axis are divided into the cells of a finer one, and in which proportion."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, FloatArray, GridIndices, IntArray, frozen, narrow
from synthdp.domain.axis import Axis
from synthdp.domain.encoder import Numbers, decode, encode
from synthdp.domain.grid import Grid, bounds_of, grid_of
from synthdp.errors import InternalError
from synthdp.randomness import Generator
from synthdp.schema.column import Steps
from synthdp.schema.columns import Column
from synthdp.schema.numbers import LARGEST_EXACT

FEWEST, MOST = 8, 1 << 12
"""A power of ten is a class of round numbers only if it has FEWEST to MOST multiples within the bounds.  A few are mere
values, not a habit of rounding; very many would make an axis of very many runs, which databases look values up in.  A
convention; a safety limit.
"""

POWERS = range(15, -16, -1)
"""Exponents of the powers of ten that may be classes of round numbers, the largest first.  A convention."""


def axis_of_roundness(name: str, column: Column) -> Axis | None:
    """Return an axis whose cells are classes of round numbers, such as multiples of 100 but not of 1000.

    The widest class comes first. After the classes come two cells: numbers that are not round, and special values,
    missing values and "other" together. Return ``None`` for columns without numbers, and if all numbers are in one
    class.  Also return ``None`` if a grid point holds several steps: each grid point then holds round numbers.

    Parameters
    ----------
    name, column
        The column and its declaration.
    """
    if column.quantity != "number" or grid_of(column).width != 1:
        return None
    starts, cells = _groups(column)
    # of its own, and not those of an earlier release: a pickle tells which objects are the same
    return Axis(name, column, starts.copy(), cells.copy()) if len(starts) else None


@lru_cache(maxsize=256)
def _groups(column: Column) -> tuple[IntArray, IntArray]:
    """Return the runs of grid points in one class of round numbers: first grid points and classes, (runs,) each.

    A class is the largest power of ten that divides a number. Both are empty if all grid points are in one class.
    """
    grid = grid_of(column)
    spacings = [Fraction(10) ** power for power in POWERS]
    cells = np.full(grid.size, len(spacings))
    cells[grid.regular :] = len(spacings) + 1
    for i in range(len(spacings) - 1, -1, -1):  # the widest last
        cells[_multiples(column, grid, spacings[i])] = i
    if (cells[: grid.regular] == cells[0]).all():
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(np.diff(cells)) + 1])
    return starts, np.unique(cells[starts], return_inverse=True)[1].astype(np.int64)


def _multiples(column: Column, grid: Grid, spacing: Fraction) -> IntArray:
    """Return the grid points that hold the multiples of a spacing, (multiples,).

    The result is empty if there are fewer than `FEWEST` or more than `MOST` multiples, or if they are too large for
    exact floats.
    """
    lower, upper = (Fraction(repr(bound)) for bound in bounds_of(column))  # as written: 0.3 is a multiple of 0.1
    first, last = math.ceil(lower / spacing), math.floor(upper / spacing)
    if not FEWEST <= last - first + 1 <= MOST or max(abs(first), abs(last)) * spacing.numerator > LARGEST_EXACT:
        return np.zeros(0, np.int64)
    values: AnyArray = np.arange(first, last + 1) * spacing.numerator / spacing.denominator
    points = encode(column, Numbers(values))
    held = points < grid.regular  # others are special
    if isinstance(column.support(), Steps):
        found = decode(column, points)
        held &= found.values == values if isinstance(found, Numbers) else False
    return points[held].astype(np.int64)


LEAST_MASS = 1e-9
"""A range of grid points counts as empty if it holds less than this fraction of the rows that an even spread would give
it.  Rounding alone leaves that much.  A tolerance."""


@dataclass(frozen=True, slots=True, eq=False)
class Refinement:
    """How the cells of a coarse axis are divided into the cells of a finer one, and in which proportions rows are drawn.

    Parameters
    ----------
    fine
        The fine axis.
    coarse_cell
        (fine.size,) coarse cell of each fine one.
    weights
        (fine.size,) share of each fine cell within its coarse one, up to a factor per coarse cell; cells that are never
        released have weight 0.
    rounding
        For each cell of `axis_of_roundness`, how likely its grid points are beside others of their fine cell, > 0; ``None``
        if all are alike.
    """

    fine: Axis
    coarse_cell: IntArray
    weights: FloatArray
    rounding: FloatArray | None = None

    def __post_init__(self) -> None:
        weights = np.where(self.fine.releasable, np.maximum(np.asarray(self.weights, np.float64), 0.0), 0.0)
        coarse = np.asarray(self.coarse_cell, np.int64)
        if len(weights) != self.fine.size or len(coarse) != self.fine.size:
            raise InternalError("a refinement needs a weight and a coarse cell for every fine cell")
        width = np.where(self.fine.releasable, self.fine.width, 0)
        empty = np.bincount(coarse, weights=weights) <= 0  # nothing known inside: spread evenly over grid points
        object.__setattr__(self, "weights", frozen(np.where(empty[coarse], width, weights).astype(np.float64)))
        object.__setattr__(self, "coarse_cell", frozen(coarse))
        if self.rounding is not None:
            if len(self.rounding) != self._classes.size or not (self.rounding > 0).all():
                raise InternalError("a refinement needs a likelihood above 0 for every class of round numbers")
            object.__setattr__(self, "rounding", frozen(np.asarray(self.rounding, np.float64)))

    @classmethod
    def trivial(cls, axis: Axis) -> Refinement:
        """Return the refinement in which coarse and fine cells are the same, for an axis whose cells were not split."""
        return cls(axis, np.arange(axis.size), axis.width.astype(np.float64))

    def reweighted(self, weights: FloatArray) -> Refinement:
        """Return the refinement with other weights, (fine.size,).

        A coarse cell whose new weights are all 0 keeps its old weights. An even spread over its grid points would put
        its rows as far out as the bounds are wide.
        """
        known = np.where(self.fine.releasable, np.maximum(weights, 0.0), 0.0)
        empty = np.bincount(self.coarse_cell, weights=known) <= 0
        return replace(self, weights=np.where(empty[self.coarse_cell], self.weights, known))

    @property
    def groups(self) -> int:
        """The number of coarse cells."""
        return int(self.coarse_cell.max()) + 1

    @property
    def only_cells(self) -> GridIndices | None:
        """The fine cell of each coarse cell, (coarse cells,); ``None`` if a coarse cell has several that may have rows.

        Fine cells then need not be drawn. The entry of a coarse cell that has no fine cell with rows has no meaning.
        """
        filled = np.flatnonzero(self.weights)
        if len(np.unique(self.coarse_cell[filled])) < len(filled):
            return None
        only = np.zeros(self.groups, np.int64)
        only[self.coarse_cell[filled]] = filled
        return narrow(only, self.fine.size)

    def classes(self, intervals: int) -> IntArray:
        """Return a coarser class for each fine cell, (fine.size,); sampling balances the numbers of rows of classes.

        On a long ordered axis a class is one of ``intervals`` equal intervals; special and missing values have classes
        of their own. On other axes each fine cell is a class.
        """
        grid = self.fine.grid
        if not grid.ordered or grid.regular <= intervals:
            return np.arange(self.fine.size)
        starts = self.fine.first_points
        found = np.where(starts < grid.regular, grid.parts_of(starts, intervals), intervals + starts - grid.regular)
        return np.asarray(np.unique(found, return_inverse=True)[1], np.int64)

    def coarse(self) -> Axis:
        """Return the coarse axis, whose cells are unions of fine ones."""
        return self.fine.merged(self.coarse_cell)

    def share_of_groups(self, allowed: BoolArray) -> FloatArray:
        """Return the fraction of each coarse cell's mass at allowed grid points, (groups,); 0 without mass.

        A model is conditioned on coarse cells with these weights.  ``allowed`` is as in `share`.
        """
        held = np.bincount(self.coarse_cell, weights=self.weights, minlength=self.groups)
        found = np.bincount(self.coarse_cell, weights=self.weights * self.share(allowed), minlength=self.groups)
        return np.divide(found, held, out=np.zeros(len(held)), where=held > 0)

    def share(self, allowed: BoolArray) -> FloatArray:
        """Return the fraction of each fine cell's rows at allowed grid points, (fine.size,); 0 if a cell has none.

        A condition that cuts a fine cell counts this fraction of its rows.

        Parameters
        ----------
        allowed
            (grid points,) whether each grid point is allowed.
        """
        good = np.flatnonzero(allowed[: self.fine.grid.releasable]).astype(np.uint32)
        part = np.bincount(self.fine.cells_of(good), weights=self._likely(good), minlength=self.fine.size)
        _, _, cells, likely = self._runs()
        whole = np.bincount(cells, weights=likely, minlength=self.fine.size)
        return np.divide(part, whole, out=np.zeros(self.fine.size), where=whole > 0)

    def indices_in(self, cells: AnyArray, rng: Generator) -> GridIndices:
        """Draw a grid point in each given fine cell, (n,), round numbers as often as ``rounding`` says."""
        if self.rounding is None:
            return self.fine.indices_in(cells, rng)
        starts, length, cell_of_run, likely = self._runs()
        run = _drawn(cell_of_run, likely, self.fine.size, cells, rng)
        found = starts[run] + (rng.random(len(cells)) * length[run]).astype(np.int64)
        return narrow(found, self.fine.grid.size)

    def _runs(self) -> tuple[IntArray, IntArray, GridIndices, FloatArray]:
        """Return the runs of grid points of one fine cell and one class of round numbers, which are fewer than points.

        The four arrays have an entry for each run, (runs,).  They hold the first grid point, the number of grid points,
        the fine cell, and the total weight of the points.
        """
        starts = self.fine.starts if self.rounding is None else np.union1d(self.fine.starts, self._classes.starts)
        starts = starts[starts < self.fine.grid.releasable]
        length = np.diff(starts, append=self.fine.grid.releasable)
        return starts, length, self.fine.cells_of(starts.astype(np.uint32)), self._likely(starts) * length

    def indices_among(self, allowed: BoolArray, cells: AnyArray, rng: Generator) -> GridIndices:
        """Draw an allowed grid point in each given fine cell, (n,), for rows under conditions.

        Each cell must have an allowed grid point. Round numbers come as often as ``rounding`` says.
        """
        good = np.flatnonzero(allowed[: self.fine.grid.releasable])
        place = _drawn(self.fine.cells_of(good.astype(np.uint32)), self._likely(good), self.fine.size, cells, rng)
        return narrow(good[place], self.fine.grid.size)

    def indices_between(self, first: IntArray, last: IntArray, rng: Generator) -> GridIndices:
        """Draw a regular grid point from each range, (n,), in proportion to the rows of fine cells and to ``rounding``.

        Values that a rule limits on both sides are drawn by this method.

        Parameters
        ----------
        first, last
            (n,) the ends of each range, both inside, first <= last.  A range without rows gives all its grid points one
            probability.
        rng
            Source of the draws.
        """
        regular = self.fine.grid.regular
        starts = self.fine.starts if self.rounding is None else np.union1d(self.fine.starts, self._classes.starts)
        starts = starts[starts < regular]
        length = np.diff(starts, append=regular)
        leaf = self.fine.cells_of(starts.astype(np.uint32))
        likely = self._likely(starts)
        density = self.weights[leaf] * likely / np.bincount(leaf, likely * length, self.fine.size)[leaf]
        density = density / max(float(density @ length), 1e-300)
        passed = np.append(0.0, np.cumsum(density * length))

        def below(points: IntArray) -> FloatArray:
            run = np.searchsorted(starts, points, side="right") - 1
            return np.asarray(passed[run] + density[run] * (points - starts[run]))

        low, high = below(first), below(last + 1)
        drawn = low + rng.random(len(first)) * (high - low)
        run = np.clip(np.searchsorted(passed, drawn, side="right") - 1, 0, len(starts) - 1)
        inside = starts[run] + (drawn - passed[run]) / np.maximum(density[run], 1e-300)
        evenly = first + rng.random(len(first)) * (last - first + 1)
        found = np.where(high - low > LEAST_MASS * (last - first + 1) / regular, inside, evenly)
        return narrow(np.clip(found.astype(np.int64), first, last), self.fine.grid.size)

    def _likely(self, points: AnyArray) -> FloatArray:
        """Return the weight of grid points among others of their fine cell, (n,), by ``rounding``; 1 without it.

        Grid points are drawn by these weights, so that drawn numbers are as round as the real ones.
        """
        if self.rounding is None:
            return np.ones(len(points))
        return np.asarray(self.rounding[self._classes.cells_of(points.astype(np.uint32))], np.float64)

    @property
    def _classes(self) -> Axis:
        """The axis of the classes of round numbers that ``rounding`` weighs, see `axis_of_roundness`."""
        found = axis_of_roundness(self.fine.name, self.fine.column)
        if found is None:
            raise InternalError("a refinement needs a likelihood of classes only where its column has numbers")
        return found

    def table(self, allowed: FloatArray | None = None) -> FloatArray:
        """Return each fine cell's share of its coarse cell's rows, (coarse, fine), up to a factor per coarse cell.

        The matrix turns functions of fine cells, such as conditions, into functions of coarse cells. Entries of fine
        cells that lie in another coarse cell are 0.

        Parameters
        ----------
        allowed
            (fine.size,) fraction of each fine cell's grid points that may be drawn.  In a coarse cell whose remaining fine
            cells all have weight 0, shares are in proportion to their numbers of grid points.
        """
        weights = self.weights
        if allowed is not None:
            weights = weights * allowed
            empty = np.bincount(self.coarse_cell, weights=weights) <= 0
            weights = np.where(empty[self.coarse_cell], self.fine.width * allowed, weights)
        table = np.zeros((self.groups, self.fine.size))
        table[self.coarse_cell, np.arange(self.fine.size)] = weights
        return table


def _drawn(cell: AnyArray, likely: FloatArray, size: int, cells: AnyArray, rng: Generator) -> IntArray:
    """Draw one item for every given cell, (n,) positions, in proportion to the items' weights.

    Parameters
    ----------
    cell, likely
        (items,) the cell that each item lies in, and its weight among the items of this cell, > 0.
    size
        Number of cells.
    cells
        (n,) cells that have an item.
    """
    order = np.argsort(cell, kind="stable")
    cell, likely = cell[order].astype(np.int64), likely[order]
    count = np.bincount(cell, minlength=size)
    first = np.cumsum(count) - count
    passed = np.cumsum(likely / np.bincount(cell, weights=likely, minlength=size)[cell])
    before = np.append(0.0, passed)[first]
    place = np.searchsorted(passed, before[cells] + rng.random(len(cells)), side="right")
    return np.asarray(order[np.clip(place, first[cells], (first + count - 1)[cells])], np.int64)
