"""Discovery that finds nothing (R34): whatever was spent, a table, a report, answers and a model come out."""

import datetime as dt
import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import synthdp as sd
from synthdp import Integer, Schema
from synthdp.curator.discovery import Discovered
from synthdp.errors import DiscoveryWarning
from synthdp.estimators.findings import discovery_notes, warn_of_undiscovered

SIZES = (1, 5, 20)


def column(kind: str, rows: int) -> pd.Series:
    place = np.arange(rows)
    made = {
        "numbers": lambda: pd.Series(place / 3),
        "whole numbers": lambda: pd.Series(place),
        "nullable whole numbers": lambda: pd.array(place, dtype="Int64"),
        "texts": lambda: pd.Series([f"only {i}" for i in place]),
        "truths": lambda: pd.Series(place % 2 == 0),
        "categories": lambda: pd.Categorical(["a"] * rows),
        "categories of numbers": lambda: pd.Categorical([1] * rows),
        "moments": lambda: pd.Timestamp("2020-01-01") + pd.to_timedelta(place, "h"),
        "lengths": lambda: pd.to_timedelta(place, "h"),
        "dates": lambda: pd.Series([dt.date(2020, 1, 1)] * rows),
        "clocks": lambda: pd.Series([dt.time(1)] * rows),
        "nothing": lambda: pd.Series([None] * rows, dtype=object),
    }[kind]()
    return pd.Series(made)


KINDS = (
    "numbers", "whole numbers", "nullable whole numbers", "texts", "truths", "categories", "categories of numbers",
    "moments", "lengths", "dates", "clocks", "nothing",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _expected_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        pytest.param(kind, rows, marks=[pytest.mark.slow] * ((i + j) % 2))
        for (i, kind), (j, rows) in itertools.product(enumerate(KINDS), enumerate(SIZES))
    ],
)
def test_a_spend_leaves_a_table_a_report_and_answers_however_few_the_rows(kind: str, rows: int, tmp_path: Path) -> None:
    table = pd.DataFrame({"x": column(kind, rows)})
    release = sd.SyntheticRelease(ledger=tmp_path / "l.sqlite", dataset="d").fit(table)
    made = release.sample(7)
    assert len(sd.Ledger(tmp_path / "l.sqlite").entries("d")) == 1
    assert made.shape == (7, 1)
    made.to_csv(tmp_path / "made.csv")
    release.report(tmp_path / "report.html")
    release.save(tmp_path / "saved")
    assert sd.SyntheticRelease.load(tmp_path / "saved").sample(3).shape == (3, 1)
    assert len(release.answer(sd.marginal("x"))) > 0
    assert release.transform(table).shape == (rows, 1)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_noise_hides_is_left_out_if_others_are_left_and_said_to_be(kind: str) -> None:
    table = pd.DataFrame({"x": column(kind, 20), "sure": [True, False] * 10})
    release = sd.SyntheticRelease().fit(table)
    hidden = [note for note in release.receipt_.notes if "left out" in note]
    assert "sure" in release.schema_
    assert ("x" in release.schema_) == (not hidden)


@pytest.mark.sampled
@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in {"moments", "lengths"}])
def test_a_label_comes_out_whether_it_was_found_or_not(kind: str, rows: int) -> None:
    X, y = pd.DataFrame({"b": [True] * rows}), column(kind, rows).rename("y")
    made, labels = sd.SyntheticRelease(n_rows=9).fit_resample(X, y)
    assert (made.shape, labels.shape) == ((9, 1), (9,))


def test_a_target_and_what_a_workload_names_stay_and_other_columns_do_not() -> None:
    table = pd.DataFrame({name: [f"{name} {i}" for i in range(50)] for name in "abc"} | {"d": [True, False] * 25})
    aimed = sd.SyntheticRelease(target="a")
    with pytest.warns(DiscoveryWarning, match="'b'.*'c'.*'a'"):
        aimed.fit(table)
    assert set(aimed.sample(5).columns) == {"a", "d"}
    assert any("'a' stays" in note for note in aimed.receipt_.notes)
    asked = sd.SyntheticRelease(workload={("b", "d"): 1.0}).fit(table)
    assert set(asked.sample(5).columns) == {"b", "d"}


