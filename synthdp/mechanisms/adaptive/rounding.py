"""How round the numbers of a column are: a small histogram over public classes of roundness (`synthdp.domain.refinement`).

Bins of the first histograms say where numbers lie, and nothing of which numbers inside are written.  Many columns are
rounded: years of work to whole ones, though some have decimals, sums of money to tens or thousands.  A row lies in one
class, so that these histograms cost what one-ways do.  Each grid point of a bin is then as likely as its class says, so that
all bins together have the counts of classes.  Single values that the one-ways found count among these, and no bin gets more
or fewer rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.curator import Curator
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.domain.refinement import axis_of_roundness
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.column_tree import OneWay
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.queries.contingency import project_to_simplex
from synthdp.queries.marginals import one_ways

SHARE, MOST_SHARE, PART_OF_LEFT = 0.0025, 0.02, 0.1
"""Fractions of the whole budget for measuring how round numbers are: SHARE for each column, at most MOST_SHARE for
all, and at most PART_OF_LEFT of the remaining budget.  More show the rounding of columns with fewer rows, at the cost
of all relations.  Tuned; no sweep is on record.
"""

BEYOND = 3.0
"""A class of round numbers counts as over- or underfilled only if its count differs from an even spread by this many
standard deviations of the noise.  A convention: noise alone exceeds it in .3 % of classes.
"""

CLEAR = 2 * BEYOND
"""A column's roundness is measured only if its leaves of several values hold at least this many standard deviations of
rows.  Derived: if half of them are at rounder numbers than an even spread has, that is then seen.  With 20, a column of
6 000 rows, 2 200 of them in such leaves, lost a third of its whole numbers in one release of three.
"""

STEPS, LEAST = 60, 1e-9
"""Iterations of fitting the likelihoods of roundness classes, and the floor that keeps them above 0. Numerical
tolerances.
"""


def measure_roundness(
    account: Curator, budget: BudgetAllocation, columns: Sequence[OneWay]
) -> tuple[tuple[OneWay, ...], BudgetAllocation, tuple[Measurements, ...]]:
    """Measure how many numbers of each column are round (whole, tens, thousands), where noise would let it be seen.

    Costs at most `MOST_SHARE` of the whole budget, for the curator's neighbours, and nothing where no column is asked.

    Parameters
    ----------
    account
        The curator that answers.
    budget
        The rest of the budget.
    columns
        Noisy estimates of each column.

    Returns
    -------
    The columns with the likelihoods of their classes and new rows of leaves, what is left of the budget, and the noisy
    answers.
    """
    classes = {j: axis for j, one in enumerate(columns) if (axis := axis_of_roundness(one.axis.name, one.axis.column))}
    parts = {j: parts_in_classes(columns[j], axis) for j, axis in classes.items()}
    unknown = {
        j: float(columns[j].weights @ ((columns[j].axis.width > 1) & part.any(axis=1))) for j, part in parts.items()
    }
    each = min(SHARE, MOST_SHARE / len(columns), PART_OF_LEFT * budget.share / len(columns))
    if each <= 0:
        return tuple(columns), budget, ()
    asked = [j for j in classes if unknown[j] >= CLEAR * budget.table_stddev(each)]
    if not asked:
        return tuple(columns), budget, ()
    queries = one_ways(Domain(tuple(classes[j] for j in asked)))
    part, left = budget.take(each * len(asked))
    found = account.measure(queries, spend=part.loss, step="digit preference (rounding classes)")
    known = list(columns)
    for j, counts in zip(asked, queries.split(found.answers), strict=True):
        one = known[j]
        seen = rounded(one.weights, parts[j], one.first_bin, np.asarray(counts, np.float64), found.stddev)
        if seen is not None:
            known[j] = replace(one, rounding=seen[0], weights=seen[1])
    return tuple(known), left, (found,)


def rounded(
    rows: FloatArray, parts: FloatArray, bins: IntArray, counts: FloatArray, stddev: float
) -> tuple[FloatArray, FloatArray] | None:
    """Return how likely numbers of each roundness class are within their leaf, and the leaves' new rows.

    Likelihoods, (classes,), are relative to each other, 1 of classes that no leaf has; rows are (leaves,).  ``None`` if
    noise explains all.

    Classes whose noisy count an even spread explains share one likelihood.  A leaf with only overfilled classes, such
    as a narrow one between round values, holds noise: it loses rows to the nearest other leaves of its bin.

    Parameters
    ----------
    rows
        (leaves,) estimated rows, by position.
    parts
        (leaves, classes) part of each leaf's grid points in each class; 0 in all where a leaf has no numbers.
    bins
        (leaves,) bin of the first histogram that each leaf lies in.
    counts
        (classes,) noisy counts.
    stddev
        Standard deviation of their noise.
    """
    inside, held = parts.sum(axis=0) > 0, np.where(parts.sum(axis=1) > 0, rows, 0.0)
    apart = inside & (np.abs(counts - held @ parts) > BEYOND * stddev)
    if not apart.any():
        return None
    alike = inside & ~apart
    member = np.vstack([np.eye(len(counts), dtype=bool)[apart], *[alike] * int(alike.any())])
    rest = [max(float(held.sum() - counts[apart].sum()), 0.0)] * int(alike.any())
    wanted = project_to_simplex(np.append(counts[apart], rest), float(held.sum()))
    of_groups = parts @ member.T
    likely, shares = _raked(held, of_groups, wanted)
    held = _moved(held, of_groups > 0, bins, held @ shares - wanted)
    likely, _ = _raked(held, of_groups, wanted)
    return np.where(inside, likely @ member, 1.0), np.where(parts.sum(axis=1) > 0, held, rows)


def _raked(rows: FloatArray, parts: FloatArray, wanted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Fit a likelihood for each group of classes by iterative scaling, so that the groups get the wanted rows.

    Returns likelihoods, (groups,), the largest being 1, and each group's fraction of each leaf, (leaves, groups).

    Parameters
    ----------
    rows, parts
        (leaves,) rows, and (leaves, groups) part of their grid points in each group.
    wanted
        (groups,) rows; as near as possible where leaves do not have the groups.
    """
    likely = np.ones(len(wanted))
    for _ in range(STEPS):
        shares = parts * likely
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), LEAST**2)
        likely *= wanted / np.maximum(rows @ shares, LEAST)
        likely = np.maximum(likely / likely.max(), LEAST)
    shares = parts * likely
    return likely, shares / np.maximum(shares.sum(axis=1, keepdims=True), LEAST**2)


