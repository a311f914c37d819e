"""A ledger of privacy spends in a SQLite file, shared by processes; a spend is written before data is read."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import warnings
from dataclasses import dataclass, replace
from difflib import get_close_matches
from os import PathLike
from pathlib import Path

from synthdp.curator.ledger_file import LedgerFile
from synthdp.errors import BudgetExceededError, LedgerError, LedgerWarning, ParameterError
from synthdp.privacy.budget import Account, check_loss
from synthdp.privacy.loss import ROUNDING, PrivacyLoss, components, from_document, in_currency, to_document
from synthdp.privacy.neighbors import Adjacency, Neighbors, neighbors_named

DEFAULT_DATASET = "default"
"""The name under which spends are recorded if the caller names no data set."""

_ONE_ROW = Adjacency()
"""The neighbouring relation of a spend for which none is named: one row added or removed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One spend recorded in a ledger: its data set, its loss, and whether it still counts.

    Parameters
    ----------
    number
        Running number of the entry.
    dataset, loss, what
        Name of the data set, the loss, and its purpose.
    state
        ``"reserved"`` (counts as spent), ``"committed"``, or ``"returned"`` (does not count: no answer was given).
    moment
        Time of the entry (UTC).
    adjacency
        The neighbouring relation that the loss was spent for; ``None`` in entries of ledgers that did not record it
        (version 1).
    key
        The caller's name of the spend, or ``None``; no other entry has it.
    """

    number: int
    dataset: str
    loss: PrivacyLoss
    what: str
    state: str
    moment: str
    adjacency: Adjacency | None = None
    key: str | None = None


class Reservation(int):
    """The number of a ledger entry, as an object that only the account of that entry holds.

    The ledger lowers or returns an entry only for this object.  An equal integer, which anybody may know, is refused.
    """

    __slots__ = ()


class Ledger:
    """The spends of all releases on named data sets.

    A spend is reserved, and synced to disk, before the data is read, and committed afterwards.  One that was reserved
    by a process that died counts as spent.  One whose release failed before the first answer is returned.

    The spends of a data set are added up, so all of them must be for the same neighbours: the same ``neighbors`` and
    ``privacy_unit``.  How many rows of a unit are used may differ, for each such loss bounds what all rows of the unit
    may change.  A spend for other neighbours is refused.

    Parameters
    ----------
    path
        The SQLite file, made when first written to.
    seconds
        Longest wait for another process that holds the file, in seconds.
    key
        A name of your own for one spend, such as the number of a plan.  Whoever spends through this object spends under
        it, and a second spend under it is refused: a release that is started twice is paid for once.
    note
        Purpose of the spend in later entries, in place of the curator's word.

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
    ...     print(book.adjacency("patients"), "; left:", book.left("patients"))
    ε = 2, δ = 1e-06 ['reserved']
    add or remove one row ; left: ε = 1.5, δ = 9e-07
    """

    def __init__(
        self, path: str | PathLike[str], *, seconds: float = 30.0, key: str | None = None, note: str | None = None
    ) -> None:
        for name, text in (("key", key), ("note", note)):
            if text is not None:
                _check_text(name, text)
        self.path = Path(path)
        self.key, self.note = key, note
        self._file = LedgerFile(path=self.path, place=self.path.absolute(), seconds=seconds)
        self._held: dict[int, tuple[Reservation, str]] = {}

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def reserve(self, dataset: str, loss: PrivacyLoss, *, what: str, adjacency: Adjacency = _ONE_ROW) -> Reservation:
        """Write a spend before it happens and return its number.

        Costs ``loss``, for the neighbours ``adjacency`` of the release.  Only the holder of the returned object may
        lower the entry once, or return it; an equal integer will not do.  ``what`` is the purpose of the spend, unless
        the ledger has a note for all its spends.

        Warns
        -----
        LedgerWarning
            If the data set has no cap; similar names are listed, since a new one may be mistyped.

        Raises
        ------
        BudgetExceededError
            If the data set's cap does not cover it; nothing is written then.
        LedgerError
            If the data set is counted for other neighbours, or there is a spend under this ledger's key.  Also if the
            file cannot be written or stays locked; nothing is written then.
        """
        _check_text("dataset", dataset)
        _check_unicode("what", what)
        check_loss("loss", loss)
        with self._file.writing() as db:
            self._check_unspent(db)
            found = self._found(db, dataset)
            if found is None:
                insert = "INSERT INTO datasets (name, adjacency) VALUES (?, ?)"
                db.execute(insert, (dataset, _text(replace(adjacency, rows=1))))
            else:
                self._check_same(dataset, found[0], adjacency)
            cap = None if found is None else found[1]
            if cap is None:
                self._warn_uncapped(db, dataset, new=found is None)
            else:
                self._check(db, dataset, loss, cap)
            moment = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
            said = what if self.note is None else self.note
            text = json.dumps(to_document(loss))
            row = (dataset, text, said, "reserved", moment, _text(adjacency), self.key)
            insert = (
                "INSERT INTO spends (dataset, loss, what, state, moment, adjacency, key) VALUES (?, ?, ?, ?, ?, ?, ?)"
            )
            held = Reservation(db.execute(insert, row).lastrowid or 0)
        self._held[int(held)] = held, text
        return held

    def commit(self, number: int, loss: PrivacyLoss | None = None) -> PrivacyLoss | None:
        """Mark a reserved spend as used; return the loss that is recorded if a ``loss`` is given, else ``None``.

        Costs what was reserved.  It costs less if a smaller ``loss`` is given and the entry is the last of its data
        set.  A later entry may have been answered in turns with this one, so the reserved loss then stays
        (docs/proofs/early-ends.md).

        Parameters
        ----------
        number
            Number of the entry; with a ``loss``, the object that `reserve` returned.
        loss
            The real cost, if it is less than the reserved one and nothing more will be spent.  It can be stated once.

        Raises
        ------
        LedgerError
            If the entry is not there, since the file was removed or replaced.  If ``loss`` is above the reserved one,
            comes from a caller who does not hold the entry, or is the second; nothing is written then.
        """
        written = None
        with self._file.writing() as db:
            if loss is not None:
                written = self._lower(db, number, loss)
            if db.execute("UPDATE spends SET state = 'committed' WHERE id = ?", (int(number),)).rowcount != 1:
                raise LedgerError(
                    f"ledger '{self.path}' has lost entry {number}, because its file was replaced, so its totals are now "
                    "too low: restore the original file"
                )
        if loss is not None:
            del self._held[int(number)]
        return written

    def give_back(self, number: int) -> None:
        """Mark a reserved spend as returned, so that it no longer counts, because no answer was given for it.

        Lowers what counts as spent (costs less than nothing).  So only a curator may call it, which knows that no
        answer was or will be given.

        Parameters
        ----------
        number
            The object that `reserve` returned for the entry.

        Raises
        ------
        LedgerError
            If the caller does not hold the entry, or it was lowered or returned already; nothing is written then.
        """
        with self._file.writing() as db:
            self._check_held(db, number)
            db.execute("UPDATE spends SET state = 'returned' WHERE id = ?", (int(number),))
        del self._held[int(number)]

    def set_cap(
        self,
        dataset: str,
        loss: PrivacyLoss,
        *,
        neighbors: Neighbors | str | None = None,
        privacy_unit: str | None = None,
    ) -> None:
        """Set the most that may ever be spent on a data set; every later spend is checked against it.

        Spends are converted to the cap's kind of privacy loss, such as (epsilon, delta).

        Parameters
        ----------
        dataset, loss
            The data set's name, and its cap.
        neighbors, privacy_unit
            The neighbours that the cap is for, as in `Curator`.  Left out, they stay what they are, and are
            add-or-remove one row for a new data set.

        Raises
        ------
        LedgerError
            If spends are recorded for other neighbours, or cannot be stated in the cap's currency.
        """
        _check_text("dataset", dataset)
        check_loss("cap", loss)
        with self._file.writing() as db:
            found = self._found(db, dataset)
            if found is None or neighbors is not None or privacy_unit is not None:
                self._declare(db, dataset, neighbors or Neighbors.ADD_REMOVE, privacy_unit)
            else:
                self._check_known(dataset, found[0])
            self._spent(db, dataset, loss)
            db.execute("UPDATE datasets SET cap = ? WHERE name = ?", (json.dumps(to_document(loss)), dataset))

    def declare(
        self, dataset: str, *, neighbors: Neighbors | str = Neighbors.ADD_REMOVE, privacy_unit: str | None = None
    ) -> None:
        """Record the neighbouring relation of a data set that has none: a new one, or one in a file of version 1.

        Losses add up only for one relation, so later spends for another one are refused.

        Parameters
        ----------
        dataset
            The data set's name.
        neighbors, privacy_unit
            As in `Curator`.  Spends that a ledger of version 1 recorded must have been made for these neighbours.

        Raises
        ------
        LedgerError
            If spends are recorded for other neighbours.
        """
        _check_text("dataset", dataset)
        with self._file.writing() as db:
            self._declare(db, dataset, neighbors, privacy_unit)

    def cap(self, dataset: str) -> PrivacyLoss | None:
        """Return the largest total loss that is allowed for a data set, ``None`` if it has no cap."""
        _check_text("dataset", dataset)
        with self._file.reading() as db:
            return (self._found(db, dataset) or (None, None))[1]

    def adjacency(self, dataset: str) -> Adjacency | None:
        """Return the neighbouring relation that a data set's spends are counted for, always with ``rows`` = 1.

        It is ``None`` for a data set that is not in the ledger, and in a ledger of version 1 until it is declared.
        Costs nothing: reads the ledger only.
        """
        _check_text("dataset", dataset)
        with self._file.reading() as db:
            return (self._found(db, dataset) or (None, None))[0]

    def left(self, dataset: str) -> PrivacyLoss | None:
        """Return what is left of a data set's cap; ``None`` if nothing is left, or if it has no cap.

        Raises
        ------
        LedgerError
            If an earlier spend cannot be stated in the cap's currency.
        """
        _check_text("dataset", dataset)
        with self._file.reading() as db:
            cap = (self._found(db, dataset) or (None, None))[1]
            return None if cap is None else Account(cap, self._spent(db, dataset, cap)).remaining

    def entries(self, dataset: str | None = None, *, key: str | None = None) -> list[Entry]:
        """Return the recorded spends, oldest first, of one data set or of all.

        With ``key``, return only the entry under that key that was not returned; there is at most one.
        """
        query = "SELECT id, dataset, loss, what, state, moment, adjacency, key FROM spends ORDER BY id"
        with self._file.reading() as db:
            rows = db.execute(query).fetchall()
        return [
            Entry(number, name, self._loss(loss), what, state, moment, self._adjacency(adjacency), found)
            for number, name, loss, what, state, moment, adjacency, found in rows
            if dataset in (None, name) and (key is None or (key == found and state != "returned"))
        ]

    def datasets(self) -> list[str]:
        """Return the names of all data sets in the ledger, in alphabetical order."""
        with self._file.reading() as db:
            return _names(db)

    def _check_unspent(self, db: sqlite3.Connection) -> None:
        """Raise LedgerError if a spend with this ledger's key exists, so that a release started twice is paid for once."""
        if self.key is None:
            return
        row = db.execute("SELECT id, moment FROM spends WHERE key = ? AND state != 'returned'", (self.key,)).fetchone()
        if row is not None:
            raise LedgerError(
                f"ledger '{self.path}' already records a release with key {self.key!r} (entry {row[0]} of {row[1]}), so "
                "nothing was spent: use a new key for a new release"
            )

    def _check_held(self, db: sqlite3.Connection, number: int) -> tuple[str, PrivacyLoss]:
        """Return an entry's data set and reserved loss; raise LedgerError unless the caller holds its `Reservation`.

        So no program can lower or return another program's spend.
        """
        row = db.execute("SELECT dataset, loss FROM spends WHERE id = ?", (int(number),)).fetchone()
        held, text = self._held.get(int(number), (None, ""))
        if row is None or held is not number or row[1] != text:
            if row is None:
                raise LedgerError(
                    f"ledger '{self.path}' has no entry {int(number)}: look up the number of the entry with entries()"
                )
            raise LedgerError(
                f"entry {int(number)} of ledger '{self.path}' can be lowered or returned only by the account that reserved "
                "the entry, and only once: leave the entry as it is"
            )
        return str(row[0]), self._loss(text)

    def _lower(self, db: sqlite3.Connection, number: int, loss: PrivacyLoss) -> PrivacyLoss:
        """Lower the loss of an entry and return the loss that is then recorded.

        The reserved loss stays if a later entry of the data set exists, because answers may have been interleaved.
        Raise LedgerError for a loss above the reserved one.
        """
        dataset, reserved = self._check_held(db, number)
        both = zip(components(in_currency(loss, type(reserved))), components(reserved), strict=True)
        if any(spent > most * (1 + ROUNDING) for spent, most in both):
            raise LedgerError(
                f"entry {number} of ledger '{self.path}' reserves {reserved}, so it cannot record the larger loss "
                f"{loss}: reserve a larger loss first"
            )
        if db.execute("SELECT 1 FROM spends WHERE dataset = ? AND id > ? LIMIT 1", (dataset, int(number))).fetchone():
            return reserved
        db.execute("UPDATE spends SET loss = ? WHERE id = ?", (json.dumps(to_document(loss)), int(number)))
        return loss

    def _found(self, db: sqlite3.Connection, dataset: str) -> tuple[Adjacency | None, PrivacyLoss | None] | None:
        """Return a data set's neighbouring relation and cap, each ``None`` if unset, or ``None`` for an unknown data set."""
        row = db.execute("SELECT adjacency, cap FROM datasets WHERE name = ?", (dataset,)).fetchone()
        return None if row is None else (self._adjacency(row[0]), None if row[1] is None else self._loss(row[1]))

    def _declare(
        self, db: sqlite3.Connection, dataset: str, neighbors: Neighbors | str, privacy_unit: str | None
    ) -> None:
        """Write a data set's neighbouring relation; raise LedgerError if a spend was made for another relation."""
        adjacency = Adjacency(neighbors_named(neighbors), privacy_unit)
        query = (
            "SELECT adjacency FROM spends WHERE dataset = ? AND adjacency IS NOT NULL AND state != 'returned' LIMIT 1"
        )
        recorded = db.execute(query, (dataset,)).fetchone()
        if recorded is not None:
            self._check_same(dataset, self._adjacency(*recorded), adjacency)
        insert = "INSERT INTO datasets (name, adjacency) VALUES (?, ?)"
        update = "ON CONFLICT (name) DO UPDATE SET adjacency = excluded.adjacency"
        db.execute(f"{insert} {update}", (dataset, _text(adjacency)))

    def _check_known(self, dataset: str, counted: Adjacency | None) -> Adjacency:
        """Return a data set's neighbouring relation; raise LedgerError if an old file did not record it."""
        if counted is None:
            raise LedgerError(
                f"ledger '{self.path}' is of an older version and does not record the neighbours of data "
                f"set {dataset!r}: declare them once with synthdp ledger '{self.path}' --dataset "
                f"{dataset!r} --neighbors add_remove (or replace_one), and --privacy-unit COLUMN if the data set "
                "has one"
            )
        return counted

    def _check_same(self, dataset: str, counted: Adjacency | None, asked: Adjacency) -> None:
        """Raise LedgerError unless losses for the recorded neighbouring relation and for the new spend's may be added."""
        counted = self._check_known(dataset, counted)
        if not counted.adds_up_with(asked):
            raise LedgerError(
                f"ledger '{self.path}' counts losses on data set {dataset!r} for neighbours that {counted.relation}; losses "
                f"for neighbours that {asked.relation} do not add up with them: use the same neighbors and privacy_unit, "
                "or another data set name"
            )

    def _warn_uncapped(self, db: sqlite3.Connection, dataset: str, *, new: bool) -> None:
        """Warn that a data set has no cap, since its name may be misspelt and escape the cap of the right one.

        The warning lists data sets of similar names, or if there are none, up to 3 that have a cap.  ``new`` says
        whether the name is new in the ledger.
        """
        capped = [
            name for (name,) in db.execute("SELECT name FROM datasets WHERE cap IS NOT NULL ORDER BY name").fetchall()
        ]
        meant = _close(dataset, _names(db)) or capped[:3]
        hint = f"; did you mean {' or '.join(map(repr, meant))}?" if meant else ""
        warnings.warn(
            f"data set {dataset!r} {'is new to' if new else 'has no cap in'} ledger '{self.path}': without a cap its "
            f"losses are recorded, not limited, so set one with set_cap() or `synthdp ledger --cap`{hint}",
            LedgerWarning,
            stacklevel=3,
        )

    def _check(self, db: sqlite3.Connection, dataset: str, loss: PrivacyLoss, cap: PrivacyLoss) -> None:
        """Raise BudgetExceededError if a new loss and all recorded spends of a data set together exceed its cap."""
        parts = self._spent(db, dataset, cap)
        try:
            asked = components(in_currency(loss, type(cap)))
        except ParameterError:
            raise self._unstated(dataset, cap, f"a loss of {loss}") from None
        for i, whole in enumerate(components(cap)):
            spent = sum(part[i] for part in parts)
            if spent + asked[i] > whole * (1 + ROUNDING):
                name = "δ" if i else {"ZCDP": "ρ", "GaussianDP": "μ²"}.get(type(cap).__name__, "ε")
                raise BudgetExceededError(
                    f"asked to spend {name} = {asked[i]:.6g} on data set {dataset!r}, but only {name} = "
                    f"{max(0.0, whole - spent):.6g} of {whole:.6g} is left in ledger '{self.path}': "
                    "ask for less, or raise the cap"
                )

    def _spent(self, db: sqlite3.Connection, dataset: str, cap: PrivacyLoss) -> list[tuple[float, float]]:
        """Return the losses of all counting spends on a data set as numbers, such as (epsilon, delta), to add them up.

        Losses are converted to the kind of loss of ``cap``; LedgerError is raised if one cannot be.
        """
        rows = db.execute("SELECT loss FROM spends WHERE dataset = ? AND state != 'returned'", (dataset,)).fetchall()
        losses = [self._loss(text) for (text,) in rows]
        try:
            return [components(in_currency(loss, type(cap))) for loss in losses]
        except ParameterError:
            raise self._unstated(dataset, cap, "an earlier loss") from None

    def _unstated(self, dataset: str, cap: PrivacyLoss, spend: str) -> LedgerError:
        """Return the error for a spend that cannot be converted to the cap's kind of loss, such as zCDP to pure DP."""
        return LedgerError(
            f"the cap of data set {dataset!r} in ledger '{self.path}' is a {type(cap).__name__}, and "
            f"{spend} cannot be converted "
            f"to one: give every loss as a {type(cap).__name__}, or use another data set name"
        )

    def _loss(self, text: str) -> PrivacyLoss:
        """Return the privacy loss in a JSON text of the ledger's file; raise LedgerError if it is damaged."""
        try:
            return from_document(json.loads(text))
        except (ValueError, TypeError, AttributeError):
            raise LedgerError(
                f"ledger '{self.path}' is damaged (a loss cannot be read): restore the file from a copy"
            ) from None

    def _adjacency(self, text: str | None) -> Adjacency | None:
        """Return the neighbouring relation in a JSON text of the ledger's file; ``None`` for no text.

        Raise LedgerError if the text is damaged.
        """
        if text is None:
            return None
        try:
            told = json.loads(text)
            return Adjacency(Neighbors(told["neighbors"]), told["privacy_unit"], told["max_rows_per_unit"])
        except (ValueError, TypeError, KeyError):
            raise LedgerError(
                f"ledger '{self.path}' is damaged (neighbours cannot be read): restore the file from a copy"
            ) from None


