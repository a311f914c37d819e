"""CSV files in and out: every field is text until the schema says what it is, so no field changes how another is read.

Reading takes bounded memory and is total: nothing that a row holds stops it.  No message quotes a field: in a file
without a header even its first line is private.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from synthdp.domain.encoder import RawColumn
from synthdp.errors import DataError, FormatError, SynthDPError
from synthdp.files import replacing, writing
from synthdp.schema.columns import Column
from synthdp.schema.csv_format import CsvFormat, check_delimiter, check_encoding, checked_missing
from synthdp.tables.columns.cast import zoned
from synthdp.tables.dataframe import frame_of
from synthdp.tables.plain import Opaque, text_or_opaque
from synthdp.tables.refusals import instead_of
from synthdp.tables.source import BLOCK_ROWS
from synthdp.tables.sources.csv_fields import header_names, open_text, read_texts, records_of, text_blocks

_BATCH_ROWS = 1_024  # texts of a batch fit the processor's cache
"""Records that are taken apart into fields at once.  Texts of more would not fit the processor's cache; fewer would
take more steps.  A convention."""

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""A regular expression of cells that a spreadsheet could run as a formula."""

_ESCAPED = re.compile(r"'+[=+\-@\t\r]")
"""A regular expression of formulas with apostrophes in front, which defuse them: reading takes one apostrophe away.
"""


class CsvSource:
    """The rows of a CSV file with a header line; a name that ends in ``.gz`` is read as gzip.

    A row is a record of the file as its quotes divide it.  No content of a row is refused, because a refusal would
    reveal it: fields that a row lacks are missing values, fields beyond the header are left out, and blank lines are
    skipped.  A field with bytes that are invalid in a named encoding is a value that the column cannot hold.  So is a
    field with anything else that its column's declaration does not foresee.  A quote that is not closed as the rules
    say, or only after `MOST_LINES` lines, is read as if its line stood alone.  So a stray quote spoils one row and not
    the file.

    Texts are compared exactly as written: as privacy units, ``7``, ``07`` and ``7.0`` are three.

    Parameters
    ----------
    path
        The file.
    missing
        Texts that stand for a missing value, besides the empty one, texts of spaces alone, and texts that the
        ``csv`` of the schema lists.  The text of a declared level is that level.
    delimiter
        One character between fields.
    encoding
        A byte-order mark is skipped in UTF-8.  ``None`` is UTF-8, and bytes that are none are read as cp1252, field by
        field, so that no row decides how another is read; in a column that names rows or persons they stay bytes.
    escaped_formulas
        Whether texts were written with ``write_csv(..., escape_formulas=True)``.

    Raises
    ------
    FormatError
        If the file cannot be read, or its header is not text of the encoding.
    DataError
        If it has no header, or one with no name or with a repeated one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "t.csv"
    ...     pd.DataFrame({"age": [41, 17] * 500}).to_csv(path, index=False)
    ...     synthetic = sd.SyntheticRelease(schema=sd.Schema({"age": sd.Integer(0, 99)})).fit_transform(sd.CsvSource(path))
    >>> list(synthetic.columns)
    ['age']
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        missing: Collection[str] = (),
        delimiter: str = ",",
        encoding: str | None = None,
        escaped_formulas: bool = False,
    ) -> None:
        self._missing = frozenset({"", *checked_missing(missing)})
        self._spelled = self._missing
        check_delimiter(delimiter)
        if encoding is not None:
            check_encoding(encoding)
        self.path = Path(path)
        self._delimiter = delimiter
        self._told = encoding
        self._encoding = encoding or "utf-8"
        if self._encoding.lower().replace("_", "-") in {"utf-8", "utf8"}:
            self._encoding = "utf-8-sig"
        self._escaped = escaped_formulas
        self._header_fields, self._is_empty = self._check()

    def __repr__(self) -> str:
        return f"CsvSource({str(self.path)!r}, {len(self.names)} columns)"

    @property
    def files(self) -> tuple[str, ...]:
        """The path of the file that is read."""
        return (str(self.path),)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order; columns without a name, such as a written index, are left out and cannot be read."""
        return tuple(name for name in self._header_fields if name)

    @property
    def unnamed(self) -> tuple[int, ...]:
        """Positions (from 1) of the columns without a name, which cannot be read."""
        return tuple(place for place, name in enumerate(self._header_fields, start=1) if not name)

    @property
    def is_empty(self) -> bool:
        """Whether there is no row at all."""
        return self._is_empty

    @property
    def csv(self) -> CsvFormat:
        """The file's format (delimiter, encoding, texts for missing values), to be recorded in a schema."""
        missing = sorted(self._spelled - {""})
        return CsvFormat(self._delimiter, self._told, tuple(missing))

    def with_missing(self, texts: Collection[str]) -> CsvSource:
        """Return a source in which more texts mean a missing value, except in columns that identify rows or persons.

        Each row of a person whose identifier became missing would be a privacy unit of its own.
        """
        other = copy(self)
        other._spelled = self._spelled | set(texts)  # noqa: SLF001 - a copy of itself
        return other

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:
        """Yield all rows in blocks of `BLOCK_ROWS`, at least one block; a block is columns of raw values by name.

        Raises
        ------
        DataError, FormatError
            If the file is gone or has changed since the source was made.
        """
        wanted = [*columns, *(name for name in extra if name not in columns)]
        with self.records() as records:
            if self._header(next(records, None)) != self._header_fields:
                raise self._changed()
            places = [*map(self._header_fields.index, wanted)]
            for fields in text_blocks(records, places, len(self._header_fields), BLOCK_ROWS, _BATCH_ROWS):
                yield {
                    name: read_texts(
                        name, field, columns.get(name),
                        named=self._missing, missing=self._spelled, plain=_unescaped if self._escaped else None,
                        older=self._told is None,
                    )
                    for name, field in zip(wanted, fields, strict=True)
                }  # fmt: skip

    def _changed(self) -> DataError:
        """Return the error for a file that changed after its header was read."""
        return DataError(f"CSV file '{self.path}' has changed since the source was made")

    def _check(self) -> tuple[tuple[str, ...], bool]:
        """Return the column names, and whether the file has no row.

        Compressed data is read to its end, where its checksum is.
        """
        with self.records() as records:
            names = self._header(next(records, None))
            is_empty = next(records, None) is None
        if self.path.name.lower().endswith(".gz"):
            with self._reading(), gzip.open(self.path) as file:
                while file.read(1 << 20):
                    pass
        return names, is_empty

    def _header(self, record: list[str] | None) -> tuple[str, ...]:
        """Return the column names of the header line, "" for a column without one; raise an error if there is no header."""
        if record is None:
            raise DataError(
                f"CSV file '{self.path}' is empty: write the column names in the first line, and the rows below"
            )
        names = tuple(_unescaped(name) if self._escaped else name for name in record)
        if any(isinstance(text_or_opaque(name), Opaque) for name in names):
            raise self._no_text()
        return header_names(names, f"CSV file '{self.path}'")

    def _no_text(self) -> FormatError:
        """Return the error for a header that is not in the declared encoding."""
        name = self._encoding.removesuffix("-sig").upper()
        return FormatError(
            f"the header of CSV file '{self.path}' is not {name} text: name its encoding, for example encoding='latin-1'"
        )

    @contextmanager
    def records(self) -> Iterator[Iterator[list[str]]]:
        """Open the file for a ``with`` body, as an iterator over its records, the header first.

        A record is the list of its fields' texts.
        """
        with self._reading(), open_text(self.path, self._encoding) as file:
            yield records_of(file, self._delimiter)

    def _reading(self) -> Any:
        """Return a context manager that turns errors of reading the file into one sentence that quotes no field."""
        where = f"CSV file '{self.path}'"

        def say(error: Any) -> SynthDPError:
            if isinstance(error, UnicodeError):
                return self._no_text()
            if isinstance(error, OSError):
                return FormatError(
                    f"{where} cannot be read ({error.strerror or 'it is not valid gzip'}): give the path of a "
                    "readable file"
                )
            return FormatError(f"{where} ends in the middle of its compressed data: give a complete copy")

        return instead_of(UnicodeError, EOFError, zlib.error, OSError, say=say)


