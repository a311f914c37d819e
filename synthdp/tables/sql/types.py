"""How columns of a database are asked for: for PostgreSQL, so that no value can stop a driver, whatever it is.

Dates, moments and lengths that PostgreSQL holds and Arrow or Python does not (infinity, years beyond 9999, 24:00) are
clipped in the query to what any column may declare; numbers of any length and types that nobody knows come as text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class SelectedColumn:
    """How a query selects one column: an SQL expression, and the Arrow types of its result.

    Parameters
    ----------
    name
        The column's name.
    kind
        The database's name of its type.
    sql
        A pattern of the expression; ``{}`` stands for the column.
    arrives
        The Arrow type that the expression is read as; None if the driver says it.
    shown
        The public name of the type that suits files of synthetic rows; None if no Arrow type does.
    """

    name: str
    kind: str
    sql: str = "{}"
    arrives: pa.DataType | None = None
    shown: pa.DataType | None = None

    def as_name(self) -> SelectedColumn:
        """Return how to select the column as an identifier: as text if clipping its values could merge two persons."""
        return replace(self, sql=_TEXT[0], arrives=_TEXT[1]) if "CASE WHEN" in self.sql else self


_TEXT = ("({})::text", pa.string())
"""The SQL expression and Arrow type for types without an entry of their own: they are read as text."""

_PLAIN = {
    "bool": pa.bool_(), "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "float4": pa.float32(),
    "float8": pa.float64(), "text": pa.string(), "varchar": pa.string(), "bytea": pa.binary(),
}  # fmt: skip
"""PostgreSQL types that drivers return safely as they are, and their Arrow types."""

_CLIPPED = (
    "CASE WHEN {{0}} < {kind} '{first}' THEN {kind} '{first}' WHEN {{0}} > {kind} '{last}' THEN {kind} '{last}' "
    "ELSE {{0}} END"
)
"""SQL for a date or moment clipped to the years 1 to 9999, which Python can hold."""

_MICROS = (
    "CASE WHEN {0} > interval '250000 years' THEN 9223372036854775807 "
    "WHEN {0} < interval '-250000 years' THEN -9223372036854775807 "
    "ELSE (((extract(year from {0}) * 12 + extract(month from {0})) * 30 + extract(day from {0})) * 86400000000 "
    "+ extract(hour from {0}) * 3600000000 + extract(minute from {0}) * 60000000 "
    "+ extract(microseconds from {0}))::bigint END"
)
"""SQL for an interval in microseconds; a month counts 30 days, as everywhere in the package."""

_SPECIAL: dict[str, tuple[str, pa.DataType]] = {
    "numeric": ("trim_scale({})::text", pa.string()),  # 1.0 and 1.00 are one person
    "money": ("({})::numeric::text", pa.string()),
    "oid": ("({})::bigint", pa.int64()),
    "inet": ("abbrev({})", pa.string()),  # as it is written: without /32 of a single address
    "date": (_CLIPPED.format(kind="date", first="0001-01-01", last="9999-12-31"), pa.date32()),
    "timestamp": (
        _CLIPPED.format(kind="timestamp", first="0001-01-01", last="9999-12-31 23:59:59.999999"),
        pa.timestamp("us"),
    ),
    "timestamptz": (
        _CLIPPED.format(kind="timestamptz", first="0001-01-01 00:00+00", last="9999-12-31 23:59:59.999999+00").replace(
            "CASE", "(CASE"
        )
        + ") AT TIME ZONE 'UTC'",
        pa.timestamp("us"),
    ),
    "time": ("(extract(epoch from {}) * 1000000)::bigint", pa.time64("us")),
    "interval": (
        _MICROS,
        pa.duration("us"),
    ),
}
"""SQL expressions and Arrow types for PostgreSQL types that drivers cannot return safely."""

_SHOWN = {"timestamptz": pa.timestamp("us", "UTC"), "oid": pa.int64(), "money": pa.decimal128(38, 2)}
"""Arrow types of released columns, where they differ from the type that is read."""

OIDS: Mapping[int, str] = {
    16: "bool", 17: "bytea", 18: "char", 19: "name", 20: "int8", 21: "int2", 23: "int4", 25: "text", 26: "oid",
    700: "float4", 701: "float8", 790: "money", 1042: "bpchar", 1043: "varchar", 1082: "date", 1083: "time",
    869: "inet", 1114: "timestamp", 1184: "timestamptz", 1186: "interval", 1700: "numeric",
}  # fmt: skip
"""PostgreSQL's type numbers, as its DBAPI drivers report them; other types are read as text."""


