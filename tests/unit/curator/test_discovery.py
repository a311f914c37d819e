"""Discovery: bounds and levels under noise, itemised, and never a value of one row."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
import statistics
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import strategies as my
from hypothesis import assume, example, given, strategies as st
from no_noise import recorded, replayed, without_noise

from synthdp.arrays import LARGEST_WHOLE
from synthdp.curator.curator import Curator
from synthdp.curator.discovery import MOST_LEVELS
from synthdp.curator.noisy_ranges import (
    CLEAR,
    EXPONENTS,
    FILLED,
    HARDLY_ANY,
    PARTS,
    POWER_BINS,
    WINDOWS,
    NoisyCounts,
    coarse_range,
    is_narrow,
    narrowed,
    power_bins,
    spacing_of,
    stretched,
)
from synthdp.domain.grid import grid_of
from synthdp.errors import SchemaError
from synthdp.measurements import NoiseLaw
from synthdp.privacy import noise
from synthdp.privacy.accounting import gdp_to_delta
from synthdp.privacy.calibration import THRESHOLDS_SHARE, calibrate, gaussian_account
from synthdp.privacy.key_histogram import plan_histogram
from synthdp.privacy.loss import ZCDP, ApproxDP, GaussianDP, PureDP, combined, components
from synthdp.privacy.neighbors import Adjacency
from synthdp.schema.columns import (
    DISCOVERED,
    Categorical,
    Continuous,
    Date,
    Datetime,
    Decimal,
    Duration,
    Identifier,
    Integer,
    Time,
    check_column,
    is_complete,
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


@pytest.mark.parametrize("column", [Integer(), Continuous(), Datetime(), Duration(), Datetime(resolution="D")])
@pytest.mark.parametrize("value", [2**62, -(2**62), 0, 1, -(10**17), 10**12])
def test_whatever_is_found_is_a_column_that_can_be_coded(monkeypatch, column, value):
    without_noise(monkeypatch)
    kinds = {Datetime: "datetime64[us]", Duration: "timedelta64[us]"}
    values = pd.Series(np.full(10_000, value)).astype(kinds.get(type(column), "int64"))
    found = discovered(values, column)
    check_column("x", found)
    assert grid_of(found).size > 1


NOTHING = [[None] * 3, [np.nan] * 3, [np.inf] * 3, ["text"] * 3, [7.0] * 3, []]


@pytest.mark.parametrize("values", NOTHING)
@pytest.mark.parametrize("column", [Continuous(), Integer(), Datetime(), Duration(), Date()])
def test_a_column_whose_range_noise_hides_is_left_out_and_nothing_is_invented(values, column):
    frame = pd.DataFrame({"x": pd.Series([*values, *[None] * (2000 - len(values))], dtype=object), "c": ["a"] * 2000})
    curator = Curator(frame, schema=Schema({"x": column, "c": Categorical()}), budget=BUDGET)
    found = curator.discover(spend=BUDGET)
    assert found.without_range == ("x",)
    assert found.schema.names == curator.schema.names == ("c",)


@pytest.mark.parametrize("values", NOTHING)
@pytest.mark.parametrize("column", [Continuous(), Integer(), Datetime(), Duration(), Date(), Categorical()])
def test_where_nothing_is_found_of_any_column_it_stays_as_one_that_can_be_coded(values, column):
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    found = Curator(frame, schema=Schema({"x": column}), budget=BUDGET).discover(spend=BUDGET)
    assert found.hidden == found.schema.names == ("x",)
    assert found.columns == found.notes == ()
    assert is_complete(found.schema["x"])
    assert grid_of(found.schema["x"]).size > 0
    assert found.schema == Curator(frame[:0], schema=Schema({"x": column}), budget=BUDGET).discover(spend=BUDGET).schema


def test_a_hidden_column_stays_if_what_follows_cannot_do_without_it():
    frame = pd.DataFrame({"x": [None] * 2000, "y": [None] * 2000, "c": ["a"] * 2000})
    schema = Schema({"x": Continuous(), "y": Integer(), "c": Categorical()})
    found = Curator(frame, schema=schema, budget=BUDGET).discover(spend=BUDGET, takes=lambda rest: "y" in rest)
    assert found.schema.names == ("y", "c")
    assert found.without_range == ("x", "y")
    assert found.columns == ("c",)


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


def test_a_column_without_frequent_values_is_named_for_a_hint():
    frame = pd.DataFrame({"note": [f"note {i}" for i in range(500)], "city": ["a"] * 500})
    curator = Curator(frame, schema=Schema({"note": Categorical(), "city": Categorical()}), budget=BUDGET)
    found = curator.discover(spend=BUDGET)
    assert found.without_levels == ("note",)
    assert found.schema == Schema({"city": Categorical(("a",), source=DISCOVERED)})


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


def test_discovery_is_itemised_and_spends_what_it_says():
    frame = pd.DataFrame({"n": np.arange(100).repeat(100), "c": pd.array(["a"] * 10_000, dtype="string")})
    curator = Curator(frame, budget=ApproxDP(1.0, 1e-6))
    spend = ApproxDP(0.5, 1e-7)
    curator.discover(spend=spend)
    items = curator.receipt().items
    assert [item.step for item in items] == [
        "discovered range: n", "discovered bounds: n", "discovered digits: n", "discovered levels: c"
    ]  # fmt: skip
    together = combined([item.loss for item in items])
    whole = gaussian_account(spend, thresholds=THRESHOLDS_SHARE)
    assert together.delta == pytest.approx(THRESHOLDS_SHARE * 1e-7)
    assert 0.8 * whole.mu**2 <= together.mu**2 <= whole.mu**2 * (1 + 1e-12)
    assert gdp_to_delta(together.mu, 0.5) + together.delta <= 1e-7
    assert curator.remaining == ApproxDP(0.5, 9e-7)


def test_what_a_gaussian_account_does_not_need_for_discovery_is_left_in_it():
    frame = pd.DataFrame({"n": [None] * 500, "c": ["a"] * 500})
    account = Curator(frame, schema=Schema({"n": Continuous(), "c": Categorical()}), budget=GaussianDP(1.0, 1e-9))
    account.discover(spend=GaussianDP(0.6, 1e-9))
    assert components(account.remaining) == (pytest.approx(1 - 0.36 / 2 - 0.36 / 2 * 0.5), 0.0)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_noise_is_asked_alike_on_neighbours(monkeypatch, neighbors):
    """R8: what one row holds changes no scale, no number of answers and no order."""
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=i % 100) for i in range(10_000)]
    frame = pd.DataFrame({"n": np.arange(10_000.0), "c": ["a", "b"] * 5000, "o": pd.Series(days, dtype=object)})
    ask = lambda table: Curator(table, budget=BUDGET, neighbors=neighbors).discover(spend=BUDGET)  # noqa: E731
    first = recorded(monkeypatch)
    found = ask(frame)
    monkeypatch.undo()
    second = replayed(monkeypatch, first)
    hostile = pd.Series([["canary"], *days[1:]], dtype=object)
    other = frame.assign(n=frame["n"].where(frame.index > 0, 1e300), c=["canary", *frame["c"][1:]], o=hostile)
    assert ask(other) == found
    assert second.draws == first.draws


def test_discovery_is_refused_before_it_spends():
    frame = pd.DataFrame({"n": [1], "c": ["a"]})
    with pytest.raises(
        SchemaError, match=r"^the levels of column 'c' must be declared, or discovered with a delta above 0$"
    ):
        Curator(frame, budget=PureDP(1.0)).discover(spend=PureDP(1.0))
    with pytest.raises(SchemaError, match=r"^every column of the schema is declared: there is nothing to discover$"):
        Curator(frame, schema=Schema({"n": Integer(0, 1)}), budget=BUDGET).discover(spend=BUDGET)
    for loss in (ZCDP(1.0), GaussianDP(1.0), ApproxDP(1.0, 0.0)):
        curator = Curator(frame, budget=loss)
        with pytest.raises(SchemaError, match=r"^the levels of column 'c' must be declared"):
            curator.discover(spend=loss)
        assert curator.remaining == loss


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


def test_identifiers_need_no_discovery():
    assert Schema({"id": Identifier()}).undeclared == ()


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


@given(st.integers(-EXPONENTS, EXPONENTS - 1), st.integers(0, 9), st.sampled_from([1, -1]))
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
    without_noise(monkeypatch)
    for sign in (1, -1):
        found = discovered(np.full(1000, sign * value), Continuous(), budget=PureDP(1.0))
        last = 2.0**EXPONENTS
        assert [sign * found.lower, sign * found.upper][::sign] == [last - last / 2 / PARTS**2, last]


@example(0, -2)
@example(-2, -2)
@example(0, 0)
@given(st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_bounds_of_whole_numbers_are_the_whole_numbers_around_those_of_real_ones(one, two):
    with pytest.MonkeyPatch.context() as patch:
        without_noise(patch)
        real, whole = (
            discovered(np.repeat([one, two], 1000), column, budget=PureDP(100.0))
            for column in (Continuous(), Integer())
        )
    assert whole.lower == math.floor(real.lower)
    assert math.ceil(real.upper) - 1 <= whole.upper <= max(math.ceil(real.upper), whole.lower + 1)
    assert whole.lower <= min(one, two)
    assert max(one, two) <= whole.upper


def test_no_whole_number_comes_out_that_only_the_end_of_a_part_suggests(monkeypatch):
    without_noise(monkeypatch)
    assert discovered(np.tile([0, 1], 2000), Integer()) == Integer(0, 1, source=DISCOVERED)
    assert discovered(np.tile([1, 2, 3], 2000), Integer()).upper == 3


def powers_with(rows, law, stddev=1.0):
    counts = np.zeros(POWER_BINS)
    one = 3 * EXPONENTS + 1  # the bin of 1 <= x < 2
    for bin_, count in rows.items():
        counts[one + bin_] = count
    return NoisyCounts(rows=counts, stddev=stddev, law=law)


@pytest.mark.parametrize("law", [NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN])
@pytest.mark.parametrize(("factor", "found"), [(0.999, None), (1.001, (1.0, 2.0))])
def test_noise_alone_makes_a_range_once_in_a_million_times(law, factor, found):
    """A bin counts if it has more than noise alone reaches in any of the bins, or windows of them, with that chance."""
    quantile = law.distribution.quantile(2 * CLEAR / POWER_BINS / len(WINDOWS), 1)
    assert coarse_range(powers_with({0: factor * quantile}, law)) == found


def test_far_bins_need_more_rows_than_those_beside_clear_ones():
    gaussian = NoiseLaw.GAUSSIAN
    assert coarse_range(powers_with({0: 1000, 2: 4.0}, gaussian)) == (0.0, 8.0)
    assert coarse_range(powers_with({0: 1000, 3: 4.0}, gaussian)) == (1.0, 2.0)
    assert coarse_range(powers_with({0: 1000, 10: 7.0}, gaussian)) == (0.0, 2.0**11)


def test_powers_that_are_clear_together_only_make_a_range():
    assert coarse_range(powers_with(dict.fromkeys(range(4), 4.0), NoiseLaw.GAUSSIAN)) == (0.0, 16.0)
    assert coarse_range(powers_with(dict.fromkeys(range(0, 40, 10), 4.0), NoiseLaw.GAUSSIAN)) is None


def test_a_tail_of_zeros_is_no_reason_to_cut_off_what_lies_far_from_them():
    rows = np.zeros(PARTS)
    rows[0], rows[10:20] = 1e6, 3.0
    counts = NoisyCounts(rows=rows, stddev=1.0, law=NoiseLaw.GAUSSIAN)
    assert narrowed(counts, 0.0, 32.0) == (0.0, 20.0)
    rows[10:20] = 0.1
    assert narrowed(counts, 0.0, 32.0) == (0.0, 1.0)


@given(  # thousandths: all powers of two that are far below one are one bin
    st.lists(st.integers(-(10**6), 10**6).map(lambda n: n / 1000), min_size=1, max_size=6),
    st.lists(st.integers(1, 3000), min_size=6, max_size=6),
    st.floats(1.0, 100.0),
)
def test_a_range_that_is_called_narrow_is_never_wider_than_four_times_what_its_numbers_span(values, repeats, stddev):
    table = np.repeat(values, repeats[: len(values)])
    rows = np.bincount(power_bins(table).astype(int), minlength=POWER_BINS).astype(float)
    counts = NoisyCounts(rows=rows, stddev=stddev, law=NoiseLaw.GAUSSIAN)
    found = coarse_range(counts)
    assume(found is not None and is_narrow(counts, *found))
    lower, upper = stretched(counts, *found)
    assert upper - lower <= 4 * np.ptp(table)


@given(st.lists(st.floats(0, 500), min_size=PARTS, max_size=PARTS))
def test_what_is_cut_off_a_narrow_range_is_surely_hardly_any(rows):
    counts = NoisyCounts(rows=np.array(rows), stddev=1.0, law=NoiseLaw.GAUSSIAN)
    lower, upper = narrowed(counts, 0.0, float(PARTS), narrow=True)
    assert 0 <= lower < upper <= PARTS
    assert max(sum(rows[: int(lower)]), sum(rows[int(upper) :])) <= HARDLY_ANY * sum(rows)
    assert lower == upper - PARTS == 0 or sum(rows) * HARDLY_ANY > 2.0


def test_years_are_not_lost_in_the_power_of_two_that_they_lie_in() -> None:
    """Seven years of a thousand: with noise, too, in nearly all of many runs."""
    years = np.random.default_rng(0).integers(2003, 2010, 3000)
    widths = sorted(found.upper - found.lower for found in (discovered(years, Integer()) for _ in range(40)))
    assert widths[36] <= 40


@given(st.lists(st.floats(-5, 500), min_size=PARTS, max_size=PARTS))
def test_what_is_cut_off_a_range_is_never_more_than_noise_explains(rows):
    counts = NoisyCounts(rows=np.array(rows), stddev=1.0, law=NoiseLaw.GAUSSIAN)
    lower, upper = narrowed(counts, 0.0, float(PARTS))
    assert 0 <= lower < upper <= PARTS
    outside = [*rows[: int(lower)], *rows[int(upper) :]]
    assert max(outside, default=0) <= FILLED or sum(outside) <= math.sqrt(PARTS)


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


RNG = np.random.default_rng(5)
OBJECTS = {
    "dates": ([dt.date(2020, 1, 1) + dt.timedelta(days=int(i)) for i in RNG.integers(0, 400, 3000)], Date),
    "moments": ([dt.datetime(2020, 1, 1) + dt.timedelta(hours=int(i)) for i in RNG.integers(0, 400, 3000)], Datetime),  # noqa: DTZ001
    "times of day": ([dt.time(int(i)) for i in RNG.integers(0, 24, 3000)], Time),
    "lengths": ([dt.timedelta(minutes=int(i)) for i in RNG.integers(1, 400, 3000)], Duration),
    "decimals": ([decimal.Decimal(int(i)) / 4 for i in RNG.integers(1, 400, 3000)], Decimal),
    "texts": (["a", "b"] * 1500, Categorical),
    "dates, and one text": ([dt.date(2020, 1, 1)] * 1500 + [dt.date(2020, 9, 1)] * 1500 + ["canary"], Date),
}


def of_objects(values, budget=ApproxDP(20.0, 1e-6), **options):  # noqa: B008
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object), "y": pd.Series([True] * len(values), dtype=object)})
    curator = Curator(frame, budget=budget, **options)
    return curator.discover(spend=budget).schema.get("x"), curator.receipt().items


@pytest.mark.parametrize(("values", "kind"), OBJECTS.values(), ids=OBJECTS)
def test_what_objects_are_is_found_before_what_they_may_be(values, kind):
    found, items = of_objects(values)
    assert type(found) is kind
    assert is_complete(found)
    assert found.nullable
    together = combined([item.loss for item in items])
    assert gdp_to_delta(together.mu, 20.0) + together.delta <= 1e-6 * (1 + 1e-9)
    schema = Schema({"x": found})
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize("values", [[[1], [2]] * 1500, [None] * 3000])
def test_objects_that_are_neither_levels_nor_quantities_are_left_out(values):
    assert of_objects(values)[0] is None


def test_decimals_of_objects_have_the_digits_that_are_found():
    assert of_objects(OBJECTS["decimals"][0])[0].decimals == 2
    hundreds = [decimal.Decimal(int(i)) * 100 for i in RNG.integers(1, 400, 3000)]
    assert of_objects(hundreds)[0].decimals == 0


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_what_one_object_is_moves_the_histogram_by_no_more_than_the_item_says(monkeypatch, neighbors):
    cells = ["a", None, 1, 2.5, dt.date(2020, 1, 1), dt.time(3), decimal.Decimal("1.5"), [1], pd.NaT, object()]
    base = [(), ("b",), (dt.date(2021, 1, 1),)]
    pairs = {
        "add_remove": [(table, (*table, cell)) for table in base for cell in cells],
        "replace_one": [((*table, a), (*table, b)) for table in base for a, b in itertools.combinations(cells, 2)],
    }[neighbors]

    def first(values):
        asked = []
        monkeypatch.setattr(noise, "discrete_gaussian", lambda counts, **_: (asked.append(counts.copy()), counts)[1])
        monkeypatch.setattr(noise, "gaussian_threshold", lambda _, **__: {'"a"': 1})
        items = of_objects(values, ApproxDP(1.0, 1e-6), neighbors=neighbors)[1]
        return asked[0] // calibrate(Adjacency(neighbors).histogram, items[0].loss, k=6).resolution, items[
            0
        ].sensitivity

    sensitivity = first(("b",))[1]
    assert max(np.square(first(one)[0] - first(two)[0]).sum() for one, two in pairs) == pytest.approx(sensitivity**2)


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
    counts = NoisyCounts(rows=np.array([3448.0, 860.0, *[0.0] * 7]), stddev=29.0, law=NoiseLaw.GAUSSIAN)
    assert spacing_of(counts, spacings, width=width) == found
