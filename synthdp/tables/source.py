"""A source of rows: the one thing that the curator knows about where a table lives."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from synthdp.arrays import AnyArray, GridIndices, Totals
from synthdp.domain.encoder import RawColumn
from synthdp.queries.protocol import Statistic
from synthdp.schema.columns import Column
from synthdp.schema.csv_format import CsvFormat
from synthdp.schema.schema import Schema

BLOCK_ROWS = 131_072
"""Rows of a block of a file or a database; a public constant, so that where blocks end tells nothing of the rows.
A safety limit."""


@runtime_checkable
class Source(Protocol):
    """A table that can be read, several times, in blocks of rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        ...

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:
        """Yield all rows in blocks: the raw values of some columns, read as their declarations say.

        Parameters
        ----------
        columns
            Which columns, and what they may hold.
        extra
            Columns to read as labels, whatever they hold.
        """
        ...


class ArrowTyped(Protocol):
    """A source that knows which Arrow types its columns have, so that a file of synthetic rows may have them too."""

    @property
    def arrow_types(self) -> Mapping[str, str]:
        """The public name of each column's Arrow type."""
        ...


@runtime_checkable
class TextSource(Source, Protocol):
    """A table whose cells are texts, some of which stand for a missing value."""

    @property
    def csv(self) -> CsvFormat:
        """Return the file's format, as a schema records it."""
        ...

    @property
    def unnamed(self) -> tuple[int, ...]:
        """Places of the columns without a name, from 1."""
        ...

    def with_missing(self, texts: Collection[str], /) -> Source:
        """Return the same table, in which more texts stand for a missing value."""
        ...


@runtime_checkable
class RowSink(Protocol):
    """Where synthetic rows may go that is no file."""

    def write(self, frames: Iterable[Any], /) -> None:
        """Append pyarrow tables, all or none."""
        ...


CONNECTION = "connection "
"""How the address of a table of an open connection begins; it is an object's, and means nothing elsewhere."""


@runtime_checkable
class OneTable(Protocol):
    """A source whose table has a known address."""

    @property
    def address(self) -> str | None:
        """What tells the table from others; ``None`` if it is of none."""
        ...


@runtime_checkable
class TablesSink(Protocol):
    """Where several synthetic tables may go at once that is no folder."""

    def write_tables(self, blocks: Iterable[Mapping[str, Any]], /) -> None:
        """Append pyarrow tables by name, parents before their children, all or none."""
        ...


class Bound(Protocol):
    """Keeps some rows of each unit of privacy, where the rows are; it can be pickled."""

    @property
    def rows(self) -> int:
        """Most rows of a unit that are kept."""
        ...

    def digests(self, unit: RawColumn, /) -> AnyArray:
        """Return what stands for the unit of each row, (n, 2) uint64; zeros where it is missing."""
        ...

    def keep(self, blocks: Sequence[tuple[dict[str, GridIndices], AnyArray]], /) -> dict[str, GridIndices]:
        """Return blocks of grid indices with their rows' digests as one, without the rows that are too many.

        All rows of a digest must be there.
        """
        ...


@runtime_checkable
class CheckedSource(Source, Protocol):
    """A source that can say beforehand that it cannot answer for a schema."""

    def check(self, schema: Schema, *, unit: str | None) -> None:
        """Refuse a schema, or a column of units, by names, types and declarations alone."""
        ...

    def check_values(self) -> None:
        """Refuse if values do not leave the source, for what asks for rows or their keys."""
        ...


@runtime_checkable
class EncodingSource(Source, Protocol):
    """A source that encodes values where they are."""

    def indices(
        self, schema: Schema, *, extra: Sequence[str] = ()
    ) -> Iterator[tuple[list[GridIndices | RawColumn], dict[str, RawColumn]]] | None:
        """Yield blocks of all rows: each column of a schema as the encoder's grid indices, or its raw values.

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
    """A table that sums integers where its rows are, so that only the sums come here.

    The sums are what `Statistic.sums` makes of the rows in blocks: the same whole numbers, however the rows are
    divided among machines, and however often a part of the work is repeated.
    """

    def sums(
        self, statistic: Statistic, schema: Schema, *, unit: str | None = None, bound: Bound | None = None
    ) -> Totals | None:
        """Return the exact sums of a statistic over all rows, or None if they must be made from blocks.

        Parameters
        ----------
        statistic
            What to sum.
        schema
            How values become grid indices.
        unit, bound
            The column whose values are the units of privacy, and what keeps some rows of each.
        """
        ...

    def forget(self) -> None:
        """Drop the rows that the source kept for its next question."""
        ...
