"""Few, well-filled groups of a column's groups: the coarser axes on which a weak relation is still worth its noise.

Post-processing of noisy one-ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from synthdp.arrays import Clique, FloatArray, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.domain.refinement import Refinement
from synthdp.mechanisms.adaptive.selection import Candidate
from synthdp.queries.contingency import merged_cells

MERGED, SEEN = 6, 0.85
"""Groups that a column is merged into, and the part of a pair's distance from the model that they show.

That part is .77 to .88 on Adult and hmeq at epsilon 1 and 10.  With a second and a third level, of four and of three
groups, more pairs are measured, and strong relations get less (docs/benchmarks/planner.md).
"""

ENDS = 0.5
"""Rows of the first and the last merged group of an ordered column of a pair, in parts of the others'.

Relations are strongest there.
"""


def as_interactions(candidates: Sequence[Candidate], noise: Callable[[Clique, int], float]) -> list[Candidate]:
    """Return candidates, pairs with the noise of their interaction alone; parameters as in `with_merged`.

    A pair of which a column has one group has none, and is left as it is.
    """
    return [replace(one, noise=noise(one.clique, 0) or 1.0) if len(one.clique) == 2 else one for one in candidates]


def with_merged(
    candidates: Sequence[Candidate],
    groups: Callable[[Clique, int], tuple[IntArray, ...]],
    noise: Callable[[Clique, int], float],
    measured: Iterable[Clique],
) -> list[Candidate]:
    """Return candidates, and after them the same pairs over merged groups.

    Their scores are guessed, so that they cost nothing of the budget: a smooth relation is nearly all seen in few groups.

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
    known = [set(clique) for clique in measured]
    merged = []
    for candidate in candidates:
        if len(candidate.clique) != 2 or any(set(candidate.clique) <= columns for columns in known):
            continue
        cells, loudness = merged_cells(groups(candidate.clique, 1)), noise(candidate.clique, 1)
        if cells.max() + 1 >= len(candidate.expected) or loudness == 0:  # none where a column has one group left
            continue
        expected = np.bincount(cells, weights=candidate.expected).astype(np.float64)
        relation = candidate.relation._replace(distance=SEEN * candidate.relation.distance)
        margins = np.bincount(cells, weights=np.broadcast_to(candidate.margins, cells.shape)).astype(np.float64)
        merged.append(
            replace(candidate, relation=relation, expected=expected, level=1, margins=margins, noise=loudness)
        )
    return [*candidates, *merged]


def merged_domain(refinements: Sequence[Refinement], margins: Sequence[FloatArray], *, count: int = MERGED) -> Domain:
    """Return coarser axes of all columns.

    Parameters
    ----------
    refinements
        The groups of each column.
    margins
        (groups,) their estimated rows, per column.
    count
        Most coarser groups of values, >= 2.
    """
    fine = [refinement.coarse() for refinement in refinements]
    return Domain(
        tuple(
            Axis(axis.name, axis.column, axis.starts, merged_groups(axis, margin, count)[axis.cells])
            for axis, margin in zip(fine, margins, strict=True)
        )
    )


def merged_groups(axis: Axis, margin: FloatArray, count: int, *, ends: float = ENDS) -> IntArray:
    """Return the coarser group of each of a column's groups, (groups,).

    Neighbours are merged where groups have an order, else the smallest are.  Special values and the missing one are merged
    among themselves, as misfits are, and with nothing else.

    Parameters
    ----------
    axis
        The groups.
    margin
        (groups,) their estimated rows.
    count
        Most coarser groups, beside those of special values and of misfits, >= 2.
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
    if len(weights) <= count:
        return np.arange(len(weights))
    middle = np.cumsum(weights) - weights / 2
    places = middle / weights.sum() * (count - 2 + 2 * ends) + 1 - ends
    return np.asarray(np.minimum(places, count - 1), np.int64)


def _of_nominal(weights: FloatArray, count: int) -> IntArray:
    groups = np.full(len(weights), count - 1)
    largest = np.argsort(-weights, kind="stable")[: len(weights) if len(weights) <= count else count - 1]
    groups[largest] = np.arange(len(largest))
    return groups
