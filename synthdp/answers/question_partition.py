"""Division of the rows by a question: by the comparisons of its conditions, its grouping columns, and fine bins.

The module does arithmetic on public axes; it uses no noisy answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.answers.expressions import (
    Both,
    Comparison,
    Either,
    Literal,
    Node,
    Not,
    comparisons_of,
    points_where,
    truth,
)
from synthdp.answers.grouping import QuestionBinning, groups_of, numbered, numbers_of, runs_of
from synthdp.answers.one_column import leaf_parts
from synthdp.answers.questions import (
    Bins,
    Correlation,
    Count,
    Mean,
    Quantile,
    Question,
    Regression,
    Share,
    Sum,
    Variance,
)
from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.domain.derive import followed, leading_to
from synthdp.domain.domain import axis_of
from synthdp.domain.encoder import Numbers, decode
from synthdp.errors import ParameterError
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.column import Column
from synthdp.schema.schema import Schema


def about_modelled_columns(question: Question, schema: Schema) -> Question:
    """Return the question with conditions on derived columns replaced by conditions on modelled columns.

    Raises
    ------
    ParameterError
        If a condition names a column that is computed by an expression, or does not exist.
    """
    if isinstance(question, Share):
        question = replace(question, condition=_modelled(question.condition, schema))
    conditional = (Count, Share, Sum, Mean, Variance, Correlation, Regression, Quantile)
    if isinstance(question, conditional) and question.where is not None:
        return replace(question, where=_modelled(question.where, schema))
    return question


def modelled_column(model: SyntheticModel, name: str) -> tuple[int, Column]:
    """Return the position and declaration of a modelled column.

    Raises
    ------
    ParameterError
        If the column is an identifier, or derived, or does not exist.
    """
    source, _ = followed(model.schema, name)
    if source != name:
        raise ParameterError(f"column {name!r} is derived from {source!r}: ask about {source!r} instead")
    column = model.schema[name]
    if column.names_rows:
        raise ParameterError(
            f"column {name!r} is an identifier, whose labels carry no information: name another column"
        )
    return model.domain.index(name)[0], column


def grouping_of(model: SyntheticModel, name: str, bins: Bins | None) -> QuestionBinning:
    """Return the groups of a column in a marginal; the column may be looked up from a modelled column.

    Raises
    ------
    ParameterError
        If the column is an identifier, or computed by an expression, or does not exist.
    """
    source, indices = followed(model.schema, name)
    j, _ = modelled_column(model, source)
    column = model.schema.outputs[name]
    axis = model.domain.axes[j] if source == name else axis_of(name, column)
    groups, labels = groups_of(column, axis, bins)
    return QuestionBinning(column=j, groups=groups[indices], labels=labels, refinement=model.refinements[j])


def _modelled(node: Node, schema: Schema) -> Node:
    """Return a condition in which derived columns are replaced by equivalent conditions on their source columns.

    The model and the noisy tables have bins of source columns only.
    """
    match node:
        case Not(part):
            return Not(_modelled(part, schema))
        case Both(left, right):
            return Both(_modelled(left, schema), _modelled(right, schema))
        case Either(left, right):
            return Either(_modelled(left, schema), _modelled(right, schema))
        case Comparison(name, _, _, position) if name not in schema:
            source, _ = followed(schema, name)
            values = _values_at(schema[source], leading_to(schema, name, points_where(node, schema)))
            listed = Comparison(source, "in", tuple(value for value in values if value is not None), position)
            return Either(listed, Comparison(source, "is null", (), position)) if None in values else listed
    return node


def _values_at(column: Column, chosen: np.ndarray) -> list[Literal]:
    """Return the values of the chosen grid points of a column of categories or integers; ``None`` for missing.

    A condition on a derived column becomes a list of these values of its source column.
    """
    raw = decode(column, np.flatnonzero(chosen).astype(np.uint32))
    if isinstance(raw, Numbers):
        return [None if missing else value for value, missing in zip(raw.values.tolist(), raw.gone, strict=True)]
    return [None if code < 0 else raw.levels[code] for code in raw.codes.tolist()]


MOST_CELLS = 1_000_000
"""Most cells of the table that one question needs.  A safety limit of memory."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuestionPartition:
    """Holds the division of the rows by a question: a table of its columns' groups, and the answer of each cell.

    Parameters
    ----------
    groupings
        The groups of each column, ordered by column.  A column with values has three entries per group: rows, sum of
        values and sum of squares.
    holds
        For each condition, a mask over the table of groups, (groups, ...).
    place
        (groups, ...) position of each cell's answer, -1 for none.
    labels
        By grouping column, the label of each answer.
    size
        Number of answers.
    """

    groupings: tuple[QuestionBinning, ...]
    holds: tuple[BoolArray, ...]
    place: IntArray
    labels: dict[str, list[object]]
    size: int

    def sums(self, table: FloatArray, condition: int = 0) -> FloatArray:
        """Return a table of groups summed over the cells of each answer in which condition number ``condition`` holds.

        Returns
        -------
        One axis for each column whose values the question uses, of its number of powers (0, 1, ...), then (size,).
        """
        powers = [grouping.powers for grouping in self.groupings]
        shape = [n for grouping in self.groupings for n in (grouping.powers, len(grouping.labels))]
        axes = [*range(0, len(shape), 2), *range(1, len(shape), 2)]
        cells = table.reshape(shape).transpose(axes).reshape(math.prod(powers), -1)
        inside = (self.holds[condition] & (self.place >= 0)).ravel()
        place = self.place.ravel()[inside]
        found = [np.bincount(place, row[inside], minlength=self.size) for row in cells]
        return np.reshape(found, [*(n for n in powers if n > 1), self.size])


