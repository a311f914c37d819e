"""Hypothesis strategies for schemas, columns, values, raw columns, axes, domains, grid points and codes.

Everything is small, so that brute force over all cells of a tiny domain stays cheap.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain, axis_of
from synthdp.domain.encoder import Labels, Numbers
from synthdp.domain.grid import grid_of
from synthdp.schema.columns import (
    RESOLUTIONS,
    Boolean,
    Categorical,
    Column,
    Continuous,
    Date,
    Datetime,
    Decimal as ExactDecimal,
    Duration,
    Identifier,
    Integer,
    Ordinal,
    Time,
    Weight,
)
from synthdp.schema.schema import Schema

names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
"""Column names: any unicode text."""

texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=6)
"""Labels: any unicode text, line ends and quotes too."""

bounds = st.floats(-1e15, 1e15, allow_subnormal=False).map(lambda x: round(x, 6))
levels = st.one_of(
    st.lists(texts, min_size=1, max_size=5, unique=True),
    st.lists(st.integers(-100, 100), min_size=1, max_size=5, unique=True),
    st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=5, unique=True),
)


def _special(numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(numbers, max_size=2, unique=True).map(tuple)


@st.composite
def continuous(draw: Callable[..., Any], *, numbers: st.SearchStrategy[float] = bounds) -> Continuous:
    """Continuous columns, of any scale of ``numbers``; special values lie inside the bounds or not."""
    lower, upper = sorted(draw(st.lists(numbers, min_size=2, max_size=2, unique=True)))
    return Continuous(lower, upper, nullable=draw(st.booleans()), special=draw(_special(numbers)))


@st.composite
def decimal_numbers(draw: Callable[..., Any]) -> Continuous:
    """Continuous columns of so many decimals, few and many."""
    decimals = draw(st.integers(0, 6))
    span = st.one_of(st.integers(-40, 40), st.integers(-(10**9), 10**9))
    lower, upper = sorted(draw(st.tuples(span, span)))
    special = draw(_special(st.sampled_from([-99.0, -1.0, 0.5, 7.0])))
    scale = 10**decimals
    return Continuous(lower / scale, upper / scale, nullable=draw(st.booleans()), special=special, decimals=decimals)


@st.composite
def survey_weights(draw: Callable[..., Any]) -> Weight:
    """Weights of few and many classes, whose bounds are near to each other and far apart."""
    lower, ratio = draw(st.floats(1e-3, 1e6)), draw(st.sampled_from([1.001, 1.5, 20.0, 2000.0, 1e9]))
    return Weight(lower, lower * ratio, nullable=draw(st.booleans()), classes=draw(st.integers(2, 64)))


@st.composite
def multiples(draw: Callable[..., Any]) -> Continuous | Integer:
    """Columns of multiples of a step, counted from any number."""
    step, lower = draw(st.sampled_from([0.25, 0.1, 0.3, 5, 100, 7])), draw(st.integers(-1000, 1000))
    steps = draw(st.one_of(st.integers(0, 50), st.integers(1, 10**8)))
    if isinstance(step, int):
        return Integer(lower, lower + steps * step, nullable=draw(st.booleans()), step=step)
    upper = float(lower + steps * Fraction(str(step)))
    return Continuous(lower, upper, nullable=draw(st.booleans()), step=step)


@st.composite
def integers(draw: Callable[..., Any], *, largest: int = 2**62) -> Integer:
    """Integer columns, narrow and wide, and of one number."""
    span = st.one_of(st.integers(-40, 40), st.integers(-largest, largest))
    lower, upper = sorted(draw(st.tuples(span, span)))
    return Integer(lower, upper, nullable=draw(st.booleans()), special=draw(_special(st.integers(-99, 99))))


@st.composite
def datetimes(draw: Callable[..., Any]) -> Datetime:
    """Datetime columns of every resolution."""
    resolution = draw(st.sampled_from(sorted(RESOLUTIONS)))
    moments = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))  # noqa: DTZ001
    lower, upper = sorted(draw(st.tuples(moments, moments)))
    return Datetime(lower, upper + dt.timedelta(days=1), nullable=draw(st.booleans()), resolution=resolution)


@st.composite
def durations(draw: Callable[..., Any]) -> Duration:
    """Duration columns of every resolution."""
    lower, upper = sorted(draw(st.lists(st.integers(-40_000, 40_000), min_size=2, max_size=2, unique=True)))
    return Duration(lower, upper, nullable=draw(st.booleans()), resolution=draw(st.sampled_from(sorted(RESOLUTIONS))))


@st.composite
def dates(draw: Callable[..., Any]) -> Date:
    """Date columns."""
    days = st.dates(dt.date(1, 1, 2), dt.date(9999, 12, 30))
    lower, upper = sorted(draw(st.tuples(days, days)))
    return Date(lower, upper + dt.timedelta(days=1), nullable=draw(st.booleans()))


@st.composite
def clocks(draw: Callable[..., Any]) -> Time:
    """Time columns of every resolution."""
    lower, upper = draw(st.integers(0, 11)), draw(st.integers(12, 23))
    resolution = draw(st.sampled_from([name for name in sorted(RESOLUTIONS) if name != "D"]))
    return Time(dt.time(lower), dt.time(upper, 59, 3, 17), nullable=draw(st.booleans()), resolution=resolution)


exact_decimals = st.builds(
    ExactDecimal, st.integers(-99, 0), st.integers(1, 10**6), nullable=st.booleans(), decimals=st.integers(0, 6)
)
categoricals = st.builds(
    Categorical, levels, nullable=st.booleans(), other=st.one_of(st.none(), st.sampled_from(["other", "rest"]))
)


@st.composite
def grouped(draw: Callable[..., Any]) -> Categorical:
    """Categories with a hierarchy of one or two steps; groups of one name lie in different coarser groups."""
    names = draw(levels)
    groups = st.lists(st.sampled_from(["p", "q", 3, True]), min_size=len(names), max_size=len(names))
    other = draw(st.sampled_from([None, "other"]))
    return Categorical(names, other=other, groups=draw(st.lists(groups, min_size=1, max_size=2)))


ordinals = st.builds(Ordinal, levels, nullable=st.booleans())
booleans = st.builds(Boolean, nullable=st.booleans())
identifiers = st.builds(Identifier, prefix=st.one_of(st.none(), texts))

measured_columns: st.SearchStrategy[Column] = st.one_of(
    continuous(),
    decimal_numbers(),
    integers(),
    multiples(),
    datetimes(),
    dates(),
    clocks(),
    exact_decimals,
    survey_weights(),
    durations(),
    categoricals,
    ordinals,
    booleans,
)
"""Declared columns whose values are read."""

columns: st.SearchStrategy[Column] = st.one_of(measured_columns, identifiers)
"""Declared columns of every kind."""

undeclared_columns: st.SearchStrategy[Column] = st.one_of(
    st.builds(Continuous, nullable=st.booleans()),
    st.builds(Integer, nullable=st.booleans()),
    st.builds(Datetime, nullable=st.booleans()),
    st.builds(Duration, nullable=st.booleans()),
    st.builds(Categorical, nullable=st.booleans()),
)
"""Columns whose bounds or levels are left open."""


def schemas(kinds: st.SearchStrategy[Column] = columns, *, most: int = 5) -> st.SearchStrategy[Schema]:
    """Schemas of up to ``most`` columns."""
    return st.dictionaries(names, kinds, min_size=1, max_size=most).map(Schema)


small_columns: st.SearchStrategy[Column] = st.one_of(
    st.builds(Integer, st.integers(0, 3), st.integers(4, 6), nullable=st.booleans()),
    st.builds(Categorical, st.just(("a", "b", "c")), nullable=st.booleans()),
    st.builds(Boolean, nullable=st.booleans()),
    st.builds(Ordinal, st.just(("low", "high")), nullable=st.booleans()),
    st.just(Integer(0, 3, special=(-1, 99))),
)
"""Columns with few grid points or cells."""


@st.composite
def axes(draw: Callable[..., Any], *, name: str = "x", kinds: st.SearchStrategy[Column] = small_columns) -> Axis:
    """Axes whose cells are any partition of a standard axis' runs, "other" and missing ones merged too."""
    standard = axis_of(name, draw(kinds), bins=draw(st.integers(1, 6)))
    merged = draw(st.lists(st.integers(0, 3), min_size=len(standard.cells), max_size=len(standard.cells)))
    _, cells = np.unique(merged, return_inverse=True)
    return Axis(name, standard.column, standard.starts, cells)


