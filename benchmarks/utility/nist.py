"""NIST's board: synthetic tables of Massachusetts (Diverse Community Excerpts, 2019), judged by SDNist 2.4, unmodified.

    python -m venv JUDGE && JUDGE/bin/pip install sdnist==2.4      # needs Python 3.11 or older
    python benchmarks/utility/nist.py --judge JUDGE/bin/python [--seeds 3] [--out results.jsonl]

Four sets of columns at epsilon 1 (``--epsilon`` for others), delta 1e-9.  The score is SDNist's K-marginal: 1000 less
1000 times the mean total variation distance of all pairs of columns, within each PUMA where the set has that column.
The data are read from ../shared/data/boards/nist (``--data``); docs/benchmarks/nist.md says how to get them.

Declared is what the public data dictionary says: levels and bounds, and the rules that its meanings of ``N`` spell out.
The set ``simple, places`` declares besides that the population density follows from the PUMA, by a table of five published
figures.  Methods: ``synthdp`` as it stands; ``workload``, told which tables the board scores; ``exact tables``, the same
plan from the same noisy scores, but each table of several columns counted without noise; ``exact``, nothing noisy at all,
and ten times as many rows drawn; ``real`` draws real rows with replacement.  The last three are not private: they show
what noise, the plan, and any table of so many rows lose.  One JSON line a run; at the end a Markdown table of means, also
written beside ``--out``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from json_lines import keep
from without_noise import EVERYTHING, TABLES, without_noise

from synthdp import (
    AdaptiveMarginals,
    ApproxDP,
    Categorical,
    Continuous,
    Curator,
    Iff,
    Implies,
    Integer,
    Ordinal,
    Schema,
)
from synthdp.schema.column import Column
from synthdp.schema.constraints import Constraint
from synthdp.schema.derived import Derived

DELTA = 1e-9
DATA = Path(__file__).parents[2] / "../shared/data/boards/nist"
JUDGE = Path(__file__).with_name("nist_judge.py")
MISSING = "N"
PLACES = "25-"
"""How the names of Massachusetts' PUMAs begin."""

SETS = {
    "demographic": ("AGEP", "SEX", "MSP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET"),
    "family": (
        "PUMA", "AGEP", "SEX", "MSP", "HISP", "RAC1P", "NOC", "NPF", "OWN_RENT", "PINCP_DECILE", "POVPIP", "DEYE",
    ),
    "industry": ("PUMA", "SEX", "MSP", "HISP", "RAC1P", "OWN_RENT", "INDP_CAT", "EDU", "PINCP_DECILE"),
    "simple": (
        "PUMA", "AGEP", "SEX", "MSP", "HISP", "RAC1P", "NOC", "NPF", "HOUSING_TYPE", "OWN_RENT", "DENSITY", "INDP_CAT",
        "EDU", "PINCP", "PINCP_DECILE", "POVPIP", "DVET", "DREM", "DPHY", "DEYE", "DEAR",
    ),
}  # fmt: skip
SETS |= {"simple, places": SETS["simple"]}
DENSITIES = {"25-00503": 2872.7, "25-00703": 2195.3, "25-01000": 2447.1, "25-01300": 1457.2, "25-02800": 3683.9}
"""Residents a square mile of each PUMA."""

NUMBERS = ("AGEP", "NOC", "NPF", "PINCP", "POVPIP", "DENSITY")
SCALES = ("EDU", "PINCP_DECILE", "DVET")


def schema_of(name_of_set: str, dictionary: dict[str, Any]) -> Schema:
    """Return what the data dictionary says of the columns of a set."""
    names = SETS[name_of_set]
    columns = {name: _column(name, dictionary[name]["values"]) for name in names}
    rules = [rule for rule in _rules() if set(rule.names) <= set(names)]
    if name_of_set.endswith("places"):
        rules = [*rules, Derived("DENSITY", of="PUMA", values=DENSITIES)]
    return Schema(columns, constraints=rules)


def _column(name: str, values: dict[str, Any]) -> Column:
    """Return one column as its entry in the data dictionary declares it."""
    missing = MISSING in values
    if name == "DENSITY":
        return Continuous(values["min"], values["max"], decimals=1)
    if name in NUMBERS:
        named = [int(value) for value in values if value.isdigit()]
        least, most = min([values["min"], *named]), max([values["max"], *named])
        return Integer(least, most, nullable=missing, special=[v for v in named if v > values["max"]])
    levels = [value for value in values if value != MISSING and (name != "PUMA" or value.startswith(PLACES))]
    if name in SCALES:
        return Ordinal(sorted(levels, key=int), nullable=missing)
    return Categorical(levels, nullable=missing)


def _rules() -> list[Constraint]:
    """Return what ``N`` and 0 mean: N/A below an age, or in group quarters."""
    young = [Iff({name: None}, {"AGEP": (0, 14)}) for name in ("MSP", "PINCP", "PINCP_DECILE")]
    younger = [Iff({name: None}, {"AGEP": (0, last)}) for name, last in (("EDU", 2), ("DREM", 4), ("DPHY", 4))]
    return [
        *young,
        *younger,
        Implies({"AGEP": (0, 15)}, {"INDP_CAT": None}),
        Iff({"MSP": None}, {"PINCP_DECILE": None}),
        Iff({"PINCP": None}, {"PINCP_DECILE": None}),
        Iff({"OWN_RENT": "0"}, {"HOUSING_TYPE": ["2", "3"]}),
        Iff({"NOC": None}, {"OWN_RENT": "0"}),
        Iff({"NOC": None}, {"HOUSING_TYPE": ["2", "3"]}),
        Implies({"NOC": None}, {"NPF": None}),
    ]


