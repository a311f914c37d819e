"""Processor seconds of whole releases in this tree and in another one, in turns, in one run.

    git worktree add ../old 8b1067a
    python benchmarks/speed/side_by_side.py --other ../old [--cases adult,small,...] [--repeats 5] [--threads 1]

Every measurement is a process of its own that loads the package of one tree: it fits and samples twice to be warm (a
small table once, before a million rows), then takes the least of three.  Modules are compiled before what counts.
``first`` is a whole process with its imports, ``help`` and ``plan`` are the command line.  Prints one JSON line a case:
least processor seconds of both trees, their ratio, and the load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]
WARM = 2
"""Releases before the first one that counts."""

COUNTED = 3
"""Releases of a process that count; fewer of a million rows."""


def adult() -> tuple[Any, Any]:
    """Adult, 80 % of its rows."""
    from synthdp import data

    table = data.adult()
    return table.iloc[: len(table) * 4 // 5], data.adult_schema()


def made(rows: int, numbers: int, labels: int) -> tuple[Any, Any]:
    """Columns in two groups that hang together: numbers of 101 values, labels of four."""
    import numpy as np
    import pandas as pd

    import synthdp as sd

    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(2, rows))
    table, columns = {}, {}
    for j in range(numbers):
        table[f"n{j}"] = np.clip(np.rint(50 + 15 * (hidden[j % 2] + rng.normal(size=rows))), 0, 100).astype(np.int64)
        columns[f"n{j}"] = sd.Integer(0, 100)
    for j in range(labels):
        code = np.clip(np.rint(1.5 + hidden[j % 2] + rng.normal(size=rows)), 0, 3).astype(int)
        table[f"c{j}"] = np.array(list("abcd"))[code]
        columns[f"c{j}"] = sd.Categorical(list("abcd"))
    return pd.DataFrame(table), sd.Schema(columns)


TABLES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "adult": adult,
    "small": lambda: made(500, 4, 4),
    "middle": lambda: made(30_000, 4, 4),
    "wide": lambda: made(20_000, 30, 30),
    "million": lambda: made(1_000_000, 8, 7),
    "million wide": lambda: made(1_000_000, 49, 49),
}
"""Rows and schema of a case."""

PROCESSES = ("first", "help", "plan")
"""Cases that are whole processes."""


def one(case: str) -> dict[str, float]:
    """Fit and sample in this process; the least processor seconds of both and of each."""
    import synthdp as sd

    large = case.startswith("million")
    if large:  # the first release of a process pays for imports, which have cases of their own
        few, known = TABLES["small"]()
        sd.SyntheticRelease(schema=known, epsilon=1.0, delta=1e-9, random_state=0).fit(few).sample(len(few))
    table, schema = TABLES[case]()
    found = []
    for seed in range((0 if large else WARM) + (1 if large else COUNTED)):
        start = time.process_time()
        release = sd.SyntheticRelease(schema=schema, epsilon=1.0, delta=1e-9, random_state=seed).fit(table)
        fitted = time.process_time()
        release.sample(len(table))
        found.append((fitted - start, time.process_time() - fitted))
    counted = found if large else found[WARM:]
    return {
        "both": min(fit + sample for fit, sample in counted),
        "fit": min(fit for fit, _ in counted),
        "sample": min(sample for _, sample in counted),
    }


def command_of(case: str, environment: dict[str, str], folder: Path) -> list[str]:
    """Return the command of a case; a tree writes the schema of ``plan`` itself."""
    if case == "help":
        return [sys.executable, "-m", "synthdp", "--help"]
    if case == "plan":
        code = "from synthdp.data import adult_schema; adult_schema().write('adult.json')"
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, cwd=folder)
        return [sys.executable, "-m", "synthdp", "plan", "adult.json", "--rows", "32561", "--epsilon", "1"]
    return [sys.executable, __file__, *(("--once", "adult") if case == "first" else ("--case", case))]


def seconds(tree: Path, case: str, threads: int) -> dict[str, float]:
    """Processor seconds of a case in a tree."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, str(threads)) | {"PYTHONPATH": str(tree)}
    with tempfile.TemporaryDirectory() as folder:
        command = command_of(case, environment, Path(folder))
        before = os.times()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=folder)
        after = os.times()
    if case in PROCESSES:
        return {"both": after.children_user + after.children_system - before.children_user - before.children_system}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure, in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, help="the other tree")
    parser.add_argument("--cases", default="adult,small,middle,wide,first,help,plan")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--case", choices=TABLES, help=argparse.SUPPRESS)
    parser.add_argument("--once", choices=TABLES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(one(options.case)))
        return
    if options.once:
        import synthdp as sd

        table, schema = TABLES[options.once]()
        sd.SyntheticRelease(schema=schema, epsilon=1.0, delta=1e-9, random_state=0).fit(table).sample(len(table))
        return
    trees = {"here": HERE} | ({"other": options.other.resolve()} if options.other else {})
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as compiled:  # as an installed package is; a tree has nothing compiled
        os.environ["PYTHONPYCACHEPREFIX"] = compiled
        compare(trees, options.cases.split(","), repeats=options.repeats, threads=options.threads)


def compare(trees: dict[str, Path], cases: list[str], *, repeats: int, threads: int) -> None:
    """Print one line a case."""
    for case in cases:
        if case in PROCESSES:
            for tree in trees.values():
                seconds(tree, case, threads)  # compiles what it loads
        found: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
        for _ in range(repeats):
            for name, tree in trees.items():
                found[name].append(seconds(tree, case, threads))
        line: dict[str, Any] = {"benchmark": "side by side", "case": case, "load": round(os.getloadavg()[0], 1)}
        for part in found["here"][0]:
            least = {name: round(min(run[part] for run in runs), 3) for name, runs in found.items()}
            line[part] = least | ({"ratio": round(least["here"] / least["other"], 2)} if "other" in least else {})
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
