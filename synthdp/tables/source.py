"""A source of rows: the one thing that the curator knows about where a table lives."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from synthdp.arrays import AnyArray, GridIndices, Totals
from synthdp.domain.encoder import RawColumn
from synthdp.errors import DataError
from synthdp.queries.protocol import Statistic
from synthdp.schema.columns import Column
from synthdp.schema.csv_format import CsvFormat
from synthdp.schema.schema import Schema

BLOCK_ROWS = 131_072
"""Rows in a block of a file or database, which bounds memory.  The constant is public, so that block borders reveal
nothing. A safety limit."""


@runtime_checkable
class Source(Protocol):
    """A table of private rows that can be read several times, in blocks; the curator's only view of a table."""

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        ...

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:
        """Yield all rows in blocks: the raw values (labels or numbers) of some columns, read as they are declared.

        Parameters
        ----------
        columns
            The columns to read, with their declarations.
        extra
            Columns to read as labels, whatever they hold.
        """
        ...


def check_present(source: Source, schema: Schema) -> None:
    """Raise DataError if a column of a schema is missing from a table.

    The message quotes no column name of the table: in a file without a header, the names are the values of a private row.

    Raises
    ------
    DataError
        Naming the first missing column.
    """
    missing = [name for name in schema if name not in source.names]
    if missing:
        # The table's own names are not quoted: in a file without a header they are its first row.
        raise DataError(
            f"column {missing[0]!r} is missing from the table: add it, or leave it out of the schema, which has: "
            f"{', '.join(schema)}"
        )


class ArrowTyped(Protocol):
    """A source that knows its columns' Arrow types, so that files of synthetic rows can have the same."""

    @property
    def arrow_types(self) -> Mapping[str, str]:
        """Each column's Arrow type as text."""
        ...


@runtime_checkable
class TextSource(Source, Protocol):
    """A source whose cells are texts, such as a CSV file, so that some of them may mean a missing value."""

    @property
    def csv(self) -> CsvFormat:
        """Return the file's format, to be recorded in a schema."""
        ...

    @property
    def unnamed(self) -> tuple[int, ...]:
        """Positions (from 1) of the columns without a name, which cannot be read."""
        ...

    def with_missing(self, texts: Collection[str], /) -> Source:
        """Return a source of the same table in which more texts mean a missing value."""
        ...


@runtime_checkable
class RowSink(Protocol):
    """A destination of synthetic rows other than a file, such as a database table."""

    def write(self, frames: Iterable[Any], /) -> None:
        """Append pyarrow tables, all rows or none."""
        ...


CONNECTION = "connection "
"""The prefix of the address of a table behind an open connection, which is valid in this process only."""


IDENTITY = "identity "
"""The prefix of texts by which a database identifies a table, and of paths of files.  Pickling leaves
such texts out, since they may name files of this computer."""


@runtime_checkable
class OneTable(Protocol):
    """A source with an address, by which a sink can refuse to write synthetic rows into the private table."""

    @property
    def address(self) -> str | None:
        """A text that identifies the table; ``None`` if the rows are not of one table."""
        ...

    def identities(self) -> tuple[str, ...]:
        """Return texts by which the database itself identifies the tables of the rows now, whatever they are called.

        Two sources with one text in common have a table in common.
        """
        ...


@runtime_checkable
class FromFiles(Protocol):
    """A source of the rows of files, which no file of synthetic rows may replace."""

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the files."""
        ...


@runtime_checkable
class TablesSink(Protocol):
    """A destination of several synthetic tables other than a folder, such as a database."""

    def write_tables(self, blocks: Iterable[Mapping[str, Any]], /) -> None:
        """Append blocks of pyarrow tables by name, parents before their children, all rows or none."""
        ...


class Bound(Protocol):
    """A rule that limits the rows of each privacy unit, applied where the rows are; it can be pickled for that."""

    @property
    def rows(self) -> int:
        """Most rows of a unit that are kept."""
        ...

    def digests(self, unit: RawColumn, /) -> AnyArray:
        """Return a 128-bit hash of each row's unit, (n, 2) uint64; zeros where the unit is missing."""
        ...

    def keep(self, blocks: Sequence[tuple[dict[str, GridIndices], AnyArray]], /) -> dict[str, GridIndices]:
        """Return the grid indices, (kept,) by column, of the rows in ``blocks`` that are within each unit's limit.

        A block is a pair: grid indices by column, and `digests` of its rows.  Blocks must hold all rows of their units.
        """
        ...


@runtime_checkable
class CheckedSource(Source, Protocol):
    """A source that can refuse a schema before anything is spent, because it could not answer for it."""

    def check(self, schema: Schema, *, unit: str | None) -> None:
        """Raise an error if the source cannot count a schema's columns or limit a unit's rows; only types are looked at."""
        ...

    def check_values(self) -> None:
        """Raise an error if single values must not leave the source, for callers that need them."""
        ...


@runtime_checkable
class EncodingSource(Source, Protocol):
    """A source that turns values into grid indices itself, such as a database, so that fewer bytes come here."""

    def indices(
        self, schema: Schema, *, extra: Sequence[str] = ()
    ) -> Iterator[tuple[list[GridIndices | RawColumn], dict[str, RawColumn]]] | None:
        """Yield all rows in blocks: pairs of a schema's columns, encoded where possible, and the extra columns by name.

        Each column of the schema is (n,) grid indices, or raw values that are to be encoded here.

        Parameters
        ----------
        schema
            The columns.
        extra
            Columns to read as labels beside them, by name.

        Returns
        -------
        None if rows must be read as values.
        """
        ...


@runtime_checkable
class SummingSource(Source, Protocol):
    """A source that computes sums where its rows are, such as a cluster, so that only sums come here.

    The sums are what `Statistic.sums` makes of the rows in blocks: the same whole numbers, however the rows are divided
    among machines, and however often a part of the work is repeated.
    """

    def sums(
        self, statistic: Statistic, schema: Schema, *, unit: str | None = None, bound: Bound | None = None
    ) -> Totals | None:
        """Return a statistic's exact integer sums over all rows, (k,); ``None`` if sums must be computed here from blocks.

        Parameters
        ----------
        statistic
            The statistic to sum.
        schema
            Schema by which values become grid indices.
        unit, bound
            The column whose values name the units of privacy, and the limit on the rows of each unit.
        """
        ...

    def forget(self) -> None:
        """Drop the encoded rows that the source keeps between two queries; a release calls this at its end."""
        ...
