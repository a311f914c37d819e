"""Several private tables, encoded as one record for each person.

A person is a value of the root table's key.  The person's own rows alone decide which of them are used and in which
order.  So adding, removing or replacing a person changes exactly one record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, GridIndices, IntArray, Totals
from synthdp.curator.contribution import Bounding, joined, mixed, one_row_of_each, place_in_run
from synthdp.curator.private_table import BUCKETS, SLAB_ROWS, PrivateTable, check_columns, joined_blocks
from synthdp.curator.spill import MEMORY_BYTES, SpillBuffer
from synthdp.domain.differences import Difference
from synthdp.domain.encoder import RawColumn, encode, rows_of
from synthdp.domain.histories import NO_PARENT_ROW, REPEATED_ROW, STATE, Layout, Order, TableLayout
from synthdp.errors import DataError, InternalError, in_table
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.protocol import Statistic
from synthdp.schema.database import DatabaseSchema, check_table_names
from synthdp.tables.resolve import source_of
from synthdp.tables.source import CheckedSource, Source, SummingSource

LEAST_PERSONS = 4096
"""Least number of persons whose records are encoded at once, also where records are wide.  Fewer would be slow, more would
take more memory.  A safety limit; not measured."""


@dataclass(slots=True, repr=False)
class PrivateDatabase(PrivateTable):
    """Several private tables as one table with one record for each person, so that a person is the privacy unit.

    Parameters
    ----------
    sources
        Source of the rows of each table, by name.
    layout
        The record of a person.  Until `complete` is called, undeclared columns have placeholder values in it.
    declared
        The schema with undeclared columns, until `complete` is called; ``None`` afterwards, or if all are declared.
    """

    sources: dict[str, Source] = field(default_factory=dict)
    layout: Layout | None = None
    declared: DatabaseSchema | None = None

    def close(self) -> None:
        """Forget the rows; every later read raises."""
        PrivateTable.close(self)
        for source in self.sources.values():
            if isinstance(source, SummingSource):
                source.forget()
        self.sources = {}

    def open_table(self, name: str) -> PrivateTable:
        """Return one table with undeclared columns, for discovery; at most one row of each person is read from it.

        Anything computed from its values needs noise for ``Adjacency.of_one_row`` before it leaves the curator.
        """
        if self.declared is None:
            raise InternalError("no column of the database is open")
        self.open()
        adjacency, keys = Adjacency(unit=self.adjacency.unit), self.declared.person_keys
        return _OneRowEach(self.sources[name], self.declared.tables[name], adjacency, keys=keys)

    def complete(self, schema: DatabaseSchema) -> None:
        """Set the schema that discovery has completed; it fixes how a person's rows are encoded as one record."""
        self.layout, self.declared = Layout(schema), None
        self.schema = self.layout.wide

    def _grid_indices(self) -> SpillBuffer:
        """Return all persons' records, (persons,) grid indices of each column, in blocks; rows are read and joined once.

        Rows are first divided into `BUCKETS` files by person, so that only one bucket must fit in memory.
        """
        if self._stored is None:
            self.open()
            layout = self._layout()
            store, buckets = SpillBuffer(), _buckets(layout)
            try:
                for table in layout.tables:
                    with in_table(table.name):
                        self._distribute(table, buckets[table.name])
                for number in range(BUCKETS):
                    parts = {name: [*stores[number].blocks()] for name, stores in buckets.items()}
                    store.add(records_of(layout, {name: joined_blocks(blocks) for name, blocks in parts.items()}))
                    for stores in buckets.values():
                        stores[number].close()
            except BaseException:
                for left in (store, *(one for stores in buckets.values() for one in stores)):
                    left.close()
                raise
            self._stored = store
        return self._stored

    @property
    def _unit_columns(self) -> tuple[str, ...]:
        """The columns that together name a person."""
        schema = self.declared if self.layout is None else self.layout.schema
        if schema is None:
            raise InternalError("a private database needs a schema")
        return schema.person_keys

    def _unit_of(self, raw: Mapping[str, RawColumn]) -> RawColumn:
        """Return the person's key of each row of a block, as one column."""
        return joined([raw[name] for name in self._unit_columns])

    def rows(self) -> int:
        """Return the exact number of persons.

        The number is public under ``replace_one`` only; otherwise it must not leave the curator without noise.
        """
        return sum(len(block[0]) for block in self._grid_indices().blocks())

    def _cell_totals(self, statistic: Statistic) -> Totals:
        """Return a statistic's exact sums over persons' records, (k,).

        The records are encoded here, since no database can count them by SQL.
        """
        return self._block_totals(statistic)

    @property
    def _slab_rows(self) -> int:
        """The number of persons whose records are encoded at once; fewer for wider records, to bound memory."""
        return max(LEAST_PERSONS, 2 * SLAB_ROWS // len(self.schema))

    def _layout(self) -> Layout:
        """Return how a person's rows become one record; raise InternalError before discovery has completed the schema."""
        if self.layout is None or self.declared is not None:
            raise InternalError("a private database needs a layout")
        return self.layout

    def _distribute(self, table: TableLayout, stores: Sequence[SpillBuffer]) -> None:
        """Read one table and append each encoded row, with the hashes of its keys, to its person's buffer among ``stores``.

        So later only one buffer of each table must fit in memory.
        """
        schema = self._layout().schema
        columns = {name: one for name, one in schema.tables[table.name].items() if not one.names_rows}
        bound = Bounding(1)
        for raw in self.sources[table.name].blocks(columns, extra=schema.keys_of(table.name)):
            indices = [encode(column, raw[name]) for name, column in columns.items()]
            digests = [bound.digests(joined([raw[name] for name in key])) for key in schema.joins_of(table.name)]
            _scatter([*indices, *digests[1:]], digests[0], stores)


@dataclass(slots=True, repr=False)
class _OneRowEach(PrivateTable):
    """One of several tables, read with a single row of each person.

    If one person could have several rows, discovery would need noise in proportion to their number, and find less.

    Parameters
    ----------
    keys
        The columns that identify a person.
    many
        The number of rows of each person, by the person's key; ``None`` until the rows are counted.
    """

    keys: tuple[str, ...] = ()
    many: dict[object, int] | None = None

    def raw_blocks(self, names: tuple[str, ...]) -> Iterator[Mapping[str, RawColumn]]:
        """Yield the raw values of undeclared columns, block by block, for discovery; each person has one row at most."""
        source = self.open()
        if self.many is None:
            self.reads += 1
            many: dict[object, int] = {}
            for raw in source.blocks({}, extra=self.keys):
                one_row_of_each(self._person(raw), many={}, seen=many)
            self.many = many
        self.reads += 1
        seen: dict[object, int] = {}
        for raw in source.blocks({name: self.schema[name] for name in names}, extra=self.keys):
            kept = one_row_of_each(self._person(raw), many=self.many, seen=seen)
            yield {name: rows_of(raw[name], kept) for name in names}

    def _person(self, raw: Mapping[str, RawColumn]) -> RawColumn:
        """Return (rows,) the key of each row's person, its columns joined to one; missing where one of these is missing.

        Rows with the same key belong to one person.
        """
        return joined([raw[name] for name in self.keys])


def private_database(
    tables: Any, schema: DatabaseSchema, adjacency: Adjacency
) -> tuple[PrivateDatabase, tuple[str, ...]]:
    """Return the private tables as one record for each person, and the columns beyond the schema, as ``"table.column"``.

    The tables are asked for column names only.  Keys and columns that the schema computes do not count as beyond it.

    Raises
    ------
    DataError
        If a table or a column is missing, or a source gives counts only: rows of a person are joined here.
    SchemaError
        If a column is open that orders rows.
    """
    layout = Layout(without_open_columns(schema))
    check_table_names(schema, tables)
    sources: dict[str, Source] = {}
    for name, one in schema.tables.items():
        with in_table(name):
            sources[name] = source_of(tables[name], one)
    extra: list[str] = []
    for name, source in sources.items():
        if isinstance(source, CheckedSource):
            source.check_values()
        for key in schema.keys_of(name):
            if key not in source.names:
                raise DataError(
                    f"table {name!r} has no column {key!r}, a key that joins it to another table: add the column"
                )
        found = check_columns(source, schema.tables[name])
        known = {*schema.keys_of(name), *schema.computed_in(name)}
        extra += [f"{name}.{column}" for column in found if column not in known]
    first = sources[schema.root]
    declared = schema if schema.undeclared else None
    made = PrivateDatabase(first, layout.wide, adjacency, sources=sources, layout=layout, declared=declared)
    return made, tuple(extra)


def without_open_columns(schema: DatabaseSchema) -> DatabaseSchema:
    """Return a schema whose undeclared columns have placeholder values, so that a record can be laid out before discovery.

    Raises
    ------
    SchemaError
        If an undeclared column orders rows: the number of its periods must be known to lay out a record.
    """
    if not schema.undeclared:
        return schema
    from synthdp.curator.discovery import nothing_found

    schema.check_open()
    found = {
        name: nothing_found(one, "", lambda _: False).schema for name, one in schema.tables.items() if one.undeclared
    }
    return schema.completed(found)


def _buckets(layout: Layout) -> dict[str, list[SpillBuffer]]:
    """Return, for each table, `BUCKETS` buffers that spill to disk; a hash of the person decides a row's buffer."""
    memory = MEMORY_BYTES // (BUCKETS * len(layout.tables))
    return {table.name: [SpillBuffer(memory=memory) for _ in range(BUCKETS)] for table in layout.tables}


def _scatter(arrays: Sequence[AnyArray], digests: AnyArray, stores: Sequence[SpillBuffer]) -> None:
    """Append every row to the buffer that its person's hash names, so that all rows of a person lie in one buffer.

    Rows without a key go to the first buffer.  ``arrays`` are (n,) or (n, 2) columns, ``digests`` (n, 2) hashes of
    persons.
    """
    bucket = (digests[:, 0] % np.uint64(len(stores))).astype(np.uint8)
    order = np.argsort(bucket, kind="stable")
    ends = np.cumsum(np.bincount(bucket, minlength=len(stores)))[:-1]
    parts = [np.split(array[order], ends) for array in (*arrays, digests)]
    for i, store in enumerate(stores):
        store.add([part[i] for part in parts])


def records_of(layout: Layout, tables: Mapping[str, list[AnyArray]]) -> list[GridIndices]:
    """Return one record for every person with a row in any table, as columns of grid indices.

    Removing all rows of one person removes one record and changes no other; so does replacing them.

    Parameters
    ----------
    layout
        The record.
    tables
        For each table the grid indices of its columns, (n,) each, the (n, 2) digests of keys beyond the person's, and last
        the digests of persons; zeros stand for a missing key.

    Returns
    -------
    (persons,) grid indices of each column of the record.
    """
    owner, persons = _owners([tables[table.name][-1] for table in layout.tables])
    record = [_blank(persons, axis.grid.size) for axis in layout.domain.axes]
    chosen: list[_Chosen] = []
    for i, table in enumerate(layout.tables):
        found, left_out = _chosen(layout, i, tables, owner[i], chosen, persons)
        chosen.append(found)
        columns = [name for name, one in layout.schema.tables[table.name].items() if not one.names_rows]
        for name, values in zip(columns, tables[table.name], strict=False):
            if name in layout.place[i]:
                _put(record, layout.place[i][name], found, values)
        for between in layout.differences.values():
            if between.second[0] == table.name:
                days = _differences(layout, i, between, tables, chosen)
                _put(record, layout.place[i][between.name], found, days)
        if i:
            parent = chosen[layout.tables[i].parent]
            counted = layout.place[layout.tables[i].parent][table.count]
            _count(record, counted, parent, _counts(table, found, tables[table.name], layout))
            _flag(record, layout.place[0][table.left_out], left_out)
        else:
            state = np.where(np.bincount(owner[0], minlength=persons) == 0, NO_PARENT_ROW, 0)
            state += np.where(np.bincount(owner[0], minlength=persons) > 1, REPEATED_ROW, 0)
            _flag(record, layout.place[0][STATE], state)
    return record


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Chosen:
    """The rows of one table that enter the persons' records, and where each is placed.

    Parameters
    ----------
    rows
        (used,) their positions in the table.
    person, slot
        The person of each row, and the row's place in the person's record.
    parent
        (used,) the position, among the parent's used rows, of the row that each belongs to.
    """

    rows: IntArray
    person: IntArray
    slot: IntArray
    parent: IntArray


def _owners(digests: Sequence[AnyArray]) -> tuple[list[IntArray], int]:
    """Return, for each table, the (n,) number of each row's person; and the number of persons in all.

    ``digests`` holds (n, 2) hashes of persons, one array for each table.  A row without a key counts as a separate
    person.
    """
    every = np.concatenate(digests)
    different, number = np.unique(np.ascontiguousarray(every).view("V16").ravel(), return_inverse=True)
    nobody = ~every.any(axis=1)
    # Zeros stand for no key and sort first: their number is freed, and each such row takes a new one at the end.
    freed = 1 if nobody.any() else 0
    number = number.ravel() - freed
    number[nobody] = len(different) - freed + np.arange(np.count_nonzero(nobody))
    ends = np.cumsum([len(one) for one in digests])[:-1]
    return np.split(number, ends), len(different) - freed + int(np.count_nonzero(nobody))


def _chosen(
    layout: Layout,
    i: int,
    tables: Mapping[str, list[AnyArray]],
    owner: IntArray,
    chosen: Sequence[_Chosen],
    persons: int,
) -> tuple[_Chosen, IntArray]:
    """Return which rows of table ``i`` enter the records, and (persons,) 1 for persons with a row that does not, else 0.

    With each row come its person, its parent's position and its slot in the record.  A row does not enter if:

    * its parent row has too many rows, or already a row of this period where one is allowed;
    * it has no used parent row;
    * it has no regular period where one is needed.

    ``owner`` numbers each row's person; ``chosen`` holds the choices of the tables above.
    """
    kind = layout.tables[i]
    table = tables[kind.name]
    names = [name for name, one in layout.schema.tables[kind.name].items() if not one.names_rows]
    values = dict(zip(names, table, strict=False))
    parent = _parents(layout, i, tables, owner, chosen, persons)
    period = None if kind.period is None else values[kind.period].astype(np.int64)
    usable = parent >= 0
    if kind.unique and period is not None and kind.periods is not None:
        usable &= period < kind.periods.grid.regular
    salt = _salts(table[-1])
    own = [
        half for digests in table[len(names) : -1] for half in digests.T
    ]  # rows with children are known by their keys
    order = _ranked(parent, salt, [*values.values(), *own], usable)
    if kind.unique and period is not None:  # of rows of one period, the first by their hash
        by_period = order[np.lexsort([np.arange(len(order)), period[order], parent[order]])]
        anew = (np.diff(parent[by_period]) != 0) | (np.diff(period[by_period]) != 0)
        first = np.zeros(len(owner), np.bool_)
        first[by_period] = place_in_run(anew) == 0 if len(by_period) else False
        order = order[first[order]]
    if len(order):
        order = order[place_in_run(np.diff(parent[order]) != 0) < kind.at_most]
    if period is not None:
        order = order[np.lexsort([np.arange(len(order)), period[order], parent[order]])]
    place = place_in_run(np.diff(parent[order]) != 0) if len(order) else np.zeros(0, np.int64)
    above = chosen[kind.parent].slot[parent[order]] if i else np.zeros(len(order), np.int64)
    kept = np.zeros(len(owner), np.bool_)
    kept[order] = True
    left_out = np.minimum(np.bincount(owner[~kept], minlength=persons), 1)
    slots = above * kind.at_most + place
    return _Chosen(rows=order, person=owner[order], slot=slots, parent=parent[order]), left_out


def _parents(
    layout: Layout,
    i: int,
    tables: Mapping[str, list[AnyArray]],
    owner: IntArray,
    chosen: Sequence[_Chosen],
    persons: int,
) -> IntArray:
    """Return, (rows,) for table ``i``, the position of each row's parent among the parent table's used rows, else -1.

    A row of the root table has no parent: it gets the number of its person.  ``owner`` numbers each row's person;
    ``chosen`` holds the used rows of the tables above.
    """
    kind = layout.tables[i]
    if kind.order is Order.ROOT:
        return owner
    above = chosen[kind.parent]
    table, tables_above = tables[kind.name], tables[layout.tables[kind.parent].name]
    if layout.tables[kind.parent].order is Order.ROOT:
        of_person = np.full(persons, -1)
        of_person[above.person] = np.arange(len(above.person))
        return of_person[owner]
    number = layout.schema.joins_of(kind.name).index(_key_to_parent(layout, i)) - 1
    number_above = layout.schema.joins_of(layout.tables[kind.parent].name).index(_key_to_parent(layout, i)) - 1
    digests = table[_columns(layout, i) + number]
    digests_above = tables_above[_columns(layout, kind.parent) + number_above][above.rows]
    return _matches(_named(above.person, digests_above), _named(owner, digests), (digests != 0).any(axis=1))


def _columns(layout: Layout, i: int) -> int:
    """Return the number of encoded columns of table ``i``; the hashes of its keys follow them in the table's arrays.

    Identifiers are not encoded, because they are never released.
    """
    return sum(not one.names_rows for one in layout.schema.tables[layout.tables[i].name].values())


def _key_to_parent(layout: Layout, i: int) -> tuple[str, ...]:
    """Return the names of the columns that join table i to the table above it."""
    relation = layout.schema.relation_to(layout.tables[i].name)
    if relation is None:
        raise InternalError("the root has no parent")
    return relation.keys


def _named(person: IntArray, digests: AnyArray) -> AnyArray:
    """Return (n,) identifiers of rows, by which child rows find their parent row, as 24 bytes each.

    An identifier is the person's number and the 128-bit hash of the row's key.
    """
    both = np.column_stack([person.astype(np.uint64), digests])
    return np.ascontiguousarray(both).view("V24").ravel()


def _matches(above: AnyArray, below: AnyArray, named: BoolArray) -> IntArray:
    """Return, for each row below, (rows,), the first row above with the same identifier; -1 if there is none.

    ``named`` is False for rows below without a key: these have no row above.
    """
    if not len(above):
        return np.full(len(below), -1)
    different, first = np.unique(above, return_index=True)
    place = np.minimum(np.searchsorted(different, below), len(different) - 1)
    return np.where(named & (different[place] == below), first[place], -1)


def _ranked(parent: IntArray, salt: AnyArray, values: Sequence[AnyArray], usable: AnyArray) -> IntArray:
    """Return the positions of the usable rows, grouped by parent, in a random-looking order within each parent.

    A hash decides the order.  The hash depends on the person, the row's values and the number of equal rows before this
    row.  So no other person's rows change the order.  ``salt`` (n,) comes from the hash of each row's person.
    """
    rows = np.flatnonzero(usable)
    parent, salt = parent[rows], salt[rows]
    row = mixed(np.zeros(len(rows), np.uint64), *(column[rows] for column in values))
    order = np.lexsort([row, parent])
    repeat = np.empty(len(rows), np.int64)
    if len(rows):
        repeat[order] = place_in_run((np.diff(parent[order]) != 0) | (row[order][1:] != row[order][:-1]))
    return rows[np.lexsort([mixed(salt, row, repeat), parent])]


def _salts(digests: AnyArray) -> AnyArray:
    """Return the second half of each person's hash, (n,), which makes the order of rows differ between persons."""
    return digests[:, 1]


def _counts(table: TableLayout, found: _Chosen, columns: list[AnyArray], layout: Layout) -> tuple[IntArray, IntArray]:
    """Return for each used row the position of its parent and its term in the parent's sum, two (used,) arrays.

    The parent's record holds the sum.  The term is 1 to count rows; it is 2^period to record which periods have a row.
    """
    if table.order is not Order.PATTERN or table.period is None:
        return found.parent, np.ones(len(found.parent), np.int64)
    names = [name for name, one in layout.schema.tables[table.name].items() if not one.names_rows]
    period = columns[names.index(table.period)][found.rows].astype(np.int64)
    return found.parent, np.left_shift(np.int64(1), period)


def _differences(
    layout: Layout, i: int, between: Difference, tables: Mapping[str, list[AnyArray]], chosen: Sequence[_Chosen]
) -> IntArray:
    """Return the grid index of the number of days between two date columns, (rows,) for table ``i``; 0 for unused rows.

    The record holds these days as a separate column.  ``between`` names the two columns; the first is of this table or
    one above.  ``chosen`` holds the used rows of the tables down to this one.
    """
    schema, found = layout.schema, chosen[i]
    above, rows = i, np.arange(len(found.rows))
    while layout.schema.names[above] != between.first[0]:
        rows, above = chosen[above].parent[rows], layout.tables[above].parent
    first, second = (
        tables[table][[name for name, one in schema.tables[table].items() if not one.names_rows].index(column)]
        for table, column in (between.first, between.second)
    )
    columns = schema.tables[between.first[0]][between.first[1]], schema.tables[between.second[0]][between.second[1]]
    days = np.zeros(len(second), np.int64)
    days[found.rows] = between.points(first[chosen[above].rows[rows]], second[found.rows], columns)
    return days


def _blank(persons: int, size: int) -> GridIndices:
    """Return (persons,) times the last of ``size`` grid indices, which marks an empty slot and is never released."""
    return np.full(persons, size - 1, np.min_scalar_type(size - 1))


def _put(record: list[GridIndices], places: IntArray, found: _Chosen, values: AnyArray) -> None:
    """Write the chosen ones of a column's ``values``, (rows,), into the records; slot s goes to column ``places[s]``."""
    inside = values[found.rows]
    for slot, place in enumerate(places):
        here = found.slot == slot
        record[place][found.person[here]] = inside[here]


def _count(record: list[GridIndices], places: IntArray, parent: _Chosen, counts: tuple[IntArray, IntArray]) -> None:
    """Write the sum of ``counts`` for each used parent row into the persons' records.

    A sum is the number of rows, or the bits of the periods with a row.  A parent in slot s goes to column
    ``places[s]``.
    """
    total = np.bincount(counts[0], counts[1], minlength=len(parent.person)).astype(np.int64)
    for slot, place in enumerate(places):
        here = parent.slot == slot
        record[place][parent.person[here]] = total[here]


def _flag(record: list[GridIndices], places: IntArray, values: IntArray) -> None:
    """Write one value for each person, (persons,), into the records' column ``places[0]``.

    The values mark rows that a record cannot hold, such as 1 for a person some of whose rows were left out.
    """
    record[places[0]][:] = values
