"""The text of public documents: a JSON Schema, or the lines of a data dictionary.  No private table is one."""

from __future__ import annotations

import csv
from pathlib import Path

from synthdp.errors import FormatError
from synthdp.schema.csv_format import CsvFormat
from synthdp.tables.refusals import instead_of
from synthdp.tables.sources.csv_detect import detected


def document_text(path: Path, source: str, encoding: str = "utf-8-sig") -> str:
    """Return the text of a document, which messages call ``source``.

    Raises
    ------
    FormatError
        If it cannot be read.
    """
    with (
        instead_of(
            OSError, say=lambda error: FormatError(f"{source} cannot be read: {getattr(error, 'strerror', None)}")
        ),
        instead_of(UnicodeError, say=FormatError(f"{source} is not {encoding.removesuffix('-sig').upper()} text")),
    ):
        return path.read_text(encoding=encoding)


def document_lines(path: Path, source: str, told: CsvFormat) -> list[list[str]]:
    """Return the fields of a data dictionary.

    Raises
    ------
    FormatError
        If it cannot be read.
    """
    found = detected(path, told)
    text = document_text(path, source, told.encoding or "utf-8-sig")
    with instead_of(csv.Error, say=FormatError(f"{source} breaks the rules of quoting")):
        records = csv.reader(text.splitlines(keepends=True), strict=True, delimiter=found.delimiter or ",")
        return [record for record in records if record]
