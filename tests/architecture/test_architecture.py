"""The shape of the package, checked: imports, docstrings, what is slow to import; style and types with held versions."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "synthdp"


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All nodes of a module's tree, read once; the module comes first."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.style
def test_imports_follow_the_layers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from importlinter.cli import lint_imports

    monkeypatch.chdir(ROOT)
    status = lint_imports(no_cache=True)
    assert status == 0, capsys.readouterr().out


@pytest.mark.style
def test_ruff_finds_nothing() -> None:
    found = run("ruff", "check", "--no-cache", ".")
    assert found.returncode == 0, found.stdout


@pytest.mark.style
def test_everything_is_formatted() -> None:
    found = run("ruff", "format", "--no-cache", "--check", ".")
    assert found.returncode == 0, found.stdout


@pytest.mark.style
def test_mypy_finds_nothing() -> None:
    found = run("mypy")
    assert found.returncode == 0, found.stdout


SPENDS = {"measure", "histogram", "watch", "select", "discover", "open_account", "charge", "reserve"}
"""Methods that charge an account or a ledger: every spend of the package goes through one of them."""


def reaches_the_curator(function: ast.FunctionDef) -> bool:
    """Say whether a function is a door to the rows, asks one, or hands on a curator that it was given."""
    parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    curators = {a.arg for a in parameters if a.annotation is not None and "Curator" in ast.unparse(a.annotation)}
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    asked = {call.func.attr for call in calls if isinstance(call.func, ast.Attribute)}
    handed_on = {
        value.id
        for call in calls
        for value in [*call.args, *(keyword.value for keyword in call.keywords)]
        if isinstance(value, ast.Name)
    }
    return function.name in SPENDS or bool(asked & SPENDS or handed_on & curators)


def is_property(function: ast.FunctionDef) -> bool:
    return "property" in {getattr(decorator, "id", "") for decorator in function.decorator_list}


def helpers_of(function: ast.FunctionDef) -> set[str]:
    """Return the private functions and methods that a function calls."""
    called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    names = {c.attr if isinstance(c, ast.Attribute) else getattr(c, "id", "") for c in called}
    return {name for name in names if name.startswith("_")}


def public_spenders(path: Path) -> list[tuple[str, str]]:
    """Return name and docstring of all that is public in a module and reaches the curator, perhaps by its helpers.

    A class that has a spending ``release`` or ``open`` is a mechanism, and counts itself.
    """
    functions = [node for node in nodes_of(path) if isinstance(node, ast.FunctionDef) and not is_property(node)]
    reaching = {function.name for function in functions if reaches_the_curator(function)}
    while more := {f.name for f in functions if f.name not in reaching and helpers_of(f) & reaching}:
        reaching |= more
    found: list[tuple[str, ast.FunctionDef | ast.ClassDef]] = []
    for node in nodes_of(path)[0].body:
        if isinstance(node, ast.ClassDef):
            methods = [m for m in functions if m in node.body and m.name in reaching]
            found += [(f"{node.name}.{method.name}", method) for method in methods]
            found += [(node.name, node)] * bool({"release", "open"} & {method.name for method in methods})
        elif isinstance(node, ast.FunctionDef) and node.name in reaching:
            found.append((node.name, node))
    where = path.relative_to(PACKAGE)
    return [
        (f"{where}:{name}", ast.get_docstring(node) or "")
        for name, node in found
        if not any(part.startswith("_") for part in name.split("."))
    ]


@pytest.mark.landing
def test_everything_public_that_reaches_the_curator_says_what_it_costs() -> None:
    folders = ("curator", "privacy", "mechanisms", "works")
    spenders = [
        item for folder in folders for path in (PACKAGE / folder).rglob("*.py") for item in public_spenders(path)
    ]
    assert len(spenders) > 60
    assert [name for name, text in spenders if not re.search(r"(^|\s)Costs\b", text)] == []


def test_the_adaptive_plan_keeps_no_state_that_changes() -> None:
    """Its stages take what is known and return what is known then; no statement assigns to an attribute."""
    folder = PACKAGE / "mechanisms"
    others = [
        *folder.glob("column_*.py"),
        *folder.glob("wide_*.py"),
        *(folder / f"{n}.py" for n in ("places", "allocation")),
    ]
    paths = [*(folder / "adaptive").glob("*.py"), *others]
    changed = [
        (path.name, node.lineno)
        for path in paths
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del))
    ]
    assert len(paths) > 10
    assert changed == []


@pytest.mark.landing
def test_nothing_measures_the_private_row_count_outside_the_room() -> None:
    """R3: no `len(frame)` or `.shape` of a dataframe in the mechanisms, the façade or the command line."""
    names = {"frame", "df", "X", "table", "source"}
    # the synthetic table; a plain transformer; a table of a query's coefficients; labels as many as the rows given with them
    allowed = {
        ("main.py", "table"),
        ("transformers.py", "X"),
        ("list_coefficients.py", "table"),
        ("estimator_input.py", "frame"),
    }
    found = []
    for path in [
        path for folder in ("mechanisms", "works", "estimators", "cli") for path in (PACKAGE / folder).rglob("*.py")
    ]:
        for node in nodes_of(path):
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
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef):
                parameters = {a.arg for a in [*node.args.args, *node.args.kwonlyargs]}
                assert not parameters & {"seed", "rng", "random_state", "generator"}, f"{path.name}:{node.name}"


READS_ROWS = (
    "tables",
    "domain",
    "nonprivate",
    "curator/contribution.py",
    "estimators/train_on_synthetic.py",
    "cli/result_commands.py",
)
"""What meets cells, and the errors of libraries that met them."""


@pytest.mark.landing
def test_no_error_that_may_quote_a_cell_clings_to_one_of_ours() -> None:
    """R9: what is raised while another error is handled keeps that one in ``__context__``, ``from None`` or not.

    `synthdp.tables.refusals.instead_of` is the one place where an error takes another's place.
    """
    found = []
    for path in [path for part in READS_ROWS for path in (sorted((PACKAGE / part).rglob("*.py")) or [PACKAGE / part])]:
        for node in nodes_of(path):
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


UNSTABLE = {"argsort", "argpartition", "sort_values", "nlargest", "nsmallest"}


@pytest.mark.landing
def test_equal_numbers_keep_their_order_whatever_the_processor() -> None:
    """NumPy's default sort moves equal numbers about, and each kind of processor does so in its own way."""
    moved = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if not any(f".{name}(" in path.read_text(encoding="utf-8") for name in UNSTABLE):
            continue
        calls = [node for node in nodes_of(path) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
        for call in calls:
            stable = any(ast.unparse(one) == "kind='stable'" for one in call.keywords)
            if call.func.attr in UNSTABLE and not stable:
                moved.append(f"{path.relative_to(PACKAGE)}:{call.lineno}: {call.func.attr}")
    assert moved == []
