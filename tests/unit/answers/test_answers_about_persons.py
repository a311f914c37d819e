"""Answers about one column of persons under much noise: fractions of the persons that all other tables count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise

import synthdp as sd
from synthdp.answers.related.database_answer import DatabaseAsker
from synthdp.answers.related.unfit import unfit_values

LEVELS = [str(level) for level in range(30)]
SCHEMA = sd.DatabaseSchema(
    {
        "persons": sd.Schema({
            "sex": sd.Boolean(), "trade": sd.Categorical(LEVELS, nullable=True), "town": sd.Categorical(LEVELS),
            "age": sd.Integer(0, 99),
        }),
        "visits": sd.Schema({"ward": sd.Categorical(LEVELS), "cost": sd.Integer(0, 9)}),
    },
    [sd.Relation("persons", "visits", key="pid", at_most=4)],
)  # fmt: skip
PERSONS, DRAWS = 1500, 120


def private() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    persons = pd.DataFrame({"pid": range(PERSONS), "sex": rng.random(PERSONS) < 0.4})
    for name in ("trade", "town"):
        persons[name] = np.minimum(rng.geometric(0.2, PERSONS) - 1, 29).astype(str).astype(object)
    persons.loc[rng.random(PERSONS) < 0.1, "trade"] = None
    persons["age"] = np.clip(rng.normal(40, 15, PERSONS), 0, 99).astype(int)
    visits = pd.DataFrame({"pid": np.repeat(persons["pid"], rng.integers(0, 5, PERSONS))}).reset_index(drop=True)
    visits["ward"] = np.where(rng.random(len(visits)) < 0.1, "elsewhere", "3")
    return {"persons": persons, "visits": visits.assign(cost=3)}


def truths(real: dict[str, pd.DataFrame]) -> list[tuple[Any, float]]:
    persons = real["persons"]
    some = persons[persons["age"] >= 30]
    return [
        (sd.share("trade == '0'"), (persons["trade"] == "0").mean()),
        (sd.share("trade is null"), persons["trade"].isna().mean()),
        (sd.share("town in ('1', '2', '3')"), persons["town"].isin(["1", "2", "3"]).mean()),
        (sd.share("age >= 45", where="age >= 30"), (some["age"] >= 45).mean()),
        (sd.mean("age"), persons["age"].mean()),
        (sd.share("visits.rows >= 2"), (real["visits"]["pid"].value_counts() >= 2).sum() / PERSONS),
    ]


@pytest.fixture(scope="module")
def exact() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        without_noise(patch)
        return sd.DatabaseRelease(schema=SCHEMA, epsilon=0.2, random_state=0).fit(private()).release_


def noisy(exact: Any, draws: int) -> Iterator[tuple[Any, ...]]:
    """Yield the answers that a release would have had with other noise."""
    rng = np.random.default_rng(1)
    for _ in range(draws):
        yield tuple(
            replace(
                one, values=one.values + np.rint(one.noise.stddev * rng.standard_normal(len(one.values))).astype(int)
            )
            for one in exact.measurements
        )


def test_shares_and_means_are_right_in_the_mean_and_their_intervals_hold_the_truth(exact: Any) -> None:
    """A share is no ratio of two noisy sums of one column, of which the second may be near to 0."""
    asked = truths(private())
    askers = [DatabaseAsker(exact.output, measured) for measured in noisy(exact, DRAWS)]
    for question, truth in asked:
        found = pd.concat(one.ask(question).to_frame() for one in askers)
        assert set(found["basis"]) == {"measured"}
        scatter = found["estimate"].std()
        assert abs(found["estimate"].mean() - truth) < 4 * scatter / DRAWS**0.5, question
        assert ((found["lower"] <= truth) & (truth <= found["upper"])).mean() >= 0.9
        assert found["standard_error"].mean() < 1.5 * scatter


def test_fractions_of_values_that_fit_nowhere_are_right_in_the_mean(exact: Any) -> None:
    visits = private()["visits"]
    truth = (visits["ward"] == "elsewhere").groupby(visits["pid"]).mean().mean()
    found = [unfit_values(exact.output.layout, measured)["visits"]["ward"] for measured in noisy(exact, DRAWS)]
    share, stddev = (np.array([one[i] for one in found if one is not None]) for i in range(2))
    assert abs(np.median(share) - truth) < 5 * np.median(stddev) / DRAWS**0.5
    assert (np.abs(share - truth) < 2 * stddev).mean() >= 0.9
