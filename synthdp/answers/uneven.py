"""How unevenly the rows of a leaf may lie among its grid points, judged by how unevenly neighbouring leaves are filled.

Reads noisy counts and public axes only.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from synthdp.answers.grouping import WHOLE
from synthdp.answers.leaves import LeafCounts
from synthdp.arrays import FloatArray, Sparse
from synthdp.domain.axis import Axis
from synthdp.domain.grid import has_labels


def unevenness(leaves: LeafCounts, axis: Axis) -> float:
    """Return k in [0, 1] such that of n rows of a leaf, n p (1 - p) (1 + (n - 1) k) is the variance of those in a part p.

    That is Polya's law: 0 for rows that lie evenly, each for itself, 1 for rows that lie all in one place.  Found by the
    method of moments: two neighbours of widths a and b have n rows, of which a / (a + b) are expected in the first.  Within
    a leaf rows are taken to lie as unevenly as in two, as rough densities have it; of smooth ones it is less.  Levels that
    noise hides together, in a group of a declared hierarchy, tell nothing of each other: all rows may have one of them.
    """
    if has_labels(axis.column):
        return float((axis.width > 1).any())
    first = np.zeros(axis.size, np.int64)
    first[axis.cells[::-1]] = axis.starts[::-1]
    order = np.argsort(first, kind="stable")
    order = order[(first[order] < axis.grid.regular) & (axis.width[order] > 1)]
    counts, variance, width = leaves.counts[order], leaves.variance[order], axis.width[order]
    rows, noise = counts[1:] + counts[:-1], variance[1:] + variance[:-1]
    part = width[:-1] / (width[1:] + width[:-1])
    even = part * (1 - part)
    of_noise = (1 - part) ** 2 * variance[:-1] + part**2 * variance[1:]
    found = (counts[:-1] - part * rows) ** 2 - of_noise - even * rows
    most = float((even * (rows**2 - noise)).sum())
    return float(np.clip(found.sum() / most, 0.0, 1.0)) if most > 0 else 0.0


def clumped(counts: FloatArray, uneven: float) -> FloatArray:
    """Return numbers of rows as their spread within a leaf counts them: n (1 + (n - 1) k)."""
    rows = np.maximum(counts, 0.0)
    return np.asarray(rows * (1 + np.maximum(rows - 1, 0.0) * uneven))


def heap_errors(shares: Sparse, counts: FloatArray, uneven: float) -> FloatArray:
    """Return how far counts may be from the truth as rows of a leaf that is cut lie all on one side, (q,).

    A condition on a column whose rows lie in heaps most often names one of these values, and cuts right beside a heap:
    where in the leaf it is, is not a matter of chance, so that the whole of it is the error, not its standard deviation.

    Parameters
    ----------
    shares
        (q, leaves) part of each leaf's grid points that is counted.
    counts
        (leaves,) rows.
    uneven
        Part of the leaves that are one heap each, see `unevenness`.
    """
    entries = sparse.coo_array(shares)
    cut = (entries.data > WHOLE) & (entries.data < 1 - WHOLE)
    farthest = np.maximum(entries.data, 1 - entries.data)[cut] * np.maximum(counts, 0.0)[entries.coords[1][cut]]
    sums = np.bincount(entries.coords[0][cut], farthest**2, entries.shape[0])
    return np.asarray(uneven * np.sqrt(sums), np.float64)
