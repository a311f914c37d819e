"""The stored answers about the tables of one folder, in one file that only its owner can read.

The file holds no rows.  It holds names of columns, guesses at their types, a person's answers, plans and releases.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from synthdp.errors import DataError, FormatError, SchemaError
from synthdp.files import replacing
from synthdp.page.work import reason_of
from synthdp.schema.schema import Schema
from synthdp.schema.schema_json import VERSION

FILE, LEDGER = "synthdp-page.json", "ledger.sqlite"
"""Names of the file of answers and of the ledger's file in the folder."""

TABLES, DOCUMENTS = (".csv", ".csv.gz", ".tsv", ".parquet", ".xlsx", ".xlsm"), (".csv", ".tsv", ".json")
"""Endings of files that can be tables, and of files that can be public documents."""

FRESH: dict[str, Any] = {
    "columns": None, "csv": None, "sheet": None, "sheets": [], "missing": [], "unit": None, "unit_rows": 1, "people": None,
    "answers": {}, "rules": [], "plan": None, "key": None,
    "promise": {"epsilon": None, "delta": 1e-9, "neighbors": "add_remove", "rows": None}, "releases": [], "about": {},
}  # fmt: skip
"""The stored state of a table before the user has answered any question of the page about it.  The promise holds epsilon,
delta, the neighbours, and the number of rows that plans assume; these are its defaults.  A convention."""

LEAST_ALIKE = 0.5
"""Fraction of common column names from which two tables probably have the same people, see `Project.alike`.  The page
then proposes these people, and the user decides: less proposes wrong people, more overlooks a shared budget.  Not
measured."""

UNPROTECTED = (
    "Column '{name}' names a person, and another unit is protected: a person with ten rows would be protected ten times "
    "less. Protect all rows with the same '{name}', or say that '{name}' has another value in every row, or leave it out."
)
"""Text of the error if a column names persons but another unit is protected."""


