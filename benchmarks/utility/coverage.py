"""How often the 95 % intervals of answers hold the truth, over repeated releases of Adult (not private; a benchmark).

    python benchmarks/utility/coverage.py [--repetitions 20] [--epsilon 1] [--table adult] [--tiny] [--out coverage.jsonl]

Questions are drawn once, with a seed: marginals of one and of two columns, counts of conditions on one to three columns,
means and quantiles of all rows and of some, averages of smooth functions.  One JSON line for each kind of question, for all
its answers and for those from noisy tables ("measured") and from the fitted model ("model") apart.  The constants of the
bootstrap were chosen on Adult; ``--table hmeq`` asks for counts of conditions on a table that ../shared/data has.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from flagship import adult_table, hmeq_table

import synthdp as sd
from synthdp.data import adult_schema

NUMERIC = ("age", "hours-per-week", "education-num", "capital-gain", "capital-loss", "fnlwgt")
THRESHOLDS = {
    "age": (30, 40, 55), "hours-per-week": (35, 41, 50), "education-num": (9, 12), "capital-gain": (1, 5000),
    "capital-loss": (1,), "fnlwgt": (100_000, 200_000),
}  # fmt: skip
PAIRS, CONDITIONS, SOME, KERNELS = 20, 60, 12, 24
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)


def conditions(rng: np.random.Generator) -> Iterator[str]:
    """Yield conditions on one, two and three columns."""
    schema = adult_schema()
    for number in range(CONDITIONS):
        parts = []
        for name in rng.permutation(list(schema))[: 1 + number % 3]:
            if name in THRESHOLDS:
                parts.append(f"{name} >= {rng.choice(THRESHOLDS[name])}")
            else:
                parts.append(f"{name} == '{rng.choice(schema[name].levels)}'")
        yield " and ".join(parts)


def counts_of_hmeq(real: pd.DataFrame, release: Any) -> Iterator[tuple[str, str, bool]]:
    """Yield the same as `intervals` for counts of conditions on one to three columns, at quantiles of the numbers."""
    rng = np.random.default_rng(0)
    for number in range(2 * CONDITIONS):
        parts, holds = [], np.ones(len(real), bool)
        for name in rng.permutation(real.columns)[: 1 + number % 3]:
            values = real[name].dropna()
            if name == "BAD" or values.dtype.kind not in "iuf":
                level = rng.choice(values.unique())
                parts.append(f"{name} == {int(level)}" if name == "BAD" else f"{name} == '{level}'")
                holds &= (real[name] == level).to_numpy()
            else:
                least = round(float(values.quantile(rng.choice([0.2, 0.4, 0.6, 0.8]))), 3)
                parts.append(f"{name} >= {least}")
                holds &= (real[name] >= least).to_numpy()
        columns = f"{len(parts)} columns" if len(parts) > 1 else "one column"
        yield from _held(f"count, {columns}", release.answer(sd.count(" and ".join(parts))), [int(holds.sum())])


def kernel(centre: np.ndarray, width: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return a Gaussian bump."""
    return lambda points: np.exp(-((points - centre) ** 2).sum(axis=1) / (2 * width**2))


