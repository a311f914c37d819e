"""Several tables of one database: of one moment, related by its foreign keys, and written all or none."""

from __future__ import annotations

import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import psycopg
import pytest
from adbc_driver_postgresql import dbapi
from postgres_server import Server

import synthdp as sd
from synthdp.domain.encoder import Numbers
from synthdp.domain.histories import Layout
from synthdp.errors import DataError, DraftWarning, ParameterError
from synthdp.sampling.possible_rules import evenly

TABLES = (
    "CREATE TABLE {0}persons (id BIGINT PRIMARY KEY, sex VARCHAR(1))",
    "CREATE TABLE {0}visits (id BIGINT REFERENCES {0}persons (id), visit BIGINT PRIMARY KEY, year INTEGER)",
    "CREATE TABLE {0}bills (id BIGINT, visit BIGINT REFERENCES {0}visits (visit), paid INTEGER)",
)
SCHEMA = sd.DatabaseSchema(
    {
        "persons": sd.Schema({"sex": sd.Categorical(["f", "m"])}),
        "visits": sd.Schema({"year": sd.Integer(2010, 2019)}),
        "bills": sd.Schema({"paid": sd.Integer(0, 99)}),
    },
    [
        sd.Relation("persons", "visits", key="id", at_most=3, order="year"),
        sd.Relation("visits", "bills", key="visit", at_most=2),
    ],
)


@pytest.fixture(params=["sqlite", "duckdb", "postgresql", "psycopg"])
def door(request: pytest.FixtureRequest, postgres: Server, tmp_path: Path) -> Any:
    """A database with three tables, by each way in."""
    if request.param == "sqlite":
        with closing(sqlite3.connect(tmp_path / "t.sqlite")) as connection, connection:
            for statement in TABLES:
                connection.execute(statement.format(""))
        yield f"sqlite:///{tmp_path}/t.sqlite"
        return
    if request.param == "duckdb":
        with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
            for statement in TABLES:
                connection.execute(statement.format(""))
        yield f"duckdb:///{tmp_path}/t.duckdb"
        return
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS bills, visits, persons")
        for statement in TABLES:
            connection.execute(statement.format(""))
    if request.param == "postgresql":
        yield postgres.url()
        return
    with psycopg.connect(postgres.url()) as connection:
        yield connection


def many(source: Any, column: str = "id") -> int:
    """How many rows a source has."""
    blocks = [one[column] for one in source.blocks({}, extra=(column,))]
    return sum(len(one.values if isinstance(one, Numbers) else one.codes) for one in blocks)


def counts(door: Any) -> list[int]:
    found = []
    for name in ("persons", "visits", "bills"):
        source = sd.SqlSource(door, table=name)
        found.append(many(source))
        source.forget()
    return found


@pytest.mark.sampled
def test_foreign_keys_of_the_catalogue_make_the_relations(door: Any) -> None:
    database = sd.SqlDatabase(door, ["persons", "visits", "bills"])
    made = database.relations(at_most={"visits": 3, "bills": 2}, order={"visits": "year"})
    assert sorted(made, key=lambda one: one.child) == sorted(SCHEMA.relations, key=lambda one: one.child)
    with pytest.raises(ParameterError, match="at_most"):
        database.relations(at_most={"visits": 3})
    with pytest.raises(ParameterError, match="'persons'"):
        database.relations(at_most={"visits": 3, "bills": 2, "persons": 1})
    database.forget()


def test_a_foreign_key_with_other_names_is_refused_with_the_way_that_works() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(TABLES[0].format(""))
        connection.execute("CREATE TABLE visits (person BIGINT REFERENCES persons (id), year INTEGER)")
        connection.executemany("INSERT INTO persons VALUES (?, ?)", [(i, "fm"[i % 2]) for i in range(100)])
        connection.executemany("INSERT INTO visits VALUES (?, ?)", [(i, 2010 + i % 10) for i in range(100)])
        with pytest.raises(DataError, match=r"'visits'.*'persons'"):
            sd.SqlDatabase(connection, ["persons", "visits"]).relations(at_most={"visits": 2})
        renamed = {"persons": "persons", "visits": "SELECT person AS id, year FROM visits"}
        written = [sd.Relation("persons", "visits", key="id", at_most=2)]
        with pytest.warns(DraftWarning):
            drafted = sd.draft(sd.SqlDatabase(connection, renamed), relations=written)
    assert drafted.relations == tuple(written)
    assert list(drafted.tables["visits"].schema) == ["year"]


