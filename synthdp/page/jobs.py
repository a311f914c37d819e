"""Child processes of the page: each gets a request, reports its progress, and can be stopped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from synthdp.errors import SynthDPError
from synthdp.page.work import SECONDS_TO_END, UNEXPECTED
from synthdp.progress import Progress, TimeLeft

PACKAGE = Path(__file__).resolve().parents[2]
"""Folder from which child processes import this package."""

MOST_BYTES = 64 * 2**20
"""Longest line of output that the page reads from a child process, in bytes.  A safety limit of memory."""

WORDS = {
    "reading": "Reading the table",
    "document": "Reading the document",
    "discovery": "Discovering what was left open, under noise",
    "one-ways": "Measuring single columns, with noise",
    "pairs": "Measuring which columns go together, with noise",
    "second stage": "Measuring again what matters most, with noise",
    "fit": "Fitting a model to the noisy answers",
    "dry run": "Rehearsing on made-up rows",
    "drawing rows": "Drawing synthetic rows",
    "columns": "Report: columns",
    "accuracy": "Report: expected accuracy",
    "pairs of columns": "Report: pairs of columns",
    "answer": "Answering from the release",
}
"""The page's texts for the stages of all jobs."""


@dataclass(slots=True, eq=False)
class Job:
    """One child process and its result.

    Parameters
    ----------
    name
        Name of the job, a key of `work.JOBS`.
    folder
        Working folder of the child process, so that messages and the receipt name files without folders.
    at_end
        Function that is called after the end, also after a failure; its exception becomes the job's error.
    about
        Data of the caller, which the screens use.
    state
        "running", then "done", "stopped" or "failed".
    stages
        Texts of the stages that have begun, in order, for the screen.
    result, error, warnings
        The child's result (None until its end), the text of its error ("" without one), and texts of its warnings.
    left
        Estimate of the remaining time.
    begun, ended
        Start and end on the monotonic clock, in seconds; ``ended`` is None while the job runs.
    task
        The asyncio task that follows the child process.
    """

    name: str
    folder: Path
    at_end: Callable[[Job], None] = lambda _: None
    about: Any = None
    state: str = "running"
    stages: list[str] = field(default_factory=list)
    result: Any = None
    error: str = ""
    warnings: list[str] = field(default_factory=list)
    left: TimeLeft = field(default_factory=TimeLeft)
    begun: float = field(default_factory=time.monotonic)
    ended: float | None = None
    task: asyncio.Task[None] | None = None
    _told_to_stop: bool = False
    _child: asyncio.subprocess.Process | None = None

    @property
    def running(self) -> bool:
        """Whether the child process has not ended."""
        return self.state == "running"

    @property
    def seconds(self) -> int:
        """Running time in seconds: so far, or of the whole job after its end."""
        return round((self.ended or time.monotonic()) - self.begun)

    async def follow(self, request: dict[str, Any]) -> None:
        """Run the child process to its end; set the job's state and error, then call `conclude`."""
        try:
            await self._converse(request)
        except (OSError, ValueError):
            self.error = UNEXPECTED
        finally:
            self.ended = time.monotonic()
            done = self.result is not None and not self.error
            self.state = "done" if done else "stopped" if self._told_to_stop else "failed"
            self.error = self.error or (UNEXPECTED if self.state == "failed" else "")
            self.conclude()

    def conclude(self) -> None:
        """Call ``at_end``; if it raises, the job has failed with that error."""
        try:
            self.at_end(self)
        except Exception as error:  # noqa: BLE001 - whatever else it says may quote rows
            self.state, self.error = "failed", str(error) if isinstance(error, SynthDPError) else UNEXPECTED

    async def _converse(self, request: dict[str, Any]) -> None:
        """Start the child process, send the request, and read its messages until it ends."""
        paths = [str(PACKAGE), *map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))]
        pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        child = self._child = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "synthdp.page.work", stdin=pipe, stdout=pipe, stderr=nowhere,
            start_new_session=True, cwd=self.folder, limit=MOST_BYTES, env=environment,
        )  # fmt: skip
        if child.stdin is None or child.stdout is None:
            raise OSError
        if self._told_to_stop:  # before there was a child
            child.kill()
        try:
            with contextlib.suppress(ConnectionError):
                child.stdin.write(json.dumps(request).encode() + b"\n")
                await child.stdin.drain()
            while line := await child.stdout.readline():
                self._hear(json.loads(line))
        finally:
            child.stdin.close()  # which also ends a child that still runs
            await child.wait()

    def _hear(self, message: dict[str, Any]) -> None:
        """Store one message of the child process: progress, or a result with warnings, or an error."""
        if (progress := message.get("progress")) is not None:
            self.left.enter(Progress(**progress))
            said = WORDS.get(progress["stage"], progress["stage"])
            if said not in self.stages[-1:]:
                self.stages.append(said)
            return
        self.result, self.error = message.get("result"), message.get("error", "")
        self.warnings = message.get("warnings", [])

    async def stop(self) -> None:
        """End the child process and wait for its end: first SIGTERM, then SIGKILL."""
        if not self.running or self.task is None:
            return
        self._told_to_stop = True
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if self._child is not None and self._child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._child.pid, sign)
            ended, _ = await asyncio.wait([self.task], timeout=SECONDS_TO_END)
            if ended:
                return


class Jobs:
    """The jobs of one server in a folder, at most one for each name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._jobs: dict[str, Job] = {}

    def __getitem__(self, name: str) -> Job | None:
        return self._jobs.get(name)

    @property
    def busy(self) -> bool:
        """Whether any job is running."""
        return any(job.running for job in self._jobs.values())

    def start(
        self, name: str, request: dict[str, Any], *, at_end: Callable[[Job], None] = lambda _: None, about: Any = None
    ) -> Job:
        """Start a job and return it; a running job of this name is returned instead."""
        known = self._jobs.get(name)
        if known is not None and known.running:
            return known
        job = self._jobs[name] = Job(name, self.folder, at_end, about)
        job.task = asyncio.get_running_loop().create_task(job.follow({"job": name, **request}))
        return job

    def forget(self, *names: str) -> None:
        """Remove the named jobs that have ended, or all ended jobs without names; private results leave the memory."""
        kept = {name: job for name, job in self._jobs.items() if job.running or (names and name not in names)}
        self._jobs = kept

    async def stop(self, *names: str) -> None:
        """End the child processes of the named jobs, or of all jobs without names."""
        await asyncio.gather(*(job.stop() for name, job in self._jobs.items() if not names or name in names))
