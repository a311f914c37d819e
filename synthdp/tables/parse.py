"""Labels and times as the values of declared columns: what does not fit is missing, or no level; nothing raises."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from synthdp.arrays import LARGEST_WHOLE, AnyArray, BoolArray, IntArray
from synthdp.domain.encoder import (
    Labels,
    Numbers,
    RawColumn,
    labels_of_numbers,
    numbers_of_labels,
    read_each,
    whole_numbers_of_labels,
)
from synthdp.domain.grid import labels_of
from synthdp.schema.column import Column
from synthdp.schema.plain_values import EPOCH, MICROSECOND, length_of_text, micros_of_ticks
from synthdp.schema.times import RESOLUTIONS
from synthdp.tables.plain import Opaque, micros_of

MICROSECONDS = {"D": RESOLUTIONS["D"], "s": RESOLUTIONS["s"], "ms": RESOLUTIONS["ms"], "us": 1}
"""Microseconds in each unit of time that columns come in, except nanoseconds, which are finer than what is stored."""

_TRUE = frozenset({"true", "t", "yes", "y", "on", "1", "1.0"})
"""Texts that mean true, in either case, as databases accept them."""

_FALSE = frozenset({"false", "f", "no", "n", "off", "0", "0.0"})
"""Texts that mean false, in either case, as databases accept them."""


def declared(labels: Labels, column: Column) -> RawColumn:
    """Return labels as the raw values of a declared column: parsed numbers or times, or matched levels.

    What does not fit the declaration becomes missing or a label that is no level; nothing raises.
    """
    match column.quantity:
        case "number":
            labels = _as_written(labels, column)
            return whole_numbers_of_labels(labels) if column.whole else numbers_of_labels(labels)
        case "moment":
            return read_each(labels, partial(_within, _cells_of(column, _moment)))
        case "length":
            return read_each(labels, partial(_within, _cells_of(column, _length)))
        case "clock":
            return read_each(labels, partial(_within, _cells_of(column, _clock)))
        case "label" | "truth" if column.is_complete:
            return _with_declared_levels(_as_written(labels, column), column)
        case _:
            return labels


def written_numbers(raw: Numbers, column: Column) -> RawColumn:
    """Return numbers in a column of times as microseconds, read by its digit format (20260131); all missing without one."""
    if column.cells is None:
        return all_missing(raw.rows)
    return declared(labels_of_numbers(raw), column)


def truth_values(flags: IntArray, missing: BoolArray | None, column: Column) -> RawColumn:
    """Return truth values, given as 0 and 1, (rows,), as labels or numbers, whichever the declared column needs."""
    if column.labelled:
        return declared(Labels([False, True], flags if missing is None else np.where(missing, -1, flags)), column)
    return Numbers(flags, missing)


def all_missing(rows: int) -> Numbers:
    """Return a raw column of missing values, for a column whose type is not the declared one."""
    return Numbers(np.zeros(rows, np.int64), np.ones(rows, np.bool_))


def times(
    ticks: IntArray, resolution: str, missing: BoolArray | None, column: Column, *, lengths: bool = False
) -> RawColumn:
    """Return moments, times or durations, integers in units of ``resolution``, as microseconds rounded down.

    Microseconds are clipped to 62 bits.  An identifier keeps them exactly, as labels, because the name of a person must
    not be rounded or clipped.  ``lengths`` says that these labels are durations.
    """
    if missing is not None:
        ticks = np.where(missing, 0, ticks)
    if column.names_rows:
        different, codes = np.unique(ticks, return_inverse=True)
        levels = list(different.view(f"{'timedelta64' if lengths else 'datetime64'}[{resolution}]"))
        return Labels(levels, codes if missing is None else np.where(missing, -1, codes))
    if resolution == "ns":
        return Numbers(ticks // 1000, missing)
    each = MICROSECONDS[resolution]
    return Numbers(np.clip(ticks, -LARGEST_WHOLE // each, LARGEST_WHOLE // each) * each, missing)


def whole_numbers(values: AnyArray, missing: BoolArray | None, column: Column) -> RawColumn:
    """Return integers of any size as 64-bit integers; larger ones are clipped, or become labels if they identify persons."""
    if values.dtype != np.uint64:
        return Numbers(values.astype(np.int64, copy=False), missing)
    if column.names_rows:
        different, codes = np.unique(values, return_inverse=True)
        return Labels(different.tolist(), codes if missing is None else np.where(missing, -1, codes))
    return Numbers(np.minimum(values, np.uint64(2**63 - 1)).astype(np.int64), missing)


def taken(raw: RawColumn, codes: IntArray) -> RawColumn:
    """Return the raw values at the indices ``codes``, (n,), in a column of distinct values; -1 gives a missing value.

    Columns that are stored as a dictionary are so parsed once for each distinct value.
    """
    gone = codes < 0
    if isinstance(raw, Labels):
        return Labels(raw.levels, np.where(gone, -1, np.append(raw.codes, -1)[codes]))
    values: AnyArray = np.append(raw.values, raw.values.dtype.type(0))[codes]
    missing = gone if raw.missing is None else gone | np.append(raw.missing, True)[codes]
    return Numbers(values, some(missing))


def misfits(missing: BoolArray, column: Column) -> RawColumn:
    """Return a raw column for values that do not fit the declaration; ``missing``, (rows,), marks missing values.

    In a column of labels or an identifier, all present values become one label that is no level.  In any other column
    all values become missing.
    """
    if column.labelled or column.names_rows:
        return Labels([Opaque(None)], np.where(missing, -1, 0))
    return all_missing(len(missing))


def some(missing: AnyArray) -> BoolArray | None:
    """Return a mask as booleans, or ``None`` if nothing is marked, which saves memory."""
    return np.asarray(missing, np.bool_) if missing.any() else None


def text_of_level(level: object) -> str:
    """Return a level as text."""
    return level if isinstance(level, str) else str(level)


def _as_written(labels: Labels, column: Column) -> Labels:
    """Return labels with texts read by the column's declared text format, if any; unreadable texts become `Opaque`."""
    form = column.cells
    if form is None:
        return labels
    found = [form.read(level) if isinstance(level, str) else level for level in labels.levels]
    return Labels([Opaque(None) if one is None else one for one in found], labels.codes)


