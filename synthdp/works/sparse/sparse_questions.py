"""General questions as sparse queries: a count under a condition is a sum over the records that meet the condition.

Post-processing. The records are combinations of declared values, listed up to `MAX_SUPPORT`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.answers.answers import MEASURED, MODEL, NORMAL, Answers, with_intervals
from synthdp.answers.expressions import Node, columns_of, comparisons_of, points_where, truth
from synthdp.answers.grouping import by_level
from synthdp.answers.questions import Count, Marginal
from synthdp.errors import ParameterError
from synthdp.mechanisms.workload import asked_of_names
from synthdp.queries.supports import BETWEEN, DENOMINATOR, MAX_SUPPORT, KeyList, SparseQuery, Support, part_of
from synthdp.schema.schema import Schema

if TYPE_CHECKING:
    from synthdp.works.sparse.sparse_table import SparseAnswer


def answered(
    question: Any,
    answer: Callable[[SparseQuery], SparseAnswer],
    *,
    schema: Schema | None,
    columns: tuple[str, ...],
    total: tuple[float, float | None],
) -> Answers:
    """Answer a count, a marginal, a sparse query or a list of sparse queries.

    Each cell of a count or a marginal becomes a sparse query, which the release's ``answer`` estimates.

    Parameters
    ----------
    question
        The question, as `Release.answer` takes it.
    answer
        The function that answers a sparse query.
    schema
        The columns that make up a record; ``None`` in releases of older versions.
    columns
        The names of these columns.
    total
        The number of rows, and the standard deviation of its error or ``None``.

    Raises
    ------
    ParameterError
        If the question is of another kind, or about columns without declared values.
    """
    question = asked_of_names(question) if isinstance(question, str) or _are(question, str) else question
    if isinstance(question, SparseQuery):
        return told([answer(question)])
    if _are(question, SparseQuery):
        return told([answer(one) for one in question], {"query": list(range(len(question)))})
    if isinstance(question, Count) and question.weight is None:
        if question.where is None and not question.by:
            rows, stddev = total
            known = stddev is not None
            return with_intervals(
                {},
                np.array([rows]),
                np.array([stddev if known else math.nan]),
                [MEASURED if known else MODEL],
                lowest=0.0,
            )
        return _counted(question.by, question.where, answer, schema, columns)
    if isinstance(question, Marginal):
        if question.bins:
            raise ParameterError("the cells of a marginal of this release are the declared values: leave bins out")
        return _counted(question.columns, None, answer, schema, columns)
    raise ParameterError(
        "this release answers only sd.count, sd.marginal, and queries made by sparse_conjunction and overlap, not "
        f"{type(question).__name__}"
    )


def told(found: Sequence[SparseAnswer], labels: dict[str, list[Any]] | None = None) -> Answers:
    """Return answers to sparse queries as an `Answers` table with intervals, the form that all releases return.

    An interval has the error bound as half-width where there is one, else the half-width of 95 % confidence under the noise.
    Lower ends are at least 0.
    """
    counts = np.array([one.count for one in found], np.float64)
    stddev = np.array([math.nan if one.stddev is None else one.stddev for one in found], np.float64)
    half = np.array([NORMAL * s if one.error is None else one.error for one, s in zip(found, stddev, strict=True)])
    basis = [MODEL if one.stddev is None and one.error is None else MEASURED for one in found]
    return Answers(
        labels=labels or {}, estimate=counts, stddev=stddev, lower=np.maximum(counts - half, 0.0), upper=counts + half,
        basis=basis,
    )  # fmt: skip


def _are(question: object, kind: type[Any]) -> bool:
    """Return whether an object is a non-empty list or tuple of objects of one class, as a list of queries is."""
    return isinstance(question, (list, tuple)) and bool(question) and all(isinstance(one, kind) for one in question)


def _counted(
    by: Sequence[str],
    where: Node | None,
    answer: Callable[[SparseQuery], SparseAnswer],
    schema: Schema | None,
    columns: tuple[str, ...],
) -> Answers:
    """Return the number of rows that meet ``where`` in each group, as one sparse query per group.

    There is a group for each combination of the ``by`` columns' levels. A release answers sparse queries only.
    """
    if schema is None:
        raise ParameterError(
            "this release was saved by an older version, without its schema: give queries made by "
            "sparse_conjunction or overlap"
        )
    asked = tuple(dict.fromkeys([*by, *sorted(columns_of(where) if where else ())]))
    for name in asked:
        if name not in columns:
            raise ParameterError(f"column {name!r} must be a column of this release: {', '.join(columns)}")
    values = {name: _values(schema, name) for name in columns}
    size = math.prod(len(parts) for parts, _ in values.values())
    if size > MAX_SUPPORT:
        raise ParameterError(
            f"the question is about {size} possible records, and at most {MAX_SUPPORT} can be listed: ask a "
            "sparse_conjunction that fixes more columns in literals"
        )
    shape = [len(values[name][0]) for name in asked]
    holds = np.ones(shape, np.bool_) if where is None else _holds(where, schema, asked, shape)
    found, labels = [], {name: list[Any]() for name in by}
    for group in itertools.product(*(range(len(values[name][0])) for name in by)):
        inside = [cell for cell in np.argwhere(holds).tolist() if tuple(cell[: len(by)]) == group]
        found.append(answer(_listed(inside, asked, values, columns)))
        for name, at in zip(by, group, strict=True):
            labels[name].append(values[name][1][at])
    return told(found, labels)


def _listed(
    cells: Sequence[Sequence[int]],
    asked: Sequence[str],
    values: dict[str, tuple[tuple[str, ...], tuple[Any, ...]]],
    columns: tuple[str, ...],
) -> KeyList:
    """Return a query that is 1 on all records within some cells and 0 elsewhere, to count the records of one group.

    A cell fixes the values of the ``asked`` columns; the other columns take all their values.
    """
    keys: dict[str, None] = {}
    for cell in cells:
        fixed = {name: (values[name][0][at],) for name, at in zip(asked, cell, strict=True)}
        for parts in itertools.product(*(fixed.get(name, values[name][0]) for name in columns)):
            keys[BETWEEN.join(parts)] = None
    return KeyList(columns, Support(keys=tuple(keys), values=np.full(len(keys), DENOMINATOR, np.int64)))


def _holds(where: Node, schema: Schema, asked: Sequence[str], shape: Sequence[int]) -> np.ndarray:
    """Return a mask of the ``asked`` columns' grid points, with ``shape``, that is true where the condition holds.

    Records at these grid points are counted.
    """
    found = {}
    for comparison in comparisons_of(where):
        at = asked.index(comparison.column)
        mask = points_where(comparison, schema)
        found[comparison] = mask.reshape([-1 if i == at else 1 for i in range(len(asked))])
    return np.broadcast_to(truth(where, found), shape)


def _values(schema: Schema, name: str) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return the texts that stand for a column's values in record keys, and the values, in one order, missing last.

    Possible records are listed with both.

    Raise ParameterError for a column without declared values, which cannot be listed.
    """
    column = schema[name]
    if not (column.labelled and column.is_complete):
        raise ParameterError(
            f"column {name!r} has no declared levels, so its values cannot be listed: ask a sparse_conjunction that "
            "fixes its value in literals"
        )
    _, levels = by_level(column)
    return tuple(part_of(level) for level in levels), levels
