"""Which tables to measure, and how precisely: post-processing of noisy scores.

A candidate's gain is the error that the model makes on its table now, less the error that noise would leave.  The batch
with the largest total gain is taken, as long as its junction tree stays within its limit of cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.distribution.contingency import Clique
from synthdp.distribution.junction_tree import TreePlanner
from synthdp.mechanisms.budget import Purse

MEAN_ABS = math.sqrt(2 / math.pi)
"""E|Z| of a standard normal."""

BATCHES = (1, 2, 3, 4, 6, 8, 10, 13, 16, 20, 24, 28, 32, 40, 48, 60, 80, 100)
"""Sizes that the planner tries."""

MAX_REJECTIONS = 40
"""After so many candidates that do not fit the tree, no more are tried."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A table that could be measured.

    Costs nothing: a record of a noisy score.

    Parameters
    ----------
    clique
        Its columns.
    error
        Noisy L1 distance between the data and the current model, in rows.
    expected
        (cells,) counts under the current model.
    weight
        How much this table matters.
    """

    clique: Clique
    error: float
    expected: FloatArray
    weight: float = 1.0

    def cells(self, stddev: float) -> float:
        """Return the number of cells that noise of this size can hurt.

        Noise hurts a cell by no more than the count that the model expects in it, since the fit leaves such a cell at
        the model.  Costs nothing: arithmetic.
        """
        return float(np.minimum(MEAN_ABS * stddev, self.expected).sum() / (MEAN_ABS * stddev))

    def gain(self, stddev: float) -> float:
        """Return the decrease of the L1 error, in rows, that measuring would bring.  Costs nothing: arithmetic."""
        return self.weight * (self.error - MEAN_ABS * stddev * self.cells(stddev))


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure.

    Costs nothing: a plan.

    Parameters
    ----------
    tree
        Share of the purse for each clique that joins the junction tree.
    extras
        Share for each clique beyond it.
    gain
        Expected decrease of the weighted L1 error, in rows.
    """

    tree: dict[Clique, float]
    extras: dict[Clique, float]
    gain: float

    @property
    def shares(self) -> dict[Clique, float]:
        """All shares.  Costs nothing: a plan."""
        return self.tree | self.extras


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Limits of a plan.

    Costs nothing: a plan.

    Parameters
    ----------
    tree_cells
        Most cells of the junction tree.
    max_extras
        Most tables beyond the tree.
    max_batch
        Most tables in all.
    """

    tree_cells: float = 4e5
    max_extras: int = 40
    max_batch: int = 100

    def plan(
        self,
        candidates: Sequence[Candidate],
        purse: Purse,
        *,
        share: float,
        base: Sequence[Clique],
        shape: Sequence[int],
    ) -> Plan:
        """Choose a batch of candidates and share a part of the purse among them.

        Costs nothing: post-processing.

        Parameters
        ----------
        candidates
            With their noisy scores.
        purse, share
            What may be spent.
        base
            Cliques that are in the tree already.
        shape
            Numbers of codes of all columns.
        """
        planner = TreePlanner(shape)
        best: tuple[float, list[int], list[int]] = (0.0, [], [])
        for size in (s for s in BATCHES if s <= min(self.max_batch, len(candidates))):
            stddev = purse.table_stddev(share / size)
            gains = np.array([candidate.gain(stddev) for candidate in candidates])
            tree, extras = self._choose(candidates, gains, size, base, planner)
            gain = float(gains[tree + extras].sum())
            if gain > best[0]:
                best = (gain, tree, extras)
            if len(tree) + len(extras) < size - 3:
                break  # larger batches only add noise
        gain, tree, extras = best
        if not tree + extras:
            return Plan({}, {}, 0.0)
        stddev = purse.table_stddev(share / len(tree + extras))
        wanted = {
            i: purse.share_for(candidates[i].weight * max(candidates[i].cells(stddev), 1.0)) for i in tree + extras
        }
        unit = share / sum(wanted.values())
        shares = [{candidates[i].clique: wanted[i] * unit for i in part} for part in (tree, extras)]
        return Plan(shares[0], shares[1], gain)

    def _choose(
        self,
        candidates: Sequence[Candidate],
        gains: FloatArray,
        size: int,
        base: Sequence[Clique],
        planner: TreePlanner,
    ) -> tuple[list[int], list[int]]:
        """Take up to ``size`` candidates of positive gain; no two share two columns.

        First those that join columns which nothing joins, by gain, as Chow and Liu would: a pair that is related only
        by way of others may look better than a direct relation, but little of it is left once the direct ones are known.
        """
        tree: list[int] = []
        extras: list[int] = []
        taken = list(base)
        rejections = 0
        order = [i for i in np.argsort(-gains, kind="stable").tolist() if gains[i] > 0]
        joining = _forest([candidates[i].clique for i in order], base)
        for i in sorted(order, key=lambda i: candidates[i].clique not in joining):
            clique = candidates[i].clique
            if len(tree) + len(extras) >= size:
                break
            if any(len(set(clique) & set(candidates[o].clique)) >= 2 for o in tree + extras):
                continue
            if rejections < MAX_REJECTIONS and planner.cells([*taken, clique]) <= self.tree_cells:
                tree.append(i)
                taken.append(clique)
            elif len(extras) < self.max_extras:
                extras.append(i)
            else:
                rejections += 1
        return tree, extras


def _forest(cliques: Sequence[Clique], base: Sequence[Clique]) -> set[Clique]:
    """Return the cliques that, each in its turn, join only columns which neither the base nor an earlier one joins."""
    root: dict[int, int] = {}

    def find(column: int) -> int:
        while column in root:
            column = root[column]
        return column

    def join(clique: Clique) -> None:
        first, *others = {find(column) for column in clique}
        root.update(dict.fromkeys(others, first))

    for clique in base:
        join(clique)
    joining = set()
    for clique in cliques:
        if len({find(column) for column in clique}) == len(clique):
            join(clique)
            joining.add(clique)
    return joining
