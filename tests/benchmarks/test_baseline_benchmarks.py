"""The benchmarks of the baselines run in their tiny mode, and every error there is within its bound."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(script: str, *options: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "benchmarks" / script), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


@pytest.mark.slow
def test_every_baseline_is_within_its_bound_and_can_be_drawn(tmp_path):
    results = tmp_path / "results.jsonl"
    records = [json.loads(line) for line in run("utility/baselines.py", "--tiny", "--out", str(results)).splitlines()]
    small = [record for record in records if record["part"] == "small"]
    assert len(small) >= 12
    assert all(record["within"] for record in small)
    run("utility/baselines.py", "--plot", str(results), str(tmp_path / "images"))
    assert (tmp_path / "images" / "baselines.png").stat().st_size > 0


@pytest.mark.slow
@pytest.mark.parametrize("script", ["utility/composition.py", "speed/net.py"])
def test_the_other_benchmarks_run(script):
    assert run(script, "--tiny")