@pytest.mark.sampled
def test_synthetic_tables_are_all_there_and_joined_or_none_is(door: Any) -> None:
    database = sd.SqlDatabase(door, ["persons", "visits", "bills"])
    model = evenly(Layout(SCHEMA))
    model.sample_to(database, rows=40, random_state=0)
    wanted = {name: len(one) for name, one in model.sample(40, random_state=0).items()}
    assert counts(door) == [wanted[name] for name in ("persons", "visits", "bills")]
    with pytest.raises(DataError, match="'persons'") as caught:
        model.sample_to(database, rows=40, random_state=0)  # the keys are there
    assert "no row was written" in str(caught.value)
    assert counts(door) == [wanted[name] for name in ("persons", "visits", "bills")]


def test_two_tables_are_read_at_one_moment(postgres: Server) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS bills, visits, persons")
        for statement in TABLES:
            connection.execute(statement.format(""))
        connection.execute("INSERT INTO persons VALUES (1, 'f')")
        database = sd.SqlDatabase(postgres.url(), ["persons", "visits"])
        assert many(database["persons"]) == 1
        connection.execute("INSERT INTO visits VALUES (1, 1, 2015)")
        assert many(database["visits"]) == 0
        database.forget()
        assert many(database["visits"]) == 1
        database.forget()


def test_the_tables_that_were_read_are_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        for prefix in ("", "made_"):
            for statement in TABLES[:2]:
                connection.execute(statement.format(prefix))
        connection.executemany("INSERT INTO persons VALUES (?, ?)", [(i, "fm"[i % 2]) for i in range(300)])
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", [(i, i, 2010 + i % 10) for i in range(300)])
    schema = sd.DatabaseSchema({name: SCHEMA.tables[name] for name in ("persons", "visits")}, SCHEMA.relations[:1])
    database = sd.SqlDatabase(f"sqlite:///{path}", ["persons", "visits"])
    release = sd.DatabaseRelease(schema=schema, epsilon=2.0, random_state=0).fit(database)
    with pytest.raises(ParameterError, match="private"):
        release.sample_to(database)
    with closing(sqlite3.connect(path)) as connection, pytest.raises(ParameterError, match="private"):
        release.sample_to(sd.SqlDatabase(connection, {"persons": "made_persons", "visits": "main.Visits"}))
    sink = sd.SqlDatabase(f"sqlite:///{path}", {"persons": "made_persons", "visits": "made_visits"})
    release.sample_to(sink, rows=50)
    assert many(sink["persons"]) == 50
    one = sd.SyntheticRelease(schema=schema.tables["persons"], epsilon=1.0).fit(database["persons"])
    with pytest.raises(ParameterError, match="private"):
        one.sample_to(sd.SqlSource(f"sqlite:///{path}", table="persons"))
    with pytest.raises(ParameterError, match="private"):
        pickle.loads(pickle.dumps(one)).sample_to(sd.SqlSource(f"sqlite:///{path}", table="persons"))


def test_a_pickled_release_tells_nothing_of_the_connection_that_was_read() -> None:
    with sqlite3.connect(":memory:") as connection:
        connection.execute(TABLES[0].format(""))
        connection.executemany("INSERT INTO persons VALUES (?, ?)", [(i, "fm"[i % 2]) for i in range(300)])
    source = sd.SqlSource(connection, table="persons")
    one = sd.SyntheticRelease(schema=SCHEMA.tables["persons"], epsilon=1.0).fit(source)
    with pytest.raises(ParameterError, match="private"):
        one.sample_to(source)
    assert str(id(connection)).encode() not in pickle.dumps(one)
    database = sd.DatabaseSchema({"persons": SCHEMA.tables["persons"]}, ())
    several = sd.DatabaseRelease(schema=database, epsilon=1.0).fit({"persons": source})
    assert str(id(connection)).encode() not in pickle.dumps(several)
    connection.close()


PERSON = SCHEMA.tables["persons"]
OTHER_WAYS = {
    "SQLite, a relative path": lambda path: (f"sqlite:///{path.name}", "persons"),
    "SQLite, another case": lambda path: (f"sqlite:///{path}", "PERSONS"),
    "SQLite, a link": lambda path: (f"sqlite:///{path}.link", "persons"),
    "SQLite, a connection": lambda path: (sqlite3.connect(path), "main.persons"),
    "SQLite, attached": lambda path: (attached(path), "one.persons"),
}


