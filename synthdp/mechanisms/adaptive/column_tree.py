"""One column as a tree of intervals: which leaves are split further, and how many rows each leaf seems to hold.

Post-processing of noisy counts; `one_ways` asks for them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.domain.axis import Axis
from synthdp.measurements import beyond_noise
from synthdp.mechanisms.adaptive.sizes import WINDOWS, far_beyond
from synthdp.mechanisms.adaptive.smoothing import estimated
from synthdp.schema.columns import DISCOVERED

FILLED = 2.5
"""Bins there with more than so many stddevs of noise are filled."""

TAIL, TAIL_SHARE = 1.0, 0.25
"""So is the next bin with more than so many, and more than a quarter of what the last filled one holds: as likely as not, if
tails fall by half."""


@dataclass(frozen=True, slots=True, eq=False)
class OneWay:
    """What is known of one column.

    Parameters
    ----------
    axis
        Its finest bins: the leaves of the tree.
    weights
        (axis.size,) estimated rows in each, >= 0; 0 in bins that are never released.
    first
        The bins of the first histogram, unions of leaves.
    counts
        (first.size,) their unbiased noisy counts.
    stddev
        Standard deviation of the noise on each of ``counts``, in rows.
    misfits
        Estimated rows whose value does not fit the column; 0 where noise explains them.  ``weights`` leave them out.
    rounding
        How likely grid points of each class of round numbers are, see `Refinement`.
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
        """(axis.size,) the bin of the first histogram that holds each leaf."""
        starts = np.zeros(self.axis.size, np.int64)
        starts[self.axis.cells[::-1]] = self.axis.starts[::-1]
        return self.first.cells[np.searchsorted(self.first.starts, starts, side="right") - 1]

    def pooled(self, counts: FloatArray, stddev: float, *, total: float) -> OneWay:
        """Return what is known after the first histogram was measured once more.

        Parameters
        ----------
        counts
            (first.size,) its second noisy counts.
        stddev
            Standard deviation of their noise, in rows.
        total
            Estimated number of rows.
        """
        precision = self.stddev**-2 + stddev**-2
        both = (self.counts / self.stddev**2 + counts / stddev**2) / precision
        cell, releasable = self.first_bin, self.first.releasable
        misfits = float(max(both[~releasable].sum(), 0.0)) if self.misfits > 0 else 0.0
        before = np.bincount(cell, weights=self.weights, minlength=self.first.size)
        mass = _estimated(self.first, both, precision**-0.5, total=max(total - misfits, 1.0))
        inside = np.where(before[cell] > 0, self.weights, np.where(self.axis.releasable, self.axis.width, 0))
        weights = inside * (mass / np.maximum(np.bincount(cell, weights=inside, minlength=self.first.size), 1e-9))[cell]
        return replace(self, weights=weights, counts=both, stddev=precision**-0.5, misfits=misfits)

    def redistributed(self, counts: FloatArray) -> OneWay:
        """Return the column with other counts of the first histogram; the noise stays, and leaves share as before.

        Parameters
        ----------
        counts
            (first.size,) rows, any sign.
        """
        cell, kept = self.first_bin, self.first.releasable
        mass = np.where(kept, np.maximum(counts, 0.0), 0.0)
        mass = mass * (float(self.weights.sum()) / max(float(mass.sum()), 1e-300))
        before = np.bincount(cell, weights=self.weights, minlength=self.first.size)
        inside = np.where(before[cell] > 0, self.weights, np.where(self.axis.releasable, self.axis.width, 0))
        whole = np.bincount(cell, weights=inside, minlength=self.first.size)
        return replace(self, weights=inside * (mass / np.maximum(whole, 1e-300))[cell], counts=counts)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnTree:
    """The leaves of one column so far.

    Parameters
    ----------
    axis
        The bins of the first histogram.
    counts
        (axis.size,) their unbiased noisy counts.
    stddev
        Standard deviation of the noise on each of them, in rows.
    rest
        (special,) estimated rows in the bins that are never split: special and missing values and "other".
    starts, stops
        (leaves,) the half-open interval of grid indices of each leaf.
    rows
        (leaves,) estimated rows in each, >= 0.
    misfits
        Estimated rows whose value does not fit the column; 0 where noise explains them.
    steps
        The first grid index of each group of a declared hierarchy, for each step; none where leaves are split evenly.
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

    @classmethod
    def of(
        cls, axis: Axis, counts: FloatArray, stddev: float, *, total: float, columns: int,
        steps: tuple[IntArray, ...] = (),
    ) -> ColumnTree:  # fmt: skip
        """Return the tree whose leaves are the bins of the first histogram.

        Parameters
        ----------
        axis, counts, stddev
            The histogram, as above.
        total
            Estimated number of rows.
        columns
            How many columns are measured with it: noise is to pass for a misfit in hardly any of them.
        steps
            Of a declared hierarchy, as above; the bins are the groups of the first.
        """
        grid = axis.grid
        misfits = float(counts[~axis.releasable].sum())
        misfits = misfits if misfits > beyond_noise(stddev, columns) else 0.0
        regular = axis.starts < grid.regular
        estimate = _estimated(axis, counts, stddev, total=max(total - misfits, 1.0))
        starts = axis.starts[regular]
        rows, rest = estimate[: len(starts)], estimate[axis.size - int((~regular).sum()) :]
        return cls(axis, counts, stddev, rest, starts, np.append(starts[1:], grid.regular), rows, misfits, steps)

    def heavy(self, threshold: float) -> BoolArray:
        """Return which leaves hold more rows than ``threshold`` and more than one grid index, (leaves,)."""
        return (self.rows > threshold) & (self.stops - self.starts > 1)

    def parts(self, split: BoolArray, *, fan: int) -> Axis:
        """Return an axis with a bin for each part of each split leaf, and one bin for all the rest.

        Parts are the groups of the first step of a declared hierarchy that divides the leaf, or up to ``fan`` even ones.
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
        """Return the tree in which the parts of the split leaves are leaves.

        Parameters
        ----------
        split
            (leaves,) which leaves were split.
        counts
            Noisy counts of the bins of ``parts(split)``.
        stddev
            Standard deviation of their noise, in rows.
        fan
            As given to `parts`.
        """
        starts, stops, rows, at = [], [], [], 0
        for start, stop, leaf, chosen in zip(self.starts, self.stops, self.rows, split, strict=True):
            if not chosen:
                starts.append(int(start))
                stops.append(int(stop))
                rows.append(float(leaf))
                continue
            cuts = self._cuts(int(start), int(stop), fan)
            inside = len(cuts) - 1
            estimate = estimated(
                counts[at : at + inside], stddev, total=float(leaf), neighbours=0 if self.steps else inside
            )
            at += inside
            starts += cuts[:-1]
            stops += cuts[1:]
            rows += estimate.tolist()
        return replace(self, starts=np.array(starts), stops=np.array(stops), rows=np.array(rows))

    def _cuts(self, start: int, stop: int, fan: int) -> list[int]:
        """Return the borders of the parts of a leaf."""
        for step in self.steps:
            inside = step[np.searchsorted(step, start, side="right") : np.searchsorted(step, stop)]
            if len(inside):
                return [start, *inside.tolist(), stop]
        return _even_cuts(start, stop, fan)

    def one_way(self) -> OneWay:
        """Return what the tree says of its column."""
        axis = self.axis
        special = axis.starts[axis.starts >= axis.grid.regular]
        starts = np.concatenate([self.starts, special])
        fine = Axis(axis.name, axis.column, starts, np.arange(len(starts)))
        weights = np.where(fine.releasable, np.concatenate([self.rows, self.rest]), 0.0)
        return OneWay(fine, weights, axis, self.counts, self.stddev, self.misfits)


