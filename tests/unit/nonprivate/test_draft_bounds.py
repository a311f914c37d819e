"""Drafted bounds hold all values but a few far ones, and little more, in round numbers; known shapes are recognised."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings, strategies as st

import synthdp as sd
from synthdp import Integer
from synthdp.nonprivate.draft_numbers import (
    EMPTY,
    FEW_IN,
    SHARED,
    Lattice,
    known_shape,
    lattice_of,
    moment_bounds,
    number_bounds,
    without_far_values,
)
from synthdp.nonprivate.draft_schema import draft_schema
from synthdp.schema.columns import RESOLUTIONS, Datetime, check_column
from synthdp.tables.dataframe import FrameSource

WIDER = 0.15
NUMBERS = st.floats(-1e15, 1e15, allow_subnormal=False) | st.floats(-100, 100) | st.integers(-1000, 1000).map(float)
WHOLE = st.integers(-(2**62), 2**62) | st.integers(-1000, 3000)
CALENDAR = int(pd.Timestamp("1700-01-01").timestamp()), int(pd.Timestamp("2250-01-01").timestamp())


def excess(low: float, high: float, lower: float, upper: float) -> float:
    """How much wider bounds are than what they hold, in parts of its width; of one value, in parts of its size."""
    width = (high - low) or max(abs(low), 1e-300)
    return ((low - lower) + (upper - high)) / width


@given(st.tuples(NUMBERS, NUMBERS).map(sorted))
@example([0.1, 0.9])
@example([0.0, 0.0])
@example([1e-300, 2e-300])
@example([1e15, 1e15 + 0.125])
@settings(max_examples=5 * settings.default.max_examples)
def test_bounds_of_numbers_hold_them_and_are_little_wider(ends) -> None:
    low, high = ends
    lower, upper = number_bounds("x", low, high, whole=False)
    assert lower <= low <= high <= upper
    assert lower < upper
    rounding = 4 * np.finfo(float).eps * abs(high) / ((high - low) or abs(high) or 1)
    assert excess(low, high, lower, upper) <= WIDER + rounding or (low == high == 0 and upper <= 1)


@given(st.tuples(WHOLE, WHOLE).map(sorted))
@settings(max_examples=5 * settings.default.max_examples)
def test_bounds_of_whole_numbers_are_whole_and_little_wider(ends) -> None:
    low, high = ends
    lower, upper = number_bounds("x", low, high, whole=True)
    assert isinstance(lower, int)
    assert isinstance(upper, int)
    assert lower <= low <= high <= upper or high == 2**62
    assert (low - lower) + (upper - high) <= max(1, WIDER * (high - low))
    assert lower < upper or high == low == 2**62


@given(
    st.tuples(st.integers(*CALENDAR), st.integers(*CALENDAR)).map(sorted),
    st.sampled_from(["D", "h", "min", "s", "ms", "us"]),
)
@settings(max_examples=5 * settings.default.max_examples)
def test_bounds_of_moments_hold_them_and_are_little_wider(seconds, resolution) -> None:
    step = RESOLUTIONS[resolution]
    low, high = (second * 10**6 // step * step for second in seconds)
    column = Datetime(*moment_bounds(low, high, step=step), resolution=resolution)
    check_column("x", column)
    first, last = (end * step for end in column.steps)
    assert first <= low <= high <= last
    assert (low - first) + (last - high) <= max(step, WIDER * (high - low))


@given(st.integers(-(10**9), 10**9), st.integers(0, 10**6), st.integers(0, 6), st.sampled_from([1, 2, 5, 25]))
def test_bounds_of_numbers_on_a_lattice_lie_on_it(low, width, decimals, step) -> None:
    spacing = Fraction(step, 10**decimals)
    first, last = (float(end * spacing) for end in (low, low + width))
    lower, upper = number_bounds("x", first, last, whole=False, lattice=Lattice(spacing))
    assert lower <= first <= last <= upper
    assert lower < upper
    assert lattice_of([lower, upper]) is not None
    assert (first - lower) + (upper - last) <= max(WIDER * (last - first), 1.001 * float(spacing))


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31", "1969-12-31", "1970-01-01", "2024-02-29"])
@pytest.mark.parametrize("resolution", list(RESOLUTIONS))
def test_one_moment_has_bounds_too(day, resolution) -> None:
    micros = int(np.datetime64(day, "us").astype(np.int64))
    column = Datetime(*moment_bounds(micros, micros, step=RESOLUTIONS[resolution]), resolution=resolution)
    check_column("x", column)
    assert column.steps[0] <= micros // RESOLUTIONS[resolution] <= column.steps[1]


SHAPES = {
    "month": ((2, 11), (1, 12)), "birth_month": ((1, 12), (1, 12)), "MONTH": ((6, 7), (1, 12)),
    "ArrMonth": ((1, 9), (1, 12)),
    "day": ((3, 28), (1, 31)), "day_of_week": ((1, 7), (1, 7)), "weekday": ((0, 5), (0, 6)), "yday": ((5, 300), (1, 366)),
    "hour": ((1, 22), (0, 23)), "sched dep hour": ((5, 23), (0, 23)), "minute": ((0, 55), (0, 59)),
    "quarter": ((1, 3), (1, 4)), "week": ((1, 50), (1, 53)), "pct": ((3, 77), (0, 100)), "fat %": ((3, 77), (0, 100)),
    "latitude": ((40.1, 41.2), (-90, 90)), "start_lng": ((-74, -73), (-180, 180)),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_what_a_name_says_of_values_is_believed_where_all_agree(name) -> None:
    (low, high), shape = SHAPES[name]
    assert number_bounds(name, low, high, whole=False) == shape
    assert known_shape(name, low, 4000) is None
    assert known_shape(name, -4000, high) is None


@pytest.mark.parametrize("name", ["hours-per-week", "cigs_per_day", "monthly", "today", "platitude", "x", "minimum"])
def test_other_names_say_nothing(name) -> None:
    assert known_shape(name, 2, 10) is None


@pytest.mark.parametrize(
    ("name", "values"),
    [("year", [1871, 2014]), ("yr", [99, 5]), ("month", [1, 12]), ("month", [0, 13])],
)
def test_there_is_no_year_3000_and_no_month_20(name, values) -> None:
    (entry,) = draft_schema(FrameSource(pd.DataFrame({name: values * 30})))["columns"]
    column = Integer(entry["lower"], entry["upper"])
    assert column.upper - max(values) <= max(1, math.ceil(WIDER * (max(values) - min(values))))


NICE = [
    (32.1, 59.6, 32, 60),
    (17, 90, 15, 90),
    (-43, 1301, -100, 1400),
    (0.02, 0.98, 0, 1),
    (172, 231, 170, 234),
    (0, 99_999, 0, 100_000),
]


@pytest.mark.parametrize(("low", "high", "lower", "upper"), NICE)
def test_bounds_are_numbers_that_people_write(low, high, lower, upper) -> None:
    drafted = number_bounds("x", low, high, whole=isinstance(low, int))
    assert lower <= drafted[0] <= low
    assert high <= drafted[1] <= upper
    assert all(len(f"{end:g}".strip("-").replace(".", "").strip("0")) <= 4 for end in drafted)


@pytest.mark.landing
@given(st.lists(st.integers(-50, 50), min_size=400, max_size=600), st.lists(st.integers(-(10**6), 10**6), max_size=12))
def test_few_values_lie_beyond_and_only_where_they_would_make_the_range_empty(near: list[int], far: list[int]) -> None:
    counts = Counter([*near, *far])
    low, high = without_far_values(counts)
    beyond = sum(count for value, count in counts.items() if not low <= value <= high)
    assert beyond <= 2 * min(SHARED, counts.total() // FEW_IN)
    assert {low, high} <= set(counts)
    if beyond:
        assert max(counts) - min(counts) > (EMPTY - 1) * (high - low)
    if max(counts) - min(counts) <= 100 and len(set(near)) > 90:
        assert (low, high) == (min(counts), max(counts))


def test_a_draft_of_a_column_with_an_outlier_holds_the_rest_and_says_so() -> None:
    times = np.round(np.random.default_rng(4).gamma(2.0, 3.6, 3000), 1)
    times[0] = 40_000.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draft = sd.draft(pd.DataFrame({"time": times, "fine": times.clip(max=40.0)}))
    assert draft["time"].upper < 60
    columns = {one["name"]: one for one in draft._document["columns"]}
    assert "few values lie far beyond" in columns["time"]["comment"]
    assert "few values lie far beyond" not in columns["fine"]["comment"]
    assert "40000" not in draft.to_json()
