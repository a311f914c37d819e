"""Dataframes as sources: total on values, silent about them, and fast paths that read what the slow ones read."""

from __future__ import annotations

import datetime as dt
import time
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import strategies as my
from hypothesis import given, strategies as st

from synthdp.domain.encoder import Labels, encode
from synthdp.domain.grid import grid_of
from synthdp.errors import DataError, SchemaError
from synthdp.schema.columns import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Duration,
    Identifier,
    Integer,
    Ordinal,
    Untyped,
)
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.resolve import infer_schema
from synthdp.tables.sources.csv import CsvSource

EVERY_KIND = [
    Continuous(0, 1, nullable=True),
    Integer(0, 9),
    Categorical(["a"], nullable=True),
    Ordinal([1, 2]),
    Boolean(),
    Datetime("2020-01-01", "2021-01-01", nullable=True),
    Duration(0, 9),
    Identifier(),
    Categorical(),
]


def units(table, column, name="x"):
    (block,) = FrameSource(table).blocks({name: column})
    return encode(column, block[name])


@given(my.objects(), st.sampled_from(EVERY_KIND[:-1]))
def test_no_object_stops_the_reading(values, column):
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    found = units(frame, column)
    assert len(found) == len(values)
    assert (found < grid_of(column).size).all()


@given(my.objects(), st.sampled_from(EVERY_KIND[:-1]))
def test_an_object_is_read_the_same_alone(values, column):
    """R25: no value changes how another is read."""
    together = units(pd.DataFrame({"x": pd.Series(values, dtype=object)}), column)
    alone = [
        units(pd.DataFrame({"x": pd.Series(values[i : i + 1], dtype=object)}), column)[0] for i in range(len(values))
    ]
    assert together.tolist() == alone


EVERY_TYPE = {
    "pandas": lambda: pd.DataFrame(
        {
            "i": [1],
            "u": np.array([2**64 - 1], np.uint64),
            "f": [0.5],
            "b": [True],
            "o": [[1]],
            "s": ["a"],
            "z": [1 + 2j],
            "t": pd.to_datetime(["2020-01-01"]),
            "d": pd.to_timedelta([1]),
            "c": pd.Categorical(["a"]),
            "y": [b"a"],
            "p": pd.PeriodIndex(["2020"], freq="Y"),
            "v": pd.arrays.IntervalArray.from_breaks([0, 1]),
            "sp": pd.arrays.SparseArray([1]),
            "I": pd.array([1], dtype="Int64"),
            "D": [Decimal(1)],
            "ct": pd.Categorical(pd.to_datetime(["2020"])),
        }
    ),
    "pyarrow": lambda: pa.table(
        {
            "l": [[1]],
            "s": [{"a": 1}],
            "n": pa.nulls(1),
            "t": pa.array([dt.time(1)]),
            "y": [b"a"],
            "d": pa.array([Decimal("1.5")]),
            "dd": pa.array([Decimal("1.5")]).dictionary_encode(),
            "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
            "i": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
            "v": pa.array(["a"], pa.string_view()),
        }
    ),
    "polars": lambda: pl.DataFrame(
        {
            "l": [[1]],
            "s": [{"a": 1}],
            "n": [None],
            "t": [dt.time(1)],
            "y": [b"a"],
            "o": pl.Series([object()], dtype=pl.Object),
            "i": pl.Series([2**100], dtype=pl.Int128),
            "d": [Decimal("1.5")],
            "a": pl.Series([[1, 2]], dtype=pl.Array(pl.Int8, 2)),
        }
    ),
    "duckdb": lambda: duckdb.sql(
        "SELECT [1] l, {'a': 1} s, TIME '01:00' t, 'a'::BLOB b, uuid() u, INTERVAL 1 MONTH i, 1::HUGEINT h"
    ),
}


@pytest.mark.parametrize("column", EVERY_KIND, ids=repr)
@pytest.mark.parametrize("library", EVERY_TYPE)
def test_every_type_of_column_can_be_read_as_every_kind(library, column):
    source = FrameSource(EVERY_TYPE[library]())
    (block,) = source.blocks(dict.fromkeys(source.names, column), extra=source.names)
    for raw in block.values():
        assert len(raw.codes if isinstance(raw, Labels) else raw.values) == 1
        assert hash(tuple(raw.levels if isinstance(raw, Labels) else ())) is not None


@pytest.mark.parametrize("library", EVERY_TYPE)
def test_a_column_of_any_type_has_a_kind(library):
    source = FrameSource(EVERY_TYPE[library]())
    assert list(infer_schema(source)) == list(source.names)
    assert list(infer_schema(source, without=source.names[0])) == list(source.names[1:])


