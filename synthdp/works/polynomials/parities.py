"""Parities (Fourier characters) of few bits, as a statistic: the sum over rows of (-1)^{sum of the bits of S}.

Each level |S| has a whole-number scale, so that noise can be shared unequally while sums and sensitivities stay exact
integers.  The polynomials that turn them into answers are chosen after the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Answers, AnyArray, Codes, Features, IntArray, Totals
from synthdp.checks import check_whole, whole
from synthdp.codec import file_form
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.linear import LinearFamily
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.queries.product_sums import ProductSums
from synthdp.queries.protocol import check_overflow
from synthdp.works.polynomials.binarized import Binarized
from synthdp.works.polynomials.column_sums import column_sums
from synthdp.works.polynomials.krawtchouk import level_sizes, odd_overlaps, subsets_of
from synthdp.works.polynomials.subset_counts import odd_counts


@file_form("Parities")
@dataclass(frozen=True, slots=True, eq=False)
class Parities(LinearFamily):
    """For every set S of at most t bits, ``scales[|S|]`` times the sum over rows of chi_S = (-1)^{sum of bits in S}.

    Adding a row changes every sum by its scale exactly: l1 = sum_i s_i C(d, i).  Replacing one whose f bits differ
    changes, by twice the scale, the parities that meet these bits in an odd number: l2^2 = max over the f that two rows
    can differ by of 4 sum_i s_i^2 odd(i, f) (docs/proofs/parities.md).

    Parameters
    ----------
    bits
        The d bits.
    scales
        (t + 1,) a whole number per level, from 0 (the empty set: the number of rows) to t; 0 leaves a level out.
    """

    bits: Binarized
    scales: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", tuple(whole("scales", scale) for scale in self.scales))
        check_whole("order", self.order, most=self.bits.d)
        if not any(self.scales[1:]):
            raise ParameterError("scales must be whole numbers of at least 0, and one of level 1 or more above 0")
        check_overflow(self)

    @property
    def order(self) -> int:
        """Largest number of bits in a parity."""
        return len(self.scales) - 1

    @property
    def domain(self) -> Domain:
        """The columns that are read."""
        return self.bits.domain

    @property
    def sizes(self) -> tuple[int, ...]:
        """(t + 1,) number of parities of each level; 0 where it is left out."""
        sizes = level_sizes(self.bits.d, self.order)
        return tuple(size if scale else 0 for size, scale in zip(sizes, self.scales, strict=True))

    @property
    def k(self) -> int:
        """Number of parities in all."""
        return sum(self.sizes)

    @property
    def bounds(self) -> RecordBounds:
        """Exact for both neighbours."""
        return RecordBounds(self._one(), self._swap())

    def _one(self) -> Norms:
        pairs = list(zip(self.scales, self.sizes, strict=True))
        return Norms(sum(s * c for s, c in pairs), sum(s * s * c for s, c in pairs), max(self.scales))

    def _swap(self) -> Norms:
        changed = odd_overlaps(self.bits.d, self.order, self.bits.flips)
        rows = [[(2 * s, odd) for s, odd in zip(self.scales, row, strict=True)] for row in changed]
        l1 = max((sum(s * odd for s, odd in row) for row in rows), default=0)
        l2_squared = max((sum(s * s * odd for s, odd in row) for row in rows), default=0)
        linf = max((s for row in rows for s, odd in row if odd), default=0)
        return Norms(l1, l2_squared, linf)

    def features(self, codes: Codes) -> Features:
        """Return the scaled parities of every row, (n, k): for few rows or few bits."""
        signs = 1 - 2 * self.bits.matrix(codes).astype(np.int64)
        levels = [
            scale * signs[:, subsets_of(self.bits.d, level)].prod(axis=2)
            for level, scale in enumerate(self.scales)
            if scale
        ]
        return np.concatenate(levels, axis=1).astype(np.int64)

    def sums(self, codes: Codes) -> Totals:
        """Return the sums by popcounts of bit-packed columns, (k,)."""
        odd = odd_counts(self.bits.columns(codes), order=self.order)
        levels = [scale * (len(codes) - 2 * count) for scale, count in zip(self.scales, odd, strict=True) if scale]
        return np.concatenate(levels).astype(np.int64)

    def split(self, values: AnyArray | IntArray) -> list[AnyArray]:
        """Cut a vector of all parities into one per level, empty where a level is left out."""
        return np.split(values, np.cumsum(self.sizes)[:-1])

    def sums_of(
        self, names: Sequence[str], answers: Answers, stddev: float, *, rows: tuple[float, float]
    ) -> ProductSums | None:
        """Return what noisy answers say of the table of some columns; see `TellsTables`."""
        levels = [part / max(scale, 1) for part, scale in zip(self.split(answers), self.scales, strict=True)]
        variances = [(stddev / scale) ** 2 if scale else math.inf for scale in self.scales]
        if not self.scales[0]:
            levels[0], variances[0] = np.array([rows[0]]), rows[1] ** 2
        return column_sums(self.bits, names, levels, variances, of_bit=lambda one: np.where(one, -1.0, 1.0))
