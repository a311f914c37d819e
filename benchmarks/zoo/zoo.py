"""From a public table that nobody prepared to a synthetic one, without a line by hand: what came out, measured.

    python benchmarks/zoo/zoo.py --out benchmarks/results/zoo.jsonl                    # the named tables, both losses
    python benchmarks/zoo/zoo.py --drawn 7 --count 11 --out benchmarks/results/zoo.jsonl  # tables drawn at random, after
    python benchmarks/zoo/zoo.py --only palmerpenguins/penguins
    python benchmarks/zoo/zoo.py --write docs/benchmarks/zoo.md --out benchmarks/results/zoo.jsonl

Each table, at each loss, in a process of its own: draft a schema, accept every column, plan, release, report, evaluate.
One JSON line says what came of it; a table that is refused says why.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import platform
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import synthdp as sd
from synthdp.errors import MisfitWarning, SynthDPError
from synthdp.nonprivate.measures import correlation_error, kolmogorov, marginal_error, numeric

sys.path.insert(0, str(Path(__file__).parent))
from tables import NAMED, drawn, of_collection

LIMIT = 1800.0
"""Seconds after which a table is given up."""

SOME = 2000
"""Rows that the full evaluation is run on; what the page shows is of all rows."""

SHOWN = {
    "rows": "rows", "columns": "columns", "left_out": "left out", "seconds": "seconds", "misfits": "misfits",
    "invented_missing": "invented missing", "digits": "digits as the source",
    "distinct": "distinct, synthetic / real", "heaps": "heaps off by", "out_of_range": "out of range",
    "types": "types as the source", "ks": "KS", "two_way": "2-way TV", "independent": "2-way TV, independent",
    "correlation": "correlation error",
}  # fmt: skip


def run(name: str, table: pd.DataFrame, epsilon: float) -> dict[str, Any]:
    """Go the whole way with one table and return what there is to say of it."""
    seconds: dict[str, float] = {}

    @contextmanager
    def stage(what: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        seconds[what] = round(time.perf_counter() - start, 2)

    result: dict[str, Any] = {"table": name, "epsilon": epsilon, "rows": len(table), "columns": table.shape[1]}
    try:
        with warnings.catch_warnings(record=True) as said, tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("always")
            with stage("draft"):
                schema = sd.draft(table)
                for column in schema:
                    schema.review(column).accept()
            release = sd.SyntheticRelease(schema=schema, epsilon=epsilon, delta=1e-9, random_state=0)
            with stage("plan"):
                release.plan(rows=len(table))
            with stage("release"):
                synthetic = release.fit_transform(table)
            with stage("report"):
                release.report(Path(folder) / "report.html")
            kept = table[[column for column in table if column in synthetic]]
            with stage("evaluate"):
                sd.nonprivate_evaluate(kept.head(SOME), synthetic.head(SOME), release.schema_)
            known = sd.Schema({name: one for name, one in release.schema_.items() if not one.names_rows})
            scores = scored(kept, synthetic, known)
            alone = marginal_error(kept, shuffled(kept), known, order=2) if len(known) > 1 else None
    except SynthDPError as error:
        return result | {"refused": str(error), "seconds": seconds}
    return result | {
        "left_out": table.shape[1] - synthetic.shape[1],
        "seconds": seconds,
        "misfits": sum(one.category is MisfitWarning for one in said),
        "warnings": sorted({str(one.message) for one in said}),
        **compared(kept, synthetic),
        **scores,
        "independent": alone,
    }


def scored(real: pd.DataFrame, synthetic: pd.DataFrame, schema: sd.Schema) -> dict[str, float | None]:
    """Return three of the scores of `nonprivate_evaluate`, of all rows."""
    numbers = len(numeric(schema))
    return {
        "ks": kolmogorov(real, synthetic, schema) if numbers else None,
        "two_way": marginal_error(real, synthetic, schema, order=2) if len(schema) > 1 else None,
        "correlation": correlation_error(real, synthetic, schema) if numbers > 1 else None,
    }


def shuffled(table: pd.DataFrame) -> pd.DataFrame:
    """The real columns, each in an order of its own: what independent columns would be without noise."""
    rng = np.random.default_rng(0)
    return pd.DataFrame({name: table[name].to_numpy()[rng.permutation(len(table))] for name in table}).astype(
        table.dtypes
    )


def compared(real: pd.DataFrame, synthetic: pd.DataFrame) -> dict[str, Any]:
    """What a user sees at first sight, over all columns."""
    numbers = [n for n in real if pd.api.types.is_numeric_dtype(real[n]) and not pd.api.types.is_bool_dtype(real[n])]
    complete = [name for name in real if not real[name].isna().any()]
    invented = [float(synthetic[name].isna().mean()) for name in complete]
    ratios = [synthetic[name].nunique() / max(1, real[name].nunique()) for name in real]
    return {
        "invented_missing": round(max(invented, default=0.0), 4),
        "digits": f"{sum(same_digits(real[n], synthetic[n]) for n in numbers)} of {len(numbers)}",
        "distinct": round(float(np.median(ratios)), 2),
        "heaps": round(max((heap(real[n], synthetic[n]) for n in numbers), default=0.0), 4),
        "out_of_range": round(max((outside(real[n], synthetic[n]) for n in numbers), default=0.0), 4),
        "types": f"{sum(real[n].dtype == synthetic[n].dtype for n in real)} of {real.shape[1]}",
    }


def same_digits(real: pd.Series, synthetic: pd.Series) -> bool:
    """Say whether a column has as many decimals as the real one, and whole numbers are multiples of the same step."""
    (decimals, step), (ours, our_step) = lattice(real), lattice(synthetic)
    return decimals == ours and our_step % max(step, 1) == 0


def lattice(values: pd.Series) -> tuple[int, int]:
    """How many decimals 99 in 100 different numbers have, up to 32 bits, and the greatest step that divides whole ones."""
    known = np.unique(values.dropna().to_numpy(np.float64))
    known = known[np.isfinite(known)]
    for decimals in range(10):
        scaled = known * 10.0**decimals
        near = np.abs(scaled - np.rint(scaled)) <= np.minimum(1e-7 * np.abs(scaled), 0.01)
        if near.mean() >= 0.99 if len(known) else True:
            whole = np.abs(np.rint(scaled)).astype(np.int64)
            return decimals, math.gcd(*whole.tolist()) if decimals == 0 else 1
    return 10, 1


def heap(real: pd.Series, synthetic: pd.Series) -> float:
    """How much the share of the most frequent real value differs, if one row in twenty has it."""
    shares = real.value_counts(normalize=True, dropna=True)
    if not len(shares) or shares.iloc[0] < 0.05:
        return 0.0
    return float(abs(shares.iloc[0] - (synthetic.dropna() == shares.index[0]).mean()))


def outside(real: pd.Series, synthetic: pd.Series) -> float:
    """The share of synthetic numbers beyond the real ones by more than 15 % of their span."""
    low, high = real.min(), real.max()
    slack = 0.15 * max(float(high - low), 1e-12)
    known = synthetic.dropna()
    return float(((known < low - slack) | (known > high + slack)).mean()) if len(known) else 0.0


def line(name: str, epsilon: float) -> dict[str, Any]:
    """Run one table in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(theirs, name, epsilon))
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(LIMIT) else {"table": name, "epsilon": epsilon, "refused": f"over {LIMIT:g} s"}
    except EOFError:
        return {"table": name, "epsilon": epsilon, "refused": "the process died"}
    finally:
        process.kill()
        process.join()


