"""The benchmark of the flagship runs in its tiny mode: records and a Markdown table, on screen and in files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("part", ["table", pytest.param("sweep", marks=pytest.mark.slow)])
def test_a_tiny_run_writes_its_records_and_the_table_of_their_means(tmp_path, part):
    out = tmp_path / "results.jsonl"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        str(ROOT / "benchmarks/utility/flagship.py"),
        "--tiny",
        "--part",
        part,
        "--out",
        str(out),
    ]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert {"synthdp", "independent"} <= {record["method"] for record in records}
    assert all(0 <= record["three_way"] <= 1 for record in records)
    assert printed.rstrip().endswith(out.with_suffix(".md").read_text().rstrip())
