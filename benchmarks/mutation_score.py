"""How many small faults in the code the unit tests of its folder notice: the mutation score.

    python benchmarks/mutation_score.py [--tree .] [--folders privacy queries ...] [--faults 60] [--seed 1]

Each fault is one operator, comparison, condition or whole number inside of a function that is changed at random in a
copy of the tree; ``tests/unit/<folder>`` (all that runs before a change lands) then has to fail.  Some changes change
nothing that matters, so that a score of 1 is out of reach: scores of two trees with the same folders are to be compared.
Prints the faults that were not noticed, and one JSON line.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("privacy", "queries", "domain", "fit", "sampling", "distribution")
"""Folders whose unit tests take seconds."""

STAGES = "not slow and not style"
"""The tests that run before a change lands."""

SECONDS = 180
"""A test run that takes longer has noticed: an endless loop."""

SWAPPED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip
"""What replaces an operator."""


def places(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield each node inside of a function that can be changed, and the field or the kind of its change."""
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for statement in function.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
                    yield node, "ops"
                elif isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in SWAPPED:
                    yield node, "op"
                elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                    yield node, "not"
                elif isinstance(node, ast.Constant) and type(node.value) is int:
                    yield node, "number"


def changed(text: str, rng: random.Random) -> tuple[str, str] | None:
    """Return a module's text with one fault, and the line with it; ``None`` if nothing can be changed."""
    tree = ast.parse(text)
    found = list(places(tree))
    if not found:
        return None
    node, kind = rng.choice(found)
    before = ast.unparse(node)
    match kind:
        case "ops":
            node.ops[0] = SWAPPED[type(node.ops[0])]()
        case "op":
            node.op = SWAPPED[type(node.op)]()
        case "not":
            node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
        case "number":
            node.value += 1
    return ast.unparse(ast.fix_missing_locations(tree)), f"{node.lineno}: {before} -> {ast.unparse(node)}"


def noticed(folder: str, home: Path) -> bool:
    """Return whether the unit tests of a folder fail."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        STAGES,
        f"tests/unit/{folder}",
    ]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ""}
    try:
        done = subprocess.run(command, check=False, cwd=home, capture_output=True, timeout=SECONDS, env=environment)
        return done.returncode != 0
    except subprocess.TimeoutExpired:
        return True


def main() -> None:
    """Make the faults one by one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--folders", nargs="+", default=list(FOLDERS))
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng, found = random.Random(options.seed), {folder: [0, 0] for folder in options.folders}
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        for one in options.tree.resolve().iterdir():
            if one.name == "synthdp":
                shutil.copytree(one, home / "synthdp", ignore=shutil.ignore_patterns("__pycache__"))
            elif not one.name.startswith(".git"):
                (home / one.name).symlink_to(one)
        broken = [folder for folder in options.folders if noticed(folder, home)]
        if broken:
            raise SystemExit(f"the tests fail without a fault: {', '.join(broken)}")
        for i in range(options.faults):
            folder = options.folders[i % len(options.folders)]
            path = rng.choice(sorted((home / "synthdp" / folder).rglob("*.py")))
            text = path.read_text(encoding="utf-8")
            fault = changed(text, rng)
            if fault is None:
                continue
            path.write_text(fault[0], encoding="utf-8")
            seen = noticed(folder, home)
            path.write_text(text, encoding="utf-8")
            found[folder][0] += seen
            found[folder][1] += 1
            if not seen:
                print(f"{path.relative_to(home)}:{fault[1]}", flush=True)
    caught, made = (sum(one[i] for one in found.values()) for i in (0, 1))
    print(json.dumps({"benchmark": "mutation score", "seed": options.seed, "folders": found, "caught": caught,
                      "faults": made, "score": round(caught / made, 3)}))  # fmt: skip


if __name__ == "__main__":
    main()
