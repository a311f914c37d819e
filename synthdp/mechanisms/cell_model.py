"""A released table of weights on listed cells: it can be sampled as rows and asked any linear query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthdp.answers.answer import answer_engine
from synthdp.answers.answers import MODEL, Answers as Answered, with_intervals
from synthdp.arrays import Answers, Codes, FloatArray, Weights
from synthdp.codec import file_form
from synthdp.distribution.explicit import Explicit
from synthdp.domain.domain import Domain, check_size, releasable_domain
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements
from synthdp.mechanisms.mechanism import part_of
from synthdp.mechanisms.workload import WorkloadSpec, asked_of_names, check_domain, marginals_on
from synthdp.queries.protocol import LinearQueries, SparseFeatures
from synthdp.sampling.structural_zeros import structural_zeros
from synthdp.sampling.synthetic_model import DrawnFromModel, SyntheticModel
from synthdp.schema.schema import Schema


def check_listed(queries: LinearQueries, schema: Schema) -> Schema:
    """Return the schema of the queries' columns; raise an error if their domain has too many cells to list in memory.

    Raises
    ------
    ParameterError
        If the columns are not the schema's, or their cells are more than `MAX_CELLS`.
    """
    check_domain(queries, schema)
    check_size(queries.domain)
    return part_of(schema, queries.domain.names)


_CHUNK = 4_000_000
"""Most entries of a query matrix held in memory at once.  A safety limit: 32 MB of 64-bit numbers."""


@file_form("CellModel")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellModel(DrawnFromModel):
    """A released distribution given as weights on listed cells of a domain.

    Parameters
    ----------
    model
        The model that draws rows.
    support
        The cells and their weights, which sum to 1.
    total
        Number of rows, exact where it is public, else estimated.
    """

    model: SyntheticModel
    support: Explicit
    total: float

    @classmethod
    def of(cls, schema: Schema, domain: Domain, codes: Codes, weights: Weights, *, total: float) -> CellModel:
        """Return the model of weights on the (m, d) ``codes`` of a domain over some columns of a schema.

        Cells in which no row obeys the rules about these columns get no weight, unless no other cell has any.
        """
        columns = schema.part(domain.names)
        obeying = weights * np.logical_and.reduce(
            [mask[domain.ravel(codes, clique)] for clique, mask in structural_zeros(columns, domain).items()], axis=0
        )
        support = Explicit(shape=domain.shape, codes=codes, weights=obeying if obeying.any() else weights)
        return cls(model=SyntheticModel.of(columns, domain, support, total=total), support=support, total=total)

    def __repr__(self) -> str:
        return f"CellModel({len(self.support.weights)} cells of {len(self.domain)} columns)"

    @property
    def domain(self) -> Domain:
        """The columns and cells that the weights are on."""
        return self.model.domain

    def averages(self, queries: LinearQueries | WorkloadSpec) -> Answers:
        """Return the (k,) averages of queries, or of marginals by the names of their columns, under the weights.

        Raises
        ------
        ParameterError
            If the queries are about other cells.
        """
        visible = releasable_domain(self.domain)
        if not isinstance(queries, LinearQueries):
            queries = marginals_on(queries, self.model.schema, visible)
        if queries.domain.names != visible.names or queries.domain.shape not in (visible.shape, self.domain.shape):
            raise ParameterError("queries must have the columns and cells of the release")
        return weighted_averages(queries, self.support.codes, self.support.weights)

    def answered(self, question: Any, measurements: Sequence[Measurements] = ()) -> Answered:
        """Answer a question as every release does, or a family of queries; see `Release.answer`.

        Of a family each query gets an estimated sum over rows, without error bars. Sets of column names are marginals.
        """
        if isinstance(question, LinearQueries):
            estimate = self.answer(question)
            labels = {"query": list(range(len(estimate)))}
            return with_intervals(labels, estimate, np.full(len(estimate), np.nan), [MODEL] * len(estimate))
        return answer_engine(self.model, tuple(measurements)).ask(asked_of_names(question))

    def answer(self, queries: LinearQueries | WorkloadSpec) -> Answers:
        """Return the (k,) estimated sums over rows: the total times the averages; parameters as in `averages`."""
        return self.total * self.averages(queries)


def weighted_averages(queries: LinearQueries, codes: Codes, weights: FloatArray) -> Answers:
    """Return the (k,) averages of queries over cells, (m, d), with weights, (m,), of sum 1, in bounded memory."""
    if isinstance(queries, SparseFeatures):
        return np.asarray(weights @ queries.sparse_features(codes)) / queries.denominator
    rows = max(1, _CHUNK // queries.k)
    total = np.zeros(queries.k)
    for start in range(0, len(codes), rows):
        total += weights[start : start + rows] @ queries.features(codes[start : start + rows])
    return total / queries.denominator


def design(queries: LinearQueries, codes: Codes) -> Any:
    """Return the (k, m) values of k queries on (m, d) support points, for a linear fit of weights to averages.

    Values are features over the denominator.  The matrix is sparse for marginals, which are 0 in nearly all cells.
    """
    features = queries.sparse_features(codes) if isinstance(queries, SparseFeatures) else queries.features(codes)
    return features.T / queries.denominator
