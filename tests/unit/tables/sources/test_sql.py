"""Databases as sources: the same integers as a dataframe through every driver, and one sentence for each fault."""

from __future__ import annotations

import datetime as dt
import itertools
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import psycopg
import pytest
import sqlalchemy
from adbc_driver_postgresql import dbapi as adbc
from postgres_server import Server

import synthdp as sd
from synthdp import Boolean, Categorical, Continuous, Datetime, Duration, Integer, Schema
from synthdp.curator.private_table import PrivateTable
from synthdp.domain.domain import domain_of
from synthdp.domain.encoder import encode
from synthdp.errors import DataError, DraftWarning, ParameterError, SynthDPError
from synthdp.privacy.loss import PureDP
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.sources.sql import SqlSource
from synthdp.tables.sql import links

COUNT = itertools.count()
SCHEMA = Schema(
    {
        "age": Integer(0, 90),
        "city": Categorical(["Oslo", "Rome"], nullable=True),
        "Height in m": Continuous(0, 2, nullable=True),
        "member": Boolean(),
        "born": Datetime("2000-01-01", "2020-01-01", nullable=True),
    }
)


def table_of(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    born = pd.Series(np.datetime64("1999-06-01", "us") + rng.integers(0, 8000, rows).astype("timedelta64[D]"))
    return pd.DataFrame(
        {
            "age": rng.integers(-5, 110, rows),
            "city": np.array(["Oslo", "Rome", None, "Paris"], object)[rng.integers(0, 4, rows)],
            "Height in m": rng.normal(1.5, 0.4, rows),
            "member": rng.random(rows) < 0.3,
            "born": born.where(rng.random(rows) < 0.9),
            "person": rng.integers(0, 60, rows),
            "unused": "x",
        }
    )


def run(server: Server, *statements: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def in_postgres(server: Server, frame: pd.DataFrame) -> str:
    """A table of the server that holds a frame; its name."""
    name = f"t{next(COUNT)}"
    kinds = {"i": "bigint", "b": "boolean", "f": "double precision", "M": "timestamp", "O": "text"}
    columns = ", ".join(f'"{column}" {kinds.get(frame[column].dtype.kind, "text")}' for column in frame)
    with psycopg.connect(server.url()) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} ({columns})")
        with cursor.copy(f"COPY {name} FROM STDIN") as copy:
            for row in frame.itertuples(index=False):
                copy.write_row([None if pd.isna(cell) else cell for cell in row])
    return name


def as_sqlite(frame: pd.DataFrame) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    written = (
        frame.assign(born=frame["born"].astype("str").where(frame["born"].notna(), None)) if "born" in frame else frame
    )
    written.to_sql("t", connection, index=False)
    return connection


def as_duckdb(frame: pd.DataFrame) -> Any:
    connection = duckdb.connect()
    connection.from_df(frame).create("t")
    return connection


DOORS: dict[str, Callable[[Server], Any]] = {
    "url": lambda server: server.url(),
    "adbc": lambda server: adbc.connect(server.url()),
    "psycopg": lambda server: psycopg.connect(server.url()),
    "psycopg that commits by itself": lambda server: psycopg.connect(server.url(), autocommit=True),
    "engine": lambda server: sqlalchemy.create_engine(server.url().replace("postgresql:", "postgresql+psycopg:")),
    "url of an engine": lambda server: server.url().replace("postgresql:", "postgresql+psycopg:"),
}


OFTEN = ("url", "psycopg")
"""The ways that the quick suite takes."""


@pytest.fixture(
    scope="module", params=[pytest.param(way, marks=[pytest.mark.slow] * (way not in OFTEN)) for way in DOORS]
)
def door(request: pytest.FixtureRequest, postgres: Server) -> Iterator[Any]:
    """One way to a PostgreSQL database."""
    opened = DOORS[request.param](postgres)
    yield opened
    getattr(opened, "dispose", getattr(opened, "close", lambda: None))()


@pytest.fixture(scope="module")
def people(postgres: Server) -> str:
    return in_postgres(postgres, table_of())


def sums_of(source: Any, adjacency: Adjacency = Adjacency()) -> list[int]:  # noqa: B008
    domain = domain_of(SCHEMA, bins=5)
    table = PrivateTable(source, SCHEMA, adjacency)
    sums = table.exact(Marginals(domain, all_cliques(domain, 2))).tolist()
    table.close()
    return sums


@pytest.mark.parametrize("adjacency", [Adjacency(), Adjacency(unit="person", rows=2)])
def test_the_integers_are_those_of_the_dataframe_through_every_driver(
    door: Any, people: str, adjacency: Adjacency
) -> None:
    assert sums_of(SqlSource(door, table=people), adjacency) == sums_of(FrameSource(table_of()), adjacency)


@pytest.mark.parametrize("open_", [as_sqlite, as_duckdb])
@pytest.mark.parametrize("adjacency", [Adjacency(), Adjacency(unit="person", rows=2)])
def test_the_integers_of_other_databases_are_too(open_: Callable[[pd.DataFrame], Any], adjacency: Adjacency) -> None:
    connection = open_(table_of())
    assert sums_of(SqlSource(connection, table="t"), adjacency) == sums_of(FrameSource(table_of()), adjacency)
    connection.close()


def test_a_file_of_a_database_is_a_url(tmp_path: Any) -> None:
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as kept, closing(as_sqlite(table_of())) as made:
        made.backup(kept)
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.from_df(table_of()).create("t")
    expected = sums_of(FrameSource(table_of()))
    for scheme in ("sqlite", "duckdb"):
        assert sums_of(SqlSource(f"{scheme}:///{tmp_path}/t.{scheme}", table="t")) == expected


def test_a_query_gives_its_rows_and_only_the_columns_that_are_needed(postgres: Server, people: str) -> None:
    """A column that cannot be computed hurts nobody who does not need it."""
    source = SqlSource(
        postgres.url(), query=f"WITH a AS (SELECT *, 1 / (age - age) AS b FROM {people})\nSELECT * FROM a; "
    )
    assert sums_of(source) == sums_of(FrameSource(table_of()))
    with pytest.raises(DataError, match="database"):
        list(source.blocks({"b": Integer(0, 9)}))


def test_no_row_is_one_empty_block(door: Any, people: str) -> None:
    source = SqlSource(door, query=f"SELECT * FROM {people} WHERE age > 1000")
    assert [len(block["age"].values) for block in source.blocks({"age": SCHEMA["age"]})] == [0]
    source.forget()


def test_sums_do_not_depend_on_where_blocks_end(door: Any, people: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(links, "BLOCK_ROWS", 70)
    assert sums_of(SqlSource(door, table=people)) == sums_of(FrameSource(table_of()))


# Values

TYPES: dict[str, tuple[Any, str, list[str | None]]] = {
    "smallint": (Integer(0, 9), "3", ["-32768", "32767", None]),
    "integer": (Integer(0, 9, nullable=True), "3", ["-2147483648", "2147483647", None]),
    "bigint": (Integer(0, 9), "3", ["-9223372036854775808", "9223372036854775807", None]),
    "oid": (Integer(0, 9), "3", ["4294967295", None]),
    "real": (Continuous(0, 9), "3", ["NaN", "Infinity", "-Infinity", "1e-45", None]),
    "double precision": (Continuous(0, 9), "3", ["NaN", "Infinity", "-Infinity", "5e-324", "1.7e308", "-0", None]),
    "numeric": (Continuous(0, 9), "3.00", ["NaN", "Infinity", "-Infinity", "1e100000", "1e-16000", None]),
    "numeric(10,2)": (sd.Decimal(0, 9, decimals=2), "3.25", ["NaN", "99999999.99", None]),
    "money": (Continuous(0, 9), "3.50", ["-92233720368547758.08", "92233720368547758.07", None]),
    "date": (Datetime("2000-01-01", "2030-01-01"), "2020-01-01",
             ["infinity", "-infinity", "4713-01-01 BC", "5874897-12-31", None]),
    "timestamp": (Datetime("2000-01-01", "2030-01-01"), "2020-01-01",
                  ["infinity", "-infinity", "4713-01-01 BC", "294276-12-31 23:59:59.999999", None]),
    "timestamptz": (Datetime("2000-01-01", "2030-01-01"), "2020-01-01 00:00+00",
                    ["infinity", "-infinity", "4713-01-02 BC", "294276-12-31 00:00+14", "0001-01-01 00:00+14", None]),
    "time": (sd.Time(), "12:00:00", ["24:00:00", "00:00", "23:59:59.999999", None]),
    "timetz": (Categorical(["12:00:00+00"]), "12:00:00+00", ["24:00:00-15:59", None]),
    "interval": (Duration(0, 100), "5 seconds", ["178000000 years", "-178000000 years", "1 mon -1 day 24:00:01", None]),
    "boolean": (Boolean(), "true", ["false", None]),
    "text": (Categorical(["a"], nullable=True), "a", ["", "é", "=cmd()", "4711" * 20_000, "A", "a ", None]),
    "varchar(9)": (Categorical(["a"], other="else"), "a", ["b", "a'\"", "\\N", "\x01", None]),
    "char(4)": (Categorical(["a"]), "a", ["", "b", None]),
    '"char"': (Categorical(["a"]), "a", ["", "b", None]),
    "mood": (Categorical(["good"]), "good", ["bad", None]),
    "age": (Integer(0, 9), "3", ["150", None]),
    "bytea": (Categorical(["a"]), "a", ["\\xff00", None]),
    "uuid": (Categorical(["00000000-0000-0000-0000-000000000001"]), "00000000-0000-0000-0000-000000000001",
             ["ffffffff-ffff-ffff-ffff-ffffffffffff", None]),
    "jsonb": (Categorical(["{}"]), "{}", ['{"a": [1, null]}', "1e400", None]),
    "xml": (Categorical(["<a/>"]), "<a/>", ["<b>&amp;</b>", None]),
    "integer[]": (Categorical(["{1}"]), "{1}", ["{}", "{1,NULL}", None]),
    "int4range": (Categorical(["[1,2)"]), "[1,2)", ["empty", "(,)", None]),
    "inet": (Categorical(["10.0.0.1"]), "10.0.0.1", ["::1", None]),
    "point": (Categorical(["(1,2)"]), "(1,2)", ["(NaN,Infinity)", None]),
    "bit(3)": (Categorical(["101"]), "101", ["000", None]),
    "pair": (Categorical(["(1,a)"]), "(1,a)", ["(,)", None]),
}  # fmt: skip
"""Of every type of PostgreSQL: a declaration, a value that fits it, and values that try to stop a driver."""


@pytest.fixture(scope="module")
def hostile(postgres: Server) -> str:
    columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(TYPES))
    run(
        postgres,
        "CREATE TYPE mood AS ENUM ('good', 'bad')",
        "CREATE DOMAIN age AS integer CHECK (VALUE >= 0)",
        "CREATE TYPE pair AS (a integer, b text)",
        f"CREATE TABLE hostile ({columns})",
    )
    with psycopg.connect(postgres.url()) as connection:
        for i, (kind, (_, fits, values)) in enumerate(TYPES.items()):
            for value in [fits, *values]:
                literal = None if value is None else value
                connection.execute(f"INSERT INTO hostile (c{i}) VALUES (%s::text::{kind})", [literal])
    return "hostile"


@pytest.fixture(scope="module")
def read_by_adbc(postgres: Server, hostile: str) -> dict[str, list[int]]:
    return _codes_of(postgres.url(), hostile)


def _codes_of(door: Any, table: str) -> dict[str, list[int]]:
    """The grid index of every value of every type; its column is missing in the rows of the others."""
    columns = {f"c{i}": column for i, (column, _, _) in enumerate(TYPES.values())}
    source = SqlSource(door, table=table)
    blocks = [{name: encode(columns[name], raw) for name, raw in block.items()} for block in source.blocks(columns)]
    list(source.blocks({}, extra=(*columns,)))  # as the names of persons
    source.forget()
    found, start = {}, 0
    for i, (kind, (_, _, values)) in enumerate(TYPES.items()):
        codes = np.concatenate([block[f"c{i}"] for block in blocks]).tolist()
        found[kind] = codes[start : start + 1 + len(values)]
        start += 1 + len(values)
    return found


def test_no_value_of_any_type_stops_the_reading_and_all_drivers_read_alike(
    door: Any, hostile: str, read_by_adbc: dict[str, list[int]]
) -> None:
    assert _codes_of(door, hostile) == read_by_adbc


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind != "bytea"])
def test_a_value_that_fits_is_read_and_others_do_not_become_it(kind: str, read_by_adbc: dict[str, list[int]]) -> None:
    column, fits, _ = TYPES[kind]
    codes = read_by_adbc[kind]
    known = {"interval": dt.timedelta(seconds=5), "inet": "10.0.0.1"}.get(kind, fits)
    expected = encode(
        column, next(iter(FrameSource(pd.DataFrame({"x": [known]}, dtype=object)).blocks({"x": column})))["x"]
    )
    assert codes[0] == int(expected[0])
    assert codes[0] not in codes[1:]


