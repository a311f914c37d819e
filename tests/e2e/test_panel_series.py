"""A panel of the same persons, as a user sees it: synthetic persons who live on, counts of what they do, crashes."""

import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.curator import panel_room
from synthdp.errors import DataError, FormatError, ParameterError

SCHEMA = sd.Schema({"job": sd.Categorical(["none", "part", "full"])})
PERSONS, PERIODS = 3000, 6


def panel_of():
    """Who has a job mostly keeps it; some stay away in a period."""
    rng = np.random.default_rng(0)
    job = rng.choice(3, PERSONS, p=[0.3, 0.2, 0.5])
    found = []
    for _ in range(PERIODS):
        job = np.where(rng.random(PERSONS) < 0.15, rng.choice(3, PERSONS), job)
        there = rng.random(PERSONS) < 0.97
        names = np.array(["none", "part", "full"])[job]
        found.append(pd.DataFrame({"who": np.arange(PERSONS), "job": names})[there if found else slice(None)])
    return found


MONTHS = panel_of()


def panel_at(folder, **settings):
    return sd.PanelSeries(
        schema=SCHEMA, epsilon=8.0, periods=PERIODS, window=3, privacy_unit="who", path=folder / "panel", random_state=1,
        **settings,
    )  # fmt: skip


@pytest.fixture(scope="module")
def panel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("panel")
    published = []
    for table in MONTHS:
        panel_at(folder).add(table)
        made = panel_at(folder)
        published.append(made.rows_() if made.added >= 3 else None)
    return made, published, folder


def test_what_was_published_of_a_person_never_changes_and_persons_live_on(panel):
    made, published, _ = panel
    assert published[:2] == [None, None]
    for t in range(2, PERIODS):
        pd.testing.assert_frame_equal(published[t], published[-1][: len(published[t])])
    last = published[-1]
    assert set(last["period"]) == set(range(1, PERIODS + 1))
    assert not last.duplicated(["person", "period"]).any()
    assert last["person"].max() == len(made._published(PERIODS))


def truth(first, then):
    """How many persons had one job in a period and another in the next, for each period from the third on."""
    wide = [month.set_index("who")["job"].reindex(range(PERSONS)) for month in MONTHS]
    return [int(((wide[t - 1] == first) & (wide[t] == then)).sum()) for t in range(2, PERIODS)]


def test_sequences_are_counted_as_often_as_their_errors_say(panel):
    made, _, _ = panel
    for first in ("none", "full"):
        for then in ("none", "full"):
            found = made.answer(f"job == '{first}'", f"job == '{then}'")
            z = (found["estimate"] - truth(first, then)) / found["standard_error"]
            assert np.abs(z).max() < 6.5
    assert list(made.answer("job != 'none'")["period"]) == ["period 3", "period 4", "period 5", "period 6"]


def test_synthetic_persons_do_over_a_window_what_real_ones_do(panel):
    """The error of a synthetic count does not grow from period to period: the padding goes, and noise stays."""
    made, _, _ = panel
    states, stddev = made._published(PERIODS), made._stddev
    for t in range(2, PERIODS):
        counts = np.bincount(made._states.pattern_of(states[:, t - 2 : t + 1]), minlength=made._states.patterns)
        error = counts - made.padding - made._noisy(t)
        assert np.abs(error).max() < 7 * stddev
        assert np.sqrt((error**2).mean()) < 2 * stddev


def test_windows_say_what_persons_did(panel):
    made, _, _ = panel
    found = made.windows_(5)
    assert len(found) == 4**3
    assert len(found["sequence"][0]) == 3
    assert abs(found["estimate"].sum() - PERSONS) < 6.5 * 8 * made._stddev


def test_after_the_last_period_private_files_are_gone_and_nothing_can_be_added(panel):
    made, _, folder = panel
    assert not (folder / "panel" / "private").exists()
    with pytest.raises(DataError, match=r"\b6\b"):
        made.add(MONTHS[0])
    assert "panel" in str(made.receipt_)
    assert "a row without an id is left out" in made.receipt_.assumptions[-3]
    assert made.receipt_.total == sd.ApproxDP(8.0, 1e-9)


@pytest.mark.parametrize(
    ("settings", "error"),
    [({"schema": None}, ParameterError), ({"privacy_unit": None}, ParameterError), ({"path": None}, ParameterError),
     ({"window": 13}, ParameterError), ({"dataset": "x"}, ParameterError), ({"key": b"short"}, ParameterError),
     ({"schema": sd.Schema({"n": sd.Integer(0, 10**6)}), "bins": 1000}, ParameterError)],
)  # fmt: skip
def test_settings_out_of_range_are_refused(settings, error, tmp_path):
    given = {"schema": SCHEMA, "privacy_unit": "who", "path": tmp_path / "p"} | settings
    with pytest.raises(error):
        sd.PanelSeries(**given)


