"""Columns of pandas: numpy, nullable, Arrow and categorical types, read as raw columns and built from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from synthdp.arrays import LARGEST_WHOLE, AnyArray
from synthdp.domain.encoder import Labels, Numbers, RawColumn
from synthdp.errors import FormatError
from synthdp.schema.column import Column
from synthdp.schema.plain_values import micros_of_ticks
from synthdp.tables.columns import cast as casting
from synthdp.tables.parse import (
    all_missing,
    declared,
    some,
    taken,
    times,
    truth_values,
    whole_numbers,
    written_numbers,
)
from synthdp.tables.plain import labels_of_objects
from synthdp.tables.refusals import instead_of

_CATEGORY = re.compile(r"category\[(?P<levels>.*?)(?P<ordered>, ordered)?\]")
"""A regular expression of the public name of a categorical type, by which `array` makes a released column categorical."""

_STRING = re.compile(r"(?P<name>str|string)\((?P<storage>\w+)\)")
"""A regular expression of the public name of a text type, from which `dtype_named` makes the dtype."""

_NULLABLE = {"int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64", "uint8": "UInt8", "uint16": "UInt16",
             "uint32": "UInt32", "uint64": "UInt64", "bool": "boolean"}  # fmt: skip
"""The nullable pandas type for each NumPy type that cannot hold missing values."""

_TEXT = "object" if int(pd.__version__.split(".")[0]) < 3 else "str"
"""The default text type of the installed version of pandas."""

_DEFAULTS = {"real": "float64", "whole": "int64", "flag": "bool", "day": "datetime64[us]", "moment": "datetime64[us]",
             "length": "timedelta64[us]", "text": _TEXT, "mixed": "object",
             "clock": "object", "decimal": "object"}  # fmt: skip
"""The pandas type in which each kind of column is stored by default."""


def type_names(frame: pd.DataFrame) -> dict[str, str]:
    """Return each column's dtype as text, by which a released table gets equal dtypes."""
    return {str(name): type_name(dtype) for name, dtype in frame.dtypes.items()}


def type_name(dtype: Any) -> str:
    """Return a dtype as text, without its categories, which may be private."""
    if isinstance(dtype, pd.CategoricalDtype):
        levels = "object" if dtype.categories is None else type_name(dtype.categories.dtype)
        return f"category[{levels}, ordered]" if dtype.ordered else f"category[{levels}]"
    if isinstance(dtype, pd.StringDtype):
        name = "str" if isinstance(getattr(dtype, "na_value", pd.NA), float) else "string"
        return f"{name}({dtype.storage})"  # "string[pyarrow]" is the name of another type, Arrow's
    return str(dtype)


def default_type(column: Column) -> str:
    """Return the name of the dtype in which a column is stored by default."""
    if zone := casting.zone(column):
        return f"datetime64[us, {zone}]"
    name = _DEFAULTS[casting.kind(column)]
    return _NULLABLE.get(name, name) if column.nullable else name


def _objects(series: pd.Series[Any]) -> AnyArray:
    """Return a series' cells as Python objects, (rows,).

    An interval whose ends pandas before 3 refuses to show becomes a tuple of its ends, so that reading never fails.
    """
    if not isinstance(series.dtype, pd.IntervalDtype):
        return np.asarray(series.to_numpy(dtype=object))
    found = np.empty(len(series), object)
    here = series.notna().to_numpy()
    for i in np.flatnonzero(here):
        try:
            found[i] = series.iloc[i]
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - whatever an end of it raises
            found[i] = (series.array.left[i], series.array.right[i])
    return found


def can_be_null(name: str) -> bool:
    """Return whether columns of this dtype name may hold missing values; schemas of other columns are not nullable."""
    return name not in _NULLABLE


def read(series: pd.Series[Any], column: Column) -> RawColumn:
    """Return a series as raw values (labels or numbers) of a declared column.

    What does not fit becomes missing, or a label that is no level.
    """
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return taken(read(pd.Series(dtype.categories), column), series.cat.codes.to_numpy().astype(np.int64))
    if isinstance(dtype, pd.ArrowDtype) or (isinstance(dtype, pd.StringDtype) and dtype.storage == "pyarrow"):
        from synthdp.tables.columns import arrow as arrow_columns

        return arrow_columns.read(series.array.__arrow_array__(), column)
    if isinstance(dtype, pd.SparseDtype):
        return read(pd.Series(series.array.to_dense()), column)
    if isinstance(dtype, pd.PeriodDtype):
        return _periods(series, column)
    match dtype.kind:
        case "i" | "u" | "f" | "b" if not _is_wide(dtype, column):
            return _numbers(series, column)
        case "M" | "m":
            return _ticks(series, column)
    return declared(labels_of_objects(_objects(series)), column)


