"""How near correlations are to the real rows', and how often their 95 % intervals hold these, with and without noisy counts.

    python benchmarks/utility/correlations.py [--tables rotterdam attrition college hmeq storms] [--epsilons 1 5]
        [--releases 3] [--out correlations.jsonl]

Tables are those of ``constants.py``.  Of each release all pairs of its first seven columns of numbers are asked twice: as
`synthdp` answers, and by the model alone, without the noisy counts of the pair (`answers/noisy_sums.py`).  One
JSON line for each table, epsilon and strength (strong: above .5): root mean square error, the part of intervals that hold
the correlation, and their mean width; ``moved`` are answers that differ.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import constants
import numpy as np
from flagship import schema_of
from json_lines import tell

import synthdp as sd
from synthdp.answers import answer
from synthdp.data import adult_schema

MOST_COLUMNS, STRONG = 7, 0.5
Interval = tuple[float, float, float]


def asked(release: Any, a: str, b: str) -> Interval:
    """Return a correlation and the ends of its interval."""
    answer = release.answer(sd.correlation(a, b)).iloc[0]
    return float(answer["estimate"]), float(answer["lower"]), float(answer["upper"])


def by_model(estimate: Any, stddev: Any, _counted: float, _noise: float) -> tuple[Any, Any]:
    """Return the model's answer unchanged."""
    return estimate, stddev


def judged(truths: np.ndarray, found: np.ndarray) -> dict[str, float]:
    """Return error, coverage and width of intervals, (n, 3)."""
    estimate, lower, upper = found.T
    held = (lower <= truths) & (truths <= upper)
    error = float(np.sqrt(np.mean((estimate - truths) ** 2)))
    return {
        "error": round(error, 4),
        "held": round(float(held.mean()), 3),
        "width": round(float((upper - lower).mean()), 3),
    }


def main() -> None:
    """Release, ask and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["rotterdam", "attrition", "college", "hmeq", "storms"])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--releases", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # warnings of a release say the same as before; none is published here
    for name, epsilon in itertools.product(options.tables, options.epsilons):
        real = constants.table(name)
        schema = adult_schema() if name == "adult" else schema_of(real)
        numbers = [one for one in real if not schema[one].labelled and real[one].nunique() > 2][:MOST_COLUMNS]
        truths: list[float] = []
        answers: list[tuple[Interval, Interval]] = []
        for seed in range(options.releases):
            fitted = sd.SyntheticRelease(schema=schema, epsilon=epsilon, delta=1e-6, random_state=seed).fit(real)
            for a, b in itertools.combinations(numbers, 2):
                truths.append(float(real[[a, b]].dropna().corr().iloc[0, 1]))
                with patch.object(answer, "combined", by_model):
                    alone = asked(fitted.release_, a, b)
                answers.append((alone, asked(fitted.release_, a, b)))
        truth, both = np.array(truths), np.array(answers)
        for strength, some in (("strong", np.abs(truth) > STRONG), ("weak", np.abs(truth) <= STRONG)):
            if some.any():
                model, now = (judged(truth[some], both[some, i]) for i in (0, 1))
                moved = int((both[some, 0] != both[some, 1]).any(axis=1).sum())
                tell({
                    "table": name, "epsilon": epsilon, "strength": strength, "pairs": int(some.sum()), "moved": moved,
                    "model": model, "now": now,
                }, options.out)  # fmt: skip


if __name__ == "__main__":
    main()
