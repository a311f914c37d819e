"""Columns of pyarrow: tables, and the Arrow types that pandas can hold, read as raw columns and built from them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from synthdp.arrays import LARGEST_WHOLE, AnyArray, IntArray
from synthdp.domain.encoder import Labels, Numbers, RawColumn
from synthdp.errors import FormatError
from synthdp.schema.column import Column
from synthdp.schema.times import RESOLUTIONS
from synthdp.tables.columns import cast as casting
from synthdp.tables.parse import (
    all_missing,
    declared,
    misfits,
    some,
    taken,
    times,
    truth_values,
    whole_numbers,
    written_numbers,
)
from synthdp.tables.plain import NANOSECONDS, Opaque, labels_of_objects, text_of_bytes
from synthdp.tables.refusals import instead_of, reading

_NOT_NULL = " not null"
"""The suffix of a type's public name for a field that is declared to have no missing values."""

_DEFAULTS = {"real": "double", "whole": "int64", "flag": "bool", "day": "date32[day]", "moment": "timestamp[us]",
             "length": "duration[us]", "text": "string", "mixed": "string", "clock": "time64[us]"}  # fmt: skip
"""The Arrow type in which each kind of column is stored by default."""

_BYTES = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
"""The binary type for each text type, so that texts that are not valid UTF-8 can be read as bytes."""

_TIMESTAMP = re.compile(r"timestamp\[(?P<resolution>s|ms|us|ns), tz=(?P<zone>[^\]]+)\]")
"""A regular expression of the public name of a timestamp type with a time zone, from which `type_named` makes the
type."""

_DECIMAL = re.compile(r"decimal(?P<bits>32|64|128|256)\((?P<precision>\d+), (?P<scale>-?\d+)\)")
"""A regular expression of the public name of a decimal type, from which `type_named` makes the type."""

_DICTIONARY = re.compile(r"dictionary<values=(?P<values>.+), indices=(?P<indices>u?int\d+), ordered=(?P<ordered>[01])>")
"""A regular expression of the public name of a dictionary type, from which `type_named` makes the type."""


def type_names(frame: Any) -> dict[str, str]:
    """Return each column's Arrow type as text, by which a released table gets equal types."""
    return {field.name: str(field.type) + ("" if field.nullable else _NOT_NULL) for field in frame.schema}


def default_type(column: Column) -> str:
    """Return the name of the Arrow type in which a column is stored if the private table has no Arrow types."""
    if zone := casting.zone(column):
        return f"timestamp[us, tz={zone}]"
    kind = casting.kind(column)
    return f"decimal128(38, {casting.scale(column)})" if kind == "decimal" else _DEFAULTS[kind]


def can_be_null(name: str) -> bool:
    """Return whether fields of this type name may hold missing values; schemas of other columns are not nullable."""
    return not name.endswith(_NOT_NULL)


def type_named(name: str) -> Any:
    """Return the Arrow type of a public name, which may come from a file.

    Raises
    ------
    FormatError
        If there is no such type, or it is a nested one.
    """
    name = name.removesuffix(_NOT_NULL)
    if found := _TIMESTAMP.fullmatch(name):
        return pa.timestamp(found["resolution"], found["zone"])
    if found := _DECIMAL.fullmatch(name):
        make = getattr(pa, f"decimal{found['bits']}")
        return make(int(found["precision"]), int(found["scale"]))
    if found := _DICTIONARY.fullmatch(name):
        values, indices = type_named(found["values"]), type_named(found["indices"])
        return pa.dictionary(indices, values, ordered=found["ordered"] == "1")
    with instead_of(ValueError, say=FormatError(f"pyarrow has no type {name!r}, or its values are lists or records")):
        return pa.type_for_alias(name)


def read_all(arrays: Iterable[Any], columns: Mapping[str, Column]) -> dict[str, RawColumn]:
    """Return raw values (labels or numbers) by column, from Arrow arrays in the order of the declared ``columns``."""
    found = {}
    for array_, (name, column) in zip(arrays, columns.items(), strict=True):
        with reading(name):
            found[name] = read(array_, column)
    return found


def read(series: Any, column: Column) -> RawColumn:
    """Return an Arrow array as raw values (labels or numbers) of a declared column.

    What does not fit becomes missing, or a label that is no level.
    """
    series = pa.chunked_array(series) if isinstance(series, pa.Array) else series
    kind, types = series.type, pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return read(_each_chunk(series, lambda chunk: chunk.storage, kind.storage_type), column)
    if types.is_run_end_encoded(kind):
        return read(_each_chunk(series, pc.run_end_decode, kind.value_type), column)
    if types.is_dictionary(kind):
        values, codes = _dictionary_of(series)
        return taken(read(values, column), codes)
    if _is_text(kind) or (_is_binary(kind) and column.names_rows):
        return declared(_texts(series), column)
    if types.is_boolean(kind):
        return _flags(series, column)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _numbers(series, column)
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_duration(kind):
        return _ticks(series, column)
    if types.is_time(kind) and column.quantity == "clock":
        return _ticks(series, column)
    if kind == pa.month_day_nano_interval() and column.quantity == "length":
        return _intervals(series)
    if column.names_rows:
        return _things(series)
    return misfits(series.is_null().to_numpy(), column)


