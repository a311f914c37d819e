"""Columns of polars, read as raw columns and built from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from synthdp.domain.encoder import Labels, Numbers, RawColumn
from synthdp.errors import FormatError
from synthdp.schema.column import Column
from synthdp.tables.columns import cast as casting
from synthdp.tables.parse import all_missing, declared, misfits, some, times, truth_values, written_numbers
from synthdp.tables.plain import labels_of_objects, text_of_bytes
from synthdp.tables.refusals import instead_of

_PARAMETERS = re.compile(r"(?P<name>\w+)\((?P<inside>.*)\)")
"""A regular expression of the public name of a type with parameters, from which `type_named` makes the type."""

_WHOLE = {
    str(kind): kind for kind in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
}
"""Polars integer types by their public names, from which `type_named` gets the type."""

_FLOAT = {str(kind): kind for kind in (pl.Float32, pl.Float64)}
"""Polars float types by their public names, from which `type_named` gets the type."""

_DEFAULTS = {"real": "Float64", "whole": "Int64", "flag": "Boolean", "day": "Date", "text": "String", "mixed": "String",
             "moment": "Datetime(time_unit='us', time_zone=None)", "length": "Duration(time_unit='us')",
             "clock": "Time"}  # fmt: skip
"""The polars type in which each kind of column is stored by default."""

_PLAIN = {str(kind): kind for kind in (pl.Boolean, pl.String, pl.Categorical, pl.Date, pl.Time, pl.Int128)}
"""Other polars types without parameters by their public names, from which `type_named` gets the type."""

_HELD = {pl.Datetime: "moment", pl.Date: "moment", pl.Duration: "length", pl.Time: "clock"}
"""The kind of time that each polars type of times holds, to check that a column declares the same kind."""


def type_names(frame: pl.DataFrame) -> dict[str, str]:
    """Return each column's polars type as text; Enum without its categories, which may be private."""
    return {name: _type_name(dtype) for name, dtype in frame.schema.items()}


def _type_name(dtype: Any) -> str:
    """Return a polars type as text, without its categories, which may be private."""
    return "Enum" if dtype == pl.Enum else "Categorical" if dtype == pl.Categorical else str(dtype)


def default_type(column: Column) -> str:
    """Return the name of the polars type in which a column is stored by default."""
    if zone := casting.zone(column):
        return f"Datetime(time_unit='us', time_zone='{zone}')"
    kind = casting.kind(column)
    return f"Decimal(precision=38, scale={casting.scale(column)})" if kind == "decimal" else _DEFAULTS[kind]


def can_be_null(name: str) -> bool:
    """Return True: in polars, columns of every type may hold missing values."""
    return bool(name)


def type_named(name: str, levels: list[Any]) -> Any:
    """Return the polars type of a public name, which may come from a file; an Enum gets ``levels`` as categories.

    Raises
    ------
    FormatError
        If polars has no such type, or the type is nested.
    """
    if name in {**_WHOLE, **_FLOAT, **_PLAIN}:
        return {**_WHOLE, **_FLOAT, **_PLAIN}[name]
    if name == "Enum":
        return pl.Enum([str(level) for level in levels])
    found = _PARAMETERS.fullmatch(name)
    settings = dict(re.findall(r"(\w+)='?([^',]+)'?", found["inside"])) if found else {}
    match found["name"] if found else None, settings:
        case "Datetime", {"time_unit": resolution, "time_zone": zone}:
            return pl.Datetime(resolution, None if zone == "None" else zone)
        case "Duration", {"time_unit": resolution}:
            return pl.Duration(resolution)
        case "Decimal", {"precision": precision, "scale": scale}:
            return pl.Decimal(int(precision), int(scale))
    raise FormatError(f"polars has no type {name!r}, or its values are lists or records")


