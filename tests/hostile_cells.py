"""Every kind of column that a table can be made of, to hold the values of `hostile_values`.

A `Container` makes a table whose columns, one for each kind of declaration, all hold the same cells.  Whether it can hold
a hostile value is found out by trying, so that `held` lists only what a user's table may really hold.
"""

from __future__ import annotations

import atexit
import csv
import datetime as dt
import io
import itertools
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from hostile_values import (
    VALUES,
    Raw,
    Ticks,
)

import synthdp as sd
from synthdp import Boolean, Categorical, Continuous, Datetime, Duration, Identifier, Integer, Ordinal, Schema
from synthdp.tables.sources.csv import CsvSource
from synthdp.tables.sources.duckdb import DuckDBSource
from synthdp.tables.sources.parquet import ParquetSource

COLUMNS = {
    "integer": Integer(0, 9, special=(99,)),
    "nullable integer": Integer(0, 9, nullable=True),
    "continuous": Continuous(0, 1, nullable=True),
    "decimal": sd.Decimal(0, 1, decimals=4, nullable=True),
    "ordinal": Ordinal(["a", "b"]),
    "categorical": Categorical(["a", "b", 1, 0.5], nullable=True),
    "other": Categorical(["a"], other="else"),
    "boolean": Boolean(nullable=True),
    "datetime": Datetime("2000-01-01", "2030-01-01", nullable=True),
    "duration": Duration(0, 100, nullable=True),
    "identifier": Identifier("p"),
}
SCHEMA = Schema(COLUMNS)


Cells = Sequence[Any]
Make = Callable[[list[Any]], Any]
Kinds = tuple[type, ...]
ANYTHING: Kinds = (object,)
TEXT: Kinds = (str, Raw, type(None))
TICK: Kinds = (Ticks,)
NUMBER: Kinds = (int, float, bool, Decimal, np.floating, type(None))
MOMENT: Kinds = (dt.date, dt.time, dt.timedelta, str)


