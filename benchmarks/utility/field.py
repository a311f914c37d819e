"""synthdp against the field: one harness, the same tables, splits, schema, epsilon, delta, core, time limit and measures.

    python benchmarks/utility/field.py --quick                       # Adult, epsilon 1, the peers that take minutes
    python benchmarks/utility/field.py --only "dpmm MST" --epsilon 0.1 --epsilon 10
    python benchmarks/utility/field.py --data FOLDER --target NAME=COLUMN
    python benchmarks/utility/field.py --openml credit-g

Each run is a process of its own on one core: `field_runners/` has a runner for each library, `field_peers.py` the
environments, `field_tables.py` the tables.  One JSON line a run goes to ``--out`` (appended, so that runs can be done in
pieces); an earlier line of the same table, epsilon, method and seed is replaced.  `field_report.py` makes the tables and
plots of the documentation from the file.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from field_peers import PEERS, QUICK, RUNNERS, Peer, RunError, python_of, run
from field_tables import Benchmark, bundled, decoded, encoded, from_folder, from_openml, read_csv
from flagship import DELTA, split
from metrics import evaluate

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "field.jsonl"
ENVIRONMENTS = Path.home() / ".cache" / "synthdp-field"
EPSILONS = (0.1, 1.0, 10.0)
KEY = ("table", "epsilon", "method", "seed")


def one_run(
    benchmark: Benchmark, peer: Peer, *, epsilon: float, seed: int, limit: float, environments: Path, rows: int | None,
    keep_in: Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Let one peer make one synthetic table and measure it; a failure is a result."""
    train, test = split(benchmark.rows, rows=rows)
    record = {"table": benchmark.name, "epsilon": epsilon, "method": peer.name, "seed": seed, "rows": len(train)}
    record |= {"delta": DELTA, "settings": dict(peer.settings), "limit": limit} | circumstances()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            python = python_of(peer, environments)
            columns = write_input(folder, benchmark, train, peer, epsilon=epsilon, seed=seed)
            report = run(python, RUNNERS / peer.runner, folder, limit=limit)
        except RunError as error:
            ended = {"status": error.status, "message": error.message}
            return record | ended | ({"cpu_seconds": error.cpu_seconds} if error.cpu_seconds else {})
        path = folder / "synthetic.csv"
        if peer.form == "values":
            synthetic = read_csv(path, benchmark.schema)
        else:
            synthetic = decoded(path, benchmark.schema, columns, seed=seed)
    if keep_in is not None:
        keep_in.mkdir(parents=True, exist_ok=True)
        train.to_csv(keep_in / f"{benchmark.name}.csv", index=False)
        named = f"{benchmark.name} {epsilon:g} {peer.name} {seed}.csv"
        synthetic.to_csv(keep_in / named, index=False)
    scores = evaluate(train, test, synthetic, benchmark.schema, benchmark.target)
    return record | {"status": "done"} | report | {"synthetic_rows": len(synthetic)} | scores


def write_input(
    folder: Path, benchmark: Benchmark, train: pd.DataFrame, peer: Peer, *, epsilon: float, seed: int
) -> list[dict[str, Any]]:
    """Write the private rows and the public plan; return the plan's columns."""
    if peer.form == "values":
        table, columns = train, []
    else:
        table, columns = encoded(train, benchmark.schema, numbers=peer.form == "numbers")
    table.to_csv(folder / "train.csv", index=False)
    plan = {"method": peer.method, "epsilon": epsilon, "delta": DELTA, "seed": seed, "settings": dict(peer.settings)}
    plan |= {"repaired": peer.repaired, "columns": columns, "schema": json.loads(benchmark.schema.to_json())}
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    return columns


def circumstances() -> dict[str, str]:
    """Day, machine and the commit of this repository."""
    model = platform.processor() or platform.machine()
    described = Path("/proc/cpuinfo")
    if described.exists():
        lines = described.read_text(encoding="utf-8").splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    git = shutil.which("git")
    command = [git or "git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() if git else ""
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "commit": commit,
    }


def read_results(path: Path) -> list[dict[str, Any]]:
    """The records of a file, none if there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def keep(record: dict[str, Any], path: Path) -> None:
    """Add a record to a file, in place of an earlier one of the same run."""
    others = [other for other in read_results(path) if any(other[k] != record[k] for k in KEY)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in [*others, record]), encoding="utf-8")


def tables(options: argparse.Namespace) -> list[Benchmark]:
    """The tables that were asked for; the bundled one if none was."""
    targets = dict(pair.split("=", 1) for pair in options.target)
    found = from_folder(options.data, targets) if options.data else []
    found += [from_openml(name) for name in options.openml]
    return found or [bundled()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="epsilon 1 and the peers that take minutes: under half an hour"
    )
    parser.add_argument("--only", action="append", choices=list(PEERS), help="a method; may be repeated")
    parser.add_argument("--data", type=Path, help="a folder of NAME.csv with NAME.schema.json")
    parser.add_argument("--target", action="append", default=[], metavar="NAME=COLUMN", help="what to predict")
    parser.add_argument("--openml", action="append", default=[], help="a name there; may be repeated")
    parser.add_argument("--epsilon", action="append", type=float, help=f"default: {EPSILONS}, with --quick 1")
    parser.add_argument("--seeds", type=int, default=3, help="runs of synthdp and the yardsticks")
    parser.add_argument("--peer-seeds", type=int, default=1, help="runs of each peer")
    parser.add_argument("--limit", type=float, default=600, help="processor seconds a run")
    parser.add_argument("--missing", action="store_true", help="leave out runs that the results file has")
    parser.add_argument("--rows", type=int, help="only so many rows, in the seeded order")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, help="where virtual environments are kept")
    parser.add_argument(
        "--tables", type=Path, help="a folder to write the real and the synthetic tables to, for other judges"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # the run of a peer ends with it
    methods = options.only or (QUICK if options.quick else list(PEERS))
    epsilons = options.epsilon or ([1.0] if options.quick else list(EPSILONS))
    for benchmark in tables(options):
        for epsilon in epsilons:
            for method in methods:
                peer = PEERS[method]
                for seed in range(options.seeds if peer.environment is None else options.peer_seeds):
                    run_of = dict(zip(KEY, (benchmark.name, epsilon, method, seed), strict=True))
                    if options.missing and any(run_of.items() <= kept.items() for kept in read_results(options.out)):
                        continue
                    record = one_run(
                        benchmark,
                        peer,
                        epsilon=epsilon,
                        seed=seed,
                        limit=options.limit,
                        environments=options.environments,
                        rows=options.rows,
                        keep_in=options.tables,
                    )
                    keep(record, options.out)
                    print(json.dumps(record, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
