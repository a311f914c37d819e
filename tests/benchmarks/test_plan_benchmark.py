"""The benchmark of plans in its tiny mode: what is foretold of a release of Adult comes about."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_plan_foretells_the_error_and_the_time_of_a_release_of_adult(tmp_path: Path) -> None:
    out = tmp_path / "plans.jsonl"
    command = [sys.executable, str(ROOT / "benchmarks" / "utility" / "plans.py"), "--tiny", "--out", str(out)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, capture_output=True, check=True, env=environment)
    found = json.loads(out.read_text(encoding="utf-8"))
    assert 1 / 1.3 < found["three_way"]["ratio"] < 1.3
    assert 1 / 2.5 < found["seconds"]["ratio"] < 2.5
