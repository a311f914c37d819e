"""Sums, variances, shares, correlations and groups: the truth by brute force without noise, the truth inside their bars."""

import itertools
import math
import warnings
from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise

import synthdp as sd
from synthdp.answers.moments import LARGEST
from synthdp.errors import ParameterError

SCHEMA = sd.Schema({
    "a": sd.Integer(0, 3), "b": sd.Integer(0, 4, nullable=True), "c": sd.Categorical(["x", "y"]), "m": sd.Boolean(),
    "t": sd.Datetime("2020-01-01", "2020-01-05", resolution="D"), "n": sd.Integer(-1, 1),
})  # fmt: skip
WHERE = {None: lambda t: t.index >= 0, "a > 0": lambda t: t["a"] > 0, "m": lambda t: t["m"],
         "a in (0, 1, 2) and not m": lambda t: t["a"].isin([0, 1, 2]) & ~t["m"],
         "1 <= b <= 3": lambda t: t["b"].between(1, 3)}  # fmt: skip
BY: tuple[tuple[str, ...], ...] = ((), ("c",), ("m", "c"))


@cache
def table(rows: int = 6000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a = rng.integers(4, size=rows)
    b = np.where(rng.random(rows) < 0.6, a + rng.integers(2, size=rows), rng.integers(5, size=rows)).astype(float)
    return pd.DataFrame({
        "a": a,
        "b": np.where(rng.random(rows) < 0.1, np.nan, b),
        "c": np.array(["x", "y"])[(rng.random(rows) < 0.2 + 0.15 * a).astype(int)],
        "m": rng.random(rows) < 0.5,
        "t": np.datetime64("2020-01-01") + rng.integers(5, size=rows).astype("timedelta64[D]"),
        "n": rng.integers(-1, 2, size=rows),
    })  # fmt: skip


def weighted(values: pd.Series, weights: pd.Series) -> float:
    there = values.notna() & (weights > 0)
    return float(np.average(values[there].astype(float), weights=weights[there])) if there.any() else math.nan


QUESTIONS: dict[str, tuple[Callable[..., object], Callable[[pd.DataFrame], float]]] = {
    "count": (sd.count, len),
    "sum": (lambda **o: sd.sum("b", **o), lambda t: t["b"].sum()),
    "mean": (lambda **o: sd.mean("b", **o), lambda t: t["b"].mean()),
    "variance": (lambda **o: sd.variance("b", **o), lambda t: t["b"].var(ddof=0)),
    "share": (lambda **o: sd.share("b >= 2", **o), lambda t: (t["b"] >= 2).mean()),
    "share of two": (lambda **o: sd.share("b >= 2 and a == 1", **o), lambda t: ((t["b"] >= 2) & (t["a"] == 1)).mean()),
    "correlation": (lambda **o: sd.correlation("a", "b", **o), lambda t: t["a"].corr(t["b"])),
    "weighted count": (lambda **o: sd.count(weight="a", **o), lambda t: t["a"].sum()),
    "weighted sum": (lambda **o: sd.sum("b", weight="a", **o), lambda t: (t["a"] * t["b"]).sum()),
    "sum weighted by a later column": (lambda **o: sd.sum("a", weight="b", **o), lambda t: (t["a"] * t["b"]).sum()),
    "weighted mean": (lambda **o: sd.mean("b", weight="a", **o), lambda t: weighted(t["b"], t["a"])),
    "weighted share": (lambda **o: sd.share("b >= 2", weight="a", **o), lambda t: weighted(t["b"] >= 2, t["a"])),
    "median": (lambda **o: sd.quantile("a", 0.45, **o), lambda t: np.quantile(t["a"], 0.45, method="inverted_cdf")),
}  # fmt: skip


def truths(real: pd.DataFrame, exact: Callable[[pd.DataFrame], float], where: str | None, by: tuple[str, ...]) -> list:
    """The answers of the real rows, group by group in the order of the schema."""
    some = real[WHERE[where](real)]
    levels = {"c": ["x", "y"], "m": [False, True]}
    cells = itertools.product(*(levels[name] for name in by))
    everywhere = np.ones(len(some), bool)
    masks = [
        np.all([everywhere, *(some[name] == level for name, level in zip(by, cell, strict=True))], axis=0)
        for cell in cells
    ]
    return [exact(some[mask]) if mask.any() or exact is len else math.nan for mask in masks]


ALL = [*itertools.product(QUESTIONS, WHERE, BY)]
IN_TURNS = [
    (kind, where, by)
    for (i, kind), (j, where), (k, by) in itertools.product(enumerate(QUESTIONS), enumerate(WHERE), enumerate(BY))
    if (i + j + k) % len(BY) == 0
]
"""Every pair of a question, a condition and a grouping."""


def fitted(epsilon: float) -> sd.SyntheticRelease:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sd.SyntheticRelease(schema=SCHEMA, epsilon=epsilon, delta=1e-6).fit(table())


@pytest.fixture(scope="module")
def exact_release() -> sd.SyntheticRelease:
    with pytest.MonkeyPatch.context() as patch:
        without_noise(patch)
        return fitted(200.0)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(
    ("kind", "where", "by"), [pytest.param(*one, marks=[pytest.mark.slow] * (one not in IN_TURNS)) for one in ALL]
)
def test_without_noise_an_answer_is_that_of_the_rows(
    exact_release: sd.SyntheticRelease, kind: str, where: str | None, by: tuple[str, ...]
) -> None:
    make, exact = QUESTIONS[kind]
    answered = exact_release.answer(make(where=where, by=list(by)))
    wanted = np.array(truths(table(), exact, where, by))
    assert len(answered) == len(wanted)
    assert list(answered.columns[: len(by)]) == list(by)
    scale = max(np.nanmax(np.abs(wanted)), 0.3)
    assert np.nan_to_num(answered["estimate"].to_numpy(float)) == pytest.approx(np.nan_to_num(wanted), abs=0.08 * scale)
    known = answered.dropna(subset="estimate")
    assert (known["lower"] <= known["estimate"]).all()
    assert (known["estimate"] <= known["upper"]).all()


@pytest.mark.parametrize("where", ["b > 9", "b > 9 and c == 'x'"])
@pytest.mark.parametrize("kind", ["mean", "variance", "share", "quantile", "correlation", "regression"])
def test_of_no_rows_nothing_is_known(exact_release: sd.SyntheticRelease, kind: str, where: str) -> None:
    asked = {"share": ["b >= 2"], "correlation": ["b", "a"], "regression": ["b ~ a"]}.get(kind, ["b"])
    answered = exact_release.answer(getattr(sd, kind)(*asked, where=where))
    assert answered[["estimate", "standard_error", "lower", "upper"]].isna().all(axis=None)


@pytest.mark.parametrize("make", [sd.mean, sd.sum, sd.variance])
def test_of_a_group_without_rows_no_error_is_known_either(exact_release: sd.SyntheticRelease, make) -> None:
    answered = exact_release.answer(make("b", where="c == 'x' and a < 3", by="c"))
    known = answered[["estimate", "standard_error", "lower", "upper"]].notna()
    assert known["estimate"].tolist() == known["standard_error"].tolist()
    assert known.iloc[0].all()


def covered(releases: int, questions: Iterable[tuple[str, str | None, tuple[str, ...]]]) -> float:
    """Return how many 95 % intervals of some questions hold the truth."""
    held = []
    for _ in range(releases):
        release = fitted(1.0)
        for kind, where, by in questions:
            make, exact = QUESTIONS[kind]
            answered = release.answer(make(where=where, by=by))
            wanted = np.array(truths(table(), exact, where, by))
            held += list(((answered["lower"] <= wanted) & (wanted <= answered["upper"]))[~np.isnan(wanted)])
    return float(np.mean(held))


@pytest.mark.slow
def test_intervals_of_all_kinds_hold_the_truth_as_often_as_they_say() -> None:
    assert 0.91 < covered(20, ALL) < 0.995


def test_groups_are_those_of_a_marginal() -> None:
    release = fitted(1.0)
    counted, cells = release.answer(sd.count(by=["c", "m"])), release.answer(sd.marginal("c", "m"))
    pd.testing.assert_frame_equal(counted, cells)
    means = release.answer(sd.mean("a", by="b"))
    assert means["b"].tolist() == release.answer(sd.marginal("b"))["b"].tolist()


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda: sd.sum("c"), "sum"),
        (lambda: sd.sum("t"), "sum"),
        (lambda: sd.variance("t"), "'t'.*variance"),
        (lambda: sd.correlation("a", "c"), "'c'.*correlation"),
        (lambda: sd.sum("a", weight="c"), "weights"),
        (lambda: sd.sum("a", weight="t"), "weights"),
        (lambda: sd.sum("a", weight="a"), "'a'.*weight"),
        (lambda: sd.count(weight="n"), "'n'.*weight"),
        (lambda: sd.share("m", weight="height"), "'height'"),
        (lambda: sd.mean("a", by="height"), "'height'"),
        (lambda: sd.share("height > 3"), "'height'"),
    ],
)
def test_a_question_without_an_answer_is_refused(exact_release: sd.SyntheticRelease, question, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        exact_release.answer(question())


STATISTICS = {
    "sum": lambda **by: sd.sum("x", **by),
    "mean": lambda **by: sd.mean("x", **by),
    "variance": lambda **by: sd.variance("x", **by),
    "correlation": lambda **_: sd.correlation("x", "z"),
    "regression": lambda **by: sd.regression("z ~ x", **by),
}


@pytest.mark.parametrize("bound", [4e300, 1e140, 1e70])
def test_numbers_of_any_size_have_a_finite_answer_or_a_sentence(bound: float) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"x": rng.uniform(-bound, bound, 300), "z": rng.uniform(0, 1, 300), "g": rng.choice(["a", "b"], 300)}
    )
    columns = {"x": sd.Continuous(-bound, bound), "z": sd.Continuous(0, 1), "g": sd.Categorical(["a", "b"])}
    release = sd.SyntheticRelease(schema=sd.Schema(columns), epsilon=5.0, random_state=0).fit(table)
    for name, ask in STATISTICS.items():
        for question in (ask(), ask(by="g")):
            if bound > LARGEST[name]:
                with pytest.raises(ParameterError, match=f"'x'.*{name}"):
                    release.answer(question)
            else:
                found = release.answer(question)[["estimate", "standard_error", "lower", "upper"]]
                assert np.isfinite(found.to_numpy(np.float64)).all()
    assert np.isfinite(release.answer(sd.quantile("x"))["estimate"]).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sd.count(by=["c", "c"]), r"\bby\b"),
        (lambda: sd.correlation("a", "a"), "correlation"),
        (lambda: sd.mean("a", by=[3]), "name"),
        (lambda: sd.mean("a", by=3), r"\bby\b"),
        (lambda: sd.sum("a", weight=3), "name"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_when_it_is_made(make, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


@pytest.mark.parametrize("weight", [None, "b"])
def test_means_and_sums_stay_where_the_schema_lets_them_be(weight: str | None) -> None:
    """Of few rows the noise alone would lead further."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = sd.SyntheticRelease(schema=SCHEMA, epsilon=0.2).fit(table().head(400))
    means, sums = (release.answer(ask("a", by="c", weight=weight)).dropna() for ask in (sd.mean, sd.sum))
    assert len(means) == len(sums) > 0
    assert (means[["lower", "estimate", "upper"]] >= SCHEMA["a"].lower).all(axis=None)
    assert (means[["lower", "estimate", "upper"]] <= SCHEMA["a"].upper).all(axis=None)
    assert (sums[["lower", "estimate", "upper"]] >= 0).all(axis=None)
