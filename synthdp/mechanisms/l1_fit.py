"""Synthetic rows by an L1-fitting linear program over an explicit support.

Noisy answers to all pairs of a mixed table (as indicators, as products of cosines and indicators, or each pair as what
suits it), and weights on support points whose answers come near to them.  A vertex of the bare program fits the noise, so
the program also holds the weights near a prior, at a price that the noise sets: see docs/mechanisms/l1-fit.md.

Few possible rows are listed as support points, with the weights of independent columns.  Where there are too many, rows
are drawn from a junction tree of the strongest noisy pairs: candidates, not the solver, decide how good a fit over drawn
rows can be.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from synthdp.arrays import MEAN_ABS, BoolArray, Clique, Codes, FloatArray, Weights
from synthdp.checks import check_number, check_one_of, check_whole
from synthdp.curator import Curator
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.junction_tree import TreePlanner, junction_tree
from synthdp.distribution.markov_random_field import Graphical
from synthdp.domain.domain import Domain
from synthdp.domain.refinement import Refinement
from synthdp.errors import ParameterError
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.registry import AUTO, BARE, ready, solved, solver_named
from synthdp.fit.explicit.solver import FitResult
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.measurements import Measurements
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.column_groups import coarse_table, coarsen_columns
from synthdp.mechanisms.column_histograms import OneWayTree, one_way_share
from synthdp.mechanisms.column_tree import OneWay
from synthdp.mechanisms.l1_pairs import NoisyAverages, tables_of_products
from synthdp.mechanisms.mechanism import HasPrivacyCost
from synthdp.mechanisms.preflight import check_tables, salvaged
from synthdp.mechanisms.row_count import count_rows_from
from synthdp.mechanisms.workload import Workload, WorkloadSpec, workload_of
from synthdp.privacy.budget import COUNT_SHARE
from synthdp.privacy.loss import Remaining, Spend
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.queries.contingency import NoisyTable, cell_index
from synthdp.queries.marginals import Marginals
from synthdp.queries.protocol import LinearQueries
from synthdp.queries.trigonometric import TensorBasis, mixed_terms
from synthdp.randomness import Generator, RandomState, generator
from synthdp.release import Release
from synthdp.sampling.structural_zeros import check_rules, structural_zeros
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.schema import Schema

LEAST_MARGIN = 1e-6
"""Smallest share of rows that the prior gives a cell of one column, even where noisy one-ways say 0.  Rules may forbid
all other cells.  A numerical tolerance.
"""

TREE_CELLS = 400_000
"""Most cells of the junction tree that candidate rows are drawn from.  A safety limit of time: each sweep of the fit passes
over all cells."""

TREE_SWEEPS = 8
"""Passes of the junction tree's fit, whose rows are fitted again anyway.  A numerical tolerance: 5, 8 and 20 give fifteen
columns of Adult three-way errors of .0784, .0775 and .0785, four releases each."""

PAIRS_PER_COLUMN = 4
"""At most this many pairs per column are tried for the junction tree: the pairs farthest from independence.  A safety
limit of time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """The support points over which an L1 fit chooses weights, with their prior weights.

    Parameters
    ----------
    codes
        (m, d) different rows.
    prior
        (m,) their weights before the fit, with sum 1.
    drawn
        Number of rows that were drawn; 0 where all possible rows are listed.
    origin
        Text on their origin, for the receipt.
    """

    codes: Codes
    prior: Weights
    drawn: int
    origin: str

    @property
    def prior_of(self) -> str:
        """Where the prior weights come from, in words for the receipt."""
        return "the draws" if self.drawn else "independent columns"


def independent(margins: Sequence[FloatArray], possible: Mapping[Clique, BoolArray]) -> Graphical:
    """Return the distribution of independent columns with these margins, conditioned on possible combinations only.

    Shares below `LEAST_MARGIN` are raised to it first.  Rows that are likely under it are worth listing, and it is the model
    where no pair is measured.
    """
    masks = {clique: np.where(mask, 0.0, -np.inf) for clique, mask in possible.items()}
    for j, margin in enumerate(margins):  # impossible cells of one column are masked too: a floor everywhere is safe
        masks[(j,)] = masks.get((j,), 0.0) + np.log(np.maximum(margin, LEAST_MARGIN))
    return Graphical.calibrated(junction_tree(tuple(len(margin) for margin in margins), [*masks]), masks)


def margin_of(column: OneWay, refinement: Refinement) -> FloatArray:
    """Return the share of rows in each group of a column, (groups,); 0 in groups that may not be released.

    It is the prior of a fit.  All releasable groups are alike where the column seems to have no rows.
    """
    mass = np.bincount(refinement.coarse_cell, weights=column.weights)
    releasable = refinement.coarse().releasable
    return np.where(releasable, mass / mass.sum() if mass.sum() > 0 else 1 / releasable.sum(), 0.0)


