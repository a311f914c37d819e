"""What the noisy answers to a family say of the table of some columns: sums over rows of products of functions of cells.

Tables, parities and monomials are such sums; each family says so of itself (`TellsTables`), and whoever answers questions
needs to know none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from synthdp.arrays import Answers, FloatArray
from synthdp.domain.axis import Axis


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProductSums:
    """Noisy sums over rows of products of functions of d columns, one function of each.

    Parameters
    ----------
    axes
        The d columns and the cells that can be asked about.
    features
        For each column (f_j, cells_j): the values of its functions in the cells.
    values
        (f_1, ..., f_d) noisy sums of all products.
    variance
        Of their noise, independent of each other, in the same shape.
    """

    axes: tuple[Axis, ...]
    features: tuple[FloatArray, ...]
    values: FloatArray
    variance: FloatArray

    @property
    def noise(self) -> float:
        """The sum of all variances: of several sources of one table, the one with the least is taken."""
        return float(self.variance.sum())

    @classmethod
    def of_cells(cls, axes: Sequence[Axis], counts: FloatArray, variance: FloatArray) -> ProductSums:
        """Return the sums that are the table itself: one function for each cell."""
        features = tuple(np.eye(axis.size) for axis in axes)
        return cls(axes=tuple(axes), features=features, values=counts, variance=variance)


@runtime_checkable
class TellsTables(Protocol):
    """A family whose answers say what the tables of some columns are."""

    def sums_of(
        self, names: Sequence[str], answers: Answers, stddev: float, *, rows: tuple[float, float]
    ) -> ProductSums | None:
        """Return what (k,) noisy answers say of the table of some columns, in this order; ``None`` if too little.

        ``rows`` is the number of rows with its standard deviation, for a family that leaves it out.
        """
        ...
