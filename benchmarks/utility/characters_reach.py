"""What tables of the class with one and with two numbers are worth on Artificial Characters, noisy and exact.  Not private.

    python benchmarks/utility/characters_reach.py [--tiny] [--seeds 3] [--data FOLDER] [--out results.jsonl]

Rows are drawn from the class's tables with each number by itself, and weighted until the tables of the class with every
two numbers, in a few equally filled bins, come out, by iterative proportional fitting with a ridge.  The noise is what all
these tables would have at (epsilon, delta = 1e-5), normal and added here; bins, tables and their shares are given
beforehand, and the bins are read off the rows.  So this is no release, but says what such tables are worth, and with exact
ones what they cannot say.  The measure is that of `characters.py`.
"""

from __future__ import annotations

import argparse
import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
from characters import CLASS, DATA, DELTA, accuracy, simulated
from json_lines import tell

from synthdp.privacy.calibration import gaussian_account
from synthdp.privacy.loss import ApproxDP

ROWS = 60_000
SWEEPS = 25
STEP = 5.0
"""Most that a sweep multiplies a weight by."""

SETTINGS = {
    "class x number, 16 bins": (16, 0, 0.0),
    "and two numbers, 3 x 3 bins": (16, 3, 0.6),
    "and two numbers, 6 x 6 bins": (16, 6, 0.7),
}
"""Bins of a number beside the class; of two numbers beside the class, 0 for none; the part of the budget for these."""


def reached(
    train: pd.DataFrame, test: pd.DataFrame, setting: tuple[int, int, float], epsilon: float, seed: int
) -> float:
    """Return the accuracy of boosting that is trained on rows with noisy tables; on exact ones for an infinite epsilon."""
    fine, coarse, part = setting
    rng = np.random.default_rng(seed)
    numbers = [name for name in train if name != CLASS]
    levels, classes = np.unique(train[CLASS], return_inverse=True)
    mu = math.inf if math.isinf(epsilon) else gaussian_account(ApproxDP(epsilon, DELTA)).mu
    pairs = list(itertools.combinations(range(len(numbers)), 2)) if coarse else []
    noise = math.sqrt(len(numbers) / (1 - part)) / mu
    ends = [quantiles(train[name], fine) for name in numbers]
    tables = []
    for name, inner in zip(numbers, ends, strict=True):
        cells, size = cell_of(classes, [(train[name], inner)])
        tables.append(np.maximum(noisy(cells, len(levels) * size, noise, rng), 1e-6).reshape(len(levels), -1))
    mass = sum(table.sum(axis=1) for table in tables)
    drawn = rng.choice(len(levels), ROWS, p=mass / mass.sum())
    rows = pd.DataFrame({
        name: values_of(table, drawn, inner, train[name], rng)
        for name, table, inner in zip(numbers, tables, ends, strict=True)
    })  # fmt: skip
    wanted = []
    for name, table, inner in zip(numbers, tables, ends, strict=True):
        wanted.append((cell_of(drawn, [(rows[name], inner)])[0], table.ravel(), noise))
    few = [quantiles(train[name], coarse) for name in numbers] if coarse else []
    louder = math.sqrt(len(pairs) / part) / mu if pairs else 0.0
    for pair in pairs:
        cells, size = cell_of(classes, [(train[numbers[j]], few[j]) for j in pair])
        there = cell_of(drawn, [(rows[numbers[j]], few[j]) for j in pair])[0]
        wanted.append((there, noisy(cells, len(levels) * size, louder, rng), louder))
    weights = fitted(wanted, len(train))
    chosen = rng.choice(ROWS, len(train), p=weights / weights.sum())
    return accuracy(rows.iloc[chosen].assign(**{CLASS: levels[drawn[chosen]]}), test)


def fitted(wanted: list[tuple[np.ndarray, np.ndarray, float]], total: int) -> np.ndarray:
    """Return weights of rows under which tables come out, each cell as near as its noise lets believe."""
    weights = np.full(ROWS, total / ROWS)
    for _ in range(SWEEPS):
        for cells, counts, noise in reversed(wanted):
            now = np.maximum(np.bincount(cells, weights=weights, minlength=len(counts)), 1e-9)
            aim = np.maximum(now + (counts - now) * now / (now + noise**2), 0.0)
            weights = weights * np.clip(aim / now, 1 / STEP, STEP)[cells]
    return weights


def noisy(cells: np.ndarray, size: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    return np.bincount(cells, minlength=size) + noise * rng.standard_normal(size)


def quantiles(values: pd.Series, bins: int) -> np.ndarray:
    """Return the different ends between equally filled bins."""
    return np.unique(np.quantile(values, np.arange(1, bins) / bins))


def cell_of(classes: np.ndarray, numbers: list[tuple[pd.Series, np.ndarray]]) -> tuple[np.ndarray, int]:
    """Return the cell of each row in a table of the class and some numbers, and the cells of one class."""
    cells, size = classes, 1
    for values, inner in numbers:
        cells = cells * (len(inner) + 1) + np.searchsorted(inner, values, side="right")
        size *= len(inner) + 1
    return cells, size


def values_of(
    table: np.ndarray, classes: np.ndarray, inner: np.ndarray, real: pd.Series, rng: np.random.Generator
) -> np.ndarray:
    """Draw a number for rows of given classes: a bin by the class's row of a table, and a value evenly within it."""
    steps = np.cumsum(table, axis=1) / table.sum(axis=1, keepdims=True)
    bins = (rng.random(len(classes))[:, None] > steps[classes]).sum(axis=1)
    low, high = np.concatenate([[real.min()], inner])[bins], np.concatenate([inner, [real.max()]])[bins]
    values = low + (high - low) * rng.random(len(classes))
    return np.floor(values) if (real % 1 == 0).all() else values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.tiny or not (options.data / "ac_train.csv").exists():
        train, test = simulated(300)
    else:
        train, test = (pd.read_csv(options.data / f"ac_{part}.csv") for part in ("train", "test"))
    for name, setting in SETTINGS.items():
        for epsilon in (1.0, 10.0, math.inf):
            found = [reached(train, test, setting, epsilon, seed) for seed in range(options.seeds)]
            shown = "exact" if math.isinf(epsilon) else epsilon
            tell(
                {"part": "reach", "tables": name, "epsilon": shown, "accuracy": found, "rows": len(train)}, options.out
            )


if __name__ == "__main__":
    main()
