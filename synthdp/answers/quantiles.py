"""Quantiles of one column from the noisy counts of its leaves.  Knows neither model nor row."""

from __future__ import annotations

import numpy as np

from synthdp.answers.answers import NORMAL
from synthdp.answers.direct import Leaves
from synthdp.answers.expressions import unit_values
from synthdp.answers.grouping import leaf_means
from synthdp.arrays import BoolArray, FloatArray
from synthdp.domain.axis import Axis


def quantile_intervals(leaves: Leaves, axis: Axis, shares: FloatArray, inside: BoolArray) -> tuple[FloatArray, ...]:
    """Return quantiles and the ends of their intervals: the quantiles of q -/+ 1.96 standard errors of F(quantile).

    Woodruff (1952).  A quantile is a value that rows may have; so are the ends, so that intervals of columns of few values
    hold the truth more often than they say.

    Parameters
    ----------
    leaves
        Noisy counts of the column's leaves, with their covariance.
    axis
        Of the leaves.
    shares
        (q,) which quantiles.
    inside
        (releasable,) the units over which they are taken.
    """
    values, _ = unit_values(axis.column)
    share = leaf_means(axis, inside.astype(np.float64))
    by_value = np.flatnonzero(inside)
    by_value = by_value[np.argsort(values[by_value], kind="stable")]
    leaf = axis.cells_of(by_value.astype(np.uint32)).astype(np.int64)
    found, first = np.unique(leaf, return_index=True)
    found = found[np.argsort(first, kind="stable")]  # leaves by their least value
    rank = np.zeros(axis.size, np.int64)
    rank[found] = np.arange(len(found))
    order = by_value[np.argsort(rank[leaf], kind="stable")]
    share, expected = share[found], leaves.counts[found]
    counts = np.append(0.0, np.cumsum(share * expected))
    rows = max(float(counts[-1]), 1.0)
    cumulative = np.clip(np.maximum.accumulate(counts / rows), 0.0, 1.0)
    below = np.tri(len(found) + 1, len(found), -1) - cumulative[:, None]
    weights = below * share / rows
    variance = np.einsum("ij,ij->i", weights @ leaves.covariance[np.ix_(found, found)], weights)
    variance += (below / rows) ** 2 @ (np.maximum(expected, 0.0) * share * (1 - share))
    error = np.sqrt(np.maximum(variance, 0.0))
    at_share = np.interp(shares, cumulative, error)
    half = NORMAL * at_share
    place = np.append(0, np.cumsum(np.bincount(rank[leaf], minlength=len(found)))).astype(np.float64)

    def invert(share: FloatArray) -> FloatArray:
        reached = np.clip(np.searchsorted(cumulative, share), 1, len(cumulative) - 1)
        before, after = cumulative[reached - 1], cumulative[reached]
        part = np.clip((share - before) / np.maximum(after - before, 1e-12), 0.0, 1.0)
        unit = place[reached - 1] + part * (place[reached] - place[reached - 1])
        return np.asarray(values[order][np.minimum(unit.astype(np.int64), len(order) - 1)], np.float64)

    return invert(shares), invert(shares - half), invert(shares + half)