def attached(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("ATTACH ? AS one", (str(path),))
    return connection


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_a_table_that_was_read_is_not_written_to_by_another_way(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.sqlite"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.sqlite.link").symlink_to(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        for prefix in ("", "made_"):
            connection.execute(TABLES[0].format(prefix))
        connection.executemany("INSERT INTO persons VALUES (?, ?)", [(i, "fm"[i % 2]) for i in range(100, 400)])
    url = f"sqlite:///{path}"
    one = sd.SyntheticRelease(schema=PERSON, epsilon=1.0).fit(sd.SqlSource(url, table="persons"))
    there, table = OTHER_WAYS[way](path)
    with pytest.raises(ParameterError, match="private"):
        one.sample_to(sd.SqlSource(there, table=table), rows=5)
    assert many(sd.SqlSource(url, table="persons")) == 300
    one.sample_to(sd.SqlSource(there, table=table.lower().replace("persons", "made_persons")), rows=5)
    assert str(path).encode() not in pickle.dumps(one).replace(url.encode(), b"")
    if not isinstance(there, str):
        there.commit()
        there.close()


def test_a_table_of_duckdb_that_was_read_is_not_written_to_by_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.duckdb"
    monkeypatch.chdir(tmp_path)
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE persons (sex VARCHAR)")
        connection.execute("CREATE TABLE made (sex VARCHAR)")
        connection.executemany("INSERT INTO persons VALUES (?)", [("fm"[i % 2],) for i in range(300)])
    for source in (sd.SqlSource(f"duckdb:///{path}", table="persons"), sd.DuckDBSource(path, name="persons")):
        one = sd.SyntheticRelease(schema=PERSON, epsilon=1.0).fit(source)
        del source
        for table in ("persons", "Persons", "main.persons", "t.main.persons"):
            with pytest.raises(ParameterError, match="private"):
                one.sample_to(sd.SqlSource("duckdb:///t.duckdb", table=table), rows=5)
    one.sample_to(sd.SqlSource("duckdb:///t.duckdb", table="made"), rows=5)
    assert many(sd.SqlSource("duckdb:///t.duckdb", table="made"), "sex") == 5


OVER_PERSONS = (
    "CREATE VIEW seen AS SELECT sex FROM persons WHERE sex <> 'x'",
    "CREATE VIEW seen_twice AS SELECT s.sex FROM (SELECT sex FROM seen) s UNION ALL SELECT sex FROM made",
)
READ = (
    {"table": "persons"},
    {"table": "seen"},
    {"table": "seen_twice"},
    {"query": "SELECT sex FROM seen WHERE sex = 'f'"},
)


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_table_below_a_view_or_a_query_that_was_read_is_not_written_to(kind: str, tmp_path: Path) -> None:
    url = f"{kind}:///{tmp_path / 't.db'}"
    make = {"sqlite": sqlite3.connect, "duckdb": duckdb.connect}[kind]
    with closing(make(tmp_path / "t.db")) as connection:
        for statement in ("CREATE TABLE persons (sex VARCHAR)", "CREATE TABLE made (sex VARCHAR)", *OVER_PERSONS):
            connection.execute(statement)
        connection.execute("CREATE TABLE synthetic (sex VARCHAR)")
        connection.executemany("INSERT INTO persons VALUES (?)", [("fm"[i % 2],) for i in range(300)])
        connection.commit()
    for read in READ:
        one = sd.SyntheticRelease(schema=PERSON, epsilon=1.0).fit(sd.SqlSource(url, **read))
        with pytest.raises(ParameterError, match="private"):
            one.sample_to(sd.SqlSource(url, table="persons"), rows=5)
        one.sample_to(sd.SqlSource(url, table="synthetic"), rows=5)
    assert many(sd.SqlSource(url, table="persons"), "sex") == 300
    assert many(sd.SqlSource(url, table="synthetic"), "sex") == 5 * len(READ)


def test_a_view_of_the_table_that_was_read_is_not_written_to_where_it_takes_rows(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 't.db'}"
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection, connection:
        connection.executescript(f"CREATE TABLE persons (sex VARCHAR); CREATE TABLE made (sex); {OVER_PERSONS[0]};")
        connection.execute("CREATE TRIGGER t INSTEAD OF INSERT ON seen BEGIN INSERT INTO persons VALUES (new.sex); END")
        connection.executemany("INSERT INTO persons VALUES (?)", [("fm"[i % 2],) for i in range(300)])
    one = sd.SyntheticRelease(schema=PERSON, epsilon=1.0).fit(sd.SqlSource(url, table="persons"))
    with pytest.raises(ParameterError, match="private"):
        one.sample_to(sd.SqlSource(url, table="seen"), rows=5)
    assert many(sd.SqlSource(url, table="persons"), "sex") == 300


def test_a_table_below_a_view_of_a_duckdb_file_that_was_read_is_not_written_to(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute('CREATE TABLE "per.sons" (sex VARCHAR); CREATE VIEW seen AS SELECT * FROM "per.sons"')
        connection.execute("CREATE TABLE made AS SELECT * FROM seen")
        connection.executemany('INSERT INTO "per.sons" VALUES (?)', [("fm"[i % 2],) for i in range(300)])
    source = sd.DuckDBSource(tmp_path / "t.duckdb", name="seen")
    one = sd.SyntheticRelease(schema=PERSON, epsilon=1.0).fit(source)
    del source
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{tmp_path / 't.duckdb'}' AS other")
        with pytest.raises(ParameterError, match="private"):
            one.sample_to(sd.SqlSource(connection, table='other.main."per.sons"'), rows=5)
        one.sample_to(sd.SqlSource(connection, table="other.main.made"), rows=5)


@pytest.mark.landing
def test_a_table_of_postgresql_that_was_read_is_not_written_to_by_another_way(postgres: Server) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS bills, visits, persons, made_persons, part_persons CASCADE")
        connection.execute(TABLES[0].format(""))
        connection.execute("CREATE TABLE made_persons (sex VARCHAR(1))")
        connection.execute("CREATE TABLE part_persons () INHERITS (persons)")
        connection.execute("CREATE VIEW seen_persons AS SELECT p.* FROM (SELECT * FROM persons) p")
        connection.execute("INSERT INTO persons SELECT i, 'f' FROM generate_series(101, 400) i")
    one = sd.SyntheticRelease(schema=PERSON, epsilon=1.0).fit(sd.SqlSource(postgres.url(), table="persons"))
    of_view = sd.SyntheticRelease(schema=PERSON, epsilon=1.0).fit(sd.SqlSource(postgres.url(), table="seen_persons"))
    elsewhere = f"postgresql:///postgres?host={postgres.folder}&user=postgres"
    with psycopg.connect(postgres.url()) as connection, dbapi.connect(postgres.url()) as adbc:
        ways = [
            (elsewhere, "persons"),
            (connection, "persons"),
            (adbc, "persons"),
            (postgres.url(), "public.persons"),
            (postgres.url(), "part_persons"),
        ]
        for release in (one, of_view):
            for there, table in ways:
                with pytest.raises(ParameterError, match="private"):
                    release.sample_to(sd.SqlSource(there, table=table), rows=5)
        with pytest.raises(ParameterError, match="private"):
            one.sample_to(sd.SqlSource(connection, table="seen_persons"), rows=5)
        one.sample_to(sd.SqlSource(adbc, table="made_persons"), rows=5)
        assert many(sd.SqlSource(elsewhere, table="persons")) == 300
        (number,) = connection.execute("SELECT system_identifier::text FROM pg_control_system()").fetchone()
        assert any(number in text for text in one._read)
        assert number.encode() not in pickle.dumps(one)
        connection.rollback()
        connection.execute("DROP VIEW seen_persons")
        connection.execute("DROP TABLE part_persons, made_persons")


def test_a_draft_of_a_database_has_its_relations_and_of_a_folder_its_tables(tmp_path: Path) -> None:
    connection = sqlite3.connect(":memory:")
    for statement in TABLES[:2]:
        connection.execute(statement.format(""))
    connection.executemany("INSERT INTO persons VALUES (?, ?)", [(i, "fm"[i % 2]) for i in range(100)])
    connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", [(i, i, 2010 + i % 10) for i in range(100)])
    with pytest.warns(DraftWarning, match="private"):
        drafted = sd.draft(sd.SqlDatabase(connection, ["persons", "visits"]), at_most={"visits": 3})
    assert drafted.relations == (sd.Relation("persons", "visits", key="id", at_most=3),)
    connection.close()
    assert list(drafted.tables["persons"]) == ["sex"]
    pd.DataFrame({"id": range(100), "sex": ["f", "m"] * 50}).to_csv(tmp_path / "persons.csv", index=False)
    pd.DataFrame({"id": range(100), "year": 2010 + np.arange(100) % 10}).to_csv(tmp_path / "visits.csv", index=False)
    with pytest.warns(DraftWarning, match="private"):
        again = sd.draft(tmp_path, relations=drafted.relations)
    assert list(again.tables) == ["persons", "visits"]
    with pytest.raises(ParameterError, match="SqlDatabase"):
        sd.draft(tmp_path, at_most={"visits": 3})


def test_names_with_a_percent_sign_or_a_quote_are_read_and_written(postgres: Server) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute('DROP TABLE IF EXISTS "wei""rd"')
        connection.execute('CREATE TABLE "wei""rd" ("paid %s" integer, "100 %" integer)')
    schema = sd.Schema({"paid %s": sd.Integer(0, 9), "100 %": sd.Integer(0, 9)})
    release = sd.SyntheticRelease(schema=schema, epsilon=1.0, random_state=0)
    release.fit(pd.DataFrame({name: np.arange(200) % 10 for name in schema}))
    with psycopg.connect(postgres.url()) as connection:
        release.sample_to(sd.SqlSource(connection, table='wei"rd'), rows=7)
    with psycopg.connect(postgres.url()) as connection:
        for door in (postgres.url(), connection):
            source = sd.SqlSource(door, table='wei"rd')
            assert source.names == ("paid %s", "100 %")
            assert many(source, "100 %") == 7
            source.forget()
