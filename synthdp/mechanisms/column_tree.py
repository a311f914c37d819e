"""One column as a tree of intervals: which leaves are split further, and the estimated rows in each leaf.

The leaves of a finished tree are the column's fine bins.  This is post-processing of noisy counts, which `one_ways`
measures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.domain.axis import Axis
from synthdp.fit.smoothing import NoisyHistogram, estimated_each
from synthdp.measurements import beyond_noise
from synthdp.mechanisms.column_sizes import far_beyond, filled_range, with_thin_tails
from synthdp.schema.columns import DISCOVERED

FILLED = 2.5
"""At either end of a range, bins with more rows than this many standard deviations of the noise count as filled.  Emptier
bins at the end are cut off.  A larger value cuts off thin tails too.  A smaller value leaves rows of noise far from all
others.  Tuned: half and twice of it change the three-way error of three undeclared tables by -.9 and +24.9 %
(docs/benchmarks/constants.md)."""


DIGITS = 9
"""Decimals to which places within a bin are rounded before they are compared with borders.  A numerical tolerance: fine bins
of equal rows often lie at a border exactly, where processors would decide by their rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class OneWay:
    """Estimates of one column from noisy answers: the rows in its fine bins, and its noisy first histogram.

    Parameters
    ----------
    axis
        The column's fine bins: the leaves of the tree.
    weights
        (axis.size,) estimated rows in each fine bin, >= 0; 0 in bins that are never released.
    first
        The bins of the first histogram, unions of fine bins.
    counts
        (first.size,) unbiased noisy counts of the first histogram.
    stddev
        Standard deviation of the noise on each of ``counts``, in rows; a mean over all rows where it differs.
    misfits
        Estimated out-of-domain rows, which ``weights`` leave out; 0 where noise explains them.
    rounding
        Relative likelihood of a grid point in each class of round numbers, see `Refinement`.
    """

    axis: Axis
    weights: FloatArray
    first: Axis
    counts: FloatArray
    stddev: float
    misfits: float = 0.0
    rounding: FloatArray | None = None

    @property
    def first_bin(self) -> IntArray:
        """(axis.size,) the bin of the first histogram that holds each fine bin."""
        return self.first.cells[np.searchsorted(self.first.starts, self.axis.first_points, side="right") - 1]

    def redistributed(self, counts: FloatArray) -> OneWay:
        """Return the column with other counts in the first histogram, such as counts drawn towards public data.

        Each bin's rows are divided among its fine bins as before, and the standard deviation of the noise is kept.
        Weights keep their sum.  They are 0 where counts are negative or bins are not releasable; all are 0 if no count
        is positive.  ``counts`` is stored as given.

        Parameters
        ----------
        counts
            (first.size,) counts in rows, of any sign.
        """
        mass = np.where(self.first.releasable, np.maximum(counts, 0.0), 0.0)
        mass = mass * (float(self.weights.sum()) / max(float(mass.sum()), 1e-300))
        return replace(self, weights=self.divided(mass), counts=counts)

    def divided(self, mass: FloatArray) -> FloatArray:
        """Divide ``mass``, the rows in each bin of the first histogram, among fine bins; return rows, (fine bins,).

        So a better first histogram keeps the proportions within its bins.  Fine bins get rows in proportion to their
        old weights.  If a bin of the first histogram had no rows, its releasable fine bins get rows in proportion to
        their grid points.
        """
        cell, size = self.first_bin, self.first.size
        before = np.bincount(cell, weights=self.weights, minlength=size)
        inside = np.where(before[cell] > 0, self.weights, np.where(self.axis.releasable, self.axis.width, 0))
        return np.asarray(inside * (mass / np.maximum(np.bincount(cell, weights=inside, minlength=size), 1e-300))[cell])


