"""Notebooks, pipelines, processes and dataframe libraries: what their users expect, end to end."""

import datetime as dt
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import synthdp as sd
from synthdp import SyntheticRelease, TrainOnSynthetic

ROWS = 300
LARGE = 2**60
SCHEMA = sd.Schema(
    {
        "Dauer ⏱": sd.Duration(0, 3600, nullable=True),
        "preis €": sd.Continuous(0, 100, nullable=True),
        "große Zahl": sd.Integer(LARGE, 2 * LARGE),
        "日本": sd.Categorical(["東京", "大阪"], nullable=True),
        "wahr?": sd.Boolean(nullable=True),
        "Moment": sd.Datetime("2024-01-01", "2025-01-01", nullable=True),
    }
)


def arrow_table() -> pa.Table:
    rng = np.random.default_rng(0)

    def some(values: list[Any]) -> list[Any]:
        return [None if rng.random() < 0.1 else value for value in values]

    start = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)
    return pa.table(
        {
            "Dauer ⏱": pa.array(
                some([dt.timedelta(seconds=s) for s in rng.integers(0, 3600, ROWS).tolist()]), pa.duration("us")
            ),
            "preis €": pa.array(
                some([Decimal(c) / 100 for c in rng.integers(0, 9999, ROWS).tolist()]), pa.decimal128(10, 2)
            ),
            "große Zahl": pa.array(rng.integers(LARGE, 2 * LARGE, ROWS)),
            "日本": pa.array(some(rng.choice(["東京", "大阪"], ROWS).tolist())),
            "wahr?": pa.array(some([bool(b) for b in rng.integers(0, 2, ROWS)])),
            "Moment": pa.array(
                some([start + dt.timedelta(hours=h) for h in rng.integers(0, 5000, ROWS).tolist()]),
                pa.timestamp("us", "Europe/Vienna"),
            ),
        }
    )


def plain_pandas() -> pd.DataFrame:
    return arrow_table().to_pandas()


LIBRARIES: dict[str, Callable[[], Any]] = {
    "pandas": plain_pandas,
    "pandas nullable": lambda: plain_pandas().convert_dtypes(),
    "pandas arrow": lambda: arrow_table().to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.from_arrow(arrow_table()),
    "polars lazy": lambda: pl.from_arrow(arrow_table()).lazy(),
    "pyarrow": arrow_table,
    "duckdb": lambda: duckdb.connect().from_arrow(arrow_table()),
}


def types(table: Any) -> Any:
    match table:
        case pd.DataFrame():
            return dict(table.dtypes)
        case pa.Table():
            return table.schema
        case pl.LazyFrame() | pl.DataFrame():
            return table.collect_schema()
        case _:
            return dict(zip(table.columns, map(str, table.types), strict=True))


def as_arrow(table: Any) -> pa.Table:
    match table:
        case pd.DataFrame():
            return pa.Table.from_pandas(table, preserve_index=False)
        case pl.LazyFrame():
            return table.collect().to_arrow()
        case pl.DataFrame():
            return table.to_arrow()
        case pa.Table():
            return table
        case _:
            return table.to_arrow_table()


@pytest.mark.sampled
@pytest.mark.parametrize("library", LIBRARIES)
def test_rare_types_and_unicode_names_survive_the_whole_job(library: str) -> None:
    table = LIBRARIES[library]()
    release = SyntheticRelease(schema=SCHEMA, random_state=0, n_rows=200)
    made = release.fit_transform(table)
    assert type(made) is type(table)
    assert types(made) == types(table)
    mapped = release.transform(table)
    assert types(mapped) == types(table)
    values = as_arrow(made).to_pydict()
    assert len(values["日本"]) == 200
    assert set(values["日本"]) <= {"東京", "大阪", None}
    assert set(values["wahr?"]) <= {True, False, None}
    assert all(LARGE <= value <= 2 * LARGE for value in values["große Zahl"])
    assert all(value is None or 0 <= value <= 100 for value in values["preis €"])


@pytest.mark.sampled
@pytest.mark.parametrize("library", ["pandas arrow", "polars", "polars lazy", "pyarrow", "duckdb"])
def test_mapped_real_rows_are_the_real_rows_where_they_obey_the_schema(library: str) -> None:
    table = LIBRARIES[library]()
    mapped = SyntheticRelease(schema=SCHEMA).fit(table).transform(table)
    before, after = as_arrow(table).to_pydict(), as_arrow(mapped).to_pydict()
    assert after == before


