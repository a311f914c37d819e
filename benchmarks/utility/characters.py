"""Artificial Characters: seven numbers and a class of ten.  Can a classifier be trained on the synthetic rows?

    python benchmarks/utility/characters.py [--tiny] [--seeds 3] [--data FOLDER] [--out results.jsonl]

Accuracy of gradient boosting trained on synthetic rows, on the 1 533 held-out real ones; epsilon 1 and 10, delta 1e-5.
Methods: synthdp as it stands, with ``target="Class"``, as the mechanism would be were the tables of several columns
counted without noise (not private), and real rows drawn with replacement (not private).  The files ac_train.csv and
ac_test.csv are read from ../shared/data/boards; with ``--tiny`` or without them a table of as many columns is simulated.
Bounds and levels are those of the training rows, taken as public.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from flagship import bootstrap, schema_of
from json_lines import keep
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits
from without_noise import TABLES, without_noise

from synthdp import AdaptiveMarginals, ApproxDP, Categorical, Curator, Schema

DELTA = 1e-5
EPSILONS = (1.0, 10.0)
DATA = Path(__file__).parents[2] / "../shared/data/boards"
CLASS = "Class"


def release(table: pd.DataFrame, schema: Schema, epsilon: float, seed: int, **settings: Any) -> pd.DataFrame:
    """Release once, and sample as many rows as it thinks there are."""
    curator = Curator(table, schema=schema, budget=ApproxDP(epsilon, DELTA))
    return AdaptiveMarginals(**settings).release(curator, random_state=seed).sample(random_state=seed)


def with_target(table: pd.DataFrame, schema: Schema, epsilon: float, seed: int) -> pd.DataFrame:
    """Release with the class as the column whose relations matter most."""
    return release(table, schema, epsilon, seed, target=CLASS)


def exact_tables(table: pd.DataFrame, schema: Schema, epsilon: float, seed: int) -> pd.DataFrame:
    """Release by the same plan, its tables of several columns counted exactly.  Not private."""
    with without_noise(TABLES):
        return release(table, schema, epsilon, seed)


METHODS: dict[str, Callable[[pd.DataFrame, Schema, float, int], pd.DataFrame]] = {
    "synthdp": release,
    "with target": with_target,
    "exact tables": exact_tables,
    "real rows": bootstrap,
}


def accuracy(synthetic: pd.DataFrame, test: pd.DataFrame) -> float:
    """Return the share of the test rows whose class boosting finds after training on the synthetic rows."""
    model = HistGradientBoostingClassifier(random_state=0)
    numbers = [name for name in test if name != CLASS]
    with threadpool_limits(1):
        model.fit(synthetic[numbers].astype(float), synthetic[CLASS].astype(str))
        return float((model.predict(test[numbers].astype(float)) == test[CLASS].astype(str)).mean())


def simulated(rows: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return training and test rows of ten classes, each a cloud of its own in seven numbers."""
    rng = np.random.default_rng(0)
    classes = rng.integers(1, 11, 2 * rows)
    numbers = rng.normal(rng.uniform(0, 60, (11, 7))[classes], 8).round(1)
    table = pd.DataFrame(numbers, columns=[f"V{j}" for j in range(1, 8)]).assign(Class=classes)
    return table[:rows], table[rows:].reset_index(drop=True)


def declared(table: pd.DataFrame) -> Schema:
    """Return the bounds and levels of the rows, taken as public."""
    levels = Categorical(sorted(int(value) for value in table[CLASS].unique()))
    return Schema({**schema_of(table.drop(columns=CLASS)), CLASS: levels})


def markdown(records: list[dict[str, Any]]) -> str:
    """Return means over seeds, a row for each epsilon and method."""
    lines = ["| epsilon | method | accuracy | lowest | highest | CPU s |", "|---|---|---|---|---|---|"]
    for key in dict.fromkeys((one["epsilon"], one["method"]) for one in records):
        runs = [one for one in records if (one["epsilon"], one["method"]) == key]
        found = [one["accuracy"] for one in runs]
        seconds = float(np.mean([one["cpu_seconds"] for one in runs]))
        shown = f"{np.mean(found):.3f} | {min(found):.3f} | {max(found):.3f} | {seconds:.1f}"
        lines.append(f"| {key[0]:g} | {key[1]} | {shown} |")
    return "\n".join(lines)


def main() -> None:
    """Run all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    real = options.data / "ac_train.csv"
    if options.tiny or not real.exists():
        train, test = simulated(1000)
    else:
        train, test = pd.read_csv(real), pd.read_csv(options.data / "ac_test.csv")
    schema, records = declared(train), []
    for epsilon in EPSILONS[-1:] if options.tiny else EPSILONS:
        for name, method in METHODS.items():
            for seed in range(1 if options.tiny else options.seeds):
                start = time.process_time()
                synthetic = method(train, schema, epsilon, seed)
                seconds = round(time.process_time() - start, 2)
                record = {"data": "artificial characters", "epsilon": epsilon, "delta": DELTA, "method": name}
                record |= {"seed": seed, "rows": len(synthetic), "accuracy": accuracy(synthetic, test)}
                records.append(record | {"cpu_seconds": seconds})
                print(json.dumps(records[-1]), flush=True)
    keep(records, markdown(records), options.out)


if __name__ == "__main__":
    main()
