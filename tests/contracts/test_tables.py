"""One contract for every kind of table: what comes out has the type of what went in, and no value outside the schema."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from synthdp.domain.encoder import decode, encode
from synthdp.domain.grid import grid_of
from synthdp.errors import DataError
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
)
from synthdp.schema.schema import Schema
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.format import TableFormat
from synthdp.tables.resolve import infer_schema

PARIS = "Europe/Paris"


class Case(NamedTuple):
    """A column of one kind of table, with or without missing values.

    The table is made where it is used: what DuckDB made and a test case kept would outlive DuckDB at the end of the run.
    """

    kind: str
    make: Callable[[], Any]
    column: Column

    @property
    def table(self) -> Any:
        return self.make()


DATES = Datetime("2020-05-01", "2020-05-08", nullable=True, resolution="D")
ALL_TIMES = Datetime("0001-01-01", "9999-12-31", nullable=True)
MOMENTS = Datetime("2020-05-01", "2020-05-08", nullable=True)
WHOLE = Integer(-5, 120, nullable=True)
LEVELS = Categorical(["b", "a", "größer", "=1+1"], nullable=True)
STAMPS = [dt.datetime.fromisoformat("2020-05-02T01:02:03"), dt.datetime.fromisoformat("2020-05-07"), None]
DAYS = [dt.date(2020, 5, 2), dt.date(2020, 5, 7), None]
CLOCKS = [dt.time(1, 2, 3), dt.time(23, 59, 59), None]
CLOCK = Time("00:00", "23:59:59", nullable=True)
PRICES = [Decimal("1.25"), Decimal("0.10"), None]
PRICE = ExactDecimal(0, "99.99", nullable=True)
DAY = Date("2020-05-01", "2020-05-08", nullable=True)
ZONES = ["UTC", "America/New_York", "Etc/GMT+5", "America/Port-au-Prince", "+05:30"]
LENGTHS = [dt.timedelta(seconds=5), dt.timedelta(days=1), None]


def pandas_cases():
    required = Integer(-5, 120)
    yield "numpy int64", pd.Series([1, 120, -5], dtype="int64"), required
    yield "numpy int8", pd.Series([1, 120, -5], dtype="int8"), Integer(-128, 127)
    yield "numpy int8 with wider bounds", pd.Series([1, 120, -5], dtype="int8"), Integer(-1000, 1000)
    yield "numpy uint64", pd.Series([1, 2**63, 2**64 - 1], dtype="uint64"), Integer(0, 2**62)
    yield "numpy uint64 as real", pd.Series([1, 2**63, 2**64 - 1], dtype="uint64"), Continuous(0, 2e19)
    yield "whole numbers as floats", pd.Series([1.0, None, 120.0], dtype="float64"), WHOLE
    yield "numpy float64", pd.Series([0.25, None, np.inf], dtype="float64"), Continuous(0, 1, nullable=True)
    yield "numpy float32", pd.Series([0.25, None, 0.1], dtype="float32"), Continuous(0, 0.1, nullable=True)
    yield "numpy float16", pd.Series([0.25, None, 0.1], dtype="float16"), Continuous(0, 0.3, nullable=True)
    yield "numpy bool", pd.Series([True, False, True]), Boolean()
    yield "numpy bool as numbers", pd.Series([True, False, True]), Integer(0, 1)
    yield "labels as int64", pd.Series([3, 1, 2]), Categorical([1, 2, 3])
    yield "labels as float64", pd.Series([3.0, 1.0, None]), Categorical([1, 2, 3], nullable=True)
    yield "truth as int64", pd.Series([1, 0, 1]), Boolean()
    yield "text as object", pd.Series(["a", None, "b"], dtype=object), LEVELS
    yield "mixed objects", pd.Series([1, "a", None], dtype=object), Categorical([1, "a"], nullable=True)
    yield "decimal objects", pd.Series([Decimal("1.5"), None], dtype=object), Continuous(0, 9, nullable=True)
    yield "str", pd.Series(["a", None, "b"], dtype="str"), LEVELS
    yield "numbers as str", pd.Series(["17", None, "5"], dtype="str"), WHOLE
    yield "identifiers", pd.Series(["x9", "x8", "x7"], dtype="str"), Identifier("p")
    yield "number identifiers", pd.Series([9, 8, 7]), Identifier()
    yield "category", pd.Series(pd.Categorical(["a", None], categories=list(LEVELS.levels))), LEVELS
    yield (
        "category with order",
        pd.Series(pd.Categorical(["lo", None], ["lo", "hi"], ordered=True)),
        Ordinal(["lo", "hi"], nullable=True),
    )
    yield "category of numbers", pd.Series(pd.Categorical([2, None, 1], [2, 1])), Categorical([2, 1], nullable=True)
    yield "category of booleans", pd.Series(pd.Categorical([True, None], [False, True])), Boolean(nullable=True)
    yield (
        "category of objects",
        pd.Series(pd.Categorical(["a", 1], pd.Index(["a", 1], dtype=object))),
        Categorical(["a", 1]),
    )
    for step in ("s", "ms", "us", "ns"):
        yield f"datetime {step}", pd.Series(STAMPS).astype(f"datetime64[{step}]"), MOMENTS
        yield f"datetime {step} zone", pd.Series(STAMPS).astype(f"datetime64[{step}]").dt.tz_localize(PARIS), MOMENTS
        yield f"timedelta {step}", pd.Series(LENGTHS).astype(f"timedelta64[{step}]"), Duration(0, 86_400, nullable=True)
    yield (
        "datetime ns of all times",
        pd.Series(STAMPS).astype("datetime64[ns]"),
        Datetime("0001-01-01", "9999-12-31", nullable=True),
    )
    yield "fixed offset", pd.Series(STAMPS).dt.tz_localize("+05:30"), MOMENTS
    yield (
        "dates as objects",
        pd.Series(DAYS, dtype=object),
        Datetime("2020-05-01", "2020-05-08", nullable=True, resolution="D"),
    )
    yield "days as objects", pd.Series(DAYS, dtype=object), DAY
    yield "days as moments", pd.Series(DAYS[:2], dtype="datetime64[s]"), Date("2020-05-01", "2020-05-08")
    yield "times of day as objects", pd.Series(CLOCKS, dtype=object), CLOCK
    yield "decimals as objects", pd.Series(PRICES, dtype=object), PRICE
    yield "decimals as floats", pd.Series([1.25, None], dtype="float64"), PRICE
    yield "cents", pd.Series([0.07, None, 0.29]), Continuous(0, 0.3, nullable=True, decimals=2)
    yield "halves", pd.Series([0.5, None, 7.0], dtype="float32"), Continuous(0.5, 14, nullable=True, step=0.5)
    yield "hundreds", pd.Series([100, 4000], dtype="int32"), Integer(0, 100_000, step=100)
    for zone in ZONES:
        yield f"zone {zone}", pd.Series(STAMPS).dt.tz_localize("UTC").dt.tz_convert(zone), MOMENTS
    yield (
        "period",
        pd.Series(pd.PeriodIndex(["2020-05-01", None], freq="D")),
        Datetime("2020-05-01", "2020-05-08", nullable=True, resolution="D"),
    )


def pandas_nullable_cases():
    for name in ("Int8", "Int64", "UInt16", "UInt64"):
        yield name, pd.Series([1, None, 120], dtype=name), Integer(0, 120, nullable=True)
    yield "large Int64", pd.Series([2**62, None, 3], dtype="Int64"), Integer(0, 2**62, nullable=True)
    yield "Float64", pd.Series([0.5, None, 1.0], dtype="Float64"), Continuous(0, 1, nullable=True)
    yield "Float32", pd.Series([0.1, None, 0.0], dtype="Float32"), Continuous(0, 0.1, nullable=True)
    yield "boolean", pd.Series([True, None, False], dtype="boolean"), Boolean(nullable=True)
    yield "boolean as numbers", pd.Series([True, None, False], dtype="boolean"), Integer(0, 1, nullable=True)
    yield "string python", pd.Series(["a", None, "b"], dtype="string[python]"), LEVELS
    yield "string pyarrow", pd.Series(["a", None, "b"], dtype=pd.StringDtype("pyarrow")), LEVELS
    yield "labels as Int64", pd.Series([3, None, 2], dtype="Int64"), Categorical([1, 2, 3], nullable=True)


def arrow_arrays():
    yield "int8", pa.array([1, None, 5], pa.int8()), WHOLE
    yield "int64", pa.array([2**62, None, 5]), Integer(0, 2**62, nullable=True)
    yield "uint64", pa.array([2**64 - 1, None, 5], pa.uint64()), Continuous(0, 2e19, nullable=True)
    yield "float", pa.array([0.1, None, 0.0], pa.float32()), Continuous(0, 0.1, nullable=True)
    yield "halffloat", pa.array(np.array([0.1, 0.0], np.float16)), Continuous(0, 0.2, nullable=True)
    yield "double", pa.array([0.1, None, float("nan")]), Continuous(0, 0.1, nullable=True)
    yield "bool", pa.array([True, None, False]), Boolean(nullable=True)
    yield "string", pa.array(["a", None, "b"]), LEVELS
    yield "large string", pa.array(["a", None, "b"], pa.large_string()), LEVELS
    yield "decimal", pa.array([Decimal("1.25"), None], pa.decimal128(10, 2)), Continuous(0, 1.337, nullable=True)
    yield "whole decimal", pa.array([Decimal(2**61), None], pa.decimal128(38, 0)), Integer(0, 2**61, nullable=True)
    yield "wide decimal", pa.array([Decimal("1.25"), None], pa.decimal256(60, 5)), Continuous(0, 1.337, nullable=True)
    yield (
        "labels as decimals",
        pa.array([Decimal("1.5"), None], pa.decimal128(4, 1)),
        Ordinal([0.5, 1.5], nullable=True),
    )
    yield "labels as int32", pa.array([3, None, 2], pa.int32()), Categorical([1, 2, 3], nullable=True)
    yield "date32", pa.array(DAYS), DATES
    yield "date32 as days", pa.array(DAYS), DAY
    yield "date64 as days", pa.array(DAYS, pa.date64()), DAY
    yield "decimal as decimals", pa.array(PRICES, pa.decimal128(8, 2)), PRICE
    for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        yield str(kind), pa.array(CLOCKS, kind), CLOCK
    for zone in ZONES:
        yield f"zone {zone}", pa.array(STAMPS, pa.timestamp("ms", zone)), MOMENTS
    yield "date64", pa.array(DAYS, pa.date64()), MOMENTS
    for step in ("s", "ms", "us", "ns"):
        yield f"timestamp {step}", pa.array(STAMPS, pa.timestamp(step)), MOMENTS
        yield f"timestamp {step} zone", pa.array(STAMPS, pa.timestamp(step, PARIS)), MOMENTS
        yield f"duration {step}", pa.array(LENGTHS, pa.duration(step)), Duration(0, 86_400, nullable=True)


def dictionaries():
    levels = pa.array(list(LEVELS.levels))
    for index in (pa.int8(), pa.uint32()):
        yield f"dictionary {index}", pa.DictionaryArray.from_arrays(pa.array([1, None, 0], index), levels), LEVELS
    ordered = pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array(["lo", "hi"]), ordered=True)
    yield "dictionary with order", ordered, Ordinal(["lo", "hi"], nullable=True)
    many = pa.DictionaryArray.from_arrays(pa.array([1, None], pa.int8()), levels)
    yield "numbers in a dictionary", pa.array([5, None, 7]).dictionary_encode(), WHOLE
    yield "few of many levels", many, LEVELS


def polars_series():
    for kind in (pl.Int8, pl.Int64, pl.UInt16, pl.Int128):
        yield str(kind), pl.Series([1, None, 5], dtype=kind), WHOLE
    yield "UInt64", pl.Series([2**64 - 1, None], dtype=pl.UInt64), Continuous(0, 2e19, nullable=True)
    yield "Float32", pl.Series([0.1, None], dtype=pl.Float32), Continuous(0, 0.1, nullable=True)
    yield "Float64", pl.Series([0.1, None, float("nan")]), Continuous(0, 0.1, nullable=True)
    yield "Boolean", pl.Series([True, None, False]), Boolean(nullable=True)
    yield "String", pl.Series(["a", None, "b"]), LEVELS
    yield "Categorical", pl.Series(["a", None, "b"], dtype=pl.Categorical), LEVELS
    yield "Enum", pl.Series(["a", None, "b"], dtype=pl.Enum(list(LEVELS.levels))), LEVELS
    yield "Decimal", pl.Series([Decimal("1.25"), None], dtype=pl.Decimal(10, 2)), Continuous(0, 1.337, nullable=True)
    yield "whole Decimal", pl.Series([Decimal(2**61), None], dtype=pl.Decimal(38, 0)), Integer(0, 2**61, nullable=True)
    yield "labels as Int32", pl.Series([3, None, 2], dtype=pl.Int32), Categorical([1, 2, 3], nullable=True)
    yield "Date", pl.Series(DAYS), DATES
    yield "Date as days", pl.Series(DAYS), DAY
    yield "Time", pl.Series(CLOCKS), CLOCK
    yield "Decimal as decimals", pl.Series(PRICES, dtype=pl.Decimal(8, 2)), PRICE
    for zone in ZONES[:4]:
        moments = pl.Series(STAMPS, dtype=pl.Datetime("us")).dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
        yield f"zone {zone}", moments, MOMENTS
    for step in ("ms", "us", "ns"):
        yield f"Datetime {step}", pl.Series(STAMPS, dtype=pl.Datetime(step)), MOMENTS
        yield f"Datetime {step} zone", pl.Series(STAMPS, dtype=pl.Datetime(step)).dt.replace_time_zone(PARIS), MOMENTS
        yield f"Duration {step}", pl.Series(LENGTHS, dtype=pl.Duration(step)), Duration(0, 86_400, nullable=True)


def duckdb_columns():
    yield "HUGEINT", "1::HUGEINT", WHOLE
    yield "UHUGEINT", "1::UHUGEINT", WHOLE
    for name in ("TINYINT", "BIGINT", "USMALLINT", "UBIGINT"):
        yield name, f"1::{name}", Integer(0, 120, nullable=True)
    for name in ("FLOAT", "DOUBLE", "DECIMAL(10,2)"):
        yield name, f"0.1::{name}", Continuous(0, 0.11, nullable=True)
    yield "BOOLEAN", "true", Boolean(nullable=True)
    yield "VARCHAR", "'a'", LEVELS
    yield "ENUM", "'a'::ENUM('b', 'a', 'größer', '=1+1')", LEVELS
    yield "DATE", "DATE '2020-05-02'", DATES
    yield "DATE as days", "DATE '2020-05-02'", DAY
    for name in ("TIME", "TIME_NS"):
        yield name, f"TIME '01:02:03'::{name}", CLOCK
    yield "DECIMAL(8,2) as decimals", "1.25::DECIMAL(8,2)", PRICE
    for name in ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ"):
        yield name, f"'2020-05-02 01:02:03'::{name}", MOMENTS
    yield "INTERVAL", "INTERVAL 5 SECONDS", Duration(0, 86_400, nullable=True)


NAME = 'größe "1"'


def cases():
    for name, series, column in [*pandas_cases(), *pandas_nullable_cases()]:
        yield pytest.param(Case("pandas", partial(pd.DataFrame, {NAME: series}), column), id=f"pandas {name}")
    for name, array, column in arrow_arrays():
        series = pd.Series(array, dtype=pd.ArrowDtype(array.type))
        yield pytest.param(Case("pandas", partial(pd.DataFrame, {NAME: series}), column), id=f"pandas pyarrow {name}")
    for name, array, column in [*arrow_arrays(), *dictionaries()]:
        yield pytest.param(Case("pyarrow", partial(pa.table, {NAME: array}), column), id=f"pyarrow {name}")
    for name, series, column in polars_series():
        yield pytest.param(Case("polars", partial(pl.DataFrame, {NAME: series}), column), id=f"polars {name}")
        yield pytest.param(Case("polars lazy", partial(pl.LazyFrame, {NAME: series}), column), id=f"polars lazy {name}")
    for name, sql, column in duckdb_columns():
        quoted = NAME.replace('"', '""')
        query = f'SELECT {sql} AS "{quoted}" UNION ALL SELECT NULL'
        yield pytest.param(Case("duckdb", partial(duckdb.sql, query), column), id=f"duckdb {name}")


CASES = list(cases())


def released(case, indices):
    """The table that grid points make, in the saved and reloaded format of the case's."""
    schema = Schema({NAME: case.column})
    form = TableFormat.of(FrameSource(case.table), schema)
    form = TableFormat.from_document(json.loads(json.dumps(form.to_document())))
    return form.build(schema, {NAME: decode(case.column, indices)})


