"""A table or a query of a database as a source of rows: PostgreSQL by ADBC, any other by its DBAPI or ADBC driver."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from synthdp.arrays import Totals
from synthdp.domain.encoder import RawColumn
from synthdp.errors import DataError, ParameterError
from synthdp.queries.protocol import Statistic
from synthdp.schema.columns import Column, Identifier
from synthdp.schema.schema import Schema
from synthdp.tables.columns.arrow import read
from synthdp.tables.columns.parse import declared
from synthdp.tables.columns.plain import labels_of_objects
from synthdp.tables.refusals import reading
from synthdp.tables.source import Bound
from synthdp.tables.sources.dataframe import FrameSource
from synthdp.tables.sql.links import Cells, Link, opener_of
from synthdp.tables.sql.refusals import asking
from synthdp.tables.sql.types import Asked, quoted, quoted_table


class SqlSource:
    """The rows of a table or a query, which stream from the database in blocks; only the columns that are needed.

    All that is read until the release is done is read in one transaction: in PostgreSQL at REPEATABLE READ, so that rows
    which others change meanwhile are those of the moment at which it began.

    Parameters
    ----------
    database
        A URL such as ``"postgresql://user@host/name"`` (which reads by ADBC; ``sqlite:///path`` and ``duckdb:///path``
        need no driver, others go through SQLAlchemy), an SQLAlchemy engine, or a connection: of ADBC, which is cloned, or
        of a DBAPI driver, which nobody else may use meanwhile.  A password stays out of every message.
    table
        The table or view, perhaps after its schema and a dot; each part is taken as it is written.
    query
        A SELECT statement instead.

    Raises
    ------
    DataError
        If the database cannot be reached, or the table cannot be read.
    ParameterError
        If not exactly one of ``table`` and ``query`` is given, or a driver is not installed.
    """

    def __init__(self, database: Any, *, table: str | None = None, query: str | None = None) -> None:
        if (table is None) == (query is None):
            raise ParameterError("give a table, or a query, and not both")
        self._open, self._table, self._query = opener_of(database), table, query
        self._link: Link | None = None
        with asking():
            link = self._open(True)
            try:
                self._columns = {one.name: one for one in self._checked(link.columns(self._none_of(link.dialect)))}
            finally:
                link.close()

    def __repr__(self) -> str:
        return f"SqlSource({len(self.names)} columns)"

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.forget()

    def __reduce__(self) -> str:
        raise ParameterError("a source of rows of a database holds a connection and cannot be pickled or copied")

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self._columns)

    @property
    def arrow_types(self) -> Mapping[str, str]:
        """The public name of each column's Arrow type, where the database's type has one."""
        return {name: str(asked.shown) for name, asked in self._columns.items() if asked.shown is not None}

    def kind(self, name: str) -> Column:
        """Return the kind of column that a column's type suggests; see `FrameSource.kind`."""
        suits = self._columns[name].shown or (pa.float64() if self._columns[name].kind == "numeric" else pa.string())
        return FrameSource(pa.schema([(name, suits)]).empty_table()).kind(name)

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:
        """Yield all rows in blocks; see `Source.blocks`."""
        kinds: dict[str, Column] = {name: Identifier() for name in extra} | dict(columns)
        wanted = [
            self._columns[name].as_name() if column.names_rows else self._columns[name]
            for name, column in kinds.items()
        ]
        with asking():
            for cells in self._asked(self._selected(wanted), wanted):
                yield {
                    name: _raw(name, column, part) for (name, column), part in zip(kinds.items(), cells, strict=True)
                }

    def sums(
        self, statistic: Statistic, schema: Schema, *, unit: str | None = None, bound: Bound | None = None
    ) -> Totals | None:
        """Return None: rows are encoded here, once, and counted here."""
        del statistic, schema, unit, bound
        return None

    def forget(self) -> None:
        """End the transaction; the next question begins another."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _asked(self, query: str, columns: Sequence[Asked]) -> Iterator[list[Cells]]:
        """Yield the rows of a query; whatever stops them, nothing goes on in the database."""
        try:
            yield from self._linked().blocks(query, columns)
        except BaseException:
            self.forget()
            raise

    def _linked(self) -> Link:
        if self._link is None:
            self._link = self._open(True)
        return self._link

    def _selected(self, wanted: Sequence[Asked]) -> str:
        dialect = self._linked().dialect
        parts = [asked.sql.format(quoted(asked.name, dialect)) for asked in wanted] or ["1"]
        named = ", ".join(f"{part} AS {quoted(f'c{i}', dialect)}" for i, part in enumerate(parts))
        return f"SELECT {named} FROM {self._rows(dialect)}"  # noqa: S608 - names are quoted, the query is the caller's

    def _none_of(self, dialect: str) -> str:
        """Return a query of no row, which the database refuses if the columns may not be read."""
        return f"SELECT * FROM {self._rows(dialect)} WHERE 1 = 0"  # noqa: S608

    def _rows(self, dialect: str) -> str:
        if self._table is not None:
            return quoted_table(self._table, dialect)
        return f"({(self._query or '').rstrip().rstrip(';')}\n) synthdp_rows"

    def _checked(self, columns: list[Asked]) -> list[Asked]:
        counted = Counter(asked.name for asked in columns)
        for name, times in counted.items():
            if times > 1:
                raise DataError(f"the query gives {times} columns of the name {name!r}: name each of them differently")
        return columns


def _raw(name: str, column: Column, cells: Cells) -> RawColumn:
    """Return a block's cells as raw values; what is no Arrow array is read as Python's objects are anywhere."""
    with reading(name):
        if isinstance(cells, list):
            return declared(labels_of_objects(cells), column)
        return read(cells, column)
