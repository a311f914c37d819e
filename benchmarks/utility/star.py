"""Persons and their rows in two tables: Tennessee STAR, 11 598 pupils with 26 796 records, and others, judged from outside.

    python benchmarks/utility/star.py [--epsilon 1 5] [--seeds 3] [--shared ../shared] [--panel star] [--out lines.jsonl]
        [--releases FOLDER]

Other panels are those of ``panels.py``, made of tables of a package.  The judge and STAR are not part of this repository:
the program looks for ``lab/panels/panel_judge.py`` and ``data/panels/<panel>`` in the folder ``--shared``, and says so and
ends where they are missing.  Each line has the judge's metrics (0 is best), processor seconds of the release and of the
sample, and the largest memory of the process.  The judge sees the real tables as a file has them; the release gets the same
with levels as texts.  With ``--releases`` the releases are kept in a folder, for ``joins.py``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
from json_lines import tell
from panels import MADE

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


@dataclass(frozen=True)
class Panel:
    """A panel as a release gets it, and as the judge does.

    Parameters
    ----------
    name
        What it is called.
    document
        Its own schema.
    schema
        The same for a release.
    tables
        The real tables, levels as texts.
    judged
        The real tables as files have them: persons, records.
    judge
        The judge, if it is there.
    """

    name: str
    document: dict[str, Any]
    schema: sd.DatabaseSchema
    tables: dict[str, pd.DataFrame]
    judged: tuple[pd.DataFrame, pd.DataFrame]
    judge: ModuleType

    @classmethod
    def of(
        cls, name: str, document: dict[str, Any], judged: tuple[pd.DataFrame, pd.DataFrame], judge: ModuleType
    ) -> Panel:
        """A panel with everything that is made of these."""
        schema = database_schema(document)
        parts = zip(("persons", "records"), judged, strict=True)
        tables = {part: with_texts(table, schema.tables[part], judge) for part, table in parts}
        return cls(name, document, schema, tables, judged, judge)

    def judgement(self, made: dict[str, pd.DataFrame]) -> dict[str, float]:
        """What the judge says of synthetic tables."""
        found = self.judge.judge(*self.judged, made["persons"], made["records"], self.document)
        return {name: round(float(value), 4) for name, value in found.items()}


def panel_at(shared: Path, name: str) -> Panel:
    """A panel of the shared folder, or one that `panels_of_packages` makes of a package's table.

    Raises
    ------
    FileNotFoundError
        If the judge or the panel is not there.
    """
    folder, judge_path = shared / "data" / "panels" / name, shared / "lab/panels/panel_judge.py"
    needed = [judge_path] if name in MADE else [folder / "schema.json", folder / "records.csv", judge_path]
    for path in needed:
        if not path.exists():
            raise FileNotFoundError(f"'{path}' is not there; give --shared the folder that has it")
    judge = judge_at(judge_path)
    if name in MADE:
        return Panel.of(name, *MADE[name](), judge)
    return Panel.of(name, json.loads((folder / "schema.json").read_text()), judge.read(folder), judge)


def panel_options(
    text: str | None, *own: tuple[str, dict[str, Any]], epsilon: Sequence[float] = (1.0, 5.0)
) -> tuple[argparse.Namespace, Panel]:
    """Return the options of a benchmark of panels, some its own, and the panel; end the program where that is not there."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, nargs="+", default=list(epsilon))
    parser.add_argument("--seeds", type=int, default=3)
    for name, settings in own:
        parser.add_argument(name, **settings)
    parser.add_argument("--panel", default="star")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--releases", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    try:
        return options, panel_at(options.shared, options.panel)
    except FileNotFoundError as error:
        sys.exit(f"skipped: {error}")


def main() -> None:
    """Release, judge, print."""
    options, panel = panel_options(__doc__)
    for epsilon in options.epsilon:
        for seed in range(options.seeds):
            started = time.process_time()
            release = sd.DatabaseRelease(schema=panel.schema, epsilon=epsilon, random_state=seed).fit(panel.tables)
            fitted = time.process_time()
            if options.releases is not None:
                release.save(options.releases / f"{panel.name}-{epsilon:g}-{seed}")
            made = release.sample()
            sampled = time.process_time()
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            line = {"panel": panel.name, "epsilon": epsilon, "seed": seed, "seconds": round(fitted - started, 1)}
            line |= {"seconds_to_sample": round(sampled - fitted, 2), "memory_mb": memory}
            tell(line | panel.judgement(made), options.out)


if __name__ == "__main__":
    main()
