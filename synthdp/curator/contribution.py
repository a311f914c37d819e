"""Contribution bounding: a unit's rows are limited in number, by a rule that looks at the unit's rows alone."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, GridIndices, IntArray
from synthdp.domain.encoder import Labels, RawColumn, labels_of_numbers
from synthdp.tables.columns.plain import plain, written

_HASHED = 1 << 16
"""Rows that are written out to be hashed at once.  A safety limit."""


def kept_rows(blocks: Sequence[tuple[dict[str, GridIndices], AnyArray]], *, rows: int) -> dict[str, GridIndices]:
    """Return all blocks as one, with at most ``rows`` rows of each unit; a row without a unit is one of its own.

    Among a unit's rows those with the smallest SHA-256 of (unit, row, how often the same row came before) are kept: the
    choice depends on no other unit, nor on the order of rows or where blocks end.  A database counts by the same rule; see
    `synthdp.tables.sql.bounding`.

    Removing one unit changes at most ``rows`` rows of the result.

    Parameters
    ----------
    blocks
        Grid indices by column, (n,) each, and the digest of every row's unit, (n, 2); one block or more.
    rows
        Most rows to keep, >= 1.
    """
    table = {name: np.concatenate([block[name] for block, _ in blocks]) for name in blocks[0][0]}
    digest = np.concatenate([some for _, some in blocks])
    order = np.lexsort([digest[:, 1], digest[:, 0]])
    owner = np.empty(len(digest), np.int64)
    owner[order] = np.cumsum(np.concatenate([[False], (np.diff(digest[order], axis=0) != 0).any(axis=1)]))[
        : len(digest)
    ]
    many = np.flatnonzero((np.bincount(owner)[owner] > rows) & digest.any(axis=1))
    kept = np.ones(len(digest), np.bool_)
    kept[many] = _smallest(owner[many], digest[many], [column[many] for column in table.values()], rows)
    return {name: column[kept] for name, column in table.items()}


def _smallest(owner: IntArray, digest: AnyArray, columns: Sequence[GridIndices], rows: int) -> BoolArray:
    """Return which rows of their unit are kept: those with the smallest hashes."""
    if len(owner) == 0:
        return np.zeros(0, np.bool_)
    row = mixed(np.zeros(len(owner), np.uint64), *columns)
    order = np.lexsort([row, owner])
    again = np.empty(len(owner), np.int64)
    again[order] = place_in_run((np.diff(owner[order]) != 0) | (row[order][1:] != row[order][:-1]))
    parts = [np.ascontiguousarray(digest).view(">u4"), *columns, again]
    high, low = np.concatenate(
        [_hashes([part[i : i + _HASHED] for part in parts]) for i in range(0, len(owner), _HASHED)]
    ).T
    order = np.lexsort([low, high, owner])
    kept = np.zeros(len(owner), np.bool_)
    kept[order] = place_in_run(np.diff(owner[order]) != 0) < rows
    return kept


def _hashes(parts: Sequence[AnyArray]) -> AnyArray:
    """Return the first 128 bits of each row's SHA-256, (n, 2); every part is written as eight hexadecimal digits."""
    written = np.column_stack(parts).astype(">u4").tobytes().hex().encode()
    width = len(written) // len(parts[0])
    hashes = [hashlib.sha256(written[i : i + width]).digest()[:16] for i in range(0, len(written), width)]
    return np.frombuffer(b"".join(hashes), ">u8").reshape(-1, 2)


@dataclass(frozen=True, slots=True)
class Bounding:
    """The rule that limits the number of rows of each unit; it can be sent to where the rows are.

    Removing one unit changes at most ``rows`` rows of what is kept.

    Parameters
    ----------
    rows
        Most rows to keep, >= 1.
    """

    rows: int

    def digests(self, unit: RawColumn) -> AnyArray:
        """Return 128 bits that stand for the unit of each row, (n, 2) uint64; zeros where it is missing.

        Two units have the same digest only if half of SHA-256 collides.
        """
        position: dict[str, int] = {}
        owner = _owners(unit, position)
        texts = [hashlib.sha256(_bytes(text)).digest()[:16] for text in position]
        table = np.frombuffer(b"".join([*texts, bytes(16)]), np.uint64).reshape(-1, 2)
        return table[owner]

    def keep(self, blocks: Sequence[tuple[dict[str, GridIndices], AnyArray]]) -> dict[str, GridIndices]:
        """Return blocks of grid indices with their rows' digests as one, with at most ``rows`` rows of each digest.

        All rows of a digest must be there.
        """
        return kept_rows(blocks, rows=self.rows)


