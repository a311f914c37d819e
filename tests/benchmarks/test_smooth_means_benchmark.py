"""The benchmark of intervals of smooth averages runs, and finds most of them right."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/utility/smooth_means.py"


@pytest.mark.style
def test_the_benchmark_counts_intervals_that_hold_the_truth():
    command = [sys.executable, str(SCRIPT), "--tables", "20", "--rows", "200"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert found["rows"] == 200
    assert found["coverage"] > 0.5
    assert found["beyond"] == 0