@dataclass(frozen=True, slots=True, eq=False)
class ColumnTree:
    """The current division of one column into intervals (leaves), which is refined where noisy counts show many rows.

    Parameters
    ----------
    axis
        The bins of the first histogram.
    counts
        (axis.size,) unbiased noisy counts of the first histogram.
    stddev
        Standard deviation of the noise on each of ``counts``, in rows.
    rest
        (special,) estimated rows in the bins that are never split: special and missing values and "other".
    starts, stops
        (leaves,) the half-open interval of grid indices of each leaf.
    rows
        (leaves,) estimated rows in each leaf, >= 0.
    misfits
        Estimated out-of-domain rows; 0 where noise explains them.
    steps
        The first grid index of each group of a declared hierarchy, for each step of the hierarchy; empty where leaves
        are split evenly.
    """

    axis: Axis
    counts: FloatArray
    stddev: float
    rest: FloatArray
    starts: IntArray
    stops: IntArray
    rows: FloatArray
    misfits: float
    steps: tuple[IntArray, ...] = ()

    def heavy(self, threshold: float) -> BoolArray:
        """Return which leaves are to be split, (leaves,).

        A leaf is split if it has several grid indices and more than ``threshold`` rows.
        """
        return (self.rows > threshold) & (self.stops - self.starts > 1)

    def parts(self, split: BoolArray, *, fan: int) -> Axis:
        """Return the axis to measure next: a bin for each part of each split leaf, and one bin for all other leaves.

        If a step of a declared hierarchy divides the leaf, the parts are the groups of its first dividing step.
        Otherwise a leaf is divided into up to ``fan`` parts of equal width.
        """
        starts: list[int] = []
        cells: list[int] = []
        part = 0
        for start, stop, chosen in zip(self.starts, self.stops, split, strict=True):
            inside = self._cuts(int(start), int(stop), fan)[:-1] if chosen else [int(start)]
            starts += inside
            cells += range(part, part + len(inside)) if chosen else [-1]
            part += len(inside) if chosen else 0
        if self.axis.grid.size > self.axis.grid.regular:
            starts.append(self.axis.grid.regular)
            cells.append(-1)
        return Axis(self.axis.name, self.axis.column, np.array(starts), np.where(np.array(cells) < 0, part, cells))

    def grown(self, split: BoolArray, counts: FloatArray, stddev: float, *, fan: int) -> ColumnTree:
        """Return the tree after parts of split leaves were measured.

        The parts become leaves, with rows estimated from the noisy counts.

        Parameters
        ----------
        split
            (leaves,) which leaves were split.
        counts
            Noisy counts of the bins of ``parts(split)``.
        stddev
            Standard deviation of the noise of ``counts``, in rows.
        fan
            Most parts of a leaf, as in `parts`.
        """
        cuts = [
            self._cuts(int(start), int(stop), fan) if chosen else [int(start), int(stop)]
            for start, stop, chosen in zip(self.starts, self.stops, split, strict=True)
        ]
        inside = [len(one) - 1 for one, chosen in zip(cuts, split, strict=True) if chosen]
        parts = np.split(counts[: sum(inside)], np.cumsum(inside)[:-1])
        histograms = [
            NoisyHistogram(part, stddev, float(leaf)) for part, leaf in zip(parts, self.rows[split], strict=True)
        ]
        found = iter(estimated_each(histograms, [0 if self.steps else many for many in inside]))
        rows = [next(found) if chosen else [leaf] for leaf, chosen in zip(self.rows, split, strict=True)]
        starts, stops = (np.array([end for one in cuts for end in one[ends]]) for ends in (slice(-1), slice(1, None)))
        return replace(self, starts=starts, stops=stops, rows=np.concatenate(rows))

    def _cuts(self, start: int, stop: int, fan: int) -> list[int]:
        """Return the borders of the parts that a leaf is split into: start and end included, as grid indices.

        The first step of a declared hierarchy that divides the leaf determines the borders; else they are evenly
        spaced.
        """
        for step in self.steps:
            inside = step[np.searchsorted(step, start, side="right") : np.searchsorted(step, stop)]
            if len(inside):
                return [start, *inside.tolist(), stop]
        return _even_cuts(start, stop, fan)

    def one_way(self) -> OneWay:
        """Return the finished tree as the estimate of its column, special and missing values included."""
        axis = self.axis
        special = axis.starts[axis.starts >= axis.grid.regular]
        starts = np.concatenate([self.starts, special])
        fine = Axis(axis.name, axis.column, starts, np.arange(len(starts)))
        weights = np.where(fine.releasable, np.concatenate([self.rows, self.rest]), 0.0)
        return OneWay(fine, weights, axis, self.counts, self.stddev, self.misfits)


