"""The key of a record: one text for the values of some columns, so that any universe is a universe of texts.

Queries and the private table make keys by the same rules, so that they always mean the same record.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence

import numpy as np

MISSING = "\x00"
"""The part of a key that stands for a missing value; texts that contain it are escaped."""

BETWEEN = "\x1f"
"""What stands between the parts of a key (ASCII's unit separator)."""

LONGEST_WHOLE = 2_000
"""Bits of the longest whole number that has a text: Python may be set to refuse to write 640 digits."""

_ESCAPES = str.maketrans({"\\": "\\\\", BETWEEN: "\\u", MISSING: "\\0"})
_ORIGINALS = {"\\": "\\", "u": BETWEEN, "0": MISSING}


def part_of(value: object) -> str:
    """Return the part of a key for one value.

    Texts are themselves, whole numbers of any type their digits, truth values 0 and 1, times ISO 8601.  Missing
    values, and values without a text of their own, are one part together.
    """
    if isinstance(value, str):
        return value.translate(_ESCAPES)
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case bool() | int() if value.bit_length() <= LONGEST_WHOLE:
            return str(int(value))
        case float() if math.isfinite(value):
            return str(int(value)) if value == int(value) else repr(value)
        case dt.datetime() | dt.date() | dt.time() if value == value:  # a missing time differs from itself
            return value.isoformat()
        case bytes():
            return value.hex()
        case _:
            return MISSING


def key_of(values: Sequence[object]) -> str:
    """Return the key of a record from its values, one per column."""
    return BETWEEN.join(part_of(value) for value in values)


def values_of(key: str) -> tuple[str | None, ...]:
    """Return the texts of a key's values; ``None`` where missing."""
    return tuple(None if part == MISSING else _unescaped(part) for part in key.split(BETWEEN))


def _unescaped(part: str) -> str:
    if "\\" not in part:
        return part
    letters = iter(part)
    return "".join(_ORIGINALS[next(letters)] if letter == "\\" else letter for letter in letters)