def table_of(folder: Path, names: tuple[str, ...]) -> pd.DataFrame:
    """Read columns of Massachusetts, with missing values for ``N``."""
    path = folder / "massachusetts" / "ma2019.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[MISSING])[list(names)]
    return table.assign(**{name: pd.to_numeric(table[name]) for name in names if name in NUMBERS})


def release(
    table: pd.DataFrame, schema: Schema, epsilon: float, seed: int, *, times: int = 1, **settings: Any
) -> pd.DataFrame:
    """Release once, and sample as many rows as it thinks there are, or some times as many."""
    curator = Curator(table, schema=schema, budget=ApproxDP(epsilon, DELTA))
    found = AdaptiveMarginals(**settings).release(curator, random_state=seed)
    return found.sample(None if times == 1 else times * len(table), random_state=seed)


def with_workload(table: pd.DataFrame, schema: Schema, epsilon: float, seed: int) -> pd.DataFrame:
    """Release for the tables that the board scores: all pairs, each with the PUMA where the set has it."""
    place = [name for name in schema if name == "PUMA"]
    pairs = itertools.combinations([name for name in schema if name != "PUMA"], 2)
    return release(table, schema, epsilon, seed, workload={(*place, *pair): 1.0 for pair in pairs})


def exact_tables(table: pd.DataFrame, schema: Schema, epsilon: float, seed: int) -> pd.DataFrame:
    """Release by a noisy plan, its tables of several columns counted exactly.  Not private."""
    with without_noise(TABLES):
        return release(table, schema, epsilon, seed)


def exact(table: pd.DataFrame, schema: Schema, epsilon: float, seed: int) -> pd.DataFrame:
    """Release without noise, by a plan that still reckons with it, and draw many rows.  Not private."""
    with without_noise(EVERYTHING):
        return release(table, schema, epsilon, seed, times=10)


def bootstrap(table: pd.DataFrame, _schema: Schema, _epsilon: float, seed: int) -> pd.DataFrame:
    """Draw real rows with replacement."""
    return table.sample(len(table), replace=True, random_state=seed)


METHODS: dict[str, Callable[[pd.DataFrame, Schema, float, int], pd.DataFrame]] = {
    "synthdp": release,
    "workload": with_workload,
    "exact tables": exact_tables,
    "exact": exact,
    "real": bootstrap,
}


def written(synthetic: pd.DataFrame, path: Path) -> None:
    """Write a table as SDNist reads it."""
    whole = [name for name in synthetic if name in NUMBERS and name != "DENSITY"]
    shown = synthetic.astype(dict.fromkeys(whole, "Int64")).astype(object)
    shown.where(synthetic.notna(), MISSING).to_csv(path, index=False)


def judged(tables: Sequence[pd.DataFrame], *, judge: str, folder: Path) -> list[dict[str, Any]]:
    """Return what SDNist says of each table, run in its own environment."""
    with tempfile.TemporaryDirectory() as scratch:
        paths = [Path(scratch) / f"{number}.csv" for number in range(len(tables))]
        for table, path in zip(tables, paths, strict=True):
            written(table, path)
        command = [judge, str(JUDGE), str(folder.resolve()), *map(str, paths)]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in found.stdout.splitlines()]


def markdown(records: list[dict[str, Any]]) -> str:
    """Return means over seeds, a row for each set, epsilon and method."""
    lines = ["| columns | epsilon | method | score | lowest | highest | CPU s |", "|---|---|---|---|---|---|---|"]
    for key in dict.fromkeys((one["set"], one["epsilon"], one["method"]) for one in records):
        runs = [one for one in records if (one["set"], one["epsilon"], one["method"]) == key]
        scores = [one["score"] for one in runs]
        seconds = float(np.mean([one["cpu_seconds"] for one in runs]))
        shown = f"{np.mean(scores):.1f} | {min(scores):.1f} | {max(scores):.1f} | {seconds:.1f}"
        lines.append(f"| {key[0]} {len(SETS[key[0]])} | {key[1]:g} | {key[2]} | {shown} |")
    return "\n".join(lines)


def main() -> None:
    """Run all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge", required=True, help="the python of an environment with sdnist 2.4")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--set", action="append", choices=list(SETS), help="default: all four")
    parser.add_argument("--method", action="append", choices=list(METHODS), help="default: all")
    parser.add_argument("--epsilon", action="append", type=float, help="default: 1")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    dictionary = json.loads((options.data / "data_dictionary.json").read_text(encoding="utf-8"))
    records = []
    for name in options.set or SETS:
        table, schema = table_of(options.data, SETS[name]), schema_of(name, dictionary)
        for epsilon in options.epsilon or [1.0]:
            runs, tables = [], []
            for method in options.method or METHODS:
                for seed in range(options.seeds):
                    start = time.process_time()
                    tables.append(METHODS[method](table, schema, epsilon, seed))
                    seconds = round(time.process_time() - start, 2)
                    record = {"set": name, "epsilon": epsilon, "delta": DELTA, "method": method, "seed": seed}
                    runs.append(record | {"rows": len(tables[-1]), "cpu_seconds": seconds})
            scores = judged(tables, judge=options.judge, folder=options.data)
            for run, score in zip(runs, scores, strict=True):
                records.append(run | score)
                print(json.dumps(records[-1]), flush=True)
    keep(records, markdown(records), options.out)


if __name__ == "__main__":
    main()
