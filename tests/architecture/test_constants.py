"""Numbers in the code: a constant says whether it is a safety limit, a tolerance, derived or tuned, and where from."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "synthdp"
FOLDERS = ("answers", "curator", "fit", "mechanisms", "sampling", "works")
SAID = re.compile(
    r"safety limit|tolerance|tuned|derived|convention|measured|sweep|benchmarks|docs/|=|√|sqrt", re.IGNORECASE
)
MOST_SILENT = 6
"""Constants that say nothing of their kind; 1 when this was written, and 431 at first."""

MOST_TUNED, MOST_UNSWEPT = 49, 0
"""Constants that were chosen by hand, and those of them whose docstring has no measurement: 259 and 112 at first.  Both may
only fall (docs/benchmarks/constants.md)."""
UNSWEPT = re.compile("not measured|no sweep", re.IGNORECASE)


def is_numeric_constant(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return False
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    names = [one for one in ast.walk(target) if isinstance(one, ast.Name)]
    numbers = (one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant))
    return all(one.id.lstrip("_").isupper() for one in names) and any(type(one) in (int, float) for one in numbers)


def constants_of(source: str) -> Iterator[tuple[str, str]]:
    """Yield the numeric constants of a module, and what the docstring of each says."""
    body = ast.parse(source).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        said = str(after.value.value) if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
        if is_numeric_constant(node):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield from ((one.id, " ".join(said.split())) for one in ast.walk(target) if isinstance(one, ast.Name))


def silent_constants(source: str) -> list[str]:
    """Return the numeric constants of a module whose docstring states no kind, derivation or measurement."""
    return [name for name, said in constants_of(source) if not SAID.search(said)]


def test_the_search_finds_what_says_nothing() -> None:
    source = 'A = 3\n"""Rows.  A safety limit."""\nB, C = 2, 0.5\n"""Parts."""\nD = 7\nnames = 4\nE = "text"\n'
    assert silent_constants(source) == ["B", "C", "D"]


@pytest.mark.style
def test_fewer_and_fewer_constants_are_tuned() -> None:
    sources = [(path.stem, path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))]
    said = [(f"{stem}.{name}", said) for stem, source in sources for name, said in constants_of(source)]
    tuned = {name: words for name, words in said if re.search("tuned", words, re.IGNORECASE)}
    unswept = [name for name, words in tuned.items() if UNSWEPT.search(words)]
    assert len(tuned) <= MOST_TUNED, sorted(tuned)
    assert len(unswept) <= MOST_UNSWEPT, unswept


@pytest.mark.style
def test_fewer_and_fewer_constants_say_nothing_of_their_kind() -> None:
    paths = [path for folder in FOLDERS for path in sorted((PACKAGE / folder).rglob("*.py"))]
    silent = [f"{path.stem}.{name}" for path in paths for name in silent_constants(path.read_text(encoding="utf-8"))]
    assert len(silent) <= MOST_SILENT, silent
