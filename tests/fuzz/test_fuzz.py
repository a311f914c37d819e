"""A little fuzzing in every run; `tests/fuzz/fuzz.py` does a hundred thousand inputs a target."""

import sys
import time
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import fuzz

from synthdp.errors import SynthDPError

KEPT = [(path.parent.name, path) for path in sorted(fuzz.CORPUS.glob("*/*"))]
REGRESSIONS = [
    ("release_arrays", lambda arrays: arrays[:60] + b"\xff" * 40 + arrays[100:]),
    ("schema_json", lambda _: b"[" * 50_000),
    ("schema_json", lambda _: b'{"a": ' * 20_000),
    ("release_json", lambda document: document.replace(b'"n",\n    "int64"', b'"nobody",\n    "int64"')),
    ("release_json", lambda document: document.replace(b'"n",\n    "int64"', b'"n",\n    "18)"')),
    ("release_json", lambda document: document.replace(b'"n",\n    "int64"', b'"n",\n    ",t64"')),
]
"""Inputs that are made here from this run's seeds, or are long; the others are files of the corpus."""


DEEP = ("schema_json", "csv_file", "expression", "release_json", "release_arrays")
"""Targets whose mutants pass a first check."""


@cache
def fuzzed(target):
    return fuzz.fuzz(target, 200 if target in DEEP else 60, seed=2)


@pytest.mark.sampled
@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_mutated_inputs_are_taken_or_refused_in_one_sentence(target):
    done = fuzzed(target)
    assert done.found == []
    assert done.taken + done.refused >= 60


@pytest.mark.parametrize(("target", "broken"), REGRESSIONS)
def test_inputs_that_once_broke_or_might_have(target, broken, tmp_path):
    (tmp_path / "release").mkdir()
    refused = []
    try:
        fuzz.TARGETS[target](broken(fuzz.seeds()[target][0]), tmp_path)
    except SynthDPError as error:
        refused.append(str(error))
    assert all("\n" not in text for text in refused)


@pytest.mark.parametrize(("target", "path"), KEPT, ids=lambda part: getattr(part, "name", part))
def test_inputs_that_were_kept_are_taken_or_refused(target, path, tmp_path):
    outcome = fuzz.Outcome(target)
    fuzz.attempt(target, path.read_bytes(), fuzz.prepared(tmp_path), outcome)
    assert outcome.found == []


def test_the_fuzzer_sees_a_traceback(monkeypatch):
    def breaks(data, folder):
        raise KeyError(data)

    monkeypatch.setitem(fuzz.TARGETS, "expression", breaks)
    assert len(fuzz.fuzz("expression", 3).found) == 3


def works(data, folder):
    while True:
        pass


def waits(data, folder):
    time.sleep(60)


def waits_and_calls_it_a_refusal(data, folder):
    try:
        time.sleep(60)
    except OSError:  # such as a TimeoutError, which a command says in one sentence
        raise SynthDPError("the time was up") from None


@pytest.mark.slow
@pytest.mark.parametrize("hangs", [works, waits, waits_and_calls_it_a_refusal])
def test_the_fuzzer_sees_a_hang(monkeypatch, hangs):
    monkeypatch.setattr(fuzz, "SECONDS", 0.1)
    monkeypatch.setitem(fuzz.TARGETS, "expression", hangs)
    ((_, why),) = fuzz.fuzz("expression", 1).found
    assert why.startswith("TooLong")


@pytest.mark.parametrize("target", DEEP)
def test_mutated_inputs_are_neither_all_taken_nor_all_refused(target):
    """The fuzzer reaches behind the first check, and past what is valid."""
    done = fuzzed(target)
    assert min(done.taken, done.refused) >= 1
