"""Contribution bounding: at most so many rows of one unit, chosen by a rule that looks at that unit's rows alone."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from synthdp.arrays import BoolArray, Units
from synthdp.domain.encoder import Labels, Numbers, RawColumn, labels_of_numbers


def kept_rows(block: dict[str, Units], unit: RawColumn, *, rows: int) -> dict[str, Units]:
    """Return a block with at most ``rows`` rows of each unit; rows without a unit are each one of their own.

    Among a unit's rows those with the smallest public hash of (unit, row, how often the same row came before) are kept:
    the choice depends on no other unit, nor on the order of rows.

    Costs nothing by itself: removing one unit changes at most ``rows`` rows of the result.

    Parameters
    ----------
    block
        Units by column, (n,) each.
    unit
        The unit of every row.
    rows
        Most rows to keep, >= 1.
    """
    unit = unit if isinstance(unit, Labels) else labels_of_numbers(unit)
    n = len(unit.codes)
    if n == 0:
        return block
    owner = np.where(unit.codes >= 0, unit.codes, len(unit.levels) + np.arange(n))
    table = np.column_stack([owner, *(column.astype(np.int64) for column in block.values())])
    order = np.lexsort(table.T[::-1])
    place = _place_in_run((np.diff(table[order], axis=0) != 0).any(axis=1))
    repeat = np.empty(n, np.int64)
    repeat[order] = place
    salt = np.array([_hash(level) for level in unit.levels] + [0], np.uint64)[np.where(unit.codes >= 0, unit.codes, -1)]
    rank = _mix(np.column_stack([salt, table[:, 1:].astype(np.uint64), repeat.astype(np.uint64)]))
    order = np.lexsort([rank, owner])
    kept = np.zeros(n, np.bool_)
    kept[order] = _place_in_run(np.diff(owner[order]) != 0) < rows
    return {name: column[kept] for name, column in block.items()}


def first_rows(unit: RawColumn, *, rows: int, seen: dict[object, int]) -> BoolArray:
    """Return which rows are among the first ``rows`` of their unit, counting those ``seen`` in earlier blocks.

    For values that have no units yet.  Costs nothing by itself: removing one unit changes at most ``rows`` rows.
    """
    labels = unit if isinstance(unit, Labels) else labels_of_numbers(unit)
    n, known = len(labels.codes), labels.codes >= 0
    owner = np.where(known, labels.codes, len(labels.levels) + np.arange(n))
    order = np.argsort(owner, kind="stable")
    place = np.empty(n, np.int64)
    place[order] = _place_in_run(np.diff(owner[order]) != 0) if n else 0
    before = np.array([seen.get(level, 0) for level in labels.levels] + [0])[np.where(known, labels.codes, -1)]
    for level, count in zip(labels.levels, np.bincount(labels.codes[known], minlength=len(labels.levels)), strict=True):
        seen[level] = seen.get(level, 0) + int(count)
    return np.asarray(place + before < rows)


def rows_of(raw: RawColumn, kept: BoolArray) -> RawColumn:
    """Return some rows of a raw column.  Costs nothing by itself: the rows stay in the room."""
    if isinstance(raw, Labels):
        return Labels(raw.levels, raw.codes[kept])
    return Numbers(raw.values[kept], None if raw.missing is None else raw.missing[kept])


def _place_in_run(starts_anew: np.ndarray) -> np.ndarray:
    """Position of each element in its run, where ``starts_anew[i]`` says that element i + 1 begins one."""
    n = len(starts_anew) + 1
    first = np.concatenate([[True], starts_anew])
    return np.arange(n) - np.maximum.accumulate(np.where(first, np.arange(n), 0))


def _hash(level: Any) -> int:
    text = f"{type(level).__name__}:{level}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _mix(columns: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each row (splitmix64, column by column)."""
    state = np.zeros(len(columns), np.uint64)
    for column in columns.T:
        state = (state ^ column) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state
