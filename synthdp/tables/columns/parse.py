"""Values of any type, read one at a time: none raises, and none changes how another is read.

Every library's columns that are not plain numbers or moments, and every CSV field, become raw columns here.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from synthdp.arrays import AnyArray, BoolArray, IntArray
from synthdp.domain.encoder import Labels, Numbers, RawColumn, numbers_of_labels, whole_numbers_of_labels
from synthdp.domain.grid import has_labels, labels_of
from synthdp.schema.columns import RESOLUTIONS, Boolean, Column, Continuous, Datetime, Duration, Integer, is_complete

MICROSECONDS = {"D": RESOLUTIONS["D"], "s": RESOLUTIONS["s"], "ms": RESOLUTIONS["ms"], "us": 1}
"""Microseconds of each unit of time that columns come in, coarser than ``ns``."""

_LARGEST_MICROS = 2**62
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - moments are compared in UTC without a zone
_MICROSECOND = dt.timedelta(microseconds=1)
_TRUE = frozenset({"true", "t", "yes", "y", "on", "1", "1.0"})
_FALSE = frozenset({"false", "f", "no", "n", "off", "0", "0.0"})
_CLOCK = re.compile(
    r"(?:(?P<days>-?\d+) days?,? ?)?(?:(?P<sign>[+-])?(?P<h>\d+):(?P<m>\d\d):(?P<s>\d\d)(?:\.(?P<f>\d+))?)?"
)
_ISO_LENGTH = re.compile(
    r"(?P<minus>-)?P(?:(?P<days>-?\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+)(?:\.(?P<f>\d+))?S)?)?"
)


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that cannot be compared, such as a list, known by its text; it equals no declared level."""

    text: str


def labels_of_objects(values: AnyArray) -> Labels:
    """Return objects of any type as labels; values of different types are different levels, even where 1 == True."""
    if pd.api.types.infer_dtype(values, skipna=True) in {"string", "empty"}:
        codes, levels = pd.factorize(values, use_na_sentinel=True)
        return Labels(list(levels), codes.astype(np.int64))
    position: dict[tuple[type, Any, str], int] = {}
    typed: list[Any] = []
    found = np.empty(len(values), np.int64)
    for i, value in enumerate(values):
        if is_missing(value):
            found[i] = -1
            continue
        key = _key(value)
        place = position.get(key)
        if place is None:
            place = position[key] = len(typed)
            typed.append(key[1])
        found[i] = place
    return Labels(typed, found)


def is_missing(value: object) -> bool:
    """Say whether a value stands for no value: None, NaN, NaT or NA."""
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError, ArithmeticError):  # arrays, and signalling NaNs
        return False


def declared(labels: Labels, column: Column) -> RawColumn:
    """Return labels as the values of a declared column; what does not fit the declaration is missing or no level."""
    match column:
        case Continuous():
            return numbers_of_labels(labels)
        case Integer():
            return whole_numbers_of_labels(labels)
        case Datetime():
            return _read_each(labels, _moment)
        case Duration():
            return _read_each(labels, _length)
        case _ if has_labels(column) and is_complete(column):
            return _with_declared_levels(labels, column)
        case _:
            return labels


def all_missing(rows: int) -> Numbers:
    """Return a column of missing values: what a column of the wrong kind holds."""
    return Numbers(np.zeros(rows, np.int64), np.ones(rows, np.bool_))


