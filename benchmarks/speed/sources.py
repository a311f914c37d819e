"""Where the rows live: processor seconds and peak memory of one first pass, from files, databases and Spark.

    python benchmarks/speed/sources.py                     # 1e6 rows of 20 columns, 190 pairs; PostgreSQL must be installed
    python benchmarks/speed/sources.py --rows 100000       # another size
    python benchmarks/speed/sources.py --ways parquet rows # some of the ways
    python benchmarks/speed/sources.py --rows 10000000 --repeat 10 --ways duckdb   # a hundred million rows in a database
    python benchmarks/speed/sources.py --tiny              # under a minute, for the test suite

One JSON line a way, each in a process of its own; Spark is left out where it, or Java, is not installed, and its session is
there before its pass (``start`` is what it took).  ``cpu`` is this process with its threads and children, ``server`` what
PostgreSQL's processes took meanwhile, ``ratio`` both over Parquet's of the same run, ``peak`` the largest memory in MiB.
The counts are exact, equal whichever way they come, and never leave the benchmark.  ``release`` on a way adds a whole one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

COLUMNS, BINS, PIECE = 20, 16, 250_000
WAYS = ("parquet", "duckdb", "rows", "codes", "counts", "read_sql", "spark")


def piece(rows: int, seed: int, width: int = COLUMNS) -> pa.Table:
    """Some rows of mixed columns, each related to the one before."""
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.normal(size=(rows, width)), axis=1)
    columns: dict[str, Any] = {}
    for j in range(width):
        match j % 4:
            case 0:
                columns[f"real{j}"] = np.clip(walk[:, j] * 10 + 50, 0, 100)
            case 1:
                columns[f"label{j}"] = pa.array(np.digitize(walk[:, j], [-3, -1, 0, 1, 3])).cast(pa.string())
            case 2:
                columns[f"whole{j}"] = np.clip((walk[:, j] * 20 + 60), 0, 120).astype(np.int32)
            case _:
                days = np.clip(walk[:, j] * 100 + 5000, 0, 9999).astype(np.int32)
                columns[f"day{j}"] = pa.array(days).cast(pa.date32())
    return pa.table(columns)


def schema_of(table: pa.Table) -> Any:
    import synthdp as sd

    kinds = {
        "real": sd.Continuous(0, 100),
        "label": sd.Categorical([str(i) for i in range(6)]),
        "whole": sd.Integer(0, 120),
        "day": sd.Date("1970-01-01", "1997-05-18"),
    }
    return sd.Schema({name: kinds[name.rstrip("0123456789")] for name in table.column_names})


def source_of(way: str, folder: Path, url: str) -> Any:
    import synthdp as sd

    match way:
        case "parquet":
            return sd.ParquetSource(folder / "parquet")
        case "duckdb":
            return sd.DuckDBSource(folder / "t.duckdb")
        case "rows" | "codes" | "counts":
            return sd.SqlSource(url, table="t", push=way)
        case "read_sql":
            import pandas as pd
            import sqlalchemy

            return pd.read_sql(
                "SELECT * FROM t", sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
            )
    return sd.SparkSource(spark_session().read.parquet(str(folder / "parquet")))


def spark_session() -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def has_spark() -> bool:
    return find_spec("pyspark") is not None and shutil.which("java") is not None


def first_pass(way: str, folder: Path, url: str, *, release: bool) -> dict[str, Any]:
    """Count all pairs of columns of one source, and perhaps make a release of it."""
    import synthdp as sd
    from synthdp.curator.private_table import PrivateTable
    from synthdp.privacy.neighbors import Adjacency
    from synthdp.queries.marginals import Marginals, all_cliques
    from synthdp.tables.resolve import source_of as as_source

    schema = schema_of(piece(10, 0))
    domain = sd.domain_of(schema, bins=BINS)
    small = PrivateTable(as_source(piece(1000, 0)), schema, Adjacency())
    small.exact(Marginals(domain, all_cliques(domain, 2)))  # what is made once, whatever the rows
    found: dict[str, Any] = {"way": way}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        cpu, server, seconds = cpu_here(), cpu_of_server(), time.perf_counter()
        result = work()
        found[name] = {
            "cpu": round(cpu_here() - cpu, 2),
            "server": round(cpu_of_server() - server, 2),
            "seconds": round(time.perf_counter() - seconds, 2),
        }
        return result

    def count() -> Any:
        table = PrivateTable(as_source(source_of(way, folder, url)), schema, Adjacency())
        sums = table.exact(Marginals(domain, all_cliques(domain, 2)))
        table.close()
        return sums

    if way == "spark":
        timed("start", lambda: spark_session().range(1).collect())
    sums = timed("pass", count)
    found["digest"] = hashlib.sha256(sums.astype(np.int64).tobytes()).hexdigest()[:16]
    if release:
        made = sd.SyntheticRelease(schema=schema, epsilon=1.0, random_state=0)
        timed("release", lambda: made.fit(source_of(way, folder, url)))
    usage = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return found | {"peak": round(max(usage) / 1024)}


def cpu_here() -> float:
    """Processor seconds of this process and of all its children, those of Spark too, which are still running."""
    return time.process_time() + sum(_cpu(child) for child in _below(os.getpid()))


def cpu_of_server() -> float:
    """Processor seconds of the PostgreSQL server and of all its processes, ended or not."""
    postmaster = int(os.environ.get("BENCHMARK_SERVER", "0"))
    return 0.0 if not postmaster else _cpu(postmaster) + sum(_cpu(child) for child in _below(postmaster))


def _below(pid: int) -> list[int]:
    try:
        found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return found + [deeper for child in found for deeper in _below(child)]


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # user and system, its own and of ended children


def prepare(folder: Path, url: str | None, rows: int, repeat: int = 1) -> None:
    """Write the table as Parquet, as a DuckDB file, there ``repeat`` times, and into PostgreSQL."""
    import duckdb

    (folder / "parquet").mkdir()
    for number, start in enumerate(range(0, rows, PIECE)):
        pq.write_table(piece(min(PIECE, rows - start), number), folder / "parquet" / f"{number:04d}.parquet")
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT * FROM '{folder}/parquet/*.parquet'")
        for _ in range(repeat - 1):
            connection.execute(f"INSERT INTO t SELECT * FROM '{folder}/parquet/*.parquet'")
    if url is not None:
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(url) as connection, connection.cursor() as cursor:
            for number, file in enumerate(sorted((folder / "parquet").iterdir())):
                cursor.adbc_ingest("t", pq.read_table(file), mode="create" if number == 0 else "append")
            connection.commit()


def run(rows: int, ways: tuple[str, ...], *, release: bool = False, repeat: int = 1) -> list[dict[str, Any]]:
    """Run each way in a process of its own; one result each, with its ratio to the first."""
    from contextlib import ExitStack

    from postgres_server import started

    needs_server = bool({"rows", "codes", "counts", "read_sql"} & set(ways))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(started()) if needs_server else None
        url = server.url() if server else ""
        prepare(folder, url or None, rows, repeat)
        environment = os.environ | {
            "BENCHMARK_SERVER": str(server.process.pid if server else 0),
            "PYTHONPATH": str(ROOT),
        }
        results: list[dict[str, Any]] = []
        for way in ways:
            words = [sys.executable, __file__, "--way", way, str(folder), url, *["--release"] * release]
            out = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
            found = json.loads(out.splitlines()[-1]) | {"rows": rows * repeat, "columns": COLUMNS}
            results.append(found)
            base = results[0]["pass"]["cpu"] + results[0]["pass"]["server"]
            found["ratio"] = round((found["pass"]["cpu"] + found["pass"]["server"]) / max(base, 0.01), 2)
            print(json.dumps(found), flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    parser.add_argument("--repeat", type=int, default=1, help="how often DuckDB's table holds the rows")
    parser.add_argument("--release", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--way", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        way, folder, url = given.way
        print(json.dumps(first_pass(way, Path(folder), url, release=given.release)))
        return
    ways = tuple(way for way in given.ways if way != "spark" or has_spark())
    if given.repeat > 1 and ways != ("duckdb",):
        parser.error("--repeat is for --ways duckdb alone")
    results = run(3000 if given.tiny else given.rows, ways, release=given.release, repeat=given.repeat)
    if len({result["digest"] for result in results}) > 1:
        sys.exit("the counts differ")


if __name__ == "__main__":
    main()
