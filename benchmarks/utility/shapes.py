"""Columns of real tables with a declared shape (``like=``) and without: how far their distribution comes out.

    python benchmarks/utility/shapes.py [--epsilon .01 .03 .1] [--seeds 6] [--data FOLDER] [--out shapes.jsonl]

Six columns alone: loan, mortgage and value of hmeq (``hmeq.csv`` in ../shared/data, or ``--data``), age, hours and weight of
Adult.  One JSON line for each column, epsilon and shape: the mean distance of the cumulative distribution at the real 1 %
to 99 % quantiles, and its standard error over the releases.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from json_lines import tell

import synthdp as sd
from synthdp.data import adult

DATA = Path(__file__).parents[2] / "../shared/data"
COLUMNS: dict[str, tuple[float, tuple[str | None, ...]]] = {
    "LOAN": (200_000, (None, "lognormal", "smooth")),
    "MORTDUE": (800_000, (None, "lognormal", "smooth")),
    "VALUE": (1_500_000, (None, "lognormal")),
    "fnlwgt": (2_000_000, (None, "lognormal", "smooth")),
    "age": (120, (None, "smooth", "normal")),
    "hours-per-week": (120, (None, "normal", "smooth")),
}
"""Each column's public upper bound (the lower one is 0), and the shapes that are tried."""


def distance(real: np.ndarray, made: np.ndarray) -> float:
    """Return the mean difference of two cumulative distributions at the real quantiles."""
    at = np.quantile(real, np.linspace(0.01, 0.99, 99))
    both = (np.searchsorted(np.sort(one), at, side="right") / len(one) for one in (real, made))
    return float(np.abs(np.subtract(*both)).mean())


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--epsilon", nargs="*", type=float, default=[0.01, 0.03, 0.1])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path)
    told = parser.parse_args()
    census, loans = adult(), pd.read_csv(told.data / "hmeq.csv")
    for (name, (upper, shapes)), epsilon in itertools.product(COLUMNS.items(), told.epsilon):
        table: Any = (loans if name in loans else census)[[name]].dropna().astype(float)
        for shape in shapes:
            schema = sd.Schema({name: sd.Continuous(0, upper, **({} if shape is None else {"like": shape}))})
            found = []
            for seed in range(told.seeds):
                release = sd.SyntheticRelease(schema=schema, epsilon=epsilon, random_state=seed)
                found.append(distance(table[name].to_numpy(), release.fit_transform(table)[name].to_numpy(float)))
            error = float(np.std(found, ddof=1)) / len(found) ** 0.5
            shown = {"distance": round(float(np.mean(found)), 4), "standard_error": round(error, 4)}
            tell({"column": name, "rows": len(table), "epsilon": epsilon, "like": shape, **shown}, told.out)


if __name__ == "__main__":
    main()
