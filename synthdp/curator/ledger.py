"""A ledger of privacy spends in a SQLite file: given as a path, shared by processes, written before data is read."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from synthdp.errors import BudgetExceededError, LedgerError, ParameterError
from synthdp.privacy.loss import ROUNDING, PrivacyLoss, components, from_document, in_currency, to_document

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS caps (dataset TEXT PRIMARY KEY, loss TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS spends (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, loss TEXT NOT NULL, what TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'committed')), moment TEXT NOT NULL);
"""
_VERSION = 1
DEFAULT_DATASET = "default"


@dataclass(frozen=True, slots=True)
class Entry:
    """One spend in a ledger.

    Costs nothing: a record of a cost.

    Parameters
    ----------
    number, dataset, loss, what, state, moment
        Running number; the data set's name; what was spent; on what; ``"reserved"`` (counts as spent) or
        ``"committed"``; when (UTC).
    """

    number: int
    dataset: str
    loss: PrivacyLoss
    what: str
    state: str
    moment: str


class Ledger:
    """The spends of all releases on named data sets.

    A spend is reserved, and synced to disk, before the data is read, and committed afterwards.  One that was reserved
    by a process that died counts as spent.

    Costs nothing: it records costs.

    Parameters
    ----------
    path
        The SQLite file, made when first written to.
    seconds
        How long to wait for another process that holds the file.

    Raises
    ------
    LedgerError
        If the file cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> import synthdp as sd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     book = sd.Ledger(f"{folder}/ledger.sqlite")
    ...     book.set_cap("patients", sd.ApproxDP(2.0, 1e-6))
    ...     number = book.reserve("patients", sd.ApproxDP(0.5, 1e-7), what="a release")  # a curator does this
    ...     print(book.cap("patients"), [entry.state for entry in book.entries("patients")])
    ε = 2, δ = 1e-06 ['reserved']
    """

    def __init__(self, path: str | PathLike[str], *, seconds: float = 30.0) -> None:
        self.path = Path(path)
        self._seconds = seconds

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def reserve(self, dataset: str, loss: PrivacyLoss, *, what: str) -> int:
        """Write a spend before it happens and return its number.

        Costs ``loss``, for the neighbours of the release that asks.

        Raises
        ------
        BudgetExceededError
            If the data set's cap does not cover it; nothing is written then.
        LedgerError
            If the file cannot be written or stays locked.
        """
        with self._transaction() as db:
            cap = self._cap(db, dataset)
            if cap is not None:
                self._check(db, dataset, loss, cap)
            moment = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
            row = (dataset, json.dumps(to_document(loss)), what, "reserved", moment)
            insert = "INSERT INTO spends (dataset, loss, what, state, moment) VALUES (?, ?, ?, ?, ?)"
            return int(db.execute(insert, row).lastrowid or 0)

    def commit(self, number: int) -> None:
        """Mark a reserved spend as used.

        Costs nothing beyond what was reserved.
        """
        with self._transaction() as db:
            db.execute("UPDATE spends SET state = 'committed' WHERE id = ?", (number,))

    def set_cap(self, dataset: str, loss: PrivacyLoss) -> None:
        """Set the most that may ever be spent on a data set; its currency is that of all checks.

        Costs nothing: it limits costs.
        """
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO caps VALUES (?, ?)", (dataset, json.dumps(to_document(loss))))

    def cap(self, dataset: str) -> PrivacyLoss | None:
        """Return the cap of a data set, if it has one.  Costs nothing: reads the ledger."""
        with self._transaction() as db:
            return self._cap(db, dataset)

    def entries(self, dataset: str | None = None) -> list[Entry]:
        """Return the spends, oldest first, of one data set or of all.  Costs nothing: reads the ledger."""
        query = "SELECT id, dataset, loss, what, state, moment FROM spends"
        with self._transaction() as db:
            rows = db.execute(query + " ORDER BY id").fetchall()
        entries = [Entry(number, name, _loss(text), *rest) for number, name, text, *rest in rows]
        return [e for e in entries if dataset in (None, e.dataset)]

    def datasets(self) -> list[str]:
        """Return the names of all data sets with a spend or a cap.  Costs nothing: reads the ledger."""
        with self._transaction() as db:
            rows = db.execute("SELECT dataset FROM spends UNION SELECT dataset FROM caps ORDER BY 1").fetchall()
        return [str(name) for (name,) in rows]

    def _check(self, db: sqlite3.Connection, dataset: str, loss: PrivacyLoss, cap: PrivacyLoss) -> None:
        rows = db.execute("SELECT loss FROM spends WHERE dataset = ?", (dataset,)).fetchall()
        try:
            parts = [components(in_currency(_loss(text), type(cap))) for (text,) in rows]
            asked = components(in_currency(loss, type(cap)))
        except ParameterError:
            raise LedgerError(
                f"ledger '{self.path}' counts data set {dataset!r} in {type(cap).__name__}, in which a spend of {loss} "
                "or an earlier one cannot be stated"
            ) from None
        for i, whole in enumerate(components(cap)):
            spent = sum(part[i] for part in parts)
            if spent + asked[i] > whole * (1 + ROUNDING):
                name = "δ" if i else {"ZCDP": "ρ", "GaussianDP": "μ²"}.get(type(cap).__name__, "ε")
                raise BudgetExceededError(
                    f"asked to spend {name} = {asked[i]:.6g} on data set {dataset!r}, but only {name} = "
                    f"{max(0.0, whole - spent):.6g} of {whole:.6g} is left in ledger '{self.path}'"
                )

    @staticmethod
    def _cap(db: sqlite3.Connection, dataset: str) -> PrivacyLoss | None:
        row = db.execute("SELECT loss FROM caps WHERE dataset = ?", (dataset,)).fetchone()
        return None if row is None else _loss(*row)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Open the file, hold its write lock, and commit to disk at the end; roll back on any error."""
        try:
            db = sqlite3.connect(self.path, timeout=self._seconds, isolation_level=None)
        except sqlite3.Error:
            raise LedgerError(f"ledger '{self.path}' cannot be opened: check the folder and its permissions") from None
        try:
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            for statement in _TABLES.split(";"):
                db.execute(statement)
            version = db.execute("SELECT version FROM meta").fetchone()
            if version is None:
                db.execute("INSERT INTO meta VALUES (?)", (_VERSION,))
            elif version[0] != _VERSION:
                raise LedgerError(f"ledger '{self.path}' has version {version[0]}; this synthdp reads {_VERSION}")
            yield db
            db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            locked = "locked" in str(error) or "busy" in str(error)
            why = (
                "is locked by another process: try again"
                if locked
                else "cannot be written: check space and permissions"
            )
            raise LedgerError(f"ledger '{self.path}' {why}") from None
        except sqlite3.DatabaseError:
            raise LedgerError(f"ledger '{self.path}' is not a synthdp ledger") from None
        finally:
            with contextlib.suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            db.close()


def _loss(text: str) -> PrivacyLoss:
    return from_document(json.loads(text))