def test_kinds_come_from_types_alone():
    frame = pd.DataFrame(
        {
            "i": [1],
            "I": pd.array([1], dtype="Int64"),
            "f": [0.5],
            "b": [True],
            "B": pd.array([True], dtype="boolean"),
            "t": pd.to_datetime(["2020-01-01"]),
            "d": pd.to_timedelta([1]),
            "s": pd.array(["a"], dtype="string"),
            "c": pd.Categorical([1]),
            "o": pd.Series([1], dtype=object),
        }
    )
    kinds = {
        "i": Integer(),
        "I": Integer(nullable=True),
        "f": Continuous(nullable=True),
        "b": Boolean(),
        "B": Boolean(nullable=True),
        "t": Datetime(nullable=True),
        "d": Duration(nullable=True),
        "s": Categorical(nullable=True, other="other"),
        "c": Categorical(nullable=True),  # numbers, among which no text can stand for the others
        "o": Untyped(nullable=True, other="other"),  # what the objects are is found under noise
    }
    assert dict(infer_schema(FrameSource(frame))) == kinds
    assert dict(infer_schema(FrameSource(frame.iloc[:0]))) == kinds
    assert FrameSource(pl.DataFrame({"day": [dt.date(2020, 1, 1)]})).kind("day") == Datetime(
        nullable=True, resolution="D"
    )


