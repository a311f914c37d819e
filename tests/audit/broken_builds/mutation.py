"""One small edit of the package that takes a promise away.

An edit finds its place by the syntax tree: within the function or class of a name, wherever that lies in the package, the
one expression, or run of statements, that is the same program.  So neither a move nor a new line break breaks it.
"""

from __future__ import annotations

import ast
import os
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[3]
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Mutation:
    """One edit, and the tests that must notice it."""

    name: str
    requirement: str
    place: str
    """Name of a function or class, such as ``Curator.measure``; after its module where others have the same name."""
    old: str
    new: str
    tests: tuple[str, ...]
    needs: str = ""
    """A package or program without which its tests are skipped, so that the build is not tried."""

    @property
    def can_be_tried(self) -> bool:
        """Whether what its tests need is installed."""
        if not self.needs or find_spec(self.needs) is not None:
            return True
        places = [os.environ.get("PATH", os.defpath), *map(str, Path("/").glob("usr/lib/postgresql/*/bin"))]
        return shutil.which(self.needs, path=os.pathsep.join(places)) is not None

    @property
    def file(self) -> str:
        """The file it edits, below the package."""
        return definitions()[whole_name(self.place)].relative_to(ROOT / "synthdp").as_posix()

    def apply(self, root: Path) -> None:
        path = root / "synthdp" / self.file
        tree = ast.parse(path.read_text(encoding="utf-8"))
        module = f"synthdp/{self.file}".removesuffix(".py").replace("/", ".")
        names = whole_name(self.place).removeprefix(f"{module}.").split(".")
        found = replaced(defined(tree, names), statements(self.old), statements(self.new))
        if found != 1:
            raise ValueError(f"{self.name}: what is to be replaced occurs {found} times in {self.place}")
        path.write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")


@cache
def definitions() -> dict[str, Path]:
    """The file of every function and class of the package, by its whole name."""
    found = {}
    for path in sorted((ROOT / "synthdp").rglob("*.py")):
        module = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for name in _names(ast.parse(path.read_text(encoding="utf-8"))):
            found[f"{module}.{name}"] = path
    return found


def whole_name(place: str) -> str:
    """The one whole name that ends with a place."""
    found = [name for name in definitions() if name.endswith(f".{place}")]
    if len(found) != 1:
        raise ValueError(f"{place} must be one definition, not {found}")
    return found[0]


def _names(node: ast.AST, prefix: str = "") -> Iterator[str]:
    for child in getattr(node, "body", []):
        if isinstance(child, _NAMED):
            yield prefix + child.name
            yield from _names(child, f"{prefix}{child.name}.")


def defined(node: ast.AST, names: list[str]) -> ast.AST:
    """The function or class below a node, by its names from the outermost to the innermost."""
    for name in names:
        inside = [n for n in getattr(node, "body", []) if isinstance(n, _NAMED)]
        node = next(n for n in inside if n.name == name)
    return node


def statements(text: str) -> list[ast.stmt]:
    """A piece of program as statements."""
    return ast.parse(textwrap.dedent(text)).body


def replaced(node: ast.AST, old: list[ast.stmt], new: list[ast.stmt]) -> int:
    """Replace one piece of program by another everywhere below a node; return how often."""
    expression = len(old) == 1 and isinstance(old[0], ast.Expr)
    count = 0
    for parent in list(ast.walk(node)):
        for field, value in ast.iter_fields(parent):
            if expression and isinstance(value, ast.expr) and same(value, old[0].value):
                setattr(parent, field, new[0].value)
                count += 1
            elif isinstance(value, list):
                if expression:
                    for i, item in enumerate(value):
                        if isinstance(item, ast.expr) and same(item, old[0].value):
                            value[i] = new[0].value
                            count += 1
                statement = not expression and all(isinstance(item, ast.stmt) for item in value)
                places = range(len(value) - len(old), -1, -1) if statement else ()
                for i in places:
                    if all(same(a, b) for a, b in zip(value[i : i + len(old)], old, strict=True)):
                        value[i : i + len(old)] = new or [ast.Pass()]
                        count += 1
    return count


def same(one: ast.AST, other: ast.AST) -> bool:
    """Whether two pieces are the same program text; what is read or written there is told by the context around."""
    return type(one) is type(other) and _text(one) == _text(other)


def _text(node: ast.AST) -> str:
    return ast.dump(node).replace("ctx=Store()", "ctx=Load()")
