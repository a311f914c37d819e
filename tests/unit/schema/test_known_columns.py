"""Columns that everybody knows: complete, with a source, the same in Python and in a file, from no table."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import synthdp as sd
from synthdp.errors import SchemaError
from synthdp.schema.column import LONGEST_SOURCE, is_drafted
from synthdp.schema.columns import DISCOVERED
from synthdp.schema.known_columns import suggested

names = st.sampled_from(sd.Schema.known())


def test_every_known_column_can_be_declared_and_says_who_knows_it() -> None:
    known = {name: sd.Schema.known(name) for name in sd.Schema.known()}
    assert not sd.Schema(known).undeclared
    assert [name for name, column in known.items() if name not in column.source] == []
    assert all(len(column.source) <= LONGEST_SOURCE for column in known.values())
    assert not any(is_drafted(column) or column.source == DISCOVERED for column in known.values())


@given(names, st.booleans(), st.none() | st.just("form 7b"))
def test_a_file_may_name_a_known_column_and_reads_as_what_python_declares(name, nullable, source):
    settings = {"nullable": nullable} | ({} if source is None else {"source": source})
    entry = {"name": "x", "known": name} | settings
    read = sd.Schema.from_json(json.dumps({"synthdp_schema": 3, "columns": [entry]}))
    assert read == sd.Schema({"x": sd.Schema.known(name, **settings)})
    assert read["x"].source == sd.Schema.known(name, **settings).source
    assert sd.Schema.from_json(read.to_json()) == read


def test_the_codes_are_those_of_the_standards() -> None:
    two, three = (sd.Schema.known(name).levels for name in ("country", "country_3"))
    assert len(two) == len(set(two)) == len(three) == len(set(three)) == 249
    assert dict(zip(two, three, strict=True))["CH"] == "CHE"
    assert {len(code) for code in two} == {2}
    assert {len(code) for code in three} == {3}
    assert {"EUR", "USD", "INR"} <= set(sd.Schema.known("currency").levels)
    assert len(sd.Schema.known("us_state").levels) == len(sd.Schema.known("us_state_name").levels) == 51
    assert "New Hampshire" in sd.Schema.known("us_state_name").levels
    assert len(sd.Schema.known("icd10_chapter").levels) == 22


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SchemaError, match="'month'"):
        sd.Schema.known("mont")
    with pytest.raises(SchemaError, match="'mont'"):
        sd.Schema.from_json('{"synthdp_schema": 3, "columns": [{"name": "x", "known": "mont"}]}')
    with pytest.raises(SchemaError, match="levels"):
        sd.Schema.known("month", levels=["a"])
    with pytest.raises(SchemaError, match=r"'x'.*integer"):
        sd.Schema.from_json('{"synthdp_schema": 3, "columns": [{"name": "x", "known": "month", "type": "boolean"}]}')


@pytest.mark.parametrize("strange", [3, ["month"], {"a": 1}, None])
def test_a_file_that_names_no_text_is_refused_in_one_sentence(strange: object) -> None:
    document = {"synthdp_schema": 3, "columns": [{"name": "x", "known": strange}]}
    with pytest.raises(SchemaError, match="'x'"):
        sd.Schema.from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("name", "known"),
    [("dep_month", "month"), ("hours-per-week", "hours_per_week"), ("Age", "age"), ("Nationality", "country"),
     ("birthMonth", "month"), ("success %", "percentage"), ("homeState", "us_state")],
)  # fmt: skip
def test_the_last_words_of_a_name_suggest_a_known_column(name: str, known: str) -> None:
    assert known in suggested(name)


@pytest.mark.parametrize("name", ["monthly", "cigs_per_day", "platitude", "statement", "x", "", "income", "village"])
def test_other_names_suggest_nothing(name: str) -> None:
    assert list(suggested(name)) == []


def test_a_known_column_costs_nothing_and_stands_on_the_receipt() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"month": rng.integers(1, 13, 2000), "age": rng.integers(20, 80, 2000)})
    schema = {"month": sd.Schema.known("month"), "age": sd.Integer()}
    release = sd.SyntheticRelease(schema=schema, epsilon=3.0).fit(table)
    found = [item.step for item in release.receipt_.items if " × " not in item.step]  # of one column alone
    assert not [step for step in found if "month" in step]
    assert [step for step in found if "age" in step]
    assert "known column 'month'" in " ".join(str(release.receipt_).split())
    assert release.schema_["month"] == sd.Integer(1, 12)
