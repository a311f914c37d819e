"""Persons with many rows in order, each like the one before: shares of single columns stay as measured."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import synthdp as sd

PERSONS, ROWS, STAY = 1000, 20, 0.97


def tables() -> dict[str, pd.DataFrame]:
    """Return persons and 20 rows of each: a state that stays, and a number that moves a little in every step."""
    rng = np.random.default_rng(0)
    fresh, stays = rng.integers(0, 4, (PERSONS, ROWS)), rng.random((PERSONS, ROWS)) < STAY
    state, number = fresh.copy(), rng.normal(size=(PERSONS, ROWS))
    for t in range(1, ROWS):
        state[:, t] = np.where(stays[:, t], state[:, t - 1], fresh[:, t])
        number[:, t] = STAY * number[:, t - 1] + np.sqrt(1 - STAY**2) * number[:, t]
    rows = {"id": np.repeat(np.arange(PERSONS), ROWS), "time": np.tile(np.arange(ROWS), PERSONS), "state": state.ravel(),
            "number": np.clip(np.rint(50 + 15 * number.ravel()), 0, 100).astype(int)}  # fmt: skip
    return {"persons": pd.DataFrame({"id": range(PERSONS), "size": "all"}), "rows": pd.DataFrame(rows)}


@pytest.fixture(scope="module")
def drawn() -> pd.DataFrame:
    columns = {"time": sd.Integer(0, ROWS - 1), "state": sd.Integer(0, 3), "number": sd.Integer(0, 100)}
    schema = sd.DatabaseSchema(
        {"persons": sd.Schema({"size": sd.Categorical(["all"])}), "rows": sd.Schema(columns)},
        [sd.Relation("persons", "rows", key="id", at_most=ROWS, order="time", unique=True)],
    )
    return sd.DatabaseRelease(schema=schema, epsilon=5.0, delta=1e-6, random_state=0).fit_transform(tables())["rows"]


@pytest.mark.parametrize("column", ["state", "number"])
def test_shares_of_a_column_do_not_swing_away_with_what_a_row_says_of_the_next(column, drawn):
    edges = np.array([-1, 30, 40, 45, 50, 55, 60, 70, 100] if column == "number" else [-1, 0, 1, 2, 3]) + 0.5
    shares = [np.histogram(one[column], edges)[0] / len(one) for one in (tables()["rows"], drawn)]
    assert np.abs(shares[1] - shares[0]).sum() / 2 < 0.12


def test_a_row_is_like_the_one_before(drawn):
    rows = drawn.sort_values([drawn.columns[0], "time"], kind="stable")
    follows = rows.iloc[1:, 0].to_numpy() == rows.iloc[:-1, 0].to_numpy()
    number, state = rows["number"].to_numpy(), rows["state"].to_numpy()
    assert np.corrcoef(number[1:][follows], number[:-1][follows])[0, 1] > 0.7
    assert (state[1:] == state[:-1])[follows].mean() > 0.85
