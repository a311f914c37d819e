"""The data dictionary of a synthetic table, from its schema: as rows of texts, and as a Frictionless data package."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from synthdp.errors import DataError, ParameterError
from synthdp.schema.column import Column, Fresh, Interval, Levels, Steps
from synthdp.schema.schema import Schema

FIELDS = ("column", "meaning", "type", "values", "unit", "levels", "missing", "known_from")
"""Columns of the data dictionary, in order."""

MOST_LEVELS = 1_000
"""Levels of a column that the dictionary lists, at most; longer lists are hard to read.  A safety limit."""

UNITS = {"moment": "calendar time, UTC", "clock": "time of day", "length": "length of time"}
"""Unit of a column by its quantity of time, if the publisher gives none."""

NOT_SAID = "not stated"
"""Text for a unit or a meaning that the publisher did not give."""

TYPES = {
    "moment": "datetime",
    "clock": "time",
    "length": "string",
    "truth": "boolean",
    "label": "string",
    "name": "string",
}
"""Type of a column in a data package, by quantity; numbers are decided in `_field`."""


def dictionary_rows(
    schema: Schema,
    *,
    units: Mapping[str, str] = MappingProxyType({}),
    meanings: Mapping[str, str] = MappingProxyType({}),
) -> list[dict[str, str]]:
    """Return one row of texts by `FIELDS` for each column of the table: the data dictionary.

    ``units`` and ``meanings`` are the publisher's texts, by column name.
    """
    return [
        {
            "column": name,
            "meaning": meanings.get(name, NOT_SAID),
            "type": type(column).__name__,
            "values": column.in_words(),
            "unit": units.get(name) or UNITS.get(column.quantity, NOT_SAID if column.quantity == "number" else ""),
            "levels": _levels(column),
            "missing": "may be missing, as an empty cell" if column.nullable else "never missing",
            "known_from": column.source or ("" if column.names_rows or column.quantity == "truth" else NOT_SAID),
        }
        for name, column in schema.outputs.items()
    ]


def read_descriptions(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the publisher's units and meanings, each by column name, from a CSV file.

    The file has the column ``column``, and ``unit``, ``meaning`` or both; empty cells are left out.

    Raises
    ------
    DataError
        If the file cannot be read.
    ParameterError
        If the file lacks these columns.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"'{path}' cannot be read ({getattr(error, 'strerror', None) or 'it is not UTF-8 text'}): give the path "
            "of a CSV file in UTF-8"
        ) from None
    if not rows or "column" not in rows[0] or not {"unit", "meaning"} & rows[0].keys():
        raise ParameterError(f"'{path}' must be a CSV file with the column 'column', and 'unit' or 'meaning' or both")
    found = [
        {str(row["column"]): str(row[what]).strip() for row in rows if (row.get(what) or "").strip()}
        for what in ("unit", "meaning")
    ]
    return found[0], found[1]


def data_package(
    schema: Schema, *, name: str, title: str, rows: int, path: str, digest: str, size: int
) -> dict[str, Any]:
    """Return a description of the table after the Data Package standard (Frictionless), version 1.

    Parameters
    ----------
    schema
        Schema of the table.
    name, title
        Name and title of the package.
    rows
        Number of rows in the file.
    path, digest, size
        Path of the file, its SHA-256 and its size in bytes.
    """
    csv = path.endswith(".csv")
    resource: dict[str, Any] = {
        "name": "synthetic",
        "path": path,
        "format": "csv" if csv else "parquet",
        "mediatype": "text/csv" if csv else "application/vnd.apache.parquet",
        **({"profile": "tabular-data-resource", "encoding": "utf-8"} if csv else {}),
        "hash": f"sha256:{digest}",
        "bytes": size,
        "rows": rows,
        "schema": {"fields": [_field(*item) for item in schema.outputs.items()], "missingValues": [""]},
    }
    return {
        "profile": "tabular-data-package" if csv else "data-package",
        "name": name,
        "title": title,
        "description": "Synthetic rows, made with differential privacy: no row is a person's.",
        "resources": [resource],
    }


def _field(name: str, column: Column) -> dict[str, Any]:
    """Return the description of one column for a data package: name, type and constraints."""
    constraints: dict[str, Any] = {"required": not column.nullable}
    support = column.support()
    plain = column.quantity == "number"
    kind = ("integer" if column.whole else "number") if plain else TYPES[column.quantity]
    if kind == "datetime" and column.stored_as == "day":
        kind = "date"
    match support:
        case Levels(levels) if kind == "string" and 0 < len(levels) <= MOST_LEVELS:
            constraints["enum"] = [str(level) for level in levels]
        case Steps(first=first, last=last, special=special) if plain:
            ends = [support.value(first), support.value(last), *special]
            constraints |= {"minimum": min(ends), "maximum": max(ends)}
        case Interval(lower, upper, special) if plain:
            ends = [lower, upper, *special]
            constraints |= {"minimum": min(ends), "maximum": max(ends)}
    field: dict[str, Any] = {"name": name, "type": kind, "description": column.in_words(), "constraints": constraints}
    if kind in ("datetime", "date", "time"):
        field["format"] = "any"
    if kind == "boolean":
        field |= {"trueValues": ["True", "true", "1"], "falseValues": ["False", "false", "0"]}
    return field


def _levels(column: Column) -> str:
    """Return a column's levels as text, at most `MOST_LEVELS`; "" if it has none or is an identifier."""
    support = column.support()
    if isinstance(support, Fresh) or not isinstance(support, Levels):
        return ""
    levels = [str(level) for level in support.levels[:MOST_LEVELS]]
    return " | ".join(levels) + (
        f" | and {len(support.levels) - MOST_LEVELS} more" if len(support.levels) > MOST_LEVELS else ""
    )


def as_csv(rows: Sequence[Mapping[str, str]], fields: tuple[str, ...]) -> str:
    """Return rows of texts as CSV text with a header, every cell in quotes."""
    lines = [fields, *([row[field] for field in fields] for row in rows)]
    return "".join(",".join('"' + cell.replace('"', '""') + '"' for cell in line) + "\r\n" for line in lines)
