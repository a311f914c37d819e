"""Tables larger than memory: seconds and peak memory from Parquet files, against DuckDB's GROUP BY of the same tables.

    python benchmarks/speed/scale.py                   # 1e6, 1e7 and 3e7 rows of 14 columns: minutes, 1 GB of disk
    python benchmarks/speed/scale.py --rows 1000000    # one size
    python benchmarks/speed/scale.py --data folder     # keep the files there, or use those that are there
    python benchmarks/speed/scale.py --tiny            # seconds, for the test suite

One JSON line a stage, each in a process of its own, so that its peak memory (with its children's) is its own, and a
summary.  ``measure`` reads and codes the files and counts all pairs of columns exactly (no noise: the integers are
compared with DuckDB's, and never leave the benchmark); ``again`` is a second question on the codes that were kept;
``start`` is the same on a thousand rows beforehand: imports and public tables, which do not depend on rows.
``grouping sets`` is DuckDB counting the same tables by GROUPING SETS straight from the files; ``group by`` is DuckDB coding
the files into a table of its own once and then grouping it by every pair; the summary compares with the faster of the two.
``release`` is the flagship from the files to a release and, in blocks, to a file of as many synthetic rows.  The summary's
``spread`` compares what a million rows more cost from size to size: about a tenth of a second is for the process's first
memory, whatever the number of rows, and a third of the time of 1e6.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
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
STAGES = ("measure", "grouping sets", "group by", "release")
MOST_MIB, MOST_SPREAD, MOST_RATIO = 1024, 0.20, 3.0


def write(folder: Path, rows: int) -> None:
    """Write the simulated table as files of ``PIECE`` rows, with no index and in pieces of its own seed."""
    for number, start in enumerate(range(0, rows, PIECE)):
        table, _, _ = simulated(min(PIECE, rows - start), COLUMNS, seed=number)
        plain = {name: table[name].astype(str) if table[name].dtype == "category" else table[name] for name in table}
        pq.write_table(
            pa.table({name: pa.array(column) for name, column in plain.items()}), folder / f"{number:05d}.parquet"
        )


def pairs():
    from synthdp.domain.domain import domain_of
    from synthdp.queries.marginals import Marginals, all_cliques

    schema = simulated(1, COLUMNS)[1]
    domain = domain_of(schema, bins=BINS)
    return schema, Marginals(domain, all_cliques(domain, 2))


def digest(sums: np.ndarray) -> str:
    import hashlib

    return hashlib.sha256(sums.astype(np.int64).tobytes()).hexdigest()[:16]


def timed(work: Callable[[], object]) -> tuple[float, float, object]:
    start, cpu = time.perf_counter(), time.process_time()
    result = work()
    return round(time.perf_counter() - start, 3), round(time.process_time() - cpu, 3), result


def measure(folder: Path, _: int) -> dict[str, object]:
    from synthdp.curator.private_table import PrivateTable
    from synthdp.privacy.neighbors import Adjacency
    from synthdp.tables.sources.parquet import ParquetSource

    schema, marginals = pairs()

    def start() -> None:
        with tempfile.TemporaryDirectory() as small:
            write(Path(small), 1000)
            PrivateTable(ParquetSource(small), schema, Adjacency()).exact(marginals)

    beforehand, _, _ = timed(start)
    rooms: list[PrivateTable] = []

    def first() -> np.ndarray:
        rooms.append(PrivateTable(ParquetSource(folder), schema, Adjacency()))
        return rooms[0].exact(marginals)

    seconds, cpu, sums = timed(first)
    again, _, same = timed(lambda: rooms[0].exact(marginals))
    rooms[0].close()
    return {
        "seconds": seconds, "cpu_seconds": cpu, "again_seconds": again, "start_seconds": beforehand,
        "tables": len(marginals.cliques), "cells": marginals.k, "digest": digest(sums), "digest_again": digest(same),
    }  # fmt: skip


def grouping_sets(folder: Path, _: int) -> dict[str, object]:
    import duckdb

    from synthdp.tables.sources.duckdb import DuckDBSource

    schema, marginals = pairs()
    source = DuckDBSource(duckdb.read_parquet(f"{folder}/*.parquet"), push_down=True)
    seconds, cpu, sums = timed(lambda: source.sums(marginals, schema))
    return {"seconds": seconds, "cpu_seconds": cpu, "digest": digest(sums)}


def group_by(folder: Path, _: int) -> dict[str, object]:
    import duckdb

    from synthdp.tables.sources.duckdb import DuckDBSource

    schema, marginals = pairs()
    connection = duckdb.connect()
    files = connection.read_parquet(f"{folder}/*.parquet")
    cells = [DuckDBSource(files)._cell(axis, schema) for axis in marginals.domain.axes]  # noqa: SLF001

    def count() -> np.ndarray:
        codes = ", ".join(f"CAST({cell} AS UTINYINT) AS c{j}" for j, cell in enumerate(cells))
        files.project(codes).create("coded")
        tables = []
        for a, b in marginals.cliques:
            question = f"SELECT c{a}, c{b}, count(*) AS n FROM coded GROUP BY c{a}, c{b}"
            found = connection.execute(question).fetchnumpy()
            table = np.zeros((marginals.domain.shape[a], marginals.domain.shape[b]), np.int64)
            table[found[f"c{a}"], found[f"c{b}"]] = found["n"]
            tables.append(table.ravel())
        return np.concatenate(tables)

    seconds, cpu, sums = timed(count)
    return {"seconds": seconds, "cpu_seconds": cpu, "digest": digest(sums)}


def release(folder: Path, rows: int) -> dict[str, object]:
    from synthdp import AdaptiveMarginals, ApproxDP, Curator
    from synthdp.tables.sources.parquet import ParquetSource

    schema, _ = pairs()

    def fit() -> object:
        with Curator(ParquetSource(folder), schema=schema, budget=ApproxDP(1.0, 1e-9)) as curator:
            return AdaptiveMarginals().release(curator, random_state=0)

    seconds, cpu, made = timed(fit)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        out = Path(place) / "synthetic.parquet"
        writing, _, _ = timed(lambda: made.output.sample_to(out, rows=rows, random_state=0))
        size = out.stat().st_size
    return {"seconds": seconds, "cpu_seconds": cpu, "write_seconds": writing, "written_mib": round(size / 2**20)}


def run(stage: str, folder: Path, rows: int) -> None:
    work = {"measure": measure, "grouping sets": grouping_sets, "group by": group_by, "release": release}[stage]
    facts = work(folder, rows)
    peak = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    per_million = round(float(facts["seconds"]) / rows * 1e6, 3)  # type: ignore[arg-type]
    line = {"case": stage, "rows": rows, "columns": COLUMNS, **facts, "seconds_per_million": per_million}
    print(json.dumps({**line, "peak_mib": round(peak)}), flush=True)


def summary(lines: list[dict[str, object]]) -> dict[str, object]:
    """Say whether what was promised was reached: memory, seconds proportional to rows, and DuckDB's own speed."""
    by = {(line["case"], line["rows"]): line for line in lines}
    sizes = sorted({int(str(line["rows"])) for line in lines})
    seconds = [float(str(by["measure", rows]["seconds"])) for rows in sizes]
    slopes = (1e6 * np.diff(seconds) / np.diff(sizes)).tolist()
    ratios, equal = {}, True
    for rows in sizes:
        others = [by[case, rows] for case in ("grouping sets", "group by")]
        ratios[str(rows)] = round(by["measure", rows]["seconds"] / min(other["seconds"] for other in others), 2)
        equal &= len({line["digest"] for line in (by["measure", rows], *others)}) == 1
    peak = max(line["peak_mib"] for line in lines if line["case"] in ("measure", "release"))
    spread = round(max(slopes) / min(slopes) - 1, 3) if slopes else 0.0
    return {
        "case": "summary", "equal_integers": equal, "peak_mib": peak,
        "seconds_a_million_more": [round(slope, 3) for slope in slopes], "spread": spread, "ratio_to_duckdb": ratios,
        "reached": {
            "memory": peak <= MOST_MIB, "slope": spread <= MOST_SPREAD, "duckdb": max(ratios.values()) <= MOST_RATIO,
        },
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--rows", type=int, nargs="*")
    parser.add_argument("--data", type=Path, help="a folder for the files; default: one that is deleted")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stage:
        run(arguments.stage, arguments.data, arguments.rows[0])
        return
    lines: list[dict[str, object]] = []
    for rows in arguments.rows or (TINY if arguments.tiny else CASES):
        with ExitStack() as stack:
            data = arguments.data or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            folder = data / str(rows)
            if not folder.is_dir():
                folder.mkdir(parents=True)
                write(folder, rows)
            for stage in STAGES:
                command = [sys.executable, str(Path(__file__).resolve()), "--stage", stage, "--data", str(folder)]
                done = subprocess.run([*command, "--rows", str(rows)], check=True, stdout=subprocess.PIPE, text=True)
                print(done.stdout, end="", flush=True)
                lines.append(json.loads(done.stdout))
    print(json.dumps(summary(lines)), flush=True)


if __name__ == "__main__":
    main()
