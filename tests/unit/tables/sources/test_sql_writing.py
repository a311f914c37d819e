"""Synthetic rows written into a database: types and keys are the table's, and all rows are there or none."""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from postgres_server import Server
from rule_models import model_of

import synthdp as sd
from synthdp import Boolean, Categorical, Continuous, Datetime, Identifier, Integer, Schema
from synthdp.errors import DataError, ParameterError
from synthdp.tables.sources.sql import SqlSource

SCHEMA = Schema(
    {
        "id": Identifier(),
        "age": Integer(0, 90),
        "mood": Categorical(["good", "bad"], nullable=True),
        "paid": sd.Decimal(0, 99, decimals=2),
        "size": Continuous(0, 2),
        "member": Boolean(nullable=True),
        "born": sd.Date("2000-01-01", "2020-01-01"),
        "seen": Datetime("2020-01-01", "2021-01-01", nullable=True),
        "wake": sd.Time(),
    }
)
COLUMNS = (
    "id bigint PRIMARY KEY, age smallint NOT NULL, mood feeling, paid numeric(6,2), size real, member boolean, born date, "
    "seen timestamptz, wake time, entered timestamp DEFAULT now()"
)


@pytest.fixture(scope="module")
def written_to(postgres: Server) -> Server:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE TYPE feeling AS ENUM ('good', 'bad')")
        for name in ("by_url", "by_psycopg", "visits", "bills"):
            connection.execute(f"DROP TABLE IF EXISTS {name} CASCADE")  # another file's
            connection.execute(f"CREATE TABLE {name} ({COLUMNS})")
    return postgres


def rows_of(server: Server, table: str) -> list[Any]:
    with psycopg.connect(server.url()) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY id").fetchall()


@pytest.mark.parametrize("table", ["by_url", "by_psycopg"])
def test_a_table_of_postgresql_gets_the_rows_in_its_own_types(table: str, written_to: Server) -> None:
    model = model_of(SCHEMA)
    with psycopg.connect(written_to.url()) as connection:
        door: Any = {"by_url": written_to.url(), "by_psycopg": connection}[table]
        model.sample_to(SqlSource(door, table=table), rows=50, random_state=0, block_rows=20)
    found = rows_of(written_to, table)
    assert [row[0] for row in found] == list(range(1, 51))
    kinds = [int, int, str, Decimal, float, bool, dt.date, dt.datetime, dt.time, dt.datetime]
    for kind, cells in zip(kinds, zip(*found, strict=True), strict=True):
        assert {type(cell) for cell in cells} - {type(None)} == {kind}
    assert all(0 <= row[1] <= 90 and 0 <= row[3] <= 99 for row in found)


def test_rows_that_a_key_refuses_are_all_refused(written_to: Server) -> None:
    model, target = model_of(SCHEMA), SqlSource(written_to.url(), table="bills")
    model.sample_to(target, rows=10, random_state=0)
    with pytest.raises(DataError, match="key") as caught:
        model.sample_to(target, rows=20, random_state=1)  # the first ten identifiers are there
    assert caught.value.__context__ is None
    assert len(rows_of(written_to, "bills")) == 10


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("age uuid", "type"),
        ("age varchar(1)", "type"),
        ("age int, must int NOT NULL", "default"),
        ("age int CHECK (age > 1000)", "check"),
        ("age int REFERENCES nobody", "refers"),
    ],
)
def test_rows_that_a_table_cannot_hold_are_refused_with_the_kind_of_reason(
    written_to: Server, columns: str, message: str
) -> None:
    with psycopg.connect(written_to.url(), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS narrow, nobody")
        connection.execute("CREATE TABLE nobody (n int PRIMARY KEY)")
        connection.execute(f"CREATE TABLE narrow ({columns})")
        model = model_of(Schema({"age": Integer(10, 90)}))
        for door in (written_to.url(), connection):
            with pytest.raises(DataError, match=message):
                model.sample_to(SqlSource(door, table="narrow"), rows=10, random_state=0)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("age int, must int NOT NULL", "default"),
        ("age int CHECK (age > 1000)", "check"),
    ],
)
def test_sqlite_says_what_kind_of_row_it_refuses(columns: str, message: str, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "t.db")) as connection:
        connection.execute(f"CREATE TABLE narrow ({columns})")
    with pytest.raises(DataError, match=message):
        model_of(Schema({"age": Integer(10, 90)})).sample_to(
            SqlSource(f"sqlite:///{tmp_path / 't.db'}", table="narrow"), rows=10, random_state=0
        )


def test_duckdb_says_that_a_value_does_not_fit_its_column(tmp_path: Path) -> None:
    with contextlib.closing(duckdb.connect(str(tmp_path / "t.duckdb"))) as connection:
        connection.execute("CREATE TABLE narrow (age uuid, note utinyint)")
    model = model_of(Schema({"note": Integer(300, 900)}))
    with pytest.raises(DataError, match="type"):
        model.sample_to(SqlSource(f"duckdb:///{tmp_path / 't.duckdb'}", table="narrow"), rows=10, random_state=0)


def test_related_tables_are_written_in_one_transaction_of_the_callers(written_to: Server) -> None:
    model = model_of(SCHEMA)
    before = len(rows_of(written_to, "visits"))
    with psycopg.connect(written_to.url()) as connection:
        connection.execute("DELETE FROM bills")
        for name in ("visits", "bills"):
            model.sample_to(SqlSource(connection, table=name), rows=5, random_state=0)
        assert len(rows_of(written_to, "visits")) == before  # nobody else sees them yet
    assert len(rows_of(written_to, "visits")) == before + 5
    assert len(rows_of(written_to, "bills")) == 5


def test_other_databases_get_rows_too() -> None:
    schema = Schema({name: SCHEMA[name] for name in ("age", "mood", "born")})
    model = model_of(schema)
    lite, duck = sqlite3.connect(":memory:"), duckdb.connect()
    for connection in (lite, duck):
        connection.execute("CREATE TABLE t (age INTEGER, mood VARCHAR, born DATE)")
        model.sample_to(SqlSource(connection, table="t"), rows=30, random_state=0)
        ((number,),) = connection.execute(
            "SELECT count(*) FROM t WHERE born >= '2000-01-01' AND age BETWEEN 0 AND 90"
        ).fetchall()
        assert number == 30
        connection.close()


def test_what_cannot_be_written_is_said() -> None:
    model = model_of(Schema({"age": Integer(0, 9)}))
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (b INTEGER)")
    with pytest.raises(DataError, match="'age'"):
        model.sample_to(SqlSource(connection, table="t"), rows=3)
    with pytest.raises(ParameterError, match="query"):
        model.sample_to(SqlSource(connection, query="SELECT 1 AS age"), rows=3)
    connection.close()
