"""Few, well-filled groups of a column's groups: the coarser axes on which a weak relation is still worth its noise.

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
"""For weakly related pairs, each column is merged into MERGED groups, fewer cells against the same noise; these show
about the fraction SEEN of the pair's L1 distance from the model.

SEEN is .77 to .88 on Adult and hmeq at epsilon 1 and 10. With a second and a third level, of four and of three groups,
more pairs are measured, and strong relations get less (docs/benchmarks/planner.md).
"""

ENDS = 0.5
"""Rows in the first and the last merged group of an ordered column, relative to the other groups: smaller, since
relations are strongest at the ends.  Smaller ends show relations at extreme values better, with fewer rows against
the noise.  Tuned; no sweep is on record.
"""


def as_interactions(candidates: Sequence[Candidate], noise: Callable[[Clique, int], float]) -> list[Candidate]:
    """Return the candidates, pairs with the noise of what is measured of them: their interaction, or the whole table.

    ``noise`` says it of a pair at a level of merging, in multiples of a whole table's of equal cost.  It is below 1 if
    the interaction is measured alone.  A pair with a column of one group has none and counts as a whole table.
    """
    return [replace(one, noise=noise(one.clique, 0) or 1.0) if len(one.clique) == 2 else one for one in candidates]


def with_merged(
    candidates: Sequence[Candidate],
    groups: Callable[[Clique, int], tuple[IntArray, ...]],
    noise: Callable[[Clique, int], float],
    measured: Iterable[Clique],
) -> list[Candidate]:
    """Return candidates, followed by the same pairs over merged groups, which are cheaper to measure.

    Pairs already measured get no merged version, nor do pairs that merging does not shrink.  Scores of merged pairs are
    guessed from the unmerged ones, at no cost: a smooth relation shows nearly whole in few groups.

    Parameters
    ----------
    candidates
        With their noisy scores.
    groups
        Returns the coarser group of each group of some columns at a level of merging.
    noise
        Returns the noise of what is measured of a pair then, see `Candidate`.
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
        if cells.max() + 1 >= len(candidate.expected) or loudness == 0:  # none where a column has one group left
            continue
        expected = np.bincount(cells, weights=candidate.expected).astype(np.float64)
        relation = candidate.relation._replace(distance=SEEN * candidate.relation.distance)
        margins = np.bincount(cells, weights=np.broadcast_to(candidate.margins, cells.shape)).astype(np.float64)
        merged.append(
            replace(candidate, relation=relation, expected=expected, level=1, margins=margins, noise=loudness)
        )
    return [*candidates, *merged]


def merged_domain(domain: Domain, margins: Sequence[FloatArray]) -> Domain:
    """Return coarser axes of all columns, at most `MERGED` groups of values each, for weakly related pairs.

    Parameters
    ----------
    domain
        The groups of each column.
    margins
        (groups,) their estimated rows, per column.
    """
    both = zip(domain.axes, margins, strict=True)
    return Domain(tuple(axis.merged(merged_groups(axis, margin, MERGED)) for axis, margin in both))


def merged_groups(axis: Axis, margin: FloatArray, count: int, *, ends: float = ENDS) -> IntArray:
    """Return the coarser group of each of a column's groups, (groups,), for tables with fewer and fuller cells.

    Neighbours are merged in ordered columns, else the smallest groups are.  Special values and the missing value are
    merged only with one another, and so are misfits.

    Parameters
    ----------
    axis
        The groups.
    margin
        (groups,) their estimated rows.
    count
        Most coarser groups, besides special values and misfits, >= 2.
    ends
        Rows of the first and of the last of groups with an order, in parts of the others', which are about alike.
    """
    weights = np.maximum(margin, 0.0) + 1e-9
    valued = np.isfinite(axis.points) if axis.grid.ordered else axis.releasable
    groups = np.zeros(axis.size, np.int64)
    some = weights[valued]
    groups[valued] = _of_ordered(some, count, ends) if axis.grid.ordered else _of_nominal(some, count)
    groups[~valued & axis.releasable] = axis.size
    groups[~axis.releasable] = axis.size + 1
    return np.asarray(np.unique(groups, return_inverse=True)[1], np.int64)


def _of_ordered(weights: FloatArray, count: int, ends: float) -> IntArray:
    """Return the coarser group of each ordered group, (groups,): up to ``count`` runs of neighbours of equal weight.

    The first and the last run have ``ends`` times that weight.
    """
    if len(weights) <= count:
        return np.arange(len(weights))
    middle = np.cumsum(weights) - weights / 2
    places = middle / weights.sum() * (count - 2 + 2 * ends) + 1 - ends
    return np.asarray(np.minimum(places, count - 1), np.int64)


def _of_nominal(weights: FloatArray, count: int) -> IntArray:
    """Return the coarser group of each unordered group, (groups,): the largest stay alone, the others share one.

    At most ``count`` remain.
    """
    groups = np.full(len(weights), count - 1)
    largest = np.argsort(-weights, kind="stable")[: len(weights) if len(weights) <= count else count - 1]
    groups[largest] = np.arange(len(largest))
    return groups
