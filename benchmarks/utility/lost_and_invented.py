"""What the planner loses, and what it invents: tables whose truth is known, released again and again.

    python benchmarks/utility/lost_and_invented.py [--boards pairs,diagonal,independent,missing,wide]
        [--epsilons .1,.3,1] [--seeds 3] [--tiny] [--out lost_and_invented.jsonl]

- ``pairs``: 27 pairs of columns of six levels that agree in 93 % of 10 000 rows, and nothing else: in how many rows of the
  synthetic table they agree (.17 if all relations are lost).  ``pairs and names`` has one more column, of 900 levels.
- ``diagonal``: two columns of 64 values that are equal in half of 6 000 rows, beside two that have nothing to do with them:
  in how many rows of the synthetic table they are equal (.02 if the relation is lost, .5 really).
- ``independent``: nine columns that have nothing to do with each other, with rare levels and bounds far beyond most values:
  the largest Cramér's V of two columns of the synthetic table, over levels that 30 of its rows have, and the part of pairs
  that are farther from independence than a table of as many rows is by chance in one of a thousand, and the largest V of
  the same rows with every column shuffled by itself.
- ``missing``: 823 rows of 170 columns, 60 % of whose values are missing, and 900 rows of 120 columns, 40 %; every tenth
  column is complete: how many columns have a share of missing values outside the release's own 95 % interval for it, and
  in how many complete columns some are missing.
- ``wide``: five related numbers of 10 000 rows, declared with bounds that fit and with bounds a thousand times as wide:
  the mean Kolmogorov distance, and what is kept of Spearman's correlation.

One JSON line a release; at the end a Markdown table of means and of the worst.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from json_lines import tell
from scipy.stats import chi2, ks_2samp

import synthdp as sd

DELTA = 1e-9
SIZES = {"missing": ((823, 170, 0.6), (900, 120, 0.4))}
CHANCE, FILLED = 0.001, 30
FACTOR = 1000
"""How many times too wide bounds are."""


def pairs_table(*, names: bool, pairs: int = 27, rows: int = 10_000) -> tuple[pd.DataFrame, sd.Schema]:
    """Return pairs of columns that nearly agree, and perhaps one more of very many levels."""
    rng = np.random.default_rng(77)
    table: dict[str, Any] = {}
    for i in range(pairs):
        table[f"left {i}"] = rng.integers(0, 6, rows)
        table[f"right {i}"] = np.where(rng.random(rows) < 0.92, table[f"left {i}"], rng.integers(0, 6, rows))
    schema = {name: sd.Categorical(list(range(6))) for name in table}
    if names:
        p = 1 / np.arange(1, 901)
        table["name"], schema["name"] = rng.choice(900, rows, p=p / p.sum()), sd.Categorical(list(range(900)))
    return pd.DataFrame(table), sd.Schema(schema)


def diagonal_table(rows: int = 6_000) -> tuple[pd.DataFrame, sd.Schema]:
    """Return a pair that is often equal: over few groups of values it looks like any smooth relation."""
    rng = np.random.default_rng(0)
    a = rng.integers(64, size=rows)
    table = pd.DataFrame({
        "a": a, "b": np.where(rng.random(rows) < 0.5, a, rng.integers(64, size=rows)),
        "rare": np.where(rng.random(rows) < 0.05, 31, 0), "kind": np.array(list("uvwxyz"))[rng.integers(6, size=rows)],
    })  # fmt: skip
    whole = sd.Integer(0, 63)
    return table, sd.Schema({"a": whole, "b": whole, "rare": sd.Integer(0, 31), "kind": sd.Categorical(list("uvwxyz"))})


def independent_table(rows: int = 9_000) -> tuple[pd.DataFrame, sd.Schema]:
    """Return nine independent columns with rare levels and wide bounds."""
    rng = np.random.default_rng(5)
    wards = [f"ward {i}" for i in range(12)]
    table = pd.DataFrame({
        "died": np.where(rng.random(rows) < 0.02, "yes", "no"),
        "cost": np.clip(rng.gamma(1, 900, rows), 0, 200_000),
        "income": np.clip(rng.lognormal(10, 0.6, rows), 0, 500_000),
        "sex": rng.choice(["f", "m", "x"], rows, p=[0.5, 0.497, 0.003]),
        "ward": rng.choice(wards, rows),
        "visits": np.clip(rng.geometric(0.6, rows), 1, 50),
        "children": np.clip(rng.poisson(1.2, rows), 0, 20),
        "haemoglobin": np.clip(rng.normal(13, 1.5, rows), 3, 22),
        "triage": rng.choice([1, 2, 3, 4, 5, 9], rows, p=[0.01, 0.09, 0.4, 0.3, 0.19, 0.01]),
    })  # fmt: skip
    return table, sd.Schema({
        "died": sd.Categorical(["no", "yes"]), "cost": sd.Continuous(0.0, 200_000.0),
        "income": sd.Continuous(0.0, 500_000.0), "sex": sd.Categorical(["f", "m", "x"]), "ward": sd.Categorical(wards),
        "visits": sd.Integer(1, 50), "children": sd.Integer(0, 20), "haemoglobin": sd.Continuous(3.0, 22.0),
        "triage": sd.Categorical([1, 2, 3, 4, 5, 9]),
    })  # fmt: skip


def missing_table(rows: int, columns: int, share: float) -> tuple[pd.DataFrame, sd.Schema]:
    """Return columns of which every tenth is complete, and such a share of the others' values is missing."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame({
        f"c{i}": rng.normal(50, 15, rows).round().clip(0, 100) if i % 2 else rng.integers(0, 5, rows).astype(float)
        for i in range(columns)
    })  # fmt: skip
    gone = (rng.random(table.shape) < share) & (np.arange(columns) % 10 > 0)
    schema = {
        name: sd.Integer(0, 100, nullable=True) if i % 2 else sd.Categorical([0, 1, 2, 3, 4], nullable=True)
        for i, name in enumerate(table)
    }
    return table.mask(gone), sd.Schema(schema)


