"""Values that try to make the reading of a table depend on them: texts, numbers, moments and objects."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

CANARY = "canary 4711"
"""Text, or digits, that hostile values carry where they can: nothing may show it."""

TELLTALES = ("4711", "9223372036854775", "18446744073709551", "290000")


class Raw(bytes):
    """Bytes that a container of texts is to hold as they are, whether they are text or not."""


class Ticks(int):
    """A moment or a length of time as the number that the container stores for it."""


class HostileError(BaseException):
    """What hostile objects raise, as `SystemExit` or a panic of Rust: no handler of the package can foresee it."""


def hostile(*methods: str) -> object:
    """An object whose methods of these names raise, whatever they are given."""

    def refuse(self: object, *_: object, **__: object) -> Any:
        raise HostileError(CANARY)

    return type("Hostile", (), dict.fromkeys(methods, refuse))()


def _of_hostile_class() -> object:
    """An object whose class raises when it is compared or hashed itself."""

    def refuse(self: object, *_: object) -> Any:
        raise HostileError(CANARY)

    return type("Meta", (type,), {"__eq__": refuse, "__hash__": refuse})("Hostile", (), {})()


class Pretends:
    """An object that says it equals everything, and is as good as the text "a"."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("a")


class Liar(str):
    """A text that raises when it is compared, hashed or written."""

    __slots__ = ()

    def _refuse(self, *_: object) -> Any:
        raise HostileError(CANARY)

    __eq__ = __ne__ = __hash__ = __str__ = __repr__ = strip = _refuse  # type: ignore[assignment]


class Colour(enum.Enum):
    CANARY = CANARY


class Broken(dt.tzinfo):
    """A time zone that raises."""

    def utcoffset(self, _: Any) -> Any:
        raise HostileError(CANARY)


def _cyclic() -> list[Any]:
    loop: list[Any] = [CANARY]
    loop.append(loop)
    return loop


EVERY_METHOD = (
    "__eq__", "__ne__", "__hash__", "__str__", "__repr__", "__bool__", "__float__", "__int__", "__index__", "__array__",
    "__len__", "__iter__", "__getattr__", "__round__", "__lt__", "__gt__", "__getitem__", "__format__", "__reduce_ex__",
    "__array_ufunc__", "__array_interface__", "__array_struct__", "__complex__", "__trunc__", "__abs__", "__contains__",
)  # fmt: skip

TEXTS: dict[str, Any] = {
    "text": CANARY,
    "empty text": "",
    "spaces": "  \t ",
    "NUL": "a\x00 4711",
    "NUL alone": "\x00",
    "lone surrogate": "\ud800 4711",
    "what a surrogate is written as": repr("\ud800 4711"),
    "invalid UTF-8": Raw(b"\xff\xfe 4711"),
    "half a character": Raw(b"4711 \xe2\x82"),
    "a formula": "=cmd('4711')",
    "a very long text": "4711" * 20_000,
    "many digits": "4711" * 2_000,
    "quotes": '"4711","',
    "line ends": "4711\r\n\n4711",
    "separators": "4711\x1f\x1e",
    "a far date": "+290000-01-01",
    "the last moment": "9999-12-31T23:59:59.999999-14:00",
    "the first moment": "0001-01-01T00:00:00+14:00",
    "not a number": "nan",
    "infinite text": "-Infinity",
    "overflow": "4711e999",
}
NUMBERS: dict[str, Any] = {
    "huge": 4711 * 10**400,
    "huger": 10**5000,
    "2**63": 2**63,
    "2**64 - 1": 2**64 - 1,
    "2**63 - 1": 2**63 - 1,
    "-2**63": -(2**63),
    "-2**63 - 1": -(2**63) - 1,
    "2**53 + 1": 2**53 + 1,
    "127": 127,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "subnormal": 5e-324,
    "-0.0": -0.0,
    "1e308": 1e308,
    "True": True,
    "complex": 4711 + 1j,
    "complex nan": complex("nan+4711j"),
    "signalling": Decimal("sNaN4711"),
    "quiet": Decimal("NaN4711"),
    "decimal infinity": Decimal("-Infinity"),
    "far decimal": Decimal("4711e9999"),
    "fine decimal": Decimal("4711e-9999"),
    "decimal of two places": Decimal("47.11"),
    "fraction": Fraction(4711, 3),
    "huge fraction": Fraction(4711 * 10**400, 3),
    "longdouble": np.longdouble("4711e4000"),
    "float16": np.float16(np.inf),
    "np.complex": np.complex64(4711),
}