def array(column: Column, raw: RawColumn, name: str) -> Any:
    """Return raw values as an array of the named dtype, or of its nullable variant if values are missing."""
    if name.endswith("[pyarrow]"):
        from synthdp.tables.columns import arrow as arrow_columns

        return pd.arrays.ArrowExtensionArray(arrow_columns.values_of(column, raw, name.removesuffix("[pyarrow]")))
    if found := _CATEGORY.fullmatch(name):
        return _categories(column, raw, found["levels"], ordered=found["ordered"] is not None)
    if raw.gone.any():
        name = _NULLABLE.get(name, name)
    dtype = dtype_named(name)
    if isinstance(raw, Labels):
        return _levels(column, raw.levels, dtype).take(raw.codes, allow_fill=True)
    return _numeric(column, raw, dtype)


def frame(arrays: Mapping[str, Any]) -> pd.DataFrame:
    """Return a DataFrame of the arrays from `array`; NumPy arrays that occur once are not copied."""
    held: set[int] = set()

    def series(values: Any) -> pd.Series[Any]:
        own = isinstance(values, np.ndarray) and values.flags.owndata and values.flags.writeable
        shared = not own or id(values) in held
        held.add(id(values))
        found: pd.Series[Any] = pd.Series(values, dtype=values.dtype, copy=shared)
        return found

    return pd.DataFrame({name: series(values) for name, values in arrays.items()}, copy=False)


def _numbers(series: pd.Series[Any], column: Column) -> RawColumn:
    """Return numbers as raw values of the declared column; in a column of times they become microseconds.

    For a column of times, numbers are read as the digits of its text format, such as 20260131.
    Without a text format all values become missing.
    """
    if column.temporal and column.cells is not None and series.dtype.kind != "b":
        return written_numbers(_plain_numbers(series, column), column)
    return all_missing(len(series)) if column.temporal else _plain_numbers(series, column)


def _plain_numbers(series: pd.Series[Any], column: Column) -> Any:
    """Return numbers as raw values of the declared column: floats or 64-bit integers.

    Truth values are labels if the column has labels, else 0 and 1.
    """
    masked = not isinstance(series.dtype, np.dtype)
    missing = some(series.isna().to_numpy()) if masked else None
    kind = series.dtype.kind
    if kind == "b":
        flags = series.to_numpy(np.bool_, na_value=False) if masked else series.to_numpy()
        return truth_values(flags.astype(np.int64), missing, column)
    if kind == "f" or (kind == "u" and column.real):
        with np.errstate(over="ignore"):  # a warning would tell of one large value
            return Numbers(series.to_numpy(np.float64, na_value=np.nan) if masked else series.to_numpy(np.float64))
    values = series.to_numpy(series.dtype.name.lower(), na_value=0) if masked else series.to_numpy()
    return whole_numbers(values, missing, column)


def _is_wide(dtype: Any, column: Column) -> bool:
    """Return whether numbers of a dtype identify persons but would lose digits as 64-bit floats.

    Such identifiers are read one by one, so that two persons never become one.
    """
    return column.names_rows and dtype.kind == "f" and np.dtype(dtype.name.lower()).itemsize > 8


def _ticks(series: pd.Series[Any], column: Column) -> RawColumn:
    """Return moments or durations as microseconds, or unchanged as labels in a column that names persons.

    All values become missing in a column that is declared as numbers, or as durations where the values are moments, or
    as moments where they are durations.
    """
    kind, wanted = series.dtype.kind, {"moment": "M", "length": "m"}.get(column.quantity)
    if wanted != kind and column.measured:
        return all_missing(len(series))
    if isinstance(series.dtype, pd.DatetimeTZDtype):
        series = series.dt.tz_convert(None)
    values = series.to_numpy()
    resolution, gone = np.datetime_data(values.dtype)[0], some(np.isnat(values))
    return times(values.view(np.int64), resolution, gone, column, lengths=kind == "m")


def _periods(series: pd.Series[Any], column: Column) -> RawColumn:
    """Return periods as labels in a column of labels or identifiers; in a column of moments as microseconds.

    The microseconds are of a period's first moment, clipped to 62 bits.  In a column of numbers or durations all values
    become missing.
    """
    if column.measured and column.quantity != "moment":
        return all_missing(len(series))
    codes, levels = pd.factorize(series)
    if column.quantity != "moment":
        return taken(declared(labels_of_objects(list(levels)), column), codes)
    begins = [_begin(level) for level in levels]
    return taken(Numbers(np.array(begins, np.int64)), codes)


def _begin(period: Any) -> int:
    """Return the microseconds since 1970 of a period's first moment, clipped to 62 bits."""
    try:
        micros = micros_of_ticks(period.to_timestamp().asm8)
    except (ValueError, OverflowError):  # beyond the years that pandas' moments have
        micros = None
    return micros if micros is not None else LARGEST_WHOLE if period.ordinal > 0 else -LARGEST_WHOLE


