"""How often intervals hold relations of which a release measured nothing, because its budget was too small.

    python benchmarks/utility/untold.py [--releases 20] [--out FILE]

Made tables in which one hidden truth value is behind every column: yes-or-no columns that are wrong in 4 % of the rows, and
a number.  Prints one JSON line a table: for each kind of question the releases whose 95 % interval holds the truth.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd

import synthdp as sd

TABLES = ((500, 4, 0.1), (500, 10, 0.1), (1000, 30, 0.2), (1000, 3, 0.05), (3000, 40, 0.1))
"""Rows, yes-or-no columns and epsilon."""


def table(rows: int, columns: int) -> pd.DataFrame:
    """Return strongly related columns b0, b1, ... and a number x with its mirror image y."""
    rng = np.random.default_rng(0)
    hidden = rng.random(rows) < 0.4
    found = pd.DataFrame({f"b{j}": np.where(rng.random(rows) < 0.04, ~hidden, hidden) for j in range(columns)})
    found["x"] = np.clip(np.rint(40 + 20 * hidden + 5 * rng.normal(size=rows)), 0, 100).astype(int)
    found["y"] = np.clip(100 - found["x"] + rng.integers(-3, 4, rows), 0, 100)
    return found


def main() -> None:
    """Make the releases and ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    for rows, columns, epsilon in TABLES:
        real = table(rows, columns)
        schema = sd.Schema(
            {**{f"b{j}": sd.Boolean() for j in range(columns)}, "x": sd.Integer(0, 100), "y": sd.Integer(0, 100)}
        )
        b0, b1, b2 = (real[f"b{j}"] for j in range(3))
        asked = {
            "share of two": (sd.share("b0 == true and b1 == true"), (b0 & b1).mean()),
            "share of three": (sd.share("b0 == true and b1 == true and b2 == true"), (b0 & b1 & b2).mean()),
            "share of some": (sd.share("b0 == true", where="b1 == true"), b0[b1].mean()),
            "count": (sd.count(where="b0 == true and b1 == false"), (b0 & ~b1).sum()),
            "mean of some": (sd.mean("x", where="b0 == true"), real.x[b0].mean()),
            "quantile of some": (sd.quantile("x", where="b0 == true"), real.x[b0].median()),
            "correlation": (sd.correlation("x", "y"), real.x.corr(real.y)),
        }
        held = dict.fromkeys(asked, 0)
        for seed in range(options.releases):
            release = sd.SyntheticRelease(schema=schema, epsilon=epsilon, delta=1e-6, random_state=seed).fit(real)
            for kind, (question, truth) in asked.items():
                one = release.answer(question).iloc[0]
                held[kind] += bool(one["lower"] <= truth <= one["upper"])
        line = json.dumps({"benchmark": "untold", "rows": rows, "columns": columns + 2, "epsilon": epsilon,
                           "releases": options.releases, "held": held})  # fmt: skip
        print(line, flush=True)
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
