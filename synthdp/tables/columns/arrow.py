"""Columns of pyarrow: tables, and the Arrow types that pandas can hold, read as raw columns and built from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from synthdp.arrays import AnyArray
from synthdp.domain.encoder import Labels, Numbers, RawColumn
from synthdp.domain.grid import has_labels
from synthdp.errors import FormatError
from synthdp.schema.columns import Column, Continuous, Datetime, Duration, Identifier, Integer
from synthdp.tables.columns import cast as casting
from synthdp.tables.columns.parse import all_missing, declared, labels_of_objects, micros, some

_NOT_NULL = " not null"
_DEFAULTS = {"real": "double", "whole": "int64", "flag": "bool", "day": "date32[day]", "moment": "timestamp[us]",
             "length": "duration[us]", "text": "string", "mixed": "string"}  # fmt: skip
_TIMESTAMP = re.compile(r"timestamp\[(?P<unit>s|ms|us|ns), tz=(?P<zone>[^\]]+)\]")
_DECIMAL = re.compile(r"decimal(?P<bits>32|64|128|256)\((?P<precision>\d+), (?P<scale>-?\d+)\)")
_DICTIONARY = re.compile(r"dictionary<values=(?P<values>.+), indices=(?P<indices>u?int\d+), ordered=(?P<ordered>[01])>")


def type_names(frame: Any) -> dict[str, str]:
    """Return the public name of each column's type."""
    return {field.name: str(field.type) + ("" if field.nullable else _NOT_NULL) for field in frame.schema}


def default_type(column: Column) -> str:
    """Return the name of the type that suits a column."""
    return _DEFAULTS[casting.kind(column)]


def can_be_null(name: str) -> bool:
    """Say whether a type of that name can hold a missing value."""
    return not name.endswith(_NOT_NULL)


def type_named(name: str) -> Any:
    """Return the type of a public name.

    Raises
    ------
    FormatError
        If there is no such type, or it is a nested one.
    """
    name = name.removesuffix(_NOT_NULL)
    if found := _TIMESTAMP.fullmatch(name):
        return pa.timestamp(found["unit"], found["zone"])
    if found := _DECIMAL.fullmatch(name):
        make = getattr(pa, f"decimal{found['bits']}")
        return make(int(found["precision"]), int(found["scale"]))
    if found := _DICTIONARY.fullmatch(name):
        values, indices = type_named(found["values"]), type_named(found["indices"])
        return pa.dictionary(indices, values, ordered=found["ordered"] == "1")
    try:
        return pa.type_for_alias(name)
    except ValueError:
        raise FormatError("there is no such type, or it is a nested one") from None


