"""A draft says the digits that all numbers of a table have, and what it says is a schema."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from synthdp import Ordinal, SyntheticRelease
from synthdp.nonprivate.digits import outer, settings_of, spacing_of
from synthdp.nonprivate.draft_schema import draft_schema
from synthdp.schema.schema import Schema
from synthdp.schema.schema_json import from_document
from synthdp.tables.sources.dataframe import FrameSource


def drafted(values):
    document = draft_schema(FrameSource(pd.DataFrame({"x": values})))
    for entry in document["columns"]:
        entry["reviewed"] = True
    return Schema(*from_document(document, source="a draft")[:1])["x"]


RNG = np.random.default_rng(3)
SEEN = {
    "cents": (RNG.integers(1, 9999, 3000) / 100, {"decimals": 2, "step": None}),
    "cents in 32 bits": ((RNG.integers(1, 9999, 3000) / 100).astype("float32"), {"decimals": 2, "step": None}),
    "halves": (np.tile(np.arange(1, 29) / 2, 100), {"decimals": None, "step": 0.5}),
    "hundreds": (np.tile(100 * np.arange(1, 400), 10), {"step": 100}),
    "whole with missing ones": (np.where(RNG.random(3000) < 0.1, np.nan, RNG.integers(1990, 2020, 3000)), {"step": None}),
    "many digits": (np.repeat(RNG.normal(size=600), 5), {"decimals": None, "step": None}),
    "dust of floats": (np.repeat(np.cumsum(np.full(300, 0.1)), 10), {"decimals": 1, "step": None}),
    "few rows": (np.repeat([0.0, 2.5, 5.0], 10), {"decimals": 1, "step": None}),
    "dense": (np.repeat(np.arange(8) / 2, 100), {"decimals": None, "step": 0.5}),
}  # fmt: skip


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
def test_whatever_the_digits_are_the_draft_is_a_schema_that_holds_the_values(numbers, decimals, step):
    values = np.repeat(np.array(numbers) * step / 10**decimals, 3)
    column = drafted(values)
    low, high = (column.lower, column.upper)
    assert low <= values.min()
    assert values.max() <= high


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**6), st.integers(0, 6), st.sampled_from([1, 2, 5, 25]))
def test_bounds_move_outwards_to_multiples_of_the_spacing(low, width, decimals, step):
    spacing = spacing_of([step / 10**decimals * k for k in range(1, 20)])
    lower, upper = outer(low / 10**decimals, (low + width) / 10**decimals, spacing)
    assert lower <= low / 10**decimals
    assert (low + width) / 10**decimals <= upper
    assert spacing_of([lower, upper]) is not None
    assert len(settings_of(spacing)) <= 1


def test_few_numbers_that_repeat_keep_their_support():
    """Logarithms of one to five: no other number comes out."""
    values = np.log(np.tile([1, 2, 3, 4, 5], 400))
    column = drafted(values)
    assert column == Ordinal(sorted(set(values.tolist())))
    synthetic = SyntheticRelease(schema=Schema({"x": column}), epsilon=1.0).fit_transform(pd.DataFrame({"x": values}))
    assert synthetic["x"].dtype == np.float64
    assert set(synthetic["x"]) <= set(values)