def test_a_file_has_no_types_of_its_own(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(SchemaError, match=r"sd\.draft"):
        infer_schema(CsvSource(tmp_path / "t.csv"))


MISSING = [
    None,
    np.nan,
    float("nan"),
    pd.NA,
    pd.NaT,
    np.datetime64("NaT", "s"),
    np.timedelta64("NaT", "s"),
    Decimal("NaN"),
]


@pytest.mark.parametrize("missing", MISSING, ids=repr)
@pytest.mark.parametrize("column", EVERY_KIND[:-1], ids=repr)
def test_every_missing_value_is_the_same_missing_value(column, missing):
    """R10: neighbours that differ only in the kind of missing value."""
    frame = pd.DataFrame({"x": pd.Series([missing, "a"], dtype=object)})
    assert units(frame, column)[0] == units(pd.DataFrame({"x": pd.Series([None], dtype=object)}), column)[0]


def frames_of(values):
    """The same column in every library and in several types of pandas."""
    series = pd.Series(values, dtype=object)
    arrow = pa.array([None if v is None else v for v in values])
    yield pd.DataFrame({"x": series})
    yield pd.DataFrame({"x": series.infer_objects()})
    with np.errstate(invalid="ignore"):  # pandas 2 tries whether large floats are whole
        nullable = series.convert_dtypes()
    yield pd.DataFrame({"x": nullable})
    yield pd.DataFrame({"x": series.astype("category")})
    yield pd.DataFrame({"x": pd.Series(arrow, dtype=pd.ArrowDtype(arrow.type))})
    yield pa.table({"x": arrow})
    yield pa.table({"x": pa.chunked_array([arrow[:1], arrow[1:1], arrow[1:]])})
    yield pa.table({"x": arrow.dictionary_encode()})
    yield pa.table({"x": pa.chunked_array([arrow[:1].dictionary_encode(), arrow[1:].dictionary_encode()])})
    yield pl.DataFrame({"x": values})
    yield pl.LazyFrame({"x": values})
    yield duckdb.from_arrow(pa.table({"x": arrow}))


SAME = {
    "whole": (
        [3, None, -7, 99, 3],
        [Integer(0, 9, nullable=True), Continuous(0, 9, nullable=True), Categorical([3, 99], nullable=True)],
    ),
    "large": ([2**62 - 1, None, -(2**62)], [Integer(2**61, 2**62, nullable=True)]),
    "real": ([0.25, None, 1e300], [Continuous(0, 1, nullable=True), Integer(0, 5), Categorical([0.25], nullable=True)]),
    "text": (
        ["b", None, "a", "17", "2020-01-05"],
        [
            Categorical(["a", "b"], nullable=True),
            Integer(0, 20),
            Continuous(0, 20),
            Datetime("2020-01-01", "2020-01-09", nullable=True),
        ],
    ),
    "truth": (
        [True, None, False],
        [Boolean(nullable=True), Integer(0, 1, nullable=True), Categorical([True, False], nullable=True)],
    ),
    "moments": (
        [dt.datetime.fromisoformat("2020-01-05T12:00:01"), None],
        [Datetime("2020-01-01", "2020-01-09", nullable=True), Continuous(0, 1)],
    ),
    "zoned": (
        [dt.datetime.fromisoformat("2020-01-05T12:00:01+02:00"), None],
        [Datetime("2020-01-01", "2020-01-09", nullable=True)],
    ),
    "days": ([dt.date(2020, 1, 5), None], [Datetime("2020-01-01", "2020-01-09", nullable=True)]),
    "lengths": ([dt.timedelta(seconds=5), None], [Duration(0, 9, nullable=True), Integer(0, 9)]),
}


@pytest.mark.parametrize(("values", "columns"), SAME.values(), ids=SAME)
def test_every_library_and_type_is_read_alike(values, columns):
    for column in columns:
        found = {tuple(units(frame, column).tolist()) for frame in frames_of(values)}
        assert len(found) == 1


def test_time_zones_are_compared_in_utc():
    """A table in another zone is another table of the same moments."""
    moments = pd.Series(pd.to_datetime(["2020-01-05T12:00Z", "2020-01-05T23:00Z"]))
    column = Datetime("2020-01-01", "2020-01-09", resolution="h")
    found = {
        tuple(units(pd.DataFrame({"x": moments.dt.tz_convert(zone)}), column))
        for zone in ("UTC", "Asia/Tokyo", "America/Lima")
    }
    assert found == {(4 * 24 + 12, 4 * 24 + 23)}


@pytest.mark.parametrize("order", [["a", "b", "canary"], ["canary", "b", "a"]])
def test_unobserved_categories_and_their_order_do_not_show(order):
    column = Categorical(["b", "a"])
    frame = pd.DataFrame({"x": pd.Categorical(["a", "b", "a"], categories=order)})
    assert units(frame, column).tolist() == [1, 0, 1]


def test_numbers_are_read_without_a_copy():
    frame = pd.DataFrame({"i": np.arange(5), "f": np.arange(5.0)})
    (block,) = FrameSource(frame).blocks({"i": Integer(0, 9), "f": Continuous(0, 9)})
    assert np.shares_memory(block["i"].values, frame["i"].to_numpy())
    assert np.shares_memory(block["f"].values, frame["f"].to_numpy())


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([1], "not of type list"),
        (np.zeros((2, 2)), "not of type ndarray"),
        (None, "not of type NoneType"),
        (
            "a.csv",
            "not of type str: give CsvSource(path) or ParquetSource(path)",
        ),
        (pd.Series([1]), "not of type Series"),
        (
            pd.DataFrame([[1]]),
            "column names must be texts: rename the columns, for example by [str(name) for name in table.columns]",
        ),
        (
            pd.DataFrame([[1, 2]], columns=["a", "a"]),
            "column 'a' occurs more than once: rename or drop the other columns of this name",
        ),
        (
            pa.table([[1], [2]], names=["a", "a"]),
            "column 'a' occurs more than once: rename or drop the other columns of this name",
        ),
        (
            pl.LazyFrame({"x": ["canary"]}).select(pl.col("x").cast(pl.Int64)),
            "the lazy table could not be collected: collect it first to see why",
        ),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_in_one_sentence(table, message):
    with pytest.raises(DataError) as refused:
        FrameSource(table)
    assert str(refused.value).endswith(message)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_a_source_knows_its_columns_and_shows_no_value(make):
    source = FrameSource(make({"a": ["canary"], "b": [1]}))
    assert source.names == ("a", "b")
    assert not source.is_empty
    assert FrameSource(make({"a": pd.Series([], dtype="float64").to_numpy()})).is_empty
    assert "canary" not in repr(source)
    assert "canary" not in repr(source.dtypes)


def test_categories_are_no_part_of_a_types_name():
    """R1: the categories of a type are values."""
    tables = [
        pd.DataFrame({"x": pd.Categorical(["canary"])}),
        pa.table({"x": pa.array(["canary"]).dictionary_encode()}),
        pl.DataFrame({"x": pl.Series(["canary"], dtype=pl.Enum(["canary"]))}),
        duckdb.sql("SELECT 'canary'::ENUM('canary') x"),
    ]
    assert not any("canary" in FrameSource(table).dtypes["x"] for table in tables)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["object", "str", "string[python]", "category", "polars", "pyarrow"])
def test_a_million_texts_are_labels_at_once(kind):
    texts = np.random.default_rng(0).choice(["Private", "State-gov", "Self-emp"], 1_000_000).astype(object)
    make = {"polars": lambda: pl.DataFrame({"x": texts.tolist()}), "pyarrow": lambda: pa.table({"x": texts})}
    table = make.get(kind, lambda: pd.DataFrame({"x": pd.Series(texts, dtype=kind)}))()
    source = FrameSource(table)
    seconds = []
    for _ in range(3):
        start = time.process_time()
        next(iter(source.blocks({"x": Categorical(["Private"])})))
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.3