def _child(pipe: Any, name: str, epsilon: float) -> None:
    load = NAMED.get(name) or partial(of_collection, *name.split("/")[1:])
    try:
        pipe.send(run(name, load(), epsilon))
    except Exception as error:  # noqa: BLE001 - a traceback is a finding, too
        pipe.send({"table": name, "epsilon": epsilon, "broke": f"{type(error).__name__}: {error}"})


def page(lines: list[dict[str, Any]]) -> str:
    """The tables of the docs: of those chosen by name, then of each draw, the best known ones first."""
    seeds = sorted({found["drawn"] for found in lines if "drawn" in found})
    parts = [("Chosen by name", [found for found in lines if "drawn" not in found])]
    parts += [(f"Drawn with seed {seed}", [found for found in lines if found.get("drawn") == seed]) for seed in seeds]
    return "\n".join(f"## {head}\n\n{_table(inside)}" for head, inside in parts if inside)


def summary(lines: list[dict[str, Any]]) -> str:
    """Return a few figures of all tables, by how they were chosen and by loss."""
    groups: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for found in lines:
        chosen = f"drawn with seed {found['drawn']}" if "drawn" in found else "chosen by name"
        groups.setdefault((chosen, found["epsilon"]), []).append(found)
    heads = (
        "tables", "ε", "number", "refused", "misfits", "most invented missing", "all digits right", "all types right",
        "most out of range", "median KS", "median 2-way TV / independent", "median seconds",
    )  # fmt: skip
    rows = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for (chosen, epsilon), some in sorted(groups.items()):
        done = [found for found in some if "types" in found]
        distances = [found["ks"] for found in done if found["ks"] is not None]
        ratios = [found["two_way"] / found["independent"] for found in done if found["independent"]]
        cells: list[Any] = [
            chosen, f"{epsilon:g}", len(some), len(some) - len(done), sum(found["misfits"] for found in done),
            f"{max(found['invented_missing'] for found in done):g}", *(_whole(done, name) for name in ("digits", "types")),
            f"{max(found['out_of_range'] for found in done):g}", f"{np.median(distances):.3f}", f"{np.median(ratios):.2f}",
            f"{np.median([sum(found['seconds'].values()) for found in done]):.0f}",
        ]  # fmt: skip
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(rows) + "\n"


