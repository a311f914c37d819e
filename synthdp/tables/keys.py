"""Rows to record keys, lists of keys from tables, and whether the keys of two tables can be equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from synthdp.domain.encoder import Labels, RawColumn, labels_of_numbers
from synthdp.errors import DataError, ParameterError
from synthdp.queries.supports import BETWEEN, MISSING, KeyList, key_of, part_of
from synthdp.schema.columns import Column, Untyped
from synthdp.schema.database import DatabaseSchema
from synthdp.schema.plain_values import micros_of_ticks
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.source import Source


def count_keys(raw: Sequence[RawColumn]) -> dict[str, int]:
    """Return how often each record key occurs in a block of rows: the exact counts behind queries on keys.

    A key is the text of a row's values in some columns, joined by `BETWEEN`.
    """
    columns = [column if isinstance(column, Labels) else labels_of_numbers(column) for column in raw]
    parts = [[_part(level) for level in column.levels] + [MISSING] for column in columns]  # -1 is missing
    codes = np.column_stack([column.codes for column in columns])
    if len(codes) == 0:
        return {}
    rows = np.ascontiguousarray(codes).view(np.dtype((np.void, codes.dtype.itemsize * codes.shape[1]))).ravel()
    _, first, repeats = np.unique(rows, return_index=True, return_counts=True)
    counts: Counter[str] = Counter()
    for row, repeat in zip(codes[first].tolist(), repeats.tolist(), strict=True):
        counts[BETWEEN.join([part[code] for part, code in zip(parts, row, strict=True)])] += repeat
    return dict(counts)


def _part(level: object) -> str:
    """Return the text of one value within a key; NumPy moments and durations are written in microseconds.

    Keys of tables with different resolutions can then be compared.
    """
    return part_of(micros_of_ticks(level) if isinstance(level, (np.datetime64, np.timedelta64)) else level)


def overlap(records: object, *, columns: Sequence[str] | None = None) -> KeyList:
    """Return a query that counts the private table's rows that are in another, public list of records.

    The uses that Blum and Roth name: which participants of a study, or patients with a rare disease, are in the table.

    Parameters
    ----------
    records
        A dataframe whose rows are the records, or a list of values of one column.
    columns
        The columns that make up a record, named as in the private table; default: all columns of the dataframe.

    Raises
    ------
    DataError
        If the dataframe lacks a column.
    ParameterError
        If a list comes without the name of its one column.
    """
    if isinstance(records, Iterable) and not hasattr(records, "columns"):
        if columns is None or len(columns) != 1:
            raise ParameterError("columns must name exactly one column, because records is a list of values")
        return KeyList.of(tuple(columns), (key_of((value,)) for value in records))
    source = FrameSource(records)
    names = source.names if columns is None else tuple(columns)
    missing = [name for name in names if name not in source.names]
    if missing:
        raise DataError(f"columns names {missing[0]!r}, which records does not have: {', '.join(source.names)}")
    block: Mapping[str, RawColumn] = next(iter(source.blocks({}, extra=names)))
    return KeyList.of(names, count_keys([block[name] for name in names]))


def check_key_types(schema: DatabaseSchema, sources: Mapping[str, Source]) -> None:
    """Raise DataError if a key holds numbers in one table and texts in another: no rows would join.

    The check looks at types only.

    Raises
    ------
    DataError
        With the names of the tables and of the key.
    """
    for relation in schema.relations:
        for key in schema.keys_of(relation.child):
            if key not in schema.keys_of(relation.parent):
                continue
            above, below = (_kind(sources[name], key) for name in (relation.parent, relation.child))
            if above is not None and below is not None and above != below:
                raise DataError(
                    f"key {key!r} is of type {above} in table {relation.parent!r} and of type {below} in "
                    f"{relation.child!r}, so no rows would match: convert one of the two"
                )


def _kind(source: Source, name: str) -> str | None:
    """Return the kind of values that a column's type holds, or ``None`` if it may hold any or does not say."""
    kind_of = getattr(source, "kind", None)
    kind: Column | None = None if kind_of is None else kind_of(name)
    if kind is None or isinstance(kind, Untyped):
        return None
    return kind.quantity
