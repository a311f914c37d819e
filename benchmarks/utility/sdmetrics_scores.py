"""SDMetrics' overall quality of released tables, and of real tables whose most extreme rows are clipped.

    python benchmarks/utility/sdmetrics_scores.py real.csv synthetic.csv ... [--ends] [--out results.jsonl]
    python benchmarks/utility/sdmetrics_scores.py real.csv --clipped 0 1 5 10 20 50 [--out results.jsonl]

Runs in an environment of its own that has SDMetrics (measured: 0.32.0); texts and columns of at most two values are
categorical, all others numerical.  The tables are those that ``undeclared.py --save`` writes.

The report compares a number with a category by ten equal bins between the least and the largest value of each table by
itself.  So its score depends on the most extreme rows: ``--clipped k`` scores the real table against itself with the k
least and the k largest rows of each column of numbers moved to the next one: no release does better that does not know them.
``--ends`` also scores each released table with two more rows: the real table's least number of each column, and its
largest, which no private release may have.  A line has the score of each pair that counts.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from json_lines import tell


def scores(real: pd.DataFrame, other: pd.DataFrame, categorical: list[str]) -> dict[str, Any]:
    """Overall score, that of single columns and of pairs, and of each pair that counts."""
    from sdmetrics.reports.single_table import QualityReport

    kinds = {name: {"sdtype": "categorical" if name in categorical else "numerical"} for name in real}
    report = QualityReport()
    report.generate(real, other, {"columns": kinds}, verbose=False)
    parts = report.get_properties().set_index("Property")["Score"]
    pairs = report.get_details("Column Pair Trends").dropna(subset=["Score"])
    each = {f"{row['Column 1']}, {row['Column 2']}": round(row["Score"], 3) for _, row in pairs.iterrows()}
    overall = {"overall": report.get_score(), "columns": parts["Column Shapes"], "pairs": parts["Column Pair Trends"]}
    return overall | {"each_pair": each}


def typed(table: pd.DataFrame, like: pd.DataFrame, categorical: list[str]) -> pd.DataFrame:
    """Return the columns of the real table, as objects or floats."""
    columns = {
        name: table[name].astype(object) if name in categorical else pd.to_numeric(table[name], errors="coerce") * 1.0
        for name in like
    }
    return pd.DataFrame(columns)


def clipped(table: pd.DataFrame, rows: int, categorical: list[str]) -> pd.DataFrame:
    """Return the table with so many rows at either end of each column of numbers moved to the next one."""
    made = table.copy()
    for name in set(table) - set(categorical) if rows else ():
        values = np.sort(table[name].dropna().to_numpy())
        made[name] = table[name].clip(values[rows], values[-rows - 1])
    return made


def with_ends(table: pd.DataFrame, real: pd.DataFrame, categorical: list[str]) -> pd.DataFrame:
    """Return the table with two more rows: the first, with the least and the largest number of each column of the other."""
    numbers = [name for name in real if name not in categorical]
    rows = table.iloc[[0, 0]].copy()
    rows[numbers] = np.array([real[numbers].min(), real[numbers].max()])
    return pd.concat([table, rows], ignore_index=True)


def read(path: Path) -> pd.DataFrame:
    """Read a table whose missing values are empty fields only."""
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("real", type=Path)
    parser.add_argument("synthetic", type=Path, nargs="*")
    parser.add_argument("--clipped", type=int, nargs="*", default=[])
    parser.add_argument("--ends", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    raw = read(options.real)
    categorical = [name for name in raw if raw[name].dtype == object or raw[name].nunique() <= 2]
    real = typed(raw, raw, categorical)
    records: list[dict[str, Any]] = []
    for path in options.synthetic:
        made = typed(read(path).reindex(columns=list(raw)), raw, categorical)
        records.append({"part": "sdmetrics", "table": path.name, **scores(real, made, categorical)})
        if options.ends:
            more = with_ends(made, real, categorical)
            records.append({"part": "sdmetrics_ends", "table": path.name, **scores(real, more, categorical)})
    for rows in options.clipped:
        made = clipped(real, rows, categorical)
        records.append({"part": "clipped", "table": options.real.name, "rows": rows, **scores(real, made, categorical)})
    for record in records:
        tell(record, options.out)


if __name__ == "__main__":
    main()
