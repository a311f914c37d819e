"""Bins of numbers by their size, so that bounds far too wide cost little: finer towards 0, and none far beyond the values.

The cuts depend on the declaration alone; which bins are filled is post-processing of noisy counts.
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
"""Bins of numbers shrink towards 0 until they have about this many grid points.  Derived: `OneWayTree.fan`, so that the
next level splits the last one into single points.
"""

AN_OCTAVE = 2
"""Number of bins from a number to its double, where bins grow with the size of numbers.  More tell sizes apart more
finely, with fewer rows in a bin against the same noise.  Tuned; no sweep is on record.
"""

_PARTS = tuple(part / AN_OCTAVE for part in range(AN_OCTAVE))
"""Where the bins between a number and its double begin, in octaves (log2). Derived."""

WINDOWS = (1, 2, 4, 8, 16, 32)
"""Numbers of neighbouring bins that are tested together for rows: a thin tail may show only in a sum.  A grid: its
steps of two are a tolerance.
"""

REACH = 4.0
"""Rows are assumed to lie within this multiple of the distance from 0 to the outermost clearly filled bins; what
noise puts beyond is removed.  A larger one keeps rows of noise far out, a smaller one cuts thin tails.  Tuned on
sixteen skewed laws (benchmarks/utility/skewed.py).
"""


def cut_by_size(column: Column, starts: IntArray) -> IntArray:
    """Return the first grid points of bins, where bins near 0 are as narrow as their numbers are small.

    So bounds that are far too wide lose little precision.

    Parameters
    ----------
    column
        With bounds, or levels, which are left as they are.
    starts
        (k,) first grid points of equal bins over its regular ones, increasing from 0.
    """
    if not _has_sizes(column):
        return starts
    grid, zero = grid_of(column), _zero(column)
    ends = [float(NEAR * width) for width in sorted({run.width for run in grid.runs})]
    nearest = ends[0] if ends else grid.steps / len(starts)
    smaller = np.arange(1, max(1, math.ceil(AN_OCTAVE * math.log2(max(nearest / FINEST, 1)))))
    sizes = np.concatenate([nearest * 2.0 ** (-smaller / AN_OCTAVE), *(np.array(ends) * 2.0**-part for part in _PARTS)])
    cuts = np.rint(np.concatenate([zero - sizes, zero + sizes]))
    inside = cuts[(cuts > 0) & (cuts < grid.steps)]
    return np.union1d(starts, grid.points_of(inside.astype(np.uint64)).astype(np.int64))


def filled_range(counts: FloatArray, threshold: float) -> tuple[int, int]:
    """Return the range of bins, as (first, end), that hold more rows than noise explains; (k, 0) if none does.

    Parameters
    ----------
    counts
        (k,) noisy counts.
    threshold
        A bin with more rows is filled, and neighbours whose sum exceeds this times the root of their number.
    """
    first, last = len(counts), 0
    for width in (one for one in WINDOWS if one <= len(counts)):
        filled = np.flatnonzero(np.convolve(counts, np.ones(width), mode="valid") > threshold * np.sqrt(width))
        outside = filled[(filled >= last) | (filled + width <= first)]  # a window over what is known adds nothing
        if len(outside):
            first, last = min(first, int(outside[0])), max(last, int(outside[-1]) + width)
    return first, last


def far_beyond(axis: Axis, counts: FloatArray, stddev: float) -> BoolArray:
    """Return which bins lie far outside of the clearly filled ones, (axis.size,), to be set to 0.

    All False if no bin is filled, and for columns whose numbers are no sizes.

    Noise there would move averages further than the few rows that may be lost.

    Parameters
    ----------
    axis
        The bins.
    counts
        (axis.size,) their noisy counts.
    stddev
        Standard deviation of their noise, in rows.
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
    none[inside] = (low >= upper) | (high <= lower)
    return none


def _has_sizes(column: Column) -> bool:
    """Return whether a column has numbers or lengths, and no declared classes: only then bins grow with their size."""
    return column.quantity in ("number", "length") and not column.class_ends()


def _zero(column: Column) -> float:
    """Return the grid position of the value 0 relative to the lower bound, in grid steps, towards which bins shrink.

    It is negative if 0 is below the lower bound.
    """
    lower, upper = bounds_of(column)
    return -lower / max(upper - lower, 1e-300) * grid_of(column).steps
