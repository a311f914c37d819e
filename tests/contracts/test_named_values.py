"""A value that a release wrote can be named as it stands in the table: in `given`, and in the condition of a question."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.errors import ParameterError
from synthdp.schema.column import Column

ROWS = 400
WHOLE = np.arange(ROWS) * 7 % 20
DAYS = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(ROWS) * 13 % 60, "D")
COLUMNS: dict[str, tuple[Any, Column]] = {
    "day as number": (DAYS.strftime("%Y%m%d").astype(int), sd.Date("2024-01-01", "2024-12-31", format="%Y%m%d")),
    "day": (DAYS.strftime("%d.%m.%Y"), sd.Date("2024-01-01", "2024-12-31", format="%d.%m.%Y")),
    "month": (DAYS.strftime("%b-%Y"), sd.Date("2024-01-01", "2024-12-31", format="%b-%Y")),
    "clock": ([f"{one}:30" for one in WHOLE], sd.Time("00:00", "23:59", format="%-H:%M", resolution="min")),
    "length": ([f"{one}:30:00" for one in WHOLE], sd.Duration(0, 1440, format="%-H:%M:%S", resolution="min")),
    "money": ([f"${1000 * one:,}" for one in WHOLE], sd.Integer(0, 20_000, format="$1,234")),
    "points between": ([f"{1.5 * one:.1f}".replace(".", ",") for one in WHOLE], sd.Continuous(0, 40, format="1.234,5")),
    "share": ([f"{one}%" for one in WHOLE], sd.Integer(0, 100, format="1234%")),
    "debt": ([f"(${one})" if one % 2 else f"${one}" for one in WHOLE], sd.Integer(-50, 50, format="($1,234)")),
    "limit": (np.where(WHOLE < 9, "<0.6", "2.5"), sd.Continuous(0, 50, decimals=1, words={"<0.6": 0.3})),
    "truth": (np.where(WHOLE < 9, "ja", "nein"), sd.Boolean(format="ja/nein")),
    "zone": (DAYS.tz_localize("Asia/Tokyo"), sd.Datetime("2023-12-01", "2024-12-31", resolution="h")),
    "plain day": ([day.date() for day in DAYS], sd.Date("2024-01-01", "2024-12-31")),
    "plain clock": ([dt.time(int(one)) for one in WHOLE], sd.Time("00:00", "23:00", resolution="h")),
    "plain length": (pd.to_timedelta(WHOLE, "h"), sd.Duration(0, 30, resolution="h")),
    "decimal": ([Decimal(int(one)) / 4 for one in WHOLE], sd.Decimal(0, 10, decimals=2)),
    "level": (np.where(WHOLE < 9, "a", "b"), sd.Categorical(["a", "b"])),
    "code": (WHOLE % 3, sd.Categorical([0, 1, 2])),
    "flag": (WHOLE < 9, sd.Boolean()),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_a_value_that_a_release_wrote_can_be_named(name: str) -> None:
    cells, column = COLUMNS[name]
    table = pd.DataFrame({"x": cells, "y": np.linspace(-2, 2, ROWS)})
    schema = sd.Schema({"x": column, "y": sd.Continuous(-5, 5)})
    release = sd.SyntheticRelease(schema=schema, epsilon=5.0, random_state=0).fit(table)
    value = release.sample(200, random_state=1)["x"].mode()[0]
    drawn = release.sample(20, given={"x": value}, random_state=1)["x"]
    assert (drawn == value).all()
    if isinstance(value, str | int | np.integer | bool | np.bool_):
        text = (
            str(value).lower() if isinstance(value, bool | np.bool_) else repr(getattr(value, "item", lambda: value)())
        )
        answer = release.answer(sd.count(f"x == {text}"))
        assert answer["lower"][0] - 50 <= (table["x"] == value).sum() <= answer["upper"][0] + 50


@pytest.mark.parametrize("value", ["12 €", "ja", "31.12.2024", 20_241_399, "", "(", "<0.7"])
@pytest.mark.parametrize("name", ["day", "day as number", "money", "limit", "truth"])
def test_a_text_in_another_format_is_refused(name: str, value: Any) -> None:
    _, column = COLUMNS[name]
    reads = column.cells is not None and column.cells.read(str(value)) is not None
    schema = sd.Schema({"x": column})
    release = sd.SyntheticRelease(schema=schema, epsilon=5.0).fit(pd.DataFrame({"x": COLUMNS[name][0]}))
    if not reads:
        with pytest.raises(ParameterError, match="'x'"):
            release.sample(2, given={"x": value})
