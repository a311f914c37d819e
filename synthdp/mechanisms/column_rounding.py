"""The roundness of a column's numbers: a small histogram over public classes of round numbers.

First histograms show in which bins numbers lie, but not which numbers inside a bin occur.  Many columns are rounded:
years of work to whole years, and sums of money to tens or thousands.  A row lies in one class (see
`synthdp.domain.refinement`), so this histogram costs what one-ways cost.  Each grid point of a fine bin then gets the
likelihood of its class, so that all bins together have the measured counts of classes.  Single values that the one-ways
found count among the classes.  Rows move only between fine bins of the same bin of the first histogram.
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
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.column_tree import OneWay
from synthdp.privacy.budget import COUNT_SHARE
from synthdp.queries.contingency import project_to_simplex
from synthdp.queries.marginals import one_ways

BEYOND = 3.0
"""A class of round numbers counts as over- or underfilled if its count is far from an even spread: by more than this
many standard deviations of the noise.  A convention: noise alone exceeds it in .3 % of classes."""

CLEAR = 2 * BEYOND
"""A column's roundness is measured only if its fine bins of several values hold enough rows.  This constant is their
least number of rows, in stddevs of the noise.  Derived: if half of these rows are at rounder numbers than in an even
spread, the difference then exceeds `BEYOND`.  A column had 2 200 of its 6 000 rows in such bins: with 20 instead of 6, one
release of three lost a third of the whole numbers."""

STEPS, LEAST = 60, 1e-9
"""STEPS is the number of iterations in which the likelihoods of roundness classes are fitted.  LEAST is the floor that
keeps them above 0.  Numerical tolerances."""


def measure_roundness(
    account: Curator, budget: BudgetAllocation, columns: Sequence[OneWay]
) -> tuple[tuple[OneWay, ...], BudgetAllocation, tuple[Measurements, ...]]:
    """Measure how many numbers of each column are round (whole, tens, thousands), if noise is small enough to show it.

    Costs at most `COUNT_SHARE` of the remaining budget, in equal parts for all columns, for the curator's neighbours.
    If noise hides the roundness of every column, it costs nothing.

    Parameters
    ----------
    account
        The curator that answers.
    budget
        The remaining budget.
    columns
        Noisy estimates of each column.

    Returns
    -------
    The columns, with the likelihoods of their rounding classes and rows of their fine bins that agree with the answers;
    the remaining budget; and the noisy answers.
    """
    classes = {j: axis for j, one in enumerate(columns) if (axis := axis_of_roundness(one.axis.name, one.axis.column))}
    parts = {j: parts_in_classes(columns[j], axis) for j, axis in classes.items()}
    unknown = {
        j: float(columns[j].weights @ ((columns[j].axis.width > 1) & part.any(axis=1))) for j, part in parts.items()
    }
    each = COUNT_SHARE * budget.share / len(columns)
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
    """Return the likelihood of a grid point in each roundness class within its fine bin, and new rows of fine bins.

    Likelihoods, (classes,), are relative to each other, and 1 for classes in which no fine bin has grid points.  Rows
    are (fine bins,).  ``None`` if noise explains all counts.

    Classes whose counts agree with an even spread, up to noise, share one likelihood.  A fine bin may have grid points
    in overfilled classes only, such as a narrow bin between round values.  This fine bin holds noise, and loses rows to
    the nearest other fine bins within the same bin of the first histogram.

    Parameters
    ----------
    rows
        (fine bins,) estimated rows, in the order of the values.
    parts
        (fine bins, classes) fraction of each fine bin's grid points in each class; 0 in all classes if a fine bin has
        no numbers.
    bins
        (fine bins,) bin of the first histogram that each fine bin lies in.
    counts
        (classes,) noisy counts, in rows.
    stddev
        Standard deviation of the noise of ``counts``, in rows.
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
    likely, shares = _class_likelihoods(held, of_groups, wanted)
    held = _noise_moved(held, of_groups > 0, bins, held @ shares - wanted)
    likely, _ = _class_likelihoods(held, of_groups, wanted)
    return np.where(inside, likely @ member, 1.0), np.where(parts.sum(axis=1) > 0, held, rows)


def _class_likelihoods(rows: FloatArray, parts: FloatArray, wanted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Fit a likelihood for each group of classes by iterative scaling, so that the groups get the wanted rows.

    In a fine bin, a group's rows are proportional to its grid points times its likelihood.  Returns the likelihoods,
    (groups,), the largest being 1.  Also returns the fraction of each fine bin's rows in each group, (fine bins,
    groups).

    Parameters
    ----------
    rows, parts
        (fine bins,) estimated rows, and (fine bins, groups) fraction of their grid points in each group.
    wanted
        (groups,) rows that each group should get; the fit comes as near as possible if fine bins have no grid points in
        a group.
    """
    likely = np.ones(len(wanted))
    for _ in range(STEPS):
        shares = parts * likely
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), LEAST**2)
        likely *= wanted / np.maximum(rows @ shares, LEAST)
        likely = np.maximum(likely / likely.max(), LEAST)
    shares = parts * likely
    return likely, shares / np.maximum(shares.sum(axis=1, keepdims=True), LEAST**2)


def _noise_moved(rows: FloatArray, has: BoolArray, bins: IntArray, beyond: FloatArray) -> FloatArray:
    """Return the rows of fine bins, (fine bins,), after rows of noise are moved to neighbouring fine bins.

    A fine bin with grid points in overfilled groups only holds noise.  All these fine bins together lose as many rows
    as the groups are overfilled by.  The rows go to the nearest other fine bins in the same bin of the first histogram.

    Parameters
    ----------
    rows
        (fine bins,) estimated rows, in the order of the values; 0 where a fine bin has no numbers.
    has
        (fine bins, groups) whether the fine bin has grid points in the group.
    bins
        (fine bins,) bin of the first histogram, which rows never leave.
    beyond
        (groups,) excess of a group's fitted rows over its wanted rows, in rows.
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
    """Return the fraction of each fine bin's grid points in each class of roundness, (fine bins, classes).

    Special and missing values are not counted: a fine bin of these alone has 0 in all classes.  The likelihoods of
    classes are fitted with these fractions.
    """
    leaves, grid = one_way.axis, classes.grid
    starts = np.union1d(leaves.starts, classes.starts)
    starts = starts[starts < grid.regular]
    length = np.diff(starts, append=grid.regular)
    places = starts.astype(np.uint32)
    found = np.zeros((leaves.size, classes.size))
    np.add.at(found, (leaves.cells_of(places), classes.cells_of(places)), length)
    return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True), 1), np.float64)