def test_far_values_are_clipped_to_the_side_on_which_they_are(read_by_adbc: dict[str, list[int]]) -> None:
    last = {kind: max(codes[1:-1]) for kind, codes in read_by_adbc.items()}
    for kind in ("date", "timestamp", "timestamptz"):
        high, low, past, future = read_by_adbc[kind][1:5]
        assert (high, low, past, future) == (last[kind], 0, 0, last[kind])
    real = read_by_adbc["double precision"]
    assert read_by_adbc["numeric"][2:6] == [real[2], 0, real[2], 0]


def test_persons_are_told_apart_by_names_that_no_moment_of_python_can_hold(postgres: Server, door: Any) -> None:
    query = (
        "SELECT * FROM (VALUES (timestamp 'infinity', 1.0), ('294276-01-01', 1.00), ('infinity', 1.5)) v (who, number)"
    )
    source = SqlSource(door, query=query)
    (block, *_) = source.blocks({}, extra=("who", "number"))
    assert block["who"].codes.tolist() == [0, 1, 0]
    assert block["number"].codes.tolist() == [0, 0, 1]  # equal numbers are one person, however they are written
    source.forget()


def test_texts_of_a_database_without_an_encoding_are_read_by_their_bytes(postgres: Server) -> None:
    run(postgres, "CREATE DATABASE raw ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'")
    address = postgres.url(database="raw")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (x text)")
        connection.execute(rb"INSERT INTO t VALUES ('a'), (E'\xff\xfe'), (E'\xe2\x82')")
    opened = psycopg.connect(address)
    for door in (address, opened):
        source = SqlSource(door, table="t")
        blocks = [encode(Categorical(["a"]), block["x"]) for block in source.blocks({"x": Categorical(["a"])})]
        assert np.concatenate(blocks).tolist() == [0, 1, 1]
        source.forget()
    opened.close()


