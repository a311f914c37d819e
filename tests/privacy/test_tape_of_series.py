"""The tape over a series: neighbouring series ask the same, move within what is stated, and publish the same bytes."""

import numpy as np
import pandas as pd
import pytest
from tape import compared

import synthdp as sd
from synthdp.curator import series_room

SCHEMA = sd.Schema({"a": sd.Categorical(["x", "y", "z"]), "b": sd.Boolean(), "n": sd.Integer(0, 20)})


def month(number, rows=120):
    rng = np.random.default_rng(number)
    a = rng.choice(["x", "y", "z"], rows)
    who = [f"p{i}" for i in range(rows)]
    return pd.DataFrame(
        {"a": a, "b": (a == "x") | (rng.random(rows) < 0.2), "n": rng.integers(0, 20, rows), "who": who}
    )


MONTHS = [month(t) for t in range(4)]
MORE = pd.DataFrame({"a": ["z"], "b": [True], "n": [20], "who": ["new"]})


def series(months, corrections=None, **settings):
    def run(place):
        made = sd.ReleaseSeries(schema=SCHEMA, epsilon=3.0, periods=4, path=place / "s", random_state=0, **settings)
        for t, table in enumerate(months):
            history = months[:t] if t == 2 and settings.get("choose_again", True) else None
            made.add(table, history=history, corrections=corrections if t == 2 else None)
        return {
            "receipt": str(made.receipt_),
            "answers": made.answer(sd.count("a == 'x'"), by="period").to_csv(),
            "rows": [made.rows_(t).to_csv() for t in range(4)],
        }

    return run


def neighbour(there, relation):
    found = []
    for t, table in enumerate(MONTHS):
        kept = table.iloc[:-1] if relation == "replace_one" and t in there else table
        found.append(pd.concat([kept, MORE], ignore_index=True) if t in there else table)
    return found


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("there", "settings"),
    [
        ((1,), {}),
        ((0,), {}),
        ((3,), {}),
        ((0, 2), {"privacy_unit": "who", "max_periods_per_unit": 2}),
        ((2,), {"neighbors": "replace_one"}),
        ((1, 3), {"privacy_unit": "who", "choose_again": False}),
    ],
)
def test_a_neighbouring_series_gives_the_same_trace_and_the_same_files(there, settings, tmp_path, monkeypatch):
    monkeypatch.setattr(series_room.os, "urandom", bytes)  # the secret, and what a program starts from
    monkeypatch.setattr("os.fsync", lambda handle: None)
    other = neighbour(there, settings.get("neighbors", "add_remove"))
    found = compared(series(MONTHS, **settings), series(other, **settings), tmp_path)
    assert found.faults == ()
    assert found.outcome == ""
    assert found.questions > 10
    assert 0.3 < found.largest <= 1


@pytest.mark.sampled
@pytest.mark.parametrize("there", [(0,), (0, 1)])
def test_a_row_that_is_taken_back_gives_the_same_trace_and_the_same_files(there, tmp_path, monkeypatch):
    monkeypatch.setattr(series_room.os, "urandom", bytes)
    monkeypatch.setattr("os.fsync", lambda handle: None)
    settings = {"privacy_unit": "who", "max_periods_per_unit": 4}
    wrong = MONTHS[0].iloc[[3, 5]]
    first = series(MONTHS, wrong, **settings)
    second = series(neighbour(there, "add_remove"), pd.concat([wrong, MORE]), **settings)
    found = compared(first, second, tmp_path)
    assert found.faults == ()
    assert found.outcome == ""
    assert 0.3 < found.largest <= 1


def panel(months):
    def run(place):
        made = sd.PanelSeries(
            schema=SCHEMA.part(["b"]), epsilon=3.0, periods=4, window=2, privacy_unit="who", path=place / "p", random_state=0
        )  # fmt: skip
        rows = [made.add(table) for table in months]
        return {
            "receipt": str(made.receipt_),
            "answers": made.answer("b", "b").to_csv(),
            "rows": [None if one is None else one.to_csv() for one in rows],
        }

    return run


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("there", [(0,), (0, 3), (0, 1, 2, 3), (2,)])
def test_a_neighbouring_panel_gives_the_same_trace_and_the_same_files(there, tmp_path, monkeypatch):
    monkeypatch.setattr(series_room.os, "urandom", bytes)
    monkeypatch.setattr("os.fsync", lambda handle: None)
    found = compared(panel(MONTHS), panel(neighbour(there, "add_remove")), tmp_path)
    assert found.faults == ()
    assert found.outcome == ""
    assert found.questions == 3
    assert found.largest == (1 if 0 in there else 0)  # who was not there in the first period is left out
