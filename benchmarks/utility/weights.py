"""Survey weights: tables and totals of a population from one release of rows with weights (a benchmark).

    python benchmarks/utility/weights.py [--table adult nist] [--epsilon .3 1 3] [--seeds 5] [--data FOLDER]
        [--classes 8 16 32] [--share .02] [--shrink] [--out weights.jsonl]

``adult``: eight columns of Adult with ``fnlwgt``, bounds 10 000 and 1 500 000.  ``nist``: nine columns of NIST's
Massachusetts 2019 with ``PWGTP``, bounds 1 and 2 000, from ../shared/data/boards/nist (``--data`` for another folder).

One JSON line for each table, epsilon and number of classes: the mean total variation distance of all tables of two columns,
unweighted and weighted, of a synthetic table with the real one's weights; their ratio; the same where weights are left out
of the release ("without"); the part of 95 % intervals for the population of each level of each column that hold the real
one, and their mean half-width over it; the error of the whole population.  ``--classes`` and ``--share`` sweep the two
settings.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd

import synthdp as sd
from synthdp.data import adult, adult_schema

DATA = Path(__file__).parents[2] / "../shared/data/boards/nist"
CENSUS = ("age", "workclass", "education", "marital-status", "race", "sex", "hours-per-week", "income")
SURVEY = {
    "AGEP": sd.Integer(0, 99), "SEX": sd.Categorical(["1", "2"]), "MSP": sd.Categorical(["N", *"123456"]),
    "RAC1P": sd.Categorical([*"123456789"]), "HOUSING_TYPE": sd.Categorical([*"123"]),
    "OWN_RENT": sd.Categorical([*"012"]), "EDU": sd.Categorical(["N", *map(str, range(1, 13))]),
    "PINCP_DECILE": sd.Categorical(["N", *"0123456789"]), "DVET": sd.Categorical(["N", *"123456"]),
}  # fmt: skip
BINS = 10
"""Equal cells of a column of numbers, for tables of two columns."""


class Survey(NamedTuple):
    """A table with weights, and what is public of it."""

    table: pd.DataFrame
    schema: sd.Schema
    weight: str
    bounds: tuple[float, float]


def survey(name: str, folder: Path) -> Survey:
    """Return one of the tables."""
    if name == "adult":
        table = adult()[[*CENSUS, "fnlwgt"]]
        return Survey(table, adult_schema().part(CENSUS), "fnlwgt", (10_000, 1_500_000))
    table = pd.read_csv(folder / "massachusetts/ma2019.csv", dtype=str)[[*SURVEY, "PWGTP"]]
    return Survey(table.astype({"AGEP": int, "PWGTP": int}), sd.Schema(SURVEY), "PWGTP", (1, 2000))


def codes(table: pd.DataFrame, schema: sd.Schema) -> pd.DataFrame:
    """Return a table with ten equal cells for each column of numbers, and texts."""
    found = {}
    for name, column in schema.items():
        if column.measured:
            ends = np.linspace(column.lower, column.upper, BINS + 1)[1:-1]
            found[name] = pd.Series(np.searchsorted(ends, table[name].to_numpy(float)).astype(str))
        else:
            found[name] = table[name].astype(str).reset_index(drop=True)
    return pd.DataFrame(found)


def distance(real: pd.DataFrame, made: pd.DataFrame, of_real: Any, of_made: Any) -> float:
    """Return the mean total variation distance of all tables of two columns, by weights."""
    found = []
    for pair in itertools.combinations(real, 2):
        shares = [
            pd.Series(np.asarray(weights, float)).groupby([one[name] for name in pair]).sum() / np.sum(weights)
            for one, weights in ((real, of_real), (made, of_made))
        ]
        found.append(float(shares[0].sub(shares[1], fill_value=0.0).abs().sum()) / 2)
    return float(np.mean(found))


def held(known: Survey, release: sd.SyntheticRelease) -> Iterator[tuple[bool, float]]:
    """Yield for the population of each level whether its interval holds the real one, and its half-width over it."""
    for name, column in known.schema.items():
        if column.measured:
            continue
        answers = release.answer(sd.count(by=name, weight=known.weight))
        real = known.table.groupby(name)[known.weight].sum()
        for one in answers.to_dict("records"):
            truth = float(real.get(one[name], 0.0)) if one[name] is not None else 0.0
            if truth > 0:
                yield one["lower"] <= truth <= one["upper"], (one["upper"] - one["lower"]) / 2 / truth


def shrunk(known: Survey, made: pd.DataFrame) -> dict[str, float]:
    """Return the best part of the differences between weights for the shares of levels, and the squared error with it."""
    sums = np.zeros(3)
    for name, column in known.schema.items():
        if not column.measured:
            real = known.table[known.weight].groupby(known.table[name]).sum() / known.table[known.weight].sum()
            weighted = made[known.weight].groupby(made[name]).sum() / made[known.weight].sum()
            shares = pd.DataFrame(
                {"real": real, "weighted": weighted, "plain": made[name].value_counts(normalize=True)}
            )
            moved, off = (shares.fillna(0.0)[one] - shares.fillna(0.0)["plain"] for one in ("weighted", "real"))
            sums += [float(moved @ off), float(moved @ moved), float(off @ off)]
    best = float(np.clip(sums[0] / sums[1], 0, 1))
    with_best, as_is = (sums[2] - 2 * part * sums[0] + part**2 * sums[1] for part in (best, 1.0))
    return {"best part": best, "squared error with it": with_best / as_is}


def one_release(known: Survey, epsilon: float, seed: int, classes: int, *, shrink: bool = False) -> dict[str, float]:
    """Return the figures of one release."""
    ends = {known.weight: sd.Weight(*known.bounds, classes=classes)}
    release = sd.SyntheticRelease(schema=known.schema.extended(ends), epsilon=epsilon, random_state=seed)
    begun = time.process_time()
    made = release.fit_transform(known.table)
    seconds = time.process_time() - begun
    real, synthetic = codes(known.table, known.schema), codes(made, known.schema)
    weights, ones = known.table[known.weight].to_numpy(float), np.ones(len(real))
    without = sd.SyntheticRelease(schema=known.schema, epsilon=epsilon, random_state=seed).fit_transform(known.table)
    plain = distance(real, synthetic, ones, np.ones(len(synthetic)))
    weighted = distance(real, synthetic, weights, made[known.weight].to_numpy(float))
    hits, widths = zip(*held(known, release), strict=True)
    return {
        "unweighted": plain, "weighted": weighted, "ratio": weighted / plain,
        "without": distance(real, codes(without, known.schema), ones, np.ones(len(without))),
        "without, weighted": distance(real, codes(without, known.schema), weights, np.ones(len(without))),
        "covered": float(np.mean(hits)), "half-width": float(np.median(widths)),
        "population": abs(float(made[known.weight].sum()) / weights.sum() - 1), "cpu_seconds": seconds,
        **(shrunk(known, made) if shrink else {}),
    }  # fmt: skip


def main() -> None:
    """Write a JSON line for each table, epsilon and number of classes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", nargs="+", choices=("adult", "nist"), default=["adult"])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.3, 1.0, 3.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--classes", nargs="+", type=int, default=[sd.Weight(1, 2).classes])
    parser.add_argument("--share", nargs="+", type=float)
    parser.add_argument("--shrink", action="store_true", help="errors of shares with shrunk weights, too")
    parser.add_argument("--rows", type=int, help="of the table, the first; default: all")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    from synthdp.mechanisms import survey_weights

    for name, epsilon, classes, share in itertools.product(
        asked.table, asked.epsilon, asked.classes, asked.share or [survey_weights.COUNT_SHARE]
    ):
        known = survey(name, asked.data)
        known = known._replace(table=known.table.head(asked.rows or len(known.table)))
        with mock.patch.object(survey_weights, "COUNT_SHARE", share):
            found = [one_release(known, epsilon, seed, classes, shrink=asked.shrink) for seed in range(asked.seeds)]
        means = {key: float(f"{np.mean([one[key] for one in found]):.3g}") for key in found[0]}
        text = json.dumps({
            "table": name, "epsilon": epsilon, "classes": classes, "share": share, "seeds": asked.seeds, **means
        })  # fmt: skip
        print(text, flush=True)
        if asked.out:
            with asked.out.open("a", encoding="utf-8") as file:
                file.write(text + "\n")


if __name__ == "__main__":
    main()
