"""The source of rows that a file's name asks for, and the text of files that hold no rows: public documents."""

from __future__ import annotations

import csv
from os import PathLike
from pathlib import Path

from synthdp.errors import FormatError, ParameterError
from synthdp.registered import SOURCES, ending_of, extension
from synthdp.schema.csv_format import CsvFormat
from synthdp.tables.refusals import instead_of
from synthdp.tables.source import Source
from synthdp.tables.sources.csv import CsvSource
from synthdp.tables.sources.csv_fields import detected
from synthdp.tables.sources.excel import ENDINGS as EXCEL_ENDINGS, ExcelSource

ARROW_ENDINGS = (
    ".parquet", ".pq", ".arrow", ".feather", ".ipc", ".arrows", ".arrows.gz", ".arrows.zst", ".arrows.bz2", ".arrows.lz4",
)  # fmt: skip
"""File name endings of Parquet and Arrow files."""

UNKNOWN = CsvFormat()
"""A CSV format without any setting: delimiter and encoding are then guessed from the header."""


def is_csv(path: str | PathLike[str]) -> bool:
    """Return whether a path is read as CSV: it is no folder, and its ending belongs to no other format."""
    others = Path(path).name.lower().endswith((".duckdb", *ARROW_ENDINGS))
    return not (others or is_excel(path) or Path(path).is_dir() or _is_extension(path))


def is_excel(path: str | PathLike[str]) -> bool:
    """Return whether a path ends as an Excel file does."""
    return Path(path).name.lower().endswith(EXCEL_ENDINGS)


def source_at(path: str | PathLike[str], *, csv: CsvFormat = UNKNOWN, sheet: str | None = None) -> Source:
    """Return a source of the rows of a file or folder: Parquet, Arrow, DuckDB (one table), Excel or CSV.

    The path's ending decides; a file with an unknown ending is read as CSV.  Installed packages may register further
    endings, see `synthdp.registered`.

    Parameters
    ----------
    path
        The file.
    csv
        Known settings of a file of texts; other settings are detected from its first line.
    sheet
        The name of an Excel file's sheet; ``None`` for its first one.

    Raises
    ------
    FormatError, DataError
        If the file cannot be read.
    ParameterError
        If a needed package is not installed, or the file has no such sheet or no sheets at all.
    """
    if sheet is not None and not is_excel(path):
        raise ParameterError(f"'{path}' is not an Excel file, which alone has sheets: leave sheet out")
    if _is_extension(path):
        kind = extension(SOURCES, str(ending_of(Path(path).name)))
        source: Source = kind(path)
        return source
    if is_excel(path):
        return ExcelSource(path, sheet=sheet).with_missing(csv.missing)
    if Path(path).name.lower().endswith(".duckdb"):
        with instead_of(
            ImportError, say=ParameterError("a database needs duckdb: pip install 'synthdp[duckdb,arrow]'")
        ):
            from synthdp.tables.sources.duckdb import DuckDBSource
        return DuckDBSource(path)
    if not is_csv(path):
        with instead_of(ImportError, say=ParameterError("parquet needs pyarrow: pip install 'synthdp[arrow]'")):
            from synthdp.tables.sources.parquet import ParquetSource
        return ParquetSource(path)
    found = detected(path, csv)
    return CsvSource(path, delimiter=found.delimiter or ",", encoding=found.encoding).with_missing(csv.missing)


def _is_extension(path: str | PathLike[str]) -> bool:
    """Return whether another package registers a reader for a path's ending, which synthdp itself does not know."""
    name = Path(path).name
    known = (".csv", ".csv.gz", ".tsv", ".txt", ".duckdb", *ARROW_ENDINGS, *EXCEL_ENDINGS)
    return not name.lower().endswith(known) and ending_of(name) is not None


def document_text(path: Path, source: str, encoding: str = "utf-8-sig") -> str:
    """Return the text of a public document, such as a data dictionary; messages call it ``source``.

    Raises
    ------
    FormatError
        If the document cannot be read.
    """
    with (
        instead_of(
            OSError,
            say=lambda error: FormatError(
                f"{source} cannot be read ({getattr(error, 'strerror', None)}): give the path of a readable file"
            ),
        ),
        instead_of(
            UnicodeError,
            say=FormatError(f"{source} is not {encoding.removesuffix('-sig').upper()} text: save it in this encoding"),
        ),
    ):
        return path.read_text(encoding=encoding)


def document_lines(path: Path, source: str, told: CsvFormat) -> list[list[str]]:
    """Return the lines of a data dictionary in a CSV file, each a list of its fields' texts.

    The format is ``told``; a delimiter that it does not set is guessed from the header.

    Raises
    ------
    FormatError
        If the document cannot be read.
    """
    found = detected(path, told)
    text = document_text(path, source, told.encoding or "utf-8-sig")
    with instead_of(
        csv.Error, say=FormatError(f"in {source} a quote is not closed, or stands in the middle of a field")
    ):
        records = csv.reader(text.splitlines(keepends=True), strict=True, delimiter=found.delimiter or ",")
        return [record for record in records if record]
