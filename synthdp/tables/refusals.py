"""One sentence in place of a library's or a database's error: such an error may quote cells, and an address a password.

Every error of a library that reads rows passes here.  ``raise ... from None`` would not do: the error that was caught
stays in ``__context__``, which error collectors, debuggers and loggers show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TypeAlias
from urllib.parse import urlsplit

from synthdp.errors import DataError, InternalError, SynthDPError

Said: TypeAlias = SynthDPError | Callable[[BaseException], SynthDPError | None]
"""The error to raise instead, or a function that makes it from the caught one; ``None`` from it lets the error pass."""


def instead_of(*kinds: type[BaseException], say: Said) -> AbstractContextManager[None]:
    """Return a context manager that replaces errors of some kinds by an error of ours, without keeping the original.

    The original may quote private values, and tracebacks and debuggers would show it.

    Parameters
    ----------
    kinds
        The errors to replace.
    say
        The error to raise, or a function that makes it from the caught one.  Neither may hold a value of a row.

    Examples
    --------
    >>> with instead_of(ValueError, say=SynthDPError("the file is damaged")):
    ...     int("canary")
    Traceback (most recent call last):
        ...
    synthdp.errors.SynthDPError: the file is damaged
    """
    return _InsteadOf(kinds, say)


def reading(name: str) -> AbstractContextManager[None]:
    """Return a context manager for reading one column, which turns unexpected errors into one that quotes no value."""
    return _InsteadOf(
        (Exception,),
        lambda error: (
            None
            if isinstance(error, (SynthDPError, MemoryError, ImportError))
            else InternalError(f"column {name!r} could not be read")
        ),
    )


class _InsteadOf(AbstractContextManager[None]):
    """The context manager of `instead_of`, which cuts the new error's links to the old one."""

    def __init__(self, kinds: tuple[type[BaseException], ...], say: Said) -> None:
        self._kinds, self._say = kinds, say

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, self._kinds):
            return
        refusal = self._say if isinstance(self._say, SynthDPError) else self._say(error)
        del kind, error, trace  # they would stand in the frame that the new error's traceback shows
        if refusal is None:
            return
        try:
            raise refusal
        finally:
            refusal.__context__ = None


WHY = "the database could not read the table: run the query in the database itself to see why"
"""The error message for a failed read of a database."""
NOT_WRITTEN = (
    "the database refused the rows: a synthetic key may be there already, because keys start at 1 in every sample: empty "
    "the tables of earlier synthetic rows first; if they are empty, insert one row in the database itself to see why"
)
"""The error message for a failed write to a database."""
_OTHER_TYPE = (
    "a synthetic value does not fit the type of its column in the database: give the column a type that holds the values "
    "which the schema declares, or declare such values, for example a pattern of UUIDs"
)
"""The error message for a value that does not fit its column's type in the database."""
_WRITE_STATES = {
    "22": _OTHER_TYPE,
    "42804": _OTHER_TYPE,
    "42846": _OTHER_TYPE,
    "23502": "the database needs a value in a column that the synthetic rows leave empty: give the column a default value",
    "23503": "a synthetic row refers to a row that is not in the database: write all tables of the release together",
    "23514": "a synthetic row breaks a check of the database: declare the check as a rule of the schema, or drop the check",
}
"""The meaning of SQLSTATE error codes of a failed write, by their first characters."""
LOST = "the connection to the database was lost or refused: connect again"
"""The error message for a lost connection."""
NONE_THERE = "no row was written, and drawing the rows again costs no budget"
"""The end of the error message for a failed write: what became of the rows."""

_STATES = {
    "28": "the database refuses the user or the password: correct them",
    "3D": "the server has no database of this name: correct the name",
    "08": LOST,
    "57": "the database ended the connection or the query: try again",
    "53": "the database has no free connection, memory or disk: try again later",
    "25006": "the database is open for reading only: open it for writing",
    "42501": "the database user lacks a right: grant SELECT for reading, INSERT for writing, TEMPORARY for push='counts'",
    "42P01": "the database has no such table or view: correct the name",
    "42703": "the query names a column that the table does not have: correct the query",
    "42601": "the query is not valid SQL for this database: correct the query",
}
"""The meaning of SQLSTATE error codes, by their first characters."""

