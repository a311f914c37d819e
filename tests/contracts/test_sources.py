"""One contract for every source: what is answered never depends on what was asked before under other settings."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pytest
from postgres_server import Server
from source_settings import SETTINGS, answer, curator_of, every_pair, sums, table

from synthdp.tables.dataframe import FrameSource
from synthdp.tables.sources.csv import CsvSource
from synthdp.tables.sources.duckdb import DuckDBSource
from synthdp.tables.sources.parquet import ParquetSource
from synthdp.tables.sources.sql import SqlSource


def csv_file(frame: pd.DataFrame, folder: Path) -> CsvSource:
    frame.to_csv(folder / "t.csv", index=False)
    return CsvSource(folder / "t.csv")


def parquet_files(frame: pd.DataFrame, folder: Path) -> ParquetSource:
    for i in range(3):
        frame.iloc[i::3].to_parquet(folder / f"{i}.parquet", index=False)
    return ParquetSource(folder)


def sqlite_file(frame: pd.DataFrame, folder: Path) -> SqlSource:
    with closing(sqlite3.connect(folder / "t.sqlite")) as connection:
        frame.to_sql("t", connection, index=False, if_exists="replace")
    return SqlSource(f"sqlite:///{folder}/t.sqlite", table="t")


def duckdb_table(frame: pd.DataFrame, _: Path) -> SqlSource:
    connection = duckdb.connect()
    connection.from_df(frame).create("t")
    return SqlSource(connection, query="SELECT * FROM t")


SOURCES: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "pandas": lambda frame, _: FrameSource(frame),
    "polars": lambda frame, _: FrameSource(pl.from_pandas(frame)),
    "polars lazy": lambda frame, _: FrameSource(pl.from_pandas(frame).lazy()),
    "pyarrow": lambda frame, _: FrameSource(pa.Table.from_pandas(frame)),
    "csv": csv_file,
    "parquet": parquet_files,
    "duckdb": lambda frame, _: DuckDBSource(duckdb.connect().from_df(frame)),
    "duckdb itself": lambda frame, _: DuckDBSource(duckdb.connect().from_df(frame), push_down=True),
    "sql in sqlite": sqlite_file,
    "sql in duckdb": duckdb_table,
}


SOME = ("pandas", "csv", "duckdb itself")
"""Sources of several ways to read; of the others every pair of questions is slow, and all are asked in turns below."""


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in SOME)) for name in SOURCES]
)
def test_an_answer_does_not_depend_on_what_was_asked_before(name: str, tmp_path: Path) -> None:
    source = SOURCES[name](table(), tmp_path)
    alone = {one.name: answer(SOURCES[name](table(), tmp_path), one) for one in SETTINGS}
    asked = [(setting.name, answer(source, setting)) for setting in every_pair(SETTINGS)]
    assert asked == [(setting, alone[setting]) for setting, _ in asked]


@pytest.mark.sampled
@pytest.mark.parametrize("name", SOURCES)
def test_curators_of_one_source_that_are_asked_in_turns_do_not_hear_each_other(name: str, tmp_path: Path) -> None:
    source = SOURCES[name](table(), tmp_path)
    alone = {one.name: answer(SOURCES[name](table(), tmp_path), one) for one in SETTINGS}
    curators = {one.name: curator_of(source, one) for one in SETTINGS}
    for _ in range(2):
        assert {one.name: sums(curators[one.name], one, share=0.5) for one in SETTINGS} == alone


def test_postgresql_keeps_the_same_contract(postgres: Server) -> None:
    """In one test, since the server is started once."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS busy (age int, city text, who int, house int)")
        cursor.execute("TRUNCATE busy")
        cursor.executemany("INSERT INTO busy VALUES (%s, %s, %s, %s)", table().to_numpy(object).tolist())
    source = SqlSource(postgres.url(), table="busy")
    alone = {one.name: answer(FrameSource(table()), one) for one in SETTINGS}
    asked = [(setting.name, answer(source, setting)) for setting in every_pair(SETTINGS)]
    assert asked == [(setting, alone[setting]) for setting, _ in asked]
    curators = {one.name: curator_of(source, one) for one in SETTINGS}
    for _ in range(2):
        assert {one.name: sums(curators[one.name], one, share=0.5) for one in SETTINGS} == alone


def test_a_curator_counts_each_cut_of_the_cells_anew() -> None:
    """More cuts than it keeps the codes of, twice round."""
    cuts = [replace(SETTINGS[1], name=str(bins), bins=bins) for bins in range(2, 9)]
    curator = curator_of(FrameSource(table()), cuts[0])
    alone = {cut.name: answer(FrameSource(table()), cut) for cut in cuts}
    for _ in range(2):
        assert {cut.name: sums(curator, cut, share=0.5 / len(cuts)) for cut in cuts} == alone
