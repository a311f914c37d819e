"""SynthEval's fast evaluation of released tables.

    python benchmarks/utility/syntheval_scores.py real.csv TARGET synthetic.csv ... [--rows 8000] [--out results.jsonl]

Runs in an environment of its own that has SynthEval (measured: 1.7.3); columns of texts or of at most two values are
categorical.  It takes no missing values, so that rows with some are left out, and no more than ``--rows`` of both tables are
compared.  The tables are those that `field.py --tables` writes.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import pandas as pd
from json_lines import tell


def main() -> None:
    """Evaluate each table."""
    from syntheval import SynthEval

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("real", type=Path)
    parser.add_argument("target")
    parser.add_argument("synthetic", type=Path, nargs="+")
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    real = read(options.real, options.rows)
    labels = [name for name in real if not pd.api.types.is_numeric_dtype(real[name]) or real[name].nunique() <= 2]
    for path in options.synthetic:
        judge = SynthEval(real, cat_cols=labels, verbose=False)
        found = judge.evaluate(read(path, options.rows)[list(real)], options.target, "fast_eval")
        tell(
            {"part": "syntheval", "table": path.name, **dict(zip(found["metric"], found["val"], strict=True))},
            options.out,
        )


def read(path: Path, rows: int) -> pd.DataFrame:
    """Read a table whose missing values are empty fields only, without the rows that have some."""
    return pd.read_csv(path, keep_default_na=False, na_values=[""]).dropna().head(rows)


if __name__ == "__main__":
    main()
