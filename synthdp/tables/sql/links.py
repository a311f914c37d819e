"""Connections to databases by ADBC, by any DBAPI driver, and to DuckDB: their queries, and how rows are fetched.

A link is one transaction: all its queries see the rows of one moment, if the database can guarantee that.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import pyarrow as pa

from synthdp.errors import DataError, ParameterError
from synthdp.tables.source import BLOCK_ROWS
from synthdp.tables.sql.types import NAMES, OIDS, SelectedColumn, as_arrow, postgres_column, quoted

Cells: TypeAlias = Any
"""The cells of one column in one block: an Arrow array, or a list of a driver's Python objects."""

_NUMBERS = itertools.count()
"""A counter that makes names of cursors unique."""

Mode: TypeAlias = Literal["read", "count", "write"]
"""The purpose of a connection: to read rows, to count them in a temporary table, or to write synthetic rows."""

REPEATABLE_READ = "ISOLATION LEVEL REPEATABLE READ"
"""The isolation level in which all queries of a transaction see the same rows."""

CLIENT_CHECK = "2s"
"""How often PostgreSQL checks whether the client of a running query still exists, so that queries end
after their client was killed.  Less would ask more often; more lets such queries run on longer. A convention."""


class Link(Protocol):
    """A database connection within one transaction, over any driver."""

    @property
    def dialect(self) -> str:
        """The SQL dialect's name, as sqlglot has it."""
        ...

    def columns(self, rows: str) -> list[SelectedColumn]:
        """Return the columns of the query ``rows``, which gives no row, and how to select each."""
        ...

    def blocks(self, query: str, columns: Sequence[SelectedColumn]) -> Iterator[list[Cells]]:
        """Yield the rows of a query in blocks, at least one; a block is a list with the cells of each column."""
        ...

    def run(self, statement: str) -> None:
        """Run a statement that returns no rows."""
        ...

    def ingest(self, table: str, rows: Any) -> None:
        """Append Arrow batches to an existing table, whose name is quoted already."""
        ...

    def commit(self) -> None:
        """Commit what was written."""
        ...

    def close(self) -> None:
        """End the transaction and its running queries, and the connection if it was opened here."""
        ...


class AdbcLink:
    """A database connection of an ADBC driver, opened here; it gives and takes Arrow data."""

    def __init__(self, connection: Any, *, mode: Mode) -> None:
        self._connection = connection
        self._running: Any = None
        vendor = str(connection.adbc_get_info().get("vendor_name", ""))
        self.dialect = NAMES.get(vendor.lower(), vendor.lower())
        if self.dialect == "sqlite":
            self.close()
            raise ParameterError(
                "the ADBC driver of SQLite guesses column types from the first rows: give sqlite:///path, the URL "
                "of the file, instead"
            )
        if self.dialect == "postgres":
            self.run(f"SET TRANSACTION {REPEATABLE_READ}{', READ ONLY' * (mode == 'read')}")
            with contextlib.closing(connection.cursor()) as cursor:
                cursor.execute("SELECT current_setting('server_encoding')")
                self.run(_encoding(cursor.fetchone()[0]))
            self.run(_watched())

    def columns(self, rows: str) -> list[SelectedColumn]:
        """Return the columns of the query ``rows``, which gives no row, and how to select each; see `Link`."""
        with contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute(rows)
            schema = cursor.fetch_record_batch().schema
        if self.dialect == "postgres":
            return [_of_field(field) for field in schema]
        return [SelectedColumn(field.name, str(field.type), shown=field.type) for field in schema]

    def blocks(self, query: str, columns: Sequence[SelectedColumn]) -> Iterator[list[Cells]]:
        """Yield the rows of a query in blocks: a list with the cells of each column; see `Link`."""
        with contextlib.closing(self._connection.cursor()) as cursor:
            self._running = cursor
            cursor.execute(query)
            reader = cursor.fetch_record_batch()
            for batch in reader:
                for start in range(0, max(1, batch.num_rows), BLOCK_ROWS):
                    part = batch.slice(start, BLOCK_ROWS)
                    yield [as_arrow(a, asked.arrives) for a, asked in zip(part.columns, columns, strict=True)]
            self._running = None
            yield [as_arrow(pa.array([], f.type), a.arrives) for f, a in zip(reader.schema, columns, strict=True)]

    def run(self, statement: str) -> None:
        """Run a statement that returns no rows."""
        with contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute(statement)

    def ingest(self, table: str, rows: Any) -> None:
        """Append Arrow batches to an existing table, by way of a temporary table that casts their types."""
        names = [quoted(name, self.dialect) for name in rows.schema.names]
        shown = dict(zip(names, names, strict=True))
        with contextlib.closing(self._connection.cursor()) as cursor:
            if self.dialect == "postgres":  # which takes other widths, enums and domains by a cast only
                # A cast to varchar(3) would cut texts off, so the cast is to varchar: what is too long is refused.
                types = "SELECT quote_ident(attname), format_type(atttypid, -1) FROM pg_attribute "
                literal = table.replace("'", "''")
                cursor.execute(f"{types} WHERE attrelid = '{literal}'::regclass AND attnum > 0")
                there = {f'"{name}"' if not name.startswith('"') else name: kind for name, kind in cursor.fetchall()}
                text = {f.name for f in rows.schema if pa.types.is_string(f.type)}
                for name, plain in zip(names, rows.schema.names, strict=True):
                    if name in there:
                        shown[name] = f"{name}{'::text' * (plain in text)}::{there[name]}"
            cursor.adbc_ingest("synthdp_written", rows, mode="create", temporary=True)
        columns = ", ".join(shown)
        self.run(f"INSERT INTO {table} ({columns}) SELECT {', '.join(shown.values())} FROM synthdp_written")  # noqa: S608
        self.run("DROP TABLE synthdp_written")

    def commit(self) -> None:
        """Commit what was written."""
        self._connection.commit()

    def close(self) -> None:
        """End the transaction and the connection; a running query is cancelled in the database."""
        with contextlib.suppress(Exception):
            if self._running is not None:
                self._running.adbc_cancel()
                self._running.close()
        with contextlib.suppress(Exception):
            self._connection.rollback()
        with contextlib.suppress(Exception):
            self._connection.close()


