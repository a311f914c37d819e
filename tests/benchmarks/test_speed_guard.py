"""The guard of speed passes what is as fast as it was, however busy the machine, and catches what is slow."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from synthdp.sampling import balanced

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "speed" / "guard.py"


@pytest.fixture(scope="module")
def guard():
    spec = importlib.util.spec_from_file_location("speed_guard", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Machine:
    """A processor whose seconds are told: a yardstick takes 1, work ``takes``, and both longer while others disturb."""

    def __init__(self, takes, disturbed=()):
        self.now, self.takes, self.disturbed, self.runs = 0.0, takes, list(disturbed), 0

    def yardstick(self):
        self.now += 1.0

    def work(self):
        self.now += self.takes * (self.disturbed[self.runs] if self.runs < len(self.disturbed) else 1.0)
        self.runs += 1

    def least(self, guard, **settings):
        return guard.least(self.work, clock=lambda: self.now, measure=self.yardstick, **settings)


def test_a_part_that_was_disturbed_is_timed_again(guard):
    machine = Machine(10.0, disturbed=[3.0, 2.0, 4.0])
    assert machine.least(guard, repeats=2, most=8, enough=15.0) == (10.0, 10.0)
    assert machine.runs == 4


def test_a_part_that_is_slow_is_given_up_after_so_many_times(guard):
    machine = Machine(16.0)
    assert machine.least(guard, repeats=2, most=8, enough=15.0) == (16.0, 16.0)
    assert machine.runs == 8


def test_a_slower_machine_is_no_slower_part(guard):
    fast, slow = Machine(10.0), Machine(30.0)
    slow.yardstick = lambda: setattr(slow, "now", slow.now + 3.0)
    figures = [one.least(guard, repeats=2, most=2, enough=15.0)[1] for one in (fast, slow)]
    assert figures == pytest.approx([10.0, 10.0])


def test_only_what_takes_half_as_long_again_as_committed_is_told(guard):
    records = [
        {"part": "fit", "yardsticks": 15.0, "committed": 10.0},
        {"part": "sample", "yardsticks": 15.1, "committed": 10.0},
        {"part": "new", "yardsticks": 99.0, "committed": None},
    ]
    (sentence,) = guard.too_slow(records)
    assert sentence.startswith("sample takes 15.1 yardsticks, 1.51 times the committed 10.0")


def test_every_part_has_a_committed_figure(guard):
    assert set(guard.committed()) == set(guard.PARTS)


@pytest.mark.slow
def test_sampling_made_slow_is_caught(guard, monkeypatch):
    """A broken build: each halving of rows decides five times over."""
    _, before = guard.least(guard.sample, repeats=4, most=4, enough=0.0)
    decide = balanced._decide

    def slowly(first, second, tables, rng, **settings):
        for _ in range(4):
            decide(first, second, tables, type(rng)(rng.bit_generator.jumped()), **settings)
        return decide(first, second, tables, rng, **settings)

    monkeypatch.setattr(balanced, "_decide", slowly)
    (record,) = guard.measured({"sample": guard.sample}, {"sample": before}, write=False)
    assert guard.too_slow([record])
    monkeypatch.undo()
    (record,) = guard.measured({"sample": guard.sample}, {"sample": before}, write=False)
    assert not guard.too_slow([record])


@pytest.mark.slow
def test_the_program_tells_in_lines_of_json_and_by_how_it_ends():
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(SCRIPT), "--part", "small table"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    (line,) = done.stdout.splitlines()
    record = json.loads(line)
    assert record["part"] == "small table"
    assert done.returncode == (record["yardsticks"] > 1.5 * record["committed"])
