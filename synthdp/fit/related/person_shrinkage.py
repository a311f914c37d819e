"""Noisy tables of persons brought nearer to the truth by what is known of them besides: shrinkage, margins, rare cells."""

from __future__ import annotations

import math

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.fit.related.association import associated, features, raked

SMALL = 5
"""Tables with fewer rows or columns than this are shrunk by one factor instead of by singular values.  The shrinker
of singular values is optimal in the limit of large tables alone.  Tuned; not measured.
"""


def shrunk(gap: FloatArray, stddev: float) -> FloatArray:
    """Shrink a noisy table's differences from its expectation towards 0, by how far noise explains them, (m, n).

    Singular values by the optimal shrinker for the Frobenius norm (Gavish, Donoho 2017); small tables by the
    positive-part rule of James and Stein.

    Parameters
    ----------
    gap
        (m, n) differences.
    stddev
        Of the noise in each cell.
    """
    m, n = gap.shape
    if min(m, n) < SMALL:
        return gap * max(0.0, 1 - gap.size * stddev**2 / max(float((gap**2).sum()), 1e-9))
    u, s, v = np.linalg.svd(gap, full_matrices=False)
    s = s / stddev
    inside = np.maximum((s**2 - m - n) ** 2 - 4.0 * m * n, 0)
    kept = np.where(s > math.sqrt(m) + math.sqrt(n), np.sqrt(inside) / np.maximum(s, 1e-9), 0)
    return np.asarray((u * (kept * stddev)) @ v, np.float64)


def towards(
    noisy: FloatArray, expected: FloatArray, stddev: float, *, same: bool = False, ordered: tuple[int, int] = (0, 0)
) -> FloatArray:
    """Shrink a noisy table towards an expected one.

    Margins follow the expected ones unless noise does not explain the gap.

    Between two numbers the table is first brought to an association of few parameters, as many as Stein's estimate of
    the risk asks for.  It is then shrunk towards that.

    Parameters
    ----------
    noisy, expected
        (m, n) counts; the total is taken from ``noisy``.
    stddev
        Of the noise in each cell.
    same
        Whether both axes have the same groups of one attribute.
    ordered
        How many groups of each axis, the first ones, are of numbers, from the smallest to the largest.
    """
    now = expected * max(float(noisy.sum()), 1.0) / max(float(expected.sum()), 1e-9)
    gap = noisy - now
    margins = []
    for axis in (1, 0):
        a, b = gap.sum(axis=axis), now.sum(axis=axis)
        kept = max(0.0, 1 - len(a) * gap.shape[axis] * stddev**2 / max(float((a**2).sum()), 1e-9))
        margin = np.maximum(b + kept * a, 0)
        margins.append(margin / max(float(margin.sum()), 1e-9) * now.sum())
    now = associated(noisy, now, margins, stddev, features(now.shape, ordered, same=same))
    table = np.maximum(now + shrunk(noisy - now, stddev), 0)
    return raked(table + 1e-3 * np.outer(*margins) / max(float(now.sum()), 1e-9), margins)


def by_period(noisy: FloatArray, stddev: float, *, least: float) -> FloatArray:
    """Estimate a one-way table by group of periods from noisy counts, (groups, cells).

    It is shrunk towards no change over time.

    Parameters
    ----------
    noisy
        (groups, cells) counts.
    stddev
        Of the noise in each cell.
    least
        Cells whose total is below this many standard deviations of it are empty.
    """
    rows = len(noisy)
    total = noisy.sum(axis=0)
    total = np.where(total < least * stddev * math.sqrt(rows), 0, total)
    if total.sum() <= 0:
        total = np.maximum(noisy.sum(axis=0), 0) + 1e-9
    level = np.maximum(noisy.sum(axis=1), stddev)
    base = np.outer(level, total / total.sum())
    gap = shrunk(noisy - base, stddev) if rows > 1 else np.zeros_like(base)
    return np.asarray(np.maximum(base + gap, 0) * (total > 0), np.float64)
