"""The text of public documents: a JSON Schema, or the lines of a data dictionary.  No private table is one."""

from __future__ import annotations

import csv
from pathlib import Path

from synthdp.errors import FormatError
from synthdp.schema.csv_format import CsvFormat
from synthdp.tables.sources.csv_detect import detected


def document_text(path: Path, source: str, encoding: str = "utf-8-sig") -> str:
    """Return the text of a document, which messages call ``source``.

    Raises
    ------
    FormatError
        If it cannot be read.
    """
    try:
        return path.read_text(encoding=encoding)
    except UnicodeError:
        raise FormatError(f"{source} is not {encoding.removesuffix('-sig').upper()} text") from None
    except OSError as error:
        raise FormatError(f"{source} cannot be read: {error.strerror}") from None


def document_lines(path: Path, source: str, told: CsvFormat) -> list[list[str]]:
    """Return the fields of a data dictionary.

    Raises
    ------
    FormatError
        If it cannot be read.
    """
    found = detected(path, told)
    text = document_text(path, source, told.encoding or "utf-8-sig")
    try:
        lines = text.splitlines(keepends=True)
        return [record for record in csv.reader(lines, strict=True, delimiter=found.delimiter or ",") if record]
    except csv.Error:
        raise FormatError(f"{source} breaks the rules of quoting") from None
