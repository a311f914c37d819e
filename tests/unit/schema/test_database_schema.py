"""Database schemas: what is a tree of tables under one of persons, what is refused, and that a file says the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from small_databases import LEAVES, PERSONS, ROWS, SCHEMAS

import synthdp as sd
from synthdp.errors import FormatError, SchemaError
from synthdp.schema.database import database_schema_given

TABLES = {"persons": PERSONS, "rows": ROWS}


def related(**settings: object) -> sd.Relation:
    return sd.Relation(**{"parent": "persons", "child": "rows", "key": "id", "at_most": 2} | settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_comes_back_from_its_file(name: str, tmp_path: Path) -> None:
    schema = SCHEMAS[name]
    schema.write(tmp_path / "db.json")
    again = sd.DatabaseSchema.read(tmp_path / "db.json")
    assert again == schema
    assert again.to_json() == schema.to_json()
    assert database_schema_given(tmp_path / "db.json") == database_schema_given(json.loads(schema.to_json())) == schema


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: sd.DatabaseSchema({}), "tables"),
        (lambda: sd.DatabaseSchema(TABLES, [related()], rules=[sd.LessEqual(["a"], "rows.year")]), "texts"),
        (lambda: sd.DatabaseSchema(TABLES, [related()], rules=[sd.Forbidden({})]), "texts"),
        (lambda: sd.DatabaseSchema({"a b": PERSONS}), "letters"),
        (lambda: sd.DatabaseSchema(TABLES), "'persons'.*'rows'"),
        (lambda: sd.DatabaseSchema(TABLES, [related(child="visits")]), "'visits'"),
        (lambda: sd.DatabaseSchema(TABLES, [related(), related(parent="rows", child="persons")]), "cycle"),
        (lambda: sd.DatabaseSchema({**TABLES, "x": LEAVES}, [related(), related(parent="x", child="x")]), "cycle"),
        (lambda: sd.DatabaseSchema({**TABLES, "x": LEAVES}, [related(), related(parent="x")]), "parents"),
        (
            lambda: sd.DatabaseSchema({**TABLES, "x": LEAVES}, [related(), related(child="x", key="other")]),
            "'id'.*'other'",
        ),
        (
            lambda: sd.DatabaseSchema({**TABLES, "x": LEAVES}, [related(), related(parent="rows", child="x")]),
            "identifies",
        ),
        (
            lambda: sd.DatabaseSchema(
                {**TABLES, "x": LEAVES}, [related(key=("id", "area")), related(parent="rows", child="x", key=("area", "id"))]
            ),
            "identifies",
        ),
        (
            lambda: sd.DatabaseSchema(
                {**TABLES, "x": LEAVES, "y": LEAVES},
                [related(), related(parent="rows", child="x", key=("id", "row")), related(parent="x", child="y", key="row")],
            ),
            "'row'.*'x'",
        ),
        (
            lambda: sd.DatabaseSchema(
                {**TABLES, "x": sd.Schema({"w": sd.Boolean(), "id": sd.Integer(0, 100)})},
                [related(), related(parent="rows", child="x", key="row")],
            ),
            "'id'.*'x'",
        ),
        (lambda: related(key=()), "tuple"),
        (lambda: related(key=("id", "")), "tuple"),
        (lambda: related(key=("id", "id")), "once"),
        (lambda: related(key=("id", 3)), "tuple"),
        (
            lambda: sd.DatabaseSchema(
                {"persons": PERSONS, "rows": sd.Schema({"area": sd.Integer(0, 9)})}, [related(key=("id", "area"))]
            ),
            "'area'",
        ),
        (lambda: sd.DatabaseSchema(TABLES, [related(order="nothing")]), "'nothing'"),
        (lambda: sd.DatabaseSchema({"persons": sd.Schema({"id": sd.Integer(0, 9)}), "rows": ROWS}, [related()]), "key"),
        (lambda: sd.DatabaseSchema({"persons": PERSONS, "rows": sd.Schema({"#x": sd.Boolean()})}, [related()]), "#"),
        (lambda: sd.DatabaseSchema(TABLES, [related(at_most=0)]), "at_most"),
        (lambda: sd.DatabaseSchema(TABLES, [related(unique=True)]), "order"),
        (
            lambda: sd.DatabaseSchema(
                {"persons": PERSONS, "rows": sd.Schema({f"c{i}": sd.Boolean() for i in range(60)})}, [related(at_most=500)]
            ),
            "30502.*at_most",
        ),
        (
            lambda: sd.DatabaseSchema(
                {
                    "persons": PERSONS,
                    "rows": sd.Schema(
                        {name: sd.Integer(0, 3) for name in "abc"}, constraints=[sd.Forbidden({"a": 1, "b": 1, "c": 1})]
                    ),
                },
                [related()],
            ),
            "a.*b.*c",
        ),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_in_one_sentence(make: Callable[[], object], said: str) -> None:
    with pytest.raises((SchemaError, sd.errors.ParameterError), match=said) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"synthdp_database": 9}', '{"synthdp_database": 1, "tables": []}',
             '{"synthdp_database": 1, "tables": {}, "relations": [{"parent": "a"}]}']
)  # fmt: skip
def test_what_is_no_database_schema_is_refused(text: str) -> None:
    with pytest.raises((FormatError, SchemaError)):
        sd.DatabaseSchema.from_json(text)


def test_a_relation_with_an_unknown_setting_is_refused() -> None:
    document = json.loads(SCHEMAS["pattern"].to_json())
    document["relations"][0]["at_least"] = 1
    with pytest.raises(FormatError, match="at_least"):
        sd.DatabaseSchema.from_json(json.dumps(document))


def test_a_key_is_a_name_or_a_tuple_of_several_and_both_say_which_columns() -> None:
    assert related(key=["id"]) == related(key="id") == related(key=("id",))
    assert related(key=["area", "id"]).key == ("area", "id") == related(key=("area", "id")).keys
    assert hash(related(key=["area", "id"])) == hash(related(key=("area", "id")))
    schema = SCHEMAS["keys of several columns"]
    assert schema.key == ("area", "number")
    assert schema.keys_of("persons") == ("area", "number")
    assert schema.keys_of("leaves") == ("area", "number", "place")
