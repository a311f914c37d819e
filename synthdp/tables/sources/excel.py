"""Sheets of Excel as sources of rows: every cell is text until the schema says what it is, as in a CSV file."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from os import PathLike
from pathlib import Path
from typing import Any

from synthdp.domain.encoder import RawColumn
from synthdp.errors import DataError, FormatError, ParameterError, SynthDPError
from synthdp.schema.columns import Column
from synthdp.schema.csv_format import CsvFormat, checked_missing
from synthdp.tables.refusals import instead_of
from synthdp.tables.sources.csv_fields import header_names, read_texts, text_blocks

ENDINGS = (".xlsx", ".xlsm")
"""File name endings of Excel files."""

_BATCH_ROWS = 1_024
"""Rows that are converted at once.  A safety limit of memory."""


class ExcelSource:
    """A source of the rows of one sheet of an Excel file, whose first line names the columns; held in memory.

    A cell is read as its text, and that as the schema declares: no cell says how another is read.  A row without any
    text below the names is no row, wherever it stands.

    Parameters
    ----------
    path
        The file, ``.xlsx`` or ``.xlsm``.
    sheet
        The name of the sheet; ``None`` for the first one.
    missing
        As for `CsvSource`.

    Raises
    ------
    ParameterError
        If openpyxl, which reads such files, is not installed, or the file has no sheet of this name.
    FormatError
        If the file cannot be read.
    DataError
        If the sheet is empty, or its first line has no name or a repeated one.
    """

    def __init__(self, path: str | PathLike[str], *, sheet: str | None = None, missing: Collection[str] = ()) -> None:
        self.path = Path(path)
        self._missing = frozenset({"", *checked_missing(missing)})
        self._spelled = self._missing
        self.sheets, self._lines = _read(self.path, sheet)
        if not self._lines[0]:
            raise DataError(f"Excel file '{self.path}' has an empty first line: write the column names in it")
        self._header = header_names(self._lines[0], f"Excel file '{self.path}'")

    def __repr__(self) -> str:
        return f"ExcelSource({str(self.path)!r}, {len(self.names)} columns)"

    @property
    def files(self) -> tuple[str, ...]:
        """The path of the file that is read."""
        return (str(self.path),)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order; a column without a name is passed over."""
        return tuple(name for name in self._header if name)

    @property
    def unnamed(self) -> tuple[int, ...]:
        """Positions (from 1) of the columns without a name, which cannot be read."""
        return tuple(place for place, name in enumerate(self._header, start=1) if not name)

    @property
    def is_empty(self) -> bool:
        """Whether there is no row at all."""
        return len(self._lines) == 1

    @property
    def csv(self) -> CsvFormat:
        """The texts that mean a missing value, to be recorded in a schema."""
        return CsvFormat(missing=tuple(sorted(self._spelled - {""})))

    def with_missing(self, texts: Collection[str]) -> ExcelSource:
        """Return a source in which more texts stand for a missing value; see `CsvSource.with_missing`."""
        other = copy(self)
        other._spelled = self._spelled | set(texts)  # noqa: SLF001 - a copy of itself
        return other

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:
        """Yield the whole sheet as one block: a dict of raw values (labels or numbers) by column."""
        wanted = [*columns, *(name for name in extra if name not in columns)]
        places = [*map(self._header.index, wanted)]
        rows = len(self._lines)
        for fields in text_blocks(iter(self._lines[1:]), places, len(self._header), rows, _BATCH_ROWS):
            yield {
                name: read_texts(name, field, columns.get(name), named=self._missing, missing=self._spelled)
                for name, field in zip(wanted, fields, strict=True)
            }


def _read(path: Path, sheet: str | None) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return the names of a file's sheets, and the lines of one as lists of texts: column names first, then rows.

    Blank rows are left out, and so are cells to the right of the last column name.
    """

    def say(error: Any) -> SynthDPError | None:
        if isinstance(error, (MemoryError, SynthDPError)):
            return None
        if isinstance(error, ImportError):
            return ParameterError("an Excel file needs openpyxl: pip install 'synthdp[excel]'")
        reason = getattr(error, "strerror", None) or "it is damaged, locked by a password, or no Excel file"
        return FormatError(f"Excel file '{path}' cannot be read ({reason}): give a readable Excel file")

    with instead_of(Exception, say=say), warnings.catch_warnings():  # a warning of openpyxl may quote a cell
        warnings.simplefilter("ignore")
        import openpyxl

        with path.open("rb") as file:
            worksheets = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False).worksheets
            names = tuple(one.title for one in worksheets)
            if sheet is not None and sheet not in names:
                raise ParameterError(
                    f"sheet ({sheet!r}) must be one of the sheets of the file: {', '.join(map(repr, names))}"
                )
            table = worksheets[0 if sheet is None else names.index(sheet)]
            table.reset_dimensions()  # a file may say a wrong size
            lines = ([*map(_text, line)] for line in table.iter_rows())
            header = next(lines, [])
            while header and not header[-1].strip():
                header.pop()
            return names, [header, *(row for line in lines if any(row := line[: len(header)]))]


def _text(cell: Any) -> str:
    """Return a cell's value as text; "" for a missing value or a formula's error.

    A whole number has no decimal point, and a moment at midnight is a day.
    """
    value = cell.value
    if value is None or cell.data_type == "e":
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        value = value.date()  # Excel has no days: a day is its midnight
    return value.isoformat() if isinstance(value, (dt.datetime, dt.date, dt.time)) else str(value)
