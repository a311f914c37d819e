"""How wide found ranges are beside the numbers in them: a law over many columns, with exact noise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from synthdp.curator import Curator
from synthdp.curator.noisy_ranges import CLEAR, WINDOWS
from synthdp.privacy.loss import GaussianDP
from synthdp.schema.columns import Integer
from synthdp.schema.schema import Schema

STDDEV = 20.0
LOSS = GaussianDP(1 / STDDEV / np.sqrt(0.5))
"""Half of it is for the look at powers of two, whose noise has this standard deviation."""


def few_valued(rng: np.random.Generator) -> np.ndarray:
    """Two to twelve whole numbers in a row, each of which many rows have; years are spread over four or more."""
    least, first = [(1, int(rng.integers(-40, 300))), (3, int(rng.integers(1900, 2030)))][rng.integers(2)]
    levels = np.arange(first, first + least + 1 + rng.integers(9))
    return np.repeat(levels, rng.integers(120 * STDDEV, 360 * STDDEV, len(levels)))


def found_in(values: np.ndarray) -> Integer:
    curator = Curator(pd.DataFrame({"x": values}), schema=Schema({"x": Integer()}), budget=LOSS)
    return curator.discover(spend=LOSS).schema["x"]


def chance_of_a_wide_range() -> float:
    """A bound: a power of two that is none, one beside clear ones, and in each look a part or a window, or a sum."""
    a_look = (2 + len(WINDOWS)) * CLEAR
    return 2 * CLEAR + 4 * CLEAR + 2 * a_look


def test_a_range_is_more_than_four_times_too_wide_in_less_than_one_of_five_thousand_columns():
    """500 columns, as fifty releases of eight tables have, would have one in less than one of twelve times."""
    assert 500 * chance_of_a_wide_range() < 1 / 12


@pytest.mark.slow
def test_ranges_of_few_whole_numbers_hold_them_all_and_are_at_most_four_times_as_wide():
    """Of 2000 columns a quarter of one is expected to be wider, at most: more than six once in 10⁷ times.

    Codes that are kept apart, such as -1, are no numbers of the range.
    """
    rng = np.random.default_rng(4)
    wide = 0
    for _ in range(2000):
        values = few_valued(rng)
        found = found_in(values)
        values = values[~np.isin(values, found.special)]
        assert found.lower <= values.min()
        assert values.max() <= found.upper
        wide += found.upper - found.lower > 4 * max(np.ptp(values), 1)
    assert wide <= 6