class DbapiLink:
    """A database connection of a DBAPI driver, which gives Python objects.

    Parameters
    ----------
    connection
        The connection.
    dialect
        SQL dialect of the database.
    ends
        Called at the end: what was opened here is closed.
    mode
        Purpose of the connection.
    """

    def __init__(
        self, connection: Any, dialect: str, *, ends: Callable[[], None] | None = None, mode: Mode = "read"
    ) -> None:
        self._connection, self.dialect, self._ends = connection, dialect, ends
        self._running = False
        self._bytes_of_text = False
        self._began = _is_idle(connection)
        if not self._began:
            return
        if dialect == "postgres":
            how = f"{REPEATABLE_READ}{', READ ONLY' * (mode == 'read')}"
            self.run(f"BEGIN {how}" if getattr(connection, "autocommit", False) else f"SET TRANSACTION {how}")
            with contextlib.closing(connection.cursor()) as cursor:
                cursor.execute("SHOW server_encoding")
                encoding = cursor.fetchone()[0]
                encoding = encoding if isinstance(encoding, str) else bytes(encoding).decode()  # not text without one
            self.run(_encoding(encoding))
            self.run(_watched())
            self._bytes_of_text = encoding == "SQL_ASCII"
        elif dialect == "sqlite":
            self.run("BEGIN")
        elif dialect == "mysql":
            self.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")

    def columns(self, rows: str) -> list[SelectedColumn]:
        """Return the columns of the query ``rows``, which gives no row, and how to select each; see `Link`."""
        with contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute(rows)
            found = [(str(column[0]), column[1]) for column in cursor.description]
        if self.dialect == "postgres":
            return [
                postgres_column(name, OIDS.get(code, "unknown"), bytes_of_text=self._bytes_of_text)
                for name, code in found
            ]
        return [SelectedColumn(name, "") for name, _ in found]

    def blocks(self, query: str, columns: Sequence[SelectedColumn]) -> Iterator[list[Cells]]:
        """Yield the rows of a query in blocks: a list with the cells of each column; see `Link`."""
        self._running = True
        with _surrogates_for_bad_text(self._connection), contextlib.closing(self._connection.cursor()) as cursor:
            for rows in self._fetched(cursor, query):
                cells = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in columns]
                yield [_of_objects(each, asked.arrives) for each, asked in zip(cells, columns, strict=True)]
        self._running = False

    def run(self, statement: str) -> None:
        """Run a statement that returns no rows."""
        with contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute(statement)

    def ingest(self, table: str, rows: Any) -> None:
        """Append Arrow batches to an existing table, as rows of Python objects, which DBAPI drivers take."""
        mark = "?" if self.dialect == "sqlite" else "%s"
        names = ", ".join(quoted(name, self.dialect) for name in rows.schema.names)
        if mark == "%s":  # which drivers tell from a name by its percent sign alone
            names, table = names.replace("%", "%%"), table.replace("%", "%%")
        marks = ", ".join([mark] * len(rows.schema.names))
        with contextlib.closing(self._connection.cursor()) as cursor:
            for batch in rows:
                held = list(zip(*(_for_driver(column, self.dialect) for column in batch.columns), strict=True))
                cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", held)  # noqa: S608 - quoted

    def commit(self) -> None:
        """Commit what was written, unless it is part of the caller's own transaction."""
        if self._began:
            self._connection.commit()

    def close(self) -> None:
        """End the transaction that was begun here; a running query is cancelled in the database."""
        for word in ("cancel", "interrupt") if self._running else ():
            with contextlib.suppress(Exception):
                getattr(self._connection, word)()
        if self._began:
            with contextlib.suppress(Exception):
                self._connection.rollback()
        if self._ends is not None:
            with contextlib.suppress(Exception):
                self._ends()

    def _fetched(self, cursor: Any, query: str) -> Iterator[Sequence[Any]]:
        """Yield a query's rows in blocks, then an empty block, so that a query without rows has a block too.

        PostgreSQL is read by a server-side cursor; its driver would otherwise hold all rows in memory.
        """
        if self.dialect != "postgres":
            cursor.execute(query)
            while rows := cursor.fetchmany(BLOCK_ROWS):
                yield rows
        else:
            name = f"synthdp_{next(_NUMBERS)}"
            cursor.execute(f"DECLARE {name} NO SCROLL CURSOR FOR {query}")
            while True:
                cursor.execute(f"FETCH FORWARD {BLOCK_ROWS} FROM {name}")
                rows = cursor.fetchall()
                if not rows:
                    break
                yield rows
            cursor.execute(f"CLOSE {name}")
        yield []


