"""Parities (Fourier characters) of few bits, as a statistic: the sum over rows of (-1)^{sum of the bits of S}.

Each degree |S| has a whole-number scale. Noise can thus be divided unequally while sums and sensitivities stay exact
integers. The polynomials that turn parities into answers are chosen after the noise.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from synthdp.arrays import Answers, AnyArray, BoolArray, Codes, Features, FloatArray, IntArray, Totals
from synthdp.checks import check_whole, whole
from synthdp.codec import file_form
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.linear import LinearFamily
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.queries.products import ProductSums
from synthdp.queries.protocol import check_overflow
from synthdp.works.polynomials.binarized import Binarized
from synthdp.works.polynomials.polynomials import level_sizes, odd_overlaps, ranks, subsets_of


def column_sums(
    bits: Binarized,
    names: Sequence[str],
    levels: Sequence[FloatArray],
    variances: Sequence[float],
    *,
    of_bit: Callable[[BoolArray], FloatArray],
) -> ProductSums | None:
    """Return the noisy products of some columns' bits, from which their contingency table can be computed.

    Return ``None`` if a column has no bits, or if sets with as many bits as there are columns, or fewer, were not all
    measured.

    Parameters
    ----------
    bits
        The bits of all columns.
    names
        The columns, in the order of the result's axes.
    levels
        For each size of sets, from 0: the noisy sums of all sets of this size, in lexicographic order.
    variances
        Variance of the noise at each size; infinite where a size was left out.
    of_bit
        From a bit's values in the cells of a column, (cells,), to its factors in a product, (cells,).
    """
    if not set(names) <= set(bits.domain.names) or len(names) >= len(levels):
        return None
    if not np.isfinite(variances[: len(names) + 1]).all():
        return None
    columns = [bits.domain.names.index(name) for name in names]
    own = [bits.of_column(column) for column in columns]
    values = np.empty([1 + len(some) for some in own])
    variance = np.empty_like(values)
    for size in range(len(names) + 1):
        for chosen in itertools.combinations(range(len(names)), size):
            place = tuple(slice(1, None) if j in chosen else 0 for j in range(len(names)))
            sets = np.array(list(itertools.product(*(own[j] for j in chosen))), np.int64)
            found = levels[size][ranks(np.sort(sets, axis=1), bits.d)] if size else levels[0][:1]
            values[place], variance[place] = found.reshape([len(own[j]) for j in chosen]), variances[size]
    axes = tuple(bits.domain.axes[column] for column in columns)
    features = tuple(
        np.array([np.ones(axis.size), *(of_bit(bits.bits[i].cells) for i in some)])
        for axis, some in zip(axes, own, strict=True)
    )
    return ProductSums(axes=axes, features=features, values=values, variance=variance)


Words: TypeAlias = NDArray[np.uint64]
"""Bit columns, (d, words), with 64 rows a word, padded with 0."""

Combine: TypeAlias = Callable[..., AnyArray]
"""A numpy function that merges two arrays of words bit by bit, such as ``bitwise_xor``."""

CHUNK_WORDS = 2048
"""Words of a column that are counted at once, so that all sets with a common prefix stay in a core's cache.  Derived: sums
in 16-bit lanes stay below 16 x 2048 < 2^16."""

CELL_BITS = 20
"""Most bits for which a table of all cells and one fast transform may replace popcounts: 2^20 cells.  A safety limit of
memory."""

_LOW_BYTES = np.uint64(0x00FF00FF00FF00FF)
"""Mask of the lower byte of each 16 bits in a word; byte-sized counts are added in lanes of 16 bits.  Derived: 0x00FF four
times."""
_BYTE = np.uint64(8)
"""Bits by which a word is shifted, so that the upper byte of each 16 bits takes the place of the lower one.  Both are
then added.  Derived: 8."""


def odd_counts(columns: Iterable[AnyArray], *, order: int) -> list[IntArray]:
    """Return the number of rows in which an odd number of a subset's bits is 1, for all small subsets of columns.

    The sum of a parity over n rows is n minus twice this number.

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
    """Return the number of rows in which all bits of a subset are 1, for every subset of at most ``order`` columns.

    The product of the bits is 1 in such a row alone, so the count is the sum of a product over all rows: these products
    are the monomials of a polynomial.

    Parameters
    ----------
    columns
        d boolean arrays of n rows.
    order
        Largest size of a subset.

    Returns
    -------
    list of IntArray
        Per level from 0 to ``order`` the (C(d, level),) counts, subsets in lexicographic order; level 0 counts all rows.
    """
    listed = list(columns)
    rows = np.array([len(listed[0])], np.int64)
    return [rows, *_popcounts(pack(listed), order, np.bitwise_and)]


