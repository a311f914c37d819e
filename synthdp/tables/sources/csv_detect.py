"""How a CSV file tells its fields apart, from its first line alone: the names of the columns, which are public."""

from __future__ import annotations

import codecs
import csv
import gzip
import zlib
from os import PathLike
from pathlib import Path

from synthdp.errors import FormatError
from synthdp.schema.csv_format import CsvFormat
from synthdp.tables.refusals import instead_of
from synthdp.tables.sources.csv_fields import OLDER

DELIMITERS = (",", ";", "\t", "|")
"""What is looked for, the first in case of doubt."""

_LONGEST_HEADER = 1 << 20
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def detected(path: str | PathLike[str], known: CsvFormat) -> CsvFormat:
    """Return how a CSV file is read, where that is not known as its first line suggests; no other line is looked at.

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
    """Return the first line of a file, or as much as it may take of one in UTF-16."""

    def say(error: BaseException) -> FormatError:
        reason = getattr(error, "strerror", None) or "it is not valid gzip"
        return FormatError(f"CSV file '{path}' cannot be read: {reason}")

    opener = gzip.open if path.name.endswith(".gz") else open
    with instead_of(EOFError, OSError, zlib.error, say=say), opener(path, "rb") as file:
        line = bytes(file.readline(_LONGEST_HEADER))
        if line.startswith(_WIDE):
            return line + bytes(file.read(_LONGEST_HEADER))
        return (line.splitlines() or [b""])[0]  # where lines end in carriage returns alone, that was not one line


def _encoding(header: bytes) -> str | None:
    """Return the encoding that a header is in; ``None`` for UTF-8, after which other bytes may follow."""
    if header.startswith(_WIDE):
        return "utf-16"
    try:
        header.decode("utf-8")
    except UnicodeDecodeError:
        return OLDER
    return None


def _delimiter(text: str) -> str:
    """Return what divides a header into the most names."""
    line = (text.splitlines() or [""])[0]
    return max(DELIMITERS, key=lambda delimiter: len(next(csv.reader([line], delimiter=delimiter), [])))
