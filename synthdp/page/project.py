"""What was answered so far about the tables of one folder, kept in one file that only its owner may read.

No row is here: names of columns, guesses at their types, what a person said about them, plans, and which releases were made.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from synthdp.errors import DataError, FormatError, SchemaError
from synthdp.schema.schema import Schema

FILE, LEDGER = "synthdp-page.json", "ledger.sqlite"
TABLES, DOCUMENTS = (".csv", ".csv.gz", ".tsv", ".parquet"), (".csv", ".tsv", ".json")
PROMISE = {"epsilon": None, "delta": 1e-9, "neighbors": "add_remove", "rows": None}
FULL = "The disk is full: nothing of this page was saved. Make room, then send the form again."
UNWRITABLE = (
    "Nothing of this page was saved: the folder cannot be written. Check its permissions, then send the form again."
)


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
        DataError
            If there is no such folder.
        FormatError
            If its file cannot be read.
        """
        if not folder.is_dir():
            raise DataError(f"there is no folder '{folder}'")
        path = folder / FILE
        if not path.exists():
            return cls(folder.resolve())
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            made = cls(folder.resolve(), dict(saved["tables"]), saved["current"])
            for release in (one for state in made.tables.values() for one in state["releases"]):
                release["state"] = "stopped" if release["state"] == "running" else release["state"]
        except (OSError, ValueError, KeyError, TypeError):
            raise FormatError(f"'{path}' cannot be read: move it away, and answer again") from None
        return made

    def save(self) -> None:
        """Write all answers, whole or not at all.

        Raises
        ------
        DataError
            If they cannot be written; those of before stay.
        """
        text = json.dumps({"version": 1, "current": self.current, "tables": self.tables}, ensure_ascii=False, indent=1)
        scratch = None
        try:
            handle, scratch = tempfile.mkstemp(dir=self.folder, prefix=f".{FILE}.")  # which only the owner may read
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, self.folder / FILE)
        except OSError as error:
            if scratch is not None:
                with contextlib.suppress(OSError):
                    os.unlink(scratch)
            raise DataError(FULL if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else UNWRITABLE) from None

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
        raise DataError("There is no such file in the folder.")

    def choose(self, name: str) -> None:
        """Make a table the current one; what was answered about it before is there again."""
        fresh: dict[str, Any] = {
            "columns": None, "csv": None, "unit": None, "unit_rows": 1, "answers": {}, "rules": [],
            "promise": dict(PROMISE), "plan": None, "key": None, "releases": [],
        }  # fmt: skip
        self.tables.setdefault(name, fresh)
        self.current = name

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
        name = self.current
        if name is None or name not in [known for _, known, _ in self.listed(TABLES)]:
            raise DataError("The table is not in the folder any more: choose one.")
        return self.folder / name

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

    def document(self, *, answers: dict[str, Any] | None = None, rules: list[Any] | None = None) -> dict[str, Any]:
        """Return the schema document that the answers make."""
        answers = self.state["answers"] if answers is None else answers
        entries = [
            answers[one["name"]]["entry"]
            for one in self.columns
            if one["name"] in answers and answers[one["name"]]["entry"]
        ]
        written = {} if self.state["csv"] is None else {"csv": self.state["csv"]}
        rules = self.state["rules"] if rules is None else rules
        return {"synthdp_schema": 3, **written, "columns": entries} | ({"constraints": rules} if rules else {})

    def schema(self, **changed: Any) -> Schema:
        """Return the schema that the answers make.

        Raises
        ------
        SchemaError
            If they contradict each other, or there are none.
        """
        return Schema.from_json(json.dumps(self.document(**changed)), source="your answers")

    def unit(self) -> str | None:
        """Return the column that names whom to protect."""
        place = self.state["unit"]
        return None if place is None else str(self.columns[place]["name"])

    def request(self) -> dict[str, Any]:
        """Return what a plan and a release are asked of: everything that was answered and decides what comes out.

        Raises
        ------
        SchemaError
            If a column has no answer, or the answers contradict each other.
        """
        if self.state["columns"] is None:
            raise SchemaError("Choose a table first.")
        if self.open_columns:
            raise SchemaError(f"{len(self.open_columns)} columns have no answer yet.")
        self.schema()
        promise, unit = self.state["promise"], self.unit()
        return {
            "schema": self.document(), "privacy_unit": unit, "max_rows_per_unit": self.state["unit_rows"] if unit else 1,
            "delta": promise["delta"], "neighbors": promise["neighbors"],
        }  # fmt: skip

    def digest(self) -> str:
        """Return a short name of everything that a release would be asked of; it changes with any answer."""
        asked = {**self.request(), "promise": self.state["promise"], "table": self.current}
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]

    def places(self) -> Path:
        """Return a new folder for the next release of the current table."""
        stem = self.table.name.split(".")[0] or "table"
        taken = {release["folder"] for release in self.state["releases"]}
        number = 1
        while (name := f"{stem}.published-{number}") in taken or (self.folder / name).exists():
            number += 1
        return self.folder / name
