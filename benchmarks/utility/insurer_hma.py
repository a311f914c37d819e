"""An insurer's customers and policies by SDV's HMA, which protects nobody, and by a release: time, errors, scores.

    python benchmarks/utility/insurer_hma.py --customers 2000 10000 [--epsilon 1 5] [--seeds 3] [--shared ../shared]
        [--out lines.jsonl]

Runs in an environment of its own that has SDV and synthdp (measured: SDV 2.0.0, SDMetrics 0.32.0). The claims are
left out: HMA refuses tables more than two levels deep. HMA draws the same rows in every run, so that it runs once.
The tables are not part of this repository; see ``insurer.py``, from which ``pairs``, ``related`` and ``masses`` are,
too. A line also has the scores of SDMetrics' two multi-table reports, processor seconds of fit and sample, seconds by
the clock of both, how often a policy ends before it begins, and which part of the synthetic rows of each table are
real ones in all columns but the keys.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from insurer import KEYS, SHARED, Tables, masses, pairs, ranked, ratio
from json_lines import tell

import synthdp as sd

NAMES = ("customers", "policies")
"""The tables."""


def metadata_of(real: Tables) -> dict[str, Any]:
    """Return SDV's description of the tables."""
    tables: dict[str, Any] = {}
    for name, table in real.items():
        kinds = {
            column: "numerical" if pd.api.types.is_numeric_dtype(table[column]) else "categorical" for column in table
        }
        columns: dict[str, Any] = {column: {"sdtype": kind} for column, kind in kinds.items()}
        columns |= {column: {"sdtype": "id"} for column in table if column in KEYS}
        columns |= {column: {"sdtype": "datetime"} for column in ("start", "end") if column in table}
        tables[name] = {"columns": columns, "primary_key": table.columns[table.columns.isin(KEYS)][-1]}
    tables["customers"]["primary_key"] = "customer_id"
    related = {
        "parent_table_name": "customers", "parent_primary_key": "customer_id",
        "child_table_name": "policies", "child_foreign_key": "customer_id",
    }  # fmt: skip
    return {"tables": tables, "relationships": [related], "METADATA_SPEC_VERSION": "V1"}


def by_hma(real: Tables, metadata: dict[str, Any]) -> tuple[Tables, float]:
    """Return tables that SDV's HMA made, and the processor seconds when its fit had ended."""
    from sdv.metadata import Metadata
    from sdv.multi_table import HMASynthesizer

    synthesizer = HMASynthesizer(Metadata.load_from_dict(metadata), verbose=False)
    synthesizer.fit(real)
    fitted = time.process_time()
    made = synthesizer.sample(len(real["customers"]), main_table_name="customers")
    return {name: made[name][[*table]] for name, table in real.items()}, fitted


def scores(real: Tables, made: Tables, metadata: dict[str, Any]) -> dict[str, float]:
    """Return SDMetrics' two scores of several tables, each as a whole and by property."""
    from sdmetrics.reports.multi_table import DiagnosticReport, QualityReport

    found = {}
    for what, report in (("diagnostic", DiagnosticReport()), ("quality", QualityReport())):
        report.generate(real, made, metadata, verbose=False)
        found[what] = round(float(report.get_score()), 4)
        for name, score in report.get_properties().set_index("Property")["Score"].items():
            found[f"{what}: {name}"] = round(float(score), 4)
    return found


def copies(real: Tables, made: Tables) -> dict[str, float]:
    """Return by table the fraction of synthetic rows that are real ones in all columns but the keys."""
    found = {}
    for name, table in real.items():
        columns = [column for column in table if column not in KEYS]
        rows = set(map(tuple, table[columns].astype(str).to_numpy()))
        drawn = map(tuple, made[name][columns].astype(str).to_numpy())
        found[name] = round(float(np.mean([row in rows for row in drawn])), 4)
    return found


def judged(real: Tables, made: Tables) -> dict[str, Any]:
    """Return the measures of ``insurer.py`` that need no claims."""
    every, mass = list(pairs(ranked(real), ranked(made))), masses(real, made)
    length = made["policies"]["end"] - made["policies"]["start"]
    return {
        "pairs": ratio(every),
        "related": ratio([one for one in every if one[2] > 1.5 * one[3]]),
        "masses": [round(max(mass), 4), round(float(np.mean(mass)), 4)],
        "policies that end before they begin": round(float((length.dt.days < 0).mean()), 4),
    }


def main() -> None:
    """Make, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--customers", type=int, nargs="+", default=[2000, 10_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    folder = options.shared / "lab" / "insurer"
    if not folder.exists():
        sys.exit(f"skipped: '{folder}' is not there; give --shared the folder that has it")
    sys.path.insert(0, str(folder))
    laws, whole = importlib.import_module("tables"), importlib.import_module("schema").schema()
    policies = sd.Schema({"policy_id": sd.Identifier(), **whole.tables["policies"]})
    schema = sd.DatabaseSchema(
        {"customers": whole.tables["customers"], "policies": policies},
        [one for one in whole.relations if one.child in NAMES],
        [sd.LessEqual("policies.start", "policies.end")],
    )
    warnings.simplefilter("ignore")
    for customers in options.customers:
        real = {name: table for name, table in laws.make(customers).items() if name in NAMES}
        metadata = metadata_of(real)
        for epsilon in (None, *options.epsilon):
            for seed in range(1 if epsilon is None else options.seeds):  # HMA draws the same rows in every run
                started, clock = time.process_time(), time.perf_counter()
                if epsilon is None:
                    made, fitted = by_hma(real, metadata)
                else:
                    release = sd.DatabaseRelease(schema=schema, epsilon=epsilon, random_state=seed).fit(real)
                    fitted, made = time.process_time(), release.sample()
                line: dict[str, Any] = {"customers": customers, "epsilon": epsilon, "seed": seed}
                line |= {
                    "seconds": round(fitted - started, 1),
                    "seconds_to_sample": round(time.process_time() - fitted, 1),
                }
                line["clock"] = round(time.perf_counter() - clock, 1)
                line |= judged(real, made) | scores(real, made, metadata)
                tell(line | {"copies": copies(real, made)}, options.out)


if __name__ == "__main__":
    main()