def _moved(rows: FloatArray, has: BoolArray, bins: IntArray, beyond: FloatArray) -> FloatArray:
    """Move rows from leaves with overfilled classes only to the nearest other leaves of their bin, (leaves,).

    Such leaves hold noise: they lose together as many rows as these classes have too many.

    Parameters
    ----------
    rows
        (leaves,) rows, by position; none where a leaf has no numbers.
    has
        (leaves, groups) which groups have grid points there.
    bins
        (leaves,) where rows stay.
    beyond
        (groups,) rows that are too many.
    """
    poor = has.any(axis=1) & ~has[:, beyond <= 0].any(axis=1)
    taking = np.flatnonzero(~poor & (rows > 0))
    if not len(taking):
        return rows
    after = np.searchsorted(taking, np.arange(len(rows)))
    beside = taking[np.clip([after - 1, after], 0, len(taking) - 1)]
    shares = np.where(bins[beside] == bins, rows[beside], 0.0)  # the larger neighbour gets more
    poor &= shares.any(axis=0)
    mass = float(rows[poor].sum())
    if mass <= 0:
        return rows
    kept = rows.copy()
    kept[poor] = project_to_simplex(rows[poor], max(mass - float(beyond[beyond > 0].sum()), 0.0))
    given = (rows - kept)[poor] * shares[:, poor] / shares[:, poor].sum(axis=0)
    np.add.at(kept, beside[:, poor], given)
    return kept


def parts_in_classes(one_way: OneWay, classes: Axis) -> FloatArray:
    """Return the fraction of each leaf's grid points in each class of roundness, (leaves, classes).

    Special and missing values are not counted: a leaf of these alone has 0 in all.  The likelihoods of classes are
    fitted to rows by it.
    """
    leaves, grid = one_way.axis, classes.grid
    starts = np.union1d(leaves.starts, classes.starts)
    starts = starts[starts < grid.regular]
    length = np.diff(starts, append=grid.regular)
    places = starts.astype(np.uint32)
    found = np.zeros((leaves.size, classes.size))
    np.add.at(found, (leaves.cells_of(places), classes.cells_of(places)), length)
    return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True), 1), np.float64)
