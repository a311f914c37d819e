"""Noisy estimates of each column of persons' rows: histograms whose heavy bins are split, weighted by persons.

A column's standard bins are counted by group of periods.  The heavy bins of all periods together are split level by
level, as `synthdp.mechanisms.column_histograms` does for one table.  So a value that many rows have gets a bin of its
own, however wide the column's bounds are.  The model's bins are runs of these fine bins within a standard bin.  A
`Refinement` holds the distribution of rows within them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.curator import Curator
from synthdp.domain.axis import Axis
from synthdp.domain.histories import BINS, Layout
from synthdp.domain.refinement import Refinement, axis_of_roundness
from synthdp.fit.person_shrinkage import raked, shrunk, smoothed
from synthdp.fit.smoothing import estimated
from synthdp.measurements import SIGNIFICANT, Measurements
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.column_histograms import OneWayTree
from synthdp.mechanisms.column_rounding import CLEAR, parts_in_classes, rounded
from synthdp.mechanisms.column_tree import ColumnTree, OneWay
from synthdp.mechanisms.related.asked_tables import measure
from synthdp.mechanisms.related.choosing import Attribute, cells_of
from synthdp.privacy.budget import COUNT_SHARE
from synthdp.queries.person_tables import Kind, PersonTable
from synthdp.queries.persons import mean_by_precision

TREE = OneWayTree(bins=BINS, levels=5)
"""How the bins of a column of persons' rows are split: as in a single table, but in five depths instead of four.  Derived:
with `BINS` first bins, fewer than a single table has, a grid of 32^4 points needs one depth more until bins hold single
values.  With four depths point masses in such a grid were lost."""

ATOMS = 2 * BINS
"""A single value gets a model bin of its own if it holds at least 1 / ATOMS of the column's rows.  A larger value keeps
rarer values apart, at the cost of more bins.  Derived: half as many rows as the model's bins hold on average."""

Key = tuple[int, str]
"""Position of a table, and name of one of its columns."""


@dataclass(frozen=True, slots=True, eq=False)
class AttributeColumn:
    """Noisy estimates of one column: persons in its standard bins, by group of periods, and in fine bins from splits.

    Parameters
    ----------
    one
        The attribute.
    counts
        (1 or groups of periods, standard bins) estimated persons, at least 0; 0 in bins that are never released.
    stddev
        Standard deviation of the noise in each of these bins, in persons.
    share
        Share of the budget that the first measurement of the counts cost; each level of splits costs a fixed fraction
        of this share.
    split_stddev
        Standard deviation of the noise of a split's counts, in persons.
    known
        The fine bins of the column, all periods together, with weights in persons.
    """

    one: Attribute
    counts: FloatArray
    stddev: float
    share: float
    split_stddev: float
    known: OneWay

    @property
    def key(self) -> Key:
        """The position of the column's table, and its name."""
        return self.one.table, self.one.name

    def refined(self, stddev: float) -> Refinement:
        """Return the division of the fine bins into the model's bins for this column, with the rows' weights within them.

        Parameters
        ----------
        stddev
            Standard deviation of the noise of splits, in persons.
        """
        known = self.known
        return Refinement(known.axis, model_cells(known, stddev), known.weights, known.rounding)

    def by_cell(self, refinement: Refinement) -> FloatArray:
        """Return the estimated persons in the model's bins, (1 or groups of periods, bins).

        The persons of a standard bin are divided in proportion to the weights of its fine bins; if all of these are 0,
        in proportion to their widths.
        """
        weights, cell, first = self.known.weights, refinement.coarse_cell, self.known.first_bin
        of_first = np.bincount(first, weights=weights, minlength=self.counts.shape[1])
        nobody = of_first[first] <= 0  # in none of its leaves, though perhaps somebody in some period
        weights = np.where(nobody, refinement.weights, weights)
        of_first += np.bincount(first, weights=weights * nobody, minlength=self.counts.shape[1])
        share = np.bincount(cell, weights=weights / np.maximum(of_first, 1e-300)[first], minlength=refinement.groups)
        standard = np.zeros(refinement.groups, np.int64)
        standard[cell] = first
        return np.asarray(self.counts[:, standard] * share, np.float64)