PLAIN = sd.Schema({"age": sd.Integer(0, 99), "x": sd.Continuous(0, 1), "city": sd.Categorical(["a", "b"])})


def people(rows: int = 1500) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    age = rng.integers(20, 60, rows)
    return pd.DataFrame({"age": age, "x": rng.random(rows), "city": np.where(age > 40, "a", "b")})


@pytest.mark.sampled
@pytest.mark.parametrize("container", ["pandas", "polars"])
@pytest.mark.parametrize("brought", ["pandas", "polars"])
def test_set_output_is_obeyed_whatever_was_brought(container: str, brought: str) -> None:
    table = {"pandas": people, "polars": lambda: pl.from_pandas(people())}[brought]()
    wanted = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[container]
    release = SyntheticRelease(schema=PLAIN).set_output(transform=container)
    for made in (release.fit_transform(table), release.transform(table)):
        assert isinstance(made, wanted)
        assert list(made.columns) == ["age", "x", "city"]


def test_set_output_reaches_every_step_of_a_pipeline() -> None:
    numbers = sd.Schema({"age": PLAIN["age"], "x": PLAIN["x"]})
    steps = make_pipeline(SyntheticRelease(schema=numbers), StandardScaler()).set_output(transform="polars")
    made = steps.fit(pl.from_pandas(people()[["age", "x"]])).transform(pl.from_pandas(people()[["age", "x"]]))
    assert isinstance(made, pl.DataFrame)
    assert made.columns == ["age", "x"]


def test_a_release_shows_itself_in_a_notebook_and_nothing_of_a_name_is_run() -> None:
    name = "<script>alert(1)</script>"
    schema = sd.Schema({name: sd.Integer(0, 99)})
    release = SyntheticRelease(schema=schema).fit(people().rename(columns={"age": name})[[name]])
    for shown in (release.release_._repr_html_(), release.receipt_._repr_html_()):
        assert "<script>" not in shown
        assert "Privacy receipt: ε = 1" in shown
        assert len(shown) < 5000
    assert "Privacy receipt" not in SyntheticRelease(schema=schema)._repr_html_()
    assert "Privacy receipt" in release._repr_html_()
    assert "<script>alert" not in release._repr_html_()
    assert "adaptive marginals" in release.release_._repr_html_()


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["age", "<script>alert(1)</script>"])
def test_schema_plan_and_evaluation_show_themselves_in_a_notebook(name: str) -> None:
    schema = sd.Schema({name: sd.Integer(0, 99), "city": PLAIN["city"]})
    table = people().rename(columns={"age": name})[[name, "city"]]
    plan = SyntheticRelease(schema=schema).plan(rows=400)
    evaluation = sd.nonprivate_evaluate(table, table, schema)
    for shown in (schema._repr_html_(), plan._repr_html_(), evaluation._repr_html_()):
        assert "<table>" in shown
        assert "<script>" not in shown
    assert "lower=0, upper=99" in schema._repr_html_()
    assert "NON-PRIVATE" in evaluation._repr_html_()


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize("target", [None, "older"])
@pytest.mark.parametrize("kind", ["pandas", "polars", "array"])
def test_the_rows_that_a_model_was_trained_on_can_be_looked_at(kind: str, target: str | None) -> None:
    rows = people()[["age", "x"]]
    X = {"pandas": rows, "polars": pl.from_pandas(rows), "array": rows.to_numpy()}[kind]
    y = rows["age"].to_numpy() > 40
    model = TrainOnSynthetic(LogisticRegression(), SyntheticRelease(epsilon=5), target=target, n_rows=150).fit(X, y)
    assert isinstance(model.synthetic_, pl.DataFrame if kind == "polars" else pd.DataFrame)
    assert list(model.synthetic_.columns) == [*(["x0", "x1"] if kind == "array" else ["age", "x"]), target or "target"]
    assert len(model.synthetic_) == 150


def test_a_label_without_a_name_finds_its_declared_column_by_target() -> None:
    schema = sd.Schema({"age": PLAIN["age"], "old": sd.Boolean()})
    rows = people()[["age"]]
    _, labels = SyntheticRelease(schema=schema).fit_resample(rows, rows["age"].to_numpy() > 40, target="old")
    assert labels.dtype == np.bool_


