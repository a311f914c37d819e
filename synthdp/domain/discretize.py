"""Public rules that turn a schema into a domain; nothing here depends on rows."""

from __future__ import annotations

import numpy as np

from synthdp.checks import check_whole
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.domain.grid import grid_of, starts_of_classes
from synthdp.schema.columns import Column
from synthdp.schema.schema import Schema


def domain_of(schema: Schema, *, bins: int = 32) -> Domain:
    """Return the standard domain of a schema.

    Parameters
    ----------
    schema
        With all bounds and levels declared.
    bins
        Most cells of the regular grid points of an ordered column; their widths differ by at most one grid point.
    """
    return Domain(tuple(axis_of(name, column, bins=bins) for name, column in schema.items()))


def axis_of(name: str, column: Column, *, bins: int = 32) -> Axis:
    """Return an axis with equal cells over an ordered column, and a cell for every level or class of any other.

    Special values, the missing value and "other" have cells of their own.
    """
    check_whole("bins", bins)
    grid = grid_of(column)
    count = min(bins, grid.regular) if grid.ordered else grid.regular
    classes = starts_of_classes(column)
    regular = classes if len(classes) else -(-np.arange(count) * grid.regular // count)
    starts = np.concatenate([regular, np.arange(grid.regular, grid.size)])
    return Axis(name, column, starts, np.arange(len(starts)))


def finest_axis(name: str, column: Column) -> Axis:
    """Return the axis that has a cell for every grid point."""
    indices = np.arange(grid_of(column).size)
    return Axis(name, column, indices, indices)
