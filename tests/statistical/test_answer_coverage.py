"""The 95 % intervals of answers hold the truth about as often as they say, over repeated releases of Adult."""

import importlib.util
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import synthdp as sd
from synthdp.data import adult, adult_schema

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "utility" / "coverage.py"
REPETITIONS = 2


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARK.parent))
    spec = importlib.util.spec_from_file_location("coverage_benchmark", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.PAIRS, module.CONDITIONS, module.SOME, module.KERNELS = 8, 30, 4, 12
    return module


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say(program: ModuleType) -> None:
    """Answers of one release are wrong together, so that few releases leave a wide margin; the benchmark has more.

    Margins are five standard deviations of what ten releases gave, and for means, of which there are 12, wider.
    """
    real, held = adult(), defaultdict(list)
    for _ in range(REPETITIONS):
        release = sd.SyntheticRelease(schema=adult_schema(), epsilon=1.0).fit(real)
        for one in program.intervals(real, release.release_):
            inside = one.lower <= one.truth <= one.upper
            held[one.kind.partition(",")[0]].append(inside)
            held[one.basis].append(inside)
    coverage = {kind: float(np.mean(found)) for kind, found in held.items()}
    assert len(coverage) == 10
    assert min(coverage.values()) > 0.6, coverage
    assert 0.90 < coverage["measured"] < 0.99, coverage
    assert 0.84 < coverage["model"] < 0.995, coverage