@dataclass(frozen=True)
class Container:
    """One way to hold a column, the cells that belong there, and the types of those that it may be tried with."""

    name: str
    ordinary: tuple[Any, ...]
    takes: Kinds
    column: Make
    table: Callable[[Any], Any]

    def holding(self, *more: object) -> Any:
        """A table whose columns, one per kind of declaration, hold the ordinary cells and some more."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the library says when the table is made is no matter
            return self.table(self.column([*self.ordinary, *more]))

    def holds(self, value: object) -> bool:
        """Say whether the library itself lets such a column hold a value."""
        if not issubclass(type(value), self.takes):
            return False
        try:
            self.holding(value)
        except BaseException:  # noqa: BLE001 - each library has its own ways
            return False
        return True

    def held(self) -> dict[str, Any]:
        """The hostile values that a column can hold, by name."""
        return self._held.copy()

    @cached_property
    def _held(self) -> dict[str, Any]:
        with one_database():
            return {name: value for name, value in VALUES.items() if self.holds(value)}


def of_one(make: Callable[[dict[str, Any]], Any]) -> Callable[[Any], Any]:
    """What makes a table of one column, repeated under the names of all declarations."""
    return lambda column: make(dict.fromkeys(COLUMNS, column))


COUNT = itertools.count()


# pandas


def objects(cells: list[Any]) -> np.ndarray:
    """Cells as they are in an array of objects: numpy unpacks lists and arrays if it may."""
    held = np.empty(len(cells), object)
    for i, cell in enumerate(cells):
        held[i] = cell
    return held


def _series(dtype: Any, cells: list[Any]) -> pd.Series:
    return pd.Series(objects(cells), dtype=object) if dtype is object else pd.Series(cells, dtype=dtype)


def _ticked(dtype: str, cells: list[Any]) -> pd.Series:
    return pd.Series(np.array([-(2**63) if cell is None else _tick(cell) for cell in cells], np.int64).view(dtype))


def _tick(cell: object) -> int:
    if not isinstance(cell, Ticks):
        raise TypeError("a number of ticks is wanted")
    return int(cell)


def _zoned(unit: str, cells: list[Any]) -> pd.Series:
    return _ticked(f"datetime64[{unit}]", cells).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")


def _periods(freq: str, cells: list[Any]) -> pd.Series:
    ordinals = np.array([-(2**63) if cell is None else _tick(cell) for cell in cells], np.int64)
    return pd.Series(pd.arrays.PeriodArray(ordinals, dtype=pd.PeriodDtype(freq)))


def _category(kind: str, cells: list[Any]) -> pd.Series:
    column = _ticked(kind, cells) if kind.startswith(("datetime", "timedelta")) else _series(object, cells)
    levels = pd.Index(column.dropna().drop_duplicates().to_numpy(), dtype=None if kind[0] in "dt" else object)
    return pd.Series(pd.Categorical(column, categories=levels))


def _intervals(cells: list[Any]) -> pd.Series:
    return pd.Series(pd.arrays.IntervalArray.from_tuples([None if cell is None else (0, cell) for cell in cells]))


def _sparse(dtype: str, cells: list[Any]) -> pd.Series:
    return pd.Series(pd.arrays.SparseArray(np.array(cells, dtype)))


TEXT_CELLS = ("a", None, "b", "3", "0.5", "2020-01-01", "0:00:05")
NUMBER_CELLS = (1, 3, 99, 0)
TICK_CELLS = (Ticks(0), None, Ticks(10_000))
OBJECT_CELLS = (
    "a", None, 3, 0.5, True, dt.date(2020, 1, 1), dt.timedelta(seconds=5), Decimal("0.5"), (1, 2), b"a",
    pd.Timestamp("2020-01-01", tz="Asia/Tokyo"),
)  # fmt: skip


def pandas_containers() -> Iterator[Container]:
    kinds: dict[str, tuple[Cells, Kinds, Make]] = {
        "object": (OBJECT_CELLS, ANYTHING, partial(_series, object)),
        "str": (TEXT_CELLS, TEXT, partial(_series, "str")),
        "string python": (TEXT_CELLS, TEXT, partial(_series, "string[python]")),
        "string pyarrow": (TEXT_CELLS, TEXT, _arrow_texts),
        "category": (TEXT_CELLS, ANYTHING, partial(_category, "object")),
        "category of moments": (TICK_CELLS, TICK, partial(_category, "datetime64[s]")),
        "category of lengths": (TICK_CELLS, TICK, partial(_category, "timedelta64[s]")),
        "complex": ((1j, 0.5), (complex, *NUMBER), partial(_series, "complex128")),
        "bool": ((True, False), (bool,), partial(_series, "bool")),
        "boolean": ((True, None), (bool,), partial(_series, "boolean")),
        "interval": ((1, None), NUMBER, _intervals),
        "sparse float": ((1.0, np.nan, 0.5), NUMBER, partial(_sparse, "float64")),
        "sparse int": ((1, 0), (int,), partial(_sparse, "int64")),
    }
    for freq in ("D", "Y", "W", "ns"):
        kinds[f"period {freq}"] = (TICK_CELLS, TICK, partial(_periods, freq))
    for name in ("int8", "int64", "uint64", "float16", "float32", "float64", "longdouble"):
        kinds[name] = (NUMBER_CELLS, NUMBER, partial(_series, name))
    for name in ("Int64", "UInt64", "Float64"):
        kinds[name] = ((*NUMBER_CELLS, None), NUMBER, partial(_series, name))
    for unit in ("s", "ms", "us", "ns"):
        kinds[f"datetime64 {unit}"] = (TICK_CELLS, TICK, partial(_ticked, f"datetime64[{unit}]"))
        kinds[f"timedelta64 {unit}"] = (TICK_CELLS, TICK, partial(_ticked, f"timedelta64[{unit}]"))
    for unit in ("s", "ns"):
        kinds[f"zoned {unit}"] = (TICK_CELLS, TICK, partial(_zoned, unit))
    for name, (cells, takes, make) in kinds.items():
        yield Container(f"pandas {name}", tuple(cells), takes, make, of_one(pd.DataFrame))
    for name, cells, takes, make in arrow_arrays():
        yield Container(f"pandas pyarrow {name}", cells, takes, partial(_arrow_series, make), of_one(pd.DataFrame))


def _arrow_texts(cells: list[Any]) -> pd.Series:
    return pd.Series(pd.arrays.ArrowStringArray(_strings(pa.large_string(), cells)))


def _arrow_series(make: Make, cells: list[Any]) -> pd.Series:
    return pd.Series(pd.arrays.ArrowExtensionArray(make(cells)))


# pyarrow


def _strings(kind: pa.DataType, cells: list[Any]) -> pa.Array:
    """Texts by their bytes, so that they need not be UTF-8."""
    coded = [cell.encode() if isinstance(cell, str) else cell for cell in cells]
    small = pa.array([None if cell is None else bytes(cell) for cell in coded], pa.large_binary())
    held = pa.Array.from_buffers(pa.large_string(), len(small), small.buffers())
    return held if kind == pa.large_string() else _raw_strings(cells).cast(kind)


def _raw_strings(cells: list[Any]) -> pa.Array:
    held = _strings(pa.large_string(), cells).cast(pa.large_binary()).cast(pa.binary())
    return pa.Array.from_buffers(pa.string(), len(held), held.buffers())


def _array(kind: pa.DataType, cells: list[Any]) -> pa.Array:
    return pa.array(cells, kind, from_pandas=False)


def _tick_array(kind: pa.DataType, cells: list[Any]) -> pa.Array:
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array([None if cell is None else _tick(cell) for cell in cells], width).view(kind)


def _coded(make: Make, cells: list[Any]) -> pa.Array:
    return make(cells).dictionary_encode()


def _listed(make: Make, cells: list[Any]) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(len(cells) + 1), pa.int32()), make(cells))


def _structured(make: Make, cells: list[Any]) -> pa.Array:
    return pa.StructArray.from_arrays([make(cells)], names=["a"])


def _mapped(cells: list[Any]) -> pa.Array:
    offsets = pa.array(range(len(cells) + 1), pa.int32())
    return pa.MapArray.from_arrays(offsets, pa.array(range(len(cells))), _raw_strings(cells))


def _uuids(cells: list[Any]) -> pa.Array:
    plain = pa.array([None if cell is None else cell.bytes for cell in cells], pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), plain)


def _run_ends(cells: list[Any]) -> pa.Array:
    return pc.run_end_encode(pa.array(cells, pa.int64()))


def arrow_arrays() -> Iterator[tuple[str, tuple[Any, ...], Kinds, Make]]:
    yield "string", TEXT_CELLS, TEXT, _raw_strings
    yield "large string", TEXT_CELLS, TEXT, partial(_strings, pa.large_string())
    yield "string view", TEXT_CELLS, TEXT, partial(_strings, pa.string_view())
    yield "dictionary", TEXT_CELLS, TEXT, partial(_coded, _raw_strings)
    yield "binary", (b"a", None), (bytes,), partial(_array, pa.binary())
    yield "bool", (True, None), (bool,), partial(_array, pa.bool_())
    for kind in (pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()):
        yield str(kind), (*NUMBER_CELLS, None), NUMBER, partial(_array, kind)
    for kind in (pa.decimal128(38, 2), pa.decimal256(76, 0), pa.decimal128(38, -5)):
        yield str(kind), (Decimal(100_000), None), (Decimal, int), partial(_array, kind)
    ticked = [pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.time64("ns")]
    for unit in ("s", "ms", "us", "ns"):
        ticked += [pa.timestamp(unit), pa.duration(unit)]
    for kind in [*ticked, pa.timestamp("s", "Asia/Tokyo"), pa.timestamp("ns", "UTC")]:
        yield str(kind), TICK_CELLS, TICK, partial(_tick_array, kind)
    for kind in (
        pa.timestamp("s"),
        pa.timestamp("ns"),
        pa.date32(),
        pa.duration("ns"),
        pa.timestamp("s", "Asia/Tokyo"),
    ):
        yield f"dictionary of {kind}", TICK_CELLS, TICK, partial(_coded, partial(_tick_array, kind))
        yield f"list of {kind}", TICK_CELLS, TICK, partial(_listed, partial(_tick_array, kind))
    yield "dictionary of double", (1, None), NUMBER, partial(_coded, partial(_array, pa.float64()))
    yield "interval", ((1, 2, 3), None), (tuple,), partial(_array, pa.month_day_nano_interval())
    yield "list", ("a", None), TEXT, partial(_listed, _raw_strings)
    yield "struct", ("a", None), TEXT, partial(_structured, _raw_strings)
    yield "map", ("a", None), TEXT, _mapped
    yield "null", (None, None), (type(None),), partial(_array, pa.null())
    yield "uuid", (uuid.UUID(int=1), None), (uuid.UUID,), _uuids
    yield "run ends", (1, 1, None), (int,), _run_ends


def arrow_containers() -> Iterator[Container]:
    for name, cells, takes, make in arrow_arrays():
        yield Container(f"pyarrow {name}", cells, takes, make, of_one(pa.table))


# polars


def _polars(kind: Any, cells: list[Any]) -> pl.Series:
    return pl.Series(cells, dtype=kind)


def _polars_numbers(arrow: pa.DataType, kind: Any, cells: list[Any]) -> pl.Series:
    return pl.Series(pl.from_arrow(pa.array(cells, arrow, from_pandas=False))).cast(kind)


def _polars_texts(cells: list[Any]) -> pl.Series:
    """Polars takes Arrow's texts as they are, whether they are UTF-8 or not."""
    return pl.Series(pl.from_arrow(_strings(pa.large_string(), cells)))