def _estimated(axis: Axis, counts: FloatArray, stddev: float, *, total: float) -> FloatArray:
    """Return the estimated rows in the bins of a first histogram, 0 in those that are never released or not filled."""
    filled, neighbours = axis.releasable.copy(), 0
    if axis.grid.ordered:
        values = axis.starts < axis.grid.regular
        if axis.column.source == DISCOVERED:
            filled[values] &= ~_empty_ends(counts[values], stddev)
        else:
            filled &= ~far_beyond(axis, counts, stddev)
        neighbours = int((filled & values).sum())
    rows = np.zeros(axis.size)
    rows[filled] = estimated(counts[filled], stddev, total=total, neighbours=neighbours)
    return rows


def _empty_ends(counts: FloatArray, stddev: float) -> BoolArray:
    """Return which bins at the ends of a discovered range hold no more than noise explains, alone or with their neighbours.

    Discovery leaves a range rather too wide than too narrow; this histogram has less noise.  If no bin is filled, none.
    """
    first, last = len(counts), 0
    for width in WINDOWS:
        sums = np.convolve(counts, np.ones(width), mode="valid") if width <= len(counts) else np.empty(0)
        filled = np.flatnonzero(sums > FILLED * stddev * np.sqrt(width))
        outside = filled[(filled >= last) | (filled + width <= first)]
        if len(outside):
            first, last = min(first, int(outside[0])), max(last, int(outside[-1]) + width)
    while 0 < last < len(counts) and counts[last] > max(TAIL * stddev, TAIL_SHARE * counts[last - 1]):
        last += 1
    while 0 < first < last and counts[first - 1] > max(TAIL * stddev, TAIL_SHARE * counts[first]):
        first -= 1
    place = np.arange(len(counts))
    return ((place < first) | (place >= last)) & (last > 0)


def _even_cuts(start: int, stop: int, fan: int) -> list[int]:
    """Return the borders of up to ``fan`` parts of equal width, but for the last."""
    return [*range(start, stop, -(-(stop - start) // fan)), stop]
