"""How far an answer may be off because a release measured nothing about relations between columns.

Its model then takes columns to be independent of each other, whatever they are in the data.  What single columns allow is
bounded by their strongest relations: columns that follow one hidden order, each its own (Fréchet 1951).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from synthdp.answers.grouping import QuestionBinning
from synthdp.arrays import FloatArray, IntArray

NO_RELATION = 1e-6
"""Largest probability of a cell beyond the product of its margins that counts as rounding.  A numerical tolerance."""

MOST_COUPLINGS = 8192
"""Most relations that are tried for an answer, about half a second of time.  A safety limit."""

MOST_REARRANGED = 256
"""Most rearrangements of points that are tried for an answer.  A safety limit of time."""


def is_product(law: FloatArray, margins: Sequence[FloatArray]) -> bool:
    """Return whether a model's table of some columns, (cells,), is the product of these margins.

    Then the release measured no relation of the columns, and an answer's error is bounded by `farthest`.
    """
    alone = margins[0]
    for margin in margins[1:]:
        alone = np.outer(alone, margin).ravel()
    return bool(np.abs(law - alone).max() <= NO_RELATION)


def farthest(
    groupings: Sequence[QuestionBinning],
    rows: Sequence[FloatArray],
    function: Callable[[FloatArray], FloatArray],
    estimate: FloatArray,
) -> FloatArray:
    """Return how far an answer is from ``estimate``, (answers,), under strongest relations of the columns, of those tried.

    For a share or a count of a conjunction of conditions on single columns these are Fréchet's bounds, and for two columns
    the extreme correlation and the extreme means of groups, up to what is inside of a coarse bin.

    Parameters
    ----------
    groupings
        The groups into which the question divides each column.
    rows
        For each column the rows in each coarse bin, (coarse bins, replicates): as many as noise leaves possible.
    function
        The answer, a function of a table of groups, in rows.
    estimate
        (answers,) the answer if columns are independent of each other.
    """
    found = np.zeros(len(estimate))
    every = list(itertools.islice(itertools.product(*(_orders(one) for one in groupings)), MOST_COUPLINGS))
    for r in range(min(rows[0].shape[1], MOST_COUPLINGS // len(every))):
        total = float(rows[0][:, r].sum())
        margins = [one[:, r] / max(float(one[:, r].sum()), 1e-300) for one in rows]
        for orders in every:
            found = np.fmax(found, np.abs(function(_coupled(groupings, margins, orders) * total) - estimate))
    return found


def rearranged(points: FloatArray) -> Iterator[FloatArray]:
    """Yield points, (n, d), whose columns follow one hidden number: by their values or by how far these are out.

    Means of functions of independent columns are bounded by means over such points as by `farthest`.
    """
    orders = []
    for column in points.T:
        by = [np.sort(column), column[np.argsort(np.abs(column - np.median(column)), kind="stable")]]
        orders.append([some for one in by for some in (one, one[::-1])])
    for columns in itertools.islice(itertools.product(*orders), MOST_REARRANGED):
        yield np.column_stack(columns)


def _orders(grouping: QuestionBinning) -> Iterator[IntArray]:
    """Yield orders of a column's coarse bins, (bins,), each also reversed: by the share of a bin in one group.

    If the question sums numbers, bins are ordered by their mean number, and by its distance from the middle, instead.
    Rows of two columns are paired along such orders, which gives the strongest possible relations for this question.
    """
    share, count = grouping.cell_share, len(grouping.labels)
    for group in range(count):
        scores = [share[:, group]]
        if grouping.powers > 1:
            mean = share[:, count + group] / np.maximum(share[:, group], 1e-300)
            middle = float(mean[share[:, group] > 0].mean()) if (share[:, group] > 0).any() else 0.0
            scores = [np.where(share[:, group] > 0, one, -np.inf) for one in (mean, np.abs(mean - middle))]
        for score in scores:
            order = np.argsort(score, kind="stable")
            yield order
            yield order[::-1]


def _coupled(
    groupings: Sequence[QuestionBinning], margins: Sequence[FloatArray], orders: Sequence[IntArray]
) -> FloatArray:
    """Return the table of groups, as shares of the rows, where all columns follow one hidden number by their orders.

    It has an axis for each column's groups.  Rows with equal numbers are in the bins at which each column's cumulative
    share passes that number.
    """
    ends = [np.cumsum(margin[order]) for margin, order in zip(margins, orders, strict=True)]
    cuts = np.unique(np.concatenate([np.zeros(1), *(np.minimum(one, 1.0) for one in ends)]))
    mass, middle = np.diff(cuts), (cuts[1:] + cuts[:-1]) / 2
    table = mass
    for grouping, order, end in zip(groupings, orders, ends, strict=True):
        bins = order[np.minimum(np.searchsorted(end, middle, side="right"), len(order) - 1)]
        table = table[..., None] * grouping.cell_share[bins].reshape(len(mass), *[1] * (table.ndim - 1), -1)
    return np.asarray(table.sum(axis=0))
