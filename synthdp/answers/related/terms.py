"""Meaning of the names in a question about several tables: columns, numbers of child rows, and summaries.

``column`` or ``table.column`` is a column.  ``visits.rows`` is the number of rows of ``visits`` that belong to a row of
its parent.  ``visits.cost.mean`` is the mean of a number over these rows.  The module uses public facts only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthdp.answers.expressions import Node, comparisons_of, points_where, truth
from synthdp.arrays import BoolArray
from synthdp.domain.axis import Axis
from synthdp.domain.domain import axis_of, finest_axis
from synthdp.domain.grid import grid_of
from synthdp.domain.histories import BINS, Layout, axis_of_column
from synthdp.errors import ParameterError
from synthdp.schema.column import Column
from synthdp.schema.columns import Integer
from synthdp.schema.schema import Schema

ROWS = "rows"
"""Word for the number of child rows in names, as in ``visits.rows``."""

SUMMARIES = ("sum", "mean", "min", "max", "first", "last")
"""Words for summaries of child rows in names, as in ``visits.cost.mean``."""


@dataclass(frozen=True, slots=True)
class Term:
    """Holds the meaning of a name in a question (a term): a column, a number of child rows, or a summary of child rows.

    Parameters
    ----------
    table
        Position of the table that has one value of the term per row.
    name
        The name of the column.
    child
        Position of the table whose rows are counted or summarised; -1 for a plain column.
    summary
        One of `SUMMARIES`, or `ROWS`; empty for a plain column.
    """

    table: int
    name: str
    child: int = -1
    summary: str = ""


def term_of(layout: Layout, name: str) -> Term:
    """Return the meaning of a name in a question.

    Raises
    ------
    ParameterError
        If the name is unknown or ambiguous.
    """
    schema = layout.schema
    owners = [i for i, table in enumerate(schema.names) if name in schema.tables[table].outputs]
    if len(owners) > 1:
        some = " and ".join(f"'{schema.names[i]}.{name}'" for i in owners[:2])
        raise ParameterError(f"column {name!r} occurs in several tables: write {some}, with the name of the table")
    if owners:
        return _column(layout, owners[0], name)
    for i, table in enumerate(schema.names):
        rest = name.removeprefix(f"{table}.")
        if rest == name:
            continue
        if rest in schema.tables[table].outputs:
            return _column(layout, i, rest)
        column, _, summary = rest.rpartition(".")
        above = layout.tables[i].parent
        if above >= 0 and rest == ROWS:
            return Term(above, f"#{table}", i, ROWS)
        if above >= 0 and summary in SUMMARIES and column in schema.tables[table].outputs:
            _column(layout, i, column)
            return _summary(layout, i, column, summary)
        raise ParameterError(f"{name!r} is no column of table {table!r}, which has: {_names(layout, i)}")
    known = "; ".join(f"{table}: {', '.join(schema.tables[table].outputs)}" for table in schema.names)
    raise ParameterError(f"there is no column {name!r}; the schema has: {known}")


def column_of(layout: Layout, term: Term) -> Column:
    """Return the declaration of a term's column, or of a number of child rows."""
    if term.summary == ROWS:
        return Integer(0, layout.tables[term.child].at_most)
    return layout.schema.tables[layout.schema.names[term.table]].outputs[term.name]


def points_met(layout: Layout, term: Term, node: Node | None) -> BoolArray:
    """Return a (releasable,) mask of the grid points of a term that meet a condition about this term alone.

    All meet it if ``node`` is ``None``.
    """
    column = column_of(layout, term)
    if node is None:
        return np.ones(grid_of(column).releasable, np.bool_)
    names = {one.column for one in comparisons_of(node)}
    schema = Schema(dict.fromkeys(names, column))
    return truth(node, {one: points_where(one, schema) for one in comparisons_of(node)})


def axis_of_term(layout: Layout, term: Term) -> Axis:
    """Return the bins of a column or of a number of child rows, by which answers are grouped."""
    column = column_of(layout, term)
    if term.summary == ROWS:
        return finest_axis(term.name, column)
    table = layout.tables[term.table]
    if table.standard_periods is not None and term.name == table.period:
        return table.standard_periods
    if term.name in table.axes:
        return axis_of_column(term.name, column)
    return axis_of(term.name, column, bins=BINS)


def deepest(layout: Layout, tables: set[int], *, of: int | None) -> int:
    """Return the position of the lowest of a question's tables, including ``of``; 0 if the question names none.

    Each of its rows is joined with the rows above it.

    Raises
    ------
    ParameterError
        If neither of two tables is above the other.
    """
    every = sorted(tables | ({of} if of is not None else set()), key=lambda i: len(layout.ancestors(i)))
    if not every:
        return 0
    lowest = every[-1]
    for i in every:
        if i != lowest and i not in layout.ancestors(lowest):
            one, two = layout.schema.names[i], layout.schema.names[lowest]
            raise ParameterError(
                f"tables {one!r} and {two!r} cannot be joined, because neither is a child of the other: ask about "
                f"one table and use a summary of the other, such as '{one}.rows'"
            )
    return lowest


def _column(layout: Layout, table: int, name: str) -> Term:
    """Return the meaning of the name of a plain column; raise ParameterError for an identifier or a computed column."""
    schema, one = layout.schema.tables[layout.schema.names[table]], layout.tables[table]
    if schema.outputs[name].names_rows:
        raise ParameterError(
            f"column {name!r} of table {one.name!r} is an identifier, whose labels carry no information: name another column"
        )
    if name in schema and name not in one.axes and name != one.period:
        raise ParameterError(
            f"column {name!r} of table {one.name!r} is computed from other columns: name these columns instead"
        )
    return Term(table, name)


def _summary(layout: Layout, child: int, column: str, summary: str) -> Term:
    """Return the meaning of a name such as ``visits.cost.mean``: a summary of rows of table ``child`` by parent row.

    Raise ParameterError if the column has no such summary.
    """
    table = layout.tables[child]
    kind = layout.schema.tables[table.name].outputs[column]
    if kind.quantity not in ("number", "truth"):
        raise ParameterError(
            f"column {column!r} of table {table.name!r} holds {kind.holds}, which have no {summary}: name a column of "
            "numbers"
        )
    if summary in ("first", "last") and table.period is None:
        raise ParameterError(
            f"the rows of table {table.name!r} have no declared order, so there is no {summary} row: use "
            "another summary"
        )
    return Term(table.parent, column, child, summary)


def _names(layout: Layout, i: int) -> str:
    """Return the names that a question may use for a table, as text for error messages."""
    schema = layout.schema.tables[layout.schema.names[i]]
    return ", ".join([*schema.outputs, *([ROWS] if layout.tables[i].parent >= 0 else [])])
