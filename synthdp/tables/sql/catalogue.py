"""What the catalogue of a database says: its foreign keys, and the stored tables that a name stands for; no row is read.

The stored tables show whether two sources read the same rows, so that both spend one budget.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
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
        Table and columns that they refer to.
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
"""PostgreSQL's query for `foreign_keys`, a row a column: (id of the key, child, column, parent, parent's column)."""
_SQLITE = (
    'SELECT CAST(k.id AS TEXT), {child}, k."from", k."table", coalesce(k."to", (SELECT t.name FROM '
    'pragma_table_info(k."table") t WHERE t.pk = k.seq + 1)) FROM pragma_foreign_key_list({child}) k ORDER BY k.id, k.seq'
)
"""SQLite's query for `foreign_keys`, a row a column: (id of the key, child, column, parent, parent's column)."""
_DUCKDB = (
    "SELECT CAST(constraint_index AS VARCHAR), {child}, unnest(constraint_column_names), referenced_table, "
    "unnest(referenced_column_names) FROM duckdb_constraints() "
    "WHERE constraint_type = 'FOREIGN KEY' AND table_name = {child} AND database_name = current_database()"
)
"""DuckDB's query for `foreign_keys`, a row a column: (id of the key, child, column, parent, parent's column)."""
_MYSQL = (
    "SELECT constraint_name, table_name, column_name, referenced_table_name, referenced_column_name "
    "FROM information_schema.key_column_usage WHERE referenced_table_name IS NOT NULL AND table_schema = database() "
    "AND table_name = {child} ORDER BY constraint_name, ordinal_position"
)
"""MySQL's query for `foreign_keys`, a row a column: (id of the key, child, column, parent, parent's column)."""
_OF_DIALECTS: Mapping[str, str] = {"postgres": _POSTGRES, "sqlite": _SQLITE, "duckdb": _DUCKDB, "mysql": _MYSQL}
"""The query of foreign keys for each database, by dialect."""

_SERVERS = (
    "SELECT 'started ' || pg_postmaster_start_time()::text",
    "SELECT 'cluster ' || system_identifier::text FROM pg_control_system()",
)
"""PostgreSQL's queries of what tells one server from others.  First its starting time, which every role may ask.  Then its
system identifier, which outlives a restart and which replicas share."""
_MAY_ASK = "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')::text"
"""PostgreSQL's query of whether the role may ask for the system identifier."""
_PARTS = (
    "WITH RECURSIVE parts(oid) AS (SELECT {table}::regclass::oid UNION SELECT below.oid FROM parts JOIN ("
    "SELECT inhparent AS above, inhrelid AS oid FROM pg_inherits UNION ALL "
    "SELECT r.ev_class, d.refobjid FROM pg_rewrite r JOIN pg_depend d ON d.objid = r.oid "
    "WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass) below ON below.above = parts.oid) "
    "SELECT 'table ' || (SELECT oid FROM pg_database WHERE datname = current_database())::text || ' ' || parts.oid::text "
    "FROM parts"
)
"""PostgreSQL's query of the object numbers of a table, of its partitions, and of the tables below a view.  Two sources
with a number in common, on one server, read the same rows, and so spend one budget."""
_FILES = "SELECT seq, name, file FROM pragma_database_list"
"""SQLite's query of the files of a connection and their numbers.  A plan names a table by such a number, and the file
identifies the table."""

_DUCKDB_TABLES = (
    "SELECT t.table_catalog, t.table_schema, t.table_name, coalesce(d.path, '') FROM information_schema.tables t "
    "JOIN duckdb_databases() d ON d.database_name = t.table_catalog"
)
"""DuckDB's query of all tables: database, schema, name, and the database's file, which identifies a table that a plan
scans."""
_SCANNED = re.compile(r'"Table": ("(?:[^"\\]|\\.)*")')
"""A regular expression of the tables that DuckDB's plan in JSON names, as JSON texts."""

