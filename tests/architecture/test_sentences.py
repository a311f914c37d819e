"""Docstrings: what they leave out, and forms that readers stumble over; each count only falls."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "synthdp"

FORBIDDEN = re.compile(
    r"\b(?:of which|of whom|those that|those of|that of|so many|as far as|but for|thereof|the same of"
    r"|(?:noise|a table|a rule|a column|a line|the release|a release) (?:says|tells|knows|hears|asks))\b"
)
"""Forms in which a reader must look for the noun; a thing that says, tells, knows, hears or asks."""

LONGEST = 25
"""Words of a sentence."""

MOST = {"without a docstring": 112, "forbidden forms": 10, "long sentences": 45}
"""102, 5 and 44 when this was written, 1 270, 530 and 175 at their most; the room is for what comes at the same time."""


def documented(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of every function, class and constant of a module; "" where there is none."""
    for node in ast.walk(tree):
        body = getattr(node, "body", [])
        for one, after in zip(body, [*body[1:], None], strict=False) if isinstance(body, list) else ():
            said = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                overloads = [ast.unparse(d).endswith("overload") for d in one.decorator_list]
                if not one.name.startswith("__") and not any(overloads):
                    yield one.name, ast.get_docstring(one) or ""
            elif isinstance(one, ast.Assign | ast.AnnAssign) and one in tree.body and one.value is not None:
                targets = one.targets if isinstance(one, ast.Assign) else [one.target]
                names = [x.id for target in targets for x in ast.walk(target) if isinstance(x, ast.Name)]
                if names and all(name.lstrip("_").isupper() for name in names) and len(names[0]) > 1:
                    yield names[0], said if isinstance(said, str) else ""


def sentences(text: str) -> list[str]:
    """Return the sentences of a docstring's prose: no examples, no lists, no headings."""
    prose = re.split(r"\n\s*(?:Examples|Notes|References|See Also)\n\s*-+", text)[0]
    lines = [line.strip() for line in prose.splitlines() if not re.match(r"\s*(>>>|\.\.\.|-+$|\||\* )", line)]
    return re.split(r"(?<=[.:;?!])\s+", " ".join(lines))


def counted(source: str) -> dict[str, int]:
    """Return how many of a module's docstrings are missing or have such forms, and how many sentences are long."""
    found = [(name, text) for name, text in documented(ast.parse(source))]
    return {
        "without a docstring": sum(not text for _, text in found),
        "forbidden forms": sum(bool(FORBIDDEN.search(" ".join(text.split()))) for _, text in found),
        "long sentences": sum(len(one.split()) > LONGEST for _, text in found for one in sentences(text)),
    }


def test_the_count_finds_what_it_looks_for() -> None:
    words = " ".join(["word"] * 26)
    source = f'A1 = 3\nB2 = 4\n"""Those of a table."""\ndef f():\n    """Return {words}."""\n\n\ndef g():\n    pass\n'
    assert counted(source) == {"without a docstring": 2, "forbidden forms": 0, "long sentences": 1}
    assert counted('B2 = 4\n"""Of those of a table."""\n')["forbidden forms"] == 1


@pytest.mark.style
def test_docstrings_become_no_worse() -> None:
    totals = dict.fromkeys(MOST, 0)
    for path in sorted(PACKAGE.rglob("*.py")):
        for name, count in counted(path.read_text(encoding="utf-8")).items():
            totals[name] += count
    assert {name: count for name, count in totals.items() if count > MOST[name]} == {}
