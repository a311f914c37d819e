"""A domain: the finite world of a table, one axis per column; how a schema gives one; the cells a row may lie in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from synthdp.arrays import Codes, FloatArray, GridIndices, IntArray
from synthdp.checks import check_whole
from synthdp.domain.axis import Axis
from synthdp.domain.grid import grid_of, starts_of_classes
from synthdp.errors import ParameterError
from synthdp.schema.columns import Column
from synthdp.schema.schema import schema_given


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
        """Return the positions of named columns, in the order given.

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
        """Return each row's cells as (n, d) codes, Fortran order, from grid indices by column."""
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
        """Return the middle of each row's cells in [-1, 1]^d, (n, d), for functions of points; NaN where there is none."""
        return np.column_stack([axis.points[codes[:, j]] for j, axis in enumerate(self.axes)])


def domain_of(schema: Any, *, bins: int = 32) -> Domain:
    """Return the standard domain of a schema: equal cells for ordered columns, one cell per level for others.

    Parameters
    ----------
    schema
        A `Schema`, a dict of columns, a reviewed draft or the path of a schema, which declares all bounds and levels.
    bins
        Most cells of the regular grid points of an ordered column; their widths differ by at most one grid point.
    """
    return Domain(tuple(axis_of(name, column, bins=bins) for name, column in schema_given(schema).items()))


def axis_of(name: str, column: Column, *, bins: int = 32) -> Axis:
    """Return the standard axis of a column: equal cells if ordered, else one per level or class.

    Special values, the missing value and "other" have cells of their own.
    """
    starts = starts_of(column, bins=bins)
    return Axis(name, column, starts, np.arange(len(starts)))


def starts_of(column: Column, *, bins: int) -> IntArray:
    """Return the first grid point of each cell of a column's standard axis, (cells,); see `axis_of`."""
    check_whole("bins", bins)
    grid = grid_of(column)
    count = min(bins, grid.regular) if grid.ordered else grid.regular
    classes = starts_of_classes(column)
    regular = classes if len(classes) else grid.even_starts(count)
    return np.concatenate([regular, np.arange(grid.regular, grid.size)])


def finest_axis(name: str, column: Column) -> Axis:
    """Return the axis that has a cell for every grid point, for columns of few values such as numbers of child rows."""
    indices = np.arange(grid_of(column).size)
    return Axis(name, column, indices, indices)


MAX_CELLS = 2**22
"""Most cells of a domain that are listed one by one.  A safety limit of memory."""


def universe_size(domain: Domain) -> int:
    """Return the number of cells of a domain in which a released row may lie, as an exact Python integer."""
    size = 1
    for axis in domain.axes:
        size *= int(axis.releasable.sum())
    return size


def check_size(domain: Domain) -> int:
    """Return the number of cells in which a released row may lie; raise an error if there are too many to list."""
    size = universe_size(domain)
    if size > MAX_CELLS:
        raise ParameterError(
            f"a mechanism that lists all cells can hold at most {MAX_CELLS} cells, but the combined columns have "
            f"{size}: use fewer columns or fewer bins, or use AdaptiveMarginals, which never lists all cells"
        )
    return size


def universe(domain: Domain) -> Codes:
    """List the cells in which a released row may lie, (m, d) codes in C order.

    Raises
    ------
    ParameterError
        If there are more than `MAX_CELLS`; the message says how many.
    """
    size = check_size(domain)
    kept = [np.flatnonzero(axis.releasable) for axis in domain.axes]
    codes = np.empty((size, len(kept)), np.int64, order="F")
    for j, grid in enumerate(np.meshgrid(*kept, indexing="ij")):
        codes[:, j] = grid.ravel()
    return codes


def releasable_axis(axis: Axis) -> Axis:
    """Return the axis with its never-released cells merged into its first released one.

    Values outside of the domain are then counted in that cell, a public rule, and every cell can be released.
    """
    first = int(np.flatnonzero(axis.releasable)[0])
    merged = np.where(axis.releasable[axis.cells], axis.cells, first)
    return Axis(axis.name, axis.column, axis.starts, np.unique(merged, return_inverse=True)[1])


def releasable_domain(domain: Domain) -> Domain:
    """Return the domain with never-released cells merged into other cells; see `releasable_axis`."""
    return Domain(tuple(releasable_axis(axis) for axis in domain.axes))


def axis_with_misfits(axis: Axis) -> Axis:
    """Return the axis with a separate cell for values out of the domain, so that other cells count no such values.

    The new cell is the last one. The axis is unchanged if it has such a cell already, or if every value fits the
    column.
    """
    hidden = axis.grid.hidden
    if hidden is None or axis.cell_of_alone(hidden) is not None:
        return axis
    visible = axis.starts < hidden
    return Axis(
        axis.name, axis.column, np.append(axis.starts[visible], hidden), np.append(axis.cells[visible], axis.size)
    )


def domain_with_misfits(domain: Domain) -> Domain:
    """Return the domain with a separate cell for out-of-domain values on each axis, see `axis_with_misfits`.

    Counts of the other cells then count only rows that fit the schema.
    """
    axes = tuple(axis_with_misfits(axis) for axis in domain.axes)
    return domain if all(new is old for new, old in zip(axes, domain.axes, strict=True)) else Domain(axes)