def _polars_enum(cells: list[Any]) -> pl.Series:
    return pl.Series(cells, dtype=pl.Enum(list(dict.fromkeys(cell for cell in cells if cell is not None))))


def _polars_ticks(kind: Any, cells: list[Any]) -> pl.Series:
    width = pl.Int32 if kind == pl.Date else pl.Int64
    return pl.Series([None if cell is None else _tick(cell) for cell in cells], dtype=width).cast(kind)


def _polars_lists(make: Make, cells: list[Any]) -> pl.Series:
    return make(cells).reshape((len(cells), 1)).arr.to_list()


def _polars_struct(cells: list[Any]) -> pl.Series:
    return pl.Series([{"a": cell} for cell in cells], dtype=pl.Struct({"a": pl.String}))


def polars_containers() -> Iterator[Container]:
    kinds: dict[str, tuple[Cells, Kinds, Make]] = {
        "String": (TEXT_CELLS, TEXT, _polars_texts),
        "Binary": ((b"a", None), (bytes,), partial(_polars, pl.Binary)),
        "Categorical": (TEXT_CELLS, (str,), partial(_polars, pl.Categorical)),
        "Enum": (TEXT_CELLS, (str,), _polars_enum),
        "Boolean": ((True, None), (bool,), partial(_polars, pl.Boolean)),
        "Object": (OBJECT_CELLS, ANYTHING, partial(_polars, pl.Object)),
        "Null": ((None, None), (type(None),), partial(_polars, pl.Null)),
        "List": (("a", None), TEXT, partial(_polars_lists, _polars_texts)),
        "Struct": (("a", None), (str,), _polars_struct),
    }
    wide = pa.decimal128(38, 0)
    numbers = {
        pl.Int8: pa.int8(), pl.Int64: pa.int64(), pl.UInt64: pa.uint64(), pl.Int128: wide, pl.Decimal(38, 0): wide,
        pl.Float32: pa.float32(), pl.Float64: pa.float64(),
    }  # fmt: skip
    for kind, arrow in numbers.items():
        kinds[str(kind)] = ((*NUMBER_CELLS, None), (int, float), partial(_polars_numbers, arrow, kind))
    moments = (pl.Date, pl.Time, *(pl.Datetime(unit) for unit in ("ms", "us", "ns")), pl.Datetime("us", "Asia/Tokyo"))
    for kind in (*moments, pl.Duration("ms"), pl.Duration("ns")):
        kinds[str(kind)] = (TICK_CELLS, TICK, partial(_polars_ticks, kind))
        kinds[f"List({kind})"] = (TICK_CELLS, TICK, partial(_polars_lists, partial(_polars_ticks, kind)))
    for name, (cells, takes, make) in kinds.items():
        yield Container(f"polars {name}", tuple(cells), takes, make, of_one(pl.DataFrame))
    for name in ("String", "Object", "Int128", str(pl.Datetime("ms"))):
        cells, takes, make = kinds[name]
        yield Container(f"polars lazy {name}", tuple(cells), takes, make, of_one(pl.LazyFrame))


