"""Groups of values for the tables of several columns: few, each well filled.  Post-processing of noisy one-ways."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence, Set as AbstractSet

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.domain.refinement import Refinement
from synthdp.mechanisms.adaptive.column_tree import OneWay
from synthdp.queries.contingency import NoisyTable
from synthdp.sampling.structural_zeros import pinned_leaves
from synthdp.schema.columns import DISCOVERED
from synthdp.schema.schema import Schema

KAPPA, KAPPA_OF_WIDE = 0.3, 8.0
"""A column gets about sqrt(n / (KAPPA sigma)) groups for tables, at least 4: n is the number of rows, sigma the noise
in a cell of a pair's table.  Smaller ones make more groups, with fewer rows in each against the noise.  Tuned.  Columns
of wide tables get fewer: there the noise of a whole table is about a tenth of the rows.  So the relations that stand
out when pairs are scored are worth a table.
"""

ATOM_SHARE = 0.3
"""A single value may get a group of its own if it holds this fraction of its bin in the first histogram.  So heaps of
equal values are kept.  A smaller one keeps smaller heaps, at the cost of more groups.  Tuned; no sweep is on record.
"""


def group_target(total: float, pair_stddev: float, *, wide: bool = False) -> float:
    """Return how many rows a group of values should hold, so that cells of pairs stand out of their noise.

    Parameters
    ----------
    total
        Estimated number of rows.
    pair_stddev
        Expected standard deviation of the noise in a cell of a pair's table, in rows.
    wide
        Whether the table has many columns, so that pairs are screened at few cells.
    """
    total = max(total, 1.0)
    return total / max(4.0, math.sqrt(total / ((KAPPA_OF_WIDE if wide else KAPPA) * pair_stddev)))


def coarsen(one_way: OneWay, target: float, *, pinned: AbstractSet[int] = frozenset()) -> Refinement:
    """Merge the leaves (finest bins) of a column into groups of about ``target`` rows, the axis of its larger tables.

    Cells of groups stand out of the noise, while cells of leaves would not.

    Parameters
    ----------
    one_way
        Noisy estimates of the column.
    target
        Number of rows that a coarse bin should hold.
    pinned
        Leaves that must have a group of their own, because a rule between columns names them.
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
    for leaf in range(regular, leaves):  # special values and the missing value, if they are frequent; misfits, if any
        frequent = one_way.weights[leaf] >= max(3 * one_way.stddev, target / 4)
        own = frequent if releasable[leaf] else one_way.misfits > 0
        groups[leaf] = groups[:leaf].max() + 1 if own else last
    for leaf in sorted(pinned):
        groups[leaf] = groups.max() + 1
    return Refinement(one_way.axis, np.unique(groups, return_inverse=True)[1], one_way.weights, one_way.rounding)


def coarsen_columns(
    schema: Schema, columns: Sequence[OneWay], target: float, *, pinned: Sequence[AbstractSet[int]] = ()
) -> tuple[Refinement, ...]:
    """Return the groups into which every column's finest bins are merged, the axes of its larger tables.

    Groups of about ``target`` rows stand out of the noise.  Values that a rule between columns names, and pinned ones,
    stay groups of their own.

    Parameters
    ----------
    schema
        With its rules.
    columns
        Noisy estimates of each column.
    target
        Number of rows that a coarse bin should hold.
    pinned
        For each column, more leaves that must have groups of their own.
    """
    named = pinned_leaves(schema, [column.axis for column in columns])
    both = [one | more for one, more in zip(named, pinned or [frozenset()] * len(named), strict=True)]
    return tuple(coarsen(column, target, pinned=leaves) for column, leaves in zip(columns, both, strict=True))