def test_a_text_of_sqlite_may_be_no_text_and_a_number_none() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (x INTEGER)")
    connection.executemany(
        "INSERT INTO t VALUES (?)", [(3,), ("3",), ("canary",), (b"\xff",), (1e300,), (2**62,), (None,)]
    )
    connection.execute("INSERT INTO t VALUES (CAST(x'fffe' AS TEXT))")
    column = Integer(0, 9, nullable=True)
    source = SqlSource(connection, table="t")
    (block, *_) = source.blocks({"x": column})
    assert encode(column, block["x"]).tolist() == [3, 3, 10, 10, 9, 9, 10, 10]
    assert connection.text_factory is str
    connection.close()


def test_types_are_known_for_files_of_synthetic_rows(postgres: Server, hostile: str) -> None:
    types = SqlSource(postgres.url(), table=hostile).arrow_types
    found = dict(zip(TYPES, [types.get(f"c{i}") for i in range(len(TYPES))], strict=True))
    assert found["integer"] == "int32"
    assert found["numeric(10,2)"] == "decimal128(10, 2)"
    assert found["timestamptz"] == "timestamp[us, tz=UTC]"
    assert found["date"] == "date32[day]"
    assert found["numeric"] is None


# One moment


def test_rows_that_others_write_meanwhile_are_not_read(door: Any, postgres: Server) -> None:
    name = in_postgres(postgres, table_of(50))
    source = SqlSource(door, table=name)
    column = {"age": SCHEMA["age"]}
    before = sum(len(block["age"].values) for block in source.blocks(column))
    run(postgres, f"INSERT INTO {name} (age) SELECT 1 FROM generate_series(1, 100)")
    assert sum(len(block["age"].values) for block in source.blocks(column)) == before == 50
    source.forget()
    assert sum(len(block["age"].values) for block in source.blocks(column)) == 150
    source.forget()


