"""The suite itself: whose warnings fail a test, why a test is skipped, and which Pythons it is run on."""

import ast
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.style

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


PROPERTY = """
from pathlib import Path
from hypothesis import given, settings, strategies as st

seen = []

@settings(max_examples=1000)
@given(st.integers())
def test_property(value):
    seen.append(value)

def test_what_was_tried():
    Path("tried.txt").write_text(repr(seen), encoding="utf-8")
"""


def tried(folder: Path, before: str, *options: str) -> str:
    """Run a property in a process of its own, where some code was loaded before; return its examples."""
    test = folder / "test_property.py"
    test.write_text(before + PROPERTY, encoding="utf-8")
    (folder / "loaded.py").write_text(f"NUMBERS = {[7 * 10**i + i for i in range(20)]}", encoding="utf-8")
    paths = os.pathsep.join([str(ROOT / "tests"), str(folder)])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": str(len(before))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", *options]
    command += ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={folder}", str(test)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return (folder / "tried.txt").read_text(encoding="utf-8")


def test_the_quick_suite_tries_the_same_examples_whatever_was_loaded_before(tmp_path: Path) -> None:
    assert tried(tmp_path, "") == tried(tmp_path, "import loaded\n")
    assert not (tmp_path / ".hypothesis" / "examples").exists()


def test_the_slow_suite_tries_other_examples_each_time(tmp_path: Path) -> None:
    first, again = (tried(tmp_path, "", "--hypothesis-profile", "random") for _ in range(2))
    assert first != again


CASES = """
import pytest

@pytest.mark.sampled
@pytest.mark.parametrize("i", range(9))
def test_rest_is_slow(i): pass

@pytest.mark.sampled("landing")
@pytest.mark.parametrize("i", range(9))
def test_rest_lands(i): pass
"""


