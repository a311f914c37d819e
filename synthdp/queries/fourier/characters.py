"""Parities of the bits of a row's cells: the Fourier basis in which a marginal has few coefficients.

Each axis is written in binary, so that a table of some columns is a sum over the subsets of their bits, whatever the
number of cells.  Under the statistics of `mechanisms.fourier_marginals`; knows no noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Codes, Features, FloatArray, IntArray, Totals
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.counting import Clique
from synthdp.queries.fourier.subset_counts import walsh_hadamard
from synthdp.queries.linear import LinearFamily, sum_features
from synthdp.queries.norms import Norms, RecordBounds, whole_numbers

MAX_TABLE_BITS = 20
"""Up to so many bits all parities are computed from a histogram by one transform, and the swap bound is exact."""


@dataclass(frozen=True, slots=True, eq=False)
class CellParities(LinearFamily):
    """Sums over rows of (-1)^(number of 1s of the row's bits within a mask).

    Parameters
    ----------
    domain
        The axes; axis j takes the next ceil(log2(size)) bits, axis 0 the highest.
    masks
        (k,) different sets of bits as whole numbers; 0 counts the rows.
    """

    domain: Domain
    masks: IntArray

    def __post_init__(self) -> None:
        masks = whole_numbers("masks", self.masks)
        if self.bits > 62:
            raise ParameterError(f"the cells need {self.bits} bits, and at most 62 fit: use fewer columns")
        if not masks.size or masks.min() < 0 or masks.max() >> self.bits or len(np.unique(masks)) < len(masks):
            raise ParameterError(f"masks must be different sets of the {self.bits} bits of the domain")
        object.__setattr__(self, "masks", masks)

    @property
    def bits(self) -> int:
        """Number of bits of all axes."""
        return sum(widths(self.domain))

    @property
    def k(self) -> int:
        """Number of parities."""
        return len(self.masks)

    @property
    def bounds(self) -> RecordBounds:
        """Every parity of one record is +1 or -1; a replaced record changes those odd on the bits that differ, by 2.

        The number of masks that are odd on f is (k - sum over masks of (-1)^|mask & f|) / 2: a transform of their
        indicator gives it for every f, and its maximum the exact bound.
        """
        k, odd = self.k, self.k
        if self.bits <= MAX_TABLE_BITS:
            chosen = np.zeros(1 << self.bits, np.int64)
            chosen[self.masks] = 1
            odd = int((k - walsh_hadamard(chosen).min()) // 2)
        return RecordBounds(Norms(k, k, 1), Norms(2 * odd, 4 * odd, 2 if odd else 0))

    def features(self, codes: Codes) -> Features:
        """Return the parities of each row, (n, k), +1 or -1."""
        odd = np.bitwise_count(self.words(codes)[:, None] & self.masks) & 1
        return np.asarray(1 - 2 * odd.astype(np.int64), np.int64)

    def sums(self, codes: Codes) -> Totals:
        """Return the exact sums, (k,)."""
        if self.bits > MAX_TABLE_BITS:
            return sum_features(self, codes)
        counts = np.bincount(self.words(codes), minlength=1 << self.bits)
        return np.asarray(walsh_hadamard(counts)[self.masks], np.int64)

    def words(self, codes: Codes) -> IntArray:
        """Return the bits of each row as one whole number, (n,)."""
        words = np.zeros(len(codes), np.int64)
        for j, width in enumerate(widths(self.domain)):
            words <<= width
            words |= codes[:, j]
        return words


def widths(domain: Domain) -> tuple[int, ...]:
    """Return the number of bits of each axis: 0 for one cell."""
    return tuple((size - 1).bit_length() for size in domain.shape)


def masks_below(domain: Domain, clique: Clique) -> IntArray:
    """Return all sets of bits of some columns, (2^bits,): mask i holds the bits of i, in the columns' own order."""
    width = widths(domain)
    ends = np.cumsum(width[::-1])[::-1]  # axis j occupies the bits from ends[j] - width[j] up to ends[j]
    places: list[int] = []  # from the highest bit to the lowest
    for j in clique:
        places.extend(range(int(ends[j]) - 1, int(ends[j]) - width[j] - 1, -1))
    masks = np.zeros(1 << len(places), np.int64)
    index = np.arange(len(masks))
    for i, place in enumerate(reversed(places)):
        masks |= (index >> i & 1) << place
    return masks


def closure(domain: Domain, cliques: Iterable[Clique]) -> IntArray:
    """Return the masks that all tables of some cliques are made of, sorted; the first is 0."""
    return np.unique(np.concatenate([masks_below(domain, clique) for clique in cliques]))


def table_of(domain: Domain, clique: Clique, parities: FloatArray) -> FloatArray:
    """Return the counts of a table, flat in C order, from its parities in the order of `masks_below`.

    The transform inverts itself up to the factor 2^bits.
    """
    counts = walsh_hadamard(np.asarray(parities, np.float64)) / len(parities)
    width = widths(domain)
    kept = np.zeros(1, np.int64)
    for j in clique:
        kept = ((kept[:, None] << width[j]) + np.arange(domain.shape[j])).ravel()
    return np.asarray(counts[kept], np.float64)
