"""The texts of a CSV or Excel file as values of declared columns: each different text is read once, as the schema says.

This is the first step from a CSV cell to a code; `synthdp.domain.encoder.encode` takes the second.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import itertools
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import IO

import numpy as np

from synthdp.arrays import IntArray
from synthdp.domain.encoder import Labels, RawColumn
from synthdp.domain.grid import labels_of
from synthdp.errors import DataError, FormatError
from synthdp.schema.column import Column
from synthdp.schema.csv_format import CsvFormat, is_missing
from synthdp.tables.parse import declared, text_of_level
from synthdp.tables.plain import text_or_opaque
from synthdp.tables.refusals import instead_of, reading

MOST_LINES = 10_000
"""Most lines of a quoted field.  A quote that is still open then is taken for a stray character.  A safety limit."""

_LONGEST_FIELD = 2**31 - 1
"""Most characters of a field that Python's CSV reader accepts.  A safety limit: the largest 32-bit integer."""

KEPT_BYTE = 0xDC00
"""Offset from a byte to the lone surrogate character that stands for it, where it is not valid in the file's encoding.
"""

_KEEPING_BYTES = "synthdp.keeping_bytes"
"""The name of the registered error handler that keeps undecodable bytes as lone surrogates."""


def open_text(path: Path, encoding: str) -> IO[str]:
    """Open a text file, gzip or not; undecodable bytes become lone surrogates, so that reading never fails."""
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding=encoding, errors=_KEEPING_BYTES, newline="")
    return path.open(encoding=encoding, errors=_KEEPING_BYTES, newline="")


def records_of(lines: Iterator[str], delimiter: str) -> Iterator[list[str]]:
    """Yield the records of a CSV file's lines as lists of field texts, without blank lines.

    A line whose quotes break the rules is a record by itself, read as well as possible, so that a stray quote does not
    swallow other records.  One case remains: if a later quoted field begins with a delimiter or a line end, all records
    from the stray quote on to this field become one record.
    """
    csv.field_size_limit(_LONGEST_FIELD)
    again: deque[str] = deque()
    of_record: list[str] = []

    def taken() -> Iterator[str]:
        while len(of_record) < MOST_LINES:
            line = again.popleft() if again else next(lines, None)
            if line is None:
                return
            of_record.append(line)
            yield line

    records = csv.reader(taken(), delimiter=delimiter, strict=True)
    while True:
        of_record.clear()
        try:
            record = next(records, None)
        except csv.Error:
            broken, *others = of_record
            again.extendleft(reversed(others))
            record = next(csv.reader([broken.rstrip("\r\n")], delimiter=delimiter), [])
            records = csv.reader(taken(), delimiter=delimiter, strict=True)
        if record is None:
            return
        if record:
            yield record


def _kept_bytes(error: UnicodeError) -> tuple[str, int]:
    """Return undecodable bytes as lone surrogates, which no text has, so that different bytes stay different.

    The function is a codec error handler: the result is the replacement text and the position to go on from.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(chr(KEPT_BYTE + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_KEEPING_BYTES, _kept_bytes)


OLDER = "cp1252"
"""The encoding of bytes that are not UTF-8: what Windows writes in western Europe and America."""

_OLDER_BYTES = {
    KEPT_BYTE + byte: text for byte in range(0x80, 0x100) if (text := bytes([byte]).decode(OLDER, errors="ignore"))
}
"""The `OLDER` character of each lone surrogate that stands for an undecodable byte."""


class TextColumn:
    """One column of a block of rows: its distinct texts, and each row's index among them, so that each is parsed once."""

    __slots__ = ("_parts", "_position")

    def __init__(self) -> None:
        self._position: defaultdict[str, int] = defaultdict()
        self._position.default_factory = self._position.__len__
        self._parts: list[IntArray] = []

    def add(self, texts: Sequence[str]) -> None:
        """Append the texts of some more rows."""
        self._parts.append(np.fromiter(map(self._position.__getitem__, texts), np.int64, len(texts)))

    @property
    def rows(self) -> int:
        """Number of rows so far."""
        return sum(map(len, self._parts))

    @property
    def levels(self) -> list[str]:
        """The distinct texts, in order of appearance."""
        return list(self._position)

    @property
    def codes(self) -> IntArray:
        """Each row's index among the distinct texts, (rows,)."""
        return np.concatenate([*self._parts, np.zeros(0, np.int64)])


def text_blocks(
    records: Iterator[list[str]], places: Sequence[int], width: int, block_rows: int, batch_rows: int
) -> Iterator[list[TextColumn]]:
    """Yield some fields of all records as `TextColumn` objects, in blocks of ``block_rows`` rows, at least one block.

    ``places`` are the fields' positions.  A record is cut or filled to ``width`` fields, and ``batch_rows`` of them are
    taken apart at once.
    """
    rows = (record if len(record) == width else _fitted(record, width) for record in records)
    for first in itertools.count():
        columns = [TextColumn() for _ in places]
        for batch in _batches(rows, block_rows, batch_rows):
            fields = list(zip(*batch, strict=True))
            for column, place in zip(columns, places, strict=True):
                column.add(fields[place])
        if columns and not columns[0].rows and first:
            return
        yield columns
        if not columns or columns[0].rows < block_rows:
            return


