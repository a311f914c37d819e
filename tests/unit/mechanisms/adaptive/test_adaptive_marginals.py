"""The flagship on awkward tables: any shape of table gives a release, costs what it said, and keeps what is certain."""

import math

import numpy as np
import pandas as pd
import pytest
from no_noise import recorded, replayed, without_noise

from synthdp import AdaptiveMarginals, ApproxDP, Boolean, Categorical, Continuous, Curator, Integer, PureDP, Schema
from synthdp.errors import ParameterError
from synthdp.mechanisms.adaptive.selection import Planner
from synthdp.mechanisms.column_histograms import OneWayTree
from synthdp.privacy.loss import GaussianDP

BUDGET = ApproxDP(1.0, 1e-6)


def mixed(rows: int) -> pd.DataFrame:
    """A number, a level that follows it, a coin, and a column that is often missing."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=rows)
    return pd.DataFrame(
        {
            "x": np.clip(x, -4, 4),
            "level": np.where(x > 0.5, "high", np.where(x < -0.5, "low", "middle")),
            "coin": rng.random(rows) < 0.3,
            "count": np.where(rng.random(rows) < 0.2, np.nan, rng.integers(0, 50, rows)),
        }
    )


MIXED = Schema(
    {
        "x": Continuous(-4, 4),
        "level": Categorical(["high", "low", "middle"]),
        "coin": Boolean(),
        "count": Integer(0, 60, nullable=True),
    }
)
WIDE = Schema({f"c{j}": Boolean() if j % 2 else Integer(0, 99) for j in range(40)})


def wide(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(6)
    columns = [rng.integers(0, 2, rows) == 1 if j % 2 else rng.integers(0, 100, rows) for j in range(len(WIDE))]
    return pd.DataFrame(dict(zip(WIDE, columns, strict=True)))


TABLES = {
    "one column": (Schema({"x": Continuous(-4, 4)}), mixed(300)[["x"]]),
    "one level column": (Schema({"coin": Boolean()}), mixed(300)[["coin"]]),
    "two columns": (Schema({"x": Continuous(-4, 4), "coin": Boolean()}), mixed(300)[["x", "coin"]]),
    "all missing": (
        Schema({"a": Integer(0, 9, nullable=True), "b": Boolean()}),
        pd.DataFrame({"a": [None] * 50, "b": True}),
    ),
    "no row": (MIXED, mixed(0)),
    "one row": (MIXED, mixed(1)),
    "ten rows": (MIXED, mixed(10)),
    "constant": (Schema({"a": Integer(3, 4), "b": Categorical(["only"])}), pd.DataFrame({"a": [3] * 80, "b": "only"})),
    "a constant in a wide range": (
        Schema({"a": Integer(0, 10**6), "b": Boolean()}),
        pd.DataFrame({"a": [777] * 500, "b": [True, False] * 250}),
    ),
    "forty columns": (
        WIDE,
        wide(200),
    ),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "relation", "budget"),
    [
        pytest.param(
            name, relation, budget, marks=[pytest.mark.slow] * ((relation == "add_remove") != (i // 2 % 2 == 0))
        )
        for i, name in enumerate(TABLES)
        for relation, budget in zip(["add_remove", "replace_one"], [BUDGET, PureDP(1.0)][:: (-1) ** i], strict=True)
    ],
)
def test_any_table_is_released_for_exactly_its_budget(name, relation, budget):
    schema, table = TABLES[name]
    curator = Curator(table, schema=schema, budget=budget, neighbors=relation)
    release = AdaptiveMarginals().release(curator, random_state=0)
    assert curator.remaining is None
    assert release.loss == budget
    synthetic = release.sample(25, random_state=0)
    assert list(synthetic.columns) == list(schema)
    assert len(synthetic) == 25
    again = release.sample(25, random_state=0)
    pd.testing.assert_frame_equal(synthetic, again)


def test_hardly_anything_of_the_account_is_left(monkeypatch):
    opened = []
    original = Curator.open_account
    monkeypatch.setattr(
        Curator, "open_account", lambda self, *a, **k: opened.append(original(self, *a, **k)) or opened[-1]
    )
    AdaptiveMarginals().release(Curator(mixed(2000), schema=MIXED, budget=BUDGET), random_state=0)
    left = opened[0].remaining or GaussianDP(1e-9)
    assert left.mu**2 <= 0.05 * opened[0].budget.mu ** 2


def test_what_no_table_was_worth_goes_back_to_the_one_ways():
    curator = Curator(mixed(2000), schema=MIXED, budget=BUDGET)
    release = AdaptiveMarginals(planner=Planner(max_batch=0)).release(curator, random_state=0)
    assert "again" in release.receipt.items[-1].step
    assert {len(c) for m in release.measurements for c in getattr(m.queries, "cliques", ((0,),))} == {1}


def test_without_noise_the_release_repeats_the_one_ways_and_a_strong_pair(monkeypatch):
    without_noise(monkeypatch)
    table = mixed(4000)
    curator = Curator(table, schema=MIXED, budget=ApproxDP(3.0, 1e-6))
    synthetic = AdaptiveMarginals().release(curator, random_state=0).sample(random_state=0)
    assert abs(len(synthetic) - 4000) <= 1
    for name in ("level", "coin"):
        both = table[name].value_counts().sub(synthetic[name].value_counts(), fill_value=0)
        assert both.abs().max() <= 10
    assert abs(table["count"].isna().mean() - synthetic["count"].isna().mean()) < 0.005
    pair = pd.crosstab(table["level"], table["x"] > 0.5).to_numpy()
    found = pd.crosstab(synthetic["level"], synthetic["x"] > 0.5).to_numpy()
    assert np.abs(pair - found).sum() / 2 < 0.05 * 4000


def test_rows_of_another_table_change_nothing_once_the_noisy_answers_are_the_same():
    first, second = mixed(500), mixed(400)
    with pytest.MonkeyPatch.context() as patch:
        trace = recorded(patch)
        one = (
            AdaptiveMarginals()
            .release(Curator(first, schema=MIXED, budget=BUDGET), random_state=0)
            .sample(random_state=1)
        )
    with pytest.MonkeyPatch.context() as patch:
        other = replayed(patch, trace)
        two = (
            AdaptiveMarginals()
            .release(Curator(second, schema=MIXED, budget=BUDGET), random_state=0)
            .sample(random_state=1)
        )
    assert other.draws == trace.draws
    pd.testing.assert_frame_equal(one, two)


@pytest.mark.landing
def test_a_strong_relation_comes_through_at_a_usual_budget():
    table = mixed(5000)
    synthetic = (
        AdaptiveMarginals().release(Curator(table, schema=MIXED, budget=BUDGET), random_state=0).sample(random_state=0)
    )
    assert (synthetic.loc[synthetic["x"] > 1, "level"] == "high").mean() > 0.8


WRONG = [
    (AdaptiveMarginals, "screen", [1.0, 0.0, -0.1, math.nan]),
    (AdaptiveMarginals, "second_stage", [1.0, -0.1, math.nan]),
    (OneWayTree, "bins", [0, -3, math.nan]),
    (OneWayTree, "fan", [0, 1]),
    (OneWayTree, "levels", [0]),
    (OneWayTree, "heavy", [0.0, -1.0, math.nan, math.inf]),
    (OneWayTree, "deep", [0.0, -1.0, 1e-9, math.inf]),
    (Planner, "tree_cells", [0, -1.0, math.nan]),
    (Planner, "max_off_tree", [-1]),
    (Planner, "max_batch", [-1]),
]


@pytest.mark.parametrize(("settings", "name", "value"), [(s, n, value) for s, n, values in WRONG for value in values])
def test_a_setting_that_no_release_could_use_is_refused_before_there_is_a_curator(settings, name, value):
    with pytest.raises(ParameterError, match=rf"\b{name}\b"):
        settings(**{name: value})


BORDERS = [
    {"one_ways": OneWayTree(bins=2, fan=2, levels=1, deep=1.0)},
    pytest.param({"one_ways": OneWayTree(heavy=1e-3, deep=1.0)}, marks=pytest.mark.slow),
    {"planner": Planner(tree_cells=1e-3, max_off_tree=0, max_batch=0)},
    {"screen": 1e-3, "second_stage": 0.0},
    {"screen": 0.999, "second_stage": 0.999},
]


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("budget", [BUDGET, PureDP(1.0)], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("settings", BORDERS, ids=str)
def test_every_setting_within_its_range_ends_in_a_release(settings, budget):
    """What the constructor lets pass never fails after the spend."""
    curator = Curator(mixed(400), schema=MIXED, budget=budget)
    assert len(AdaptiveMarginals(**settings).release(curator, random_state=0).sample(5)) == 5
