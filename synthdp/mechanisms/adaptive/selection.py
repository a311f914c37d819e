"""Which tables, such as pairs of columns, to measure next, and how precisely: post-processing of noisy scores.

`AdaptiveMarginals._learn` asks here unless `Optimum.pays`, or the table is wide or has places.

A candidate's gain is the error that the model makes on its table now, less the error that noise would leave.  The batch
with the largest total gain is chosen, as long as its junction tree stays within its limit of cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from synthdp.arrays import Clique, FloatArray
from synthdp.checks import check_number, check_whole
from synthdp.distribution.junction_tree import TreePlanner
from synthdp.mechanisms.adaptive.energies import MEAN_ABS, Relation
from synthdp.mechanisms.allocation import BudgetAllocation

BATCHES = (1, 2, 3, 4, 6, 8, 11, 16, 22, 32, 45, 64, 100)
"""Numbers of tables that are tried: steps of √2, a tolerance, as shares follow the slopes of gains."""

PARTS = (1.0, 0.85, 0.7, 0.5, 0.35, 0.2, 0.1, 0.05)
"""Parts of what a batch may cost that are tried, where the rest is worth something elsewhere.  A tolerance."""

SHOWN = 0.7
"""Tuned: by how much a pair comes nearer per distance that its merged groups show, as nothing changes inside them:
exact tables of merged groups leave .3 to .5 of a pair's distance, in the median, on Adult and hmeq at epsilon .1 to 10."""

PAST = 0.97
"""Larger batches are not tried once one gains less than this part of the best.  A tolerance."""

DIVISIONS = 2
"""Times that shares are divided anew by the slopes of the gains.  A tolerance: no other division gains 1 % more."""

MAX_TRIPLES = 3000
"""Tables of three columns are candidates when there are at most so many.  A safety limit."""

MAX_REJECTIONS = 40
"""After so many candidates that fit neither the tree nor the list of tables beside it, no more are tried.
A safety limit of time."""


KEPT = 0.2
"""Part of a round that is kept for pairs which a workload does not contain.  Tuned: by `benchmarks/utility/places.py`; a
second table agrees, six triples of Adult at epsilon 1: .1, .2 and .4 have .0324, .0308, .0313 (other pairs .0272, .0240,
.0222)."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A table that could be measured, and what is thought of it.

    Parameters
    ----------
    clique
        Its columns.
    relation
        What is known of the relation that it would show, which the model does not have.
    expected
        (cells,) counts under the current model.
    weight
        How much this table matters.
    level
        0 for a table of all groups, else how often they were merged.
    noise
        Noise in a cell, in multiples of that of a table that costs as much.
    margins
        Variance of the expected counts, (cells,) or one number, by errors of the model's margins; a table corrects them, an
        interaction does not.
    fresh
        Whether the model knows nothing of the table, so that what chance moves is not in it.
    """

    clique: Clique
    relation: Relation
    expected: FloatArray
    weight: float = 1.0
    level: int = 0
    noise: float = 1.0
    margins: FloatArray | float = 0.0
    fresh: bool = True

    @property
    def beside(self) -> bool:
        """Whether only the interaction of several columns over merged groups would be measured, beside tables of them."""
        return len(self.clique) > 2 and self.level > 0

    @property
    def counts(self) -> float:
        """How much a row that comes nearer counts."""
        shown = SHOWN if self.level and len(self.clique) == 2 else 1.0
        return self.weight * (1 - self.relation.none) * shown

    @cached_property
    def variances(self) -> FloatArray:
        """(cells,) by how much the data's table differs from the expected one, as mean squares, if there is a relation.

        The relation moves each cell in proportion to its count; beside it there are chance, which is the data's, too, and,
        where the whole table is measured, the errors of margins.
        """
        related = self.relation.distance / (MEAN_ABS * max(float(self.expected.sum()), 1e-300)) * self.expected
        more = (self.expected if self.fresh else 0.0) + (self.margins if self.noise >= 1 else 0.0)
        return np.asarray(related**2 + more, np.float64)

    def kept(self, stddev: float) -> FloatArray:
        """(cells,) root of the part of each variance that is left where the noise of a table has this size.

        The best linear estimate of a deviation of variance v by an answer with noise q leaves v q^2 / (v + q^2) of it.
        """
        return np.sqrt(self.variances / (self.variances + (stddev * self.noise) ** 2))

    def pays(self, stddev: float) -> bool:
        """Return whether noise would hide less than what is wrong in the table now, however it is spread over its cells.

        Noise hurts a cell by no more than the count that the model expects in it, since the fit leaves such a cell there.
        """
        hidden = np.minimum(MEAN_ABS * stddev * self.noise, self.expected).sum()
        return bool(MEAN_ABS * np.sqrt(self.variances).sum() > hidden)

    def cells(self, stddev: float) -> float:
        """Return the number of cells that the noise hurts: the slope of what it leaves, in parts of its mean size."""
        return float((self.kept(stddev) ** 3).sum())

    def gain(self, stddev: float) -> float:
        """Return the decrease of the L1 error, in rows, that measuring would bring on average.

        Parameters
        ----------
        stddev
            Noise of a table, in rows, > 0.
        """
        left = self.kept(stddev) * stddev * self.noise
        gain = MEAN_ABS * float((np.sqrt(self.variances) - left).sum())
        return self.counts * gain


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
        beside: Callable[[float], float] = lambda _: 0.0,
    ) -> Batch:
        """Choose the batch of candidates with the largest expected gain, and divide a share of the budget among them.

        As much of the share as is worth more elsewhere is left.

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
        beside
            What a share would gain elsewhere, in rows.
        """
        planner = TreePlanner(shape)
        candidates = [candidate for candidate in candidates if candidate.relation.expected > 0]
        coarser = {candidate.clique for candidate in candidates if candidate.level}
        best: tuple[float, list[Candidate], list[float], int] = (0.0, [], [], 0)
        most = min(self.max_batch, len(candidates))
        for size in [*(one for one in BATCHES if one < most), *[most] * (most > 0)]:
            stddev = budget.table_stddev(share / size)
            gains = np.array([one.gain(stddev) for one in candidates])
            gains[[not one.level and one.clique in coarser and not one.pays(stddev) for one in candidates]] = 0.0
            tree, off_tree = self._choose(candidates, gains, size, base, planner)
            chosen = [candidates[i] for i in tree + off_tree]
            shares, gain = divided(chosen, budget, share)
            if gain > best[0]:
                best = (gain, chosen, shares, len(tree))
            if len(chosen) < size - 3 or gain < PAST * best[0]:
                break  # larger batches only add noise
        gain, chosen, shares, inside = best
        part = 1.0
        if (other := beside(share)) > 0:
            for less in PARTS:
                some, found = divided(chosen, budget, less * share)
                if found + beside((1 - less) * share) > gain:
                    gain, part, shares = found + beside((1 - less) * share), less, some
        if not chosen or gain < other:
            return Batch({}, {}, 0.0)
        priced = [(candidate.clique, one) for candidate, one in zip(chosen, shares, strict=True)]
        levels = {candidate.clique: candidate.level for candidate in chosen if candidate.level}
        return Batch(dict(priced[:inside]), dict(priced[inside:]), gain - beside((1 - part) * share), levels)

    def choose_with_rest(
        self,
        candidates: Sequence[Candidate],
        budget: BudgetAllocation,
        *,
        share: float,
        base: Sequence[Clique],
        shape: Sequence[int],
        wished: Callable[[Clique], bool] | None,
        beside: Callable[[float], float] = lambda _: 0.0,
    ) -> Batch:
        """Return what `choose_next_tables` does, of a part of the share for candidates that no wished set contains.

        Parameters
        ----------
        candidates, budget, share, base, shape, beside
            As there.
        wished
            Says which cliques a workload contains; ``None`` to choose among all alike.
        """
        rest = [] if wished is None else [one for one in candidates if not wished(one.clique)]
        if not rest or len(rest) == len(candidates):
            return self.choose_next_tables(candidates, budget, share=share, base=base, shape=shape, beside=beside)
        ours = [one for one in candidates if one not in rest]
        first = self.choose_next_tables(ours, budget, share=(1 - KEPT) * share, base=base, shape=shape, beside=beside)
        left = share - sum(first.shares.values())
        second = self.choose_next_tables(
            rest, budget, share=left, base=[*base, *first.tree], shape=shape, beside=beside
        )
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
        joining = set(joining_cliques([candidates[i].clique for i in order if not candidates[i].level], base))
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


