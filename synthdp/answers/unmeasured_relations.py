"""Relations between columns that a release did not measure: random ones, and the strongest that single columns allow.

Random relations are products of random functions of columns' fine bins.  The functions of all columns are stored one
after the other, so that many columns take few steps.  Where nothing was measured about relations, the model takes columns
to be independent, whatever they are in the data.  Answers are then bounded by the strongest relations: columns that follow
one hidden order, each its own (Fréchet 1951).  Only the model is used.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from synthdp.answers.grouping import QuestionBinning
from synthdp.arrays import FloatArray, IntArray, Sparse
from synthdp.domain.axis import Axis
from synthdp.randomness import Generator, generator
from synthdp.sampling.synthetic_model import SyntheticModel

RANK = 4
"""Number of random functions per column; a random relation of two columns is a sum of this many products.  More make
it less like a real relation, which few functions describe, and take more time.  Tuned: half and twice of it change
widths of intervals by -1.9 and -2.0 % (docs/benchmarks/constants.md).
"""

WAVES = 6
"""Number of cosines in a random function of an ordered column.  A numerical tolerance: the cosine of frequency k has
variance k^(-2 DECAY), so frequencies above 6 would hold .1 % of a function's variance."""

DECAY = 2
"""Power of the frequency by which each cosine is divided, so that relations are mostly monotone.  Derived: so fall the
cosine coefficients of a continuous function with a kink.  Half and twice of it change widths of intervals by -3.1 and
+.5 % (docs/benchmarks/constants.md)."""

SAMPLE = 500
"""Number of sampled rows over which a random relation's mean absolute value is taken, to scale it to a chosen strength.
The mean is exact to about 3 %.  Derived: 1 / sqrt(2 SAMPLE)."""


@dataclass(frozen=True, slots=True, eq=False)
class RandomFunctions:
    """Holds the precomputed data from which random functions of all columns' fine bins are drawn.

    Parameters
    ----------
    starts
        (d,) position of each column's first fine bin among all fine bins.
    column
        (fine bins,) column of each fine bin.
    mass
        (fine bins,) fraction of the rows in each fine bin.
    cell
        (fine bins,) coarse bin of each fine bin, numbered over all columns.
    mean
        (coarse bins, fine bins) sparse matrix of means over each coarse bin.
    sample
        (d, SAMPLE) fine bins of sampled rows, in random order.
    ordered
        Positions of the fine bins of ordered columns.
    waves
        (ordered, WAVES) cosines over these fine bins.
    """

    starts: IntArray
    column: IntArray
    mass: FloatArray
    cell: IntArray
    mean: Sparse
    sample: IntArray
    ordered: IntArray
    waves: FloatArray

    @classmethod
    def of(cls, model: SyntheticModel) -> RandomFunctions:
        """Return what random functions of a model's fine bins are drawn from: masses, means, sampled rows and cosines.

        It is computed once, from the model alone, so that each draw takes few steps.
        """
        masses = [leaf_mass(model, j) for j in range(len(model.domain))]
        sizes = [len(mass) for mass in masses]
        starts = np.cumsum([0, *sizes])[:-1]
        mass = np.concatenate(masses)
        first_cells = np.cumsum([0, *model.domain.shape])
        cell = np.concatenate([r.coarse_cell + begin for r, begin in zip(model.refinements, first_cells, strict=False)])
        sums = np.bincount(cell, mass, int(first_cells[-1]))
        share = mass / np.maximum(sums, 1e-300)[cell]
        mean: Sparse = sparse.csr_array((share, (cell, np.arange(len(mass)))), shape=(len(sums), len(mass)))
        even = (np.arange(SAMPLE) + 0.5) / SAMPLE
        sample = []
        for j, own in enumerate(masses):
            steps = np.cumsum(own)
            found = np.searchsorted(steps, generator(j).permutation(even) * steps[-1])
            sample.append(starts[j] + np.minimum(found, len(own) - 1))
        ordered, waves = [np.zeros(0, np.int64)], [np.zeros((0, WAVES))]
        for j, own in enumerate(masses):
            regular = _in_order(model.refinements[j].fine)
            inside = own[regular]
            place = (np.cumsum(inside) - inside / 2) / max(float(inside.sum()), 1e-300)
            ordered.append(starts[j] + regular)
            waves.append(np.cos(math.pi * place[:, None] * np.arange(1, WAVES + 1)))
        column = np.repeat(np.arange(len(sizes)), sizes)
        return cls(
            starts, column, mass, cell, mean, np.stack(sample), np.concatenate(ordered), np.concatenate(waves)
        )  # fmt: skip

    def drawn(self, rng: Generator) -> FloatArray:
        """Draw random functions of all columns' fine bins with mean 0, (fine bins, RANK).

        Functions are smooth over ordered fine bins.
        """
        values = rng.standard_normal((len(self.mass), RANK))
        heights = rng.standard_normal((len(self.starts), WAVES, RANK)) / np.arange(1, WAVES + 1)[:, None] ** DECAY
        values[self.ordered] = np.einsum("iw,iwk->ik", self.waves, heights[self.column[self.ordered]])
        values -= np.add.reduceat(values * self.mass[:, None], self.starts)[self.column]
        return values

    def between(self, functions: FloatArray) -> FloatArray:
        """Return functions averaged over each coarse bin, (fine bins, RANK).

        A measured table contains only this part of a relation.
        """
        return np.asarray((self.mean @ functions)[self.cell])

    def sizes(self, functions: FloatArray, a: IntArray, b: IntArray) -> FloatArray:
        """Return the mean absolute value of the random relation of columns ``a`` and ``b``, (pairs,).

        Callers divide by it to give the relation a chosen strength.
        """
        drawn = functions.astype(np.float32)[self.sample]  # (d, SAMPLE, RANK)
        return np.asarray(np.abs(np.einsum("pik,pik->pi", drawn[a], drawn[b])).mean(axis=1, dtype=np.float64))