def read(series: pl.Series, column: Column) -> RawColumn:
    """Return a series as raw values (labels or numbers) of a declared column.

    What does not fit becomes missing, or a label that is no level.
    """
    kind = series.dtype
    if kind in (pl.Categorical, pl.Enum):
        series, kind = series.cast(pl.String), pl.String()
    if kind == pl.String or (kind == pl.Binary and column.names_rows):
        return declared(_labels_of(series), column)
    if kind == pl.Boolean:
        return _flags(series, column)
    if kind.is_numeric():
        return _numbers(series, column)
    if kind in (pl.Datetime, pl.Date, pl.Duration) or (kind == pl.Time and column.quantity == "clock"):
        return _ticks(series, column)
    if kind == pl.Object:
        return declared(labels_of_objects(series.to_list()), column)
    if column.names_rows:
        return _things(series, column)
    return misfits(series.is_null().to_numpy(), column)


def array(column: Column, raw: RawColumn, name: str) -> pl.Series:
    """Return raw values as a polars Series of the type called ``name``; FormatError if the type cannot hold them."""
    kind = type_named(name, casting.levels_as_text(raw.levels, column) if isinstance(raw, Labels) else [])
    with instead_of(
        pl.exceptions.PolarsError, say=FormatError(f"{kind} cannot hold the values that the schema declares")
    ):
        if isinstance(raw, Labels):
            return _levels(column, raw.levels, kind).gather(
                pl.Series(np.where(raw.codes < 0, len(raw.levels), raw.codes))
            )
        return _numeric(column, raw, kind)


def frame(arrays: Mapping[str, pl.Series]) -> pl.DataFrame:
    """Return an eager DataFrame of the series from `array`."""
    return pl.DataFrame(dict(arrays))


def _labels_of(series: pl.Series) -> Labels:
    """Return texts or bytes as labels: the distinct values, and each row's index among them, (rows,).

    Labels are compared as bytes, because texts that came from Arrow may not be valid UTF-8.
    """
    raw = series.cast(pl.Binary)
    levels = raw.unique().drop_nulls()
    codes = raw.replace_strict(levels, pl.Series(range(len(levels)), dtype=pl.Int64), default=-1, return_dtype=pl.Int64)
    texts = levels.to_list() if series.dtype == pl.Binary else [text_of_bytes(level) for level in levels.to_list()]
    return Labels(texts, codes.fill_null(-1).to_numpy())


def _things(series: pl.Series, column: Column) -> RawColumn:
    """Return values of a nested type, or times of day, as labels; they are read through Arrow, because polars may panic."""
    with instead_of(
        ImportError,
        say=FormatError("identifiers of this type can be read with pyarrow only: pip install 'synthdp[arrow]'"),
    ):
        from synthdp.tables.columns import arrow as arrow_columns

        return arrow_columns.read(series.to_arrow(), column)


def _missing(series: pl.Series) -> Any:
    """Return a (rows,) mask of missing values; ``None`` without missing values, to save memory."""
    return some(series.is_null().to_numpy()) if series.null_count() else None


def _flags(series: pl.Series, column: Column) -> RawColumn:
    """Return truth values as labels or as the numbers 0 and 1, whichever the declared column needs.

    All values become missing in a column of times.
    """
    if column.temporal:
        return all_missing(len(series))
    flags = series.fill_null(value=False).cast(pl.Int64).to_numpy()
    missing = _missing(series)
    return truth_values(flags, missing, column)


def _numbers(series: pl.Series, column: Column) -> RawColumn:
    """Return numbers as raw values of the declared column; in a column of times they become microseconds.

    For a column of times, numbers are read as the digits of its text format, such as 20260131.
    Without a text format all values become missing.
    """
    if column.temporal:
        whole = series.dtype.is_integer() or series.dtype.is_float()
        plain = _plain_numbers(series, column) if column.cells is not None and whole else None
        return written_numbers(plain, column) if isinstance(plain, Numbers) else all_missing(len(series))
    return _plain_numbers(series, column)


