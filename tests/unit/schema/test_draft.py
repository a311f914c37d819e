"""`Schema.draft`: read off a table, reviewed column by column, refused until all columns are."""

from __future__ import annotations

import copy
import datetime as dt
import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

import synthdp as sd
from synthdp.errors import DataError, DraftWarning, ParameterError, SchemaError
from synthdp.schema.draft import SchemaDraft

pytestmark = pytest.mark.filterwarnings("ignore::synthdp.errors.DraftWarning")
CANARY = "canary-4711"


def table(rows: int = 300) -> pd.DataFrame:
    i = np.arange(rows)
    return pd.DataFrame(
        {
            "age": 17 + i % 60,
            "dep_delay": np.where(i % 20 == 0, np.nan, i % 1345 - 43.5),
            "city": np.array(["Oslo", "Bergen", CANARY])[np.minimum(i % 50, 2)],
            "many": [f"level {k % 140}" for k in i],
        }
    )


@pytest.fixture
def schema() -> SchemaDraft:
    return sd.Schema.draft(table())


def test_a_draft_says_that_it_reads_the_table() -> None:
    with pytest.warns(DraftWarning, match="READ OFF THE TABLE"):
        sd.Schema.draft(table())


def test_a_draft_is_a_schema_of_columns_that_nobody_has_reviewed(schema: SchemaDraft) -> None:
    assert isinstance(schema, sd.Schema)
    assert list(schema) == list(schema.unreviewed) == ["age", "dep_delay", "city", "many"]
    assert isinstance(schema["age"], sd.Integer)
    assert schema["many"].levels is None
    assert "not reviewed" in repr(schema.review("age"))


def refused(schema: sd.Schema, folder) -> None:
    """Every way to the rows refuses it, and nothing is spent."""
    ledger = folder / "l.sqlite"
    ways = [
        lambda: sd.SyntheticRelease(schema=schema, ledger=ledger).fit(table()),
        lambda: sd.SyntheticRelease(schema=schema, ledger=ledger).fit_transform(table(), np.zeros(300)),
        lambda: sd.SyntheticRelease(schema=schema, ledger=ledger).fit_resample(table(), np.zeros(300)),
        lambda: sd.Curator(table(), schema=schema, budget=sd.PureDP(1.0), ledger=ledger),
        lambda: sd.SyntheticRelease(schema=schema.replace({}), ledger=ledger).fit(table()),
        lambda: sd.SyntheticRelease(schema=schema.extended({}), ledger=ledger).fit(table()),
        lambda: sd.SyntheticRelease(schema=json.loads(schema.to_json()), ledger=ledger).fit(table()),
        lambda: sd.Schema.from_json(schema.to_json()),
        schema.reviewed,
    ]
    for way in ways:
        with pytest.raises(SchemaError, match="is a draft taken from the table"):
            way()
    assert not ledger.exists() or sd.Ledger(ledger).entries() == []


@pytest.mark.filterwarnings("ignore::synthdp.errors.UnprotectedLabelsWarning")
def test_every_release_refuses_a_draft_until_the_last_column_is_reviewed(schema: SchemaDraft, tmp_path) -> None:
    for name in list(schema):
        refused(schema, tmp_path)
        refused(copy.deepcopy(schema), tmp_path)
        refused(pickle.loads(pickle.dumps(schema)), tmp_path)
        schema.review(name).accept()
    assert schema.unreviewed == ()
    release = sd.SyntheticRelease(schema=schema, epsilon=3.0)
    found = list(release.fit_transform(table()))
    assert found == list(schema)[:3]  # noise hides the levels of the last one, which nobody declared
    assert "age, dep_delay, city were drafted from the table and accepted" in str(release.receipt_)


def test_reviewing_acts_in_place_and_says_who_knows_what(schema: SchemaDraft) -> None:
    schema.review("age").accept(by="A. Smith")
    schema.review("dep_delay", lower=-120, upper=1500)
    schema.review("city", levels=["Oslo", "Bergen"], source="codebook of 2025")
    schema.review("many", sd.Categorical(["a"], other="rest", source="law 7"))
    assert schema.unreviewed == ()
    assert (schema["dep_delay"].lower, schema["dep_delay"].upper, schema["dep_delay"].nullable) == (-120, 1500, True)
    assert [column.source for column in schema.values()] == [
        "drafted from the table and accepted by A. Smith",
        "declared at the review of a draft; drafted from the table: nullable, step",
        "codebook of 2025; drafted from the table: nullable",
        "law 7",
    ]
    assert schema.reviewed() == schema
    assert sd.Schema.from_json(schema.to_json()) == schema


def test_a_bound_that_was_left_as_it_was_is_still_called_drafted(schema: SchemaDraft) -> None:
    """What the receipt says of it must not depend on what else was changed."""
    drafted = schema["dep_delay"]
    schema.review("dep_delay", upper=1500)
    assert schema["dep_delay"].source == "drafted from the table"
    schema.review("dep_delay").set(lower=drafted.lower, upper=3000)
    assert schema["dep_delay"].source == "drafted from the table"
    schema.review("city", levels=["Oslo", CANARY])
    assert schema["city"].source == "drafted from the table"


