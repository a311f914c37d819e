"""How often intervals of smooth averages of small tables hold the truth, and stay within the function's range.

    python benchmarks/utility/smooth_means.py [--tables 200] [--rows 50 100 200 400] [--neighbors add_remove]

Each table is one column, normal around .4 and clipped to [-1, 1], released at pure epsilon 1.  One JSON line for each
number of rows, for three functions together and each.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import pandas as pd

import synthdp as sd
from synthdp.randomness import generator

FUNCTIONS = {
    "bump": lambda p: np.exp(-2 * (p[:, 0] - 0.3) ** 2),
    "wave": lambda p: np.sin(2 * p[:, 0]),
    "square": lambda p: p[:, 0] ** 2,
}
SCHEMA = sd.Schema({"x": sd.Continuous(-1, 1)})


def coverage(rows: int, tables: int, neighbors: str) -> dict[str, float]:
    """Return the part of intervals that hold the truth, by function and together, and how many leave the range."""
    held: dict[str, list[bool]] = {name: [] for name in FUNCTIONS}
    beyond = 0
    for i in range(tables):
        table = pd.DataFrame({"x": np.clip(generator(1000 * rows + i).normal(0.4, 0.4, rows), -1, 1)})
        curator = sd.Curator(table, schema=SCHEMA, budget=sd.PureDP(1.0), neighbors=neighbors)
        release = sd.SmoothSummary(smoothness=4).release(curator)
        for name, function in FUNCTIONS.items():
            values = function(np.linspace(-1, 1, 2001)[:, None])
            answer = release.answer(function)
            lower, upper = answer["lower"].item(), answer["upper"].item()
            held[name].append(bool(lower <= function(table.to_numpy()).mean() <= upper))
            beyond += bool(lower < values.min() - 1e-6 or upper > values.max() + 1e-6)
    every = [one for found in held.values() for one in found]
    by_name = {name: round(float(np.mean(found)), 3) for name, found in held.items()}
    return {"coverage": round(float(np.mean(every)), 3), **by_name, "beyond": beyond}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--rows", type=int, nargs="+", default=[50, 100, 200, 400])
    parser.add_argument("--neighbors", default="add_remove")
    arguments = parser.parse_args()
    for rows in arguments.rows:
        line = {"benchmark": "smooth means", "rows": rows, "tables": arguments.tables}
        print(json.dumps(line | coverage(rows, arguments.tables, arguments.neighbors)), flush=True)


if __name__ == "__main__":
    main()