def test_a_transaction_of_the_users_own_is_neither_ended_nor_undone(postgres: Server) -> None:
    with psycopg.connect(postgres.url()) as connection:
        connection.execute("CREATE TEMPORARY TABLE mine AS SELECT 1 AS age")
        source = SqlSource(connection, table="mine")
        assert sum(len(block["age"].values) for block in source.blocks({"age": SCHEMA["age"]})) == 1
        source.forget()
        assert connection.execute("SELECT count(*) FROM mine").fetchone() == (1,)


def test_a_release_leaves_no_connection_behind(postgres: Server, people: str) -> None:
    with sd.Curator(SqlSource(postgres.url(), table=people), schema=SCHEMA, budget=PureDP(1.0)) as curator:
        assert len(curator.measure(Marginals(domain_of(SCHEMA), ((0,),))).values) > 1
    _wait_for_nobody(postgres)


def _wait_for_nobody(server: Server) -> None:
    """Connections of other programs end soon after they were closed."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND query LIKE 'COPY%'"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for _ in range(100):
            found = connection.execute(others).fetchone()
            left = found is not None and found[0]
            time.sleep(0.05 * bool(left))
    assert not left


SLEEPER = """
import sys, synthdp as sd
source = sd.SqlSource(sys.argv[1], query="SELECT 1 AS age, pg_sleep(0.1)::text AS marked_sleep FROM generate_series(1, 600)")
print("ready", flush=True)
list(source.blocks({"age": sd.Integer(0, 9), "marked_sleep": sd.Categorical([""])}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_a_query_that_is_interrupted_ends_on_the_server(postgres: Server) -> None:
    import signal

    child = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, postgres.url()], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert child.stdout is not None
    child.stdout.readline()
    running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY%marked_sleep%' AND state = 'active'"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:

        def soon(wanted: int) -> bool:
            for _ in range(100):
                if connection.execute(running).fetchone() == (wanted,):
                    return True
                time.sleep(0.1)
            return False

        assert soon(1)
        child.send_signal(signal.SIGINT)
        assert soon(0)
    child.wait(timeout=20)
    child.stdout.close()


# Faults: one sentence, no password, nothing spent before the first answer


def refused(make: Callable[[], Any]) -> str:
    """What a fault says, after a look at all that hangs on it."""
    with pytest.raises(SynthDPError) as caught:
        make()
    everything = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__context__)
    assert "hunter2" not in everything
    assert "4711" not in everything
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return str(caught.value)


