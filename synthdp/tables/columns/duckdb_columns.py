"""Relations of DuckDB, which are read by way of Arrow, and built as Arrow and cast to DuckDB's types.

A built relation belongs to DuckDB's default connection, so that ``duckdb.sql`` can query it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import duckdb

from synthdp.domain.encoder import Labels, RawColumn
from synthdp.errors import FormatError
from synthdp.schema.columns import Column
from synthdp.tables.columns import arrow as arrow_columns, cast as casting
from synthdp.tables.columns.arrow import read

__all__ = ["array", "can_be_null", "default_type", "frame", "read", "type_names"]

_ARROW = {
    "BOOLEAN": "bool", "TINYINT": "int8", "SMALLINT": "int16", "INTEGER": "int32", "BIGINT": "int64",
    "UTINYINT": "uint8", "USMALLINT": "uint16", "UINTEGER": "uint32", "UBIGINT": "uint64",
    "HUGEINT": "int64", "UHUGEINT": "uint64", "FLOAT": "float", "DOUBLE": "double", "VARCHAR": "string",
    "DATE": "date32[day]", "TIME": "time64[us]", "TIME_NS": "time64[ns]",
    "TIMESTAMP": "timestamp[us]", "TIMESTAMP_S": "timestamp[s]", "TIMESTAMP_MS": "timestamp[ms]",
    "TIMESTAMP_NS": "timestamp[ns]", "TIMESTAMP WITH TIME ZONE": "timestamp[us, tz=UTC]", "INTERVAL": "duration[us]",
}  # fmt: skip
"""The Arrow type of the values that are cast to each DuckDB type."""

_DEFAULTS = {"real": "DOUBLE", "whole": "BIGINT", "flag": "BOOLEAN", "day": "DATE", "moment": "TIMESTAMP",
             "length": "INTERVAL", "text": "VARCHAR", "mixed": "VARCHAR", "clock": "TIME"}  # fmt: skip
"""The DuckDB type in which each kind of column is stored by default."""

_READ_AS_TEXT = {"UUID", "JSON"}
"""DuckDB types whose columns are read as texts and written as VARCHAR: a synthetic label may be no valid UUID or JSON.
"""

_DECIMAL = re.compile(r"DECIMAL\((?P<precision>\d+),(?P<scale>\d+)\)")
"""A regular expression of the name of a decimal type; its precision and scale decide the Arrow type of its values."""


def type_names(frame: Any) -> dict[str, str]:
    """Return each column's DuckDB type as text, ENUM without its categories, which may be private.

    UUID and JSON become VARCHAR, because a release's labels need not be valid there.
    """
    types = (str(kind) for kind in frame.types)
    shown = ("ENUM" if kind.startswith("ENUM(") else "VARCHAR" if kind in _READ_AS_TEXT else kind for kind in types)
    return dict(zip(frame.columns, shown, strict=True))


def default_type(column: Column) -> str:
    """Return the name of the DuckDB type in which a column is stored by default."""
    if casting.zone(column):
        return "TIMESTAMP WITH TIME ZONE"
    kind = casting.kind(column)
    return f"DECIMAL(38,{casting.scale(column)})" if kind == "decimal" else _DEFAULTS[kind]


def can_be_null(name: str) -> bool:
    """Return True: in DuckDB, columns of every type may hold missing values."""
    return bool(name)


def array(column: Column, raw: RawColumn, name: str) -> tuple[Any, str]:
    """Return raw values as an Arrow array, and the DuckDB type that it is to be cast to."""
    if name == "ENUM":
        if not isinstance(raw, Labels):
            raise FormatError("ENUM holds levels only, and the schema declares no levels for this column")
        levels = ", ".join(_quoted(level, "'") for level in casting.levels_as_text(raw.levels, column))
        return arrow_columns.values_of(column, raw, "string"), f"ENUM({levels})"
    found = _DECIMAL.fullmatch(name)
    arrow = f"decimal128({found['precision']}, {found['scale']})" if found else _ARROW.get(name)
    if arrow is None:
        raise FormatError(f"DuckDB has no type {name!r}, or its values are lists or records")
    return arrow_columns.values_of(column, raw, arrow), name


def frame(arrays: Mapping[str, tuple[Any, str]]) -> Any:
    """Return a DuckDB relation of the arrays from `array`, on the default connection so that ``duckdb.sql`` can query it."""
    table = arrow_columns.frame({name: (values, True) for name, (values, _) in arrays.items()})
    casts = (
        f"CAST({_quoted(name, chr(34))} AS {kind}) AS {_quoted(name, chr(34))}" for name, (_, kind) in arrays.items()
    )
    return duckdb.from_arrow(table).project(", ".join(casts))


def _quoted(text: str, mark: str) -> str:
    """Return a text between quotation marks, with marks inside it doubled, as SQL needs."""
    return mark + text.replace(mark, mark * 2) + mark