def test_an_array_keeps_its_columns_in_their_places() -> None:
    made = sd.SyntheticRelease(n_rows=6).fit_transform(np.arange(40.0).reshape(10, 4))
    assert made.shape == (6, 4)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize(
    "model", [LogisticRegression(), HistGradientBoostingClassifier(), DecisionTreeClassifier(), LinearRegression()],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
@pytest.mark.parametrize("array", [True, False])
def test_a_model_predicts_something_however_few_the_rows(model: BaseEstimator, rows: int, array: bool) -> None:
    X, y = np.arange(3.0 * rows).reshape(rows, 3), np.arange(rows) % 2
    frame = X if array else pd.DataFrame(X, columns=list("uvw")).assign(t=True)
    trained = sd.TrainOnSynthetic(model, sd.SyntheticRelease(n_rows=30)).fit(frame, y)
    assert trained.predict(frame).shape == (rows,)
    assert len(trained.synthetic_) == 30


class ByPlace(ClassifierMixin, BaseEstimator):
    """A model that keeps no names of columns."""

    def fit(self, X: object, y: object) -> "ByPlace":
        self.classes_, self.width_ = np.unique(np.asarray(y)), np.asarray(X).shape[1]
        return self

    def predict(self, X: object) -> np.ndarray:
        assert np.asarray(X).shape[1] == self.width_
        return np.repeat(self.classes_[:1], len(np.asarray(X)))


def test_a_model_that_keeps_no_names_is_asked_of_the_columns_that_it_was_trained_on() -> None:
    X = pd.DataFrame({"note": [f"only {i}" for i in range(4000)], "b": [True, False] * 2000})
    trained = sd.TrainOnSynthetic(ByPlace(), sd.SyntheticRelease(epsilon=3.0)).fit(X, X["b"].rename("y"))
    assert trained.estimator_.width_ == 1
    assert trained.predict(X).shape == (4000,)


def test_a_model_of_a_label_with_one_class_predicts_it_and_says_so() -> None:
    X, y = pd.DataFrame({"b": [True, False] * 2000}), pd.Series(["yes"] * 4000, name="y")
    with pytest.warns(UserWarning, match="class"):
        trained = sd.TrainOnSynthetic(LogisticRegression(), sd.SyntheticRelease(epsilon=3.0)).fit(X, y)
    assert set(trained.predict(X)) == {"yes"}
    assert trained.classes_.tolist() == ["yes"]


def test_a_derived_column_comes_out_whatever_noise_hides() -> None:
    columns = {"n": sd.Integer(0, 9), "open": sd.Integer(), "total": sd.Integer()}
    schema = sd.Schema(columns, constraints=[sd.Derived("total", "n + 1")])
    table = pd.DataFrame({"n": [1, 2], "open": [3, 4], "total": [2, 3]})
    release = sd.SyntheticRelease(schema=schema)
    made = release.fit_transform(table)
    assert {*made.columns} == {"n", "total"}
    assert release.transform(table).equals(table[["n", "total"]])


def found(least: float) -> Discovered:
    return Discovered(Schema({"n": Integer(0, 9)}), ("n",), notes=("column 'n'",), rows=1000.0, least=least)


def test_a_release_says_where_noise_hides_what_many_rows_hold() -> None:
    with pytest.warns(
        DiscoveryWarning,
        match=r"\b300\b.*1,000",
    ):
        warn_of_undiscovered(found(300.0), stacklevel=1)
    assert "noise hides values that occur in fewer than about 300" in discovery_notes(found(300.0))[-1]


def test_a_release_says_nothing_where_noise_hides_little() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_undiscovered(found(30.0), stacklevel=1)
    assert discovery_notes(found(30.0)) == ("column 'n'",)