def wide_table(factor: int, rows: int = 10_000) -> tuple[pd.DataFrame, sd.Schema]:
    """Return related numbers of several shapes, and bounds so many times as wide as those that fit."""
    rng = np.random.default_rng(11)
    one, other = rng.normal(size=(2, rows))
    table = pd.DataFrame({
        "even": 100 * (0.5 + np.arctan(one) / np.pi), "bell": 50 + 12 * (0.97 * one + 0.243 * other),
        "skew": np.exp(0.8 * (0.97 * one - 0.243 * other) + 3), "years": (1990 + 12 * other).round(),
        "signed": 10 * (0.97 * other + 0.243 * one),
    })  # fmt: skip
    columns: dict[str, Any] = {}
    for name, values in table.items():
        low, high = float(np.floor(values.min())), float(np.ceil(values.max()))
        reach = (high - low) * (factor - 1)
        low = low - reach / 2 if name in ("years", "signed") else low  # the others grow upwards alone
        high = high + reach / (2 if name in ("years", "signed") else 1)
        columns[name] = sd.Integer(round(low), round(high)) if name == "years" else sd.Continuous(low, high)
    return table, sd.Schema(columns)


def released(table: pd.DataFrame, schema: sd.Schema, epsilon: float, seed: int) -> tuple[Any, pd.DataFrame]:
    """Release a table once, as users do, and draw as many rows as it has."""
    made = sd.SyntheticRelease(epsilon=epsilon, delta=DELTA, schema=schema, random_state=seed).fit(table)
    return made, made.sample(len(table))


