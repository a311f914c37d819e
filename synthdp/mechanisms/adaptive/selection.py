"""Which tables to measure next, and how precisely: post-processing of noisy scores.

A candidate's gain is the error that the model makes on its table now, less the error that noise would leave.  The batch
with the largest total gain is chosen, as long as its junction tree stays within its limit of cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from synthdp.arrays import Clique, FloatArray
from synthdp.checks import check_number, check_whole
from synthdp.distribution.junction_tree import TreePlanner
from synthdp.mechanisms.budget import BudgetAllocation

MEAN_ABS = math.sqrt(2 / math.pi)
"""E|Z| of a standard normal.  Derived: sqrt(2 / pi)."""

BATCHES = (1, 2, 3, 4, 6, 8, 10, 13, 16, 20, 24, 28, 32, 40, 48, 60, 80, 100)
"""Numbers of tables that are tried."""

MAX_REJECTIONS = 40
"""After so many candidates that fit neither the tree nor the list of tables beside it, no more are tried.
A safety limit of time."""


KEPT = 0.2
"""Part of a round that is kept for pairs which a workload does not contain.  Tuned: by `benchmarks/utility/places.py`."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A table that could be measured, with its noisy score.

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
    level
        0 for a table of all groups, else how often they were merged.
    noise
        Noise in a cell, in multiples of that of a table that costs as much.
    """

    clique: Clique
    error: float
    expected: FloatArray
    weight: float = 1.0
    level: int = 0
    noise: float = 1.0

    @property
    def beside(self) -> bool:
        """Whether only the interaction of several columns over merged groups would be measured, beside tables of them."""
        return len(self.clique) > 2 and self.level > 0

    def cells(self, stddev: float) -> float:
        """Return the number of cells that the noise can hurt, where that of a table has this size.

        Noise hurts a cell by no more than the count that the model expects in it, since the fit leaves such a cell at
        the model.
        """
        most = MEAN_ABS * stddev * self.noise
        return float(np.minimum(most, self.expected).sum() / most)

    def gain(self, stddev: float) -> float:
        """Return the decrease of the L1 error, in rows, that measuring would bring."""
        return self.weight * (self.error - MEAN_ABS * stddev * self.noise * self.cells(stddev))


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The tables to measure next.

    Parameters
    ----------
    tree
        Share of the whole budget for each clique that joins the junction tree.
    off_tree
        Share for each clique that does not.
    gain
        Expected decrease of the weighted L1 error, in rows.
    levels
        Of those whose table is one of merged groups.
    """

    tree: Mapping[Clique, float]
    off_tree: Mapping[Clique, float]
    gain: float
    levels: Mapping[Clique, int] = field(default_factory=dict)

    @property
    def shares(self) -> dict[Clique, float]:
        """All shares."""
        return {**self.tree, **self.off_tree}

    def __contains__(self, candidate: Candidate) -> bool:
        return candidate.clique in self.shares and self.levels.get(candidate.clique, 0) == candidate.level

    def times(self, part: float) -> Batch:
        """Return the same tables for a part of the cost."""
        tree, off_tree = ({c: part * share for c, share in some.items()} for some in (self.tree, self.off_tree))
        return replace(self, tree=tree, off_tree=off_tree)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Limits on what is measured.

    Parameters
    ----------
    tree_cells
        Most cells of the junction tree, > 0.
    max_off_tree
        Most tables of a batch beyond the tree, >= 0.
    max_batch
        Most tables of a batch, >= 0.

    Raises
    ------
    ParameterError
        If a setting is out of range.
    """

    tree_cells: float = 4e5
    max_off_tree: int = 40
    max_batch: int = 100

    def __post_init__(self) -> None:
        check_number("tree_cells", self.tree_cells, above=0, infinite=True)
        for name in ("max_off_tree", "max_batch"):
            check_whole(name, getattr(self, name), least=0)

    def choose_next_tables(
        self,
        candidates: Sequence[Candidate],
        budget: BudgetAllocation,
        *,
        share: float,
        base: Sequence[Clique],
        shape: Sequence[int],
    ) -> Batch:
        """Choose the batch of candidates with the largest expected gain, and divide a share of the budget among them.

        Parameters
        ----------
        candidates
            With their noisy scores.
        budget
            Says which share buys which noise; nothing is taken from it.
        share
            What the batch may cost.
        base
            Cliques that are in the tree already.
        shape
            Number of groups of each column.
        """
        planner = TreePlanner(shape)
        best: tuple[float, list[int], list[int]] = (0.0, [], [])
        for size in (s for s in BATCHES if s <= min(self.max_batch, len(candidates))):
            stddev = budget.table_stddev(share / size)
            gains = np.array([candidate.gain(stddev) for candidate in candidates])
            tree, off_tree = self._choose(candidates, gains, size, base, planner)
            gain = float(gains[tree + off_tree].sum())
            if gain > best[0]:
                best = (gain, tree, off_tree)
            if len(tree) + len(off_tree) < size - 3:
                break  # larger batches only add noise
        gain, tree, off_tree = best
        chosen = [candidates[i] for i in tree + off_tree]
        if not chosen:
            return Batch({}, {}, 0.0)
        stddev = budget.table_stddev(share / len(chosen))
        shares = budget.shares_of_least_noise(share, [c.weight * c.noise * max(c.cells(stddev), 1.0) for c in chosen])
        priced = [(candidate.clique, part) for candidate, part in zip(chosen, shares, strict=True)]
        levels = {candidate.clique: candidate.level for candidate in chosen if candidate.level}
        return Batch(dict(priced[: len(tree)]), dict(priced[len(tree) :]), gain, levels)

    def choose_with_rest(
        self,
        candidates: Sequence[Candidate],
        budget: BudgetAllocation,
        *,
        share: float,
        base: Sequence[Clique],
        shape: Sequence[int],
        wished: Callable[[Clique], bool] | None,
    ) -> Batch:
        """Return what `choose_next_tables` does, of a part of the share for candidates that no wished set contains.

        Parameters
        ----------
        candidates, budget, share, base, shape
            As there.
        wished
            Says which cliques a workload contains; ``None`` to choose among all alike.
        """
        rest = [] if wished is None else [one for one in candidates if not wished(one.clique)]
        if not rest or len(rest) == len(candidates):
            return self.choose_next_tables(candidates, budget, share=share, base=base, shape=shape)
        ours = [one for one in candidates if one not in rest]
        first = self.choose_next_tables(ours, budget, share=(1 - KEPT) * share, base=base, shape=shape)
        left = share - sum(first.shares.values())
        second = self.choose_next_tables(rest, budget, share=left, base=[*base, *first.tree], shape=shape)
        return Batch(
            {**first.tree, **second.tree}, {**first.off_tree, **second.off_tree}, first.gain + second.gain,
            {**first.levels, **second.levels},
        )  # fmt: skip

    def _choose(
        self,
        candidates: Sequence[Candidate],
        gains: FloatArray,
        size: int,
        base: Sequence[Clique],
        planner: TreePlanner,
    ) -> tuple[list[int], list[int]]:
        """Return up to ``size`` candidates of positive gain, inside and outside the tree; no two share two columns.

        Candidates that join columns which nothing joins yet come first, by gain, as in Chow and Liu's algorithm: a pair
        that is related only by way of others may look better than a direct relation, but little of it is left once the
        direct ones are known.
        """
        tree: list[int] = []
        off_tree: list[int] = []
        taken = list(base)
        rejections = 0
        order = [i for i in np.argsort(-gains, kind="stable").tolist() if gains[i] > 0]
        joining = _forest([candidates[i].clique for i in order if not candidates[i].level], base)
        for i in sorted(order, key=lambda i: (candidates[i].level, candidates[i].clique not in joining)):
            clique = candidates[i].clique
            if len(tree) + len(off_tree) >= size:
                break
            if candidates[i].beside:
                if len(off_tree) < self.max_off_tree:
                    off_tree.append(i)
                continue
            if any(len(set(clique) & set(candidates[o].clique)) >= 2 for o in tree + off_tree):
                continue
            if rejections < MAX_REJECTIONS and planner.cells([*taken, clique]) <= self.tree_cells:
                tree.append(i)
                taken.append(clique)
            elif len(off_tree) < self.max_off_tree:
                off_tree.append(i)
            else:
                rejections += 1
        return tree, off_tree


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
