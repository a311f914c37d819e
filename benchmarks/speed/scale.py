"""Tables larger than memory: seconds and peak memory from Parquet files, against DuckDB's GROUP BY of the same tables.

    python benchmarks/speed/scale.py                   # 1e6, 1e7 and 3e7 rows of 14 columns: minutes, 2 GB of disk
    python benchmarks/speed/scale.py --rows 1000000    # one size
    python benchmarks/speed/scale.py --tiny            # seconds, for the test suite

One JSON line a case, each in a process of its own, so that its peak memory is its own.  ``measure`` reads and codes the
files and counts all pairs of columns exactly (no noise: the integers are compared with DuckDB's, and never leave the
benchmark); ``again`` is a second question on the codes that were kept; ``duckdb`` is DuckDB's own GROUPING SETS of the
same tables from the same files; ``release`` is the flagship from the files to a release.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent))
from flagship_scale import simulated

COLUMNS = 14
CASES = (1_000_000, 10_000_000, 30_000_000)
TINY = (20_000, 40_000)
PIECE = 500_000
BINS = 16
STAGES = ("measure", "duckdb", "release")


def write(folder: Path, rows: int) -> None:
    """Write the simulated table as files of ``PIECE`` rows, with no index and in pieces of its own seed."""
    for number, start in enumerate(range(0, rows, PIECE)):
        table, _, _ = simulated(min(PIECE, rows - start), COLUMNS, seed=number)
        plain = {name: table[name].astype(str) if table[name].dtype == "category" else table[name] for name in table}
        pq.write_table(
            pa.table({name: pa.array(column) for name, column in plain.items()}), folder / f"{number:05d}.parquet"
        )


def pairs():
    from synthdp.domain.discretize import domain_of
    from synthdp.queries.marginals import Marginals, all_cliques

    schema = simulated(1, COLUMNS)[1]
    domain = domain_of(schema, bins=BINS)
    return schema, Marginals(domain, all_cliques(domain, 2))


def digest(sums: np.ndarray) -> str:
    import hashlib

    return hashlib.sha256(sums.astype(np.int64).tobytes()).hexdigest()[:16]


def measure(folder: Path) -> dict[str, object]:
    from synthdp.privacy.adjacency import Adjacency
    from synthdp.privacy.room import Room
    from synthdp.tables.parquet import ParquetSource

    schema, marginals = pairs()
    start, cpu = time.perf_counter(), time.process_time()
    room = Room(ParquetSource(folder), schema, Adjacency())
    sums = room.exact(marginals)
    first = time.perf_counter()
    used = time.process_time() - cpu
    room.exact(marginals)
    again = time.perf_counter() - first
    room.close()
    return {
        "seconds": round(first - start, 2), "cpu_seconds": round(used, 2), "again_seconds": round(again, 2),
        "tables": len(marginals.cliques), "cells": marginals.k, "digest": digest(sums),
    }  # fmt: skip


def group_by(folder: Path) -> dict[str, object]:
    import duckdb

    from synthdp.tables.duckdb import DuckDBSource

    schema, marginals = pairs()
    relation = duckdb.read_parquet(f"{folder}/*.parquet")
    start, cpu = time.perf_counter(), time.process_time()
    sums = DuckDBSource(relation, push_down=True).sums(marginals, schema)
    seconds, used = time.perf_counter() - start, time.process_time() - cpu
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(used, 2),
        "digest": "none" if sums is None else digest(sums),
    }


def release(folder: Path) -> dict[str, object]:
    from synthdp import AdaptiveMarginals, ApproxDP, Curator
    from synthdp.tables.parquet import ParquetSource

    schema, _ = pairs()
    start, cpu = time.perf_counter(), time.process_time()
    with Curator(ParquetSource(folder), schema=schema, budget=ApproxDP(1.0, 1e-9)) as curator:
        AdaptiveMarginals().release(curator, random_state=0)
    return {"seconds": round(time.perf_counter() - start, 2), "cpu_seconds": round(time.process_time() - cpu, 2)}


def run(stage: str, folder: Path, rows: int) -> None:
    facts = {"measure": measure, "duckdb": group_by, "release": release}[stage](folder)
    per_million = round(float(facts["seconds"]) / rows * 1e6, 3)  # type: ignore[arg-type]
    peak = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    line = {
        "case": stage,
        "rows": rows,
        "columns": COLUMNS,
        **facts,
        "seconds_per_million": per_million,
        "peak_mib": peak,
    }
    print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--rows", type=int, nargs="*")
    parser.add_argument("--folder", type=Path, help="where to write the files; default: a folder that is deleted")
    parser.add_argument("--stage", choices=STAGES)
    arguments = parser.parse_args()
    if arguments.stage:
        run(arguments.stage, arguments.folder, arguments.rows[0])
        return
    for rows in arguments.rows or (TINY if arguments.tiny else CASES):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            write(Path(folder), rows)
            for stage in STAGES:
                command = [sys.executable, str(Path(__file__).resolve()), "--stage", stage, "--folder", folder]
                subprocess.run([*command, "--rows", str(rows)], check=True)


if __name__ == "__main__":
    main()