def of_no_unit(kind: type, value: Any) -> Any:
    """A moment or length that NumPy warns of since 2.5, and that rows may still hold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return kind(value)


MOMENTS: dict[str, Any] = {
    "year 1": dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=14))),
    "year 9999": dt.datetime(9999, 12, 31, 23, tzinfo=dt.timezone(dt.timedelta(hours=-14))),
    "naive year 1": dt.datetime(1, 1, 1),  # noqa: DTZ001
    "date 9999": dt.date(9999, 12, 31),
    "time": dt.time(23, 47, 11),
    "longest": dt.timedelta.max,
    "shortest": dt.timedelta.min,
    "far numpy year": np.datetime64(290_000, "Y"),
    "farther numpy year": np.datetime64(2**62, "Y"),
    "numpy attoseconds": np.datetime64(2**62, "as"),
    "numpy NaT": of_no_unit(np.datetime64, "NaT"),
    "DuckDB's infinity": "infinity",
    "DuckDB's far moment": "290000-01-01",
    "DuckDB's far past": "290000-01-01 (BC)",
    "DuckDB's far date": "5000000-01-01",
    "DuckDB's huge number": str(2**126),
    "DuckDB's hugest number": str(2**127 - 1),
    "DuckDB's hugest whole": str(2**128 - 1),
    "DuckDB's least number": str(-(2**127)),
    "DuckDB's far infinity": "-infinity",
    "DuckDB's length": "290000 years",
    "DuckDB's end of day": "24:00:00",
    "numpy length of no unit": of_no_unit(np.timedelta64, 4711),
    "numpy length of years": np.timedelta64(4711, "Y"),
    "pandas' first": pd.Timestamp.min,
    "pandas' last": pd.Timestamp.max.tz_localize("UTC"),
    "length of pandas": pd.Timedelta.max,
    "period": pd.Period(ordinal=2**40, freq="D"),
    "period of years": pd.Period("4711", freq="Y"),
    "a zone that raises": dt.datetime(2020, 1, 1, tzinfo=Broken()),
    "far ticks": Ticks(2**63 - 1),
    "far ticks before": Ticks(-(2**63) + 1),
    "ticks of year 290000": Ticks(9_089_250_000_000),
    "ticks of year 40000": Ticks(1_199_145_600_000),
}
OBJECTS: dict[str, Any] = {
    "None": None,
    "NA": pd.NA,
    "NaT": pd.NaT,
    "bytes": CANARY.encode(),
    "bytearray": bytearray(CANARY.encode()),
    "memoryview": memoryview(CANARY.encode()),
    "list": [CANARY],
    "nested list": [[4711, [None]], CANARY],
    "cyclic list": _cyclic(),
    "tuple": (CANARY, 1),
    "dict": {CANARY: [1]},
    "set": {CANARY},
    "frozenset": frozenset({CANARY}),
    "array": np.array([4711, 1]),
    "array of one": np.array([4711.0]),
    "array of none": np.array(4711),
    "void": np.void(CANARY.encode()),
    "record": np.array([(4711, CANARY)], dtype=[("a", "i4"), ("b", "U20")])[0],
    "numpy text": np.str_(CANARY),
    "numpy bytes": np.bytes_(CANARY.encode()),
    "interval": pd.Interval(0, 4711),
    "path": PurePosixPath(CANARY),
    "enum": Colour.CANARY,
    "uuid": uuid.UUID(int=4711),
    "class": Raw,
    "function": partial(print, CANARY),
    "pretends": Pretends(),
    "liar": Liar(CANARY),
    "series": pd.Series([4711]),
    "frame": pd.DataFrame({"a": [4711]}),
    "hostile": hostile(*EVERY_METHOD),
    **{f"hostile {name}": hostile(name) for name in EVERY_METHOD},
    "class of a hostile class": _of_hostile_class(),
    "hostile class": type("Hostile", (), {"__class__": property(lambda _: 1 // 0)})(),
}
VALUES = {**TEXTS, **NUMBERS, **MOMENTS, **OBJECTS}
