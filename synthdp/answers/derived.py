"""Questions about columns that are looked up by a modelled one, as questions about that one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from synthdp.answers.expressions import Both, Comparison, Either, Literal, Node, Not, points_where
from synthdp.answers.grouping import Grouping, groups_of
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
from synthdp.domain.derive import followed, leading_to
from synthdp.domain.domain import axis_of
from synthdp.domain.encoder import Numbers, decode
from synthdp.errors import ParameterError
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.column import Column
from synthdp.schema.schema import Schema


def about_modelled_columns(question: Question, schema: Schema) -> Question:
    """Return a question whose condition names modelled columns only.

    Raises
    ------
    ParameterError
        If it names a column that is computed by an expression, or does not exist.
    """
    if isinstance(question, Share):
        question = replace(question, condition=_modelled(question.condition, schema))
    conditional = (Count, Share, Sum, Mean, Variance, Correlation, Regression, Quantile)
    if isinstance(question, conditional) and question.where is not None:
        return replace(question, where=_modelled(question.where, schema))
    return question


def modelled_column(model: SyntheticModel, name: str) -> tuple[int, Column]:
    """Return the position and the declaration of a modelled column that is no identifier.

    Raises
    ------
    ParameterError
        If it is one, or derived, or does not exist.
    """
    source, _ = followed(model.schema, name)
    if source != name:
        raise ParameterError(f"column {name!r} is looked up by {source!r}: ask about that column")
    column = model.schema[name]
    if column.names_rows:
        raise ParameterError(f"column {name!r} is an identifier: its labels carry no information")
    return model.domain.index(name)[0], column


def grouping_of(model: SyntheticModel, name: str, bins: Bins | None) -> Grouping:
    """Return the groups in which a marginal shows a column; those of a column that is looked up by a modelled one too.

    Raises
    ------
    ParameterError
        If it is an identifier, or computed by an expression, or does not exist.
    """
    source, indices = followed(model.schema, name)
    j, _ = modelled_column(model, source)
    column = model.schema.outputs[name]
    axis = model.domain.axes[j] if source == name else axis_of(name, column)
    groups, labels = groups_of(column, axis, bins)
    return Grouping(column=j, groups=groups[indices], labels=labels, refinement=model.refinements[j])


def _modelled(node: Node, schema: Schema) -> Node:
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
    """Return the values of some grid points of a column of levels or whole numbers, ``None`` for a missing one."""
    raw = decode(column, np.flatnonzero(chosen).astype(np.uint32))
    if isinstance(raw, Numbers):
        gone = np.zeros(len(raw.values), np.bool_) if raw.missing is None else raw.missing
        return [None if missing else value for value, missing in zip(raw.values.tolist(), gone, strict=True)]
    return [None if code < 0 else raw.levels[code] for code in raw.codes.tolist()]
