"""A child process a job: it ends with its job, when it is told to, and when nobody listens any more."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from synthdp.page import jobs as jobs_module
from synthdp.page.jobs import Job, Jobs
from synthdp.page.work import NO_FILE, UNEXPECTED, run

TELLING = """
import json, sys, time
json.loads(sys.stdin.readline())
print(json.dumps({"progress": {"stage": "fit", "done": 0, "total": 1}}), flush=True)
"""


def with_child(monkeypatch, tmp_path: Path, more: str) -> Jobs:
    """Return jobs whose child is a small program: what is tested is how it is followed."""
    program = tmp_path / "child.py"
    program.write_text(TELLING + more)
    start = asyncio.create_subprocess_exec

    async def small(*_: object, **settings: object) -> object:
        return await start(sys.executable, "-S", str(program), **settings)

    monkeypatch.setattr(jobs_module.asyncio, "create_subprocess_exec", small)
    return Jobs(tmp_path)


def test_a_job_tells_its_stages_in_plain_words_and_then_its_result(monkeypatch, tmp_path):
    jobs = with_child(monkeypatch, tmp_path, "print(json.dumps({'result': 3, 'warnings': ['w']}), flush=True)")
    ended = []

    async def follow() -> Job:
        job = jobs.start("plan", {}, at_end=ended.append)
        assert jobs.busy
        await job.task
        return job

    job = asyncio.run(follow())
    assert (job.state, job.result, job.warnings, job.stages) == (
        "done",
        3,
        ["w"],
        ["Fitting a model to the noisy answers"],
    )
    assert (ended, jobs.busy) == ([job], False)


def test_a_second_start_finds_the_running_job(monkeypatch, tmp_path):
    jobs = with_child(monkeypatch, tmp_path, "time.sleep(60)")

    async def twice() -> tuple[Job, Job]:
        first, second = jobs.start("release", {}), jobs.start("release", {})
        while not first.stages:
            await asyncio.sleep(0.01)
        await jobs.stop()
        return first, second

    first, second = asyncio.run(twice())
    assert first is second
    assert first.state == "stopped"


def test_a_child_that_does_not_heed_a_stop_is_killed(monkeypatch, tmp_path):
    jobs = with_child(
        monkeypatch,
        tmp_path,
        "import signal; signal.signal(15, signal.SIG_IGN)\nprint('{}', flush=True)\ntime.sleep(60)",
    )
    monkeypatch.setattr(jobs_module, "SECONDS_TO_END", 0.2)

    async def stopped() -> Job:
        job = jobs.start("release", {})
        while not job.stages:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        await job.stop()
        return job

    job = asyncio.run(stopped())
    assert job._child.returncode is not None


def test_a_child_that_is_killed_and_one_that_talks_nonsense_have_failed(monkeypatch, tmp_path):
    async def ended(jobs: Jobs) -> Job:
        job = jobs.start("release", {})
        await job.task
        return job

    killed = asyncio.run(ended(with_child(monkeypatch, tmp_path, "import os; os.kill(os.getpid(), 9)")))
    monkeypatch.undo()
    nonsense = asyncio.run(ended(with_child(monkeypatch, tmp_path, "print('CANARY', flush=True)")))
    assert {(job.state, job.error) for job in (killed, nonsense)} == {("failed", UNEXPECTED)}


@pytest.mark.slow
def test_a_real_child_reads_a_table_says_nothing_else_and_has_gone(tmp_path):
    (tmp_path / "t.csv").write_text("age\n" + "\n".join(str(i % 70) for i in range(200)))
    (tmp_path / "numpy.py").write_text("raise SystemExit('a module of the folder was imported')")

    async def read() -> Job:
        job = Jobs(tmp_path).start("read", {"path": "t.csv"})
        await job.task
        return job

    job = asyncio.run(read())
    assert (job.state, [one["name"] for one in job.result["columns"]]) == ("done", ["age"])
    assert job._child.returncode == 0


def test_what_a_job_did_not_expect_is_one_general_sentence():
    assert run({"job": "CANARY"}, lambda _: None)["error"] == UNEXPECTED
    assert run({"job": "read", "path": 3}, lambda _: None)["error"] == UNEXPECTED


def test_a_file_that_cannot_be_read_is_a_sentence_without_its_reason(tmp_path, monkeypatch):
    def broken(*_: object) -> None:
        raise PermissionError(13, "CANARY", "/secret/path")

    monkeypatch.setattr("synthdp.page.work.source_of_request", broken)
    told = run({"job": "read", "path": str(tmp_path)}, lambda _: None)
    assert told["error"] == NO_FILE
    assert os.fspath(tmp_path) not in told["error"]


def test_a_job_is_not_called_stopped_before_its_child_has_gone(monkeypatch, tmp_path):
    monkeypatch.setattr(jobs_module, "SECONDS_TO_END", 0.3)
    jobs = with_child(
        monkeypatch,
        tmp_path,
        "import signal; signal.signal(15, signal.SIG_IGN)\nprint('{}', flush=True)\ntime.sleep(60)",
    )

    async def states() -> list[tuple[str, bool]]:
        job = jobs.start("release", {})
        while not job.stages:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        stopping = asyncio.create_task(job.stop())
        seen = []
        while not stopping.done():
            seen.append((job.state, job._child.returncode is None))
            await asyncio.sleep(0.02)
        return [*seen, (job.state, job._child.returncode is None)]

    seen = asyncio.run(states())
    assert ("stopped", True) not in seen
    assert seen[-1] == ("stopped", False)


def test_a_job_that_is_stopped_before_it_has_a_child_never_does_its_work(monkeypatch, tmp_path):
    jobs = with_child(monkeypatch, tmp_path, "print(json.dumps({'result': 3}), flush=True)\ntime.sleep(60)")

    async def stopped() -> Job:
        job = jobs.start("release", {})
        await job.stop()
        return job

    job = asyncio.run(stopped())
    assert (job.state, job.result) == ("stopped", None)
