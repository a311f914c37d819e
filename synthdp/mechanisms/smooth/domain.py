"""Where smooth queries live: the ordered columns of a schema on fine axes, and the number of rows.

Shared first steps of the smooth-query mechanisms; programs that ask the curator and see no row.
"""

from __future__ import annotations

from dataclasses import dataclass

from synthdp.curator.curator import Curator
from synthdp.domain.discretize import axis_of
from synthdp.domain.domain import Domain
from synthdp.domain.grid import has_order
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements
from synthdp.queries.total import Total
from synthdp.schema.schema import Schema

CELLS = 2**15
"""Default cells per column on which the private table is read: a point is off by at most 2^-15."""


@dataclass(frozen=True, slots=True, eq=False)
class RowCount:
    """How many rows there are, as far as the public may know.

    Costs nothing: what `count_rows` returned.

    Parameters
    ----------
    rows
        The exact public number, or an estimate of at least 1.
    stddev
        Of the estimate; 0 where the number is public.
    measurements
        What was measured for it.
    """

    rows: float
    stddev: float
    measurements: tuple[Measurements, ...]


def count_rows(account: Curator, domain: Domain, *, share: float) -> RowCount:
    """Return the number of rows: public under replace_one, measured with a share of the account under add_remove.

    Costs ``share`` of the account's budget under add_remove; nothing under replace_one.
    """
    if account.adjacency.rows_are_public:
        return RowCount(float(max(1, account.rows)), 0.0, ())
    total = account.measure(Total(domain), spend=account.budget.fraction(share), step="number of rows")
    return RowCount(max(1.0, float(total.answers[0])), total.stddev, (total,))


def ordered_columns(schema: Schema, columns: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the columns to use: those named, or all that have an order.  Costs nothing: public.

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
    """Return axes of at most ``cells`` equal cells over some ordered columns.  Costs nothing: public."""
    return Domain(tuple(axis_of(name, schema[name], bins=cells) for name in columns))


def check_share(name: str, share: float) -> None:
    """Raise ParameterError unless a share lies strictly between 0 and 1.  Costs nothing: arithmetic."""
    if not 0 < share < 1:
        raise ParameterError(f"{name} ({share}) must be above 0 and below 1")
