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
CATEGORIES = {
    "DeprecationWarning", "FutureWarning", "UserWarning", "RuntimeWarning", "ResourceWarning", "SyntaxWarning",
}  # fmt: skip
SHOWN = CATEGORIES - {"ResourceWarning"}  # which Python hides where it is no error
CHOSEN = "undeclared"
WARNS = """
import warnings

def test_{category}():
    warnings.warn_explicit("said", {category}, "file.py", 1, module="{module}.part")
"""


def passes(folder: Path, module: str, strict: str) -> set[str]:
    """Run a test that warns of each category, with the settings of this suite; return those that pass."""
    test = folder / "test_warns.py"
    test.write_text("".join(WARNS.format(category=one, module=module) for one in CATEGORIES), encoding="utf-8")
    environment = {**os.environ, "SYNTHDP_STRICT_WARNINGS": strict, "PYTHONPATH": str(ROOT / "tests")}
    options = ["-q", "-rA", "-p", "conftest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    command = [sys.executable, "-m", "pytest", *options, f"--rootdir={ROOT}", str(test)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    found = re.findall(r"^(PASSED|FAILED) .*::test_(\w+)", done.stdout, re.MULTILINE)
    outcomes = {category: outcome for outcome, category in found}
    assert outcomes.keys() == CATEGORIES, done.stdout + done.stderr
    assert all(re.search(f"{category}: said", done.stdout) for category in SHOWN)
    return {category for category, outcome in outcomes.items() if outcome == "PASSED"}


def test_what_another_package_warns_of_fails_a_test_only_where_that_is_asked_for(tmp_path: Path) -> None:
    assert passes(tmp_path, "pandas", strict="") >= {
        "DeprecationWarning",
        "FutureWarning",
        "UserWarning",
        "RuntimeWarning",
    }
    assert passes(tmp_path, "pandas", strict="1") == set()


def test_a_fault_of_our_own_fails_a_test_everywhere_and_what_a_next_release_brings_no_newcomers(tmp_path: Path) -> None:
    passed = passes(tmp_path, "synthdp", strict="")
    assert "DeprecationWarning" in passed
    assert passed.isdisjoint({"RuntimeWarning", "ResourceWarning", "SyntaxWarning"})


@pytest.mark.slow
def test_a_run_of_a_few_chosen_tests_ends_without_a_word_of_leaks() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", "-k", CHOSEN]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "leaked" not in done.stdout + done.stderr


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
