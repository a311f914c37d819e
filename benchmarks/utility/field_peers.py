"""The peers of the field benchmark: what each needs, how each is run, in a virtual environment of its own.

    python benchmarks/utility/field_peers.py --environments DIR [PEER ...]

makes the environments (of all peers, or of those named) beforehand; `field.py` makes those that it needs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RUNNERS = Path(__file__).parent / "field_runners"
REQUIREMENTS = {
    "opendp": ("opendp[mbi]==0.16.0", "pandas"),
    "dpmm": ("dpmm==0.1.9",),
    "smartnoise": ("smartnoise-synth==1.0.8", "torch==2.13.0"),
}
"""What pip installs, by environment.  OpenDP's tables need pandas to draw rows and do not ask for it."""

WALL_FACTOR = 3
"""A run is also ended after this many times its limit by the wall clock, however little it computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One row of the benchmark's table.

    Parameters
    ----------
    name, method
        What the table calls it, and what its runner calls it.
    runner
        File in `RUNNERS`.
    environment
        Key of `REQUIREMENTS`, or ``None`` for the Python that runs the benchmark.
    form
        What it is given: ``"cells"`` of the 32-bin form, ``"numbers"`` where it bins numeric columns on its own, or plain
        ``"values"`` with the schema.
    private
        Whether it promises anything.
    repaired
        Whether known faults of the sampler that it depends on are repaired (`field_runners/mbi_sampling.py`).
    settings
        Keywords of its constructor, where they are not its defaults.
    """

    name: str
    method: str
    runner: str
    environment: str | None = None
    form: str = "cells"
    private: bool = True
    repaired: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


OWN = {"runner": "run_synthdp.py", "form": "values"}
OPENDP = {"runner": "run_opendp.py", "environment": "opendp"}
DPMM = {"runner": "run_dpmm.py", "environment": "dpmm", "form": "numbers"}
SMARTNOISE = {"runner": "run_smartnoise.py", "environment": "smartnoise"}
PAIRS = {"queries": 2, "rounds": 30}
"""Settings in which OpenDP's AIM ends in minutes: pairs in place of triples, 30 rounds in place of 16 a column."""

PEERS = {
    peer.name: peer
    for peer in (
        Peer(name="synthdp", method="synthdp", **OWN),
        Peer(name="independent columns", method="independent", **OWN),
        Peer(name="bootstrap (not private)", method="bootstrap", private=False, **OWN),
        Peer(name="opendp MST", method="MST", **OPENDP),
        Peer(name="opendp MST, repaired", method="MST", repaired=True, **OPENDP),
        Peer(name="opendp AIM, repaired", method="AIM", repaired=True, **OPENDP),
        Peer(name="opendp AIM of pairs, repaired", method="AIM", repaired=True, settings=PAIRS, **OPENDP),
        Peer(name="dpmm MST", method="MST", **DPMM),
        Peer(name="dpmm PrivBayes", method="PrivBayes", **DPMM),
        Peer(name="dpmm AIM", method="AIM", settings={"max_model_size": 80}, **DPMM),
        Peer(name="smartnoise MST", method="MST", **SMARTNOISE),
        Peer(name="smartnoise MST, repaired", method="MST", repaired=True, **SMARTNOISE),
        Peer(name="smartnoise AIM, repaired", method="AIM", repaired=True, **SMARTNOISE),
    )
}
"""dpmm's pipeline lifts AIM's own limit of 80 MB unless it is told; its documentation recommends one."""

QUICK = (
    "synthdp",
    "independent columns",
    "bootstrap (not private)",
    "opendp MST",
    "opendp MST, repaired",
    "dpmm MST",
    "dpmm PrivBayes",
)


class RunError(Exception):
    """A run that gave no table: how it ended, and the last line that it said."""

    def __init__(self, status: str, message: str, cpu_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.message, self.cpu_seconds = status, message, cpu_seconds


def python_of(peer: Peer, environments: Path) -> Path:
    """The Python of a peer's environment, which is made if it is not there.

    Raises
    ------
    RunError
        ``"not installed"``, if pip fails.
    """
    if peer.environment is None:
        return Path(sys.executable)
    folder, wanted = environments / peer.environment, list(REQUIREMENTS[peer.environment])
    python, mark = folder / "bin" / "python", folder / "requirements.json"
    if mark.exists() and json.loads(mark.read_text(encoding="utf-8")) == wanted:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        errors = [line for line in made.stderr.splitlines() if line.startswith("ERROR")]
        raise RunError("not installed", last_line("\n".join(errors)) or "pip failed")
    mark.write_text(json.dumps(wanted), encoding="utf-8")
    return python


def run(python: Path, runner: Path, folder: Path, *, limit: float) -> dict[str, Any]:
    """Run a runner on one core; return its report.

    Parameters
    ----------
    limit
        Processor seconds; a run that only waits ends after `WALL_FACTOR` times as many by the clock.

    Raises
    ------
    RunError
        ``"timed out"`` or ``"failed"``.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("XLA_", "JAX_"))}
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
        environment[threads] = "1"
    environment["PYTHONWARNINGS"] = "ignore"
    with (folder / "output.txt").open("wb") as output:
        child = subprocess.Popen(
            [str(python), str(runner), str(folder)],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: _confine(limit),  # noqa: PLW1509 - this process has one thread
        )
        deadline = time.monotonic() + WALL_FACTOR * limit
        try:
            ended, status, usage = os.wait4(child.pid, os.WNOHANG)
            while not ended and time.monotonic() < deadline:
                time.sleep(0.05)
                ended, status, usage = os.wait4(child.pid, os.WNOHANG)
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            raise
        if not ended:
            os.killpg(child.pid, signal.SIGKILL)
            ended, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    cpu_seconds = usage.ru_utime + usage.ru_stime
    report = folder / "report.json"
    if child.returncode == 0 and report.exists():
        return dict(json.loads(report.read_text(encoding="utf-8")))
    if child.returncode == -signal.SIGXCPU or (child.returncode == -signal.SIGKILL and cpu_seconds >= limit):
        raise RunError("timed out", f"no table after {limit:g} processor seconds", cpu_seconds)
    if time.monotonic() >= deadline:
        raise RunError("timed out", f"no table after {WALL_FACTOR * limit:g} seconds by the clock", cpu_seconds)
    said = (folder / "output.txt").read_text(encoding="utf-8", errors="replace")
    raise RunError("failed", last_line(said) or f"exit status {child.returncode}", cpu_seconds)


def last_line(text: str) -> str:
    """The last line that says something, without paths and addresses."""
    lines = [line.strip() for line in text.splitlines() if re.search(r"\w", line)]
    plain = re.sub(r"(\w+://|/)[^\s'\"]*", "…", lines[-1]) if lines else ""
    return plain if len(plain) <= 200 else plain[:199] + "…"


def _confine(limit: float) -> None:
    """One core, a limit of processor time; in the child, before the runner starts."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 2))


def main(arguments: Sequence[str] | None = None) -> None:
    """Make environments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, required=True)
    parser.add_argument("peers", nargs="*", help="default: all of them")
    options = parser.parse_args(arguments)
    for name in options.peers or PEERS:
        try:
            python_of(PEERS[name], options.environments)
            print(f"{name}: ready")
        except RunError as error:
            print(f"{name}: {error.status}: {error.message}")


if __name__ == "__main__":
    main()