def divided(chosen: Sequence[Candidate], budget: BudgetAllocation, share: float) -> tuple[list[float], float]:
    """Return a share for each candidate, such that no other division gains more, and the gain of all.

    Parameters
    ----------
    chosen
        What is measured.
    budget
        Says which share buys which noise; nothing is taken from it.
    share
        To divide, > 0.
    """
    if not chosen:
        return [], 0.0
    variances = np.concatenate([one.variances for one in chosen])
    sizes = np.array([len(one.variances) for one in chosen])
    starts = np.cumsum(sizes) - sizes
    counts, noise = (np.array([getattr(one, name) for one in chosen]) for name in ("counts", "noise"))
    loud = budget.table_stddev(share)

    def left(shares: Sequence[float]) -> tuple[FloatArray, FloatArray]:
        """Return the noise of each table, and by cell the root of the part of its variance that is left."""
        stddevs = noise * loud * (np.array(shares) / share) ** -budget.exponent
        return stddevs, np.sqrt(variances / (variances + np.repeat(stddevs**2, sizes)))

    shares = [share / len(chosen)] * len(chosen)
    for _ in range(DIVISIONS):  # the slopes of the gains at the shares before
        cells = np.add.reduceat(left(shares)[1] ** 3, starts)
        shares = budget.shares_of_least_noise(share, (counts * noise * np.maximum(cells, 1.0)).tolist())
    stddevs, kept = left(shares)
    gains = np.add.reduceat(np.sqrt(variances), starts) - stddevs * np.add.reduceat(kept, starts)
    return shares, MEAN_ABS * float(counts @ gains)


def joining_cliques(cliques: Sequence[Clique], base: Sequence[Clique]) -> list[Clique]:
    """Return the cliques of a greedy spanning forest (Kruskal, in the given order).

    A clique is taken if all its columns lie in different connected components; the components start from ``base``.
    """
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
    joining = []
    for clique in cliques:
        if len({find(column) for column in clique}) == len(clique):
            join(clique)
            joining.append(clique)
    return joining
