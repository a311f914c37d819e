"""The names in a question about several tables: what each means, and its values for every row of synthetic persons.

``column`` or ``table.column`` is a column.  ``visits.rows`` is the number of rows of ``visits`` that belong to a row of
its parent.  ``visits.cost.mean`` is the mean of a number over these rows.  The meaning depends on public facts only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from synthdp.answers.expressions import Comparison, Node, compared, comparisons_of, points_where, truth
from synthdp.answers.grouping import groups_of, numbers_of
from synthdp.answers.questions import Bins
from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.derive import followed, leading_to
from synthdp.domain.domain import axis_of, finest_axis
from synthdp.domain.grid import grid_of
from synthdp.domain.histories import BINS, Layout, axis_of_column
from synthdp.domain.history_rules import ends_of_points
from synthdp.errors import InternalError, ParameterError
from synthdp.queries.persons import Persons
from synthdp.randomness import Generator
from synthdp.sampling.database_model import DatabaseModel
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


@dataclass(slots=True, eq=False)
class Drawn:
    """Holds persons drawn from a model, and the values of their rows inside bins, drawn when needed.

    Parameters
    ----------
    model
        The model that the persons were drawn from.
    persons
        The persons with all rows, as bins.
    rng
        Source of the values inside bins, which are drawn once per column.
    """

    model: DatabaseModel
    persons: Persons
    rng: Generator
    _indices: dict[tuple[int, str], IntArray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.persons)

    def rows(self, table: int) -> int:
        """Return the number of rows of a table."""
        return len(self.persons.tables[table])

    def places(self, table: int, above: int) -> IntArray:
        """Return the position of each row's ancestor in table ``above``, (rows,).

        It is the row's own position if ``above`` is the row's table.
        """
        if table == above:
            return np.arange(self.rows(table))
        return self.persons.ancestor(table, above)

    def indices(self, table: int, column: str) -> IntArray:
        """Return the grid point of each row in a modelled column, (rows,)."""
        if (table, column) not in self._indices:
            found = self.model.grid_indices(self.persons, table, column, self.rng)
            self._indices[table, column] = found.astype(np.int64)
        return self._indices[table, column]

    def with_indices(self, table: int, column: str, indices: IntArray) -> Drawn:
        """Return the same persons with other values of one column, given by the grid point of each row, (rows,)."""
        return replace(self, _indices={**self._indices, (table, column): indices})

    def numbers(self, term: Term) -> tuple[FloatArray, BoolArray]:
        """Return the number that a term has in each row of its table, and whether the row has one, (rows,) each."""
        if term.child >= 0 and term.summary != ROWS:
            return self._summary(term)
        column = column_of(self.model.layout, term)
        if term.summary == ROWS:
            return self._count(term).astype(np.float64), np.ones(self.rows(term.table), np.bool_)
        schema = self._schema(term)
        source, _ = followed(schema, term.name)
        if source != term.name:
            raise ParameterError(f"column {term.name!r} is derived from {source!r}: ask about {source!r} instead")
        values, there = numbers_of(column)
        indices = self.indices(term.table, term.name)
        return values[indices], there[indices].astype(np.bool_)

    def groups(self, term: Term, bins: Bins | None) -> tuple[IntArray, tuple[object, ...]]:
        """Return the group of each row of the term's table, (rows,), -1 for none, and the groups' labels."""
        if term.child >= 0 and term.summary != ROWS:
            name = f"{self.model.schema.names[term.child]}.{term.name}"
            raise ParameterError(
                f"rows cannot be grouped by the {term.summary} of {name!r}: count the rows whose {term.summary} of "
                f"{name!r} lies in a range instead"
            )
        column = column_of(self.model.layout, term)
        groups, labels = groups_of(column, axis_of_term(self.model.layout, term), bins)
        if term.summary == ROWS:
            return groups[self._count(term)], labels
        source, leads = followed(self._schema(term), term.name)
        return groups[leads][self.indices(term.table, source)], labels

    def holds(self, comparison: Comparison, term: Term) -> BoolArray:
        """Return which rows of the term's table satisfy a comparison, (rows,)."""
        if term.child >= 0 and term.summary != ROWS:
            values, there = self._summary(term)
            return compared(comparison, values, there)
        met = points_where(comparison, Schema({comparison.column: column_of(self.model.layout, term)}))
        if term.summary == ROWS:
            return np.asarray(met[self._count(term)])
        schema = self._schema(term)
        source, _ = followed(schema, term.name)
        return np.asarray(leading_to(schema, term.name, met)[self.indices(term.table, source)])

    def _schema(self, term: Term) -> Schema:
        """Return the schema of a term's table, which holds the columns and derived columns that the term may name."""
        schema = self.model.schema
        return schema.tables[schema.names[term.table]]

    def _count(self, term: Term) -> IntArray:
        """Return the number of rows of the term's child table below each row of the term's table, (rows,).

        A name such as ``visits.rows`` in a question means this number.
        """
        below = self.persons.tables[term.child]
        return np.bincount(below.parent, minlength=self.rows(term.table)).astype(np.int64)

    def _summary(self, term: Term) -> tuple[FloatArray, BoolArray]:
        """Return a summary (such as the mean) of each row's child rows, and whether it exists, (rows,) each.

        A sum without child rows exists and is 0; other summaries do not exist.
        """
        rows, n = self.persons.tables[term.child], self.rows(term.table)
        values, there = self.numbers(Term(term.child, term.name))
        parent = rows.parent[there]
        many = np.bincount(parent, minlength=n)
        match term.summary:
            case "sum":
                return np.bincount(parent, values[there], n).astype(np.float64), np.ones(n, np.bool_)
            case "mean":
                return np.bincount(parent, values[there], n) / np.maximum(many, 1), many > 0
            case "min" | "max":
                sign = 1.0 if term.summary == "max" else -1.0
                found = np.full(n, -np.inf)
                np.maximum.at(found, parent, sign * values[there])
                return np.where(many > 0, sign * found, 0.0), many > 0
            case "first" | "last":
                wanted = there & (rows.rank == (0 if term.summary == "first" else rows.many - 1))
                found, known = np.zeros(n), np.zeros(n, np.bool_)
                found[rows.parent[wanted]], known[rows.parent[wanted]] = values[wanted], True
                return found, known
        raise InternalError("a summary has no such name")


def within_cells(model: DatabaseModel, drawn: Drawn) -> Mapping[tuple[int, str], FloatArray]:
    """Return each row's position inside its bin, (rows,) from -1 to 1, by table and ordered column.

    Random slopes of the density inside bins act on it.  The position is 0 in bins with one value.
    """
    found: dict[tuple[int, str], FloatArray] = {}
    for i, table in enumerate(model.layout.tables):
        for name, axis in table.axes.items():
            grid = grid_of(axis.column)
            if name.startswith("#") or not grid.ordered or int(axis.width.max(initial=1)) == 1:
                continue
            indices, (first, last) = drawn.indices(i, name), ends_of_points(axis)
            cells = drawn.persons.tables[i][name]
            length = last[cells] - first[cells] + 1
            place = (indices - first[cells] + 0.5) / np.maximum(length, 1)
            found[i, name] = np.where(length > 1, 2 * place - 1, 0.0)
    return found
