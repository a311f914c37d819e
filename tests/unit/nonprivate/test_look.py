"""A look at one column: without noise, for the steward alone, and yet without what belongs to single persons."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from synthdp.errors import DataError
from synthdp.nonprivate.look import look
from synthdp.schema.csv_format import CsvFormat
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.sources.file_source import source_at


def test_rare_values_are_not_shown_but_counted():
    levels = ["often"] * 500 + ["seldom"] * 30 + ["CANARY"] * 3
    found = look(FrameSource(pd.DataFrame({"c": levels})), "c")
    assert dict(found.levels) == pytest.approx({"often": 500 / 533, "seldom": 30 / 533})
    assert (found.rarer, found.bars) == (1, ())


def test_the_ends_of_a_column_of_numbers_are_not_shown():
    values = [*np.random.default_rng(0).normal(50, 10, 5000).round(), 987_654, -123_456]
    found = look(FrameSource(pd.DataFrame({"c": values})), "c")
    ends = [float(text.replace(",", "")) for low, high, _ in found.bars for text in (low, high)]
    assert -50 < min(ends) < 40 < 60 < max(ends) < 150
    assert 0.95 < sum(share for _, _, share in found.bars) <= 1
    assert not {"987,654", "987654", "-123,456", "-123456"} & {text for bar in found.bars for text in bar[:2]}


def test_missing_values_are_counted_as_the_schema_writes_them(tmp_path):
    (tmp_path / "t.csv").write_text("c\n" + "?\n" * 25 + "a\n" * 75)
    found = look(source_at(tmp_path / "t.csv"), "c", CsvFormat(missing=["?"]))
    assert (found.missing, dict(found.levels)) == (0.25, {"a": 0.75})


@pytest.mark.parametrize(
    "values", [[None] * 30, [1], [1] * 50, [1.5, 2.5], ["a"], [True, False] * 30, [10**15, -(10**15)] * 20]
)
def test_any_column_can_be_looked_at(values):
    found = look(FrameSource(pd.DataFrame({"c": values})), "c")
    assert 0 <= found.missing <= 1
    assert all(0 <= share <= 1 for _, share in found.levels)


def test_moments_have_bars_between_dates():
    days = pd.date_range("2020-01-01", periods=400, freq="D")
    found = look(FrameSource(pd.DataFrame({"c": np.repeat(days, 3)})), "c")
    assert all(low.startswith("20") for low, _, _ in found.bars)


TIMES = {
    "days": ([f"2019-05-{day:02}" for day in range(1, 31)], "2019-05-01", "2019-05-16"),
    "days of years": ([f"{year}-{month:02}-15" for year in range(1999, 2019) for month in (3, 9)], None, "2006-01-01"),
    "days in another format": ([f"{day:02}.05.2019" for day in range(1, 31)], "2019-05-01", "2019-05-16"),
    "minutes": ([f"2019-05-01 08:{minute:02}" for minute in range(40)], "2019-05-01 08:00", "2019-05-01 08:25"),
    "fractions": ([f"2019-05-01 08:00:00.{tenth}" for tenth in range(10)], "2019-05-01 08:00:00.000", None),
    "times of day": ([f"{hour:02}:15:00" for hour in range(24)], "00:15:00", "24:00:00"),
    "lengths": ([f"{hour}:30:00" for hour in range(20, 60)], "73800 seconds", "80000 seconds"),
}
"""Cells of a file; the first value as people write it, if it is among the most frequent; and an edge of a bar."""


@pytest.mark.parametrize("case", TIMES)
def test_times_are_shown_as_people_write_them(case, tmp_path):
    cells, first, edge = TIMES[case]
    (tmp_path / "t.csv").write_text("c\n" + "".join(f"{cell}\n" * 40 for cell in cells))
    found = look(source_at(tmp_path / "t.csv"), "c")
    assert found.levels
    assert first in (None, found.levels[0][0])
    assert edge in (None, *(bar[1] for bar in found.bars))
    assert not any(text.isdigit() for text, _ in found.levels)
    assert 0.9 < sum(share for _, _, share in found.bars) <= 1 + 1e-9
    assert all(one[1] == two[0] for one, two in zip(found.bars, found.bars[1:], strict=False))
    assert 1 < len(found.bars) <= 18


@given(st.datetimes(pd.Timestamp("0001-01-01"), pd.Timestamp("9000-01-01")), st.integers(1, 10**16), st.integers(2, 40))
def test_bars_of_any_moments_hold_nearly_all_rows_between_edges_that_rise(first, width, many):
    last = first + dt.timedelta(microseconds=width)
    moments = pd.Series(np.linspace(0, 1, many) * (last - first) + first).astype("datetime64[us]")
    found = look(FrameSource(pd.DataFrame({"c": np.repeat(moments, 25)})), "c")
    edges = [np.datetime64(text) for bar in found.bars for text in bar[:2]]
    assert edges == sorted(edges)
    assert sum(share for _, _, share in found.bars) > 0.5 or not found.bars
    assert {str(np.datetime64(text, "us")) for text, _ in found.levels} <= {
        str(np.datetime64(one, "us")) for one in moments
    }


def test_a_column_that_is_not_there_is_refused():
    with pytest.raises(DataError, match="'d'"):
        look(FrameSource(pd.DataFrame({"c": [1]})), "d")
