"""Synthetic rows by an L1-fitting linear program over an explicit support.

The smooth-query papers' own fit, for any basis: noisy answers to all pairs of a mixed table (as indicators, or as products
of cosines and indicators), and weights on support points whose answers come nearest to them.  The support is all rows that
obey the rules of the schema where these are few, else such rows drawn from the product of the noisy one-way marginals:
candidates, not the solver, decide the accuracy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from synthdp.arrays import Answers, BoolArray, Clique, Codes, FloatArray
from synthdp.checks import check_one_of
from synthdp.curator.curator import Curator
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.junction_tree import junction_tree
from synthdp.distribution.markov_random_field import Graphical
from synthdp.domain.domain import Domain
from synthdp.domain.refinement import Refinement
from synthdp.errors import InternalError, ParameterError
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.registry import solved, solver_named
from synthdp.fit.misfits import answers_without_misfits, averages_without_misfits, noisy_tables
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.coarsening import coarsen_columns
from synthdp.mechanisms.adaptive.column_tree import OneWay
from synthdp.mechanisms.adaptive.one_ways import OneWayTree
from synthdp.mechanisms.budget import BudgetAllocation
from synthdp.mechanisms.design import design
from synthdp.mechanisms.protocol import Spender
from synthdp.mechanisms.row_count import count_rows_from
from synthdp.mechanisms.workload import Wish, Workload, workload_of
from synthdp.privacy.loss import Remaining, Spend
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.queries.marginals import Marginals
from synthdp.queries.protocol import LinearQueries
from synthdp.queries.smooth.trigonometric import TensorBasis, mixed_terms
from synthdp.randomness import Generator, RandomState, generator
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

LEAST_MARGIN = 1e-6
"""Share of a cell that the noisy one-ways leave nothing: the rules may leave no other."""


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
        ``degree`` on ordered columns and indicators on the others.
    degree
        Largest degree of a cosine.
    support
        Most support points; the whole domain if it has no more, else so many rows drawn from the product fit.
    solver
        ``"lp"``, ``"mw"`` or ``"auto"``.
    spend
        The whole cost.
    on_progress
        Called at the start of each stage, with public numbers only.

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
    basis: Literal["marginals", "trigonometric"] = "marginals"
    degree: int = 3
    support: int = 5000
    solver: str = "auto"
    spend: Spend = Remaining()
    on_progress: ProgressCallback = silent

    def __post_init__(self) -> None:
        check_one_of("basis", self.basis, ("marginals", "trigonometric"))
        if self.degree < 1 or self.support < 1:
            raise ParameterError(f"degree ({self.degree}) and support ({self.support}) must be at least 1")
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
        columns, budget, first = OneWayTree().measure(account, budget, share=share / 2, most=share, total=total)
        measured = count.measurements + first
        refinements = coarsen_columns(schema, columns, total / GROUPS)
        domain = Domain(tuple(refinement.coarse() for refinement in refinements))
        possible = structural_zeros(schema, domain)
        product = _product([_margin(c, r) for c, r in zip(columns, refinements, strict=True)], possible)
        distribution: Graphical | Explicit = product
        pairs = _affordable(domain, workload)
        if pairs:
            self._progress("pairs", 1)
            queries = self._queries(domain, pairs)
            answers = account.measure(queries, spend=budget.loss, step=f"{self.basis} of pairs")
            self._progress("fit", 2)
            support = _support(product, possible, self.support, rng)
            distribution = self._fit(*_averages(answers, columns, total), queries, support)
            measured += (answers,)
        model = SyntheticModel(
            schema=schema, domain=domain, distribution=distribution, refinements=refinements, total=total,
            format=TableFormat.default(schema),
        )  # fmt: skip
        receipt = curator.receipt(notes=model.notes)
        return Release(mechanism="L1 fit", output=model, loss=loss, receipt=receipt, measurements=measured)

    def _queries(self, domain: Domain, pairs: Sequence[tuple[int, int]]) -> LinearQueries:
        if self.basis == "marginals":
            return Marginals(domain, tuple(pairs))
        wanted = set(pairs)
        terms = [
            term
            for term in mixed_terms(domain, order=2, degree=self.degree)
            if len(term) == 1 or (term[0].column, term[1].column) in wanted
        ]
        return TensorBasis(domain, tuple(terms))

    def _fit(self, averages: Answers, stddev: FloatArray, queries: LinearQueries, support: Codes) -> Explicit:
        problem = FitProblem(A=design(queries, support), b=averages, stddev=stddev)
        return Explicit(shape=queries.domain.shape, codes=support, weights=solved(problem, self.solver).weights)

    def _progress(self, stage: str, done: int) -> None:
        self.on_progress(Progress(stage=stage, done=done, total=3))


def _affordable(domain: Domain, workload: Workload) -> list[tuple[int, int]]:
    """Return the pairs that matter, those that matter most first, as many as have `MOST_ANSWERS` cells together."""
    pairs = [p for p in itertools.combinations(range(len(domain)), 2) if workload.weight(p) > 0]
    pairs.sort(key=workload.weight, reverse=True)
    cells = np.cumsum([domain.shape[a] * domain.shape[b] for a, b in pairs])
    return sorted(pairs[: int(np.searchsorted(cells, MOST_ANSWERS, side="right"))])


def _averages(answers: Measurements, columns: Sequence[OneWay], total: float) -> tuple[Answers, FloatArray]:
    """Return the averages that a table without misfits would have, and the noise in each, (k,) each."""
    queries, misfits = answers.queries, np.array([column.misfits for column in columns])
    if isinstance(queries, TensorBasis):
        averages, scale = averages_without_misfits(queries, answers.answers / total, misfits / total)
        return averages, answers.stddev / total * scale
    if not isinstance(queries, Marginals):
        raise InternalError("the pairs must be measured as tables or as products")
    tables = noisy_tables(queries, answers.answers, answers.stddev)
    counts, stddev = answers_without_misfits(queries, tables, misfits, total=total)
    return counts / total, stddev / total


def _margin(column: OneWay, refinement: Refinement) -> FloatArray:
    mass = np.bincount(refinement.coarse_cell, weights=column.weights)
    releasable = refinement.coarse().releasable
    return np.where(releasable, mass / mass.sum() if mass.sum() > 0 else 1 / releasable.sum(), 0.0)


def _product(margins: Sequence[FloatArray], possible: Mapping[Clique, BoolArray]) -> Graphical:
    """Return independent columns with these margins, given that only possible combinations occur."""
    masks = {clique: np.where(mask, 0.0, -np.inf) for clique, mask in possible.items()}
    for j, margin in enumerate(margins):  # impossible cells of one column are masked too: a floor everywhere is safe
        masks[(j,)] = masks.get((j,), 0.0) + np.log(np.maximum(margin, LEAST_MARGIN))
    return Graphical.calibrated(junction_tree(tuple(len(margin) for margin in margins), [*masks]), masks)


def _support(product: Graphical, possible: Mapping[Clique, BoolArray], most: int, rng: Generator) -> Codes:
    """Return all possible rows if they are few, leaving out cells without mass, or distinct rows of the product."""
    likely = [np.flatnonzero(product.marginal((j,)) > 2 * LEAST_MARGIN) for j in range(len(product.shape))]
    if math.prod(len(cells) for cells in likely) <= most:
        rows = np.array(list(itertools.product(*likely)), np.int64)
        for clique, mask in possible.items():
            shape = tuple(product.shape[j] for j in clique)
            rows = rows[mask[np.ravel_multi_index(tuple(rows[:, list(clique)].T), shape)]]
        if len(rows):
            return rows
    return np.unique(product.sample(most, rng), axis=0)
