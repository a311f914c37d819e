"""Heaps far from all other numbers: 99999 for "more", -1 for "no answer", and zeros."""

import itertools

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise

from synthdp import ApproxDP, Curator, PureDP, Schema
from synthdp.curator.noisy_ranges import POWER_BINS, NoisyCounts, coarse_range, power_bins
from synthdp.curator.noisy_values import CODES, MAGNITUDE_BINS, magnitude_bins, without_heaps
from synthdp.measurements import NoiseLaw
from synthdp.privacy import noise
from synthdp.schema.columns import Continuous, Date, Integer


def seen(values, stddev=1.0):
    """What a look with so much noise, all of whose draws are 0, says of numbers."""
    rows = np.bincount(magnitude_bins(np.asarray(values, float)).astype(int), minlength=MAGNITUDE_BINS).astype(float)
    return without_heaps(NoisyCounts(rows=rows, stddev=stddev, law=NoiseLaw.GAUSSIAN))


AGES = np.arange(17, 90).repeat(20)

FAR = {
    "no answer": (AGES, [-1.0]),
    "two codes": (AGES, [-1.0, 999.0]),
    "a largest number": (np.append(np.zeros(2000), np.arange(4000)), [99999.0]),
    "nines": (np.arange(64).repeat(20), [99.0]),
    "zeros for what is missing": (np.arange(980, 1020).repeat(50), [0.0]),
    "a code of answers from one to three": (np.repeat([1, 2, 3], 500), [-9.0]),
    "a code far below": (-AGES, [-9999.0]),
}


@pytest.mark.parametrize(("numbers", "codes"), FAR.values(), ids=FAR)
def test_far_codes_are_heaps_and_widen_no_range(numbers, codes):
    powers, heaps = seen(np.concatenate([numbers, np.repeat(codes, 100)]))
    assert heaps == tuple(sorted(codes))
    assert coarse_range(powers) == coarse_range(seen(numbers)[0])


EDGES_OF_FAR = {  # (numbers, a sentinel or zero, whether it lies far from their powers of two)
    "a range of sixteen times the size": (np.arange(16), -1.0, True),
    "a range of less than sixteen times the size": (np.arange(8), -1.0, False),
    "a distance of twice the range": (np.full(16, 1.5), -1.0, True),
    "a distance of less than twice the range": (np.full(16, 2.5), -1.0, False),
    "a distance below of less than twice the range": (np.full(16, -2.5), -1.0, False),
    "above a range below zero": (np.full(16, -5.0), -1.0, False),
    "the lower end itself": (np.array([-0.9, 50.0]), -1.0, False),
    "a positive one beside the range": (np.arange(64), 99.0, True),
    "a positive one in the last power": (np.append(np.arange(64), [70.0, 80.0]), 99.0, False),
    "a positive one below the range": (np.full(16, 1030.0), 999.0, True),
    "zero beside numbers within a factor of four": (np.array([16.0, 63.0]), 0.0, True),
    "zero above such numbers": (np.array([-16.5, -63.0]), 0.0, True),
    "zero beside numbers within a factor of eight": (np.array([16.0, 64.0]), 0.0, False),
    "zero beside numbers near it": (np.array([8.0, 15.0]), 0.0, False),
    "zero between numbers": (np.array([-20.0, 20.0]), 0.0, False),
}


@pytest.mark.parametrize(("numbers", "value", "far"), EDGES_OF_FAR.values(), ids=EDGES_OF_FAR)
def test_a_value_is_far_from_where_the_documented_distance_begins(numbers, value, far):
    """And it counts in its power of two where it is not far."""
    many = np.repeat(numbers, 200).astype(float)
    powers, heaps = seen(np.append(many, np.full(100, value)))
    assert heaps == (value,) * far
    counted = many if far else np.append(many, np.full(100, value))
    assert powers.rows.tolist() == np.bincount(power_bins(counted).astype(int), minlength=POWER_BINS).tolist()


@pytest.mark.parametrize("value", [0.0, -9.0, 999.0])
def test_an_insignificant_value_is_no_sentinel_and_changes_no_count_of_others(value):
    many = np.full(400, 20.0)
    powers, heaps = seen(np.append(many, np.full(3, value)))
    assert heaps == ()
    assert powers.rows.tolist() == (
        np.bincount(power_bins(np.append(many, [0.0] * 3 * (value == 0))).astype(int), minlength=POWER_BINS).tolist()
    )


