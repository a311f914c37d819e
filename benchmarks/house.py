"""The shape of the package in figures, read from its text: files, lines, imports, names, branches.

    python benchmarks/house.py                  # of this tree
    python benchmarks/house.py --tree /tmp/old  # of another one, such as `git archive 8b1067a | tar -x -C /tmp/old`
    python benchmarks/house.py --way            # the files that a table goes through in a default fit, as it runs
    python benchmarks/house.py --load           # CPU seconds of synthdp.SyntheticRelease beyond its libraries
    python benchmarks/house.py --same-features  # files and lines without the features of benchmarks/house_features.toml
    python benchmarks/house.py --parts          # these lines by folder and by kind; of another --tree all lines

Imports are those anywhere in a file, inside of functions too; what is imported for types alone (`if TYPE_CHECKING`) is not
counted.  Arrows between folders are of imports at the top of files.  Constants are counted by test_constants.py, and
the modules that a session loads by test_loaded_modules.py, both in tests/architecture.
"""

import argparse
import ast
import io
import subprocess
import sys
import tokenize
import tomllib
import typing
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).parents[1]
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
SHORT = 70
"""Lines of a file that may be a part of another one."""


def code_lines(text: str, tree: ast.Module) -> set[int]:
    """Numbers of the lines that hold code: no docstring, no comment, no blank line."""
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    documents = {
        line
        for node in texts
        if isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    tokens = (one for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type not in SILENT)
    return {line for one in tokens for line in range(one.start[0], one.end[0] + 1)} - documents


def for_types(tree: ast.Module) -> set[int]:
    """The lines of blocks under `if TYPE_CHECKING`."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    return {line for node in blocks for line in range(node.lineno, (node.end_lineno or 0) + 1)}


def imports_of(tree: ast.Module, modules: dict[str, Path], nodes: Iterator[ast.AST]) -> set[str]:
    """The modules of the package that some statements import."""
    types = for_types(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.lineno not in types and (node.module or "").startswith("synthdp"):
            found |= {
                f"{node.module}.{one.name}" if f"{node.module}.{one.name}" in modules else node.module
                for one in node.names
            }
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names if one.name in modules}
    return found


def top_level(tree: ast.Module) -> Iterator[ast.AST]:
    yield from tree.body


def folder_of(module: str, modules: dict[str, Path]) -> str:
    return module if modules[module].name == "__init__.py" else module.rpartition(".")[0]


def layer_of(module: str, layers: list[list[str]]) -> int | None:
    return next((n for n, names in enumerate(layers) if any(f"{module}.".startswith(f"{x}.") for x in names)), None)


def figures(root: Path) -> dict[str, object]:
    """All figures of a tree."""
    package = root / "synthdp"
    modules = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(package.rglob("*.py"))
    }
    texts = {name: path.read_text(encoding="utf-8") for name, path in modules.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    lengths = {name: len(text.splitlines()) for name, text in texts.items()}
    inner = [name for name, path in modules.items() if path.name != "__init__.py"]
    arrows = {
        (name, one)
        for name, tree in trees.items()
        for one in imports_of(tree, modules, ast.walk(tree))
        if one in modules
    } - {(name, name) for name in modules}
    first = {
        (name, one)
        for name, tree in trees.items()
        for one in imports_of(tree, modules, top_level(tree))
        if one in modules
    }
    importers = Counter(one for _, one in arrows)
    classes = Counter(
        node.name for tree in trees.values() for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )  # fmt: skip
    files = Counter(path.name for path in modules.values() if path.name != "__init__.py")
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings.get("tool", {}).get("importlinter", {}).get("contracts", [])
    layers = [
        [one.strip() for one in line.split("|")]
        for contract in contracts if contract["type"] == "layers" for line in contract["layers"]
    ]  # fmt: skip
    upward = [
        (a, b) for a, b in arrows
        if (low := layer_of(a, layers)) is not None and (high := layer_of(b, layers)) is not None and high < low
    ]  # fmt: skip
    number = {name: n for n, name in enumerate(modules)}
    edges = np.array([(number[a], number[b]) for a, b in arrows])
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(len(number), len(number)))
    _, groups = connected_components(graph, directed=True, connection="strong")
    circles = [int(size) for size in np.bincount(groups) if size > 1]
    queries = {
        name for tree in (trees[one] for one in trees if ".queries." in one or one.startswith("synthdp.works"))
        for name in (node.name for node in tree.body if isinstance(node, ast.ClassDef))
    } & asked_classes(package)  # fmt: skip
    branches = [
        (name, ast.unparse(call))
        for name, tree in trees.items() for call in ast.walk(tree)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "isinstance" and len(call.args) == 2
        and {one.id for one in ast.walk(call.args[1]) if isinstance(one, ast.Name)} & queries
    ]  # fmt: skip
    return {
        "files": len(modules),
        f"files under {SHORT} lines, without __init__": sum(lengths[name] < SHORT for name in inner),
        "files over 500 lines": sum(lengths[name] > 500 for name in inner),
        "code lines": sum(len(code_lines(texts[name], trees[name])) for name in modules),
        "modules with one importer": sum(importers[name] == 1 for name in inner),
        "arrows between files": len(arrows),
        "arrows between folders": len({(folder_of(a, modules), folder_of(b, modules)) for a, b in first
                                       if folder_of(a, modules) != folder_of(b, modules)}),
        "circles between files, their sizes": circles,
        "upward arrows": len(upward),
        "contract exemptions": sum(len(contract.get("ignore_imports", [])) for contract in contracts),
        "file names that occur twice": sorted(name for name, times in files.items() if times > 1),
        "class names that occur twice": sorted(name for name, times in classes.items() if times > 1),
        "isinstance of a class of queries": len(branches),
        "of them by module": dict(Counter(name for name, _ in branches).most_common()),
    }  # fmt: skip


def asked_classes(package: Path) -> set[str]:
    """Names of classes that a curator can be asked: they have bounds, and sums or totals of keys."""
    found: set[str] = set()
    bases: dict[str, set[str]] = {}
    own: dict[str, set[str]] = {}
    for path in package.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {ast.unparse(base).split("[")[0] for base in node.bases}
                own[node.name] = {one.name for one in node.body if isinstance(one, ast.FunctionDef)} | {
                    one.target.id
                    for one in node.body
                    if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
                }
    for name, defined in own.items():
        names, todo = set(defined), list(bases[name])
        while todo:
            base = todo.pop()
            names |= own.get(base, set())
            todo += bases.get(base, ())
        if "bounds" in names and names & {"sums", "features", "key_totals", "k"}:
            found.add(name)
    return found


def definition_of(tree: ast.Module, place: str) -> ast.stmt:
    """The function or class of a file that is called so, such as `Curator.ask`."""
    found: ast.Module | ast.ClassDef | ast.FunctionDef = tree
    for name in place.split("."):
        found = next(
            node for node in found.body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name
        )
    assert not isinstance(found, ast.Module)
    return found


def new_features() -> dict[str, Any]:
    """The features of house_features.toml, and the commit that has none of them."""
    return tomllib.loads((Path(__file__).parent / "house_features.toml").read_text(encoding="utf-8"))


def check_new(told: dict[str, Any]) -> None:
    """End the program unless what names each feature is absent from the earlier tree, and in this one."""
    for feature in told["feature"]:
        seek = ["git", "grep", "-lE", feature["absent"]]
        then, now = (
            subprocess.run([*seek, *tree, "--", "synthdp/*.py"], cwd=ROOT, capture_output=True, text=True, check=False)
            for tree in ([told["tree"]], [])
        )
        if then.stdout or then.stderr or not now.stdout:
            raise SystemExit(f"{feature['name']}: old, or not here: {then.stdout}{then.stderr}")


def without_features(root: Path, told: dict[str, Any]) -> tuple[dict[Path, set[int]], dict[str, str]]:
    """Return the code lines of the features that an earlier tree had, too, by file, and a phrase on each other feature.

    A file is new if all of it is one new feature.  Of other files the lines of the listed definitions are taken away.
    """
    package = root / "synthdp"
    texts = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    lines = {path: code_lines(text, ast.parse(text)) for path, text in texts.items()}
    by_feature = {}
    for feature in told["feature"]:
        new = [len(lines.pop(package / f"{name.replace('.', '/')}.py")) for name in feature.get("modules", ())]
        parts = 0
        for module, place in (one.split(":") for one in feature.get("parts", ())):
            path = package / f"{module.replace('.', '/')}.py"
            path = path if path.exists() else path.with_suffix("") / "__init__.py"
            node = definition_of(ast.parse(texts[path]), place)
            rest = lines[path] - set(range(node.lineno, (node.end_lineno or 0) + 1))
            parts += len(lines[path]) - len(rest)
            lines[path] = rest
        by_feature[f"  {feature['name']}"] = f"{len(new)} files with {sum(new)} lines, {parts} lines of other files"
    return lines, by_feature


def same_features(root: Path, told: dict[str, Any]) -> dict[str, object]:
    """Files and lines of the features that an earlier tree had, too, and the others by feature."""
    lines, by_feature = without_features(root, told)
    texts = [path.read_text(encoding="utf-8") for path in (root / "synthdp").rglob("*.py")]
    return {
        f"files of the features that {told['tree']} had": len(lines),
        "code lines of them": sum(map(len, lines.values())),
        "files, code lines of all features": (
            len(texts),
            sum(len(code_lines(text, ast.parse(text))) for text in texts),
        ),
        "new features": "",
        **by_feature,
    }


def kinds_of(tree: ast.Module, code: set[int]) -> Counter[str]:
    """The number of some lines of code by what stands on them: an import, the head of a function, a class or field, ..."""
    kinds: dict[int, str] = {}

    def put(first: int, last: int | None, kind: str) -> None:
        kinds.update({line: kind for line in range(first, (last or first) + 1) if line not in kinds})

    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            put(node.lineno, node.end_lineno, "imports")
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            kind = "heads of functions" if isinstance(node, ast.FunctionDef) else "classes and fields"
            put(first, max(first, node.body[0].lineno - 1), kind)
            if isinstance(node, ast.ClassDef):
                for one in node.body:
                    if isinstance(one, ast.Assign | ast.AnnAssign):
                        put(one.lineno, one.end_lineno, kind)
        elif isinstance(node, ast.Raise):
            put(node.lineno, node.end_lineno, "errors and their sentences")
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            put(node.lineno, node.end_lineno, "constants")
    return Counter(kinds.get(line, "other statements") for line in code)


def parts(root: Path, told: dict[str, Any]) -> dict[str, object]:
    """The lines of the features that an earlier tree had, too, by folder and by kind."""
    lines, _ = without_features(root, told)
    folders, kinds, functions = Counter[str](), Counter[str](), 0
    for path, code in lines.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        folder, *deeper = path.relative_to(root / "synthdp").parts
        folders[folder if deeper else "at the top"] += len(code)
        kinds.update(kinds_of(tree, code))
        functions += sum(isinstance(node, ast.FunctionDef) and node.lineno in code for node in ast.walk(tree))
    return {"by folder": dict(folders.most_common()), "by kind": dict(kinds.most_common()), "functions": functions}


def of_same_features(root: Path) -> dict[str, object]:
    told = new_features()
    check_new(told)
    return same_features(root, told)


DEPTH = 3
"""How deep the table may lie inside of an argument: a source, a private table, a guarded table."""


def holds(value: object, table: object, depth: int = DEPTH) -> bool:
    """Say whether something is the table, or an object of the package that holds it."""
    if value is table or depth == 0 or not type(value).__module__.startswith("synthdp"):
        return value is table
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if isinstance(name, str)]
    names = {*getattr(value, "__dict__", ()), *slots}
    return any(holds(getattr(value, name, None), table, depth - 1) for name in names)


def way() -> dict[str, object]:
    """The calls of a default fit that are given the table, until a curator holds it, by the file that they are in.

    A stay is a run of such calls in one file, and a return one in a file that was left before.
    """
    import pandas as pd

    import synthdp as sd
    from synthdp.curator.guarded_table import GuardedTable

    table = pd.DataFrame({"age": [1, 2, 3, 4] * 50, "member": [True, False] * 100})
    schema = sd.Schema({"age": sd.Integer(0, 9), "member": sd.Boolean()})
    stays: list[str] = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        path, code = frame.f_code.co_filename, frame.f_code
        if event != "call" or "/synthdp/" not in path:
            return
        if frame.f_back is not None and frame.f_back.f_code.co_filename == typing.__file__:
            return  # `isinstance` of a protocol asks for its properties, in random order; Python 3.12 no longer does
        given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(holds(frame.f_locals.get(name), table) for name in given):
            stays.append(path.split("/synthdp/")[-1])
        if code is GuardedTable.__init__.__code__:
            sys.setprofile(None)

    sd.SyntheticRelease(schema=schema, random_state=0).fit(table)  # modules are loaded now
    estimator = sd.SyntheticRelease(schema=schema, random_state=0)
    sys.setprofile(watch)
    try:
        estimator.fit(table)
    finally:
        sys.setprofile(None)
    runs = [one for one, before in zip(stays, ["", *stays], strict=False) if one != before]
    return {"stays": len(runs), "files": len(set(runs)), "returns": len(runs) - len(set(runs)), "way": " → ".join(runs)}


LIBRARIES = """
import numpy, pandas, scipy.stats, scipy.optimize, scipy.sparse, sklearn.base, sklearn.utils.validation
import sklearn.utils.metaestimators, time, synthdp
t = time.process_time(); synthdp.SyntheticRelease; print(time.process_time() - t)
"""


def load(runs: int = 5) -> dict[str, float]:
    """The least of some runs, with bytecode."""
    seconds = [
        float(
            subprocess.run(
                [sys.executable, "-c", LIBRARIES], cwd=ROOT, capture_output=True, text=True, check=True
            ).stdout
        )
        for _ in range(runs)
    ]
    return {"CPU seconds of synthdp.SyntheticRelease beyond its libraries": round(min(seconds), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=ROOT)
    parser.add_argument("--way", action="store_true")
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--same-features", action="store_true")
    parser.add_argument("--parts", action="store_true")
    told = parser.parse_args()
    counted = (
        way() if told.way else load() if told.load else of_same_features(told.tree) if told.same_features
        else parts(told.tree, new_features() if told.tree == ROOT else {"feature": []}) if told.parts
        else figures(told.tree)
    )  # fmt: skip
    for name, value in counted.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
