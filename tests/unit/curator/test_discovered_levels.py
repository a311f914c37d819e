"""Levels that discovery finds: the frequent ones, and never a value of one row."""

from __future__ import annotations

import decimal
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import strategies as my
from hypothesis import example, given, strategies as st
from no_noise import without_noise

from synthdp.arrays import LARGEST_WHOLE
from synthdp.curator import Curator
from synthdp.curator.discovery import MOST_LEVELS
from synthdp.privacy import noise
from synthdp.privacy.calibration import THRESHOLDS_SHARE, gaussian_account
from synthdp.privacy.key_histogram import plan_histogram
from synthdp.privacy.loss import ApproxDP
from synthdp.privacy.neighbors import Adjacency
from synthdp.schema.columns import (
    Categorical,
)
from synthdp.schema.schema import Schema

BUDGET = ApproxDP(1.0, 1e-9)


def discovered(values, column, *, budget=BUDGET, **options):
    curator = Curator(pd.DataFrame({"x": values}), schema=Schema({"x": column}), budget=budget, **options)
    return curator.discover(spend=budget).schema["x"]


def test_without_noise_the_levels_are_the_frequent_ones(monkeypatch):
    without_noise(monkeypatch)
    found = discovered(["b"] * 300 + ["a"] * 400 + ["canary"] + [None] * 500, Categorical(nullable=True))
    assert found == Categorical(("a", "b"), nullable=True)


def test_a_value_of_one_row_is_never_a_level():
    """R1: the threshold holds with probability 1 - delta, so never here."""
    for _ in range(20):
        found = discovered(["a"] * 1000 + ["canary"], Categorical())
        assert "canary" not in found.levels
        assert "canary" not in repr(found)


def test_categories_of_a_type_that_no_row_has_are_never_levels(monkeypatch):
    """R1: an unobserved category is a trace of rows that are gone."""
    without_noise(monkeypatch)
    values = pd.Categorical(["a"] * 500, categories=["canary", "a"])
    assert discovered(values, Categorical()).levels == ("a",)


@given(st.lists(my.values, max_size=8))
@example([decimal.Decimal("sNaN")])
def test_values_of_any_type_can_be_counted(values):
    cells = np.full(len(values) + 2000, "a", dtype=object)
    for i, value in enumerate(values):  # one by one: numpy unpacks lists if it may
        cells[i] = value
    frame = pd.DataFrame({"x": pd.Series(cells, dtype=object)})
    curator = Curator(frame, schema=Schema({"x": Categorical(other="other")}), budget=BUDGET)
    assert curator.discover(spend=BUDGET).schema["x"].levels == ("a",)


def test_at_most_so_many_levels_are_kept(monkeypatch):
    without_noise(monkeypatch)
    counts = np.arange(1, MOST_LEVELS + 51) + 300
    found = discovered(np.repeat(np.arange(len(counts)), counts), Categorical())
    assert found.levels == tuple(range(50, len(counts)))


@pytest.mark.parametrize(
    ("levels", "other", "kept"),
    [(["b", "a"], None, ("a", "b")), ([1, "1"], None, (1,)), (["1", 1], None, ("1",)),
     ([True, "True", 0.5], None, (True, 0.5))],
)  # fmt: skip
def test_of_levels_written_alike_the_most_frequent_is_kept(monkeypatch, levels, other, kept):
    without_noise(monkeypatch)
    values = [level for i, level in enumerate(levels) for _ in range(500 - i)]
    assert discovered(pd.Series([None, *values], dtype=object), Categorical(other=other)).levels == kept


@pytest.mark.parametrize(
    ("levels", "wanted", "label"),
    [(["a"], "other", "other"), (["a", "other"], "other", "other values"), ([1, "b"], "1", "other"),
     (["other", "other values", "(other)", "(other values)"], "other", "other 2")],
)  # fmt: skip
def test_a_level_that_is_called_other_is_kept_apart_from_the_label_for_other_values(monkeypatch, levels, wanted, label):
    without_noise(monkeypatch)
    values = pd.Series([level for level in levels for _ in range(500)], dtype=object)
    found = discovered(values, Categorical(other=wanted))
    assert found.other == label
    assert set(found.levels) == set(levels)


def level_counts(values):
    """The exact counts of levels that the noise is added to."""
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "gaussian_threshold", lambda counts, **_: asked.append(Counter(counts)) or {'"a"': 1})
        discovered(values, Categorical())
    resolution = plan_histogram(gaussian_account(BUDGET, thresholds=THRESHOLDS_SHARE), adjacency=Adjacency()).resolution
    assert all(count % resolution == 0 for count in asked[0].values())
    return Counter({key: count // resolution for key, count in asked[0].items()})


cells = st.one_of(st.integers(-5, 5), st.floats(), st.booleans(), st.text(max_size=1))


@given(st.lists(cells, max_size=6), my.values)
def test_one_row_changes_one_count_of_one_level_by_one(values, more):
    counted = level_counts(pd.Series(values, dtype=object))
    both = level_counts(pd.Series(np.fromiter([*values, more], object, len(values) + 1)))
    assert sum((both - counted).values()) <= 1
    assert not counted - both


def test_a_missing_value_that_makes_numbers_floats_changes_no_count():
    """R25: the row that turns an integer column float."""
    assert level_counts([1, 2, 2]) == level_counts([1.0, 2.0, 2.0, np.nan]) == {"1": 1, "2": 2}


def test_whole_numbers_are_levels_up_to_the_largest_that_is_exact():
    levels = [LARGEST_WHOLE, -LARGEST_WHOLE, LARGEST_WHOLE + 1, -LARGEST_WHOLE - 1]
    assert level_counts(pd.Series(levels, dtype=object)) == {str(LARGEST_WHOLE): 1, str(-LARGEST_WHOLE): 1}
