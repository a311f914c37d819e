"""The outer form of a table: library, column types and their order, so that a synthetic table looks like the real one.

Types and names are public; nothing here holds a value of a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from synthdp.domain.encoder import Labels, Numbers, RawColumn
from synthdp.domain.grid import labels_of
from synthdp.errors import FormatError
from synthdp.schema.columns import Boolean, Categorical, Column, Continuous, Datetime, Duration, Integer, Ordinal
from synthdp.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFormat:
    """The library and the column types of a table.

    Parameters
    ----------
    library
        Name of the dataframe library.
    dtypes
        The library's own name of each column's type.
    """

    library: str
    dtypes: tuple[tuple[str, str], ...]

    @classmethod
    def default(cls, schema: Schema) -> TableFormat:
        """Return pandas with the types that suit a schema."""
        return cls(library="pandas", dtypes=tuple((name, _default_dtype(column)) for name, column in schema.items()))

    def build(self, schema: Schema, columns: Mapping[str, RawColumn]) -> Any:  # noqa: ANN401 - a frame of any library
        """Return a table in this format from raw columns of the schema."""
        dtypes = dict(self.dtypes)
        return pd.DataFrame({name: _pandas(schema[name], columns[name], dtypes[name]) for name in dtypes})

    def to_document(self) -> dict[str, Any]:
        """Return the format as a JSON document."""
        return {"library": self.library, "dtypes": [list(pair) for pair in self.dtypes]}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> TableFormat:
        """Read a format from its JSON document.

        Raises
        ------
        FormatError
            If it has another shape.
        """
        try:
            dtypes = tuple((str(name), str(dtype)) for name, dtype in document["dtypes"])
            return cls(library=str(document["library"]), dtypes=dtypes)
        except (KeyError, TypeError, ValueError):
            raise FormatError("a table format must name a library and its column types") from None


def _default_dtype(column: Column) -> str:
    match column:
        case Continuous():
            return "float64"
        case Integer():
            return "Int64" if column.nullable else "int64"
        case Boolean():
            return "boolean" if column.nullable else "bool"
        case Datetime():
            return "datetime64[us]"
        case Duration():
            return "timedelta64[us]"
        case Categorical() | Ordinal():
            texts = all(isinstance(level, str) for level in labels_of(column))
            return "str" if texts else "object"
        case _:
            return "object"


def _pandas(column: Column, raw: RawColumn, dtype: str) -> pd.Series[Any]:
    if isinstance(raw, Labels):
        values = np.array([*raw.levels, None], dtype=object)[raw.codes]
        if dtype == "category":
            levels = pd.CategoricalDtype(list(raw.levels), ordered=isinstance(column, Ordinal))
            return pd.Series(pd.Categorical(values, dtype=levels))
        return pd.Series(values, dtype=object).astype(dtype)  # type: ignore[call-overload,no-any-return]
    return _numeric(column, raw, dtype)


def _numeric(column: Column, raw: Numbers, dtype: str) -> pd.Series[Any]:
    if isinstance(column, (Datetime, Duration)):
        kind = "datetime64[us]" if isinstance(column, Datetime) else "timedelta64[us]"
        moments = raw.values.astype(np.int64).view(kind)
        if raw.missing is not None:
            moments = np.where(raw.missing, np.array("NaT", kind), moments)
        series = pd.Series(moments)
        zone = getattr(pd.api.types.pandas_dtype(dtype), "tz", None)
        return (series.dt.tz_localize("UTC") if zone is not None else series).astype(dtype)  # type: ignore[no-any-return,call-overload]
    if raw.missing is None:
        return pd.Series(raw.values).astype(dtype)  # type: ignore[no-any-return,call-overload]
    return pd.Series(raw.values).astype("object").mask(raw.missing, None).astype(dtype)  # type: ignore[no-any-return,call-overload]