def test_a_wrong_password_is_one_sentence(postgres: Server) -> None:
    run(postgres, "DROP ROLE IF EXISTS locked", "CREATE ROLE locked LOGIN PASSWORD 'right'")
    address = postgres.url(user="locked", password="hunter2")
    for url in (address, address.replace("postgresql:", "postgresql+psycopg:")):
        assert "refuses the user or the password" in refused(lambda url=url: SqlSource(url, table="t"))
    source = SqlSource(postgres.url(user="locked", password="right"), query="SELECT 1 AS a")
    assert "right" not in repr(source) + str(vars(source))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:hunter2@127.0.0.1:1/db",
        "postgresql://user:hunter2@/db?host=/nowhere",
        "postgresql://user:hunter2@[broken:port/db",
        "postgresql+psycopg://user:hunter2@127.0.0.1:1/db",
        "sqlite:////nowhere/4/t.sqlite",
        "duckdb:////nowhere/4/t.duckdb",
    ],
)
def test_a_server_that_is_not_there_is_one_sentence(url: str) -> None:
    assert "cannot be reached" in refused(lambda: SqlSource(url, table="t"))


def test_what_cannot_be_read_is_said_when_the_source_is_made(postgres: Server, people: str) -> None:
    run(
        postgres,
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN",
        "DROP TABLE IF EXISTS secret CASCADE",
        "CREATE TABLE secret (a int)",
        "CREATE VIEW hidden AS SELECT 4711 / a AS a FROM secret",
    )
    as_reader = postgres.url(user="reader")
    assert "lacks a right" in refused(lambda: SqlSource(as_reader, table="hidden"))
    assert "no such table" in refused(lambda: SqlSource(postgres.url(), table="nothing"))
    assert "no database of this name" in refused(lambda: SqlSource(postgres.url(database="nothing"), table="t"))
    assert "not valid SQL" in refused(lambda: SqlSource(postgres.url(), query="SELECT SELECT"))
    assert "a column that the table does not have" in refused(
        lambda: SqlSource(postgres.url(), query=f"SELECT b FROM {people}")
    )
    assert "2 columns with the name 'a'" in refused(lambda: SqlSource(postgres.url(), query="SELECT 1 AS a, 2 AS a"))