_MYSQL_SERVER = (
    "SHOW VARIABLES WHERE variable_name IN ('server_uuid', 'server_uid', 'hostname', 'port', 'datadir', "
    "'lower_case_table_names')"
)
"""MySQL's query of what tells one server from others, and whether it ignores the case of names.  The server's identifier
is missing in older versions of MariaDB, so its host, port and folder are asked too."""
_MYSQL_VIEWS = (
    "SELECT concat('`', replace(table_schema, '`', '``'), '`.`', replace(table_name, '`', '``'), '`'), view_definition "
    "FROM information_schema.views"
)
"""MySQL's query of all views, by database and name in backquotes, and their definitions."""
_NAMED_IN_FULL = re.compile(r"`(?:[^`]|``)+`\.`(?:[^`]|``)+`")
"""A regular expression of `database`.`table` in the definition of a view of MySQL, to find the tables below the view.  A
match may be another thing, such as a table's column, which only adds an identity that no table has."""


def identities(link: Link, rows: str, place: str) -> tuple[str, ...]:
    """Return texts by which a database itself identifies the stored tables that rows come from, whatever they are called.

    A view has the texts of the tables below it.  Two sources with a text in common have rows in common.  Return () for
    a database that cannot be asked, and for a query of PostgreSQL or MySQL.

    Parameters
    ----------
    link
        To the database.
    rows
        The quoted name of a table or a view, or a query, as it stands in a FROM clause.
    place
        The database's address, which identifies a database of SQLite or DuckDB that is in no file.
    """
    if link.dialect == "sqlite":
        return _sqlite_identities(link, rows, place)
    if link.dialect == "duckdb":
        return _duckdb_identities(link, rows, place)
    if link.dialect == "postgres" and not rows.startswith("("):
        return _postgres_identities(link, rows)
    if link.dialect == "mysql" and not rows.startswith("("):
        return _mysql_identities(link, rows)
    return ()


def _file_identity(file: str, table: str, place: str) -> str:
    """Return the identity of a table in a file, by the file's resolved path; in no file, by the database's address.

    By identities a release refuses to write synthetic rows to a table that it has read.
    """
    return f"file {normcase(Path(file).resolve())} {table}" if file not in {"", "None"} else f"memory {place} {table}"


def _postgres_identities(link: Link, table: str) -> tuple[str, ...]:
    """Return texts (server, object number) for a PostgreSQL table, its partitions and the tables below a view.

    Return () for other databases with PostgreSQL's protocol, which may lack these queries.
    """
    ((version,),) = _texts(link, "SELECT version()", 1)
    if not version.startswith("PostgreSQL") or "Redshift" in version:
        return ()
    ((may,),) = _texts(link, _MAY_ASK, 1)
    servers = [_texts(link, query, 1)[0][0] for query in _SERVERS[: 2 if may == "true" else 1]]
    found = [one for (one,) in _texts(link, _PARTS.format(table=_literal(table)), 1)]
    return tuple(f"{server} {one}" for server in servers for one in found)


def _sqlite_identities(link: Link, rows: str, place: str) -> tuple[str, ...]:
    """Return the tables of SQLite that the query's plan opens, each as its file and name."""
    plan = _texts(link, f"EXPLAIN SELECT * FROM {rows}", 8)  # noqa: S608 - quoted, or the caller's query
    opened = {(number, page) for _, step, _, page, number, *_ in plan if step == "OpenRead"}
    found = []
    for number, name, file in _texts(link, _FILES, 3):
        master = "sqlite_temp_master" if name == "temp" else f"{quoted(name, 'sqlite')}.sqlite_master"
        pages = _texts(link, f"SELECT rootpage, tbl_name FROM {master}", 2)  # noqa: S608 - quoted
        found += [_file_identity(file, table, f"{place} {name}") for page, table in pages if (number, page) in opened]
    return tuple(dict.fromkeys(found))


def _duckdb_identities(link: Link, rows: str, place: str) -> tuple[str, ...]:
    """Return the tables of DuckDB that the query's plan scans, each as its file, schema and name."""
    ((_, plan),) = _texts(link, f"EXPLAIN (FORMAT json) SELECT * FROM {rows}", 2)  # noqa: S608 - as for SQLite
    scanned = {tuple(parts_of(json.loads(one))) for one in _SCANNED.findall(plan)}
    return tuple(
        _file_identity(file, f"{schema} {name}", f"{place} {database}")
        for database, schema, name, file in _texts(link, _DUCKDB_TABLES, 4)
        if (database, schema, name) in scanned
    )


