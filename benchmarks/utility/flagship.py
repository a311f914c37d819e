"""The flagship on Adult beside independent columns and the bootstrap; and how its error falls with epsilon.

    python benchmarks/utility/flagship.py [--tiny] [--part table|sweep] [--seeds 3] [--out results.jsonl]

Table: Adult (the bundled copy), 80 % to train and 20 % to test, epsilon .1, 1 and 10, delta 1e-9; the measures of
`metrics.py`.  Sweep: three-way error on Adult and, where ../shared/data has it, hmeq, at six epsilons.  One JSON line a
run; at the end a Markdown table of means, also written beside ``--out``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from metrics import evaluate, marginal_error

from synthdp import AdaptiveMarginals, ApproxDP, Curator, Schema
from synthdp.data import adult, adult_schema
from synthdp.distribution.components import Product
from synthdp.domain.domain import domain_of
from synthdp.domain.refinement import Refinement
from synthdp.mechanisms.column_histograms import OneWayTree
from synthdp.queries.contingency import project_to_simplex
from synthdp.queries.marginals import one_ways
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.columns import Categorical, Column, Continuous, Integer
from synthdp.tables.format import TableFormat

DELTA = 1e-9
EPSILONS = (0.1, 1.0, 10.0)
SWEEP = (0.05, 0.1, 0.3, 1.0, 3.0, 10.0)
HMEQ = Path(__file__).parents[2] / "../shared/data/hmeq.csv"
MEASURES = ("three_way", "two_way", "ks", "smooth", "sharp", "correlation", "auc", "seconds")


def flagship(table: pd.DataFrame, schema: Schema, epsilon: float, seed: int) -> pd.DataFrame:
    """Release by adaptive marginals, sample as many rows as it thinks there are."""
    curator = Curator(table, schema=schema, budget=ApproxDP(epsilon, DELTA))
    return AdaptiveMarginals().release(curator, random_state=seed).sample(random_state=seed)


def independent(table: pd.DataFrame, schema: Schema, epsilon: float, seed: int) -> pd.DataFrame:
    """Spend the whole budget on 32-cell one-ways; sample the columns independently."""
    domain = domain_of(schema, bins=OneWayTree().bins)
    queries = one_ways(domain)
    found = Curator(table, schema=schema, budget=ApproxDP(epsilon, DELTA)).measure(queries)
    counts = queries.split(found.answers)
    total = max(1.0, float(np.mean([column.sum() for column in counts])))
    margins = [
        np.where(axis.releasable, project_to_simplex(np.where(axis.releasable, column, -np.inf), total), 0.0)
        for axis, column in zip(domain.axes, counts, strict=True)
    ]
    model = SyntheticModel(
        schema=schema,
        domain=domain,
        distribution=Product(shape=domain.shape, margins=tuple(margins)),
        refinements=tuple(Refinement.trivial(axis) for axis in domain.axes),
        total=total,
        format=TableFormat.default(schema),
    )
    return model.sample(random_state=seed)


def bootstrap(table: pd.DataFrame, _schema: Schema, _epsilon: float, seed: int) -> pd.DataFrame:
    """Draw real rows with replacement: not private, the error of a finite sample."""
    return table.sample(len(table), replace=True, random_state=seed).reset_index(drop=True)


METHODS: dict[str, Callable[[pd.DataFrame, Schema, float, int], pd.DataFrame]] = {
    "synthdp": flagship,
    "independent": independent,
    "bootstrap": bootstrap,
}


def adult_table() -> tuple[pd.DataFrame, Schema]:
    """The bundled census table."""
    return adult(), adult_schema()


def hmeq_table() -> tuple[pd.DataFrame, Schema]:
    """Home equity loans: missing values, mixed columns; the bounds are those of the data, taken as public."""
    table = pd.read_csv(HMEQ)
    return table, schema_of(table)


def schema_of(table: pd.DataFrame) -> Schema:
    """Declare a table as its values are: for benchmarks only."""
    columns: dict[str, Column] = {}
    for name in table:
        values = table[name].dropna()
        missing = bool(table[name].isna().any())
        if values.nunique() <= 2 or values.dtype.kind not in "iuf":
            columns[name] = Categorical(sorted(values.unique().tolist()), nullable=missing)
        elif (values == values.round()).all():
            columns[name] = Integer(int(values.min()), int(values.max()), nullable=missing)
        else:
            columns[name] = Continuous(float(values.min()), float(values.max()), nullable=missing)
    return Schema(columns)


def split(table: pd.DataFrame, *, rows: int | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """80 % to train, 20 % to test, of the first ``rows`` rows in a seeded order."""
    order = np.random.default_rng(0).permutation(len(table))[:rows]
    cut = int(0.8 * len(order))
    return table.iloc[order[:cut]].reset_index(drop=True), table.iloc[order[cut:]].reset_index(drop=True)


def table_part(*, seeds: int, tiny: bool) -> Iterator[dict[str, Any]]:
    """All measures on Adult."""
    data, schema = adult_table()
    train, test = split(data, rows=1000 if tiny else None)
    for epsilon in EPSILONS[1:2] if tiny else EPSILONS:
        for name, method in METHODS.items():
            for seed in range(seeds):
                start = time.perf_counter()
                synthetic = method(train, schema, epsilon, seed)
                seconds = time.perf_counter() - start
                scores = evaluate(train, test, synthetic, schema, "income")
                yield _record("adult", epsilon, name, seed, scores | {"seconds": seconds})


def sweep_part(*, seeds: int, tiny: bool) -> Iterator[dict[str, Any]]:
    """The three-way error at more epsilons, on every table that is here."""
    for name, load in ({"adult": adult_table} | ({"hmeq": hmeq_table} if HMEQ.exists() else {})).items():
        data, schema = load()
        train, _ = split(data, rows=1000 if tiny else None)
        for epsilon in SWEEP[-2:] if tiny else SWEEP:
            for method in ("synthdp", "independent"):
                for seed in range(seeds):
                    synthetic = METHODS[method](train, schema, epsilon, seed)
                    yield _record(name, epsilon, method, seed, {"three_way": marginal_error(train, synthetic, schema)})


def markdown(records: list[dict[str, Any]]) -> str:
    """Means over seeds, a row for each table, epsilon and method."""
    rows: dict[tuple[str, float, str], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        rows[(record["data"], record["epsilon"], record["method"])].append(record)
    shown = [measure for measure in MEASURES if any(measure in record for record in records)]
    lines = ["| data | epsilon | method | " + " | ".join(shown) + " |", "|---" * (3 + len(shown)) + "|"]
    for (data, epsilon, method), runs in rows.items():
        means = [f"{np.mean([run[measure] for run in runs]):.4g}" for measure in shown]
        lines.append(f"| {data} | {epsilon:g} | {method} | " + " | ".join(means) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("table", "sweep"), default="table")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    part = table_part if options.part == "table" else sweep_part
    records = []
    for record in part(seeds=1 if options.tiny else options.seeds, tiny=options.tiny):
        records.append(record)
        print(json.dumps(record), flush=True)
    table = markdown(records)
    print(table)
    if options.out is not None:
        options.out.write_text("".join(json.dumps(record) + "\n" for record in records))
        options.out.with_suffix(".md").write_text(table + "\n")


def _record(data: str, epsilon: float, method: str, seed: int, scores: dict[str, float]) -> dict[str, Any]:
    return {"data": data, "epsilon": epsilon, "method": method, "seed": seed} | scores


if __name__ == "__main__":
    main()
