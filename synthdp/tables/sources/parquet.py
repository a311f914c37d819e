"""Parquet and Arrow files as sources of rows: one file, several, a glob or a folder with partitions, in bounded memory.

No type is inferred from values.  Files declare their types; partitions are texts unless the schema declares a type.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

from synthdp.domain.encoder import RawColumn
from synthdp.errors import DataError
from synthdp.schema.columns import Categorical, Column, Identifier
from synthdp.tables.columns.arrow import read_all, type_names
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.refusals import instead_of
from synthdp.tables.source import BLOCK_ROWS

FORMATS = {
    ".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc", ".arrows": "stream",
}  # fmt: skip
"""The Arrow reader's format for each file name ending."""

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
"""Arrow's name of the compression for each ending of a compressed Arrow stream, which Arrow unpacks as it reads;
compressed files of other formats are refused."""

Paths: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]


PASSED_OVER = (".csv", ".csv.gz", ".tsv", ".duckdb", ".xlsx", ".xlsm")
"""Endings of other files of tables.  A folder that has such a file is refused, since only its Parquet and Arrow files
would be read.  A convention."""


class ParquetSource:
    """A source of the rows of Parquet or Arrow files, read in blocks.

    All files must have the same columns and types.  Folders are searched to the end; parts of their names such as
    ``year=2026`` are columns of text.  Names that begin with a dot or an underscore are left out.

    Parameters
    ----------
    paths
        A file, a folder, a pattern such as ``"data/*.parquet"``, or a list of these.  Files end in ``.parquet`` or
        ``.pq``; ``.arrow``, ``.feather`` or ``.ipc`` (Arrow's file format); ``.arrows`` (its stream format, which may be
        compressed as a whole: ``.arrows.gz``, ``.zst``, ``.bz2``, ``.lz4``).

    Raises
    ------
    DataError
        If there is no such file, one cannot be read, or they differ in their columns or types.
    """

    def __init__(self, paths: Paths) -> None:
        self._files = _found(paths)
        self._schema = self._common_schema()

    def __repr__(self) -> str:
        return f"ParquetSource({len(self._files)} files, {len(self.names)} columns)"

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order; columns of partition folders come last."""
        return tuple(self._schema.names)

    @property
    def arrow_types(self) -> Mapping[str, str]:
        """Each column's Arrow type as text."""
        return type_names(self._schema.empty_table())

    @property
    def is_empty(self) -> bool:
        """Whether there is no row at all."""
        return all(next(_batches(file, [], self._schema), None) is None for file, _ in self._files)

    @property
    def files(self) -> tuple[str, ...]:
        """The files in the order in which they are read."""
        return tuple(str(file) for file, _ in self._files)

    def kind(self, name: str) -> Column:
        """Return an incomplete column declaration that a column's type suggests; see `FrameSource.kind`."""
        return FrameSource(self._schema.empty_table()).kind(name)

    def can_hold(self, label: Categorical, name: str) -> bool:
        """Return whether a column's type can hold a label for other values, the only level of ``label``.

        A schema made from types declares the label only if the answer is True; see `FrameSource.can_hold`.
        """
        return FrameSource(self._schema.empty_table()).can_hold(label, name)

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:
        """Yield all rows in blocks, each a dict of raw values (labels or numbers) by column; see `Source.blocks`.

        Raises
        ------
        DataError
            If a file is gone, cut short or changed since the source was made.
        """
        kinds: dict[str, Column] = {name: Identifier() for name in extra} | dict(columns)
        empty = True
        for file, partition in self._files:
            inside = [name for name in kinds if name not in partition]
            for batch in _batches(file, inside, self._schema):
                empty = False
                held = {name: batch.column(name) for name in inside}
                held |= {name: _constant(value, len(batch)) for name, value in partition.items()}
                yield read_all([held[name] for name in kinds], kinds)
        if empty:
            yield read_all(self._schema.empty_table().select([*kinds]).columns, kinds)

    def _common_schema(self) -> Any:
        """Return the Arrow schema of all files, partition columns included; raise DataError if the files differ."""
        first, partition = self._files[0]
        schema = _schema(first)
        for file, found in self._files[1:]:
            if set(found) != set(partition):
                raise DataError(
                    f"'{_shown(file)}' has other partition folders than '{_shown(first)}': give files with the same "
                    "partition columns"
                )
            if not _same(_schema(file), schema):
                raise DataError(
                    f"'{_shown(file)}' has other columns or types than '{_shown(first)}': give files with the same "
                    "columns and types"
                )
        if len(set(schema.names)) < len(schema.names):
            raise DataError(f"'{_shown(first)}' has several columns of the same name: rename them")
        for name in partition:
            if name in schema.names:
                raise DataError(
                    f"column {name!r} is stored in '{_shown(first)}' and is also the name of a partition folder: "
                    "remove or rename one of the two"
                )
            schema = schema.append(pa.field(name, pa.string()))
        return schema