def intervals(real: pd.DataFrame, release: Any) -> Iterator[tuple[str, str, bool]]:
    """Yield the kind of each answer, its basis, and whether its interval holds the truth."""
    rng = np.random.default_rng(0)
    names = [name for name in real.columns if name not in NUMERIC]
    pairs = list(itertools.combinations(names, 2))
    chosen = [pairs[i] for i in rng.permutation(len(pairs))[:PAIRS]]
    for columns in [*((name,) for name in names), *chosen]:
        yield from _marginal(real, release, columns)
    texts = list(conditions(rng))
    for text in texts:
        answers = release.answer(sd.count(text))
        kind = "count, " + ("one column" if " and " not in text else f"{text.count(' and ') + 1} columns")
        yield from _held(kind, answers, [int(_holds(real, text).sum())])
    for name in NUMERIC:
        yield from _held("mean", release.answer(sd.mean(name)), [real[name].mean()])
        exact = np.quantile(real[name], SHARES, method="inverted_cdf")
        yield from _held("quantile", release.answer(sd.quantile(name, SHARES)), exact)
    some = [text for text in texts if _holds(real, text).mean() > 0.02][:SOME]
    for name, text in itertools.product(("age", "hours-per-week", "education-num"), some):
        if name not in text:
            values = real.loc[_holds(real, text), name]
            yield from _held("mean of some", release.answer(sd.mean(name, where=text)), [values.mean()])
            exact = np.quantile(values, 0.5, method="inverted_cdf")
            yield from _held("median of some", release.answer(sd.quantile(name, 0.5, where=text)), [exact])
    for number in range(KERNELS):
        columns = sorted(rng.permutation(NUMERIC[:5])[: 1 + number % 3].tolist())
        function = kernel(rng.uniform(-1, 0.5, len(columns)), float(rng.choice([0.25, 0.5, 1.0])))
        exact = [function(_points(real, columns)).mean()]
        yield from _held("smooth", release.answer(sd.smooth(function, columns=columns)), exact)


def main() -> None:
    """Release, ask and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--table", choices=("adult", "hmeq"), default="adult")
    parser.add_argument("--tiny", action="store_true", help="one repetition")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    real, schema = adult_table() if options.table == "adult" else hmeq_table()
    asked = intervals if options.table == "adult" else counts_of_hmeq
    held: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for _ in range(1 if options.tiny else options.repetitions):
        release = sd.SyntheticRelease(schema=schema, epsilon=options.epsilon).fit(real)
        for kind, basis, inside in asked(real, release):
            held[kind, "all"].append(inside)
            held[kind, basis].append(inside)
    lines = [
        json.dumps({
            "table": options.table, "question": kind, "basis": basis, "epsilon": options.epsilon, "intervals": len(found),
            "coverage": round(float(np.mean(found)), 4),
        })
        for (kind, basis), found in sorted(held.items())
    ]  # fmt: skip
    print("\n".join(lines))
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n")


def _marginal(real: pd.DataFrame, release: Any, columns: tuple[str, ...]) -> Iterator[tuple[str, str, bool]]:
    answers = release.answer(sd.marginal(*columns))
    counted = real[list(columns)].astype(object).where(real[list(columns)].notna(), None).value_counts(dropna=False)
    truth = {tuple(_plain(v) for v in key): n for key, n in counted.items()}
    cells = [tuple(_plain(v) for v in row) for row in answers[list(columns)].astype(object).itertuples(index=False)]
    yield from _held(f"marginal of {len(columns)}", answers, [truth.get(cell, 0) for cell in cells])


def _held(kind: str, answers: pd.DataFrame, exact: Any) -> Iterator[tuple[str, str, bool]]:
    for basis, lower, upper, value in zip(answers["basis"], answers["lower"], answers["upper"], exact, strict=True):
        yield kind, basis, bool(lower <= value <= upper)


def _points(real: pd.DataFrame, columns: list[str]) -> np.ndarray:
    """Return rows with the declared bounds at -1 and 1."""
    schema = adult_schema()
    ends = np.array([(schema[name].lower, schema[name].upper) for name in columns], float)
    values = real[columns].to_numpy(float)
    return (2 * values - ends[:, 0] - ends[:, 1]) / (ends[:, 1] - ends[:, 0])


def _holds(real: pd.DataFrame, text: str) -> pd.Series:
    """Evaluate a condition on the real rows with pandas, which reads the same language but for names."""
    for name in real.columns:
        if "-" in name:
            text = text.replace(f"{name} ", f"`{name}` ")
    return real.eval(text)


def _plain(value: Any) -> Any:
    return None if value is None or value != value else value


if __name__ == "__main__":
    main()