@st.composite
def domains(draw: Callable[..., Any], *, most: int = 3) -> Domain:
    """Domains of at most ``most`` columns with at most four cells each."""
    return Domain(tuple(draw(axes(name=f"c{j}")) for j in range(draw(st.integers(1, most)))))


@st.composite
def codes(draw: Callable[..., Any], domain: Domain, *, most: int = 6) -> np.ndarray:
    """Up to ``most`` rows of cell codes, (n, d)."""
    row = st.tuples(*(st.integers(0, size - 1) for size in domain.shape))
    return np.array(draw(st.lists(row, max_size=most)), np.int64).reshape(-1, len(domain))


@st.composite
def indices(draw: Callable[..., Any], column: Column, *, visible: bool = True) -> np.ndarray:
    """Some grid points of a column, its ends, special values and missing value among them."""
    grid = grid_of(column)
    size = grid.releasable if visible else grid.size
    ends = {0, grid.regular - 1, *range(grid.regular, size)}
    drawn = draw(st.lists(st.integers(0, size - 1), max_size=20))
    return np.array([*sorted(ends), *drawn], np.int64)


class Unpleasant:
    """An object that refuses to be compared, hashed or shown."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise TypeError

    def __repr__(self) -> str:
        raise RuntimeError


values: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.decimals(allow_nan=True),
    st.fractions(),
    texts,
    st.binary(max_size=4),
    st.datetimes(),
    st.datetimes(timezones=st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=-11))])),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=1), st.integers(), max_size=1),
    st.builds(Unpleasant),
    st.sampled_from([
        pd.NA, pd.NaT, np.nan, float("inf"), -float("inf"), 10**400, -(10**400), 2**63, 2**64, -0.0, "", " 12 ", "nan",
        "1e999", "12_3", "9" * 5000, np.float32(0.1), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True), np.str_("a"),
        np.datetime64("NaT", "s"), np.datetime64("2020-01-01T00:00:00.5"), np.datetime64(10**6, "Y"),
        np.timedelta64(5, "s"), pd.Timestamp("2020-01-01", tz="Asia/Tokyo"), pd.Timedelta(1, "ns"), Decimal("sNaN"),
        Decimal("Infinity"), pd.Interval(0, 1), pd.Period("2020-01"), np.array([1.0]), np.array([1, 2]), (1, [2]), object,
    ]),
)  # fmt: skip
"""Anything a cell of an object column may hold."""


def objects(cells: st.SearchStrategy[Any] = values, *, most: int = 12) -> st.SearchStrategy[np.ndarray]:
    """Object arrays of cells."""
    return st.lists(cells, max_size=most).map(lambda row: np.fromiter(row, dtype=object, count=len(row)))


@st.composite
def labels(draw: Callable[..., Any], *, cells: st.SearchStrategy[Any] = values) -> Labels:
    """Raw labels: levels of any type, in any order, some of them never used, some rows missing."""
    known = draw(st.lists(cells, max_size=6))
    coded = draw(st.lists(st.integers(-1, len(known) - 1), max_size=10))
    return Labels(known, np.array(coded, np.int64))


@st.composite
def numbers(draw: Callable[..., Any]) -> Numbers:
    """Raw numbers: floats of any kind, or 64-bit whole numbers, some of them missing."""
    whole = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=10).map(lambda row: np.array(row, np.int64))
    real = st.lists(st.floats(), max_size=10).map(lambda row: np.array(row, np.float64))
    cells = draw(st.one_of(whole, real))
    missing = draw(st.one_of(st.none(), st.lists(st.booleans(), min_size=len(cells), max_size=len(cells))))
    return Numbers(cells, None if missing is None else np.array(missing, np.bool_))


raw_columns = st.one_of(labels(), numbers())
"""What a source may yield for any column."""
