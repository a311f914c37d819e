"""Rows that may come on any day of a contract, in order by day: the first of several is early, the last not too late."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise

import synthdp as sd
from synthdp.fit.person_shrinkage import independent_share

DAYS = 1500


def tables() -> dict[str, pd.DataFrame]:
    """Return 4 000 contracts of one or two years, cut at the last day, and up to four claims on any days of each."""
    rng = np.random.default_rng(0)
    start, many = rng.integers(0, DAYS - 30, 4000), rng.integers(0, 5, 4000)
    end = np.minimum(start + 365 * rng.integers(1, 3, 4000), DAYS)
    of = np.repeat(np.arange(4000), many)
    days = start[of] + (rng.random(len(of)) * (end - start + 1)[of]).astype(int)
    contracts = pd.DataFrame({"id": range(4000), "start": start, "end": end})
    return {"contracts": contracts, "claims": pd.DataFrame({"id": of, "day": days})}


def figures(some: dict[str, pd.DataFrame]) -> np.ndarray:
    """By number of claims, how far along its contract the first and the last claim are in the mean, from 0 to 1."""
    claims = some["claims"].merge(some["contracts"], on="id")
    claims["along"] = (claims["day"] - claims["start"]) / (claims["end"] - claims["start"]).clip(lower=1)
    each = claims.groupby("id")["along"].agg(["min", "max", "size"])
    return each.groupby("size")[["min", "max"]].mean().to_numpy()


def test_the_first_claim_is_the_earlier_the_more_claims_there_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_noise(monkeypatch)
    number = sd.Integer(0, DAYS)
    rules = [sd.LessEqual("contracts.start", "contracts.end"), sd.LessEqual("contracts.start", "claims.day"),
             sd.LessEqual("claims.day", "contracts.end")]  # fmt: skip
    schema = sd.DatabaseSchema(
        {"contracts": sd.Schema({"start": number, "end": number}), "claims": sd.Schema({"day": number})},
        [sd.Relation("contracts", "claims", key="id", at_most=4, order="day")], rules=rules,
    )  # fmt: skip
    release = sd.DatabaseRelease(schema=schema, epsilon=5.0, delta=1e-6, random_state=0).fit(tables())
    release.save(tmp_path / "claims.release")
    for one in (release, sd.load(tmp_path / "claims.release")):
        off = np.abs(figures(one.sample(random_state=1)) - figures(tables()))
        assert off.max() < 0.08
        assert off.mean() < 0.03  # .042 if a first claim does not know how many follow


def entries(days: np.ndarray, many: np.ndarray) -> np.ndarray:
    """Rows by the tenth of the previous row's day, or none in the last entry, and that of their own, each person as 1."""
    found = np.zeros((11, 10))
    for mine in np.split(days, np.cumsum(many)[:-1]):
        tenths = np.minimum(np.sort(mine) * 10, 9.0).astype(int)
        np.add.at(found, ([10, *tenths[:-1]][: len(tenths)], tenths), 1 / max(len(tenths), 1))
    return found


def test_the_share_of_independent_rows_is_found_and_noise_alone_moves_it_little() -> None:
    rng = np.random.default_rng(0)
    many = rng.integers(1, 5, 5000)
    independent, others = (entries(rng.random(many.sum()), many) for _ in range(2))
    after = np.repeat(rng.random(5000) * 0.9, many) + 0.1 * rng.random(many.sum())  # soon after one another
    assert independent_share(others, 1.0, independent) > 0.95
    assert independent_share(entries(after, many), 1.0, independent) < 0.3
    noisy = [others + rng.normal(0, 40, others.shape) for _ in range(100)]
    assert np.mean([independent_share(one, 40.0, independent) for one in noisy]) > 0.93
    assert independent_share(rng.normal(0, 1e4, others.shape), 1e6, independent) == 1.0
