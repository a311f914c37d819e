"""A draft says the digits that all numbers of a table have, and what it says is a schema."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, strategies as st

from synthdp import Continuous, Integer, Ordinal, SyntheticRelease
from synthdp.nonprivate.draft_numbers import Lattice, lattice_of, odd_share, outer, settings_of
from synthdp.nonprivate.draft_schema import OF_ROUNDED, draft_schema
from synthdp.schema.numbers import spacing
from synthdp.schema.schema import Schema
from synthdp.schema.schema_json import from_document
from synthdp.tables.dataframe import FrameSource


def drafted(values):
    document = draft_schema(FrameSource(pd.DataFrame({"x": values})))
    for entry in document["columns"]:
        entry["reviewed"] = True
    return Schema(*from_document(document, source="a draft")[:1])["x"]


def seen() -> dict[str, tuple[np.ndarray, dict[str, object]]]:
    rng = np.random.default_rng(3)
    return {
        "cents": (rng.integers(1, 9999, 3000) / 100, {"decimals": 2, "step": None}),
        "cents in 32 bits": ((rng.integers(1, 9999, 3000) / 100).astype("float32"), {"decimals": 2, "step": None}),
        "halves": (np.tile(np.arange(1, 29) / 2, 100), {"decimals": None, "step": 0.5}),
        "hundreds": (np.tile(100 * np.arange(1, 400), 10), {"step": 100}),
        "whole with missing ones": (
            np.where(rng.random(3000) < 0.1, np.nan, rng.integers(1990, 2020, 3000)), {"step": None}
        ),
        "many digits": (np.repeat(rng.normal(size=600), 5), {"decimals": 12, "step": None}),
        "dust of floats": (np.repeat(np.cumsum(np.full(300, 0.1)), 10), {"decimals": 1, "step": None}),
        "few rows": (np.repeat([0.0, 2.5, 5.0], 10), {"decimals": 1, "step": None}),
        "a few even ones": (np.repeat([2, 4, 6, 8], 100), {"step": 2}),
        "a few odd ones": (np.repeat([1, 3, 5], 100), {"step": 2}),
        "two far apart": (np.repeat([3, 8], 100), {"step": 5}),
        "a few with a gap": (np.repeat([2, 4, 8], 100), {"step": None}),
        "a few even ones, one of which is rare": (np.repeat([2, 4, 6, 8], [100, 100, 100, 3]), {"step": None}),
        "dense": (np.repeat(np.arange(8) / 2, 100), {"decimals": None, "step": 0.5}),
    }  # fmt: skip


SEEN = seen()


@pytest.mark.parametrize(("values", "digits"), SEEN.values(), ids=SEEN)
def test_the_digits_of_all_numbers_are_drafted(values, digits):
    column = drafted(values)
    assert {name: getattr(column, name) for name in digits} == digits


def test_whole_numbers_among_missing_ones_are_drafted_as_whole():
    assert type(drafted(SEEN["whole with missing ones"][0])).__name__ == "Integer"


@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=20, max_size=60, unique=True),
    st.integers(0, 5),
    st.sampled_from([1, 5, 25]),
)
@example([*range(20), 99_999], 0, 1)  # what forms write for "unknown" is no end of the range, but a special number
@example([*range(20), -9], 0, 1)
def test_whatever_the_digits_are_the_draft_is_a_schema_that_holds_the_values(numbers, decimals, step):
    values = np.repeat(np.array(numbers) * step / 10**decimals, 3)
    column = drafted(values)
    outside = (values < column.lower) | (values > column.upper)
    assert set(values[outside]) <= set(column.special)


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**6), st.integers(0, 6), st.sampled_from([1, 2, 5, 25]))
def test_bounds_move_outwards_to_multiples_of_the_spacing(low, width, decimals, step):
    lattice = lattice_of([step / 10**decimals * k for k in range(1, 20)])
    lower, upper = outer(low / 10**decimals, (low + width) / 10**decimals, lattice.spacing)
    assert lower <= low / 10**decimals
    assert (low + width) / 10**decimals <= upper
    assert lattice_of([lower, upper]) is not None
    assert len(settings_of(lattice)) <= 1


def test_few_numbers_that_repeat_keep_their_support():
    """Logarithms of one to five: no other number comes out."""
    values = np.log(np.tile([1, 2, 3, 4, 5], 400))
    column = drafted(values)
    assert column == Ordinal(sorted(set(values.tolist())))
    synthetic = SyntheticRelease(schema=Schema({"x": column}), epsilon=1.0).fit_transform(pd.DataFrame({"x": values}))
    assert synthetic["x"].dtype == np.float64
    assert set(synthetic["x"]) <= set(values)


OFFSETS = {
    "every fifth year": (np.repeat(np.arange(1952, 2008, 5), 20), (1952, 2007, 5)),
    "degrees of another scale": (np.repeat(np.round(32 + 0.18 * np.arange(-100, 300), 2), 3), (14.0, 85.82, 0.18)),
    "pounds in kilograms": (np.repeat(np.round(0.45359237 * np.arange(70, 300), 8), 3),
                            (31.7514659, 135.62411863, 0.45359237)),
}  # fmt: skip


@pytest.mark.parametrize(("values", "known"), OFFSETS.values(), ids=OFFSETS)
def test_values_a_step_apart_stay_so_wherever_they_begin(values, known):
    column = drafted(values)
    assert column.step == known[2]
    steps = (np.concatenate([[column.lower], known[:2], [column.upper]]) - known[0]) / known[2]
    assert np.abs(steps - np.rint(steps)).max() < 1e-6
    table = pd.DataFrame({"x": values})
    synthetic = SyntheticRelease(schema=Schema({"x": column}), epsilon=1.0).fit_transform(table)
    places = (synthetic["x"] - known[0]) / known[2]
    assert np.abs(places - np.rint(places)).max() < 1e-6


def test_a_few_numbers_with_more_digits_do_not_give_them_to_all():
    """Life expectancies of three decimals, a few of five: no synthetic one has five."""
    values = np.round(np.random.default_rng(5).uniform(20, 80, 1700), 3)
    values[:5] = [57.46328, 41.40744, 43.95924, 62.36812, 38.09216]
    assert (drafted(values).decimals, drafted(values).step) == (3, None)


def test_an_accident_is_no_step():
    """Three numbers of five decimals that happen to be multiples of four, among others of three."""
    values = np.append(np.round(np.random.default_rng(6).uniform(20, 80, 40), 3), [57.46328, 41.40744, 43.95924])
    assert (drafted(values).decimals, drafted(values).step) == (5, None)


def odd_rows() -> dict[str, tuple[np.ndarray, float]]:
    """Numbers, one row in twenty-three with more digits, and the spacing that a draft gives them."""
    rng = np.random.default_rng(9)
    odd = np.arange(4600) % 23 == 0
    paid, whole = rng.lognormal(9, 1, 4600), rng.integers(0, 40, 4600).astype(float)
    return {
        "amounts of which a few were computed": (np.where(odd, paid, np.round(paid, 2)), 0.01),
        "half hours among hours": (np.where(odd, whole + 0.5, whole), 0.5),
        "nothing, and measurements in few rows": (np.where(odd, np.round(rng.uniform(0, 900, 4600), 3), 0.0), 0.001),
        "too many of them": (np.where(np.arange(4600) % 15 == 0, np.round(paid, 7), np.round(paid, 2)), 1e-7),
    }


@pytest.mark.parametrize("case", odd_rows())
def test_a_few_rows_of_more_digits_are_rounded_where_nothing_is_lost(case: str) -> None:
    values, expected = odd_rows()[case]
    assert float(spacing(drafted(values).decimals, drafted(values).step)) == expected


@given(
    st.sampled_from([1, 2, 5, 25, 100, 18]),
    st.integers(0, 5),
    st.integers(0, 17),
    st.lists(st.integers(-(10**5), 10**5), min_size=1, max_size=30, unique=True),
    st.lists(st.integers(-(10**5), 10**5), max_size=30, unique=True),
)
@example(5, 1, 0, [1, 2, 3], [4])  # halves
@example(100, 0, 0, [*range(20)], [7])  # hundreds
def test_the_share_of_rounded_rows_is_that_of_rows_between_the_steps(step, decimals, offset, on, between):
    """Of any step, whole or not, and wherever its multiples begin."""
    spacing, first = Fraction(step, 10**decimals), Fraction(offset % step, 10**decimals)
    numbers = {float(first + k * spacing): 2 for k in on}
    numbers |= {float(first + (k + Fraction(37, 100)) * spacing): 3 for k in between}
    share = odd_share(numbers, Lattice(spacing, first))
    assert share == pytest.approx(3 * len(between) / (2 * len(on) + 3 * len(between)))


def comment_on(values):
    (entry,) = draft_schema(FrameSource(pd.DataFrame({"x": values})))["columns"]
    return entry["comment"]


@pytest.mark.parametrize("step", [1, 0.5, 0.25, 0.2, 0.125, 0.05, 0.1, 2, 5, 100])
def test_a_draft_says_that_numbers_are_rounded_only_where_some_are(step):
    said = OF_ROUNDED[: OF_ROUNDED.index("{")]
    assert said not in comment_on(np.arange(4000) * step)


@pytest.mark.parametrize("step", [10, 100, 1000])
def test_a_draft_says_in_how_many_rows_a_number_is_rounded_to_a_round_one(step):
    values = np.repeat(np.arange(2000) * step, 2)
    values[:3000:375] += 7
    assert drafted(values).step == step
    assert OF_ROUNDED.format(share="0.20 %") in comment_on(values)


def test_one_number_stays_the_only_one():
    assert drafted(np.full(300, 2013)) == Integer(2013, 2013)
    assert drafted(np.full(300, 0.1)) == Continuous(0.1, 0.1, decimals=1)
    assert drafted(np.full(9, 2013)).upper > 2013  # so few rows could point at somebody


def heaped() -> dict[str, tuple[np.ndarray, list[float]]]:
    rng = np.random.default_rng(4)
    prices = np.round(rng.choice(np.arange(1025, 1525), 40, replace=False) / 10, 1)
    return {
        "nothing or an amount": (np.where(rng.random(20_000) < 0.6, 0.0, rng.lognormal(5, 1, 20_000)), [0.0]),
        "a top code of logarithms": (np.minimum(rng.normal(3, 1, 20_000), 4.30102999566398), [4.30102999566398]),
        "a few prices, two of them frequent": (
            np.where(rng.random(2000) < 0.3, rng.choice([126.4, 137.0], 2000), rng.choice(prices, 2000)), [126.4, 137.0]
        ),
        "dollars up to millions": (np.where(rng.random(20_000) < 0.3, 0, rng.integers(1, 9_000_000, 20_000)), [0]),
    }  # fmt: skip


HEAPS = heaped()


@pytest.mark.landing
@pytest.mark.sampled("landing")
@pytest.mark.parametrize(("values", "heaps"), HEAPS.values(), ids=HEAPS)
def test_numbers_that_many_rows_share_are_shared_by_as_many_synthetic_rows(values, heaps):
    """Where neighbours share a unit, a heap would be smeared over them: the draft lists it, and says so."""
    column = drafted(values)
    assert set(heaps) <= set(column.special)
    table = pd.DataFrame({"x": values})
    synthetic = SyntheticRelease(schema=Schema({"x": column}), epsilon=1.0).fit_transform(table)
    for heap in heaps:
        assert abs((synthetic["x"] == heap).mean() - (values == heap).mean()) < 0.02


def test_real_numbers_stay_real_numbers():
    """Numbers of all digits come out with many, also where the range is wide and most of them are small."""
    values = np.random.default_rng(7).lognormal(8, 1.5, 3000)
    table = pd.DataFrame({"x": values})
    synthetic = SyntheticRelease(schema=Schema({"x": drafted(values)}), epsilon=3.0).fit_transform(table)
    assert (synthetic["x"].round(4) != synthetic["x"]).mean() > 0.98