def array(column: Column, raw: RawColumn, name: str) -> tuple[Any, bool]:
    """Return raw values as an Arrow array of the type called ``name``, and whether its field must allow nulls."""
    values = values_of(column, raw, name)
    return values, can_be_null(name) or values.null_count > 0


def values_of(column: Column, raw: RawColumn, name: str) -> Any:
    """Return raw values as an Arrow array of the type called ``name``; FormatError if the type cannot hold them."""
    kind = type_named(name)
    unfit = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError)
    with instead_of(*unfit, say=FormatError(f"{kind} cannot hold the values that the schema declares")):
        if pa.types.is_dictionary(kind):
            return _dictionary(column, raw, kind)
        if isinstance(raw, Labels):
            return _levels(column, raw.levels, kind).take(pa.array(raw.codes, mask=raw.codes < 0))
        return _numeric(column, raw, kind)


def frame(arrays: Mapping[str, tuple[Any, bool]]) -> Any:
    """Return an Arrow table of the arrays from `array`, without metadata such as pandas adds."""
    fields = [pa.field(name, values.type, nullable) for name, (values, nullable) in arrays.items()]
    return pa.table([values for values, _ in arrays.values()], schema=pa.schema(fields))


def _dictionary_of(series: Any) -> tuple[Any, IntArray]:
    """Return the distinct values of a dictionary array, and each row's index among them, (rows,), -1 where missing."""
    whole = series.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no chunk, or more than one array can hold
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], series.type)
    return whole.dictionary, pc.fill_null(whole.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)


def _each_chunk(series: Any, change: Callable[[Any], Any], kind: Any) -> Any:
    """Return a chunked array with ``change`` applied to each chunk; ``kind`` is the type of the result.

    Encodings such as run ends are so undone before values are read.
    """
    return pa.chunked_array([change(chunk) for chunk in series.chunks], kind)


def _is_text(kind: Any) -> bool:
    """Return whether an Arrow type holds texts, which may be invalid UTF-8 and so are decoded one by one."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view())


def _is_binary(kind: Any) -> bool:
    """Return whether an Arrow type holds bytes, which are read as texts in a column that names rows or persons."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _texts(series: Any) -> Labels:
    """Return texts or bytes as labels: the distinct values, and each row's index among them, (rows,).

    Labels are compared as bytes, because Arrow does not check that a text is valid UTF-8.
    """
    kind = series.type
    if kind == pa.string_view():
        series = _each_chunk(
            series, lambda chunk: chunk.cast(pa.binary_view()).cast(pa.large_binary()), pa.large_binary()
        )
    values, codes = _dictionary_of(pc.dictionary_encode(series.cast(_BYTES.get(series.type, series.type))))
    levels = values.to_pylist()
    return Labels([text_of_bytes(level) for level in levels] if _is_text(kind) else levels, codes)


def _things(series: Any) -> Labels:
    """Return values of a rarer type as labels, converted one by one, for a column that names rows or persons."""
    return labels_of_objects([_thing(one) for chunk in series.chunks for one in chunk])


def _thing(scalar: Any) -> object:
    """Return one Arrow value as a Python value; `Opaque` if Python cannot hold it, so that reading never fails."""
    if not scalar.is_valid:
        return None
    if pa.types.is_time(scalar.type):
        return _clock(scalar.value, scalar.type)
    try:
        return scalar.as_py()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - whatever it is, none may stop the reading
        return Opaque(None)


def _clock(ticks: int, kind: Any) -> object:
    """Return a time of day as a Python time, or `Opaque` if Python's time would round or wrap it."""
    micros, beyond = divmod(ticks * NANOSECONDS[kind.unit], 1000)
    if beyond or not 0 <= micros < RESOLUTIONS["D"]:
        return Opaque(f"{kind}:{ticks}")
    return (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)).time()  # noqa: DTZ001


def _intervals(series: Any) -> Numbers:
    """Return month-day-nano intervals as numbers of microseconds, (rows,); a month counts 30 days."""
    each = [None if one is None else _micros_of_interval(one) for one in series.to_pylist()]
    missing = np.array([one is None for one in each], np.bool_)
    return Numbers(np.array([0 if one is None else one for one in each], np.int64), some(missing))


def _micros_of_interval(value: Any) -> int:
    """Return an interval in microseconds, clipped to 62 bits; a month counts 30 days."""
    micros = (value.months * 30 + value.days) * RESOLUTIONS["D"] + value.nanoseconds // 1000
    return max(-LARGEST_WHOLE, min(int(micros), LARGEST_WHOLE))


