"""Coarse bins of a column for tables of several columns: few, each well filled.  Post-processing of noisy one-ways."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence, Set as AbstractSet

import numpy as np

from synthdp.arrays import MEAN_ABS, FloatArray, IntArray
from synthdp.domain.refinement import Refinement
from synthdp.mechanisms.adaptive.energies import TYPICAL
from synthdp.mechanisms.column_tree import OneWay
from synthdp.queries.contingency import NoisyTable
from synthdp.sampling.structural_zeros import pinned_leaves
from synthdp.schema.columns import DISCOVERED
from synthdp.schema.schema import Schema

KAPPA = 0.3
"""A column gets about sqrt(n / (KAPPA sigma)) coarse bins, at least 4.  Here n is the number of rows, and sigma the noise
in a cell of a pair's table, in rows.  Smaller values make more bins, with fewer rows in each against the noise.  Tuned:
half and twice of it change the three-way error of five tables by +1.1 and +.6 % (docs/benchmarks/constants.md)."""

KAPPA_OF_WIDE = MEAN_ABS / TYPICAL[2]
"""The constant in place of `KAPPA` for wide tables, which makes fewer bins.  Derived: the mean absolute noise, summed over a
whole table of n / (KAPPA_OF_WIDE sigma) cells, is a typical relation.  So tables of the pairs whose scores are significant
gain more than their noise.
"""


def group_target(total: float, pair_stddev: float, *, wide: bool = False) -> float:
    """Return how many rows a coarse bin should hold, so that cells of pairs have significant counts.

    Parameters
    ----------
    total
        Estimated number of rows.
    pair_stddev
        Expected standard deviation of the noise in a cell of a pair's table, in rows.
    wide
        Whether the table has many columns, so that pairs are screened over few bins.
    """
    total = max(total, 1.0)
    return total / max(4.0, math.sqrt(total / ((KAPPA_OF_WIDE if wide else KAPPA) * pair_stddev)))


def coarsen(one_way: OneWay, target: float, *, pinned: AbstractSet[int] = frozenset()) -> Refinement:
    """Merge the fine bins of a column into coarse bins of about ``target`` rows, the axis of its larger tables.

    Counts of coarse bins are significant, while counts of fine bins would be mostly noise.

    Parameters
    ----------
    one_way
        Noisy estimates of the column.
    target
        Number of rows that a coarse bin should hold.
    pinned
        Fine bins that must be coarse bins of their own, because a rule between columns names them.
    """
    grid = one_way.axis.grid
    leaves = one_way.axis.size
    regular = int((one_way.axis.starts < grid.regular).sum())
    groups = np.zeros(leaves, np.int64)
    if grid.ordered:
        groups[:regular] = _ordered_groups(one_way, target, regular)
    else:
        groups[:regular] = _nominal_groups(one_way, target, regular)
    last = int(groups[:regular].max())
    releasable = one_way.axis.releasable
    for leaf in range(regular, leaves):  # own bins: frequent special or missing values; out-of-domain rows
        frequent = one_way.weights[leaf] >= max(3 * one_way.stddev, target / 4)
        own = frequent if releasable[leaf] else one_way.misfits > 0
        groups[leaf] = groups[:leaf].max() + 1 if own else last
    for leaf in sorted(pinned):
        groups[leaf] = groups.max() + 1
    return Refinement(one_way.axis, np.unique(groups, return_inverse=True)[1], one_way.weights, one_way.rounding)


def coarsen_columns(
    schema: Schema, columns: Sequence[OneWay], target: float, *, pinned: Sequence[AbstractSet[int]] = ()
) -> tuple[Refinement, ...]:
    """Return the coarse bins of every column, the axes of its larger tables, with the fine bins in each.

    Coarse bins of about ``target`` rows have significant counts.  Values that a rule between columns names, and pinned
    values, stay coarse bins of their own.

    Parameters
    ----------
    schema
        The schema, with its rules.
    columns
        Noisy estimates of each column.
    target
        Number of rows that a coarse bin should hold.
    pinned
        For each column, more fine bins that must be coarse bins of their own.
    """
    named = pinned_leaves(schema, [column.axis for column in columns])
    both = [one | more for one, more in zip(named, pinned or [frozenset()] * len(named), strict=True)]
    return tuple(coarsen(column, target, pinned=leaves) for column, leaves in zip(columns, both, strict=True))


def coarse_table(one_way: OneWay, refinement: Refinement, column: int) -> NoisyTable:
    """Return a column's estimated rows per coarse bin, (coarse bins,), as a table; out-of-domain rows are included.

    Its one stddev, in rows, is the noise of a sum of m bins of the first histogram.  Here m is their mean number per
    coarse bin.  The stddev is too large for coarse bins of a single first bin.  It is too small for coarse bins of far
    more first bins than average.

    The counts are smoothed estimates, not sums of noisy bins.  If a coarse bin has many empty bins, their noisy sum is
    mostly noise.  A fit would take this noise for a relation of the column with every other column.

    Parameters
    ----------
    one_way
        Noisy estimates of the column.
    refinement
        The column's coarse bins.
    column
        Position of the column among all columns.
    """
    rows = np.bincount(refinement.coarse_cell, weights=one_way.weights + _out_of_domain_rows(one_way))
    return NoisyTable(
        clique=(column,),
        counts=np.asarray(rows, np.float64),
        stddev=one_way.stddev * math.sqrt(max(1.0, one_way.first.size / len(rows))),
    )


def _out_of_domain_rows(one_way: OneWay) -> FloatArray:
    """Return the estimated out-of-domain rows of a column by fine bin, (fine bins,).

    All are put in the first fine bin that is never released.  So coarse bins contain out-of-domain rows, as in measured
    tables.
    """
    found = np.zeros(one_way.axis.size)
    if one_way.misfits > 0:
        found[int(np.argmin(one_way.axis.releasable))] = one_way.misfits
    return found


def _nominal_groups(one_way: OneWay, target: float, regular: int) -> IntArray:
    """Return the coarse bin of each level, (regular,): each frequent level alone, all rare levels together.

    A level is rare below a fourth of ``target`` rows, or below 3 stddevs of its noise.

    With a hierarchy, rare levels are merged within each of its groups that is frequent as a whole.  If there are up to
    3 levels, or fewer than 2 rare levels, every level stays alone.
    """
    weights, starts = one_way.weights[:regular], one_way.axis.starts[:regular]
    enough = max(3 * one_way.stddev, target / 4)
    rare = weights < enough
    if regular <= 3 or rare.sum() < 2:
        return np.arange(regular)
    groups = np.zeros(regular, np.int64)
    groups[~rare] = np.arange(1, regular - int(rare.sum()) + 1)
    for step in reversed(one_way.axis.column.starts_of_groups()):
        parent = np.searchsorted(step, starts, side="right") - 1
        together = np.bincount(parent, weights=weights * (groups == 0)) >= enough
        groups = np.where((groups == 0) & together[parent], regular + parent + groups.max(), groups)
    return np.asarray(np.unique(np.where(groups == 0, groups.max() + 1, groups), return_inverse=True)[1], np.int64)


def _ordered_groups(one_way: OneWay, target: float, regular: int) -> IntArray:
    """Return the coarse bin of each fine bin of an ordered column, (regular,), numbered from 0.

    Bins of the first histogram are merged from left to right up to ``target`` rows, so that cells of larger tables have
    significant counts.  A bin is divided only around single values of more than ``target`` rows, so that point masses are
    kept.
    """
    cell, discovered = one_way.first_bin[:regular], one_way.axis.column.source == DISCOVERED
    weights = one_way.weights[:regular]
    groups = np.zeros(regular, np.int64)
    current, filled = -1, math.inf
    ends = np.searchsorted(cell, np.arange(int(cell[-1]) + 2))
    for begin, end in itertools.pairwise(ends.tolist()):
        at = slice(begin, end)
        mass = float(weights[at].sum())
        if end - begin > 1:  # a single fine bin cannot be divided
            inner = (
                _around_point_masses(weights[at], target)
                if discovered
                else _around_point_mass(weights[at], mass, target)
            )
            if inner.max() > 0:
                groups[at] = current + 1 + inner
                current, filled = current + 1 + int(inner.max()), math.inf
                continue
        if filled > 0 and filled + mass > target and (mass > 0 or current < 0):
            current, filled = current + 1, 0.0
        groups[at] = current
        filled += mass
    return groups


def _around_point_mass(weights: FloatArray, mass: float, target: float) -> IntArray:
    """Return the part of a bin that each of its fine bins is in, (fine bins,): before, at or after the heaviest one.

    So point masses are kept.  A side of at most ``target`` rows joins the heaviest fine bin.  All parts are 0 if the
    heaviest fine bin holds too few rows for a coarse bin of its own.
    """
    inner = np.zeros(len(weights), np.int64)
    heaviest = int(np.argmax(weights))
    if len(weights) > 1 and weights[heaviest] > target and mass - weights[heaviest] > 2 * target:
        inner[heaviest:] += weights[:heaviest].sum() > target
        inner[heaviest + 1 :] += weights[heaviest + 1 :].sum() > target
    return inner


def _around_point_masses(weights: FloatArray, target: float) -> IntArray:
    """Return the part of a bin of discovered bounds that each of its fine bins is in, (fine bins,).

    The bin is divided before and after its heaviest fine bin, as `_around_point_mass` does, and each side again in the same
    way.  Bins of discovered bounds do not begin and end at values of the data.  So one bin often holds several point
    masses.
    """
    inner = np.zeros(len(weights), np.int64)
    if len(weights) < 2:
        return inner
    heaviest, mass = int(np.argmax(weights)), float(weights.sum())
    before, after = weights[:heaviest], weights[heaviest + 1 :]
    if weights[heaviest] > target and mass - weights[heaviest] > target:
        if before.sum() > target:
            inner[:heaviest] = _around_point_masses(before, target)
            inner[heaviest:] = inner[:heaviest].max() + 1
        if after.sum() > target:
            inner[heaviest + 1 :] = inner[heaviest] + 1 + _around_point_masses(after, target)
    return inner
