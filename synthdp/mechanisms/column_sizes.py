"""Bins of numbers by size, so that bounds far too wide lose little accuracy: finer towards 0, none far out.

The cuts depend on the declaration alone.  Which bins are filled is post-processing of noisy counts.
"""

from __future__ import annotations

import math

import numpy as np

from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.grid import NEAR, bounds_of, grid_of
from synthdp.measurements import beyond_noise
from synthdp.schema.column import Column

FINEST = 32
"""Width of the narrowest bins near 0, in grid points, about.  Derived: `OneWayTree.fan`, the number of parts of a split
bin, so that the next depth splits a narrowest bin into single points."""

WINDOWS = (1, 2, 4, 8, 16, 32)
"""Numbers of neighbouring bins that are tested together for rows, since a thin tail may be significant only as a sum.
A grid: its steps of two are a tolerance."""

REACH = 4.0
"""Rows are assumed to lie within this multiple of the distance from 0 to the outermost significant bins.  Counts of bins
beyond it are removed as noise.  A larger value keeps rows of noise far out, a smaller one cuts thin tails.  Tuned on
sixteen skewed laws (benchmarks/utility/skewed.py): half and twice of it change the three-way error of five tables by +1.2
and -.3 % (docs/benchmarks/constants.md)."""


def cut_by_size(column: Column, starts: IntArray) -> IntArray:
    """Return the first grid points of a column's bins, (bins,): the given bins, cut near 0 from each number to its double.

    So a column whose bounds are far too wide loses little accuracy: small numbers are still in narrow bins.

    Parameters
    ----------
    column
        The column.  The bins of a column without bounds, such as a column of levels, stay as they are.
    starts
        (k,) first grid points of equal bins over the regular grid points, increasing from 0.
    """
    if not _has_sizes(column):
        return starts
    grid, zero = grid_of(column), _zero(column)
    ends = [float(NEAR * width) for width in sorted({run.width for run in grid.runs})]
    nearest = ends[0] if ends else grid.steps / len(starts)
    smaller = np.arange(1, max(1, math.ceil(math.log2(max(nearest / FINEST, 1)))))
    sizes = np.concatenate([nearest * 2.0**-smaller, ends])  # one bin from a number to its double
    cuts = np.rint(np.concatenate([zero - sizes, zero + sizes]))
    inside = cuts[(cuts > 0) & (cuts < grid.steps)]
    return np.union1d(starts, grid.points_of(inside.astype(np.uint64)).astype(np.int64))


def filled_range(counts: FloatArray, threshold: float) -> tuple[int, int]:
    """Return the range of bins, as (first, end), that hold more rows than noise explains; (k, 0) if no bin does.

    Counts of bins outside of the range are taken for noise.

    Parameters
    ----------
    counts
        (k,) noisy counts, in rows.
    threshold
        A bin is filled if its count exceeds this number of rows.  A window of m neighbouring bins is filled if its sum
        exceeds sqrt(m) times this number, as noise of a sum grows with sqrt(m).
    """
    first, last = len(counts), 0
    for width in (one for one in WINDOWS if one <= len(counts)):
        filled = np.flatnonzero(np.convolve(counts, np.ones(width), mode="valid") > threshold * np.sqrt(width))
        outside = filled[(filled >= last) | (filled + width <= first)]  # windows inside the range add nothing
        if len(outside):
            first, last = min(first, int(outside[0])), max(last, int(outside[-1]) + width)
    return first, last


def with_thin_tails(counts: FloatArray, stddev: float, first: int, last: int) -> tuple[int, int]:
    """Return a range of bins, (first, last + 1), with the bins beside it that each hold more than one stddev of noise.

    So a thin tail stays, as far as its bins are likelier filled than empty.  An empty range stays empty.

    Parameters
    ----------
    counts
        (k,) noisy counts, in rows.
    stddev
        Standard deviation of the noise of a count, in rows.
    first, last
        The range, as `filled_range` returns it.
    """
    while 0 < last < len(counts) and counts[last] > stddev:
        last += 1
    while 0 < first < last and counts[first - 1] > stddev:
        first -= 1
    return first, last


def past_the_largest(counts: FloatArray, stddev: float) -> BoolArray:
    """Return which numbers of child rows, (k,), are larger than any that a parent row seems to have; all False if none does.

    Counts of such numbers are noise, and each person of noise there would stand for many child rows.  After the last
    number that noise does not explain, numbers stay as long as each has more persons than one standard deviation of the
    noise, as thin tails do.

    Parameters
    ----------
    counts
        (k,) noisy counts of persons with 0, 1, 2, ... child rows.
    stddev
        Standard deviation of the noise of a count, in persons.
    """
    _, last = with_thin_tails(counts, stddev, *filled_range(counts, beyond_noise(stddev, 2 * len(counts))))
    return np.arange(len(counts)) >= (last or len(counts))


def far_beyond(axis: Axis, counts: FloatArray, stddev: float, total: float, *, total_stddev: float = 0.0) -> BoolArray:
    """Return which bins lie far outside of the significant bins, (axis.size,), whose counts are to be set to 0.

    All are False in columns without sizes, such as dates and levels, and if no bin is significant.  All are False, too, if
    the other bins hold fewer rows than ``total`` by more than noise explains: many rows are then far out.  Else noise in
    far bins would change averages by more than the loss of the few rows that may lie there.

    Parameters
    ----------
    axis
        The bins of a first histogram.
    counts
        (axis.size,) noisy counts of the bins, in rows.
    stddev
        Standard deviation of the noise of a count, in rows.
    total
        Number of rows in all bins, from other answers.
    total_stddev
        Standard deviation of the error of ``total``, in rows.
    """
    none = np.zeros(axis.size, np.bool_)
    inside = np.flatnonzero(axis.starts < axis.grid.regular)
    if not _has_sizes(axis.column) or len(inside) < 2 or len(axis.starts) != axis.size:
        return none
    starts = axis.starts[inside]
    stops = np.append(starts[1:], axis.grid.regular)
    first, last = filled_range(counts[inside], beyond_noise(stddev, 2 * len(inside)))
    if last == 0:
        return none
    zero = _zero(axis.column)
    low, high = (axis.grid.first_steps(one).astype(np.float64) for one in (starts, stops))
    above, below = high[last - 1] - zero, zero - low[first]
    upper = zero + (REACH * above if above > 0 else max(below, 0.0))
    lower = zero - (REACH * below if below > 0 else max(above, 0.0))
    far = none.copy()
    far[inside] = (low >= upper) | (high <= lower)
    kept = axis.releasable & ~far
    missing = total - float(counts[kept].sum())
    return none if missing > beyond_noise(math.hypot(stddev * math.sqrt(kept.sum()), total_stddev), 1) else far


def _has_sizes(column: Column) -> bool:
    """Return whether a column has numbers or lengths, and no declared classes: only then do bins grow with size."""
    return column.quantity in ("number", "length") and not column.class_ends()


def _zero(column: Column) -> float:
    """Return the grid position of the value 0 relative to the lower bound, in grid steps; bins shrink towards it.

    The position is negative if 0 is below the lower bound.
    """
    lower, upper = bounds_of(column)
    return -lower / max(upper - lower, 1e-300) * grid_of(column).steps
