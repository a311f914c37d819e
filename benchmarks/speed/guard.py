"""Whether anything has become slow: parts of the pipeline as multiples of a fixed yardstick in the same run.

    python benchmarks/speed/guard.py               # compare with results/guard.jsonl; exit 1 if a part is too slow
    python benchmarks/speed/guard.py --write       # measure with more repeats, and write that file again
    python benchmarks/speed/guard.py --part fit    # one part

One JSON line a part: processor seconds, the same in yardsticks, and the committed figure.  The yardstick is NumPy's
bincounts, long ones and many short ones, and a matrix product; it is timed before and after every repeat, so that what
slows the whole machine slows both.  A figure is the least of some repeats: other programs only ever add time.  A part
that seems too slow is repeated until it is not, at most `MOST` times, so that a busy machine fails nothing; code that is
slower stays slower.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "benchmarks" / "results" / "guard.jsonl"
LIMIT = 1.5
"""A part that takes so many times what was committed has become slow."""

REPEATS, MOST, WRITTEN = 2, 8, 5
"""Repeats of a part; at most, while it seems too slow; and where figures are written."""

Work = Callable[[], object]


def processor_seconds() -> float:
    """Seconds of this process and of children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@functools.cache
def _numbers() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 500, 2_000_000), rng.random(2_000_000), rng.integers(0, 50, 60), rng.random((300, 300))


def yardstick() -> None:
    """About .02 seconds of fixed work: a third counts of more than a cache holds, a third short ones, a third products."""
    cells, weights, few, matrix = _numbers()
    for _ in range(2):
        np.bincount(cells, weights)
    for _ in range(4_000):
        np.bincount(few)
    for _ in range(5):
        matrix @ matrix


def least(
    work: Work,
    *,
    repeats: int,
    most: int,
    enough: float,
    clock: Callable[[], float] = processor_seconds,
    measure: Work = yardstick,
) -> tuple[float, float]:
    """Return the least time of some work and the least of it in yardsticks.

    Parameters
    ----------
    work
        To be timed.
    repeats, most
        How often at least; and at most, while the figure is above ``enough``.
    enough
        In yardsticks.
    """
    seconds = figure = float("inf")
    for number in range(max(repeats, most)):
        if number >= repeats and figure <= enough:
            break
        times = [clock()]
        for each in (measure, work, measure):
            each()
            times.append(clock())
        before, taken, after = (b - a for a, b in itertools.pairwise(times))
        seconds, figure = min(seconds, taken), min(figure, taken / max(min(before, after), 1e-9))
    return seconds, figure


def table_of(rows: int, columns: int, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Return numbers and levels, in turns, that follow three common causes."""
    import synthdp as sd

    rng = np.random.default_rng(seed)
    causes = rng.normal(size=(rows, 3))
    table: dict[str, Any] = {}
    schema: dict[str, Any] = {}
    for j in range(columns):
        x = causes @ np.random.default_rng(j).normal(size=3) + rng.normal(size=rows)
        if j % 2:
            levels = [f"level {i}" for i in range(2 + j % 6)]
            codes = np.clip((x / 6 + 0.5) * len(levels), 0, len(levels) - 1).astype(np.int64)
            table[f"c{j}"] = pd.Categorical.from_codes(codes, levels)
            schema[f"c{j}"] = sd.Categorical(levels)
        else:
            table[f"c{j}"] = np.clip(np.rint(50 + 12 * x), 0, 100).astype(np.int64)
            schema[f"c{j}"] = sd.Integer(0, 100)
    return pd.DataFrame(table), sd.Schema(schema)


def fitted(table: pd.DataFrame, schema: Any) -> Any:
    """Release with everything but noise fixed."""
    import synthdp as sd

    return sd.SyntheticRelease(schema=schema, epsilon=1.0, random_state=0).fit(table)


@functools.cache
def _tables() -> dict[str, tuple[pd.DataFrame, Any]]:
    return {"small": table_of(500, 8), "middle": table_of(10_000, 8), "large": table_of(1_000_000, 3)}


@functools.cache
def _release() -> Any:
    return fitted(*_tables()["middle"])


def sample() -> None:
    """10 000 rows of 8 columns, balanced."""
    _release().sample(10_000, random_state=1)


def first_answer() -> None:
    """A mean with its error bar, of a release that was saved and not asked before."""
    import synthdp as sd

    sd.SyntheticRelease.load(_folder() / "release").answer(sd.mean("c0", where="c1 == 'level 0'"))


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="guard"))
    _release().save(folder / "release")
    return folder


def report() -> None:
    """A page about a release."""
    _release().report(_folder() / "report.html")


def start() -> None:
    """The command line, from nothing."""
    subprocess.run([sys.executable, "-m", "synthdp", "--help"], check=True, capture_output=True, cwd=ROOT)


def small() -> None:
    """Fit and sample 500 rows of 8 columns, three times."""
    for _ in range(3):
        fitted(*_tables()["small"]).sample(random_state=1)


PARTS: Mapping[str, Work] = {
    "fit": lambda: fitted(*_tables()["middle"]),
    "sample": sample,
    "first answer": first_answer,
    "report": report,
    "command-line start": start,
    "small table": small,
    "a million rows": lambda: fitted(*_tables()["large"]).sample(1_000, random_state=1),
}


def committed() -> dict[str, float]:
    """Return what each part took when the figures were written, in yardsticks."""
    if not COMMITTED.exists():
        return {}
    records = map(json.loads, COMMITTED.read_text(encoding="utf-8").splitlines())
    return {record["part"]: record["yardsticks"] for record in records}


def measured(parts: Mapping[str, Work], before: Mapping[str, float], *, write: bool) -> Iterator[dict[str, Any]]:
    """Yield a record a part."""
    yardstick()
    for name, work in parts.items():
        work()  # imports, public tables and what is kept from one call to the next
        enough = LIMIT * before.get(name, float("inf"))
        repeats = WRITTEN if write else REPEATS
        seconds, figure = least(work, repeats=repeats, most=repeats if write else MOST, enough=enough)
        known = before.get(name)
        yield {"part": name, "seconds": round(seconds, 4), "yardsticks": round(figure, 2), "committed": known}


def too_slow(records: list[dict[str, Any]]) -> list[str]:
    """Return a sentence for each part that has become slow."""
    return [
        f"{one['part']} takes {one['yardsticks']} yardsticks, {one['yardsticks'] / one['committed']:.2f} times the committed"
        f" {one['committed']}: at most {LIMIT} times is allowed"
        for one in records
        if one["committed"] and one["yardsticks"] > LIMIT * one["committed"]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--part", choices=tuple(PARTS))
    options = parser.parse_args()
    parts = {options.part: PARTS[options.part]} if options.part else PARTS
    records = []
    limits = threadpool_limits(1)  # seconds of a processor, not of several
    try:
        for record in measured(parts, committed(), write=options.write):
            records.append(record)
            print(json.dumps(record), flush=True)
    finally:
        limits.restore_original_limits()
        if _folder.cache_info().currsize:
            shutil.rmtree(_folder())
    if options.write:
        kept = {one["part"]: one["yardsticks"] for one in records}
        lines = [json.dumps({"part": part, "yardsticks": figure}) for part, figure in (committed() | kept).items()]
        COMMITTED.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    slow = too_slow(records)
    print("\n".join(slow) or "nothing has become slow", file=sys.stderr)
    sys.exit(bool(slow))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
