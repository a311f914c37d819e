"""The records of a CSV file as texts, whatever is in it: quotes that are not closed, bytes that are not text."""

from __future__ import annotations

import codecs
import csv
import gzip
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import IO

MOST_LINES = 10_000
"""Lines of the longest quoted field; a quote that is not closed by then was none."""

_LONGEST_FIELD = 2**31 - 1
KEPT_BYTE = 0xDC00
"""The lone surrogate of a byte is so much more than the byte."""

_KEEPING_BYTES = "synthdp.keeping_bytes"


def open_text(path: Path, encoding: str) -> IO[str]:
    """Open a file of text; bytes that are not text of the encoding become lone surrogates, different ones for each byte."""
    if path.name.endswith(".gz"):
        return gzip.open(path, "rt", encoding=encoding, errors=_KEEPING_BYTES, newline="")
    return path.open(encoding=encoding, errors=_KEEPING_BYTES, newline="")


def records_of(lines: Iterator[str], delimiter: str) -> Iterator[list[str]]:
    """Yield the records of some lines, blank ones left out.

    A line whose quotes break the rules is a record by itself, read as well as possible, so it cannot change any other
    record, except those between it and a quoted field that begins with a delimiter or a line end.
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
    """Return bytes that are not text as lone surrogates, which no text has: different bytes stay different."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(chr(KEPT_BYTE + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_KEEPING_BYTES, _kept_bytes)
