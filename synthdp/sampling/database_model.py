"""From a distribution of persons to rows of several tables joined by fresh keys.

Sampling costs no budget and is repeatable by seed.
"""

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
from synthdp.checks import check_memory, whole
from synthdp.distribution.distribution import ImpossibleEvidenceError
from synthdp.distribution.history_model import Histories
from synthdp.domain.encoder import RawColumn, decode, encode, fresh_labels, rows_of, together
from synthdp.domain.fresh_keys import check_enough_keys
from synthdp.domain.histories import Layout, Order
from synthdp.domain.history_rules import axis_at
from synthdp.domain.refinement import Refinement
from synthdp.domain.values import mask_of_values
from synthdp.errors import InternalError, ParameterError
from synthdp.queries.persons import Persons
from synthdp.randomness import Generator, RandomState, generator
from synthdp.sampling.rows_across import Obedience, cells_of_rows
from synthdp.schema.column import Column, Fresh
from synthdp.schema.columns import Identifier
from synthdp.schema.database import DatabaseSchema
from synthdp.schema.rules_across import Place
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat
from synthdp.tables.source import TablesSink
from synthdp.tables.sources.write import COLUMNAR, writing_tables

Conditioned = tuple[int, str, int]
"""Holds the position of a table, a column's name, and the position of a row among its person's rows, from 0."""

_FIRST_ROWS = re.compile(r"(?P<table>[A-Za-z0-9_-]+)\[(?P<place>\d{1,4})\]\.(?P<column>.+)", re.DOTALL)
"""Pattern of the name of a column in one of a person's first rows, such as "table[1].column"."""

BLOCK_PERSONS = 50_000
"""Most persons that are drawn at once.  A safety limit of memory."""

MOST_LOST = 100
"""Number of consecutive blocks without any valid person after which sampling raises an error.  A safety limit of
time."""

MOST_TRIED = 1_000_000
"""Most persons that are drawn to find persons with a given row; at least ten are drawn for each wanted person.  A
safety limit of time."""

TRIED = 2_000
"""Persons in the trial that estimates how many rows the rules change or leave out.  A tolerance: the estimated fraction
of persons has a sampling error of at most .5 / sqrt(TRIED) = 1.1 %."""

JOINED = "every synthetic row belongs to a synthetic person, and keys are fresh: none is one of the private tables'"
"""Receipt note on the keys of synthetic tables."""


def outer_schema(schema: DatabaseSchema, table: str) -> Schema:
    """Return the schema from which a synthetic table is built and checked.

    The schema has the declared columns, keys as fresh identifiers, and columns computed across tables.
    """
    declared = schema.tables[table]
    more: dict[str, Column] = {key: Identifier() for key in schema.keys_of(table) if key not in declared.outputs}
    more |= {name: one.column for name, one in schema.computed_in(table).items()}
    return declared.extended(more) if more else declared


def format_of_database(schema: DatabaseSchema) -> dict[str, TableFormat]:
    """Return by table the default format, pandas with suitable types."""
    return {name: TableFormat.default(outer_schema(schema, name)) for name in schema.tables}


