"""CSV files in and out: every field is text until the schema says what it is, so no field changes how another is read.

Reading takes bounded memory.  No message quotes a field: in a file without a header even its first line is private.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import itertools
import re
import uuid
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from synthdp.arrays import IntArray
from synthdp.domain.encoder import Labels, RawColumn
from synthdp.domain.grid import has_labels, labels_of
from synthdp.errors import DataError, FormatError, ParameterError
from synthdp.schema.columns import Column, is_complete
from synthdp.tables.columns.parse import declared, text_of_level
from synthdp.tables.sources.dataframe import frame_of

BLOCK_ROWS = 131_072
"""Rows of a block; a public constant."""

_BATCH_ROWS = 1_024  # texts of a batch fit the processor's cache
_LONGEST_FIELD = 2**31 - 1
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_ESCAPED = re.compile(r"'+[=+\-@\t\r]")


class CsvSource:
    """The rows of a CSV file with a header line; a name that ends in ``.gz`` is read as gzip.

    The whole file is checked once when the source is made: encoding, quotes, and as many fields in each row as in the
    header.  Blank lines are skipped.

    Parameters
    ----------
    path
        The file.
    missing
        Texts that stand for a missing value, besides the empty one.  The text of a declared level is that level.
    delimiter
        One character between fields.
    encoding
        A byte-order mark is skipped in UTF-8.
    escaped_formulas
        Whether texts were written with ``write_csv(..., escape_formulas=True)``.

    Raises
    ------
    FormatError
        If the file cannot be read, is not text of the encoding, or breaks the rules of quoting.
    DataError
        If it has no header, a header with unnamed or repeated columns, or a row with more or fewer fields.

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
        encoding: str = "utf-8",
        escaped_formulas: bool = False,
    ) -> None:
        if isinstance(missing, str):
            raise ParameterError("missing must be a list of texts, not one text")
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
            raise ParameterError("delimiter must be one character, and neither a quote nor a line end")
        self.path = Path(path)
        self._missing = frozenset({"", *missing})
        self._delimiter = delimiter
        self._encoding = "utf-8-sig" if encoding.lower().replace("_", "-") in {"utf-8", "utf8"} else encoding
        self._escaped = escaped_formulas
        try:
            codecs.lookup(encoding)
        except LookupError:
            raise ParameterError(f"encoding ({encoding!r}) must be the name of a text encoding") from None
        self._names: tuple[str, ...] = ()
        self._names, self._is_empty = self._check()

    def __repr__(self) -> str:
        return f"CsvSource({str(self.path)!r}, {len(self.names)} columns)"

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return self._names

    @property
    def is_empty(self) -> bool:
        """Whether there is no row at all."""
        return self._is_empty

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:
        """Yield all rows in blocks of `BLOCK_ROWS`, at least one block.

        Raises
        ------
        DataError, FormatError
            If the file is gone or has changed since the source was made.
        """
        wanted = [*columns, *(name for name in extra if name not in columns)]
        places = [self._names.index(name) for name in wanted]
        with self._records() as records:
            if self._header(next(records, None)) != self._names:
                raise self._changed()
            for first in itertools.count():
                coders = [_Coder() for _ in wanted]
                for batch in _batches(records, BLOCK_ROWS):
                    if any(len(record) != len(self._names) for record in batch):
                        raise self._changed()
                    fields = list(zip(*batch, strict=True))
                    for coder, place in zip(coders, places, strict=True):
                        coder.add(fields[place])
                if coders and not coders[0].rows and first:
                    return
                yield {name: self._column(coder, columns.get(name)) for name, coder in zip(wanted, coders, strict=True)}
                if not coders or coders[0].rows < BLOCK_ROWS:
                    return

    def _changed(self) -> DataError:
        return DataError(f"CSV file '{self.path}' has changed since the source was made")

    def _column(self, coder: _Coder, column: Column | None) -> RawColumn:
        texts = [_unescaped(text) if self._escaped else text for text in coder.levels]
        levels = _level_texts(column)
        kept = np.array([text in levels or text not in self._missing for text in texts] or [True])
        number = np.where(kept, np.cumsum(kept) - 1, -1)
        labels = Labels([text for text, keep in zip(texts, kept, strict=False) if keep], number[coder.codes])
        return labels if column is None else declared(labels, column)

    def _check(self) -> tuple[tuple[str, ...], bool]:
        """Read the whole file once: return the column names and whether there is no row."""
        with self._records() as records:
            names = self._header(next(records, None))
            rows = 0
            for rows, record in enumerate(records, start=1):
                if len(record) != len(names):
                    more = "more" if len(record) > len(names) else "fewer"
                    raise DataError(f"row {rows} of CSV file '{self.path}' has {more} fields than the header")
        return names, rows == 0

    def _header(self, record: list[str] | None) -> tuple[str, ...]:
        if record is None:
            raise DataError(f"CSV file '{self.path}' is empty: its first line must name the columns")
        names = tuple(_unescaped(name) if self._escaped else name for name in record)
        for place, name in enumerate(names):
            if not name.strip():
                raise DataError(f"column {place + 1} in the header of CSV file '{self.path}' has no name")
            if name in names[:place]:
                other = names.index(name) + 1
                raise DataError(f"columns {other} and {place + 1} of CSV file '{self.path}' have the same name")
        return names

    @contextmanager
    def _records(self) -> Iterator[Iterator[list[str]]]:
        """Open the file and give its records, blank lines left out; every failure becomes one sentence."""
        csv.field_size_limit(_LONGEST_FIELD)
        where = f"CSV file '{self.path}'"
        try:
            with _open(self.path, self._encoding) as file:
                yield (record for record in csv.reader(file, delimiter=self._delimiter, strict=True) if record)
        except UnicodeError as error:
            _forget_rows(error)
            name = self._encoding.removesuffix("-sig").upper()
            raise FormatError(
                f"{where} is not {name} text: name its encoding, for example encoding='latin-1'"
            ) from None
        except csv.Error:
            raise FormatError(f"{where} breaks the rules of quoting") from None
        except (EOFError, zlib.error):
            raise FormatError(f"{where} ends in the middle of its compressed data") from None
        except OSError as error:
            raise FormatError(f"{where} cannot be read: {error.strerror or 'it is not valid gzip'}") from None