def first_rows(unit: RawColumn, *, rows: int, seen: dict[object, int]) -> BoolArray:
    """Return which rows are among the first ``rows`` of their unit, counting those ``seen`` in earlier blocks.

    For values that have no units yet. Removing one unit changes at most ``rows`` rows.
    """
    return np.asarray(_places(unit, {}, seen)[1] < rows)


def one_row_of_each(unit: RawColumn, *, many: Mapping[object, int], seen: dict[object, int]) -> BoolArray:
    """Return which rows are looked at where it is one of each unit, counting those ``seen`` in earlier blocks.

    It is the n-th of a unit's ``many`` rows, by a hash of the unit: as likely a late one as an early one.  Removing one unit
    changes at most one row, whatever ``many`` says.
    """
    position: dict[str, int] = {}
    owner, place = _places(unit, position, seen)
    wanted = np.zeros(len(position) + len(owner), np.int64)  # and 0 for each row without a unit
    for identity, number in position.items():
        digest = hashlib.sha256(_bytes(identity)).digest()[:8]
        wanted[number] = int.from_bytes(digest, "big") % max(1, many.get(identity, 0))
    return np.asarray(place == wanted[owner])


def _places(unit: RawColumn, position: dict[str, int], seen: dict[object, int]) -> tuple[IntArray, IntArray]:
    """Return the number of each row's unit, as in ``position``, and the row's place among the unit's rows, from 0.

    Rows ``seen`` in earlier blocks come first, and those of this one are added to them.  A row without a unit is one of its
    own.
    """
    owner = _owners(unit, position)
    known = owner >= 0
    before = np.array([*(seen.get(identity, 0) for identity in position), 0])[owner]
    counts = np.bincount(owner[known], minlength=len(position))
    for identity, count in zip(position, counts, strict=True):
        seen[identity] = seen.get(identity, 0) + int(count)
    owner[~known] = len(position) + np.arange(np.count_nonzero(~known))
    order = np.argsort(owner, kind="stable")
    place = np.empty(len(owner), np.int64)
    place[order] = place_in_run(np.diff(owner[order]) != 0)
    return owner, place + before


def _owners(unit: RawColumn, position: dict[str, int]) -> IntArray:
    """Return the number of each row's unit in ``position``, which grows; -1 where it is missing."""
    labels = unit if isinstance(unit, Labels) else labels_of_numbers(unit)
    texts = [written(plain(level)) for level in labels.levels]
    numbers = [-1 if text is None else position.setdefault(text, len(position)) for text in texts]
    return np.array([*numbers, -1], np.int64)[labels.codes]


def _bytes(text: str) -> bytes:
    """Return a unit's text as bytes: what was no UTF-8 becomes the bytes that it was; two texts never share their bytes."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        pass
    with contextlib.suppress(UnicodeEncodeError):
        raw = text.encode(errors="surrogateescape")
        if raw.decode(errors="surrogateescape") == text:
            return raw
    return b"\xff" + text.encode(errors="surrogatepass")  # its surrogates stand for no bytes


def place_in_run(starts_anew: AnyArray) -> IntArray:
    """Position of each element in its run, where ``starts_anew[i]`` says that element i + 1 begins one."""
    n = len(starts_anew) + 1
    first = np.concatenate([[True], starts_anew])
    return (np.arange(n) - np.maximum.accumulate(np.where(first, np.arange(n), 0))).astype(np.int64)


def mixed(state: AnyArray, *columns: AnyArray) -> AnyArray:
    """Return a 64-bit hash of each row (splitmix64, column by column)."""
    for column in columns:
        state = (state ^ column.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state
