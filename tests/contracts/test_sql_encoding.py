"""What a database encodes or counts is, integer for integer, what comes of its rows when they stream.

Brute force: every kind of declaration over every type that the database can encode, with values at and beside every edge,
and values that try to stop the arithmetic.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import sqlite3
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import psycopg
import pytest
from encoding_cases import CASES
from postgres_server import Server

import synthdp as sd
from synthdp import Boolean, Categorical, Continuous, Datetime, Identifier, Integer, Schema
from synthdp.curator.private_table import PrivateTable, private_table
from synthdp.domain.domain import domain_of
from synthdp.domain.encoder import encode
from synthdp.errors import ParameterError
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.distances import MarginalDistances
from synthdp.queries.linear import FittingRows, Total
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.queries.products import ClippedProducts, PairProducts
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.sources.sql import SqlSource
from synthdp.tables.sql.encoding import WORDS

EACH = [(case, number) for case, (_, types) in CASES.items() for number in range(len(types))]


def made(database: Any, kind: str, values: list[Any], mark: str) -> str:
    """A table of one column that holds some values."""
    name = f"encoding{next(COUNT)}"
    database.execute(f"CREATE TABLE {name} (x {kind})")
    for value in values:
        database.execute(f"INSERT INTO {name} VALUES (CAST({mark} AS {kind}))", [value])
    return name


COUNT = itertools.count()


@pytest.fixture(scope="module")
def doors(postgres: Server) -> Any:
    with (
        duckdb.connect() as duck,
        psycopg.connect(postgres.url(), autocommit=True) as connection,
        psycopg.connect(postgres.url(), autocommit=True) as other,
    ):
        yield {
            "duckdb": (duck, duck, "?"),
            "postgres": (postgres.url(), connection, "%s"),
            "psycopg": (other, connection, "%s"),
        }


def columns_of(case: str) -> tuple[str, Schema]:
    """A query that gives one column under many names, and their declarations."""
    columns = CASES[case][0]
    return ", ".join(f'x AS "{name}"' for name in columns), Schema({**columns})


@pytest.mark.sampled
@pytest.mark.parametrize(("case", "number"), EACH)
@pytest.mark.parametrize("database", ["duckdb", "postgres"])
def test_the_database_encodes_every_value_as_the_encoder_does(
    database: str, case: str, number: int, doors: Any
) -> None:
    door, connection, mark = doors[database]
    kind, values = CASES[case][1][number]
    fitting = [v for v in values if not (kind == "integer" and isinstance(v, int) and abs(v) >= 2**31)]
    table = made(connection, kind, fitting, mark)
    selected, schema = columns_of(case)
    query = f"SELECT {selected} FROM {table}"
    source = SqlSource(door, query=query, push="codes")
    assert set(source._stages(schema)) == set(schema)  # nothing comes as values
    found = source.indices(schema)
    assert found is not None
    blocks = [block for block, _ in found]
    streamed = [*SqlSource(door, query=query).blocks(schema)]
    for j, (name, column) in enumerate(schema.items()):
        expected = np.concatenate([encode(column, block[name]) for block in streamed])
        np.testing.assert_array_equal(np.concatenate([block[j] for block in blocks]), expected, err_msg=name)
    source.forget()


SCHEMA = Schema(
    {
        "age": Integer(0, 90, special=(-1,)),
        "city": Categorical(["Oslo", "L'Aquila"], nullable=True),
        "height": Continuous(0.1, 2.3, nullable=True, special=(9.5,)),
        "member": Boolean(nullable=True),
        "born": Datetime("2000-01-01", "2020-01-01", nullable=True),
        "id": Identifier(),
    }
)


def frame_of(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    born = pd.Series(np.datetime64("1999-06-01", "us") + rng.integers(0, 8000, rows).astype("timedelta64[D]"))
    return pd.DataFrame(
        {
            "age": rng.choice([-1, -7, 0, 3, 45, 90, 95], rows),
            "city": np.array(["Oslo", "L'Aquila", None, "Paris"], object)[rng.integers(0, 4, rows)],
            "height": rng.choice([0.1, 0.3, 2.3, 9.5, np.nan, np.inf, -np.inf, -5.0, 1.2], rows),
            "member": pd.array(np.array([True, False, None], object)[rng.integers(0, 3, rows)], "boolean"),
            "born": born.where(rng.random(rows) < 0.9),
            "id": [f"p{i % 40}" for i in range(rows)],
        }
    )


def _plain(cell: Any) -> Any:
    return None if pd.isna(cell) else cell.item() if isinstance(cell, np.generic) else cell


@pytest.fixture(scope="module")
def people(doors: Any) -> str:
    kinds = ["age integer", "city text", "height double precision", "member boolean", "born timestamp", "id text"]
    rows = [[_plain(cell) for cell in row] for row in frame_of().itertuples(index=False)]
    for name, mark in (("duckdb", "?"), ("postgres", "%s")):
        connection = doors[name][1]
        connection.execute(f"CREATE TABLE people ({', '.join(kinds)})")
        connection.cursor().executemany(f"INSERT INTO people VALUES ({', '.join([mark] * len(kinds))})", rows)
    return "people"


def statistics() -> list[Any]:
    found: list[Any] = []
    for bins in (3, 7):
        domain = domain_of(SCHEMA, bins=bins)
        every = [clique for way in (1, 2, 3) for clique in all_cliques(domain, way)]
        pairs = Marginals(domain, (*all_cliques(domain, 2), (3, 1), (2, 0, 4)))
        found += [
            Marginals(domain, tuple(every)),
            pairs,
            Total(domain),
            MarginalDistances(pairs, np.full(pairs.k, 7), 2),
        ]
    part = domain_of(SCHEMA, bins=4).project(["city", "age"])
    return [*found, Marginals(part, ((0, 1),))]


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("database", ["duckdb", "postgres", pytest.param("psycopg", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "push", ["codes", "counts", *(pytest.param(way, marks=pytest.mark.slow) for way in ("rows", "auto"))]
)
def test_the_counts_are_those_of_the_dataframe_whatever_the_database_does(
    database: str, push: str, doors: Any, people: str
) -> None:
    table = PrivateTable(SqlSource(doors[database][0], table=people, push=push), SCHEMA, Adjacency())
    plain = PrivateTable(FrameSource(frame_of()), SCHEMA, Adjacency())
    for statistic in statistics():
        np.testing.assert_array_equal(table.exact(statistic), plain.exact(statistic))
    table.close()


@pytest.mark.parametrize("database", ["duckdb", "postgres"])
def test_rows_of_a_person_are_bounded_whether_values_or_codes_come(database: str, doors: Any, people: str) -> None:
    adjacency = Adjacency(unit="id", rows=2)
    statistic = statistics()[0]
    expected = PrivateTable(FrameSource(frame_of()), SCHEMA, adjacency).exact(statistic)
    for push in ("rows", "codes", "auto"):
        table = PrivateTable(SqlSource(doors[database][0], table=people, push=push), SCHEMA, adjacency)
        np.testing.assert_array_equal(table.exact(statistic), expected)
        table.close()


def exact_there_and_here(statistic: Any, source: Any) -> tuple[list[int], list[int]]:
    table = PrivateTable(source, SCHEMA, Adjacency())
    found = table.exact(statistic).tolist()
    table.close()
    return found, PrivateTable(FrameSource(frame_of()), SCHEMA, Adjacency()).exact(statistic).tolist()


@pytest.mark.sampled
@pytest.mark.parametrize("database", ["duckdb", "postgres"])
@pytest.mark.parametrize("kind", ["every pair", "some pairs"])
@pytest.mark.parametrize("norm", [1, 5, 77, 10**6])
def test_clipped_products_are_summed_in_the_database(
    database: str, kind: str, norm: int, doors: Any, people: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No list of rows comes: one row of sums for every few pairs."""
    domain = domain_of(SCHEMA, bins=9)
    rng = np.random.default_rng(norm)
    scores = tuple(rng.integers(-9000, 9000, size) for size in domain.shape)
    products = ClippedProducts(domain, scores, 2000, norm)
    if kind == "some pairs":
        products = PairProducts(domain, scores, ((1, 2), (0, 2)), 2000, norm)
    monkeypatch.setattr("synthdp.tables.sql.counting.MOST_SUMS", 4)
    monkeypatch.setattr("synthdp.tables.sources.sql.listing_query", None)
    there, here = exact_there_and_here(products, SqlSource(doors[database][0], table=people, push="counts"))
    assert there == here


