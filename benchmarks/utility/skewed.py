"""Sixteen skewed laws with bounds that fit, 10, 1 000 and 100 000 times too wide, and by draft: what too wide a range costs.

Each law is one column of a table of four, declared with two decimals as it is written; the error is the
Kolmogorov-Smirnov distance between the real and the synthetic column, and the distance of the means in widths of the
law's middle 98 %.

    python benchmarks/utility/skewed.py [--rows 5000] [--epsilon 1] [--seeds 3]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

import synthdp as sd
from synthdp.arrays import FloatArray

WIDER: tuple[int | str, ...] = (1, 10, 1_000, 100_000, "draft")
TOGETHER = 4

Draw = Callable[[np.random.Generator, int], FloatArray]


def _zeros(share: float, draw: Draw) -> Draw:
    return lambda rng, n: np.where(rng.random(n) < share, 0.0, draw(rng, n))


def _both_signs(draw: Draw) -> Draw:
    return lambda rng, n: draw(rng, n) * rng.choice([-1.0, 1.0], n, p=[0.3, 0.7])


def _outlier(draw: Draw) -> Draw:
    def drawn(rng: np.random.Generator, n: int) -> FloatArray:
        values = draw(rng, n)
        values[0] = 1_000 * np.abs(values).max()
        return values

    return drawn


def _lognormal(mean: float, sigma: float) -> Draw:
    return lambda rng, n: rng.lognormal(mean, sigma, n)


def _pareto(shape: float, least: float) -> Draw:
    return lambda rng, n: least * (1 + rng.pareto(shape, n))


LAWS: dict[str, Draw] = {
    "lognormal .5": _lognormal(3, 0.5), "lognormal 1": _lognormal(3, 1), "lognormal 1.5": _lognormal(5, 1.5),
    "lognormal 2": _lognormal(0, 2), "Pareto 3": _pareto(3, 10), "Pareto 2": _pareto(2, 10), "Pareto 1.5": _pareto(1.5, 10),
    "Pareto 1.2": _pareto(1.2, 10), "zeros, lognormal 1": _zeros(0.6, _lognormal(6, 1)),
    "zeros, Pareto 1.5": _zeros(0.9, _pareto(1.5, 100)), "outlier, lognormal 1": _outlier(_lognormal(3, 1)),
    "outlier, gamma": _outlier(lambda rng, n: rng.gamma(2, 3.6, n)), "signs, lognormal 1": _both_signs(_lognormal(3, 1)),
    "signs, Pareto 2": _both_signs(_pareto(2, 10)), "exponential": lambda rng, n: rng.exponential(50, n),
    "gamma .3": lambda rng, n: rng.gamma(0.3, 100, n),
}  # fmt: skip


def fitting_bounds(values: FloatArray) -> tuple[float, float]:
    """Return two numbers with one digit around values, the lower one 0 where none is negative."""
    ends = [float(np.abs(values[side]).max(initial=0.0)) for side in (values < 0, values > 0)]
    low, high = (
        0.0 if end == 0 else np.ceil(end / 10 ** np.floor(np.log10(end))) * 10 ** np.floor(np.log10(end))
        for end in ends
    )
    return -float(low), float(high)


def declared(table: pd.DataFrame, wider: int) -> sd.Schema:
    """Return a schema with bounds that are so many times as wide as they need be."""
    ends = {str(name): fitting_bounds(table[name].to_numpy()) for name in table}
    return sd.Schema({name: sd.Continuous(low * wider, high * wider, decimals=2) for name, (low, high) in ends.items()})


def drafted(table: pd.DataFrame) -> sd.Schema:
    """Return the schema of a draft that was accepted as it is."""
    return sd.draft(table).accept_all().finish()


def distance(real: FloatArray, synthetic: FloatArray) -> float:
    """Return the Kolmogorov-Smirnov distance of two samples."""
    places = np.sort(np.concatenate([real, synthetic]))
    return float(
        np.abs(
            np.searchsorted(np.sort(real), places, side="right") / len(real)
            - np.searchsorted(np.sort(synthetic), places, side="right") / len(synthetic)
        ).max()
    )


def measured(rows: int, epsilon: float, seeds: int) -> pd.DataFrame:
    """Return the errors by law and width of the bounds."""
    found = []
    names = list(LAWS)
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        table = pd.DataFrame({name: np.round(draw(rng, rows), 2) for name, draw in LAWS.items()})
        for wider in WIDER:
            for first in range(0, len(names), TOGETHER):
                part = table[names[first : first + TOGETHER]]
                schema = drafted(part) if isinstance(wider, str) else declared(part, wider)
                synthetic = sd.SyntheticRelease(schema=schema, epsilon=epsilon).fit_transform(part)
                for name in part:
                    real, made = part[name].to_numpy(), synthetic[name].to_numpy()
                    spread = np.subtract(*np.quantile(real, [0.99, 0.01]))
                    found.append(
                        {
                            "law": name,
                            "wider": wider,
                            "KS": distance(real, made),
                            "mean": abs(made.mean() - real.mean()) / spread,
                        }
                    )
    errors: pd.DataFrame = pd.DataFrame(found).groupby(["law", "wider"], sort=False).mean()
    return errors.pivot_table(index="law", columns="wider", sort=False)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    began = time.process_time()
    table = measured(given.rows, given.epsilon, given.seeds)
    print(table.to_string(float_format=lambda value: f"{value:.4f}"))
    ratios = table["KS"].div(table["KS"][WIDER[0]], axis=0)
    print("worst ratio of KS:", {wider: round(float(ratios[wider].max()), 2) for wider in WIDER})
    print(f"{time.process_time() - began:.0f} CPU s")


if __name__ == "__main__":
    main()
