"""Rows without an order, as members of a household: what they have to do with each other is kept, and nothing is made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise

import synthdp as sd
from synthdp.mechanisms.related.related_tables import RelatedTables
from synthdp.release import save
from synthdp.report import write_report

TOWNS = [f"t{i}" for i in range(12)]
SCHEMA = sd.DatabaseSchema(
    {
        "homes": sd.Schema({"own": sd.Boolean()}),
        "members": sd.Schema(
            {
                "role": sd.Categorical(["head", "spouse", "child"]),
                "age": sd.Integer(0, 99),
                "town": sd.Categorical(TOWNS),
                "coin": sd.Categorical(["h", "t"]),
            }
        ),
    },
    [sd.Relation("homes", "members", key="home", at_most=5)],
)


def households(homes: int, *, related: bool) -> dict[str, pd.DataFrame]:
    """One head in each home, at most one spouse, children, all of one town, ages that go together; or these dealt out."""
    rng = np.random.default_rng(4)
    many = rng.choice([1, 2, 3, 4, 5], homes, p=[0.2, 0.3, 0.2, 0.2, 0.1])
    home = np.repeat(np.arange(homes), many)
    place = np.arange(len(home)) - np.repeat(np.cumsum(many) - many, many)
    spouse = (place == 1) & (rng.random(len(home)) < 0.8)
    role = np.where(place == 0, "head", np.where(spouse, "spouse", "child"))
    age = rng.integers(30, 95, homes)[home] - np.where(role == "child", 28, 0) + rng.integers(-2, 3, len(home))
    members = pd.DataFrame({"home": home, "role": role, "age": age})
    members["town"] = np.array(TOWNS)[rng.integers(0, len(TOWNS), homes)[home]]
    members["coin"] = rng.choice(["h", "t"], len(home))
    if not related:
        for name in ("role", "age", "town"):
            members[name] = rng.permutation(members[name].to_numpy())
    members = members.sample(frac=1, random_state=0).reset_index(drop=True)
    return {"homes": pd.DataFrame({"home": range(homes), "own": rng.random(homes) < 0.5}), "members": members}


def relations(tables: dict[str, pd.DataFrame]) -> dict[str, float]:
    """What two members of a home have to do with each other."""
    members = tables["members"].assign(row=range(len(tables["members"])))
    pairs = members.merge(members, on="home", suffixes=("", "_other"))
    pairs = pairs[pairs["row"] != pairs["row_other"]]
    roles = pd.crosstab(members["home"], members["role"])
    ages = np.corrcoef(pairs["age"], pairs["age_other"])[0, 1]
    return {
        "one town": (pairs["town"] == pairs["town_other"]).mean(),
        "one coin": (pairs["coin"] == pairs["coin_other"]).mean(),
        "two spouses": (roles["spouse"] > 1).mean(),
        "two heads": (roles["head"] > 1).mean(),
        "ages": ages,
    }


def released(tables: dict[str, pd.DataFrame], *, epsilon: float, particles: int = 1500) -> sd.Release[Any]:
    curator = sd.Curator(tables, schema=SCHEMA, budget=sd.ApproxDP(epsilon, 1e-9))
    return RelatedTables(particles=particles, sweeps=(14, 20)).release(curator, random_state=0)


@pytest.fixture(scope="module")
def related() -> sd.Release[Any]:
    """Fitted without noise, so that what it has learned does not hang on luck."""
    with pytest.MonkeyPatch.context() as patch:
        without_noise(patch)
        return released(households(1500, related=True), epsilon=1.0)


@pytest.mark.landing
def test_a_strong_relation_among_siblings_is_kept(related: sd.Release[Any]) -> None:
    real, made = relations(households(1500, related=True)), relations(related.sample(4000, random_state=1))
    assert real["one town"] == 1
    assert made["one town"] > 0.9
    assert abs(made["one coin"] - 0.5) < 0.05
    assert made["two spouses"] < 0.03
    assert made["two heads"] < 0.1
    assert 0.5 * real["ages"] < made["ages"] < 1.2 * real["ages"]


@pytest.mark.landing
def test_siblings_that_have_nothing_to_do_with_each_other_do_not_get_a_relation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_noise(monkeypatch)
    tables = households(1500, related=False)
    real, made = relations(tables), relations(released(tables, epsilon=1.0).sample(4000, random_state=1))
    assert made["one town"] < 0.15
    assert all(abs(made[name] - real[name]) < 0.06 for name in real), (real, made)


@pytest.mark.slow
def test_under_noise_a_strong_relation_is_kept_and_none_is_made_up() -> None:
    kept = relations(released(households(6000, related=True), epsilon=2.0, particles=6000).sample(6000, random_state=1))
    none = relations(
        released(households(6000, related=False), epsilon=2.0, particles=6000).sample(6000, random_state=1)
    )
    assert kept["one town"] > 0.7
    assert kept["two spouses"] < 0.06
    assert kept["ages"] > 0.2
    assert none["one town"] < 0.2
    assert abs(none["ages"]) < 0.1


@pytest.mark.landing
def test_siblings_come_out_in_no_order(related: sd.Release[Any]) -> None:
    members = related.sample(4000, random_state=2)["members"]
    pairs = members[members.groupby("home")["home"].transform("size") == 2]
    first, second = (pairs.groupby("home").nth(place)["role"].to_numpy() for place in (0, 1))
    table = pd.crosstab(first, second)
    gap = (table - table.T).to_numpy()
    assert (np.abs(gap) < 6 * np.sqrt(table + table.T + 1)).all(axis=None)


def test_a_release_of_siblings_is_saved_and_draws_the_same_rows(related: sd.Release[Any], tmp_path: Path) -> None:
    save(related, tmp_path / "homes.release")
    first = related.sample(50, random_state=3)
    second = sd.load(tmp_path / "homes.release").sample(50, random_state=3)
    assert all(first[name].equals(second[name]) for name in first)


@pytest.mark.landing
def test_questions_about_siblings_are_answered(related: sd.Release[Any]) -> None:
    found = related.answer(sd.share("members.rows >= 2"))
    assert 0.7 < found["estimate"][0] < 0.9
    heads = related.answer(sd.count("role == 'head'"))
    assert 0.9 * 1500 < heads["estimate"][0] < 1.1 * 1500


def test_the_report_says_what_goes_together_in_two_rows(related: sd.Release[Any], tmp_path: Path) -> None:
    write_report(related, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "town in another row" in page
    assert "from one row to the next" not in page
