"""R35: a source changes by one row where its table does, whatever the row is and wherever it stands."""

from __future__ import annotations

import csv
import gzip
import io
import sqlite3
from collections import Counter
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
import psycopg
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from one_row_more import ALL, EACH, FEWER, FEWEST, NAMES, Rows, assert_one_row, some_pairs
from postgres_server import Server
from small_databases import SCHEMAS, codes_of

import synthdp as sd
from synthdp.domain.histories import Layout
from synthdp.tables.dataframe import FrameSource

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
    """Each source with some pairs, and in the slow suite with more."""
    return [
        pytest.param(name, each, marks=[pytest.mark.slow] * more, id=f"{name}{', more pairs' * more}")
        for name in names
        for more, each in enumerate((FEWEST, FEWER) if "DuckDB" in name else (EACH, ALL))
    ]


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(("name", "each"), how_many(TYPED))
def test_one_row_of_a_table_with_types_is_one_row_read(name: str, each: int, tmp_path: Path) -> None:
    cases = some_pairs(typed=True, each=each)
    assert_one_row(lambda rows: TYPED[name](rows, tmp_path), cases, keys="counts" not in name.split())


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(("name", "each"), how_many(UNTYPED))
def test_one_row_of_a_table_without_types_is_one_row_read(name: str, each: int, tmp_path: Path) -> None:
    assert_one_row(lambda rows: UNTYPED[name](rows, tmp_path), some_pairs(typed=False, each=each))


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("push", ["rows", "codes", "counts"])
@pytest.mark.parametrize("each", [FEWEST, pytest.param(FEWER, marks=pytest.mark.slow)])
def test_one_row_of_a_postgresql_table_is_one_row_read(push: str, each: int, postgres: Server) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection, connection.cursor() as cursor:

        def made(rows: Rows) -> sd.SqlSource:
            name = f"one_{uuid4().hex}"
            cursor.execute(f"CREATE TABLE {name} ({SQL_TYPES})")
            cursor.executemany(f"INSERT INTO {name} VALUES (%s, %s, %s, %s)", rows)
            return sd.SqlSource(postgres.url(), table=name, push=push)

        assert_one_row(made, some_pairs(typed=True, each=each), keys=push != "counts")


ROWS_OF: dict[str, list[tuple[Any, ...]]] = {
    "persons": [("n1", True), ("n2", False), ("n3", None), ("n1", False), (None, True), (None, None)],
    "rows": [
        ("n1", "r1", 0, "a"), ("n1", "r2", 1, "b"), ("n2", "r3", 2, "a"), ("n4", "r4", 0, None), (None, None, None, None),
        ("n1", "r2", 1, "b"), ("n3", None, 9, "zz"), (None, "r5", 1, "a"),
    ],
    "leaves": [("n1", "r1", True), ("n1", "r1", False), ("n1", "r9", True), (None, None, None), ("n2", "r3", None)],
}  # fmt: skip
NEW: dict[str, list[tuple[Any, ...]]] = {
    "persons": [("n1", True), ("n5", None), (None, None), (" ", False), ("", True)],
    "rows": [("n1", "r7", 2, "b"), ("n5", "r1", 0, "é"), (None, None, None, None), ("n1", "r1", None, "a,b")],
    "leaves": [("n1", "r2", True), (None, None, None), ("n5", "r1", False)],
}
TABLE_COLUMNS = {"persons": ("id", "p"), "rows": ("id", "row", "t", "v"), "leaves": ("id", "row", "w")}
COLUMN_TYPES = {"p": "boolean", "w": "boolean", "t": "Int64", "v": "string", "id": "string", "row": "string"}


def _frame_of(name: str, rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    names = TABLE_COLUMNS[name]
    return pd.DataFrame(rows, columns=[*names]).astype({one: COLUMN_TYPES[one] for one in names})


def _arrow_of(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def _csv_of(frame: pd.DataFrame, folder: Path) -> sd.CsvSource:
    frame.to_csv(path := folder / f"{uuid4().hex}.csv", index=False)
    return sd.CsvSource(path)


def _parquet_of(frame: pd.DataFrame, folder: Path) -> sd.ParquetSource:
    frame.to_parquet(path := folder / f"{uuid4().hex}.parquet", index=False)
    return sd.ParquetSource(path)


def _excel_of(frame: pd.DataFrame, folder: Path) -> sd.ExcelSource:
    frame.to_excel(path := folder / f"{uuid4().hex}.xlsx", index=False)
    return sd.ExcelSource(path)


FORMS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "dataframes": lambda frame, _: frame,
    "CSV": _csv_of,
    "Excel": _excel_of,
    "Parquet": _parquet_of,
    "DuckDB": lambda frame, _: duckdb.connect().from_arrow(_arrow_of(frame)),
}


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=[pytest.mark.slow] * (form != "dataframes")) for form in FORMS]
)
@pytest.mark.parametrize("table", ROWS_OF)
def test_one_row_of_several_tables_changes_one_person(form: str, table: str, tmp_path: Path) -> None:
    """The record of one person: of the one whom the row belongs to, or, without a key, of a person of its own."""
    schema = SCHEMAS["child of a child"]
    made = {name: FORMS[form](_frame_of(name, rows), tmp_path) for name, rows in ROWS_OF.items()}

    def persons(rows: list[tuple[Any, ...]]) -> Counter[tuple[int, ...]]:
        tables = made | {table: FORMS[form](_frame_of(table, rows), tmp_path)}
        return Counter(map(tuple, codes_of(tables, Layout(schema)).tolist()))

    rows = ROWS_OF[table]
    before = persons(rows)
    for row in NEW[table]:
        for place in (0, len(rows)):
            after = persons([*rows[:place], row, *rows[place:]])
            assert (before - after).total() <= 1, row
            assert (after - before).total() <= 1, row
    for place, row in enumerate(rows):
        after = persons(rows[:place] + rows[place + 1 :])
        assert (before - after).total() <= 1, row
        assert (after - before).total() <= 1, row
