"""The outer form of a table: saved as plain text, and refused before anything is spent if it cannot be made."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import strategies as my
from hypothesis import given, strategies as st

from synthdp import SyntheticRelease
from synthdp.domain.encoder import decode, encode, fresh_labels
from synthdp.domain.grid import grid_of
from synthdp.errors import DataError, FormatError
from synthdp.schema.columns import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Identifier,
    Integer,
    Ordinal,
)
from synthdp.schema.schema import Schema
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.format import TableFormat
from synthdp.tables.resolve import infer_schema
from synthdp.tables.sources.csv import CsvSource

LIBRARIES = ["pandas", "polars", "polars lazy", "pyarrow", "duckdb"]


def built(form, schema, indices):
    return form.build(schema, {name: decode(column, indices[name]) for name, column in schema.items()})


@pytest.mark.parametrize("library", LIBRARIES)
@given(data=st.data(), column=my.columns)
def test_the_default_form_of_any_column_keeps_every_value(library, data, column):
    schema = Schema({"x": column})
    indices = data.draw(my.indices(column))
    table = built(TableFormat.default(schema, library=library), schema, {"x": indices})
    (block,) = FrameSource(table).blocks({"x": column})
    raw = decode(column, indices)
    assert (encode(column, block["x"]) == encode(column, raw)).all()


@given(my.schemas(st.one_of(my.columns, my.undeclared_columns)), st.sampled_from(LIBRARIES))
def test_a_form_is_saved_and_read_back(schema, library):
    form = TableFormat.default(schema, library=library)
    assert TableFormat.from_document(form.to_document()) == form


def test_columns_come_in_the_order_of_the_table_and_only_those_of_the_schema():
    schema = Schema({"a": Integer(0, 9), "b": Integer(0, 9)})
    form = TableFormat.of(FrameSource(pd.DataFrame({"b": [1], "more": [1], "a": [1]})), schema)
    assert [name for name, _ in form.dtypes] == ["b", "a"]


def test_a_source_is_asked_once_for_its_arrow_types(monkeypatch):
    """A database would be asked as often."""
    asked, types = [], FrameSource.arrow_types.fget
    monkeypatch.setattr(FrameSource, "arrow_types", property(lambda source: asked.append(source) or types(source)))
    form = TableFormat.of(FrameSource(pa.table({"x": pa.array([1], pa.int8())})), Schema({"x": Integer(0, 9)}))
    assert "int8" in str(form.to_document())
    assert len(asked) == 1


def test_a_frame_of_pandas_has_a_plain_index_and_no_attributes():
    """R15."""
    real = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["canary", "x"], name="canary"))
    real.attrs["canary"] = "canary"
    schema = Schema({"a": Integer(0, 9)})
    made = built(TableFormat.of(FrameSource(real), schema), schema, {"a": np.arange(3)})
    assert isinstance(made.index, pd.RangeIndex)
    assert made.index.name is None
    assert made.attrs == {}
    assert made.columns.name is None


def test_a_table_of_pyarrow_has_no_metadata():
    real = pa.Table.from_pandas(pd.DataFrame({"a": [1]}, index=["canary"]))
    schema = Schema({"a": Integer(0, 9)})
    made = built(TableFormat.of(FrameSource(real), schema), schema, {"a": np.arange(3)})
    assert made.schema.metadata is None


def test_a_field_that_may_not_be_null_stays_so():
    real = pa.table({"a": [1]}, schema=pa.schema([pa.field("a", pa.int64(), nullable=False)]))
    schema = Schema({"a": Integer(0, 9)})
    made = built(TableFormat.of(FrameSource(real), schema), schema, {"a": np.arange(3)})
    assert made.schema == real.schema


def test_a_file_comes_back_as_pandas_in_its_own_order(tmp_path):
    (tmp_path / "t.csv").write_text("b,a\nx,1\n")
    schema = Schema({"a": Integer(0, 9, nullable=True), "b": Categorical(["x"])})
    form = TableFormat.of(CsvSource(tmp_path / "t.csv"), schema)
    made = built(form, schema, {"a": np.array([0, 10]), "b": np.array([0, 0])})
    assert list(made.columns) == ["b", "a"]
    assert made["a"].dtype == "Int64"


@pytest.mark.parametrize(("dtype", "wide"), [("int16", "Int16"), ("bool", "boolean"), ("uint64", "UInt64")])
def test_numbers_of_numpy_become_nullable_only_for_a_missing_value(dtype, wide):
    schema = Schema({"a": Integer(0, 1, nullable=True)})
    form = TableFormat.of(FrameSource(pd.DataFrame({"a": pd.Series([1], dtype=dtype)})), schema)
    assert built(form, schema, {"a": np.array([0, 1])})["a"].dtype == dtype
    assert built(form, schema, {"a": np.array([0, 2])})["a"].dtype == wide
    assert form.without_impossible_nulls(schema) == Schema({"a": Integer(0, 1)})


def test_columns_that_can_be_null_stay_nullable():
    schema = Schema({"a": Integer(0, 1, nullable=True), "b": Boolean()})
    frame = pd.DataFrame({"a": pd.array([1], dtype="Int64"), "b": [True]})
    assert TableFormat.of(FrameSource(frame), schema).without_impossible_nulls(schema) is schema


IMPOSSIBLE = {
    "number of moments": (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), Integer(0, 9)),
    "moment of numbers": (pd.DataFrame({"a": [1]}), Datetime("2020-01-01", "2021-01-01")),
    "texts of numbers": (pd.DataFrame({"a": [1]}), Categorical(["x", "y"])),
    "fractions of whole": (pd.DataFrame({"a": [1]}), Ordinal([0.5, 1])),
    "large of small": (pd.DataFrame({"a": np.array([1], np.int8)}), Categorical([1000])),
    "labels of moments": (pa.table({"a": pa.array([0], pa.timestamp("s"))}), Categorical(["x"])),
    "lists": (pl.DataFrame({"a": [[1]]}), Categorical(["x"])),
    "structs": (pa.table({"a": [{"b": 1}]}), Continuous()),
    "sparse": (pd.DataFrame({"a": pd.arrays.SparseArray([0.5])}), Continuous(0, 1)),
    "undeclared": (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), Continuous()),
}


@pytest.mark.parametrize(("table", "column"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_cannot_be_made_is_refused_beforehand_with_the_column(table, column):
    with pytest.raises(DataError, match="'a'"):
        TableFormat.of(FrameSource(table), Schema({"a": column}))


UNWRITTEN = {
    "periods": pd.DataFrame({"a": pd.period_range("2020-01", periods=3, freq="M")}),
    "cut": pd.DataFrame({"a": pd.cut([1.0, 2.0, 3.0], 2)}),
    "intervals": pd.DataFrame({"a": pd.arrays.IntervalArray.from_breaks([1, 2, 3])}),
    "lists": pl.DataFrame({"a": [[1]]}),
    "lists of arrow": pa.table({"a": [[1]]}),
}


@pytest.mark.parametrize("table", UNWRITTEN.values(), ids=UNWRITTEN)
def test_types_that_no_release_writes_are_refused_without_a_word_of_a_declaration(table):
    refused = "'a'"
    source = FrameSource(table)
    with pytest.raises(DataError, match=refused):
        TableFormat.of(source, infer_schema(source))
    with pytest.raises(DataError, match=refused):
        SyntheticRelease(epsilon=1.0).fit(table)


@pytest.mark.parametrize("column", [Continuous(), Integer(), Categorical(), Identifier(), Identifier("p")])
def test_undeclared_columns_are_checked_by_their_kind(column):
    frame = pd.DataFrame({"a": pd.Series([1], dtype=object)})
    assert TableFormat.of(FrameSource(frame), Schema({"a": column})).dtypes == (("a", "object"),)


@pytest.mark.parametrize(
    "document", [{}, {"library": "pandas"}, {"library": "pandas", "dtypes": 5}, {"dtypes": [["a"]], "library": 1}]
)
def test_a_document_of_another_shape_is_refused(document):
    with pytest.raises(FormatError):
        TableFormat.from_document(document)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "dtype", ["", "nonsense", "List(Int64)", "category", "BIGINT); DROP TABLE t; --", "int64[nonsense]"]
)
def test_a_type_that_does_not_exist_is_refused_with_the_column(library, dtype):
    schema = Schema({"a": Integer(0, 1)})
    form = TableFormat(library=library, dtypes=(("a", dtype),))
    with pytest.raises(FormatError, match="'a'"):
        built(form, schema, {"a": np.arange(2)})


def test_a_library_that_does_not_exist_is_refused():
    form = TableFormat(library="dask", dtypes=(("a", "int64"),))
    with pytest.raises(FormatError, match="'dask'"):
        built(form, Schema({"a": Integer(0, 1)}), {"a": np.arange(2)})


@pytest.mark.parametrize(
    ("library", "package", "extra"),
    [("polars", "polars", "polars"), ("pyarrow", "pyarrow", "arrow"), ("duckdb", "duckdb", "duckdb,arrow")],
)
def test_a_library_that_is_not_installed_is_named_with_a_hint(monkeypatch, library, package, extra):
    form = TableFormat.default(Schema({"a": Integer(0, 1)}), library=library)
    monkeypatch.setitem(sys.modules, package, None)
    for module in [name for name in sys.modules if name.startswith("synthdp.tables.columns.")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(FormatError) as refused:
        built(form, Schema({"a": Integer(0, 1)}), {"a": np.arange(2)})
    assert str(refused.value) == f"{library} is not installed: pip install 'synthdp[{extra}]'"


@given(st.floats(-1e3, 1e3), st.floats(0.01, 1e3), st.sampled_from(["float32", "float16"]))
def test_narrow_floats_stay_within_the_bounds(lower, width, dtype):
    schema = Schema({"a": Continuous(lower, lower + width)})
    form = TableFormat(library="pandas", dtypes=(("a", dtype),))
    values = built(form, schema, {"a": np.array([0, grid_of(schema["a"]).regular - 1])})["a"].astype("float64")
    exact = np.array([lower, lower + width])
    spacing = np.spacing(np.abs(exact).max().astype(dtype)).astype(np.float64)
    assert (np.abs(values - exact) <= 2 * spacing).all()
    assert lower <= values.iloc[0] or width < spacing
    assert values.iloc[1] <= lower + width or width < spacing


SMALL = {
    "pandas": ["int8", "uint8", "int16", "bool", "float16", "Int8", "boolean"],
    "polars": ["Int8", "UInt16", "Boolean", "Float32"],
    "pyarrow": ["int8", "uint16", "bool", "float"],
}


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(("library", "dtype"), [(library, one) for library, some in SMALL.items() for one in some])
def test_fresh_keys_are_different_though_a_small_type_held_the_real_ones(library, dtype):
    """A byte has room for 127 fresh keys: of more, two persons would get one key."""
    arrow = {"bool": pa.bool_(), "float": pa.float32(), "int8": pa.int8(), "uint16": pa.uint16()}
    frames = {
        "pandas": lambda: pd.DataFrame({"k": pd.Series([0, 1, 1]).astype(dtype)}),
        "polars": lambda: pl.DataFrame({"k": pl.Series([0, 1, 1]).cast(getattr(pl, dtype))}),
        "pyarrow": lambda: pa.table({"k": pa.array([0, 1, 1]).cast(arrow[dtype])}),
    }
    schema = Schema({"k": Identifier()})
    form = TableFormat.of(FrameSource(frames[library]()), schema)
    made = form.build(schema, {"k": fresh_labels(Identifier().support(), 70_000)})
    keys = next(iter(FrameSource(made).blocks({"k": Integer(0, 10**6)})))["k"].values
    assert len(np.unique(keys)) == 70_000


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64", "float64", "object", "Int64"])
def test_keys_keep_a_type_that_has_room_for_them(dtype):
    table = pd.DataFrame({"k": pd.Series([1, 2, 3]).astype(dtype)})
    assert dict(TableFormat.of(FrameSource(table), Schema({"k": Identifier()})).dtypes)["k"] == dtype
