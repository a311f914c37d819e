"""NON-PRIVATE: a training, a synthetic and a held-out table as numbers and codes that mean the same in all three.

Values are compared as they are written: a column whose values all read as numbers holds numbers, any other holds labels.
With a schema they are first brought to what it may hold, as a release does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from synthdp.arrays import AnyArray, FloatArray, IntArray
from synthdp.domain.encoder import Labels
from synthdp.errors import DataError
from synthdp.nonprivate.evaluate import as_pandas
from synthdp.schema.columns import Categorical
from synthdp.schema.schema import Schema
from synthdp.tables.source import Source
from synthdp.tables.sources.dataframe import frame_of

WHO = ("train", "synthetic", "holdout")
BINS = 32
"""Cells of a column of numbers where whole distributions are compared; its quantiles in the synthetic table part them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of one of the three tables.

    Parameters
    ----------
    exact
        (n, d) codes of the values; rows with equal codes have equal values, in all three tables.
    coarse
        (n, d) the same, numbers in at most 32 cells.
    values
        (n, d) numbers as they are, NaN where missing; of labels their codes.
    """

    exact: IntArray
    coarse: IntArray
    values: FloatArray

    def __len__(self) -> int:
        return len(self.exact)

    def part(self, rows: IntArray) -> Table:
        """Return some of the rows."""
        return Table(exact=self.exact[rows], coarse=self.coarse[rows], values=self.values[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The three tables, and what their columns are.

    Parameters
    ----------
    names
        Columns that all three have.
    numeric
        Of each, whether it holds numbers.
    sizes, coarse_sizes
        How many codes each has.
    train, synthetic, holdout
        The rows.
    """

    names: tuple[str, ...]
    numeric: tuple[bool, ...]
    sizes: tuple[int, ...]
    coarse_sizes: tuple[int, ...]
    train: Table
    synthetic: Table
    holdout: Table


def joint_tables(tables: Sequence[Any], schema: Schema | None) -> Tables:
    """Read a training, a synthetic and a held-out table, in this order.

    Raises
    ------
    DataError
        If one cannot be read or has no rows, or they have no column in common.
    """
    frames = [_frame(table, schema, who) for table, who in zip(tables, WHO, strict=True)]
    names = [name for name in frames[1].columns if all(name in frame.columns for frame in frames)]
    if schema is not None:
        names = [name for name in names if not schema[name].names_rows]
    if not names:
        raise DataError("the train, synthetic and holdout tables have no column in common")
    for frame, who in zip(frames, WHO, strict=True):
        if not len(frame):
            raise DataError(f"the {who} table has no rows")
    ends = np.cumsum([len(frame) for frame in frames])[:-1]
    exact, coarse, values, numeric = [], [], [], []
    for name in names:
        number, column = _numbers_or_texts([frame[name] for frame in frames])
        codes, different = pd.factorize(column, use_na_sentinel=False)
        numeric.append(number)
        exact.append(codes.astype(np.int64))
        if number:
            inner = np.asarray(column, np.float64)
            coarse.append(_cells(inner, inner[ends[0] : ends[1]]) if len(different) > BINS else exact[-1])
            values.append(inner)
        else:
            coarse.append(exact[-1])
            values.append(codes.astype(np.float64))
    whole = Table(exact=np.column_stack(exact), coarse=np.column_stack(coarse), values=np.column_stack(values))
    parts = [whole.part(rows) for rows in np.split(np.arange(len(whole)), ends)]
    return Tables(
        names=tuple(names), numeric=tuple(numeric), train=parts[0], synthetic=parts[1], holdout=parts[2],
        sizes=tuple((whole.exact.max(axis=0) + 1).tolist()), coarse_sizes=tuple((whole.coarse.max(axis=0) + 1).tolist()),
    )  # fmt: skip


def _frame(table: Any, schema: Schema | None, who: str) -> pd.DataFrame:
    if schema is not None:
        return as_pandas(table, schema, who)
    if not isinstance(table, Source):
        return frame_of(table).to_pandas()
    columns = {name: Categorical() for name in table.names}
    blocks = [{name: _labels(block[name]) for name in columns} for block in table.blocks(columns)]
    return pd.concat([pd.DataFrame(block) for block in blocks], ignore_index=True)


def _labels(raw: Any) -> Any:
    if isinstance(raw, Labels):
        levels = np.empty(len(raw.levels) + 1, object)
        levels[:-1] = raw.levels
        return levels[raw.codes]
    return np.where(False if raw.missing is None else raw.missing, np.nan, raw.values)


def _cells(values: FloatArray, like: FloatArray) -> IntArray:
    """Return in which of at most 32 cells each value lies, parted by the quantiles of some; one more for missing values."""
    there = like[~np.isnan(like)]
    shares = np.linspace(0, 1, BINS + 1)[1:-1]
    cuts = np.unique(np.quantile(there, shares, method="nearest")) if len(there) else np.zeros(0)
    return np.where(np.isnan(values), len(cuts) + 1, np.searchsorted(cuts, values, "right")).astype(np.int64)


def _ticks(times: AnyArray) -> pd.Series[Any]:
    return pd.Series(np.where(np.isnat(times), np.nan, times.astype(np.int64).astype(np.float64)))


def _numbers_or_texts(columns: Sequence[pd.Series[Any]]) -> tuple[bool, pd.Series[Any]]:
    """Return whether a column of three tables holds numbers, and its values in all three, one after the other."""
    parts = []
    for column in columns:
        if pd.api.types.is_datetime64_any_dtype(column):
            moments = pd.to_datetime(column, utc=True).dt.tz_localize(None).to_numpy().astype("datetime64[us]")
            parts.append(_ticks(moments))
        elif pd.api.types.is_timedelta64_dtype(column):
            parts.append(_ticks(column.to_numpy().astype("timedelta64[us]")))
        elif pd.api.types.is_bool_dtype(column) or not pd.api.types.is_numeric_dtype(column):
            parts.append(pd.Series(column.astype(object).where(column.notna(), None)))
        else:
            parts.append(pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan)))
    whole = pd.concat([part.reset_index(drop=True) for part in parts], ignore_index=True)
    if whole.dtype != object:
        return True, whole
    there = whole.notna()
    texts = whole[there].astype(str)
    numbers = pd.to_numeric(texts, errors="coerce")
    if len(numbers) and numbers.notna().all():
        found = pd.Series(np.nan, index=whole.index)
        found[there] = numbers.astype(np.float64)
        return True, found
    whole[there] = texts
    return False, whole
