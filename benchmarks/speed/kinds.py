"""Processor seconds of releases of tables whose columns are all of one kind.

    python benchmarks/speed/kinds.py [--sizes 500x8,30000x8,20000x60] [--seeds 4]
    PYTHONPATH=../old python benchmarks/speed/kinds.py

Columns are alone or hang together by one hidden number: yes and no, four labels, whole numbers of 101 values.  Prints one
JSON line a table: the least processor seconds of fit and sample, and the mean two-way error in 12 equal cells of values.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time

import numpy as np
import pandas as pd

import synthdp as sd

KINDS = {"yes and no": 2, "labels": 4, "numbers": 101}
"""Values of a column."""

MOST_CELLS = 12
"""Cells of a column in the error."""


def made(kind: str, related: bool, rows: int, columns: int) -> tuple[pd.DataFrame, np.ndarray, sd.Schema]:
    """Return a table, its values as whole numbers, and its schema."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(rows, 1)) if related else np.zeros((rows, 1))
    drawn = hidden + rng.normal(size=(rows, columns))
    values = KINDS[kind]
    middle, scale = (values - 1) / 2, values / 7 if values > 2 else 1.0
    codes = np.clip(np.rint(middle + scale * drawn), 0, values - 1).astype(np.int64)
    names = [f"c{j}" for j in range(columns)]
    if kind == "numbers":
        return pd.DataFrame(codes, columns=names), codes, sd.Schema(dict.fromkeys(names, sd.Integer(0, values - 1)))
    levels = np.array([f"level {v}" for v in range(values)])
    table = pd.DataFrame({name: levels[codes[:, j]] for j, name in enumerate(names)})
    return table, codes, sd.Schema(dict.fromkeys(names, sd.Categorical(list(levels))))


def two_way(codes: np.ndarray, drawn: pd.DataFrame, values: int) -> float:
    """Return the mean total variation distance over all pairs of columns."""
    other = np.column_stack(
        [
            drawn[name].to_numpy() if values == KINDS["numbers"] else drawn[name].str[6:].astype(np.int64)
            for name in drawn
        ]
    )
    cells = min(values, MOST_CELLS)
    ours, theirs = ((one * cells // values).astype(np.int64) for one in (codes, other))
    pairs = itertools.combinations(range(codes.shape[1]), 2)
    found = []
    for i, j in pairs:
        tables = [np.bincount(one[:, i] * cells + one[:, j], minlength=cells**2) / len(one) for one in (ours, theirs)]
        found.append(0.5 * float(np.abs(tables[0] - tables[1]).sum()))
    return float(np.mean(found))


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="500x8,30000x8,20000x60")
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    for size in options.sizes.split(","):
        rows, columns = map(int, size.split("x"))
        for kind, related in itertools.product(KINDS, (False, True)):
            table, codes, schema = made(kind, related, rows, columns)
            least, errors = (np.inf, np.inf, np.inf), []
            for seed in range(options.seeds):
                start = time.process_time()
                release = sd.SyntheticRelease(schema=schema, epsilon=1.0, delta=1e-9, random_state=seed).fit(table)
                fitted = time.process_time()
                drawn = release.sample(rows)
                end = time.process_time()
                least = min(least, (end - start, fitted - start, end - fitted))
                errors.append(two_way(codes, pd.DataFrame(drawn), KINDS[kind]))
            told = dict(zip(("both", "fit", "sample"), (round(one, 4) for one in least), strict=True))
            where = {"benchmark": "kinds", "size": size, "columns": kind, "related": related}
            print(json.dumps(where | told | {"two_way": round(float(np.mean(errors)), 4)}), flush=True)


if __name__ == "__main__":
    main()
