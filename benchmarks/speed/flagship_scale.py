"""Seconds and memory of the flagship, from a dataframe to a synthetic dataframe, on tables of known structure.

Every case runs in a process of its own, so that its peak memory is its own.  One JSON line a case:

    python benchmarks/speed/flagship_scale.py                 # 1M x 14, 1M x 98, and three sizes for the slope
    python benchmarks/speed/flagship_scale.py --tiny          # a second or two, for the test suite
    python benchmarks/speed/flagship_scale.py --case 200000 40

The simulated table is a random tree of columns: each one follows its parent with probability STRENGTH and is
drawn afresh otherwise, so that the pairs that matter are known.  ``edge_tv`` is the mean total variation distance between
the synthetic and the real tables of those pairs (at most 8 x 8 groups); ``independent_edge_tv`` is what independent
columns would have.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from synthdp import AdaptiveMarginals, ApproxDP, Boolean, Categorical, Continuous, Curator, Integer, Ordinal, Schema

STRENGTH = 0.6
DELTA = 1e-9
CASES = ((1_000_000, 14), (1_000_000, 98), (250_000, 14), (500_000, 14), (250_000, 98), (500_000, 98))
TINY = ((2_000, 6), (4_000, 6))


def simulated(rows: int, columns: int, *, seed: int = 0) -> tuple[pd.DataFrame, Schema, list[tuple[int, int]]]:
    """Return a mixed table, its schema and the edges of the tree that it was drawn from."""
    rng = np.random.default_rng(seed)
    edges: list[tuple[int, int]] = []
    ranks: dict[int, np.ndarray] = {}  # of the last columns only: those that the next one may follow
    table: dict[str, object] = {}
    kinds: dict[str, object] = {}
    for j in range(columns):
        rank = rng.random(rows, dtype=np.float32)
        if j:
            parent = int(rng.integers(max(0, j - 4), j))
            edges.append((parent, j))
            follows = rng.random(rows, dtype=np.float32) < STRENGTH
            near = np.abs(ranks[parent] + rng.normal(0, 0.05, rows).astype(np.float32)) % 1
            rank = np.where(follows, near, rank)
        ranks[j] = rank
        ranks.pop(j - 4, None)
        name = f"c{j:02d}"
        table[name], kinds[name] = _column(j, rank, rng)
    return pd.DataFrame(table, copy=False), Schema(kinds), edges  # type: ignore[arg-type]


def _column(j: int, rank: np.ndarray, rng: np.random.Generator) -> tuple[object, object]:
    match j % 7:
        case 0:
            return np.floor(17 + 73 * rank**1.5).astype(np.int64), Integer(17, 90)
        case 1:
            return pd.Categorical.from_codes((rank * 9).astype(np.int8), list("abcdefghi")), Categorical(
                list("abcdefghi")
            )
        case 2:
            value = np.where(rank < 0.4, 0.0, np.round(1e4 * (rank - 0.4).clip(0) ** 2, 2))
            return value, Continuous(0, 5000)
        case 3:
            return rank > 0.7, Boolean()
        case 4:
            levels = ["low", "mid", "high", "top"]
            return pd.Categorical.from_codes((rank * 4).astype(np.int8), levels), Ordinal(levels)
        case 5:
            value = (200 * rank).round(1).astype(np.float64)
            value[rng.random(len(rank)) < 0.05] = np.nan
            return value, Continuous(0, 200, nullable=True)
        case _:
            levels = [f"v{i:02d}" for i in range(42)]
            return np.array(levels, object)[(rank**2 * 42).astype(np.int64)], Categorical(levels)


def grouped(column: pd.Series) -> np.ndarray:
    """Return at most 8 public groups of a column's values."""
    if column.dtype.kind in "biuf":
        values = column.to_numpy(np.float64)
        return np.where(np.isnan(values), 7, np.digitize(values, [0.001, 0.5, 20, 40, 100, 400])).astype(np.int64)
    labels = column.astype(str).to_numpy()
    levels = sorted({*labels})
    position = {level: i * 8 // max(8, len(levels)) for i, level in enumerate(levels)}
    return np.array([position[label] for label in labels])


def edge_error(real: pd.DataFrame, synthetic: pd.DataFrame, edges: list[tuple[int, int]]) -> tuple[float, float]:
    """Return the mean total variation distance over the edges, of the synthetic table and of independent columns."""
    groups = [{name: grouped(frame[name]) for name in frame} for frame in (real, synthetic)]
    found, independent = [], []
    for a, b in edges[:60]:
        names = real.columns[a], real.columns[b]
        tables = [np.bincount(8 * g[names[0]] + g[names[1]], minlength=64) / len(g[names[0]]) for g in groups]
        found.append(np.abs(tables[0] - tables[1]).sum() / 2)
        margin = tables[0].reshape(8, 8)
        independent.append(np.abs(margin - np.outer(margin.sum(1), margin.sum(0))).sum() / 2)
    return float(np.mean(found)), float(np.mean(independent))


def run_case(rows: int, columns: int, epsilon: float) -> dict[str, object]:
    table, schema, edges = simulated(rows, columns)
    before = peak_mebibytes()
    start, cpu = time.perf_counter(), time.process_time()
    with Curator(table, schema=schema, budget=ApproxDP(epsilon, DELTA)) as curator:
        release = AdaptiveMarginals().release(curator, random_state=0)
        released = time.perf_counter()
    synthetic = release.output.sample(rows, random_state=1)
    sampled, used = time.perf_counter(), time.process_time() - cpu
    peak = peak_mebibytes()
    scored = min(rows, 200_000)
    error, independent = edge_error(table.head(scored), synthetic.head(scored), edges)
    return {
        "case": "flagship", "rows": rows, "columns": columns, "epsilon": epsilon,
        "release_seconds": round(released - start, 2), "sample_seconds": round(sampled - released, 2),
        "seconds": round(sampled - start, 2), "cpu_seconds": round(used, 2),
        "microseconds_per_row": round(1e6 * (sampled - start) / rows, 2),
        "peak_mib": round(peak), "input_mib": round(before), "edge_tv": round(error, 4),
        "independent_edge_tv": round(independent, 4),
    }  # fmt: skip


def peak_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--case", nargs=2, type=int, metavar=("ROWS", "COLUMNS"))
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(run_case(*arguments.case, arguments.epsilon)), flush=True)
        return
    for rows, columns in TINY if arguments.tiny else CASES:
        command = [sys.executable, str(Path(__file__).resolve()), "--epsilon", str(arguments.epsilon)]
        subprocess.run([*command, "--case", str(rows), str(columns)], check=True)


if __name__ == "__main__":
    main()