NEAR = {
    "signs": [-1, 0, 1],
    "truth values": [0, 1],
    "answers from minus three to three": [-3, -2, -1, 0, 1, 2, 3],
    "answers from minus one": [-1, 0, 1, 2, 3, 4],
    "tens below zero": [-99, -40, -9, -1, 0, 10],
    "only codes": [-1, 99],
    "small counts": [0, 1, 2, 3],
    "both signs, without zero": [-40, -20, 20, 40],
}


@pytest.mark.parametrize("numbers", NEAR.values(), ids=NEAR)
def test_codes_among_other_numbers_are_numbers(numbers):
    powers, heaps = seen(np.repeat(numbers, 200))
    assert heaps == ()
    lower, upper = coarse_range(powers)
    assert lower <= min(numbers) <= max(numbers) <= upper


def test_a_code_that_noise_may_explain_is_neither_a_heap_nor_an_end():
    powers, heaps = seen(np.append(AGES, np.repeat(99999.0, 60)), stddev=12.0)
    assert heaps == ()
    assert coarse_range(powers)[1] == 128.0


def test_a_number_is_counted_once_whatever_it_is():
    """Sensitivity 1: every number has one bin, that of a code is the code's, and all other bins are those of powers."""
    numbers = np.array([*CODES, 0.0, 5e-324, -1e308, 98.5, 99.5, -0.999, 1e9, *(-code for code in CODES)])
    bins = magnitude_bins(numbers)
    assert ((bins >= 0) & (bins < MAGNITUDE_BINS)).all()
    assert sorted(bins[: len(CODES)]) == list(range(POWER_BINS, MAGNITUDE_BINS))
    others = ~np.isin(numbers, CODES)
    assert (bins[others] == power_bins(numbers)[others]).all()


def discovered(values, column, budget):
    curator = Curator(pd.DataFrame({"x": values}), schema=Schema({"x": column}), budget=budget)
    return curator.discover(spend=budget).schema["x"]


@pytest.mark.parametrize(("column", "type_"), [(Integer(), int), (Continuous(), float)])
def test_a_discovered_heap_is_a_special_value_of_its_column(monkeypatch, column, type_):
    without_noise(monkeypatch)
    found = discovered(np.append(AGES, np.repeat([-1, 99999], 400)), column, ApproxDP(100.0, 1e-9))
    assert found.special == (-1, 99999)
    assert {type(heap) for heap in found.special} == {type_}
    assert 13 <= found.lower <= 17
    assert 89 <= found.upper <= 94


def test_digits_are_those_of_the_numbers_that_are_no_heaps(monkeypatch):
    without_noise(monkeypatch)
    hundreds = np.arange(100, 20_000, 100).repeat(50).astype(float)
    found = discovered(np.append(hundreds, np.repeat(99999.0, 500)), Continuous(), ApproxDP(100.0, 1e-9))
    assert found.step == 100
    assert found.special == (99999.0,)


def test_days_have_no_codes(monkeypatch):
    without_noise(monkeypatch)
    days = pd.to_datetime(np.append(np.arange(11_000, 19_000, 7).repeat(5), np.repeat(9999, 400)), unit="D")
    found = discovered(days.date, Date(), ApproxDP(100.0, 1e-9))
    assert pd.Timestamp(found.lower) <= pd.Timestamp("1997-05-18") <= pd.Timestamp(found.upper)


EDGES = [-1.0, 0.0, 99.0, 99999.0, 98.0, -9.0, 1e300, None]


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_the_look_at_codes_moves_by_no_more_than_the_item_says(neighbors):
    """Brute force over all pairs of neighbouring tables of up to two rows."""
    base = [(), (99.0,), (-1.0,), (None,)]
    pairs = {
        "add_remove": [(table, (*table, value)) for table in base for value in EDGES],
        "replace_one": [((*table, a), (*table, b)) for table in base for a, b in itertools.combinations(EDGES, 2)],
    }[neighbors]
    curator = Curator(
        pd.DataFrame({"x": [1.0]}), schema=Schema({"x": Continuous()}), budget=PureDP(1.0), neighbors=neighbors
    )
    curator.discover(spend=PureDP(1.0))
    counts = {table: histograms_of(table)[0] for table in set(itertools.chain(*pairs))}
    moved = max(np.abs(counts[one] - counts[two]).sum() for one, two in pairs)
    assert moved == curator.receipt().items[0].sensitivity


def histograms_of(values):
    """The exact histograms that the noise is added to."""
    asked = []

    def catch(counts, *, scale):
        asked.append(counts.copy())
        return np.full(len(counts), 10**6)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "discrete_laplace", catch)
        discovered(pd.Series(list(values), dtype=object), Continuous(), PureDP(1.0))
    return asked