def _mysql_identities(link: Link, table: str) -> tuple[str, ...]:
    """Return a table of MySQL and the tables in the definition of a view, each as server, database and name."""
    server: dict[str, str] = dict(_texts(link, _MYSQL_SERVER, 2))  # type: ignore[arg-type]
    ((current,),) = _texts(link, "SELECT database()", 1)
    meant = table if "`.`" in table else f"{quoted(current, link.dialect)}.{table}"
    found = [meant.lower() if server.pop("lower_case_table_names", "0") != "0" else meant]
    views: dict[str, str] = dict(_texts(link, _MYSQL_VIEWS, 2))  # type: ignore[arg-type]
    for one in found:
        found += set(_NAMED_IN_FULL.findall(views.get(one, ""))) - {*found}
    return tuple(f"server {sorted(server.items())} {one}" for one in found)


def declared_types(link: Link, table: str) -> dict[str, str]:
    """Return by column the type with which a table of SQLite was declared; "" for a column without one."""
    *schema, name = parts_of(table)
    given = ", ".join(_literal(one) for one in [name, *schema[-1:]])
    return dict(_texts(link, f"SELECT name, type FROM pragma_table_info({given})", 2))  # type: ignore[arg-type]  # noqa: S608


def foreign_keys(link: Link, tables: Mapping[str, str]) -> list[ForeignKey]:
    """Return the foreign keys between some tables, from the database's catalogue; no row is read.

    Parameters
    ----------
    link
        Connection to the database.
    tables
        By the name that each table has here, its name in the database.

    Raises
    ------
    DataError
        If the database is of another kind than PostgreSQL, MySQL, SQLite or DuckDB.
    """
    if link.dialect not in _OF_DIALECTS:
        raise DataError(
            f"foreign keys can be read from PostgreSQL, MySQL, SQLite and DuckDB only, not from {link.dialect}: "
            "give relations instead"
        )
    named = {_shown(table, link): name for name, table in tables.items()}
    found = []
    for name, table in tables.items():
        child = quoted_table(table, link.dialect) if link.dialect == "postgres" else _plain(table)
        rows = _texts(link, _OF_DIALECTS[link.dialect].format(child=_literal(child)), 5)
        for number in dict.fromkeys(row[0] for row in rows):
            mine = [row for row in rows if row[0] == number]
            parent = named.get(mine[0][3])
            if parent is not None:
                found.append(ForeignKey(name, tuple(row[2] for row in mine), parent, tuple(row[4] for row in mine)))
    return found


def _shown(table: str, link: Link) -> str:
    """Return a table's name as the catalogue writes it, to compare it with the parent tables of foreign keys."""
    if link.dialect != "postgres":
        return _plain(table)
    ((name,),) = _texts(link, f"SELECT {_literal(quoted_table(table, link.dialect))}::regclass::text", 1)
    return name


def _plain(table: str) -> str:
    """Return a table's name without its schema and quotation marks, as SQLite, DuckDB and MySQL list it."""
    return table.rsplit(".", 1)[-1].strip('"')


def _literal(text: str) -> str:
    """Return a text as an SQL literal in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def _texts(link: Link, query: str, many: int) -> list[tuple[str, ...]]:
    """Return the rows of a query of ``many`` columns as tuples of texts."""
    parts = [SelectedColumn(f"c{i}", "text", arrives=pa.string()) for i in range(many)]

    def each() -> Iterator[tuple[str, ...]]:
        for cells in link.blocks(query, parts):
            columns = [one.to_pylist() if hasattr(one, "to_pylist") else list(one) for one in cells]
            for row in zip(*columns, strict=True):
                yield tuple(cell.decode() if isinstance(cell, bytes) else str(cell) for cell in row)

    return list(each())
