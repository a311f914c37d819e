"""Synthetic rows by an L1-fitting linear program over an explicit support.

Noisy answers to all pairs of a mixed table (as indicators, as products of cosines and indicators, or each pair as what
suits it), and weights on support points whose answers come near to them.  A vertex of the bare program fits the noise, so
the program also holds the weights near a prior, at a price that the noise sets: see docs/mechanisms/l1-fit.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.checks import check_number, check_one_of
from synthdp.curator.curator import Curator
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.markov_random_field import Graphical
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.fit.explicit.problem import FeatureMatrix, FitProblem, row_weights
from synthdp.fit.explicit.registry import solved, solver_named
from synthdp.fit.explicit.solver import FitResult
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.coarsening import coarse_table, coarsen_columns
from synthdp.mechanisms.adaptive.one_ways import OneWayTree
from synthdp.mechanisms.budget import BudgetAllocation
from synthdp.mechanisms.l1_averages import NoisyAverages
from synthdp.mechanisms.l1_candidates import Candidates, drawn, independent, listed, margin_of, tree_of_pairs
from synthdp.mechanisms.preflight import check_tables
from synthdp.mechanisms.protocol import Spender
from synthdp.mechanisms.row_count import count_rows_from
from synthdp.mechanisms.salvage import salvaged
from synthdp.mechanisms.workload import Wish, Workload, workload_of
from synthdp.privacy.loss import Remaining, Spend
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.queries.marginals import Marginals
from synthdp.queries.protocol import LinearQueries
from synthdp.queries.trigonometric import TensorBasis, mixed_terms
from synthdp.randomness import RandomState, generator
from synthdp.release import Release
from synthdp.sampling.structural_zeros import check_rules, structural_zeros
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat

ROW_COUNT_SHARE = 0.01
ONE_WAY_SHARE = 0.3
GROUPS = 16
"""About how many coarse groups a column gets."""

MOST_ANSWERS = 2**20
"""Most cells of all pairs together; pairs of less weight, or of later columns, are not measured beyond."""

INSENSITIVE, INSENSITIVE_DRAWN = 0.5, 1.0
"""Errors of an answer that cost the fit nothing, in standard deviations: over all possible rows, and over drawn rows, whose
own sampling error is part of the standard deviation."""

BASES = ("marginals", "trigonometric", "mixed")

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class L1Fit(Spender):
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
        Largest degree of a cosine.
    support
        Most support points; the whole domain if it has no more, else so many rows drawn from a junction tree of the
        strongest noisy pairs, or from independent columns where no pair is measured in cells.
    solver
        ``"lp"``, ``"mw"`` or ``"auto"``.
    spend
        The whole cost.
    on_progress
        Called at the start of each stage, with public numbers only.
    pull
        Price of the relative entropy to the support's prior weights; 0 for the bare program, infinite for the prior,
        ``None`` for what the noise says (`pull_of`).

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

    workload: Workload | Mapping[Any, float] | Wish | None = None
    basis: Literal["marginals", "trigonometric", "mixed"] = "marginals"
    degree: int = 3
    support: int = 5000
    solver: str = "auto"
    spend: Spend = Remaining()
    on_progress: ProgressCallback = silent
    pull: float | None = None

    def __post_init__(self) -> None:
        check_one_of("basis", self.basis, BASES)
        if self.degree < 1 or self.support < 1:
            raise ParameterError(f"degree ({self.degree}) and support ({self.support}) must be at least 1")
        if self.pull is not None:
            check_number("pull", self.pull, least=0, infinite=True)
        solver_named(self.solver)

    def output_schema(self, schema: Schema) -> Schema:
        """Return the schema unchanged: all columns are released.

        Raises
        ------
        ParameterError, SchemaError
            If the workload names no column of it, or its rules contradict each other.
        """
        workload_of(self.workload, schema.names)
        check_rules(schema)
        return schema

    def prepare(self, curator: Curator) -> None:
        """Refuse a table of which no noisy answers could be made; see `check_tables`.

        Costs nothing.
        """
        known = ((name, column) for name, column in curator.schema.items() if column.is_complete)
        check_tables(curator, tuple(OneWayTree().first_axis(*one) for one in known), spend=self.spend)

    @salvaged()
    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[SyntheticModel]:
        """Ask the curator, fit, and return a model to sample.

        Costs ``spend``, for the curator's neighbours.
        """
        rng = generator(random_state)
        schema = self.output_schema(curator.schema)
        workload = workload_of(self.workload, schema.names)
        loss = curator.cost(self.spend)
        account = curator.open_account(loss)
        self._progress("one-ways", 0)
        count, budget = count_rows_from(account, BudgetAllocation.of(account), share=ROW_COUNT_SHARE)
        total = count.rows
        share = ONE_WAY_SHARE if len(schema) > 1 else budget.share
        plan = OneWayTree().suited(budget, share=share / 2, columns=len(schema), total=total)
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
            if candidates is None and any(isinstance(one.queries, Marginals) for one in answers):
                tree = tree_of_pairs(noisy.tables, domain, possible, total=total)
                candidates = drawn(tree, self.support, rng, origin="rows drawn from a tree of the strongest pairs")
            elif candidates is None:
                candidates = drawn(product, self.support, rng, origin="rows drawn from independent columns")
            problem = self._problem(noisy, candidates)
            found = solved(problem, self.solver)
            distribution = Explicit(shape=domain.shape, codes=candidates.codes, weights=found.weights)
            notes = (_note(problem, found, candidates),)
            measured += answers
        model = SyntheticModel(
            schema=schema, domain=domain, distribution=distribution, refinements=refinements, total=total,
            format=TableFormat.default(schema),
        )  # fmt: skip
        receipt = curator.receipt(notes=(*model.notes, *notes))
        return Release(mechanism="L1 fit", output=model, loss=loss, receipt=receipt, measurements=measured)

    def _measure(
        self, account: Curator, budget: BudgetAllocation, domain: Domain, pairs: Sequence[Pair]
    ) -> tuple[Measurements, ...]:
        """Measure the pairs, those in cells and those in cosines each with a share by their number.

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
        if self.basis == "mixed":
            return all(domain.axes[j].grid.ordered for j in pair)
        return self.basis == "trigonometric"

    def _products(self, domain: Domain, pairs: Sequence[Pair]) -> TensorBasis:
        wanted, columns = set(pairs), {j for pair in pairs for j in pair}
        terms = [
            term
            for term in mixed_terms(domain, order=2, degree=self.degree)
            if (len(term) == 1 and term[0].column in columns)
            or (len(term) == 2 and (term[0].column, term[1].column) in wanted)
        ]
        return TensorBasis(domain, tuple(terms))

    def _problem(self, noisy: NoisyAverages, candidates: Candidates) -> FitProblem:
        A = noisy.features(candidates.codes)
        insensitive = INSENSITIVE * noisy.stddev
        if candidates.drawn:
            spread = np.maximum((A * A) @ candidates.prior - (A @ candidates.prior) ** 2, 0.0)
            insensitive = INSENSITIVE_DRAWN * np.sqrt(noisy.stddev**2 + spread / candidates.drawn)
        return FitProblem(
            A=A,
            b=noisy.averages,
            stddev=noisy.stddev,
            prior=candidates.prior,
            insensitive=insensitive,
            pull=pull_of(A, noisy.stddev, together=candidates.drawn > 0) if self.pull is None else self.pull,
        )

    def _progress(self, stage: str, done: int) -> None:
        self.on_progress(Progress(stage=stage, done=done, total=3))