def _flags(series: Any, column: Column) -> RawColumn:
    """Return truth values as labels or as the numbers 0 and 1, whichever the declared column needs.

    All values become missing in a column of times.
    """
    if column.temporal:
        return all_missing(len(series))
    flags = pc.fill_null(series, False).to_numpy().astype(np.int64)
    missing = some(series.is_null().to_numpy())
    return truth_values(flags, missing, column)


def _numbers(series: Any, column: Column) -> RawColumn:
    """Return numbers as raw values of the declared column; in a column of times they become microseconds.

    For a column of times, numbers are read as the digits of its text format, such as 20260131.
    Without a text format all values become missing.
    """
    if column.temporal:
        whole = pa.types.is_integer(series.type) or pa.types.is_floating(series.type)
        plain = _plain_numbers(series, column) if column.cells is not None and whole else None
        return written_numbers(plain, column) if isinstance(plain, Numbers) else all_missing(len(series))
    return _plain_numbers(series, column)


def _plain_numbers(series: Any, column: Column) -> RawColumn:
    """Return numbers as raw values of the declared column: floats or 64-bit integers.

    A float may lose digits of a decimal, so decimals are parsed one by one.  A column that has labels or names persons
    gets labels.
    """
    if pa.types.is_decimal(series.type):
        return declared(labels_of_objects(series.to_pylist()), column)
    if not pa.types.is_integer(series.type) or (pa.types.is_uint64(series.type) and column.real):
        return Numbers(pc.fill_null(series.cast(pa.float64(), safe=False), np.nan).to_numpy())
    missing = some(series.is_null().to_numpy()) if series.null_count else None
    return whole_numbers((series if missing is None else pc.fill_null(series, 0)).to_numpy(), missing, column)


def _ticks(series: Any, column: Column) -> RawColumn:
    """Return dates, moments, times or durations as microseconds, or unchanged as labels in a column that names persons.

    All values become missing in a column of numbers or of another kind of time.
    """
    kind = series.type
    wanted = "length" if pa.types.is_duration(kind) else "clock" if pa.types.is_time(kind) else "moment"
    if column.measured and column.quantity != wanted:
        return all_missing(len(series))
    missing = some(series.is_null().to_numpy())
    resolution = "D" if pa.types.is_date32(kind) else "ms" if pa.types.is_date64(kind) else kind.unit
    width = pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()
    ticks = pc.fill_null(series.cast(width), 0).to_numpy().astype(np.int64)
    return times(ticks, resolution, missing, column, lengths=wanted == "length")


def _levels(column: Column, levels: list[Any], kind: Any) -> Any:
    """Return a column's levels as an Arrow array of a type; raise FormatError if the type cannot hold them."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        return pa.array(casting.levels_as_text(levels, column), kind)
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
        exact = casting.decimals(None, numbers, precision=kind.precision, scale=kind.scale)
        return pa.array(exact, kind)
    raise FormatError(f"{kind} can hold none of the declared levels")


def _dictionary(column: Column, raw: RawColumn, kind: Any) -> Any:
    """Return a dictionary array whose dictionary is the schema's levels, or the distinct numbers of the output.

    Indices have 32 bits if the index type of ``kind`` has too few bits.  Levels without order get no order from
    the private column's type: the order of the schema's list means nothing.
    """
    missing = raw.gone
    if isinstance(raw, Labels):
        levels, codes = _levels(column, raw.levels, kind.value_type), raw.codes
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
    return pa.DictionaryArray.from_arrays(indices, levels, ordered=kind.ordered and column.ordered)


def _numeric(column: Column, raw: Numbers, kind: Any) -> Any:
    """Return raw numbers as an Arrow array of a type; raise FormatError if the type cannot hold them."""
    missing = raw.gone
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
    if types.is_temporal(kind):
        return _times(column, raw, kind)
    raise FormatError(f"{kind} cannot hold the values that the schema declares")


def _times(column: Column, raw: Numbers, kind: Any) -> Any:
    """Return microseconds as an Arrow array of type ``kind``; FormatError if the type is for another kind of time."""
    held = "length" if pa.types.is_duration(kind) else "clock" if pa.types.is_time(kind) else "moment"
    if held != column.quantity or kind == pa.month_day_nano_interval():
        raise FormatError(f"{kind} cannot hold the values that the schema declares")
    resolution = "D" if pa.types.is_date(kind) else kind.unit
    ticks, missing = casting.ticks(column, raw, resolution), raw.gone
    if pa.types.is_date64(kind):
        ticks *= 86_400_000
    return pa.array(ticks.astype(np.int32) if kind.bit_width == 32 else ticks, mask=missing).cast(kind)
