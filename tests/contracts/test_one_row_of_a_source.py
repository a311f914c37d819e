"""R35: a source changes by one row where its table does, whatever the row is and wherever it stands."""

from __future__ import annotations

import csv
import gzip
import io
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from one_row_more import EACH, FEWER, NAMES, Rows, assert_one_row, some_pairs

import synthdp as sd
from synthdp.tables.sources.dataframe import FrameSource

TYPES = {"who": pa.string(), "n": pa.int64(), "t": pa.string(), "x": pa.float64()}
SQL_TYPES = "who text, n bigint, t text, x double precision"


def arrow(rows: Rows) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table({name: pa.array(cells, TYPES[name]) for name, cells in zip(NAMES, columns, strict=True)})


def objects(rows: Rows) -> pd.DataFrame:
    frame = pd.DataFrame({name: pd.Series([None] * len(rows), dtype=object) for name in NAMES})
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            frame.iat[i, j] = cell
    return frame


def typed(rows: Rows) -> pd.DataFrame:
    kinds = {"who": "string", "n": "Int64", "t": "category", "x": "float64"}
    return arrow(rows).to_pandas(integer_object_nulls=True).astype(kinds)


def csv_text(rows: Rows, *, delimiter: str = ",", quoting: int = csv.QUOTE_MINIMAL) -> str:
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, quoting=quoting)  # type: ignore[arg-type]
    writer.writerow(NAMES)
    writer.writerows(rows)
    return file.getvalue()


def csv_file(rows: Rows, folder: Path, *, encoding: str = "utf-8", **how: Any) -> sd.CsvSource:
    path = folder / f"{uuid4().hex}.csv"
    path.write_bytes(csv_text(rows, **how).encode(encoding, errors="replace"))
    return sd.CsvSource(path, encoding=encoding, delimiter=how.get("delimiter", ","))


def packed_csv_file(rows: Rows, folder: Path) -> sd.CsvSource:
    path = folder / f"{uuid4().hex}.csv.gz"
    path.write_bytes(gzip.compress(csv_text(rows).encode(), mtime=0))
    return sd.CsvSource(path)


def excel_file(rows: Rows, folder: Path) -> sd.ExcelSource:
    path = folder / f"{uuid4().hex}.xlsx"
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    for row in (NAMES, *rows):
        sheet.append([str(cell) if isinstance(cell, int) and abs(cell) > 2**53 else cell for cell in row])
    book.save(path)
    return sd.ExcelSource(path)


def parquet_files(rows: Rows, folder: Path, *, files: int = 1) -> sd.ParquetSource:
    folder = folder / uuid4().hex
    folder.mkdir()
    for i in range(files):
        mine = arrow(rows).take(pa.array(range(i, len(rows), files), pa.int64()))
        pq.write_table(mine, folder / f"{i}.parquet", row_group_size=2, use_dictionary=files > 1)
    return sd.ParquetSource(folder)


def feather_file(rows: Rows, folder: Path) -> sd.ParquetSource:
    pyarrow.feather.write_feather(arrow(rows), path := folder / f"{uuid4().hex}.feather", chunksize=2)
    return sd.ParquetSource(path)


def duckdb_relation(rows: Rows, _: Path, *, push_down: bool) -> sd.DuckDBSource:
    return sd.DuckDBSource(duckdb.connect().from_arrow(arrow(rows)), push_down=push_down)


def duckdb_file(rows: Rows, folder: Path) -> sd.DuckDBSource:
    path, table = folder / f"{uuid4().hex}.duckdb", arrow(rows)
    with duckdb.connect(str(path)) as connection:
        connection.from_arrow(table).create("t")
    return sd.DuckDBSource(path)


def sql_in_duckdb(rows: Rows, _: Path, *, push: str) -> sd.SqlSource:
    connection = duckdb.connect()
    connection.from_arrow(arrow(rows)).create("t")
    return sd.SqlSource(connection, table="t", push=push)


def sqlite_file(rows: Rows, folder: Path, *, types: str) -> sd.SqlSource:
    path = folder / f"{uuid4().hex}.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE t ({types})")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [[*map(stored, row)] for row in rows])
    return sd.SqlSource(f"sqlite:///{path}", table="t")


def stored(cell: Any) -> Any:
    """A cell as SQLite keeps it, which has no days and no whole numbers beyond 64 bits."""
    return str(cell) if not isinstance(cell, int | float | str | None) or cell == 10**30 else cell


Way = Callable[[Rows, Path], Any]
TYPED: dict[str, Way] = {
    "pandas": lambda rows, _: FrameSource(typed(rows)),
    "polars": lambda rows, _: FrameSource(pl.from_arrow(arrow(rows))),
    "polars lazy": lambda rows, _: FrameSource(pl.from_arrow(arrow(rows)).lazy()),  # type: ignore[union-attr]
    "pyarrow": lambda rows, _: FrameSource(arrow(rows)),
    "Parquet": parquet_files,
    "two Parquet files": partial(parquet_files, files=2),
    "Arrow file": feather_file,
    "DuckDB file": duckdb_file,
    "DuckDB": partial(duckdb_relation, push_down=False),
    "DuckDB, which counts": partial(duckdb_relation, push_down=True),
    "SQL rows in DuckDB": partial(sql_in_duckdb, push="rows"),
    "SQL codes in DuckDB": partial(sql_in_duckdb, push="codes"),
    "SQL counts in DuckDB": partial(sql_in_duckdb, push="counts"),
    "SQLite": partial(sqlite_file, types="who text, n integer, t text, x real"),
}
UNTYPED: dict[str, Way] = {
    "pandas, objects": lambda rows, _: FrameSource(objects(rows)),
    "CSV": csv_file,
    "CSV with semicolons": partial(csv_file, delimiter=";"),
    "CSV, all quoted": partial(csv_file, quoting=csv.QUOTE_ALL),
    "CSV in UTF-16": partial(csv_file, encoding="utf-16"),
    "CSV in cp1252": partial(csv_file, encoding="cp1252"),
    "CSV, packed": packed_csv_file,
    "Excel": excel_file,
    "SQLite without types": partial(sqlite_file, types="who, n, t, x"),
}


def how_many(names: Iterable[str]) -> list[Any]:
    """Each source with some pairs, and in the slow suite with all."""
    return [
        pytest.param(name, each, marks=[pytest.mark.slow] * (each == 1), id=f"{name}{', all pairs' * (each == 1)}")
        for name in names
        for each in (FEWER if "DuckDB" in name else EACH, 1)
    ]


@pytest.mark.parametrize(("name", "each"), how_many(TYPED))
def test_one_row_of_a_table_with_types_is_one_row_read(name: str, each: int, tmp_path: Path) -> None:
    cases = some_pairs(typed=True, each=each)
    assert_one_row(lambda rows: TYPED[name](rows, tmp_path), cases, keys="counts" not in name.split())


@pytest.mark.parametrize(("name", "each"), how_many(UNTYPED))
def test_one_row_of_a_table_without_types_is_one_row_read(name: str, each: int, tmp_path: Path) -> None:
    assert_one_row(lambda rows: UNTYPED[name](rows, tmp_path), some_pairs(typed=False, each=each))
