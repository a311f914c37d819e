"""Schemas from public documents: a JSON Schema or a data dictionary."""

import json

import pytest

from synthdp import Boolean, Categorical, Continuous, Datetime, Duration, Identifier, Integer, Ordinal
from synthdp.errors import FormatError, SchemaError, SynthDPError
from synthdp.schema.public_documents import from_data_dictionary, from_json_schema, whole_number
from synthdp.schema.schema import Schema


def of_json_schema(properties, **more):
    names = list(properties) if isinstance(properties, dict) else []
    text = json.dumps({"type": "object", "properties": properties, "required": names, **more})
    return Schema.from_json(json.dumps(from_json_schema(text, source="x.json")))


def of_lines(*lines, header="name,type,min,max,levels"):
    rows = [line.split(",") for line in (header, *lines)]
    return Schema.from_json(json.dumps(from_data_dictionary(rows, source="book.csv")))


@pytest.mark.parametrize(
    ("rule", "column"),
    [
        ({"type": "integer", "minimum": 17, "maximum": 90}, Integer(17, 90)),
        ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10}, Integer(1, 9)),
        ({"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 9}, Integer(1, 9)),
        ({"type": "number", "minimum": 0, "maximum": 0.5}, Continuous(0, 0.5)),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, Continuous(0, 1)),
        ({"type": "integer"}, Integer()),
        ({"type": "number", "minimum": 0}, Continuous()),
        ({"enum": ["a", "b", None]}, Categorical(["a", "b"], nullable=True)),
        ({"type": "integer", "enum": [1, 2, 9]}, Categorical([1, 2, 9])),
        ({"enum": [True, False]}, Boolean()),
        ({"const": "EU"}, Categorical(["EU"])),
        ({"type": "boolean"}, Boolean()),
        ({"type": ["boolean", "null"]}, Boolean(nullable=True)),
        ({"anyOf": [{"type": "integer", "minimum": 0, "maximum": 3}, {"type": "null"}]}, Integer(0, 3, nullable=True)),
        ({"type": "string", "format": "date-time"}, Datetime()),
        (
            {"type": "string", "format": "date", "formatMinimum": "2020-01-01", "formatMaximum": "2026-01-01"},
            Datetime("2020-01-01", "2026-01-01", resolution="D"),
        ),
        ({"type": "string", "format": "uuid"}, Identifier("")),
        ({"type": "string"}, Categorical(other="other")),
        ({"$ref": "#/$defs/share"}, Continuous(0, 1)),
    ],
)
def test_each_kind_of_property_becomes_its_column(rule, column):
    more = {"$defs": {"share": {"type": "number", "minimum": 0, "maximum": 1}}}
    assert of_json_schema({"größe": rule}, **more)["größe"] == column