def test_the_receipt_says_what_else_was_read_off_the_rows_beside_new_bounds_and_levels() -> None:
    """One row decides whether a value is missing, and in which digits all numbers lie."""
    rows = table()[["age", "dep_delay", "city"]]
    schema = sd.Schema.draft(rows)
    schema.review("age", lower=0, upper=120, nullable=False, source="common knowledge")
    schema.review("dep_delay", lower=-120, upper=1500, source="the form").set(step=0.5)
    schema.review("city", sd.Categorical(["Oslo", "Bergen"], source="the codebook"))
    receipt = str(sd.SyntheticRelease(schema=schema).fit(rows).receipt_)
    assert "nullable of dep_delay were drafted from the table and accepted: they may tell of single rows" in receipt
    assert "(source: the form)" in receipt
    assert receipt.count("drafted from the table") == 1
    again = sd.Schema.from_json(schema.to_json())
    assert [column.source for column in again.values()] == [
        "common knowledge", "the form; drafted from the table: nullable", "the codebook",
    ]  # fmt: skip


def test_of_a_file_of_texts_the_type_too_is_read_off_the_rows(tmp_path) -> None:
    (tmp_path / "t.csv").write_text("x\n" + "1\n2\n" * 50, encoding="utf-8")
    schema = sd.Schema.draft(tmp_path / "t.csv")
    schema.review("x", levels=[1, 2, 3], source="the form")
    assert schema["x"].source == "the form; drafted from the table: type, nullable"


def test_a_long_source_has_room_for_what_was_drafted(schema: SchemaDraft) -> None:
    schema.review("age", lower=0, upper=120, source="x" * 200)
    assert sd.Schema.from_json(schema.accept_all().to_json())["age"].source.startswith("x" * 200 + "; drafted")


def test_settings_of_an_open_column_that_were_drafted_are_on_the_receipt(schema: SchemaDraft) -> None:
    schema.accept_all()
    curator = sd.Curator(table(), schema=schema, budget=sd.ApproxDP(1.0, 1e-6))
    said = [line for line in curator.receipt().assumptions if "many" in line]
    assert any("all settings of many were drafted from the table and accepted" in line for line in said)


def test_one_new_bound_is_moved_to_the_next_value_that_the_steps_reach(schema: SchemaDraft) -> None:
    """The values of the column end in a half."""
    lower = schema["dep_delay"].lower
    schema.review("dep_delay", upper=1500)
    assert schema["dep_delay"].upper == 1500.5
    assert schema["dep_delay"].lower == lower
    schema.review("dep_delay").set(lower=-100)
    assert (schema["dep_delay"].lower, schema["dep_delay"].upper) == (-100.5, 1500.5)
    with pytest.raises(SchemaError, match="must be below"):
        schema.review("dep_delay").set(upper=-200)


def test_what_was_seen_is_forgotten_when_a_column_is_reviewed(schema: SchemaDraft) -> None:
    assert "different" in schema.review("city").seen
    assert CANARY in schema.to_json()
    schema.review("city", levels=["Oslo", "Bergen"])
    for name in schema.unreviewed:
        schema.review(name).accept()
    assert CANARY not in schema.to_json()
    assert '"seen"' not in schema.to_json()
    assert '"comment": "The' not in schema.to_json()


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("age", {"lower": 9, "upper": 3}, "must be below"),
        ("age", {"levels": [1]}, "no setting 'levels'"),
        ("city", {"levels": []}, "must not be empty"),
        ("nobody", {"lower": 1}, "no column 'nobody'"),
        ("nobody", {}, "no column 'nobody'"),
    ],
)
def test_a_change_that_contradicts_itself_leaves_all_as_it_was(schema: SchemaDraft, name, settings, words) -> None:
    before = schema.to_json()
    with pytest.raises(SchemaError, match=words):
        schema.review(name, **settings)
    assert schema.to_json() == before
    assert len(schema.unreviewed) == 4


def test_columns_are_dropped_but_for_the_last(schema: SchemaDraft) -> None:
    schema.review("many").drop()
    schema.drop("age").drop("city")
    assert list(schema) == ["dep_delay"]
    with pytest.raises(SchemaError, match="last"):
        schema.drop("dep_delay")


def test_a_release_is_of_the_draft_as_it_was_when_it_was_fitted(schema: SchemaDraft) -> None:
    schema.accept_all()
    release = sd.SyntheticRelease(schema=schema).fit(table())
    schema.review("age", lower=0, upper=5)
    assert release.schema_["age"].upper > 70
    assert release.transform(table())["age"].max() > 70


def test_a_draft_goes_to_a_file_and_comes_back(schema: SchemaDraft, tmp_path) -> None:
    schema.review("age").accept()
    schema.write(tmp_path / "s.json")
    with pytest.raises(SchemaError, match="is a draft taken from the table"):
        sd.Schema.read(tmp_path / "s.json")
    again = SchemaDraft.read(tmp_path / "s.json")
    assert again == schema
    assert again.unreviewed == schema.unreviewed
    again.accept_all().write(tmp_path / "s.json")
    assert sd.Schema.read(tmp_path / "s.json") == schema


