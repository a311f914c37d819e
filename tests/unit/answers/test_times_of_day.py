"""Questions about times of day, days and decimals are asked and answered in their own terms."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import synthdp as sd


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({
        "at": [dt.time(int(hour), 30) for hour in rng.integers(8, 18, 3000)],
        "day": [dt.date(2020, 1, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 300, 3000)],
        "price": [Decimal(int(cents)) / 100 for cents in rng.integers(0, 9999, 3000)],
    })  # fmt: skip


TABLE = table()
SCHEMA = sd.Schema({
    "at": sd.Time("08:00", "18:00", resolution="min"), "day": sd.Date("2020-01-01", "2020-12-31"),
    "price": sd.Decimal(0, 100),
})  # fmt: skip


@pytest.fixture(scope="module")
def release():
    return sd.SyntheticRelease(schema=SCHEMA, epsilon=4.0, random_state=1).fit(TABLE)


def test_a_mean_and_a_quantile_of_times_of_day_are_times_of_day(release):
    mean, middle = release.answer(sd.mean("at")), release.answer(sd.quantile("at", 0.5))
    assert dt.time(12, 40) < mean.estimate[0] < dt.time(13, 20)
    assert mean.lower[0] <= mean.estimate[0] <= mean.upper[0]
    assert dt.time(11) < middle.estimate[0] < dt.time(15)


@pytest.mark.parametrize(
    ("condition", "real"),
    [
        ("at >= '12:00'", sum(at >= dt.time(12) for at in TABLE["at"])),
        ("at < '08:30'", 0),
        ("day < '2020-03-01'", sum(day < dt.date(2020, 3, 1) for day in TABLE["day"])),
        ("price > 50", sum(price > 50 for price in TABLE["price"])),
    ],
)
def test_conditions_count_the_rows_that_they_say(release, condition, real):
    answer = release.answer(sd.count(condition))
    assert abs(answer.estimate[0] - real) < 6 * answer["standard_error"].iloc[0] + 60


@pytest.mark.parametrize("condition", ["at > 5", "at > 'noon'", "day > 3", "price > 'much'"])
def test_a_condition_on_another_kind_of_value_is_refused(release, condition):
    with pytest.raises(sd.errors.ParameterError, match="holds"):
        release.answer(sd.count(condition))


def test_rows_are_drawn_for_given_times_of_day(release):
    rows = release.sample(40, random_state=0, given={"at": ("09:00", "10:00"), "day": dt.date(2020, 5, 1)})
    assert all(dt.time(9) <= at <= dt.time(10) for at in rows["at"])
    assert set(rows["day"]) == {dt.date(2020, 5, 1)}


def test_a_report_shows_them(release, tmp_path):
    release.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "time of day, 08:00" in page
    assert "day, 2020-01-01 to 2020-12-31" in page


def test_rules_hold_between_times_of_day():
    table = pd.DataFrame({"from": TABLE["at"], "to": [dt.time(at.hour + 1, 30) for at in TABLE["at"]]})
    hours = sd.Time("08:00", "20:00", resolution="min")
    schema = sd.Schema({"from": hours, "to": hours}, constraints=[
        sd.LessEqual("from", "to"), sd.Implies({"from": [("08:00", "09:00")]}, {"to": [("09:00", "12:00")]}),
    ])  # fmt: skip
    rows = sd.SyntheticRelease(schema=schema, epsilon=2.0, random_state=1).fit(table).sample(1000)
    assert (rows["from"] <= rows["to"]).all()
    assert rows.loc[rows["from"] <= dt.time(9), "to"].between(dt.time(9), dt.time(12)).all()
