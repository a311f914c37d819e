"""The suite itself: whose warnings fail a test, why a test is skipped, and which Pythons it is run on."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WARNS = """
import warnings

def test_it():
    warnings.warn_explicit("said", {category}, "file.py", 1, module="{module}.part")
"""


def passes(folder: Path, category: str, module: str, strict: str) -> bool:
    """Run a test that warns, with the settings of this suite."""
    test = folder / "test_warns.py"
    test.write_text(WARNS.format(category=category, module=module), encoding="utf-8")
    environment = {**os.environ, "SYNTHDP_STRICT_WARNINGS": strict, "PYTHONPATH": str(ROOT / "tests")}
    options = ["-q", "-p", "conftest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    command = [sys.executable, "-m", "pytest", *options, f"--rootdir={ROOT}", str(test)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert re.search(r"1 (passed|failed)", done.stdout), done.stdout + done.stderr
    assert "said" in done.stdout  # shown either way
    return done.returncode == 0


@pytest.mark.parametrize("category", ["DeprecationWarning", "FutureWarning", "UserWarning", "RuntimeWarning"])
def test_what_another_package_warns_of_fails_a_test_only_where_that_is_asked_for(category: str, tmp_path: Path) -> None:
    assert passes(tmp_path, category, "pandas", strict="")
    assert not passes(tmp_path, category, "pandas", strict="1")


@pytest.mark.parametrize("category", ["RuntimeWarning", "ResourceWarning", "SyntaxWarning"])
def test_a_fault_of_our_own_that_warns_fails_a_test_everywhere(category: str, tmp_path: Path) -> None:
    assert not passes(tmp_path, category, "synthdp", strict="")


def test_what_a_package_says_of_its_next_release_fails_no_test_of_a_newcomer(tmp_path: Path) -> None:
    assert passes(tmp_path, "DeprecationWarning", "synthdp", strict="")


def skips(path: Path) -> Iterator[ast.Call]:
    """Yield the calls that skip a test or mark it so."""
    words = {"skip", "skipif", "xfail"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in words:
            yield node


def test_every_test_that_is_skipped_says_why() -> None:
    silent = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for call in skips(path):
            said = "reason" in {keyword.arg for keyword in call.keywords}
            said = said or (call.func.attr == "skip" and call.args != [])
            silent += [] if said else [f"{path.name}:{call.lineno}"]
    assert silent == []


def test_the_workflow_runs_every_python_that_the_project_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = set(re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"])))
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    run = set(re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", workflow).group(1)))
    assert named <= run
    assert min(named, key=lambda minor: int(minor[2:])) == project["requires-python"].removeprefix(">=")
