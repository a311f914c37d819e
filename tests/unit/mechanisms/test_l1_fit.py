"""The L1 fit keeps the rules between columns, and comes near the table when there is no noise."""

import itertools

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise

from synthdp import ApproxDP, Categorical, Curator, Forbidden, Implies, Integer, L1Fit, LessEqual, Schema

RULED = Schema(
    {
        "low": Integer(0, 40),
        "high": Integer(0, 40, nullable=True),
        "kind": Categorical(["a", "b", "c"]),
        "state": Categorical(["x", "y"]),
    },
    constraints=[
        LessEqual("low", "high"),
        Forbidden({"kind": "a", "state": "x"}),
        Implies({"kind": "b"}, {"state": "x"}),
    ],
)


def ruled_table(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    low, high = np.sort(rng.integers(0, 41, (rows, 2)), axis=1).T
    kind = rng.choice(["a", "b", "c"], rows)
    state = np.where(kind == "a", "y", np.where(kind == "b", "x", rng.choice(["x", "y"], rows)))
    return pd.DataFrame({"low": low, "high": high, "kind": kind, "state": state})


@pytest.mark.parametrize("support", [30, 20_000], ids=["drawn", "listed"])
@pytest.mark.parametrize(("epsilon", "runs"), [(0.05, 2), pytest.param(1.0, 8, marks=pytest.mark.slow)])
def test_rows_obey_the_rules_however_few_and_noisy(epsilon: float, runs: int, support: int) -> None:
    for run in range(runs):
        curator = Curator(ruled_table(3), schema=RULED, budget=ApproxDP(epsilon, 1e-6))
        rows = L1Fit(support=support).release(curator, random_state=run).sample(50, random_state=run)
        known = rows.dropna()
        assert (known["low"] <= known["high"]).all()
        assert not ((rows["kind"] == "a") & (rows["state"] == "x")).any()
        assert (rows.loc[rows["kind"] == "b", "state"] == "x").all()


def test_without_noise_pairs_come_out_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    without_noise(monkeypatch)
    schema = Schema({name: Categorical(["n", "y"]) for name in "abcd"})
    rng = np.random.default_rng(0)
    first = rng.random(400) < 0.4
    table = pd.DataFrame({name: np.where(first ^ (rng.random(400) < 0.2), "y", "n") for name in "abcd"})
    curator = Curator(table, schema=schema, budget=ApproxDP(100.0, 1e-6))
    synthetic = L1Fit().release(curator, random_state=0).sample(400, random_state=0)
    for pair in itertools.combinations("abcd", 2):
        real, made = (pd.crosstab(rows[pair[0]], rows[pair[1]]).to_numpy() for rows in (table, synthetic))
        np.testing.assert_allclose(made, real, atol=2)
