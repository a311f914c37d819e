"""How often the 95 % intervals of answers hold the truth, over repeated releases of Adult (not private; a benchmark).

    python benchmarks/utility/coverage.py [--repetitions 40] [--epsilon 1] [--tiny]

One JSON line per kind of question: how many intervals, how many of them hold the real value, separately for answers from
noisy tables ("measured") and from the fitted model ("model"), whose intervals do not cover relations that the release
did not measure.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

import synthdp as sd
from synthdp.data import adult, adult_schema

NUMERIC = ("age", "hours-per-week", "education-num", "capital-gain", "capital-loss", "fnlwgt")
PAIRS = (
    ("sex", "income"), ("marital-status", "relationship"), ("education", "income"), ("race", "sex"),
    ("occupation", "sex"), ("workclass", "occupation"), ("relationship", "income"),
)  # fmt: skip
COUNTS = (
    "age >= 40",
    "sex == 'Female' and income == '>50K'",
    "age >= 40 and income == '>50K'",
    "hours-per-week > 40 and sex == 'Male'",
    "education == 'Bachelors' and marital-status == 'Never-married'",
    "race == 'Black' and relationship == 'Unmarried' and sex == 'Female'",
    "workclass is null",
)


def intervals(real: pd.DataFrame, release: Any) -> Iterator[tuple[str, str, bool]]:
    """Yield the kind of each answer, its basis, and whether its interval holds the truth."""
    for columns in [*((name,) for name in real.columns), *PAIRS]:
        if set(columns) & set(NUMERIC):
            continue
        answers = release.answer(sd.marginal(*columns))
        shown = real[list(columns)].astype(object).where(real[list(columns)].notna(), None)
        truth = shown.value_counts(dropna=False).to_dict()
        cells = answers[list(columns)].astype(object)
        cells = cells.where(cells.notna(), None)
        counted = {tuple(_plain(v) for v in key): n for key, n in truth.items()}
        for (_, row), cell in zip(answers.iterrows(), cells.itertuples(index=False), strict=True):
            exact = counted.get(tuple(_plain(v) for v in cell), 0)
            yield f"marginal of {len(columns)}", row["basis"], row["lower"] <= exact <= row["upper"]
    for text in COUNTS:
        exact = int(_holds(real, text).sum())
        yield _one("count", release.answer(sd.count(text)), [exact])
    for name in NUMERIC:
        yield _one("mean", release.answer(sd.mean(name)), [real[name].mean()])
    for name, text in itertools.product(("age", "hours-per-week"), ("income == '>50K'", "sex == 'Female'")):
        yield _one(
            "mean of some", release.answer(sd.mean(name, where=text)), [real.loc[_holds(real, text), name].mean()]
        )
    for name in NUMERIC:
        at = [0.1, 0.25, 0.5, 0.75, 0.9]
        answers = release.answer(sd.quantile(name, at))
        exact = np.quantile(real[name], at, method="inverted_cdf")
        for (_, row), value in zip(answers.iterrows(), exact, strict=True):
            yield "quantile", row["basis"], row["lower"] <= value <= row["upper"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--tiny", action="store_true", help="two repetitions")
    options = parser.parse_args()
    real, schema = adult(), adult_schema()
    held: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for _ in range(2 if options.tiny else options.repetitions):
        release = sd.SyntheticRelease(schema=schema, epsilon=options.epsilon).fit(real)
        for kind, basis, inside in intervals(real, release):
            held[kind, basis].append(inside)
    for (kind, basis), found in sorted(held.items()):
        print(json.dumps({
            "question": kind, "basis": basis, "epsilon": options.epsilon, "intervals": len(found),
            "coverage": round(float(np.mean(found)), 4),
        }))  # fmt: skip


def _one(kind: str, answers: pd.DataFrame, exact: list[float]) -> tuple[str, str, bool]:
    row = answers.iloc[0]
    return kind, row["basis"], bool(row["lower"] <= exact[0] <= row["upper"])


def _holds(real: pd.DataFrame, text: str) -> pd.Series:
    """Evaluate a condition on the real rows with pandas, which reads the same language but for names and nulls."""
    query = text.replace("workclass is null", "workclass.isnull()")
    for name in real.columns:
        if "-" in name:
            query = query.replace(name, f"`{name}`")
    return real.eval(query)


def _plain(value: Any) -> Any:
    return None if value is None or value != value else value


if __name__ == "__main__":
    main()
