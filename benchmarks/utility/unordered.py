"""Persons with many rows that are alike, without and with an order: errors of single columns, and of pairs of values.

    python benchmarks/utility/unordered.py [--epsilon 1 5] [--releases 3] [--only unordered] [--out FILE]

Without an order: made tables of 3 000, 2 000 and 1 500 persons with up to 3, 8 and 20 rows.  ``group`` agrees with a hidden
class of the person in most rows, ``amount`` is correlated among the rows of a person, ``free`` is not related to anything,
``same`` is equal in all rows of a person; pairs are of two rows of a person.

With an order: 1 500 persons with 20 rows each.  ``state`` stays in 97 of 100 steps, ``amount`` moves a little in every step
(autoregressive, .97), ``free`` is not related to anything; pairs are of a row and the next.

Errors are total variation distances; ``unrelated`` is that of rows dealt out to persons at random.  Prints one JSON line a
release.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from json_lines import tell

import synthdp as sd

SIZES = ((3000, 3), (2000, 8), (1500, 20))
"""Persons, and most rows of one."""

IN_ORDER = (1500, 20)
"""Persons, and rows of each, of the table with an order."""

STAY = 0.97
"""How often ``state`` stays, and the correlation of ``amount`` with the row before."""


@dataclass(frozen=True)
class Case:
    """A made database.

    Parameters
    ----------
    benchmark
        Its name: unordered or ordered.
    persons, most
        Number of persons, and most rows of one.
    schema
        Schema of ``persons`` and ``rows``.
    tables
        The tables.
    pairs
        Function of rows and a column: shares of pairs of values in two rows of a person.
    """

    benchmark: str
    persons: int
    most: int
    schema: sd.DatabaseSchema
    tables: dict[str, pd.DataFrame]
    pairs: Callable[[pd.DataFrame, str], pd.DataFrame]


def unordered(persons: int, most: int) -> Case:
    """Return persons and their rows in no order."""
    rng = np.random.default_rng(0)
    kind, hidden = rng.integers(0, 4, persons), rng.normal(size=persons)
    owner = np.repeat(np.arange(persons), rng.integers(1, most + 1, persons))
    group = np.where(rng.random(len(owner)) < 0.7, kind[owner], rng.integers(0, 4, len(owner)))
    amount = np.rint(50 + 15 * (0.8 * hidden[owner] + 0.6 * rng.normal(size=len(owner))))
    rows = {
        "id": owner, "group": np.array(list("uvwx"))[group], "amount": np.clip(amount, 0, 100).astype(int),
        "free": rng.integers(0, 12, len(owner)), "same": np.array(list("abcdefgh"))[(2 * kind + (hidden > 0))[owner]],
    }  # fmt: skip
    above = pd.DataFrame({"id": range(persons), "kind": np.array(list("pqrs"))[kind]})
    columns = {"group": sd.Categorical(list("uvwx")), "amount": sd.Integer(0, 100), "free": sd.Integer(0, 11),
               "same": sd.Categorical(list("abcdefgh"))}  # fmt: skip
    schema = sd.DatabaseSchema(
        {"persons": sd.Schema({"kind": sd.Categorical(list("pqrs"))}), "rows": sd.Schema(columns)},
        [sd.Relation("persons", "rows", key="id", at_most=most)],
    )
    return Case("unordered", persons, most, schema, {"persons": above, "rows": pd.DataFrame(rows)}, pairs)


def ordered(persons: int, most: int) -> Case:
    """Return persons and their rows in order of time, each much like the one before."""
    rng = np.random.default_rng(0)
    state, amount = np.zeros((persons, most), np.int64), rng.normal(size=(persons, most))
    fresh, stays = rng.choice(5, (persons, most), p=[0.4, 0.25, 0.2, 0.1, 0.05]), rng.random((persons, most)) < STAY
    state[:, 0] = fresh[:, 0]
    for t in range(1, most):
        state[:, t] = np.where(stays[:, t], state[:, t - 1], fresh[:, t])
        amount[:, t] = STAY * amount[:, t - 1] + np.sqrt(1 - STAY**2) * amount[:, t]
    rows = {
        "id": np.repeat(np.arange(persons), most), "time": np.tile(np.arange(most), persons),
        "state": np.array(list("abcde"))[state.ravel()], "free": rng.integers(0, 12, persons * most),
        "amount": np.clip(np.rint(50 + 15 * amount.ravel()), 0, 100).astype(int),
    }  # fmt: skip
    above = pd.DataFrame({"id": range(persons), "kind": rng.choice(list("pqrs"), persons)})
    columns = {"time": sd.Integer(0, most - 1), "state": sd.Categorical(list("abcde")), "amount": sd.Integer(0, 100),
               "free": sd.Integer(0, 11)}  # fmt: skip
    schema = sd.DatabaseSchema(
        {"persons": sd.Schema({"kind": sd.Categorical(list("pqrs"))}), "rows": sd.Schema(columns)},
        [sd.Relation("persons", "rows", key="id", at_most=most, order="time", unique=True)],
    )
    return Case("ordered", persons, most, schema, {"persons": above, "rows": pd.DataFrame(rows)}, steps)


def pairs(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the shares of pairs of values in two rows of a person; persons weigh alike."""
    values = rows[column] // 10 if column == "amount" else rows[column]
    counts = pd.crosstab(rows.iloc[:, 0].to_numpy(), values.to_numpy())
    counts = counts[counts.sum(axis=1) > 1]
    weight = counts.div(counts.sum(axis=1) * (counts.sum(axis=1) - 1), axis=0)
    table = weight.T @ counts - np.diag(weight.sum(axis=0))
    return pd.DataFrame(table / table.to_numpy().sum())


