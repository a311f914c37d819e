"""Every numbered example runs by itself, within its time, and says or draws something."""

import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from strictness import OPTIONS

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
LONG = ("02_", "03_")  # several releases of Adult each; the pages train models, too
SECONDS = 300
LINES = 60


class Ran(NamedTuple):
    """What an example printed, and which pictures and pages it wrote."""

    done: subprocess.CompletedProcess[str]
    pictures: list[str]


@cache
def run(example: Path) -> Ran:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg", "PYTHONIOENCODING": "utf-8"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, *OPTIONS, str(example)],
            cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=SECONDS, check=False,
        )  # fmt: skip
        return Ran(done, [path.name for path in Path(folder).rglob("*") if path.suffix in (".png", ".svg", ".html")])


def table_lines(text: str) -> list[str]:
    """Lines of a printed table: columns that are ruled or far apart, with a number."""
    return [line for line in text.splitlines() if re.search(r"\S(?: {2,}|[│|])[^│|]*\d", line)]


@pytest.mark.style
@pytest.mark.parametrize(
    "example",
    [pytest.param(path, marks=[pytest.mark.slow] * path.stem.startswith(LONG), id=path.stem) for path in EXAMPLES],
)
def test_an_example_runs_and_shows_a_picture_or_a_table(example: Path) -> None:
    ran = run(example)
    assert ran.done.returncode == 0, ran.done.stderr
    assert ran.done.stderr == ""
    assert ran.pictures or len(table_lines(ran.done.stdout)) >= 2, ran.done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_what_it_shows(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LINES
    assert text.startswith('"""')


def test_there_is_an_example_for_every_chapter() -> None:
    assert [path.stem[:2] for path in EXAMPLES] == [f"{number:02}" for number in range(1, len(EXAMPLES) + 1)]
    assert len(EXAMPLES) >= 10


@pytest.mark.style
def test_the_grid_search_ends_refused_in_words_a_user_understands() -> None:
    told = run(ROOT / "examples" / "03_grid_search_with_a_ledger.py").done.stdout
    assert "refused: asked to spend ε = 0.5 on data set 'adult', but only" in told
    assert "The ledger counts 6 fits." in told


def test_prose_is_no_table() -> None:
    assert table_lines("It wrote 3 files.\n   refused: only 0.2 is left\n") == []
