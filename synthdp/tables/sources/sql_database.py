"""Several tables of one database as sources of rows of one moment, and as the place where synthetic tables go at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from synthdp.errors import DataError, ParameterError, in_table
from synthdp.tables.refusals import asking, inserting
from synthdp.tables.sources.sql import SqlSource
from synthdp.tables.sql.catalogue import ForeignKey, foreign_keys
from synthdp.tables.sql.openers import Snapshot


class SqlDatabase(Mapping[str, SqlSource]):
    """Tables and queries of one database, by the names that a `DatabaseSchema` gives them.

    All are read in one transaction: in PostgreSQL at REPEATABLE READ, so that a row and the rows that belong to it are of
    one moment.  Synthetic tables are written in one transaction, too: all rows of all tables or none.

    Parameters
    ----------
    database
        As `SqlSource` takes it.
    tables
        Names of tables, or the table of each name; a text that begins with ``SELECT`` or ``WITH`` is a query, which renames
        columns or adds the person's key to a table that lacks it.
    push
        As `SqlSource` takes it; rows of several tables are joined here, so that ``"counts"`` is refused.

    Raises
    ------
    DataError
        If the database cannot be reached, or a table cannot be read.
    ParameterError
        If there is no table, or ``push="counts"`` is asked for.

    Examples
    --------
    >>> import sqlite3
    >>> import synthdp as sd
    >>> bank = sqlite3.connect(":memory:")
    >>> _ = bank.executescript(
    ...     "CREATE TABLE persons (id INTEGER PRIMARY KEY, sex TEXT); "
    ...     "CREATE TABLE visits (id INTEGER REFERENCES persons (id), year INTEGER)"
    ... )
    >>> tables = sd.SqlDatabase(bank, ["persons", "visits"])
    >>> tables.relations(at_most={"visits": 12})
    [Relation(parent='persons', child='visits', key='id', at_most=12, order=None, unique=False)]
    """

    def __init__(self, database: Any, tables: Mapping[str, str] | Sequence[str], *, push: str = "rows") -> None:
        if push == "counts":
            raise ParameterError(
                "push='counts' cannot join the rows of several tables: push must be 'rows', 'codes' or 'auto'"
            )
        named = dict(tables) if isinstance(tables, Mapping) else {name: name for name in tables}
        if not named or isinstance(tables, str):
            raise ParameterError("tables must name at least one table, as a list or a dict")
        self._snapshot = Snapshot(database)
        self._sources = {
            name: SqlSource(self._snapshot, push=push, **{"query" if _is_query(text) else "table": text})
            for name, text in named.items()
        }

    def __repr__(self) -> str:
        return f"SqlDatabase({', '.join(self._sources)})"

    def __getitem__(self, name: str) -> SqlSource:
        return self._sources[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def foreign_keys(self) -> list[ForeignKey]:
        """Return the foreign keys between the tables from the database's catalogue; no row is read.

        Raises
        ------
        DataError
            If the database cannot tell.
        """
        tables = {name: one.table for name, one in self._sources.items() if one.table is not None}
        with asking():
            link = self._snapshot.open("read")
            try:
                return foreign_keys(link, tables)
            finally:
                link.close()

    def relations(self, at_most: Mapping[str, int], *, order: Mapping[str, str] | None = None) -> list[Any]:
        """Return the relations for a `DatabaseSchema` that the tables' foreign keys imply.

        Parameters
        ----------
        at_most
            By child table how many rows of one parent row are used: a public bound, which no catalogue has.
        order
            By child table the column that orders the rows of a parent row.

        Raises
        ------
        DataError
            If a foreign key's columns have different names in the two tables, which a `Relation` does not allow.
        ParameterError
            If ``at_most`` does not name the child tables.
        """
        from synthdp.schema.relation import Relation

        keys = [one for one in self.foreign_keys() if one.child != one.parent]
        lacking = [one.child for one in keys if one.child not in at_most]
        if lacking:
            raise ParameterError(
                f"at_most has no entry for {lacking[0]!r}: give the largest number of rows per parent row, a public "
                "bound that is not read off the tables"
            )
        unknown = [name for name in {**at_most, **(order or {})} if name not in {one.child for one in keys}]
        if unknown:
            raise ParameterError(
                f"at_most or order names table {unknown[0]!r}, which has no foreign key to another table here: "
                "remove this entry"
            )
        for one in keys:
            if one.columns != one.parent_columns:
                raise DataError(
                    f"the foreign key of {one.child!r} is {one.columns}, but it refers to {one.parent_columns} of "
                    f"{one.parent!r}: give queries in which key columns have the same names in both tables, and write the "
                    "sd.Relation yourself, because a query has no foreign keys"
                )
        order = order or {}
        return [Relation(one.parent, one.child, one.columns, at_most[one.child], order.get(one.child)) for one in keys]

    def write_tables(self, blocks: Iterable[Mapping[str, Any]]) -> None:
        """Append synthetic rows to several tables in one transaction, parents before their children: all rows or none.

        Parameters
        ----------
        blocks
            Parts of the rows: each holds a pyarrow table for every table's name, with the same columns in every part.

        Raises
        ------
        DataError
            If the database refuses the rows.
        ParameterError
            If a name is none of the tables, or stands for a query.
        """
        self.forget()
        with inserting():
            link = self._snapshot.open("write")
            try:
                for block in blocks:
                    for name, rows in block.items():
                        if name not in self._sources:
                            raise ParameterError(
                                f"the SqlDatabase has no table {name!r} to write to: add it to tables, beside "
                                f"{', '.join(self)}"
                            )
                        with in_table(name), inserting():
                            self._sources[name].insert(link, [rows])
                link.commit()
            finally:
                link.close()

    def forget(self) -> None:
        """End the transaction in which the tables were read; the next query begins a new one."""
        for one in self._sources.values():
            one.forget()


def _is_query(text: str) -> bool:
    """Return whether a text is a SELECT or WITH query rather than a table's name."""
    return text.split(maxsplit=1)[:1] != [] and text.split(maxsplit=1)[0].upper() in ("SELECT", "WITH")
