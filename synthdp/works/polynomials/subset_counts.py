"""Fast exact counts over all small subsets of bits: bit-packed columns, popcounts, both cores.

The engine under `parities` and `monomials`: for every subset S of at most t of d bit columns, in how many rows the bits
of S have odd sum, or are all 1.  Never holds rows x subsets; knows no weights and no noise.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from synthdp.arrays import AnyArray, IntArray
from synthdp.works.polynomials.krawtchouk import level_sizes, subsets_of

Words: TypeAlias = NDArray[np.uint64]
"""(d, words) bit columns, 64 rows a word, padded with 0."""

Combine: TypeAlias = Callable[..., AnyArray]

CHUNK_WORDS = 2048
"""Words of a column handled at once: a whole level of children stays in a core's cache, lane sums stay below 2^16."""

CELL_BITS = 20
"""Up to so many bits a table of all cells and one fast transform may be cheaper than popcounts."""

_LOW_BYTES = np.uint64(0x00FF00FF00FF00FF)
_BYTE = np.uint64(8)


def odd_counts(columns: Iterable[AnyArray], *, order: int) -> list[IntArray]:
    """Count, for every subset of at most ``order`` columns, the rows where an odd number of its bits is 1.

    Parameters
    ----------
    columns
        d boolean arrays of n rows.
    order
        Largest size of a subset.

    Returns
    -------
    list of IntArray
        Per level from 0 to ``order`` the (C(d, level),) counts, subsets in lexicographic order; level 0 counts no row.
    """
    bits = pack(columns)
    if _cells_are_cheaper(bits, order):
        signed = walsh_hadamard(_cells(bits))
        total = signed[0]
        return [(total - signed[_masks(len(bits), level)]) // 2 for level in range(order + 1)]
    return [np.zeros(1, np.int64), *_popcounts(bits, order, np.bitwise_xor)]


def all_ones_counts(columns: Iterable[AnyArray], *, order: int) -> list[IntArray]:
    """Count, for every subset of at most ``order`` columns, the rows where all its bits are 1.

    Parameters and layout as in `odd_counts`; level 0 counts all rows.
    """
    listed = list(columns)
    rows = np.array([len(listed[0])], np.int64)
    return [rows, *_popcounts(pack(listed), order, np.bitwise_and)]


def pack(columns: Iterable[AnyArray]) -> Words:
    """Return boolean columns of n rows as 64-bit words, (d, ceil(n / 64))."""
    packed = [np.packbits(column) for column in columns]
    width = -(-len(packed[0]) // 8) * 8
    words = np.zeros((len(packed), width), np.uint8)
    for row, column in zip(words, packed, strict=True):
        row[: len(column)] = column
    return words.view(np.uint64)


def walsh_hadamard(cells: AnyArray) -> AnyArray:
    """Return sum_x (-1)^{popcount(x & S)} cells[x] for every S; (2^d,) -> (2^d,)."""
    values = np.array(cells)
    half = 1
    while half < len(values):
        pairs = values.reshape(-1, 2, half)
        low = pairs[:, 0] + pairs[:, 1]
        np.subtract(pairs[:, 0], pairs[:, 1], out=pairs[:, 1])
        pairs[:, 0] = low
        half *= 2
    return values


def _cells_are_cheaper(bits: Words, order: int) -> bool:
    d, words = bits.shape[0], bits.shape[1]
    transform, popcounts = 2**d * (d + 1) + 64 * words * d, sum(level_sizes(d, order)[1:]) * words
    return bool(d <= CELL_BITS and transform < popcounts)


def _cells(bits: Words) -> IntArray:
    """Count the rows in each cell; padding rows lie in cell 0 and are as many as the padding, so they are counted too.

    A padding row has parity +1 everywhere: it cancels in total - signed.
    """
    cell = np.zeros(bits.shape[1] * 64, np.int64)
    for j, column in enumerate(bits):
        cell += np.unpackbits(column.view(np.uint8)).astype(np.int64) << j
    return np.bincount(cell, minlength=2 ** len(bits))


def _masks(d: int, level: int) -> IntArray:
    return np.asarray((np.int64(1) << subsets_of(d, level)).sum(axis=1), np.int64)


def _popcounts(bits: Words, order: int, combine: Combine) -> list[IntArray]:
    """Return the levels from 1 to ``order``, chunks of words shared among the machine's cores."""
    starts = range(0, bits.shape[1], CHUNK_WORDS)
    totals = [np.zeros(size, np.int64) for size in level_sizes(len(bits), order)[1:]]
    with ThreadPoolExecutor(max_workers=max(1, min(os.cpu_count() or 1, len(starts)))) as pool:
        for counts in pool.map(lambda start: _count(bits[:, start : start + CHUNK_WORDS], order, combine), starts):
            for total, count in zip(totals, counts, strict=True):
                total += count
    return totals


def _count(chunk: Words, order: int, combine: Combine) -> Sequence[IntArray]:
    """Walk the tree of prefixes depth first: siblings are contiguous in lexicographic order."""
    d = len(chunk)
    counts = [np.zeros(math.comb(d, level), np.int64) for level in range(1, order + 1)]
    filled = [0] * order
    chunk = _padded(chunk)
    blocks = [np.empty_like(chunk) for _ in range(order)]
    ones = np.empty(chunk.shape, np.uint8)

    def visit(level: int, first: int, children: Words) -> None:
        size = d - first
        at = filled[level]
        counts[level][at : at + size] = _row_popcounts(children, ones[:size])
        filled[level] += size
        if level + 1 < order:
            for c in range(first, d - 1):
                below = blocks[level + 1][: d - 1 - c]
                combine(children[c - first], chunk[c + 1 :], out=below)
                visit(level + 1, c + 1, below)

    visit(0, 0, chunk)
    return counts


def _padded(chunk: Words) -> Words:
    """Return the chunk in words that are a multiple of 8, contiguous."""
    width = -(-chunk.shape[1] // 8) * 8
    padded = np.zeros((len(chunk), width), np.uint64)
    padded[:, : chunk.shape[1]] = chunk
    return padded


def _row_popcounts(block: Words, ones: NDArray[np.uint8]) -> IntArray:
    """Return the number of 1s in each row: per word in bytes, then in 16-bit lanes of 64-bit words."""
    np.bitwise_count(block, out=ones)
    bytes_ = ones.view(np.uint64)
    lanes = bytes_ & _LOW_BYTES
    lanes += (bytes_ >> _BYTE) & _LOW_BYTES
    total: Words = np.add.reduce(lanes, axis=1)
    return np.asarray(total.view(np.uint16).reshape(-1, 4).sum(axis=1, dtype=np.int64), np.int64)
