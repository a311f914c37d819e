"""Foreign keys as the catalogue of a database has them: names of tables and columns, no row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from synthdp.errors import DataError
from synthdp.tables.sql.links import Link
from synthdp.tables.sql.types import SelectedColumn, quoted_table


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key: columns of a child table that refer to columns of a parent table.

    Parameters
    ----------
    child, columns
        The table that refers to another, and by which columns.
    parent, parent_columns
        What they refer to.
    """

    child: str
    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]


_POSTGRES = (
    "SELECT c.oid::text, {child}, a.attname::text, c.confrelid::regclass::text, f.attname::text FROM pg_constraint c "
    "CROSS JOIN LATERAL unnest(c.conkey, c.confkey) WITH ORDINALITY AS k(a, b, i) "
    "JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.a "
    "JOIN pg_attribute f ON f.attrelid = c.confrelid AND f.attnum = k.b "
    "WHERE c.contype = 'f' AND c.conrelid = {child}::regclass ORDER BY c.oid, k.i"
)
"""PostgreSQL's query of foreign keys; rows are key, child, column, parent, parent's column."""
_SQLITE = (
    'SELECT CAST(k.id AS TEXT), {child}, k."from", k."table", coalesce(k."to", (SELECT t.name FROM '
    'pragma_table_info(k."table") t WHERE t.pk = k.seq + 1)) FROM pragma_foreign_key_list({child}) k ORDER BY k.id, k.seq'
)
"""SQLite's query of foreign keys; rows are key, child, column, parent, parent's column."""
_DUCKDB = (
    "SELECT CAST(constraint_index AS VARCHAR), {child}, unnest(constraint_column_names), referenced_table, "
    "unnest(referenced_column_names) FROM duckdb_constraints() "
    "WHERE constraint_type = 'FOREIGN KEY' AND table_name = {child} AND database_name = current_database()"
)
"""DuckDB's query of foreign keys; rows are key, child, column, parent, parent's column."""
_MYSQL = (
    "SELECT constraint_name, table_name, column_name, referenced_table_name, referenced_column_name "
    "FROM information_schema.key_column_usage WHERE referenced_table_name IS NOT NULL AND table_schema = database() "
    "AND table_name = {child} ORDER BY constraint_name, ordinal_position"
)
"""MySQL's query of foreign keys; rows are key, child, column, parent, parent's column."""
_OF_DIALECTS: Mapping[str, str] = {"postgres": _POSTGRES, "sqlite": _SQLITE, "duckdb": _DUCKDB, "mysql": _MYSQL}
"""The query of foreign keys for each database, by dialect."""


def foreign_keys(link: Link, tables: Mapping[str, str]) -> list[ForeignKey]:
    """Return the foreign keys between some tables, from the database's catalogue; no row is read.

    Parameters
    ----------
    link
        To the database.
    tables
        By the name that each is called by, its name in the database.

    Raises
    ------
    DataError
        If it is not known how to ask a database of this kind.
    """
    if link.dialect not in _OF_DIALECTS:
        raise DataError(
            f"foreign keys can be read from PostgreSQL, MySQL, SQLite and DuckDB only, not from {link.dialect}: "
            "give relations instead"
        )
    parts = [SelectedColumn(f"c{i}", "text", arrives=pa.string()) for i in range(5)]
    named = {_shown(table, link, parts[:1]): name for name, table in tables.items()}
    found = []
    for name, table in tables.items():
        child = quoted_table(table, link.dialect) if link.dialect == "postgres" else _plain(table)
        rows = _rows(link, _OF_DIALECTS[link.dialect].format(child=_literal(child)), parts)
        for number in dict.fromkeys(row[0] for row in rows):
            mine = [row for row in rows if row[0] == number]
            parent = named.get(mine[0][3])
            if parent is not None:
                found.append(ForeignKey(name, tuple(row[2] for row in mine), parent, tuple(row[4] for row in mine)))
    return found


def _shown(table: str, link: Link, parts: Sequence[SelectedColumn]) -> str:
    """Return a table's name as the catalogue writes it, to compare it with the parents of foreign keys."""
    if link.dialect != "postgres":
        return _plain(table)
    ((name,),) = _rows(link, f"SELECT {_literal(quoted_table(table, link.dialect))}::regclass::text", parts)
    return name


def _plain(table: str) -> str:
    """Return a table's name without its schema and quotation marks, as the catalogues have it."""
    return table.rsplit(".", 1)[-1].strip('"')


def _literal(text: str) -> str:
    """Return a text as an SQL literal in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def _rows(link: Link, query: str, parts: Sequence[SelectedColumn]) -> list[tuple[str, ...]]:
    """Return the rows of a query as tuples of texts."""

    def each() -> Iterator[tuple[str, ...]]:
        for cells in link.blocks(query, parts):
            columns = [one.to_pylist() if hasattr(one, "to_pylist") else list(one) for one in cells]
            for row in zip(*columns, strict=True):
                yield tuple(cell.decode() if isinstance(cell, bytes) else str(cell) for cell in row)

    return list(each())
