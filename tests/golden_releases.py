"""Releases of adaptive marginals under a fixed sequence of noise, as numbers that can be compared.

``python tests/golden_releases.py`` (with the package on the path) writes `golden/adaptive.json` again: do so only where a
change of what is released is meant, and say why in the commit.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from no_noise import with_repeatable_noise

from synthdp import ZCDP, AdaptiveMarginals, ApproxDP, Curator, PureDP, Release, Schema
from synthdp.data import adult, adult_schema
from synthdp.fit.raking import Particles
from synthdp.privacy.loss import PrivacyLoss
from synthdp.schema.columns import Boolean, Categorical, Integer
from synthdp.schema.constraints import Implies, LessEqual

STORED = Path(__file__).parent / "golden" / "adaptive.json"
ROWS, PARTICLES = 6_000, 20_000
RULED = Schema(
    {
        "low": Integer(0, 90, special=(-1,)),
        "high": Integer(10, 400),
        "kind": Categorical(["a", "b", "c"]),
        "free": Boolean(),
    },
    constraints=[LessEqual("low", "high"), Implies({"kind": ["a"]}, {"free": [True]})],
)
APPROX = ApproxDP(1.0, 1e-9)

CASES: dict[str, tuple[str, PrivacyLoss, str, dict[str, Any]]] = {
    "adult, little budget": ("adult", ApproxDP(0.1, 1e-9), "add_remove", {}),
    "adult": ("adult", APPROX, "add_remove", {}),
    "adult, replaced rows": ("adult", APPROX, "replace_one", {}),
    "adult, much budget": ("adult", ApproxDP(10.0, 1e-9), "add_remove", {}),
    "adult, Laplace noise": ("adult", PureDP(1.0), "add_remove", {}),
    "adult, target and two rounds": ("adult", APPROX, "add_remove", {"target": "income", "second_stage": 0.4}),
    "rules": ("rules", ZCDP(0.3), "add_remove", {}),
    "rules, replaced rows, Laplace noise": ("rules", PureDP(1.0), "replace_one", {}),
    "one column": ("age", APPROX, "add_remove", {}),
}
"""Name of a table, budget, neighbours, settings."""


def table_named(name: str) -> tuple[pd.DataFrame, Schema]:
    """Return a table that is the same on every machine, and its schema."""
    if name == "adult":
        return adult().head(ROWS), adult_schema()
    if name == "age":
        return adult().head(ROWS)[["age"]], Schema({"age": adult_schema()["age"]})
    i = np.arange(3000)
    low = np.where(i % 11 == 0, -1, i * i % 61)
    kind = np.array(["a", "b", "c"])[i * 7 % 3]
    free = (kind == "a") | (i % 5 == 0)
    return pd.DataFrame({"low": low, "high": np.maximum(low, 10) + i * 13 % 200, "kind": kind, "free": free}), RULED


def released(case: str) -> dict[str, Any]:
    """Return what a case releases: every question and its noise, and statistics of the model."""
    name, budget, neighbors, settings = CASES[case]
    table, schema = table_named(name)
    with pytest.MonkeyPatch.context() as patch:
        with_repeatable_noise(patch)
        curator = Curator(table, schema=schema, budget=budget, neighbors=neighbors)
        return described(
            AdaptiveMarginals(**settings, particles=Particles(size=PARTICLES)).release(curator, random_state=0)
        )


def described(release: Release[Any]) -> dict[str, Any]:
    """Return a release as numbers and words."""
    model = release.output
    margins = [model.distribution.marginal((j,)) for j in range(len(model.domain))]
    return {
        "steps": [item.step for item in release.receipt.items],
        "noise": [item.stddev for item in release.receipt.items],
        "answers": [float(measured.answers.sum()) for measured in release.measurements],
        "distribution": type(model.distribution).__name__,
        "total": model.total,
        "groups": list(model.domain.shape),
        "leaves": [refinement.fine.size for refinement in model.refinements],
        "largest": [float(margin.max()) for margin in margins],
        "entropies": [float(-(margin[margin > 0] * np.log(margin[margin > 0])).sum()) for margin in margins],
        "sampled": len(release.sample(random_state=1)),
    }


if __name__ == "__main__":
    lines = [f"{json.dumps(case)}: {json.dumps(released(case))}" for case in CASES]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