class DuckDBLink:
    """A connection to DuckDB, which gives and takes Arrow data."""

    dialect = "duckdb"

    def __init__(self, connection: Any, *, ends: Callable[[], None] | None = None) -> None:
        self._connection, self._ends = connection, ends
        self._began = ends is not None
        if (
            self._began
        ):  # on a connection of the caller's own a second BEGIN would undo the first: each query is a moment
            connection.execute("BEGIN TRANSACTION")

    def columns(self, rows: str) -> list[SelectedColumn]:
        """Return the columns of the query ``rows``, which gives no row, with their types; see `Link`."""
        relation = self._connection.sql(rows)
        schema = relation.to_arrow_table().schema
        kinds = zip(relation.columns, relation.types, schema, strict=True)
        return [SelectedColumn(name, str(kind), shown=field.type) for name, kind, field in kinds]

    def blocks(self, query: str, columns: Sequence[SelectedColumn]) -> Iterator[list[Cells]]:  # noqa: ARG002 - types are DuckDB's
        """Yield the rows of a query in blocks: a list with the Arrow array of each column; see `Link`."""
        reader = self._connection.sql(query).to_arrow_reader(BLOCK_ROWS)
        for batch in reader:
            yield batch.columns
        yield [pa.array([], field.type) for field in reader.schema]

    def run(self, statement: str) -> None:
        """Run a statement that returns no rows."""
        self._connection.execute(statement)

    def ingest(self, table: str, rows: Any) -> None:
        """Append Arrow batches to an existing table."""
        names = ", ".join(quoted(name, self.dialect) for name in rows.schema.names)
        self._connection.register("synthdp_written", rows)
        try:
            self._connection.execute(f"INSERT INTO {table} ({names}) SELECT * FROM synthdp_written")  # noqa: S608
        except BaseException:
            with contextlib.suppress(Exception):  # the transaction is aborted; the first error says why
                self._connection.unregister("synthdp_written")
            raise
        self._connection.unregister("synthdp_written")

    def commit(self) -> None:
        """Commit what was written, unless it is part of the caller's own transaction."""
        if self._began:
            self._connection.execute("COMMIT")
            self._began = False

    def close(self) -> None:
        """Roll back the transaction if it was begun here, and close the connection if it was opened here."""
        if self._began:
            with contextlib.suppress(Exception):
                self._connection.execute("ROLLBACK")
        if self._ends is not None:
            with contextlib.suppress(Exception):
                self._ends()


