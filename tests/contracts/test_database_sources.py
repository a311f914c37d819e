"""Several tables give the same integers wherever their rows live: dataframes, files, DuckDB, a database asked by SQL."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from small_databases import SCHEMAS, codes_of, every_person, frames, tables_of

import synthdp as sd
from synthdp.domain.histories import Layout
from synthdp.queries.person_tables import PersonTables

NAME = "child of a child"
SCHEMA, LAYOUT = SCHEMAS[NAME], Layout(SCHEMAS[NAME])


def private() -> dict[str, pd.DataFrame]:
    """Persons of all kinds, rows of nobody, keys that are missing, values that do not fit."""
    found = frames(list(every_person(rows=3, leaves=True))[::9], SCHEMA)
    rows, leaves = found["rows"], found["leaves"]
    rows["t"] = rows["t"].astype("Int64")
    rows.loc[rows.index[:3], "t"] = [99, None, -5]
    rows.loc[rows.index[3:5], "v"] = ["zz", None]
    rows.loc[rows.index[5:7], "id"] = None
    leaves.loc[leaves.index[:2], "row"] = None
    leaves["id"] = leaves["id"].where(leaves.index % 17 != 0, "nobody's")
    bits = {"persons": "p", "leaves": "w"}
    return {
        name: one.astype({bits[name]: "boolean"} if name in bits else {}).convert_dtypes()
        for name, one in found.items()
    }


def parquet(tables: dict[str, pd.DataFrame], folder: Path) -> dict[str, Any]:
    for name, table in tables.items():
        (folder / name).mkdir()
        half = len(table) // 2
        table[:half].to_parquet(folder / name / "a.parquet", index=False)
        table[half:].to_parquet(folder / name / "b.parquet", index=False)
    return {name: sd.ParquetSource(folder / name) for name in tables}


def csv(tables: dict[str, pd.DataFrame], folder: Path) -> dict[str, Any]:
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return {name: sd.CsvSource(folder / f"{name}.csv") for name in tables}


def duckdb_file(tables: dict[str, pd.DataFrame], folder: Path) -> dict[str, Any]:
    with duckdb.connect(str(folder / "db.duckdb")) as connection:
        for name, table in tables.items():
            connection.from_df(table).create(name)
    return {name: sd.DuckDBSource(folder / "db.duckdb", name=name) for name in tables}


def duckdb_relations(tables: dict[str, pd.DataFrame], folder: Path) -> dict[str, Any]:
    duckdb_file(tables, folder)
    connection = duckdb.connect(str(folder / "db.duckdb"), read_only=True)
    return {name: connection.table(name) for name in tables}


def sqlite(tables: dict[str, pd.DataFrame], folder: Path) -> dict[str, Any]:
    with contextlib.closing(sqlite3.connect(folder / "db.sqlite")) as connection, connection:
        for name, table in tables.items():
            table.astype(object).where(table.notna(), None).to_sql(name, connection, index=False)
    return {name: sd.SqlSource(f"sqlite:///{folder / 'db.sqlite'}", table=name) for name in tables}


def mixed(tables: dict[str, pd.DataFrame], folder: Path) -> dict[str, Any]:
    return tables | {"rows": pl.from_pandas(tables["rows"]), "leaves": duckdb_file(tables, folder)["leaves"]}


FORMS: dict[str, Callable[[dict[str, pd.DataFrame], Path], dict[str, Any]]] = {
    "Parquet": parquet,
    "CSV": csv,
    "a DuckDB file": duckdb_file,
    "DuckDB relations": duckdb_relations,
    "SQLite": sqlite,
    "a mixture": mixed,
}


@pytest.fixture(scope="module")
def expected() -> tuple[list[tuple[int, ...]], np.ndarray]:
    """Records and weighted counts of the dataframes."""
    codes = codes_of(private(), LAYOUT)
    every = tables_of(LAYOUT)
    return sorted(map(tuple, codes.tolist())), PersonTables(LAYOUT, tuple(every), (1,) * len(every)).sums(codes)


@pytest.mark.sampled
@pytest.mark.parametrize("form", FORMS)
def test_every_source_gives_the_records_and_the_integers_of_the_dataframes(
    form: str, expected: tuple[list[tuple[int, ...]], np.ndarray], tmp_path: Path
) -> None:
    codes = codes_of(FORMS[form](private(), tmp_path), LAYOUT)
    every = tables_of(LAYOUT)
    assert sorted(map(tuple, codes.tolist())) == expected[0]
    np.testing.assert_array_equal(PersonTables(LAYOUT, tuple(every), (1,) * len(every)).sums(codes), expected[1])
