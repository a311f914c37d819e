"""Drafts of times of day, dates and decimals: whatever holds them, what is drafted is a schema that can be released."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import synthdp as sd
from synthdp.errors import DraftWarning
from synthdp.nonprivate.draft_schema import draft_schema
from synthdp.tables.dataframe import FrameSource

CLOCKS = [dt.time(8, 30), dt.time(17, 45), None] * 20
DAYS = [dt.date(2020, 5, 2), dt.date(2021, 3, 1), None] * 20
PRICES = [Decimal("1.25"), Decimal("99.50"), None] * 20
LENGTHS = [dt.timedelta(seconds=5), dt.timedelta(hours=2), None] * 20
QUARTERS = [one / 4 for one in range(1, 400)]
MOMENT = dt.datetime.fromisoformat("2020-05-03 17:00")


def objects(*values):
    return pd.DataFrame({"x": pd.Series([*values, None] * 20, dtype=object)})


TABLES = {
    "pandas time": (pd.DataFrame({"x": pd.Series(CLOCKS, dtype=object)}), "time"),
    "pandas date": (pd.DataFrame({"x": pd.Series(DAYS, dtype=object)}), "datetime"),
    "pandas decimal": (pd.DataFrame({"x": pd.Series(PRICES, dtype=object)}), "decimal"),
    "pandas whole numbers": (objects(*range(200)), "integer"),
    "pandas whole and real numbers": (objects(*range(100), *QUARTERS), "continuous"),
    "pandas whole numbers and decimals": (objects(*range(200), Decimal("1.5")), "decimal"),
    "pandas real numbers and decimals": (objects(*QUARTERS, Decimal("1.5")), "continuous"),
    "pandas days and moments": (objects(dt.date(2020, 5, 2), MOMENT), "datetime"),
    "pandas two kinds of moments": (objects(pd.Timestamp("2020-05-02 15:00"), MOMENT), "datetime"),
    "pandas two kinds of lengths": (objects(pd.Timedelta(hours=5), dt.timedelta(hours=7)), "duration"),
    "pandas length": (pd.DataFrame({"x": pd.Series(LENGTHS, dtype=object)}), "duration"),
    "arrow time64": (pa.table({"x": pa.array(CLOCKS, pa.time64("us"))}), "time"),
    "arrow time32": (pa.table({"x": pa.array(CLOCKS, pa.time32("s"))}), "time"),
    "arrow date64": (pa.table({"x": pa.array(DAYS, pa.date64())}), "datetime"),
    "arrow decimal": (pa.table({"x": pa.array(PRICES, pa.decimal128(8, 2))}), "decimal"),
    "polars time": (pl.DataFrame({"x": CLOCKS}), "time"),
    "polars decimal": (pl.DataFrame({"x": pl.Series(PRICES, dtype=pl.Decimal(8, 2))}), "decimal"),
}


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(("table", "kind"), TABLES.values(), ids=TABLES)
def test_what_is_drafted_is_released_in_the_type_that_it_came_in(table, kind):
    document = draft_schema(FrameSource(table))
    columns = [{**column, "reviewed": True} for column in document["columns"]]
    assert columns[0]["type"] == kind
    assert columns[0]["nullable"] is True
    schema = sd.Schema.from_json(json.dumps({**document, "columns": columns}))
    synthetic = sd.SyntheticRelease(schema=schema, epsilon=5.0, random_state=1).fit_transform(table)
    assert FrameSource(synthetic).dtypes == FrameSource(table).dtypes
    drafted_again = draft_schema(FrameSource(synthetic))["columns"][0]
    assert drafted_again["type"] == kind


def test_a_time_of_day_is_drafted_in_the_resolution_of_the_table():
    entry = draft_schema(FrameSource(TABLES["pandas time"][0]))["columns"][0]
    assert (entry["lower"], entry["upper"], entry["resolution"]) == ("08:00:00", "17:59:59.999999", "min")


def test_decimals_are_drafted_with_the_digits_of_their_type():
    table = pa.table({"x": pa.array([Decimal("100.00"), Decimal("300.00")] * 30, pa.decimal128(8, 2))})
    entry = draft_schema(FrameSource(table))["columns"][0]
    assert (entry["decimals"], "step" in entry) == (2, False)


HOURS = pd.date_range("2013-01-01 06:00", periods=300, freq="h")
MOMENTS_AS_TEXT = {
    "days": HOURS.strftime("%Y-%m-%d"),
    "moments of UTC": HOURS.strftime("%Y-%m-%dT%H:%M:%SZ"),
    "moments": HOURS.strftime("%Y-%m-%d %H:%M:%S"),
}
TEXT_TABLES = {
    "pandas": lambda texts: pd.DataFrame({"x": pd.array(texts, dtype="string")}),
    "pandas category": lambda texts: pd.DataFrame({"x": pd.array(texts, dtype="string")}).astype("category"),
    "polars": lambda texts: pl.DataFrame({"x": list(texts)}),
    "pyarrow": lambda texts: pa.table({"x": list(texts)}),
}


def accepted(table):
    with pytest.warns(DraftWarning):
        return sd.draft(table).accept_all()


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("spelled", MOMENTS_AS_TEXT)
@pytest.mark.parametrize("library", TEXT_TABLES)
def test_moments_that_are_texts_are_drafted_as_moments_and_come_out_as_such_texts(library, spelled):
    """As `pandas.read_csv` leaves them: as levels of more than a hundred they would all become "other"."""
    table = TEXT_TABLES[library](MOMENTS_AS_TEXT[spelled])
    draft = accepted(table)
    synthetic = sd.SyntheticRelease(schema=draft, epsilon=5.0, random_state=1).fit_transform(table)
    assert FrameSource(synthetic).dtypes == FrameSource(table).dtypes
    texts = [str(one) for one in pd.Series(list(synthetic["x"])).astype(str)]
    written = pd.to_datetime(pd.Series(texts), format="ISO8601")
    assert written.min() >= pd.Timestamp("2013-01-01", tz=written.dt.tz)
    assert {len(one) for one in texts} == {len(MOMENTS_AS_TEXT[spelled][0])}
    assert {one.endswith("Z") for one in texts} == {MOMENTS_AS_TEXT[spelled][0].endswith("Z")}


def test_texts_of_which_one_is_no_moment_stay_texts():
    table = pd.DataFrame({"x": pd.array([*MOMENTS_AS_TEXT["days"][:30], "unknown"] * 3, dtype="string")})
    assert draft_schema(FrameSource(table))["columns"][0]["type"] == "categorical"


def test_days_in_a_csv_file_stay_days_beside_moments(tmp_path):
    """The writer of a file asks every column by itself: no midnight is added to a day."""
    pd.DataFrame({"day": MOMENTS_AS_TEXT["days"], "moment": MOMENTS_AS_TEXT["moments"]}).to_csv(
        tmp_path / "t.csv", index=False
    )
    draft = accepted(tmp_path / "t.csv")
    release = sd.SyntheticRelease(schema=draft, epsilon=5.0, random_state=1).fit(sd.CsvSource(tmp_path / "t.csv"))
    release.release_.output.sample_to(tmp_path / "out.csv", rows=50, random_state=1)
    out = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert set(out["day"].str.len()) == {len("2013-01-01")}
    assert set(out["moment"].str.len()) == {len("2013-01-01 06:00:00")}


SIZES = ["small", "medium", "large", "huge", None] * 30
ORDER = ["small", "medium", "large", "huge"]
ORDERED = {
    "pandas": lambda values: pd.DataFrame({"x": pd.Categorical(values, categories=ORDER, ordered=True)}),
    "polars": lambda values: pl.DataFrame({"x": pl.Series(values, dtype=pl.Enum(ORDER))}),
    "polars lazy": lambda values: pl.LazyFrame({"x": pl.Series(values, dtype=pl.Enum(ORDER))}),
}


@pytest.mark.parametrize("make", ORDERED.values(), ids=ORDERED)
def test_levels_keep_the_order_that_the_columns_type_gives_them(make):
    table = make(SIZES)
    with pytest.warns(DraftWarning):
        draft = sd.draft(table)
    draft.review("x").accept(by="a test")
    assert draft["x"] == sd.Ordinal(ORDER, nullable=True)
    synthetic = sd.SyntheticRelease(schema=draft, epsilon=5.0).fit_transform(table)
    wanted = table.collect() if isinstance(table, pl.LazyFrame) else table
    got = synthetic.collect() if isinstance(synthetic, pl.LazyFrame) else synthetic
    assert got["x"].dtype == wanted["x"].dtype


@pytest.mark.parametrize("make", ORDERED.values(), ids=ORDERED)
def test_a_rare_level_of_an_ordered_type_is_not_drafted(make):
    (column,) = draft_schema(FrameSource(make([*["huge", "small"] * 30, "medium"])))["columns"]
    assert (column["type"], column["levels"]) == ("ordinal", ["small", "huge"])
    assert "1 more" in column["comment"]


def test_levels_without_order_come_out_without_order():
    """The order in which levels are listed or discovered means nothing: by it, "large" was below "small"."""
    table = ORDERED["pandas"](["small", "medium", "large", "huge"] * 400)
    arrow = pa.table({"x": pa.DictionaryArray.from_arrays(pa.array([0, 1] * 500, pa.int8()), ORDER, ordered=True)})
    for schema in (None, {"x": sd.Categorical(sorted(ORDER))}):
        assert not sd.SyntheticRelease(schema=schema, epsilon=5.0).fit_transform(table)["x"].cat.ordered
        assert not sd.SyntheticRelease(schema=schema, epsilon=5.0).fit_transform(arrow)["x"].type.ordered
    known = {"x": sd.Ordinal(ORDER)}
    assert sd.SyntheticRelease(schema=known, epsilon=5.0).fit_transform(table)["x"].dtype == table["x"].dtype
    assert sd.SyntheticRelease(schema=known, epsilon=5.0).fit_transform(arrow)["x"].type == arrow["x"].type


def test_what_is_drafted_of_duckdbs_own_texts_is_released_as_texts():
    """A fresh label is no UUID, and the release refused the column that the draft had declared."""
    time = "(TIME '00:00:00' + INTERVAL (i % 600) MINUTE)::TIME_NS"
    table = duckdb.sql(f"SELECT uuid() u, '{{}}'::JSON j, {time} t, (i % 7)::INT z FROM range(500) x(i)")
    with pytest.warns(DraftWarning):
        draft = sd.draft(table)
    for name in draft.unreviewed:
        draft.review(name).accept(by="a test")
    synthetic = sd.SyntheticRelease(schema=draft, epsilon=5.0).fit_transform(table)
    assert dict(zip(synthetic.columns, map(str, synthetic.types), strict=True)) == {
        "u": "VARCHAR", "j": "VARCHAR", "t": "TIME_NS", "z": "INTEGER",
    }  # fmt: skip
