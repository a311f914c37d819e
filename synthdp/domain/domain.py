"""A domain: the finite world of a table, one axis per column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from synthdp.arrays import Codes, FloatArray, GridIndices, IntArray
from synthdp.domain.axis import Axis
from synthdp.errors import ParameterError


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """A product of axes.

    Parameters
    ----------
    axes
        One axis per column, in order.

    Attributes
    ----------
    names
        Column names.
    shape
        Number of cells of each axis.
    """

    axes: tuple[Axis, ...]
    names: tuple[str, ...] = field(init=False)
    shape: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(self.axes))
        object.__setattr__(self, "names", tuple(axis.name for axis in self.axes))
        object.__setattr__(self, "shape", tuple(axis.size for axis in self.axes))
        if not self.axes or len(set(self.names)) < len(self.axes):
            raise ParameterError("a domain needs one or more axes with different names")

    def __len__(self) -> int:
        return len(self.axes)

    @property
    def cells(self) -> int:
        """Number of cells of the whole product, exact however large."""
        return math.prod(self.shape)

    def index(self, *names: str) -> tuple[int, ...]:
        """Return the positions of columns.

        Raises
        ------
        ParameterError
            If there is no column of a name.
        """
        for name in names:
            if name not in self.names:
                raise ParameterError(f"there is no column {name!r}; the domain has: {', '.join(self.names)}")
        return tuple(self.names.index(name) for name in names)

    def project(self, names: Iterable[str]) -> Domain:
        """Return the domain of some columns."""
        return Domain(tuple(self.axes[i] for i in self.index(*names)))

    def codes(self, indices: Mapping[str, GridIndices]) -> Codes:
        """Return in which bin of each column rows are, from their grid indices; (n, d) in Fortran order."""
        rows = len(indices[self.names[0]])
        codes = np.empty((rows, len(self)), np.min_scalar_type(max(self.shape) - 1), order="F")
        for j, axis in enumerate(self.axes):
            codes[:, j] = axis.cells_of(indices[axis.name])
        return codes

    def ravel(self, codes: Codes, columns: Sequence[int]) -> IntArray:
        """Return each row's flat cell, in C order, in the table of some columns; (n,)."""
        flat = np.zeros(len(codes), np.int64)
        for j in columns:
            flat *= self.shape[j]
            flat += codes[:, j]
        return flat

    def points(self, codes: Codes) -> FloatArray:
        """Return the representative point in [-1, 1]^d of each row's cells, (n, d); NaN where an axis has none."""
        return np.column_stack([axis.points[codes[:, j]] for j, axis in enumerate(self.axes)])
