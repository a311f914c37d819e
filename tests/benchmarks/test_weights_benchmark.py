"""The benchmark of survey weights runs, and writes a line for each table and number of classes."""

import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/utility/weights.py"


@pytest.mark.slow
def test_a_short_run_writes_a_line_for_each_number_of_classes(tmp_path, capsys, monkeypatch):
    out = tmp_path / "weights.jsonl"
    asked = ["--table", "adult", "--epsilon", "1", "--seeds", "1", "--rows", "1500", "--classes", "4", "8"]
    monkeypatch.setattr(sys, "argv", [SCRIPT.name, *asked, "--out", str(out)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert out.read_text() == capsys.readouterr().out
    assert [one["classes"] for one in found] == [4, 8]
    assert all(one["ratio"] > 0 and 0 <= one["covered"] <= 1 and one["population"] >= 0 for one in found)
