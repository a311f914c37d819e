"""Commands on several tables: plans, releases and refusals that say what to do, as a newcomer tries them."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result

import synthdp as sd
from synthdp.cli.main import main
from synthdp.planning.database_plan import DatabasePlan

SCHEMA = sd.DatabaseSchema(
    {"persons": sd.Schema({"sex": sd.Categorical(["f", "m"])}), "visits": sd.Schema({"year": sd.Integer(2015, 2019)})},
    [sd.Relation("persons", "visits", key="id", at_most=3, order="year")],
)
ONE = sd.DatabaseSchema({"persons": SCHEMA.tables["persons"]})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a schema of two tables, one of one table, and the tables."""
    place = tmp_path_factory.mktemp("place")
    SCHEMA.write(place / "db.json")
    ONE.write(place / "one.json")
    (place / "db").mkdir()
    persons = pd.DataFrame({"id": range(200), "sex": ["f", "m"] * 100})
    persons.to_parquet(place / "db" / "persons.parquet")
    pd.DataFrame({"id": range(200), "year": [2015, 2016] * 100}).to_csv(place / "db" / "visits.csv", index=False)
    return place


def run(place: Path, text: str) -> Result:
    return CliRunner().invoke(main, [word.replace("@", f"{place}/") for word in text.split()])


def test_a_plan_is_of_what_the_schema_is_of(place: Path) -> None:
    schemas = {"object": SCHEMA, "path": place / "db.json", "document": json.loads(SCHEMA.to_json())}
    for schema in schemas.values():
        assert sd.plan(schema, rows=200) == sd.DatabaseRelease(schema=SCHEMA).plan(rows={"persons": 200})
    plans = sd.plan(SCHEMA, rows={"persons": 200, "visits": 300}, epsilon=[1.0, 2.0])
    assert [type(one) for one in plans] == [DatabasePlan] * 2
    assert plans[0].persons_stddev > plans[1].persons_stddev
    of_one = [sd.plan(ONE, rows=200), sd.plan(ONE.tables["persons"], rows=200), sd.plan(place / "one.json", rows=200)]
    of_one.append(sd.DatabaseRelease(schema=ONE).plan(rows={"persons": 200}))
    assert {(one.rows, one.columns) for one in of_one} == {(200, 1)}
    with pytest.raises(sd.errors.ParameterError, match="weight"):
        sd.plan(SCHEMA, rows=200, weight="perwt", weight_bounds=(1, 2))


def test_the_command_plans_what_the_function_plans(place: Path) -> None:
    for rows, many in (("200", 200), ("persons=200 --rows visits=300", {"persons": 200, "visits": 300})):
        found = run(place, f"plan @db.json --rows {rows} --epsilon 2 --json")
        assert json.loads(found.stdout) == [
            json.loads(json.dumps(sd.plan(SCHEMA, rows=many, epsilon=2.0).to_document()))
        ]
    both = run(place, "plan @db.json --rows 200 --epsilon 1 --epsilon 2").stdout
    assert both.count("Plan for 200 rows of 'persons'") == 2
    assert "200 rows, 1 columns" in run(place, "plan @one.json --rows 200").stdout


REFUSALS = {
    "plan @db.json": "--rows",
    "plan @db.json --rows many": "must be a whole number, or TABLE=N",
    "plan @db.json --rows visit=3": "'visit', which is not a table; the tables are: persons, visits",
    "plan @db.json --rows 3 --rows 4": "--rows is given twice",
    "plan @db.json --rows 3 --rows visits=4": "--rows is given twice",
    "plan @db.json --rows 3 --mechanism mwem": "--mechanism works with one table only",
    "plan @db.json --sql postgres": "--sql works with one table only",
    "release @db --schema @db.json": "the folder for the synthetic tables",
    "release @db.json --schema @db.json --out @out": "is no folder: give the folder that has one file for each table",
    "release @db --schema @db.json --out @out --target sex": "there is no column 'sex'; the schema has: persons.sex",
    "schema draft @db": "has 'visits.csv', but a folder is read as one table in Parquet or Arrow files",
    "schema review @db.json": "is a database schema, but the schema of one table is wanted here",
    "publish @db --schema @db.json --out @out": "is a database schema, but the schema of one table is wanted here",
}


@pytest.mark.parametrize("command", REFUSALS)
def test_what_cannot_be_done_is_refused_with_what_to_do(command: str, place: Path) -> None:
    refused = run(place, command)
    assert refused.exit_code == 2
    assert REFUSALS[command] in " ".join(refused.stderr.split())
    assert not (place / "out").exists()


def test_a_release_of_several_tables_takes_a_target_and_is_not_published_as_one(place: Path) -> None:
    made = run(place, "release @db --schema @db.json --out @made --save @db.release --target persons.sex")
    assert made.exit_code == 0, made.stderr
    refused = run(place, "publish @db.release --out @pages")
    assert refused.exit_code == 2
    assert "write them by `synthdp sample`, and their page by `synthdp report`" in refused.stderr
    assert not (place / "pages").exists()


@pytest.mark.parametrize("given", ["visits.kind=check up", "visits.kind = check up", "visits.kind == 'check up'"])
def test_persons_are_drawn_who_have_a_row_that_meets_a_condition(given: str, tmp_path: Path) -> None:
    tables = {
        "persons": pd.DataFrame({"id": range(200), "sex": ["f", "m"] * 100}),
        "visits": pd.DataFrame({"id": [*range(200), *range(200)], "kind": ["check up"] * 100 + ["acute"] * 300}),
    }
    kinds = sd.Schema({"kind": sd.Categorical(["check up", "acute"])})
    schema = sd.DatabaseSchema(
        {"persons": SCHEMA.tables["persons"], "visits": kinds}, [sd.Relation("persons", "visits", key="id", at_most=3)]
    )
    sd.DatabaseRelease(schema=schema, epsilon=5.0).fit(tables).save(tmp_path / "db.release")
    command = ["sample", f"{tmp_path}/db.release", "--rows", "30", "--given", given, "--out", f"{tmp_path}/out"]
    drawn = CliRunner().invoke(main, command)
    assert drawn.exit_code == 0, drawn.stderr
    visits = pd.read_csv(tmp_path / "out" / "visits.csv")
    assert set(visits.loc[visits["kind"] == "check up", "id"]) == set(range(1, 31))
