"""`SyntheticRelease` as scikit-learn's users meet it, and what it must never keep."""

import copy
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import synthdp as sd
from synthdp import (
    ApproxDP,
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    DomainDiscretizer,
    Integer,
    Ledger,
    Schema,
    SyntheticRelease,
    TrainOnSynthetic,
    TrigonometricFeatures,
)
from synthdp.data import adult, adult_schema
from synthdp.errors import (
    BudgetExceededError,
    DataError,
    ParameterError,
    SchemaError,
    SolverUnavailableError,
    UnprotectedLabelsWarning,
)

SCHEMA = Schema({"age": Integer(0, 99), "city": Categorical(["a", "b"]), "x": Continuous(0, 1, nullable=True)})


def people(rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    age = rng.integers(20, 60, rows)
    return pd.DataFrame(
        {"age": age, "city": np.where(age + rng.normal(0, 5, rows) > 40, "a", "b"), "x": rng.random(rows)}
    )


VALUES_DECIDE = {
    "check_dtype_object", "check_estimators_nan_inf", "check_classifiers_regression_target", "check_supervised_y_no_nan",
}  # fmt: skip
"""Checks that ask for a refusal because of one value, which would tell of it (R27)."""

COMPARE_TWO_FITS = {"check_fit_idempotent", "check_supervised_y_2d", "check_classifier_data_not_an_array"}
# enough budget for twenty rows, so that the classes are discovered at all
TRAINED = TrainOnSynthetic(LogisticRegression(), SyntheticRelease(epsilon=500, delta=1e-2, random_state=0))


def failures(estimator: object) -> dict[str, str]:
    """Names of scikit-learn's checks that fail, and why."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert sum(r["status"] == "passed" for r in results) > 30
    return {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}


@pytest.mark.parametrize(
    "estimator",
    [pytest.param(SyntheticRelease(), marks=pytest.mark.landing), TrigonometricFeatures(), DomainDiscretizer()],
    ids=lambda e: type(e).__name__,
)
def test_scikit_learns_own_checks_pass(estimator: object) -> None:
    assert failures(estimator) == {}


@pytest.mark.slow
def test_scikit_learns_own_checks_pass_for_models_when_there_is_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    without_noise(monkeypatch)
    assert set(failures(TRAINED)) == VALUES_DECIDE


@pytest.mark.slow
def test_with_noise_only_checks_that_compare_two_fits_fail() -> None:
    """Whatever the tag non_deterministic says, they ask for equal models, which noise without a seed (R6) cannot give."""
    found = failures(TRAINED)
    assert set(found) - VALUES_DECIDE <= COMPARE_TWO_FITS
    assert all("Not equal" in found[check] for check in found.keys() - VALUES_DECIDE)


def test_clone_and_parameters_round_trip() -> None:
    release = SyntheticRelease(schema=SCHEMA, epsilon=0.5, ledger="l.sqlite", random_state=3)
    copied = clone(release)
    assert copied.get_params() == release.get_params()
    assert copied.set_params(epsilon=2.0).epsilon == 2.0
    assert "SyntheticRelease" in repr(release)
    assert "<div" in release._repr_html_()


def test_the_output_looks_like_the_input() -> None:
    table = people()
    table.index = [f"person {i}" for i in range(len(table))]
    table.attrs["secret"] = "yes"
    made = SyntheticRelease(schema=SCHEMA, random_state=0).fit_transform(table)
    assert made.dtypes.equals(table.dtypes)
    assert list(made.columns) == list(table.columns)
    assert isinstance(made.index, pd.RangeIndex)
    assert made.attrs == {}


def test_transform_maps_real_rows_one_by_one() -> None:
    release = SyntheticRelease(schema=SCHEMA).fit(people())
    real = pd.DataFrame({"age": [30, 400, -5], "city": ["a", "zzz", "b"], "x": [0.123456789, np.nan, 7.0]})
    mapped = release.transform(real)
    assert mapped["age"].tolist() == [30, 99, 0]
    assert mapped["x"].tolist()[::2] == [0.123456789, 1.0]
    assert mapped["city"].tolist()[::2] == ["a", "b"]
    assert pd.isna(mapped["city"][1])
    alone = pd.concat([release.transform(real.iloc[[i]]) for i in range(3)], ignore_index=True)
    pd.testing.assert_frame_equal(alone, mapped)


def test_the_random_state_fixes_the_sampling_and_not_the_noise() -> None:
    release = SyntheticRelease(schema=SCHEMA, random_state=7).fit(people())
    pd.testing.assert_frame_equal(release.sample(50), release.sample(50))
    assert not release.sample(50, random_state=1).equals(release.sample(50, random_state=2))
    again = SyntheticRelease(schema=SCHEMA, random_state=7).fit(people())
    first, second = (r.release_.measurements[-1].values for r in (release, again))
    assert first.shape != second.shape or (first != second).any()


@pytest.mark.landing
def test_the_default_number_of_rows_is_a_noisy_estimate() -> None:
    sizes = {len(SyntheticRelease(schema=SCHEMA, epsilon=0.5).fit_transform(people())) for _ in range(6)}
    assert len(sizes) > 1
    assert len(SyntheticRelease(schema=SCHEMA, n_rows=17).fit_transform(people())) == 17
    exact = SyntheticRelease(schema=SCHEMA, neighbors="replace_one").fit_transform(people())
    assert len(exact) == 400


def test_a_passed_y_makes_the_number_of_rows_public_and_the_receipt_says_so() -> None:
    release = SyntheticRelease(schema=SCHEMA)
    with pytest.warns(UnprotectedLabelsWarning):
        assert len(release.fit_transform(people(), np.zeros(400))) == 400
    assert "replace one row" in str(release.receipt_)
    assert "the number of rows is public" in str(release.receipt_)


def test_nothing_declared_is_discovered_under_part_of_the_budget() -> None:
    table = people(3000)
    release = SyntheticRelease(epsilon=2.0, delta=1e-6).fit(table)
    assert release.schema_.undeclared == ()
    age = release.schema_["age"]
    assert age.lower <= 25
    assert age.upper >= 55
    assert {"a", "b"} <= set(release.schema_["city"].levels)
    assert any(item.step.startswith("discovered") for item in release.receipt_.items)
    assert release.receipt_.total == ApproxDP(2.0, 1e-6)


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_the_ledger_loses_exactly_the_promise_once(delta: float, tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    SyntheticRelease(schema=SCHEMA, epsilon=0.7, delta=delta, ledger=path, dataset="p").fit(people())
    entries = Ledger(path).entries("p")
    assert [str(entry.loss) for entry in entries] == [str(sd.PureDP(0.7) if delta == 0 else ApproxDP(0.7, delta))]
    assert [entry.state for entry in entries] == ["committed"]


def test_a_fitted_estimator_holds_no_row(tmp_path: Path) -> None:
    canary = "canary-4711"
    table = people(2000)
    table.loc[7, "city"] = canary
    table["secret"] = [f"{canary}-{i}" for i in range(len(table))]
    release = SyntheticRelease(schema=SCHEMA).fit(table)
    assert canary.encode() not in pickle.dumps(release)
    again = pickle.loads(pickle.dumps(release))
    pd.testing.assert_frame_equal(again.sample(20, random_state=1), release.sample(20, random_state=1))
    release.save(tmp_path / "r.release")
    stored = b"".join(path.read_bytes() for path in (tmp_path / "r.release").iterdir())
    assert canary.encode() not in stored
    assert canary not in release.sample(3000).to_csv() + str(release.receipt_) + repr(copy.copy(release))


def test_a_saved_release_gives_the_same_rows(tmp_path: Path) -> None:
    for mechanism in ("adaptive_marginals", "l1_fit"):
        release = SyntheticRelease(schema=SCHEMA, mechanism=mechanism, random_state=0).fit(people())
        release.save(tmp_path / f"{mechanism}.release")
        loaded = sd.load(tmp_path / f"{mechanism}.release")
        pd.testing.assert_frame_equal(loaded.sample(40, random_state=5), release.sample(40, random_state=5))
        assert str(loaded.receipt) == str(release.receipt_)


@pytest.mark.slow
def test_a_model_trained_on_synthetic_rows_predicts_real_ones() -> None:
    schema = adult_schema()
    table = adult()
    train, test = table[:24000].reset_index(drop=True), table[24000:].reset_index(drop=True)
    features = [name for name in schema if name != "income"]
    numeric = [name for name in features if isinstance(schema[name], Integer)]
    model = TrainOnSynthetic(HistGradientBoostingClassifier(random_state=0), SyntheticRelease(schema=schema, epsilon=2))
    part = schema.replace({})
    model.set_params(release__schema=Schema({name: part[name] for name in [*numeric, "income"]}))
    model.fit(train[numeric], train["income"])
    assert list(model.classes_) == ["<=50K", ">50K"]
    assert model.score(test[numeric], test["income"]) > 0.79  # 0.76 of the rows have the larger class


def test_an_imbalanced_learn_pipeline_resamples_by_release() -> None:
    pipeline = pytest.importorskip("imblearn.pipeline")
    table = people(3000)
    release = SyntheticRelease(
        schema=Schema({"age": SCHEMA["age"], "x": Continuous(0, 1), "city": SCHEMA["city"]}), epsilon=3
    )
    made = pipeline.make_pipeline(release, StandardScaler(), LogisticRegression())
    made.fit(table[["age", "x"]], table["city"])
    assert made.score(table[["age", "x"]], table["city"]) > 0.8


def test_a_scikit_learn_pipeline_trains_on_synthetic_and_maps_real_rows() -> None:
    table = people(2000)[["age"]]
    steps = make_pipeline(SyntheticRelease(schema=Schema({"age": SCHEMA["age"]})), StandardScaler())
    steps.fit(table)
    assert steps.transform(table).shape == (2000, 1)
    assert abs(steps[-1].mean_[0] - table["age"].mean()) < 2


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_set_output_is_obeyed(container: str) -> None:
    library = pytest.importorskip(container)
    release = SyntheticRelease(schema=SCHEMA).set_output(transform=container)
    assert isinstance(release.fit_transform(people()), library.DataFrame)
    assert list(release.get_feature_names_out()) == ["age", "city", "x"]


def test_a_grid_search_counts_every_hidden_fit_and_ends_at_the_cap(tmp_path: Path) -> None:
    """In one process: fits in two are counted in `test_good_citizen`."""
    path = tmp_path / "l.sqlite"
    Ledger(path).set_cap("grid", ApproxDP(3.5, 1e-6))
    table = people(1500)
    schema = Schema({"age": SCHEMA["age"], "x": SCHEMA["x"], "city": SCHEMA["city"]})
    model = TrainOnSynthetic(
        HistGradientBoostingClassifier(max_iter=10), SyntheticRelease(schema=schema, ledger=path, dataset="grid")
    )
    search = GridSearchCV(model, {"release__epsilon": [1.0], "estimator__max_depth": [2, 3]}, cv=2, error_score="raise")
    with pytest.raises(BudgetExceededError, match="'grid'"):
        search.fit(table[["age", "x"]], table["city"])
    assert len(Ledger(path).entries("grid")) == 3


def test_any_kind_of_column_keeps_its_type() -> None:
    schema = Schema(
        {
            "n": Integer(0, 9, nullable=True),
            "b": Boolean(nullable=True),
            "t": Datetime("2020-01-01", "2021-01-01", nullable=True),
            "c": Categorical(["x", "y"], nullable=True),
        }
    )
    rows = 300
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "n": pd.array(rng.integers(0, 10, rows), dtype="Int64"),
            "b": pd.array(rng.random(rows) < 0.5, dtype="boolean"),
            "t": pd.Series(
                pd.Timestamp("2020-03-01", tz="Europe/Vienna") + pd.to_timedelta(rng.integers(0, 99, rows), "D")
            ),
            "c": pd.Categorical(rng.choice(["x", "y"], rows)),
        }
    )
    table.loc[::7, "n"] = pd.NA
    made = SyntheticRelease(schema=schema, epsilon=5, random_state=0).fit_transform(table)
    assert [str(dtype) for dtype in made.dtypes] == [str(dtype) for dtype in table.dtypes]
    assert made["n"].isna().any()


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"epsilon": 0}, ParameterError, "epsilon"),
        ({"epsilon": float("nan")}, ParameterError, "epsilon"),
        ({"delta": 1.0}, ParameterError, "delta"),
        ({"neighbors": "twins"}, ParameterError, "add_remove"),
        ({"solver": "mosek"}, SolverUnavailableError, "'mosek'.*sifting"),
        ({"mechanism": "magic"}, ParameterError, "mechanism"),
        ({"target": "nobody"}, ParameterError, "nobody"),
        ({"workload": [("age", "nobody")]}, ParameterError, "nobody"),
        ({"n_rows": 0}, ParameterError, "n_rows"),
        ({"schema": {"age": int}}, SchemaError, "Schema|column"),
        ({"privacy_unit": "nobody"}, ParameterError, "privacy_unit"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_read(
    settings: dict[str, object], error: type[Exception], words: str, tmp_path: Path
) -> None:
    release = SyntheticRelease(**{"schema": SCHEMA, "ledger": tmp_path / "l.sqlite", **settings})
    with pytest.raises(error, match=words):
        release.fit(people())
    assert not (tmp_path / "l.sqlite").exists()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pd.DataFrame({"age": [1], "city": ["a"]}), "'x'"),
        (people().iloc[:0], "rows"),
        (people().rename(columns={"x": 5}), "texts"),
        (pd.concat([people(), people()[["age"]]], axis=1), "'age'"),
    ],
)
def test_bad_tables_are_refused_before_anything_is_spent(table: pd.DataFrame, words: str, tmp_path: Path) -> None:
    with pytest.raises((DataError, TypeError), match=words):
        SyntheticRelease(schema=SCHEMA, ledger=tmp_path / "l.sqlite").fit(table)
    assert not (tmp_path / "l.sqlite").exists()


def test_a_large_epsilon_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="epsilon"):
        SyntheticRelease(schema=SCHEMA, epsilon=7.0).fit(people())
