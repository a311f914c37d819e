"""Cells of any type as values of a few types that can be trusted: none raises, none changes how another is read.

A cell may be an object of any class, whose methods may do anything.  Only its ``repr`` is called here, where rows must
be told apart by it, and a failure of that is not an error.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd

from synthdp.domain.encoder import Labels, RawColumn
from synthdp.schema.plain_values import EPOCH, MICROSECOND

_SAFE = (bytes, Fraction, dt.date, dt.timedelta, pd.Timedelta, pd.Period)
"""Types whose comparison and hashing run no foreign code, so that their values are kept as they are."""

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""Nanoseconds in each unit of time that moments come in."""

_QUANTITIES: dict[type, str] = {
    dt.date: "date", dt.datetime: "moment", pd.Timestamp: "moment", dt.timedelta: "length", pd.Timedelta: "length",
    dt.time: "clock", Decimal: "decimal", int: "whole", float: "real",
}  # fmt: skip
"""The kind of column that values of each Python type belong to."""

_LARGEST_EXPONENT = 400
"""Largest decimal exponent of a whole ``Decimal`` that is written in hexadecimal, the form of integers, so that equal
keys have equal texts.  Larger ones are written as digits and exponent, since their integers could have very many
digits.  A safety limit: the largest float has the exponent 308."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A stand-in for a value that no column can hold, such as a list or invalid Unicode; it equals no level.

    Parameters
    ----------
    text
        Text that distinguishes it from other values; ``None`` if there is none.
    """

    text: str | None


def labels_of_objects(values: Iterable[object]) -> Labels:
    """Return cells of any type as labels: distinct values, and each row's index among them, (rows,), -1 where missing.

    Values of different types are different labels, even where Python has 1 == True.
    """
    cells = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if all(cell is None or type(cell) is str for cell in cells):
        return labels_of_texts(cells)
    position: dict[Hashable, int] = {}
    levels: list[Any] = []
    codes = np.empty(len(cells), np.int64)
    for i, cell in enumerate(cells):
        level = plain(cell)
        if level is None:
            codes[i] = -1
            continue
        codes[i] = place = position.setdefault(_key(level), len(levels))
        if place == len(levels):
            levels.append(level)
    return Labels(levels, codes)


def labels_of_texts(cells: list[Any]) -> Labels:
    """Return texts, or ``None`` where missing, as labels: distinct texts, and each row's index among them or -1, (rows,).

    A dict finds them, since pandas confuses a lone surrogate with the text of its `repr`.
    """
    different: dict[Any, int] = dict.fromkeys(cells, -1)
    different.pop(None, None)
    position = {text: i for i, text in enumerate(different)} | {None: -1}
    codes = np.fromiter(map(position.__getitem__, cells), np.int64, len(cells))
    return Labels([text_or_opaque(text) for text in different], codes)


def without_misfits(raw: RawColumn) -> RawColumn:
    """Return raw values for a released table: values that no column can hold become missing."""
    if not isinstance(raw, Labels) or not any(isinstance(level, Opaque) for level in raw.levels):
        return raw
    kept = np.array([*(not isinstance(level, Opaque) for level in raw.levels), False])
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    return Labels([level for level in raw.levels if not isinstance(level, Opaque)], number[raw.codes])


def text_or_opaque(text: str) -> str | Opaque:
    """Return a text unchanged, or an `Opaque` value if it is not valid Unicode, which no output could hold."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return Opaque(f"str:{text}")
    return text


def text_of_bytes(raw: bytes) -> str | Opaque:
    """Return bytes decoded as UTF-8, or an `Opaque` value if the bytes are not valid UTF-8."""
    return text_or_opaque(raw.decode(errors="surrogateescape"))


def plain(value: object) -> object:
    """Return a cell as a value of a built-in type that is safe to hash and compare; ``None`` if it is missing.

    A cell of a foreign class may run any code, and one bad cell must not stop a release.
    """
    kind = type(value)
    if kind is str:
        return text_or_opaque(value)  # type: ignore[arg-type]
    if kind is int or kind is bool:
        return value
    if kind is float:
        return value if value == value else None
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    try:
        return _plain(value, kind)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - any object may be in a table, and none may stop the reading
        return Opaque(None)


def _plain(value: Any, kind: type) -> object:
    """Return a cell of a rarer type as a safe value; values of derived classes are read as their built-in base.

    Code of a foreign class could see private rows.  Values of unknown types become `Opaque`.
    """
    if kind in _SAFE:
        return value
    if kind.__module__ == "numpy" and issubclass(kind, np.generic):
        return _of_numpy(value)
    if issubclass(kind, str):
        return text_or_opaque(str.__str__(value))
    if issubclass(kind, int):
        return int.__int__(value)
    if issubclass(kind, float):
        return plain(float.__float__(value))
    if issubclass(kind, Decimal):
        return None if Decimal.is_nan(value) else Decimal(value)
    if kind is pd.Timestamp:
        return _timestamp(value)
    if issubclass(kind, dt.datetime):
        return _datetime(dt.datetime.combine(dt.datetime.date(value), dt.datetime.timetz(value)))
    if issubclass(kind, dt.date):
        return dt.date.fromordinal(dt.date.toordinal(value))
    if kind is dt.time:
        offset = value.utcoffset()
        return value.replace(tzinfo=None if offset is None else dt.timezone(offset))
    if kind is complex and value != value:
        return None
    return Opaque(written(value))


def quantity_of(level: object) -> str:
    """Return the type by which discovery counts a safe value.

    The type is "date", "moment", "length" (of time), "clock" (a time of day), "decimal", "whole", "real", or else
    "label".
    """
    kind = type(level)
    if kind is np.datetime64:
        return "moment"
    return "length" if kind is np.timedelta64 else _QUANTITIES.get(kind, "label")


def _of_numpy(value: Any) -> object:
    """Return a NumPy scalar as a safe value; a time without a unit becomes `Opaque`."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        has_resolution = np.datetime_data(value.dtype)[0] != "generic"
        return None if np.isnat(value) else value if has_resolution else Opaque(written(value))
    if isinstance(value, np.longdouble):
        with np.errstate(over="ignore"):
            return value if value == value and float(value) != value else plain(float(value))
    return Opaque(written(value)) if isinstance(value, np.void) else plain(value.item())


