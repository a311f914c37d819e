"""The source of rows that a file's name asks for."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from synthdp.errors import ParameterError
from synthdp.tables.refusals import instead_of
from synthdp.tables.source import Source
from synthdp.tables.sources.csv import CsvSource

ARROW_ENDINGS = (".parquet", ".pq", ".arrow", ".feather", ".ipc", ".arrows", ".arrows.gz", ".arrows.zst", ".arrows.bz2")


def source_at(path: str | PathLike[str]) -> Source:
    """Return the rows of a folder, pattern or file of Parquet or Arrow, or of a DuckDB database of one table, or of CSV.

    The path's ending says which; any other is CSV.

    Raises
    ------
    FormatError, DataError
        If it cannot be read.
    ParameterError
        If it needs pyarrow or duckdb, which is not installed.
    """
    if Path(path).name.endswith(".duckdb"):
        with instead_of(
            ImportError, say=ParameterError("a database needs duckdb: pip install 'synthdp[duckdb,arrow]'")
        ):
            from synthdp.tables.sources.duckdb import DuckDBSource
        return DuckDBSource(path)
    if not (Path(path).is_dir() or Path(path).name.endswith(ARROW_ENDINGS)):
        return CsvSource(path)
    with instead_of(ImportError, say=ParameterError("parquet needs pyarrow: pip install 'synthdp[arrow]'")):
        from synthdp.tables.sources.parquet import ParquetSource
    return ParquetSource(path)
