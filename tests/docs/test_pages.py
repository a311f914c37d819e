"""Every code block of every page runs, and prints what the page shows."""

import os
import re
import sys
import warnings
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_pages import RUN, Reader, blocks_of, check_output, commands_of, is_slow, needs

from synthdp.errors import MisfitWarning

pytestmark = pytest.mark.style
ROOT = Path(__file__).parents[2]
WALKED = ROOT / "docs" / "contributing"  # in a copy of the repository: tests/guide/test_walk.py
PAGES = [
    page
    for page in sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
    if page.parent != WALKED and any(block.language in RUN for block in blocks_of(page))
]
MARKED = [pytest.param(page, marks=[pytest.mark.slow] * is_slow(page), id=page.stem) for page in PAGES]


@pytest.mark.parametrize("page", MARKED)
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    for module in needs(page):
        pytest.importorskip(module, reason=f"{page.name} needs {module}")
    for _ in {"adbc_driver_postgresql"}.intersection(needs(page)):
        monkeypatch.setenv("PGHOST", str(request.getfixturevalue("postgres").folder))
        monkeypatch.setenv("PGUSER", "postgres")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if needs(page) else "error")
        warnings.simplefilter("ignore", MisfitWarning)  # noise alone raises it in one of some hundred releases
        assert Reader(page).run() > 0


def test_there_are_pages_of_every_kind() -> None:
    assert {"tutorial", "how-to", "explanation"} <= {page.parent.name for page in PAGES}


def test_an_underscore_is_an_index_not_an_emphasis() -> None:
    r"""Two indices in a line may be read as emphasis: they are written \_ there."""
    parser, found = MarkdownIt("commonmark").enable("table"), []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        inner = [
            (token.map, child)
            for token in parser.parse(page.read_text(encoding="utf-8"))
            for child in token.children or []
        ]
        found += [(page.name, lines) for lines, child in inner if child.type == "em_open" and child.markup == "_"]
    assert found == []


def test_every_file_of_the_repository_that_a_page_names_exists() -> None:
    missing = []
    for page in sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]):
        written = {block.note.removeprefix("file: ") for block in blocks_of(page)}
        named = re.findall(
            r"`(?:python )?((?:tests|benchmarks|synthdp|examples|docs)/[\w./-]+)", page.read_text("utf-8")
        )
        missing += [(page.name, name) for name in named if name not in written and not (ROOT / name).exists()]
    assert missing == []


def test_no_page_hides_our_own_commands_in_a_block_that_is_not_run() -> None:
    own = {"tutorial.md", "install.md"}  # their commands are run by tests of their own
    hidden = [
        f"{page.name}:{block.line}"
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for block in blocks_of(page)
        if block.language == "sh" and "synthdp " in block.text and page.name not in own
    ]
    assert hidden == []


@pytest.mark.parametrize(
    ("out", "shown", "note"),
    [("a\n", "b\n", ""), ("x 1.5", "x 1.6", ""), ("a 1", "b 1", "numbers vary"), ("", "a", "output varies")],
)
def test_an_output_that_differs_is_found(out: str, shown: str, note: str) -> None:
    with pytest.raises(AssertionError):
        check_output(out, shown, note, "page:1")


def test_numbers_may_vary_where_the_page_says_so() -> None:
    check_output("μ = 0.0128, 32,561 rows\n", "μ = 1e-09,   30 002 rows", "numbers vary", "page:1")


def test_commands_end_where_their_output_begins() -> None:
    text = "$ synthdp answer a.release \\\n    --marginal sex\nsex  estimate\n$ ls\n"
    assert list(commands_of(text)) == [("synthdp answer a.release --marginal sex", "sex  estimate\n"), ("ls", "")]
