"""Time answers and reports against the release itself: six tables of different shape, each at epsilon = 1.

    python benchmarks/speed/answers.py [--tiny] [--table NAME ...]

JSON lines on standard output: seconds of the release, of opening it from a file, of the first answer of a new process's
kind (nothing kept), of a later one, of one about columns that were not asked about, and of the report; each also as a part
of the release's time, and the seconds of all processors together, which other work on the machine changes less.  All tables
but Adult are made by a generator: the flights-like one has the shape and the kinds of columns of a year of flights, 336 776
rows of 19 columns.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import synthdp as sd
from synthdp.answers.answer import AnswerEngine
from synthdp.data import adult, adult_schema
from synthdp.report.html_page import report_page


class Taken(NamedTuple):
    """Seconds by the clock, and of processors."""

    clock: float
    processors: float


def flights_like(rows: int) -> pd.DataFrame:
    """Times, delays, distances, carriers and places that hang together as those of flights do."""
    rng = np.random.default_rng(0)
    carrier, origin = rng.zipf(1.6, rows) % 16, rng.integers(3, size=rows)
    dest = (rng.zipf(1.4, rows) + 7 * carrier) % 105
    sched = rng.integers(5 * 60, 24 * 60, rows)
    dep_delay = np.rint(rng.exponential(12, rows) * (1 + (carrier % 4)) - 6)
    distance = np.rint(200 + 23 * dest + rng.normal(0, 3, rows))
    air_time = np.rint(distance / 7.5 + rng.normal(15, 8, rows))
    arr_delay = np.rint(dep_delay + rng.normal(-5, 15, rows))
    cancelled = rng.random(rows) < 0.025
    departed, arrived = sched + dep_delay, sched + dep_delay + air_time
    clock = {"dep_time": departed, "sched_dep_time": sched, "arr_time": arrived, "sched_arr_time": sched + air_time}
    day = rng.integers(365, size=rows)
    columns: dict[str, Any] = {"year": np.full(rows, 2013), "month": 1 + day // 31, "day": 1 + day % 31}
    columns |= {name: (minutes % 1440 // 60 * 100 + minutes % 60).astype(float) for name, minutes in clock.items()}
    columns |= {"dep_delay": dep_delay, "arr_delay": arr_delay, "air_time": air_time}
    for name in ("dep_time", "arr_time", "dep_delay", "arr_delay", "air_time"):
        columns[name] = np.where(cancelled, np.nan, columns[name])
    columns |= {"carrier": labels("c", carrier), "origin": labels("o", origin), "dest": labels("d", dest)}
    columns |= {"flight": rng.zipf(1.2, rows) % 6000 + 1, "tailnum": labels("n", rng.integers(4000, size=rows))}
    columns |= {"distance": distance, "hour": sched // 60, "minute": sched % 60, "gate": rng.integers(90, size=rows)}
    return pd.DataFrame(columns)


def wide(rows: int, columns: int) -> pd.DataFrame:
    """Small integers, each column near an earlier one."""
    rng, found = np.random.default_rng(1), [np.random.default_rng(2).integers(8, size=rows)]
    for j in range(1, columns):
        found.append(np.where(rng.random(rows) < 0.7, found[rng.integers(j)], rng.integers(8, size=rows)))
    return pd.DataFrame({f"x{j}": values for j, values in enumerate(found)})


def numbers(rows: int) -> pd.DataFrame:
    """Continuous columns with heavy tails and strong relations."""
    rng = np.random.default_rng(3)
    base = rng.normal(size=(rows, 3))
    mixed = base @ rng.normal(size=(3, 8)) + 0.3 * rng.normal(size=(rows, 8))
    return pd.DataFrame({f"v{j}": np.exp(column) if j % 2 else column for j, column in enumerate(mixed.T)})


def labels(prefix: str, codes: np.ndarray) -> np.ndarray:
    return np.array([f"{prefix}{code}" for code in range(int(codes.max()) + 1)], object)[codes]


def tables(tiny: bool) -> Iterator[tuple[str, pd.DataFrame, Any]]:
    """Yield name, table and schema."""
    yield "adult", adult().head(2000) if tiny else adult(), adult_schema()
    yield "wide", wide(500 if tiny else 20_000, 5 if tiny else 60), None
    if not tiny:
        yield "small", adult().head(1000), adult_schema()
        yield "numbers", numbers(50_000), None
        yield "flights-like", flights_like(336_776), None
        yield "wide-300", wide(20_000, 300), None


def questions(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield kinds and questions: the columns of most leaves first, for they cost most."""
    names = [name for name, column in model.schema.items() if not column.names_rows]
    names.sort(key=lambda name: -model.refinements[model.domain.index(name)[0]].fine.size)
    numeric = [name for name in names if model.schema[name].quantity == "number"]
    for k in (1, 2, 3):
        yield f"marginal of {k}", sd.marginal(*names[:k])
    where = f"{numeric[1]} is not null and {numeric[2]} is not null"
    yield "count", sd.count(where)
    yield "mean", sd.mean(numeric[0])
    yield "mean of some", sd.mean(numeric[0], where=where)
    yield "quantile", sd.quantile(numeric[0], [0.1, 0.5])
    yield "quantile of some", sd.quantile(numeric[0], [0.1, 0.5], where=where)
    yield "correlation", sd.correlation(numeric[0], numeric[1])
    yield "regression", sd.regression(f"`{numeric[0]}` ~ `{numeric[1]}` + `{numeric[2]}`")


def seconds(work: Callable[[], Any]) -> Taken:
    clock, processors = time.perf_counter(), time.process_time()
    work()
    return Taken(time.perf_counter() - clock, time.process_time() - processors)


def main() -> None:
    """Release, ask and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="two tables of few rows")
    parser.add_argument("--table", action="append", help="one of the tables; repeatable")
    options = parser.parse_args()
    for name, table, schema in tables(options.tiny):
        if options.table and name not in options.table:
            continue
        estimator = sd.SyntheticRelease(schema=schema, epsilon=1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = seconds(lambda: estimator.fit_transform(table))  # noqa: B023 - called at once
        release = estimator.release_
        facts = {"benchmark": "answers", "table": name, "rows": len(table), "columns": table.shape[1]}
        show(facts, "release", whole, whole)
        with tempfile.TemporaryDirectory() as folder:
            estimator.save(f"{folder}/{name}.release")
            show(facts, "open", seconds(lambda: sd.load(f"{folder}/{name}.release")), whole)  # noqa: B023
        for kind, question in questions(release.model):
            asker = AnswerEngine(release.model, release.measurements)
            show(facts, f"first {kind}", seconds(lambda: asker.ask(question)), whole)  # noqa: B023
            show(facts, f"later {kind}", seconds(lambda: asker.ask(question)), whole)  # noqa: B023
        asker, others = AnswerEngine(release.model, release.measurements), list(release.model.schema)
        asker.ask(sd.marginal(*others[:2]))
        asker.ask(sd.share(f"`{others[0]}` is null and `{others[1]}` is null"))
        other = sd.marginal(*others[-3:-1])
        show(facts, "later marginal of 2 other columns", seconds(lambda: asker.ask(other)), whole)  # noqa: B023
        show(facts, "report", seconds(lambda: report_page(release, fingerprint="speed")), whole)  # noqa: B023


def show(facts: dict[str, Any], stage: str, taken: Taken, whole: Taken) -> None:
    line = {
        **facts, "stage": stage, "seconds": round(taken.clock, 3), "of_release": round(taken.clock / whole.clock, 4),
        "processor_seconds": round(taken.processors, 3),
    }  # fmt: skip
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
