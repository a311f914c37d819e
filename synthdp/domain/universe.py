"""All cells of a small domain in which a released row may lie: the universe of the mechanisms that list one."""

from __future__ import annotations

import numpy as np

from synthdp.arrays import Codes
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError

MAX_CELLS = 2**22
"""Most cells that are listed."""


def universe_size(domain: Domain) -> int:
    """Return the number of cells in which a released row may lie, exact however large."""
    size = 1
    for axis in domain.axes:
        size *= int(axis.releasable.sum())
    return size


def check_size(domain: Domain, *, limit: int = MAX_CELLS) -> int:
    """Return the number of cells in which a released row may lie, or refuse to list them; errors as in `universe`."""
    size = universe_size(domain)
    if size > limit:
        raise ParameterError(
            f"a mechanism that lists its universe can hold at most {limit} cells, but this domain has {size}: "
            "use fewer columns or coarser axes, or AdaptiveMarginals, which never lists them"
        )
    return size


def universe(domain: Domain, *, limit: int = MAX_CELLS) -> Codes:
    """Return the cells in which a released row may lie, (m, d) in C order.

    Raises
    ------
    ParameterError
        If there are more than ``limit``; the message says how many.
    """
    size = check_size(domain, limit=limit)
    kept = [np.flatnonzero(axis.releasable) for axis in domain.axes]
    codes = np.empty((size, len(kept)), np.int64, order="F")
    for j, grid in enumerate(np.meshgrid(*kept, indexing="ij")):
        codes[:, j] = grid.ravel()
    return codes


def releasable_axis(axis: Axis) -> Axis:
    """Return the axis whose never-released cells are joined to its first released one.

    A public rule: unforeseen values are then counted in that cell.
    """
    first = int(np.flatnonzero(axis.releasable)[0])
    merged = np.where(axis.releasable[axis.cells], axis.cells, first)
    return Axis(axis.name, axis.column, axis.starts, np.unique(merged, return_inverse=True)[1])


def releasable_domain(domain: Domain) -> Domain:
    """Return the domain without never-released cells; see `releasable_axis`."""
    return Domain(tuple(releasable_axis(axis) for axis in domain.axes))


def axis_with_misfits(axis: Axis) -> Axis:
    """Return the axis on which values that do not fit the schema have a cell of their own: the last one, if it is new."""
    hidden = axis.grid.hidden
    if hidden is None or axis.cell_of_alone(hidden) is not None:
        return axis
    visible = axis.starts < hidden
    return Axis(
        axis.name, axis.column, np.append(axis.starts[visible], hidden), np.append(axis.cells[visible], axis.size)
    )


def domain_with_misfits(domain: Domain) -> Domain:
    """Return the domain on which misfits are apart, the same one if they are; see `axis_with_misfits`."""
    axes = tuple(axis_with_misfits(axis) for axis in domain.axes)
    return domain if all(new is old for new, old in zip(axes, domain.axes, strict=True)) else Domain(axes)