def partition_for(
    model: SyntheticModel,
    conditions: Sequence[Node | None],
    *,
    values: Mapping[int, float] | None = None,
    leaves_of: int | None = None,
    by: Sequence[str] = (),
) -> QuestionPartition:
    """Return the division of the rows by a question's conditions and groups: the coarsest table that answers it.

    Parameters
    ----------
    model
        The model, whose columns the question names.
    conditions
        Trees of comparisons, or None for all rows.
    values
        By column whose numbers are summed, a number to subtract; rows with a missing value are left out.
    leaves_of
        A column whose fine bins get separate answers, before the groups; rows with a missing value are left out.
    by
        Columns whose groups, as in a marginal, get separate answers.

    Raises
    ------
    ParameterError
        If a column does not support a comparison, or there are more than `MOST_CELLS` cells.
    """
    shifts = values or {}
    comparisons = dict.fromkeys(c for node in conditions if node is not None for c in comparisons_of(node))
    named = {model.domain.index(comparison.column)[0] for comparison in comparisons}
    grouped = {name: grouping_of(model, name, None) for name in by}
    others = () if leaves_of is None else (leaves_of,)
    ordered = sorted({*named, *shifts, *others, *(grouping.column for grouping in grouped.values())})
    groupings: list[QuestionBinning] = []
    found: dict[Comparison, BoolArray] = {}
    place_of: dict[str, IntArray] = {}
    for axis, j in enumerate(ordered):
        name, column = model.domain.names[j], model.schema[model.domain.names[j]]
        along = [-1 if i == axis else 1 for i in range(len(ordered))]
        masks = {c: points_where(c, model.schema) for c in comparisons if c.column == name}
        mine = {name: one.groups for name, one in grouped.items() if one.column == j}
        numbers, there = numbers_of(column)
        fine = model.refinements[j].fine
        own = [leaf_parts(fine)[0]] if j == leaves_of else []
        starts = runs_of(*mine.values(), *masks.values(), there, *own)
        key = own[0][starts].astype(np.int64) if own else np.zeros(len(starts), np.int64)
        for part in mine.values():
            key, _ = numbered(key * (int(part.max()) + 2) + part[starts] + 1)
        for mask in masks.values():
            key, _ = numbered(2 * key + mask[starts])
        left_out = (there[starts] == 0) & (j in shifts or j == leaves_of)
        of_run, first = numbered(np.where(left_out, -1, key))
        groups, first = np.repeat(of_run, np.diff(starts, append=len(there))), starts[first]
        grouping = QuestionBinning(
            column=j, groups=groups, labels=tuple(range(len(first))), refinement=model.refinements[j],
            values=numbers - shifts[j] if j in shifts else None,
        )  # fmt: skip
        groupings.append(grouping)
        found |= {comparison: mask[first].reshape(along) for comparison, mask in masks.items()}
        place_of |= {named_by: part[first].reshape(along) for named_by, part in mine.items()}
        if j == leaves_of:
            leaf = np.arange(len(first)).reshape(along)
    shape = [len(grouping.labels) for grouping in groupings]
    if math.prod(shape) > MOST_CELLS:
        raise ParameterError("this question divides its columns too finely: ask with fewer columns or comparisons")
    place = np.zeros(shape, np.int64) + (0 if leaves_of is None else leaf)
    labels: dict[str, list[object]] = {}
    counts = [len(grouped[name].labels) for name in by]
    each = np.indices(counts).reshape(len(by), math.prod(counts))
    nowhere = np.zeros(shape, np.bool_)
    for name, row in zip(by, each, strict=True):
        place = place * len(grouped[name].labels) + place_of[name]
        nowhere = nowhere | (place_of[name] < 0)
        labels[name] = [grouped[name].labels[g] for g in row]
    holds = [np.ones(shape, np.bool_) if node is None else truth(node, found) for node in conditions]
    size = each.shape[1] * (1 if leaves_of is None else shape[ordered.index(leaves_of)])
    return QuestionPartition(
        groupings=tuple(groupings), holds=tuple(np.broadcast_to(one, shape) for one in holds),
        place=np.where(nowhere, -1, place), labels=labels, size=size,
    )  # fmt: skip
