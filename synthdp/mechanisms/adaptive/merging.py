"""Merged bins: few, well-filled unions of a column's coarse bins, for relations too weak for a table over coarse bins.

Post-processing of noisy one-ways.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from synthdp.arrays import Clique, FloatArray, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.mechanisms.adaptive.selection import Candidate
from synthdp.queries.contingency import merged_cells

MERGED, SEEN = 6, 0.85
"""For weakly related pairs, each column has at most MERGED merged bins, so that its tables have fewer cells against the
same noise.  Such a table shows about the fraction SEEN of the pair's L1 distance from the model.

SEEN is .77 to .88 on Adult and hmeq at epsilon 1 and 10.  With a second and a third level, of four and of three merged
bins, more pairs are measured, and strong relations get less (docs/benchmarks/planner.md)."""


def as_interactions(candidates: Sequence[Candidate], noise: Callable[[Clique, int], float]) -> list[Candidate]:
    """Return the candidates; each pair gets the noise of its planned measurement, an interaction or a whole table.

    ``noise`` returns this noise for a pair and a merge level, as a multiple of the noise of a whole table of equal
    cost.  It is below 1 for an interaction.  A pair with a column of one bin has no interaction and counts as a whole
    table.
    """
    return [replace(one, noise=noise(one.clique, 0) or 1.0) if len(one.clique) == 2 else one for one in candidates]


def with_merged(
    candidates: Sequence[Candidate],
    groups: Callable[[Clique, int], tuple[IntArray, ...]],
    noise: Callable[[Clique, int], float],
    measured: Iterable[Clique],
) -> list[Candidate]:
    """Return candidates, followed by the same pairs over merged bins, which are cheaper to measure.

    Pairs already measured get no merged version, nor do pairs that merging does not shrink.  The score of a merged pair
    is `SEEN` times the score of the unmerged pair, at no cost.  A smooth relation is nearly as large over few bins.

    Parameters
    ----------
    candidates
        The candidates, with their noisy scores.
    groups
        Returns the merged bin of each coarse bin, per column of a clique, at a merge level.
    noise
        Returns the noise of a pair's planned measurement at a merge level, as in `as_interactions`.
    measured
        Cliques whose tables were measured; pairs within them are left as they are.
    """
    known = {pair for clique in measured for pair in itertools.combinations(sorted(clique), 2)}
    of = cache(lambda column: groups((column,), 1))  # a column is in many pairs
    merged = []
    for candidate in candidates:
        if len(candidate.clique) != 2 or candidate.clique in known:
            continue
        cells = merged_cells([each for column in candidate.clique for each in of(column)])
        loudness = noise(candidate.clique, 1)
        if cells.max() + 1 >= len(candidate.expected) or loudness == 0:  # 0: a column has one merged bin
            continue
        expected = np.bincount(cells, weights=candidate.expected).astype(np.float64)
        relation = candidate.relation._replace(distance=SEEN * candidate.relation.distance)
        margins = np.bincount(cells, weights=np.broadcast_to(candidate.margins, cells.shape)).astype(np.float64)
        merged.append(
            replace(candidate, relation=relation, expected=expected, level=1, margins=margins, noise=loudness)
        )
    return [*candidates, *merged]


def merged_domain(domain: Domain, margins: Sequence[FloatArray]) -> Domain:
    """Return axes of merged bins of all columns, at most `MERGED` bins of values each, for weakly related pairs.

    Parameters
    ----------
    domain
        The coarse bins of each column.
    margins
        (coarse bins,) estimated rows, per column.
    """
    both = zip(domain.axes, margins, strict=True)
    return Domain(tuple(axis.merged(merged_groups(axis, margin, MERGED)) for axis, margin in both))


def merged_groups(axis: Axis, margin: FloatArray, count: int) -> IntArray:
    """Return the merged bin of each coarse bin of a column, (coarse bins,), for tables with fewer and fuller cells.

    In an ordered column neighbouring bins are merged; its special values and missing values are merged only with one
    another.  In any other column the smallest bins are merged, and missing values count as a level.  Out-of-domain
    values are merged only with one another.

    Parameters
    ----------
    axis
        The column's coarse bins.
    margin
        (coarse bins,) estimated rows.
    count
        Most merged bins, special and out-of-domain values not counted, >= 2.
    """
    weights = np.maximum(margin, 0.0) + 1e-9
    valued = np.isfinite(axis.points) if axis.grid.ordered else axis.releasable
    groups = np.zeros(axis.size, np.int64)
    some = weights[valued]
    groups[valued] = _of_ordered(some, count) if axis.grid.ordered else _of_nominal(some, count)
    groups[~valued & axis.releasable] = axis.size
    groups[~axis.releasable] = axis.size + 1
    return np.asarray(np.unique(groups, return_inverse=True)[1], np.int64)


def _of_ordered(weights: FloatArray, count: int) -> IntArray:
    """Return the merged bin of each ordered bin, (bins,): up to ``count`` runs of neighbours of about equal weight.

    With about equal weight each merged bin stands out from the noise about as well.
    """
    if len(weights) <= count:
        return np.arange(len(weights))
    middle = np.cumsum(weights) - weights / 2
    return np.asarray(np.minimum(middle / weights.sum() * count, count - 1), np.int64)


def _of_nominal(weights: FloatArray, count: int) -> IntArray:
    """Return the merged bin of each unordered bin, (bins,): the largest stay alone, all others share one merged bin.

    At most ``count`` merged bins remain.  Small bins would be hidden by noise on their own.
    """
    groups = np.full(len(weights), count - 1)
    largest = np.argsort(-weights, kind="stable")[: len(weights) if len(weights) <= count else count - 1]
    groups[largest] = np.arange(len(largest))
    return groups