def dtype_named(name: str) -> Any:
    """Return the pandas dtype of a public name, which may come from a file.

    Raises
    ------
    FormatError
        If this pandas knows no such type.
    """
    found = _STRING.fullmatch(name)
    missing = instead_of(ImportError, say=FormatError(f"the type {name} needs pyarrow: pip install 'synthdp[arrow]'"))
    with (
        missing,
        instead_of(TypeError, ValueError, SyntaxError, say=FormatError(f"this version of pandas has no type {name!r}")),
    ):
        if found and found["name"] == "string":
            return pd.StringDtype(found["storage"])
        if found:
            return pd.StringDtype(found["storage"], na_value=np.nan) if _TEXT == "str" else np.dtype(object)
        return pd.api.types.pandas_dtype(_TEXT if name == "str" else name)


def _categories(column: Column, raw: RawColumn, name: str, *, ordered: bool) -> pd.Categorical[Any]:
    """Return a Categorical whose categories are the schema's levels, or the distinct numbers of the output.

    Levels without order get no order from the private column's dtype: the order of the schema's list means nothing.
    """
    if not isinstance(raw, Labels):
        here = ~raw.gone
        numbers: AnyArray = raw.values[here]
        values, places = np.unique(numbers, return_inverse=True)
        same, levels = pd.Index(array(column, Numbers(values), name)).factorize()  # of different numbers, clipped ones
        codes = np.full(len(here), -1)
        codes[here] = same[places]
    else:
        codes, levels = raw.codes, pd.Index(_levels(column, raw.levels, dtype_named(name)))
    return pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(levels, ordered=ordered and column.ordered))


def _levels(column: Column, levels: list[Any], dtype: Any) -> Any:
    """Return a column's levels as an array of a dtype; raise FormatError if the dtype cannot hold them."""
    if isinstance(dtype, pd.StringDtype):
        return pd.array(casting.levels_as_text(levels, column), dtype=dtype)
    if dtype == np.dtype(object):
        levels = levels if column.cells is None else casting.levels_as_text(levels, column)
        return pd.array(np.fromiter(levels, dtype=object, count=len(levels)), dtype=dtype)
    match dtype.kind:
        case "i" | "u" if not isinstance(dtype, pd.SparseDtype):
            limits = np.iinfo(dtype.name.lower())
            return pd.array(casting.levels_as_whole(levels, first=int(limits.min), last=int(limits.max)), dtype=dtype)
        case "f" if not isinstance(dtype, pd.SparseDtype):
            return pd.array(casting.levels_as_float(levels), dtype=dtype)
        case "b" if not isinstance(dtype, pd.SparseDtype):
            return pd.array(casting.levels_as_bool(levels), dtype=dtype)
    raise FormatError(f"{dtype} can hold none of the declared levels")


def _numeric(column: Column, raw: Numbers, dtype: Any) -> Any:
    """Return raw numbers as an array of a dtype; raise FormatError if the dtype cannot hold them."""
    missing = raw.gone
    if isinstance(dtype, pd.StringDtype):
        return pd.array(casting.texts(column, raw), dtype=dtype)
    if isinstance(dtype, pd.PeriodDtype):
        moments: Any = pd.Series(_times(column, raw, "datetime64[us]"))
        return moments.dt.to_period(dtype.freq).array
    if dtype == np.dtype(object):
        plain = casting.objects(column, raw) if column.cells is None else casting.texts(column, raw)
        return np.fromiter((np.nan if one is None else one for one in plain), dtype=object, count=len(plain))
    if isinstance(dtype, pd.SparseDtype):
        raise FormatError("a sparse column is not supported: make it dense with column.sparse.to_dense()")
    masked = not isinstance(dtype, np.dtype)
    match dtype.kind:
        case "i" | "u":
            limits = np.iinfo(dtype.name.lower())
            found = casting.whole(column, raw, first=int(limits.min), last=int(limits.max))
            values: Any = found.astype(limits.dtype, copy=False)
            return pd.arrays.IntegerArray(values, missing) if masked else values
        case "f":
            values = casting.real(column, raw, np.dtype(dtype.name.lower()))
            return pd.arrays.FloatingArray(np.where(missing, 1, values), missing) if masked else values
        case "b":
            values = casting.whole(column, raw, first=0, last=1).astype(np.bool_)
            return pd.arrays.BooleanArray(values, missing) if masked else values
        case "M" if isinstance(dtype, pd.DatetimeTZDtype):
            moments = pd.Series(_times(column, raw, f"datetime64[{dtype.unit}]"))
            return moments.dt.tz_localize("UTC").astype(dtype).array
        case "M" | "m":
            return _times(column, raw, dtype.name)
    raise FormatError(f"{dtype} cannot hold the values that the schema declares")


def _times(column: Column, raw: Numbers, name: str) -> AnyArray:
    """Return microseconds as NumPy moments or durations, (n,), of the dtype ``name``.

    FormatError is raised if the dtype is for moments and the column for durations, or the other way round.
    """
    dtype = np.dtype(name)
    resolution = np.datetime_data(dtype)[0]
    if resolution == "generic" or (dtype.kind == "M") != (column.quantity == "moment"):
        raise FormatError(f"{dtype} cannot hold the values that the schema declares")
    values = casting.ticks(column, raw, resolution)
    times = values.view(dtype)
    times[raw.gone] = np.array("NaT", dtype)
    return times