def coarse_table(one_way: OneWay, refinement: Refinement, column: int) -> NoisyTable:
    """Return a column's estimated rows per group, (groups,), as a table; misfits are included.

    Its one stddev, in rows, is the noise of a sum of as many first bins as a group has on average.  It is too large for
    groups of single bins, and too small for groups of far more bins than the others.

    The counts are smoothed estimates, not sums of noisy bins: where a group has many empty bins, such a sum is mostly
    noise.  A fit would take it for a relation of this column with every other.

    Parameters
    ----------
    one_way
        Noisy estimates of the column.
    refinement
        The column's coarse bins.
    column
        Position of the column among all columns.
    """
    rows = np.bincount(refinement.coarse_cell, weights=one_way.weights + _misfits_in(one_way))
    return NoisyTable(
        clique=(column,),
        counts=np.asarray(rows, np.float64),
        stddev=one_way.stddev * math.sqrt(max(1.0, one_way.first.size / len(rows))),
    )


def _misfits_in(one_way: OneWay) -> FloatArray:
    """Return the estimated rows outside the column's domain, by leaf, (leaves,).

    All are put in the first leaf that is never released, so that groups hold misfits as measured tables do.
    """
    found = np.zeros(one_way.axis.size)
    if one_way.misfits > 0:
        found[int(np.argmin(one_way.axis.releasable))] = one_way.misfits
    return found


def _nominal_groups(one_way: OneWay, target: float, regular: int) -> IntArray:
    """Group the levels of a categorical column, (regular,): each frequent level alone, all rare ones together.

    With a hierarchy the rare levels are merged within each group that is frequent itself.  Up to 3 levels, or fewer
    than 2 rare ones, are all left alone.
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
    """Return the group of each leaf (finest bin) of an ordered column, (regular,), numbered from 0.

    Bins of its first histogram are merged from left to right up to ``target`` rows.  So the cells of larger tables
    stand out of their noise.  A bin is divided only where single values hold much of it, so that heaps are kept.
    """
    cell, discovered = one_way.first_bin[:regular], one_way.axis.column.source == DISCOVERED
    weights = one_way.weights[:regular]
    groups = np.zeros(regular, np.int64)
    current, filled = -1, math.inf
    ends = np.searchsorted(cell, np.arange(int(cell[-1]) + 2))
    for begin, end in itertools.pairwise(ends.tolist()):
        at = slice(begin, end)
        mass = float(weights[at].sum())
        if end - begin > 1:  # a single leaf cannot be divided
            inner = _around_atoms(weights[at], target) if discovered else _around_atom(weights[at], mass, target)
            if inner.max() > 0:
                groups[at] = current + 1 + inner
                current, filled = current + 1 + int(inner.max()), math.inf
                continue
        if filled > 0 and filled + mass > target and (mass > 0 or current < 0):
            current, filled = current + 1, 0.0
        groups[at] = current
        filled += mass
    return groups


def _around_atom(weights: FloatArray, mass: float, target: float) -> IntArray:
    """Return the part of a bin, (leaves,), that each of its leaves is in: before, at or after the heaviest leaf.

    So heaps of equal values are kept.  A side of at most ``target`` rows joins the heaviest leaf.  All 0 if that leaf
    is not heavy enough for a group of its own.
    """
    inner = np.zeros(len(weights), np.int64)
    atom = int(np.argmax(weights))
    if len(weights) > 1 and weights[atom] > max(target, ATOM_SHARE * mass) and mass - weights[atom] > 2 * target:
        inner[atom:] += weights[:atom].sum() > target
        inner[atom + 1 :] += weights[atom + 1 :].sum() > target
    return inner


def _around_atoms(weights: FloatArray, target: float) -> IntArray:
    """Return the part of a bin of discovered bounds, (leaves,), that each of its leaves is in: around heavy leaves.

    It is divided before and after its heaviest leaf, as `_around_atom` does, and these sides again in the same way.
    Such bins do not begin and end at values of the data, so that one bin often holds several heaps.
    """
    inner = np.zeros(len(weights), np.int64)
    if len(weights) < 2:
        return inner
    atom, mass = int(np.argmax(weights)), float(weights.sum())
    before, after = weights[:atom], weights[atom + 1 :]
    if weights[atom] > max(target, ATOM_SHARE * mass) and mass - weights[atom] > target:
        if before.sum() > target:
            inner[:atom] = _around_atoms(before, target)
            inner[atom:] = inner[:atom].max() + 1
        if after.sum() > target:
            inner[atom + 1 :] = inner[atom] + 1 + _around_atoms(after, target)
    return inner
