"""Every kind of declaration, with the types that a database may hold it in, and values at and beside every edge."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from synthdp import Boolean, Categorical, Continuous, Datetime, Decimal, Integer, Ordinal
from synthdp.domain.grid import edges_of, grid_of

NUMBERED = {
    "small": Integer(0, 9),
    "special": Integer(-3, 90, special=(-99, 7), nullable=True),
    "wide": Integer(-5_000_000, 5_000_000),
    "of steps": Integer(3, 303, step=20),
    "largest": Integer(-(2**60), 2**60),
    "levels": Categorical([1, 5, -7], nullable=True),
}
REAL = {
    "unit": Continuous(0, 1),
    "tenth": Continuous(0.1, 2.3, nullable=True, special=(9.5, -1)),
    "tiny": Continuous(-1e-9, 1e-9),
    "huge": Continuous(-1e150, 3e150),
    "whole": Integer(0, 100, special=(-1,)),
    "cents": Continuous(-3, 90, decimals=2, nullable=True, special=(9.5, -99)),
    "runs": Decimal(-12.5, 99_999_999.99),
    "halves": Continuous(0.5, 14, step=0.5),
    "tenths from .1": Continuous(0.1, 2.3, step=0.1),
    "one": Continuous(2.5, 2.5, decimals=1),
}
TEXTS = {
    "label": Categorical(["a", "L'Aquila", "é", "\\", "", " a"]),
    "nullable": Categorical(["a"], nullable=True),
    "other": Categorical(["a", "b"], other="else"),
    "ordinal": Ordinal(["s", "m", "l"]),
}
MOMENTS = {
    "days": Datetime("2000-01-01", "2030-01-01", resolution="D"),
    "seconds": Datetime("2000-01-01", "2030-01-01", nullable=True),
    "micros": Datetime("2020-01-01", "2020-01-02", resolution="us"),
    "ever": Datetime("0001-01-01", "9999-12-31", resolution="h"),
}
TRUTHS = {"flag": Boolean(), "nullable flag": Boolean(nullable=True)}

WHOLES = [0, 1, -1, 3, 5, -7, 7, 9, 10, 22, 23, 33, -99, 90, 91, 2**15 - 1, -(2**15), None]
LONG = [2**31, -(2**31) - 1, 2**53 + 1, 2**62, -(2**62) - 1, 2**63 - 1, -(2**63), 4_999_999, 5_000_001]
FLOATS = [0.0, -0.0, 5e-324, -5e-324, 1e-300, 2.2e-308, math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, 9.5, -1.0, 0.5,
          1.5, 2.5, 99.5, 100.5, -0.5, 0.1, 2.3, 1e-9, -1e-9, 3e150, 1e290, 3.0000001e-290, None]  # fmt: skip
WRITTEN = [
    "a",
    "A",
    "a ",
    " a",
    "",
    "é",
    "e\u0301",
    "L'Aquila",
    "\\",
    "\\\\",
    "b",
    "else",
    "s",
    "xl",
    "a" * 9000,
    "\u200b",
    None,
]
TIMES = ["2000-01-01", "1999-12-31 23:59:59.999999", "2030-01-01 00:00:00.000001", "2020-01-01 12:34:56.789012",
         "0001-01-01", "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999", "infinity", "-infinity",
         "294246-12-31", None]  # fmt: skip


def near_edges(column: Continuous) -> list[float]:
    """Floats at and beside some edges of the grid points of a column."""
    interval, parts = column.support(), grid_of(column).regular
    edges = edges_of(interval, np.array([0, 1, 2, 3, parts // 3, parts // 2, parts - 1, parts]))  # type: ignore[arg-type]
    return [w for e in edges.tolist() for w in (e, math.nextafter(e, math.inf), math.nextafter(e, -math.inf))]


MORE = [
    w for column in REAL.values() if isinstance(column, Continuous) and not column.is_even for w in near_edges(column)
]
MORE += [
    w for k in range(-9, 260) for w in (k / 8, k / 20, k / 200, math.nextafter(k / 200, 9), math.nextafter(k / 20, -9))
]
MORE += [99_999_999.99, 99_999_999.985, 1e8, -12.505, -12.495, 3276.795, 8_388_607.125, 52_428.805, 52_428.8]
MORE += np.random.default_rng(0).uniform(-0.1, 2.5, 300).tolist()

CASES: dict[str, tuple[dict[str, Any], list[tuple[str, list[Any]]]]] = {
    "whole": ({**NUMBERED, **{k: v for k, v in REAL.items() if k != "whole"}},
              [("smallint", WHOLES), ("bigint", WHOLES + LONG), ("integer", WHOLES + LONG[-2:])]),
    "real": (REAL, [("real", FLOATS[:2] + FLOATS[6:9] + FLOATS[11:19]), ("double precision", FLOATS + MORE)]),
    "text": (TEXTS, [("text", WRITTEN), ("varchar(9000)", WRITTEN)]),
    "truth": (TRUTHS, [("boolean", [True, False, None])]),
    "moment": (MOMENTS, [("date", TIMES), ("timestamp", TIMES), ("timestamptz", TIMES)]),
}  # fmt: skip