BAD = {
    "free text": [f"the patient said number {i} hurts" for i in range(40)],
    "lists": [[1, 2]] * 40,
    "objects": [object() for _ in range(40)],
    "sets": [{1}] * 40,
    "huge": [1.7e308, -1.7e308, *(k / 7 for k in range(38))],
    "complex": [1j] * 40,
}


@pytest.mark.parametrize("case", BAD)
def test_one_bad_column_is_left_out_and_listed(case: str) -> None:
    frame = pd.DataFrame({"x": range(40), "bad": pd.Series(BAD[case]), "y": ["a", "b"] * 20})
    schema = sd.Schema.draft(frame)
    assert list(schema) == ["x", "y"]
    assert list(schema.left_out) == ["bad"]
    assert "left out: 'bad'" in repr(schema)
    assert len(sd.SyntheticRelease(schema=schema.accept_all()).fit_transform(frame).columns) == 2


def test_an_index_without_a_name_is_left_out(tmp_path) -> None:
    table().to_csv(tmp_path / "t.csv")
    assert list(sd.Schema.draft(tmp_path / "t.csv")) == list(table())
    assert sd.Schema.draft(tmp_path / "t.csv").left_out == {"column 1": "it has no name"}
    assert list(sd.Schema.draft(pd.read_csv(tmp_path / "t.csv")).left_out) == ["Unnamed: 0"]


def test_a_table_of_bad_columns_alone_is_refused_with_the_reasons() -> None:
    with pytest.raises(DataError, match=r"'bad'.*lists"):
        sd.Schema.draft(pd.DataFrame({"bad": [[1]] * 30}))


def test_whatever_holds_a_table_can_be_drafted_from(tmp_path) -> None:
    frame = table()
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    tables = [frame, pl.from_pandas(frame), pl.from_pandas(frame).lazy(), str(tmp_path / "t.csv"), tmp_path / "t.parquet",
              sd.CsvSource(tmp_path / "t.csv"), pl.from_pandas(frame).to_arrow()]  # fmt: skip
    drafts = [dict(sd.Schema.draft(one)) for one in tables]
    assert all(draft.keys() == drafts[0].keys() for draft in drafts)
    assert all([type(c) for c in draft.values()] == [type(c) for c in drafts[0].values()] for draft in drafts)


def test_a_plan_takes_a_draft_and_says_what_it_assumed(schema: SchemaDraft) -> None:
    schema.review("age", lower=0, upper=120)
    plan = sd.SyntheticRelease(schema=schema).plan(rows=300)
    assert [line for line in plan.assumed if "dep_delay, city, many" in line and "age" not in line]
    assert [line for line in plan.assumed if "discovered" in line and line.endswith("many")]
    assert all(line in str(plan) for line in plan.assumed)
    assert sd.plan(sd.Schema({"age": sd.Integer(0, 9), "sex": sd.Boolean()}), rows=300).assumed == ()


@pytest.mark.parametrize(
    "column",
    [sd.Integer(), sd.Continuous(), sd.Categorical(), sd.Categorical(other="rest"), sd.Datetime(), sd.Duration(),
     sd.Datetime(resolution="D", nullable=True)],
)  # fmt: skip
def test_a_plan_takes_every_open_column(column) -> None:
    plan = sd.plan(sd.Schema({"x": column, "y": sd.Boolean()}), rows=500)
    assert plan.assumed[0].endswith(": x")


def test_a_schema_is_given_as_a_dict_a_document_or_a_path(tmp_path) -> None:
    columns = {"age": sd.Integer(0, 99), "city": sd.Categorical(["Oslo", "Bergen"], other="rest")}
    sd.Schema(columns).write(tmp_path / "s.json")
    document = json.loads((tmp_path / "s.json").read_text())
    for given in (columns, document, tmp_path / "s.json", str(tmp_path / "s.json")):
        release = sd.SyntheticRelease(schema=given).fit(table())
        assert release.schema_ == sd.Schema(columns)
        assert release.transform(table())["age"].tolist() == table()["age"].tolist()
        assert release.plan(rows=300).columns == 2
        assert sd.DomainDiscretizer(given).fit(table()).schema_ == sd.Schema(columns)
    with pytest.raises(ParameterError, match="schema must be"):
        sd.SyntheticRelease(schema=7).fit(table())


def test_dates_as_texts_and_as_moments_are_drafted_alike(tmp_path) -> None:
    days = [dt.date(2021, 1, 1) + dt.timedelta(days=i) for i in range(40)]
    pd.DataFrame({"d": days}).to_csv(tmp_path / "t.csv", index=False)
    assert sd.Schema.draft(tmp_path / "t.csv")["d"] == sd.Schema.draft(pl.DataFrame({"d": days}))["d"]
