"""Contribution bounding: at most so many rows of one unit, chosen by a rule that looks at that unit's rows alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, GridIndices, IntArray
from synthdp.domain.encoder import Labels, Numbers, RawColumn, labels_of_numbers
from synthdp.tables.columns.plain import plain, written


def kept_rows(blocks: Sequence[tuple[dict[str, GridIndices], RawColumn]], *, rows: int) -> dict[str, GridIndices]:
    """Return all blocks as one, with at most ``rows`` rows of each unit; a row without a unit is one of its own.

    Among a unit's rows those with the smallest public hash of (unit, row, how often the same row came before) are kept:
    the choice depends on no other unit, nor on the order of rows or where blocks end.

    Removing one unit changes at most ``rows`` rows of the result.

    Parameters
    ----------
    blocks
        Grid indices by column, (n,) each, and the unit of every row; one block or more.
    rows
        Most rows to keep, >= 1.
    """
    table = {name: np.concatenate([block[name] for block, _ in blocks]) for name in blocks[0][0]}
    position: dict[str, int] = {}
    owner = np.concatenate([_owners(unit, position) for _, unit in blocks])
    salts = np.array([*map(_hash, position), 0], np.uint64)
    salt = salts[owner]
    nobody = owner < 0
    owner[nobody] = len(position) + np.arange(np.count_nonzero(nobody))
    row = mixed(np.zeros(len(owner), np.uint64), *table.values())
    order = np.lexsort([row, owner])
    repeat = np.empty(len(owner), np.int64)
    repeat[order] = place_in_run((np.diff(owner[order]) != 0) | (row[order][1:] != row[order][:-1]))
    order = np.lexsort([mixed(salt, row, repeat), owner])
    kept = np.zeros(len(owner), np.bool_)
    kept[order] = place_in_run(np.diff(owner[order]) != 0) < rows
    return {name: column[kept] for name, column in table.items()}


@dataclass(frozen=True, slots=True)
class Bounding:
    """The rule that keeps at most so many rows of each unit; it can be sent to where the rows are.

    Removing one unit changes at most ``rows`` rows of what is kept.

    Parameters
    ----------
    rows
        Most rows to keep, >= 1.
    """

    rows: int

    def digests(self, unit: RawColumn) -> AnyArray:
        """Return 128 bits that stand for the unit of each row, (n, 2) uint64; zeros where it is missing.

        Two units have the same digest only if blake2b collides.
        """
        position: dict[str, int] = {}
        owner = _owners(unit, position)
        texts = [hashlib.blake2b(_bytes(text), digest_size=16).digest() for text in position]
        table = np.frombuffer(b"".join([*texts, bytes(16)]), np.uint64).reshape(-1, 2)
        return table[owner]

    def keep(self, blocks: Sequence[tuple[dict[str, GridIndices], AnyArray]]) -> dict[str, GridIndices]:
        """Return blocks of grid indices with their rows' digests as one, with at most ``rows`` rows of each digest.

        All rows of a digest must be there.
        """
        return kept_rows([(indices, labels_of_digests(digest)) for indices, digest in blocks], rows=self.rows)


def labels_of_digests(digest: AnyArray) -> Labels:
    """Return digests as the labels that `kept_rows` takes."""
    different, codes = np.unique(np.ascontiguousarray(digest).view("V16").ravel(), return_inverse=True)
    levels = [value.tobytes().hex() for value in different]
    missing = np.array([level == bytes(16).hex() for level in levels], np.bool_)
    return Labels(levels, np.where(missing[codes], -1, codes))


def first_rows(unit: RawColumn, *, rows: int, seen: dict[object, int]) -> BoolArray:
    """Return which rows are among the first ``rows`` of their unit, counting those ``seen`` in earlier blocks.

    For values that have no units yet. Removing one unit changes at most ``rows`` rows.
    """
    position: dict[str, int] = {}
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
    return np.asarray(place + before < rows)


def rows_of(raw: RawColumn, kept: BoolArray) -> RawColumn:
    """Return some rows of a raw column."""
    if isinstance(raw, Labels):
        return Labels(raw.levels, raw.codes[kept])
    return Numbers(raw.values[kept], None if raw.missing is None else raw.missing[kept])


def _owners(unit: RawColumn, position: dict[str, int]) -> IntArray:
    """Return the number of each row's unit in ``position``, which grows; -1 where it is missing."""
    labels = unit if isinstance(unit, Labels) else labels_of_numbers(unit)
    texts = [written(plain(level)) for level in labels.levels]
    numbers = [-1 if text is None else position.setdefault(text, len(position)) for text in texts]
    return np.array([*numbers, -1], np.int64)[labels.codes]


def _bytes(text: str) -> bytes:
    """Return a unit's text as bytes; a text with lone surrogates, which UTF-8 has no bytes for, is not another's."""
    return text.encode(errors="surrogatepass")


def place_in_run(starts_anew: AnyArray) -> IntArray:
    """Position of each element in its run, where ``starts_anew[i]`` says that element i + 1 begins one."""
    n = len(starts_anew) + 1
    first = np.concatenate([[True], starts_anew])
    return (np.arange(n) - np.maximum.accumulate(np.where(first, np.arange(n), 0))).astype(np.int64)


def _hash(identity: str) -> int:
    return int.from_bytes(hashlib.blake2b(_bytes(identity), digest_size=8).digest(), "little")


def mixed(state: AnyArray, *columns: AnyArray) -> AnyArray:
    """Return a 64-bit hash of each row (splitmix64, column by column)."""
    for column in columns:
        state = (state ^ column.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state