@dataclass(slots=True, eq=False)
class Project:
    """The answers about the tables of a folder.

    Parameters
    ----------
    folder
        Folder with the tables.
    tables
        Stored state of each table, by file name.
    current
        File name of the current table, or None.
    files
        Names of all files that were listed; a file's number is its fixed position here.
    """

    folder: Path
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    current: str | None = None
    files: list[str] = field(default_factory=list)

    @classmethod
    def opened(cls, folder: Path) -> Project:
        """Return the stored answers of a folder, or empty answers for a new folder.

        Raises
        ------
        FormatError
            If the file of answers cannot be read.
        """
        path = folder / FILE
        if not path.exists():
            return cls(folder.resolve())
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            tables = {name: copy.deepcopy(FRESH) | state for name, state in saved["tables"].items()}
            return cls(folder.resolve(), tables, saved["current"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise FormatError(f"'{path}' cannot be read: move this file away, and answer the questions again") from None

    @contextlib.contextmanager
    def changing(self) -> Iterator[Project]:
        """Yield the project for changes; save all changes at the end, or undo all of them after an error.

        Raises
        ------
        DataError
            If the answers cannot be saved.
        """
        before = copy.deepcopy((self.tables, self.current))
        try:
            yield self
            text = json.dumps(
                {"version": 1, "current": self.current, "tables": self.tables}, ensure_ascii=False, indent=1
            )
            with replacing(self.folder / FILE, private=True) as scratch, scratch.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except BaseException as error:
            self.tables, self.current = before
            if isinstance(error, OSError):
                raise DataError(f"Nothing of this page was saved. {reason_of(error)}") from None
            raise

    def listed(self, endings: tuple[str, ...]) -> list[tuple[int, str, int]]:
        """Return (number, name, bytes) of the folder's files with one of the endings.

        The number is the file's fixed position in ``files``, by which forms name it.  Links out of the folder are left
        out.
        """
        found = []
        for path in sorted(self.folder.iterdir()):
            inside = path.is_file() and path.resolve().parent == self.folder and not path.name.startswith(".")
            if inside and path.name != FILE and path.name.lower().endswith(endings):
                if path.name not in self.files:
                    self.files.append(path.name)
                found.append((self.files.index(path.name), path.name, path.stat().st_size))
        return found

    def file(self, number: str, endings: tuple[str, ...]) -> Path:
        """Return the path of a listed file by its number.

        Raises
        ------
        DataError
            If no file in the folder has this number now.
        """
        for known, name, _ in self.listed(endings):
            if str(known) == number:
                return self.folder / name
        raise DataError("The chosen file is not in the folder any more: reload the page and choose again.")

    def choose(self, name: str) -> None:
        """Make a table the current table; it keeps its earlier answers."""
        self.tables.setdefault(name, copy.deepcopy(FRESH))
        self.current = name

    def take_sheet(self, number: str) -> bool:
        """Make a sheet of the current file the table, by its position; return whether the sheet changed.

        Another sheet is another table, so that the answers about the old sheet are deleted.  Earlier releases and their
        people stay: a file has one budget.

        Raises
        ------
        DataError
            If the file has no sheet of this number.
        """
        sheets = self.state["sheets"]
        if number not in map(str, range(len(sheets))):
            raise DataError("The chosen sheet is not in the file: reload the page and choose again.")
        sheet = sheets[int(number)]
        if sheet == (self.state["sheet"] or sheets[0]):
            return False
        stays = {name: self.state[name] for name in ("releases", "people") if self.state["releases"]}
        self.tables[str(self.current)] = copy.deepcopy(FRESH) | {"sheet": sheet, **stays}
        return True

    def rows(self) -> dict[str, Any]:
        """Return the file name, "path", "csv" format and "sheet" of the current table, for the request to a child."""
        return {"path": self.table.name, "csv": self.state["csv"], "sheet": self.state["sheet"]}

    @property
    def state(self) -> dict[str, Any]:
        """The stored answers about the current table."""
        if self.current is None:
            raise DataError("Choose a table first.")
        return self.tables[self.current]

    @property
    def number(self) -> str:
        """A short hash of the current table's name, which forms carry; a form about another table changes nothing."""
        return "none" if self.current is None else hashlib.sha256(self.current.encode()).hexdigest()[:8]

    @property
    def table(self) -> Path:
        """The path of the current table.

        Raises
        ------
        DataError
            If the table is not in the folder any more.
        """
        if self.current not in [name for _, name, _ in self.listed(TABLES)]:
            raise DataError("The chosen table is not in the folder any more: choose another table.")
        return self.folder / str(self.current)

    @property
    def ledger(self) -> Path:
        """Path of the folder's ledger."""
        return self.folder / LEDGER

    @property
    def columns(self) -> list[dict[str, Any]]:
        """Columns of the current table, in order: "name", "guess" of the type, and "why" no schema can describe it.

        The guess or the reason is None where there is none.  The list is empty before the table is read.
        """
        return self.state["columns"] or []

    @property
    def open_columns(self) -> list[int]:
        """Positions of the columns without an answer; columns that no schema can describe are left out."""
        answers = self.state["answers"]
        return [i for i, one in enumerate(self.columns) if one["name"] not in answers and not one["why"]]

    def document(self) -> dict[str, Any]:
        """Return the schema document of the answers."""
        answers, csv, rules, missing = (self.state[name] for name in ("answers", "csv", "rules", "missing"))
        if missing and csv is not None:
            csv = {**csv, "missing": list(dict.fromkeys([*csv.get("missing", ()), *missing]))}
        said = [answers[one["name"]]["entry"] for one in self.columns if one["name"] in answers]
        written = ({} if csv is None else {"csv": csv}) | ({"constraints": rules} if rules else {})
        return {"synthdp_schema": VERSION, "columns": [entry for entry in said if entry is not None], **written}

    def schema(self) -> Schema:
        """Return the schema of the answers.

        Raises
        ------
        SchemaError
            If the answers contradict each other, or there are none.
        """
        return Schema.from_json(json.dumps(self.document()), source="your answers")

    def unit(self) -> str | None:
        """Return the name of the column that identifies the protected unit; None if each row is protected."""
        place = self.state["unit"]
        return None if place is None else str(self.columns[place]["name"])

    @property
    def people(self) -> str | None:
        """Name of the table's people in the ledger; ``None`` before a person answers who they are."""
        found: str | None = self.state["people"]
        return found

    def alike(self) -> str | None:
        """Return the people of the earlier table with the most similar columns, or None if none is similar.

        Similar means that at least half of all names are common.  Of several tables with the same people the most similar
        one counts.  A wrong proposal costs a click, a missing proposal can cost a budget.
        """
        own = {one["name"] for one in self.columns}
        shares = [
            (len(own & other) / len(own | other), state["people"])
            for name, state in self.tables.items()
            if name != self.current and state["people"] is not None
            for other in [{one["name"] for one in state["columns"] or ()}]
            if own | other
        ]
        share, people = max(shares, key=lambda one: one[0], default=(0.0, None))
        return people if share >= LEAST_ALIKE else None

    def unprotected(self) -> str | None:
        """Return the first column that names persons other than the protected unit, or None.

        Several rows may belong to one such person.
        """
        named = [name for name, answer in self.state["answers"].items() if answer["typed"].get("how") == "name"]
        return next((name for name in named if name != self.unit()), None)

    def request(self) -> dict[str, Any]:
        """Return the fields of a child's request for a plan or a release.

        The fields are the schema, the privacy unit, the most rows of a unit, delta and the neighbours.  The caller adds
        the epsilon, as a plan has several.

        Raises
        ------
        SchemaError
            If a column has no answer, or the answers contradict each other.
        """
        if not self.columns:
            raise SchemaError("Choose a table first.")
        if self.people is None:
            raise SchemaError("Say first who is protected.")
        if self.open_columns:
            raise SchemaError(f"{len(self.open_columns)} columns have no answer yet: answer for each of them.")
        if (name := self.unprotected()) is not None:
            raise SchemaError(UNPROTECTED.format(name=name))
        self.schema()
        promise = {name: self.state["promise"][name] for name in ("delta", "neighbors")}
        person = {"privacy_unit": self.unit(), "max_rows_per_unit": self.state["unit_rows"]}
        return {"schema": self.document(), **person, **promise}

    def about(self) -> dict[str, str]:
        """Return the publisher's statements about the current table; without any, about another table of the folder."""
        said = [self.state["about"], *(state["about"] for state in self.tables.values())]
        return dict(next(filter(None, said), {}))

    def digest(self) -> str:
        """Return a hash of all answers that a plan depends on; a stale plan has another digest."""
        asked = {**self.request(), "rows": self.state["promise"]["rows"], "table": self.current}
        asked |= {} if self.state["sheet"] is None else {"sheet": self.state["sheet"]}
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def plan(self) -> dict[str, Any] | None:
        """The plan, or None if there is none or an answer changed since."""
        plan = self.state["plan"]
        try:
            return plan if plan is not None and plan["digest"] == self.digest() else None
        except SchemaError:
            return None

    def places(self) -> Path:
        """Return the path of a new folder for the next release of the current table."""
        stem = self.table.name.split(".")[0] or "table"
        taken = {release["folder"] for release in self.state["releases"]}
        names = (f"{stem}.published-{number}" for number in itertools.count(1))
        return next(self.folder / name for name in names if name not in taken and not (self.folder / name).exists())
