"""Parities of the bits of a row's cells: the Fourier basis in which a marginal has few coefficients.

Each axis is written in binary, so that a table of some columns is a sum over the subsets of their bits, whatever the
number of cells.  Under the statistics of `fourier_marginals`; knows no noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Answers, Clique, Codes, Features, FloatArray, IntArray, Totals
from synthdp.codec import file_form
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.linear import LinearFamily, sum_features
from synthdp.queries.norms import Norms, RecordBounds, whole_numbers
from synthdp.queries.product_sums import ProductSums
from synthdp.works.polynomials.subset_counts import walsh_hadamard

MAX_TABLE_BITS = 20
"""Up to so many bits all parities are computed from a histogram by one transform, and the swap bound is exact."""


@file_form("CellParities")
@dataclass(frozen=True, slots=True, eq=False)
class CellParities(LinearFamily):
    """Sums over rows of (-1)^(number of 1s of the row's bits within a mask).

    A row in a cell that is never released, a misfit, has no bits in that column: it counts 0 in every parity of them.

    Parameters
    ----------
    domain
        The axes; axis j takes the next ceil(log2(number of cells that may be released)) bits, axis 0 the highest.
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
        """Every parity of one record is +1, -1 or 0; a replaced record changes those odd on the bits that differ, by 2.

        The number of masks that are odd on f is (k - sum over masks of (-1)^|mask & f|) / 2: a transform of their
        indicator gives it for every f, and its maximum the exact bound.  A misfit changes no more: a mask that touches its
        columns moves by 1, and is odd, which moves it by 2, on half of all f there.
        """
        k, odd = self.k, self.k
        if self.bits <= MAX_TABLE_BITS:
            chosen = np.zeros(1 << self.bits, np.int64)
            chosen[self.masks] = 1
            odd = int((k - walsh_hadamard(chosen).min()) // 2)
        return RecordBounds(Norms(k, k, 1), Norms(2 * odd, 4 * odd, 2 if odd else 0))

    def features(self, codes: Codes) -> Features:
        """Return the parities of each row, (n, k), +1 or -1, and 0 where the row is a misfit."""
        odd = np.bitwise_count(self.words(codes)[:, None] & self.masks) & 1
        fits = (self._missing(codes)[:, None] & self.masks) == 0
        return np.asarray((1 - 2 * odd.astype(np.int64)) * fits, np.int64)

    def sums(self, codes: Codes) -> Totals:
        """Return the exact sums, (k,)."""
        if self.bits > MAX_TABLE_BITS:
            return sum_features(self, codes)
        fits = self._missing(codes) == 0
        counts = np.bincount(self.words(codes)[fits], minlength=1 << self.bits)
        found = np.asarray(walsh_hadamard(counts)[self.masks], np.int64)
        return found if fits.all() else found + sum_features(self, codes[~fits])

    def words(self, codes: Codes) -> IntArray:
        """Return the bits of each row as one whole number, (n,)."""
        words = np.zeros(len(codes), np.int64)
        for j, (axis, width) in enumerate(zip(self.domain.axes, widths(self.domain), strict=True)):
            words <<= width
            words |= np.maximum(np.cumsum(axis.releasable) - 1, 0)[codes[:, j]] * axis.releasable[codes[:, j]]
        return words

    def sums_of(
        self, names: Sequence[str], answers: Answers, stddev: float, *, rows: tuple[float, float]
    ) -> ProductSums | None:
        """Return what noisy answers say of the table of some columns; see `TellsTables`."""
        if not set(names) <= set(self.domain.names):
            return None
        columns = self.domain.index(*names)
        wanted = masks_below(self.domain, columns)
        order = np.argsort(self.masks, kind="stable")
        place = np.minimum(np.searchsorted(self.masks, wanted, sorter=order), self.k - 1)
        there = self.masks[order[place]] == wanted
        if not there[wanted != 0].all():
            return None
        values = np.where(there, answers[order[place]], rows[0])
        variance = np.where(there, stddev**2, rows[1] ** 2)
        axes = tuple(self.domain.axes[j] for j in columns)
        shape = [1 << widths(self.domain)[j] for j in columns]
        return ProductSums(
            axes=axes,
            features=tuple(_signs(axis) for axis in axes),
            values=values.reshape(shape),
            variance=variance.reshape(shape),
        )

    def _missing(self, codes: Codes) -> IntArray:
        """Return the bits that each row does not have, as one whole number, (n,)."""
        words = np.zeros(len(codes), np.int64)
        for j, (axis, width) in enumerate(zip(self.domain.axes, widths(self.domain), strict=True)):
            words <<= width
            words |= np.where(axis.releasable[codes[:, j]], 0, (1 << width) - 1)
        return words


def _signs(axis: Axis) -> FloatArray:
    """Return the characters of one axis, (2^bits, cells): mask m, +1 or -1, and 0 in cells that are never released."""
    codes = np.maximum(np.cumsum(axis.releasable) - 1, 0)
    masks = np.arange(1 << int(axis.releasable.sum() - 1).bit_length())
    odd = np.bitwise_count(masks[:, None] & codes) & 1
    return np.asarray((1.0 - 2.0 * odd) * axis.releasable)


def widths(domain: Domain) -> tuple[int, ...]:
    """Return the number of bits of each axis, which number the cells that may be released: 0 for one cell."""
    return tuple((int(axis.releasable.sum()) - 1).bit_length() for axis in domain.axes)


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

    Its cells are those that may be released.  The transform inverts itself up to the factor 2^bits.
    """
    counts = walsh_hadamard(np.asarray(parities, np.float64)) / len(parities)
    width = widths(domain)
    kept = np.zeros(1, np.int64)
    for j in clique:
        kept = ((kept[:, None] << width[j]) + np.arange(int(domain.axes[j].releasable.sum()))).ravel()
    return np.asarray(counts[kept], np.float64)
