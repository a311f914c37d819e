"""The benchmark of tables larger than memory, on small ones: it runs, and DuckDB counts the same integers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "speed" / "scale.py"


@pytest.mark.slow
def test_the_benchmark_runs_and_its_integers_are_duckdbs() -> None:
    done = subprocess.run([sys.executable, str(BENCHMARK), "--tiny"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["rows"] for line in lines if line["case"] == "measure"] == [20_000, 40_000]
    assert all(line["digest"] == line["digest_again"] for line in lines if line["case"] == "measure")
    assert lines[-1]["case"] == "summary"
    assert lines[-1]["equal_integers"]
    assert lines[-1]["peak_mib"] < 1024
