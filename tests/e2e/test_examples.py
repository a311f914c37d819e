"""Every numbered example runs by itself, within its time, and says or draws something."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
SECONDS = 300
LINES = 60


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_shows_something(example: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-W", "error::RuntimeWarning", str(example)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 3
    assert done.stderr == ""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_what_it_shows(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LINES
    assert text.startswith('"""')


def test_there_is_an_example_for_every_chapter() -> None:
    assert [path.stem[:2] for path in EXAMPLES] == [f"{number:02}" for number in range(1, len(EXAMPLES) + 1)]
    assert len(EXAMPLES) >= 9


def test_the_grid_search_ends_refused_in_words_a_user_understands(tmp_path: Path) -> None:
    example = ROOT / "examples" / "03_grid_search_with_a_ledger.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=SECONDS, check=False,
    )  # fmt: skip
    assert "refused: asked to spend ε = 0.5 on data set 'adult', but only" in done.stdout
    assert "The ledger counts 6 fits." in done.stdout