def model_cells(known: OneWay, stddev: float) -> IntArray:
    """Return the number of the model bin of each fine bin, (fine bins,).

    A heavy single value is a bin by itself.  Other bins are runs of neighbouring fine bins within a standard bin.  A
    run holds about a `BINS`-th of all weight, so that a skewed column has as many bins as another.  A value is heavy,
    and a run complete, only with at least `SIGNIFICANT` times ``stddev`` persons; ``stddev`` is the noise of splits.
    """
    regular = known.axis.starts < known.axis.grid.regular
    total = float(known.weights[regular].sum())
    run, alone = max(total / BINS, SIGNIFICANT * stddev), max(total / ATOMS, SIGNIFICANT * stddev)
    cells = np.zeros(known.axis.size, np.int64)
    cell, held, before = -1, math.inf, (-1, False)
    for leaf, (first, rows, width) in enumerate(zip(known.first_bin, known.weights, known.axis.width, strict=True)):
        atom = bool(width == 1 and rows >= alone)
        if first != before[0] or atom or before[1] or held >= run:
            cell, held = cell + 1, 0.0
        cells[leaf], held, before = cell, held + float(rows), (int(first), atom)
    return cells


def first_estimate(
    axis: Axis,
    counted: tuple[FloatArray, float],
    together: tuple[FloatArray, float] | None,
    *,
    by_root: bool,
    total: float,
    releasable: BoolArray,
    of_groups: FloatArray | None = None,
) -> FloatArray:
    """Return estimated persons in an attribute's standard bins from noisy counts, (1 or groups of periods, bins).

    All periods together are estimated first, as a column of a single table is.  Then `by_period` estimates how groups
    of periods differ from them.  If all periods were counted together, the groups are scaled to add up to that better
    estimate.  Otherwise the groups' own estimates stay.  If no count is left, all releasable bins get equal estimates.
    Only attributes of the root table are scaled to ``total``.

    Parameters
    ----------
    axis
        The standard bins.
    counted
        Noisy counts, (1 or groups of periods, bins), in persons, and the standard deviation of their noise.
    together
        Noisy counts of all periods together, (1, bins), and the standard deviation of their noise; ``None`` if only
        groups of periods were counted.
    by_root
        Whether the attribute is of the root table, where every person has one row.
    total
        Estimated number of persons with a row.
    releasable
        (bins,) whether synthetic rows may have the bin.
    of_groups
        (groups of periods,) the share of persons in each group of periods, from the counts of the period itself, which
        are far less noisy than a sum over bins; ``None`` if the period is not a column with counts.
    """
    noisy, stddev = counted
    summed = noisy.sum(axis=0, keepdims=True), stddev * math.sqrt(len(noisy))
    every, deviation = summed if together is None else mean_by_precision(summed, together)
    found = all_periods(axis, every, deviation) * releasable
    if found.sum() <= 0:
        found = releasable[None].astype(np.float64)
    if len(noisy) > 1:
        noisy = noisy + (every - summed[0]) / len(noisy)
        margin, found = found, by_period(axis, noisy, stddev, found, of_groups=of_groups) * releasable
        if together is not None or found.sum() <= 0:  # counts of all periods are better than sums over groups
            of_group = found.sum(axis=1, keepdims=True) + 1e-9
            found = np.where(found.sum(axis=0) > 0, found, of_group)
            found = found * (margin / found.sum(axis=0))
            if of_groups is not None:
                found = raked(found, [of_groups * float(margin.sum()), margin[0]])
    return found * (total / found.sum()) if by_root else found


def all_periods(axis: Axis, noisy: FloatArray, stddev: float) -> FloatArray:
    """Return an estimated histogram from noisy counts, (1, bins) each, as of a column of a single table.

    The bins of numbers are smoothed where that lowers the estimated risk.  ``stddev`` is the
    standard deviation of the noise in each bin.
    """

    def plain(noisy: FloatArray) -> FloatArray:
        """Return the histogram as estimated without smoothness."""
        return estimated(noisy[0], stddev, total=max(float(noisy.sum()), 1.0), neighbours=0)[None]

    found = plain(noisy)
    if axis.grid.ordered:
        found[:, : axis.regular] = smoothed(noisy[:, : axis.regular], stddev, plain)
    return found


