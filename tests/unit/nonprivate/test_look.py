"""A look at one column: without noise, for the steward alone, and yet without what belongs to single persons."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from synthdp.errors import DataError
from synthdp.nonprivate.look import look
from synthdp.schema.csv_format import CsvFormat
from synthdp.tables.sources.dataframe import FrameSource
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


def test_a_column_that_is_not_there_is_refused():
    with pytest.raises(DataError, match="'d'"):
        look(FrameSource(pd.DataFrame({"c": [1]})), "d")
