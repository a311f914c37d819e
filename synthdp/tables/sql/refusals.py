"""Sentences in place of a database's errors, which may quote rows, and addresses, which hold passwords.

Which sentence it is depends on the error's SQLSTATE, or on what a refused connection says before any row is read.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from urllib.parse import urlsplit

from synthdp.errors import DataError, SynthDPError
from synthdp.tables.refusals import instead_of

WHY = "the database could not read the table: run the query in the database itself to see why"
NOT_WRITTEN = "the database refused the rows: insert one of them in the database itself to see why"
LOST = "the connection to the database was lost or refused"
NONE_THERE = "none of the rows is there, and drawing them again costs no budget"

_STATES = {
    "28": "the database refuses the user or the password",
    "3D": "the server has no database of that name",
    "08": LOST,
    "57": "the database ended the connection or the query",
    "53": "the database has no connection, memory or disk left",
    "25006": "the database is open for reading only",
    "42501": "the database user has no right to this: reading takes SELECT, writing INSERT, push='counts' TEMPORARY",
    "42P01": "there is no such table, or view, in the database",
    "42703": "the query names a column that the table does not have",
    "42601": "the query is not valid SQL for this database",
}
"""The beginning of an SQLSTATE, and what it means."""

_SAID_AT_THE_DOOR = (
    ("password authentication failed", _STATES["28"]),
    ("no password supplied", _STATES["28"]),
    ("no pg_hba.conf entry", _STATES["28"]),
    ("access denied", _STATES["28"]),
    ("fatal:  role \"", _STATES["28"]),
    ("fatal:  database \"", _STATES["3D"]),
)  # fmt: skip


_LIBRARIES = ("psycopg", "psycopg2", "pg8000", "adbc_driver_manager")
"""Drivers of PostgreSQL, whose errors have an SQLSTATE unless they are about the connection."""

_LOST_OF_MYSQL = (2006, 2013, 2055)
"""What MySQL's drivers call a lost connection."""


def asking() -> AbstractContextManager[None]:
    """Return a context for reading, in which whatever a driver raises is one sentence that quotes nothing of it."""
    return instead_of(Exception, say=lambda error: _said(error, WHY))


def inserting() -> AbstractContextManager[None]:
    """Return a context for writing, in which whatever a driver raises is one sentence that says what became of the rows."""

    def say(error: BaseException) -> SynthDPError | None:
        found = _said(error, NOT_WRITTEN)
        return None if found is None else DataError(f"{found}; {NONE_THERE}")

    return instead_of(Exception, say=say)


def connecting(where: str) -> AbstractContextManager[None]:
    """Return a context for opening a connection, in which no error shows the password or the user.

    Parameters
    ----------
    where
        The place as it may be shown; see `place_of`.
    """

    def say(error: BaseException) -> SynthDPError | None:
        if isinstance(error, (SynthDPError, MemoryError)):
            return None
        words = str(error).lower()
        for told, sentence in _SAID_AT_THE_DOOR:
            if told in words:
                return DataError(f"{sentence}: {where}")
        return DataError(f"the database cannot be reached: {where}")

    return instead_of(Exception, say=say)


def place_of(url: str) -> str:
    """Return where a database is, as it may be shown: the kind, the host and the name, without user, password, options."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the address given"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _said(error: BaseException, otherwise: str) -> SynthDPError | None:
    if isinstance(error, (SynthDPError, MemoryError)):
        return None
    state = _state(error)
    for length in (5, 2):
        if state[:length] in _STATES:
            return DataError(_STATES[state[:length]])
    return DataError(LOST if not state and _is_lost(error) else otherwise)


def _is_lost(error: BaseException) -> bool:
    """Whether an error without an SQLSTATE is about the connection: by its class and number, never by its words."""
    original = getattr(error, "orig", None) or error
    library = type(original).__module__.split(".")[0]
    if library in ("pymysql", "MySQLdb", "mysql"):
        return bool(original.args) and original.args[0] in _LOST_OF_MYSQL
    return library in _LIBRARIES and type(original).__name__ in ("OperationalError", "InterfaceError")


def _state(error: BaseException) -> str:
    """Return the SQLSTATE of an error of ADBC or of a DBAPI driver; empty if it has none."""
    original = getattr(error, "orig", None) or error  # SQLAlchemy wraps the driver's error
    found = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
    if found is None and original.args and isinstance(original.args[0], dict):  # pg8000
        found = original.args[0].get("C")
    return found if isinstance(found, str) else ""