def by_period(
    axis: Axis, noisy: FloatArray, stddev: float, together: FloatArray, *, of_groups: FloatArray | None = None
) -> FloatArray:
    """Return estimated persons by group of periods, (groups, bins), shrunk towards no change over time.

    Counts by group of periods are noisier than counts of all periods together.

    Parameters
    ----------
    axis
        The bins.
    noisy
        (groups, bins) noisy counts.
    stddev
        Standard deviation of the noise in each of them.
    together
        (1, bins) estimated persons of all groups together, >= 0, with a positive sum.
    of_groups
        (groups,) the share of persons in each group, if it is known better than by the sum of the group's bins.
    """
    every = None if of_groups is None else of_groups * float(together.sum())

    def changed(noisy: FloatArray, together: FloatArray, rows: FloatArray | None) -> FloatArray:
        """Return the bins of all groups together in each group, plus differences that noise does not explain."""
        rows = np.maximum(noisy.sum(axis=1) if rows is None else rows, stddev)
        unchanged = rows[:, None] * (together / max(float(together.sum()), 1e-9))
        return np.asarray(np.maximum(unchanged + shrunk(noisy - unchanged, stddev), 0) * (unchanged > 0), np.float64)

    found = changed(noisy, together, every)
    numbers = slice(axis.regular if axis.grid.ordered else 0)
    some = together[:, numbers]
    if some.sum() > 0:
        rows = None if every is None else every - found.sum(axis=1) + found[:, numbers].sum(axis=1)
        found[:, numbers] = smoothed(noisy[:, numbers], stddev, lambda noisy: changed(noisy, some, rows), shape=some)
    return found


def first_column(
    one: Attribute, axis: Axis, counts: FloatArray, stddev: float, share: float, *, first_stddev: float, total: float
) -> AttributeColumn:
    """Return the estimates of a column before any bin is split: persons by standard bin.

    Its fine bins are the standard bins, all periods together, with weights that sum to ``total`` persons.  The first
    measurement alone cost ``share`` and has noise of ``first_stddev``; with a second one the counts have ``stddev``.
    """
    together = counts.sum(axis=0)
    together = together * (total / max(float(together.sum()), 1e-9))
    known = OneWay(axis, together, axis, together, stddev)
    return AttributeColumn(one, counts, stddev, share, TREE.deep * first_stddev, known)


def split_columns(
    account: Curator, layout: Layout, columns: Sequence[AttributeColumn], budget: BudgetAllocation
) -> tuple[tuple[AttributeColumn, ...], BudgetAllocation, tuple[Measurements, ...]]:
    """Split the heavy bins of ordered columns and measure the parts, level by level, so that frequent values are found.

    A bin is heavy if it holds several times as many persons as the noise of a split.  Costs at most as
    much as the first measurement of all columns, for the curator's neighbouring relation, and nothing if no bin is heavy.

    Parameters
    ----------
    account
        The curator that answers.
    layout
        The record of a person, with standard bins.
    columns
        Noisy estimates of each attribute.
    budget
        The rest of the budget.

    Returns
    -------
    The columns with finer bins, what is left of the budget, and the noisy answers.
    """
    trees = {j: _tree(one) for j, one in enumerate(columns) if one.known.axis.grid.ordered}
    each = {j: columns[j].share * TREE.deep ** (-1 / budget.exponent) for j in trees}
    answers: list[Measurements] = []
    spent, most = 0.0, sum(one.share for one in columns)  # finer bins cost no more than the first ones
    for level in range(2, TREE.levels + 1):
        split = {
            j: heavy for j, tree in trees.items()
            if (heavy := tree.heavy(TREE.heavy * columns[j].split_stddev)).any()
        }  # fmt: skip
        cost = sum(each[j] for j in split)
        if not split or spent + cost > min(most, budget.share):
            break
        parts = {_place(layout, columns[j]): trees[j].parts(heavy, fan=TREE.fan) for j, heavy in split.items()}
        finer = layout.with_cells(parts)
        tables = [_one_way(finer, columns[j].one) for j in split]
        found, counted, budget = measure(
            account,
            finer,
            tables,
            [each[j] for j in split],
            budget,
            step=f"one-way marginals of persons, level {level}",
        )
        answers.append(found)
        spent += cost
        for (j, heavy), (noisy, stddev) in zip(split.items(), counted, strict=True):
            trees[j] = trees[j].grown(heavy, noisy[0], stddev, fan=TREE.fan)
    made = tuple(replace(one, known=trees[j].one_way()) if j in trees else one for j, one in enumerate(columns))
    return made, budget, tuple(answers)


