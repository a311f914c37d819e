"""Regression coefficients: the truth by brute force, the truth inside their bars, formulas that are refused."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.answers.answer import answer
from synthdp.answers.questions import parse_formula
from synthdp.answers.regression import Design
from synthdp.distribution.explicit import Explicit
from synthdp.domain.refinement import Refinement
from synthdp.errors import ParameterError
from synthdp.sampling.synthetic_model import SyntheticModel

SCHEMA = sd.Schema({
    "y": sd.Integer(0, 6, nullable=True), "a": sd.Integer(0, 3), "c": sd.Categorical(["u", "v", "w"]), "m": sd.Boolean(),
    "t": sd.Date("2020-01-01", "2020-01-05"), "few words": sd.Integer(0, 2),
})  # fmt: skip
WHERE = {
    None: lambda t: t.index >= 0,
    "a > 0": lambda t: t["a"] > 0,
    "c != 'v' or m": lambda t: (t["c"] != "v") | t["m"],
}
FORMULAS = {"y ~ a": ["a"], "y ~ a + c": ["a", "c"], "y ~ m + a + c": ["m", "a", "c"], "m ~ a": ["a"],
            "`few words` ~ y + m": ["y", "m"]}  # fmt: skip


def table(rows: int = 6000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a, c, m = rng.integers(4, size=rows), rng.integers(3, size=rows), rng.random(rows) < 0.4
    y = np.where(rng.random(rows) < 0.4, a + (c == 2) + m, rng.integers(0, 7, size=rows)).astype(float)
    return pd.DataFrame({
        "y": np.where(rng.random(rows) < 0.1, np.nan, y), "a": a, "c": np.array(["u", "v", "w"])[c], "m": m,
        "t": np.datetime64("2020-01-01") + rng.integers(5, size=rows).astype("timedelta64[D]"),
        "few words": np.where(rng.random(rows) < 0.5, (a > 1) + m, rng.integers(3, size=rows)),
    })  # fmt: skip


def coefficients(real: pd.DataFrame, formula: str) -> np.ndarray:
    """Least squares on the rows themselves."""
    response, names = parse_formula(formula).response, FORMULAS[formula]
    some = real[[response, *names]].dropna()
    parts = [np.ones((len(some), 1))]
    parts += [np.column_stack([some[n] == v for v in ("v", "w")]) if n == "c" else some[[n]].to_numpy() for n in names]
    return np.linalg.lstsq(np.hstack(parts).astype(float), some[response].astype(float), rcond=None)[0]


def fitted(epsilon: float) -> sd.SyntheticRelease:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sd.SyntheticRelease(schema=SCHEMA, epsilon=epsilon, delta=1e-6).fit(table())


@pytest.fixture(scope="module")
def model() -> SyntheticModel:
    """The rows themselves as a model."""
    domain, rows = sd.domain_of(SCHEMA), table()
    codes = sd.DomainDiscretizer(SCHEMA).fit_transform(rows)
    return SyntheticModel(
        schema=SCHEMA, domain=domain, total=float(len(rows)), format=sd.TableFormat.default(SCHEMA),
        distribution=Explicit(shape=domain.shape, codes=codes, weights=np.ones(len(rows))),
        refinements=tuple(Refinement.trivial(axis) for axis in domain.axes),
    )  # fmt: skip


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("where", WHERE)
def test_coefficients_of_a_model_are_those_of_its_rows(model: SyntheticModel, formula: str, where: str | None) -> None:
    answered = answer(model, (), sd.regression(formula, where=where))
    wanted = coefficients(table()[WHERE[where](table())], formula)
    assert answered["estimate"].to_numpy() == pytest.approx(wanted, abs=1e-3)


def test_groups_have_their_own_coefficients(model: SyntheticModel) -> None:
    answered = answer(model, (), sd.regression("y ~ a", by="m"))
    assert answered["m"].tolist() == [False, False, True, True]
    assert answered["term"].tolist() == ["intercept", "a"] * 2
    wanted = [coefficients(table()[table()["m"] == level], "y ~ a") for level in (False, True)]
    assert answered["estimate"].to_numpy() == pytest.approx(np.concatenate(wanted), abs=1e-3)


def test_what_other_columns_explain_has_no_coefficient(model: SyntheticModel) -> None:
    answered = answer(model, (), sd.regression("y ~ a + c", where="c == 'v'")).set_index("term")
    assert answered["estimate"].isna().tolist() == [False, False, True, True]


@pytest.mark.parametrize("at_once", [1, 50, 10**6])
def test_weighted_coefficients_are_those_of_repeated_rows(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synthdp.answers.regression._AT_ONCE", at_once)
    rng = np.random.default_rng(0)
    columns = np.column_stack([np.ones(60), rng.normal(size=(60, 3))])
    weights = rng.integers(0, 4, size=(60, 5))
    found = Design.of(columns).fits(weights.astype(float))
    for r in range(5):
        rows = np.repeat(columns, weights[:, r], axis=0)
        assert found[r] == pytest.approx(np.linalg.lstsq(rows[:, :3], rows[:, 3], rcond=None)[0])


def test_the_error_of_a_number_of_rows_is_that_of_the_sandwich() -> None:
    rng = np.random.default_rng(0)
    columns = np.column_stack([np.ones(200), rng.normal(size=(200, 2))])
    terms, response = columns[:, :2], columns[:, 2]
    inverse = np.linalg.inv(terms.T @ terms)
    scores = terms * (response - terms @ np.linalg.lstsq(terms, response, rcond=None)[0])[:, None]
    wanted = np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse))
    assert Design.of(columns).errors() == pytest.approx(wanted)


def covered(releases: int) -> float:
    """Return how many 95 % intervals hold the truth."""
    held = []
    for _ in range(releases):
        release = fitted(1.0)
        for formula, where in itertools.product(FORMULAS, WHERE):
            answered = release.answer(sd.regression(formula, where=where))
            wanted = coefficients(table()[WHERE[where](table())], formula)
            held += list((answered["lower"] <= wanted) & (wanted <= answered["upper"]))
    return float(np.mean(held))


@pytest.mark.slow
def test_intervals_of_coefficients_hold_the_truth() -> None:
    """Answers of a release are wrong together: two releases leave room."""
    assert covered(2) > 0.8


@pytest.mark.slow
def test_intervals_of_coefficients_hold_the_truth_as_often_as_they_say() -> None:
    assert 0.91 < covered(20) < 0.999


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y", r"\b2\b.*'~'"),
        ("y ~", "sign"),
        ("~ a", r"\b1\b.*'~'"),
        ("y ~ a +", "sign"),
        ("y ~ a b", r"'\+'.*'b'"),
        ("y ~ a ~ b", r"'\+'.*'~'"),
        ("y ~ a * b", r"\b7\b"),
        ("y ~ 1", r"\b5\b"),
        ("y ~ a + a", "once"),
        ("y ~ y", "once"),
        ("", "text"),
        (3, "text"),
        ("y ~ " + " + ".join(f"x{i}" for i in range(31)), r"\b30\b.*\b31\b"),
    ],
)
def test_a_formula_that_cannot_be_read_is_refused_when_it_is_made(formula, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        sd.regression(formula)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda: sd.regression("y ~ height"), "height"),
        (lambda: sd.regression("c ~ a"), "'c'.*response"),
        (lambda: sd.regression("y ~ t"), "'t'"),
        (lambda: sd.regression("y ~ a", where="height > 3"), "'height'"),
        (lambda: sd.regression("y ~ a", by="height"), "'height'"),
    ],
)
def test_a_regression_without_an_answer_is_refused(model: SyntheticModel, question, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        answer(model, (), question())