def read_texts(
    name: str,
    found: TextColumn,
    column: Column | None,
    *,
    named: Collection[str],
    missing: Collection[str],
    plain: Callable[[str], str] | None = None,
    older: bool = False,
) -> RawColumn:
    """Return texts as raw values of a declared column: parsed numbers or times, or labels.

    Parameters
    ----------
    name
        The column's name, for errors.
    found
        The texts.
    column
        Declaration of the column; ``None`` reads all texts as labels.
    named
        Texts that stand for a missing value even in a column that names rows or persons.
    missing
        Texts that stand for a missing value in all other columns, with spaces around them or not.
    plain
        Function that every text goes through first, such as one that removes an escape of formulas.
    older
        Whether bytes that are not UTF-8 are read as Windows text (`OLDER`).  Never in a column
        that names rows or persons, so that different bytes stay different persons.
    """
    texts = found.levels if plain is None else [plain(text) for text in found.levels]
    codes = found.codes
    if column is None or column.names_rows:
        kept = np.array([text not in named for text in texts] or [True])
    else:
        if older and not all(map(str.isascii, texts)):
            texts, codes = _of_older(texts, codes)
        levels = _level_texts(column)
        kept = np.array([text in levels or not is_missing(text, missing) for text in texts] or [True])
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    with reading(name):
        known = [text_or_opaque(text) for text, keep in zip(texts, kept, strict=False) if keep]
        labels = Labels(known, number[codes])
        return labels if column is None else declared(labels, column)


def header_names(fields: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the column names of a header, "" for a blank one; raise DataError without names or with repeated ones.

    Raises
    ------
    DataError
        If no column has a name, or two have the same name; the message has their positions and quotes no name.
    """
    names = tuple(field if field.strip() else "" for field in fields)
    if not any(names):
        raise DataError(f"the header of {where} names no column: write the column names in the first line")
    for place, name in enumerate(names):
        if name and name in names[:place]:
            raise DataError(
                f"columns {names.index(name) + 1} and {place + 1} of {where} have the same name: rename one of the two"
            )
    return names


def _of_older(texts: Sequence[str], codes: IntArray) -> tuple[list[str], IntArray]:
    """Return distinct texts, with undecodable bytes read as `OLDER`, and each row's index among them, (rows,).

    Texts that become equal are one.
    """
    place: dict[str, int] = {}
    new = np.array([place.setdefault(text.translate(_OLDER_BYTES), len(place)) for text in texts], np.int64)
    return [*place], new[codes]


def _fitted(record: list[str], width: int) -> list[str]:
    """Return a record with ``width`` fields, cut or filled with empty ones, so that lines of any length are read."""
    return [*record, *itertools.repeat("", width - len(record))][:width]


def _batches(records: Iterator[list[str]], rows: int, batch_rows: int) -> Iterator[list[list[str]]]:
    """Yield lists of at most ``batch_rows`` records, ``rows`` records in all, so that memory is bounded."""
    left = rows
    while left and (batch := list(itertools.islice(records, min(batch_rows, left)))):
        left -= len(batch)
        yield batch


def _level_texts(column: Column) -> frozenset[str]:
    """Return the texts that are values of a column even if they usually mean a missing value.

    The texts are the column's levels, or with a declared text format the format's words; none in any other column.
    """
    if column.cells is not None:
        return column.cells.words
    if not column.labelled or not column.is_complete:
        return frozenset()
    return frozenset(text_of_level(level) for level in labels_of(column))


DELIMITERS = (",", ";", "\t", "|")
"""Delimiters that are tried on a header line, the first in case of a tie."""

_LONGEST_HEADER = 1 << 20
"""Most bytes that are read to find the first line, so that a large file without line breaks is not read whole. A safety
limit."""

_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""The byte-order marks of UTF-16, by which a file with two bytes a character is recognised."""


def detected(path: str | PathLike[str], known: CsvFormat) -> CsvFormat:
    """Return a CSV format whose delimiter and encoding, if unknown, are guessed from the file's header line alone.

    Other lines are private, and must not decide how the file is read.  ``known`` holds the known settings; its texts
    for missing values stay.

    Raises
    ------
    FormatError
        If the file cannot be read.
    """
    header = b"" if known.delimiter and known.encoding else _first_line(Path(path))
    encoding = known.encoding or _encoding(header)
    delimiter = known.delimiter or _delimiter(header.decode(encoding or "utf-8", errors="replace"))
    return CsvFormat(delimiter, encoding, known.missing)


def _first_line(path: Path) -> bytes:
    """Return the bytes of a file's first line, or enough bytes to contain it in UTF-16.

    Only the first line decides delimiter and encoding, because other lines are private.
    """

    def say(error: BaseException) -> FormatError:
        reason = getattr(error, "strerror", None) or "it is not valid gzip"
        return FormatError(f"CSV file '{path}' cannot be read ({reason}): give the path of a readable file")

    opener = gzip.open if path.name.lower().endswith(".gz") else open
    with instead_of(EOFError, OSError, zlib.error, say=say), opener(path, "rb") as file:
        line = bytes(file.readline(_LONGEST_HEADER))
        if line.startswith(_WIDE):
            return line + bytes(file.read(_LONGEST_HEADER))
        return (line.splitlines() or [b""])[0]  # where lines end in carriage returns alone, that was not one line


def _encoding(header: bytes) -> str | None:
    """Return the encoding that a header line's bytes suggest, by which the whole file is read.

    The encoding is UTF-16 by its byte-order mark, or `OLDER` for bytes that are not UTF-8.  ``None`` is UTF-8, in which
    later lines may have other bytes.
    """
    if header.startswith(_WIDE):
        return "utf-16"
    try:
        header.decode("utf-8")
    except UnicodeDecodeError:
        return OLDER
    return None


def _delimiter(text: str) -> str:
    """Return the delimiter that divides a header line into the most names."""
    line = (text.splitlines() or [""])[0]
    return max(DELIMITERS, key=lambda delimiter: len(next(csv.reader([line], delimiter=delimiter), [])))