def listed(
    margins: Sequence[FloatArray], product: Graphical, possible: Mapping[Clique, BoolArray], most: int
) -> Candidates | None:
    """Return all possible rows, without cells of hardly any mass, as candidates with a prior of independent columns.

    ``None`` if the cells that are left have more than ``most`` combinations, rules not counted, or if none is possible;
    rows are then drawn.
    """
    likely = [np.flatnonzero(product.marginal((j,)) > 2 * LEAST_MARGIN) for j in range(len(product.shape))]
    if math.prod(len(cells) for cells in likely) > most:
        return None
    rows = np.array(list(itertools.product(*likely)), np.int64)
    for clique, mask in possible.items():
        rows = rows[mask[cell_index(rows, product.shape, clique)]]
    if not len(rows):
        return None
    prior = np.ones(len(rows))
    for j, margin in enumerate(margins):
        prior *= np.maximum(margin, LEAST_MARGIN)[rows[:, j]]
    return Candidates(codes=rows, prior=prior / prior.sum(), drawn=0, origin="all possible rows")


def drawn(model: Graphical, count: int, rng: Generator, *, origin: str) -> Candidates:
    """Return the distinct rows of a sample from a model as candidates, weighted by how often each was drawn.

    ``count`` rows are drawn.
    """
    rows, times = np.unique(model.sample(count, rng), axis=0, return_counts=True)
    return Candidates(codes=rows, prior=times / times.sum(), drawn=count, origin=origin)


def tree_of_pairs(
    tables: Sequence[NoisyTable], domain: Domain, possible: Mapping[Clique, BoolArray], *, total: float
) -> Graphical:
    """Return the maximum-entropy model of the most strongly related pairs that fit in a junction tree of `TREE_CELLS`.

    Candidate rows are drawn from this model.

    Parameters
    ----------
    tables
        Consistent one-ways and pairs, without out-of-domain rows.
    domain
        Their axes.
    possible
        For the columns of each rule, (cells,): which combinations of coarse bins may occur.
    total
        Number of rows.
    """
    gains = _gains(tables)
    planner, chosen = TreePlanner(domain.shape), [*possible]
    tried = sorted((pair for pair in gains if gains[pair] > 0), key=lambda pair: -gains[pair])
    for pair in tried[: PAIRS_PER_COLUMN * len(domain)]:
        if planner.cells([*chosen, pair]) <= TREE_CELLS:
            chosen.append(pair)
    inside = [table for table in tables if len(table.clique) == 1 or table.clique in chosen]
    return MaxEntropy(max_sweeps=TREE_SWEEPS).fit(inside, domain.shape, total=total, allowed=possible).model


def _gains(tables: Sequence[NoisyTable]) -> dict[Clique, float]:
    """Return each pair's L1 distance from independence, in rows, minus what its noise alone makes of it.

    The junction tree takes the pairs of the largest gains.  Noise is taken to make at most a cell's expected count.
    """
    margins = {table.clique[0]: np.maximum(table.counts, 0.0) for table in tables if len(table.clique) == 1}
    gains: dict[Clique, float] = {}
    for table in tables:
        if len(table.clique) == 2:
            first, second = (margins[j] for j in table.clique)
            alone = np.outer(first, second).ravel() / max(float(first.sum()), 1e-9)
            noise = np.minimum(MEAN_ABS * table.stddev, alone)
            gains[table.clique] = float(np.abs(table.counts - alone).sum() - noise.sum())
    return gains


GROUPS = 16
"""About how many groups a column's values are merged into for pairs.  More keep finer relations, but the cells of a pair
hold fewer rows against the same noise.  Tuned: half and twice of it change the three-way error of two tables by +.1 and
+2.4 % (docs/benchmarks/constants.md)."""

DEGREE = 3
"""Default highest degree of the cosines that are measured on ordered columns.  A higher degree shows finer relations, but
asks more products, each with more noise.  A convention of a setting's default: half and twice of it change the three-way
error of two tables by +.3 ± .8 and +.7 ± 1.0 % (docs/benchmarks/constants.md)."""

MOST_ANSWERS = 2**20
"""Most cells of all measured pairs together; pairs of lowest weight are left out beyond it.  A safety limit of memory.
"""

