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
from synthdp.domain.encoder import Numbers, RawColumn, rows_of
from synthdp.errors import DataError, RoomClosedError
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.protocol import KeyStatistic, LinearQueries, Statistic
from synthdp.schema.column import Column
from synthdp.schema.columns import Boolean
from synthdp.schema.schema import Schema
from synthdp.tables.resolve import source_of
from synthdp.tables.source import Source

MODULUS = 2**256
"""Fingerprints of rows are added modulo it, so that a sum depends neither on the order of rows nor on where tables end.
Derived: the range of SHA-256."""


TAKEN_BACK = "row of an earlier period that is taken back"
"""Name of a helper column that marks corrections among new rows, so that both count towards one limit on a unit's rows.
"""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class EncodedPeriod:
    """The encoded rows of one period that count, and its corrections of earlier rows.

    Parameters
    ----------
    rows
        New rows.
    taken_back
        Rows of earlier periods that count -1; ``None`` if none were given.
    mark
        A keyed fingerprint of both.
    """

    rows: SpillBuffer
    taken_back: SpillBuffer | None
    mark: int

    def close(self) -> None:
        """Forget the rows, and free their place on disk."""
        for store in (self.rows, self.taken_back):
            if store is not None:
                store.close()


@dataclass(slots=True, repr=False)
class PeriodRows(PrivateTable):
    """A private table of the rows of several periods, where each row may count ``weight`` times.

    Each period's rows have bounded contributions already.  Sums count taken-back rows -1 times; other statistics ignore
    them.

    Parameters
    ----------
    stores
        Grid indices of each period's rows.
    taken_back
        Grid indices of rows that count -1.
    weight
        Number of times that each row counts.
    """

    stores: tuple[SpillBuffer, ...] = ()
    taken_back: tuple[SpillBuffer, ...] = ()
    weight: int = 1
    _open: bool = True

    @classmethod
    def of(
        cls, periods: Sequence[EncodedPeriod], schema: Schema, adjacency: Adjacency, *, weight: int = 1
    ) -> PeriodRows:
        """Return a private table of the encoded rows of some periods, corrected; each row counts ``weight`` times.

        Statistics over all rows so far are computed from it.
        """
        back = tuple(one.taken_back for one in periods if one.taken_back is not None)
        stores = tuple(one.rows for one in periods)
        return cls(None, schema, adjacency, stores=stores, taken_back=back, weight=weight)

    def exact(self, statistic: Statistic | KeyStatistic) -> Totals:
        """Return a statistic's exact sums, (k,), without noise; see `PrivateTable.exact`.

        Of linear queries the sums over taken-back rows are subtracted; other statistics ignore taken-back rows.
        """
        found = PrivateTable.exact(self, statistic)
        if self.taken_back and isinstance(statistic, LinearQueries):
            back = PeriodRows(None, self.schema, self.adjacency, stores=self.taken_back, weight=self.weight)
            try:
                return found - back.exact(statistic)
            finally:
                back.close()
        return found

    def close(self) -> None:
        """Forget the rows; every later read raises."""
        PrivateTable.close(self)
        self._open = False

    def open(self) -> Source:
        """Return an empty source, because all rows are encoded already; raise an error if the table was closed."""
        if not self._open:
            raise RoomClosedError(
                "this period was added already, and its rows can no longer be read: add the next period"
            )
        return _NO_SOURCE

    def rows(self) -> int:
        """Return the exact number of rows, times their weight.

        The number may leave the curator only where the number of rows is public.
        """
        return self.weight * PrivateTable.rows(self)

    def _block_sums(self, statistic: Statistic) -> Totals:
        """Return a statistic's sums over the periods' rows, times the rows' weight.

        A weight above 1 stands for the rows of periods to come, so that a plan chooses statistics for the larger table.
        """
        return PrivateTable._block_sums(self, statistic) * self.weight  # noqa: SLF001 - of the class that it extends

    def _grid_indices(self) -> SpillBuffer:
        """Return the rows of all periods as one buffer of grid indices, joined once."""
        if self._stored is None:
            joined = SpillBuffer()
            for store in self.stores:
                for block in store.blocks():
                    joined.add(block)
            self._stored = joined
        return self._stored


class _Nothing:
    """An empty source of rows that stands in for the source which `PrivateTable` expects: `PeriodRows` has its rows."""

    names: tuple[str, ...] = ()

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:  # noqa: ARG002
        """Yield no block: all rows are encoded already."""
        yield from ()


_NO_SOURCE: Source = _Nothing()
"""The stand-in source of `PeriodRows`, whose rows are all encoded."""


