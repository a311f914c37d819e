"""Values that a user names, as the plain ones that a schema file holds: texts, numbers, truth values and ``None``.

Moments, times of day and lengths of time become texts, in the form in which a table of texts has them.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import re
from typing import Any

import numpy as np

from synthdp.arrays import LARGEST_WHOLE

DAY = 86_400_000_000
"""Microseconds in a day."""

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - moments are held in UTC without a zone
"""The moment from which stored times and NumPy count."""

MICROSECOND = dt.timedelta(microseconds=1)
"""One microsecond, the unit in which times are stored."""

_ATTOSECONDS = {"W": 604_800 * 10**18, "D": 86_400 * 10**18, "h": 3_600 * 10**18, "m": 60 * 10**18, "s": 10**18,
                "ms": 10**15, "us": 10**12, "ns": 10**9, "ps": 10**6, "fs": 10**3, "as": 1}  # fmt: skip
"""Attoseconds in each NumPy time unit; with the smallest unit all ratios are integers."""

_CALENDAR = {"Y": 100_000, "M": 1_200_000}
"""NumPy units of varying length (years, months), and the largest number of them that is converted exactly.  Larger ones
are clipped to it, so that days do not overflow."""

_CLOCK = re.compile(
    r"(?:(?P<days>-?\d+) days?,? ?)?(?:(?P<sign>[+-])?(?P<h>\d+):(?P<m>\d\d):(?P<s>\d\d)(?:\.(?P<f>\d+))?)?"
)
"""A regular expression of a duration as Python and databases write it: "1 day, 2:03:04.5"."""

_ISO_LENGTH = re.compile(
    r"(?P<minus>-)?P(?:(?P<days>-?\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+)(?:\.(?P<f>\d+))?S)?)?"
)
"""A regular expression of a duration in ISO 8601: "P1DT2H"."""


def plain(value: Any) -> Any:
    """Return a named value as a schema file holds it; what has no such form is returned unchanged, to be refused.

    Marks of missing values become ``None``; NumPy scalars, decimals and members of enumerations Python's values; moments
    and times of day ISO texts; and lengths of time texts such as "1 day, 2:03:04".

    Examples
    --------
    >>> plain(np.datetime64("2026-01-31")), plain(np.timedelta64(90, "m")), plain(np.int8(3)), plain(float("nan"))
    ('2026-01-31', '1:30:00', 3, None)
    """
    if _is_missing(value):
        return None
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return str(dt.timedelta(microseconds=value // MICROSECOND))
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return _of_ticks(value)
    if isinstance(value, (decimal.Decimal, np.longdouble)):
        return float(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, enum.Enum) and isinstance(value, (str, int, float)):
        return value.value
    return value


def micros_of_ticks(value: np.datetime64 | np.timedelta64) -> int | None:
    """Return the microseconds of a NumPy moment or duration, clipped to 62 bits.

    It is ``None`` for durations of months or years, whose length varies, and for values without a unit.
    """
    resolution, count = np.datetime_data(value.dtype)
    ticks = int(value.astype(np.int64)) * count
    if resolution in _CALENDAR:
        if isinstance(value, np.timedelta64):
            return None
        years = _CALENDAR[resolution]
        near = np.array([max(-years, min(ticks, years))], f"datetime64[{resolution}]")
        return int(near.astype("datetime64[D]").astype(np.int64)[0]) * DAY
    if resolution not in _ATTOSECONDS:
        return None
    return max(-LARGEST_WHOLE, min(ticks * _ATTOSECONDS[resolution] // _ATTOSECONDS["us"], LARGEST_WHOLE))


def length_of_text(text: str) -> int | None:
    """Return the microseconds of a duration in a text, or ``None`` if it is none."""
    found = _ISO_LENGTH.fullmatch(text) or _CLOCK.fullmatch(text)
    if not found or not any(found[part] for part in ("days", "h", "m", "s")):
        return None
    groups = found.groupdict()
    fraction = int(((groups["f"] or "") + "000000")[:6])
    clock = (int(groups["h"] or 0) * 3600 + int(groups["m"] or 0) * 60 + int(groups["s"] or 0)) * 1_000_000 + fraction
    total = int(groups["days"] or 0) * DAY + (-clock if groups.get("sign") == "-" else clock)
    return -total if groups.get("minus") else total


def _of_ticks(value: np.datetime64 | np.timedelta64) -> Any:
    """Return a NumPy moment or length of time as text, or unchanged if Python has none such."""
    micros = micros_of_ticks(value)
    if micros is None:
        return value
    if isinstance(value, np.timedelta64):
        return str(dt.timedelta(microseconds=micros))
    try:
        moment = EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        return value
    whole_days = np.datetime_data(value.dtype)[0] in {*_CALENDAR, "W", "D"}
    return moment.date().isoformat() if whole_days else moment.isoformat()


def _is_missing(value: Any) -> bool:
    """Return whether a value is a mark of missing values: ``None``, NaN, NaT or NA of NumPy and pandas."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError, ArithmeticError):  # the truth of pandas' NA, of arrays and of signalling NaN
        return type(value).__name__ == "NAType"
