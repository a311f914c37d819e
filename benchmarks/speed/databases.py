"""Several tables: processor seconds and peak memory of a database release, beside the flagship on one table.

    python benchmarks/speed/databases.py                        # 1e6 persons x 10 records; the flagship on 1e6 rows
    python benchmarks/speed/databases.py --persons 100000       # another size
    python benchmarks/speed/databases.py --tiny                 # seconds, for the test suite

One JSON line a way, each in a process of its own.  ``cpu`` is processor seconds of all threads, ``peak`` the largest memory
of the process so far in MiB; ``join`` reads, joins and bounds all tables once, ``release`` is the whole of ``fit``, join
included, ``sample`` draws as many persons as there are and writes them as Parquet.  The flagship has the columns of a
record, of which there are as many as persons.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

RECORDS, FIRST, YEARS, PIECE = 10, 2005, 20, 50_000
WAYS = ("database", "flagship")


def piece(persons: int, start: int) -> tuple[pa.Table, pa.Table]:
    """Some persons, and ten records of each in years one after the other: pay that grows, a place that mostly stays."""
    rng = np.random.default_rng(start)
    key = start + np.arange(persons, dtype=np.int64)
    sex, born = rng.integers(0, 2, persons), rng.integers(1950, 1990, persons).astype(np.int32)
    labels = pa.array(["f", "m"]).take(pa.array(sex))
    root = pa.table({"person_id": key, "sex": labels, "born": born, "region": pa.array(rng.integers(0, 12, persons))})
    person = np.repeat(np.arange(persons), RECORDS)
    wave = np.tile(np.arange(RECORDS), persons)
    entry = rng.integers(FIRST, FIRST + YEARS - RECORDS + 1, persons)
    pay = np.repeat(rng.gamma(4, 500, persons), RECORDS) * 1.03**wave + rng.normal(0, 100, persons * RECORDS)
    moves = np.cumsum(rng.random((persons, RECORDS)) < 0.1, axis=1).ravel()
    records = {
        "person_id": key[person],
        "year": (entry[person] + wave).astype(np.int32),
        "pay": np.clip(pay, 0, 20_000),
        "hours": np.clip(rng.normal(38 - 4 * sex[person], 6), 0, 80).astype(np.int32),
        "place": (np.repeat(rng.integers(0, 30, persons), RECORDS) + 7 * moves) % 30,
        "married": rng.random(persons * RECORDS) < 0.3 + 0.03 * wave,
    }
    return root, pa.table(records)


def schema_of() -> Any:
    import synthdp as sd

    persons = {"sex": sd.Categorical(["f", "m"]), "born": sd.Integer(1940, 2000), "region": sd.Categorical(range(12))}
    records = {
        "year": sd.Integer(FIRST, FIRST + YEARS - 1),
        "pay": sd.Continuous(0, 20_000),
        "hours": sd.Integer(0, 80),
        "place": sd.Categorical(range(30)),
        "married": sd.Boolean(),
    }
    return sd.DatabaseSchema(
        {"persons": sd.Schema(persons), "records": sd.Schema(records)},
        [sd.Relation("persons", "records", key="person_id", at_most=12, order="year", unique=True)],
    )


def measured(way: str, folder: Path) -> dict[str, Any]:
    """Release and draw, in this process."""
    import synthdp as sd

    schema = schema_of()
    found: dict[str, Any] = {"way": way}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        cpu, seconds = time.process_time(), time.perf_counter()
        result = work()
        found[name] = {
            "cpu": round(time.process_time() - cpu, 1),
            "seconds": round(time.perf_counter() - seconds, 1),
            "peak": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        }
        return result

    found["start"] = {"peak": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}
    if way == "flagship":
        made = sd.SyntheticRelease(schema=schema.tables["records"], epsilon=1.0, random_state=0)
        timed("release", lambda: made.fit(sd.ParquetSource(folder / "flat")))
        timed("sample", lambda: made.release_.output.sample_to(folder / "out.parquet", random_state=0))
        return found
    sources = {name: sd.ParquetSource(folder / name) for name in schema.tables}
    timed("join", lambda: joined(schema, sources))
    release = sd.DatabaseRelease(schema=schema, epsilon=1.0, random_state=0)
    timed("release", lambda: release.fit(sources))
    found["steps"] = len(release.receipt_.items)
    timed("sample", lambda: release.release_.output.sample_to(folder / "out", random_state=0))
    return found


def joined(schema: Any, sources: dict[str, Any]) -> int:
    """Read, join and bound all rows; the number of persons never leaves the benchmark."""
    from synthdp.curator.private_database import private_database
    from synthdp.privacy.neighbors import Adjacency

    private, _ = private_database(sources, schema, Adjacency(unit=schema.unit))
    persons = private.rows()
    private.close()
    return persons


def prepare(folder: Path, persons: int) -> None:
    """Write the tables as Parquet, and one of as many rows as there are persons."""
    for name in ("persons", "records", "flat"):
        (folder / name).mkdir()
    for start in range(0, persons, PIECE):
        root, records = piece(min(PIECE, persons - start), start)
        flat = records.take(np.arange(0, len(records), RECORDS) + start % RECORDS).drop_columns(["person_id"])
        for name, table in (("persons", root), ("records", records), ("flat", flat)):
            pq.write_table(table, folder / name / f"{start:09d}.parquet")


def run(persons: int, ways: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Run each way in a process of its own."""
    with tempfile.TemporaryDirectory() as place:
        prepare(Path(place), persons)
        for way in ways:
            words = [sys.executable, __file__, "--way", way, place]
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            out = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
            found = json.loads(out.splitlines()[-1]) | {"persons": persons, "records": persons * RECORDS}
            print(json.dumps(found), flush=True)
            yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--persons", type=int, default=1_000_000)
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--way", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        print(json.dumps(measured(given.way[0], Path(given.way[1]))))
        return
    lines = [json.dumps(found) for found in run(1000 if given.tiny else given.persons, tuple(given.ways))]
    if given.out is not None:
        given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
