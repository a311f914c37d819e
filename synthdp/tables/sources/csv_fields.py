"""The texts of a CSV or Excel file as values of declared columns: each different text is read once, as the schema says.

This is the first step from a CSV cell to a code; `synthdp.domain.encoder.encode` takes the second.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from synthdp.arrays import IntArray
from synthdp.domain.encoder import Labels, RawColumn
from synthdp.domain.grid import labels_of
from synthdp.errors import DataError
from synthdp.schema.column import Column
from synthdp.schema.csv_format import is_missing
from synthdp.tables.columns.parse import declared, text_of_level
from synthdp.tables.columns.plain import text_or_opaque
from synthdp.tables.refusals import reading
from synthdp.tables.sources.csv_records import KEPT_BYTE

OLDER = "cp1252"
"""The encoding of bytes that are no UTF-8: what Windows writes in western Europe and America."""

_OLDER_BYTES = {
    KEPT_BYTE + byte: text for byte in range(0x80, 0x100) if (text := bytes([byte]).decode(OLDER, errors="ignore"))
}


class TextColumn:
    """One column of a block: its different texts, and which of them each row has."""

    __slots__ = ("_parts", "_position")

    def __init__(self) -> None:
        self._position: defaultdict[str, int] = defaultdict()
        self._position.default_factory = self._position.__len__
        self._parts: list[IntArray] = []

    def add(self, texts: Sequence[str]) -> None:
        """Add the texts of some more rows."""
        self._parts.append(np.fromiter(map(self._position.__getitem__, texts), np.int64, len(texts)))

    @property
    def rows(self) -> int:
        """Number of rows so far."""
        return sum(map(len, self._parts))

    @property
    def levels(self) -> list[str]:
        """The different texts."""
        return list(self._position)

    @property
    def codes(self) -> IntArray:
        """(n,) index of each row's text."""
        return np.concatenate([*self._parts, np.zeros(0, np.int64)])


def text_blocks(
    records: Iterator[list[str]], places: Sequence[int], width: int, block_rows: int, batch_rows: int
) -> Iterator[list[TextColumn]]:
    """Yield some fields of all records in blocks, at least one block; a record is brought to ``width`` fields."""
    rows = (record if len(record) == width else _fitted(record, width) for record in records)
    for first in itertools.count():
        columns = [TextColumn() for _ in places]
        for batch in _batches(rows, block_rows, batch_rows):
            fields = list(zip(*batch, strict=True))
            for column, place in zip(columns, places, strict=True):
                column.add(fields[place])
        if columns and not columns[0].rows and first:
            return
        yield columns
        if not columns or columns[0].rows < block_rows:
            return


def read_texts(
    name: str,
    found: TextColumn,
    column: Column | None,
    *,
    named: Collection[str],
    missing: Collection[str],
    plain: Callable[[str], str] | None = None,
    older: bool = False,
) -> RawColumn:
    """Return texts as the values of a declared column, or as labels if none is declared.

    Parameters
    ----------
    name
        The column's name, for errors.
    found
        The texts.
    column
        What they may be; ``None`` for labels.
    named
        Texts that stand for a missing value even in a column that names rows or persons.
    missing
        Those that do so in other columns, with spaces around them or not.
    plain
        What every text is brought to first.
    older
        Whether bytes that are no UTF-8 are those of `OLDER`, except in a column that names rows or persons, where different
        bytes stay different.
    """
    texts = found.levels if plain is None else [plain(text) for text in found.levels]
    codes = found.codes
    if column is None or column.names_rows:
        kept = np.array([text not in named for text in texts] or [True])
    else:
        if older and not all(map(str.isascii, texts)):
            texts, codes = _of_older(texts, codes)
        levels = _level_texts(column)
        kept = np.array([text in levels or not is_missing(text, missing) for text in texts] or [True])
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    with reading(name):
        known = [text_or_opaque(text) for text, keep in zip(texts, kept, strict=False) if keep]
        labels = Labels(known, number[codes])
        return labels if column is None else declared(labels, column)


def header_names(fields: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the names of columns, the empty text for one that is only spaces.

    Raises
    ------
    DataError
        If no column has a name, or two have the same; it says where they stand and quotes none.
    """
    names = tuple(field if field.strip() else "" for field in fields)
    if not any(names):
        raise DataError(f"the header of {where} names no column")
    for place, name in enumerate(names):
        if name and name in names[:place]:
            raise DataError(f"columns {names.index(name) + 1} and {place + 1} of {where} have the same name")
    return names


def _of_older(texts: Sequence[str], codes: IntArray) -> tuple[list[str], IntArray]:
    """Return texts in which the bytes that are no UTF-8 are read as `OLDER`, each different one once."""
    place: dict[str, int] = {}
    new = np.array([place.setdefault(text.translate(_OLDER_BYTES), len(place)) for text in texts], np.int64)
    return [*place], new[codes]


def _fitted(record: list[str], width: int) -> list[str]:
    return [*record, *itertools.repeat("", width - len(record))][:width]


def _batches(records: Iterator[list[str]], rows: int, batch_rows: int) -> Iterator[list[list[str]]]:
    left = rows
    while left and (batch := list(itertools.islice(records, min(batch_rows, left)))):
        left -= len(batch)
        yield batch


def _level_texts(column: Column) -> frozenset[str]:
    if column.cells is not None:
        return column.cells.words
    if not column.labelled or not column.is_complete:
        return frozenset()
    return frozenset(text_of_level(level) for level in labels_of(column))
