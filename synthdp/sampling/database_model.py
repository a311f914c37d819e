"""From a law of persons to rows of several tables, joined by fresh keys: free of cost and repeatable by seed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, FloatArray, GridIndices, IntArray
from synthdp.checks import whole
from synthdp.distribution.history_model import Histories
from synthdp.distribution.protocol import ImpossibleEvidenceError
from synthdp.domain.encoder import RawColumn, decode, encode, fresh_labels, rows_of, together
from synthdp.domain.fresh_keys import check_enough_keys
from synthdp.domain.grid_rules_across import axis_at
from synthdp.domain.histories import Layout, Order
from synthdp.domain.refinement import Refinement
from synthdp.domain.values import mask_of_values
from synthdp.errors import InternalError, ParameterError
from synthdp.queries.related.persons import Persons
from synthdp.randomness import Generator, RandomState, generator
from synthdp.sampling.rows_across import Obedience, cells_of_rows
from synthdp.schema.column import Column, Fresh
from synthdp.schema.columns import Identifier
from synthdp.schema.database import DatabaseSchema
from synthdp.schema.rules_across import Place
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat
from synthdp.tables.source import TablesSink
from synthdp.tables.write import COLUMNAR, writing_tables

Conditioned = tuple[int, str, int]
"""The position of a table, a column, and the place of a row among its person's, from 0."""

_FIRST_ROWS = re.compile(r"(?P<table>[A-Za-z0-9_-]+)\[(?P<place>\d{1,4})\]\.(?P<column>.+)", re.DOTALL)
"""The name of a column of one of a person's first rows: "table[1].column"."""

BLOCK_PERSONS = 50_000
"""Persons that are drawn at once.  A safety limit of memory."""

MOST_LOST = 100
"""How many blocks in a row may hold no person who obeys all rules, before that is said.  A safety limit of time."""

MOST_TRIED = 1_000_000
"""So many persons are drawn at most to find those who have a given row, and ten for each that is wanted.  A safety limit
of time."""

TRIED = 2_000
"""Persons whose rows tell how often rules ask for another value or leave a row out.  Tuned; not measured."""