def steps(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the shares of pairs of values in a row and the next of the person."""
    rows = rows.sort_values([rows.columns[0], "time"], kind="stable")
    values, owner = rows[column] // 10 if column == "amount" else rows[column], rows.iloc[:, 0].to_numpy()
    follows = owner[1:] == owner[:-1]
    counts = pd.crosstab(values.to_numpy()[:-1][follows], values.to_numpy()[1:][follows])
    return pd.DataFrame(counts / counts.to_numpy().sum())


def apart(a: pd.DataFrame | pd.Series, b: pd.DataFrame | pd.Series) -> float:
    """Return the total variation distance of two tables of shares."""
    return round(float(a.sub(b, fill_value=0).fillna(0).abs().to_numpy().sum()) / 2, 3)


def main() -> None:
    """Make the releases and judge them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--releases", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", choices=("unordered", "ordered"))
    options = parser.parse_args()
    for case in (*(unordered(*size) for size in SIZES), ordered(*IN_ORDER)):
        if options.only in (None, case.benchmark):
            for epsilon in options.epsilon:
                for seed in range(options.releases):
                    tell(judged(case, epsilon, seed), options.out)


def judged(case: Case, epsilon: float, seed: int) -> dict[str, Any]:
    """Make a release of a case and return its errors."""
    start = time.process_time()
    release = sd.DatabaseRelease(schema=case.schema, epsilon=epsilon, delta=1e-6, random_state=seed)
    found, real = release.fit_transform(case.tables)["rows"], case.tables["rows"]
    seconds = round(time.process_time() - start, 1)
    columns = [name for name in case.schema.tables["rows"] if name != "time"]
    dealt = real.assign(id=np.random.default_rng(1).permutation(real["id"]))
    return {
        "benchmark": case.benchmark, "persons": case.persons, "most": case.most, "epsilon": epsilon, "seed": seed,
        "seconds": seconds,
        "single": {c: apart(*(one[c].value_counts(normalize=True) for one in (found, real))) for c in columns},
        "unrelated": {c: apart(case.pairs(dealt, c), case.pairs(real, c)) for c in columns},
        "pairs": {c: apart(case.pairs(found, c), case.pairs(real, c)) for c in columns},
    }  # fmt: skip


if __name__ == "__main__":
    main()