def test_counting_where_no_table_may_be_made_is_refused_when_the_source_is_made(postgres: Server) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE bare")
        connection.execute("REVOKE TEMPORARY ON DATABASE bare FROM PUBLIC")
        connection.execute("DROP ROLE IF EXISTS counter")
        connection.execute("CREATE ROLE counter LOGIN")
    url = postgres.url(user="counter", database="bare")
    assert "TEMPORARY" in refused(lambda: SqlSource(url, query="SELECT 1 AS a", push="counts"))
    assert SqlSource(url, query="SELECT 1 AS a", push="codes").names == ("a",)


@pytest.mark.parametrize("given", [{}, {"table": "t", "query": "SELECT 1"}])
def test_a_table_or_a_query_is_wanted(given: dict[str, str]) -> None:
    with pytest.raises(ParameterError, match="query"):
        SqlSource("sqlite:///x", **given)


def test_something_else_is_no_database() -> None:
    assert "must be a URL, an ADBC or DBAPI connection" in refused(lambda: SqlSource(3, table="t"))
    assert "must be a URL" in refused(lambda: SqlSource(pd.DataFrame(), table="t"))


def test_a_column_that_the_table_lacks_is_refused_before_anything_is_spent(
    postgres: Server, people: str, tmp_path: Any
) -> None:
    wider = Schema({**SCHEMA, "missing": Boolean()})
    ledger = sd.Ledger(tmp_path / "ledger.sqlite")
    source = SqlSource(postgres.url(), table=people)

    def open_curator() -> Any:
        return sd.Curator(source, schema=wider, budget=PureDP(1.0), ledger=ledger, dataset="d")

    assert "column 'missing' is missing" in refused(open_curator)
    assert not ledger.entries()


class Cut:
    """A link whose connection is lost in the middle."""

    def __init__(self, link: links.Link) -> None:
        self._link, self.dialect = link, link.dialect

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    def blocks(self, query: str, columns: Any) -> Iterator[Any]:
        self.cut(now="synthdp_coded" in query)  # rows are coded into a table, which is lost before it is asked
        for block in self._link.blocks(query, columns):
            yield block
            self.cut(now=True)

    def cut(self, *, now: bool) -> None:
        for _ in range(now):
            with psycopg.connect(self.server.url(), autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE query LIKE '%synthdp_%' AND pid <> pg_backend_pid()"
                )

    server: Server


