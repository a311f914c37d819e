"""The rows of one or several periods of a series, encoded, bounded and fingerprinted once.  On the curator's side only."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, Totals
from synthdp.curator.contribution import Bounding
from synthdp.curator.private_table import PrivateTable, private_table
from synthdp.curator.spill import SpillBuffer
from synthdp.domain.encoder import RawColumn, rows_of
from synthdp.errors import RoomClosedError
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.protocol import Statistic
from synthdp.schema.column import Column
from synthdp.schema.schema import Schema
from synthdp.tables.source import Source
from synthdp.tables.sources.resolve import source_of

MODULUS = 2**256
"""Fingerprints of rows are added up modulo it, so that they do not depend on the order of rows or where tables end.
Derived: the range of SHA-256."""


@dataclass(slots=True, repr=False)
class PeriodRows(PrivateTable):
    """Rows of some periods, each bounded by itself, of which every one counts several times.

    Parameters
    ----------
    stores
        Grid indices of each period's rows.
    weight
        How often each row counts.
    """

    stores: tuple[SpillBuffer, ...] = ()
    weight: int = 1
    _open: bool = True

    def close(self) -> None:
        """Forget the rows; every later read raises."""
        PrivateTable.close(self)
        self._open = False

    def open(self) -> Source:
        """Say that there are rows, unless the table was closed."""
        if not self._open:
            raise RoomClosedError("the period was added and its rows are not read any more")
        return _NO_SOURCE

    def rows(self) -> int:
        """Return the exact number of rows, each as often as it counts.

        It may leave only where the number of rows is public.
        """
        return self.weight * PrivateTable.rows(self)

    def _block_sums(self, statistic: Statistic) -> Totals:
        """Return a statistic's sums over the periods' rows, times how often each row counts."""
        return PrivateTable._block_sums(self, statistic) * self.weight  # noqa: SLF001 - of the class that it extends

    def _grid_indices(self) -> SpillBuffer:
        """Return the rows of all periods in one store; joined once."""
        if self._stored is None:
            joined = SpillBuffer()
            for store in self.stores:
                for block in store.blocks():
                    joined.add(block)
            self._stored = joined
        return self._stored


class _Nothing:
    """A source in name: `PeriodRows` has its rows already."""

    names: tuple[str, ...] = ()

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:  # noqa: ARG002
        """Yield nothing: all rows are encoded already."""
        yield from ()


_NO_SOURCE: Source = _Nothing()
"""The source of rows that are all kept encoded."""


class Units:
    """Which units have rows in a period, and which had rows in as many periods as they may.

    Parameters
    ----------
    unit
        The column that names them.
    secret
        Keys the digests that are kept.
    spent
        (n, 2) sorted digests of those that may have no more.
    """

    def __init__(self, unit: str, secret: bytes, spent: AnyArray) -> None:
        self.unit, self._secret, self._spent = unit, secret, spent
        self._seen: set[bytes] = set()
        self._known: dict[bytes, bytes] = {}

    @property
    def seen(self) -> AnyArray:
        """(n, 2) digests of the units that were let in."""
        return np.frombuffer(b"".join(sorted(self._seen)), np.uint64).reshape(-1, 2)

    def admitted(self, raw: RawColumn) -> BoolArray:
        """Return which rows are let in, (n,); a row without a unit is one of its own."""
        digests = Bounding(1).digests(raw)
        distinct, place = np.unique(digests, axis=0, return_inverse=True)
        keyed = [hmac.digest(self._secret, one.tobytes(), "sha256")[:16] for one in distinct]
        spent = {one.tobytes() for one in self._spent}
        let_in = np.array([not one.any() or key not in spent for one, key in zip(distinct, keyed, strict=True)], bool)
        self._seen.update(key for one, key, free in zip(distinct, keyed, let_in, strict=True) if free and one.any())
        return np.asarray(let_in[place.ravel()])


class _Admitted:
    """A source without the rows of units that had rows in as many periods as they may."""

    def __init__(self, source: Source, units: Units) -> None:
        self._source, self._units = source, units

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return self._source.names

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:
        """Yield the rows that are let in."""
        wanted = tuple(dict.fromkeys([*extra, self._units.unit]))
        for block in self._source.blocks(columns, extra=wanted):
            kept = self._units.admitted(block[self._units.unit])
            yield {name: rows_of(raw, kept) for name, raw in block.items()}


def encoded(table: object, schema: Schema, adjacency: Adjacency, units: Units | None) -> SpillBuffer:
    """Return the rows of one period as grid indices: no more of a unit than may be used.

    Removing one unit changes at most as many rows of the result as the adjacency says.

    Raises
    ------
    DataError, ParameterError, SchemaError
        As for a curator's table.
    """
    source = source_of(table, schema)
    private, _ = private_table(source if units is None else _Admitted(source, units), schema, adjacency)
    return private._grid_indices()  # noqa: SLF001 - of the trusted side's own table


def fingerprint(store: SpillBuffer, secret: bytes) -> int:
    """Return a keyed fingerprint of rows that adds up over tables and does not depend on their order.

    Whoever does not know the secret can neither tell rows from it nor find others that have it.
    """
    total = 0
    for block in store.blocks():
        rows = np.column_stack([np.asarray(column, np.uint32) for column in block])
        width, written = rows.shape[1] * 4, rows.tobytes()
        for start in range(0, len(written), width):
            total += int.from_bytes(hmac.digest(secret, written[start : start + width], "sha256"))
    return total % MODULUS
