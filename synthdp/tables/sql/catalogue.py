"""What the catalogue of a database says: its foreign keys, and which table a name stands for; no row is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import normcase
from pathlib import Path

import pyarrow as pa

from synthdp.errors import DataError
from synthdp.tables.sql.links import Link
from synthdp.tables.sql.types import SelectedColumn, parts_of, quoted, quoted_table


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

_SERVERS = (
    "SELECT 'started ' || pg_postmaster_start_time()::text",
    "SELECT 'cluster ' || system_identifier::text FROM pg_control_system()",
)
"""PostgreSQL's queries of what tells one server from others: when it started, which every role may ask, and the number
of its files, which outlives a restart and which a copy for reading shares."""
_MAY_ASK = "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')::text"
"""PostgreSQL's query of whether the role may ask for the number of the server's files."""
_PARTS = (
    "WITH RECURSIVE parts(oid) AS (SELECT {table}::regclass::oid UNION SELECT below.oid FROM parts JOIN ("
    "SELECT inhparent AS above, inhrelid AS oid FROM pg_inherits UNION ALL "
    "SELECT r.ev_class, d.refobjid FROM pg_rewrite r JOIN pg_depend d ON d.objid = r.oid "
    "WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass) below ON below.above = parts.oid) "
    "SELECT 'table ' || (SELECT oid FROM pg_database WHERE datname = current_database())::text || ' ' || parts.oid::text "
    "FROM parts"
)
"""PostgreSQL's query of a table, its partitions, and what is below a view, as numbers."""
_FILES = "SELECT name, file FROM pragma_database_list ORDER BY CASE name WHEN 'temp' THEN 0 ELSE 1 END, seq"
"""SQLite's query of the files of a connection, in the order in which a table without a schema is looked for."""

_DUCKDB_TABLES = (
    "SELECT t.table_catalog, t.table_schema, t.table_name, coalesce(d.path, ''), "
    "CAST(t.table_catalog = current_database() AND t.table_schema = current_schema() AS VARCHAR) "
    "FROM information_schema.tables t JOIN duckdb_databases() d ON d.database_name = t.table_catalog "
    "WHERE lower(t.table_name) = lower({table})"
)
"""DuckDB's query of the tables of a name: database, schema, name, the database's file, and whether no schema is needed."""


def identities(link: Link, table: str, place: str) -> tuple[str, ...]:
    """Return texts by which a database itself identifies a table, whatever address and name it was reached by.

    Two tables with one text in common are the same, or one has rows of the other.  There is none for a database that
    is not asked.

    Parameters
    ----------
    link
        To the database.
    table
        The table's name.
    place
        The database's address, which identifies an SQLite database that is in no file.
    """
    if link.dialect == "postgres":
        return _postgres_identities(link, quoted_table(table, link.dialect))
    if link.dialect == "sqlite":
        return _sqlite_identities(link, parts_of(table), place)
    if link.dialect == "duckdb":
        return _duckdb_identities(link, parts_of(table), place)
    return ()


def file_identity(file: str, table: str) -> str:
    """Return the identity of a table in a file, whose links are followed."""
    return f"file {normcase(Path(file).resolve())} {table}"


def _postgres_identities(link: Link, table: str) -> tuple[str, ...]:
    """Return a table of PostgreSQL as its numbers on its server; none for a database that only talks as PostgreSQL does."""
    text = [SelectedColumn("c0", "text", arrives=pa.string())]
    ((version,),) = _rows(link, "SELECT version()", text)
    if not version.startswith("PostgreSQL") or "Redshift" in version:
        return ()
    ((may,),) = _rows(link, _MAY_ASK, text)
    servers = [_rows(link, query, text)[0][0] for query in _SERVERS[: 2 if may == "true" else 1]]
    found = [one for (one,) in _rows(link, _PARTS.format(table=_literal(table)), text)]
    return tuple(f"{server} {one}" for server in servers for one in found)


def _sqlite_identities(link: Link, parts: Sequence[str], place: str) -> tuple[str, ...]:
    """Return a table of SQLite as its file, whose links are followed, and its name, whose case SQLite ignores."""
    texts = [SelectedColumn(f"c{i}", "text", arrives=pa.string()) for i in range(2)]
    *schema, table = parts
    for name, file in _rows(link, _FILES, texts):
        if schema and name.lower() != schema[-1].lower():
            continue
        master = "sqlite_temp_master" if name == "temp" else f"{quoted(name, 'sqlite')}.sqlite_master"
        listed = f"SELECT name, '' FROM {master} WHERE name = {_literal(table)} COLLATE NOCASE"  # noqa: S608 - quoted
        for as_made, _ in _rows(link, listed, texts):
            return (file_identity(file, as_made) if file not in {"", "None"} else f"memory {place} {name} {as_made}",)
    return ()


def _duckdb_identities(link: Link, parts: Sequence[str], place: str) -> tuple[str, ...]:
    """Return a table of DuckDB as its file, whose links are followed, its schema and its name, whose case is ignored."""
    texts = [SelectedColumn(f"c{i}", "text", arrives=pa.string()) for i in range(5)]
    *above, table = (part.lower() for part in parts)
    found = _rows(link, _DUCKDB_TABLES.format(table=_literal(table)), texts)
    named = [one for one in found if {*above} <= {one[0].lower(), one[1].lower()}]
    meant = named if above else [one for one in named if one[4] == "true"] or named
    return tuple(
        file_identity(file, f"{schema} {name}") if file else f"memory {place} {catalogue} {schema} {name}"
        for catalogue, schema, name, file, _ in meant
    )


def declared_types(link: Link, table: str) -> dict[str, str]:
    """Return the types that a table of SQLite was declared with, by column; "" for a column without one."""
    texts = [SelectedColumn(f"c{i}", "text", arrives=pa.string()) for i in range(2)]
    *schema, name = parts_of(table)
    given = ", ".join(_literal(one) for one in [name, *schema[-1:]])
    return dict(_rows(link, f"SELECT name, type FROM pragma_table_info({given})", texts))  # type: ignore[arg-type]  # noqa: S608


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
