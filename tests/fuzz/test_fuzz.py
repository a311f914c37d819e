"""A little fuzzing in every run; `tests/fuzz/fuzz.py` does a hundred thousand inputs a target."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import fuzz

from synthdp.errors import SynthDPError

REGRESSIONS = {
    "release_arrays": [fuzz.SEEDS["release_arrays"][0][:60] + b"\xff" * 40 + fuzz.SEEDS["release_arrays"][0][100:]],
    "expression": [b"(" * 5000, b"not " * 5000, b"x == " + b"9" * 5000],
    "schema_json": [b"[" * 50_000, b'{"synthdp_schema": 1e999}', b'{"a": ' * 20_000],
    "csv_file": [b"", b"\xef\xbb\xbf", b"n\n" + b'"' * 9999, b"n,n\n1,2\n", b"n\n" + b"9" * 10_000],
    "options": [b"sample", b"release --epsilon nan", b"ledger . --cap -1", b"ledger " + b"9" * 400],
    "release_json": [fuzz.SEEDS["release_json"][0].replace(b'"n",\n    "int64"', b'"nobody",\n    "int64"')],
}


@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_mutated_inputs_are_taken_or_refused_in_one_sentence(target):
    assert fuzz.fuzz(target, 60, seed=1) == []


@pytest.mark.parametrize(("target", "data"), [(t, data) for t, found in REGRESSIONS.items() for data in found])
def test_inputs_that_once_broke_or_might_have(target, data, tmp_path):
    (tmp_path / "release").mkdir()
    refused = []
    try:
        fuzz.TARGETS[target](data, tmp_path)
    except SynthDPError as error:
        refused.append(str(error))
    assert all("\n" not in text for text in refused)


def test_the_fuzzer_sees_a_traceback(monkeypatch):
    def breaks(data, folder):
        raise KeyError(data)

    monkeypatch.setitem(fuzz.TARGETS, "expression", breaks)
    assert len(fuzz.fuzz("expression", 3)) == 3
