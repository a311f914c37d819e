"""What the curator guards: the rows of one table, in units, with the record of every time they were read.

Nothing outside `synthdp.privacy` may hold a room.  Its exact answers never leave it without noise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from synthdp.arrays import Codes, Totals, Units
from synthdp.domain.domain import Domain
from synthdp.domain.encoder import RawColumn, encode
from synthdp.errors import DataError, InternalError, RoomClosedError
from synthdp.privacy.adjacency import Adjacency
from synthdp.privacy.contribution import first_rows, kept_rows, rows_of
from synthdp.privacy.receipt import Item
from synthdp.queries.protocol import KeyStatistic, Statistic, check_overflow
from synthdp.schema.schema import Schema
from synthdp.tables.keys import count_keys
from synthdp.tables.source import Source

CACHED_DOMAINS = 4


@dataclass(slots=True, repr=False)
class Room:
    """Private rows and what was done with them.

    Costs nothing by itself: `Curator` charges for everything that leaves.

    Parameters
    ----------
    source
        Where the rows are.
    schema
        How they are coded.
    adjacency
        Whose rows are protected.
    """

    source: Source | None
    schema: Schema
    adjacency: Adjacency
    items: list[Item] = field(default_factory=list)
    reads: int = 0
    _units: list[dict[str, Units]] | None = None
    _codes: list[tuple[Domain, list[Codes]]] = field(default_factory=list)
    _keys: dict[tuple[str, ...], dict[str, int]] = field(default_factory=dict)

    def close(self) -> None:
        """Forget the rows; every later read raises.  Costs nothing: reads no row."""
        self.source, self._units, self._codes, self._keys = None, None, [], {}

    def raw_blocks(self, names: tuple[str, ...]) -> Iterator[Mapping[str, RawColumn]]:
        """Yield raw values of columns that are not declared yet.

        Costs nothing by itself: only a noised statistic of them may leave.
        """
        self.reads += 1
        unit = self.adjacency.unit
        extra = () if unit is None else (unit,)
        seen: dict[object, int] = {}
        for raw in self.open().blocks({name: self.schema[name] for name in names}, extra=extra):
            if unit is None:
                yield raw
            else:
                kept = first_rows(raw[unit], rows=self.adjacency.rows, seen=seen)
                yield {name: rows_of(raw[name], kept) for name in names}

    def key_counts(self, columns: tuple[str, ...]) -> Mapping[str, int]:
        """Return how often each record key occurs, the key being the text of some columns' values.

        Costs nothing by itself: only a noised statistic of them may leave.
        """
        self.reads += 1
        source = self.open()
        if columns not in self._keys:
            unit = self.adjacency.unit
            extra = columns if unit is None or unit in columns else (*columns, unit)
            counts: Counter[str] = Counter()
            seen: dict[object, int] = {}
            for raw in source.blocks({}, extra=extra):
                if unit is not None:
                    kept = first_rows(raw[unit], rows=self.adjacency.rows, seen=seen)
                    raw = {name: rows_of(raw[name], kept) for name in columns}
                counts.update(count_keys([raw[name] for name in columns]))
            self._keys[columns] = dict(counts)
        return self._keys[columns]

    def exact(self, statistic: Statistic | KeyStatistic) -> Totals:
        """Return a statistic without noise.

        Costs nothing by itself: only `Curator` may call it, and only to add noise.
        """
        check_overflow(statistic)
        if isinstance(statistic, KeyStatistic):
            values = statistic.key_totals(self.key_counts(statistic.columns))
        else:
            values = self._cell_totals(statistic)
        if values.dtype != np.int64 or values.shape != (statistic.k,):
            raise InternalError("a statistic must be k 64-bit whole numbers")
        return values

    def _cell_totals(self, statistic: Statistic) -> Totals:
        sums: Totals | None = None
        for codes in self._coded(statistic.domain):
            part = statistic.sums(codes)
            sums = part if sums is None else sums + part
        if sums is None:
            raise InternalError("a source yielded no block")
        return statistic.finish(sums)

    def rows(self) -> int:
        """Return the exact number of rows.

        Costs nothing by itself: it may leave only where the number of rows is public.
        """
        if self.schema.undeclared:  # values without a grid cannot be coded, but they can be counted
            return sum(self.key_counts(self.schema.names[:1]).values())
        return sum(len(next(iter(block.values()))) for block in self._blocks())

    def _coded(self, domain: Domain) -> list[Codes]:
        self.reads += 1
        self.open()
        for known, codes in self._codes:
            if known is domain:
                return codes
        codes = [domain.codes(block) for block in self._blocks()]
        self._codes = [(domain, codes), *self._codes[: CACHED_DOMAINS - 1]]
        return codes

    def _blocks(self) -> list[dict[str, Units]]:
        if self._units is None:
            unit = self.adjacency.unit
            extra = () if unit is None else (unit,)
            blocks, owners = [], []
            for raw in self.open().blocks(self.schema, extra=extra):
                blocks.append({name: encode(column, raw[name]) for name, column in self.schema.items()})
                owners += [] if unit is None else [raw[unit]]
            if unit is not None:
                blocks = [kept_rows(list(zip(blocks, owners, strict=True)), rows=self.adjacency.rows)]
            self._units = blocks
        return self._units

    def open(self) -> Source:
        """Return the source of rows, unless the room was closed.  Costs nothing by itself."""
        if self.source is None:
            raise RoomClosedError(
                "the curator has finished its plan and reads no more: make a new one for a new release"
            )
        return self.source


def check_columns(source: Source, schema: Schema) -> tuple[str, ...]:
    """Check that a table has the columns of a schema and return the names of those it has beyond.

    Costs nothing: reads column names only.

    Raises
    ------
    DataError
        Naming the first missing column.
    """
    missing = [name for name in schema if name not in source.names]
    if missing:
        # The table's own names are not quoted: in a file without a header they are its first row.
        raise DataError(f"column {missing[0]!r} is missing; the schema has: {', '.join(schema)}")
    return tuple(name for name in source.names if name not in schema)


def check_key_columns(room: Room, columns: tuple[str, ...]) -> None:
    """Check that a table has the columns that make up a record's key.

    Costs nothing: reads column names only.

    Raises
    ------
    DataError
        Naming the first missing column.
    """
    source = room.open()
    missing = [name for name in columns if name not in source.names]
    if missing:
        raise DataError(f"column {missing[0]!r} is missing; the key is made of: {', '.join(columns)}")
