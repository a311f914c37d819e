"""Where smooth queries live: the ordered columns of a schema on fine axes."""

from __future__ import annotations

from synthdp.domain.discretize import axis_of
from synthdp.domain.domain import Domain
from synthdp.domain.grid import has_order
from synthdp.errors import ParameterError
from synthdp.schema.schema import Schema

CELLS = 2**15
"""Default cells per column on which the private table is read: a point is off by at most 2^-15."""


def ordered_columns(schema: Schema, columns: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the columns to use: those named, or all that have an order.

    Raises
    ------
    ParameterError
        If there is none, one does not exist, or one has no order.
    """
    ordered = tuple(name for name, column in schema.items() if has_order(column))
    chosen = ordered if columns is None else tuple(dict.fromkeys(columns))
    wrong = [name for name in chosen if name not in ordered]
    if wrong:
        raise ParameterError(f"column {wrong[0]!r} must be an ordered column of the schema: {', '.join(ordered)}")
    if not chosen:
        raise ParameterError("the schema has no numeric or ordinal column: smooth queries need one")
    return chosen


def smooth_domain(schema: Schema, columns: tuple[str, ...], *, cells: int = CELLS) -> Domain:
    """Return axes of at most ``cells`` equal cells over some ordered columns."""
    return Domain(tuple(axis_of(name, schema[name], bins=cells) for name in columns))
