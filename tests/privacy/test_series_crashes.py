"""A process that is killed while it adds a period: no answer is told twice with other noise, and no period is lost."""

import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from synthdp import Boolean, Ledger, ReleaseSeries, Schema
from synthdp.curator import series_room, series_state
from synthdp.errors import DataError

SCHEMA = Schema({"a": Boolean(), "b": Boolean()})
MONTHS = [pd.DataFrame(np.random.default_rng(t).random((200, 2)) < 0.4, columns=["a", "b"]) for t in range(4)]
EVENTS = (("fsync", os), ("replace", Path), ("rename", Path))
"""What reaches the disk goes through one of these."""


UNITS = {"privacy_unit": "who", "max_rows_per_unit": 2, "max_periods_per_unit": 2}
WRONG = MONTHS[0].assign(who=[f"p{i}" for i in range(200)])[:20]
"""Rows of the first period that the second one takes back."""


def series_at(folder, settings=None):
    ledger = Ledger(folder / "ledger.sqlite")
    return ReleaseSeries(
        schema=SCHEMA, epsilon=2.0, periods=4, path=folder / "series", ledger=ledger, dataset="x", random_state=0,
        **settings or {},
    )  # fmt: skip


def added(folder, period, settings=None):
    series = series_at(folder, settings)
    if settings is None:
        return series.add(MONTHS[period], history=MONTHS[:period] if period == 2 else None)
    months = [one.assign(who=[f"p{i}" for i in range(200)]) for one in MONTHS]
    history = [months[0], (months[1], WRONG)] if period == 2 else None
    return series.add(months[period], corrections=WRONG if period == 1 else None, history=history)


def telling(folder, monkeypatch):
    """Write down every noisy answer that leaves the room, before anybody uses it."""

    def heard(kind, values):
        with (folder / "heard").open("a") as file:
            file.write(f"{kind} {np.asarray(values).tobytes().hex()}\n")

    first, later = series_state.Journal.noised, series_room.SeriesRoom.answers

    def noised(self, plan, exact):
        found = first(self, plan, exact)
        heard(f"{self._prefix}{self._count}", found)
        return found

    def answers(self, queries):
        found = later(self, queries)
        for i, one in enumerate(found):
            heard(f"answers-{self._period}-{i}", one)
        return found

    monkeypatch.setattr(series_state.Journal, "noised", noised)
    monkeypatch.setattr(series_room.SeriesRoom, "answers", answers)


def killed_at(folder, period, event, monkeypatch, settings=None):
    """Add a period in a process that kills itself before its n-th write; return whether it came so far."""
    child = os.fork()
    if child == 0:
        count = [0]
        try:
            for name, place in EVENTS:
                honest = getattr(place, name)

                def counted(*arguments, honest=honest):
                    count[0] += 1
                    if count[0] == event:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return honest(*arguments)

                setattr(place, name, counted)
            added(folder, period, settings)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def heard_twice(folder):
    """Questions that were answered in more than one way."""
    told = {}
    for line in (folder / "heard").read_text().splitlines():
        kind, _, values = line.partition(" ")
        told.setdefault(kind, set()).add(values)
    assert told
    return [kind for kind, values in told.items() if len(values) > 1]


def crashed(folder, period, event, monkeypatch, settings=None):
    folder.mkdir(exist_ok=True)
    with monkeypatch.context() as patch:
        telling(folder, patch)
        for earlier in range(period):
            added(folder, earlier, settings)
        died = killed_at(folder, period, event, patch, settings)
        series = series_at(folder, settings)
        if died and series.added == period:
            added(folder, period, settings)
        assert series.added == period + 1
        assert heard_twice(folder) == []
        assert len(Ledger(folder / "ledger.sqlite").entries("x")) == 1
    return died


@pytest.mark.sampled
@pytest.mark.parametrize(("period", "event"), [(0, 1), (0, 3), (0, 9), (0, 14), (0, 25), (1, 2), (1, 4), (2, 12)])
def test_a_killed_process_neither_loses_a_period_nor_answers_twice(period, event, tmp_path, monkeypatch):
    assert crashed(tmp_path, period, event, monkeypatch)


@pytest.mark.sampled
@pytest.mark.parametrize(("period", "event"), [(1, 3), (2, 11)])
def test_a_process_that_is_killed_among_corrections_tells_nothing_twice(period, event, tmp_path, monkeypatch):
    assert crashed(tmp_path, period, event, monkeypatch, UNITS)


@pytest.mark.slow
@pytest.mark.parametrize("period", [0, 1, 2, 3])
def test_wherever_a_process_is_killed_nothing_is_lost_nor_told_twice(period, tmp_path, monkeypatch):
    event = 1
    while crashed(tmp_path / str(event), period, event, monkeypatch):
        event += 1
    assert event > 8


def test_after_a_crash_other_rows_are_refused(tmp_path, monkeypatch):
    assert killed_at(tmp_path, 0, 25, monkeypatch)
    with pytest.raises(DataError):
        series_at(tmp_path).add(MONTHS[1])
    series_at(tmp_path).add(MONTHS[0])
