"""R11: different ids are different persons, whatever they are and in whatever they are held; equal ids are one person."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hostile_cells import CONTAINERS, TICK, Container, objects, one_database
from hostile_values import Broken, Colour, Raw, Ticks, hostile, of_no_unit
from hypothesis import given, strategies as st
from no_noise import without_noise

from synthdp import Boolean, Curator, PureDP, Schema
from synthdp.curator.contribution import Bounding, first_rows
from synthdp.domain.domain import domain_of
from synthdp.queries.marginals import one_ways
from synthdp.tables.resolve import source_of

UTC = dt.UTC
TEXTS = [
    "7", "07", "7.0", " 7", "7 ", "a", "a\x00", "a\x00b", "a\x00c", "\x00", "\ud800", "\udfff", "\ud800\udc00",
    "\U00010000", repr("\ud800"), "?", "\ufffd", "é", "e\u0301", "number:x7", "nan", "None", "\x1f", '"', "'", "str:a",
    Raw(b"\xff"), Raw(b"\xfe"), Raw(b"\xff\xfe"), Raw(b"\xed\xb0\x80"), Raw(b"\xc3"), Raw(b"a\xff"), Raw(b"\xffa"),
]  # fmt: skip
TICKS = [Ticks(n) for n in (
    0, 1, 2, 999, 1000, 1001, -1, -999, -1000, 86_400_000, 2 * 86_400_000, 10**12, 10**15 + 1, 10**15 + 2, 2**31 - 1,
    2**31 - 2, 2**53, 2**53 + 1, 2**62, 2**62 + 1, 2**63 - 1, 2**63 - 2, -(2**63) + 1, -(2**63) + 2, -(2**62), -(2**62) - 1,
)]  # fmt: skip
WHOLE = [
    0, 1, -1, 2, 127, 128, 255, 2**31, 2**53, 2**53 + 1, 2**62, 2**62 + 1, 2**63 - 1, 2**63 - 2, 2**63, 2**63 + 1,
    2**64 - 1, 2**64 - 2, -(2**63), -(2**63) + 1, 2**64, 2**64 + 1, 2**100, 2**100 + 1, 10**400, 10**400 + 1, 10**5000,
]  # fmt: skip
REAL = [
    0.0, 1.0, 2.0, 0.5, 0.1, math.nextafter(0.1, 1), 5e-324, 1e-323, 1e308, math.nextafter(1e308, 2e308), math.inf,
    -math.inf, 1 / 3, 2.0**53, 2.0**63, 2.0**64, -1.0,
]  # fmt: skip
OBJECTS = [
    *TEXTS[:26], *WHOLE, *REAL[3:13], Decimal("0.1"), Decimal("1e999999"), Decimal("2e999999"), Decimal("1e-999999"),
    Decimal("0.1000000000000000000000000000000000001"), Fraction(1, 3), b"a", b"b", b"\xff", bytes(3), (1, 2), (1, 2, 3),
    (1, (2, 3)), ((1, 2), 3), ("1", 2), ("a", "b"), ("ab",), ("a:b",), [1, 2], [1, [2]], [[1], 2], {1, 2}, {1: 2}, {2: 1},
    frozenset({1}), dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001
    dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=14))),
    dt.datetime(1, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=14))),
    dt.datetime(9999, 12, 31, 23, tzinfo=dt.timezone(dt.timedelta(hours=-14))), dt.time(1), dt.time(1, 0, 0, 1),
    dt.timedelta(1), dt.timedelta.max, pd.Timestamp(1), pd.Timestamp(2), pd.Timestamp(999), pd.Timedelta(1), pd.Timedelta(2),
    pd.Period("2020", "Y"), pd.Period("2020-01", "M"), pd.Period(ordinal=2**40, freq="D"), pd.Interval(0, 1),
    pd.Interval(0, 1, closed="left"), pd.Interval(0, math.nextafter(1, 2)), uuid.UUID(int=1), uuid.UUID(int=2),
    np.datetime64(2**62, "Y"), np.datetime64(2**62 + 1, "Y"), np.datetime64(1, "as"), np.datetime64(2, "as"),
    np.timedelta64(1, "Y"), np.timedelta64(1, "M"), of_no_unit(np.timedelta64, 1), np.longdouble("0.1"),
    np.longdouble("1e4000"),
    np.array([1]), np.array([1.0]), np.array([[1]]), np.arange(2000), np.arange(2000)[::-1], np.array(["a", 1], object),
    np.void(b"a"), np.void(b"b"), 1j, 2j, Colour.CANARY, PurePosixPath("a"), PurePosixPath("b"), range(2), range(3), int,
]  # fmt: skip
"""Ids of any type, all of them different."""


TEXTS_IN = [
    "pandas object", "pandas str", "pandas string python", "pandas string pyarrow", "pandas category",
    "pandas pyarrow string", "pandas pyarrow dictionary", "pyarrow string", "pyarrow large string", "pyarrow string view",
    "pyarrow dictionary", "polars String", "polars Categorical", "polars Enum", "polars lazy String", "duckdb VARCHAR",
    "parquet string", "parquet dictionary", "arrow file string view", "csv",
]  # fmt: skip
WHOLE_IN = [
    "pandas object", "polars Object", "pandas int64", "pandas uint64", "pandas Int64", "pandas UInt64",
    "pandas pyarrow uint64", "pyarrow int64", "pyarrow uint64", "pyarrow decimal256(76, 0)", "polars Int64",
    "polars UInt64", "polars Int128", "duckdb BIGINT", "duckdb UBIGINT", "duckdb HUGEINT", "duckdb UHUGEINT",
    "parquet uint64",
]  # fmt: skip
REAL_IN = [
    "pandas object", "pandas float64", "pandas Float64", "pandas longdouble", "pandas sparse float", "pyarrow double",
    "pyarrow dictionary of double", "polars Float64", "duckdb DOUBLE", "parquet double",
]  # fmt: skip
OBJECTS_IN = ["pandas object", "polars Object", "polars lazy Object"]
ROUNDED = ("list", "List", "parquet date64", "parquet timestamp[s", "parquet time32")
"""Containers that hold other ticks than those they are given, or values that nothing can tell apart."""

TICKS_IN = [name for name, one in CONTAINERS.items() if one.takes == TICK and not any(part in name for part in ROUNDED)]
KINDS = [(TEXTS_IN, TEXTS), (WHOLE_IN, WHOLE), (REAL_IN, REAL), (OBJECTS_IN, OBJECTS), (TICKS_IN, TICKS)]
CASES = [pytest.param(name, ids, id=f"{name} {ids[0]!r}") for names, ids in KINDS for name in names]


def unit_of(container: Container, ids: list[Any]) -> Any:
    """A column of ids, read as whose each row is."""
    (block,) = source_of(container.table(container.column(ids))).blocks({}, extra=("identifier",))
    return block["identifier"]


def people(unit: Any) -> int:
    """How many persons rows belong to."""
    return len({tuple(one) for one in Bounding(1).digests(unit).tolist()})


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "ids"), CASES)
def test_different_ids_are_different_persons_and_equal_ids_are_one(name: str, ids: list[Any]) -> None:
    container = CONTAINERS[name]
    with one_database():
        held = [one for one in ids if container.holds(one)]
    assert len(held) > 3
    unit = unit_of(container, held)
    assert Bounding(1).digests(unit).any(axis=1).all()
    assert people(unit) == len(held)
    assert first_rows(unit, rows=1, seen={}).all()
    twice = unit_of(container, [*held, *held])
    assert people(twice) == len(held)
    assert first_rows(twice, rows=1, seen={}).sum() == len(held)


anything = st.recursive(
    st.text() | st.integers() | st.floats(allow_nan=False) | st.binary() | st.decimals(allow_nan=False) | st.dates()
    | st.text(st.characters(min_codepoint=0xD7F0, max_codepoint=0xE010), max_size=3),
    lambda part: st.tuples(part, part) | st.lists(part, max_size=3).map(tuple) | st.frozensets(part, max_size=2),
    max_leaves=4,
)  # fmt: skip


@given(st.lists(anything, max_size=12, unique=True))
def test_different_ids_of_any_type_are_different_persons(ids: list[Any]) -> None:
    unit = unit_of(CONTAINERS["pandas object"], ids)
    assert people(unit) == len(ids)


@given(st.lists(st.tuples(st.sampled_from(TEXTS[:26] + WHOLE), st.booleans()), max_size=12), st.integers(1, 2))
def test_removing_a_person_moves_at_most_so_many_rows(rows: list[tuple[Any, bool]], most: int) -> None:
    """Brute force: whoever leaves, with all of their rows, no more of the sums moves than is claimed."""
    schema = Schema({"x": Boolean()})
    queries = one_ways(domain_of(schema))

    def counted(some: list[tuple[Any, bool]]) -> np.ndarray:
        who = pd.Series(objects([who for who, _ in some]), dtype=object)
        table = pd.DataFrame({"who": who, "x": np.array([x for _, x in some], bool)})
        curator = Curator(table, schema=schema, budget=PureDP(1.0), privacy_unit="who", max_rows_per_unit=most)
        with pytest.MonkeyPatch.context() as patch:
            without_noise(patch)
            return curator.measure(queries).answers

    whole = counted(rows)
    for person in {who for who, _ in rows}:
        assert np.abs(whole - counted([row for row in rows if row[0] != person])).sum() <= most


@pytest.mark.parametrize(
    "unreadable", [hostile("__repr__"), [hostile("__repr__")], dt.datetime(2020, 1, 1, tzinfo=Broken())]
)
def test_an_id_that_nothing_tells_from_others_is_as_a_missing_one(unreadable: Any) -> None:
    unit = unit_of(CONTAINERS["pandas object"], [unreadable, unreadable, "a"])
    assert Bounding(1).digests(unit).any(axis=1).tolist() == [False, False, True]
    assert first_rows(unit, rows=1, seen={}).all()


def test_numbers_and_moments_are_compared_by_value_and_texts_as_they_are_written() -> None:
    noon = dt.datetime(2020, 1, 1, 12, tzinfo=UTC)
    same = [[7, 7.0, np.int8(7), Decimal("7.00"), np.float32(7)], [noon, pd.Timestamp(noon).tz_convert("Asia/Tokyo")]]
    different = ["7", "7.0", "07", 7, True, "True", noon, noon.isoformat()]
    container = CONTAINERS["pandas object"]
    assert [people(unit_of(container, ids)) for ids in [*same, different]] == [1, 1, len(different)]
