"""Contribution bounding in a database: the very rows that `synthdp.curator.contribution.kept_rows` keeps, as SQL.

A unit's rows are numbered in the order of SHA-256 of (unit, grid indices, how often the same row came before), written in
hexadecimal digits; which of them are kept depends on that unit's rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from synthdp.tables.sql.types import SelectedColumn, postgres_column

UNIT = "u0"
"""The SQL name of the column that holds the hash of a row's privacy unit."""

_DIGITS = 32
"""Hexadecimal digits of SHA-256 that identify a unit: 128 bits, as in `Bounding.digests`.  A safety limit: two of 2^40
units share these bits with a probability below 2^-48."""


@dataclass(frozen=True, slots=True)
class _Words:
    """The SQL expressions in which databases differ where rows of a unit are limited.

    Parameters
    ----------
    whole
        Types of whole numbers.
    hexadecimal
        A whole number in hexadecimal digits, a minus sign before it where it is negative.
    digest
        SHA-256 of a text, in hexadecimal digits.
    order
        SQL that orders as SHA-256 of a row does, from the pattern of a unit's digest and further whole numbers.
    """

    whole: frozenset[str]
    hexadecimal: str
    digest: str
    order: Callable[[str, Sequence[str]], str]


def _order_in_postgres(unit: str, numbers: Sequence[str]) -> str:
    """Return PostgreSQL's SQL for the hash that orders a unit's rows; the first rows are kept.

    ``unit`` is the SQL name of the unit's hash, ``numbers`` the SQL names of the row's integers.
    """
    digits = " || ".join([unit, *(f"lpad(to_hex({number}), 8, '0')" for number in numbers)])
    return f"sha256(convert_to({digits}, 'UTF8'))"


def _order_in_duckdb(unit: str, numbers: Sequence[str]) -> str:
    """Return DuckDB's SQL for the hash that orders a unit's rows; the first rows are kept.

    ``unit`` is the SQL name of the unit's hash, ``numbers`` the SQL names of the row's integers.
    """
    return f"sha256(format('{{}}{'{:08x}' * len(numbers)}', {', '.join([unit, *numbers])}))"


_LEAST = -(2**63)
"""The smallest 64-bit integer, whose absolute value does not fit in 64 bits."""

_WORDS: Mapping[str, _Words] = {
    "postgres": _Words(
        frozenset({"int2", "int4", "int8"}),
        "CASE WHEN {0} < 0 THEN '-' ELSE '' END || "
        f"to_hex(CASE WHEN {{0}} = {_LEAST} THEN {_LEAST} ELSE abs({{0}}::bigint) END)",
        # the bytes that a text is, where no encoding was declared: not all of them are UTF-8
        "encode(sha256(convert_to({0}, (CASE current_setting('server_encoding') WHEN 'SQL_ASCII' THEN 'SQL_ASCII' "
        "ELSE 'UTF8' END)::name)), 'hex')",
        _order_in_postgres,
    ),
    "duckdb": _Words(
        frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}),
        "format('{{:x}}', {0})",
        "sha256({0})",
        _order_in_duckdb,
    ),
}
"""The SQL expressions of each database that can limit rows of a unit, by dialect."""


def digest_of(unit: SelectedColumn, value: str, dialect: str) -> str | None:
    """Return SQL for the hash of a row's unit, 32 hexadecimal digits or null; ``None`` if Python's could differ.

    Parameters
    ----------
    unit
        The selected column of the unit, with its database type.
    value
        The column's quoted name.
    dialect
        ``"postgres"`` or ``"duckdb"``.
    """
    words = _WORDS[dialect]
    if unit.kind in words.whole:
        written = f"'number:x' || {words.hexadecimal.format(value)}"
    elif unit.kind in {"bool", "BOOLEAN"}:
        written = f"CASE WHEN {value} THEN 'number:x1' WHEN NOT {value} THEN 'number:x0' END"
    elif (text := _text_of(unit, value, dialect)) is not None:
        written = f"'str:' || {text}"
    else:
        return None
    return f"substr({words.digest.format(f'({written})')}, 1, {_DIGITS})"


def _text_of(unit: SelectedColumn, value: str, dialect: str) -> str | None:
    """Return SQL for a unit as the text that Python would read, or ``None`` if its type is not read as text."""
    if dialect == "duckdb":
        return value if unit.kind == "VARCHAR" else None
    asked = postgres_column(unit.name, unit.kind).as_name()
    return f"({asked.sql.format(value)})" if asked.arrives == pa.string() else None


def bounded(coded: str, indices: Sequence[str], *, rows: int, dialect: str) -> str:
    """Return a query of the encoded rows with at most ``rows`` rows of each unit, the same that Python would keep.

    Parameters
    ----------
    coded
        A query of grid indices and of `UNIT`.
    indices
        The names of the grid indices, in the schema's order.
    rows
        Most rows to keep, >= 1.
    dialect
        ``"postgres"`` or ``"duckdb"``.
    """
    every = ", ".join([UNIT, *indices])
    again = f"SELECT {every}, row_number() OVER (PARTITION BY {every}) - 1 AS again FROM ({coded}) coded"  # noqa: S608
    order = _WORDS[dialect].order(UNIT, [*indices, "again"])
    place = f"row_number() OVER (PARTITION BY {UNIT} ORDER BY {order}, again)"
    ranked = f"SELECT {every}, {place} AS place FROM ({again}) numbered"  # noqa: S608
    return f"SELECT {', '.join(indices)} FROM ({ranked}) ranked WHERE {UNIT} IS NULL OR place <= {rows}"  # noqa: S608
