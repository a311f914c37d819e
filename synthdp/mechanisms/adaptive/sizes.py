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
"""Grid points nearest to 0 that are not cut by size: a bin of so many is split into single ones at the next level."""

AN_OCTAVE = 2
"""Bins from one size to twice that size."""

_PARTS = tuple(part / AN_OCTAVE for part in range(AN_OCTAVE))

WINDOWS = (1, 2, 4, 8, 16, 32)
"""So many neighbouring bins are looked at together: a tail may be seen where none of its bins is."""

REACH = 4.0
"""Rows may lie up to so many times as far from 0 as the last bins that are clearly filled.

Tuned on sixteen skewed laws (benchmarks/utility/skewed.py)."""


def cut_by_size(column: Column, starts: IntArray) -> IntArray:
    """Return the first grid points of bins, with the bins next to 0 divided by size as floating-point numbers are.

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


def far_beyond(axis: Axis, counts: FloatArray, stddev: float) -> BoolArray:
    """Return which bins of numbers lie far beyond those that noise does not explain, (axis.size,); none if there are none.

    Noise there would move averages further than the few rows that it may hide.

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
    first, last = len(inside), 0
    for width in (one for one in WINDOWS if one <= len(inside)):
        sums = np.convolve(counts[inside], np.ones(width), mode="valid")
        clear = np.flatnonzero(sums > beyond_noise(stddev, 2 * len(inside)) * np.sqrt(width))
        outside = clear[(clear >= last) | (clear + width <= first)]  # a window over what is known already adds nothing
        if len(outside):
            first, last = min(first, int(outside[0])), max(last, int(outside[-1]) + width)
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
    return column.quantity in ("number", "length") and not column.class_ends()


def _zero(column: Column) -> float:
    """Return how many steps, or grid points of real numbers, lie between the lower bound and 0; negative below it."""
    lower, upper = bounds_of(column)
    return -lower / max(upper - lower, 1e-300) * grid_of(column).steps
