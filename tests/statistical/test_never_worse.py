"""The flagship is never worse than independent columns, at any epsilon, on tables rich and poor in relations.

The independent columns get the whole budget for their one-way marginals (benchmarks/utility/flagship.py).
"""

import importlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from synthdp import Categorical, Integer, Schema
from synthdp.data import adult, adult_schema
from synthdp.nonprivate.measures import marginal_error

SEEDS = 3


@pytest.fixture
def methods(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks" / "utility")
    return importlib.import_module("flagship").METHODS


def census() -> tuple[pd.DataFrame, Schema]:
    return adult().sample(4000, random_state=0).reset_index(drop=True), adult_schema()


def unrelated() -> tuple[pd.DataFrame, Schema]:
    """Skewed columns that have nothing to do with one another: all that is spent on pairs is lost."""
    rng = np.random.default_rng(11)
    levels = [f"v{i}" for i in range(12)]
    share = 0.6 ** np.arange(12)
    table = {f"c{j}": rng.choice(levels, 3000, p=share / share.sum()) for j in range(5)}
    table |= {f"n{j}": np.minimum(rng.geometric(0.05, 3000), 200) for j in range(5)}
    schema = {name: Categorical(levels) if name[0] == "c" else Integer(0, 200) for name in table}
    return pd.DataFrame(table), Schema(schema)


def copies() -> tuple[pd.DataFrame, Schema]:
    """Six columns that follow one."""
    rng = np.random.default_rng(12)
    first = rng.integers(0, 40, 2000)
    table = {f"n{j}": np.clip(first + rng.integers(-3, 4, 2000), 0, 40) for j in range(6)}
    return pd.DataFrame(table), Schema(dict.fromkeys(table, Integer(0, 40)))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 10.0])
@pytest.mark.parametrize("load", [census, unrelated, copies])
def test_the_flagship_is_not_worse_than_independent_columns(methods, load, epsilon):
    table, schema = load()
    errors = {
        name: [marginal_error(table, methods[name](table, schema, epsilon, seed), schema) for seed in range(SEEDS)]
        for name in ("synthdp", "independent")
    }
    spread = np.sqrt(sum(np.var(runs, ddof=1) for runs in errors.values()) / SEEDS)
    assert np.mean(errors["synthdp"]) <= 1.02 * np.mean(errors["independent"]) + 3 * spread