_SAID_AT_THE_DOOR = (
    ("password authentication failed", _STATES["28"]),
    ("no password supplied", _STATES["28"]),
    ("no pg_hba.conf entry", _STATES["28"]),
    ("access denied", _STATES["28"]),
    ("fatal:  role \"", _STATES["28"]),
    ("fatal:  database \"", _STATES["3D"]),
)  # fmt: skip
"""The meaning of server messages without an SQLSTATE, which refuse a connection."""


_LIBRARIES = ("psycopg", "psycopg2", "pg8000", "adbc_driver_manager")
"""Module names of PostgreSQL drivers, whose errors have an SQLSTATE unless the connection failed."""

_STATES_OF_NAMES = {
    "SQLITE_CONSTRAINT_NOTNULL": "23502", "SQLITE_CONSTRAINT_FOREIGNKEY": "23503", "SQLITE_CONSTRAINT_CHECK": "23514",
    "SQLITE_CONSTRAINT_DATATYPE": "22000", "SQLITE_MISMATCH": "22000",
    "ConversionException": "22000", "OutOfRangeException": "22003", "TypeMismatchException": "42804",
}  # fmt: skip
"""SQLSTATE codes of errors that have a name instead: of SQLite, and classes of DuckDB."""

_LOST_OF_MYSQL = (2006, 2013, 2055)
"""MySQL error numbers that mean a lost connection."""


def asking() -> AbstractContextManager[None]:
    """Return a context manager for database reads; driver errors become one sentence, because they may quote values."""
    return instead_of(Exception, say=lambda error: _said(error, WHY))


def inserting() -> AbstractContextManager[None]:
    """Return a context manager for database writes; driver errors become a sentence that says if rows were written."""

    def say(error: BaseException) -> SynthDPError | None:
        found = _said(error, NOT_WRITTEN, _STATES | _WRITE_STATES)
        return None if found is None else DataError(f"{found}; {NONE_THERE}")

    return instead_of(Exception, say=say)


def connecting(where: str) -> AbstractContextManager[None]:
    """Return a context manager for opening a connection; its errors show neither user nor password.

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
                return DataError(f"{where}: {sentence}")
        return DataError(f"{where}: the database cannot be reached: check the address, and that the server runs")

    return instead_of(Exception, say=say)


def place_of(url: str) -> str:
    """Return a database's address for messages: kind, host and name, without user, password and options."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the address given"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _said(error: BaseException, otherwise: str, states: Mapping[str, str] = _STATES) -> SynthDPError | None:
    """Return the error to raise in place of a database's error; ``None`` if the caught error is to stay.

    A SynthDPError and a MemoryError stay.  ``states`` has a sentence by SQLSTATE; ``otherwise`` is the text for any
    other error.
    """
    if isinstance(error, (SynthDPError, MemoryError)):
        return None
    state = _state(error)
    for length in (5, 2):
        if state[:length] in states:
            return DataError(states[state[:length]])
    return DataError(LOST if not state and _is_lost(error) else otherwise)


def _is_lost(error: BaseException) -> bool:
    """Return whether an error without an SQLSTATE means a lost connection, by its class and number.

    The error's text is not examined, because it may quote private values.
    """
    original = getattr(error, "orig", None) or error
    library = type(original).__module__.split(".")[0]
    if library in ("pymysql", "MySQLdb", "mysql"):
        return bool(original.args) and original.args[0] in _LOST_OF_MYSQL
    return library in _LIBRARIES and type(original).__name__ in ("OperationalError", "InterfaceError")


def _state(error: BaseException) -> str:
    """Return the SQLSTATE of a driver's error, or the one that its name stands for; "" if it has neither."""
    original = getattr(error, "orig", None) or error  # SQLAlchemy wraps the driver's error
    found = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
    if found is None and original.args and isinstance(original.args[0], dict):  # pg8000
        found = original.args[0].get("C")
    name = getattr(original, "sqlite_errorname", None) or type(original).__name__
    return found if isinstance(found, str) else _STATES_OF_NAMES.get(name, "")