def first_trees(
    axes: Sequence[Axis],
    counts: Sequence[FloatArray],
    stddev: float,
    *,
    total: float,
    total_stddev: float = 0.0,
    steps: Sequence[tuple[IntArray, ...]] | None = None,
) -> list[ColumnTree]:
    """Return each column's tree whose leaves are the bins of its first histogram, with their estimated rows.

    Leaves with many rows are split later.

    Parameters
    ----------
    axes
        The bins of all columns that are measured together.  The threshold for out-of-domain rows grows with the number
        of columns, so that noise exceeds it in hardly any column.
    counts
        (bins,) noisy counts of each column.
    stddev
        Standard deviation of the noise on each count, in rows.
    total, total_stddev
        Estimated number of rows, and the standard deviation of its error.
    steps
        For each column the groups of its declared hierarchy, as in `ColumnTree`.  The first step is the column's bins.
    """
    misfits = [float(one[~axis.releasable].sum()) for axis, one in zip(axes, counts, strict=True)]
    misfits = [many if many > beyond_noise(stddev, len(axes)) else 0.0 for many in misfits]
    totals = [max(total - many, 1.0) for many in misfits]
    found = _estimated_each(axes, counts, [stddev] * len(axes), totals, total_stddev=total_stddev)
    trees = []
    for axis, one, estimate, many, step in zip(axes, counts, found, misfits, steps or [()] * len(axes), strict=True):
        grid = axis.grid
        regular = axis.starts < grid.regular
        starts = axis.starts[regular]
        rows, rest = estimate[: len(starts)], estimate[axis.size - int((~regular).sum()) :]
        stops = np.append(starts[1:], grid.regular)
        trees.append(ColumnTree(axis, one, stddev, rest, starts, stops, rows, many, step))
    return trees


def even_axis(column: OneWay, most: float) -> Axis:
    """Return the bins of a column's last histogram: bins of the first, heavy ones cut between fine bins.

    A bin of ordered values that holds at least twice ``most`` rows is cut into parts of about ``most`` rows or more.
    So there are about equally many bins in the filled range, however wide the declared bounds are.

    Parameters
    ----------
    column
        Noisy estimates of the column.
    most
        Rows that a part of a cut bin should hold, > 0.
    """
    axis, cell, rows = column.axis, column.first_bin, column.weights
    if not axis.grid.ordered or axis.size == column.first.size:
        return column.first
    whole = np.bincount(cell, weights=rows, minlength=column.first.size)
    begin = np.searchsorted(cell, cell)  # the first fine bin in the same bin of the first histogram
    before = np.append(0.0, np.cumsum(rows))
    middle = (before[1:] - rows / 2 - before[begin]) / np.maximum(whole[cell], 1e-300)
    parts = np.maximum(1, np.floor(np.round(whole / most, DIGITS)))
    part = np.floor(np.round(middle * parts[cell], DIGITS))
    cut = np.append(True, (np.diff(cell) != 0) | (np.diff(part) != 0))
    return Axis(axis.name, axis.column, axis.starts[cut], np.arange(int(cut.sum())))


def pooled_each(
    columns: Sequence[OneWay],
    axes: Sequence[Axis],
    counts: Sequence[FloatArray],
    stddev: float,
    *,
    total: float,
    total_stddev: float,
    new_misfits: bool = False,
) -> list[OneWay]:
    """Return the columns' estimates after a second measurement of the first histograms, or of parts of their bins.

    Both measurements are averaged by precision.

    Parameters
    ----------
    columns
        Estimates after the first measurement.
    axes
        The bins of the second measurement: bins of the first histograms, or parts of them.
    counts
        (axis.size,) second noisy counts of each column.
    stddev
        Standard deviation of the noise of ``counts``, in rows.
    total, total_stddev
        Estimated number of rows, and the standard deviation of its error.
    new_misfits
        Whether a column may turn out to have out-of-domain rows that the first measurement did not show.
    """
    bins = [
        one.first.cells[np.searchsorted(one.first.starts, axis.first_points, side="right") - 1]
        for one, axis in zip(columns, axes, strict=True)
    ]
    both = [_pooled(*one, stddev) for one in zip(columns, bins, counts, strict=True)]
    stddevs = [(one.stddev**-2 + stddev**-2) ** -0.5 for one in columns]
    misfits = [float(pooled[~axis.releasable].sum()) for axis, pooled in zip(axes, both, strict=True)]
    shown = [
        one.misfits > 0 if not new_misfits else many > beyond_noise(noise, len(columns))
        for one, many, noise in zip(columns, misfits, stddevs, strict=True)
    ]
    misfits = [max(many, 0.0) if seen else 0.0 for many, seen in zip(misfits, shown, strict=True)]
    totals = [max(total - many, 1.0) for many in misfits]
    mass = _estimated_each(axes, both, stddevs, totals, total_stddev=total_stddev)
    found = []
    for one, axis, inside, pooled, rows, many in zip(columns, axes, bins, both, mass, misfits, strict=True):
        whole, held, parts = (np.bincount(inside, of, minlength=one.first.size) for of in (pooled, rows, None))
        variance = 1 / (one.stddev**-2 + 1 / (np.maximum(parts, 1) * stddev**2))
        noise = math.sqrt(np.average(variance, weights=np.maximum(held, 1e-300)))
        weights = replace(one, first=axis).divided(rows)
        found.append(replace(one, weights=weights, counts=whole, stddev=noise, misfits=many))
    return found


