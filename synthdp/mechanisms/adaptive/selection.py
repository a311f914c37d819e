"""Which tables, such as pairs of columns, to measure next, and how precisely: post-processing of noisy scores.

Everything that could be measured is one list of candidates, with one unit of gain: the rows by which the model's error
falls.  A candidate's gain grows with its share of the budget, ever more slowly.  So the budget is divided among all
candidates at equal slopes, and a candidate whose first row of gain costs more than the others' next one gets nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from synthdp.arrays import MEAN_ABS, Clique, FloatArray
from synthdp.checks import check_number, check_whole
from synthdp.distribution.junction_tree import TreePlanner
from synthdp.fit.raking import BLOCK_CELLS
from synthdp.mechanisms.adaptive.energies import EstimatedRelation
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.queries.contingency import table_size

SHOWN = 0.7
"""Assumed reduction of a pair's error, in rows, for each row of distance that its table over merged bins removes.  The
factor is below 1 as nothing changes within merged bins.  A smaller value measures fewer pairs over merged bins.  Exact
tables of merged groups leave .3 to .5 of a pair's distance, in the median, on Adult and hmeq at epsilon .1 to 10.
Tuned: half and twice of it change the three-way error of five tables by +.7 and +.3 % (docs/benchmarks/constants.md).
"""

DIVISIONS, LEAST_TOLD = 20, 0.02
"""DIVISIONS is the number of iterations in which a budget is divided among candidates, or among effects in the optimal
plan. Each iteration uses the slopes at the shares before. LEAST_TOLD is the least fraction of a noisy count's variance
that is not noise, in the best cell of a table; below it a candidate gets no budget. Tolerances."""

MAX_TRIPLES = 3000
"""Tables of three columns are candidates if there are at most this many: 27 columns have 2 925.  A safety limit of time."""

USUAL_CELLS = math.isqrt(BLOCK_CELLS)
"""Cells of a table that counts as one table of a batch (`Planner.max_batch`).  A table of fewer cells counts as a
fraction, in proportion to its cells, since it takes less time.  Derived: the fit rakes tables of at most `BLOCK_CELLS`
joint cells in one pass over the weighted rows.  Two tables of USUAL_CELLS cells have as many."""


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
    known
        Precision (1 / variance of the noise) with which the table was measured before; 0 if it was not.
    """

    clique: Clique
    relation: EstimatedRelation
    expected: FloatArray
    weight: float = 1.0
    level: int = 0
    noise: float = 1.0
    margins: FloatArray | float = 0.0
    known: float = 0.0

    @property
    def is_extra(self) -> bool:
        """Whether the candidate never joins the junction tree, and may share two columns with other chosen tables.

        The candidate is then a table that was measured before, or the interaction of three columns over merged bins.
        """
        return self.known > 0 or (len(self.clique) > 2 and self.level > 0)

    @property
    def gain_factor(self) -> float:
        """The factor of a candidate's gain, >= 0, by which tables that matter more get more budget.

        It is the weight, times the probability of a relation, times `SHOWN` for a pair over merged bins.
        """
        shown = SHOWN if self.level and len(self.clique) == 2 else 1.0
        return self.weight * (1 - self.relation.none) * shown

    @cached_property
    def variances(self) -> FloatArray:
        """(cells,) mean squared error of the model's table before this measurement, in squared rows, if related.

        The relation moves each cell in proportion to its expected count.  Chance adds to it, and so do the errors of
        margins if the whole table is measured.  An earlier measurement has removed a part.
        """
        related = self.relation.distance / (MEAN_ABS * max(float(self.expected.sum()), 1e-300)) * self.expected
        whole = related**2 + self.expected + (self.margins if self.noise >= 1 else 0.0)
        return np.asarray(whole / (1 + whole * self.known), np.float64)

    def pays(self, stddev: float) -> bool:
        """Return whether noise of ``stddev`` rows would hide less than the table's present error.

        In a cell noise hides at most the expected count, since the fit leaves such a cell as it is.
        """
        hidden = np.minimum(MEAN_ABS * stddev * self.noise, self.expected).sum()
        return bool(MEAN_ABS * np.sqrt(self.variances).sum() > hidden)

    def left(self, stddev: float) -> FloatArray:
        """(cells,) root mean squared error of synthetic rows, in rows, if a table's noise is ``stddev`` rows.

        A cell has a deviation of variance v and an answer with noise q.  The best linear estimate leaves a squared
        error of v q^2 / (v + q^2).  Chance in the drawn rows adds the expected count.  So noise far below this chance
        hardly lowers the error further.
        """
        noise = (stddev * self.noise) ** -2
        return np.sqrt(self.variances / (1 + self.variances * noise) + self.expected)

    def gain(self, stddev: float) -> float:
        """Return the mean decrease of the table's L1 error by measuring it, in rows, times `gain_factor`.

        Tables with the largest gains are measured.

        Parameters
        ----------
        stddev
            Noise of a table, in rows, > 0.
        """
        return self.gain_factor * MEAN_ABS * float((self.left(math.inf) - self.left(stddev)).sum())

    def measured(self, stddev: float) -> Candidate:
        """Return the candidate with the gain that is left after a measurement with a table's noise of ``stddev`` rows.

        The last round may measure it again.
        """
        return replace(self, known=self.known + (stddev * self.noise) ** -2)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The tables chosen to be measured next, with the share of the whole budget for each table.

    Parameters
    ----------
    shares
        Share of the whole budget for each candidate.
    tree
        Cliques among them that join the junction tree; the others are fitted outside of it.
    """

    shares: Mapping[Candidate, float]
    tree: frozenset[Clique] = frozenset()

    def after(self, candidates: Sequence[Candidate], budget: BudgetAllocation) -> list[Candidate]:
        """Return the candidates with the gain that is left after the batch was measured, measured tables first.

        The next round chooses among them.
        """
        done = [one.measured(budget.table_stddev(share)) for one, share in self.shares.items()]
        cliques = {one.clique for one in done}
        return [*done, *(one for one in candidates if one.clique not in cliques)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Chooses which tables to measure, within limits of time and memory.

    Parameters
    ----------
    tree_cells
        Most cells of the junction tree, > 0.
    max_off_tree
        Most tables of a batch outside of the junction tree, >= 0; ``None`` for no limit of their own.
    max_batch
        Most tables of a batch, >= 0.  A table of fewer than `USUAL_CELLS` cells counts in proportion to its cells.

    Raises
    ------
    ParameterError
        If a setting is out of range.
    """

    tree_cells: float = 4e5
    max_off_tree: int | None = None
    max_batch: int = 100

    def __post_init__(self) -> None:
        check_number("tree_cells", self.tree_cells, above=0, infinite=True)
        check_whole("max_batch", self.max_batch, least=0)
        if self.max_off_tree is not None:
            check_whole("max_off_tree", self.max_off_tree, least=0)

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

        A table over coarse bins that is also a candidate over merged bins is chosen only if it `pays`: else the merged
        bins show its relation under less noise.

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
        """
        candidates = [one for one in candidates if one.relation.expected > 0]
        if not candidates or self.max_batch == 0:
            return Batch({})
        counted = np.mean([min(table_size(shape, one.clique) / USUAL_CELLS, 1.0) for one in candidates])
        most = math.floor(self.max_batch / counted)
        even = budget.table_stddev(share / min(len(candidates), most))
        gains = {one: one.gain(even) for one in candidates}
        order = sorted(candidates, key=gains.__getitem__)[-2 * most :]  # more would take time
        best = list({(one.clique, len(one.clique) < 3 and one.level): one for one in order}.values())
        merged = {one.clique: one for one in best if one.level and not one.is_extra}
        finest = merged | {one.clique: one for one in best if merged.get(one.clique) is not one}
        shares = divided(list(finest.values()), budget, share)
        some = [
            one if part > 0 and one.pays(budget.table_stddev(part)) else merged.get(one.clique, one)
            for one, part in shares.items()
        ]
        shares = divided(some, budget, share)
        gains = {one: one.gain(budget.table_stddev(part)) for one, part in shares.items() if part > 0}
        order = sorted(gains, key=lambda one: (one.level, -gains[one]))
        tree, off_tree = self._placed(order, base, TreePlanner(shape), most)
        found = {one: part for one, part in divided([*tree, *off_tree], budget, share).items() if part > 0}
        return Batch(found, frozenset(one.clique for one in tree))

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
        return Batch({**first.shares, **second.shares}, first.tree | second.tree)

    def _placed(
        self,
        candidates: Sequence[Candidate],
        base: Sequence[Clique],
        planner: TreePlanner,
        most: int,
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Return the candidates to measure inside and outside of the junction tree, in the given order, at most ``most``.

        A candidate is outside if the tree would have too many cells with it, and left out if too many are outside.
        Of candidates that share two columns only the first is taken, since its answer changes what the others would
        gain; candidates that are `is_extra` are exempt.
        """
        tree: list[Candidate] = []
        off_tree: list[Candidate] = []
        taken, paired, rejections = list(base), set[Clique](), 0
        most_off_tree = most if self.max_off_tree is None else self.max_off_tree
        for one in candidates:
            if len(tree) + len(off_tree) >= most:
                break
            pairs = set(itertools.combinations(sorted(one.clique), 2))
            if not one.is_extra:
                if pairs & paired:
                    continue
                if rejections < most and planner.cells([*taken, one.clique]) <= self.tree_cells:
                    tree.append(one)
                    taken.append(one.clique)
                    paired |= pairs
                    continue
                rejections += 1
            if one.known > 0 or len(off_tree) < most_off_tree:
                off_tree.append(one)
                paired |= pairs
        return tree, off_tree