def read(table, column):
    (block,) = FrameSource(table).blocks({NAME: column})
    return block[NAME]


def types(table):
    """All that a table says about the types of its columns, categories and time zones among them."""
    match table:
        case pd.DataFrame():
            return dict(table.dtypes)
        case pa.Table():
            return table.schema
        case pl.LazyFrame() | pl.DataFrame():
            return table.collect_schema()
        case _:
            return dict(zip(table.columns, map(str, table.types), strict=True))


def every_grid_point(column):
    """The ends of the column, its special values and its missing value, and some grid points between."""
    grid = grid_of(column)
    between = np.linspace(0, grid.regular - 1, 5).astype(np.int64)
    return np.concatenate([between, np.arange(grid.regular, grid.releasable)])


def bounds(column):
    """The least and the largest number that a column may read as."""
    if isinstance(column, (Datetime, Duration, Time)):
        return [step * RESOLUTIONS[column.resolution] for step in column.steps]
    return [column.lower, column.upper] if isinstance(column, (Continuous, Integer)) else [-np.inf, np.inf]


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("case", CASES)
def test_a_table_comes_back_of_its_types_and_its_values_within_the_schema_missing_or_themselves(case):
    grid, indices = grid_of(case.column), every_grid_point(case.column)
    table, empty = released(case, indices), released(case, indices[:0])
    assert type(table) is type(case.table)
    assert types(table) == types(empty) == types(case.table)
    raw = read(table, case.column)
    assert (encode(case.column, raw) < grid.releasable).all()
    numbers = np.ma.masked_invalid(np.ma.array(getattr(raw, "values", [0]), mask=getattr(raw, "missing", None)))
    lower, upper = bounds(case.column)
    assert ((lower <= numbers) & (numbers <= upper)).all()
    missing = encode(Categorical(["?"], nullable=True), read(table, Identifier())) == 1
    assert missing.tolist() == (indices == grid.null).tolist()
    real = encode(case.column, read(case.table, case.column))  # each of these grid points is one value
    visible = real[real < grid.releasable]
    assert encode(case.column, read(released(case, visible), case.column)).tolist() == visible.tolist()


