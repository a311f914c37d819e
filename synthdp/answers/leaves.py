"""Least squares for the fine bins of one column, from noisy histograms of different resolution.

The cells of every histogram are sets of fine bins, and most fine bins are a cell of their own in some histogram.  Fine
bins in the same larger cells, with equally precise counts of their own, form a group.  Least squares leaves the
deviations from a group's mean as measured, and these are uncorrelated with all sums over groups.  So only the sums need
a system of equations, which is small, because there are few groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from synthdp.answers.answers import NORMAL
from synthdp.answers.grouping import WHOLE
from synthdp.arrays import AnyArray, BoolArray, FloatArray, IntArray, Sparse
from synthdp.domain.axis import Axis

_AT_ONCE = 2**22
"""Most entries, answers times fine bins, of a weight matrix in memory at once: 32 MB.  More take more memory, fewer are
slower.  A safety limit."""


class Histogram(NamedTuple):
    """Holds a noisy histogram of one column, whose cells are sets of fine bins.

    Parameters
    ----------
    cell
        (size,) cell of each fine bin.
    counts
        (cells,) noisy counts.
    stddev
        Standard deviation of the noise of one count.
    """

    cell: IntArray
    counts: FloatArray
    stddev: float


class NoisyRows(NamedTuple):
    """Holds a noisy number of rows, such as the sum of a noisy table's cells.

    Parameters
    ----------
    columns
        Columns of the table; empty for a row count of its own.
    rows
        The noisy number.
    variance
        Variance of its noise.
    """

    columns: frozenset[str]
    rows: float
    variance: float


def number_of_rows(counts: Iterable[NoisyRows], *, without: str | None = None) -> tuple[float, float] | None:
    """Return the mean of noisy numbers of rows by precision, and the stddev of its error.

    Numbers from tables with the column ``without`` are left out: the noise of the mean is then independent of the noise
    of the column's own counts.  The mean is ``None`` if no number is left.
    """
    precision, weighted = 0.0, 0.0
    for columns, rows, variance in counts:
        if without not in columns:
            precision += 1 / variance
            weighted += rows / variance
    return (weighted / precision, precision**-0.5) if precision > 0 else None


class FineBinCounts(Protocol):
    """Estimated counts of a column's fine bins, with the covariance of their errors."""

    @property
    def counts(self) -> FloatArray:
        """Return the estimated count of each fine bin, (size,), in rows."""
        ...

    @property
    def variance(self) -> FloatArray:
        """Return the error variance of each fine bin's count, (size,), in rows squared."""
        ...

    def variances(self, weights: AnyArray | Sparse) -> FloatArray:
        """Return the error variances of ``weights @ counts``, (q,), for weights (q, size), dense or sparse."""
        ...

    def covariances(self, weights: FloatArray) -> FloatArray:
        """Return the covariance of each count's error with the error of ``weights @ counts``, (size,).

        The weights are one number per fine bin, (size,).
        """
        ...


@dataclass(frozen=True, eq=False)
class FineBinEstimates:
    """Holds the least-squares counts of a column's fine bins, and the covariance of their errors.

    Parameters
    ----------
    counts
        (size,) estimated counts.
    group
        (size,) group of each fine bin.
    own_variance
        (groups,) variance of the noise of each fine bin's own count; 0 for groups of one fine bin.
    sums_covariance
        (groups, groups) covariance of the errors of the sums over groups.
    """

    counts: FloatArray
    group: IntArray
    own_variance: FloatArray
    sums_covariance: FloatArray

    @cached_property
    def _sizes(self) -> FloatArray:
        """Return the number of fine bins in each group, (groups,), among which a group's count is divided evenly."""
        return np.bincount(self.group).astype(np.float64)

    @cached_property
    def _mean(self) -> Sparse:
        """Return the sparse matrix, (size, groups), that averages functions of fine bins over each group.

        All bins of a group have equal errors, so errors of sums need no matrix of bins by bins.
        """
        places = (np.arange(len(self.group)), self.group)
        return sparse.csr_array((1 / self._sizes[self.group], places), shape=(len(self.group), len(self._sizes)))

    @cached_property
    def variance(self) -> FloatArray:
        """Return the error variance of each fine bin's count, (size,), in rows squared."""
        of_group = np.diag(self.sums_covariance) / self._sizes**2 + self.own_variance * (1 - 1 / self._sizes)
        return np.asarray(of_group[self.group], np.float64)

    def variances(self, weights: AnyArray | Sparse) -> FloatArray:
        """Return the error variances of ``weights @ counts``, (q,), for weights (q, size), dense or sparse.

        Variances are in rows squared if the weights have no unit.
        """
        mean: Any = weights @ self._mean
        mean = mean.toarray() if sparse.issparse(weights) else np.asarray(mean)
        squares = (weights * weights) @ self.own_variance[self.group]
        own = squares - (mean * mean) @ (self._sizes * self.own_variance)
        return np.asarray(np.maximum(np.einsum("ij,ij->i", mean @ self.sums_covariance, mean) + own, 0.0))

    def covariances(self, weights: FloatArray) -> FloatArray:
        """Return the covariance of each count's error with the error of ``weights @ counts``, (size,), in rows squared.

        The weights are one number per fine bin, (size,), without a unit. `InDomainFineBins` needs it, because its
        counts depend on the sum of the out-of-domain counts.
        """
        mean = np.asarray(weights @ self._mean)
        own = self.own_variance[self.group] * (weights - mean[self.group])
        return np.asarray((self.sums_covariance @ mean / self._sizes)[self.group] + own)