def _pooled(column: OneWay, bins: IntArray, counts: FloatArray, stddev: float) -> FloatArray:
    """Return a column's second noisy counts, averaged by precision with its first ones, (second bins,), in rows.

    A bin that was cut has as many rows as its parts.  What the first count says beyond the parts' sum is divided among
    the parts, by least squares.

    Parameters
    ----------
    column
        The column, with its first counts.
    bins
        (second bins,) the bin of the first histogram that holds each bin of the second.
    counts
        (second bins,) second noisy counts, in rows.
    stddev
        Standard deviation of their noise, in rows.
    """
    size = column.first.size
    parts, whole = np.bincount(bins, minlength=size), np.bincount(bins, weights=counts, minlength=size)
    beyond = (column.counts - whole) / (np.maximum(parts, 1) + (column.stddev / stddev) ** 2)
    return np.asarray(counts + beyond[bins], np.float64)


def _estimated_each(
    axes: Sequence[Axis],
    counts: Sequence[FloatArray],
    stddevs: Sequence[float],
    totals: Sequence[float],
    *,
    total_stddev: float,
) -> list[FloatArray]:
    """Return the estimated rows in each column's first histogram from its noisy counts, (bins,) each.

    The estimate is 0 in bins that are never released or seem empty.
    """
    filled = [_filled(*one, total_stddev) for one in zip(axes, counts, stddevs, totals, strict=True)]
    neighbours = [
        int((some & (axis.starts < axis.grid.regular)).sum()) if axis.grid.ordered else 0
        for axis, some in zip(axes, filled, strict=True)
    ]
    histograms = [
        NoisyHistogram(one[some], noise, total)
        for one, some, noise, total in zip(counts, filled, stddevs, totals, strict=True)
    ]
    found = []
    for some, rows in zip(filled, estimated_each(histograms, neighbours), strict=True):
        found.append(np.zeros(len(some)))
        found[-1][some] = rows
    return found


def _filled(axis: Axis, counts: FloatArray, stddev: float, total: float, total_stddev: float) -> BoolArray:
    """Return which bins of a first histogram, (bins,), may hold rows: releasable bins, in a filled range if ordered.

    Counts of the other bins are noise, which would move averages.  Bins far beyond the filled bins are left out.  For a
    discovered range and for a survey weight, all empty bins at both ends are left out: a few rows of noise far above
    the largest survey weight would stand for many people.
    """
    filled = axis.releasable.copy()
    if axis.grid.ordered:
        values = axis.starts < axis.grid.regular
        if axis.column.source == DISCOVERED or axis.column.class_ends():
            filled[values] &= ~_empty_ends(counts[values], stddev)
        else:
            filled &= ~far_beyond(axis, counts, stddev, total, total_stddev=total_stddev)
    return filled


def _empty_ends(counts: FloatArray, stddev: float) -> BoolArray:
    """Return which bins at the ends of a range, (bins,), hold no more rows than noise explains.

    Neighbouring bins are also tested together.  Discovered bounds tend to be too wide, and the first histogram has less
    noise than the counts that found them.  Bins beside the filled ones stay as long as each has more rows than one standard
    deviation of the noise, as thin tails do.  If no bin is filled, no bin is cut off.
    """
    first, last = with_thin_tails(counts, stddev, *filled_range(counts, FILLED * stddev))
    place = np.arange(len(counts))
    return ((place < first) | (place >= last)) & (last > 0)


def _even_cuts(start: int, stop: int, fan: int) -> list[int]:
    """Return the borders that divide grid indices ``start`` to ``stop`` into up to ``fan`` equal parts.

    The last part may be narrower.
    """
    return [*range(start, stop, -(-(stop - start) // fan)), stop]
