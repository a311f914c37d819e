"""What the curator guards: the rows of one table, encoded as grid indices, and a count of the times they were read.

Nothing outside `synthdp.curator` may hold a private table.  Its exact answers never leave without noise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock

import numpy as np

from synthdp.arrays import AnyArray, Clique, GridIndices, Totals, frozen
from synthdp.curator.contribution import Bounding, first_rows
from synthdp.curator.spill import MEMORY_BYTES, SpillBuffer
from synthdp.domain.domain import Domain, domain_of
from synthdp.domain.encoder import Labels, Numbers, RawColumn, encode, rows_of
from synthdp.errors import DataError, InternalError, ParameterError, RoomClosedError, SchemaError
from synthdp.parallel import in_order, workers_for
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.linear import Total
from synthdp.queries.marginals import Marginals, OfTables
from synthdp.queries.protocol import AddingStatistic, KeyStatistic, Statistic, about_keys, check_overflow
from synthdp.schema.columns import Column, Identifier
from synthdp.schema.schema import Schema
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.resolve import infer_schema, source_of
from synthdp.tables.source import CheckedSource, EncodingSource, Source, SummingSource, check_present

CACHED_DOMAINS = 4
"""Domains (binnings of the columns) whose encoded rows are kept, so that the next query need not encode them again.  A
safety limit on memory."""

KEPT_CELLS = 1 << 22
"""Most cells of exact marginals that are kept for one domain, so that they are not counted twice: 32 MiB.  A safety
limit."""

SLAB_ROWS = 1 << 19
"""Rows that one thread encodes and counts at once: enough to make an array of a marginal's cells worth its time. A
safety limit."""

BUCKETS = 64
"""Files that rows are divided into by their unit, so that only one file, not the table, must fit in memory.  A safety
limit."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Coded:
    """All rows as bin codes over the axes of one domain, and the exact marginals already counted from them."""

    domain: Domain
    codes: SpillBuffer
    counts: dict[Clique, Totals] = field(default_factory=dict)