@pytest.mark.parametrize("push", ["rows", "counts"])
def test_a_connection_that_is_lost_midway_is_one_sentence_and_the_spend_is_returned(
    push: str, postgres: Server, tmp_path: Any
) -> None:
    rows = "SELECT (i % 100)::int AS age, repeat('4711', 20) AS x FROM generate_series(1, 400000) i"
    source = SqlSource(postgres.url(), query=rows, push=push)
    opened = source._open
    Cut.server = postgres
    source._open = lambda reads_only: Cut(opened(reads_only))
    ledger = sd.Ledger(tmp_path / "ledger.sqlite")
    schema = Schema({"age": Integer(0, 99), "x": Categorical(["a"])})
    curator = sd.Curator(source, schema=schema, budget=PureDP(1.0), ledger=ledger, dataset="d")
    domain = domain_of(schema, bins=4)
    said = refused(lambda: curator.measure(Marginals(domain, ((0, 1),)), spend=PureDP(0.5)))
    assert "database" in said
    (entry,) = ledger.entries()
    assert entry.state == "returned"  # no answer was given for it
    source._open = opened  # the connection is there again
    assert curator.measure(Marginals(domain, ((0,),)), spend=PureDP(0.5)).values.sum() > 0
    curator.close()


def test_decimals_and_dates_of_a_driver_are_read_as_those_of_a_dataframe() -> None:
    """What no rule is made for, such as MySQL's objects."""
    cells = [Decimal("1.50"), None, Decimal("NaN")]
    found = links._of_objects(cells, None)
    assert found is cells
    assert links._of_objects([dt.date(2020, 1, 1)], None) == [dt.date(2020, 1, 1)]
    assert links._of_objects([1, 2**70], None) == [1, 2**70]
    assert links._of_objects([1, None], None).to_pylist() == [1, None]


KILLED = """
import sys
from synthdp import SqlSource
from synthdp import Integer
source = SqlSource(sys.argv[1], query="SELECT x FROM (SELECT 1 AS x, pg_sleep(300)::text AS slept) AS s WHERE slept = ''")
list(source.blocks({"x": Integer(0, 9)}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["url", "url of an engine"])
def test_a_client_that_is_killed_leaves_no_query_running(postgres: Server, way: str) -> None:
    def running() -> int:
        with psycopg.connect(postgres.url()) as connection:
            asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
            ((found,),) = connection.execute(asked).fetchall()
        return int(found)

    def waited(until: int) -> bool:
        return any(running() == until or time.sleep(0.2) for _ in range(100))

    client = subprocess.Popen([sys.executable, "-c", KILLED, DOORS[way](postgres)])
    assert waited(1)
    client.kill()
    client.wait()
    assert waited(0)


AFFINITIES = (
    "id INTEGER PRIMARY KEY, age INT, height REAL, paid NUMERIC(6,2), untyped, untyped_whole, ward TEXT, code VARCHAR(9), "
    "day DATE, flag BOOLEAN, gaps INTEGER, mixed, empty REAL"
)


def affine_rows() -> list[tuple[Any, ...]]:
    """Rows of a table with those columns."""
    found = []
    for i in range(1200):
        numbers = i, i * 7919 % 91, i * 31 % 97 / 7, i % 977 / 100, i * 13 % 89 / 4, i * 17 % 400
        texts = ["east", "west"][i % 2], f"{i % 7}a", f"2025-01-{1 + i % 28:02}"
        found.append((*numbers, *texts, i % 2, i % 60 if i % 5 else None, 4 if i % 3 else "x", None))
    return found


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("asked", [{"table": "t"}, {"table": "main.T"}, {"query": "SELECT * FROM t"}])
def test_a_draft_of_an_sqlite_table_is_the_draft_of_its_dataframe(asked: dict[str, str]) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE t ({AFFINITIES})")
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * 13)})", affine_rows())
        with pytest.warns(DraftWarning):
            of_frame = sd.draft(pd.read_sql("SELECT * FROM t", connection))
        with pytest.warns(DraftWarning):
            of_table = sd.draft(sd.SqlSource(connection, **asked))
    assert dict(of_table.schema) == dict(of_frame.schema)
    assert {type(of_table.schema[name]) for name in ("age", "untyped_whole", "gaps")} == {sd.Integer}
    assert {type(of_table.schema[name]) for name in ("height", "paid", "untyped")} == {sd.Continuous}