JOINED = "every synthetic row belongs to a synthetic person, and keys are fresh: none is one of the private tables'"
"""What a receipt says of the keys of synthetic tables."""


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
        By table and name the raw columns, without columns that a table derives from its own.
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
    refinements
        By position of a table and column, what is known within the cells of the layout; of others, grid points are alike.
    """

    layout: Layout
    histories: Histories
    total: float
    formats: Mapping[str, TableFormat]
    refinements: Mapping[tuple[int, str], Refinement] = field(default_factory=dict)

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
        return (JOINED, *once, *(f"every synthetic row obeys: {rule}" for rule in self.schema.obeyed))

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
            Values that the persons must have, by column of the root table, as `SyntheticModel.sample` takes them; or by
            column of their first rows in a table that has an order, as ``visits[1].cost``: then they have such rows.  Or by
            column of any table below, as ``visits.cost``: then they have a row there that has all that is given of its
            table.  Persons without one are drawn again, so what few have takes long.

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
        folder: str | PathLike[str] | TablesSink,
        *,
        rows: int | None = None,
        random_state: RandomState = None,
        given: Mapping[str, Any] | None = None,
        ending: str = ".parquet",
    ) -> None:
        """Draw persons with all their rows into a new folder, one file a table, or into a database, in bounded memory.

        `sample` draws the same rows with the same seed.

        Parameters
        ----------
        folder
            It must be new or empty; it appears whole or not at all.  Or a `SqlDatabase`, whose tables get the rows in one
            transaction.
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
        if isinstance(folder, TablesSink):
            lacking = [name for name in self.schema.tables if not isinstance(folder, Mapping) or name not in folder]
            if lacking:
                raise ParameterError(
                    f"the database has no table {lacking[0]!r} to write to: create all tables of the schema first"
                )
            folder.write_tables(self._arrow_blocks(rows, random_state, given))
            return
        if not isinstance(folder, (str, PathLike)):
            raise ParameterError("folder must be a path or a SqlDatabase, because several tables are written")
        if ending not in COLUMNAR:
            raise ParameterError(f"ending ({ending!r}) must be one of {', '.join(COLUMNAR)}")
        place = Path(folder)
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise ParameterError(f"'{place}' already exists: give the path of a new or empty folder")
        blocks = self._arrow_blocks(rows, random_state, given)
        with writing_tables(place, {name: f"{name}{ending}" for name in self.schema.tables}) as write:
            for block in blocks:
                write(block)

    def _arrow_blocks(
        self, rows: int | None, random_state: RandomState, given: Mapping[str, Any] | None
    ) -> Iterator[dict[str, Any]]:
        """Yield pyarrow tables by name, parents before their children, of some persons at a time."""
        wanted, rng = whole("rows", self.rows if rows is None else rows, least=1), generator(random_state)
        forms = {
            name: form.for_files(outer_schema(self.schema, name), library="pyarrow")
            for name, form in self.formats.items()
        }
        for block in self._blocks(wanted, rng, given):
            yield {name: self._built(name, [block[name]], forms[name]) for name in self.schema.names}

    def _built(self, name: str, blocks: Sequence[Mapping[str, RawColumn]], form: TableFormat) -> Any:
        """Return one table of blocks of raw values, in its outer form."""
        columns = {column: together([block[column] for block in blocks]) for column in blocks[0]}
        return form.build(outer_schema(self.schema, name), columns)

    def _blocks(
        self, persons: int, rng: Generator, given: Mapping[str, Any] | None
    ) -> Iterator[dict[str, dict[str, RawColumn]]]:
        """Yield the columns of all tables, of some persons at a time."""
        first = dict.fromkeys(self.schema.names, 0)
        check_enough_keys(outer_schema(self.schema, self.schema.root), persons)
        some_row = self._some_row(given or {})
        others = {name: value for name, value in (given or {}).items() if name not in self.schema.below}
        done, lost, tried, more = 0, 0, 0, 1
        while done < persons:  # a person whose own values find no way to obey is drawn again
            wanted = persons - done
            drawn = min(BLOCK_PERSONS, wanted * more)
            block = self._drawn(drawn, rng, others, first, some_row, most=wanted)
            many = block.rows(self.schema.root)
            more = more if 2 * many >= wanted or not some_row else 2 * more
            done, lost, tried = done + many, 0 if many else lost + 1, tried + drawn
            if some_row and done < persons and tried >= max(MOST_TRIED, 10 * persons):
                raise ParameterError(
                    f"only {done} of {tried} synthetic persons that were drawn meet given: ask for fewer persons, "
                    "or remove conditions from given"
                )
            if lost == MOST_LOST:
                raise ParameterError(
                    "of many synthetic persons that were drawn, none met given and all rules of the schema: remove "
                    "conditions from given"
                )
            if many:
                yield block.columns

    def drawn_rows(self, persons: int, rng: Generator) -> DrawnRows:
        """Draw persons and return their rows as raw columns, with the position of each row's parent: for pictures."""
        return self._drawn(persons, rng, {}, dict.fromkeys(self.schema.names, 0), {}, most=persons)

    def _some_row(self, given: Mapping[str, Any]) -> dict[Place, BoolArray]:
        """Return by table and column which grid points one row of each person must have."""
        below = self.schema.below
        return {
            below[name]: mask_of_values(self.schema.tables[below[name][0]][below[name][1]], value, name=name)
            for name, value in given.items()
            if name in below
        }

    def _have_such_rows(
        self,
        persons: Persons,
        raw: Mapping[Place, RawColumn],
        kept: Sequence[BoolArray],
        asked: Mapping[Place, BoolArray],
    ) -> BoolArray:
        """Return which persons have, of each table that something is asked of, a row with all of it; (persons,)."""
        found = kept[0].copy()
        for i, name in enumerate(self.schema.names):
            masks = {column: mask for (table, column), mask in asked.items() if table == name}
            if masks:
                meets = kept[i].copy()
                for column, mask in masks.items():
                    meets &= mask[encode(self.schema.tables[name][column], raw[name, column])]
                found &= np.bincount(persons.person(i)[meets], minlength=len(found)) > 0
        return found

    def _drawn(
        self,
        wanted: int,
        rng: Generator,
        given: Mapping[str, Any],
        first: dict[str, int],
        some_row: Mapping[Place, BoolArray],
        *,
        most: int,
    ) -> DrawnRows:
        """Draw persons and their rows; keys go on after the ``first`` ones, which are counted up.

        Only persons with such a row as is asked of each table come out, so many at most.
        """
        persons, masks = self.draw(wanted, rng, given=given)
        obedience, raw, kept = self._values(persons, masks, rng)
        if some_row or wanted > most:
            chosen = self._have_such_rows(persons, raw, kept, some_row)
            chosen[rng.permutation(np.flatnonzero(chosen))[most:]] = False
            kept = [one & chosen[persons.person(i)] for i, one in enumerate(kept)]
        keys: dict[str, dict[str, RawColumn]] = {}
        found: dict[str, dict[str, RawColumn]] = {}
        parents: dict[str, IntArray] = {}
        numbers: list[IntArray] = []
        for i, name in enumerate(self.schema.names):
            outer = outer_schema(self.schema, name)
            order = self._order(persons, i, rng)
            order = order[kept[i][order]]
            keys[name] = self._keys(persons, i, keys, outer, kept[i], first[name])
            labels = {
                column: _labels(support, kept[i], first=first[name])
                for column, kind in self.schema.tables[name].items()
                if column not in keys[name] and isinstance(support := kind.support(), Fresh)
            }
            first[name] += len(order)
            if len(order):
                check_enough_keys(outer, first[name])
            columns = keys[name] | labels | obedience.computed(raw, name)
            columns |= {column: one for (table, column), one in raw.items() if table == name}
            found[name] = {column: rows_of(one, order) for column, one in columns.items()}
            numbers.append(np.full(len(kept[i]), -1))
            numbers[i][order] = np.arange(len(order))
            above = self.layout.tables[i].parent
            parents[name] = order if above < 0 else numbers[above][persons.tables[i].parent[order]]
        return DrawnRows(found, parents)

    def kept_rows(self, persons: int, rng: Generator) -> dict[str, tuple[int, int, int]]:
        """Return by table how many rows of some persons were drawn, how many of these are kept, and how many were mended.

        Mended rows have a value outside the cell that the model drew, so that they obey a rule; others that do not are left
        out.
        """
        drawn, masks = self.draw(persons, rng)
        obedience, _, kept = self._values(drawn, masks, rng)
        return {
            name: (len(one), int(one.sum()), int((one & obedience.mended(name)).sum()))
            for name, one in zip(self.schema.names, kept, strict=True)
        }

    def obedience_notes(self, rng: Generator) -> tuple[str, ...]:
        """Return what a receipt says of rows that rules left out or changed, in a trial."""
        if not self.schema.conditions and not self.schema.among:
            return ()
        tried = self.kept_rows(min(self.rows, TRIED), rng)
        return tuple(
            f"rules on {name!r}: of {drawn} rows drawn in a trial {drawn - kept} were left out and {mended} got a value "
            "outside the group of values that was drawn"
            for name, (drawn, kept, mended) in tried.items()
            if drawn - kept + mended
        )

    def _values(
        self, persons: Persons, masks: Mapping[Conditioned, BoolArray], rng: Generator
    ) -> tuple[Obedience, dict[Place, RawColumn], list[BoolArray]]:
        """Draw the values of all rows; return by table which rows obey all rules, too."""
        obedience = Obedience(self.layout, persons, self.refinement)
        raw: dict[Place, RawColumn] = {}
        for i, name in enumerate(self.schema.names):
            columns = self.schema.tables[name]
            period = self.layout.tables[i].period if self.layout.days(i) else None  # other days follow from it
            for column in sorted(columns, key=lambda one: one != period):
                kind = columns[column]
                if kind.names_rows:
                    continue
                draw = partial(self._indices, persons, i, column, rng, masks)
                places = [place for _, _, place in _masks_of(masks, i, column)]
                fixed = np.isin(persons.tables[i].rank, places)
                drawn = decode(kind, obedience.drawn((name, column), draw, rng, fixed=fixed), rng=rng)
                raw[name, column] = obedience.settled((name, column), drawn)
        return obedience, raw, obedience.kept(raw)

    def draw(
        self, persons: int, rng: Generator, *, given: Mapping[str, Any] | None = None
    ) -> tuple[Persons, dict[Conditioned, BoolArray]]:
        """Draw persons as cells; and return, by table, column and place of the row, which grid points are allowed."""
        masks = {self._conditioned(name): value for name, value in (given or {}).items()}
        allowed: dict[tuple[int, str, int], FloatArray | BoolArray] = {}
        found: dict[Conditioned, BoolArray] = {}
        for (i, column, place), value in masks.items():
            kind = self.schema.tables[self.schema.names[i]][column]
            mask = found[i, column, place] = mask_of_values(kind, value, name=column)
            shares = _share_of_cells(self.refinement(i, column), mask)
            if i:
                self._allow_rows(allowed, i, place)
            if i and self.layout.tables[i].order is Order.PATTERN and column == self.layout.tables[i].period:
                self._allow_periods(allowed, i, place, shares > 0)
            else:
                allowed[i, column, place] = shares
        try:
            return self.histories.draw(persons, rng, allowed=allowed), found
        except ImpossibleEvidenceError:
            names = " and ".join(repr(name) for name in given or {})
            raise ParameterError(
                f"the values given for {names} have probability 0 in the model: give other values"
            ) from None

    def grid_indices(self, persons: Persons, table: int, column: str, rng: Generator) -> GridIndices:
        """Draw the grid point of each row of a table in one of its columns, within the cell that it has."""
        return self._indices(persons, table, column, rng, {})

    def _conditioned(self, name: str) -> Conditioned:
        """Return the table, the column and the place of the row that a condition names."""
        found = _FIRST_ROWS.fullmatch(name)
        if found is None or found["table"] not in self.schema.tables:
            if name not in self.schema.tables[self.schema.root] or name not in self.layout.tables[0].axes:
                raise ParameterError(
                    f"given names {name!r}, which is no drawn column of {self.schema.root!r}: name a column of a "
                    "child table as 'table.column' (any row) or 'table[1].column' (first row)"
                )
            return 0, name, 0
        table, column, place = found["table"], found["column"], int(found["place"])
        i, relation = self.layout.position(table), self.schema.relation_to(table)
        if relation is None or relation.parent != self.schema.root or relation.order is None:
            raise ParameterError(
                f"given names {name!r}, but only a child table of {self.schema.root!r} whose relation has an order "
                "has a first row: write 'table.column' instead"
            )
        if column not in self.schema.tables[table] or self.schema.tables[table][column].names_rows:
            raise ParameterError(
                f"given names {name!r}, but {column!r} is no drawn column of table {table!r}: name a column that is "
                "neither an identifier nor derived"
            )
        if not 1 <= place <= relation.at_most:
            raise ParameterError(
                f"given names {name!r}, but a person has at most {relation.at_most} rows of {table!r}: give a "
                f"number from 1 to {relation.at_most} in brackets"
            )
        ruled = {place[0] for one in self.schema.conditions for place in (one.above, one.below)}
        if table in ruled | {one.place[0] for one in self.schema.among}:
            raise ParameterError(
                f"given names {name!r}, but single rows of {table!r} cannot be given, because the schema has rules "
                f"about them: name columns of {self.schema.root!r} only"
            )
        axis = axis_at(self.layout, (table, column))
        if column == relation.order and axis.width.max() > 1:
            raise ParameterError(
                f"given names {name!r}, which cannot be given, because it orders the rows of {table!r} and is drawn "
                "in bins: name other columns"
            )
        return i, column, place - 1

    def _allow_rows(self, allowed: dict[tuple[int, str, int], FloatArray | BoolArray], i: int, place: int) -> None:
        """Allow only persons with a given number of rows of a table."""
        key = 0, self.layout.tables[i].count, 0
        size = self.layout.axis(0, key[1]).size
        enough = self.layout.rows_of_count(i)[:size] > place
        allowed[key] = enough * np.asarray(allowed.get(key, np.ones(size)), np.float64)

    def _allow_periods(
        self, allowed: dict[tuple[int, str, int], FloatArray | BoolArray], i: int, place: int, periods: BoolArray
    ) -> None:
        """Allow only patterns whose row at a place has one of some periods."""
        key = 0, self.layout.tables[i].count, 0
        inside = self.layout.periods_of_pattern(i)[: self.layout.axis(0, key[1]).size, place]
        allowed[key] = np.asarray(allowed[key], np.float64) * (periods[np.maximum(inside, 0)] & (inside >= 0))

    def _order(self, persons: Persons, i: int, rng: Generator) -> IntArray:
        """Return the order in which rows come out: where they have none, a parent's rows are shuffled."""
        rows = persons.tables[i]
        if self.layout.tables[i].order is Order.NONE:
            return np.lexsort([rng.random(len(rows)), rows.parent])
        return np.arange(len(rows))

    def _keys(
        self,
        persons: Persons,
        i: int,
        known: Mapping[str, Mapping[str, RawColumn]],
        outer: Schema,
        kept: BoolArray,
        first: int,
    ) -> dict[str, RawColumn]:
        """Return the keys of a table's rows: the parent's, and fresh ones that its children refer to."""
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
            found[key] = _labels(support, kept, first=first)
        return found

    def _indices(
        self, persons: Persons, i: int, column: str, rng: Generator, masks: Mapping[Conditioned, BoolArray]
    ) -> GridIndices:
        """Return the grid points of a column's rows."""
        rows = persons.tables[i]
        refinement, cells = self.refinement(i, column), cells_of_rows(self.layout, persons, i, column)
        indices = self._within(refinement, cells, rng)
        for (_, _, place), mask in _masks_of(masks, i, column).items():
            here = np.flatnonzero(rows.rank == place)
            indices[here] = self._within(refinement, cells[here], rng, mask)
        return indices

    def refinement(self, table: int, column: str) -> Refinement:
        """Return what is known within the cells of a column."""
        axis = axis_at(self.layout, (self.schema.names[table], column))
        return self.refinements.get((table, column)) or Refinement.trivial(axis)

    def _within(
        self, refinement: Refinement, cells: AnyArray, rng: Generator, allowed: BoolArray | None = None
    ) -> GridIndices:
        """Draw a grid point within each cell of the model, as leaves are filled; an allowed one, if some are."""
        shares = None
        if allowed is not None:
            parts = refinement.within(allowed)
            every = refinement.fine.cells_of(np.arange(len(parts), dtype=np.uint32))
            shares = np.bincount(every, weights=parts, minlength=refinement.fine.size).astype(np.float64)
        leaves = drawn_leaves(refinement.table(shares).sum(axis=0), refinement.coarse_cell, cells, rng)
        if allowed is None:
            return refinement.indices_in(leaves, rng)
        return refinement.indices_among(allowed, leaves, rng)


