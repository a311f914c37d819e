"""Division of a column's grid points into a question's groups, and the groups' shares of the model's bins.

The module does arithmetic on public axes; it uses no noisy answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from scipy import sparse

from synthdp.answers.expressions import grid_values
from synthdp.answers.questions import Bins
from synthdp.arrays import AnyArray, FloatArray, IntArray, Sparse, frozen
from synthdp.domain.axis import Axis
from synthdp.domain.grid import edges_of, grid_of, labels_of
from synthdp.domain.refinement import Refinement
from synthdp.schema.column import Column, Interval

WHOLE = 1e-9
"""Fractions of a fine bin this close to 0 or 1 count as 0 or 1.  A numerical tolerance."""

MISSING = None
"""Label of the missing value in answers.  A convention."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuestionBinning:
    """Holds the groups into which a question divides one column's grid points, and their shares of the model's bins.

    Parameters
    ----------
    column
        Position of the column in the model.
    groups
        (releasable,) group of each grid point that may be released, from 0; -1 for none.
    labels
        Label of each group.
    refinement
        The model's coarse and fine bins of this column.
    values
        (releasable,) number of each grid point, for sums of values.

    Attributes
    ----------
    powers
        1, or 3 with values: each group then has three entries, for the powers 0, 1 and 2 of the values.
    leaf_share
        (fine bins, groups) fraction of each fine bin's grid points in each group; sparse.
    cell_share
        (coarse bins, powers * groups) mean of each power in each group over a coarse bin's rows.  For power 0 it is the
        fraction of the coarse bin in the group.
    leaf_powers
        (fine bins, powers * groups) the same means over each fine bin's grid points; sparse.
    """

    column: int
    groups: IntArray
    labels: tuple[object, ...]
    refinement: Refinement
    values: FloatArray | None = None
    powers: int = field(init=False)
    leaf_share: Sparse = field(init=False)
    leaf_powers: Sparse = field(init=False)
    cell_share: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        weights = [] if self.values is None else [self.values, self.values**2]
        powers = [leaf_shares(self.refinement.fine, self.groups, len(self.labels), some) for some in (None, *weights)]
        shares = sparse.hstack(powers, format="csr") if weights else powers[0]
        object.__setattr__(self, "powers", len(powers))
        object.__setattr__(self, "leaf_share", powers[0])
        object.__setattr__(self, "leaf_powers", shares)
        object.__setattr__(self, "cell_share", frozen(self.refinement.table() @ shares / _mass(self.refinement)))

    def heaped(self) -> tuple[FloatArray, FloatArray] | None:
        """Return what fraction of each coarse bin lies in each group in two extreme cases, for error bars.

        Each is (coarse bins, groups).  In both, every fine bin that a group cuts is a point mass: its rows are all in
        the larger part, or all in the smaller part.  Return None if no fine bin is cut, or if values are summed.
        """
        rows = sparse.csr_array(self.leaf_share)
        largest = np.maximum.reduceat(np.append(rows.data, 0.0), rows.indptr[:-1]) * (np.diff(rows.indptr) > 0)
        cut = np.flatnonzero((largest > WHOLE) & (largest < 1 - WHOLE) & (self.refinement.weights > 0))
        if self.values is not None or not len(cut):
            return None
        shares = rows[cut].toarray()
        outside = np.maximum(1 - shares.sum(axis=1, keepdims=True), 0.0)
        parts = np.hstack([shares, outside])  # the last one is in no group
        weight = self.refinement.weights[cut] / _mass(self.refinement)[self.refinement.coarse_cell[cut], 0]
        found = []
        for at in (parts.argmax(axis=1), np.where(parts > WHOLE, parts, 2.0).argmin(axis=1)):
            moved = np.zeros(parts.shape)
            moved[np.arange(len(cut)), at] = 1.0
            share = self.cell_share.copy()
            np.add.at(share, self.refinement.coarse_cell[cut], weight[:, None] * (moved - parts)[:, :-1])
            found.append(share)
        return found[0], found[1]