def _of_field(field: Any) -> SelectedColumn:
    """Return how a query must select a PostgreSQL column, from the type that the ADBC driver reports."""
    told = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    kind = told.get("POSTGRESQL:type", "unknown")
    return postgres_column(field.name, kind, typmod=int(told.get("POSTGRESQL:typmod", -1)))


def _watched() -> str:
    """Return SQL that makes PostgreSQL (14 or newer, on Linux) end queries whose client was killed."""
    return (
        f"SELECT set_config(name, '{CLIENT_CHECK}', true) FROM pg_settings "  # noqa: S608 - our own text
        "WHERE name = 'client_connection_check_interval' AND position('linux' in version()) > 0"
    )


def _encoding(server: str) -> str:
    """Return SQL that makes PostgreSQL send texts as UTF-8, or as raw bytes where no encoding was declared.

    Other encodings are refused: some bytes have no counterpart, and one such text would stop the reading.
    """
    if server not in {"UTF8", "LATIN1", "SQL_ASCII"}:
        raise DataError(f"the database's encoding must be UTF8, LATIN1 or SQL_ASCII, not {server}")
    return f"SET LOCAL client_encoding TO '{'SQL_ASCII' if server == 'SQL_ASCII' else 'UTF8'}'"


def _is_idle(connection: Any) -> bool:
    """Return whether no transaction of the caller is open on a connection; where a driver cannot tell, none is."""
    for name in ("in_transaction", "_in_transaction"):  # sqlite3; pg8000
        found = getattr(connection, name, None)
        if isinstance(found, bool):
            return not found
    status = getattr(getattr(connection, "info", None), "transaction_status", 0)
    return int(status) == 0


def _of_objects(cells: list[Any], wanted: pa.DataType | None) -> Cells:
    """Return a driver's Python objects as an Arrow array of the ``wanted`` type; texts stay unchanged.

    Without a ``wanted`` type, a list of floats alone, integers alone or booleans alone becomes an array; any other list
    stays unchanged.
    """
    kinds = set(map(type, cells)) - {type(None)}
    if wanted is not None:
        if pa.types.is_string(wanted):
            if kinds <= {str}:
                return cells
            return pa.array([None if c is None else bytes(c) for c in cells], pa.binary()).view(pa.string())
        if pa.types.is_binary(wanted):
            return pa.array([None if c is None else bytes(c) for c in cells], wanted)
        if pa.types.is_time(wanted) or pa.types.is_duration(wanted):
            return pa.array(cells, pa.int64()).view(wanted)
        return pa.array(cells, wanted)
    if kinds in ({float}, {int}, {bool}):
        with contextlib.suppress(pa.ArrowException, OverflowError):
            plain = {float: pa.float64(), int: pa.int64(), bool: pa.bool_()}[kinds.pop()]
            return pa.array(cells, plain, from_pandas=False)
    return cells


def _for_driver(column: pa.Array, dialect: str) -> list[Any]:
    """Return an Arrow column as Python objects that a DBAPI driver accepts; SQLite gets times and decimals as text."""
    values: list[Any] = column.to_pylist()
    if dialect != "sqlite" or not (pa.types.is_temporal(column.type) or pa.types.is_decimal(column.type)):
        return values
    return [None if value is None else str(value) for value in values]  # SQLite has neither times nor decimals


@contextlib.contextmanager
def _surrogates_for_bad_text(connection: Any) -> Iterator[None]:
    """Let Python's sqlite3 read texts that are not UTF-8, with surrogates for their bytes, within the ``with`` body.

    sqlite3 would otherwise stop, and one row would decide whether a release is made.
    """
    if type(connection).__module__ != "sqlite3":
        yield
        return
    before = connection.text_factory
    connection.text_factory = lambda raw: raw.decode(errors="surrogateescape")
    try:
        yield
    finally:
        connection.text_factory = before
