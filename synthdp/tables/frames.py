"""Dataframes in memory, of any library that narwhals knows, to raw columns and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from synthdp.arrays import AnyArray, BoolArray, IntArray
from synthdp.domain.encoder import Labels, Numbers, RawColumn
from synthdp.errors import DataError
from synthdp.schema.columns import Boolean, Categorical, Column, Continuous, Datetime, Duration, Integer


class FrameSource:
    """The rows of one dataframe in memory.

    Parameters
    ----------
    table
        A dataframe of pandas, polars or pyarrow, or a lazy one, which is collected.

    Raises
    ------
    DataError
        If it is no dataframe, or has column names that are not texts or not different.
    """

    def __init__(self, table: object) -> None:
        self._frame = _frame(table)

    def __repr__(self) -> str:
        return f"FrameSource({len(self.names)} columns)"

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self._frame.columns)

    @property
    def is_empty(self) -> bool:
        """Whether there is no row at all."""
        return len(self._frame) == 0

    def series(self, name: str) -> nw.Series[Any]:
        """Return one column."""
        return self._frame[name]

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:
        """Yield the whole frame as one block."""
        block = {name: read_column(self._frame[name], column) for name, column in columns.items()}
        block |= {name: _labels(self._frame[name]) for name in extra}
        yield block


def read_column(series: nw.Series[Any], column: Column) -> RawColumn:
    """Return a series as raw values of a declared kind; what does not fit the kind is missing."""
    match column:
        case Continuous() | Integer():
            return _numbers(series)
        case Datetime():
            return _moments(series)
        case Duration():
            return _durations(series)
        case _:
            return _labels(series)


def infer_column(series: nw.Series[Any]) -> Column:
    """Return the kind of column that a series' type suggests, with bounds or levels left open.

    Looks at the type only, never at a value.
    """
    dtype = series.dtype
    can_be_null = not (
        nw.get_native_namespace(series) is pd
        and isinstance(series.to_native().dtype, np.dtype)
        and series.to_native().dtype.kind in "iub"
    )
    if dtype.is_integer():
        return Integer(nullable=can_be_null)
    if dtype.is_numeric():
        return Continuous(nullable=True)
    if dtype == nw.Boolean:
        return Boolean(nullable=can_be_null)
    if dtype == nw.Datetime or dtype == nw.Date:
        return Datetime(nullable=True, resolution="D" if dtype == nw.Date else "s")
    if dtype == nw.Duration:
        return Duration(nullable=True)
    return Categorical(nullable=True, other="other")


def _frame(table: object) -> nw.DataFrame[Any]:
    if isinstance(table, pd.DataFrame):
        names = list(table.columns)
        if not all(isinstance(name, str) for name in names):
            raise DataError(
                "column names must be texts: rename the columns, for example with table.columns.astype(str)"
            )
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise DataError(f"column {repeated[0]!r} occurs more than once")
    try:
        frame = nw.from_native(table)  # type: ignore[call-overload]
    except TypeError:
        raise DataError(f"the table must be a dataframe, not {type(table).__name__}") from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        raise DataError(f"the table must be a dataframe, not {type(table).__name__}")
    return frame


def _numbers(series: nw.Series[Any]) -> RawColumn:
    dtype = series.dtype
    if dtype == nw.Boolean:
        series = series.cast(nw.Int8)
        dtype = series.dtype
    if dtype.is_integer():
        missing = _missing(series)
        filled = series.fill_null(0) if missing is not None else series
        return Numbers(_int64(filled.to_numpy()), missing)
    if dtype.is_numeric():
        return Numbers(np.asarray(series.cast(nw.Float64).to_numpy(), np.float64))
    return _labels(series)


def _int64(values: AnyArray) -> IntArray:
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(2**63 - 1))
    return np.asarray(values, np.int64)


def _missing(series: nw.Series[Any]) -> BoolArray | None:
    missing = np.asarray(series.is_null().to_numpy(), np.bool_)
    return missing if missing.any() else None


def _moments(series: nw.Series[Any]) -> RawColumn:
    if series.dtype == nw.Date:
        series = series.cast(nw.Datetime("us"))
    if series.dtype == nw.Datetime:
        return _whole(series, series.dt.timestamp("us"))
    values = pd.to_datetime(pd.Series(_objects(series)), errors="coerce", utc=True, format="ISO8601")
    micros = values.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
    return Numbers(np.where(np.isnat(micros), 0, micros.astype(np.int64)), np.isnat(micros))


def _durations(series: nw.Series[Any]) -> RawColumn:
    if series.dtype == nw.Duration:
        return _whole(series, series.dt.total_microseconds())
    values = pd.to_timedelta(pd.Series(_objects(series)), errors="coerce").to_numpy(dtype="timedelta64[us]")
    return Numbers(np.where(np.isnat(values), 0, values.astype(np.int64)), np.isnat(values))


def _whole(series: nw.Series[Any], micros: nw.Series[Any]) -> Numbers:
    missing = _missing(series)
    filled = micros.fill_null(0) if missing is not None else micros
    return Numbers(np.nan_to_num(np.asarray(filled.to_numpy())).astype(np.int64), missing)


def _labels(series: nw.Series[Any]) -> Labels:
    codes, levels = pd.factorize(_objects(series), use_na_sentinel=True)
    return Labels(list(levels), codes.astype(np.int64))


def _objects(series: nw.Series[Any]) -> AnyArray:
    native = series.to_native()
    if isinstance(native, pd.Series):
        return np.asarray(native.to_numpy(dtype=object))
    return np.asarray(series.to_list(), dtype=object)