def round_columns(
    account: Curator, layout: Layout, columns: Sequence[AttributeColumn], budget: BudgetAllocation
) -> tuple[tuple[AttributeColumn, ...], BudgetAllocation, tuple[Measurements, ...]]:
    """Measure the digit preference of columns of numbers, where it can exceed the noise.

    See `synthdp.mechanisms.column_rounding`.  Costs at most `COUNT_SHARE` of the whole budget, for the curator's
    neighbouring relation, and nothing if no column is measured.

    Parameters
    ----------
    account, layout, columns, budget
        As in `split_columns`.

    Returns
    -------
    The columns with the likelihood of each class of round numbers, what is left of the budget, and the noisy answers.
    """
    classes = {j: axis for j, one in enumerate(columns) if (axis := _classes(one))}
    share = COUNT_SHARE / max(1, len(columns))
    noise = budget.table_stddev(share)
    parts = {j: parts_in_classes(columns[j].known, axis) for j, axis in classes.items()}
    asked = [j for j, part in parts.items() if _unknown(columns[j].known, part) >= CLEAR * noise]
    if not asked or share * len(asked) >= budget.share:
        return tuple(columns), budget, ()
    finer = layout.with_cells({_place(layout, columns[j]): classes[j] for j in asked})
    tables = [_one_way(finer, columns[j].one) for j in asked]
    found, counted, budget = measure(
        account, finer, tables, [share] * len(asked), budget, step="digit preference of persons (rounding classes)"
    )
    made = list(columns)
    for j, (noisy, stddev) in zip(asked, counted, strict=True):
        known = made[j].known
        seen = rounded(known.weights, parts[j], known.first_bin, noisy[0], stddev)
        if seen is not None:
            made[j] = replace(made[j], known=replace(known, rounding=seen[0], weights=seen[1]))
    return tuple(made), budget, (found,)


def cells_and_refinements(
    layout: Layout, columns: Sequence[AttributeColumn]
) -> tuple[Layout, Mapping[Key, Refinement]]:
    """Return the layout with the model's bins, and by column the distribution of rows within them.

    Standard bins with heavy values are divided, so that the model tells these apart.  Other columns keep their standard
    bins.
    """
    refinements = {one.key: one.refined(one.split_stddev) for one in columns}
    split = {
        _place(layout, one): refinements[one.key].coarse() for one in columns
        if refinements[one.key].groups > one.counts.shape[1]
    }  # fmt: skip
    return (layout.with_cells(split) if split else layout), refinements


def _tree(column: AttributeColumn) -> ColumnTree:
    """Return a column's first histogram as a tree whose bins can be split further."""
    known = column.known
    axis, regular = known.axis, known.axis.starts < known.axis.grid.regular
    starts = axis.starts[regular]
    return ColumnTree(
        axis, known.counts, column.stddev, known.weights[len(starts) :], starts,
        np.append(starts[1:], axis.grid.regular), known.weights[: len(starts)], 0.0,
    )  # fmt: skip


def _classes(column: AttributeColumn) -> Axis | None:
    """Return the axis of a column's classes of round numbers (multiples of 10, 5 and so on); ``None`` if it has none."""
    return axis_of_roundness(column.one.name, column.known.axis.column)


def _unknown(known: OneWay, parts: FloatArray) -> float:
    """Return the weight, in persons, of the fine bins that hold several values, some of them round.

    The digit preference within such bins is unknown.  The preference is measured only if this weight is far above the
    noise.  ``parts`` are the fractions of each fine bin's values in the classes of round numbers.
    """
    return float(known.weights @ ((known.axis.width > 1) & parts.any(axis=1)))


def _place(layout: Layout, column: AttributeColumn) -> tuple[str, str]:
    """Return the name of a column's table and its own name, by which a layout takes new bins."""
    return layout.schema.names[column.one.table], column.one.name


def _one_way(layout: Layout, one: Attribute) -> PersonTable:
    """Return the query that counts persons by an attribute's bins in ``layout``, all periods together.

    The bins are parts of split bins, or classes of round numbers.
    """
    return PersonTable(Kind.ONE, one.table, one.name, cells_of(layout, one))