def divided(candidates: Sequence[Candidate], budget: BudgetAllocation, share: float) -> dict[Candidate, float]:
    """Divide a share of the budget among tables for the largest total gain; 0 for tables that gain too little.

    Each candidate's share follows the slope of its gain at the share before, until the slopes are equal.  All shares are
    0 if every table would be noise even at the whole share.

    Parameters
    ----------
    candidates
        The tables that could be measured.
    budget
        The allocation, which maps a share to its noise; nothing is taken from it.
    share
        Share of the whole budget to divide, > 0.
    """
    if not candidates:
        return {}
    variances = np.concatenate([one.variances for one in candidates])
    expected = np.concatenate([one.expected for one in candidates])
    sizes = np.array([len(one.variances) for one in candidates])
    starts = np.cumsum(sizes) - sizes
    factors, noise = (np.array([getattr(one, name) for one in candidates]) for name in ("gain_factor", "noise"))
    shares, loud = np.full(len(candidates), share / len(candidates)), noise * budget.table_stddev(share)
    for _ in range(DIVISIONS):
        with np.errstate(divide="ignore"):  # a share of 0 has infinite noise
            squared = np.repeat((loud * (shares / share) ** -budget.exponent) ** 2, sizes)
        told = variances / (variances + squared)
        slopes = np.add.reduceat(told**2 / np.sqrt(told + expected / np.maximum(squared, 1e-300) + 1e-300), starts)
        if not slopes.any():  # tables that are estimated to hold no row
            return dict.fromkeys(candidates, 0.0)
        shares = np.array(budget.shares_of_least_noise(share, (factors * noise * slopes).tolist()))
    shares[np.maximum.reduceat(told, starts) < LEAST_TOLD] = 0.0
    if shares.any():
        shares *= share / shares.sum()
    return dict(zip(candidates, shares.tolist(), strict=True))
