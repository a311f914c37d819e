"""What the weight-based sparse mechanisms release: public weights that answer any sparse query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthdp.answers.answers import Answers as Answered
from synthdp.arrays import FloatArray, IntArray
from synthdp.codec import file_form
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements
from synthdp.queries.supports import SparseQuery, Support
from synthdp.schema.schema import Schema
from synthdp.works.sparse.answer import Origin, SparseAnswer
from synthdp.works.sparse.questions import answered
from synthdp.works.sparse.sparse_table import SparseTable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightTarget:
    """A noisy answer that the weights were moved to.

    Parameters
    ----------
    place
        (m,) positions of the query's keys in the weights.
    values
        (m,) the query's values there.
    target
        The noisy mean.
    """

    place: IntArray
    values: FloatArray
    target: float


@file_form("SparseModel")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseModel:
    """Public weights on record keys.

    Parameters
    ----------
    columns
        Columns whose values make up the key.
    table
        The weights.
    total
        Number of rows, public or estimated.
    error
        Bound in rows on the error of answers to the queries that were checked, or ``None``.
    schema, total_stddev
        The columns, and the standard deviation of the number of rows; ``None`` in files from before they were kept.
    """

    columns: tuple[str, ...]
    table: SparseTable
    total: float
    error: float | None = None
    schema: Schema | None = None
    total_stddev: float | None = None

    def __repr__(self) -> str:
        return f"SparseModel({self.table!r}, about {self.total:.0f} rows)"

    @property
    def weights(self) -> Mapping[str, float]:
        """Normalised weight of every key that was asked about."""
        return dict(zip(self.table.place, self.table.touched_weights.tolist(), strict=True))

    def answered(self, question: Any, measurements: Sequence[Measurements] = ()) -> Answered:  # noqa: ARG002
        """Answer a sparse query, several, a count or a marginal, as every release does; see `Release.answer`."""
        return answered(
            question, self.answer, schema=self.schema, columns=self.columns, total=(self.total, self.total_stddev)
        )

    def answer(self, query: SparseQuery) -> SparseAnswer:
        """Answer a sparse query.

        Raises
        ------
        ParameterError
            If it is about other columns.
        """
        check_query(query, self.columns)
        mean = self.table.expectation(query.support())
        return SparseAnswer(count=mean * self.total, total=self.total, stddev=None, error=None, origin=Origin.RELEASED)


def check_query(query: SparseQuery, columns: tuple[str, ...]) -> None:
    """Refuse what is no sparse query, or one about other columns than these."""
    if not isinstance(query, SparseQuery):
        raise ParameterError(
            f"this release answers sparse queries, as sparse_conjunction and overlap make them, not {type(query).__name__}"
        )
    if query.columns != columns:
        raise ParameterError(
            f"the query is about {', '.join(query.columns)}, and must be about {', '.join(columns)}, in this order"
        )


def replay(table: SparseTable, measured: list[WeightTarget], *, sweeps: int, rows: float) -> None:
    """Project the weights on all noisy answers in turn, the latest first, so that earlier ones still hold.

    Parameters
    ----------
    table
        The weights, changed in place.
    measured
        All answers so far.
    sweeps
        How many times round.
    rows
        Number of rows: no mean is taken for less than half a row, or more than all but half a row.
    """
    least = 0.5 / max(rows, 1.0)
    for _ in range(sweeps):
        for one in reversed(measured):
            table.project(one.place, one.values, target=min(max(one.target, least), 1 - least))


def touched(table: SparseTable, support: Support, *, target: float) -> WeightTarget:
    """Return a noisy answer with its query's keys placed in the table.

    Raises
    ------
    MechanismFailure
        If slots run out.
    """
    return WeightTarget(place=table.touch(support), values=np.asarray(support.weights), target=target)
