"""The 95 % intervals of measured answers hold the truth 93 to 97 % of the time, over repeated releases of Adult."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import synthdp as sd
from synthdp.data import adult, adult_schema

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "utility" / "coverage.py"


@pytest.mark.slow
def test_intervals_of_measured_answers_hold_the_truth_as_often_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["coverage.py"])
    intervals = runpy.run_path(str(BENCHMARK))["intervals"]
    real, schema = adult(), adult_schema()
    held: dict[str, list[bool]] = {}
    for _ in range(6):
        release = sd.SyntheticRelease(schema=schema, epsilon=1.0).fit(real)
        for kind, basis, inside in intervals(real, release):
            held.setdefault(f"{kind}, {basis}", []).append(inside)
    for kind in ("marginal of 1, measured", "marginal of 2, measured"):
        found = held[kind]
        assert len(found) > 500
        spread = 3 * np.sqrt(0.05 * 0.95 / len(found))
        assert 0.93 - spread < np.mean(found) < 0.97 + spread, kind
