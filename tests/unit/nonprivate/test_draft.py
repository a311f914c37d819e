"""`sd.draft`: read off a table, reviewed column by column, refused until all columns are."""

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
from synthdp.nonprivate.draft import Draft

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
def draft() -> Draft:
    return sd.draft(table())


def test_a_draft_says_that_it_reads_the_table() -> None:
    with pytest.warns(DraftWarning, match="private"):
        sd.draft(table())


def test_a_draft_is_a_schema_of_columns_that_nobody_has_reviewed(draft: Draft) -> None:
    assert isinstance(draft.schema, sd.Schema)
    assert list(draft) == list(draft.unreviewed) == ["age", "dep_delay", "city", "many"]
    assert isinstance(draft["age"], sd.Integer)
    assert draft["many"].levels is None
    assert "not reviewed" in repr(draft.review("age"))


def refused(draft: Draft, folder) -> None:
    """Every way to the rows refuses it, and nothing is spent."""
    ledger = folder / "l.sqlite"
    ways = [
        lambda: sd.SyntheticRelease(schema=draft, ledger=ledger).fit(table()),
        lambda: sd.SyntheticRelease(schema=draft, ledger=ledger).fit_transform(table(), np.zeros(300)),
        lambda: sd.SyntheticRelease(schema=draft, ledger=ledger).fit_resample(table(), np.zeros(300)),
        lambda: sd.Curator(table(), schema=draft, budget=sd.PureDP(1.0), ledger=ledger),
        lambda: sd.SyntheticRelease(schema=json.loads(draft.to_json()), ledger=ledger).fit(table()),
        lambda: sd.Schema.from_json(draft.to_json()),
        draft.finish,
    ]
    for way in ways:
        with pytest.raises(SchemaError, match="review"):
            way()
    assert not ledger.exists() or sd.Ledger(ledger).entries() == []


@pytest.mark.filterwarnings("ignore::synthdp.errors.UnprotectedLabelsWarning")
def test_every_release_refuses_a_draft_until_the_last_column_is_reviewed(draft: Draft, tmp_path) -> None:
    for name in list(draft):
        refused(draft, tmp_path)
        refused(copy.deepcopy(draft), tmp_path)
        refused(pickle.loads(pickle.dumps(draft)), tmp_path)
        draft.review(name).accept()
    assert draft.unreviewed == ()
    release = sd.SyntheticRelease(schema=draft, epsilon=3.0)
    found = list(release.fit_transform(table()))
    assert found == list(draft)[:3]  # noise hides the levels of the last one, which nobody declared
    assert "age, dep_delay, city were drafted from the table and accepted" in " ".join(str(release.receipt_).split())


def test_reviewing_acts_in_place_and_says_who_knows_what(draft: Draft) -> None:
    draft.review("age").accept(by="A. Smith")
    draft.review("dep_delay", lower=-120, upper=1500)
    draft.review("city", levels=["Oslo", "Bergen"], source="codebook of 2025")
    draft.review("many", sd.Categorical(["a"], other="rest", source="law 7"))
    assert draft.unreviewed == ()
    assert (draft["dep_delay"].lower, draft["dep_delay"].upper, draft["dep_delay"].nullable) == (-120, 1500, True)
    assert [column.source for column in draft.finish().values()] == [
        "drafted from the table and accepted by A. Smith",
        "declared at the review of a draft; drafted from the table: nullable, step",
        "codebook of 2025; drafted from the table: nullable",
        "law 7",
    ]
    assert sd.Schema.from_json(draft.to_json()) == draft.finish()


def test_a_bound_that_was_left_as_it_was_is_still_called_drafted(draft: Draft) -> None:
    """What the receipt says of it must not depend on what else was changed."""
    drafted = draft["dep_delay"]
    draft.review("dep_delay", upper=1500)
    assert draft["dep_delay"].source == "drafted from the table"
    draft.review("dep_delay").set(lower=drafted.lower, upper=3000)
    assert draft["dep_delay"].source == "drafted from the table"
    draft.review("city", levels=["Oslo", CANARY])
    assert draft["city"].source == "drafted from the table"


