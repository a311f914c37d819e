"""Persons and their rows in two tables: Tennessee STAR, 11 598 pupils with 26 796 records, judged from outside.

    python benchmarks/utility/star.py [--epsilon 1 5] [--seeds 3] [--shared ../shared] [--panel star] [--out lines.jsonl]

The judge and the data are not part of this repository: the program looks for ``lab/panels/panel_judge.py`` and
``data/panels/<panel>`` in the folder ``--shared``, and says so and ends where they are missing.  Each line has the judge's
metrics (0 is best), processor seconds of the release and of the sample, and the largest memory of the process.  The judge
sees the real tables as a file has them; the release gets the same with levels as texts.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

import synthdp as sd

SHARED = Path(__file__).parents[3] / "shared"


def judge_at(path: Path) -> ModuleType:
    """The judge, as it is."""
    spec = importlib.util.spec_from_file_location("panel_judge", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def column(declared: dict[str, Any]) -> sd.schema.column.Column:
    """A column as the panel's own schema declares it."""
    if declared["type"] == "categorical":
        return sd.Categorical(declared["levels"], nullable=declared["nullable"])
    kind = sd.Integer if declared["type"] == "integer" else sd.Continuous
    return kind(declared["lower"], declared["upper"], nullable=declared["nullable"])


def database_schema(document: dict[str, Any]) -> sd.DatabaseSchema:
    """The panel's schema: one record of a person in a period."""
    persons = sd.Schema({name: column(one) for name, one in document["persons"].items()})
    periods = sd.Ordinal(document["time_levels"])
    records = sd.Schema({document["time"]: periods} | {name: column(one) for name, one in document["records"].items()})
    related = sd.Relation(
        "persons", "records", key=document["key"], at_most=document["max_records"], order=document["time"], unique=True
    )
    return sd.DatabaseSchema({"persons": persons, "records": records}, [related])


def with_texts(table: pd.DataFrame, schema: sd.Schema, judge: ModuleType) -> pd.DataFrame:
    """A table whose levels are texts, as the schema has them: a file's 1 and 1.0 are the level 1."""
    labelled = {name: judge.text(table[name]) for name, kind in schema.items() if kind.labelled}
    return table.assign(**labelled)


def main() -> None:
    """Release, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--panel", default="star")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    folder, judge_path = (
        options.shared / "data" / "panels" / options.panel,
        options.shared / "lab/panels/panel_judge.py",
    )
    for needed in (folder / "schema.json", folder / "records.csv", judge_path):
        if not needed.exists():
            sys.exit(f"skipped: '{needed}' is not there; give --shared the folder that has it")
    judge = judge_at(judge_path)
    document = json.loads((folder / "schema.json").read_text())
    schema = database_schema(document)
    persons, records = judge.read(folder)
    real = {"persons": with_texts(persons, schema.tables["persons"], judge)}
    real["records"] = with_texts(records, schema.tables["records"], judge)
    for epsilon in options.epsilon:
        for seed in range(options.seeds):
            started = time.process_time()
            release = sd.DatabaseRelease(schema=schema, epsilon=epsilon, random_state=seed).fit(real)
            fitted = time.process_time()
            made = release.sample()
            sampled = time.process_time()
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            found = judge.judge(persons, records, made["persons"], made["records"], document)
            line = {"panel": options.panel, "epsilon": epsilon, "seed": seed, "seconds": round(fitted - started, 1)}
            line |= {"seconds_to_sample": round(sampled - fitted, 2), "memory_mb": memory}
            line |= {name: round(float(value), 4) for name, value in found.items()}
            print(json.dumps(line), flush=True)
            if options.out is not None:
                with options.out.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