def _found(paths: Paths) -> list[tuple[Path, dict[str, str | None]]]:
    """Return the sorted files that some paths or patterns stand for, each with its partition columns' values.

    A value is ``None`` where the folder name stands for a missing value.
    """
    files: list[tuple[Path, dict[str, str | None]]] = []
    places = [paths] if isinstance(paths, (str, PathLike)) else list(paths)
    for path in places:
        name = fspath(path)
        matches = (
            sorted(glob.glob(name, recursive=True)) if glob.has_magic(name) and not Path(name).exists() else [name]
        )
        for match in map(Path, matches):
            _check_folder(match)
            inside = [file for file in sorted(match.rglob("*")) if _is_data(file, match)] if match.is_dir() else [match]
            files += [(file, _partition(file.relative_to(match).parts[:-1])) for file in inside]
    if not files:
        where = ", ".join(f"'{_shown(Path(place))}'" for place in places)
        raise DataError(
            f"there is no file at {where or 'an empty list of paths'}: give files that end in {', '.join(FORMATS)}"
        )
    for file, _ in files:
        _format(file)
    return files


def _check_folder(folder: Path) -> None:
    """Raise DataError if a folder has a table that would be passed over, such as a CSV file, for it may be meant too."""
    for file in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if file.name.lower().endswith(PASSED_OVER) and _is_shown(file, folder):
            raise DataError(
                f"folder '{_shown(folder)}' has '{file.name}', but a folder is read as one table in Parquet or Arrow files: "
                f"give one file, or a pattern such as '{_shown(folder)}/*.parquet' (several tables are for DatabaseRelease "
                "and sd.draft)"
            )


def _is_shown(file: Path, folder: Path) -> bool:
    """Return whether neither a file in a folder nor a folder between them is hidden (begins with "." or "_").

    Programs that write folders of Parquet files give such names to files without rows.
    """
    return not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _is_data(file: Path, folder: Path) -> bool:
    """Return whether a file in a folder holds rows: it is not hidden, and has a known ending."""
    ending = file.suffix.lower()
    return _is_shown(file, folder) and file.is_file() and (ending in FORMATS or ending in COMPRESSED)


def _partition(folders: Sequence[str]) -> dict[str, str | None]:
    """Return the values of partition columns in folder names such as ``year=2024``; ``None`` for Hive's missing value."""
    pairs = [part.split("=", 1) for part in folders if "=" in part]
    return {name: None if value == "__HIVE_DEFAULT_PARTITION__" else value for name, value in pairs}


def _format(file: Path) -> str:
    """Return a file's format ("parquet", "ipc" or "stream") by its ending; raise DataError for others."""
    compressed = file.suffix.lower() in COMPRESSED
    name = Path(file.stem) if compressed else file
    found = FORMATS.get(name.suffix.lower())
    if found is None or (compressed and found != "stream"):
        raise DataError(
            f"'{_shown(file)}' must end in {', '.join(FORMATS)}, or be a compressed stream such as .arrows.gz"
        )
    return found