CATEGORIES = {
    "category of whole numbers": [2, 7, 2],
    "category of numbers": [2.5, 7.0],
    "category of moments": pd.to_datetime(["2020-05-02", "2020-05-03"]),
}
INFERRED = [case for case in CASES if "period" not in case.id] + [
    pytest.param(Case("pandas", partial(pd.DataFrame, {NAME: pd.Series(pd.Categorical(values))}), LEVELS), id=name)
    for name, values in CATEGORIES.items()
]


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("case", INFERRED)
def test_a_column_that_nobody_declared_comes_out_of_the_type_that_it_went_in(case):
    """From the type alone: what is open is filled in as a discovery might.  Levels that nobody declared have no order."""
    source = FrameSource(case.table)
    inferred = infer_schema(source)[NAME]
    column = replace(inferred.example(), nullable=True)
    schema = Schema({NAME: column})
    form = TableFormat.of(source, schema)
    indices = every_grid_point(column)[: grid_of(column).regular]
    built = form.build(schema, {NAME: decode(column, indices[indices < grid_of(column).regular])})
    assert form.suited(schema) == form
    expected = source.dtypes[NAME]
    if not column.ordered:
        expected = expected.replace(", ordered]", "]").replace("ordered=1", "ordered=0")
    assert FrameSource(built).dtypes == {NAME: expected}


@pytest.mark.parametrize(
    "table", [pa.table({"x": [[1], [2]]}), pl.DataFrame({"x": [[1], [2]]})], ids=["pyarrow", "polars"]
)
def test_a_column_of_lists_is_refused_in_one_sentence(table):
    source = FrameSource(table)
    with pytest.raises(DataError, match="'x'"):
        TableFormat.of(source, infer_schema(source))
