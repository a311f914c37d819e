"""The benchmark of the flagship runs in its tiny mode: records and a Markdown table, on screen and in files."""

import json
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.landing
@pytest.mark.parametrize("part", ["table", pytest.param("sweep", marks=pytest.mark.slow)])
def test_a_tiny_run_writes_its_records_and_the_table_of_their_means(tmp_path, part, capsys, monkeypatch):
    out = tmp_path / "results.jsonl"
    script = ROOT / "benchmarks/utility/flagship.py"
    monkeypatch.syspath_prepend(str(script.parent))
    monkeypatch.setattr(sys, "argv", [script.name, "--tiny", "--part", part, "--out", str(out)])
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert {"synthdp", "independent"} <= {record["method"] for record in records}
    assert all(0 <= record["three_way"] <= 1 for record in records)
    assert printed.rstrip().endswith(out.with_suffix(".md").read_text().rstrip())
