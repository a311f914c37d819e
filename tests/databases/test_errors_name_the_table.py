"""An error about a column of one of several tables says of which: both tables have a column of the same name."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pandas as pd
import pytest

import synthdp as sd
from synthdp.errors import DataError, DraftWarning, FormatError, ParameterError, SchemaError

RELATIONS = [sd.Relation("persons", "visits", key="id", at_most=2, order="year")]
PERSONS = sd.Schema({"cost": sd.Integer(0, 9), "kind": sd.Categorical(["a", "b"]), "tag": sd.Identifier()})
VISITS = {"year": sd.Integer(2015, 2019), **PERSONS}


KEYS_ONLY = [sd.Relation("persons", "visits", key="id", at_most=2)]


def declared(**columns: Any) -> sd.DatabaseSchema:
    """The schema of two tables, with some columns of visits declared anew."""
    return sd.DatabaseSchema({"persons": PERSONS, "visits": sd.Schema({**VISITS, **columns})}, RELATIONS)


def ruled(*rules: Any, **columns: Any) -> sd.DatabaseSchema:
    visits = sd.Schema({**VISITS, **columns}, constraints=rules)
    return sd.DatabaseSchema({"persons": PERSONS, "visits": visits}, RELATIONS)


def tables(**columns: Any) -> dict[str, pd.DataFrame]:
    """Two tables, with some columns of visits filled anew."""
    persons = pd.DataFrame({"id": range(200), "cost": 3, "kind": ["a", "b"] * 100, "tag": range(200)})
    return {"persons": persons, "visits": persons.assign(year=2016, **columns)}


def released(schema: sd.DatabaseSchema, given: dict[str, pd.DataFrame], **settings: Any) -> sd.DatabaseRelease:
    return sd.DatabaseRelease(schema=schema, **settings).fit(given)


def read(**changes: Any) -> sd.DatabaseSchema:
    """Read the schema from a document in which settings of a column of visits are changed."""
    document = json.loads(declared().to_json())
    next(one for one in document["tables"]["visits"]["columns"] if one["name"] == "cost").update(changes)
    return sd.DatabaseSchema.from_json(json.dumps(document))


def drafted(given: dict[str, pd.DataFrame]) -> Any:
    with pytest.warns(DraftWarning):
        return sd.draft(given, relations=RELATIONS)


def without(name: str) -> dict[str, pd.DataFrame]:
    return {**tables(), "visits": tables()["visits"].drop(columns=name)}


BEFORE: dict[str, Callable[[], object]] = {
    "declared in a dict": lambda: sd.DatabaseSchema(
        {"persons": PERSONS, "visits": {"year": VISITS["year"], "cost": sd.Integer(9, 0)}}, RELATIONS
    ),
    "declared in a document": lambda: read(lower=50),
    "declared of no type": lambda: read(type="number"),
    "declared with #": lambda: declared(**{"#": sd.Boolean()}),
    "a key declared": lambda: declared(id=sd.Integer(0, 9)),
    "levels to discover without delta": lambda: released(declared(kind=sd.Categorical()), tables(), delta=0),
    "a plan without delta": lambda: sd.DatabaseRelease(schema=declared(kind=sd.Categorical()), delta=0).plan(),
    "missing": lambda: released(declared(), without("cost")),
    "a key missing": lambda: released(declared(), without("id")),
    "of a type that does not fit": lambda: released(declared(cost=sd.Date("2020-01-01", "2021-01-01")), tables(cost=True)),
    "a survey weight": lambda: released(declared(cost=sd.Weight(1, 9)), tables()),
    "a rule on too many values": lambda: released(
        ruled(sd.Implies({"kind": "a"}, {"cost": 5_000_001}), cost=sd.Integer(0, 10**7)), tables()
    ),
    "only keys, drafted": lambda: drafted({**tables(), "visits": tables()["visits"][["id"]]}),
    "only keys, undeclared": lambda: sd.DatabaseRelease(schema=KEYS_ONLY).fit(
        {**tables(), "visits": tables()["visits"][["id"]]}
    ),
    "drafted of lists": lambda: drafted({**tables(), "visits": tables()["visits"][["id"]].assign(cost=[[1]] * 200)}),
    "drafted and reviewed": lambda: drafted(tables()).review("visits", "cost", lower=9, upper=0),
}  # fmt: skip


@pytest.mark.parametrize("case", BEFORE)
def test_what_is_refused_before_a_release_names_the_table(case: str) -> None:
    with pytest.raises((DataError, FormatError, SchemaError, ParameterError), match="'visits'"):
        BEFORE[case]()


@pytest.fixture(scope="module")
def release() -> sd.DatabaseRelease:
    return released(declared(), tables())


AFTER: dict[str, Callable[[sd.DatabaseRelease], object]] = {
    "given of any row": lambda release: release.sample(5, given={"visits.cost": 99}),
    "given of the first row": lambda release: release.sample(5, given={"visits[1].cost": 99}),
    "given as a condition": lambda release: release.sample(5, given="visits.kind == 'c'"),
    "asked where": lambda release: release.answer(sd.count("visits.kind == 'c'")),
    "asked of an identifier": lambda release: release.answer(sd.count(by="visits.tag")),
    "asked of labels": lambda release: release.answer(sd.mean("visits.kind")),
    "asked of a summary": lambda release: release.answer(sd.mean("visits.kind.mean")),
    "asked by a summary": lambda release: release.answer(sd.count(by="visits.cost.mean")),
    "asked of two": lambda release: release.answer(sd.mean("cost")),
}


@pytest.mark.parametrize("case", AFTER)
def test_what_cannot_be_asked_of_a_release_names_the_table(case: str, release: sd.DatabaseRelease) -> None:
    with pytest.raises(ParameterError, match="visits"):
        AFTER[case](release)


@pytest.mark.parametrize("columns", ["id, year, kind, tag", "id, year, cost CHECK (cost > 100), kind, tag"])
def test_a_database_that_refuses_rows_is_told_of_with_the_table(columns: str, release: sd.DatabaseRelease) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(f"CREATE TABLE persons (id, cost, kind, tag); CREATE TABLE visits ({columns})")
        with pytest.raises(DataError, match="'visits'"):
            release.sample_to(sd.SqlDatabase(connection, ["persons", "visits"]), rows=50)
