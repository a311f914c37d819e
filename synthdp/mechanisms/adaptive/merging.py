"""Few, well-filled groups of a column's groups: the coarser axes on which a weak relation is still worth its noise.

Post-processing of noisy one-ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from synthdp.arrays import Clique, FloatArray, IntArray
from synthdp.distribution.contingency import merged_cells
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.domain.refinement import Refinement
from synthdp.mechanisms.adaptive.selection import Candidate

MERGED = 6
"""Groups that a column is merged into (docs/benchmarks/planner.md)."""


MERGED_PART = 0.85
"""Part of a pair's distance from the model that merged groups show: .77 to .88 on Adult and hmeq, at three epsilons."""

FEWER = 0.75
"""Merged groups are a candidate where they have at most this part of the cells."""


def with_merged(
    candidates: Sequence[Candidate], groups: Callable[[Clique], tuple[IntArray, ...]], measured: Iterable[Clique]
) -> list[Candidate]:
    """Return candidates, and after them the same pairs over merged groups.

    Their scores are guessed, so that they cost nothing of the budget: a smooth relation is nearly all seen in few groups.

    Parameters
    ----------
    candidates
        With their noisy scores.
    groups
        Returns the coarser group of each group of some columns.
    measured
        Cliques whose tables were measured; pairs within them are left as they are.
    """
    known = [set(clique) for clique in measured]
    merged = []
    for candidate in candidates:
        if len(candidate.clique) != 2 or any(set(candidate.clique) <= columns for columns in known):
            continue
        cells = merged_cells(groups(candidate.clique))
        expected = np.bincount(cells, weights=candidate.expected).astype(np.float64)
        if len(expected) <= FEWER * len(cells):
            error = MERGED_PART * candidate.error
            merged.append(replace(candidate, error=error, expected=expected, merged=True))
    return [*candidates, *merged]


def merged_domain(refinements: Sequence[Refinement], margins: Sequence[FloatArray]) -> Domain:
    """Return the coarser axes of all columns.

    Parameters
    ----------
    refinements
        The groups of each column.
    margins
        (groups,) their estimated rows, per column.
    """
    pairs = zip(refinements, margins, strict=True)
    return Domain(tuple(_axis(refinement.coarse(), margin) for refinement, margin in pairs))


def _axis(axis: Axis, margin: FloatArray) -> Axis:
    return Axis(axis.name, axis.column, axis.starts, merged_groups(axis, margin)[axis.cells])


def merged_groups(axis: Axis, margin: FloatArray) -> IntArray:
    """Return the coarser group of each of a column's groups, (groups,).

    Neighbours are merged where groups have an order, to about equal rows; else the smallest are.  Special values and the
    missing one are merged among themselves, as misfits are, and with nothing else.

    Parameters
    ----------
    axis
        The groups.
    margin
        (groups,) their estimated rows.
    """
    weights = np.maximum(margin, 0.0) + 1e-9
    valued = np.isfinite(axis.points) if axis.grid.ordered else axis.releasable
    groups = np.zeros(axis.size, np.int64)
    groups[valued] = (_of_ordered if axis.grid.ordered else _of_nominal)(weights[valued])
    groups[~valued & axis.releasable] = axis.size
    groups[~axis.releasable] = axis.size + 1
    return np.asarray(np.unique(groups, return_inverse=True)[1], np.int64)


def _of_ordered(weights: FloatArray) -> IntArray:
    if len(weights) <= MERGED:
        return np.arange(len(weights))
    middle = np.cumsum(weights) - weights / 2
    return np.asarray(np.minimum(middle / weights.sum() * MERGED, MERGED - 1), np.int64)


def _of_nominal(weights: FloatArray) -> IntArray:
    groups = np.full(len(weights), MERGED - 1)
    largest = np.argsort(-weights, kind="stable")[: len(weights) if len(weights) <= MERGED else MERGED - 1]
    groups[largest] = np.arange(len(largest))
    return groups
