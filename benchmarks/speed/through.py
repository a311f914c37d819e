"""From Parquet files to a written synthetic table: processor seconds by what they are for, and peak memory.

    python benchmarks/speed/through.py                                  # 1e6 rows of 20 columns
    python benchmarks/speed/through.py --rows 10000000 --columns 14
    python benchmarks/speed/through.py --rows 100000000 --no-writing --repeat 40      # 40 files, read again and again
    python benchmarks/speed/through.py --tiny                           # seconds, for the test suite

One JSON line.  The rows are those of ``sources.py``.  ``rows`` is reading, encoding, coding and counting; ``noise`` the
exact noise; ``fit`` the rest of a release; ``drawing`` the cells of synthetic rows; ``writing`` their values and the file.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from sources import PIECE, piece, schema_of  # noqa: E402 - the folder of this file comes first


def prepare(folder: Path, rows: int, columns: int, files: int) -> None:
    """Write ``rows`` rows; after so many files the first are read again by another name."""
    for number, start in enumerate(range(0, rows, PIECE)):
        path = folder / f"{number:05d}.parquet"
        if path.exists():
            continue
        if number >= files:
            os.link(folder / f"{number % files:05d}.parquet", path)
        else:
            pq.write_table(piece(min(PIECE, rows - start), number, columns), path)


class Clock:
    """Processor seconds of this process, by what they were spent on; of nested works the inner one counts."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._doing, self._since = ["other"], time.process_time()

    def _turn(self) -> None:
        now = time.process_time()
        self.seconds[self._doing[-1]] += now - self._since  # type: ignore[assignment]
        self._since = now

    def during(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._turn()
            self._doing.append(name)
            try:
                return work(*args, **kwargs)
            finally:
                self._turn()
                self._doing.pop()

        return timed


def run(folder: Path, rows: int, columns: int, *, writes: bool) -> dict[str, Any]:
    import synthdp as sd
    from synthdp.curator.private_table import PrivateTable
    from synthdp.privacy import noise
    from synthdp.sampling.synthetic_model import SyntheticModel

    clock = Clock()
    for owner, method, name in (
        (PrivateTable, "exact", "rows"), (PrivateTable, "exact_each", "rows"), (noise, "_noised", "noise"),
        (SyntheticModel, "sample_indices", "drawing"),
    ):  # fmt: skip
        setattr(owner, method, clock.during(name, getattr(owner, method)))
    schema = schema_of(piece(10, 0, columns))
    estimator = sd.SyntheticRelease(schema=schema, epsilon=1.0, random_state=0)
    made = clock.during("fit", estimator.fit)(sd.ParquetSource(folder)).release_.output
    peak_of_release = peak()
    found: dict[str, Any] = {"rows": rows, "columns": columns}
    if writes:
        out = folder / "synthetic.out.parquet"
        clock.during("writing", made.sample_to)(out, rows=rows, random_state=0)
        found["written_mib"] = round(out.stat().st_size / 2**20)
        out.unlink()
    cpu = {name: round(clock.seconds[name], 1) for name in ("rows", "noise", "fit", "drawing", "writing")}
    return found | {
        "cpu": cpu, "total": round(sum(cpu.values()), 1), "release_peak_mib": peak_of_release, "peak_mib": peak(),
    }  # fmt: skip


def peak() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=10**9, help="files that are different")
    parser.add_argument("--no-writing", action="store_true")
    parser.add_argument("--data", type=Path, help="a folder for the files; default: one that is deleted")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    rows, columns = (3000, 6) if given.tiny else (given.rows, given.columns)
    with tempfile.TemporaryDirectory() as place:
        folder = given.data or Path(place)
        folder.mkdir(exist_ok=True)
        prepare(folder, rows, columns, given.repeat)
        print(json.dumps(run(folder, rows, columns, writes=not given.no_writing)))


if __name__ == "__main__":
    main()