def _whole(done: list[dict[str, Any]], name: str) -> str:
    """Return of how many tables all columns are right."""
    counts = [found[name].split(" of ") for found in done]
    return f"{sum(right == of for right, of in counts)} of {len(done)}"


def _table(lines: list[dict[str, Any]]) -> str:
    heads = ["table", "ε", *SHOWN.values()]
    rows = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for found in lines:
        if reason := found.get("broke") or found.get("refused"):
            cells = [found.get("rows", ""), found.get("columns", ""), f"**{reason}**", *[""] * (len(SHOWN) - 3)]
        else:
            cells = [_cell(name, found[name]) for name in SHOWN]
        rows.append("| " + " | ".join(map(str, [found["table"], f"{found['epsilon']:g}", *cells])) + " |")
    return "\n".join(rows) + "\n"


def _cell(name: str, value: Any) -> str:
    if name == "seconds":
        return f"{sum(value.values()):.1f}"
    return (
        ""
        if value is None
        else f"{value:,}"
        if isinstance(value, int)
        else f"{value:.3g}"
        if isinstance(value, float)
        else value
    )


def main() -> None:
    """Run what was asked for, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="JSON lines; tables that it holds already are not run again")
    parser.add_argument("--only", action="append", help="one table by name; may be given several times")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--drawn", type=int, help="seed: tables drawn at random instead of the named ones")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument(
        "--write", type=Path, help="put the table of --out between the marks of this page, and run nothing"
    )
    options = parser.parse_args()
    known = (
        [json.loads(text) for text in options.out.read_text().splitlines()]
        if options.out and options.out.exists()
        else []
    )
    if options.write:
        text = options.write.read_text(encoding="utf-8")
        for name, made in (("summary", summary(known)), ("table", page(known))):
            marks = re.compile(rf"(?<=<!-- {name}:start -->\n).*(?=<!-- {name}:end -->)", re.DOTALL)
            text = marks.sub(lambda _, made=made: made, text)
        options.write.write_text(text, encoding="utf-8")
        return
    print(f"# {platform.machine()}, Python {platform.python_version()}, synthdp {sd.__version__}", file=sys.stderr)
    names = list(NAMED if options.drawn is None else drawn(options.drawn, options.count))
    for name in options.only or names:
        for epsilon in options.epsilon:
            if any((found["table"], found["epsilon"]) == (name, epsilon) for found in known):
                continue
            found = line(name, epsilon) | ({} if options.drawn is None else {"drawn": options.drawn})
            text = json.dumps(found, ensure_ascii=False)
            print(text, flush=True)
            if options.out:
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(text + "\n")


if __name__ == "__main__":
    main()
