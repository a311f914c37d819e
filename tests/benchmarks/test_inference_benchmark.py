"""The benchmark of intervals for populations runs, and writes a line for each way and coefficient."""

import json
import runpy
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks/utility/inference.py"


def test_a_short_run_writes_a_line_for_each_way_and_coefficient(tmp_path, capsys, monkeypatch):
    out = tmp_path / "inference.jsonl"
    asked = ["--design", "binary", "--epsilon", "1", "--runs", "2", "--m", "2", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", [SCRIPT.name, *asked])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert out.read_text() == capsys.readouterr().out
    ways = {(one["way"], one["coefficient"]) for one in found}
    assert ways == {(way, name) for way in ("naive", "private", "population") for name in "ab"}
    assert all(0 <= one["coverage"] <= 1 for one in found)