def test_the_receipt_says_what_else_was_read_off_the_rows_beside_new_bounds_and_levels() -> None:
    """One row decides whether a value is missing, and in which digits all numbers lie."""
    rows = table()[["age", "dep_delay", "city"]]
    draft = sd.draft(rows)
    draft.review("age", lower=0, upper=120, nullable=False, source="common knowledge")
    draft.review("dep_delay", lower=-120, upper=1500, source="the form").set(step=0.5)
    draft.review("city", sd.Categorical(["Oslo", "Bergen"], source="the codebook"))
    receipt = " ".join(str(sd.SyntheticRelease(schema=draft.finish()).fit(rows).receipt_).split())
    assert "nullable of dep_delay were drafted from the table and accepted: they may tell of single rows" in receipt
    assert "(source: the form)" in receipt
    assert receipt.count("drafted from the table") == 1
    again = sd.Schema.from_json(draft.to_json())
    assert [column.source for column in again.values()] == [
        "common knowledge", "the form; drafted from the table: nullable", "the codebook",
    ]  # fmt: skip


def test_of_a_file_of_texts_the_type_too_is_read_off_the_rows(tmp_path) -> None:
    (tmp_path / "t.csv").write_text("x\n" + "1\n2\n" * 50, encoding="utf-8")
    draft = sd.draft(tmp_path / "t.csv")
    draft.review("x", levels=[1, 2, 3], source="the form")
    assert draft["x"].source == "the form; drafted from the table: type, nullable"


def test_a_long_source_has_room_for_what_was_drafted(draft: Draft) -> None:
    draft.review("age", lower=0, upper=120, source="x" * 200)
    assert sd.Schema.from_json(draft.accept_all().to_json())["age"].source.startswith("x" * 200 + "; drafted")


def test_settings_of_an_open_column_that_were_drafted_are_on_the_receipt(draft: Draft) -> None:
    curator = sd.Curator(table(), schema=draft.accept_all().finish(), budget=sd.ApproxDP(1.0, 1e-6))
    said = [line for line in curator.receipt().assumptions if "many" in line]
    assert any("all settings of many were drafted from the table and accepted" in line for line in said)


def coded() -> Draft:
    row = np.arange(600)
    table = pd.DataFrame({"zip": np.array([8004, 9000, 75001])[row % 3], "area_code": row % 400, "codeine": row % 30})
    with pytest.warns(DraftWarning):
        return sd.draft(table.assign(zip=table["zip"].where(row > 20)))


def test_whole_numbers_named_like_codes_are_proposed_as_labels_and_the_person_decides() -> None:
    draft = coded()
    assert draft["zip"] == sd.Categorical([8004, 9000, 75001], nullable=True)
    assert isinstance(draft["area_code"], sd.Integer)  # most of its codes are rare
    assert draft.review("area_code").instead == sd.Categorical(None)
    assert draft.review("codeine").instead is None
    numbers = draft.review("zip").instead
    assert isinstance(numbers, sd.Integer)
    assert numbers.nullable
    assert Draft.from_json(draft.to_json()) == draft
    draft.review("zip").take_instead(by="me")
    assert draft["zip"] == numbers
    assert draft.review("zip").instead is None
    with pytest.raises(SchemaError, match="'codeine'"):
        draft.review("codeine").take_instead()
    assert "instead" not in draft.accept_all().to_json()
    assert draft.finish()["zip"].source.endswith("by me")


def test_one_new_bound_is_moved_to_the_next_value_that_the_steps_reach(draft: Draft) -> None:
    """The values of the column end in a half."""
    lower = draft["dep_delay"].lower
    draft.review("dep_delay", upper=1500)
    assert draft["dep_delay"].upper == 1500.5
    assert draft["dep_delay"].lower == lower
    draft.review("dep_delay").set(lower=-100)
    assert (draft["dep_delay"].lower, draft["dep_delay"].upper) == (-100.5, 1500.5)
    with pytest.raises(SchemaError, match=r"'dep_delay'.*upper"):
        draft.review("dep_delay").set(upper=-200)


def test_what_was_seen_is_forgotten_when_a_column_is_reviewed(draft: Draft) -> None:
    assert "different" in draft.review("city").seen
    assert CANARY in draft.to_json()
    draft.review("city", levels=["Oslo", "Bergen"])
    for name in draft.unreviewed:
        draft.review(name).accept()
    assert CANARY not in draft.to_json()
    assert '"seen"' not in draft.to_json()
    assert '"comment": "The' not in draft.to_json()


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("age", {"lower": 9, "upper": 3}, "'age'.*lower"),
        ("age", {"levels": [1]}, "'levels'"),
        ("city", {"levels": []}, "'city'"),
        ("nobody", {"lower": 1}, "'nobody'"),
        ("nobody", {}, "'nobody'"),
    ],
)
def test_a_change_that_contradicts_itself_leaves_all_as_it_was(draft: Draft, name, settings, words) -> None:
    before = draft.to_json()
    with pytest.raises(SchemaError, match=words):
        draft.review(name, **settings)
    assert draft.to_json() == before
    assert len(draft.unreviewed) == 4