# DuckDB


DATABASES: ContextVar[list[Any] | None] = ContextVar("DATABASES", default=None)


@contextmanager
def one_database() -> Iterator[None]:
    """Within it all relations are of one database: to open one takes longer than all that is asked of it."""
    token = DATABASES.set([])
    try:
        yield
    finally:
        for database in DATABASES.get() or []:
            database.close()
        DATABASES.reset(token)


def _connection() -> Any:
    """A connection of its own: one that outlives the tests would be called a leak of DuckDB's."""
    opened = DATABASES.get()
    if opened is None:
        return duckdb.connect()
    if not opened:
        opened.append(duckdb.connect())
    return opened[0].cursor()


def _duckdb(kind: str, cells: list[Any]) -> Any:
    connection, table = _connection(), f"t{next(COUNT)}"
    connection.execute(f"CREATE TABLE {table} (x {kind})")
    connection.execute(f"INSERT INTO {table} VALUES {', '.join('(?)' for _ in cells)}", cells)
    columns = ", ".join('x AS "' + column + '"' for column in COLUMNS)
    return connection.sql(f"SELECT {columns} FROM {table}")


def _pushed_down(kind: str, cells: list[Any]) -> DuckDBSource:
    return DuckDBSource(_duckdb(kind, cells), push_down=True)


def _plain(cells: list[Any]) -> list[Any]:
    return cells


