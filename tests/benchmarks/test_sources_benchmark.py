"""The benchmark of where rows live, on a small table: it runs, and the counts are equal whichever way they come."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from postgres_server import WHY_NOT

HAS_SPARK = find_spec("pyspark") is not None and shutil.which("java") is not None
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "speed" / "sources.py"


@pytest.mark.slow
def test_the_benchmark_from_files_to_a_written_table_runs() -> None:
    path = BENCHMARK.parent / "through.py"
    done = subprocess.run([sys.executable, str(path), "--tiny"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    line = json.loads(done.stdout)
    assert set(line["cpu"]) == {"rows", "noise", "fit", "drawing", "writing"}
    assert line["peak_mib"] >= line["release_peak_mib"] > 0


@pytest.mark.slow
@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "it is there")
def test_the_benchmark_runs_and_all_ways_count_the_same() -> None:
    done = subprocess.run([sys.executable, str(BENCHMARK), "--tiny"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    ways = ["parquet", "duckdb", "rows", "codes", "counts", "read_sql"]
    assert [line["way"] for line in lines] == ways + ["spark"] * HAS_SPARK
    assert len({line["digest"] for line in lines}) == 1
