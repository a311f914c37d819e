"""The benchmark of intervals for populations runs, and writes a line for each way and coefficient."""

import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/utility/inference.py"


@pytest.mark.landing
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


def test_lines_are_put_together_by_their_runs_and_drawn(tmp_path, monkeypatch):
    common = {"design": "binary", "epsilon": 1.0, "coefficient": "a", "bias": 0.0, "oracle": 1.0, "real": 1.0}
    lines = [
        common | {"way": way, "coverage": coverage, "runs": runs, "cpu_seconds_a_run": 0.5}
        for way, coverage, runs in (("naive", 0.5, 10), ("population", 0.9, 10), ("population", 1.0, 30))
    ]
    bench = runpy.run_path(str(SCRIPT))
    found = bench["together"](lines)["binary", 1.0, "population", "a"]
    assert (found["coverage"], found["runs"]) == (0.975, 40)
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, lines)))
    asked = ["--picture", str(tmp_path / "p.svg"), "--out", str(tmp_path / "lines.jsonl")]
    monkeypatch.setattr(sys, "argv", [SCRIPT.name, *asked])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert (tmp_path / "p.svg").read_text().count("<circle") == 4
