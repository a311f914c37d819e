"""The SQL that a release would run, for a schema alone: no database is asked, no row is read."""

from __future__ import annotations

from collections.abc import Mapping

from synthdp.arrays import Clique
from synthdp.checks import check_one_of, check_whole
from synthdp.domain.domain import domain_of
from synthdp.domain.grid import grid_of
from synthdp.schema.columns import Column
from synthdp.schema.schema import Schema
from synthdp.tables.sql.bounding import UNIT, bounded, digest_of
from synthdp.tables.sql.counting import counting_query
from synthdp.tables.sql.encoding import WORDS, Stages, encoded, stages_of
from synthdp.tables.sql.types import NAMES, SelectedColumn, quoted, quoted_table

BINS = 8
"""Bins of an ordered column in the example statement that counts; a release chooses bins from its noisy answers.  A
convention: more would only make the example longer."""

TRIED = frozenset({"sqlite", "mysql"})
"""Databases without SQL encoding that tests have really queried; for others the output says that nobody has."""

_KINDS = {
    "postgres": {"number": "int8", "real": "float8", "truth": "bool", "label": "text", "moment": "timestamp", "day": "date"},
    "duckdb": {
        "number": "BIGINT", "real": "DOUBLE", "truth": "BOOLEAN", "label": "VARCHAR", "moment": "TIMESTAMP", "day": "DATE",
    },
}  # fmt: skip
"""The database type that each kind of column is assumed to have, because no database is asked."""


def planned_sql(
    schema: Schema, dialect: str, *, table: str = "your_table", unit: str | None = None, rows_per_unit: int = 1
) -> str:
    """Return the SQL that a release would run for a schema, in each mode of `SqlSource`, for a user to inspect.

    Columns are assumed to have the type that suits them.

    Parameters
    ----------
    schema
        The columns.
    dialect
        ``"postgres"``, ``"duckdb"``, or another SQL dialect.  For another dialect the text is the statement that
        fetches the rows, since such a database encodes nothing.
    table
        The table's name.
    unit, rows_per_unit
        The column that names the units of privacy, assumed to be a text, and how many rows of each unit are kept.

    Raises
    ------
    ParameterError
        If the dialect is unknown, or fewer than one row is kept.
    """
    check_one_of("sql", dialect, (*WORDS, *sorted({*NAMES.values()} - {*WORDS})))
    check_whole("max_rows_per_unit", rows_per_unit)
    rows = quoted_table(table, dialect)
    if dialect not in WORDS:
        return _streamed(schema, dialect, rows, unit)
    stages, left = {}, []
    for j, (name, column) in enumerate(schema.items()):
        asked = SelectedColumn(name, _KINDS[dialect].get(_kind(column), ""))
        one = stages_of(column, asked, quoted(name, dialect), j, WORDS[dialect]) if column.is_complete else None
        if one is None:
            left.append(name)
        else:
            stages[name] = one
    names = [*schema] if unit is None or unit in schema else [*schema, unit]
    every = ", ".join(quoted(name, dialect) for name in names)
    parts = [("push='rows': values stream, and are encoded here", f"SELECT {every} FROM {rows}")]  # noqa: S608
    if stages:
        streamed = left if unit is None else [*left, unit]
        values = {f"v{i}": quoted(name, dialect) for i, name in enumerate(streamed)}
        selected = encoded(rows, stages, values)
        parts.append(("push='codes': grid indices stream, packed into whole numbers", selected))
    if stages and not left:
        text = SelectedColumn(unit or "", _KINDS[dialect]["label"])
        digest = None if unit is None else digest_of(text, quoted(unit, dialect), dialect)
        kept = None if digest is None else (digest, rows_per_unit)
        parts += [
            (
                f"push='counts': rows are coded into a temporary table{', so many of each unit' * (kept is not None)}",
                coding("synthdp_coded", rows, schema, stages, dialect, kept=kept),
            ),
            ("and every round of questions is one statement, such as", _counting(schema)),
        ]
    else:
        parts.append((f"push='counts' is refused: column {left[0]!r} cannot be encoded in the database exactly", ""))
    return "\n\n".join(f"-- {said}\n{sql}{';' * bool(sql)}".rstrip() for said, sql in parts)


def _streamed(schema: Schema, dialect: str, rows: str, unit: str | None) -> str:
    """Return the statement that fetches rows from a database that cannot encode them, below a comment that says so."""
    names = [*schema] if unit is None or unit in schema else [*schema, unit]
    every = ", ".join(f"{quoted(name, dialect)} AS {quoted(f'c{i}', dialect)}" for i, name in enumerate(names))
    tried = "" if dialect in TRIED else "; written for it, and never run on the service itself"
    said = f"push='rows': values stream, and are encoded here; the only way from {dialect}{tried}"
    return f"-- {said}\nSELECT {every} FROM {rows};"


def coding(
    name: str,
    rows: str,
    schema: Schema,
    stages: Mapping[str, Stages],
    dialect: str,
    *,
    kept: tuple[str, int] | None = None,
) -> str:
    """Return the statement that writes all rows' grid indices into a temporary table, from which counts are made.

    Parameters
    ----------
    name
        Name of the temporary table.
    rows
        Table or query of the rows, as it stands in a FROM clause.
    schema
        The columns.
    stages
        SQL stages that encode each column.
    dialect
        ``"postgres"`` or ``"duckdb"``.
    kept
        The digest of a row's unit of privacy, and how many rows of each are kept; None if all are.
    """
    kinds = {name: "smallint" if grid_of(schema[name]).size <= 2**15 else "integer" for name in stages}
    parts = ", ".join(f"CAST({one.index} AS {kinds[column]}) AS {one.index}" for column, one in stages.items())
    if kept is None:
        coded = encoded(rows, stages, {})
    else:
        digest, most = kept
        indices = [one.index for one in stages.values()]
        coded = bounded(encoded(rows, stages, {UNIT: digest}), indices, rows=most, dialect=dialect)
    return f"CREATE TEMPORARY TABLE {name} AS SELECT {parts} FROM ({coded}) coding"  # noqa: S608


def _counting(schema: Schema) -> str:
    """Return an example query that counts marginals of neighbouring columns, as a release counts chosen marginals.

    For a single column it counts that column.
    """
    domain = domain_of(schema, bins=BINS)
    pairs: list[Clique] = [(j, j + 1) for j in range(len(domain) - 1)] or [(0,)]
    return counting_query(domain, pairs, "synthdp_coded", [f"g{j}" for j in range(len(domain))]).sql


def _kind(column: Column) -> str:
    """Return the kind of type, a key of `_KINDS`, that a column is assumed to have, as no database is asked.

    Another word comes back for a column that has no type there, such as a length of time.
    """
    if column.stored_as == "day":
        return "day"
    return "real" if column.quantity == "number" and column.real else column.quantity
