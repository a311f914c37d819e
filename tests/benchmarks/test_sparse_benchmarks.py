"""The benchmarks of the sparse mechanisms run in their tiny mode."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(("script", "least"), [("utility/sparse.py", 14), ("speed/sparse_weights.py", 2)])
def test_a_tiny_run_prints_one_record_a_line(script, least):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "benchmarks" / script), "--tiny"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()
    assert len([json.loads(line) for line in lines]) >= least
