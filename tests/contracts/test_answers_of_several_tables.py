"""Several tables answer the questions that one table answers, in the same units, and refuse the others in the same words."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.answers.grouping import numbers_of
from synthdp.answers.questions import Mean, Quantile, Question
from synthdp.errors import ParameterError
from synthdp.schema.columns import Column

PEOPLE = 600
SHOWN = ("estimate", "standard_error", "lower", "upper")
COLUMNS: dict[str, Column] = {
    "whole": sd.Integer(0, 19),
    "missing": sd.Integer(0, 4, nullable=True),
    "special": sd.Integer(0, 9, special=(-1,)),
    "real": sd.Continuous(-2, 8),
    "decimal": sd.Decimal(0, 10, decimals=2),
    "ordinal": sd.Ordinal(["low", "middle", "high"]),
    "label": sd.Categorical(["a", "b"]),
    "truth": sd.Boolean(),
    "day": sd.Date("2020-01-01", "2020-12-31"),
    "moment": sd.Datetime("2020-01-01", "2020-02-01"),
    "clock": sd.Time("00:00", "23:59"),
    "length": sd.Duration(0, 7200),
}


def people() -> pd.DataFrame:
    """Rows of columns of all types."""
    rng = np.random.default_rng(0)
    whole = lambda most: rng.integers(0, most, PEOPLE)  # noqa: E731
    start = pd.Timestamp("2020-01-01")
    return pd.DataFrame(
        {
            "whole": whole(20), "missing": pd.array(whole(5), "Int64").astype(object),
            "special": whole(10), "real": rng.random(PEOPLE) * 10 - 2,
            "decimal": [Decimal(int(cents)) / 100 for cents in whole(1000)],
            "ordinal": rng.choice(["low", "middle", "high"], PEOPLE), "label": rng.choice(["a", "b"], PEOPLE),
            "truth": rng.random(PEOPLE) < 0.4, "day": start + pd.to_timedelta(whole(366), "D"),
            "moment": start + pd.to_timedelta(whole(31 * 86_400), "s"),
            "clock": [dt.time(hour, minute) for hour, minute in zip(whole(24), whole(60), strict=True)],
            "length": pd.to_timedelta(whole(7200), "s"),
        }
    )  # fmt: skip


def questions(name: str, other: str, label: str, truth: str) -> Iterator[Question]:
    """Yield one question of every kind about the column of a name."""
    yield from (sd.count(by=name), sd.marginal(name), sd.share(truth, by=name))
    yield from (sd.count(weight=name), sd.share(truth, weight=name), sd.mean(other, weight=name))
    for kind in (sd.sum, sd.mean, sd.variance, sd.quantile):
        yield from (kind(name), kind(name, where=truth), kind(name, by=label))
    yield from (sd.correlation(name, other), sd.mean(name, weight=name), sd.quantile(name, q=[0.25, 0.75]))


@pytest.fixture(scope="module")
def one() -> sd.SyntheticRelease:
    return sd.SyntheticRelease(schema=sd.Schema(COLUMNS), epsilon=5.0, random_state=0).fit(people())


@pytest.fixture(scope="module")
def several() -> sd.DatabaseRelease:
    table = people().assign(id=range(PEOPLE))
    below = table.rename(columns={name: f"their_{name}" for name in COLUMNS})
    schema = sd.DatabaseSchema(
        {"people": sd.Schema(COLUMNS), "rows": sd.Schema({f"their_{name}": one for name, one in COLUMNS.items()})},
        [sd.Relation("people", "rows", key="id", at_most=2)],
    )
    return sd.DatabaseRelease(schema=schema, epsilon=5.0, random_state=0).fit({"people": table, "rows": below})


def answered(release: Any, question: Question) -> pd.DataFrame | str:
    """Return the answer, or the refusal."""
    try:
        return release.answer(question)
    except ParameterError as refusal:
        return str(refusal)


def microseconds(values: pd.Series) -> np.ndarray:
    """Return shown values as numbers: those of times in microseconds."""
    if isinstance(values.iloc[0], dt.time):
        return np.array([pd.Timedelta(str(one)) / pd.Timedelta(microseconds=1) for one in values])
    return values.astype("int64" if values.dtype.kind in "mM" else "float64").to_numpy(np.float64)


@pytest.mark.parametrize("place", ["people", "rows"])
@pytest.mark.parametrize("name", COLUMNS)
def test_several_tables_answer_the_questions_of_one_in_its_units(
    name: str, place: str, one: sd.SyntheticRelease, several: sd.DatabaseRelease
) -> None:
    own = [name, "missing" if name == "whole" else "whole", "label" if name != "label" else "ordinal", "truth"]
    asked = own if place == "people" else [f"their_{column}" for column in own]
    numbers, there = numbers_of(COLUMNS[name])
    width = float(np.ptp(numbers[there > 0]))
    for question, same in zip(questions(*own), questions(*asked), strict=True):
        wanted, found = answered(one, question), answered(several, same)
        if isinstance(wanted, str):
            assert found == wanted.replace(repr(name), repr(asked[0]))
            continue
        assert not isinstance(found, str), found
        assert [found[part].dtype for part in SHOWN] == [wanted[part].dtype for part in SHOWN], question
        assert [type(found[part][0]) for part in SHOWN] == [type(wanted[part][0]) for part in SHOWN], question
        if isinstance(question, Mean | Quantile) and question.column == name != "ordinal":
            moved = np.abs(microseconds(found["estimate"]) - microseconds(wanted["estimate"]))
            assert (moved <= width / 3).all(), question
            assert (microseconds(found["lower"]) >= numbers[there > 0].min()).all(), question
            assert (microseconds(found["upper"]) <= numbers[there > 0].max()).all(), question


@pytest.fixture(scope="module")
def costs() -> sd.DatabaseRelease:
    """Few people with rows, whose numbers reach below 0, and a level and a missing value that nobody has."""
    rng = np.random.default_rng(1)
    people = pd.DataFrame({"id": range(80), "sort": rng.choice(["a", "b"], 80)})
    visits = pd.DataFrame({"id": rng.integers(0, 80, 120), "year": rng.integers(2000, 2010, 120)})
    visits["cost"], visits["gain"] = rng.gamma(1, 5, 120), rng.normal(0, 3, 120)
    schema = sd.DatabaseSchema(
        {
            "people": sd.Schema({"sort": sd.Categorical(["a", "b", "nobody"], nullable=True)}),
            "visits": sd.Schema(
                {"year": sd.Integer(2000, 2010), "cost": sd.Continuous(2, 40), "gain": sd.Continuous(-9, 6)}
            ),
        },
        [sd.Relation("people", "visits", key="id", at_most=3, order="year")],
    )
    return sd.DatabaseRelease(schema=schema, epsilon=1.0, random_state=0).fit({"people": people, "visits": visits})


SUMMARIES = {
    "visits.rows": (0, 3), "visits.cost.sum": (0, 120), "visits.cost.mean": (2, 40), "visits.cost.max": (2, 40),
    "visits.gain.sum": (-27, 18), "visits.gain.min": (-9, 6), "visits.gain.first": (-9, 6),
}  # fmt: skip
"""Numbers of child rows and summaries of them, and the least and the largest that one person may have."""


@pytest.mark.parametrize("name", SUMMARIES)
def test_summaries_of_rows_have_the_limits_of_their_values(name: str, costs: sd.DatabaseRelease) -> None:
    """A level that no synthetic person has took the answers of all levels away; a mean of costs began below 0."""
    least, most = SUMMARIES[name]
    for question in (sd.mean(name, by="sort"), sd.quantile(name, by="sort"), sd.mean(name), sd.quantile(name, 0.9)):
        found = costs.answer(question)
        assert found[["lower", "upper"]].stack().between(least, most).all(), found
        assert found["estimate"].between(found["lower"], found["upper"]).all(), found
    total = costs.answer(sd.sum(name, by="sort"))
    assert (total["lower"] >= (0 if least >= 0 else -np.inf)).all()
    assert (costs.answer(sd.variance(name, by="sort"))["lower"] >= 0).all()