BASES = ("marginals", "trigonometric", "mixed")
"""The values of ``basis``: cell counts of pairs, products of cosines, or for each pair what suits it."""

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class L1Fit(HasPrivacyCost):
    """Synthetic rows by fitting noisy answers in L1 over a support.

    Costs ``spend``, fixed before any row is read, for the curator's neighbours.

    Parameters
    ----------
    workload
        Marginals or sets of column names; every pair inside one is measured.  Default: all pairs.
    basis
        ``"marginals"``: indicators of pairs of cells.  ``"trigonometric"``: products of two factors, cosines up to
        ``degree`` on ordered columns and indicators on the others.  ``"mixed"``: cosines for pairs of ordered columns,
        indicators for all other pairs.
    degree
        Largest degree of a cosine (default 3); of the bases with cosines.
    support
        Most support points; the whole domain if it has no more, else this number of rows drawn from a junction tree of the
        strongest noisy pairs.
    solver
        ``"lp"``, the linear program over columns of multiplicative weights, which ``"auto"`` stands for; ``"mw"``, these
        columns alone; ``"sifting"``, the bare program, whose optimum fits the noise.
    spend
        The whole cost.
    on_progress
        Called at the start of each stage, with public numbers only.
    pull
        Price of the relative entropy to the support's prior weights; 0 for none, infinite for the prior, ``None`` for
        the price that suits the noise (`synthdp.fit.explicit.problem.pull_of`).

    Raises
    ------
    ParameterError
        If a setting is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame(np.random.default_rng(1).random((1000, 3)) < 0.3, columns=["a", "b", "c"])
    >>> schema = sd.Schema({name: sd.Boolean() for name in table})
    >>> curator = sd.Curator(table, schema=schema, budget=sd.ApproxDP(1.0, 1e-6))
    >>> release = sd.L1Fit(solver="lp").release(curator)
    >>> release.sample(100, random_state=0).shape
    (100, 3)
    """

    workload: Workload | Mapping[Any, float] | WorkloadSpec | None = None
    basis: Literal["marginals", "trigonometric", "mixed"] = "marginals"
    degree: int | None = None
    support: int = 30_000
    solver: str = "auto"
    spend: Spend = Remaining()
    on_progress: ProgressCallback = silent
    pull: float | None = None

    def __post_init__(self) -> None:
        check_one_of("basis", self.basis, BASES)
        check_whole("support", self.support)
        if self.degree is not None:
            check_whole("degree", self.degree)
            if self.basis == "marginals":
                raise ParameterError("degree applies to basis 'trigonometric' and 'mixed' only: leave degree out")
        solver_named(self.solver)
        if self.pull is not None:
            check_number("pull", self.pull, least=0, infinite=True)
            if self.solver == BARE:
                raise ParameterError(f"solver {BARE!r} does not use pull: leave pull out")

    def output_schema(self, schema: Schema) -> Schema:
        """Return the schema unchanged: all columns are released.

        Raises
        ------
        ParameterError, SchemaError
            If the workload names a column that the schema lacks, or the schema's rules contradict each other.  Also if
            a solver is named and the workload has no pair to solve for.
        """
        workload = workload_of(self.workload, schema.names)
        if self.solver != AUTO and not _pairs(workload, len(schema)):
            raise ParameterError(
                f"solver {self.solver!r} applies to pairs of columns only, and the workload has none: leave solver out"
            )
        check_rules(schema)
        return schema

    def prepare(self, curator: Curator) -> None:
        """Raise an error before anything is spent if no noisy answers can be made of this table; see `check_tables`.

        Costs nothing.
        """
        known = ((name, column) for name, column in curator.schema.items() if column.is_complete)
        check_tables(curator, tuple(OneWayTree().first_axis(*one) for one in known), spend=self.spend)

    @salvaged()
    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[SyntheticModel]:
        """Measure the row count, one-ways and pairs, fit weights, and return a model to sample.

        Costs ``spend``, for the curator's neighbours.
        """
        rng = generator(random_state)
        schema = self.output_schema(curator.schema)
        workload = workload_of(self.workload, schema.names)
        loss = curator.cost(self.spend)
        ready(self.solver)
        account = curator.open_account(loss)
        self._progress("one-ways", 0)
        count, budget = count_rows_from(account, BudgetAllocation.of(account), share=COUNT_SHARE)
        total = count.rows
        ways = OneWayTree()
        cells = [len(ways.plain_starts(column)) for column in schema.values()]
        share = one_way_share(cells, budget, total=total) if len(schema) > 1 else budget.share
        plan = ways.suited(budget, share=share / 2, columns=len(schema), total=total)
        columns, budget, first = plan.measure(account, budget, share=share / 2, most=share, total=total)
        measured = count.measurements + first
        refinements = coarsen_columns(schema, columns, total / GROUPS)
        domain = Domain(tuple(refinement.coarse() for refinement in refinements))
        possible = structural_zeros(schema, domain)
        margins = [margin_of(column, refinement) for column, refinement in zip(columns, refinements, strict=True)]
        product = independent(margins, possible)
        distribution: Graphical | Explicit = product
        notes: tuple[str, ...] = ()
        pairs = _affordable(domain, workload)
        if pairs:
            self._progress("pairs", 1)
            answers = self._measure(account, budget, domain, pairs)
            self._progress("fit", 2)
            ones = [coarse_table(*known, j) for j, known in enumerate(zip(columns, refinements, strict=True))]
            misfits = np.array([column.misfits for column in columns])
            noisy = NoisyAverages.of(domain, ones, answers, misfits, total=total)
            candidates = listed(margins, product, possible, self.support)
            if candidates is None:
                tables = (*noisy.tables, *tables_of_products(noisy, domain, total=total))
                tree = tree_of_pairs(tables, domain, possible, total=total)
                candidates = drawn(tree, self.support, rng, origin="rows drawn from a tree of the strongest pairs")
            problem = FitProblem.of_noisy(
                noisy.features(candidates.codes), noisy.averages, noisy.stddev,
                prior=candidates.prior, drawn=candidates.drawn, pull=self.pull,
            )  # fmt: skip
            found = solved(problem, self.solver)
            distribution = Explicit(shape=domain.shape, codes=candidates.codes, weights=found.weights)
            notes = (_note(problem, found, candidates),)
            measured += answers
        model = SyntheticModel.of(schema, domain, distribution, total=total, refinements=refinements)
        receipt = curator.receipt(notes=(*model.notes, *notes))
        return Release(mechanism="L1 fit", output=model, loss=loss, receipt=receipt, measurements=measured)

    def _measure(
        self, account: Curator, budget: BudgetAllocation, domain: Domain, pairs: Sequence[Pair]
    ) -> tuple[Measurements, ...]:
        """Measure pairs as cell counts or as cosines; each kind gets budget in proportion to its number of pairs.

        Costs all of ``budget``, for the curator's neighbours.
        """
        smooth = [pair for pair in pairs if self._is_smooth(domain, pair)]
        cells = [pair for pair in pairs if not self._is_smooth(domain, pair)]
        wanted: list[tuple[LinearQueries, str, int]] = []
        if cells:
            wanted.append((Marginals(domain, tuple(cells)), "marginals of pairs", len(cells)))
        if smooth:
            wanted.append((self._products(domain, smooth), "trigonometric of pairs", len(smooth)))
        each, answers = budget.share / len(pairs), []
        for queries, step, number in wanted:
            part, budget = budget.take(min(each * number, budget.share))
            answers.append(account.measure(queries, spend=part.loss, step=step))
        return tuple(answers)

    def _is_smooth(self, domain: Domain, pair: Pair) -> bool:
        """Return whether a pair is measured by products of cosines rather than by cell counts, as ``basis`` says.

        With the basis "mixed" these are the pairs of two ordered columns, because cosines need an order.
        """
        if self.basis == "mixed":
            return all(domain.axes[j].grid.ordered for j in pair)
        return self.basis == "trigonometric"

    def _products(self, domain: Domain, pairs: Sequence[Pair]) -> TensorBasis:
        """Return the query of cosines of single columns and of products for the given pairs, up to the set degree."""
        wanted, columns = set(pairs), {j for pair in pairs for j in pair}
        terms = [
            term
            for term in mixed_terms(domain, order=2, degree=self.degree or DEGREE)
            if (len(term) == 1 and term[0].column in columns)
            or (len(term) == 2 and (term[0].column, term[1].column) in wanted)
        ]
        return TensorBasis(domain, tuple(terms))

    def _progress(self, stage: str, done: int) -> None:
        """Call the progress callback when a stage begins, after ``done`` of three stages, so that a user can follow."""
        self.on_progress(Progress(stage=stage, done=done, total=3))


def _note(problem: FitProblem, found: FitResult, candidates: Candidates) -> str:
    """Return the receipt's line on the fit: number and origin of support points, price of the prior, solver and result."""
    pull = "" if found.solver == BARE else f", pull {problem.pull:.3g} to the weights of {candidates.prior_of}"
    return f"L1 fit over {len(candidates.codes)} {candidates.origin}{pull}, {found}"


def _pairs(workload: Workload, columns: int) -> list[Pair]:
    """Return the pairs of columns that may be measured: all pairs to which the workload gives weight."""
    return [pair for pair in itertools.combinations(range(columns), 2) if workload.weight(pair) > 0]


def _affordable(domain: Domain, workload: Workload) -> list[Pair]:
    """Return the pairs to measure, sorted: the pairs of highest weight that together have at most `MOST_ANSWERS` cells."""
    pairs = _pairs(workload, len(domain))
    pairs.sort(key=workload.weight, reverse=True)
    cells = np.cumsum([domain.shape[a] * domain.shape[b] for a, b in pairs])
    return sorted(pairs[: int(np.searchsorted(cells, MOST_ANSWERS, side="right"))])
