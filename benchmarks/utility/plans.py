"""Predicted against measured: `synthdp.plan` beside real releases of Adult and hmeq (not private; a benchmark).

    python benchmarks/utility/plans.py [--seeds 3] [--tiny] [--out plans.jsonl]

One JSON line for each table and epsilon: mean three-way error and CPU seconds over releases (noise is fresh in each),
predicted and measured, and their ratios.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from flagship import HMEQ, adult_table, hmeq_table, split
from metrics import marginal_error

from synthdp import Schema, SyntheticRelease


def measured(train: pd.DataFrame, schema: Schema, epsilon: float, *, seeds: int) -> tuple[float, float]:
    """Return mean three-way error and CPU seconds of releases."""
    errors, seconds = [], []
    for seed in range(seeds):
        started = time.process_time()
        synthetic = SyntheticRelease(schema=schema, epsilon=epsilon, random_state=seed).fit_transform(train)
        seconds.append(time.process_time() - started)
        errors.append(marginal_error(train, synthetic, schema))
    return float(np.mean(errors)), float(np.mean(seconds))


def compared(name: str, epsilon: float, predicted: tuple[float, float], found: tuple[float, float]) -> dict[str, Any]:
    """Return a line of the result."""
    return {"table": name, "epsilon": epsilon} | {
        what: {"predicted": round(a, 4), "measured": round(b, 4), "ratio": round(a / b, 2)}
        for what, a, b in zip(("three_way", "seconds"), predicted, found, strict=True)
    }


def main() -> None:
    """Plan, release and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tiny", action="store_true", help="Adult at epsilon 1 only, one seed")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    tables = {"adult": adult_table} | ({"hmeq": hmeq_table} if HMEQ.exists() and not options.tiny else {})
    lines = []
    for name, load in tables.items():
        table, schema = load()
        train, _ = split(table, rows=None)
        for epsilon in (1.0,) if options.tiny else (0.1, 1.0, 10.0):
            plan = SyntheticRelease(schema=schema, epsilon=epsilon).plan(rows=len(train))
            found = measured(train, schema, epsilon, seeds=1 if options.tiny else options.seeds)
            lines.append(json.dumps(compared(name, epsilon, (plan.errors[3], plan.seconds), found)))
            print(lines[-1], flush=True)
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
