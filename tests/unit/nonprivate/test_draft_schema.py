"""Drafts of schemas: what is read off a table, marked so that nobody uses it unread."""

import datetime as dt
import json
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pytest

import synthdp as sd
from synthdp import Boolean, Categorical, Continuous, Datetime, Duration, Identifier, Integer, Schema
from synthdp.errors import DataError, ParameterError, SchemaError
from synthdp.nonprivate.draft_numbers import SHARED
from synthdp.nonprivate.draft_schema import MOST_LEVELS, draft_schema
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.sources.csv import CsvSource
from synthdp.tables.sources.parquet import ParquetSource


def reviewed(document):
    """The schema that a person would get who believed the draft."""
    columns = [{**column, "reviewed": True} for column in document["columns"]]
    return Schema.from_json(json.dumps({**document, "columns": columns}))


def of_texts(tmp_path, texts):
    path = tmp_path / "t.csv"
    lines = ["x,y", *(f'"{text}",a' for text in texts)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return draft_schema(CsvSource(path), without=["y"])


def of_values(values):
    return draft_schema(FrameSource(pd.DataFrame({"x": values})))


NAMES = [f"person-{i:03}" for i in range(40)]


@pytest.mark.parametrize(
    ("texts", "column"),
    [
        (["17", "90", "33"], Integer(15, 90)),
        (["17", "?", "33"], Integer(17, 33, nullable=True)),
        (["0.125", "0.5", "1e-1"], Continuous(0.1, 0.5, decimals=3)),
        (["5", "5", "5", "7.5"], Continuous(5, 7.5, decimals=1)),
        (["0", "1", "1"] * SHARED, Categorical([0, 1])),
        (["", "a", "b"] * SHARED, Categorical(["a", "b"], nullable=True)),
        (["007", "008", "009"] * SHARED, Categorical(["007", "008", "009"])),
        (["True", "false"], Boolean()),
        (["yes", "no"] * SHARED, Categorical(["no", "yes"])),
        (["2020-05-01", "2024-02-29"], Datetime("2020-05-01", "2024-03-01", resolution="D")),
        (["2020-05-01T10:30:00", "2020-06-01"], Datetime("2020-05-01", "2020-06-01", resolution="min")),
        (["größe", "=1+1"] * SHARED, Categorical(["=1+1", "größe"])),
        (NAMES, Identifier("x-")),
        (list(map(str, range(1000, 1040))), Identifier()),
        ([f"v{i}" for i in range(MOST_LEVELS + 1)] * 2, Categorical(other="other")),
        (["nan", "inf", "1.5"] * SHARED, Categorical(["1.5", "inf"], nullable=True)),
    ],
)
def test_texts_say_what_a_column_is(tmp_path, texts, column):
    assert reviewed(of_texts(tmp_path, texts))["x"] == column


@pytest.mark.parametrize(
    ("values", "column"),
    [
        (np.array([3, 14, 15]), Integer(3, 15)),
        (np.array([2**63, 2**64 - 1, 7], np.uint64), Integer(0, 2**62)),
        (np.array([0.25, np.nan, np.inf]), Continuous(0.25, 0.26, nullable=True, decimals=2)),
        (np.array([1.5, 1e300]), Continuous(0.0, 1e300)),
        (pd.array([1, None, 5], dtype="Int64"), Integer(1, 5, nullable=True)),
        ([True, False, True], Boolean()),
        (["17", "18", "17"] * SHARED, Categorical(["17", "18"])),
        (
            pd.to_datetime(["2020-05-01 10:00", None, "2021-01-01 00:00"]),
            Datetime("2020-05-01", "2021-01-01", nullable=True, resolution="h"),
        ),
        (pd.to_timedelta(["1s", "75s"]), Duration(0, 75)),
        (pd.to_timedelta(["3 days", "75 days", None]), Duration(0, 75, nullable=True, resolution="D")),
        (pd.to_timedelta(["90 min", "26 h"]), Duration(0, 1600, resolution="min")),
        (pd.to_timedelta(["1.5s", "2s"]), Duration(1500, 2000, resolution="ms")),
    ],
)
def test_a_typed_column_keeps_its_type(values, column):
    assert reviewed(of_values(values))["x"] == column


@pytest.mark.parametrize(
    "empty", [["", ""], [None, None], [np.nan, np.nan], pd.to_datetime([None, None]), pd.to_timedelta([None, None])]
)
def test_a_column_without_any_value_is_left_out_so_that_no_budget_looks_for_its_levels(empty, tmp_path):
    table = pd.DataFrame({"x": empty, "z": [1, 2]})
    table.to_csv(tmp_path / "t.csv", index=False)
    sources = [CsvSource(tmp_path / "t.csv"), *([] if list(empty) == ["", ""] else [FrameSource(table)])]
    for source in sources:
        document = draft_schema(source)
        assert reviewed(document).undeclared == ()
        assert document["left_out"][0]["why"].startswith("it holds no value")


def test_labels_for_uuids_are_uuids(tmp_path):
    schema = reviewed(of_texts(tmp_path, [str(uuid.UUID(int=7**45 + i)) for i in range(40)]))
    table = pd.DataFrame({"x": [str(uuid.uuid4()) for _ in range(60)], "z": [1, 2] * 30})
    synthetic = sd.SyntheticRelease(schema={**schema, "z": Integer(1, 2)}, epsilon=5.0).fit_transform(table)
    assert all(str(uuid.UUID(text)) == text for text in synthetic["x"])


def test_many_levels_that_repeat_often_are_listed():
    """A hundred and forty countries of twelve rows each: none of them is to become "other"."""
    countries = [f"country {i}" for i in range(140)]
    assert reviewed(of_values(countries * 12))["x"].levels == tuple(sorted(countries))
    assert reviewed(of_values(countries * 9))["x"].levels is None


def test_parquet_files_say_their_types(tmp_path):
    moments = [dt.datetime.fromisoformat(f"2020-05-01T0{i}:00") for i in range(3)] * SHARED
    pl.DataFrame({"t": moments, "code": ["1", "2", "1"] * SHARED, "n": [1, 2, 30] * SHARED}).write_parquet(
        tmp_path / "t.parquet"
    )
    schema = reviewed(draft_schema(ParquetSource(tmp_path / "t.parquet")))
    assert schema["t"] == Datetime("2020-05-01T00:00", "2020-05-01T02:00", resolution="h")
    assert schema["code"] == Categorical(["1", "2"])
    assert schema["n"] == Integer(0, 30)


@pytest.mark.parametrize("name", ["patient_id", "ID", "caseNr", "customerId", "ssn"])
def test_numbers_that_all_differ_name_rows_where_the_column_says_so(name):
    values = np.random.default_rng(0).permutation(10**6)[:200]
    table = pd.DataFrame({name: values, "income": values})
    document = draft_schema(FrameSource(table))
    assert [entry["type"] for entry in document["columns"]] == [
        "identifier" if name != "caseNr" else "integer", "integer"
    ]  # fmt: skip
    assert "make the type identifier" in document["columns"][1]["comment"]


def test_numbers_that_forms_use_as_codes_keep_a_place_of_their_own():
    values = np.concatenate([np.arange(20, 90), np.full(30, 999), np.full(20, -1)])
    column = reviewed(of_values(values))["x"]
    assert column == Integer(20, 90, special=[-1, 999])
    assert reviewed(of_values(np.arange(-5, 60).repeat(2)))["x"] == Integer(-6, 60)  # -1 is a value like any other


def test_no_schema_can_be_made_of_a_draft_before_it_was_reviewed(tmp_path):
    document = of_texts(tmp_path, ["17", "90"])
    with pytest.raises(SchemaError, match="'x'"):
        Schema.from_json(json.dumps(document))


def test_comments_teach_why_a_bound_read_off_the_table_is_not_public(tmp_path):
    document = of_texts(tmp_path, ["17", "90", "33"])
    assert "as private as the table" in document["comment"]
    assert "belong to somebody" in document["columns"][0]["comment"]
    levels = of_texts(tmp_path, ["a", "b"])["columns"][0]["comment"]
    assert "a rare one occurs at all can point at one person" in levels


@pytest.mark.parametrize(
    "texts", [[f"the patient said number {i} hurts" for i in range(30)], ["x" * 30 + " " + "y" * 30] * 1]
)
def test_free_text_is_left_out_and_listed(tmp_path, texts):
    path = tmp_path / "t.csv"
    pd.DataFrame({"x": texts, "y": 1}).to_csv(path, index=False)
    document = draft_schema(CsvSource(path))
    assert [entry["name"] for entry in document["columns"]] == ["y"]
    assert [(one["name"], "free text" in one["why"]) for one in document["left_out"]] == [("x", True)]
    assert "hurts" not in json.dumps(document)


def test_columns_can_be_left_out_and_something_must_be_left():
    table = pd.DataFrame({"x": [1, 2, 3], "y": ["a", "b", "a"]})
    assert list(reviewed(draft_schema(FrameSource(table), without=["x"]))) == ["y"]
    with pytest.raises(DataError, match="keys"):
        draft_schema(FrameSource(table), without=["x", "y"])
    with pytest.raises(ParameterError, match="'z'"):
        draft_schema(FrameSource(table), without=["z"])
    with pytest.raises(DataError, match="rows"):
        draft_schema(FrameSource(table[:0]))


def test_bounds_are_rounded_outwards():
    values = np.array([17.3, 22.8, 88.1])
    entry = of_values(values)["columns"][0]
    assert (entry["lower"], entry["upper"]) == (15, 90)


def test_the_same_draft_whatever_the_blocks(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{i % 7},{'xyz'[i % 3]}\n" for i in range(50)))
    whole = draft_schema(CsvSource(path))
    monkeypatch.setattr("synthdp.tables.sources.csv.BLOCK_ROWS", 8)
    assert draft_schema(CsvSource(path)) == whole
