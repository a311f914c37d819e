"""An analysis of several synthetic tables: what a function may return, and what the intervals hold for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import stats
from sklearn.linear_model import LinearRegression

import synthdp as sd
from synthdp.answers.samples import estimates_of
from synthdp.errors import ParameterError

SCHEMA = sd.Schema({"x": sd.Integer(0, 3), "y": sd.Integer(0, 5), "b": sd.Boolean()})


def table(rows: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    x = rng.integers(4, size=rows)
    return pd.DataFrame({"x": x, "y": x + rng.integers(3, size=rows), "b": rng.random(rows) < 0.2 + 0.1 * x})


@pytest.fixture(scope="module")
def release() -> sd.SyntheticRelease:
    return sd.SyntheticRelease(schema=SCHEMA, epsilon=1.0, delta=1e-6, random_state=0).fit(table())


def line(rows: pd.DataFrame) -> LinearRegression:
    return LinearRegression().fit(rows[["x"]], rows["y"])


def test_whatever_an_analysis_returns_is_read_as_named_estimates(release: sd.SyntheticRelease) -> None:
    slope = stats.linregress
    found = {
        "number": release.analyse(lambda t: t["y"].mean(), 3),
        "dict": release.analyse(lambda t: {"mean": t["y"].mean(), "share": t["b"].mean()}, 3),
        "series": release.analyse(lambda t: t[["x", "y"]].mean(), 3),
        "pair": release.analyse(lambda t: (slope(t["x"], t["y"]).slope, slope(t["x"], t["y"]).stderr ** 2), 3),
        "model": release.analyse(line, 3),
    }
    assert {kind: list(one.table.index) for kind, one in found.items()} == {
        "number": ["estimate"], "dict": ["mean", "share"], "series": ["x", "y"], "pair": ["estimate"],
        "model": ["intercept", "x"],
    }  # fmt: skip
    for one in found.values():
        rows = one.table
        assert (rows["lower"] < rows["estimate"]).all()
        assert (rows["estimate"] < rows["upper"]).all()
        assert rows["p_value"].between(0, 1).all()


@pytest.mark.landing
def test_a_result_of_statsmodels_keeps_its_names(release: sd.SyntheticRelease) -> None:
    statsmodels = pytest.importorskip("statsmodels.formula.api", reason="statsmodels is not installed")
    found = release.analyse(lambda t: statsmodels.ols("y ~ x", t).fit(), 3, random_state=1)
    assert list(found.table.index) == ["Intercept", "x"]
    assert 0.5 < found.table.loc["x", "estimate"] < 1.5


@pytest.mark.landing
def test_one_seed_gives_one_analysis_and_it_says_what_it_covers(release: sd.SyntheticRelease) -> None:
    one, two = (release.analyse(line, 3, random_state=4) for _ in range(2))
    pd.testing.assert_frame_equal(one.table, two.table)
    private = release.analyse(lambda t: (t["y"].mean(), t["y"].var() / len(t)), 3, population=False)
    assert "population" in one.covers
    assert one.covers != private.covers
    assert private.covers in str(private)
    assert private.covers in private._repr_html_()


def test_about_a_population_an_interval_is_wider_than_about_the_private_rows(release: sd.SyntheticRelease) -> None:
    def mean(t: pd.DataFrame) -> tuple[float, float]:
        return t["y"].mean(), t["y"].var() / len(t)

    of_rows = release.analyse(mean, 5, population=False, rows=4000, random_state=2).table
    of_population = release.analyse(mean, 5, rows=4000, random_state=2).table
    assert of_rows["estimate"].equals(of_population["estimate"])
    assert (of_rows["standard_error"] < of_population["standard_error"]).all()


def test_without_variances_other_numbers_of_rows_are_refused(release: sd.SyntheticRelease) -> None:
    for options in ({"rows": 10}, {"population": False}):
        with pytest.raises(ParameterError, match="variances"):
            release.analyse(lambda t: t["y"].mean(), 3, **options)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("function", "options", "words"),
    [
        (lambda t: "seven", {}, "function"),
        (lambda t: (1.0, 2.0, 3.0), {}, "function"),
        (lambda t: ([1.0, 2.0], [1.0]), {}, "function"),
        (lambda t: float("nan"), {}, "function"),
        (lambda t: (1.0, -1.0), {}, "variances"),
        (lambda t: pd.Series(1.0, index=t["y"].drop_duplicates().astype(str)[: 1 + len(t) % 2]), {}, "function"),
        (7, {}, "function"),
        (lambda t: 1.0, {"level": 1.0}, "level"),
        (lambda t: 1.0, {"rows": 0}, "rows"),
    ],
)
def test_what_cannot_be_analysed_is_refused(release, function, options, words) -> None:
    with pytest.raises(ParameterError, match=words):
        release.analyse(function, 3, **options)
    assert len(release.analyse(lambda t: 1.0, 2).table) == 1


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30),
    st.floats(0.0, 100.0),
    st.floats(10, 1e6),
    st.floats(0.05, 20.0),
)
def test_the_rule_for_a_population_adds_the_variance_of_sampling(estimates, variance, n, times) -> None:
    """For k rows of each table: (1 + 1/m) b - u + u k / n; the private rule is its limit for a large n."""
    m, rows = len(estimates), max(1, round(n * times))
    between = (1 + 1 / m) * np.var(estimates, ddof=1)
    wanted = between - variance + variance * rows / n
    found = sd.combine(estimates, [variance] * m, population=True, n=n, rows=rows).iloc[0]
    expected = wanted if wanted > 1e-9 * (between + variance) else between
    assert found["standard_error"] ** 2 == pytest.approx(expected, rel=1e-6, abs=1e-9)
    alone = sd.combine(estimates, [variance] * m, population=True, n=n).iloc[0]
    assert alone["standard_error"] ** 2 == pytest.approx(between, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("options", [{"n": 5}, {"rows": 5}, {"population": True}, {"population": True, "n": 0},
                                     {"population": True, "n": 5, "rows": 0}])  # fmt: skip
def test_sizes_go_with_a_population(options) -> None:
    with pytest.raises(ParameterError, match=r"\bn\b|rows"):
        sd.combine([1.0, 2.0], [1.0, 1.0], **options)


@pytest.mark.slow
def test_coefficients_of_a_logistic_regression_are_covered_as_often_as_is_said() -> None:
    """Three binary columns, 2 000 rows, coefficients 1 and 0; the intervals of one synthetic table hold them too seldom."""
    held = np.mean([_held(np.random.default_rng(seed)) for seed in range(60)], axis=0)
    assert (held >= stats.binom.ppf(1e-4, 60, 0.95) / 60).all()


def _held(rng: np.random.Generator) -> np.ndarray:
    a, b = rng.random(2000) < 0.5, rng.random(2000) < 0.5
    y = rng.random(2000) < 1 / (1 + np.exp(0.5 - 1.0 * a))
    schema = sd.Schema({name: sd.Boolean() for name in "aby"})
    release = sd.SyntheticRelease(schema=schema, epsilon=0.3).fit(pd.DataFrame({"a": a, "b": b, "y": y}))
    found = release.analyse(lambda t: _logistic(t.astype(float)), random_state=0).table
    return np.array([found.iloc[j]["lower"] <= true <= found.iloc[j]["upper"] for j, true in enumerate((1.0, 0.0))])


def _logistic(rows: pd.DataFrame) -> list[float]:
    """Newton's method: coefficients of a and b, their intercept left out."""
    x, y, beta = np.column_stack([np.ones(len(rows)), rows[["a", "b"]]]), rows["y"].to_numpy(), np.zeros(3)
    for _ in range(25):
        p = 1 / (1 + np.exp(-x @ beta))
        beta += np.clip(np.linalg.solve((x.T * (p * (1 - p))) @ x + 1e-6 * np.eye(3), x.T @ (y - p)), -2, 2)
    return beta[1:].tolist()


def test_kinds_of_results_that_nobody_named_are_refused() -> None:
    with pytest.raises(ParameterError, match="function"):
        estimates_of(object())