def fitted(seed: int, ledger: Path) -> SyntheticRelease:
    return SyntheticRelease(schema=PLAIN, ledger=ledger, dataset="p", random_state=seed).fit(people(400))


@pytest.mark.slow
def test_fits_in_two_processes_are_all_counted_and_come_back_whole(tmp_path: Path) -> None:
    ledger = tmp_path / "l.sqlite"
    fits = joblib.Parallel(n_jobs=2)(joblib.delayed(fitted)(seed, ledger) for seed in range(4))
    assert len(sd.Ledger(ledger).entries("p")) == 4
    noisy = {tuple(fit.release_.measurements[1].answers) for fit in fits}
    assert len(noisy) == 4  # no two processes draw the same noise
    assert all(list(fit.sample(10)) == ["age", "x", "city"] for fit in fits)


def test_a_fitted_model_can_be_dumped_by_joblib(tmp_path: Path) -> None:
    model = TrainOnSynthetic(LogisticRegression(), SyntheticRelease(schema=PLAIN, epsilon=3))
    model.fit(people()[["age", "x"]], people()["city"])
    joblib.dump(model, tmp_path / "m.joblib")
    again = joblib.load(tmp_path / "m.joblib")
    assert (again.predict(people()[["age", "x"]]) == model.predict(people()[["age", "x"]])).all()


@pytest.mark.sampled
@pytest.mark.parametrize("rows", [100, 3000])
def test_the_size_of_a_pickle_does_not_grow_with_the_table(rows: int) -> None:
    """R15: the rows are not in it, and nothing in it is as long as they are."""
    release = SyntheticRelease(schema=PLAIN, mechanism="l1_fit", solver="mw").fit(people(rows))
    assert len(pickle.dumps(release)) < 400_000


@pytest.mark.sampled
@pytest.mark.parametrize("routing", [False, True])
def test_weights_of_rows_reach_the_score_by_metadata_routing(routing: bool) -> None:
    table = people(600)
    X, y = table[["age", "x"]], table["city"]
    model = TrainOnSynthetic(LogisticRegression(), SyntheticRelease(schema=PLAIN, epsilon=3))
    with sklearn.config_context(enable_metadata_routing=routing):
        made = clone(model).fit(X, y)
        half = np.arange(600) < 300
        labels = np.where(half, made.predict(X), "neither")
        assert made.score(X, labels, sample_weight=half.astype(float)) == 1.0
        assert made.score(X, labels) == 0.5
        pipe = make_pipeline(SyntheticRelease(schema=sd.Schema({"age": PLAIN["age"]})), StandardScaler()).fit(
            table[["age"]]
        )
        assert pipe.transform(table[["age"]]).shape == (600, 1)


@pytest.mark.sampled
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_model_is_asked_about_real_rows_with_the_columns_that_the_release_left_out(library: str) -> None:
    table = people().assign(person=[f"p{i // 2}" for i in range(1500)], note="x")
    given = {"pandas": lambda frame: frame, "polars": pl.from_pandas}[library](table)
    X, y = given[["age", "x", "person", "note"]], given["city"]
    release = SyntheticRelease(schema=PLAIN, epsilon=3, privacy_unit="person", max_rows_per_unit=2)
    model = TrainOnSynthetic(HistGradientBoostingClassifier(max_iter=10), release).fit(X, y)
    assert list(model.feature_names_in_) == ["age", "x"]
    assert (model.predict(X) == np.asarray(y)).mean() > 0.8
    assert model.predict_proba(X.head(3)).shape == (3, 2)
    assert model.score(X, y) > 0.8


def test_cross_validation_routes_weights_to_the_score() -> None:
    table = people(600)
    weights = np.where(table["age"] > 40, 1.0, 0.0)
    with sklearn.config_context(enable_metadata_routing=True):
        release = SyntheticRelease(schema=PLAIN, epsilon=3)
        model = TrainOnSynthetic(LogisticRegression(), release).set_score_request(sample_weight=True)
        params = {"sample_weight": weights}
        scores = cross_val_score(model, table[["age", "x"]], table["city"], cv=2, params=params)
        assert all(0.5 < score <= 1 for score in scores)
