"""From a law of persons to rows of several tables, joined by fresh keys: free of cost and repeatable by seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from synthdp.arrays import BoolArray, FloatArray, GridIndices, IntArray
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
from synthdp.sampling.rules_across import Obedience, rows_of
from synthdp.sampling.synthetic_model import indices_among
from synthdp.schema.column import Column, Fresh
from synthdp.schema.columns import Identifier
from synthdp.schema.database import DatabaseSchema
from synthdp.schema.rules_across import Place
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat
from synthdp.tables.write import COLUMNAR, writing_tables

BLOCK_PERSONS = 50_000
"""Persons that are drawn at once."""

JOINED = "every synthetic row belongs to a synthetic person, and keys are fresh: none is one of the private tables'"


def outer_schema(schema: DatabaseSchema, table: str) -> Schema:
    """Return the schema of a synthetic table: the declared one, its keys, which are fresh labels, and what is computed."""
    declared = schema.tables[table]
    more: dict[str, Column] = {key: Identifier() for key in schema.keys_of(table) if key not in declared.outputs}
    more |= {name: one.column for name, one in schema.computed_in(table).items()}
    return declared.extended(more) if more else declared


def format_of_database(schema: DatabaseSchema) -> dict[str, TableFormat]:
    """Return pandas tables of the types that suit."""
    return {name: TableFormat.default(outer_schema(schema, name)) for name in schema.tables}


@dataclass(frozen=True, slots=True, eq=False)
class DrawnRows:
    """Some persons with all their rows, as values.

    Parameters
    ----------
    columns
        By table and name the raw columns, without those that a table derives from its own.
    parents
        By table the (n,) position of each row's parent in its table; of persons, their own.
    """

    columns: dict[str, dict[str, RawColumn]]
    parents: dict[str, IntArray]

    def rows(self, table: str) -> int:
        """Return how many rows a table has."""
        return len(self.parents[table])


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
        return (JOINED, *once, *(f"every synthetic row obeys: {rule.in_words()}" for rule in self.schema.rules))

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
        blocks = list(self._blocks(wanted, rng, given))
        return {
            name: self._built(name, [one[name] for one in blocks], self.formats[name]) for name in self.schema.tables
        }

    def sample_to(
        self,
        folder: str | PathLike[str],
        *,
        rows: int | None = None,
        random_state: RandomState = None,
        given: Mapping[str, Any] | None = None,
        ending: str = ".parquet",
    ) -> None:
        """Draw persons with all their rows into a new folder, in bounded memory: one file a table, named after it.

        The rows are those that `sample` draws with the same seed.

        Parameters
        ----------
        folder
            It must be new or empty; it appears whole or not at all.
        rows, random_state, given
            As for `sample`.
        ending
            ``".parquet"`` or ``".arrow"``.

        Raises
        ------
        ParameterError
            As for `sample`, or if the ending is another, or the folder is not empty.
        FormatError
            If the folder cannot be written.
        """
        if ending not in COLUMNAR:
            raise ParameterError(f"ending ({ending!r}) must be one of {', '.join(COLUMNAR)}")
        place = Path(folder)
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise ParameterError(f"'{place}' exists: the synthetic tables need a new folder")
        wanted, rng = whole("rows", self.rows if rows is None else rows, least=1), generator(random_state)
        forms = {
            name: form.for_files(outer_schema(self.schema, name), library="pyarrow")
            for name, form in self.formats.items()
        }
        with writing_tables(place, {name: f"{name}{ending}" for name in self.schema.tables}) as write:
            for block in self._blocks(wanted, rng, given):
                write({name: self._built(name, [block[name]], forms[name]) for name in self.schema.tables})

    def _built(self, name: str, blocks: Sequence[Mapping[str, RawColumn]], form: TableFormat) -> Any:
        columns = {column: _together([block[column] for block in blocks]) for column in blocks[0]}
        return form.build(outer_schema(self.schema, name), columns)

    def _blocks(
        self, persons: int, rng: Generator, given: Mapping[str, Any] | None
    ) -> Iterator[dict[str, dict[str, RawColumn]]]:
        """Yield the columns of all tables, of some persons at a time."""
        first = dict.fromkeys(self.schema.names, 0)
        check_enough_keys(outer_schema(self.schema, self.schema.root), persons)
        for done in range(0, persons, BLOCK_PERSONS):
            yield self._block(min(BLOCK_PERSONS, persons - done), rng, given, first)

    def _block(
        self, wanted: int, rng: Generator, given: Mapping[str, Any] | None, first: dict[str, int]
    ) -> dict[str, dict[str, RawColumn]]:
        """Return the columns of some persons' rows; their keys go on after the ``first`` ones, which are counted up."""
        return self._drawn(wanted, rng, given, first).columns

    def drawn_rows(self, persons: int, rng: Generator) -> DrawnRows:
        """Draw persons and return their rows as raw columns, with the position of each row's parent: for pictures."""
        return self._drawn(persons, rng, None, dict.fromkeys(self.schema.names, 0))

    def _drawn(self, wanted: int, rng: Generator, given: Mapping[str, Any] | None, first: dict[str, int]) -> DrawnRows:
        persons, masks = self.draw(wanted, rng, given=given)
        obedience = Obedience(self.layout, persons)
        raw: dict[Place, RawColumn] = {}
        for i, name in enumerate(self.schema.names):
            for column, kind in self.schema.tables[name].items():
                if kind.names_rows:
                    continue
                draw = partial(self._indices, persons, i, column, rng, masks.get(column) if i == 0 else None)
                raw[name, column] = decode(kind, obedience.drawn((name, column), draw, rng), rng=rng)
        kept = obedience.kept(raw)
        keys: dict[str, dict[str, RawColumn]] = {}
        found: dict[str, dict[str, RawColumn]] = {}
        parents: dict[str, IntArray] = {}
        places: list[IntArray] = []
        for i, name in enumerate(self.schema.names):
            outer = outer_schema(self.schema, name)
            order = self._order(persons, i, rng)
            order = order[kept[i][order]]
            keys[name] = self._keys(persons, i, keys, outer, first[name])
            labels = {
                column: fresh_labels(support, len(kept[i]), first=first[name])
                for column, kind in self.schema.tables[name].items()
                if column not in keys[name] and isinstance(support := kind.support(), Fresh)
            }
            first[name] += len(kept[i])
            if len(order):
                check_enough_keys(outer, first[name])
            columns = keys[name] | labels | obedience.computed(raw, name)
            columns |= {column: one for (table, column), one in raw.items() if table == name}
            found[name] = {column: rows_of(one, order) for column, one in columns.items()}
            places.append(np.full(len(kept[i]), -1))
            places[i][order] = np.arange(len(order))
            above = self.layout.tables[i].parent
            parents[name] = order if above < 0 else places[above][persons.tables[i].parent[order]]
        return DrawnRows(found, parents)

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

    def _order(self, persons: Persons, i: int, rng: Generator) -> IntArray:
        """Return the order in which rows come out: where they have none, those of a parent shuffled."""
        rows = persons.tables[i]
        if self.layout.tables[i].order is Order.NONE:
            return np.lexsort([rng.random(len(rows)), rows.parent])
        return np.arange(len(rows))

    def _keys(
        self, persons: Persons, i: int, known: Mapping[str, Mapping[str, RawColumn]], outer: Schema, first: int
    ) -> dict[str, RawColumn]:
        """Return the keys of a table's rows: those of the parent, and fresh ones that its children refer to."""
        name, rows = self.schema.names[i], persons.tables[i]
        found: dict[str, RawColumn] = {}
        above = self.layout.tables[i].parent
        for key in self.schema.keys_of(name):
            if above >= 0 and key in known[self.schema.names[above]]:
                found[key] = rows_of(known[self.schema.names[above]][key], rows.parent)
                continue
            support = outer[key].support()
            if not isinstance(support, Fresh):
                raise InternalError("a key must be an identifier")
            found[key] = fresh_labels(support, len(rows), first=first)
        return found

    def _indices(self, persons: Persons, i: int, column: str, rng: Generator, allowed: BoolArray | None) -> GridIndices:
        """Return the grid points of a column's rows."""
        table, rows = self.layout.tables[i], persons.tables[i]
        if column == table.period and table.periods is not None:
            cells = rows.period if table.order is Order.PATTERN else rows.values[column]
            return table.periods.indices_in(cells, rng)
        axis = self.layout.axis(i, column)
        if allowed is None:
            return axis.indices_in(rows.values[column], rng)
        return indices_among(allowed, Refinement.trivial(axis), rows.values[column], rng)


