"""From a law of persons to rows of several tables, joined by fresh keys: free of cost and repeatable by seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, FloatArray, GridIndices, IntArray
from synthdp.checks import whole
from synthdp.distribution.histories import Histories
from synthdp.distribution.protocol import ImpossibleEvidenceError
from synthdp.domain.axis import Axis
from synthdp.domain.encoder import Labels, Numbers, RawColumn, decode, fresh_labels
from synthdp.domain.fresh_keys import check_enough_keys
from synthdp.domain.histories import Layout, Order
from synthdp.domain.refinement import Refinement
from synthdp.domain.values import mask_of_values
from synthdp.errors import InternalError, ParameterError
from synthdp.queries.related.persons import Persons
from synthdp.randomness import Generator, RandomState, generator
from synthdp.sampling.synthetic_model import indices_among
from synthdp.schema.column import Fresh
from synthdp.schema.columns import Identifier
from synthdp.schema.database import DatabaseSchema
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat

JOINED = "every synthetic row belongs to a synthetic person, and keys are fresh: none is one of the private tables'"


def outer_schema(schema: DatabaseSchema, table: str) -> Schema:
    """Return the schema of a synthetic table: the declared one, with its keys, which are fresh labels."""
    declared = schema.tables[table]
    missing = {key: Identifier() for key in schema.keys_of(table) if key not in declared.outputs}
    return declared.extended(missing) if missing else declared


def format_of_database(schema: DatabaseSchema) -> dict[str, TableFormat]:
    """Return pandas tables of the types that suit."""
    return {name: TableFormat.default(outer_schema(schema, name)) for name in schema.tables}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DatabaseModel:
    """A law of persons with all their rows that can be sampled as tables.

    Parameters
    ----------
    layout
        The record of a person.
    histories
        The law.
    total
        Estimated number of private persons.
    formats
        The outer form of each table.
    """

    layout: Layout
    histories: Histories
    total: float
    formats: Mapping[str, TableFormat]

    def __repr__(self) -> str:
        return f"DatabaseModel({', '.join(self.schema.tables)}; about {self.rows} persons)"

    @property
    def schema(self) -> DatabaseSchema:
        """The tables."""
        return self.layout.schema

    @property
    def rows(self) -> int:
        """Default number of persons: the estimated total, at least 1."""
        return max(1, round(self.total))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a receipt may say of all rows that are drawn."""
        once = [
            f"no row of {table.parent!r} has two synthetic rows of {table.child!r} with one {table.order!r}"
            for table in self.schema.relations
            if table.unique
        ]
        return (JOINED, *once)

    def sample(
        self,
        rows: int | None = None,
        *,
        random_state: RandomState = None,
        given: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Draw persons with all their rows.

        Parameters
        ----------
        rows
            How many persons; default: the estimated number of private ones.
        random_state
            Seed of the sampling.  It never reaches noise.
        given
            Values that the persons must have, by column of the root table, as `SyntheticModel.sample` takes them.

        Returns
        -------
        The tables by name, in the order of the schema.

        Raises
        ------
        ParameterError
            If ``rows`` is below 1 or more than a key's pattern has keys, or ``given`` names no column of the root or what no
            person has.
        """
        wanted, rng = whole("rows", self.rows if rows is None else rows, least=1), generator(random_state)
        persons, masks = self.draw(wanted, rng, given=given)
        keys: dict[str, dict[str, RawColumn]] = {}
        made: dict[str, Any] = {}
        for i, name in enumerate(self.schema.names):
            outer = outer_schema(self.schema, name)
            order = self._order(persons, i, rng)
            if len(order):
                check_enough_keys(outer, len(order))
            keys[name] = self._keys(persons, i, keys, outer)
            columns = {column: _rows_of(raw, order) for column, raw in keys[name].items()}
            for column, kind in self.schema.tables[name].items():
                if column in columns:
                    continue
                support = kind.support()
                if isinstance(support, Fresh):
                    columns[column] = fresh_labels(support, len(order))
                    continue
                indices = self._indices(persons, i, column, rng, masks.get(column) if i == 0 else None)
                columns[column] = decode(kind, indices[order], rng=rng)
            made[name] = self.formats[name].build(outer, columns)
        return {name: made[name] for name in self.schema.tables}

    def draw(
        self, persons: int, rng: Generator, *, given: Mapping[str, Any] | None = None
    ) -> tuple[Persons, dict[str, BoolArray]]:
        """Draw persons as cells, and return which grid points of the root's columns are allowed."""
        root = self.schema.tables[self.schema.root]
        masks: dict[str, BoolArray] = {}
        shares: dict[tuple[int, str], FloatArray] = {}
        for name, value in (given or {}).items():
            if name not in self.layout.tables[0].axes or name.startswith("#"):
                raise ParameterError(f"given names {name!r}, which is no column of {self.schema.root!r} that is drawn")
            masks[name] = mask_of_values(root[name], value, name=name)
            shares[0, name] = _share_of_cells(self.layout.axis(0, name), masks[name])
        try:
            return self.histories.draw(persons, rng, allowed=shares), masks
        except ImpossibleEvidenceError:
            names = " and ".join(repr(name) for name in masks)
            raise ParameterError(f"the values given for {names} have probability 0 in the model") from None

    def grid_indices(self, persons: Persons, table: int, column: str, rng: Generator) -> GridIndices:
        """Draw the grid point of each row of a table in one of its columns, within the cell that it has."""
        return self._indices(persons, table, column, rng, None)

    def _order(self, persons: Persons, i: int, rng: Generator) -> IntArray:
        """Return the order in which rows come out: where they have none, those of a parent shuffled."""
        rows = persons.tables[i]
        if self.layout.tables[i].order is Order.NONE:
            return np.lexsort([rng.random(len(rows)), rows.parent])
        return np.arange(len(rows))

    def _keys(
        self, persons: Persons, i: int, known: Mapping[str, Mapping[str, RawColumn]], outer: Schema
    ) -> dict[str, RawColumn]:
        """Return the keys of a table's rows: those of the parent, and fresh ones that its children refer to."""
        name, rows = self.schema.names[i], persons.tables[i]
        found: dict[str, RawColumn] = {}
        above = self.layout.tables[i].parent
        for key in self.schema.keys_of(name):
            if above >= 0 and key in known[self.schema.names[above]]:
                found[key] = _rows_of(known[self.schema.names[above]][key], rows.parent)
                continue
            support = outer[key].support()
            if not isinstance(support, Fresh):
                raise InternalError("a key must be an identifier")
            found[key] = fresh_labels(support, len(rows))
        return found

    def _indices(self, persons: Persons, i: int, column: str, rng: Generator, allowed: BoolArray | None) -> GridIndices:
        """Return the grid points of a column's rows."""
        table, rows = self.layout.tables[i], persons.tables[i]
        if column == table.period and table.periods is not None:
            cells = rows.period if table.order is Order.PATTERN else rows.values[column]
            indices = table.periods.indices_in(cells, rng)
            # Within a bin values are drawn anew: sorted, they go upwards with the rows.
            return np.asarray(indices[np.lexsort([indices, rows.parent])])
        axis = self.layout.axis(i, column)
        if allowed is None:
            return axis.indices_in(rows.values[column], rng)
        return indices_among(allowed, Refinement.trivial(axis), rows.values[column], rng)


def _share_of_cells(axis: Axis, allowed: BoolArray) -> FloatArray:
    """Return the share of each cell's grid points that are allowed."""
    cells = axis.cells_of(np.flatnonzero(allowed[: axis.grid.releasable]).astype(np.uint32))
    count = np.bincount(cells, minlength=axis.size)
    return np.divide(count, axis.width, out=np.zeros(axis.size), where=axis.width > 0)


def _rows_of(raw: RawColumn, rows: AnyArray) -> RawColumn:
    """Return some rows of raw values."""
    if isinstance(raw, Labels):
        return Labels(raw.levels, raw.codes[rows])
    return Numbers(raw.values[rows], None if raw.missing is None else raw.missing[rows])
