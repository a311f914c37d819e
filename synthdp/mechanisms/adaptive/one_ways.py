"""The one-way marginals of a mixed table: levels as they are, numbers by an adaptive tree down to single values.

An ordered column starts with equal cells.  Cells whose noisy count is clearly above their noise are split again and again,
each round one histogram of sensitivity 1 over the parts of the split cells; so point masses and steep densities are found
where they are, at the price of the levels that some column really used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.curator.curator import Curator
from synthdp.distribution.contingency import project_to_simplex
from synthdp.domain.axis import Axis
from synthdp.domain.discretize import axis_of
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.fit.graphical.proportional_step import proportional_step
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.smoothing import smoothed, thinned
from synthdp.mechanisms.budget import Purse
from synthdp.queries.marginals import one_ways
from synthdp.schema.columns import Column

MOST_BINS = 1024
"""Most bins of the first histogram: finer ones hold little but noise, and the deeper levels find what is between."""

ATOM = 4.0
"""A part of a split cell this many stddevs above its uniform share keeps its measured count."""


@dataclass(frozen=True, slots=True, eq=False)
class OneWay:
    """What is known of one column.

    Costs nothing: a record of noisy answers.

    Parameters
    ----------
    axis
        Its finest cells: the leaves of the tree.
    weights
        (axis.size,) estimated rows in each, >= 0; 0 in cells that are never released.
    first
        The cells of the first histogram, unions of leaves.
    counts
        (first.size,) their unbiased noisy counts.
    stddev
        Of the noise on ``counts``.
    """

    axis: Axis
    weights: FloatArray
    first: Axis
    counts: FloatArray
    stddev: float

    @property
    def first_cell(self) -> IntArray:
        """(axis.size,) cell of the first histogram that holds each leaf.  Costs nothing: arithmetic."""
        starts = np.zeros(self.axis.size, np.int64)
        starts[self.axis.cells[::-1]] = self.axis.starts[::-1]
        return self.first.cells[np.searchsorted(self.first.starts, starts, side="right") - 1]

    def pooled(self, counts: FloatArray, stddev: float, *, total: float) -> OneWay:
        """Return what is known after the first histogram was measured once more.

        Costs nothing: post-processing.

        Parameters
        ----------
        counts
            (first.size,) its second noisy counts.
        stddev
            Of their noise.
        total
            Estimated number of rows.
        """
        precision = self.stddev**-2 + stddev**-2
        both = (self.counts / self.stddev**2 + counts / stddev**2) / precision
        cell, emitted = self.first_cell, self.first.emitted
        mass = np.zeros(self.first.size)
        mass[emitted] = project_to_simplex(both[emitted], max(total, 1.0))
        before = np.bincount(cell, weights=self.weights, minlength=self.first.size)
        inside = np.where(before[cell] > 0, self.weights, np.where(self.axis.emitted, self.axis.width, 0))
        weights = inside * (mass / np.maximum(np.bincount(cell, weights=inside, minlength=self.first.size), 1e-9))[cell]
        return OneWay(self.axis, weights, self.first, both, precision**-0.5)


class Measured(NamedTuple):
    """All columns, the share of the purse that was really spent, and the noisy answers themselves.

    Costs nothing: a record.
    """

    columns: list[OneWay]
    spent: float
    answers: tuple[Measurements, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWayTree:
    """How one-way marginals are measured.

    Costs ``share`` of the account when asked, for the curator's neighbours, less what unused levels give back.

    Parameters
    ----------
    bins
        Cells of the first histogram of an ordered column.
    fan
        Parts of a split cell.
    levels
        Most levels, the first one included; 1 for plain bins.
    heavy
        A cell is split when its estimate exceeds this many stddevs of the deeper noise.
    deep
        Noise of the deeper levels, in units of the first level's.

    Raises
    ------
    ParameterError
        If ``bins`` is out of range.
    """

    bins: int = 32
    fan: int = 32
    levels: int = 4
    heavy: float = 8.0
    deep: float = 2.0

    def __post_init__(self) -> None:
        if isinstance(self.bins, bool) or not isinstance(self.bins, Integral) or not 2 <= self.bins <= MOST_BINS:
            raise ParameterError(f"bins ({self.bins!r}) must be a whole number from 2 to {MOST_BINS}")

    def measure(self, curator: Curator, purse: Purse, *, share: float, most: float, total: float) -> Measured:
        """Measure all columns.

        Costs at least ``share`` and at most ``most`` of the purse, for the curator's neighbours.

        Parameters
        ----------
        curator
            An account in the purse's currency.
        purse
            Its budget.
        share
            For the first level of all columns.
        most
            For all levels together; a level that would cost more is left out.
        total
            Estimated number of rows.
        """
        schema = curator.schema
        each = share / len(schema)
        deeper = each * self.deep ** (-1 / purse.exponent)
        domain = Domain(tuple(axis_of(name, column, bins=self.bins) for name, column in schema.items()))
        queries = one_ways(domain)
        first = curator.measure(queries, spend=purse.part(each * len(schema)), step="one-way marginals")
        answers = [first]
        trees = [
            _Tree(axis, np.asarray(counts, np.float64), first.stddev, total)
            for axis, counts in zip(domain.axes, queries.split(first.answers), strict=True)
        ]
        spent = each * len(schema)
        deep_stddev = purse.table_stddev(deeper) if self.levels > 1 else math.inf
        for level in range(2, self.levels + 1):
            split = [tree for tree in trees if tree.levels(self) >= level and tree.mark(self.heavy * deep_stddev)]
            if not split or spent + deeper * len(split) > most:
                break
            parts = Domain(tuple(tree.parts(self.fan) for tree in split))
            answered = _measure_parts(curator, purse, parts, share=deeper * len(split), level=level)
            answers.append(answered)
            spent += deeper * len(split)
            for tree, counts in zip(split, one_ways(parts).split(answered.answers), strict=True):
                tree.grow(np.asarray(counts, np.float64), answered.stddev, self.fan)
        return Measured([tree.one_way() for tree in trees], spent, tuple(answers))

    def most_levels(self, column: Column) -> int:
        """Return how many levels a column can use.  Costs nothing: reads the declaration."""
        axis = axis_of("", column, bins=self.bins)
        if not axis.grid.ordered:
            return 1
        width, levels = -(-axis.grid.regular // self.bins), 1
        while width > 1 and levels < self.levels:
            width, levels = -(-width // self.fan), levels + 1
        return levels


def _measure_parts(curator: Curator, purse: Purse, parts: Domain, *, share: float, level: int) -> Measurements:
    return curator.measure(one_ways(parts), spend=purse.part(share), step=f"one-way marginals, level {level}")


class _Tree:
    """The leaves of one column while they grow: half-open intervals of regular units with estimated counts."""

    def __init__(self, axis: Axis, counts: FloatArray, stddev: float, total: float) -> None:
        self.axis, self.counts, self.stddev = axis, counts, stddev
        emitted = axis.emitted
        self.estimate = np.zeros(axis.size)
        grid = axis.grid
        cells = int((axis.starts < grid.regular).sum())
        better = smoothed if grid.ordered else thinned
        counts = np.concatenate([better(counts[:cells], stddev), counts[cells:]])
        self.estimate[emitted] = project_to_simplex(counts[emitted], max(total, 1.0))
        self.ordered = grid.ordered
        regular = axis.starts < grid.regular
        self.starts = axis.starts[regular]
        self.stops = np.append(self.starts[1:], grid.regular)
        self.leaves = self.estimate[: len(self.starts)]
        self.heavy = np.zeros(len(self.starts), np.bool_)

    def levels(self, settings: OneWayTree) -> int:
        return settings.most_levels(self.axis.column)

    def mark(self, threshold: float) -> bool:
        self.heavy = (self.leaves > threshold) & (self.stops - self.starts > 1)
        return bool(self.heavy.any())

    def parts(self, fan: int) -> Axis:
        """Return a cell for each part of each split leaf, in order, and one more for the rest, if any."""
        starts: list[int] = []
        cells: list[int] = []
        part = 0
        for start, stop, heavy in zip(self.starts, self.stops, self.heavy, strict=True):
            if heavy:
                inside = _cuts(int(start), int(stop), fan)[:-1]
                starts += inside
                cells += range(part, part + len(inside))
                part += len(inside)
            else:
                starts.append(int(start))
                cells.append(-1)
        if self.axis.grid.size > self.axis.grid.regular:
            starts.append(self.axis.grid.regular)
            cells.append(-1)
        return Axis(self.axis.name, self.axis.column, np.array(starts), np.where(np.array(cells) < 0, part, cells))

    def grow(self, counts: FloatArray, stddev: float, fan: int) -> None:
        starts, stops, leaves, at = [], [], [], 0
        for start, stop, leaf, heavy in zip(self.starts, self.stops, self.leaves, self.heavy, strict=True):
            if not heavy:
                starts.append(int(start))
                stops.append(int(stop))
                leaves.append(float(leaf))
                continue
            cuts = np.array(_cuts(int(start), int(stop), fan))
            inside = len(cuts) - 1
            estimate = refine(float(leaf), np.diff(cuts), counts[at : at + inside], stddev)
            at += inside
            starts += cuts[:-1].tolist()
            stops += cuts[1:].tolist()
            leaves += estimate.tolist()
        self.starts, self.stops, self.leaves = np.array(starts), np.array(stops), np.array(leaves)
        self.heavy = np.zeros(len(starts), np.bool_)

    def one_way(self) -> OneWay:
        grid, axis = self.axis.grid, self.axis
        rest = axis.starts >= grid.regular
        starts = np.concatenate([self.starts, axis.starts[rest]])
        weights = np.concatenate([self.leaves, self.estimate[len(self.estimate) - rest.sum() :]])
        fine = Axis(axis.name, axis.column, starts, np.arange(len(starts)))
        return OneWay(fine, np.where(fine.emitted, weights, 0.0), axis, self.counts, self.stddev)


def _cuts(start: int, stop: int, fan: int) -> list[int]:
    parts = min(fan, stop - start)
    return [start + i * (stop - start) // parts for i in range(parts + 1)]


def refine(total: float, widths: IntArray, counts: FloatArray, stddev: float) -> FloatArray:
    """Share the estimated count of a cell among its parts.

    Parts clearly above their uniform share keep the measured count: a ridge would bias a point mass by its own noise at
    every level.  The rest is a regularised tilt of the uniform share.

    Costs nothing: post-processing.

    Parameters
    ----------
    total
        Estimated count of the cell.
    widths
        (k,) units of each part.
    counts
        (k,) noisy counts of the parts.
    stddev
        Of their noise.
    """
    prior = widths * total / widths.sum()
    atom = counts > prior + ATOM * stddev
    estimate = np.where(atom, counts, 0.0)
    if atom.all() or estimate.sum() > total:
        return project_to_simplex(estimate, total)
    rest, left = ~atom, total - estimate.sum()
    share = prior[rest] * left / prior[rest].sum()
    if left > 1e-6:
        step = proportional_step(share, np.zeros(len(share)), counts[rest], ridge=stddev, total=left)
        share = share * step.factor
    estimate[rest] = share
    return estimate