def _share_of_cells(axis: Axis, allowed: BoolArray) -> FloatArray:
    """Return the share of each cell's grid points that are allowed."""
    cells = axis.cells_of(np.flatnonzero(allowed[: axis.grid.releasable]).astype(np.uint32))
    count = np.bincount(cells, minlength=axis.size)
    return np.divide(count, axis.width, out=np.zeros(axis.size), where=axis.width > 0)


def _together(parts: Sequence[RawColumn]) -> RawColumn:
    """Return raw values one after the other."""
    if len(parts) == 1:
        return parts[0]
    labels = [one for one in parts if isinstance(one, Labels)]
    if labels:
        if all(one.levels == labels[0].levels for one in labels):
            return Labels(labels[0].levels, np.concatenate([one.codes for one in labels]))
        ends = np.cumsum([0, *(len(one.levels) for one in labels)])
        codes = [np.where(one.codes < 0, -1, one.codes + start) for one, start in zip(labels, ends, strict=False)]
        return Labels([level for one in labels for level in one.levels], np.concatenate(codes))
    numbers = [one for one in parts if isinstance(one, Numbers)]
    missing = None
    if any(one.missing is not None for one in numbers):
        missing = np.concatenate(
            [np.zeros(len(one.values), np.bool_) if one.missing is None else one.missing for one in numbers]
        )
    return Numbers(np.concatenate([one.values for one in numbers]), missing)
