"""Adaptive marginals release what they released before: the same questions, noise and model under the same noise.

Numbers are compared to seven digits, since floating point differs a little between machines.  Where two questions are
nearly as good, another version of NumPy or SciPy may choose the other: so these run with the versions of .ci/held.txt.
"""

import json

import pytest
from golden_releases import CASES, STORED, released

pytestmark = pytest.mark.style

GOLDEN = json.loads(STORED.read_text(encoding="utf-8"))

LATER = "screening against the model"
"""The step from which a second round divides its budget, by scores against a fitted model.  The model differs by more than
seven digits on an old processor, and the noise by 3e-7."""


@pytest.mark.parametrize("case", CASES)
def test_a_release_under_the_same_noise_is_the_same(case):
    now, before = released(case), GOLDEN[case]
    assert {name: now[name] for name in ("steps", "distribution", "groups", "leaves", "sampled")} == {
        name: before[name] for name in ("steps", "distribution", "groups", "leaves", "sampled")
    }
    first = before["steps"].index(LATER) if LATER in before["steps"] else len(before["steps"])
    assert now["noise"][:first] == pytest.approx(before["noise"][:first], rel=1e-7)
    assert now["noise"][first:] == pytest.approx(before["noise"][first:], rel=2e-6)
    assert now["total"] == pytest.approx(before["total"], rel=1e-7)
    assert now["answers"] == pytest.approx(before["answers"], rel=1e-7, abs=1e-4)
    assert now["largest"] == pytest.approx(before["largest"], abs=1e-6)
    assert now["entropies"] == pytest.approx(before["entropies"], abs=1e-6)