@dataclass(frozen=True, slots=True, eq=False)
class DrawnRows:
    """Holds some persons with all their rows, as raw values.

    Parameters
    ----------
    columns
        By table and name, the raw columns, without columns derived from other columns of the same table.
    parents
        By table, the (n,) position of each row's parent in the parent table.
    """

    columns: dict[str, dict[str, RawColumn]]
    parents: dict[str, IntArray]

    def rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        return len(self.parents[table])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DatabaseModel:
    """Holds a distribution of persons with all their rows, which can be sampled as tables.

    Parameters
    ----------
    layout
        The attributes of a person's record and their bins.
    histories
        The distribution of a person's record.
    total
        Estimated number of private persons.
    formats
        By table, its library and types.
    refinements
        By position of a table and column, the division of the layout's bins.  In other columns, all grid points of a
        bin are equally likely.
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
        """Return the schema of the tables."""
        return self.layout.schema

    @property
    def rows(self) -> int:
        """Return the default number of persons of a sample: the estimated total, at least 1."""
        return max(1, round(self.total))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the receipt notes that hold for all sampled rows, on keys, unique orders and rules between tables."""
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
        """Return tables of sampled persons with all their rows.

        Parameters
        ----------
        rows
            The number of persons; default: the estimated number of private persons.
        random_state
            Seed of the sampling; privacy noise never uses it.
        given
            Required values by column, as in `SyntheticModel.sample`.  ``age`` names a column of the root table.
            ``visits[1].cost`` names a column of a person's first row in an ordered table.  ``visits.cost`` names a
            column of any row: the person has one row with all values given for that table.  Persons without such a row
            are drawn again, so rare values take long.

        Returns
        -------
        The tables by name, in the order of the schema.

        Raises
        ------
        ParameterError
            If ``rows`` is below 1, more than the number of keys of a key pattern, or more than memory holds.  If ``given``
            names an unknown column or values that no person has.
        """
        wanted, rng = whole("rows", self.rows if rows is None else rows, least=1), generator(random_state)
        check_memory(wanted, len(self.schema.tables[self.schema.root]))
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
        """Draw persons with all their rows into a new folder, one file per table, or into a database.

        Persons are drawn in blocks, so memory is bounded.  With the same seed, `sample` draws the same rows.

        Parameters
        ----------
        folder
            A new or empty folder, which is written whole or not at all.  Or a `SqlDatabase`, whose tables get the rows
            in one transaction.
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
        """Yield the pyarrow tables of some persons at a time, by name, parents before their children, to be written."""
        wanted, rng = whole("rows", self.rows if rows is None else rows, least=1), generator(random_state)
        forms = {
            name: form.for_files(outer_schema(self.schema, name), library="pyarrow")
            for name, form in self.formats.items()
        }
        for block in self._blocks(wanted, rng, given):
            yield {name: self._built(name, [block[name]], forms[name]) for name in self.schema.names}

    def _built(self, name: str, blocks: Sequence[Mapping[str, RawColumn]], form: TableFormat) -> Any:
        """Return one table, built from its blocks of raw columns, in a given format."""
        columns = {column: together([block[column] for block in blocks]) for column in blocks[0]}
        return form.build(outer_schema(self.schema, name), columns)

    def _blocks(
        self, persons: int, rng: Generator, given: Mapping[str, Any] | None
    ) -> Iterator[dict[str, dict[str, RawColumn]]]:
        """Yield the raw columns of all tables, of at most `BLOCK_PERSONS` persons at a time.

        Persons that break rules or lack a given row are drawn again.  Raise ParameterError if too few persons are
        found.
        """
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
        """Return the rows of sampled persons as raw columns, with the position of each row's parent.

        Pictures need these positions.
        """
        return self._drawn(persons, rng, {}, dict.fromkeys(self.schema.names, 0), {}, most=persons)

    def _some_row(self, given: Mapping[str, Any]) -> dict[Place, BoolArray]:
        """Return by table and column a mask of grid points that some row of each person must have.

        The masks are conditions such as ``visits.cost`` in ``given``.
        """
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
        """Return a mask of the persons with a valid row that meets all conditions on its table, (persons,).

        Each table with conditions needs one such row.  ``raw`` holds the drawn rows' values by table and column.
        ``kept`` masks each table's valid rows, and ``asked`` masks the grid points that each condition allows.
        """
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
        """Return the rows of drawn persons: only persons that meet ``some_row``, and at most ``most`` of them.

        The number of persons drawn is ``wanted``.  Keys start after the numbers in ``first``, which are raised in
        place.
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
        """Return by table how many rows were drawn, how many kept, and how many of these repaired, for drawn persons.

        Receipts report these numbers, and `check_rules` refuses rules that keep no row.  A repaired row has a value
        outside the bin that the model drew, so that a rule holds.  Rows that break a rule are left out.
        """
        drawn, masks = self.draw(persons, rng)
        obedience, _, kept = self._values(drawn, masks, rng)
        return {
            name: (len(one), int(one.sum()), int((one & obedience.mended(name)).sum()))
            for name, one in zip(self.schema.names, kept, strict=True)
        }

    def obedience_notes(self, rng: Generator) -> tuple[str, ...]:
        """Return receipt notes on the rows that rules leave out or change.

        The rows are counted in a trial of at most `TRIED` persons.
        """
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
        """Return the drawn values by table and column, and by table a (rows,) mask of the rows that satisfy all rules.

        The first of the three results is the sampler of valid values, which also counts the repaired rows.
        """
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
                points = obedience.drawn((name, column), draw, rng, fixed=fixed)
                drawn = decode(kind, points, rng=None if obedience.names_values(name, column) else rng)
                raw[name, column] = obedience.settled((name, column), drawn)
        return obedience, raw, obedience.kept(raw)

    def draw(
        self, persons: int, rng: Generator, *, given: Mapping[str, Any] | None = None
    ) -> tuple[Persons, dict[Conditioned, BoolArray]]:
        """Return drawn persons as bins, and the grid points that ``given`` allows.

        The allowed grid points are masks, by table, column and position of the row.

        Raise ParameterError if the given values have probability 0.
        """
        named = {self._conditioned(name): (name, value) for name, value in (given or {}).items()}
        allowed: dict[tuple[int, str, int], FloatArray | BoolArray] = {}
        found: dict[Conditioned, BoolArray] = {}
        for (i, column, place), (name, value) in named.items():
            kind = self.schema.tables[self.schema.names[i]][column]
            mask = found[i, column, place] = mask_of_values(kind, value, name=name)
            shares = self.refinement(i, column).share_of_groups(mask)
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
        """Draw a grid point for each row of a table in one column, inside the row's bin, (rows,), for answers."""
        return self._indices(persons, table, column, rng, {})

    def _conditioned(self, name: str) -> Conditioned:
        """Return the table, column and row position that a name in ``given`` refers to.

        Raise ParameterError if the name is unknown, or if rows of that table cannot be conditioned on.
        """
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
        """Restrict ``allowed`` in place to persons that have more than ``place`` rows in table ``i``.

        A condition on a row needs that row.
        """
        key = 0, self.layout.tables[i].count, 0
        size = self.layout.axis(0, key[1]).size
        enough = self.layout.rows_of_count(i)[:size] > place
        allowed[key] = enough * np.asarray(allowed.get(key, np.ones(size)), np.float64)

    def _allow_periods(
        self, allowed: dict[tuple[int, str, int], FloatArray | BoolArray], i: int, place: int, periods: BoolArray
    ) -> None:
        """Restrict ``allowed`` in place to patterns whose row at position ``place`` lies in an allowed period.

        A pattern is the set of a person's periods; a condition on the period of a row in table ``i`` decides it.
        """
        key = 0, self.layout.tables[i].count, 0
        inside = self.layout.periods_of_pattern(i)[: self.layout.axis(0, key[1]).size, place]
        allowed[key] = np.asarray(allowed[key], np.float64) * (periods[np.maximum(inside, 0)] & (inside >= 0))

    def _order(self, persons: Persons, i: int, rng: Generator) -> IntArray:
        """Return the order in which a table's rows are written, (rows,).

        If rows have no order, each parent's rows are shuffled, so that their order says nothing.
        """
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
        """Return the key columns of a table's rows: the parent's keys, and fresh keys that child tables refer to.

        Rows that are not kept have a key too, which nobody sees.  Labels are numbered from ``first`` on.
        """
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
        """Draw a grid point for each row of a column inside its bin, (rows,).

        Rows with a condition get an allowed grid point.
        """
        rows = persons.tables[i]
        refinement, cells = self.refinement(i, column), cells_of_rows(self.layout, persons, i, column)
        indices = self._within(refinement, cells, rng)
        for (_, _, place), mask in _masks_of(masks, i, column).items():
            here = np.flatnonzero(rows.rank == place)
            indices[here] = self._within(refinement, cells[here], rng, mask)
        return indices

    def refinement(self, table: int, column: str) -> Refinement:
        """Return the division of a column's bins; if none was measured, all grid points of a bin are equally likely."""
        axis = axis_at(self.layout, (self.schema.names[table], column))
        return self.refinements.get((table, column)) or Refinement.trivial(axis)

    def _within(
        self, refinement: Refinement, cells: AnyArray, rng: Generator, allowed: BoolArray | None = None
    ) -> GridIndices:
        """Draw a grid point inside each row's bin, (rows,), with fine bins filled in proportion to their weights.

        With a mask, only allowed grid points are drawn.
        """
        shares = None if allowed is None else refinement.share(allowed)
        leaves = drawn_leaves(refinement.table(shares).sum(axis=0), refinement.coarse_cell, cells, rng)
        if allowed is None:
            return refinement.indices_in(leaves, rng)
        return refinement.indices_among(allowed, leaves, rng)


def _labels(support: Fresh, kept: BoolArray, *, first: int) -> RawColumn:
    """Return fresh labels for rows: each kept row gets the next label after ``first``, so that none occurs twice.

    The label of any other row means nothing.
    """
    number = np.cumsum(kept) - 1
    return rows_of(fresh_labels(support, max(1, int(kept.sum())), first=first), np.maximum(number, 0))


def _masks_of(masks: Mapping[Conditioned, BoolArray], i: int, column: str) -> dict[Conditioned, BoolArray]:
    """Return the masks of allowed grid points that are about one column of one table, by position of the row."""
    return {key: mask for key, mask in masks.items() if key[:2] == (i, column)}


def drawn_leaves(weights: FloatArray, cell_of: IntArray, cells: AnyArray, rng: Generator) -> IntArray:
    """Draw a fine bin for each row's coarse bin, (n,), by systematic sampling within each coarse bin.

    The rows of a coarse bin fill its fine bins in proportion to the weights, to within one row.

    Parameters
    ----------
    weights, cell_of
        (fine bins,) weight of each fine bin, and its coarse bin; each coarse bin has a fine bin of positive weight.
    cells
        (n,) coarse bins of the rows.
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