def pull_of(A: FeatureMatrix, stddev: FloatArray, *, together: bool) -> float:
    """Return the price of the relative entropy at which no weight moves further than noisy answers could tell.

    At the optimum the weight of a point is its prior times exp(A'θ), up to a common factor and to the pieces of the
    entropy, with |θ| <= r / pull.  A share is known between the noise and 1, so a factor beyond 1 / noise is never
    supported.

    Parameters
    ----------
    A
        (k, m) features of the support points.
    stddev
        (k,) noise in the averages; the largest counts.
    together
        Whether all answers together may move a weight by that factor, max over points of sum r |A| / pull =
        log(1 / noise): for a prior that knows relations between columns.  Otherwise each answer alone may, max r |A| /
        pull = log(1 / noise): for independent columns.

    Returns
    -------
    0 without noise, and infinite where the noise is as large as the table.
    """
    noise = float(stddev.max())
    if noise == 0:
        return 0.0
    if noise >= 1:
        return math.inf
    r = row_weights(stddev)
    sizes: Any = abs(A)
    moved = (r @ sizes).max() if together else (r * sizes.max(axis=1)).max()
    return float(moved) / math.log(1 / noise)


def _note(problem: FitProblem, found: FitResult, candidates: Candidates) -> str:
    """Return a line for the receipt: solver, objective, gap."""
    return (
        f"L1 fit by {found.solver} over {len(candidates.codes)} {candidates.origin}: objective {found.objective:.6f} "
        f"(misfit {problem.misfit(found.weights):.6f} + {problem.pull:.3f} x relative entropy to the "
        f"{'drawn' if candidates.drawn else 'independent'} weights), gap {found.gap:.6f}. {found.status.value}"
    )


def _affordable(domain: Domain, workload: Workload) -> list[Pair]:
    """Return the pairs that matter, those that matter most first, as many as have `MOST_ANSWERS` cells together."""
    pairs = [p for p in itertools.combinations(range(len(domain)), 2) if workload.weight(p) > 0]
    pairs.sort(key=workload.weight, reverse=True)
    cells = np.cumsum([domain.shape[a] * domain.shape[b] for a, b in pairs])
    return sorted(pairs[: int(np.searchsorted(cells, MOST_ANSWERS, side="right"))])
