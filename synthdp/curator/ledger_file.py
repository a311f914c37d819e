"""The SQLite file of a ledger: opened for each use, brought to this version, synced to disk and closed again."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from synthdp.errors import LedgerError
from synthdp.files import sync_folder

VERSION = 4
"""Version of the tables in a ledger's file.  A convention: each change adds one, and upgrade statements below."""
_DATASETS = "CREATE TABLE datasets (name TEXT PRIMARY KEY, adjacency TEXT, cap TEXT)"
"""SQL that makes the table of data sets, with their neighbouring relations and caps."""

_SPENDS = """
CREATE TABLE spends (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, loss TEXT NOT NULL, what TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'committed', 'returned')), moment TEXT NOT NULL, adjacency TEXT,
    key TEXT)"""
"""SQL that makes the table of spends: loss, state, time and neighbouring relation of each."""

_ONE_SPEND_A_KEY = (  # those without a key are not compared; one that was returned may be made again
    "CREATE UNIQUE INDEX one_spend_a_key ON spends (key) WHERE state != 'returned'"
)
"""SQL index that lets each key have one counting spend: a release that is started twice is paid for once."""
_FROM_NOTHING = ("CREATE TABLE meta (version INTEGER NOT NULL)", _DATASETS, _SPENDS, _ONE_SPEND_A_KEY)
"""SQL statements that make a new file."""

_FROM_VERSION_3 = (  # in which no spend was ever returned
    "ALTER TABLE spends RENAME TO spends_3",
    _SPENDS,
    "INSERT INTO spends SELECT id, dataset, loss, what, state, moment, adjacency, key FROM spends_3",
    "DROP TABLE spends_3",  # and its index with it
    _ONE_SPEND_A_KEY,
    "DELETE FROM meta",
)
"""SQL statements that upgrade a file of version 3, whose spends had no state "returned"."""
_FROM_VERSION_2 = ("ALTER TABLE spends ADD COLUMN key TEXT", *_FROM_VERSION_3)
"""SQL statements that upgrade a file of version 2, whose spends had no keys."""
_FROM_VERSION_1 = (  # which recorded no adjacency, and had a table of caps instead of one of data sets
    _DATASETS,
    "INSERT INTO datasets (name, cap) SELECT dataset, loss FROM caps",
    "INSERT OR IGNORE INTO datasets (name) SELECT dataset FROM spends",
    "DROP TABLE caps",
    "ALTER TABLE spends ADD COLUMN adjacency TEXT",
    *_FROM_VERSION_2,
)
"""SQL statements that upgrade a file of version 1, whose spends had no neighbouring relation."""
_STEPS = {None: _FROM_NOTHING, 1: _FROM_VERSION_1, 2: _FROM_VERSION_2, 3: _FROM_VERSION_3}
"""The SQL statements that upgrade a file of each earlier version (``None``: an empty file) to `VERSION`.  A convention.
"""
_CLOSED = "cannot be opened: check that its folder exists, that you may write there, and that the name is not too long"
"""The end of the error message for a file that cannot be opened."""

_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
"""SQLite error codes that mean another process holds the file: the user may try again."""

_FOREIGN = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CONSTRAINT}
"""SQLite error codes that mean the file is not a ledger, or was damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFile:
    """Access to a ledger's SQLite file, which is opened, upgraded and closed for each use, so that processes can share it.

    Parameters
    ----------
    path
        The file, as the user named it: for messages.
    place
        Absolute path of the file.
    seconds
        Longest wait for another process that holds the file, in seconds.
    """

    path: Path
    place: Path
    seconds: float

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Hold the write lock and upgrade the file to this version; commit at the end, roll back on any error."""
        with self._opened(self.place) as db:
            # A commit deletes the journal.  If a power cut undoes that, SQLite rolls the commit back; EXTRA syncs the
            # folder to prevent it.  On macOS only fullfsync empties the cache of the drive.
            db.execute("PRAGMA synchronous = EXTRA")
            db.execute("PRAGMA fullfsync = ON")
            db.execute("BEGIN IMMEDIATE")
            version = self._version(db)
            _bring_up_to_date(db, version)
            if version is None:
                self._sync_folder()
            yield db
            db.execute("COMMIT")

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a copy of the database in memory, upgraded to this version, so that reading never changes the file."""
        with self._opened(":memory:") as copy:
            version = None
            if self._is_there():
                with self._opened(self.place) as db:
                    db.execute("BEGIN")
                    version = self._version(db)  # waits for a writer, as long as it may; a backup would wait for ever
                    db.backup(copy)
            _bring_up_to_date(copy, version)
            yield copy

    @contextlib.contextmanager
    def _opened(self, place: str | Path) -> Iterator[sqlite3.Connection]:
        """Open a database and close it at the end, which rolls back uncommitted changes.

        Turn SQLite errors into LedgerError.
        """
        try:
            with contextlib.closing(sqlite3.connect(place, timeout=self.seconds, isolation_level=None)) as connection:
                yield connection
        except sqlite3.Error as error:
            raise LedgerError(f"ledger '{self.path}' {_trouble(error)}") from None

    def _is_there(self) -> bool:
        """Return whether the file exists; raise LedgerError if the operating system refuses to look."""
        try:
            return self.place.exists()
        except OSError:
            raise LedgerError(f"ledger '{self.path}' {_CLOSED}") from None

    def _sync_folder(self) -> None:
        """Sync the folder of a new file to disk, so that the file survives a power cut."""
        try:
            sync_folder(self.place.resolve().parent)
        except OSError:
            raise LedgerError(
                f"ledger '{self.path}' cannot be written to disk: check that its folder exists and that the disk is not full"
            ) from None

    def _version(self, db: sqlite3.Connection) -> int | None:
        """Return the version of the file, ``None`` if it is empty; raise LedgerError if it is no ledger or newer.

        All rows are fetched, because an open cursor would keep a lock.
        """
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master").fetchall()}
        if not tables:
            return None
        if not {"meta", "spends"} <= tables:
            raise LedgerError(f"ledger '{self.path}' is not a synthdp ledger: give another path")
        (version,) = db.execute("SELECT version FROM meta").fetchone() or (0,)
        if version not in range(1, VERSION + 1):
            raise LedgerError(
                f"ledger '{self.path}' has version {version}; this synthdp reads 1 to {VERSION}: install "
                "the synthdp that wrote it, or a newer one"
            )
        return int(version)


def _bring_up_to_date(db: sqlite3.Connection, version: int | None) -> None:
    """Upgrade the tables of an older or empty file to `VERSION`."""
    if version != VERSION:
        for statement in _STEPS[version]:
            db.execute(statement)
        db.execute("INSERT INTO meta VALUES (?)", (VERSION,))


def _trouble(error: sqlite3.Error) -> str:
    """Return what an SQLite error means for the user, as the end of a sentence that begins with the file's name."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the primary code of an extended one
    if code in _LOCKED:
        return "is locked by another process: try again"
    if code in _FOREIGN:
        return "is not a synthdp ledger, or is damaged: give another path, or restore the file from a copy"
    if code == sqlite3.SQLITE_CANTOPEN:
        return _CLOSED
    return "cannot be written: check space and permissions"