def micros(ticks: IntArray, unit: str, missing: BoolArray | None) -> Numbers:
    """Return ticks of a unit of time as microseconds, rounded down."""
    if missing is not None:
        ticks = np.where(missing, 0, ticks)
    if unit == "ns":
        return Numbers(ticks // 1000, missing)
    each = MICROSECONDS[unit]
    return Numbers(np.clip(ticks, -_LARGEST_MICROS // each, _LARGEST_MICROS // each) * each, missing)


def some(missing: AnyArray) -> BoolArray | None:
    """Return a mask, or ``None`` if nothing is marked."""
    return np.asarray(missing, np.bool_) if missing.any() else None


def text_of_level(level: object) -> str:
    """Return how a level is written in text."""
    return level if isinstance(level, str) else str(level)


def _key(value: object) -> tuple[type, Any, str]:
    """Return what makes a value one level: also how a time is written, for equal moments may differ in zone or fold.

    Were they one level, the first of them would say how all of them are read.
    """
    try:
        hash(value)
    except (TypeError, ValueError, ArithmeticError):
        return Opaque, Opaque(shown(value)), ""
    return type(value), value, shown(value) if isinstance(value, (dt.datetime, dt.time)) else ""


def shown(value: object) -> str:
    """Return an object's own text, or the name of its type if it has none."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - any object may be in a table, and none may stop the reading
        return type(value).__name__


def _with_declared_levels(labels: Labels, column: Column) -> Labels:
    """Match texts with declared levels of other types: a Boolean's usual spellings, a number's digits."""
    levels = labels_of(column)
    texts = {text_of_level(level): level for level in levels}
    numbers = {level: level for level in levels if not isinstance(level, str)}

    def matched(value: object) -> object:
        if not isinstance(value, str) or not numbers:
            return value
        if value in texts:
            return texts[value]
        word = value.strip().casefold()
        if isinstance(column, Boolean):
            return True if word in _TRUE else False if word in _FALSE else value
        if word in {"true", "false"}:
            return word == "true"
        try:
            return numbers.get(float(word), value)
        except ValueError:
            return value

    return Labels([matched(level) for level in labels.levels], labels.codes)


def _read_each(labels: Labels, read: Callable[[Any], int | None]) -> Numbers:
    """Return labels as microseconds, one different label at a time; what cannot be read is missing."""
    found = [_within(read, level) for level in labels.levels]
    values = np.array([0 if one is None else one for one in [*found, None]], np.int64)
    missing = np.array([one is None for one in [*found, None]])
    return Numbers(values[labels.codes], some(missing[labels.codes]))


def _within(read: Callable[[Any], int | None], level: object) -> int | None:
    try:
        value = read(level)
    except (TypeError, ValueError, ArithmeticError, AttributeError):
        return None
    return None if value is None else max(-_LARGEST_MICROS, min(value, _LARGEST_MICROS))


def _moment(value: Any) -> int | None:
    """Microseconds since 1970 UTC of a date, a datetime or an ISO 8601 text."""
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value.strip())
    if isinstance(value, np.datetime64):
        return _ticks(value)
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(dt.UTC).replace(tzinfo=None)
        return int((value - _EPOCH) // _MICROSECOND)
    if isinstance(value, dt.date):
        return (value.toordinal() - _EPOCH.toordinal()) * RESOLUTIONS["D"]
    return None


def _length(value: Any) -> int | None:
    """Microseconds of a timedelta, of a text such as "1 days 02:03:04.5", or of an ISO 8601 duration."""
    if isinstance(value, np.timedelta64):
        return _ticks(value)
    if isinstance(value, dt.timedelta):
        return int(value // _MICROSECOND)
    if isinstance(value, str):
        return _length_of_text(value.strip())
    if hasattr(value, "months") and hasattr(value, "nanoseconds"):  # Arrow's interval: a month counts 30 days
        return int((value.months * 30 + value.days) * RESOLUTIONS["D"] + value.nanoseconds // 1000)
    return None


def _ticks(value: np.datetime64 | np.timedelta64) -> int | None:
    unit, count = np.datetime_data(value.dtype)
    ticks = int(value.astype(np.int64)) * count
    seconds = {"W": 604_800, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
    if unit in seconds:
        return ticks * seconds[unit] * 1_000_000
    parts = {"ms": 1, "us": 1_000, "ns": 1_000_000, "ps": 10**9, "fs": 10**12, "as": 10**15}
    if unit in parts:
        return ticks * 1_000 // parts[unit]
    if isinstance(value, np.datetime64):  # years and months
        return int(value.astype("datetime64[D]").astype(np.int64)) * RESOLUTIONS["D"]
    return None


def _length_of_text(text: str) -> int | None:
    found = _ISO_LENGTH.fullmatch(text) or _CLOCK.fullmatch(text)
    if not found or not any(found[part] for part in ("days", "h", "m", "s")):
        return None
    groups = found.groupdict()
    fraction = int(((groups["f"] or "") + "000000")[:6])
    clock = (int(groups["h"] or 0) * 3600 + int(groups["m"] or 0) * 60 + int(groups["s"] or 0)) * 1_000_000 + fraction
    total = int(groups["days"] or 0) * RESOLUTIONS["D"] + (-clock if groups.get("sign") == "-" else clock)
    return -total if groups.get("minus") else total


def is_nan(value: object) -> bool:
    """Say whether a value is a float that is no number."""
    return isinstance(value, float) and math.isnan(value)