class _Coder:
    """One column of a block: texts coded by a dictionary that grows batch by batch."""

    __slots__ = ("_parts", "_position")

    def __init__(self) -> None:
        self._position: dict[str, int] = {}
        self._parts: list[IntArray] = []

    def add(self, texts: Sequence[str]) -> None:
        """Code some more texts."""
        codes, different = pd.factorize(np.array(texts, dtype=object))
        position = self._position
        places = np.array([position.setdefault(text, len(position)) for text in different], np.int64)
        self._parts.append(places[codes])

    @property
    def rows(self) -> int:
        """Number of rows so far."""
        return sum(map(len, self._parts))

    @property
    def levels(self) -> list[str]:
        """The different texts."""
        return list(self._position)

    @property
    def codes(self) -> IntArray:
        """(n,) index of each row's text."""
        return np.concatenate([*self._parts, np.zeros(0, np.int64)])


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
        Put an apostrophe before texts that a spreadsheet would run as a formula: those that start with = + - @, a tab
        or a carriage return, after any apostrophes.  ``CsvSource(path, escaped_formulas=True)`` takes it away again.

    Raises
    ------
    DataError
        If it is no dataframe.
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
    try:
        with _replacing(Path(path)) as file:
            writer = csv.writer(_Rows(file), lineterminator="\r\n")
            for number, frame in enumerate(map(frame_of, tables)):
                if number == 0:
                    writer.writerow(_escaped(frame.columns) if escape_formulas else frame.columns)
                for first in range(0, len(frame), BLOCK_ROWS):
                    block = frame[first : first + BLOCK_ROWS]
                    columns = [_cells(block[name].to_list()) for name in frame.columns]
                    writer.writerows(zip(*map(_escaped, columns) if escape_formulas else columns, strict=True))
    except UnicodeError:
        raise FormatError(f"a text of the table cannot be written to '{path}' as UTF-8") from None
    except OSError as error:
        raise FormatError(f"'{path}' cannot be written: {error.strerror}") from None


def _forget_rows(error: UnicodeError) -> None:
    """Take the text out of an error that stays behind the one that is raised: debuggers and loggers show it."""
    error.args = ()
    if isinstance(error, UnicodeDecodeError):
        error.object = b""


class _Rows:
    """What a csv writer writes to: it ends rows with a line feed, and has carriage returns quoted all the same."""

    __slots__ = ("_file",)

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, row: str) -> int:
        """Write one row that ends in the writer's line end, two characters."""
        return self._file.write(row[:-2] + "\n")


def _cells(values: list[Any]) -> list[Any]:
    """Return the values of a column with ``None`` for every kind of missing one: what a csv writer leaves empty."""
    cells = np.fromiter(values, dtype=object, count=len(values))
    cells[pd.isna(cells)] = None
    return list(cells)


def _escaped(cells: list[Any]) -> list[Any]:
    return [f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell for cell in cells]


def _unescaped(text: str) -> str:
    return text[1:] if _ESCAPED.match(text) else text


def _level_texts(column: Column | None) -> frozenset[str]:
    if column is None or not has_labels(column) or not is_complete(column):
        return frozenset()
    return frozenset(text_of_level(level) for level in labels_of(column))


def _batches(records: Iterator[list[str]], rows: int) -> Iterator[list[list[str]]]:
    left = rows
    while left and (batch := list(itertools.islice(records, min(_BATCH_ROWS, left)))):
        left -= len(batch)
        yield batch


def _open(path: Path, encoding: str) -> IO[str]:
    if path.name.endswith(".gz"):
        return gzip.open(path, "rt", encoding=encoding, newline="")
    return path.open(encoding=encoding, newline="")


@contextmanager
def _replacing(path: Path) -> Iterator[IO[str]]:
    """Open a new file beside ``path`` that takes its place when all went well; a device is written as it is."""
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="") as device:
            yield device
        return
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        opener = gzip.open if path.name.endswith(".gz") else open
        with opener(beside, "xt", encoding="utf-8", newline="") as file:
            yield file
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
