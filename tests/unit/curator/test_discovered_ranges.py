"""Ranges of numbers and moments that discovery finds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, strategies as st
from no_noise import without_noise

import synthdp as sd
from synthdp.curator import Curator
from synthdp.curator.discovery import UNIT
from synthdp.curator.noisy_ranges import (
    EXPONENTS,
    PARTS,
)
from synthdp.measurements import NoiseLaw
from synthdp.privacy import noise
from synthdp.privacy.loss import ApproxDP, PureDP
from synthdp.schema.columns import (
    DISCOVERED,
    Continuous,
    Datetime,
    Duration,
    Integer,
)
from synthdp.schema.schema import Schema
from synthdp.schema.times import CALENDAR

BUDGET = ApproxDP(1.0, 1e-9)


AMPLE = ApproxDP(100.0, 1e-9)


def discovered(values, column, *, budget=BUDGET, **options):
    curator = Curator(pd.DataFrame({"x": values}), schema=Schema({"x": column}), budget=budget, **options)
    return curator.discover(spend=budget).schema["x"]


BOUNDS = {
    "ages": (np.arange(17, 91), Integer(), 17, 90, 4),
    "constant": (np.full(50, 7), Integer(), 7, 7, 1),
    "zeros": (np.zeros(50), Continuous(), 0, 0, 1),
    "negative": (np.linspace(-1000, -900, 50), Continuous(), -1000, -900, 50),
    "both signs": (np.linspace(-3, 5, 50), Continuous(), -3, 5, 1),
    "tiny": (np.linspace(1e-6, 3e-6, 50), Continuous(), 1e-6, 3e-6, 1e-6),
    "large": (np.linspace(0, 1e15, 50), Continuous(), 0, 1e15, 1e14),
    "whole": (np.repeat([2**61, -(2**61)], 25), Integer(), -(2**61), 2**61, 2**60),
}


@pytest.mark.parametrize(("values", "column", "low", "high", "slack"), BOUNDS.values(), ids=BOUNDS)
def test_without_noise_bounds_hold_all_values_and_little_more(monkeypatch, values, column, low, high, slack):
    without_noise(monkeypatch)
    found = discovered(np.repeat(values, 200), column, budget=AMPLE)
    assert low - slack <= found.lower <= low
    assert high <= found.upper <= high + slack


def test_without_noise_moments_are_bounded_closely(monkeypatch):
    without_noise(monkeypatch)
    days = pd.date_range("2015-03-01", "2024-11-30", freq="D").repeat(20)
    found = discovered(days, Datetime(resolution="D"))
    assert pd.Timestamp("2013-01-01") <= pd.Timestamp(found.lower) <= days[0]
    assert days[-1] <= pd.Timestamp(found.upper) <= pd.Timestamp("2027-01-01")


def test_without_noise_lengths_are_bounded_closely(monkeypatch):
    without_noise(monkeypatch)
    found = discovered(pd.to_timedelta(np.arange(30, 91).repeat(50), unit="s"), Duration(), budget=AMPLE)
    assert 26 <= found.lower <= 30
    assert 90 <= found.upper <= 94


def test_one_row_far_away_does_not_move_the_bounds(monkeypatch):
    """R2."""
    without_noise(monkeypatch)
    values = np.tile(np.arange(100.0), 300)
    assert discovered(np.append(values, 1e12), Continuous()) == discovered(values, Continuous())


def test_bounds_found_under_noise_hold_most_values():
    found = discovered(np.tile(np.arange(17, 91), 500), Integer())
    assert found.lower <= 20
    assert 85 <= found.upper <= 128


TINY = [-1e300, -3.0, 0.0, 1e-30, 0.7, 5.0, 1e300, np.inf, np.nan, None]


def histogram_of(values):
    """The exact histograms of powers of two, of parts and of digits that the noise is added to."""
    asked = []

    def catch(counts, *, scale):
        asked.append(counts.copy())
        return np.full(len(counts), 10**6)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "discrete_laplace", catch)
        discovered(pd.Series(list(values), dtype=object), Continuous(), budget=PureDP(1.0))
    return asked


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_histograms_move_by_no_more_than_the_item_says(neighbors):
    """Brute force over all pairs of neighbouring tables of up to two rows."""
    frame = pd.DataFrame({"x": [1.0, 2.0] * 5000})
    curator = Curator(frame, schema=Schema({"x": Continuous()}), budget=PureDP(1.0), neighbors=neighbors)
    curator.discover(spend=PureDP(1.0))
    declared = [item.sensitivity for item in curator.receipt().items]
    assert {item.mechanism for item in curator.receipt().items} == {str(NoiseLaw.LAPLACE)}
    base = [(), (0.7,), (-3.0,), (None,)]
    pairs = {
        "add_remove": [(table, (*table, value)) for table in base for value in TINY],
        "replace_one": [((*table, a), (*table, b)) for table in base for a, b in itertools.combinations(TINY, 2)],
    }[neighbors]
    found = {table: histogram_of(table) for table in set(itertools.chain(*pairs))}
    for fixed in (0, 2):  # the bins of the second depend on the answer to the first
        moved = max(np.abs(found[one][fixed] - found[two][fixed]).sum() for one, two in pairs)
        assert moved == declared[fixed]


TYPES_OF_NUMBERS = {
    "texts": pd.Series([str(i) for i in range(17, 91)] * 50, dtype=object),
    "texts, some of them missing": pd.Series([None, *map(str, range(17, 91))] * 50, dtype=object),
    "nullable whole numbers": pd.Series([None, *range(17, 91)] * 50, dtype="Int64"),
    "floats with NaN and infinities": pd.Series([np.nan, np.inf, -np.inf, *range(17, 91)] * 50),
}


@pytest.mark.parametrize("values", TYPES_OF_NUMBERS.values(), ids=TYPES_OF_NUMBERS)
def test_bounds_are_of_the_finite_numbers_whatever_they_are_stored_as(monkeypatch, values):
    without_noise(monkeypatch)
    found = discovered(values, Integer(nullable=True), budget=AMPLE)
    assert 13 <= found.lower <= 17
    assert 90 <= found.upper <= 94


@given(st.integers(-EXPONENTS, EXPONENTS - 2), st.integers(0, 9), st.sampled_from([1, -1]))
def test_two_numbers_are_bounded_by_parts_of_the_powers_of_two_around_them(power, less, sign):
    """A range over a factor of four or more begins at zero; that of mirrored numbers is mirrored."""
    near, far = math.sqrt(1.7) * 2.0 ** max(power - less, -EXPONENTS), math.sqrt(1.7) * 2.0**power
    with pytest.MonkeyPatch.context() as patch:
        without_noise(patch)
        found = discovered(np.repeat([sign * near, sign * far], 1000), Continuous(), budget=PureDP(100.0))
    top = 2.0 ** (power + 1)
    start = (near >= top / 2) * top / 2
    part = (top - start) / PARTS
    ends = [start + math.floor((near - start) / part) * part, start + (math.floor((far - start) / part) + 1) * part]
    lower, upper = [sign * found.lower, sign * found.upper][::sign]
    assert ends[0] <= lower <= near <= far <= upper <= ends[1]


@pytest.mark.parametrize("value", [2.0**64, 1e300, np.finfo(float).max])
def test_the_last_bins_hold_all_larger_numbers(monkeypatch, value):
    """Among smaller numbers they are clipped; alone they are not told apart, so there is no range."""
    without_noise(monkeypatch)
    for sign in (1, -1):
        found = discovered(sign * np.repeat([value, 1.5], 1000), Continuous(), budget=PureDP(1.0))
        assert max(abs(found.lower), abs(found.upper)) == 2.0**EXPONENTS
        alone = discovered(np.full(1000, sign * value), Continuous(), budget=PureDP(1.0))
        assert (alone.lower, alone.upper) == UNIT


@example(0, -2)
@example(-32, -40)
@example(-1, -1)
@example(-64, -33)
@example(-2, -2)
@example(0, 0)
@given(st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_a_range_of_two_whole_numbers_holds_them_and_is_at_most_four_times_as_wide(one, two):
    with pytest.MonkeyPatch.context() as patch:
        without_noise(patch)
        real, whole = (
            discovered(np.repeat([one, two], 1000), column, budget=PureDP(100.0))
            for column in (Continuous(), Integer())
        )
    assert whole.upper - whole.lower <= 4 * max(abs(one - two), whole.step or 1)
    assert whole.special == real.special
    assert all(whole.lower <= number <= whole.upper for number in {one, two} - {*whole.special})


def test_no_whole_number_comes_out_that_only_the_end_of_a_part_suggests(monkeypatch):
    without_noise(monkeypatch)
    assert discovered(np.tile([0, 1], 2000), Integer()) == Integer(0, 1, source=DISCOVERED)
    assert discovered(np.tile([1, 2, 3], 2000), Integer()).upper == 3


@pytest.mark.landing
def test_years_are_not_lost_in_the_power_of_two_that_they_lie_in() -> None:
    """Seven years of a thousand: with noise, too, in most of many runs."""
    years = np.random.default_rng(0).integers(2003, 2010, 3000)
    widths = sorted(found.upper - found.lower for found in (discovered(years, Integer()) for _ in range(40)))
    assert widths[30] <= 40


MOMENTS = {
    "before 1970": ["1423-05-06", "1444-01-01"],
    "the first years": ["0001-01-01", "0003-01-01"],
    "the last years": ["9990-01-01", "9999-12-31"],
    "around 1970": ["1969-12-01", "1970-02-01"],
}


@pytest.mark.parametrize("resolution", ["D", "s", "us"])
@pytest.mark.parametrize("moments", MOMENTS.values(), ids=MOMENTS)
def test_moments_of_all_years_lie_within_what_is_found(monkeypatch, moments, resolution):
    without_noise(monkeypatch)
    values = np.repeat(np.array(moments, "datetime64[us]"), 5000)
    schema = Schema({"t": Datetime(resolution=resolution)})
    found = (
        Curator(pd.DataFrame({"t": values}), schema=schema, budget=PureDP(4.0)).discover(spend=PureDP(4.0)).schema["t"]
    )
    assert np.datetime64(found.lower) <= values.min()
    assert values.max() - np.timedelta64(1, resolution) <= np.datetime64(found.upper)
    assert CALENDAR[0] <= np.datetime64(found.lower, "us").astype(int)
    assert np.datetime64(found.upper, "us").astype(int) <= CALENDAR[1]


def test_lengths_are_found_in_their_own_resolution(monkeypatch):
    without_noise(monkeypatch)
    values = np.repeat(np.array([-7_200, -3_600], "timedelta64[s]"), 5000)
    schema = Schema({"t": Duration(resolution="h")})
    found = (
        Curator(pd.DataFrame({"t": values}), schema=schema, budget=PureDP(4.0)).discover(spend=PureDP(4.0)).schema["t"]
    )
    assert -3 <= found.lower <= -2
    assert -1 <= found.upper <= 0


BEYOND = {
    "unsigned": (np.arange(3000) % 50).astype(np.uint64) + np.uint64(2**63 + 5),
    "whole": np.arange(3000) % 50 + 2**62,
    "negative": np.arange(3000) % 50 + np.iinfo(np.int64).min,
    "real": np.linspace(-1e300, 1e300, 3000),
}
TOLD_APART = {
    "whole": np.arange(3000) % 50 + 10**18,
    "real": np.linspace(-1e18, 1e18, 3000),
    "some far": np.where(np.arange(3000) % 10 == 0, 1e30, np.linspace(-4, 4, 3000)),
}


@pytest.mark.filterwarnings("ignore::synthdp.errors.DiscoveryWarning")
@pytest.mark.parametrize("values", BEYOND.values(), ids=BEYOND)
def test_numbers_beyond_those_that_discovery_tells_apart_are_left_out(values):
    """Each came out as one number, 2^62 or ± 2^64, without a word."""
    table = pd.DataFrame({"x": values, "k": ["a", "b"] * 1500})
    release = sd.SyntheticRelease(epsilon=5.0).fit(table)
    assert list(release.schema_) == ["k"]
    assert "declare its bounds" in str(release.receipt_).replace("\n             ", "")


@pytest.mark.parametrize("values", TOLD_APART.values(), ids=TOLD_APART)
def test_large_numbers_that_are_told_apart_stay(values):
    release = sd.SyntheticRelease(epsilon=5.0).fit(pd.DataFrame({"x": values, "k": ["a", "b"] * 1500}))
    assert release.schema_["x"].lower < np.median(values) < release.schema_["x"].upper


@pytest.mark.parametrize(("value", "bins"), [(1500.0, PARTS), (1024.0 + 15 * 32, 2 * PARTS)])
def test_a_range_of_about_five_bins_is_divided_twice_as_finely(monkeypatch, value, bins):
    """Numbers on both sides of the border between two bins fill both, and keep two bins on either side of them."""
    without_noise(monkeypatch)
    frame = pd.DataFrame({"x": np.repeat([value - 0.25, value + 0.25], 2000)})
    curator = Curator(frame, schema=Schema({"x": Continuous()}), budget=PureDP(10.0))
    curator.discover(spend=PureDP(10.0))
    answers = [item.answers for item in curator.receipt().items if item.step == "discovered bounds: x"]
    assert answers == [PARTS, bins]