def _labels(support: Fresh, kept: BoolArray, *, first: int) -> RawColumn:
    """Return fresh labels of rows: each kept row has the next one."""
    number = np.cumsum(kept) - 1
    return rows_of(fresh_labels(support, max(1, int(kept.sum())), first=first), np.maximum(number, 0))


def _masks_of(masks: Mapping[Conditioned, BoolArray], i: int, column: str) -> dict[Conditioned, BoolArray]:
    """Return the masks that are about one column of one table."""
    return {key: mask for key, mask in masks.items() if key[:2] == (i, column)}


def _share_of_cells(refinement: Refinement, allowed: BoolArray) -> FloatArray:
    """Return which part of the rows of each cell of the model has an allowed grid point."""
    parts = refinement.within(allowed)
    leaves = refinement.fine.cells_of(np.arange(len(parts), dtype=np.uint32))
    inside = np.bincount(leaves, weights=parts, minlength=refinement.fine.size)
    held = np.bincount(refinement.coarse_cell, weights=refinement.weights, minlength=refinement.groups)
    found = np.bincount(refinement.coarse_cell, weights=refinement.weights * inside, minlength=refinement.groups)
    return np.divide(found, held, out=np.zeros(len(held)), where=held > 0)


def drawn_leaves(weights: FloatArray, cell_of: IntArray, cells: AnyArray, rng: Generator) -> IntArray:
    """Draw a leaf for each cell, (n,), evenly spaced within a cell: its leaves are filled in proportion, to within one row.

    Parameters
    ----------
    weights, cell_of
        (leaves,) how likely each is beside others of its cell, and the cell that it lies in; every cell has a likely one.
    cells
        (n,) cells.
    rng
        Source of the draws.
    """
    leaf = np.argsort(cell_of, kind="stable")
    leaf = leaf[weights[leaf] > 0]
    held = np.bincount(cell_of, weights=weights)
    passed = np.cumsum(weights[leaf] / held[cell_of[leaf]])  # each cell adds 1
    many = np.bincount(cells, minlength=len(held))
    order = np.lexsort([rng.random(len(cells)), cells])
    mine = cells[order].astype(np.int64)
    place = np.arange(len(cells)) - (np.cumsum(many) - many)[mine]
    wanted = (place + rng.random(len(held))[mine]) / many[mine]
    first = np.searchsorted(cell_of[leaf], np.arange(len(held)))
    before = np.append(0.0, passed)[first]
    last = np.searchsorted(cell_of[leaf], np.arange(len(held)), side="right") - 1
    at = np.clip(np.searchsorted(passed, before[mine] + wanted, side="right"), first[mine], last[mine])
    found = np.empty(len(cells), np.int64)
    found[order] = leaf[at]
    return found