def read(series: Any, column: Column) -> RawColumn:
    """Return an array as raw values of a declared column; what does not fit the declaration is missing."""
    series = pa.chunked_array(series) if isinstance(series, pa.Array) else series
    kind = series.type
    if pa.types.is_dictionary(kind):
        return declared(_coded(series), column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return declared(_coded(pc.dictionary_encode(series)), column)
    if pa.types.is_boolean(kind):
        return _flags(series, column)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _numbers(series, column)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_duration(kind):
        return _ticks(series, column)
    values = series.to_pylist()
    return declared(labels_of_objects(np.fromiter(values, dtype=object, count=len(values))), column)


def array(column: Column, raw: RawColumn, name: str) -> tuple[Any, bool]:
    """Return a raw column as an array of the type of that name, and whether its field may be null."""
    values = values_of(column, raw, name)
    return values, can_be_null(name) or values.null_count > 0


def values_of(column: Column, raw: RawColumn, name: str) -> Any:
    """Return a raw column as an array of the type of that name."""
    kind = type_named(name)
    try:
        if pa.types.is_dictionary(kind):
            return _dictionary(column, raw, kind)
        if isinstance(raw, Labels):
            return _levels(raw.levels, kind).take(pa.array(raw.codes, mask=raw.codes < 0))
        return _numeric(column, raw, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        raise FormatError("the type does not hold what the schema declares") from None


def frame(arrays: Mapping[str, tuple[Any, bool]]) -> Any:
    """Return a table without metadata."""
    fields = [pa.field(name, values.type, nullable) for name, (values, nullable) in arrays.items()]
    return pa.table([values for values, _ in arrays.values()], schema=pa.schema(fields))


def _coded(series: Any) -> Labels:
    whole = series.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no chunk, or more than one array can hold
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], series.type)
    codes = pc.fill_null(whole.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    levels = whole.dictionary.to_pylist()
    none = [i for i, level in enumerate(levels) if level is None]
    return Labels(levels, np.where(np.isin(codes, none), -1, codes) if none else codes)


def _flags(series: Any, column: Column) -> RawColumn:
    if isinstance(column, (Datetime, Duration)):
        return all_missing(len(series))
    flags = pc.fill_null(series, False).to_numpy().astype(np.int64)
    missing = some(series.is_null().to_numpy())
    if has_labels(column):
        return declared(Labels([False, True], flags if missing is None else np.where(missing, -1, flags)), column)
    return Numbers(flags, missing)


def _numbers(series: Any, column: Column) -> RawColumn:
    if isinstance(column, (Datetime, Duration)):
        return all_missing(len(series))
    if pa.types.is_decimal(series.type):
        values = series.to_pylist()
        return declared(labels_of_objects(np.fromiter(values, dtype=object, count=len(values))), column)
    wide = pa.types.is_uint64(series.type)
    if not pa.types.is_integer(series.type) or (wide and isinstance(column, Continuous)):
        return Numbers(pc.fill_null(series.cast(pa.float64(), safe=False), np.nan).to_numpy())
    missing = some(series.is_null().to_numpy()) if series.null_count else None
    values = (series if missing is None else pc.fill_null(series, 0)).to_numpy()
    if wide:
        values = np.minimum(values, np.uint64(2**63 - 1))
    return Numbers(values.astype(np.int64, copy=False), missing)


def _ticks(series: Any, column: Column) -> RawColumn:
    kind = series.type
    wanted = Duration if pa.types.is_duration(kind) else Datetime
    if not isinstance(column, wanted) and isinstance(column, (Datetime, Duration, Continuous, Integer)):
        return all_missing(len(series))
    missing = some(series.is_null().to_numpy())
    unit = "D" if pa.types.is_date32(kind) else "ms" if pa.types.is_date64(kind) else kind.unit
    width = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    ticks = pc.fill_null(series.cast(width), 0).to_numpy().astype(np.int64)
    return micros(ticks, unit, missing)


def _levels(levels: list[Any], kind: Any) -> Any:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        return pa.array(casting.levels_as_text(levels), kind)
    if pa.types.is_boolean(kind):
        return pa.array(casting.levels_as_bool(levels), kind)
    if pa.types.is_integer(kind):
        first = 0 if pa.types.is_unsigned_integer(kind) else -(2 ** (kind.bit_width - 1))
        last = first + 2**kind.bit_width - 1
        return pa.array(casting.levels_as_whole(levels, first=first, last=last), kind)
    if pa.types.is_floating(kind):
        return pa.array(np.array(casting.levels_as_float(levels)), pa.float64()).cast(kind, safe=False)
    if pa.types.is_decimal(kind):
        numbers = Numbers(np.array(casting.levels_as_float(levels)))
        exact = casting.decimals(Identifier(), numbers, precision=kind.precision, scale=kind.scale)
        return pa.array(exact, kind)
    raise FormatError("the type holds none of the declared levels")


def _dictionary(column: Column, raw: RawColumn, kind: Any) -> Any:
    """Return a dictionary array of the schema's levels, or of the different numbers of the output."""
    missing = casting.nulls(raw)
    if isinstance(raw, Labels):
        levels, codes = _levels(raw.levels, kind.value_type), raw.codes
    else:
        here: AnyArray = raw.values[~missing]
        values, places = np.unique(here, return_inverse=True)
        levels, codes = (
            values_of(column, Numbers(values), str(kind.value_type)),
            np.zeros(len(missing), np.int64),
        )
        codes[~missing] = places
    narrow = len(levels) > 2 ** (kind.index_type.bit_width - 1)
    index = pa.int32() if narrow else kind.index_type
    indices = pa.array(np.maximum(codes, 0), mask=missing).cast(index)
    return pa.DictionaryArray.from_arrays(indices, levels, ordered=kind.ordered)


def _numeric(column: Column, raw: Numbers, kind: Any) -> Any:
    missing = casting.nulls(raw)
    types = pa.types
    if types.is_integer(kind):
        first = 0 if types.is_unsigned_integer(kind) else -(2 ** (kind.bit_width - 1))
        last = first + 2**kind.bit_width - 1
        return pa.array(casting.whole(column, raw, first=first, last=last), mask=missing).cast(kind)
    if types.is_floating(kind):
        return pa.array(casting.real(column, raw, np.dtype(kind.to_pandas_dtype())), mask=missing)
    if types.is_boolean(kind):
        return pa.array(casting.whole(column, raw, first=0, last=1).astype(np.bool_), mask=missing)
    if types.is_decimal(kind):
        return pa.array(casting.decimals(column, raw, precision=kind.precision, scale=kind.scale), kind)
    if types.is_string(kind) or types.is_large_string(kind) or kind == pa.string_view():
        return pa.array(casting.texts(column, raw), kind)
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_duration(kind):
        return _times(column, raw, kind)
    raise FormatError("the type does not hold what the schema declares")


def _times(column: Column, raw: Numbers, kind: Any) -> Any:
    length = pa.types.is_duration(kind)
    if length != isinstance(column, Duration):
        raise FormatError("the type does not hold what the schema declares")
    unit = "D" if pa.types.is_date(kind) else kind.unit
    ticks, missing = casting.ticks(column, raw, unit), casting.nulls(raw)
    if pa.types.is_date64(kind):
        ticks *= 86_400_000
    return pa.array(ticks.astype(np.int32) if pa.types.is_date32(kind) else ticks, mask=missing).cast(kind)
