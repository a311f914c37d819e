"""R13 and whole files under faults; the matrix is docs/audit/faults.md.

Whatever happens when: no row is read without a recorded spend, and no half-written release is ever found.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from forks import forked

from synthdp import ApproxDP, Ledger, SyntheticRelease, load
from synthdp.curator import ledger as ledger_module
from synthdp.errors import BudgetExceededError, DataError, LedgerError

CHILD = Path(__file__).with_name("faults.py")
LOSS = ApproxDP(1.0, 1e-9)

sys.path.insert(0, str(CHILD.parent))
from faults import SCHEMA, main, table  # noqa: E402


def start(stage: str, folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(CHILD.parents[2]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(CHILD), stage, str(folder)]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(stage: str, folder: Path) -> tuple[int, str]:
    return forked(lambda: main(stage, folder)).ended()


def spent(folder: Path) -> list[str]:
    return [entry.state for entry in Ledger(folder / "l.sqlite").entries("t")]


KILLED = {
    "before the spend": ([], True),
    "between spend and read": (["reserved"], True),
    "while measuring": (["reserved"], True),
    "after measuring, before the fit is done": (["committed"], True),
    "while writing the release": (["committed"], True),
}


@pytest.mark.sampled
@pytest.mark.parametrize("stage", KILLED)
def test_killed_at_any_stage_the_spend_is_recorded_and_no_half_release_is_left(stage, tmp_path):
    status, _ = run(stage, tmp_path)
    assert status == -signal.SIGKILL
    assert spent(tmp_path) == KILLED[stage][0]
    assert not (tmp_path / "t.release").exists()


def test_a_release_that_was_there_before_is_whole_after_a_kill_while_it_is_replaced(tmp_path):
    SyntheticRelease(schema=SCHEMA).fit(table()).save(tmp_path / "t.release")
    before = (tmp_path / "t.release" / "release.json").read_bytes()
    status, _ = run("while writing the release", tmp_path)
    assert status == -signal.SIGKILL
    assert (tmp_path / "t.release" / "release.json").read_bytes() == before
    assert load(tmp_path / "t.release").sample(5).shape == (5, 2)


FULL = {
    "disk full before the spend": ([], "l.sqlite"),
    "disk full before the release is saved": (["committed"], "t.release"),
}


@pytest.mark.parametrize("stage", FULL)
def test_a_full_disk_is_one_sentence_and_leaves_nothing_half_written(stage, tmp_path):
    states, named = FULL[stage]
    status, errors = run(stage, tmp_path)
    assert status == 2, errors
    assert len(errors.splitlines()) == 1
    assert named in errors
    assert not (tmp_path / "t.release").exists()
    (tmp_path / "l.sqlite").with_suffix(".sqlite-journal").unlink(missing_ok=True)
    assert spent(tmp_path) == states


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder in which not even root can write")
def test_a_folder_that_cannot_be_written_refuses_before_a_row_is_read():
    folder = Path("/proc/self")
    with pytest.raises(LedgerError, match=r"l\.sqlite"):
        SyntheticRelease(schema=SCHEMA, ledger=folder / "l.sqlite").fit(table())
    with pytest.raises(DataError, match=r"t\.release"):
        SyntheticRelease(schema=SCHEMA).fit(table()).save(folder / "t.release")


@pytest.mark.parametrize("moment", [dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 1, 1, tzinfo=dt.UTC)])
def test_a_clock_that_jumps_changes_no_sum(moment, tmp_path, monkeypatch):
    class Jumping(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            return moment

    book = Ledger(tmp_path / "l.sqlite")
    book.set_cap("t", ApproxDP(2.0, 1e-6))
    book.reserve("t", LOSS, what="before")
    monkeypatch.setattr(ledger_module.dt, "datetime", Jumping)
    book.reserve("t", LOSS, what="after")
    with pytest.raises(BudgetExceededError):
        book.reserve("t", LOSS, what="too much")
    assert [entry.what for entry in book.entries("t")] == ["before", "after"]


def test_a_copy_of_the_ledger_put_back_is_the_users_own_doing_and_still_adds_up(tmp_path):
    """Documented: a ledger restored from a backup has forgotten what was spent since."""
    book = Ledger(tmp_path / "l.sqlite")
    book.reserve("t", LOSS, what="one")
    shutil.copy(tmp_path / "l.sqlite", tmp_path / "backup.sqlite")
    book.reserve("t", LOSS, what="two")
    assert len(Ledger(tmp_path / "backup.sqlite").entries("t")) == 1
    assert len(book.entries("t")) == 2


@pytest.mark.slow
def test_eight_releases_race_for_a_cap_of_three(tmp_path):
    Ledger(tmp_path / "l.sqlite").set_cap("t", ApproxDP(3.0, 1e-6))
    racers = []
    for i in range(8):
        (tmp_path / str(i)).mkdir()
        (tmp_path / str(i) / "l.sqlite").symlink_to(tmp_path / "l.sqlite")
        racers.append(start("none", tmp_path / str(i)))
    outcomes = [racer.communicate(timeout=500) and racer.returncode for racer in racers]
    assert sorted(outcomes) == [0] * 3 + [2] * 5
    assert spent(tmp_path) == ["committed"] * 3
    assert sum((tmp_path / str(i) / "t.release").exists() for i in range(8)) == 3


def test_the_page_has_every_stage_and_fault_and_no_failure():
    import fault_matrix

    page = (CHILD.parents[2] / "docs" / "audit" / "faults.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    listed = [(row[0].removeprefix("| "), row[1]) for row in rows]
    assert [(stage, fault) for stage, fault, _ in fault_matrix.MATRIX] == [
        one for one in listed if one in {(stage, fault) for stage, fault, _ in fault_matrix.MATRIX}
    ]
    assert "**" not in page
    assert page.endswith(fault_matrix.NOTES)
