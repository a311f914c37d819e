"""The one-way marginals of a mixed table: a count per level, and for numbers a tree down to single values.

An ordered column starts with equal bins, or, for numbers near 0, with narrower bins.  A bin is split if its noisy count
is far above its noise, and its parts may be split again.  Each round of splits is one histogram of sensitivity 1 over
the parts of all split bins.  So point masses and steep densities are found, and the budget pays only for depths that
some column uses.  A column with very many levels in a declared hierarchy starts with groups of the hierarchy.  Such a
group is split into its groups of the next step.

The tree shows where the rows lie.  Half of the first histogram's budget then goes to a last one, whose bins hold about
equally many rows.  So bounds that are far too wide cost little more than the depths that they need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.checks import check_number, check_whole
from synthdp.curator import Curator
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain, starts_of
from synthdp.domain.grid import grid_of
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.shares import SCREEN, score_noise
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.column_sizes import cut_by_size
from synthdp.mechanisms.column_tree import OneWay, even_axis, first_trees, pooled_each
from synthdp.privacy.loss import ROUNDING
from synthdp.queries.contingency import LEAST_STDDEV
from synthdp.queries.marginals import one_ways
from synthdp.schema.columns import DISCOVERED, Column
from synthdp.schema.schema import Schema

WIDER = 4
"""How many times wider than the data a discovered range may be; its first histogram has this many times as many bins.
Derived: discovery looks no further once a range is at most `curator.noisy_ranges.NARROW` = 4 times as wide as its
numbers."""

DISCOVERED_HEAVY = 0.5
"""Threshold for splitting a bin in a column with discovered bounds, as a fraction of the threshold of other columns.  The
threshold is lower as bin borders do not fit the data there.  A smaller fraction splits more bins, and some of these hold
noise alone.  Tuned: half and twice of it change the three-way error of three undeclared tables by -1.6 and +2.3 %
(docs/benchmarks/constants.md)."""

MOST_BINS = 1024
"""Largest value of the setting ``bins``.  A safety limit: finer bins hold little but noise, and deeper histograms find
point masses."""


class MeasuredOneWays(NamedTuple):
    """The estimates of all columns, the remaining budget, and the noisy answers that the estimates were made from."""

    columns: tuple[OneWay, ...]
    rest: BudgetAllocation
    answers: tuple[Measurements, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWayTree:
    """Settings of the one-way marginals and their deeper histograms.

    Parameters
    ----------
    bins
        Bins of the first histogram of an ordered column, >= 2.  A column of up to twice as many values has a bin for
        each value.  Bins of two values among bins of one value would hide which value is frequent.
    fan
        Most parts of a split bin, >= 2.
    levels
        Most depths of the tree, the first histogram included, >= 1; 1 splits no bin.
    heavy
        A bin is split if its estimate exceeds this many stddevs of the deeper histogram's noise, > 0.
    deep
        Noise of the deeper histograms, as a multiple of the first histogram's noise if it had the whole share, >= 1.
    finer
        Factor on the number of bins of the first histogram if bounds were discovered, >= 1; see `suited`.
    flat
        Columns with a hierarchy whose levels are all counted in the first histogram.

    Raises
    ------
    ParameterError
        If a setting is out of range.
    """

    bins: int = 32
    fan: int = 32
    levels: int = 4
    heavy: float = 8.0
    deep: float = 2.0
    finer: int = WIDER
    flat: tuple[Column, ...] = ()

    def __post_init__(self) -> None:
        check_whole("bins", self.bins, least=2, most=MOST_BINS)
        check_whole("fan", self.fan, least=2)
        check_whole("levels", self.levels)
        check_number("deep", self.deep, least=1)
        check_number("heavy", self.heavy, above=0)
        check_whole("finer", self.finer)

    def suited(self, budget: BudgetAllocation, *, share: float, columns: int, total: float) -> OneWayTree:
        """Return these settings with the number of first bins in discovered ranges adapted to the noise.

        A discovered range may be `WIDER` times too wide, so that its bins are coarse.  If an average bin would be split
        anyway, no more bins are needed.  If noise forbids the split, the first histogram gets more bins.

        Parameters
        ----------
        budget
            The remaining budget.
        share
            Share of the whole budget for the first histograms of all columns.
        columns
            Number of columns.
        total
            Estimated number of rows.
        """
        noise = budget.table_stddev(self._deeper(share / columns, budget))
        splits = self.levels > 1 and total / self.bins > noise * self.heavy * DISCOVERED_HEAVY
        return replace(self, finer=1 if splits else self.finer)

    def measure(
        self,
        curator: Curator,
        budget: BudgetAllocation,
        *,
        share: float,
        most: float,
        total: float,
        stddev: float = 0.0,
    ) -> MeasuredOneWays:
        """Measure a histogram of every column, and then finer bins, depth by depth, where bins hold many rows.

        Elsewhere noise would hide finer counts, and their budget gains more in other tables.

        Returns the estimates of all columns, the remaining budget, and the noisy answers.

        Costs at least ``share`` and at most ``most`` of the whole budget, for the curator's neighbours.

        Parameters
        ----------
        curator
            The account of ``budget``.
        budget
            The remaining budget.
        share
            Share of the whole budget for the first histograms of all columns.
        most
            Largest share of the whole budget for all depths together.  A depth that would exceed it is left out, and
            all deeper ones with it.
        total
            Estimated number of rows.
        stddev
            Standard deviation of the noise of ``total``; 0 where ``total`` is exact.
        """
        schema = curator.schema
        each = share / len(schema)
        deeper = self._deeper(each, budget)
        last = each / 2 * len(schema) if self._counts_twice(schema, budget) else 0.0
        domain = Domain(tuple(self.first_axis(name, column) for name, column in schema.items()))
        queries = one_ways(domain)
        part, rest = budget.take(each * len(schema) - last)
        first = curator.measure(queries, spend=part.loss, step="one-way marginals")
        answers = [first]
        if stddev > 0:
            total, stddev = _pooled_total(total, stddev, queries.split(first.answers), first.stddev)
        histograms = [np.asarray(one, np.float64) for one in queries.split(first.answers)]
        steps = [self.steps(column) for column in schema.values()]
        trees = first_trees(domain.axes, histograms, first.stddev, total=total, total_stddev=stddev, steps=steps)
        deep_stddev = budget.table_stddev(deeper) if self.levels > 1 else math.inf
        thresholds = [deep_stddev * self.least_heavy(column) for column in schema.values()]
        for level in range(2, self.levels + 1):
            deep = (j for j, column in enumerate(schema.values()) if self.most_levels(column) >= level)
            split = {j: heavy for j in deep if (heavy := trees[j].heavy(thresholds[j])).any()}
            cost = deeper * len(split)
            if not split or budget.share - rest.share + cost + last > most + ROUNDING:
                break
            part, rest = rest.take(cost)
            parts = one_ways(Domain(tuple(trees[j].parts(heavy, fan=self.fan) for j, heavy in split.items())))
            found = curator.measure(parts, spend=part.loss, step=f"one-way marginals, finer bins (level {level})")
            answers.append(found)
            for (j, heavy), counts in zip(split.items(), parts.split(found.answers), strict=True):
                trees[j] = trees[j].grown(heavy, np.asarray(counts, np.float64), found.stddev, fan=self.fan)
        columns = [tree.one_way() for tree in trees]
        if last > 0:
            noise = budget.table_stddev(last / len(schema))
            least = [max(total / self.bins, self.least_heavy(column) * noise) for column in schema.values()]
            axes = [even_axis(column, rows) for column, rows in zip(columns, least, strict=True)]
            queries = one_ways(Domain(tuple(axes)))
            part, rest = rest.take(last)
            found = curator.measure(queries, spend=part.loss, step="one-way marginals, bins of about equal rows")
            answers.append(found)
            if stddev > 0:
                total, stddev = _pooled_total(total, stddev, queries.split(found.answers), found.stddev)
            histograms = [np.asarray(one, np.float64) for one in queries.split(found.answers)]
            columns = pooled_each(
                columns, axes, histograms, found.stddev, total=total, total_stddev=stddev, new_misfits=True
            )
        return MeasuredOneWays(tuple(columns), rest, tuple(answers))

    def _counts_twice(self, schema: Schema, budget: BudgetAllocation) -> bool:
        """Return whether a last histogram follows the tree: if ordered bins may be split, and noise is Gaussian.

        It costs half of the first histogram's share.  The average of two measurements with Gaussian noise is as precise
        as one measurement for both halves, so bins that were not cut lose nothing.  With Laplace noise they would.
        """
        split = any(self.most_levels(column) > 1 and grid_of(column).ordered for column in schema.values())
        return split and budget.exponent == 0.5

    def first_axis(self, name: str, column: Column) -> Axis:
        """Return the bins of a column's first histogram.

        A column with at most twice as many values as bins has a bin for each value.  Numbers with declared bounds have
        narrower bins near 0.  All other columns have equal bins, or the groups of a hierarchy.
        """
        grid, bins = grid_of(column), self.first_bins(column)
        starts = self.plain_starts(column, bins=grid.regular if grid.regular <= 2 * bins else bins)
        if grid.regular > 2 * bins and grid.ordered and column.source != DISCOVERED:
            cut = cut_by_size(column, starts[starts < grid.regular])
            starts = np.concatenate([cut, np.arange(grid.regular, grid.size)])
        return Axis(name, column, starts, np.arange(len(starts)))

    def plain_starts(self, column: Column, *, bins: int | None = None) -> IntArray:
        """Return the first grid index of each bin of a column, (bins,), before `first_axis` adds narrow bins near 0.

        The bins are the coarsest measured groups of a hierarchy.  Without a hierarchy they are all levels, or ``bins``
        equal bins (default: the setting).  Their number predicts the column's noise before any measurement.
        """
        grid, steps = grid_of(column), self.steps(column)
        if not steps:
            return starts_of(column, bins=self.bins if bins is None else bins)
        return np.concatenate([steps[0], np.arange(grid.regular, grid.size)])

    def steps(self, column: Column) -> tuple[IntArray, ...]:
        """Return the first grid index of each group of a column's declared hierarchy, (groups,) per measured depth.

        The first depth has the finest step with at most 2 ``bins`` groups, or else the coarsest step.  The last depth
        has single levels.  The tuple is empty if all levels are counted in the first histogram.  This is so without a
        hierarchy, for at most 2 ``bins`` levels, for a column in ``flat``, and if the tree has one depth.
        """
        regular, groups = grid_of(column).regular, column.starts_of_groups()
        if not groups or regular <= 2 * self.bins or self.levels == 1 or column in self.flat:
            return ()
        declared = [np.array(step) for step in groups]
        first = max(i for i, step in enumerate(declared) if i == 0 or len(step) <= 2 * self.bins)
        return (*declared[first:][: self.levels - 1], np.arange(regular))

    def first_bins(self, column: Column) -> int:
        """Return how many equal bins an ordered column's first histogram starts with, before `first_axis` adds cuts.

        More bins do not cost more, as a row is in only one of them.  Smoothing removes noise from bins that turn out to
        be alike or empty.
        """
        return self.bins * self.finer if column.source == DISCOVERED else self.bins

    def least_heavy(self, column: Column) -> float:
        """Return how many standard deviations of the deeper histogram's noise a bin's count must exceed to be split.

        The number is halved where bounds were discovered.  Discovered bounds are rounded and noisy, so that bins do not
        begin and end where the data do.
        """
        return self.heavy * DISCOVERED_HEAVY if column.source == DISCOVERED else self.heavy

    def most_levels(self, column: Column) -> int:
        """Return how many depths of histograms a column can use, until bins hold single values; at most ``levels``.

        The first histogram counts, so the number is 1 if no bin can be split.  The column takes no part in deeper
        histograms.
        """
        grid, bins = grid_of(column), self.first_bins(column)
        steps = self.steps(column)
        if steps:
            return len(steps)
        if not grid.ordered or grid.regular <= 2 * bins or column.class_ends():
            return 1
        width, levels = -(-grid.regular // bins), 1
        while width > 1 and levels < self.levels:
            width, levels = -(-width // self.fan), levels + 1
        return levels

    def _deeper(self, each: float, budget: BudgetAllocation) -> float:
        """Return the budget share of one deeper histogram of a column; ``each`` is the share of its first histogram.

        The share is smaller, so that noise is the setting ``deep`` times as large: only bins that hold many rows are
        divided.
        """
        return float(each * self.deep ** (-1 / budget.exponent))


def _pooled_total(total: float, stddev: float, columns: Sequence[FloatArray], noise: float) -> tuple[float, float]:
    """Return the number of rows, at least 1, and its stddev: the mean, by precision, of a count and of histograms' sums.

    The estimated bins of every column are scaled to this number.  ``stddev`` is the noise of the count, ``noise`` the
    noise of a histogram's bin, both in rows.
    """
    sums = [total, *(float(counts.sum()) for counts in columns)]
    precisions = [stddev**-2, *(1 / (len(counts) * max(noise, LEAST_STDDEV) ** 2) for counts in columns)]
    return max(1.0, float(np.average(sums, weights=precisions))), sum(precisions) ** -0.5


def one_way_share(cells: Sequence[int], budget: BudgetAllocation, *, total: float) -> float:
    """Return the budget share of the first histograms of all columns; it grows with their noise relative to the rows.

    Let v be a column's noise with the whole budget, summed over its bins, and t the aim of a relation's score
    (`score_noise`), both as fractions of the rows.  The share s minimises v / s + t / (1 - s), so that neither columns nor
    relations get too little.  So s = sqrt(v) / (sqrt(v) + sqrt(t)), but at least `SCREEN`, what looking for strong
    relations costs.  A single column gets half of the remaining budget.

    Parameters
    ----------
    cells
        Number of bins in the first histogram of each column.
    budget
        The remaining budget.
    total
        Estimated number of rows.
    """
    if len(cells) == 1:
        return budget.share * 0.5
    noise = budget.table_stddev(1 / len(cells)) * float(np.mean(cells)) / total
    return max(SCREEN, math.sqrt(noise) / (math.sqrt(noise) + math.sqrt(score_noise(2))))