def test_columns_are_dropped_but_for_the_last(draft: Draft) -> None:
    draft.review("many").drop()
    draft.drop("age").drop("city")
    assert list(draft) == ["dep_delay"]
    with pytest.raises(SchemaError, match="last"):
        draft.drop("dep_delay")


def test_a_release_is_of_the_draft_as_it_was_when_it_was_fitted(draft: Draft) -> None:
    draft.accept_all()
    release = sd.SyntheticRelease(schema=draft).fit(table())
    draft.review("age", lower=0, upper=5)
    assert release.schema_["age"].upper > 70
    assert release.transform(table())["age"].max() > 70


def test_a_draft_goes_to_a_file_and_comes_back(draft: Draft, tmp_path) -> None:
    draft.review("age").accept()
    draft.write(tmp_path / "s.json")
    with pytest.raises(SchemaError, match="'dep_delay'"):
        sd.Schema.read(tmp_path / "s.json")
    again = Draft.read(tmp_path / "s.json")
    assert again == draft
    assert again.unreviewed == draft.unreviewed
    again.accept_all().write(tmp_path / "s.json")
    assert sd.Schema.read(tmp_path / "s.json") == again.finish()


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
    schema = sd.draft(frame)
    assert list(schema) == ["x", "y"]
    assert list(schema.left_out) == ["bad"]
    assert "left out: 'bad'" in repr(schema)
    assert len(sd.SyntheticRelease(schema=schema.accept_all()).fit_transform(frame).columns) == 2


def test_an_index_without_a_name_is_left_out(tmp_path) -> None:
    table().to_csv(tmp_path / "t.csv")
    assert list(sd.draft(tmp_path / "t.csv")) == list(table())
    assert sd.draft(tmp_path / "t.csv").left_out == {"column 1": "it has no name"}
    assert list(sd.draft(pd.read_csv(tmp_path / "t.csv")).left_out) == ["Unnamed: 0"]


def test_a_table_of_bad_columns_alone_is_refused_with_the_reasons() -> None:
    with pytest.raises(DataError, match=r"'bad'.*lists"):
        sd.draft(pd.DataFrame({"bad": [[1]] * 30}))


def test_whatever_holds_a_table_can_be_drafted_from(tmp_path) -> None:
    frame = table()
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    tables = [frame, pl.from_pandas(frame), pl.from_pandas(frame).lazy(), str(tmp_path / "t.csv"), tmp_path / "t.parquet",
              sd.CsvSource(tmp_path / "t.csv"), pl.from_pandas(frame).to_arrow()]  # fmt: skip
    drafts = [dict(sd.draft(one).schema) for one in tables]
    assert all(draft.keys() == drafts[0].keys() for draft in drafts)
    assert all([type(c) for c in draft.values()] == [type(c) for c in drafts[0].values()] for draft in drafts)


def test_a_plan_takes_a_draft_and_says_what_it_assumed(draft: Draft) -> None:
    draft.review("age", lower=0, upper=120)
    plan = sd.SyntheticRelease(schema=draft).plan(rows=300)
    assert [line for line in plan.assumed if "dep_delay, city, many" in line and "age" not in line]
    assert [line for line in plan.assumed if "discovered" in line and line.endswith("many")]
    assert all(line in " ".join(str(plan).split()) for line in plan.assumed)
    assert sd.plan(sd.Schema({"age": sd.Integer(0, 9), "sex": sd.Boolean()}), rows=300).assumed == ()


@pytest.mark.landing
@pytest.mark.sampled("landing")
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
    with pytest.raises(ParameterError, match="schema"):
        sd.SyntheticRelease(schema=7).fit(table())