def test_a_panel_goes_on_with_its_settings_and_other_folders_are_refused(panel, tmp_path):
    _, _, folder = panel
    assert sd.PanelSeries(path=folder / "panel").window == 3
    with pytest.raises(ParameterError, match="window"):
        sd.PanelSeries(schema=SCHEMA, epsilon=8.0, periods=PERIODS, window=2, privacy_unit="who", path=folder / "panel")
    (tmp_path / "x").write_text("x")
    with pytest.raises(FormatError):
        sd.PanelSeries(schema=SCHEMA, privacy_unit="who", path=tmp_path)


def test_questions_that_a_panel_cannot_answer_are_refused(panel, tmp_path):
    made, _, _ = panel
    for conditions in ((), ("job == 'none'",) * 4):
        with pytest.raises(ParameterError, match="conditions"):
            made.answer(*conditions)
    with pytest.raises(DataError, match="window"):
        panel_at(tmp_path).rows_()


EVENTS = (("fsync", os), ("replace", Path), ("rename", Path))


def killed_at(folder, event):
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
            made = panel_at(folder, ledger=folder / "ledger.sqlite", dataset="x")
            made.add(MONTHS[made.added])
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def crashed(folder, period, event, monkeypatch):
    honest = panel_room.PanelRoom.add

    def telling(self, number, table):
        found = honest(self, number, table)
        with (folder / "heard").open("a") as file:
            file.write(f"{number} {'' if found is None else found.tobytes().hex()}\n")
        return found

    folder.mkdir(exist_ok=True)
    settings = {"ledger": folder / "ledger.sqlite", "dataset": "x"}
    with monkeypatch.context() as patch:
        patch.setattr(panel_room.PanelRoom, "add", telling)
        for t in range(period):
            panel_at(folder, **settings).add(MONTHS[t])
        died = killed_at(folder, event)
        made = panel_at(folder, **settings)
        if died and made.added == period:
            made.add(MONTHS[period])
        assert made.added == period + 1
    told = {}
    for line in (folder / "heard").read_text().splitlines():
        told.setdefault(line.split()[0], set()).add(line)
    assert all(len(one) == 1 for one in told.values())
    assert len(sd.Ledger(folder / "ledger.sqlite").entries("x")) == 1
    return died


@pytest.mark.sampled
@pytest.mark.parametrize(("period", "event"), [(0, 1), (0, 5), (2, 4), (2, 7), (3, 4)])
def test_a_killed_process_neither_loses_a_period_nor_answers_twice(period, event, tmp_path, monkeypatch):
    assert crashed(tmp_path, period, event, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("period", [0, 1, 2, 3, 5])
def test_wherever_a_process_is_killed_nothing_is_lost_nor_told_twice(period, tmp_path, monkeypatch):
    event = 1
    while crashed(tmp_path / str(event), period, event, monkeypatch):
        event += 1
    assert event > 4


def test_after_a_crash_other_rows_are_refused(tmp_path):
    for t in range(2):
        panel_at(tmp_path).add(MONTHS[t])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synthdp.estimators.panel_series.replacing_folder", None)
        with pytest.raises(TypeError):
            panel_at(tmp_path).add(MONTHS[2])
    with pytest.raises(DataError, match="interrupted"):
        panel_at(tmp_path).add(MONTHS[3])
    assert panel_at(tmp_path).add(MONTHS[2]) is not None


def test_a_panel_on_the_command_line(tmp_path):
    from click.testing import CliRunner

    from synthdp.cli.main import main

    def run(*given):
        return CliRunner().invoke(main, ["series", *map(str, given)])

    SCHEMA.write(tmp_path / "jobs.json")
    folder, out = tmp_path / "jobs.panel", tmp_path / "rows.csv"
    given = [
        "start",
        folder,
        "--schema",
        tmp_path / "jobs.json",
        "--epsilon",
        8,
        "--periods",
        3,
        "--panel",
        "--window",
        2,
    ]
    assert run(*given, "--privacy-unit", "who", "--keep-tables").exit_code != 0
    assert not folder.exists()
    assert run(*given, "--privacy-unit", "who").exit_code == 0
    for t in range(3):
        MONTHS[t].to_csv(tmp_path / f"{t}.csv", index=False)
        assert run("add", folder, tmp_path / f"{t}.csv", "--out", out, "--seed", 1).exit_code == 0
        assert out.exists() == (t > 0)
    assert list(pd.read_csv(out)) == ["person", "period", "job"]
    assert "3 of 3" in run("status", folder).output
    assert not (folder / "private").exists()
