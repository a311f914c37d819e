"""NOT private: what columns of Python objects hold, and how times of day and decimals are drafted."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Collection
from decimal import Decimal as PythonDecimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from synthdp.domain.encoder import Labels
from synthdp.nonprivate.digits import outer
from synthdp.nonprivate.draft_formats import kind_as_written
from synthdp.schema.columns import (
    RESOLUTIONS,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Decimal,
    Duration,
    Time,
    Untyped,
)
from synthdp.schema.spacing import MOST_DECIMALS
from synthdp.tables.source import Source

_DAY = re.compile(r"\s*\d{4}-\d\d-\d\d")

_KINDS: dict[type, Column] = {
    dt.date: Datetime(resolution="D"),
    dt.datetime: Datetime(resolution="us"),
    pd.Timestamp: Datetime(resolution="us"),
    dt.timedelta: Duration(resolution="us"),
    pd.Timedelta: Duration(resolution="us"),
    dt.time: Time(resolution="us"),
}


def kind_of_objects(source: Source, name: str, kind: Column) -> Column:
    """Return the kind of a column of objects that all are dates, times, lengths of time or decimals; else ``kind``.

    Texts that all are moments are moments in a column of texts, which is what comes out of it; in one of any objects they
    stay what they are, for what is written back there are Python's own moments.
    """
    if not isinstance(kind, Categorical) or kind.levels is not None:
        return kind
    levels: Counter[Any] = Counter()
    for block in source.blocks({name: kind}):
        raw = block[name]
        if isinstance(raw, Labels):
            rows = np.bincount(raw.codes[raw.codes >= 0], minlength=len(raw.levels)).tolist()
            levels.update({level: count for level, count in zip(raw.levels, rows, strict=True) if count})
    types = {type(level) for level in levels}
    if types == {str}:
        written = kind_as_written(levels)
        if written is not None and written.cells is not None and (isinstance(kind, Untyped) or not is_usual(written)):
            return written
        if isinstance(kind, Untyped):
            return kind
        return kind_of_moments(levels) if all(map(_DAY.match, levels)) and all(map(is_moment, levels)) else kind
    if types == {PythonDecimal}:
        decimals = max(max(0, -int(level.as_tuple().exponent)) for level in levels if level.is_finite())
        return Decimal(decimals=decimals) if decimals <= MOST_DECIMALS else Continuous()
    return _KINDS[types.pop()] if len(types) == 1 and types <= set(_KINDS) else kind


def is_usual(kind: Column) -> bool:
    """Say whether a format writes moments as a table without types writes them anyway."""
    return getattr(kind, "format", None) in ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S")


def is_moment(text: str) -> bool:
    """Say whether a text is a date or a moment as ISO 8601 writes it."""
    try:
        dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return True


def kind_of_moments(texts: Collection[str]) -> Column:
    """Return the kind of column of texts that are moments; in UTC, if all say so."""
    universal = all(text.strip().endswith(("Z", "+00:00")) for text in texts)
    return Datetime(resolution="us", zone="UTC" if universal else None)


def decimal_settings(numbers: dict[str, Any], decimals: int) -> dict[str, Any]:
    """Return the settings of numbers as those of a column of decimals."""
    lower, upper = outer(numbers["lower"], numbers["upper"], Fraction(1, 10**decimals))
    kept = {name: value for name, value in numbers.items() if name != "step"}
    return kept | {"type": "decimal", "lower": lower, "upper": upper, "decimals": decimals}


def clock_settings(micros: Collection[int]) -> dict[str, Any]:
    """Return the bounds and the resolution of times of day, in microseconds since midnight: whole hours around them."""
    ticks = np.array(list(micros), np.int64)
    resolution = next(name for name, each in RESOLUTIONS.items() if name != "D" and not (ticks % each).any())
    first, last = int(ticks.min() // RESOLUTIONS["h"]), int(ticks.max() // RESOLUTIONS["h"])
    upper = dt.time(last, 59, 59, 999_999) if resolution != "h" or first == last else dt.time(last)
    return {"type": "time", "lower": f"{first:02}:00:00", "upper": upper.isoformat(), "resolution": resolution}
