"""NLTCS, sixteen binary columns of 21 574 people, beside the best unbiased way to answer all tables of three columns.

    python benchmarks/utility/nltcs.py [--tiny] [--columns 23] [--seeds 3] [--out results.jsonl]

Three-way error: mean total variation distance of all 560 tables of three columns of the synthetic rows,
delta 1e-9, at epsilon .03 to 10.  ``optimum`` is what the noise alone would leave of unbiased
answers to all these tables, in closed form (Xiao et al. 2023): no release, and no run.  The table is read from
../shared/data/boards/nltcs.csv (sixteen columns of 0 and 1; the National Long Term Care Survey as the field uses it).
Without it, and with ``--tiny``, one of as many columns is simulated, with ``--columns`` one of so many and 20 000 rows.
One JSON line a run, then a Markdown table of means.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from json_lines import keep

from synthdp import AdaptiveMarginals, ApproxDP, Categorical, Curator, Schema
from synthdp.mechanisms.adaptive.optimum import optimum_of
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.workload import Workload
from synthdp.privacy.calibration import gaussian_account
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.contingency import contingency

DELTA = 1e-9
EPSILONS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
TABLE = Path(__file__).parents[2] / "../shared/data/boards/nltcs.csv"
COLUMNS = 16


def simulated(rows: int, columns: int = COLUMNS) -> pd.DataFrame:
    """Return binary columns that two common factors tie together."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((rows, 2))
    latent = factors @ rng.uniform(0, 1.5, (2, columns)) + rng.standard_normal((rows, columns))
    return pd.DataFrame((latent > rng.uniform(0.5, 3, columns)).astype(int), columns=[str(j) for j in range(columns)])


def three_way_error(real: np.ndarray, tables: Any) -> float:
    """Return the mean distance of all tables of three columns; ``tables`` gives the shares of one."""
    cliques = list(itertools.combinations(range(real.shape[1]), 3))
    shape = (2,) * real.shape[1]
    distances = [np.abs(contingency(real, shape, c) / len(real) - tables(c)).sum() / 2 for c in cliques]
    return float(np.mean(distances))


def best_unbiased(rows: int, columns: int, epsilon: float) -> float:
    """Return the error of the optimum for this many rows and columns, which needs no data."""
    budget = BudgetAllocation(gaussian_account(ApproxDP(epsilon, DELTA)), Adjacency())
    found = optimum_of((2,) * columns, Workload(), budget, total=rows, most_cells=2**columns)
    return float("nan") if found is None else found.error


def run(table: pd.DataFrame, epsilon: float, seed: int) -> dict[str, Any]:
    """Release once, and measure."""
    schema = Schema({name: Categorical([0, 1]) for name in table})
    start = time.perf_counter()
    curator = Curator(table, schema=schema, budget=ApproxDP(epsilon, DELTA))
    release = AdaptiveMarginals().release(curator, random_state=seed)
    rows = release.sample(random_state=seed)[list(table)].to_numpy(np.int64)
    seconds = time.perf_counter() - start
    real, shape = table.to_numpy(np.int64), (2,) * table.shape[1]
    return {
        "data": "nltcs",
        "epsilon": epsilon,
        "seed": seed,
        "three_way": three_way_error(real, lambda clique: contingency(rows, shape, clique) / len(rows)),
        "seconds": seconds,
    }


def markdown(records: list[dict[str, Any]]) -> str:
    """Return means over seeds, a row for each epsilon."""
    lines = ["| epsilon | three-way | optimum | seconds |", "|---|---|---|---|"]
    for epsilon in dict.fromkeys(record["epsilon"] for record in records):
        runs = [record for record in records if record["epsilon"] == epsilon]
        means = [float(np.mean([one[name] for one in runs])) for name in ("three_way", "optimum", "seconds")]
        lines.append(f"| {epsilon:g} | {means[0]:.5f} | {means[1]:.5f} | {means[2]:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Run all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--columns", type=int, help="of a simulated table of 20 000 rows, instead of NLTCS")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.tiny or options.columns or not TABLE.exists():
        table = simulated(2000 if options.tiny else 20_000, options.columns or COLUMNS)
    else:
        table = pd.read_csv(TABLE)
    records = []
    for epsilon in EPSILONS[-2:] if options.tiny else EPSILONS:
        best = best_unbiased(len(table), table.shape[1], epsilon)
        for seed in range(1 if options.tiny else options.seeds):
            named = {"data": f"simulated, {options.columns} columns"} if options.columns else {}
            records.append(run(table, epsilon, seed) | named | {"optimum": best})
            print(json.dumps(records[-1]), flush=True)
    keep(records, markdown(records), options.out)


if __name__ == "__main__":
    main()
