"""Questions about one column, answered from the noisy counts of its fine bins: sums, means, counts and quantiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from synthdp.answers.answers import NORMAL
from synthdp.answers.direct import GLSEstimates
from synthdp.answers.expressions import grid_values
from synthdp.answers.grouping import leaf_means, numbered, runs_of
from synthdp.answers.leaves import FineBinCounts, cut_point_mass_errors, effective_counts
from synthdp.arrays import AnyArray, BoolArray, FloatArray, IntArray, Sparse
from synthdp.domain.axis import Axis
from synthdp.errors import ParameterError

INSIDE = 1e-9
"""An interval for a quantile stops this fraction of a fine bin's rows short of the bin's upper end.  Rounding then does
not move its end into the next bin.  A numerical tolerance."""

KNOTS = 33
"""Errors of a distribution function are computed at this many steps, spread evenly over its rows, and at as many spread
evenly over its bins; between steps they are interpolated.  More take longer for columns of many thousand fine bins.  A
safety limit of time."""


def quantile_intervals(
    leaves: FineBinCounts, axis: Axis, shares: FloatArray, inside: BoolArray, *, spread: FloatArray
) -> tuple[FloatArray, ...]:
    """Return quantiles of a column and the ends of their 95 % intervals, (q,) each.

    An interval reaches from the first to the last value at which the noisy distribution function is near the
    probability.  Near is within 1.96 of its standard errors (Woodruff 1952), which are computed at each value.  So the
    interval covers the truth even if the noise is far larger than the number of rows below.  Quantiles and ends are
    values of the column, so intervals of columns with few values cover the truth more often than 95 %.

    Parameters
    ----------
    leaves
        Noisy counts of the column's fine bins, with their covariance.
    axis
        The fine bins.
    shares
        (q,) probabilities of the quantiles.
    inside
        (releasable,) mask of the grid points to include; without any, the result is NaN.
    spread
        (size,) effective rows of each fine bin, for the variance of positions inside the bin; see `effective_counts`.
    """
    if not inside.any():
        return (np.full(len(shares), np.nan),) * 3
    values, _ = grid_values(axis.column)
    parts, leaf_of = leaf_parts(axis)
    ladder = SortedSupport.of(np.where(inside, parts, -1), values)
    found = leaf_of[ladder.groups]
    share = (np.bincount(parts, weights=inside, minlength=len(leaf_of)) / np.maximum(axis.width, 1)[leaf_of])[
        ladder.groups
    ]
    counts = np.append(0.0, np.cumsum(share * leaves.counts[found]))
    rows = max(float(counts[-1]), 1.0)
    cumulative = np.clip(np.maximum.accumulate(counts / rows), 0.0, 1.0)
    excess = counts - shares[:, None] * counts[-1]  # rows below each step, beyond those that the quantile has below it
    reach = NORMAL * _excess_errors(leaves, found, share, cumulative, shares)
    first = np.concatenate([ladder.at(one, np.zeros(1)) for one in np.maximum.accumulate(excess + reach, axis=1)])
    backwards = np.minimum.accumulate((excess - reach)[:, ::-1], axis=1)[:, ::-1]
    last = np.concatenate([ladder.at(one, np.zeros(1)) for one in backwards])
    reached, part = reached_by(shares, cumulative)
    noise = reach[np.arange(len(shares)), reached + (part > 0.5)]
    half = np.sqrt(noise**2 + NORMAL**2 * part * (1 - part) * share[reached] * spread[found][reached]) / rows
    # Where rows lie within a leaf moves a quantile within that leaf, not beyond it.
    least = cumulative[reached]
    most = least + (1 - INSIDE) * (cumulative[reached + 1] - least)
    found_at, low, high = (
        ladder.at(cumulative, wanted)
        for wanted in (shares, np.maximum(shares - half, least), np.minimum(shares + half, most))
    )
    return found_at, np.minimum(first, low), np.maximum(last, high)


@dataclass(frozen=True, slots=True, eq=False)
class SortedSupport:
    """Holds the values of a column's grid points, sorted by group and value, to look up quantiles.

    Parameters
    ----------
    groups
        (g,) the groups that have grid points, sorted by their smallest value.
    values
        (points,) the values, sorted by group, then by value.
    place
        (g + 1,) position of each group's first value, then the number of values.
    """

    groups: IntArray
    values: AnyArray
    place: IntArray

    @classmethod
    def of(cls, groups: IntArray, values: AnyArray) -> SortedSupport:
        """Return the values of grid points sorted by group and value, to look up quantiles.

        Points with group -1 are left out.
        """
        points = _sorted_by(np.flatnonzero(groups >= 0), values)
        of_point = groups if len(points) == len(groups) and _rises(values) else groups[points]
        starts = runs_of(of_point)[: len(points)]
        of_run = of_point[starts]
        _, first = numbered(of_run)
        found = of_run[np.sort(first)]  # by their least value
        rank = np.zeros(int(of_run.max(initial=0)) + 1, np.int64)
        rank[found] = np.arange(len(found))
        lengths, order = np.diff(starts, append=len(points)), np.argsort(rank[of_run], kind="stable")
        if len(of_run) > len(found):
            before = np.cumsum(lengths[order]) - lengths[order]
            points = points[np.repeat(starts[order] - before, lengths[order]) + np.arange(len(points))]
        sizes = np.bincount(rank[of_run], weights=lengths, minlength=len(found)).astype(np.int64)
        return cls(found, values[points], np.append(0, np.cumsum(sizes)))

    def at(self, cumulative: FloatArray, shares: FloatArray) -> FloatArray:
        """Return the values at given probabilities, in their shape, if rows lie evenly on each group's grid points.

        Parameters
        ----------
        cumulative
            (g + 1,) fraction of the rows in all groups before each group; the last entry is 1.
        shares
            Probabilities; values below 0 and above 1 give the smallest and the largest value.
        """
        reached, part = reached_by(shares, cumulative)
        index = self.place[reached] + part * (self.place[reached + 1] - self.place[reached])
        return np.asarray(self.values[np.minimum(index.astype(np.int64), len(self.values) - 1)], np.float64)


def _sorted_by(units: IntArray, values: AnyArray) -> IntArray:
    """Return the positions ``units``, (n,), sorted by their values, ties in the given order.

    Values are checked first, since most columns are sorted already, and the check is faster than a sort.
    """
    key = values if len(units) == len(values) else values[units]
    return units if _rises(key) else units[np.argsort(key, kind="stable")]


def _rises(values: AnyArray) -> bool:
    """Return whether values never decrease, so that they need no sorting."""
    return bool((values[1:] >= values[:-1]).all())


def reached_by(shares: FloatArray, cumulative: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return for each probability the step of a distribution function that reaches it, and its place in the step, 0 to 1.

    Both are (q,), and give quantiles.  ``cumulative`` holds the function before each step and after the last.
    """
    after = np.clip(np.searchsorted(cumulative, shares), 1, len(cumulative) - 1)
    low, high = cumulative[after - 1], cumulative[after]
    return after - 1, np.clip((shares - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)


def _excess_errors(
    leaves: FineBinCounts, found: IntArray, share: FloatArray, cumulative: FloatArray, shares: FloatArray
) -> FloatArray:
    """Return the standard errors of the rows below each step minus a fraction of all rows, (q, steps + 1), in rows.

    Intervals of quantiles need these errors.  Each step is a part of a fine bin, in order of value; ``found`` and
    ``share`` are parameters of `_sum_variances`, ``cumulative`` and ``shares`` of `SortedSupport.at`.  The noise of the
    rows below and of all rows is correlated.  Errors are computed at about 2 `KNOTS` steps, and variances are
    interpolated between them.
    """
    steps = len(found)
    knots = np.searchsorted(cumulative, np.linspace(0, 1, KNOTS)), np.linspace(0, steps, KNOTS).astype(np.int64)
    at = np.unique(np.minimum(np.concatenate(knots), steps))
    below = np.arange(steps) < at[:, None]
    of_below, of_above = (_sum_variances(leaves, found, share, mask) for mask in (below, ~below))
    of_all = of_below[-1]
    q = shares[:, None]
    variance = (1 - q) * of_below + q * of_above - q * (1 - q) * of_all  # of (1 - q) below - q above
    between = np.arange(steps + 1)
    return np.array([np.sqrt(np.interp(between, at, np.maximum(one, 0.0))) for one in variance])


def _sum_variances(leaves: FineBinCounts, found: IntArray, share: FloatArray, masks: BoolArray) -> FloatArray:
    """Return the error variances of counts that are sums of parts of fine bins, (masks,), in squared rows.

    The first term is the noise of the fine bins' counts.  The second is the chance by which a fine bin's rows fall into
    the summed parts.  The chance is binomial, as rows of a fine bin are taken as independent.

    Parameters
    ----------
    leaves
        Noisy counts of the fine bins.
    found, share
        (parts,) fine bin of each part, and the fraction of the bin's grid points in it.
    masks
        (masks, parts) parts to sum.
    """
    size = len(leaves.counts)
    weights = np.array([np.bincount(found, weights=share * mask, minlength=size) for mask in masks])
    variance = leaves.variances(weights)
    return np.asarray(variance + (weights * (1 - weights)) @ np.maximum(leaves.counts, 0.0))


def leaf_parts(axis: Axis) -> tuple[IntArray, IntArray]:
    """Return the parts of fine bins that grid points lie in; fine bins are divided at special values.

    Quantiles need the parts, because a special value such as -1 has a place in the order of values.

    Returns
    -------
    (releasable,) part of each grid point that may be released, and (parts,) fine bin of each part.
    """
    grid = axis.grid
    leaf = axis.cells_of(np.arange(grid.releasable, dtype=np.uint32)).astype(np.int64)
    if not grid.special:
        return leaf, np.arange(axis.size)
    values, _ = grid_values(axis.column)
    side = np.searchsorted(np.sort(np.array(grid.special, values.dtype)), values)  # an equal one below
    parts, first = numbered(leaf * (len(grid.special) + 1) + side)
    return parts, leaf[first]


def count_in_bins(direct: GLSEstimates, column: int, shares: Sparse) -> tuple[FloatArray, FloatArray]:
    """Return counts, (q,), and standard errors, (q,), from the noisy counts of one column's fine bins.

    ``shares``, (q, fine bins), holds the fraction of each fine bin that is counted.  The error of cut point masses is a
    bound, so it is added to the standard error and not in quadrature; see `cut_point_mass_errors`.
    """
    leaves, uneven = direct.leaves(column), direct.uneven(column)
    if leaves is None:
        raise ParameterError("the release has no noisy marginal of this column: ask about another column")
    counts = effective_counts(leaves.counts, uneven * (1 - uneven))
    spread = np.maximum(shares @ counts - (shares * shares) @ counts, 0.0)
    heaps = cut_point_mass_errors(shares, leaves, uneven) / NORMAL
    return np.asarray(shares @ leaves.counts), np.sqrt(leaves.variances(shares) + spread) + heaps


def share_in_bins(
    direct: GLSEstimates, column: int, inside: BoolArray, holds: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return the fraction of the rows at some grid points that also meet a condition, and its standard error, (1,) each.

    The fraction is a ratio of counts, and the error is of first order.  The error of cut point masses is added as in
    `count_in_bins`.  Both are NaN without grid points.

    Parameters
    ----------
    column
        Position of the column.
    inside, holds
        (grid points,) whether rows there count in the denominator, and whether they meet the condition.
    """
    leaves, uneven = direct.leaves(column), direct.uneven(column)
    if leaves is None:
        raise ParameterError("the release has no noisy marginal of this column: ask about another column")
    if not inside.any():
        return np.full(1, np.nan), np.full(1, np.nan)
    axis = direct.model.refinements[column].fine
    of_all, of_some = (leaf_means(axis, mask.astype(np.float64)) for mask in (inside, inside & holds))
    rows = max(float(of_all @ leaves.counts), 1.0)
    estimate = float(np.clip(of_some @ leaves.counts / rows, 0.0, 1.0))
    means = (of_some - estimate * of_all) / rows
    squares = ((1 - 2 * estimate) * of_some + estimate**2 * of_all) / rows**2
    spread = np.maximum((squares - means**2) @ effective_counts(leaves.counts, uneven * (1 - uneven)), 0.0)
    heaps = cut_point_mass_errors(sparse.csr_array(of_some[None, :]), leaves, uneven) / rows / NORMAL
    return np.array([estimate]), np.sqrt(leaves.variances(means[None, :]) + spread) + heaps


def summed(direct: GLSEstimates, column: int, inside: BoolArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sum of a function of one column over the rows at some grid points, and its standard error, (1,) each.

    ``inside`` and ``values`` hold for each releasable grid point whether its rows count, and the function.
    """
    axis, some = direct.model.refinements[column].fine, np.where(inside, values, 0.0)
    return one_way(direct, column, leaf_means(axis, some)[None, :], leaf_means(axis, some**2)[None, :])


def average(direct: GLSEstimates, column: int, inside: BoolArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean of a function of one column over the rows at some grid points, and its standard error, (1,) each.

    ``inside`` and ``values`` hold for each releasable grid point whether its rows count, and the function.  The mean is
    a ratio of sums, and the error is of first order.  Both are NaN without grid points.
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


def one_way(direct: GLSEstimates, column: int, means: AnyArray, squares: AnyArray) -> tuple[FloatArray, FloatArray]:
    """Return sums over rows of functions of one column, and their standard errors, (q,) each.

    Rows are assumed to be spread evenly inside a fine bin.  The error includes uneven spread, as estimated from
    adjacent fine bins.

    Parameters
    ----------
    column
        Position of the column.
    means, squares
        (q, fine bins) mean of each function, and of its square, over each fine bin's grid points; dense or sparse.
    """
    leaves = direct.leaves(column)
    if leaves is None:
        raise ParameterError("the release has no noisy marginal of this column: ask about another column")
    counts = direct.spread(column)
    spread = np.maximum(squares @ counts - (means * means) @ counts, 0.0)
    return np.asarray(means @ leaves.counts), np.sqrt(leaves.variances(means) + spread)