class Units:
    """Decide which units' rows count in a period: those with rows in fewer periods than allowed; record who was seen.

    Parameters
    ----------
    unit
        The column that names them.
    secret
        Key of the hashes by which later periods know units.
    spent
        (n, 2) sorted hashes of the units that had rows in as many periods as allowed.
    """

    def __init__(self, unit: str, secret: bytes, spent: AnyArray) -> None:
        self.unit, self._secret, self._spent = unit, secret, spent
        self._seen: set[bytes] = set()

    @property
    def seen(self) -> AnyArray:
        """Sorted keyed hashes, (n, 2), of the units whose rows count in this period.

        Later periods use the hashes to refuse units with rows in too many periods.
        """
        return np.frombuffer(b"".join(sorted(self._seen)), np.uint64).reshape(-1, 2)

    def admitted(self, raw: RawColumn) -> BoolArray:
        """Return an (n,) mask of the rows whose unit may still have rows, and record these units.

        Units with rows in as many earlier periods as allowed may not.  A row without a unit always counts.
        """
        digests = Bounding(1).digests(raw)
        distinct, place = np.unique(digests, axis=0, return_inverse=True)
        keyed = [hmac.digest(self._secret, one.tobytes(), "sha256")[:16] for one in distinct]
        spent = {one.tobytes() for one in self._spent}
        let_in = np.array([not one.any() or key not in spent for one, key in zip(distinct, keyed, strict=True)], bool)
        self._seen.update(key for one, key, free in zip(distinct, keyed, let_in, strict=True) if free and one.any())
        return np.asarray(let_in[place.ravel()])


class _Admitted:
    """A source of rows without exhausted units, which had rows in as many earlier periods as allowed."""

    def __init__(self, source: Source, units: Units) -> None:
        self._source, self._units = source, units

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return self._source.names

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:
        """Yield blocks of the rows whose units are not exhausted; ``extra`` names further columns to read, as labels."""
        wanted = tuple(dict.fromkeys([*extra, self._units.unit]))
        for block in self._source.blocks(columns, extra=wanted):
            kept = self._units.admitted(block[self._units.unit])
            yield {name: rows_of(raw, kept) for name, raw in block.items()}


class _Signed:
    """New rows and taken-back rows as one source, with the column `TAKEN_BACK`, so that they share a unit's limit."""

    def __init__(self, rows: Source, taken_back: Source) -> None:
        self._parts = ((rows, 0), (taken_back, 1))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that both sources have, in order, and `TAKEN_BACK`."""
        (rows, _), (back, _) = self._parts
        return (*(name for name in rows.names if name in back.names), TAKEN_BACK)

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:
        """Yield blocks of all rows, the new ones first, with the column `TAKEN_BACK` (0 for new, 1 for taken back)."""
        wanted = {name: column for name, column in columns.items() if name != TAKEN_BACK}
        for source, sign in self._parts:
            for block in source.blocks(wanted, extra=extra):
                size = next(iter(block.values())).rows
                yield block | {TAKEN_BACK: Numbers(np.full(size, sign, np.int64))}


def encoded(
    table: object,
    schema: Schema,
    adjacency: Adjacency,
    units: Units | None,
    *,
    secret: bytes,
    taken_back: object = None,
) -> EncodedPeriod:
    """Return one period's rows as grid indices with a fingerprint, new rows and taken-back rows apart.

    A unit has at most ``adjacency.rows`` rows in the result, new or taken back, so that removing a unit changes no more.
    ``secret`` is the key of the fingerprint.

    Raises
    ------
    DataError, ParameterError, SchemaError
        As for a curator's table.
    """
    source = source_of(table, schema)
    if taken_back is not None:
        earlier = source_of(taken_back, schema)
        for names in (source.names, earlier.names):
            if any(name not in names for name in (*schema, adjacency.unit)):
                raise DataError(
                    f"corrections must have all columns of the schema and the privacy_unit column {adjacency.unit!r}"
                )
        source, schema = _Signed(source, earlier), schema.extended({TAKEN_BACK: Boolean()})
    private, _ = private_table(source if units is None else _Admitted(source, units), schema, adjacency)
    store = private._grid_indices()  # noqa: SLF001 - of the trusted side's own table
    mark = fingerprint(store, secret)
    if taken_back is None:
        return EncodedPeriod(rows=store, taken_back=None, mark=mark)
    new, back = SpillBuffer(), SpillBuffer()
    for *columns, sign in store.blocks():
        new.add([column[sign == 0] for column in columns])
        back.add([column[sign == 1] for column in columns])
    store.close()
    return EncodedPeriod(rows=new, taken_back=back, mark=mark)


def fingerprint(store: SpillBuffer, secret: bytes) -> int:
    """Return an integer fingerprint of rows, the sum of their keyed hashes: fingerprints of tables add up, in any order.

    The fingerprint detects changed rows later.  Without the secret nobody can learn rows from it or forge rows with it.
    """
    total = 0
    for block in store.blocks():
        rows = np.column_stack([np.asarray(column, np.uint32) for column in block])
        width, written = rows.shape[1] * 4, rows.tobytes()
        for start in range(0, len(written), width):
            total += int.from_bytes(hmac.digest(secret, written[start : start + width], "sha256"))
    return total % MODULUS