@dataclass(frozen=True, eq=False)
class InDomainFineBins:
    """Holds fine-bin counts after the rows in out-of-domain bins were spread over the other bins in proportion.

    Errors are of first order, by the derivative ``diag(scale) + outer(share, misfit)`` of the counts.

    Parameters
    ----------
    leaves
        Counts of all fine bins, before the spreading.
    counts
        (size,) counts after the spreading, 0 in out-of-domain bins.
    scale, share, misfit
        (size,) parts of the derivative.
    """

    leaves: FineBinCounts
    counts: FloatArray
    scale: FloatArray
    share: FloatArray
    misfit: FloatArray

    @classmethod
    def of(cls, leaves: FineBinCounts, fits: BoolArray, *, least: float) -> InDomainFineBins:
        """Return the counts after rows in bins outside ``fits`` are spread over the bins in ``fits``.

        The bins in ``fits`` are taken to have at least ``least`` rows together, so that the ratio stays bounded.
        """
        counts = np.where(fits, leaves.counts, 0.0)
        fitting = max(float(counts.sum()), least)
        ratio = float(leaves.counts[~fits].sum()) / fitting
        scale = np.where(fits, 1 + ratio, 0.0)
        return cls(leaves, counts * (1 + ratio), scale, counts / fitting, np.where(fits, -ratio, 1.0))

    @cached_property
    def variance(self) -> FloatArray:
        """Return the error variance of each fine bin's count, (size,), in rows squared, to first order in errors."""
        between = self.leaves.covariances(self.misfit)
        found = self.scale**2 * self.leaves.variance + 2 * self.scale * self.share * between
        return np.asarray(np.maximum(found + self.share**2 * float(self.misfit @ between), 0.0))

    def variances(self, weights: AnyArray | Sparse) -> FloatArray:
        """Return the error variances of ``weights @ counts``, (q,), for weights (q, size), to first order in errors."""
        step = max(1, _AT_ONCE // len(self.counts))
        found = []
        for begin in range(0, weights.shape[0], step):
            block: Any = weights[begin : begin + step]
            dense: FloatArray = block.toarray() if sparse.issparse(weights) else np.asarray(block)
            found.append(self.leaves.variances(dense * self.scale + np.outer(dense @ self.share, self.misfit)))
        return np.concatenate(found)

    def covariances(self, weights: FloatArray) -> FloatArray:
        """Return the covariance of each count's error with the error of ``weights @ counts``, (size,), in rows squared.

        The covariance is of first order in the errors, because the counts are ratios.
        """
        between = self.leaves.covariances(weights * self.scale + float(weights @ self.share) * self.misfit)
        return self.scale * between + self.share * float(self.misfit @ between)


def gls_fine_bins(histograms: Iterable[Histogram]) -> FineBinEstimates:
    """Return a column's fine-bin counts, estimated from all its noisy histograms by generalised least squares.

    Parameters
    ----------
    histograms
        Histograms over the same fine bins; together they must determine every fine bin.
    """
    merged = _merged(histograms)
    size = len(merged[0].cell)
    precision, weighted = np.zeros(size), np.zeros(size)
    shared, key = [], np.zeros(size, np.int64)
    for histogram in merged:
        members = np.bincount(histogram.cell, minlength=len(histogram.counts))
        alone = members[histogram.cell] == 1
        precision[alone] += histogram.stddev**-2
        weighted[alone] += histogram.counts[histogram.cell[alone]] / histogram.stddev**2
        cell = np.where(alone, -1, histogram.cell)
        shared.append(histogram._replace(cell=cell))
        key = _combined(key, cell)
    _, levels = np.unique(precision, return_inverse=True)
    key = _combined(key, np.where(precision > 0, levels, len(levels) + np.arange(size)))
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    sizes = np.bincount(group)
    measured = np.divide(weighted, precision, out=np.zeros(size), where=precision > 0)
    of_sum = precision[first] / sizes
    information, score = np.diag(of_sum), of_sum * np.bincount(group, weights=measured)
    for histogram in shared:
        cell = histogram.cell[first]
        together = (cell[:, None] == cell[None, :]) & (cell >= 0)
        information = information + together / histogram.stddev**2
        score = score + np.where(cell >= 0, histogram.counts[cell], 0.0) / histogram.stddev**2
    covariance = np.linalg.inv(information).astype(np.float64)
    deviation = measured - (np.bincount(group, weights=measured) / sizes)[group]
    counts = ((covariance @ score) / sizes)[group] + deviation
    several = (sizes > 1) & (precision[first] > 0)
    own = np.divide(1.0, precision[first], out=np.zeros(len(first)), where=several)
    return FineBinEstimates(counts, group, own, covariance)


def _merged(histograms: Iterable[Histogram]) -> list[Histogram]:
    """Return histograms with each set of cells once; those with the same cells are averaged by precision.

    Bins that they share alone then count once, and the matrix that `gls_fine_bins` inverts stays small.
    """
    found: dict[bytes, Histogram] = {}
    for histogram in histograms:
        cells = histogram.cell.tobytes()
        known = found.get(cells)
        if known is not None:
            weights = np.array([known.stddev, histogram.stddev]) ** -2
            counts = (weights[0] * known.counts + weights[1] * histogram.counts) / weights.sum()
            histogram = Histogram(known.cell, counts, float(weights.sum() ** -0.5))
        found[cells] = histogram
    return list(found.values())


def _combined(key: IntArray, other: IntArray) -> IntArray:
    """Return integers, (n,), that are equal exactly where both keys are equal: bins that no histogram tells apart."""
    low = int(other.min())
    joint = key * (int(other.max()) - low + 1) + (other - low)
    return np.asarray(np.unique(joint, return_inverse=True)[1], np.int64)


def intraclass_correlation(leaves: FineBinCounts, axis: Axis) -> float:
    """Return the intraclass correlation k of one column's fine bins, from 0 to 1.

    A part of a fine bin has the fraction p of its grid points, and the bin has n rows.  The number of rows in the part
    has variance n p (1 - p) (1 + (n - 1) k), the beta-binomial law.  At k = 0 rows are independent; at k = 1 all share
    one value.

    The estimate is by the method of moments on adjacent fine bins.  Of the n rows of two bins of widths a and b, the
    first has the fraction a / (a + b) on average.  Smooth densities have a smaller k within a bin.  For categories, k
    is 1 if some share a bin, because all rows may then have one category, and 0 otherwise.
    """
    if axis.column.labelled:
        return float((axis.width > 1).any())
    order = axis.regular_in_order
    order = order[axis.width[order] > 1]
    counts, variance, width = leaves.counts[order], leaves.variance[order], axis.width[order]
    rows, noise = counts[1:] + counts[:-1], variance[1:] + variance[:-1]
    part = width[:-1] / (width[1:] + width[:-1])
    even = part * (1 - part)
    of_noise = (1 - part) ** 2 * variance[:-1] + part**2 * variance[1:]
    found = (counts[:-1] - part * rows) ** 2 - of_noise - even * rows
    most = float((even * (rows**2 - noise)).sum())
    return float(np.clip(found.sum() / most, 0.0, 1.0)) if most > 0 else 0.0


def effective_counts(counts: FloatArray, uneven: float) -> FloatArray:
    """Return the effective rows of each fine bin, (fine bins,): n (1 + (n - 1) k) for n noisy rows.

    Rows that are alike count as more than independent ones: a sum over the bin's rows has a variance proportional to
    the effective rows.  k = ``uneven`` is the intraclass correlation of the rows inside a bin, from 0 to 1.
    """
    rows = np.maximum(counts, 0.0)
    return np.asarray(rows * (1 + np.maximum(rows - 1, 0.0) * uneven))


def cut_point_mass_errors(shares: Sparse, leaves: FineBinCounts, uneven: float) -> FloatArray:
    """Return an error bound for q counts, (q,), in rows, for conditions that cut a fine bin with a point mass.

    All rows of such a bin may lie on one side of the cut.  With the noise these are up to 1.96 standard errors more
    than were counted.  The bound adds these worst cases in quadrature, times the estimated fraction of fine bins that
    are one point mass.  The result is a bound and no stddev, because conditions mostly name the values that many rows
    have.

    Parameters
    ----------
    shares
        (q, fine bins) fraction of each fine bin's grid points that is counted.
    leaves
        Noisy counts of the fine bins.
    uneven
        The fraction of fine bins that are one point mass, `intraclass_correlation`.
    """
    entries = sparse.coo_array(shares)
    most = np.maximum(leaves.counts + NORMAL * np.sqrt(leaves.variance), 0.0)
    cut = (entries.data > WHOLE) & (entries.data < 1 - WHOLE)
    farthest = np.maximum(entries.data, 1 - entries.data)[cut] * most[entries.coords[1][cut]]
    sums = np.bincount(entries.coords[0][cut], farthest**2, entries.shape[0])
    return np.asarray(uneven * np.sqrt(sums), np.float64)
