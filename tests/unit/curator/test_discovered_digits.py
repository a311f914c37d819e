"""Digits and units of time that discovery finds."""

from __future__ import annotations

import statistics
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise

from synthdp.curator import Curator
from synthdp.curator.noisy_ranges import (
    CLEAR,
    PARTS,
    NoisyCounts,
    spacing_of,
)
from synthdp.measurements import NoiseLaw
from synthdp.privacy.loss import ApproxDP, PureDP
from synthdp.schema.columns import (
    Continuous,
    Datetime,
    Duration,
    Integer,
    check_column,
)
from synthdp.schema.schema import Schema

BUDGET = ApproxDP(1.0, 1e-9)


def discovered(values, column, *, budget=BUDGET, **options):
    curator = Curator(pd.DataFrame({"x": values}), schema=Schema({"x": column}), budget=budget, **options)
    return curator.discover(spend=budget).schema["x"]


DIGITS = {
    "whole, with missing ones": (lambda rng: np.where(rng.random(4000) < 0.2, np.nan, rng.integers(1990, 2020, 4000)),
                                 Continuous(nullable=True), {"decimals": 0, "step": None}),
    "cents": (lambda rng: np.round(rng.uniform(0, 80, 4000), 2), Continuous(), {"decimals": 2, "step": None}),
    "cents, mostly zero": (lambda rng: np.where(rng.random(4000) < 0.7, 0, np.round(rng.uniform(0, 80, 4000), 2)),
                           Continuous(), {"decimals": 2, "step": None}),
    "hundreds": (lambda rng: 100.0 * rng.integers(1, 300, 4000), Continuous(), {"decimals": None, "step": 100}),
    "whole hundreds": (lambda rng: 100 * rng.integers(1, 300, 4000), Integer(), {"step": 100}),
    "whole": (lambda rng: rng.integers(1, 300, 4000), Integer(), {"step": None}),
    "all digits": (lambda rng: rng.normal(size=4000), Continuous(), {"decimals": None, "step": None}),
    "one in ten of all digits": (lambda rng: np.where(np.arange(4000) % 10 == 0, rng.normal(size=4000), 7),
                                 Continuous(), {"decimals": None, "step": None}),
    "nothing but zeros": (lambda rng: np.zeros(4000), Continuous(), {"decimals": None, "step": None}),
    "hours": (lambda rng: np.datetime64("2013-01-01") + rng.integers(0, 8000, 4000).astype("timedelta64[h]"),
              Datetime(), {"resolution": "h"}),
    "minutes": (lambda rng: rng.integers(0, 8000, 4000).astype("timedelta64[m]").astype("timedelta64[s]"), Duration(),
                {"resolution": "min"}),
}  # fmt: skip


@pytest.mark.parametrize(("make", "column", "digits"), DIGITS.values(), ids=DIGITS)
def test_digits_that_some_numbers_clearly_need_are_found(make, column, digits):
    found = discovered(make(np.random.default_rng(1)), column, budget=ApproxDP(5.0, 1e-9))
    assert {name: getattr(found, name) for name in digits} == digits


def test_digits_that_noise_could_have_made_are_not_found():
    spacings, noisy = Continuous().spacings(), NoiseLaw.GAUSSIAN
    for factor, found in {0.999: None, 1.001: Fraction(1, 100)}.items():
        rows = np.zeros(len(spacings) + 2)
        clear = noisy.distribution.quantile(2 * CLEAR / len(rows), 1)
        rows[1 + spacings.index(Fraction(1, 100))] = factor * clear
        assert spacing_of(NoisyCounts(rows=rows, stddev=1.0, law=noisy), spacings, width=80.0) == found


def test_what_is_declared_of_digits_is_not_looked_for():
    frame = pd.DataFrame({"n": np.arange(1000.0)})
    curator = Curator(frame, schema=Schema({"n": Continuous(decimals=1)}), budget=PureDP(4.0))
    assert curator.discover(spend=PureDP(4.0)).schema["n"].decimals == 1
    assert [item.step for item in curator.receipt().items] == ["discovered range: n", "discovered bounds: n"]


def test_bounds_too_wide_for_the_digits_are_found_without_them(monkeypatch):
    without_noise(monkeypatch)
    found = discovered([*([0.01] * 4000), *([2.0**62] * 4000)], Continuous(), budget=PureDP(1.0))
    assert found.upper >= 2.0**61
    check_column("x", found)


def test_digits_are_found_at_the_budget_of_a_table_of_six_columns():
    """Of 20 000 rows, a fifth of epsilon 1 for what nobody declared; in most of three discoveries."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({
        "money": rng.integers(0, 50_000, 20_000) / 100, "degrees": np.round(rng.normal(37, 0.5, 20_000), 1),
        "loan": 100 * rng.integers(1, 300, 20_000), "noise": rng.normal(size=20_000),
        "hour": np.datetime64("2013-01-01") + rng.integers(0, 8760, 20_000).astype("timedelta64[h]"),
        "mostly zero": np.where(rng.random(20_000) < 0.8, 0, rng.integers(0, 30_000, 20_000) / 100),
    })  # fmt: skip
    part = ApproxDP(0.2, 1e-10)
    found = [Curator(frame, budget=BUDGET).discover(spend=part).schema for _ in range(3)]
    for name, truth in {"money": 2, "degrees": 1, "mostly zero": 2, "noise": None}.items():
        assert statistics.mode(one[name].decimals for one in found) == truth
    assert statistics.mode((one["loan"].step, one["hour"].resolution) for one in found) == (100, "h")


@pytest.mark.parametrize(("width", "found"), [(0.9, Fraction(1, 10**6)), (8.0, None)])
def test_digits_that_are_only_not_excluded_leave_no_more_values_than_the_one_way_tree_tells_apart(width, found):
    """Whole numbers, of which noise hides whether some have digits: a heap among 8 000 000 values would be spread."""
    spacings = [Fraction(1, 10**i) for i in range(7)]
    counts = NoisyCounts(rows=np.array([3448.0, 1200.0, *[0.0] * 7]), stddev=29.0, law=NoiseLaw.GAUSSIAN)
    assert spacing_of(counts, spacings, width=width) == found


@pytest.mark.parametrize(("width", "found"), [(PARTS, 1), (PARTS - 0.5, None)])
def test_a_spacing_that_divides_the_range_into_parts_moves_no_number_by_much(width, found):
    """A wider one is not taken while noise may hide that many numbers have more digits."""
    spacings = Continuous().spacings()
    rows = np.zeros(len(spacings) + 2)
    rows[1 + spacings.index(Fraction(1))] = 8.0
    counts = NoisyCounts(rows=rows, stddev=1.0, law=NoiseLaw.GAUSSIAN)
    assert spacing_of(counts, spacings, width=width) == found


@pytest.mark.parametrize("start", [0, 16, -32])
def test_the_digits_of_a_range_do_not_depend_on_where_it_lies(monkeypatch, start):
    """Noise may hide that many numbers have more digits, so that these are kept in a range of a few whole numbers."""
    without_noise(monkeypatch)
    values = start + np.arange(16.0).repeat(63)
    values[:100] += 0.5
    assert discovered(values, Continuous(), budget=PureDP(0.8)).decimals == 1