def _datetime(moment: dt.datetime) -> dt.datetime:
    """Return a datetime whose time zone is a plain offset, because other zone classes may run any code."""
    offset = moment.utcoffset()
    return moment.replace(tzinfo=None if offset is None else dt.timezone(offset))


def _timestamp(moment: pd.Timestamp) -> pd.Timestamp | np.datetime64:
    """Return a pandas Timestamp whose time zone is a plain offset, because other zone classes may run any code.

    Where pandas cannot tell the offset, as in some distant years, return NumPy's moment in UTC.
    """
    try:
        offset = moment.utcoffset()
        return moment if offset is None else moment.tz_convert(dt.timezone(offset))
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - pandas has several errors of its own for years that it cannot tell the zone of
        return moment.asm8


def _key(level: Any) -> Hashable:
    """Return the hashable key under which equal values become one label; for times it includes type and zone.

    Equal moments in two zones are read differently, so they must stay two labels.
    """
    if isinstance(level, (dt.datetime, dt.time)):
        return type(level), level.isoformat()
    if isinstance(level, (np.datetime64, np.timedelta64)):
        return type(level), np.datetime_data(level.dtype), int(level.astype(np.int64))
    return type(level), level


def written(value: object) -> str | None:
    """Return a text that is equal for equal values and differs for all others; ``None`` for unknown types.

    Privacy units and record keys are compared by it.  7 and 7.0, or a moment in two zones, are equal; "7" and "07" are
    not.
    """
    try:
        return _written(value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - any object may be in a table, and none may stop the reading
        return None


def _written(value: Any) -> str | None:
    """Return the text by which a value is compared; it may raise an error, unlike `written`.

    Return ``None`` for NumPy's missing moment, and for a collection that holds one.
    """
    kind = type(value)
    if kind is Opaque:
        return value.text  # type: ignore[no-any-return]
    if kind is str:
        return f"str:{value}"
    if kind in (bool, int, float, Decimal):
        return f"number:{_number(value)}"
    if kind in (bytes, bytearray, memoryview):
        return f"bytes:{bytes(value).hex()}"
    if kind is pd.Timestamp:
        return f"moment:{_nanoseconds(value.asm8)}"
    if kind is dt.datetime:
        return f"moment:{micros_of(value) * 1000}"
    if kind is np.datetime64 and np.datetime_data(value.dtype)[0] in NANOSECONDS:
        return None if np.isnat(value) else f"moment:{_nanoseconds(value)}"
    if kind is pd.Period:
        return f"period:{value.freqstr}:{value.ordinal}"
    if kind is pd.Interval:
        return _written((value.closed, value.left, value.right))
    if kind is UUID:
        return f"uuid:{value.int:x}"
    if kind in (list, tuple, set, frozenset, dict):
        return _written_parts(value, kind)
    if issubclass(kind, np.ndarray):
        array = np.ndarray.view(value, np.ndarray)
        inside = _written(array.tolist() if array.dtype.hasobject else array.tobytes())
        return None if inside is None else f"ndarray:{array.dtype.str}:{array.shape}:{inside}"
    if kind is np.void:
        inside = _written(value.item())
        return None if inside is None else f"void:{value.dtype}:{inside}"
    if issubclass(kind, np.generic):
        return f"{kind.__name__}:{value.dtype.str}:{value.tobytes().hex()}"
    return f"{kind.__module__}.{kind.__qualname__}:{value!r}"


def _written_parts(values: Any, kind: type) -> str | None:
    """Return the text by which a collection is compared; ``None`` if a part has none.

    Sets and dicts are sorted first.
    """
    parts = [_written(part) for part in (values.items() if kind is dict else values)]
    if None in parts:
        return None
    sized = [f"{len(part)}:{part}" for part in parts if part is not None]
    return f"{kind.__name__}:{''.join(sized if kind in (list, tuple) else sorted(sized))}"


def _number(value: bool | float | Decimal) -> str:
    """Return a number as text by its value, whatever its type, so that 7 and 7.0 name the same person.

    Whole numbers are in hexadecimal, which Python converts at any length; others are digits and a decimal exponent.
    """
    if isinstance(value, int):
        return f"x{int(value):x}"
    exact = Decimal(value)
    if not exact.is_finite():
        return str(exact)
    if abs(exact.adjusted()) <= _LARGEST_EXPONENT and exact == exact.to_integral_value():
        return f"x{int(exact):x}"
    sign, digits, exponent = exact.as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    return f"{'-' * sign}{text}e{int(exponent) + len(digits) - len(text)}"


def _nanoseconds(moment: np.datetime64) -> int:
    """Return a moment in nanoseconds since 1970, as a Python integer: the same in all units, and without overflow."""
    return int(moment.astype(np.int64)) * NANOSECONDS[np.datetime_data(moment.dtype)[0]]


def micros_of(moment: dt.datetime) -> int:
    """Return the microseconds of a datetime since 1970 UTC, even if the UTC time is outside the years 1 to 9999."""
    offset = moment.utcoffset() or dt.timedelta()
    return (moment.replace(tzinfo=None) - EPOCH) // MICROSECOND - offset // MICROSECOND
