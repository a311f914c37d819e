"""A source of rows: the one thing that the room knows about where a table lives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from synthdp.domain.encoder import RawColumn
from synthdp.schema.columns import Column


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