def of_pairs(epsilon: float, seed: int, *, names: bool = False, tiny: bool = False) -> dict[str, float]:
    """Return in how many rows pairs agree."""
    table, schema = pairs_table(names=names, pairs=3 if tiny else 27)
    _, drawn = released(table, schema, epsilon, seed)
    agree = [(drawn[f"left {i}"] == drawn[f"right {i}"]).mean() for i in range(len(table.columns) // 2)]
    return {"agreement": float(np.mean(agree)), "least": float(np.min(agree))}


def of_diagonal(epsilon: float, seed: int, *, tiny: bool = False) -> dict[str, float]:
    """Return in how many rows the two columns are equal."""
    table, schema = diagonal_table(2_000 if tiny else 6_000)
    _, drawn = released(table, schema, epsilon, seed)
    return {"equal": float((drawn["a"] == drawn["b"]).mean())}


def cells_of(real: pd.DataFrame, drawn: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return few cells of every column: levels, or quartiles and the tails of the real one."""
    found = {}
    for name, values in real.items():
        if values.dtype.kind in "if" and values.nunique() > 12:
            cuts = [*np.quantile(values, [0.25, 0.5, 0.75, 0.95]), *[20_000.0] * (name == "cost")]
            found[name] = np.searchsorted(np.unique(cuts), drawn[name].to_numpy(float), "left")
        else:
            found[name] = pd.factorize(drawn[name].astype(object))[0]
    return found


def association(a: np.ndarray, b: np.ndarray) -> tuple[float, bool]:
    """Return Cramér's V, and whether chance explains it in less than one of a thousand tables of independent columns."""
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1)
    table = table[table.sum(1) >= FILLED][:, table.sum(0) >= FILLED]
    free = min(table.shape) - 1
    if free < 1:
        return 0.0, False
    expected = np.outer(table.sum(1), table.sum(0)) / table.sum()
    square = float(((table - expected) ** 2 / expected).sum())
    beyond = square > chi2.isf(CHANCE, (table.shape[0] - 1) * (table.shape[1] - 1))
    return float(np.sqrt(square / table.sum() / free)), bool(beyond)


def of_independent(epsilon: float, seed: int, *, tiny: bool = False) -> dict[str, float]:
    """Return the largest association of two columns, how many pairs are beyond chance, and the largest of shuffled rows."""
    table, schema = independent_table(2_000 if tiny else 9_000)
    _, drawn = released(table, schema, epsilon, seed)
    codes = cells_of(table, drawn)
    both = [association(codes[a], codes[b]) for a, b in itertools.combinations(codes, 2)]
    rng = np.random.default_rng(seed)
    shuffled = {name: rng.permutation(code) for name, code in codes.items()}
    return {
        "largest_v": max(v for v, _ in both), "beyond": float(np.mean([beyond for _, beyond in both])),
        "by_chance": max(association(shuffled[a], shuffled[b])[0] for a, b in itertools.combinations(codes, 2)),
    }  # fmt: skip


def of_missing(epsilon: float, seed: int, *, tiny: bool = False) -> dict[str, float]:
    """Return how many columns have a share of missing values inside the release's interval for it."""
    found: dict[str, float] = {}
    for rows, columns, share in ((400, 10, 0.4),) if tiny else SIZES["missing"]:
        table, schema = missing_table(rows, columns, share)
        made, drawn = released(table, schema, epsilon, seed)
        outside = invented = 0
        for name in table:
            said = made.answer(sd.share(f"{name} is null")).iloc[0]
            found_share = float(drawn[name].isna().mean())
            outside += not said["lower"] <= found_share <= said["upper"]
            invented += bool(table[name].notna().all() and found_share > 0)
        found |= {f"outside_of_{columns}": outside, f"invented_of_{columns}": invented}
    return found


def of_wide(epsilon: float, seed: int, *, tiny: bool = False) -> dict[str, float]:
    """Return the errors of single columns, and what is kept of strong correlations, by the width of the bounds."""
    found: dict[str, float] = {}
    for factor in (1, FACTOR):
        table, schema = wide_table(factor, 2_000 if tiny else 10_000)
        _, drawn = released(table, schema, epsilon, seed)
        real, ours = (one.astype(float).corr("spearman").to_numpy() for one in (table, drawn))
        strong = np.triu(np.abs(real) > 0.5, 1)
        found[f"ks_{factor}"] = float(np.mean([ks_2samp(table[c], drawn[c].astype(float)).statistic for c in table]))
        found[f"kept_{factor}"] = float((np.nan_to_num(ours)[strong] / real[strong]).mean())
    return found


BOARDS: dict[str, Callable[..., dict[str, float]]] = {
    "pairs": of_pairs,
    "pairs and names": lambda *given, **tiny: of_pairs(*given, names=True, **tiny),
    "diagonal": of_diagonal,
    "independent": of_independent,
    "missing": of_missing,
    "wide": of_wide,
}


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", default=",".join(BOARDS))
    parser.add_argument("--epsilons", default="1")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tiny", action="store_true", help="small tables, one release of each")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    runs: dict[tuple[str, float], list[dict[str, float]]] = defaultdict(list)
    for board, epsilon in itertools.product(given.boards.split(","), map(float, given.epsilons.split(","))):
        for seed in range(1 if given.tiny else given.seeds):
            start = time.process_time()
            found = BOARDS[board](epsilon, seed, tiny=given.tiny) if given.tiny else BOARDS[board](epsilon, seed)
            found["cpu"] = round(time.process_time() - start, 2)
            tell({"board": board, "epsilon": epsilon, "seed": seed, **found}, given.out)
            runs[board, epsilon].append(found)
    print("\n| board | ε | mean (least to largest) |\n|---|---|---|")
    for (board, epsilon), some in runs.items():
        values = {key: [run[key] for run in some] for key in some[0]}
        said = (f"{key} {np.mean(v):.3g} ({min(v):.3g} to {max(v):.3g})" for key, v in values.items())
        print(f"| {board} | {epsilon:g} | {', '.join(said)} |")


if __name__ == "__main__":
    main()
