"""Persons with many rows in no order: errors of single columns, and of pairs of values in two rows of a person.

    python benchmarks/utility/unordered.py [--epsilon 1 5] [--releases 3] [--out FILE]

Made tables of 3 000, 2 000 and 1 500 persons with up to 3, 8 and 20 rows.  ``group`` agrees with a hidden class of the
person in most rows, ``amount`` is correlated among the rows of a person, ``free`` is not related to anything, ``same`` is
equal in all rows of a person.  Errors are total variation distances; ``unrelated`` is that of rows dealt out to persons at
random.  Prints one JSON line a release.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd

import synthdp as sd

SIZES = ((3000, 3), (2000, 8), (1500, 20))
"""Persons, and most rows of one."""

COLUMNS = ("group", "amount", "free", "same")


def made(persons: int, most: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return persons and their rows."""
    rng = np.random.default_rng(0)
    kind, hidden = rng.integers(0, 4, persons), rng.normal(size=persons)
    owner = np.repeat(np.arange(persons), rng.integers(1, most + 1, persons))
    group = np.where(rng.random(len(owner)) < 0.7, kind[owner], rng.integers(0, 4, len(owner)))
    amount = np.rint(50 + 15 * (0.8 * hidden[owner] + 0.6 * rng.normal(size=len(owner))))
    rows = {
        "id": owner, "group": np.array(list("uvwx"))[group], "amount": np.clip(amount, 0, 100).astype(int),
        "free": rng.integers(0, 12, len(owner)), "same": np.array(list("abcdefgh"))[(2 * kind + (hidden > 0))[owner]],
    }  # fmt: skip
    return pd.DataFrame({"id": range(persons), "kind": np.array(list("pqrs"))[kind]}), pd.DataFrame(rows)


def pairs(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the shares of pairs of values in two rows of a person; persons weigh alike."""
    values = rows[column] // 10 if column == "amount" else rows[column]
    counts = pd.crosstab(rows.iloc[:, 0].to_numpy(), values.to_numpy())
    counts = counts[counts.sum(axis=1) > 1]
    weight = counts.div(counts.sum(axis=1) * (counts.sum(axis=1) - 1), axis=0)
    table = weight.T @ counts - np.diag(weight.sum(axis=0))
    return table / table.to_numpy().sum()


def apart(a: pd.DataFrame | pd.Series, b: pd.DataFrame | pd.Series) -> float:
    """Return the total variation distance of two tables of shares."""
    return round(float(a.sub(b, fill_value=0).fillna(0).abs().to_numpy().sum()) / 2, 3)


def main() -> None:
    """Make the releases and judge them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--releases", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    for persons, most in SIZES:
        above, real = made(persons, most)
        schema = sd.DatabaseSchema(
            {"persons": sd.Schema({"kind": sd.Categorical(list("pqrs"))}),
             "rows": sd.Schema({"group": sd.Categorical(list("uvwx")), "amount": sd.Integer(0, 100),
                                "free": sd.Integer(0, 11), "same": sd.Categorical(list("abcdefgh"))})},
            [sd.Relation("persons", "rows", key="id", at_most=most)],
        )  # fmt: skip
        dealt = real.assign(id=np.random.default_rng(1).permutation(real["id"]))
        unrelated = {column: apart(pairs(dealt, column), pairs(real, column)) for column in COLUMNS}
        for epsilon in options.epsilon:
            for seed in range(options.releases):
                start = time.process_time()
                release = sd.DatabaseRelease(schema=schema, epsilon=epsilon, delta=1e-6, random_state=seed)
                found = release.fit_transform({"persons": above, "rows": real})["rows"]
                seconds = round(time.process_time() - start, 1)
                shares = {c: apart(*(one[c].value_counts(normalize=True) for one in (found, real))) for c in COLUMNS}
                line = {
                    "benchmark": "unordered", "persons": persons, "most": most, "epsilon": epsilon, "seed": seed,
                    "seconds": seconds, "single": shares, "unrelated": unrelated,
                    "pairs": {c: apart(pairs(found, c), pairs(real, c)) for c in COLUMNS},
                }  # fmt: skip
                print(json.dumps(line), flush=True)
                if options.out:
                    with options.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
