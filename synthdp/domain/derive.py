"""The values of derived columns, and which grid points of modelled ones lead to some of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, GridIndices
from synthdp.domain.encoder import Labels, Numbers, RawColumn, decode, encode
from synthdp.domain.grid import grid_of
from synthdp.errors import ParameterError
from synthdp.schema.column import Column, Steps
from synthdp.schema.derived import Derived, compute, lookup
from synthdp.schema.schema import Schema


def derive(schema: Schema, rule: Derived, raw: Mapping[str, RawColumn]) -> RawColumn:
    """Compute a derived column from the columns it depends on, by its rule.

    Parameters
    ----------
    schema
        The schema that declares the derived column.
    rule
        The rule that computes the column.
    raw
        The columns that it is computed from.
    """
    column = schema.outputs[rule.column]
    if rule.expression is None:
        return _looked_up(rule, column, raw[str(rule.of)])
    numbers = {name: raw[name] for name in rule.sources}
    values = {name: one.values for name, one in numbers.items() if isinstance(one, Numbers)}
    missing = np.logical_or.reduce([one.gone for one in numbers.values()])
    found = compute(rule, values, column)
    return Numbers(found, missing if missing.any() else None)


def followed(schema: Schema, name: str) -> tuple[str, GridIndices]:
    """Return the modelled column from which a column ``name`` is looked up, and where its grid points lead.

    The second result holds the grid index of ``name`` for each releasable grid point of the modelled column,
    (releasable,). With it a condition on a derived column becomes a condition on a modelled column. A modelled column
    leads to itself.

    Raises
    ------
    ParameterError
        If there is no such column, or it is computed by an expression.
    """
    if name not in schema.outputs:
        raise ParameterError(f"there is no column {name!r}; the schema has: {', '.join(schema.outputs)}")
    if name in schema:
        return name, np.arange(grid_of(schema[name]).releasable, dtype=np.uint32)
    rule = schema.derived[name]
    if rule.expression is not None:
        raise ParameterError(
            f"column {name!r} is not modelled but computed in each row, as {rule.expression}: name the columns "
            "of this expression instead"
        )
    column, of = schema.outputs[name], str(rule.of)
    source, indices = followed(schema, of)
    return source, encode(column, _looked_up(rule, column, decode(schema.outputs[of], indices)))


def leading_to(schema: Schema, name: str, wanted: BoolArray) -> BoolArray:
    """Return which grid points of a modelled column lead to the wanted values of a column that is looked up from it.

    So a condition on the looked-up column is answered from the modelled column; see `followed`.

    Parameters
    ----------
    schema, name
        The column.
    wanted
        Mask of the wanted grid points, among the points that a released row may have.

    Returns
    -------
    A mask of the modelled column's releasable grid points, (its releasable,).
    """
    return np.asarray(wanted[followed(schema, name)[1]])


def _looked_up(rule: Derived, column: Column, source: RawColumn) -> RawColumn:
    """Return a derived column's values, looked up in its rule's table by the values of its source."""
    if isinstance(source, Labels):
        given, codes = source.levels, source.codes
    else:
        missing = source.gone
        values, codes = np.unique(np.where(missing, 0, source.values), return_inverse=True)
        given, codes = values.tolist(), np.where(missing, -1, codes)
    table = [*(lookup(rule, value) for value in given), lookup(rule, None)]
    known = [value for value in dict.fromkeys(table) if value is not None]
    number = {value: place for place, value in enumerate(known)}
    place: AnyArray = np.array([-1 if value is None else number[value] for value in table])[codes]
    if column.labelled:
        return Labels(known, place)
    kind, support = np.int64 if column.whole else np.float64, column.support()
    if isinstance(support, Steps):  # exactly: a listed value may differ by rounding errors
        known = [support.held(value) for value in known]
    numbers: Any = np.array([*known, 0], kind)
    return Numbers(numbers[place], place < 0 if (place < 0).any() else None)
