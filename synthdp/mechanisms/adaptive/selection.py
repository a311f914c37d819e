"""Which tables, such as pairs of columns, to measure next, and how precisely: post-processing of noisy scores.

`AdaptiveMarginals._learn` uses this module unless `Optimum.pays`, the table is wide, or it has places.

A candidate's gain is the present error of the model on its table, less the error that noise would leave.  The batch
with the largest total gain is chosen, within the junction tree's limit of cells.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from synthdp.arrays import MEAN_ABS, BoolArray, Clique, FloatArray, IntArray
from synthdp.checks import check_number, check_whole
from synthdp.distribution.junction_tree import TreePlanner
from synthdp.mechanisms.adaptive.energies import EstimatedRelation
from synthdp.mechanisms.allocation import BudgetAllocation

BATCHES = (1, 2, 3, 4, 6, 8, 11, 16, 22, 32, 45, 64, 100)
"""Numbers of tables per batch that are tried for the largest total gain.  Steps of about √2 are a tolerance, as shares
of the budget adapt within a batch."""

PARTS = (1.0, 0.85, 0.7, 0.5, 0.35, 0.2, 0.1, 0.05)
"""Fractions of a round's budget that are tried for a batch, if the rest could gain something elsewhere (in the one-way
histograms).  A tolerance."""

SHOWN = 0.7
"""Assumed reduction of a pair's error, in rows, for each row of distance that its table over merged bins removes.  It is
below 1 as nothing changes within merged bins.  A smaller value measures fewer pairs over merged bins.  Exact tables of
merged groups leave .3 to .5 of a pair's distance, in the median, on Adult and hmeq at epsilon .1 to 10.  Tuned: half and
twice of it change the three-way error of five tables by +.7 and +.3 % (docs/benchmarks/constants.md)."""

PAST = 0.97
"""Larger batches are no longer tried once a batch gains less than this fraction of the best gain.  A tolerance that
saves time."""

DIVISIONS = 2
"""Iterations in which a batch's budget is divided among its tables, each by the slopes of gains at the shares before.
A tolerance: no other division gains 1 % more."""

MAX_TRIPLES = 3000
"""Tables of three columns are candidates if there are at most this many.  A safety limit of time."""

FEW_CELLS = 4096
"""Candidates of at most this many cells are evaluated in one vectorized call, larger candidates one by one.  A safety
limit of memory."""

MAX_REJECTIONS = 40
"""Most candidates that are tried for the junction tree without finding room there or among the tables outside of it.
Later candidates gain less, and each try takes time.  A safety limit of time."""


KEPT = 0.2
"""Fraction of a round's budget for pairs that the user's workload does not contain.  A larger one makes these pairs more
accurate.  Tuned: by `benchmarks/utility/places.py`; on a second table, six triples of Adult at epsilon 1, fractions of
.1, .2 and .4 leave errors of .0324, .0308 and .0313 in the triples (other pairs .0272, .0240, .0222).  Half and twice of
it change the error of a third table by -.2 and +.1 % (docs/benchmarks/constants.md)."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A table that could be measured, with the relation estimated from its noisy score, and its expected gain.

    Parameters
    ----------
    clique
        Positions of the table's columns.
    relation
        The estimated relation of the columns that the model lacks.
    expected
        (cells,) expected counts under the current model, in rows.
    weight
        Weight of the table in the workload.
    level
        Merge level: 0 for a table over coarse bins, 1 or 2 for a table over merged bins.
    noise
        Noise in a cell, as a multiple of the noise of a whole table of equal cost; below 1 for an interaction.
    margins
        Variance of the expected counts by errors of the model's margins, (cells,) or one number, in squared rows.  A
        whole table corrects these errors, an interaction does not.
    fresh
        Whether no measured table contains this one, so that its chance deviations are not in the model.
    """

    clique: Clique
    relation: EstimatedRelation
    expected: FloatArray
    weight: float = 1.0
    level: int = 0
    noise: float = 1.0
    margins: FloatArray | float = 0.0
    fresh: bool = True

    @property
    def beside(self) -> bool:
        """Whether only the interaction of three columns over merged bins would be measured.

        Such a candidate is planned outside of the junction tree, in addition to the other tables.
        """
        return len(self.clique) > 2 and self.level > 0

    @property
    def counts(self) -> float:
        """The factor of a candidate's gain, >= 0.

        It is the weight, times the probability of a relation, times `SHOWN` for a pair over merged bins.
        """
        shown = SHOWN if self.level and len(self.clique) == 2 else 1.0
        return self.weight * (1 - self.relation.none) * shown

    @cached_property
    def variances(self) -> FloatArray:
        """(cells,) mean squared difference of the data's table from the expected table, in squared rows, if related.

        The relation moves each cell in proportion to its expected count.  Chance is added if the candidate is
        ``fresh``, and the errors of margins if the whole table is measured.
        """
        related = self.relation.distance / (MEAN_ABS * max(float(self.expected.sum()), 1e-300)) * self.expected
        more = (self.expected if self.fresh else 0.0) + (self.margins if self.noise >= 1 else 0.0)
        return np.asarray(related**2 + more, np.float64)

    def kept(self, stddev: float) -> FloatArray:
        """(cells,) error that remains in each cell, as a fraction of its noise, if a table's noise is ``stddev`` rows.

        A cell has a deviation of variance v and an answer with noise q.  The best linear estimate leaves a squared
        error of v q^2 / (v + q^2).  So the remaining error is q times the root of v / (v + q^2); that root is returned.
        """
        return np.sqrt(self.variances / (self.variances + (stddev * self.noise) ** 2))

    def pays(self, stddev: float) -> bool:
        """Return whether noise of ``stddev`` rows would hide less than the table's present error.

        In a cell noise hides at most the expected count, since the fit leaves such a cell as it is.
        """
        hidden = np.minimum(MEAN_ABS * stddev * self.noise, self.expected).sum()
        return bool(MEAN_ABS * np.sqrt(self.variances).sum() > hidden)

    def cells(self, stddev: float) -> float:
        """Return the effective number of cells that noise of ``stddev`` rows affects, by which budget is divided.

        The number is the slope of the remaining error, summed over cells, in the noise.
        """
        return float((self.kept(stddev) ** 3).sum())

    def gain(self, stddev: float) -> float:
        """Return the mean decrease of the table's L1 error by measuring it, in rows, times `counts`.

        The factor `counts` has the table's weight and the probability of a relation.

        Parameters
        ----------
        stddev
            Noise of a table, in rows, > 0.
        """
        left = self.kept(stddev) * stddev * self.noise
        gain = MEAN_ABS * float((np.sqrt(self.variances) - left).sum())
        return self.counts * gain


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Together:
    """Arrays over many candidates at once, so that gains of small candidates are computed in one vectorized step.

    Parameters
    ----------
    candidates
        All candidates.
    large
        Positions of the candidates with more than `FEW_CELLS` cells, which are evaluated one by one.
    small, starts
        (small,) positions of the other candidates, and the first cell of each in the joint arrays.
    variances, roots, expected, noise
        (all cells,) variances, their square roots and expected counts, as in `Candidate`, and the ``noise`` of each
        cell's candidate.
    counts
        (small,) `Candidate.counts` of the small candidates.
    """

    candidates: Sequence[Candidate]
    large: list[int]
    small: IntArray
    starts: IntArray
    variances: FloatArray
    roots: FloatArray
    expected: FloatArray
    noise: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> _Together:
        """Return the arrays of candidates: the cells of small candidates one after the other, and a list of large ones."""
        small = [i for i, one in enumerate(candidates) if 0 < len(one.expected) <= FEW_CELLS]
        some = [candidates[i] for i in small]
        sizes = np.array([len(one.expected) for one in some], np.int64)
        variances = np.concatenate([np.zeros(0), *(one.variances for one in some)])
        return cls(
            candidates=candidates,
            large=sorted({*range(len(candidates))} - {*small}),
            small=np.array(small, np.int64),
            starts=np.cumsum(sizes) - sizes,
            variances=variances,
            roots=np.sqrt(variances),
            expected=np.concatenate([np.zeros(0), *(one.expected for one in some)]),
            noise=np.repeat([float(one.noise) for one in some], sizes),
            counts=np.array([one.counts for one in some], np.float64),
        )

    def gains(self, stddev: float) -> FloatArray:
        """Return the gain of each candidate at noise ``stddev``, (candidates,): the weighted L1 error saved, in rows.

        Large candidates are evaluated one by one, by `Candidate.gain`.  The cells of all others are summed at once,
        which takes less time.
        """
        found = np.zeros(len(self.candidates))
        found[self.large] = [self.candidates[i].gain(stddev) for i in self.large]
        noise = stddev * self.noise
        left = np.sqrt(self.variances / (self.variances + noise**2)) * noise
        found[self.small] = self.counts * MEAN_ABS * self._sums(self.roots - left)
        return found

    def pay(self, stddev: float) -> BoolArray:
        """Return which candidates pay, (candidates,): noise of ``stddev`` rows hides less than their present error."""
        found = np.zeros(len(self.candidates), bool)
        found[self.large] = [self.candidates[i].pays(stddev) for i in self.large]
        hidden = np.minimum(MEAN_ABS * stddev * self.noise, self.expected)
        found[self.small] = MEAN_ABS * self._sums(self.roots) > self._sums(hidden)
        return found

    def _sums(self, cells: FloatArray) -> FloatArray:
        """Return the sum of ``cells``, (all cells,), over each small candidate, (small,), computed in one step."""
        return np.asarray(np.add.reduceat(cells, self.starts) if len(cells) else np.zeros(0), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The tables chosen to be measured next, with the share of the whole budget for each table.

    Parameters
    ----------
    tree
        Share of the whole budget for each clique that joins the junction tree.
    off_tree
        Share of the whole budget for each clique outside of the junction tree.
    gain
        Expected decrease of the weighted L1 error, in rows.
    levels
        Merge level of each clique whose table is over merged bins.
    """

    tree: Mapping[Clique, float]
    off_tree: Mapping[Clique, float]
    gain: float
    levels: Mapping[Clique, int] = field(default_factory=dict)

    @property
    def shares(self) -> dict[Clique, float]:
        """The share of the whole budget for each clique, inside and outside of the junction tree."""
        return {**self.tree, **self.off_tree}

    def __contains__(self, candidate: Candidate) -> bool:
        return candidate.clique in self.shares and self.levels.get(candidate.clique, 0) == candidate.level

    def times(self, part: float) -> Batch:
        """Return the same tables with every share multiplied by ``part``, so that some of the budget is held back."""
        tree, off_tree = ({c: part * share for c, share in some.items()} for some in (self.tree, self.off_tree))
        return replace(self, tree=tree, off_tree=off_tree)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Chooses which tables to measure, within limits of time and memory.

    Parameters
    ----------
    tree_cells
        Most cells of the junction tree, > 0.
    max_off_tree
        Most tables of a batch outside of the junction tree, >= 0.
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

        A part of the share is not spent if it would gain more elsewhere (``beside``).  A pair over coarse bins that is
        also a candidate over merged bins is chosen only if it `pays`: else the merged bins show its relation under less
        noise.

        Parameters
        ----------
        candidates
            The candidates, with their noisy scores.
        budget
            The allocation, which maps a share to its noise; nothing is taken from it.
        share
            Share of the whole budget for the batch.
        base
            Cliques that are in the junction tree already.
        shape
            Number of coarse bins of each column.
        beside
            Function from a share to its gain elsewhere, in rows.
        """
        planner = TreePlanner(shape)
        candidates = [candidate for candidate in candidates if candidate.relation.expected > 0]
        coarser = {candidate.clique for candidate in candidates if candidate.level}
        finest = np.array([not one.level and one.clique in coarser for one in candidates], bool)
        together = _Together.of(candidates)
        best: tuple[float, list[Candidate], list[float], int] = (0.0, [], [], 0)
        most = min(self.max_batch, len(candidates))
        for size in [*(one for one in BATCHES if one < most), *[most] * (most > 0)]:
            stddev = budget.table_stddev(share / size)
            gains = together.gains(stddev)
            gains[finest & ~together.pay(stddev)] = 0.0
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
    ) -> Batch:
        """Choose a batch as `choose_next_tables` does, keeping the fraction `KEPT` for tables outside of the workload.

        The model then stays usable for questions that the workload does not name.

        Parameters
        ----------
        candidates, budget, share, base, shape
            As in `choose_next_tables`.
        wished
            Function that returns whether the workload contains a clique; ``None`` to choose among all candidates alike.
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
        """Return positions of up to ``size`` candidates of positive gain, inside and outside of the tree.

        No two of them share two columns, except triples over merged bins.  Those of larger gain come first, and tables
        over coarse bins before tables over merged bins.
        """
        tree: list[int] = []
        off_tree: list[int] = []
        taken = list(base)
        paired: set[Clique] = set()
        rejections = 0
        order = [i for i in np.argsort(-gains, kind="stable").tolist() if gains[i] > 0]
        for i in sorted(order, key=lambda i: candidates[i].level):
            clique = candidates[i].clique
            if len(tree) + len(off_tree) >= size:
                break
            if candidates[i].beside:
                if len(off_tree) < self.max_off_tree:
                    off_tree.append(i)
                    paired |= set(itertools.combinations(sorted(clique), 2))
                continue
            pairs = set(itertools.combinations(sorted(clique), 2))
            if pairs & paired:
                continue
            if rejections < MAX_REJECTIONS and planner.cells([*taken, clique]) <= self.tree_cells:
                tree.append(i)
                taken.append(clique)
            elif len(off_tree) < self.max_off_tree:
                off_tree.append(i)
            else:
                rejections += 1
                continue
            paired |= pairs
        return tree, off_tree


