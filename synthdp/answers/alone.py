"""Questions about one column, from the noisy counts of its leaves: sums, means and numbers of rows, with exact errors."""

from __future__ import annotations

import numpy as np

from synthdp.answers.answers import NORMAL
from synthdp.answers.direct import Direct
from synthdp.answers.grouping import leaf_means
from synthdp.answers.uneven import clumped, heap_errors
from synthdp.arrays import AnyArray, BoolArray, FloatArray, Sparse
from synthdp.errors import ParameterError


def counted_alone(direct: Direct, column: int, shares: Sparse) -> tuple[FloatArray, FloatArray]:
    """Answer numbers of rows by one column with leaves, of which (q, leaves) parts are counted.

    Where rows lie in heaps, the error of a leaf that is cut is added to that of noise, not its square (`heap_errors`).
    """
    leaves, uneven = direct.leaves(column), direct.uneven(column)
    if leaves is None:
        raise ParameterError("the release keeps no noisy table of this column")
    counts = clumped(leaves.counts, uneven * (1 - uneven))
    spread = np.maximum(shares @ counts - (shares * shares) @ counts, 0.0)
    heaps = heap_errors(shares, leaves.counts, uneven) / NORMAL
    return np.asarray(shares @ leaves.counts), np.sqrt(leaves.variances(shares) + spread) + heaps


def summed(direct: Direct, column: int, inside: BoolArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Answer the sum of a function of one column over some grid points."""
    axis, some = direct.model.refinements[column].fine, np.where(inside, values, 0.0)
    return one_way(direct, column, leaf_means(axis, some)[None, :], leaf_means(axis, some**2)[None, :])


def average(direct: Direct, column: int, inside: BoolArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Answer the mean of a function of one column over some grid points: a ratio, with its first-order error.

    Of no grid points it is NaN.
    """
    if not inside.any():
        return np.full(1, np.nan), np.full(1, np.nan)
    some = inside.astype(np.float64)
    axis = direct.model.refinements[column].fine
    first, second = leaf_means(axis, some), leaf_means(axis, some * values)
    squared = leaf_means(axis, some * values * values)
    sums, _ = one_way(direct, column, np.stack([first, second]), np.stack([first, squared]))
    rows = max(float(sums[0]), 1.0)
    estimate = float(np.clip(sums[1] / rows, values.min(), values.max()))
    centred = (second - estimate * first) / rows
    squares = (squared - 2 * estimate * second + estimate**2 * first) / rows**2
    _, stddev = one_way(direct, column, centred[None, :], squares[None, :])
    return np.array([estimate]), stddev


def one_way(direct: Direct, column: int, means: AnyArray, squares: AnyArray) -> tuple[FloatArray, FloatArray]:
    """Answer sums over rows of functions of one column's grid points.

    Within a leaf rows are taken as spread evenly; how far they may not be, as neighbouring leaves are not filled evenly,
    is part of the error.

    Parameters
    ----------
    column
        With leaves.
    means, squares
        (q, leaves) mean of each function, and of its square, over each leaf's grid points; dense or sparse.
    """
    leaves = direct.leaves(column)
    if leaves is None:
        raise ParameterError("the release keeps no noisy table of this column")
    counts = direct.spread(column)
    spread = np.maximum(squares @ counts - (means * means) @ counts, 0.0)
    return np.asarray(means @ leaves.counts), np.sqrt(leaves.variances(means) + spread)