def test_what_is_neither_a_table_nor_products_is_summed_from_combinations(doors: Any, people: str) -> None:
    domain = domain_of(SCHEMA, bins=4).project(["age", "height"])
    fitting = FittingRows(Total(domain))
    there, here = exact_there_and_here(fitting, SqlSource(doors["postgres"][0], table=people, push="counts"))
    assert there == here


def test_a_table_without_rows_counts_nothing(doors: Any, people: str) -> None:
    domain = domain_of(SCHEMA, bins=4)
    products = ClippedProducts(domain, tuple(np.ones(size, np.int64) for size in domain.shape), 1, 5)
    for push in ("codes", "counts"):
        source = SqlSource(doors["postgres"][0], query=f"SELECT * FROM {people} WHERE age > 1000", push=push)
        table = PrivateTable(source, SCHEMA, Adjacency())
        assert not table.exact(statistics()[0]).any()
        assert not table.exact(products).any()
        table.close()


def refused(source: Any, schema: Schema, unit: str | None = None) -> str:
    with pytest.raises(ParameterError) as caught:
        private_table(source, schema, Adjacency(unit=unit))
    return str(caught.value)


def test_what_cannot_be_counted_there_is_refused_before_anything_is_spent(
    doors: Any, people: str, tmp_path: Any
) -> None:
    door = doors["postgres"][0]
    counted = SqlSource(door, table=people, push="counts")
    odd = SqlSource(door, query="SELECT 1.5::numeric::money AS x, 1 AS y", push="counts")
    assert "cannot encode column 'x', of type money" in refused(
        odd, Schema({"x": Continuous(0, 1), "y": Integer(0, 1)})
    )
    assert "of column 'age'" in refused(counted, Schema({"age": Integer()}))
    with (
        contextlib.closing(sqlite3.connect(":memory:")) as other,
        pytest.raises(ParameterError, match="push"),
    ):
        SqlSource(other, query="SELECT 1 AS a", push="counts")
    ledger = sd.Ledger(tmp_path / "ledger.sqlite")
    real = SqlSource(door, query=f"SELECT age, 0.5::float8 AS id FROM {people}", push="counts")
    with pytest.raises(ParameterError, match="privacy_unit"):
        sd.Curator(real, schema=Schema({"age": Integer(0, 90)}), budget=sd.PureDP(1.0), ledger=ledger, dataset="d",
                   privacy_unit="id")  # fmt: skip
    assert not ledger.entries()