NOON = dt.datetime(2020, 1, 1, 12)  # noqa: DTZ001
IN_DUCKDB: dict[str, tuple[Cells, Kinds]] = {
    "VARCHAR": (TEXT_CELLS, TEXT), "BLOB": ((b"a", None), (bytes,)), "BOOLEAN": ((True, None), (bool,)),
    "BIGINT": ((*NUMBER_CELLS, None), NUMBER), "UBIGINT": ((*NUMBER_CELLS, None), NUMBER),
    "HUGEINT": ((*NUMBER_CELLS, None), (*NUMBER, str)), "UHUGEINT": ((*NUMBER_CELLS, None), (*NUMBER, str)),
    "FLOAT": ((0.5, None), NUMBER), "DOUBLE": ((0.5, None), NUMBER), "DECIMAL(38,2)": ((Decimal("1.50"), None), NUMBER),
    "DATE": ((NOON.date(), None), MOMENT), "TIMESTAMP": ((NOON, None), MOMENT), "TIMESTAMP_S": ((NOON, None), MOMENT),
    "TIMESTAMP_NS": ((NOON, None), MOMENT), "TIMESTAMPTZ": ((NOON, None), MOMENT), "TIME": ((dt.time(1), None), MOMENT),
    "TIMETZ": (("01:00:00+00", None), MOMENT), "INTERVAL": ((dt.timedelta(seconds=5), None), MOMENT),
    "UUID": ((uuid.UUID(int=1), None), (uuid.UUID,)), "BIT": (("101", None), TEXT),
    "BIGNUM": (("1", None), (str, int)), "JSON": (("1", None), TEXT),
}  # fmt: skip


def duckdb_containers() -> Iterator[Container]:
    for kind, (cells, takes) in IN_DUCKDB.items():
        yield Container(f"duckdb {kind}", tuple(cells), takes, _plain, partial(_duckdb, kind))
    for kind in ("VARCHAR", "BOOLEAN", "TINYINT", "BIGINT", "UINTEGER", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP"):
        cells, takes = IN_DUCKDB.get(kind, ((*NUMBER_CELLS, None), NUMBER))
        yield Container(f"duckdb itself {kind}", tuple(cells), takes, _plain, partial(_pushed_down, kind))
    yield Container(
        "duckdb list", ("a",), (str,), lambda cells: [[cell] for cell in cells], partial(_duckdb, "VARCHAR[]")
    )
    yield Container(
        "duckdb struct",
        ("a",),
        (str,),
        lambda cells: [{"a": cell} for cell in cells],
        partial(_duckdb, "STRUCT(a VARCHAR)"),
    )


# Files

FOLDER = Path(tempfile.mkdtemp(prefix="synthdp-hostile-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def _csv(columns: dict[str, list[Any]]) -> CsvSource:
    """A file written by a writer that keeps the rules, whose fields may be any bytes."""
    path = FOLDER / f"{next(COUNT)}.csv"
    lines = [",".join(columns).encode()]
    lines += [b",".join(map(_field, row)) for row in zip(*columns.values(), strict=True)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return CsvSource(path)


def _field(cell: Any) -> bytes:
    if cell is None:
        return b""
    if isinstance(cell, bytes):
        return bytes(cell)
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="").writerow([str.__str__(cell)])
    return text.getvalue().encode(errors="surrogatepass")


def _parquet(columns: dict[str, Any]) -> ParquetSource:
    path = FOLDER / f"{next(COUNT)}.parquet"
    pq.write_table(pa.table(columns), path)
    return ParquetSource(path)


def _arrow_file(columns: dict[str, Any]) -> ParquetSource:
    path = FOLDER / f"{next(COUNT)}.arrow"
    table = pa.table(columns)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return ParquetSource(path)


NOT_IN_PARQUET = {"decimal128(38, -5)", "interval", "run ends"}
IN_ARROW_FILES = {
    "string",
    "string view",
    "dictionary",
    "run ends",
    "dictionary of timestamp[s]",
    "list of timestamp[s]",
}


def file_containers() -> Iterator[Container]:
    yield Container("csv", TEXT_CELLS, TEXT, _plain, of_one(_csv))
    for name, cells, takes, make in arrow_arrays():
        if name not in NOT_IN_PARQUET:
            yield Container(f"parquet {name}", cells, takes, make, of_one(_parquet))
        if name in IN_ARROW_FILES:
            yield Container(f"arrow file {name}", cells, takes, make, of_one(_arrow_file))


CONTAINERS = {
    container.name: container
    for container in [
        *pandas_containers(), *arrow_containers(), *polars_containers(), *duckdb_containers(), *file_containers(),
    ]
}  # fmt: skip