def leaf_shares(axis: Axis, groups: IntArray, count: int, weights: FloatArray | None = None) -> Sparse:
    """Return the fraction of each fine bin's grid points in each of ``count`` groups, sparse (fine bins, count).

    With ``weights`` of the grid points, their sum over the group is divided by the bin's number of grid points.

    Fine bins and groups are few runs of adjacent grid points, so one sum per run is enough.
    """
    starts = np.union1d(axis.starts[axis.starts < len(groups)], runs_of(groups))
    of_run = groups[starts]
    inside = of_run >= 0
    sums = np.diff(starts, append=len(groups)).astype(float) if weights is None else np.add.reduceat(weights, starts)
    leaves = axis.cells_of(starts[inside].astype(np.uint32)).astype(np.int64)
    parts = sparse.coo_array((sums[inside], (leaves, of_run[inside])), shape=(axis.size, count)).tocsr()
    parts.data /= np.repeat(axis.width, np.diff(parts.indptr))
    return parts


def runs_of(*parts: AnyArray) -> IntArray:
    """Return the first positions of runs over which all given arrays, (n,) each, are constant, increasing from 0.

    Grid points of one run are alike for a question, so that it takes one step per run.
    """
    changes = [np.flatnonzero(part[1:] != part[:-1]) + 1 for part in parts]
    return np.unique(np.concatenate([np.zeros(1, np.int64), *changes]))


def leaf_means(axis: Axis, values: FloatArray) -> FloatArray:
    """Return the mean of ``values`` over the grid points of each fine bin, (axis.size,).

    ``values``, (releasable,), holds a function's value at each grid point that may be released.
    """
    inside = axis.starts < len(values)
    of_run = np.add.reduceat(values.astype(np.float64, copy=False), axis.starts[inside])
    sums = np.bincount(axis.cells[inside], weights=of_run, minlength=axis.size).astype(np.float64)
    return np.asarray(_per_point(axis, sums[:, None])[:, 0])


def by_level(column: Column) -> tuple[IntArray, tuple[object, ...]]:
    """Return one group per releasable grid point, (points,), with its label, for categorical columns."""
    releasable = grid_of(column).releasable
    levels = labels_of(column)
    return np.arange(releasable), tuple(levels[u] if u < len(levels) else MISSING for u in range(releasable))


def by_cell(column: Column, axis: Axis) -> tuple[IntArray, tuple[object, ...]]:
    """Return the model's coarse bins of an ordered column as groups of its grid points, (points,), with labels.

    Special and missing values get groups of their own.
    """
    grid = grid_of(column)
    starts = np.union1d(axis.starts[axis.starts < grid.releasable], np.arange(grid.regular, grid.releasable))
    cells = axis.cells_of(starts.astype(np.uint32)).astype(np.int64)
    apart = np.maximum(starts - grid.regular + 1, 0)
    return _numbered(column, starts, cells * (int(apart[-1]) + 1) + apart)


def by_bins(column: Column, bins: Bins) -> tuple[IntArray, tuple[object, ...]]:
    """Return the group of each grid point, (points,), and labels: ``bins`` equal bins, or bins between given ends.

    Values beyond the ends are in no group, -1; special and missing values have groups of their own.
    """
    grid = grid_of(column)
    if isinstance(bins, int):
        starts = grid.even_starts(bins)
    else:
        starts = np.searchsorted(grid_values(column)[0][: grid.regular], bins)
        last = np.searchsorted(grid_values(column)[0][: grid.regular], bins[-1], side="right")
        starts[-1] = last  # the last bin holds its upper end
    starts = np.unique(np.concatenate([np.zeros(1, np.int64), starts, np.arange(grid.regular, grid.releasable)]))
    starts = starts[starts < grid.releasable]
    if isinstance(bins, int):
        key = grid.parts_of(starts, bins)
    else:
        ends, values = np.array(bins), grid_values(column)[0][starts]
        key = np.where(values == ends[-1], len(ends) - 2, np.searchsorted(ends, values, side="right") - 1)
        key = np.where((key < 0) | (key > len(ends) - 2), -1, key)
    apart = starts - grid.regular  # special and missing values
    return _numbered(column, starts, np.where(apart >= 0, int(key.max()) + 1 + apart, key))


