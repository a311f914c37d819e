"""Tables written to a file block by block, so that they may be larger than memory; whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from synthdp.errors import FormatError, ParameterError
from synthdp.files import replacing, replacing_folder, writing
from synthdp.tables.refusals import instead_of
from synthdp.tables.sources.csv import write_csv_blocks

ENDINGS = (".parquet", ".arrow", ".csv", ".csv.gz")
"""File name endings that tables can be written to."""

COLUMNAR = (".parquet", ".arrow")
"""File name endings that need pyarrow."""


def library_for(path: str | PathLike[str]) -> str:
    """Return the library whose frames `write_blocks` takes for a file: pandas for .csv and .csv.gz, else pyarrow.

    Raises
    ------
    ParameterError
        If the file's ending is unknown.
    """
    name = Path(path).name
    if not name.endswith(ENDINGS):
        raise ParameterError(f"'{path}' must end in {', '.join(ENDINGS)}")
    return "pandas" if name.endswith((".csv", ".csv.gz")) else "pyarrow"


def write_blocks(path: str | PathLike[str], blocks: Iterable[Any], *, escape_formulas: bool = False) -> None:
    """Write dataframes with equal columns one after the other into one file, so that it may exceed memory.

    Parameters
    ----------
    path
        The file; its ending says the format.  Until all is written it has another name, which is removed on failure.
    blocks
        One frame or more, of the same columns and types, of the library that `library_for` names for the path.
    escape_formulas
        In CSV files, defuse texts that a spreadsheet would run; see `synthdp.tables.sources.csv.write_csv`.

    Raises
    ------
    ParameterError
        If the file's ending is unknown, or its library is not installed.
    FormatError
        If the file cannot be written.
    """
    if library_for(path) == "pandas":
        write_csv_blocks(blocks, path, escape_formulas=escape_formulas)
    else:
        _write_arrow(Path(path), blocks)


@contextmanager
def writing_tables(folder: Path, files: Mapping[str, str]) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Lend a function that appends pyarrow tables, by name, to the files of a new folder.

    The folder appears, with all files, when the ``with`` body has ended without an error.

    Parameters
    ----------
    folder
        New or empty.
    files
        Names of the files by name of the table; their endings say the format.

    Raises
    ------
    ParameterError
        If pyarrow is not installed.
    FormatError
        If a file cannot be written.
    """
    writers: dict[str, Any] = {}
    with writing(folder, refusal=FormatError), replacing_folder(folder) as scratch:

        def write(blocks: Mapping[str, Any]) -> None:
            for name, block in blocks.items():
                if name not in writers:
                    path = scratch / files[name]
                    writers[name] = _opener(path)(str(path), block.schema)
                writers[name].write_table(block)

        try:
            yield write
        finally:
            for writer in writers.values():
                writer.close()


def _opener(path: Path) -> Callable[..., Any]:
    """Return Arrow's writer class for a file's ending; raise ParameterError if pyarrow is not installed."""
    with instead_of(ImportError, say=ParameterError(f"'{path.name}' needs pyarrow: pip install 'synthdp[arrow]'")):
        import pyarrow as pa
        import pyarrow.parquet as pq
    return pq.ParquetWriter if path.suffix == ".parquet" else pa.ipc.new_file  # type: ignore[no-any-return]


def _write_arrow(path: Path, blocks: Iterable[Any]) -> None:
    """Write Arrow tables to a file, whole or not at all."""
    opened = _opener(path)
    with writing(path, refusal=FormatError), replacing(path) as beside:
        writer = None
        try:
            for block in blocks:
                writer = writer or opened(str(beside), block.schema)
                writer.write_table(block)
        finally:
            if writer is not None:
                writer.close()
