"""Quantiles of one column from the noisy counts of its leaves.  Knows neither model nor row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from synthdp.answers.answers import NORMAL
from synthdp.answers.expressions import grid_values
from synthdp.answers.grouping import leaf_means
from synthdp.answers.leaves import LeafCounts
from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.domain.axis import Axis


def quantile_intervals(
    leaves: LeafCounts, axis: Axis, shares: FloatArray, inside: BoolArray, *, spread: FloatArray
) -> tuple[FloatArray, ...]:
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
        (releasable,) the grid points over which they are taken.
    spread
        (size,) rows of each leaf as their spread within it counts them.
    """
    values, _ = grid_values(axis.column)
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
    at_share = _between(shares, cumulative, lambda at: _errors(leaves, found, share, cumulative, at))
    reached = np.clip(np.searchsorted(cumulative, shares), 1, len(cumulative) - 1)
    part = _part(shares, cumulative, reached)
    uneven = (part * (1 - part) * share[reached - 1] * spread[found][reached - 1]) / rows**2
    half = NORMAL * np.sqrt(at_share**2 + uneven)
    place = np.append(0, np.cumsum(np.bincount(rank[leaf], minlength=len(found)))).astype(np.float64)

    def invert(share: FloatArray) -> FloatArray:
        reached = np.clip(np.searchsorted(cumulative, share), 1, len(cumulative) - 1)
        part = _part(share, cumulative, reached)
        index = place[reached - 1] + part * (place[reached] - place[reached - 1])
        return np.asarray(values[order][np.minimum(index.astype(np.int64), len(order) - 1)], np.float64)

    return invert(shares), invert(shares - half), invert(shares + half)


def _part(share: FloatArray, cumulative: FloatArray, reached: IntArray) -> FloatArray:
    """Return how far within a step each share is."""
    before, after = cumulative[reached - 1], cumulative[reached]
    return np.clip((share - before) / np.maximum(after - before, 1e-12), 0.0, 1.0)


def _errors(leaves: LeafCounts, found: IntArray, share: FloatArray, cumulative: FloatArray, at: IntArray) -> FloatArray:
    """Return the standard error of the distribution function at some of its steps, (len(at),): a ratio of sums."""
    expected = leaves.counts[found]
    rows = max(float(share @ expected), 1.0)
    below = (np.arange(len(found)) < at[:, None]) - cumulative[at][:, None]
    weights = np.zeros((len(at), len(leaves.counts)))
    weights[:, found] = below * share / rows
    variance = leaves.variances(weights)
    variance += (below / rows) ** 2 @ (np.maximum(expected, 0.0) * share * (1 - share))
    return np.sqrt(np.maximum(variance, 0.0))


def _between(x: FloatArray, steps: FloatArray, values: Callable[[IntArray], FloatArray]) -> FloatArray:
    """Interpolate ``values`` at ``x`` as `np.interp` does, but find them at the steps around each x only."""
    left = np.clip(np.searchsorted(steps, x, side="right") - 1, 0, len(steps) - 2)
    low, high = values(left), values(left + 1)
    part = np.clip((x - steps[left]) / np.maximum(steps[left + 1] - steps[left], 1e-300), 0.0, 1.0)
    return np.asarray(low + part * (high - low))
