"""From a URL, a connection or an engine to what opens a link to that database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from synthdp.errors import DataError, ParameterError
from synthdp.tables.refusals import connecting, instead_of, place_of
from synthdp.tables.source import CONNECTION
from synthdp.tables.sql.links import AdbcLink, DbapiLink, DuckDBLink, Link, Mode
from synthdp.tables.sql.types import NAMES

Opener: TypeAlias = Callable[[Mode], Link]
"""A function that opens a database connection for a purpose."""


class Snapshot:
    """One connection in one transaction that several sources share, so that all tables are read as of one moment.

    The transaction ends when no source needs it any more.

    Parameters
    ----------
    database
        As `opener_of` takes it.
    """

    def __init__(self, database: Any) -> None:
        self._open, self.address = opener_of(database), address_of(database)
        self._link: Link | None = None
        self._readers = 0

    def open(self, mode: Mode) -> Link:
        """Return the shared connection for reading, or a new one for any other purpose."""
        if mode != "read":
            return self._open(mode)
        if self._link is None:
            self._link = self._open(mode)
        self._readers += 1
        return cast("Link", _Lent(self._link, self._given_back))

    def _given_back(self) -> None:
        """Count one reader less, and close the shared connection after the last."""
        self._readers -= 1
        if self._readers == 0 and self._link is not None:
            link, self._link = self._link, None
            link.close()


class _Lent:
    """A shared connection in the hands of one reader, whose `close` only gives it back."""

    def __init__(self, link: Link, back: Callable[[], None]) -> None:
        self._link, self._back = link, back
        self._closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    def close(self) -> None:
        """Give the connection back to its `Snapshot`, once."""
        if not self._closed:
            self._closed = True
            self._back()


def opener_of(database: Any) -> Opener:
    """Return a function that opens connections to a database, given as a URL, a connection or an engine.

    Parameters
    ----------
    database
        A URL, an ADBC or DBAPI connection, DuckDB's, or an SQLAlchemy engine.

    Raises
    ------
    DataError
        If ``database`` is of any other type.
    ParameterError
        If the driver that a URL needs is not installed.
    """
    if isinstance(database, Snapshot):
        return database.open
    if isinstance(database, str):
        return _opener_of_url(database)
    module = type(database).__module__.split(".")[0]
    if hasattr(database, "adbc_clone"):
        return lambda mode: AdbcLink(database.adbc_clone(), mode=mode)
    if module in {"duckdb", "_duckdb"} and hasattr(database, "execute"):
        return lambda _: DuckDBLink(database)
    if module == "sqlalchemy" and hasattr(database, "raw_connection") and hasattr(database, "dialect"):
        return lambda mode: _of_engine(database, mode)
    if hasattr(database, "cursor") and hasattr(database, "commit"):
        dialect = NAMES.get(module, module)
        return lambda mode: DbapiLink(database, dialect, mode=mode)
    raise DataError(
        f"database must be a URL, an ADBC or DBAPI connection or an SQLAlchemy engine, not {type(database).__name__}"
    )


def address_of(database: Any) -> str:
    """Return a text that identifies a database, without user and password; for an open connection, its object's id.

    A release can then tell whether rows would be written into a table that it read.
    """
    if isinstance(database, Snapshot):
        return database.address
    if isinstance(database, str):
        return place_of(database).replace("postgres://", "postgresql://")
    if hasattr(database, "raw_connection") and hasattr(database, "url"):
        url = database.url
        port = f":{url.port}" if url.port else ""
        return f"{url.get_backend_name()}://{url.host or ''}{port}/{url.database or ''}"
    return f"{CONNECTION}{id(database)}"


def _opener_of_url(url: str) -> Opener:
    """Return a function that opens connections to a URL; raise ParameterError if its driver is not installed."""
    scheme, place = url.partition(":")[0], place_of(url)
    if scheme in {"postgresql", "postgres"}:
        needs = ParameterError("PostgreSQL needs a driver: pip install 'synthdp[sql]'")
        with instead_of(ImportError, say=needs):
            from adbc_driver_postgresql import dbapi

        def of_postgres(mode: Mode) -> Link:
            with connecting(place):
                connection = dbapi.connect(url)
            return AdbcLink(connection, mode=mode)

        return of_postgres
    if scheme in {"sqlite", "duckdb"}:
        path = unquote(urlsplit(url).path).removeprefix("/")
        return (
            (lambda mode: _of_file(path, place, mode))
            if scheme == "sqlite"
            else (lambda mode: _of_duckdb(path, place, mode))
        )
    needs = ParameterError(f"a URL that begins with '{scheme}:' needs SQLAlchemy: pip install sqlalchemy")
    with instead_of(ImportError, say=needs):
        import sqlalchemy
    with connecting(place):
        engine = sqlalchemy.create_engine(
            url, poolclass=sqlalchemy.NullPool
        )  # what was read is closed, not kept for later
    return lambda mode: _of_engine(engine, mode, place)


def _of_engine(engine: Any, mode: Mode, place: str | None = None) -> Link:
    """Return a connection from an SQLAlchemy engine's pool; errors call the database ``place``, else by its URL."""
    if getattr(engine.dialect, "is_async", False):
        raise DataError("the engine must not be asynchronous: make it with sqlalchemy.create_engine")
    with connecting(place or f"{engine.url.get_backend_name()}://{engine.url.host or ''}/{engine.url.database or ''}"):
        pooled = engine.raw_connection()
    connection = pooled.driver_connection
    if engine.dialect.name == "duckdb":
        return DuckDBLink(getattr(connection, "c", connection), ends=pooled.close)
    dialect = NAMES.get(engine.dialect.name, engine.dialect.name)
    return DbapiLink(connection, dialect, ends=pooled.close, mode=mode)


def _of_file(path: str, place: str, mode: Mode) -> Link:
    """Return a connection to an SQLite file, read-only unless it is for writing."""
    import sqlite3
    from pathlib import Path

    with connecting(place):
        uri = Path(path).absolute().as_uri() + f"?mode={'rw' if mode == 'write' else 'ro'}"
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
    return DbapiLink(connection, "sqlite", ends=connection.close)


def _of_duckdb(path: str, place: str, mode: Mode) -> Link:
    """Return a connection to a DuckDB file, read-only unless it is for writing."""
    with instead_of(ImportError, say=ParameterError("a database needs duckdb: pip install 'synthdp[duckdb,arrow]'")):
        import duckdb
    with connecting(place):
        connection = duckdb.connect(path, read_only=mode != "write")
    return DuckDBLink(connection, ends=connection.close)