def _constant(value: str | None, rows: int) -> Any:
    """Return an Arrow array of one repeated text, or of nulls for ``None``: a partition column's values."""
    return pa.nulls(rows, pa.string()) if value is None else pa.repeat(pa.scalar(value), rows)


def _is_text(kind: Any) -> bool:
    """Return whether an Arrow type holds texts; such columns of Parquet files are read as dictionaries, to save memory."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _same(one: Any, other: Any) -> bool:
    """Return whether two Arrow schemas have equal names and types, so that their files can be read as one table."""
    return [(f.name, f.type) for f in one] == [(f.name, f.type) for f in other]


def _unpacked(file: Path) -> Any:
    """Open a file as a stream of bytes, unpacked as its ending says, in any case of letters."""
    return pa.input_stream(str(file), compression=COMPRESSED.get(file.suffix.lower()))


def _schema(file: Path) -> Any:
    """Return a file's Arrow schema; no row is read."""
    with _reading(file):
        if _format(file) == "stream":
            with _unpacked(file) as stream, ipc.open_stream(stream) as reader:
                return reader.schema
        if _format(file) == "parquet":
            return pq.read_schema(file)
        with pa.OSFile(str(file)) as opened, ipc.open_file(opened) as reader:
            return reader.schema


def _batches(file: Path, names: Sequence[str], expected: Any) -> Iterator[Any]:
    """Yield the record batches of one file, with the columns ``names``.

    The file's schema is compared with the ``expected`` schema again, because the file may have been replaced.
    """
    with _reading(file):
        found = _schema(file)
        if not _same(found, pa.schema([expected.field(name) for name in found.names if name in expected.names])):
            raise DataError(
                f"'{_shown(file)}' has changed its columns or types since it was opened: open the files again"
            )
        match _format(file):
            case "stream":
                with _unpacked(file) as stream, ipc.open_stream(stream) as reader:
                    for batch in reader:
                        yield from _slices(batch.select(list(names)))
            case "ipc":  # not mapped into memory: a file cut short meanwhile would end the process
                with pa.OSFile(str(file)) as opened, ipc.open_file(opened) as reader:
                    for i in range(reader.num_record_batches):
                        yield from _slices(reader.get_batch(i).select(list(names)))
            case _:  # one row group at a time: buffered ahead, the whole file would come to lie in memory
                texts = [field.name for field in found if field.name in names and _is_text(field.type)]
                with pq.ParquetFile(file, read_dictionary=texts, pre_buffer=False, memory_map=False) as parquet:
                    for batch in parquet.iter_batches(BLOCK_ROWS, columns=list(names)):
                        yield from _slices(batch)


def _slices(batch: Any) -> Iterator[Any]:
    """Yield a record batch in slices of at most `BLOCK_ROWS` rows, so that memory is bounded."""
    for start in range(0, batch.num_rows, BLOCK_ROWS):
        yield batch.slice(start, BLOCK_ROWS)


def _shown(file: Path) -> str:
    """Return a path for messages, without the values of partition folders, which may be private."""
    return str(Path(*(f"{part.split('=', 1)[0]}=…" if "=" in part else part for part in file.parts)))


def _reading(file: Path) -> AbstractContextManager[None]:
    """Return a context manager that turns errors of reading a file into one sentence that quotes no value."""

    def say(error: BaseException) -> DataError | None:
        if isinstance(error, FileNotFoundError):
            return DataError(f"there is no file '{_shown(file)}': correct the path")
        if isinstance(error, MemoryError):
            return None
        return DataError(
            f"'{_shown(file)}' cannot be read: it is cut short, damaged or of another format, so give another copy"
        )

    return instead_of(OSError, pa.ArrowException, EOFError, say=say)
