"""How the cells of a coarse axis are divided into the cells of a finer one, and in which proportion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthdp.arrays import FloatArray, IntArray, frozen
from synthdp.domain.axis import Axis
from synthdp.errors import InternalError


@dataclass(frozen=True, slots=True, eq=False)
class Refinement:
    """A fine axis whose cells lie inside those of a coarse one.

    Parameters
    ----------
    fine
        The fine axis.
    coarse_cell
        (fine.size,) coarse cell of each fine one.
    weights
        (fine.size,) share of each fine cell within its coarse one, up to a factor per coarse cell; cells that are never
        released have weight 0.
    """

    fine: Axis
    coarse_cell: IntArray
    weights: FloatArray

    def __post_init__(self) -> None:
        weights = np.where(self.fine.releasable, np.maximum(np.asarray(self.weights, np.float64), 0.0), 0.0)
        coarse = np.asarray(self.coarse_cell, np.int64)
        if len(weights) != self.fine.size or len(coarse) != self.fine.size:
            raise InternalError("a refinement needs a weight and a coarse cell for every fine cell")
        width = np.where(self.fine.releasable, self.fine.width, 0)
        empty = np.bincount(coarse, weights=weights) <= 0  # nothing known inside: spread evenly over grid points
        object.__setattr__(self, "weights", frozen(np.where(empty[coarse], width, weights).astype(np.float64)))
        object.__setattr__(self, "coarse_cell", frozen(coarse))

    @classmethod
    def trivial(cls, axis: Axis) -> Refinement:
        """Return the refinement of an axis by itself."""
        return cls(axis, np.arange(axis.size), axis.width.astype(np.float64))

    @property
    def groups(self) -> int:
        """How many coarse cells there are."""
        return int(self.coarse_cell.max()) + 1

    def classes(self, intervals: int) -> IntArray:
        """Return a class for each fine cell, (fine.size,): itself, or of a long axis one of so many equal intervals.

        Special and missing values keep classes of their own.
        """
        grid = self.fine.grid
        if not grid.ordered or grid.regular <= intervals:
            return np.arange(self.fine.size)
        starts = np.zeros(self.fine.size, np.int64)
        starts[self.fine.cells[::-1]] = self.fine.starts[::-1]
        found = np.where(starts < grid.regular, starts * intervals // grid.regular, intervals + starts - grid.regular)
        return np.asarray(np.unique(found, return_inverse=True)[1], np.int64)

    def coarse(self) -> Axis:
        """Return the coarse axis."""
        return Axis(self.fine.name, self.fine.column, self.fine.starts, self.coarse_cell[self.fine.cells])

    def table(self, allowed: FloatArray | None = None) -> FloatArray:
        """Return the share of every fine cell in every coarse one, (coarse, fine).

        Parameters
        ----------
        allowed
            (fine.size,) part of each fine cell's grid points that may be drawn.  Where only cells of weight 0 are left of
            a coarse cell, they are taken by their number of grid points.
        """
        weights = self.weights
        if allowed is not None:
            weights = weights * allowed
            empty = np.bincount(self.coarse_cell, weights=weights) <= 0
            weights = np.where(empty[self.coarse_cell], self.fine.width * allowed, weights)
        table = np.zeros((self.groups, self.fine.size))
        table[self.coarse_cell, np.arange(self.fine.size)] = weights
        return table