def _plain_numbers(series: pl.Series, column: Column) -> RawColumn:
    """Return numbers as raw values of the declared column: floats or 64-bit integers.

    Decimals and integers beyond 64 signed bits are read one by one, unless the column is real: a float may lose digits.
    """
    kind = series.dtype
    wide = kind in (pl.UInt64, pl.Int128) or str(kind) == "UInt128"
    if kind.is_float() or (column.real and (wide or kind.is_decimal())):
        return Numbers(series.cast(pl.Float64).fill_null(np.nan).to_numpy())
    if wide or kind.is_decimal():
        return declared(labels_of_objects(series.to_list()), column)
    missing = _missing(series)
    values = (series if missing is None else series.fill_null(0)).to_numpy()
    return Numbers(values.astype(np.int64, copy=False), missing)


def _ticks(series: pl.Series, column: Column) -> RawColumn:
    """Return dates, moments, times or durations as microseconds, or unchanged as labels in a column that names persons.

    All values become missing in a column of numbers or of another kind of time.
    """
    wanted = _HELD[series.dtype.base_type()]
    if column.measured and column.quantity != wanted:
        return all_missing(len(series))
    resolution = "ns" if wanted == "clock" else getattr(series.dtype, "time_unit", "D")
    ticks = series.to_physical().fill_null(0).to_numpy().astype(np.int64)
    return times(ticks, resolution, _missing(series), column, lengths=wanted == "length")


def _levels(column: Column, levels: list[Any], kind: Any) -> pl.Series:
    """Return a column's levels as a series of a type, with a null at its end to which missing codes point."""
    values: list[Any]
    if kind in (pl.String, pl.Categorical, pl.Enum):
        values = [*casting.levels_as_text(levels, column)]
    elif kind == pl.Boolean:
        values = [*casting.levels_as_bool(levels)]
    elif kind.is_integer():
        first, last = _limits(kind)
        values = [*casting.levels_as_whole(levels, first=first, last=last)]
    elif kind.is_float():
        values = [*casting.levels_as_float(levels)]
    elif kind.is_decimal():
        numbers = Numbers(np.array(casting.levels_as_float(levels)))
        values = [*casting.decimals(None, numbers, precision=kind.precision, scale=kind.scale)]
    else:
        raise FormatError(f"{kind} can hold none of the declared levels")
    return pl.Series([*values, None], dtype=kind)


def _limits(kind: Any) -> tuple[int, int]:
    """Return the smallest and the largest integer of a polars type, to which a column's numbers are clipped."""
    bits = int(str(kind).lstrip("UInt"))
    return (0, 2**bits - 1) if str(kind).startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _numeric(column: Column, raw: Numbers, kind: Any) -> pl.Series:
    """Return raw numbers as a series of a type; raise FormatError if the type cannot hold them."""
    missing = raw.gone
    if kind == pl.Boolean:
        values = pl.Series(casting.whole(column, raw, first=0, last=1).astype(np.bool_))
    elif kind in (pl.String, pl.Categorical):
        return pl.Series(casting.texts(column, raw), dtype=pl.String).cast(kind)
    elif kind.is_integer():
        first, last = _limits(kind)
        values = pl.Series(casting.whole(column, raw, first=first, last=last)).cast(kind)
    elif kind.is_float():
        values = pl.Series(casting.real(column, raw, np.dtype(str(kind).lower())))
    elif kind.is_decimal():
        return pl.Series(casting.decimals(column, raw, precision=kind.precision, scale=kind.scale), dtype=kind)
    else:
        values = _times(column, raw, kind)
    return pl.select(pl.when(pl.Series(~missing)).then(values)).to_series()


def _times(column: Column, raw: Numbers, kind: Any) -> pl.Series:
    """Return microseconds as a series of type ``kind``; FormatError if the type is for another kind of time."""
    held = _HELD.get(kind.base_type())
    if held is None or held != column.quantity:
        raise FormatError(f"{kind} cannot hold the values that the schema declares")
    resolution: Any = "ns" if held == "clock" else getattr(kind, "time_unit", "D")
    ticks = pl.Series(casting.ticks(column, raw, resolution))
    if resolution == "D":
        return ticks.cast(pl.Int32).cast(kind)
    if held == "clock":
        return ticks.cast(pl.Time)
    plain = ticks.cast(pl.Duration(resolution) if held == "length" else pl.Datetime(resolution))
    zone = getattr(kind, "time_zone", None)
    return plain if zone is None else plain.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
