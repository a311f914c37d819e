"""Merged bins: few, well-filled unions of a column's coarse bins, for relations too weak for a table over coarse bins.

Post-processing of noisy one-ways.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain

MERGED = 6
"""Most merged bins of a column in tables of weakly related pairs, and in scores of a wide table's pairs.  More bins show
finer relations, but cells hold fewer rows against the same noise.  In releases of persons MERGED limits the groups of an
ordered column in tables of three attributes.  In tables of two, the limit is at least MERGED.  Tuned: with four and three
merged bins in addition, more pairs were measured and strong relations got less budget
(docs/benchmarks/planner.md).  For persons half and twice of it change the error of pairs of a row's columns by -2.6 and
+.4 %, over two panels (docs/benchmarks/constants.md)."""


def merged_domain(domain: Domain, margins: Sequence[FloatArray]) -> Domain:
    """Return axes of merged bins of all columns, at most `MERGED` bins of values each, for weakly related pairs.

    Parameters
    ----------
    domain
        The coarse bins of each column.
    margins
        (coarse bins,) estimated rows, per column.
    """
    both = zip(domain.axes, margins, strict=True)
    return Domain(tuple(axis.merged(merged_groups(axis, margin, MERGED, narrow=True)) for axis, margin in both))


def merged_groups(axis: Axis, margin: FloatArray, count: int, *, narrow: bool = False) -> IntArray:
    """Return the merged bin of each coarse bin of a column, (coarse bins,), for tables with fewer and fuller cells.

    In an ordered column neighbouring bins are merged; its special values and missing values are merged only with one
    another.  In any other column the smallest bins are merged, and missing values count as a level.  Out-of-domain
    values are merged only with one another.

    Parameters
    ----------
    axis
        The column's coarse bins.
    margin
        (coarse bins,) estimated rows.
    count
        Most merged bins, special and out-of-domain values not counted, >= 2.
    narrow
        Whether the merged bins at both ends of an ordered column have half of the rows of the others.
    """
    weights = np.maximum(margin, 0.0) + 1e-9
    valued = np.isfinite(axis.points) if axis.grid.ordered else axis.releasable
    groups = np.zeros(axis.size, np.int64)
    some = weights[valued]
    groups[valued] = _of_ordered(some, count, narrow) if axis.grid.ordered else _of_nominal(some, count)
    groups[~valued & axis.releasable] = axis.size
    groups[~axis.releasable] = axis.size + 1
    return np.asarray(np.unique(groups, return_inverse=True)[1], np.int64)


def _of_ordered(weights: FloatArray, count: int, narrow: bool) -> IntArray:
    """Return the merged bin of each ordered bin, (bins,): up to ``count`` runs of neighbours of about equal weight.

    With about equal weight each merged bin stands out from the noise about as well.  If ``narrow``, the two at
    the ends have half of the weight, since relations are often steepest there: of the youngest sixth of all people many
    have a degree, of the youngest tenth hardly any.
    """
    if len(weights) <= count:
        return np.arange(len(weights))
    middle = np.cumsum(weights) - weights / 2
    return np.asarray(np.minimum(middle / weights.sum() * (count - narrow) + narrow / 2, count - 1), np.int64)


def _of_nominal(weights: FloatArray, count: int) -> IntArray:
    """Return the merged bin of each unordered bin, (bins,): the largest stay alone, all others share one merged bin.

    At most ``count`` merged bins remain.  Small bins would be hidden by noise on their own.
    """
    groups = np.full(len(weights), count - 1)
    largest = np.argsort(-weights, kind="stable")[: len(weights) if len(weights) <= count else count - 1]
    groups[largest] = np.arange(len(largest))
    return groups
