"""Synthetic persons with the values that a question needs: numbers, groups, and masks of comparisons, for every row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from synthdp.answers.expressions import Comparison, compared, points_where
from synthdp.answers.grouping import groups_of, numbers_of
from synthdp.answers.questions import Bins
from synthdp.answers.related.terms import ROWS, Term, axis_of_term, column_of
from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.domain.derive import followed, leading_to
from synthdp.domain.grid import grid_of
from synthdp.domain.history_rules import ends_of_points
from synthdp.errors import InternalError, ParameterError
from synthdp.queries.persons import Persons
from synthdp.randomness import Generator
from synthdp.sampling.database_model import DatabaseModel
from synthdp.schema.schema import Schema


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
