"""Tables whose keys have several columns, from rows to synthetic rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.errors import SchemaError

PERSON, VISIT = ("region", "number"), ("region", "number", "visit")

SCHEMA = sd.DatabaseSchema(
    {
        "persons": sd.Schema({"sex": sd.Categorical(["f", "m"])}),
        "visits": sd.Schema({"year": sd.Integer(2015, 2019)}),
        "drugs": sd.Schema({"dose": sd.Integer(0, 9)}),
    },
    [
        sd.Relation("persons", "visits", key=PERSON, at_most=3, order="year"),
        sd.Relation("visits", "drugs", key=VISIT, at_most=2),
    ],
)


def tables(persons: int = 1000) -> dict[str, pd.DataFrame]:
    """Persons numbered in each of three regions; men have more visits, and a late visit has high doses."""
    rng = np.random.default_rng(3)
    person = np.arange(persons)
    men = rng.random(persons) < 0.5
    root = pd.DataFrame({"region": np.array(["n", "s", "w"])[person % 3], "number": person // 3})
    root["sex"] = np.where(men, "m", "f")
    many = np.where(men, 3, 1)
    visits = root.loc[root.index.repeat(many), ["region", "number"]].reset_index(drop=True)
    visits["visit"] = visits.groupby(["region", "number"]).cumcount()
    visits["year"] = 2015 + rng.integers(0, 5, len(visits))
    drugs = visits.loc[visits["visit"] == 0].drop(columns="visit").assign(visit=0)
    drugs["dose"] = np.where(drugs["year"] > 2017, 8, 1)
    return {"persons": root, "visits": visits, "drugs": drugs.drop(columns="year")}


@pytest.fixture(scope="module")
def release() -> sd.DatabaseRelease:
    return sd.DatabaseRelease(schema=SCHEMA, epsilon=5.0, delta=1e-6, random_state=0).fit(tables())


def test_synthetic_rows_have_one_parent_by_all_columns_of_the_key(release: sd.DatabaseRelease, tmp_path: Path) -> None:
    release.save(tmp_path / "r")
    for made in (release.sample(1000, random_state=1), sd.load(tmp_path / "r").sample(500, random_state=2)):
        assert not made["persons"].duplicated([*PERSON]).any()
        assert not made["visits"].duplicated([*VISIT]).any()
        assert len(made["visits"].merge(made["persons"], on=[*PERSON])) == len(made["visits"]) > 500
        assert len(made["drugs"].merge(made["visits"], on=[*VISIT])) == len(made["drugs"]) > 200


def test_what_joins_by_the_key_is_kept(release: sd.DatabaseRelease) -> None:
    made = release.sample(4000, random_state=1)
    visits = made["persons"].merge(made["visits"], on=[*PERSON])
    by = visits.groupby("sex").size() / made["persons"].groupby("sex").size()
    assert by["m"] > 2.5
    assert by["f"] < 1.5
    drugs = made["visits"].merge(made["drugs"], on=[*VISIT])
    late = drugs["year"] > 2017
    assert drugs.loc[late, "dose"].mean() > drugs.loc[~late, "dose"].mean() + 3
    assert "one value of 'region' and 'number' in all" in " ".join(str(release.receipt_).split())
    one = sd.DatabaseSchema(SCHEMA.tables, [replace(SCHEMA.relations[0], key="region, number"), SCHEMA.relations[1]])
    assert one.unit != SCHEMA.unit


@pytest.mark.usefixtures("few_sweeps")
def test_nothing_declared_and_drafts_leave_all_key_columns_out() -> None:
    relations = [sd.Relation("persons", "visits", PERSON, at_most=3), sd.Relation("visits", "drugs", VISIT, at_most=2)]
    made = sd.DatabaseRelease(schema=relations, epsilon=5.0, delta=1e-6, random_state=0).fit(tables())
    assert [*made.schema_.tables["visits"]] == ["year"]
    assert not made.sample(200)["persons"].duplicated([*PERSON]).any()
    with pytest.warns(sd.errors.DraftWarning):
        draft = sd.draft(tables(), relations=relations)
    assert {name: list(one.schema) for name, one in draft.tables.items()} == {
        "persons": ["sex"],
        "visits": ["year"],
        "drugs": ["dose"],
    }


@pytest.mark.usefixtures("few_sweeps")
def test_a_person_s_history_is_found_by_all_columns_of_the_key() -> None:
    schema = sd.DatabaseSchema({name: SCHEMA.tables[name] for name in ("persons", "visits")}, SCHEMA.relations[:1])
    given = {name: one for name, one in tables().items() if name != "drugs"}
    release = sd.DatabaseRelease(schema=schema, epsilon=5.0, delta=1e-6, random_state=0).fit(given)
    wide = release.persons_with_history(500, random_state=0)
    assert [*wide.index.names] == [*PERSON]
    assert not wide.index.duplicated().any()
    assert (wide["visits.rows"] == wide.filter(regex=r"visits\[\d\].year").notna().sum(axis=1)).all()


@pytest.mark.usefixtures("few_sweeps")
def test_a_database_with_composite_foreign_keys_is_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        for prefix in ("", "made_"):
            connection.execute(
                f"CREATE TABLE {prefix}persons (region TEXT, number INTEGER, sex TEXT, PRIMARY KEY (region, number))"
            )
            connection.execute(
                f"CREATE TABLE {prefix}visits (region TEXT, number INTEGER, visit INTEGER, year INTEGER, "
                f"PRIMARY KEY (region, number, visit), FOREIGN KEY (region, number) REFERENCES {prefix}persons)"
            )
            connection.execute(
                f"CREATE TABLE {prefix}drugs (region TEXT, number INTEGER, visit INTEGER, dose INTEGER, "
                f"FOREIGN KEY (region, number, visit) REFERENCES {prefix}visits (region, number, visit))"
            )
        for name, one in tables().items():
            one.to_sql(name, connection, if_exists="append", index=False)
    database = sd.SqlDatabase(f"sqlite:///{path}", ["persons", "visits", "drugs"])
    made = database.relations(at_most={"visits": 3, "drugs": 2}, order={"visits": "year"})
    assert sorted(made, key=lambda one: one.child) == sorted(SCHEMA.relations, key=lambda one: one.child)
    release = sd.DatabaseRelease(schema=SCHEMA, epsilon=5.0, delta=1e-6, random_state=0).fit(database)
    names = {"persons": "made_persons", "visits": "made_visits", "drugs": "made_drugs"}
    release.sample_to(sd.SqlDatabase(f"sqlite:///{path}", names), rows=300, random_state=0)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        joined = "SELECT count(*) FROM made_drugs JOIN made_visits USING (region, number, visit) JOIN made_persons "
        (found,) = connection.execute(f"{joined} USING (region, number)").fetchone()
        assert found == connection.execute("SELECT count(*) FROM made_drugs").fetchone()[0] > 50


@pytest.mark.usefixtures("few_sweeps")
def test_a_key_that_makes_few_persons_of_many_is_warned_of() -> None:
    schema = sd.DatabaseSchema(
        {name: SCHEMA.tables[name] for name in ("persons", "visits")},
        [sd.Relation("persons", "visits", key="region", at_most=3)],
    )
    given = {name: one for name, one in tables().items() if name != "drugs"}
    with pytest.warns(sd.errors.MisfitWarning, match="persons"):
        release = sd.DatabaseRelease(schema=schema, epsilon=1.0, delta=1e-6, random_state=0).fit(given)
    assert "no more than noise explains, so" in " ".join(release.receipt_.notes)


@pytest.mark.parametrize("declared", [{}, {"year": sd.Integer(2015, 2019)}, {"year": sd.Identifier()}])
def test_a_column_of_a_key_that_orders_rows_is_refused_with_the_way_out_and_the_way_leads_out(declared: dict) -> None:
    visits, person = {"place": sd.Categorical(["a", "b"])}, {"persons": SCHEMA.tables["persons"]}
    below = sd.Relation("visits", "drugs", key=(*PERSON, "year"), at_most=2)
    by = lambda order: [sd.Relation("persons", "visits", PERSON, 3, order=order, unique=True), below]  # noqa: E731
    drugs = {"drugs": SCHEMA.tables["drugs"]}
    with pytest.raises(SchemaError, match=r"'year'.*'visits'"):
        sd.DatabaseSchema({**person, "visits": sd.Schema(visits | declared), **drugs}, by("year"))
    copied = sd.Schema({**visits, "when": sd.Integer(2015, 2019)})
    assert sd.DatabaseSchema({**person, "visits": copied, **drugs}, by("when")).keys_of("visits") == (*PERSON, "year")