def collected(folder: Path, stage: str) -> list[str]:
    """Return the tests of `CASES` that are of a stage, by name, once for each case."""
    test = folder / "test_cases.py"
    test.write_text(CASES, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "conftest", "-p", "no:cacheprovider"]
    command += ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={folder}", "-m", stage, str(test)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return re.findall(r"::(\w+)\[", done.stdout)


def test_of_sampled_cases_one_in_three_is_quick_and_the_others_are_of_the_stage_that_is_named(tmp_path: Path) -> None:
    assert collected(tmp_path, "not slow and not landing") == ["test_rest_is_slow"] * 3 + ["test_rest_lands"] * 3
    assert collected(tmp_path, "slow") == ["test_rest_is_slow"] * 6
    assert collected(tmp_path, "landing") == ["test_rest_lands"] * 6


def test_what_the_quick_suite_leaves_out_is_run_at_a_landing_or_is_slow() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    left_out = set(re.findall(r"not (\w+)", project["tool"]["pytest"]["ini_options"]["addopts"]))
    landing = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert left_out == {"slow", *re.findall(r'-m "(\w+) and not slow"', landing)}
    assert set(re.findall(r"not (\w+)", matrix().STAGES)) == left_out - {"landing"}
    assert f'-m "{matrix().STAGES.split(chr(39))[1]}"' in landing  # on the newest Python, too


GENERATORS = {"default_rng", "generator", "Generator", "RandomState", "Random", "SeedSequence"}
SHARED = """
import numpy as np
RNG = np.random.default_rng(0)
KEPT = {"rng": Random(3)}
TABLE = np.random.default_rng(1).random(3)
def table(rng=np.random.default_rng(2)):
    return np.random.default_rng(3)
class Test:
    rng: object = generator(4)
@fixture(scope="module")
def one():
    return default_rng(5)
@fixture
def other():
    return default_rng(6)
@cache
def third():
    rng = default_rng(7)
    return rng.random()
"""


def shared_generators(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield where a generator is made that more than one test can draw from: at import, or kept by a fixture or a cache.

    One that is used at once, as in ``default_rng(0).random(3)``, is kept by nobody.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            at_import = [
                *node.args.defaults,
                *filter(None, node.args.kw_defaults),
                *getattr(node, "decorator_list", []),
            ]
            yield from shared_generators(ast.Module(at_import, []))
            marks = " ".join(map(ast.unparse, getattr(node, "decorator_list", [])))
            if "cache" in marks or "scope=" in marks:
                given = [one.value for one in ast.walk(node) if isinstance(one, ast.Return | ast.Yield) and one.value]
                yield from shared_generators(ast.Module(given, []))
            continue
        makes_one = isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in GENERATORS
        if makes_one and not isinstance(tree, ast.Attribute):
            yield node
        yield from shared_generators(node)


def test_the_search_for_shared_generators_finds_them() -> None:
    assert [call.lineno for call in shared_generators(ast.parse(SHARED))] == [3, 4, 6, 9, 12]


def test_no_two_tests_share_a_generator() -> None:
    """Or what one test sees would depend on which tests ran before it, and ``-k`` would change the data."""
    shared = []
    for path in sorted([*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]):
        found = shared_generators(ast.parse(path.read_text(encoding="utf-8")))
        shared += [f"{path.relative_to(ROOT)}:{call.lineno}" for call in found]
    assert shared == []


def test_the_workflow_runs_every_python_that_the_project_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = set(re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"])))
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    run = set(re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", workflow).group(1)))
    assert named <= run
    assert min(named, key=lambda minor: int(minor[2:])) == project["requires-python"].removeprefix(">=")


def matrix() -> Any:
    loader = importlib.machinery.SourceFileLoader("matrix", str(ROOT / ".ci" / "matrix"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("matrix", loader))
    loader.exec_module(module)
    return module


def test_every_level_of_a_setting_is_tried_on_whatever_processor_runs_the_cells() -> None:
    known = matrix()
    anywhere = [level for kind, level in known.PROCESSORS.items() if kind not in known.NEEDS]
    tried = {setting: {level[setting] for level in anywhere} for setting in anywhere[0]}
    assert tried["threads"] == {1, 2, 8}
    assert tried["disabled"] == {known.ALL, ""}
    assert tried["locale"] > {known.COMMAS}
    assert tried["zone"] == {known.EAST, known.WEST}
    assert len(tried["hashes"]) == 2
    assert {level["core"] for level in known.PROCESSORS.values()} == {"Prescott", "Haswell", "SkylakeX", "Zen"}


def test_the_workflow_runs_every_kind_of_processor() -> None:
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    assert re.search(r"kind: \[(.*)\]", workflow).group(1).split(", ") == list(matrix().PROCESSORS)


def test_no_test_takes_the_garbage_of_another_for_a_warning_of_its_own() -> None:
    """Python finds a file that was left open at any moment; `strictness.warnings_kept` leaves such warnings out."""
    recording = [
        path.name
        for path in (ROOT / "tests").rglob("*.py")
        if "catch_warnings(record" in path.read_text(encoding="utf-8")
    ]
    assert sorted(recording) == ["strictness.py", "test_suite.py"]


MATCHES = """
raises(ValueError, match="x")
raises(ValueError, match="x must be")
warns(UserWarning, match=f"{x} must")
raises(ValueError, match=word)
"""


def phrases(tree: ast.AST) -> Iterator[ast.keyword]:
    """Yield each `match=` with a blank: it holds words of a sentence, so whoever improves the sentence breaks the test."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "match":
            texts = [one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)]
            if any(" " in text for text in texts if isinstance(text, str)):
                yield node


def test_the_search_for_phrases_in_matches_finds_them() -> None:
    assert [match.value.lineno for match in phrases(ast.parse(MATCHES))] == [3, 4]


def test_a_test_of_an_error_matches_a_name_or_a_value_and_no_phrase() -> None:
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        matches = phrases(ast.parse(path.read_text(encoding="utf-8")))
        found += [f"{path.relative_to(ROOT)}:{match.value.lineno}" for match in matches]
    assert found == []
