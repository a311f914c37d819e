"""Where a column's bounds or levels are known from: kept by schema and file, and no part of what the column may hold."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
import strategies as my
from hypothesis import given, strategies as st

from synthdp import Boolean, Categorical, Integer, Schema
from synthdp.domain.domain import domain_of
from synthdp.domain.grid import grid_of
from synthdp.errors import SchemaError
from synthdp.schema.columns import COLUMN_TYPES, LONGEST_SOURCE, Untyped, is_drafted
from synthdp.schema.public_documents import from_data_dictionary, from_json_schema
from synthdp.tables.format import TableFormat

sources = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=LONGEST_SOURCE)
any_column = st.one_of(my.columns, my.undeclared_columns)


@given(any_column, sources)
def test_a_source_is_no_part_of_what_a_column_may_hold(column, source):
    sourced = replace(column, source=source)
    assert sourced == column
    assert hash(sourced) == hash(column)
    assert repr(sourced) == repr(column)
    assert sourced.source == source
    assert Schema({"a": sourced}) == Schema({"a": column})


@given(my.columns, sources)
def test_columns_of_different_sources_have_the_same_units_and_cells(column, source):
    first, second = Schema({"a": column}), Schema({"a": replace(column, source=source)})
    assert grid_of(first["a"]) == grid_of(second["a"])
    assert domain_of(first).shape == domain_of(second).shape


@given(my.schemas(any_column), st.data())
def test_a_file_keeps_every_source(schema, data):
    sourced = schema.replace(
        {name: replace(column, source=data.draw(st.none() | sources)) for name, column in schema.items()}
    )
    again = Schema.from_json(sourced.to_json())
    assert again == sourced
    assert [column.source for column in again.values()] == [column.source for column in sourced.values()]


def test_a_schema_keeps_sources_when_it_is_changed():
    schema = Schema({"a": Integer(0, 9, source="law"), "b": Boolean()})
    assert schema.replace({"b": Boolean(nullable=True)})["a"].source == "law"
    assert schema.extended({"c": Boolean(source="form")})["a"].source == "law"
    full = TableFormat(library="pandas", dtypes=(("a", "int64"), ("b", "bool")))
    nullable = schema.replace({"a": Integer(0, 9, nullable=True, source="law")})
    assert full.without_impossible_nulls(nullable)["a"].source == "law"


def test_only_a_schema_with_a_source_needs_the_newer_version():
    plain, sourced = Schema({"a": Boolean()}), Schema({"a": Boolean(source="form")})
    assert [json.loads(schema.to_json())["synthdp_schema"] for schema in (plain, sourced)] == [1, 2]
    assert list(json.loads(sourced.to_json())["columns"][0]) == ["name", "type", "source"]


def test_every_kind_of_column_takes_a_source_by_keyword_alone():
    for kind in COLUMN_TYPES.values():
        (source,) = [field for field in fields(kind) if field.name == "source"]
        assert source.kw_only
        assert "source" not in kind.__match_args__


@pytest.mark.parametrize("source", [5, "", " ", "two\nlines", "a\ttab", "x" * (LONGEST_SOURCE + 1), ["codebook"]])
def test_a_source_that_is_no_short_text_is_refused(source):
    with pytest.raises(SchemaError, match="source"):
        Schema({"a": Boolean(source=source)})
    with pytest.raises(SchemaError, match="source"):
        Schema.from_json(
            json.dumps({"synthdp_schema": 2, "columns": [{"name": "a", "type": "boolean", "source": source}]})
        )


@pytest.mark.parametrize(
    ("source", "drafted"),
    [
        (None, False),
        ("codebook", False),
        ("drafted from the table", True),
        (" Drafted from the table, accepted by A. Nonymous", True),
        ("a codebook that was drafted from the table of contents", False),
    ],
)
def test_a_draft_is_known_by_how_its_source_begins(source, drafted):
    assert is_drafted(Categorical(["a"], source=source)) is drafted


# Documents

REVIEWED = {"name": "a", "type": "integer", "lower": 0, "upper": 9, "reviewed": True}


@pytest.mark.parametrize(
    ("entry", "drafted"),
    [
        (REVIEWED, True),
        ({**REVIEWED, "source": None}, True),
        ({**REVIEWED, "source": "drafted from the table"}, True),
        ({**REVIEWED, "source": "the law"}, False),
        ({key: value for key, value in REVIEWED.items() if key != "reviewed"}, False),
    ],
)
def test_what_was_drafted_stays_drafted_until_somebody_names_another_source(entry, drafted):
    schema = Schema.from_json(json.dumps({"synthdp_schema": 1, "columns": [entry]}))
    assert is_drafted(schema["a"]) is drafted
    assert is_drafted(Schema.from_json(schema.to_json())["a"]) is drafted


def test_published_documents_are_named_as_the_source_without_the_path_to_them():
    text = '{"properties": {"age": {"type": "integer", "minimum": 0, "maximum": 120}}}'
    document = from_json_schema(text, source="JSON Schema '/home/somebody/j.json'")
    assert document["columns"][0]["source"] == "a published JSON Schema"
    rows = [["name", "type", "min", "max"], ["age", "integer", "0", "120"]]
    document = from_data_dictionary(rows, source="data dictionary '/home/somebody/b.csv'")
    assert document["columns"][0]["source"] == "a published data dictionary"


def test_a_data_dictionary_may_name_the_source_of_each_column():
    rows = [["name", "type", "source"], ["smoker", "boolean", "form 7b"], ["member", "boolean", ""]]
    entries = from_data_dictionary(rows, source="b.csv")["columns"]
    assert [entry["source"] for entry in entries] == ["form 7b", "a published data dictionary"]


def test_an_earlier_versions_accepted_draft_is_a_draft():
    schema = Schema.read(Path(__file__).parents[2] / "data" / "older-draft.schema.json")
    assert schema["age"] == Integer(10, 70)
    assert all(map(is_drafted, schema.values()))


def test_a_column_of_objects_is_written_as_the_type_that_it_is_derived_from():
    schema = Schema({"o": Untyped(nullable=True, other="other")})
    assert Schema.from_json(schema.to_json())["o"] == Categorical(nullable=True, other="other")