def _text(adjacency: Adjacency) -> str:
    """Return a neighbouring relation as JSON text for the ledger's file."""
    return json.dumps(
        {
            "neighbors": adjacency.neighbors.value,
            "privacy_unit": adjacency.unit,
            "max_rows_per_unit": adjacency.rows,
        }
    )


def _names(db: sqlite3.Connection) -> list[str]:
    """Return the names of all data sets in a ledger's file, in alphabetical order."""
    return [str(name) for (name,) in db.execute("SELECT name FROM datasets ORDER BY name").fetchall()]


def _close(name: str, names: list[str]) -> list[str]:
    """Return data set names of similar spelling, to suggest them if the given name may be mistyped."""
    others = {other.casefold(): other for other in names if other != name}
    return [others[found] for found in get_close_matches(name.casefold(), others)]


def _check_text(name: str, text: object) -> None:
    """Raise ParameterError unless a name is a text of one character or more, in valid Unicode."""
    if not isinstance(text, str) or not text:
        raise ParameterError(f"{name} ({text!r}) must be a name of one or more characters")
    _check_unicode(name, text)


def _check_unicode(name: str, text: str) -> None:
    """Raise ParameterError for a text with half a surrogate pair, which SQLite cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ParameterError(f"{name} ({text!r}) must be valid Unicode") from None
