"""How round the numbers of a column are: a small histogram over public classes of roundness (`synthdp.domain.roundness`).

Bins of the first histograms say where numbers lie, and nothing of which numbers inside are written.  Many columns are
rounded: years of work to whole ones, though some have decimals, sums of money to tens or thousands.  A row lies in one class,
so that these histograms cost what one-ways do.  Each grid point of a bin is then as likely as its class says, so that all
bins together have the counts of classes.  Single values that the one-ways found count among these, and no bin gets more or
fewer rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.curator.curator import Curator
from synthdp.distribution.contingency import project_to_simplex
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.domain.roundness import axis_of_roundness
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.column_tree import OneWay
from synthdp.mechanisms.budget import BudgetAllocation
from synthdp.queries.marginals import one_ways

SHARE, MOST_SHARE = 0.0025, 0.02
"""Share of the budget that a column's roundness costs, and those of all columns together."""

CLEAR = 20.0
"""A column is asked if the bins of it that hold several classes have so many times as many rows as the noise."""

BEYOND = 3.0
"""Counts of a class differ from those of evenly spread rows if they do by so many standard deviations of the noise: else a
few rows of noise would be a heap at the roundest numbers."""

STEPS, LEAST = 60, 1e-9
"""Steps of the fit, and the least likelihood of a class."""


def measure_roundness(
    account: Curator, budget: BudgetAllocation, columns: Sequence[OneWay]
) -> tuple[Mapping[int, FloatArray], BudgetAllocation, tuple[Measurements, ...]]:
    """Measure how round numbers are, of the columns where noise lets it be seen.

    Costs at most `MOST_SHARE` of the whole budget, for the curator's neighbours, and nothing where no column is asked.

    Parameters
    ----------
    account
        Whom to ask.
    budget
        What is left of it.
    columns
        What is known of each column.

    Returns
    -------
    The likelihood of each class where rows are not spread evenly, by the column's place; what is left of the budget; and the
    noisy answers.
    """
    classes = {j: axis for j, one in enumerate(columns) if (axis := axis_of_roundness(one.axis.name, one.axis.column))}
    parts = {j: _parts(columns[j], axis) for j, axis in classes.items()}
    several = {j: float(columns[j].weights @ ((part > 0).sum(axis=1) > 1)) for j, part in parts.items()}
    each = min(SHARE, MOST_SHARE / len(columns))
    asked = [j for j in classes if several[j] >= CLEAR * budget.table_stddev(each)]
    if not asked:
        return {}, budget, ()
    queries = one_ways(Domain(tuple(classes[j] for j in asked)))
    spent, rest = budget.take(each * len(asked))
    found = account.measure(queries, spend=spent.loss, step="how round numbers are")
    counted = zip(asked, queries.split(found.answers), strict=True)
    likely = {j: likelihoods(columns[j].weights, parts[j], counts, found.stddev) for j, counts in counted}
    return {j: one for j, one in likely.items() if one is not None}, rest, (found,)


def likelihoods(rows: FloatArray, parts: FloatArray, counts: FloatArray, stddev: float) -> FloatArray | None:
    """Return how likely grid points of each class are beside others of their leaf; ``None`` if noise explains all.

    Classes whose count is as rows that are spread evenly have it, but for noise, stay alike, and share what others leave.

    Parameters
    ----------
    rows
        (leaves,) estimated rows.
    parts
        (leaves, classes) part of each leaf's grid points in each class; 0 in all where a leaf has no numbers.
    counts
        (classes,) noisy counts.
    stddev
        Standard deviation of their noise.
    """
    valued = parts.sum(axis=1) > 0
    rows, inside = np.where(valued, rows, 0.0), parts.sum(axis=0) > 0
    even = rows @ parts
    apart = inside & (np.abs(counts - even) > BEYOND * stddev)
    if not apart.any():
        return None
    alike = inside & ~apart
    group = np.where(apart, np.cumsum(apart) - 1, int(apart.sum()))
    wanted = np.append(counts[apart], max(float(rows.sum() - counts[apart].sum()), 0.0))[
        : int(apart.sum()) + bool(alike.any())
    ]
    wanted = project_to_simplex(wanted, max(float(rows.sum()), 1e-9))
    member = np.equal.outer(np.arange(len(wanted)), group) & inside
    of_groups = parts @ member.T
    likely = np.ones(len(wanted))
    for _ in range(STEPS):
        shares = of_groups * likely
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), LEAST**2)
        likely *= wanted / np.maximum(rows @ shares, LEAST)
        likely = np.maximum(likely / likely.max(), LEAST)
    return np.where(inside, likely[np.minimum(group, len(wanted) - 1)], 1.0)


def _parts(one_way: OneWay, classes: Axis) -> FloatArray:
    """Return the part of each leaf's numbers in each class, (leaves, classes)."""
    leaves, grid = one_way.axis, classes.grid
    starts = np.union1d(leaves.starts, classes.starts)
    starts = starts[starts < grid.regular]
    length = np.diff(starts, append=grid.regular)
    places = starts.astype(np.uint32)
    found = np.zeros((leaves.size, classes.size))
    np.add.at(found, (leaves.cells_of(places), classes.cells_of(places)), length)
    return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True), 1), np.float64)
