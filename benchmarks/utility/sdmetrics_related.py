"""SDMetrics' multi-table diagnostic and quality of released panels.

    python benchmarks/utility/sdmetrics_related.py FOLDER SCHEMA.json [--out results.jsonl]

Runs in an environment of its own that has SDMetrics (measured: 0.32.0).  ``FOLDER`` is what ``panel_ways.py`` wrote:
``real`` beside synthetic folders.  ``SCHEMA.json`` is the panel's schema.  The diagnostic takes the least and the largest
*real* value as the bounds of a number, and the *real* levels as all there are, which no private release may know; so it is
also made by the schema, with rows beside the real ones that have every declared bound and level.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
from json_lines import tell


def metadata_of(document: dict[str, Any]) -> dict[str, Any]:
    """SDMetrics' description of two tables."""
    key, time = document["key"], document["time"]
    kinds = {
        name: {
            column: {"sdtype": "categorical" if declared["type"] == "categorical" else "numerical"}
            for column, declared in document[name].items()
        }
        for name in ("persons", "records")
    }
    kinds["records"][time] = {"sdtype": "categorical"}
    tables = {name: {"columns": {key: {"sdtype": "id"}} | columns} for name, columns in kinds.items()}
    tables["persons"]["primary_key"] = key
    related = {
        "parent_table_name": "persons", "parent_primary_key": key, "child_table_name": "records", "child_foreign_key": key,
    }  # fmt: skip
    return {"tables": tables, "relationships": [related]}


def read(folder: Path, metadata: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """Tables with levels as texts and numbers as floats."""
    found = {}
    for name, described in metadata["tables"].items():
        table = pd.read_csv(folder / f"{name}.csv", keep_default_na=False, na_values=[""], dtype=str)
        columns = {
            column: pd.to_numeric(table[column]) if one["sdtype"] == "numerical" else table[column].astype(object)
            for column, one in described["columns"].items()
        }
        found[name] = pd.DataFrame(columns)
    return found


def with_declared(real: dict[str, pd.DataFrame], document: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """Real tables with rows beside them that have every declared level and bound."""
    key, time = document["key"], document["time"]
    declared = (
        document["persons"],
        {time: {"type": "categorical", "levels": document["time_levels"]}} | document["records"],
    )
    some = max(len(one["levels"]) for columns in declared for one in columns.values() if one["type"] == "categorical")
    found = {}
    for name, columns in zip(("persons", "records"), declared, strict=True):
        rows = {key: [f"declared {i}" for i in range(some)]}
        for column, one in columns.items():
            values = one["levels"] if one["type"] == "categorical" else [float(one["lower"]), float(one["upper"])]
            rows[column] = [values[i % len(values)] for i in range(some)]
        found[name] = pd.concat([real[name], pd.DataFrame(rows)], ignore_index=True)
    return found


def scores(real: dict[str, pd.DataFrame], made: dict[str, pd.DataFrame], metadata: dict[str, Any]) -> dict[str, float]:
    """Both reports, whole and by property."""
    from sdmetrics.reports.multi_table import DiagnosticReport, QualityReport

    found = {}
    for what, report in (("diagnostic", DiagnosticReport()), ("quality", QualityReport())):
        report.generate(real, made, metadata, verbose=False)
        found[what] = round(float(report.get_score()), 4)
        for name, score in report.get_properties().set_index("Property")["Score"].items():
            found[f"{what}: {name}"] = round(float(score), 4)
    return found


def main() -> None:
    """Judge every synthetic folder, and the real one by itself."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("schema", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    document = json.loads(options.schema.read_text(encoding="utf-8"))
    metadata = metadata_of(document)
    real = read(options.folder / "real", metadata)
    for folder in sorted(path for path in options.folder.iterdir() if path.is_dir()):
        made = read(folder, metadata)
        line = {"tables": folder.name} | scores(real, made, metadata)
        declared = scores(with_declared(real, document), made, metadata)
        tell(line | {"diagnostic by the schema": declared["diagnostic"]}, options.out)


if __name__ == "__main__":
    main()
