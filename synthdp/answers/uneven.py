"""How unevenly the rows of a leaf may lie among its grid points, judged by how unevenly neighbouring leaves are filled.

Reads noisy counts and public axes only.
"""

from __future__ import annotations

import numpy as np

from synthdp.answers.leaves import LeafCounts
from synthdp.arrays import FloatArray
from synthdp.domain.axis import Axis
from synthdp.domain.grid import has_labels


def unevenness(leaves: LeafCounts, axis: Axis) -> float:
    """Return k in [0, 1] such that of n rows of a leaf, n p (1 - p) (1 + (n - 1) k) is the variance of those in a part p.

    That is Polya's law: 0 for rows that lie evenly, each for itself, 1 for rows that lie all in one place.  Found by the
    method of moments: two neighbours of widths a and b have n rows, of which a / (a + b) are expected in the first.  Within
    a leaf rows are taken to lie as unevenly as in two, as rough densities have it; of smooth ones it is less.
    """
    if has_labels(axis.column):
        return 0.0
    first = np.zeros(axis.size, np.int64)
    first[axis.cells[::-1]] = axis.starts[::-1]
    order = np.argsort(first, kind="stable")
    order = order[(first[order] < axis.grid.regular) & (axis.width[order] > 1)]
    counts, variance, width = np.maximum(leaves.counts, 0.0)[order], leaves.variance[order], axis.width[order]
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
