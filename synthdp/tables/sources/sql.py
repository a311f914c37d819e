"""A table or a query of a database as a source of rows: PostgreSQL by ADBC, any other by its DBAPI or ADBC driver."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from synthdp.arrays import AnyArray, GridIndices, Totals
from synthdp.checks import check_one_of
from synthdp.domain.encoder import Labels, Numbers, RawColumn
from synthdp.errors import DataError, ParameterError
from synthdp.queries.marginals import counted_tables
from synthdp.queries.protocol import Statistic
from synthdp.schema.columns import Categorical, Column, Identifier
from synthdp.schema.schema import Schema
from synthdp.tables.columns.arrow import read
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.parse import declared
from synthdp.tables.plain import labels_of_objects
from synthdp.tables.refusals import asking, inserting, reading
from synthdp.tables.source import Bound
from synthdp.tables.sql.bounding import digest_of
from synthdp.tables.sql.catalogue import declared_types, identities
from synthdp.tables.sql.counting import counting_query, listing_query, repeated, summing_queries
from synthdp.tables.sql.encoding import WORDS, Stages, encoded, packed_sql, packs_of, stages_of, unpacked
from synthdp.tables.sql.links import Cells, Link
from synthdp.tables.sql.openers import address_of, opener_of
from synthdp.tables.sql.planned import coding
from synthdp.tables.sql.types import SelectedColumn, affinity, quoted, quoted_table

WHOLE = SelectedColumn("whole", "int8", arrives=pa.int64())
"""The description of a result column of integers that a query computed, such as counts."""

_NUMBERS = itertools.count()
"""A counter that makes names of temporary tables unique."""


class SqlSource:
    """A source of the rows of a database table or query, which stream in blocks; only needed columns are read.

    All that is read until the release is done is read in one transaction: in PostgreSQL at REPEATABLE READ, so that
    rows which others change meanwhile are as at the moment when it began.

    Parameters
    ----------
    database
        A URL such as ``"postgresql://user@host/name"`` (which reads by ADBC; ``sqlite:///path`` and ``duckdb:///path``
        need no driver, others go through SQLAlchemy), an SQLAlchemy engine, or a connection: of ADBC, which is cloned, or
        of a DBAPI driver, which nobody else may use meanwhile.  A password stays out of every message.
    table
        The table or view, perhaps after its schema and a dot; each part is taken as it is written.
    query
        A SELECT statement instead.
    push
        What the database does.  ``"rows"``: it sends values, which are encoded here.  ``"codes"``: it encodes them and
        sends packed whole numbers, a tenth of the bytes; columns that it cannot encode exactly come as values.
        ``"counts"``: it codes rows into a temporary table of its own, limits the rows of each privacy unit, and counts
        there.  So only counts and sums come here, without noise yet; other mechanisms' statistics that are neither
        tables nor second moments are summed here from how often each combination of cells occurs.  ``"auto"``: codes if
        the database can encode every column, else rows.  The integers are the same.  ``"codes"`` and ``"counts"`` are
        for PostgreSQL and DuckDB, whose arithmetic is proven to be the encoder's; only there may they be asked for.

    Raises
    ------
    DataError
        If the database cannot be reached, or the table cannot be read.
    ParameterError
        If not exactly one of ``table`` and ``query`` is given, a driver is not installed, or the database cannot ``push``.
    """

    def __init__(
        self, database: Any, *, table: str | None = None, query: str | None = None, push: str = "rows"
    ) -> None:
        if (table is None) == (query is None):
            raise ParameterError("give either table or query, not both")
        check_one_of("push", push, ("rows", "codes", "counts", "auto"))
        self._open, self._table, self._query, self._push = opener_of(database), table, query, push
        self._place = address_of(database)
        self._link: Link | None = None
        self._coded: tuple[Schema, tuple[str | None, Bound | None], str] | None = None
        with asking():
            link = self._open("count" if push == "counts" else "read")
            try:
                self._dialect = link.dialect
                if push in {"codes", "counts"} and link.dialect not in WORDS:
                    raise ParameterError(
                        f"push={push!r} works with PostgreSQL and DuckDB only: leave push out for this database"
                    )
                self._columns = {one.name: one for one in _checked(link.columns(self._empty_query(link.dialect)))}
                if link.dialect == "sqlite" and table is not None:
                    for name, declared_as in declared_types(link, table).items():
                        if name in self._columns:
                            self._columns[name] = replace(self._columns[name], kind=declared_as)
                if (
                    push == "counts"
                ):  # a role, or a copy for reading, may not make tables: said before anything is spent
                    name = f"synthdp_coded_{next(_NUMBERS)}"
                    link.run(f"CREATE TEMPORARY TABLE {name} (n integer)")
                    link.run(f"DROP TABLE {name}")
            finally:
                link.close()

    def __repr__(self) -> str:
        return f"SqlSource({len(self.names)} columns)"

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.forget()

    def __reduce__(self) -> str:
        raise ParameterError(
            "a SqlSource holds a connection, so it cannot be pickled or copied: make a new SqlSource instead"
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self._columns)

    @property
    def table(self) -> str | None:
        """The table's name; ``None`` for a query."""
        return self._table

    @property
    def arrow_types(self) -> Mapping[str, str]:
        """Each column's Arrow type as text, where the database's type has one."""
        return {name: str(asked.shown) for name, asked in self._columns.items() if asked.shown is not None}

    def kind(self, name: str) -> Column:
        """Return an incomplete column declaration that a column's database type suggests; see `FrameSource.kind`."""
        return self._typed(name).kind(name)

    def can_hold(self, label: Categorical, name: str) -> bool:
        """Return whether a column's type can hold a label for other values, the only level of ``label``.

        A schema made from types declares the label only if the answer is True; see `FrameSource.can_hold`.
        """
        return self._typed(name).can_hold(label, name)

    def is_untyped(self, name: str) -> bool:
        """Return whether only values determine a column's type: SQLite's types bind no value, some drivers report none."""
        return self._dialect not in WORDS and self._columns[name].shown is None

    @property
    def knows_types(self) -> bool:
        """Whether the database tells its columns' types, as PostgreSQL and DuckDB do, and SQLite of a table."""
        return self._dialect in WORDS or (self._dialect == "sqlite" and self._table is not None)

    def _typed(self, name: str) -> FrameSource:
        """Return an empty table of one column, of the Arrow type that suits its database type.

        A declaration of the column is suggested from it, as from a dataframe's column.
        """
        asked = self._columns[name]
        numeric = pa.float64() if asked.kind == "numeric" else pa.string()
        suits = asked.shown or (affinity(asked.kind) if self._dialect == "sqlite" else numeric)
        return FrameSource(pa.schema([(name, suits)]).empty_table())

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:
        """Yield all rows in blocks, each a dict of raw values (labels or numbers) by column; see `Source.blocks`."""
        kinds: dict[str, Column] = {name: Identifier() for name in extra} | dict(columns)
        self.check_values()
        wanted = [self._asked_as(name, column.names_rows) for name, column in kinds.items()]
        with asking():
            for cells in self._asked(self._selected(wanted, self._dialect), wanted):
                yield {
                    name: _raw(name, column, part) for (name, column), part in zip(kinds.items(), cells, strict=True)
                }

    def check_values(self) -> None:
        """Raise DataError where only counts may leave the database, so that nobody asks for single values.

        Raises
        ------
        DataError
            With ``push="counts"``.
        """
        if self._push == "counts":
            raise DataError(
                "push='counts' leaves all rows in the database, but their values are needed here: use push='codes' "
                "or push='rows'"
            )

    def check(self, schema: Schema, *, unit: str | None) -> None:
        """Raise ParameterError, before anything is spent, if the database cannot count a schema's columns itself.

        Raises
        ------
        ParameterError
            Naming the column.
        """
        if self._push != "counts":
            return
        if unit is not None and self._digest(unit) is None:
            raise ParameterError(
                f"the database cannot compare values of privacy_unit {unit!r}, of type {self._columns[unit].kind}, "
                "exactly: cast the column to text or a whole number in a query, or use push='codes'"
            )
        if schema.undeclared:
            raise ParameterError(
                "push='counts' needs all columns declared: declare the bounds or levels of column "
                f"{schema.undeclared[0]!r}"
            )
        left = [name for name in schema if name not in self._stages(schema)]
        if left:
            raise ParameterError(
                f"the database cannot encode column {left[0]!r}, of type {self._columns[left[0]].kind}, exactly as "
                f"{type(schema[left[0]]).__name__}: cast the column in a query, or use push='codes'"
            )

    def indices(
        self, schema: Schema, *, extra: Sequence[str] = ()
    ) -> Iterator[tuple[list[GridIndices | RawColumn], dict[str, RawColumn]]] | None:
        """Yield all rows in blocks, encoded by the database where it can; ``None`` if rows are to be encoded here.

        A block is the schema's columns, as (n,) grid indices or raw values, and the extra columns by name.
        """
        stages = self._stages(schema) if self._push in {"codes", "auto"} else {}
        if not stages or (self._push == "auto" and len(stages) < len(schema)):
            return None
        return self._packed(schema, stages, extra)

    def sums(
        self, statistic: Statistic, schema: Schema, *, unit: str | None = None, bound: Bound | None = None
    ) -> Totals | None:
        """Return a statistic's exact sums, (k,), counted in the database; ``None`` unless ``push="counts"``.

        For ``None`` rows are counted here.  See `SummingSource.sums`.
        """
        if self._push != "counts":
            return None
        self.check(schema, unit=unit)
        with asking():
            coded, domain = self._code(schema, unit, bound), statistic.domain
            names = [f"g{schema.names.index(axis.name)}" for axis in domain.axes]
            tables = counted_tables(statistic)
            if tables is not None:
                asked = counting_query(domain, tables.cliques, coded, names)
                return asked.tables(self._numbers(asked.sql, 3), domain, tables.cliques)
            parts = summing_queries(statistic, coded, names, self._dialect)
            if parts:
                return np.concatenate([self._numbers(sql, width)[0] for sql, width in parts], dtype=np.int64)
            cells = repeated(self._numbers(listing_query(domain, coded, names), len(domain) + 1))
            return statistic.sums(cells)

    def _stages(self, schema: Schema) -> dict[str, Stages]:
        """Return, for each column that the database can encode exactly, the SQL that computes its grid index.

        There is none for a database whose arithmetic is not proven to equal the encoder's.
        """
        if self._dialect not in WORDS:
            return {}
        found = {}
        for j, (name, column) in enumerate(schema.items()):
            stages = stages_of(column, self._columns[name], quoted(name, self._dialect), j, WORDS[self._dialect])
            if stages is not None:
                found[name] = stages
        return found

    def _packing(
        self, schema: Schema, stages: Mapping[str, Stages], extra: Sequence[str]
    ) -> tuple[str, list[list[str]], list[str]]:
        """Return a query of packed grid indices and values, each pack's columns, and the columns that come as values.

        Packs put the grid indices of several columns into one integer, which saves bytes.  Columns with ``stages`` are
        packed; columns without stages, and the ``extra`` columns, come as values.
        """
        packs = packs_of(schema, [*stages])
        values = [name for name in [*schema, *extra] if name not in stages or name in extra]
        values = list(dict.fromkeys(values))
        asked = [self._asked_as(name, name in extra) for name in values]
        also = {f"v{i}": one.sql.format(quoted(one.name, self._dialect)) for i, one in enumerate(asked)}
        inner = encoded(self._rows(self._dialect), stages, also)
        flat = [packed_sql(schema, stages, pack) for pack in packs]
        shown = [*(f"{sql} AS p{i}" for i, sql in enumerate(flat)), *also]
        return f"SELECT {', '.join(shown)} FROM ({inner}) packed", packs, values  # noqa: S608

    def _packed(
        self, schema: Schema, stages: Mapping[str, Stages], extra: Sequence[str]
    ) -> Iterator[tuple[list[GridIndices | RawColumn], dict[str, RawColumn]]]:
        """Yield blocks: the columns of ``schema`` in order, and the ``extra`` columns as raw values by name.

        Columns with ``stages`` come as (n,) grid indices: the database packs the indices of several columns into one
        integer, to send fewer bytes.  Columns without stages come as raw values.
        """
        query, packs, values = self._packing(schema, stages, extra)
        asked = [WHOLE] * len(packs) + [self._asked_as(name, name in extra) for name in values]
        with asking():
            for cells in self._asked(query, asked):
                found: dict[str, GridIndices | RawColumn] = {}
                for pack, part in zip(packs, cells, strict=False):
                    found |= unpacked(_whole(part), schema, pack)
                for name, part in zip(values, cells[len(packs) :], strict=True):
                    found[name] = _raw(name, Identifier() if name in extra else schema[name], part)
                units = {name: raw for name in extra if isinstance(raw := found[name], Labels | Numbers)}
                yield [found[name] for name in schema], units

    def _asked_as(self, name: str, is_name: bool) -> SelectedColumn:
        """Return how a query selects a column.

        An identifier (``is_name``) is selected as text if its type would be clipped, such as a date, since clipping
        could merge two persons.  Other columns are selected as usual.
        """
        return self._columns[name].as_name() if is_name else self._columns[name]

    def _digest(self, unit: str) -> str | None:
        """Return SQL for the hash of a row's unit; ``None`` if it could differ from `Bounding.digests`.

        SQL and `Bounding` must keep equal rows of a unit.
        """
        return digest_of(self._columns[unit], quoted(unit, self._dialect), self._dialect)

    def _code(self, schema: Schema, unit: str | None, bound: Bound | None) -> str:
        """Return the name of a temporary table of all rows' grid indices, with bounded contributions.

        The first query makes the table, so that later ones need not encode the rows again.
        """
        settings = (unit, bound)
        if self._coded is None or self._coded[0] is not schema or self._coded[1] != settings:
            self.forget()
            name = f"synthdp_coded_{next(_NUMBERS)}"
            kept = None if unit is None or bound is None else (self._digest(unit) or "", bound.rows)
            stages = self._stages(schema)
            self._linked().run(coding(name, self._rows(self._dialect), schema, stages, self._dialect, kept=kept))
            self._coded = (schema, settings, name)
        return self._coded[2]

    def _numbers(self, query: str, columns: int) -> AnyArray:
        """Return the integers that a query returns, (rows, columns)."""
        blocks = [np.column_stack([_whole(part) for part in cells]) for cells in self._asked(query, [WHOLE] * columns)]
        return np.concatenate(blocks)

    def write(self, frames: Iterable[Any]) -> None:
        """Append pyarrow tables to the table, in one transaction: all rows or none.

        The table must exist; columns that the rows lack get their defaults.  On a DBAPI connection with an open
        transaction of the caller, the rows become a part of it, so that related tables can be written together.

        Parameters
        ----------
        frames
            One or more pyarrow tables, all with the same columns.

        Raises
        ------
        DataError
            If the database refuses the rows: for an unknown column, a type, a key, or a missing right.
        ParameterError
            If the source is a query.
        """
        if self._table is None:
            raise ParameterError("rows cannot be written to a query: give table= instead of query=")
        self.forget()
        with inserting():
            link = self._open("write")
            try:
                self.insert(link, frames)
                link.commit()
            finally:
                link.close()

    def insert(self, link: Link, frames: Iterable[Any]) -> None:
        """Append pyarrow tables over an open connection, in its transaction, which may hold related tables too."""
        if self._table is None:
            raise ParameterError("rows cannot be written to a query: give table= instead of query=")
        tables = iter(frames)
        first = next(tables)
        lacking = [name for name in first.column_names if name not in self.names]
        if lacking:
            raise DataError(f"the table in the database has no column {lacking[0]!r}: add this column to it")
        batches = (batch for one in itertools.chain([first], tables) for batch in one.to_batches())
        reader = pa.RecordBatchReader.from_batches(first.schema, batches)
        link.ingest(quoted_table(self._table, link.dialect), reader)

    @property
    def address(self) -> str | None:
        """Database and name of the table as a text, without user and password; ``None`` for a query.

        Synthetic rows are not written into a table with this address.
        """
        return None if self._table is None else f"{self._place} {quoted_table(self._table, 'sql')}"

    def identities(self) -> tuple[str, ...]:
        """Return texts by which the database identifies the stored tables of the rows, whatever they are called.

        Two sources with a text in common have a table in common.

        Raises
        ------
        DataError
            If the database cannot be reached.
        """
        with asking():
            link = self._open("read")
            try:
                return identities(link, self._rows(link.dialect), self._place)
            finally:
                link.close()

    def forget(self) -> None:
        """End the transaction and drop the temporary table; the next query begins a new one."""
        link, coded = self._link, self._coded
        self._link = self._coded = None
        if link is not None:
            with contextlib.suppress(Exception):
                if coded is not None:  # it goes with a transaction of ours, but not with one of the caller's
                    link.run(f"DROP TABLE IF EXISTS {coded[2]}")
            link.close()

    def _asked(self, query: str, columns: Sequence[SelectedColumn]) -> Iterator[list[Cells]]:
        """Yield a query's rows in blocks; if reading stops early, the query is ended in the database too."""
        try:
            yield from self._linked().blocks(query, columns)
        except BaseException:
            self.forget()
            raise

    def _linked(self) -> Link:
        """Return the connection for reading or counting, opened at its first use."""
        if self._link is None:
            self._link = self._open("count" if self._push == "counts" else "read")
        return self._link

    def _selected(self, wanted: Sequence[SelectedColumn], dialect: str) -> str:
        """Return a query of all rows: the ``wanted`` columns in the given order, each as its safe SQL expression.

        The results are named c0, c1, ...
        """
        parts = [asked.sql.format(quoted(asked.name, dialect)) for asked in wanted] or ["1"]
        named = ", ".join(f"{part} AS {quoted(f'c{i}', dialect)}" for i, part in enumerate(parts))
        return f"SELECT {named} FROM {self._rows(dialect)}"  # noqa: S608 - names are quoted, the query is the caller's

    def _empty_query(self, dialect: str) -> str:
        """Return a query of all columns and no row, which finds the columns' types and whether the user may read them."""
        return f"SELECT * FROM {self._rows(dialect)} WHERE 1 = 0"  # noqa: S608

    def _rows(self, dialect: str) -> str:
        """Return the table's quoted name, or the query in parentheses, for a FROM clause."""
        if self._table is not None:
            return quoted_table(self._table, dialect)
        return f"({(self._query or '').rstrip().rstrip(';')}\n) synthdp_rows"


def _checked(columns: list[SelectedColumn]) -> list[SelectedColumn]:
    """Return the columns of a query; raise DataError if two have the same name."""
    for name, times in Counter(asked.name for asked in columns).items():
        if times > 1:
            raise DataError(f"the query returns {times} columns with the name {name!r}: give each another name")
    return columns


def _raw(name: str, column: Column, cells: Cells) -> RawColumn:
    """Return a block's cells of one column as raw values (labels or numbers), from Arrow or from Python objects."""
    with reading(name):
        if isinstance(cells, list):
            return declared(labels_of_objects(cells), column)
        return read(cells, column)


def _whole(cells: Cells) -> AnyArray:
    """Return a block's cells of one column as 64-bit integers, (rows,)."""
    numbers = pa.array(cells, pa.int64()) if isinstance(cells, list) else cells.cast(pa.int64())
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.int64)