def groups_of(column: Column, axis: Axis, bins: Bins | None) -> tuple[IntArray, tuple[object, ...]]:
    """Return each grid point's group, (points,), and labels: categories, given bins, or the release's coarse bins."""
    if column.labelled:
        return by_level(column)
    return by_cell(column, axis) if bins is None else by_bins(column, bins)


@lru_cache(maxsize=64)
def numbers_of(column: Column) -> tuple[FloatArray, IntArray]:
    """Return each releasable grid point's number, 0 if missing, and whether it has one (1 or 0), (releasable,) each.

    Times are in microseconds, and levels are numbered by position, so that sums and quantiles can be computed.
    """
    values, missing = grid_values(column)
    return frozen(np.where(missing, 0.0, values.astype(np.float64))), frozen((~missing).astype(np.int64))


def _numbered(column: Column, starts: IntArray, key: IntArray) -> tuple[IntArray, tuple[object, ...]]:
    """Return each grid point's group, numbered by first occurrence, and each group's label, a value or a range.

    Users see groups in the order of their values.  ``starts`` and ``key`` hold the first grid point and the group key
    of each run of grid points; -1 is for no group.
    """
    of_run, first = numbered(key)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order) + 1, np.int64)
    rank[order], rank[-1] = np.arange(len(order)), -1
    of_run, stops = rank[of_run], np.append(starts[1:], grid_of(column).releasable)
    last = np.zeros(len(order) + 1, np.int64)
    last[of_run] = stops - 1
    labels = tuple(
        _range(column, int(a), int(b)) for a, b in zip(starts[first[order]], last[:-1], strict=True)
    )  # fmt: skip
    return np.repeat(of_run, stops - starts), labels


def numbered(key: IntArray) -> tuple[IntArray, IntArray]:
    """Return keys renumbered without gaps in increasing order, -1 for negative keys, and each key's first position.

    This function replaces `np.unique` and takes linear time, because keys are small integers.
    """
    first = np.full(int(key.max(initial=-1)) + 2, -1)
    first[key[::-1]] = np.arange(len(key) - 1, -1, -1)
    first[-1] = -1  # where keys below 0 went
    present = first >= 0
    number = np.where(present, np.cumsum(present) - 1, -1)
    return number[np.maximum(key, -1)], first[present]


def _range(column: Column, first: int, last: int) -> object:
    """Return the label of the values from grid point ``first`` to ``last``: a single value, or a text "a to b".

    It is `MISSING` for the missing value.  A special value is shown alone, and so is a single value that is no
    interval.
    """
    values, missing = grid_values(column)
    grid = grid_of(column)
    if missing[first]:
        return MISSING
    support = column.support()
    if first >= grid.regular or (first == last and not isinstance(support, Interval)):
        return column.shown(values[first])
    if isinstance(support, Interval):
        ends = edges_of(support, np.array([first, last + 1]))
        return f"{ends[0]:.6g} to {ends[1]:.6g}"
    return f"{column.shown(values[first])} to {column.shown(values[last])}"


def _per_point(axis: Axis, sums: FloatArray) -> FloatArray:
    """Return sums over bins, (bins, ...), divided by each bin's number of grid points: means of functions.

    The result is 0 for bins without grid points.
    """
    width = axis.width[:, None]
    return np.divide(sums, width, out=np.zeros(sums.shape), where=width > 0)


def _mass(refinement: Refinement) -> FloatArray:
    """Return the total weight of each coarse bin, (bins, 1), by which fine bins' weights become fractions.

    A weight of 0 becomes 1, so that it can be a divisor.
    """
    mass = np.bincount(refinement.coarse_cell, weights=refinement.weights)
    return np.where(mass > 0, mass, 1.0)[:, None]
