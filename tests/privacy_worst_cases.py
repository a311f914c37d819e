"""The worst-case neighbours of the security page: pairs of tables that differ in the rows of one unit."""

from __future__ import annotations

import numpy as np
import pandas as pd

from synthdp import Boolean, Categorical, Continuous, Datetime, Integer, LessEqual, Schema

CANARY = "canary-4711"

SCHEMA = Schema(
    {
        "age": Integer(0, 120),
        "pay": Continuous(0, 1000, nullable=True),
        "cap": Continuous(0, 1000, nullable=True),
        "city": Categorical(["a", "b", "c"], nullable=True),
        "member": Boolean(),
        "seen": Datetime("2020-01-01", "2026-01-01", nullable=True),
    },
    constraints=[LessEqual("pay", "cap")],
)


def base(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    low, high = np.sort(rng.uniform(0, 1000, (rows, 2)), axis=1).T
    return pd.DataFrame(
        {
            "age": rng.integers(0, 121, rows),
            "pay": low,
            "cap": high,
            "city": rng.choice(["a", "b", "c"], rows),
            "member": rng.random(rows) < 0.5,
            "seen": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 2000, rows), unit="D"),
        }
    )


def more(table: pd.DataFrame, **values: object) -> pd.DataFrame:
    """The table with one row more."""
    row = {
        "age": 50,
        "pay": 10.0,
        "cap": 20.0,
        "city": "a",
        "member": True,
        "seen": pd.Timestamp("2021-05-05"),
        **values,
    }
    rows = [*table.astype(object).itertuples(index=False, name=None), tuple(row[name] for name in table.columns)]
    return pd.DataFrame(rows, columns=table.columns, dtype=object)


def one(**values: object) -> pd.DataFrame:
    return more(base(0), **values)


BASE = base()
CONSTANT = pd.concat([one()] * 10, ignore_index=True)

WORST_CASES: dict[str, tuple[pd.DataFrame, pd.DataFrame]] = {
    "empty or one row": (base(0), one()),
    "ten equal rows, one different": (CONSTANT, more(CONSTANT, age=0, city="c", pay=999.0, cap=1000.0, member=False)),
    "a new category": (BASE, more(BASE, city=CANARY)),
    "a value at a bound": (BASE, more(BASE, age=120, pay=1000.0, cap=1000.0)),
    "a value past a bound": (BASE, more(BASE, age=10**12, pay=-1e300, cap=1e300)),
    "NaN": (BASE, more(BASE, pay=float("nan"), age=float("nan"))),
    "infinity": (BASE, more(BASE, pay=float("inf"), cap=float("-inf"))),
    "NaT and None": (BASE, more(BASE, seen=pd.NaT, city=None, member=None)),
    "a time zone": (BASE, more(BASE, seen=pd.Timestamp("2021-05-05", tz="Asia/Tokyo"))),
    "a moment out of range": (BASE, more(BASE, seen=pd.Timestamp("2200-01-01"))),
    "a fraction in a column of integers": (BASE, more(BASE, age=3.7)),
    "a text in a column of numbers": (BASE, more(BASE, age=CANARY, pay=CANARY)),
    "an object nobody foresaw": (BASE, more(BASE, age=[1, 2], city={"x": 1})),
    "a row that makes a constant column vary": (CONSTANT, more(CONSTANT, age=51)),
    "a row that breaks a rule": (BASE, more(BASE, pay=900.0, cap=100.0)),
    "an index label": (BASE, more(BASE).set_axis([*range(60), CANARY])),
}