def test_a_property_that_is_not_required_may_be_missing():
    text = json.dumps({"properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}, "required": ["a"]})
    document = from_json_schema(text, source="x.json")
    assert [column.get("nullable", False) for column in document["columns"]] == [False, True]


def test_a_list_of_rows_is_described_by_its_items():
    row = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    document = from_json_schema(json.dumps({"type": "array", "items": row}), source="x.json")
    assert [column["name"] for column in document["columns"]] == ["a"]


def test_what_a_document_leaves_open_is_said_in_a_comment():
    document = from_json_schema('{"properties": {"a": {"type": "number", "minimum": 3}}}', source="x.json")
    assert "no bounds but lower 3" in document["columns"][0]["comment"]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("{", FormatError, "line 1"),
        ("[]", FormatError, r"x\.json"),
        ("{}", FormatError, "'properties'"),
        ('{"properties": {"a": 3}}', FormatError, r"x\.json"),
        ('{"properties": {"a": {"type": "object"}}}', SchemaError, "'a'.*'object'"),
        ('{"properties": {"a": {"type": ["string", "integer"]}}}', SchemaError, "'a'.*type"),
        ('{"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}', SchemaError, "'a'.*types"),
        ('{"properties": {"a": {"$ref": "other.json#/a"}}}', FormatError, r"other\.json"),
        ('{"properties": {"a": {"$ref": "#/properties/a"}}}', FormatError, "circular"),
        ('{"properties": {"a": {"enum": "b"}}}', FormatError, "'a'.*list"),
        ('{"properties": {"a": {"type": "integer", "minimum": 5, "maximum": 2}}}', SchemaError, "'a'.*lower"),
        (
            '{"properties": {"a": {"type": "integer", "minimum": 0, "exclusiveMaximum": true, "maximum": "x"}}}',
            SynthDPError,
            "'a'",
        ),
    ],
)
def test_another_json_schema_is_refused_in_one_sentence(text, error, words):
    with pytest.raises(error, match=words) as caught:
        Schema.from_json(json.dumps(from_json_schema(text, source="x.json")))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("a,integer,17,90,", Integer(17, 90)),
        ("a,INT,,,", Integer()),
        ("a,float,0,0.5,", Continuous(0, 0.5)),
        ("a,category,,,x|y z|ü", Categorical(["x", "y z", "ü"])),
        ("a,category,,,1|2|9", Categorical([1, 2, 9])),
        ("a,category,,,01|02", Categorical(["01", "02"])),
        ("a,category,,,", Categorical(other="other")),
        ("a,ordinal,,,low|mid|high", Ordinal(["low", "mid", "high"])),
        ("a,bool,,,", Boolean()),
        ("a,date,2020-01-01,2026-01-01,", Datetime("2020-01-01", "2026-01-01", resolution="D")),
        ("a,timestamp,2020-01-01,2026-01-01,", Datetime("2020-01-01", "2026-01-01")),
        ("a,duration,0,3600,", Duration(0, 3600)),
        ("a,id,,,", Identifier()),
    ],
)
def test_each_line_of_a_dictionary_becomes_its_column(line, column):
    assert of_lines(line)["a"] == column


def test_levels_may_be_a_json_list_and_other_fields_are_kept_or_ignored():
    rows = [
        ["Name ", "unit", "TYPE", "levels", "nullable", "description"],
        ["a", "cm", "text", '["x|y", "z"]', "yes", "A"],
    ]
    document = from_data_dictionary(rows, source="book.csv")
    assert document["columns"][0]["description"] == "A"
    assert Schema.from_json(json.dumps(document))["a"] == Categorical(["x|y", "z"], nullable=True)


@pytest.mark.parametrize(
    ("lines", "error", "words"),
    [
        (["a,b", "1,2"], FormatError, "header"),
        (["name,type"], FormatError, r"book\.csv"),
        (["name,type", "a"], FormatError, r"\b2\b.*cells"),
        (["name,type", ",integer"], FormatError, r"\b2\b.*name"),
        (["name,type", "a,blob"], SchemaError, "'a'.*types"),
        (["name,type,min,max", "a,integer,x,9"], SchemaError, "min.*max.*'a'"),
        (["name,type,min,max", "a,category,0,9"], SchemaError, "'a'.*min.*max"),
        (["name,type,levels", "a,integer,x|y"], SchemaError, "'a'.*levels"),
        (["name,type,levels", "a,ordinal,"], SchemaError, "'a'.*lowest"),
        (["name,type,levels", "a,category,[x"], SchemaError, "JSON.*'a'"),
        (["name,type,levels", "a,category,x|x"], SchemaError, "differ"),
        (["name,type,nullable", "a,integer,perhaps"], SchemaError, "nullable.*'a'"),
        (["name,type", "a,bool", "a,bool"], SchemaError, "'a'"),
        (["name,type,min,max", "a,integer,9,3"], SchemaError, "'a'.*lower"),
        (["name,type,min,max", "a,date,soon,later"], SchemaError, "'a'.*'soon'"),
    ],
)
def test_another_dictionary_is_refused_in_one_sentence(lines, error, words):
    with pytest.raises(error, match=words) as caught:
        of_lines(*lines[1:], header=lines[0])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("-12", -12), ("007", None), ("1.0", None), ("", None)])
def test_a_whole_number_has_no_superfluous_zeros(text, number):
    assert whole_number(text) == number
