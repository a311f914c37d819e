"""Persons with many rows in no order: shares of single columns stay as measured, and relations between rows of a person."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import synthdp as sd

PERSONS, MOST = 600, 20


def tables() -> dict[str, pd.DataFrame]:
    """Return persons and up to `MOST` rows of each, with a column whose values a person's rows share and two without."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, PERSONS)
    owner = np.repeat(np.arange(PERSONS), rng.integers(1, MOST + 1, PERSONS))
    shared = np.where(rng.random(len(owner)) < 0.7, kind[owner], rng.integers(0, 4, len(owner)))
    rows = {"id": owner, "shared": shared, "free": rng.integers(0, 12, len(owner)),
            "delay": np.clip(np.rint(rng.lognormal(3, 0.6, len(owner))), 0, 100).astype(int)}  # fmt: skip
    return {"persons": pd.DataFrame({"id": range(PERSONS)}), "rows": pd.DataFrame(rows)}


def together(rows: pd.DataFrame, column: str) -> np.ndarray:
    """Return the shares of pairs of values in two rows of a person, persons with two rows or more weighed alike."""
    counts = pd.crosstab(rows.iloc[:, 0], rows[column]).to_numpy(np.float64)
    counts = counts[counts.sum(axis=1) > 1]
    weight = counts / (counts.sum(axis=1) * (counts.sum(axis=1) - 1))[:, None]
    table = weight.T @ counts - np.diag(weight.sum(axis=0))
    return table / table.sum()


@pytest.fixture(scope="module")
def drawn() -> pd.DataFrame:
    schema = sd.DatabaseSchema(
        {
            "persons": sd.Schema({"size": sd.Categorical(["all"])}),
            "rows": sd.Schema({"shared": sd.Integer(0, 3), "free": sd.Integer(0, 11), "delay": sd.Integer(0, 100)}),
        },
        [sd.Relation("persons", "rows", key="id", at_most=MOST)],
    )
    given = tables()
    given["persons"]["size"] = "all"
    return sd.DatabaseRelease(schema=schema, epsilon=5.0, delta=1e-6, random_state=0).fit_transform(given)["rows"]


@pytest.mark.parametrize("column", ["shared", "free", "delay"])
def test_shares_of_a_column_do_not_swing_away_with_the_relations_between_rows(column, drawn):
    real = tables()["rows"][column]
    edges = [-1, 10, 15, 20, 25, 30, 40, 101] if column == "delay" else np.arange(-1, real.max() + 1)
    shares = [np.histogram(one, np.array(edges) + 0.5)[0] / len(one) for one in (real, drawn[column])]
    assert np.abs(shares[1] - shares[0]).sum() / 2 < 0.12


def test_relations_between_rows_of_a_person_are_kept(drawn):
    real = together(tables()["rows"], "shared")
    independent = np.outer(real.sum(axis=1), real.sum(axis=0))
    found = np.abs(together(drawn, "shared") - real).sum() / 2
    assert found < 0.4 * np.abs(independent - real).sum() / 2