def write_csv(table: object, path: str | PathLike[str], *, escape_formulas: bool = False) -> None:
    """Write a dataframe as UTF-8 CSV, with a header and line feeds at line ends; missing values are empty fields.

    Floats are written with the fewest digits that read back the same.  The file appears whole or not at all.

    Parameters
    ----------
    table
        Any dataframe.
    path
        The file; a name that ends in ``.gz`` is compressed.
    escape_formulas
        Put an apostrophe before texts that a spreadsheet would run as a formula: texts that start with = + - @, a tab
        or a carriage return, after any apostrophes.  ``CsvSource(path, escaped_formulas=True)`` takes it away again.

    Raises
    ------
    DataError
        If ``table`` is not a dataframe.
    FormatError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from synthdp import write_csv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_csv(pd.DataFrame({"note": ["=1+1"]}), Path(folder) / "t.csv", escape_formulas=True)
    ...     print((Path(folder) / "t.csv").read_text(), end="")
    note
    '=1+1
    """
    write_csv_blocks([table], path, escape_formulas=escape_formulas)


def write_csv_blocks(tables: Iterable[object], path: str | PathLike[str], *, escape_formulas: bool = False) -> None:
    """Write dataframes of the same columns as one CSV file, one after the other; see `write_csv`."""
    path = Path(path)
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    no_text = FormatError(
        f"a text cannot be written to '{path}' as UTF-8: correct the levels and formats of the schema"
    )
    with (
        instead_of(UnicodeError, say=no_text),
        writing(path, refusal=FormatError),
        replacing(path) as beside,
        opener(beside, "wt", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(_Rows(file), lineterminator="\r\n")
        for number, frame in enumerate(map(frame_of, tables)):
            if number == 0:
                writer.writerow(_escaped(frame.columns) if escape_formulas else frame.columns)
            for first in range(0, len(frame), BLOCK_ROWS):
                block = frame[first : first + BLOCK_ROWS]
                columns = [_cells(block[name].to_list()) for name in frame.columns]
                writer.writerows(zip(*map(_escaped, columns) if escape_formulas else columns, strict=True))


class _Rows:
    """A file for Python's CSV writer that ends rows with a line feed.

    The writer itself uses two characters, so that it quotes carriage returns within cells.
    """

    __slots__ = ("_file",)

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, row: str) -> int:
        """Write a row that ends in CR LF, as Python's CSV writer ends it, with LF alone; return the number of characters."""
        return self._file.write(row[:-2] + "\n")


def _cells(values: list[Any]) -> list[Any]:
    """Return a column's cells with ``None``, written as an empty field, for every kind of missing value.

    Moments with a zone are texts in ISO 8601.
    """
    cells = np.fromiter(values, dtype=object, count=len(values))
    cells[pd.isna(cells)] = None
    return [zoned(cell) if isinstance(cell, dt.datetime) and cell.tzinfo is not None else cell for cell in cells]


def _escaped(cells: list[Any]) -> list[Any]:
    """Return cells with an apostrophe before texts that a spreadsheet could take for formulas."""
    return [f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell for cell in cells]


def _unescaped(text: str) -> str:
    """Return a cell's text without the apostrophe that `_escaped` put before a formula."""
    return text[1:] if _ESCAPED.match(text) else text
