"""What was answered so far about the tables of one folder, kept in one file that only its owner may read.

No row is here: names of columns, guesses at their types, what a person said about them, plans, and which releases were made.
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
"""Names of the project's file and of its ledger."""

TABLES, DOCUMENTS = (".csv", ".csv.gz", ".tsv", ".parquet", ".xlsx", ".xlsm"), (".csv", ".tsv", ".json")
"""Endings of files that may be tables, and public documents."""

FRESH: dict[str, Any] = {
    "columns": None, "csv": None, "sheet": None, "sheets": [], "missing": [], "unit": None, "unit_rows": 1, "people": None,
    "answers": {}, "rules": [], "plan": None, "key": None,
    "promise": {"epsilon": None, "delta": 1e-9, "neighbors": "add_remove", "rows": None}, "releases": [], "about": {},
}  # fmt: skip
"""What is known about a table that was never chosen before."""

LEAST_ALIKE = 0.5
"""A fraction of column names: see `Project.alike`."""

UNPROTECTED = (
    "Column '{name}' names a person, and another unit is protected: a person with ten rows would be protected ten times "
    "less. Protect all rows with the same '{name}', or say that '{name}' has another value in every row, or leave it out."
)
"""What an error says where a column names persons and rows are protected."""


@dataclass(slots=True, eq=False)
class Project:
    """The answers about the tables of a folder.

    Parameters
    ----------
    folder
        Where the tables are.
    tables
        By file name, what was answered about each.
    current
        The file name of the table that the screens are about.
    files
        Names of files that were ever listed; a file's number is its place here, and stays.
    """

    folder: Path
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    current: str | None = None
    files: list[str] = field(default_factory=list)

    @classmethod
    def opened(cls, folder: Path) -> Project:
        """Return what was saved about a folder.

        Raises
        ------
        FormatError
            If its file cannot be read.
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
        """Give the answers to be changed: they are saved at the end, whole, or all of them stay what they were.

        Raises
        ------
        DataError
            If they cannot be saved.
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
        """Return the files of the folder with one of some endings: number, name and bytes.  None lies outside of it."""
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
            If no file in the folder has it, now.
        """
        for known, name, _ in self.listed(endings):
            if str(known) == number:
                return self.folder / name
        raise DataError("The chosen file is not in the folder any more: reload the page and choose again.")

    def choose(self, name: str) -> None:
        """Make a table the current one; what was answered about it before is there again."""
        self.tables.setdefault(name, copy.deepcopy(FRESH))
        self.current = name

    def take_sheet(self, number: str) -> bool:
        """Make a sheet of the current file the table, by its number; return whether it is another than before.

        Another sheet is another table: what was answered about the one before is dropped.  If something was released, these
        releases stay, and the rows of the other sheet are of the same people: a file has one budget.

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
        """Return where a child finds the rows of the current table, and how they are read."""
        return {"path": self.table.name, "csv": self.state["csv"], "sheet": self.state["sheet"]}

    @property
    def state(self) -> dict[str, Any]:
        """What was answered about the current table."""
        if self.current is None:
            raise DataError("Choose a table first.")
        return self.tables[self.current]

    @property
    def number(self) -> str:
        """The number of the current table, which forms carry: one of another table changes nothing here."""
        return "none" if self.current is None else hashlib.sha256(self.current.encode()).hexdigest()[:8]

    @property
    def table(self) -> Path:
        """The path of the current table.

        Raises
        ------
        DataError
            If it is not in the folder any more.
        """
        if self.current not in [name for _, name, _ in self.listed(TABLES)]:
            raise DataError("The chosen table is not in the folder any more: choose another table.")
        return self.folder / str(self.current)

    @property
    def ledger(self) -> Path:
        """The ledger of the folder."""
        return self.folder / LEDGER

    @property
    def columns(self) -> list[dict[str, Any]]:
        """The columns of the current table, in order."""
        return self.state["columns"] or []

    @property
    def open_columns(self) -> list[int]:
        """Numbers of the columns that nobody has answered yet."""
        answers = self.state["answers"]
        return [i for i, one in enumerate(self.columns) if one["name"] not in answers and not one["why"]]

    def document(self) -> dict[str, Any]:
        """Return the schema document that the answers make."""
        answers, csv, rules, missing = (self.state[name] for name in ("answers", "csv", "rules", "missing"))
        if missing and csv is not None:
            csv = {**csv, "missing": list(dict.fromkeys([*csv.get("missing", ()), *missing]))}
        said = [answers[one["name"]]["entry"] for one in self.columns if one["name"] in answers]
        written = ({} if csv is None else {"csv": csv}) | ({"constraints": rules} if rules else {})
        return {"synthdp_schema": VERSION, "columns": [entry for entry in said if entry is not None], **written}

    def schema(self) -> Schema:
        """Return the schema that the answers make.

        Raises
        ------
        SchemaError
            If they contradict each other, or there are none.
        """
        return Schema.from_json(json.dumps(self.document()), source="your answers")

    def unit(self) -> str | None:
        """Return the column that names whom to protect."""
        place = self.state["unit"]
        return None if place is None else str(self.columns[place]["name"])

    @property
    def people(self) -> str | None:
        """The name under which the ledger counts the people of the table; ``None`` until somebody said who they are."""
        found: str | None = self.state["people"]
        return found

    def alike(self) -> str | None:
        """Return the people of the earlier table whose columns are most like the current one's, if any are.

        Columns are alike if at least half of all names are common: a wrong proposal costs a click, a missing one a budget.
        """
        own = {one["name"] for one in self.columns}
        shares = {
            state["people"]: len(own & other) / len(own | other)
            for name, state in self.tables.items()
            if name != self.current and state["people"] is not None
            for other in [{one["name"] for one in state["columns"] or ()}]
            if own | other
        }
        best = max(shares, key=lambda name: shares[name], default=None)
        return best if best is not None and shares[best] >= LEAST_ALIKE else None

    def unprotected(self) -> str | None:
        """Return the first column that names persons who are not protected: several rows may be one person's."""
        named = [name for name, answer in self.state["answers"].items() if answer["typed"].get("how") == "name"]
        return next((name for name in named if name != self.unit()), None)

    def request(self) -> dict[str, Any]:
        """Return what a plan and a release are asked of: everything that was answered and decides what comes out.

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
        """Return what the publisher says of the current table; of a table never described, what was said of another one."""
        said = [self.state["about"], *(state["about"] for state in self.tables.values())]
        return dict(next(filter(None, said), {}))

    def digest(self) -> str:
        """Return a short name of everything that a plan is made of; it changes with any answer."""
        asked = {**self.request(), "rows": self.state["promise"]["rows"], "table": self.current}
        asked |= {} if self.state["sheet"] is None else {"sheet": self.state["sheet"]}
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def plan(self) -> dict[str, Any] | None:
        """The plan, unless something was answered otherwise since."""
        plan = self.state["plan"]
        try:
            return plan if plan is not None and plan["digest"] == self.digest() else None
        except SchemaError:
            return None

    def places(self) -> Path:
        """Return a new folder for the next release of the current table."""
        stem = self.table.name.split(".")[0] or "table"
        taken = {release["folder"] for release in self.state["releases"]}
        names = (f"{stem}.published-{number}" for number in itertools.count(1))
        return next(self.folder / name for name in names if name not in taken and not (self.folder / name).exists())