def postgres_column(name: str, kind: str, *, typmod: int = -1, bytes_of_text: bool = False) -> SelectedColumn:
    """Return how a query selects a PostgreSQL column, so that no value can stop the driver.

    Parameters
    ----------
    name, kind
        The column's name and PostgreSQL's name of its type; any that is not known comes as text.
    typmod
        For the type numeric, precision and scale as PostgreSQL packs them, or -1.
    bytes_of_text
        Ask for texts as bytes: in a database without an encoding they may be no text, which stops some drivers.
    """
    if kind in _SPECIAL:
        sql, arrives = _SPECIAL[kind]
        shown = _decimal(typmod) if kind == "numeric" else _SHOWN.get(kind, arrives)
        return SelectedColumn(name, kind, sql, arrives, shown)
    arrives = _PLAIN.get(kind, pa.string())
    sql = "{}" if kind in _PLAIN else _TEXT[0]
    if bytes_of_text and arrives == pa.string():
        return SelectedColumn(name, kind, f"convert_to({_TEXT[0]}, 'SQL_ASCII')", pa.string(), pa.string())
    return SelectedColumn(name, kind, sql, arrives, arrives)


def _decimal(typmod: int) -> pa.DataType | None:
    """Return the Arrow decimal type for a PostgreSQL type modifier, or ``None`` if it is unlimited or too wide."""
    if typmod < 4:
        return None
    precision, scale = (typmod - 4) >> 16, (typmod - 4) & 0x7FF
    return pa.decimal128(precision, scale) if precision <= 38 and scale <= precision else None


def as_arrow(array: pa.Array, wanted: pa.DataType | None) -> pa.Array:
    """Return a driver's array in the Arrow type ``wanted``, without checks: bytes as texts, integers as times.

    The array is unchanged if no type is wanted, because none was selected.
    """
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if wanted is None or array.type == wanted:
        return array
    if pa.types.is_binary(array.type) and pa.types.is_string(wanted):
        return array.view(pa.string())
    if pa.types.is_int64(array.type) and (pa.types.is_time(wanted) or pa.types.is_duration(wanted)):
        return array.view(wanted)
    return array.cast(wanted)


_AFFINITIES = (
    ("INT", pa.int64()), ("CHAR", pa.string()), ("CLOB", pa.string()), ("TEXT", pa.string()), ("REAL", pa.float64()),
    ("FLOA", pa.float64()), ("DOUB", pa.float64()), ("BOOL", pa.int64()), ("DEC", pa.float64()), ("NUM", pa.float64()),
    ("DATETIME", pa.timestamp("us")), ("TIMESTAMP", pa.timestamp("us")), ("DATE", pa.date32()),
)  # fmt: skip
"""SQLite's rules of a declared type, in their order: what it contains, and the Arrow type that suits it.  Dates, which
SQLite has no type for, are added."""


def affinity(declared: str) -> pa.DataType:
    """Return the Arrow type that suits a type as it was declared in SQLite; text if it says nothing."""
    return next((suits for part, suits in _AFFINITIES if part in declared.upper()), pa.string())


NAMES = {
    "postgresql": "postgres", "psycopg": "postgres", "psycopg2": "postgres", "pg8000": "postgres", "redshift": "redshift",
    "sqlite": "sqlite", "sqlite3": "sqlite", "duckdb": "duckdb", "mysql": "mysql", "mariadb": "mysql", "pymysql": "mysql",
    "MySQLdb": "mysql", "snowflake": "snowflake", "bigquery": "bigquery", "google": "bigquery", "mssql": "tsql",
    "pyodbc": "tsql", "pymssql": "tsql", "oracle": "oracle", "oracledb": "oracle", "databricks": "databricks",
    "trino": "trino", "clickhouse": "clickhouse",
}  # fmt: skip
"""The SQL dialect's name (as sqlglot has it) for each driver, vendor and SQLAlchemy dialect."""

_BACKTICKS = frozenset({"mysql", "bigquery", "databricks", "clickhouse"})
"""Databases that quote names in backticks."""


def quoted(name: str, dialect: str) -> str:
    """Return a name in a database's quotation marks."""
    if dialect in _BACKTICKS:
        return "`" + name.replace("`", "``") + "`"
    if dialect == "tsql":
        return "[" + name.replace("]", "]]") + "]"
    return '"' + name.replace('"', '""') + '"'


def quoted_table(table: str, dialect: str) -> str:
    """Return a table's name in a database's quotation marks, part by part if it has a schema.

    A quoted part may hold dots.
    """
    return ".".join(quoted(name, dialect) for name in parts_of(table))


def parts_of(table: str) -> list[str]:
    """Return the parts of a table's name, such as its schema and the table, without their quotation marks."""
    whole = re.fullmatch(r'(?:"(?:[^"]|"")*"|[^."]+)(?:\.(?:"(?:[^"]|"")*"|[^."]+))*', table)
    if whole is None:  # a quote that quotes nothing is a part of the name
        return table.split(".")
    parts = re.findall(r'"(?:[^"]|"")*"|[^."]+', table)
    return [part[1:-1].replace('""', '"') if part.startswith('"') else part for part in parts]