def _cells_of(column: Column, usual: Callable[[Any], int | None]) -> Callable[[Any], int | None]:
    """Return a function that reads a cell of a column of times, by its declared text format or else by ``usual``.

    With a format, a whole number is read as its digits, such as 20260131.  The function returns microseconds, or
    ``None`` for an unreadable cell.
    """
    form = column.cells
    if form is None:
        return usual

    def read(value: Any) -> int | None:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        found: int | None = form.read(value) if isinstance(value, str) else usual(value)
        return found

    return read


def _with_declared_levels(labels: Labels, column: Column) -> Labels:
    """Return labels in which texts are replaced by the declared levels they mean: "yes" by True, "7" by 7.

    Files of texts have no other types than text.  The labels stay unchanged if all declared levels are texts.
    """
    levels = labels_of(column)
    texts = {text_of_level(level): level for level in levels}
    numbers = {level: level for level in levels if not isinstance(level, str)}

    def matched(value: object) -> object:
        if not isinstance(value, str) or not numbers:
            return value
        if value in texts:
            return texts[value]
        word = value.strip().casefold()
        if column.quantity == "truth":
            return True if word in _TRUE else False if word in _FALSE else value
        if word in {"true", "false"}:
            return word == "true"
        try:
            return numbers.get(float(word), value)
        except ValueError:
            return value

    return Labels([matched(level) for level in labels.levels], labels.codes)


def _within(read: Callable[[Any], int | None], level: object) -> int | None:
    """Return a reader's result for one value, clipped to 62 bits; ``None`` if the value cannot be read.

    The difference of two such results fits in 64 bits.
    """
    try:
        value = read(level)
    except (TypeError, ValueError, ArithmeticError, AttributeError):
        return None
    return None if value is None else max(-LARGEST_WHOLE, min(value, LARGEST_WHOLE))


def _moment(value: Any) -> int | None:
    """Return the microseconds since 1970 UTC of a date, a datetime or an ISO 8601 text; ``None`` for other objects.

    Other texts raise ValueError.
    """
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value.strip())
    if isinstance(value, pd.Timestamp):
        value = value.asm8
    if isinstance(value, np.datetime64):
        return micros_of_ticks(value)
    if isinstance(value, dt.datetime):
        return micros_of(value)
    if isinstance(value, dt.date):
        return (value.toordinal() - EPOCH.toordinal()) * RESOLUTIONS["D"]
    return None


def _clock(value: Any) -> int | None:
    """Return the microseconds since midnight of a time of day or its ISO 8601 text; ``None`` for other objects.

    Other texts raise ValueError.
    """
    if isinstance(value, str):
        value = dt.time.fromisoformat(value.strip())
    if not isinstance(value, dt.time):
        return None
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _length(value: Any) -> int | None:
    """Return the microseconds of a timedelta, or of a text such as "1 days 02:03:04.5" or an ISO 8601 duration.

    ``None`` for anything else.
    """
    if isinstance(value, np.timedelta64):
        return micros_of_ticks(value)
    if isinstance(value, dt.timedelta):
        return int(value // MICROSECOND)
    if isinstance(value, str):
        return length_of_text(value.strip())
    return None
