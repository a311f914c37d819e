"""The benchmark of public tables runs, and writes a line for each release and one for the public rows."""

import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/utility/public.py"


@pytest.mark.slow
def test_a_short_run_writes_a_line_a_release(tmp_path, capsys, monkeypatch):
    out = tmp_path / "public.jsonl"
    asked = [
        "--table",
        "adult",
        "--epsilon",
        "1",
        "--seeds",
        "1",
        "--rows",
        "2000",
        "--public",
        "none",
        "same",
        "foreign",
    ]
    monkeypatch.setattr(sys, "argv", [SCRIPT.name, *asked, "--out", str(out)])
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    runpy.run_path(str(SCRIPT), run_name="__main__")
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["kind"] for one in found] == ["alone", "none", "same", "foreign"]
    assert all(0 < one["two_way"] < one["three_way"] < 1 for one in found)
    assert "| adult | same |" in capsys.readouterr().out