def divided(chosen: Sequence[Candidate], budget: BudgetAllocation, share: float) -> tuple[list[float], float]:
    """Divide a share of the budget among tables for the largest total gain; return the shares and the gain, in rows.

    The gain is the decrease of L1 errors, weighted by `Candidate.counts`.

    Parameters
    ----------
    chosen
        The tables that are measured.
    budget
        The allocation, which maps a share to its noise; nothing is taken from it.
    share
        Share of the whole budget to divide, > 0.
    """
    if not chosen:
        return [], 0.0
    variances = np.concatenate([one.variances for one in chosen])
    sizes = np.array([len(one.variances) for one in chosen])
    starts = np.cumsum(sizes) - sizes
    counts, noise = (np.array([getattr(one, name) for one in chosen]) for name in ("counts", "noise"))
    loud = budget.table_stddev(share)

    def left(shares: Sequence[float]) -> tuple[FloatArray, FloatArray]:
        """Return each table's noise, in rows, and each cell's remaining error, as a fraction of this noise."""
        stddevs = noise * loud * (np.array(shares) / share) ** -budget.exponent
        return stddevs, np.sqrt(variances / (variances + np.repeat(stddevs**2, sizes)))

    shares = [share / len(chosen)] * len(chosen)
    for _ in range(DIVISIONS):  # by the slopes of gains at the previous shares
        cells = np.add.reduceat(left(shares)[1] ** 3, starts)
        shares = budget.shares_of_least_noise(share, (counts * noise * np.maximum(cells, 1.0)).tolist())
    stddevs, kept = left(shares)
    gains = np.add.reduceat(np.sqrt(variances), starts) - stddevs * np.add.reduceat(kept, starts)
    return shares, MEAN_ABS * float(counts @ gains)
