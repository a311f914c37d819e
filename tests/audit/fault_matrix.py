"""The fault matrix, observed: every stage of a release under every fault, and what was found in the ledger and on disk.

    python tests/audit/fault_matrix.py --write docs/audit/faults.md

Each release runs in a process of its own (`faults.py`).  `test_faults.py` asserts what this page reports.
"""

from __future__ import annotations

import argparse
import datetime as dt
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "audit")]

import test_faults as faults  # noqa: E402

from synthdp import ApproxDP, Ledger, SyntheticRelease, load  # noqa: E402
from synthdp.errors import SynthDPError  # noqa: E402

Observed = tuple[str, str]


def _spent(folder: Path) -> str:
    states = faults.spent(folder)
    return f"recorded (`{'`, `'.join(states)}`)" if states else "none"


def _on_disk(folder: Path) -> str:
    place = folder / "t.release"
    if not place.exists():
        return "none"
    return "whole" if len(load(place).sample(5)) == 5 else "**damaged**"


def killed(stage: str) -> Callable[[Path], Observed]:
    def observe(folder: Path) -> Observed:
        status, _ = faults.run(stage, folder)
        if status != -signal.SIGKILL:
            return f"**not killed: {status}**", ""
        return _spent(folder), _on_disk(folder)

    return observe


def killed_while_replacing(folder: Path) -> Observed:
    SyntheticRelease(schema=faults.SCHEMA).fit(faults.table()).save(folder / "t.release")
    before = (folder / "t.release" / "release.json").read_bytes()
    spend, disk = killed("while writing the release")(folder)
    same = (folder / "t.release" / "release.json").read_bytes() == before
    return spend, f"the one before, {disk}" if same else "**changed**"


def full(stage: str) -> Callable[[Path], Observed]:
    def observe(folder: Path) -> Observed:
        status, said = faults.run(f"disk full {stage}", folder)
        (folder / "l.sqlite-journal").unlink(missing_ok=True)
        return f"{_spent(folder)}; {_words(status, said)}", _on_disk(folder)

    return observe


def _words(status: int, said: str) -> str:
    return "refused in one sentence" if status == 2 and len(said.splitlines()) == 1 else f"**status {status}**"


def forbidden(stage: str) -> Callable[[Path], Observed]:
    """A folder in which not even root can write."""
    places = {"ledger": "/proc/self/l.sqlite"} if stage == "before the spend" else {}

    def observe(folder: Path) -> Observed:
        try:
            model = SyntheticRelease(schema=faults.SCHEMA, **({"ledger": folder / "l.sqlite", "dataset": "t"} | places))
            model.fit(faults.table()).save("/proc/self/t.release")
        except SynthDPError:
            return f"{_spent(folder)}; refused in one sentence", _on_disk(folder)
        return "**not refused**", ""

    return observe


def clock(year: int) -> Callable[[Path], Observed]:
    def observe(folder: Path) -> Observed:
        class Jumping(dt.datetime):
            @classmethod
            def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
                return dt.datetime(year, 1, 1, tzinfo=tz)

        book = Ledger(folder / "l.sqlite")
        book.set_cap("t", ApproxDP(2.0, 1e-6))
        model = SyntheticRelease(schema=faults.SCHEMA, ledger=folder / "l.sqlite", dataset="t")
        model.fit(faults.table())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(faults.ledger_module.dt, "datetime", Jumping)
            model.fit(faults.table()).save(folder / "t.release")
        try:
            model.fit(faults.table())
        except SynthDPError:
            return f"{_spent(folder)}; the third of a cap for two is refused", _on_disk(folder)
        return "**the cap was passed**", ""

    return observe


def race(folder: Path) -> Observed:
    Ledger(folder / "l.sqlite").set_cap("t", ApproxDP(3.0, 1e-6))
    racers = []
    for i in range(8):
        (folder / str(i)).mkdir()
        (folder / str(i) / "l.sqlite").symlink_to(folder / "l.sqlite")
        racers.append(faults.start("none", folder / str(i)))
    for racer in racers:
        racer.communicate(timeout=500)
    made = sum((folder / str(i) / "t.release").exists() for i in range(8))
    return _spent(folder), f"{made} of 8 made"


MATRIX: list[tuple[str, str, Callable[[Path], Observed]]] = [
    *((stage, "killed", killed(stage)) for stage in faults.KILLED),
    ("while replacing a release", "killed", killed_while_replacing),
    *((stage, "disk full", full(stage)) for stage in ("before the spend", "before the release is saved")),
    *(
        (stage, "folder not writable", forbidden(stage))
        for stage in ("before the spend", "before the release is saved")
    ),
    *((f"a release in the year {year}", "the clock jumps", clock(year)) for year in (1970, 9999)),
    ("any", "8 processes, a cap for 3", race),
]

NOTES = """
Also, each in its own test:

| stage | fault | outcome | test |
|---|---|---|---|
| between reserve and commit (the ledger alone) | killed | recorded | `tests/privacy/test_room.py` |
| while reading | the source raises | recorded, no release | `tests/privacy/test_room.py` |
| while reading | the disk for encoded rows is full | one sentence | `tests/unit/curator/test_spill.py` |

What is not covered:

- A kill while writing may leave a hidden folder `.name.XXXX` beside the target.  It holds public content only, and nothing
  reads it; delete it.
- A ledger that is restored from a backup has forgotten what was spent since.  Nothing in one file can notice that.
- A release killed after measuring is not resumed: it is spent.  `SparseSession.save` is the one mechanism with a state
  that can be continued, and it can be continued once.
- A network file system whose locks do not work breaks the race of eight processes: SQLite's own limitation.
"""


def page(rows: list[tuple[str, str, str, str]]) -> str:
    lines = [
        "# Faults: stage × fault × outcome",
        "",
        "Made by `python tests/audit/fault_matrix.py --write docs/audit/faults.md`: each row was run, and what it says was",
        "found afterwards.  `pytest tests/audit/test_faults.py` asserts the same, the race with `-m slow`.",
        "Killed means `SIGKILL`; a full disk is a file-size limit of one page, after which every longer write fails.",
        "",
        "| stage | fault | spend in the ledger | release on disk |",
        "|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return "\n".join(lines) + "\n" + NOTES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, required=True)
    arguments = parser.parse_args()
    rows = []
    for stage, fault, observe in MATRIX:
        with tempfile.TemporaryDirectory() as folder:
            rows.append((stage, fault, *observe(Path(folder))))
        sys.stdout.write(f"{rows[-1]}\n")
        sys.stdout.flush()
    arguments.write.write_text(page(rows), encoding="utf-8")
    return any("**" in cell for row in rows for cell in row)


if __name__ == "__main__":
    sys.exit(main())