def pack(columns: Iterable[AnyArray]) -> Words:
    """Return boolean columns of n rows as 64-bit words, (d, ceil(n / 64)), so that one popcount counts 64 rows."""
    packed = [np.packbits(column) for column in columns]
    width = -(-len(packed[0]) // 8) * 8
    words = np.zeros((len(packed), width), np.uint8)
    for row, column in zip(words, packed, strict=True):
        row[: len(column)] = column
    return words.view(np.uint64)


def walsh_hadamard(cells: AnyArray) -> AnyArray:
    """Return sum_x (-1)^{popcount(x & S)} cells[x] for every S; (2^d,) -> (2^d,).

    From a histogram of bit patterns it gives all parities' sums at once, in 2^d d additions.
    """
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
    """Return whether one transform of all cells takes fewer steps than popcounts of all subsets, to choose one way."""
    d, words = bits.shape[0], bits.shape[1]
    transform, popcounts = 2**d * (d + 1) + 64 * words * d, sum(level_sizes(d, order)[1:]) * words
    return bool(d <= CELL_BITS and transform < popcounts)


def _cells(bits: Words) -> IntArray:
    """Return the number of rows in each cell (pattern of bits), (2^d,), padding rows included.

    Padding rows lie in cell 0, where every parity is +1.  They cancel when a signed sum is subtracted from the total.
    """
    cell = np.zeros(bits.shape[1] * 64, np.int64)
    for j, column in enumerate(bits):
        cell += np.unpackbits(column.view(np.uint8)).astype(np.int64) << j
    return np.bincount(cell, minlength=2 ** len(bits))


def _masks(d: int, level: int) -> IntArray:
    """Return the bit mask of every set of ``level`` of d bits, in lexicographic order of the sets, (sets,).

    A mask is the position of the set's sum in the transform of all cells.
    """
    return np.asarray((np.int64(1) << subsets_of(d, level)).sum(axis=1), np.int64)


def _popcounts(bits: Words, order: int, combine: Combine) -> list[IntArray]:
    """Return the number of rows where the combined bits of a set are 1, for all sets of each size from 1 to ``order``.

    ``combine`` combines two columns' words: ``bitwise_xor`` to count rows with an odd number of 1s, ``bitwise_and`` to
    count rows with 1s only.  Chunks of words are counted on all cores.
    """
    starts = range(0, bits.shape[1], CHUNK_WORDS)
    totals = [np.zeros(size, np.int64) for size in level_sizes(len(bits), order)[1:]]
    with ThreadPoolExecutor(max_workers=max(1, min(os.cpu_count() or 1, len(starts)))) as pool:
        for counts in pool.map(lambda start: _count(bits[:, start : start + CHUNK_WORDS], order, combine), starts):
            for total, count in zip(totals, counts, strict=True):
                total += count
    return totals


def _count(chunk: Words, order: int, combine: Combine) -> Sequence[IntArray]:
    """Return the number of rows of one chunk where the combined bits of a set are 1, by size up to ``order``.

    A depth-first walk over prefixes of sets puts their counts in lexicographic order.  The caller adds up the chunks.
    """
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
    """Return the chunk as a contiguous array whose number of words is a multiple of 8, filled up with 0.

    `_row_popcounts` then puts the counts of eight words, a byte each, into one 64-bit word.
    """
    width = -(-chunk.shape[1] // 8) * 8
    padded = np.zeros((len(chunk), width), np.uint64)
    padded[:, : chunk.shape[1]] = chunk
    return padded


def _row_popcounts(block: Words, ones: NDArray[np.uint8]) -> IntArray:
    """Return the number of 1s in each row of words, (rows,).

    The 1s of each word are counted into one byte; these bytes are added in the 16-bit lanes of 64-bit words.
    """
    np.bitwise_count(block, out=ones)
    bytes_ = ones.view(np.uint64)
    lanes = bytes_ & _LOW_BYTES
    lanes += (bytes_ >> _BYTE) & _LOW_BYTES
    total: Words = np.add.reduce(lanes, axis=1)
    return np.asarray(total.view(np.uint16).reshape(-1, 4).sum(axis=1, dtype=np.int64), np.int64)


@file_form("Parities")
@dataclass(frozen=True, slots=True, eq=False)
class Parities(LinearFamily):
    """For every set S of at most t bits, ``scales[|S|]`` times the sum over rows of chi_S = (-1)^{sum of bits in S}.

    Adding a row changes every sum by exactly its scale: l1 = sum_i s_i C(d, i).  Replacing a row by one that differs in
    f bits changes the parities with an odd number of these bits, by twice their scale.  So l2^2 = max over possible f
    of 4 sum_i s_i^2 odd(i, f) (docs/proofs/parities.md).

    Parameters
    ----------
    bits
        The d bits.
    scales
        (t + 1,) a whole number per size of S, from 0 (the empty set: the number of rows) to t; 0 leaves a size out.
    """

    bits: Binarized
    scales: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", tuple(whole("scales", scale) for scale in self.scales))
        check_whole("order", self.order, most=self.bits.d)
        if not any(self.scales[1:]):
            raise ParameterError(
                "scales must be whole numbers of at least 0, of which at least one after the first is above 0"
            )
        check_overflow(self)

    @property
    def order(self) -> int:
        """Return the largest number of bits in a parity."""
        return len(self.scales) - 1

    @property
    def domain(self) -> Domain:
        """Return the columns that are read, and their cells."""
        return self.bits.domain

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of parities of each size, (t + 1,); 0 where a size is left out."""
        sizes = level_sizes(self.bits.d, self.order)
        return tuple(size if scale else 0 for size, scale in zip(sizes, self.scales, strict=True))

    @property
    def k(self) -> int:
        """Return the number of all parities."""
        return sum(self.sizes)

    @property
    def ones(self) -> tuple[int, ...]:
        """Return the scales of the sizes that are measured: what one row adds to a parity's sum, up to its sign."""
        return tuple(scale for scale in self.scales if scale)

    @property
    def bounds(self) -> RecordBounds:
        """Return the sensitivity, exact for an added and for a replaced row."""
        return RecordBounds(self._one(), self._swap())

    def _one(self) -> Norms:
        """Return the norms of one row's scaled parities, for an added row."""
        pairs = list(zip(self.scales, self.sizes, strict=True))
        return Norms(sum(s * c for s, c in pairs), sum(s * s * c for s, c in pairs), max(self.scales))

    def _swap(self) -> Norms:
        """Return the largest norms of the change of the scaled parities if one row is replaced."""
        changed = odd_overlaps(self.bits.d, self.order, self.bits.flips)
        rows = [[(2 * s, odd) for s, odd in zip(self.scales, row, strict=True)] for row in changed]
        l1 = max((sum(s * odd for s, odd in row) for row in rows), default=0)
        l2_squared = max((sum(s * s * odd for s, odd in row) for row in rows), default=0)
        linf = max((s for row in rows for s, odd in row if odd), default=0)
        return Norms(l1, l2_squared, linf)

    def features(self, codes: Codes) -> Features:
        """Return each row's parities, +1 or -1 times the scale of their size, (n, k), for few rows or few bits."""
        signs = 1 - 2 * self.bits.matrix(codes).astype(np.int64)
        levels = [
            scale * signs[:, subsets_of(self.bits.d, level)].prod(axis=2)
            for level, scale in enumerate(self.scales)
            if scale
        ]
        return np.concatenate(levels, axis=1).astype(np.int64)

    def sums(self, codes: Codes) -> Totals:
        """Return each parity's sum over rows, times the scale of its size, (k,), by popcounts of bit-packed columns."""
        odd = odd_counts(self.bits.columns(codes), order=self.order)
        levels = [scale * (len(codes) - 2 * count) for scale, count in zip(self.scales, odd, strict=True) if scale]
        return np.concatenate(levels).astype(np.int64)

    def split(self, values: AnyArray | IntArray) -> list[AnyArray]:
        """Return a vector of all parities cut into one array per size, in the order of `ranks`.

        The array is empty for a size that is left out.
        """
        return np.split(values, np.cumsum(self.sizes)[:-1])

    def sums_of(
        self, names: Sequence[str], answers: Answers, stddev: float, *, rows: tuple[float, float]
    ) -> ProductSums | None:
        """Return the noisy sums of products of some columns' bits as signs, from which their table is computed.

        ``rows`` is the number of rows and its stddev, used if the number is not measured.  Return ``None`` if products
        that the table needs were not measured.
        """
        levels = [part / max(scale, 1) for part, scale in zip(self.split(answers), self.scales, strict=True)]
        variances = [(stddev / scale) ** 2 if scale else math.inf for scale in self.scales]
        if not self.scales[0]:
            levels[0], variances[0] = np.array([rows[0]]), rows[1] ** 2
        return column_sums(self.bits, names, levels, variances, of_bit=lambda one: np.where(one, -1.0, 1.0))