def test_dates_as_texts_and_as_moments_are_drafted_alike(tmp_path) -> None:
    days = [dt.date(2021, 1, 1) + dt.timedelta(days=i) for i in range(40)]
    pd.DataFrame({"d": days}).to_csv(tmp_path / "t.csv", index=False)
    assert sd.draft(tmp_path / "t.csv")["d"] == sd.draft(pl.DataFrame({"d": days}))["d"]


DATABASE = {
    "persons": pd.DataFrame({"id": range(50), "p": [True, False] * 25}),
    "rows": pd.DataFrame({"id": [*range(50)] * 2, "v": ["a", "b"] * 50}),
}
RELATIONS = [sd.Relation(parent="persons", child="rows", key="id", at_most=3)]


def test_several_tables_are_drafted_without_their_keys_and_refused_until_all_are_reviewed(tmp_path) -> None:
    draft = sd.draft(DATABASE, relations=RELATIONS)
    assert draft.unreviewed == {"persons": ("p",), "rows": ("v",)}
    release = sd.DatabaseRelease(schema=draft, epsilon=3.0, ledger=tmp_path / "l.sqlite")
    for table, column in (("persons", "p"), ("rows", "v")):
        with pytest.raises(SchemaError, match=column):
            release.fit(DATABASE)
        draft.review(table, column).accept()
    assert isinstance(draft.finish(), sd.DatabaseSchema)
    assert len(sd.Ledger(tmp_path / "l.sqlite").entries()) == 0
    assert set(release.fit_transform(DATABASE)) == set(DATABASE)


def test_what_a_draft_of_several_tables_does_not_know_is_refused() -> None:
    for wrong in (lambda: sd.draft(DATABASE), lambda: sd.draft(table(), relations=RELATIONS)):
        with pytest.raises(ParameterError, match="relations"):
            wrong()
    draft = sd.draft(DATABASE, relations=RELATIONS)
    with pytest.raises(SchemaError, match="nobody"):
        draft.review("nobody", "p")
    with pytest.raises(SchemaError, match="nobody"):
        draft.review("rows", "nobody")


def test_the_older_names_still_draft_and_say_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match=r"sd\.draft"):
        assert sd.Schema.draft(table()) == sd.draft(table())
    with pytest.warns(DeprecationWarning, match=r"sd\.draft"):
        assert sd.DatabaseSchema.draft(DATABASE, RELATIONS).unreviewed == {"persons": ("p",), "rows": ("v",)}


def test_a_draft_does_not_change_behind_a_schema_that_was_taken_from_it(draft: Draft) -> None:
    before = draft.accept_all().finish()
    draft.review("age", lower=0, upper=5)
    assert before["age"].upper > 70


def persons_and_visits() -> sd.nonprivate.draft.DatabaseDraft:
    """Return drafts of two tables."""
    persons = pd.DataFrame({"id": range(200), "age": np.arange(200) % 90, "<sex>": ["f", "m"] * 100})
    visits = pd.DataFrame({"id": np.arange(200).repeat(2), "cost": np.arange(400) * 0.5})
    with pytest.warns(DraftWarning):
        return sd.draft(
            {"persons": persons, "visits": visits}, relations=[sd.Relation("persons", "visits", key="id", at_most=3)]
        )


def test_drafts_of_several_tables_show_each_column_and_what_is_not_reviewed():
    drafted = persons_and_visits()
    shown = repr(drafted)
    assert all(name in shown for name in ("persons", "visits", "'age'", "'cost'", "at_most=3"))
    assert shown.count("# not reviewed") == sum(map(len, drafted.unreviewed.values()))
    assert "&lt;sex&gt;" in drafted._repr_html_()
    assert "<sex>" not in drafted._repr_html_()


def test_drafts_of_several_tables_survive_a_file_reviewed_in_part(tmp_path):
    drafted = persons_and_visits()
    drafted.review("persons", "age", lower=0, upper=110)
    drafted.write(tmp_path / "draft.json")
    again = type(drafted).read(tmp_path / "draft.json")
    assert again == drafted
    assert again != persons_and_visits()
    assert again.unreviewed == drafted.unreviewed != {}
    with pytest.raises(SchemaError, match="'<sex>'"):
        sd.DatabaseSchema.read(tmp_path / "draft.json")
    table, name = next((table, names[0]) for table, names in again.unreviewed.items())
    with pytest.raises(SchemaError, match=rf"'{table}'.*'{name}'"):
        again.finish()
    assert again.accept_all().finish() == drafted.accept_all().finish()
