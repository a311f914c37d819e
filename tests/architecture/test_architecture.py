"""The shape of the package, checked: imports, style, types, docstrings."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "synthdp"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)


def test_imports_follow_the_layers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    status = lint_imports(no_cache=True)
    assert status == 0, capsys.readouterr().out


def test_ruff_finds_nothing() -> None:
    found = run("ruff", "check", "--no-cache", ".")
    assert found.returncode == 0, found.stdout


def test_everything_is_formatted() -> None:
    found = run("ruff", "format", "--no-cache", "--check", ".")
    assert found.returncode == 0, found.stdout


def test_mypy_finds_nothing() -> None:
    found = run("mypy")
    assert found.returncode == 0, found.stdout


def public_callables() -> list[tuple[str, str | None]]:
    found = []
    for path in sorted(
        path for folder in ("curator", "privacy", "mechanisms") for path in (PACKAGE / folder).rglob("*.py")
    ):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name.startswith("_"):
                continue
            found.append((f"{path.relative_to(PACKAGE)}:{node.name}", ast.get_docstring(node)))
            methods = [m for m in node.body if isinstance(m, ast.FunctionDef)] if isinstance(node, ast.ClassDef) else []
            for method in methods:
                decorators = {
                    d.attr if isinstance(d, ast.Attribute) else getattr(d, "id", "") for d in method.decorator_list
                }
                if not method.name.startswith("_") and "property" not in decorators:
                    found.append((f"{path.relative_to(PACKAGE)}:{node.name}.{method.name}", ast.get_docstring(method)))
    return found


def test_everything_public_in_the_room_and_the_mechanisms_says_what_it_costs() -> None:
    callables = public_callables()
    assert len(callables) > 80
    silent = [name for name, text in callables if not re.search(r"(^|\s)Costs\b", text or "")]
    assert silent == []


def test_nothing_measures_the_private_row_count_outside_the_room() -> None:
    """R3: no `len(frame)` or `.shape` of a dataframe in the mechanisms, the façade or the command line."""
    names = {"frame", "df", "X", "table", "source"}
    allowed = {("main.py", "table"), ("transformers.py", "X")}  # the synthetic table; a plain transformer
    found = []
    for path in [path for folder in ("mechanisms", "estimators", "cli") for path in (PACKAGE / folder).rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            counted = None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and node.args:
                counted = node.args[0]
            if isinstance(node, ast.Attribute) and node.attr == "shape":
                counted = node.value
            if isinstance(counted, ast.Name) and counted.id in names and (path.name, counted.id) not in allowed:
                found.append((path.name, counted.id, node.lineno))
    assert found == []


def test_noise_takes_no_seed_and_measuring_takes_no_generator() -> None:
    """R6: nothing that draws noise has a parameter through which a seed could come."""
    for path in [*(PACKAGE / "privacy").glob("*.py"), *(PACKAGE / "curator").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                parameters = {a.arg for a in [*node.args.args, *node.args.kwonlyargs]}
                assert not parameters & {"seed", "rng", "random_state", "generator"}, f"{path.name}:{node.name}"


def test_the_package_has_no_assert_and_no_bare_except() -> None:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not isinstance(node, ast.Assert), path
            assert not (isinstance(node, ast.ExceptHandler) and node.type is None), path


READS_ROWS = (
    "tables",
    "domain",
    "nonprivate",
    "curator/contribution.py",
    "estimators/train_on_synthetic.py",
    "cli/results.py",
)
"""What meets cells, and the errors of libraries that met them."""


def test_no_error_that_may_quote_a_cell_clings_to_one_of_ours() -> None:
    """R9: what is raised while another error is handled keeps that one in ``__context__``, ``from None`` or not.

    `synthdp.tables.refusals.instead_of` is the one place where an error takes another's place.
    """
    found = []
    for path in [path for part in READS_ROWS for path in (sorted((PACKAGE / part).rglob("*.py")) or [PACKAGE / part])]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            handlers = [node] if isinstance(node, ast.ExceptHandler) else []
            raised = [
                r for handler in handlers for r in ast.walk(handler) if isinstance(r, ast.Raise) and r.exc is not None
            ]
            raised += [node] if isinstance(node, ast.Raise) and node.cause is not None else []
            raised += [node] if isinstance(node, ast.FunctionDef) and node.name == "__exit__" else []
            found += [f"{path.relative_to(PACKAGE)}:{r.lineno}" for r in raised if path.name != "refusals.py"]
    assert found == []


def test_importing_the_package_does_not_import_what_is_slow() -> None:
    slow = ["cvxpy", "dp_accounting", "matplotlib", "polars", "pyspark"]
    code = f"import sys, synthdp; print([m for m in {slow} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