@dataclass(slots=True, repr=False)
class PrivateTable:
    """The private rows of one table, encoded once and kept on disk, and a count of how often they were read.

    Parameters
    ----------
    source
        Source of the rows.
    schema
        Schema by which they are encoded.
    adjacency
        The neighbouring relation, with the protected unit.
    """

    source: Source | None
    schema: Schema
    adjacency: Adjacency
    reads: int = 0
    _stored: SpillBuffer | None = None
    _coded: list[_Coded] = field(default_factory=list)
    _keys: dict[tuple[str, ...], dict[str, int]] = field(default_factory=dict)

    def close(self) -> None:
        """Forget the rows; every later read raises."""
        self._forget()
        if isinstance(self.source, SummingSource):
            self.source.forget()
        self.source, self._keys = None, {}

    def _forget(self) -> None:
        """Close and drop the encoded rows that are kept on disk or in memory."""
        for store in [*([] if self._stored is None else [self._stored]), *(coded.codes for coded in self._coded)]:
            store.close()
        self._stored, self._coded = None, []

    def raw_blocks(self, names: tuple[str, ...]) -> Iterator[Mapping[str, RawColumn]]:
        """Yield raw values of undeclared columns, block by block, without a unit's rows beyond the unit's limit.

        Only a noised statistic of the values may leave.
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
        """Return how often each record key (the text of some columns' values) occurs.

        A unit's rows beyond the unit's limit are not counted. The counts are kept, so that asking for the same columns
        again reads no rows.

        Only a noised statistic of the counts may leave.
        """
        from synthdp.tables.keys import count_keys

        self.reads += 1
        source = self.open()
        if columns not in self._keys:
            counts: Counter[str] = Counter()
            seen: dict[object, int] = {}
            for raw in source.blocks({}, extra=tuple(dict.fromkeys([*columns, *self._unit_columns]))):
                if self._unit_columns:
                    kept = first_rows(self._unit_of(raw), rows=self.adjacency.rows, seen=seen)
                    raw = {name: rows_of(raw[name], kept) for name in columns}
                counts.update(count_keys([raw[name] for name in columns]))
            self._keys[columns] = dict(counts)
        return self._keys[columns]

    @property
    def _unit_columns(self) -> tuple[str, ...]:
        """The columns that name the unit of a row; none if each row is a unit."""
        return () if self.adjacency.unit is None else (self.adjacency.unit,)

    def _unit_of(self, raw: Mapping[str, RawColumn]) -> RawColumn:
        """Return the unit of each row of a block that holds the unit's columns."""
        return raw[str(self.adjacency.unit)]

    def exact(self, statistic: Statistic | KeyStatistic) -> Totals:
        """Return a statistic's exact integer sums, (k,), without noise.

        Only `Curator` may call it, for what `check_question` lets pass, and only to add noise.
        """
        if about_keys(statistic):
            values = statistic.key_totals(self.key_counts(statistic.columns))
        else:
            values = self._cell_totals(statistic)
        if values.dtype != np.int64 or values.shape != (statistic.k,):
            raise InternalError("a statistic must be k 64-bit whole numbers")
        return values

    def exact_each(self, statistics: Sequence[Statistic | KeyStatistic]) -> list[Totals]:
        """Return the exact sums of several statistics, (k,) each, in one pass if all are marginals over one domain.

        Only `Curator` may call it; see `exact`.
        """
        tables = [one for one in statistics if isinstance(one, Marginals)]
        if (
            len(tables) < 2
            or len(tables) < len(statistics)
            or any(one.domain is not tables[0].domain for one in tables)
        ):
            return [self.exact(one) for one in statistics]
        together = Marginals(tables[0].domain, tuple(clique for one in tables for clique in one.cliques))
        ends = np.cumsum([one.k for one in tables])[:-1]
        return np.split(self.exact(together), ends)

    def _cell_totals(self, statistic: Statistic) -> Totals:
        """Return a statistic's exact sums, (k,), computed by the source itself (such as a SQL database) if it can.

        Else the rows are fetched in blocks and summed here.
        """
        if isinstance(statistic, OfTables) and statistic.counted is not statistic:
            return statistic.of_tables(self._cell_totals(statistic.counted))
        source, unit = self.open(), self.adjacency.unit
        if isinstance(source, SummingSource):
            summed = source.sums(statistic, self.schema, unit=unit, bound=self._bound)
            if summed is not None:
                self.reads += 1
                return statistic.finish(summed)
        return self._block_totals(statistic)

    def _block_totals(self, statistic: Statistic) -> Totals:
        """Return a statistic's exact sums, (k,), from blocks of encoded rows, where the source cannot sum by itself."""
        return statistic.finish(self._block_sums(statistic))

    def _block_sums(self, statistic: Statistic) -> Totals:
        """Return a statistic's sums over all encoded rows, before its `finish` turns them into (k,) answers.

        Counts of marginals are stored up to `KEPT_CELLS` cells, and then not counted again.
        """
        self.reads += 1
        coded = self._coded_as(statistic.domain)
        if isinstance(statistic, Marginals) and statistic.k <= KEPT_CELLS:
            return _counts(statistic, coded)
        return _sums(statistic, coded.codes)

    @property
    def _slab_rows(self) -> int:
        """The number of rows that one thread encodes at once; `PrivateDatabase` has another limit, for wide records."""
        return SLAB_ROWS

    @property
    def _bound(self) -> Bounding | None:
        """The limit on rows of one unit, or ``None`` where each row is a unit."""
        return None if self.adjacency.unit is None else Bounding(self.adjacency.rows)

    def rows(self) -> int:
        """Return the exact number of rows, without a unit's rows beyond the unit's limit.

        The number may leave the curator only where the number of rows is public, that is under ``replace_one``.
        """
        if isinstance(self.source, SummingSource) and not self.schema.undeclared:
            return int(self.exact(Total(domain_of(self.schema, bins=1)))[0])
        if self.schema.undeclared:  # values without a grid cannot be coded, but they can be counted
            return sum(self.key_counts(self.schema.names[:1]).values())
        return sum(len(block[0]) for block in self._grid_indices().blocks())

    def _coded_as(self, domain: Domain) -> _Coded:
        """Return all rows as bin codes over the axes of a domain; codes of the last `CACHED_DOMAINS` domains are kept."""
        self.open()
        for coded in self._coded:
            if coded.domain is domain:
                return coded
        store = SpillBuffer(memory=MEMORY_BYTES // CACHED_DOMAINS)
        names = self.schema.names
        slabs = _slabs(self._grid_indices().blocks(), self._slab_rows)
        for codes in in_order(lambda slab: domain.codes(dict(zip(names, slab, strict=True))), slabs):
            store.add([codes])
        for old in self._coded[CACHED_DOMAINS - 1 :]:
            old.codes.close()
        self._coded = [_Coded(domain=domain, codes=store), *self._coded[: CACHED_DOMAINS - 1]]
        return self._coded[0]

    def _grid_indices(self) -> SpillBuffer:
        """Return all rows as grid indices, (rows,) for each column in blocks, with bounded contributions; encoded once."""
        if self._stored is None:
            source, unit, bound = self.open(), self.adjacency.unit, self._bound
            buckets = [] if bound is None else [SpillBuffer(memory=MEMORY_BYTES // BUCKETS) for _ in range(BUCKETS)]
            store, rows = SpillBuffer(), 0
            try:
                for indices, digests in blocks_of_indices(source, self.schema, unit, bound):
                    if digests is None:
                        store.add(indices)
                    else:
                        _distribute(indices, digests, buckets)
                        rows += len(digests)
                if bound is not None:
                    filled = [bucket for bucket in buckets if not bucket.empty]
                    for kept in in_order(partial(_kept, bound, self.schema.names), filled, workers=workers_for(rows)):
                        store.add(kept)
            except BaseException:
                for left in (store, *buckets):
                    left.close()
                raise
            self._stored = store
        return self._stored

    def open(self) -> Source:
        """Return the source of rows; raise RoomClosedError if the table was closed."""
        if self.source is None:
            raise RoomClosedError(
                "the curator is closed and no longer holds rows: make a new Curator for a new release"
            )
        return self.source


def private_table(table: object, schema: Schema | None, adjacency: Adjacency) -> tuple[PrivateTable, tuple[str, ...]]:
    """Return a table's private rows, and the names of its columns beyond the schema; no value is looked at.

    Without a schema one is made of the public column names and types.

    Raises
    ------
    DataError, ParameterError, SchemaError
        As `check_columns` and `check_unit` do.
    """
    source = source_of(table, schema)
    schema = infer_schema(source, without=adjacency.unit) if schema is None else schema
    extra_columns = check_columns(source, schema)
    check_unit(source, schema, adjacency.unit)
    if isinstance(source, CheckedSource):
        source.check(schema, unit=adjacency.unit)
    return PrivateTable(source, schema, adjacency), extra_columns


def _counts(tables: Marginals, coded: _Coded) -> Totals:
    """Return the exact counts of some marginals, (cells,), one after the other.

    Marginals counted before need no pass over the rows.
    """
    new = tuple(dict.fromkeys(clique for clique in tables.cliques if clique not in coded.counts))
    counts = dict(coded.counts)
    if new:
        counted = Marginals(tables.domain, new)
        sums = frozen(_sums(counted, coded.codes))
        counts |= zip(new, counted.split(sums), strict=True)
        if sum(len(table) for table in counts.values()) <= KEPT_CELLS:
            coded.counts.update(counts)
        if new == tables.cliques:
            return sums
    return np.concatenate([counts[clique] for clique in tables.cliques])


def _sums(statistic: Statistic, codes: SpillBuffer) -> Totals:
    """Return a statistic's integer sums over all blocks of encoded rows, before its `finish` makes (k,) answers of it.

    Several threads compute them, block by block.
    """
    blocks, sums = (block for (block,) in codes.blocks()), None
    if isinstance(statistic, AddingStatistic):
        total, adding = np.zeros(statistic.cells_added, np.int64), Lock()
        for _ in in_order(partial(statistic.add_sums, total, adding=adding), blocks):
            sums = total
    else:
        for part in in_order(statistic.sums, blocks):
            sums = part.copy() if sums is None else np.add(sums, part, out=sums)
    if sums is None:
        raise InternalError("a source yielded no block")
    return sums


def check_columns(source: Source, schema: Schema) -> tuple[str, ...]:
    """Return the names of a table's columns beyond the schema; raise DataError if a column of the schema is missing.

    Raises
    ------
    DataError
        Naming the first missing column.
    """
    check_present(source, schema)
    return tuple(name for name in source.names if name not in schema.outputs)


def check_unit(source: Source, schema: Schema, unit: str | None) -> None:
    """Raise an error unless a table has the privacy unit's column, and the schema leaves it out or has an `Identifier`.

    A column of another type would release the values that name the protected persons.

    Raises
    ------
    ParameterError
        If the table has no such column.
    SchemaError
        If the column is declared as anything but an identifier.
    """
    if unit is None:
        return
    if unit not in source.names:
        raise ParameterError(f"privacy_unit ({unit!r}) must be a column of the table")
    if unit in schema and not isinstance(schema[unit], Identifier):
        raise SchemaError(
            f"column {unit!r} is the privacy_unit: declare it as an Identifier, which is released as fresh labels, or leave "
            "it out of the schema"
        )


def check_question(table: PrivateTable, statistic: Statistic | KeyStatistic) -> None:
    """Raise an error if a statistic does not fit this table, before anything is charged or read.

    Raises
    ------
    DataError
        If a column of a record's key is missing.
    ParameterError
        If a column of the statistic's domain is declared otherwise than in the curator's schema, or not at all: its cells
        would stand for other values.
    SensitivityError
        If it may overflow an integer sum.
    """
    check_overflow(statistic)
    if about_keys(statistic):
        check_key_columns(table, statistic.columns)
        return
    table.open()
    for axis in statistic.domain.axes:
        if axis.column != table.schema.get(axis.name):
            raise ParameterError(
                f"column {axis.name!r} of the queries is not declared as in the curator's schema: build the domain "
                "of the queries from curator.schema"
            )


def check_key_columns(table: PrivateTable, columns: tuple[str, ...]) -> None:
    """Raise DataError unless a table has the columns that make up a record's key, and their values can be read.

    Raises
    ------
    DataError
        Naming the first missing column, or if the source gives counts only.
    """
    source = table.open()
    missing = [name for name in columns if name not in source.names]
    if missing:
        raise DataError(
            f"the table has no column {missing[0]!r}: add it, because the mechanism counts these columns together: "
            f"{', '.join(columns)}"
        )
    if isinstance(source, CheckedSource):
        source.check_values()


def blocks_of_indices(
    source: Source, schema: Schema, unit: str | None, bound: Bounding | None
) -> Iterator[tuple[list[GridIndices], AnyArray | None]]:
    """Yield each block's columns as (n,) grid indices, in the schema's order, with (n, 2) hashes of the rows' units.

    The hashes are ``None`` where each row is a unit.  Sources that encode by themselves, such as SQL databases, do so.
    """
    extra = () if unit is None else (unit,)

    def owners(raw: Mapping[str, RawColumn]) -> AnyArray | None:
        return None if unit is None or bound is None else bound.digests(raw[unit])

    there = source.indices(schema, extra=extra) if isinstance(source, EncodingSource) else None
    if there is not None:
        yield from in_order(
            lambda block: ([_encoded(*pair) for pair in zip(schema.values(), block[0], strict=True)], owners(block[1])),
            there,
        )
        return
    if isinstance(source, FrameSource):  # one block: column after column, so that few columns' values are held at once
        columns = ((kind, block[name]) for name, kind in schema.items() for block in source.blocks({name: kind}))
        indices = list(in_order(lambda pair: encode(*pair), columns, workers=workers_for(source.rows)))
        for block in source.blocks({}, extra=extra):
            yield indices, owners(block)
        return
    yield from in_order(
        lambda raw: ([encode(column, raw[name]) for name, column in schema.items()], owners(raw)),
        source.blocks(schema, extra=extra),
    )


def _encoded(column: Column, cells: GridIndices | RawColumn) -> GridIndices:
    """Return one column's values as grid indices, (n,); a source that encodes by itself has grid indices already."""
    return encode(column, cells) if isinstance(cells, Labels | Numbers) else cells


def _kept(bound: Bounding, names: Sequence[str], bucket: SpillBuffer) -> list[GridIndices]:
    """Return the columns, (n,) each, of one bucket without rows beyond each unit's limit, and free the bucket's file."""
    blocks = [(dict(zip(names, some, strict=True)), digest) for *some, digest in bucket.blocks()]
    kept = bound.keep(blocks)
    bucket.close()
    return [kept[name] for name in names]


def _slabs(blocks: Iterable[Sequence[AnyArray]], rows: int) -> Iterator[list[AnyArray]]:
    """Yield blocks of about ``rows`` rows, (n,) a column, as suits the threads: small blocks joined, large ones cut."""
    waiting: list[list[AnyArray]] = []
    held = 0
    for block in blocks:
        for start in range(0, max(1, len(block[0])), rows):
            waiting.append([column[start : start + rows] for column in block])
            held += len(waiting[-1][0])
            if held >= rows:
                yield joined_blocks(waiting)
                waiting, held = [], 0
    if waiting:
        yield joined_blocks(waiting)


def joined_blocks(blocks: Sequence[Sequence[AnyArray]]) -> list[AnyArray]:
    """Return each column as one array, (n,) or (n, 2), from blocks that hold a part of every column."""
    return list(blocks[0]) if len(blocks) == 1 else [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def _distribute(indices: Sequence[AnyArray], digests: AnyArray, buckets: Sequence[SpillBuffer]) -> None:
    """Append every row to the bucket of its unit's hash, so that all rows of a unit lie in one bucket.

    Rows without a unit are spread evenly.
    ``indices`` are (n,) columns, ``digests`` (n, 2) hashes of units.
    """
    place = np.where(digests.any(axis=1), digests[:, 0], np.arange(len(digests), dtype=np.uint64))
    bucket = (place % np.uint64(len(buckets))).astype(np.uint8)
    order = np.argsort(bucket, kind="stable")
    ends = np.cumsum(np.bincount(bucket, minlength=len(buckets)))[:-1]
    parts = [np.split(column[order], ends) for column in indices]
    for i, (store, mine) in enumerate(zip(buckets, np.split(digests[order], ends), strict=True)):
        if len(mine) or i == 0:  # a table without rows is a block too
            store.add([*(part[i] for part in parts), mine])
