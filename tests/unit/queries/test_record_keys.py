"""Record keys: one text for the values of some columns, the same for a query and for a row."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from synthdp.queries.supports import key_of, part_of, values_of
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.keys import count_keys

TEXTS = st.text(max_size=8) | st.sampled_from(["", "\\", "\x00", "\x1f", "\\u", "\\0", "a\x1fb"])


@given(st.lists(TEXTS | st.none(), min_size=1, max_size=4))
def test_the_values_of_a_key_are_the_texts_it_was_made_of(values):
    assert values_of(key_of(values)) == tuple(values)


@given(st.lists(TEXTS | st.none(), min_size=2, max_size=3), st.lists(TEXTS | st.none(), min_size=2, max_size=3))
def test_different_texts_have_different_keys(one, other):
    assert (key_of(one) == key_of(other)) == (one == other)


@pytest.mark.parametrize("value", [1, 1.0, True, np.int8(1), np.float32(1), np.bool_(True), "1"])
def test_a_whole_number_has_one_text_whatever_its_type(value):
    assert part_of(value) == "1"


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), pd.NaT, pd.NA, object(), [1]])
def test_what_has_no_text_of_its_own_is_missing(value):
    assert part_of(value) == "\x00"


def test_times_and_bytes_have_plain_texts():
    assert part_of(dt.date(2026, 1, 2)) == "2026-01-02"
    assert part_of(b"\x01\xff") == "01ff"


def test_rows_are_counted_by_the_key_of_their_values():
    rows = [("a", 1), ("a", 1), (None, 2), ("b\x1f", 1), ("a", 2)] * 3
    block = next(iter(FrameSource(pd.DataFrame(rows, columns=["t", "i"])).blocks({}, extra=("t", "i"))))
    expected = {key_of(row): 3 * rows[:5].count(row) for row in rows[:5]}
    assert count_keys([block["t"], block["i"]]) == expected


def test_no_rows_have_no_keys():
    block = next(iter(FrameSource(pd.DataFrame({"t": pd.Series([], dtype=str)})).blocks({}, extra=("t",))))
    assert count_keys([block["t"]]) == {}
