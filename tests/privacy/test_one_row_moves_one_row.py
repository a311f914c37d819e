"""R5, R10: whatever one row holds, and wherever it stands, every other row is read as if it were not there.

So one row more changes one unit of each column, one record key and one unit's label, and no error is raised.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings, strategies as st

from synthdp import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Duration,
    Integer,
    Ordinal,
    Schema,
)
from synthdp.curator.private_table import PrivateTable
from synthdp.domain.encoder import encode
from synthdp.privacy.neighbors import Adjacency
from synthdp.tables.dataframe import FrameSource

BERLIN, TOKYO = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Tokyo")
NOON = dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)
TWICE = dt.datetime(2020, 10, 25, 2, 30, tzinfo=BERLIN)  # the hour that comes twice

POISON = [
    0, 1, -1, 2**53 + 1, 2**63, 2**70, True, False, 1.0, 0.5, -0.0, 1e300, float("inf"), float("-inf"), float("nan"),
    None, pd.NA, pd.NaT, "a", "b", "A", "", " a", "1", "1.0", "true", "x" * 50, "\x00", "\ud800", "a\x1fb", b"a",
    Decimal("0.5"), Decimal(1), Decimal("NaN"), Decimal("sNaN"), np.int8(1), np.float32(0.5), np.bool_(True),
    np.str_("a"), np.datetime64("2020-01-01"), np.datetime64("NaT", "s"), np.timedelta64(1, "s"),
    dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), dt.time(9), dt.time(9, tzinfo=dt.UTC), dt.timedelta(seconds=1),  # noqa: DTZ001
    NOON, NOON.astimezone(TOKYO), NOON.astimezone(BERLIN), TWICE, TWICE.replace(fold=1),
    pd.Timestamp("2020-01-01"), pd.Timestamp(NOON), pd.Timestamp(NOON).tz_convert("Asia/Tokyo"),
    pd.Timestamp("2200-01-01"), pd.Timedelta(1, "s"), pd.Period("2020-01", "M"), (1, 2), (1.0, True), [1], {"a": 1},
    {1}, frozenset([1]), object, 1j, range(2),
]  # fmt: skip
COLUMNS = {
    "continuous": Continuous(-1, 1),
    "integer": Integer(0, 9, nullable=True),
    "categorical": Categorical(["a", "b", 1, 0.5], nullable=True),
    "boolean": Boolean(nullable=True),
    "ordinal": Ordinal(["a", "b"]),
    "datetime": Datetime("2019-01-01", "2021-01-01", nullable=True),
    "duration": Duration(0, 100, resolution="s", nullable=True),
}
values = st.sampled_from(POISON) | st.integers() | st.floats() | st.text(max_size=3) | st.datetimes()


def frame(rows: list[object]) -> pd.DataFrame:
    column = pd.Series([None] * len(rows), dtype=object)
    for i, value in enumerate(rows):
        column.iat[i] = value
    return pd.DataFrame({"v": column})


def read(rows: list[object], name: str) -> list[int]:
    (block,) = FrameSource(frame(rows)).blocks({"v": COLUMNS[name]})
    return encode(COLUMNS[name], block["v"]).tolist()


def keys(rows: list[object]) -> Counter:
    room = PrivateTable(FrameSource(frame(rows)), Schema({"v": Categorical(["a"])}), Adjacency())
    return Counter(room.key_counts(("v",)))


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=2 * settings.default.max_examples)
@given(rows=st.lists(values, max_size=8), poison=values, place=st.integers(0, 8))
@example(rows=[TWICE] * 3, poison=TWICE.replace(fold=1), place=0)
@example(rows=[1, 1], poison=True, place=0)
def test_every_other_row_is_coded_as_if_the_row_were_not_there(name, rows, poison, place):
    place = min(place, len(rows))
    larger = read([*rows[:place], poison, *rows[place:]], name)
    assert larger[:place] + larger[place + 1 :] == read(rows, name)


@settings(max_examples=4 * settings.default.max_examples)
@given(rows=st.lists(values, max_size=8), poison=values, place=st.integers(0, 8))
@example(rows=[NOON, NOON], poison=NOON.astimezone(TOKYO), place=0)
@example(rows=[dt.time(0, tzinfo=dt.UTC)] * 2, poison=dt.time(9, tzinfo=dt.timezone(dt.timedelta(hours=9))), place=0)
def test_one_row_changes_one_record_key_by_one(rows, poison, place):
    """Were equal moments in other zones one level, the first would name the keys of all: 2n + 1 changes, not 1."""
    place = min(place, len(rows))
    before, after = keys(rows), keys([*rows[:place], poison, *rows[place:]])
    assert not before - after
    assert (after - before).total() == 1


@pytest.mark.parametrize(
    "same", [[NOON, NOON.astimezone(TOKYO)], [pd.Timestamp(NOON), pd.Timestamp(NOON).tz_convert("Asia/Tokyo")]]
)
def test_one_moment_is_one_privacy_unit_in_every_zone(same):
    table = frame([*same, *same]).assign(x=[0.1, 0.2, 0.3, 0.4])
    room = PrivateTable(FrameSource(table), Schema({"x": Continuous(0, 1)}), Adjacency("add_remove", "v", 2))
    assert room.rows() == 2