def leaf_mass(model: SyntheticModel, column: int) -> FloatArray:
    """Return the model's fraction of rows in each fine bin of a column, (fine bins,).

    Random functions, and bounds on correlations, weigh fine bins by it.
    """
    refinement = model.refinements[column]
    table = refinement.table()
    inside = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300)
    return np.asarray(model.distribution.marginal((column,)) @ inside)


def _in_order(axis: Axis) -> IntArray:
    """Return the fine bins of regular numbers in increasing order, along which random functions are smooth.

    There are none for categories, whose functions have independent values.
    """
    return np.zeros(0, np.int64) if axis.column.labelled else axis.regular_in_order


NO_RELATION = 1e-6
"""Largest probability of a cell beyond the product of its margins that counts as rounding.  A numerical tolerance."""

MOST_COUPLINGS = 8192
"""Most relations of the columns that are tried to find the answer farthest from independence (`farthest`), about half a
second of time.  A safety limit."""

MOST_REARRANGED = 256
"""Most rearrangements of points that are tried to bound the mean of a smooth function (`rearranged`).  A safety limit
of time."""


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
    """Return how far an answer is from ``estimate``, (answers,), under the strongest relations that are tried.

    For a share or a count of a conjunction of conditions on single columns these are Fréchet's bounds.  For two columns
    they are the extreme correlation and the extreme means of groups, up to relations inside coarse bins.

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
    """Yield points, (n, d), with each column's values reordered so that all columns are related as strongly as possible.

    A column's order is by value or by distance from its median, rising or falling.  Means of a function over such points
    bound its mean under unmeasured relations, as `farthest` does for tables.
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

    The table has an axis for each column's groups.  Rows with equal numbers are in the bins at which each column's
    cumulative share passes that number.
    """
    ends = [np.cumsum(margin[order]) for margin, order in zip(margins, orders, strict=True)]
    cuts = np.unique(np.concatenate([np.zeros(1), *(np.minimum(one, 1.0) for one in ends)]))
    mass, middle = np.diff(cuts), (cuts[1:] + cuts[:-1]) / 2
    table = mass
    for grouping, order, end in zip(groupings, orders, ends, strict=True):
        bins = order[np.minimum(np.searchsorted(end, middle, side="right"), len(order) - 1)]
        table = table[..., None] * grouping.cell_share[bins].reshape(len(mass), *[1] * (table.ndim - 1), -1)
    return np.asarray(table.sum(axis=0))
