"""The page is a second attack surface that must be kept for years: it stays small."""

from __future__ import annotations

import ast
from pathlib import Path

PAGE = Path(__file__).parents[2] / "synthdp" / "page"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstring_lines(path: Path) -> set[int]:
    """Return the numbers of the lines on which a module, a class or a function is described."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, DOCUMENTED)]
    found = [node.body[0] for node in nodes if ast.get_docstring(node) is not None]
    return {line for text in found for line in range(text.lineno, text.end_lineno + 1)}


def lines_of_ours(path: Path) -> int:
    """Return how many lines of a file are neither blank nor a docstring."""
    described = docstring_lines(path) if path.suffix == ".py" else set()
    lines = enumerate(path.read_text().splitlines(), start=1)
    return sum(1 for number, line in lines if line.strip() and number not in described)


def test_the_page_is_at_most_1500_lines_of_python_templates_style_and_script():
    counted = {path: lines_of_ours(path) for path in PAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {path.suffix for path in counted} == {".py", ".html", ".css", ".js"}
    assert sum(counted.values()) <= 1500, counted
    assert sum(lines for path, lines in counted.items() if path.suffix == ".js") <= 60