def test_columns_that_the_database_cannot_encode_come_as_values(doors: Any) -> None:
    query = "SELECT i % 10 AS a, (i / 7.0)::numeric AS b, 'x' || i % 3 AS c FROM generate_series(1, 50) i"
    schema = Schema({"a": Integer(0, 9), "b": Continuous(0, 5), "c": Categorical(["x1", "x2"])})
    statistic = Marginals(domain_of(schema, bins=4), ((0, 1, 2),))
    door = doors["postgres"][0]
    sums = []
    for push in ("rows", "codes", "auto"):
        table = PrivateTable(SqlSource(door, query=query, push=push), schema, Adjacency())
        sums.append(table.exact(statistic).tolist())
        table.close()
    assert sums[0] == sums[1] == sums[2]


def test_only_databases_whose_arithmetic_is_proven_here_are_listed() -> None:
    assert set(WORDS) == {"postgres", "duckdb"}


SENT_AS_TEXT_OR_MICROSECONDS: dict[str, tuple[dict[str, Any], list[str | None]]] = {
    "mood_of_tests": ({"c": Categorical(["good", "so so"], nullable=True)}, ["good", "bad", "so so", None]),
    "uuid": (
        {"c": Categorical(["00000000-0000-0000-0000-000000000001"], nullable=True)},
        ["00000000-0000-0000-0000-000000000001", "ffffffff-0000-0000-0000-000000000001", None],
    ),
    "inet": ({"c": Categorical(["10.0.0.1", "10.1.0.0/16"])}, ["10.0.0.1", "10.0.0.1/32", "10.1.0.0/16", "::1", None]),
    "time": (
        {"t": sd.Time(nullable=True), "h": sd.Time("08:00", "17:00"), "m": sd.Time(resolution="min")},
        ["00:00", "07:59:59.999999", "08:00", "12:34:56.789", "17:00", "17:00:00.000001", "23:59:59.999999", "24:00", None],
    ),
    "numeric": (
        {
            "c": Continuous(-3, 90, decimals=2, nullable=True, special=(0, -99, 0.07)),
            "d": sd.Decimal(-12.5, 99_999_999.99),
            "h": Continuous(0.5, 14, step=0.5),
            "u": Continuous(0, 1),
            "t": Continuous(0.1, 2.3, nullable=True, special=(9.5, -1)),
        },
        ["0", "0.005", "0.015", "0.025", "-0.005", "1.005", "2.675", "0.07", "0.0700", "0.07000000000000000000001",
         "-99", "9.5", "9.500000000000000000000000001", "-1", "0.1", "2.3", "1", "0.99999999999999999999",
         "99999999.985", "99999999.995", "123456789012345678901234567890.5", "1e400", "-1e400", "1e-400", "-1e-400",
         "1e-320", "4e-324", "2.4e-324", "-2.4703282292062328e-324", "2.4703282292062327e-324", "3e-291", "0.25",
         "0.75", "13.75", "NaN", "Infinity", "-Infinity", None],
    ),
    "interval": (
        {
            "d": sd.Duration(dt.timedelta(0), dt.timedelta(30), nullable=True),
            "h": sd.Duration(dt.timedelta(hours=1), dt.timedelta(2), resolution="h"),
        },
        ["0", "1 hour", "59 min 59.999999 s", "2 days", "2 days 1 us", "1 mon", "-3 days", "300000 years",
         "-300000 years", None],
    ),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("kind", SENT_AS_TEXT_OR_MICROSECONDS)
def test_types_that_come_as_texts_or_microseconds_are_encoded_in_postgresql_as_they_are_here(
    kind: str, doors: Any
) -> None:
    door, connection, _ = doors["postgres"]
    if kind == "mood_of_tests":
        connection.execute("DROP TYPE IF EXISTS mood_of_tests CASCADE")
        connection.execute("CREATE TYPE mood_of_tests AS ENUM ('good', 'bad', 'so so')")
    columns, values = SENT_AS_TEXT_OR_MICROSECONDS[kind]
    name = f"encoding{next(COUNT)}"
    connection.execute(f"CREATE TABLE {name} (x {kind})")
    for value in values:
        connection.execute(f"INSERT INTO {name} VALUES (%s::text::{kind})", [value])
    query = f"SELECT {', '.join(f'x AS {one}' for one in columns)} FROM {name}"
    schema = Schema(columns)
    source = SqlSource(door, query=query, push="codes")
    assert set(source._stages(schema)) == set(schema)
    found = source.indices(schema)
    assert found is not None
    blocks = [block for block, _ in found]
    streamed = [*SqlSource(door, query=query).blocks(schema)]
    for j, (each, column) in enumerate(schema.items()):
        expected = np.concatenate([encode(column, block[each]) for block in streamed])
        np.testing.assert_array_equal(np.concatenate([block[j] for block in blocks]), expected, err_msg=each)
    source.forget()
    counted = SqlSource(door, query=query, push="counts")
    table, _ = private_table(counted, schema, Adjacency())
    assert table.exact(Total(domain_of(schema, bins=3))).tolist() == [len(values)]
    counted.forget()
