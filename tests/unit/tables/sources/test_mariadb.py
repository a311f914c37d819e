"""MariaDB through SQLAlchemy: read like any table, written all or none, and its catalogue; skipped where there is none."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from mariadb_server import WHY_NOT, running

import synthdp as sd
from synthdp.domain.encoder import encode
from synthdp.domain.histories import Layout
from synthdp.errors import DataError, ParameterError
from synthdp.sampling.possible_rules import evenly
from synthdp.tables.dataframe import FrameSource

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "it is there")

SCHEMA = sd.Schema(
    {
        "age": sd.Integer(0, 90, nullable=True),
        "mood": sd.Categorical(["good", "bad"], nullable=True),
        "size": sd.Continuous(0, 2),
        "paid 100 %s": sd.Decimal(0, 99, decimals=2),
        "born": sd.Date("2000-01-01", "2020-01-01"),
        "seen": sd.Datetime("2020-01-01", "2021-01-01"),
    }
)
ROWS = [
    (age, mood, size, f"{paid:.2f}", dt.date(2001, 1, 1 + i % 28), dt.datetime(2020, 2, 3, 4, 5, i % 60))  # noqa: DTZ001
    for i, (age, mood, size, paid) in enumerate(
        zip(
            [1, 90, None, 200] * 10,
            ["good", "bad", None, "`'\"%\\"] * 10,
            np.linspace(-1, 3, 40),
            range(40),
            strict=True,
        )
    )
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running() as url:
        import sqlalchemy

        engine = sqlalchemy.create_engine(url)
        with engine.begin() as connection:
            columns = "age int, mood varchar(20), size double, `paid 100 %%s` decimal(6,2), born date, seen datetime"
            for name in ("people", "made"):
                connection.exec_driver_sql(f"CREATE TABLE {name} ({columns})")
            marks = ", ".join(["%s"] * len(SCHEMA))
            connection.exec_driver_sql(f"INSERT INTO people VALUES ({marks})", ROWS)
            connection.exec_driver_sql("CREATE TABLE persons (id bigint PRIMARY KEY, sex varchar(1))")
            connection.exec_driver_sql(
                "CREATE TABLE visits (id bigint, year int, FOREIGN KEY (id) REFERENCES persons (id))"
            )
        engine.dispose()
        yield url


def test_rows_are_read_as_a_dataframe_of_the_same_values(server: str) -> None:
    table = pd.DataFrame(ROWS, columns=[*SCHEMA]).astype({"mood": object, "paid 100 %s": float})
    source = sd.SqlSource(server, table="people")
    assert source.names == (*SCHEMA,)
    (found, *_), (wanted, *_) = source.blocks(SCHEMA), FrameSource(table).blocks(SCHEMA)
    for name, column in SCHEMA.items():
        assert encode(column, found[name]).tolist() == encode(column, wanted[name]).tolist(), name
    source.forget()


def test_synthetic_rows_come_back_and_the_table_that_was_read_is_refused(server: str) -> None:
    source = sd.SqlSource(server, table="people")
    release = sd.SyntheticRelease(schema=SCHEMA, epsilon=5.0, random_state=0).fit(source)
    with pytest.raises(ParameterError, match="private"):
        release.sample_to(sd.SqlSource(server, table="people"))
    release.sample_to(sd.SqlSource(server, table="made"), rows=30)
    again = sd.SqlSource(server, table="made")
    (block, *_) = again.blocks(SCHEMA)
    codes = {name: encode(column, block[name]) for name, column in SCHEMA.items()}
    assert {len(one) for one in codes.values()} == {30}
    again.forget()


def test_foreign_keys_make_relations_and_tables_are_written_all_or_none(server: str) -> None:
    database = sd.SqlDatabase(server, ["persons", "visits"])
    relations = database.relations(at_most={"visits": 3}, order={"visits": "year"})
    assert relations == [sd.Relation("persons", "visits", key="id", at_most=3, order="year")]
    tables = {
        "persons": sd.Schema({"sex": sd.Categorical(["f", "m"])}), "visits": sd.Schema({"year": sd.Integer(2010, 2019)})
    }  # fmt: skip
    model = evenly(Layout(sd.DatabaseSchema(tables, relations)))
    model.sample_to(database, rows=25, random_state=0)
    with pytest.raises(DataError, match="persons"):
        model.sample_to(database, rows=30, random_state=0)  # the keys are there
    (block, *_) = database["persons"].blocks({}, extra=("id",))
    assert len(block["id"].values) == 25  # type: ignore[union-attr]
    database.forget()


def test_the_table_that_was_read_is_not_written_to_by_another_name_or_through_a_view(server: str) -> None:
    import sqlalchemy

    engine = sqlalchemy.create_engine(server)
    with engine.begin() as connection:
        for statement in (
            "CREATE TABLE `own``ers` (sex varchar(1))", "CREATE TABLE others (sex varchar(1))", "CREATE DATABASE elsewhere",
            "CREATE VIEW seen AS SELECT o.sex FROM `own``ers` o", "CREATE VIEW elsewhere.twice AS SELECT sex FROM seen",
        ):  # fmt: skip
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql("INSERT INTO `own``ers` VALUES (%s)", [("fm"[i % 2],) for i in range(300)])
    schema = sd.Schema({"sex": sd.Categorical(["f", "m"])})
    elsewhere = server.replace("/synth?", "/elsewhere?")
    tables = ((server, "own`ers"), (server, "synth.own`ers"), (server, "seen"), (elsewhere, "twice"))
    for url, read in tables:
        one = sd.SyntheticRelease(schema=schema, epsilon=1.0).fit(sd.SqlSource(url, table=read))
        for there, table in (*tables, (elsewhere, "synth.own`ers"), (engine, "own`ers")):
            with pytest.raises(ParameterError, match="private"):
                one.sample_to(sd.SqlSource(there, table=table), rows=5)
        one.sample_to(sd.SqlSource(elsewhere, table="synth.others"), rows=5)
    engine.dispose()
