"""A database keeps, of each person, the very rows that are kept here: whatever the ids are, and whatever the rows hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from no_noise import without_noise
from postgres_server import Server

import synthdp as sd
from synthdp.curator.private_table import PrivateTable, private_table
from synthdp.domain.domain import domain_of
from synthdp.errors import ParameterError
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.linear import Total
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.tables.sources.sql import SqlSource

SCHEMA = sd.Schema(
    {
        "n": sd.Integer(0, 9, special=(-1,)),
        "t": sd.Categorical(["a", "L'Aquila", "é"], nullable=True),
        "x": sd.Continuous(0.1, 2.3, nullable=True),
        "b": sd.Boolean(nullable=True),
        "d": sd.Datetime("2000-01-01", "2020-01-01", nullable=True),
    }
)
ROWS: list[tuple[Any, ...]] = [
    (0, "a", 0.1, True, "2000-01-01"),
    (9, "L'Aquila", 2.3, False, "1999-12-31 23:59:59.999999"),
    (-1, "é", float("nan"), None, "infinity"),
    (-(2**31), "e\u0301", float("-inf"), True, "-infinity"),
    (2**31 - 1, None, 5e-324, False, None),
    (5, "\\'--", -0.0, None, "0001-01-01"),
    (None, "", 1.7e308, True, "9999-12-31"),
]
"""What rows of a person hold, hostile values in every column."""

TEXTS = ["7", "07", "7.0", " 7", "7 ", "", "a", "A", "é", "e\u0301", "L'Aquila", "\\", "\\x37", "number:x7", "str:7", "NaN",
         "null", "\u200b", "\U00010000", "a" * 9000, None]  # fmt: skip
WHOLE = [0, 1, -1, 7, 9, 10, 15, 16, 255, -255, 32767, -32768, None]
LONG = [*WHOLE, 2**31, -(2**31), 2**53 + 1, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1]
MOMENTS = ["2000-01-01", "1999-12-31", "infinity", "-infinity", "0001-01-01", "5874000-01-01 BC", "294000-01-01", None]
UUIDS = ["00000000-0000-0000-0000-000000000000", "A0000000-0000-0000-0000-00000000000f", None]
IDS: dict[str, list[tuple[str, list[Any]]]] = {
    "postgres": [
        ("text", TEXTS), ("varchar(9000)", TEXTS), ("char(9)", [t for t in TEXTS if t is None or len(t) < 9]),
        ("smallint", WHOLE), ("integer", WHOLE), ("bigint", LONG), ("boolean", [True, False, None]), ("uuid", UUIDS),
        ("numeric", ["1", "1.0", "1.00", "-0", "0", "NaN", "Infinity", "1e-300", "1e300", "0.1", "7", None]),
        ("date", [*MOMENTS[:5], None]), ("timestamp", MOMENTS[:5] + MOMENTS[6:]), ("timestamptz", MOMENTS[:5] + MOMENTS[6:]),
        ("interval", ["1 month", "30 days", "720 hours", "1000000 years", None]), ("inet", ["::1", "127.0.0.1", None]),
        ("jsonb", ['{"a": 1}', '{"a":1}', "1", "1.0", None]),
    ],
    "duckdb": [
        ("VARCHAR", [*TEXTS, "a\x00", "a\x00b"]), ("SMALLINT", WHOLE), ("UTINYINT", [0, 7, 255, None]), ("BIGINT", LONG),
        ("BOOLEAN", [True, False, None]),
    ],
}  # fmt: skip
QUICK = {"text", "bigint", "numeric", "boolean", "VARCHAR", "BIGINT"}
EACH = [
    pytest.param(name, kind, marks=() if kind in QUICK else pytest.mark.slow)
    for name, kinds in IDS.items()
    for kind, _ in kinds
]
NUMBERS = itertools.count()


class Door:
    """A database, and how tables of persons come into it."""

    def __init__(self, name: str, asked: Any, connection: Any, mark: str) -> None:
        self.name, self.asked, self._connection, self._mark = name, asked, connection, mark

    def made(self, kind: str, rows: list[tuple[Any, ...]]) -> str:
        table = f"bounding{next(NUMBERS)}"
        columns = f'who {kind}, n integer, t text, x double precision, b boolean, d timestamp, "order" integer'
        self._connection.execute(f"CREATE TABLE {table} ({columns})")
        marks = ", ".join(
            f"CAST({self._mark} AS {sort})"
            for sort in (kind, "integer", "text", "double precision", "boolean", "timestamp", "integer")
        )
        if rows:
            self._connection.cursor().executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        return table


@pytest.fixture(scope="module")
def doors(postgres: Server) -> Iterator[dict[str, Door]]:
    with (
        duckdb.connect() as duck,
        psycopg.connect(postgres.url(), autocommit=True) as connection,
        psycopg.connect(postgres.url(), autocommit=True) as other,
    ):
        yield {
            "duckdb": Door("duckdb", duck, duck, "?"),
            "postgres": Door("postgres", postgres.url(), connection, "%s"),
            "psycopg": Door("psycopg", other, connection, "%s"),
        }


def statistics() -> list[Any]:
    domain = domain_of(SCHEMA, bins=5)
    return [Marginals(domain, tuple(c for k in (1, 2, 5) for c in all_cliques(domain, k))), Total(domain)]


def sums(source: Any, most: int) -> list[list[int]]:
    table = PrivateTable(source, SCHEMA, Adjacency(unit="who", rows=most))
    found = [table.exact(statistic).tolist() for statistic in statistics()]
    table.close()
    return found


def people(ids: list[Any], seed: int = 0) -> list[tuple[Any, ...]]:
    """Rows of persons who have none, one or many, some of them the same, in no order."""
    rng = np.random.default_rng(seed)
    chosen = [(who, rng.integers(0, len(ROWS), rng.integers(0, 9))) for who in ids]
    rows = [(who, *ROWS[i], 0) for who, places in chosen for i in places]
    return [rows[i] for i in rng.permutation(len(rows))]


@pytest.mark.sampled
@pytest.mark.parametrize(("database", "kind"), EACH)
def test_the_database_keeps_the_rows_that_are_kept_here(database: str, kind: str, doors: dict[str, Door]) -> None:
    door, ids = doors[database], dict(IDS[database])[kind]
    table = door.made(kind, people(ids))
    for most in (1, 3):
        streamed = sums(SqlSource(door.asked, table=table), most)
        assert sums(SqlSource(door.asked, table=table, push="counts"), most) == streamed
        assert streamed[1][0] > 0


rows_of_people = st.lists(
    st.tuples(st.sampled_from(["p", "q", "r", None]), st.sampled_from(range(len(ROWS)))), max_size=14
)


@pytest.mark.parametrize("database", ["duckdb", pytest.param("postgres", marks=pytest.mark.slow)])
@settings(
    max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(rows=rows_of_people, most=st.integers(1, 3))
def test_removing_a_person_moves_at_most_so_many_rows_of_the_databases_counts(
    database: str, rows: list[tuple[Any, int]], most: int, doors: dict[str, Door]
) -> None:
    """Brute force over who leaves: one cell a row, so that the distance is a number of rows."""
    door = doors[database]
    table = door.made("text", [(who, *ROWS[i], i) for who, i in rows])
    schema = sd.Schema({"order": sd.Integer(0, len(ROWS) - 1)})
    statistic = Marginals(domain_of(schema, bins=len(ROWS)), ((0,),))

    def counted(left: str) -> np.ndarray:
        query = f"SELECT * FROM {table} WHERE who IS NULL OR who <> '{left}'"
        private = PrivateTable(
            SqlSource(door.asked, query=query, push="counts"), schema, Adjacency(unit="who", rows=most)
        )
        found = private.exact(statistic)
        private.close()
        return found

    whole = counted("nobody")
    for person in ("p", "q", "r"):
        rest = counted(person)
        assert np.abs(whole - rest).sum() == min(most, sum(who == person for who, _ in rows))
        assert (whole >= rest).all()


@pytest.mark.sampled
@pytest.mark.parametrize("database", ["duckdb", "postgres", pytest.param("psycopg", marks=pytest.mark.slow)])
def test_a_release_whose_rows_stay_measures_what_one_whose_rows_stream_does(
    database: str, doors: dict[str, Door], monkeypatch: pytest.MonkeyPatch
) -> None:
    door = doors[database]
    table = door.made("text", people([f"p{i % 30}" for i in range(90)], seed=1))
    without_noise(monkeypatch)
    answers = []
    for push in ("rows", "codes", "counts"):
        curator = sd.Curator(
            SqlSource(door.asked, table=table, push=push), schema=SCHEMA, budget=sd.PureDP(1.0), privacy_unit="who",
            max_rows_per_unit=2,
        )  # fmt: skip
        answers.append(curator.measure(statistics()[0]).answers.tolist())
        curator.close()
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize(
    ("database", "kind"), [("postgres", "double precision"), ("postgres", "bytea"), ("duckdb", "DOUBLE")]
)
def test_ids_that_the_database_cannot_write_exactly_are_refused_before_anything_is_read(
    database: str, kind: str, doors: dict[str, Door]
) -> None:
    door = doors[database]
    source = SqlSource(door.asked, table=door.made(kind, []), push="counts")
    with pytest.raises(ParameterError, match="'who'"):
        private_table(source, SCHEMA, Adjacency(unit="who"))


def test_texts_of_a_database_without_an_encoding_are_persons_by_their_bytes(postgres: Server) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE bounding_bytes ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
    url = postgres.url(database="bounding_bytes")
    hexadecimal = ["ff", "fe", "c3", "c3a9", "edb080", "61ff", "ff61", "61"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE people (who text, n integer)")
        for one in hexadecimal * 3:
            text = f"convert_from(decode('{one}', 'hex'), 'SQL_ASCII')"
            connection.execute(f"INSERT INTO people SELECT {text}, i FROM generate_series(0, 4) i")
    schema = sd.Schema({"n": sd.Integer(0, 9)})
    statistic = Marginals(domain_of(schema, bins=10), ((0,),))
    found = []
    for push in ("rows", "codes", "counts"):
        table = PrivateTable(SqlSource(url, table="people", push=push), schema, Adjacency(unit="who", rows=2))
        found.append(table.exact(statistic).tolist())
        table.close()
    assert found[0] == found[1] == found[2]
    assert sum(found[0]) == 2 * len(hexadecimal)
