"""The Fourier coefficients of a row as a function of the query: what learners of monotone conjunctions learn.

A row x says of a set y of bits whether all of them are 1: f_x(y) = prod over the zeros j of x of (1 - y_j).  For sets that
hold each bit with probability p, independently, the coefficients of f_x of order at most t leave little of f_x on average,
though much of it for some sets (Gupta, Hardt, Roth, Ullman 2011; Hardt, Rothblum, Servedio 2012; Cheraghchi, Klivans,
Kothari, Lee 2012).  Knows no noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from synthdp.arrays import Codes, Features, IntArray, Totals, frozen
from synthdp.checks import check_number, check_whole, whole
from synthdp.domain.domain import Domain
from synthdp.queries.linear import LinearFamily
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.queries.protocol import check_overflow
from synthdp.works.polynomials.binarized import Binarized
from synthdp.works.polynomials.krawtchouk import level_sizes, subsets_of
from synthdp.works.polynomials.subset_counts import all_ones_counts


@dataclass(frozen=True, slots=True, eq=False)
class AverageConjunctions(LinearFamily):
    """Sums over rows of the coefficients of f_x on the p-biased characters of at most t bits.

    With phi(y_j) = (y_j - p) / sqrt(p (1 - p)) the coefficient of a set S of zeros of a row with z zeros is
    (1 - p)^(z - |S|) (-sqrt(p (1 - p)))^|S|, and 0 for other sets.  The squares of all coefficients sum to (1 - p)^z.

    Parameters
    ----------
    bits
        The d bits.
    order
        t.
    chance
        0 < p < 1.
    denominator
        The whole number that stands for 1.
    """

    bits: Binarized
    order: int
    chance: float
    denominator: int = 2**16
    whole: IntArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_whole("order", self.order, most=self.bits.d)
        check_number("chance", self.chance, above=0, below=1)
        object.__setattr__(self, "denominator", whole("denominator", self.denominator, least=1, most=2**24))
        z, size = np.arange(self.bits.d + 1)[:, None], np.arange(self.order + 1)[None]
        value = (1 - self.chance) ** np.maximum(z - size, 0) * (-math.sqrt(self.chance * (1 - self.chance))) ** size
        rounded = np.rint(self.denominator * np.where(size <= z, value, 0.0)).astype(np.int64)
        object.__setattr__(self, "whole", frozen(rounded))
        check_overflow(self)

    @property
    def domain(self) -> Domain:
        """The columns that are read."""
        return self.bits.domain

    @property
    def k(self) -> int:
        """Number of coefficients."""
        return sum(level_sizes(self.bits.d, self.order))

    @property
    def bounds(self) -> RecordBounds:
        """Exact maxima over the numbers of zeros for one row; coefficients of a set have one sign, so two rows' differ less.

        A difference of two numbers of one sign is no larger than the larger, and its square than the sum of both squares.
        """
        norms = [self._norms(zeros) for zeros in range(self.bits.d + 1)]
        l1, l2_squared = max(one.l1 for one in norms), max(one.l2_squared for one in norms)
        linf = max(one.linf for one in norms)
        single = Norms.within(self.k, linf, l1=l1, l2_squared=l2_squared)
        return RecordBounds(single, Norms.within(self.k, linf, l1=2 * l1, l2_squared=2 * l2_squared))

    def features(self, codes: Codes) -> Features:
        """Return the coefficients of every row, (n, k)."""
        zero = ~self.bits.matrix(codes)
        zeros = zero.sum(axis=1)
        levels = [
            zero[:, subsets_of(self.bits.d, level)].all(axis=2) * self.whole[zeros, level][:, None]
            for level in range(self.order + 1)
        ]
        return np.concatenate(levels, axis=1).astype(np.int64)

    def sums(self, codes: Codes) -> Totals:
        """Return the sums, (k,), by counts among the rows with each number of zeros."""
        columns = [~column for column in self.bits.columns(codes)]
        zeros = np.sum(columns, axis=0)
        total = np.zeros(self.k, np.int64)
        for z in np.unique(zeros).tolist():
            chosen = zeros == z
            counts = all_ones_counts([column[chosen] for column in columns], order=self.order)
            total += np.concatenate([count * self.whole[z, level] for level, count in enumerate(counts)])
        return total

    def missing(self, zeros: int) -> float:
        """Return E_y (f_x - its coefficients of order at most t)^2 for a row with so many zeros."""
        p, high = self.chance, range(self.order + 1, zeros + 1)
        return float(sum(math.comb(zeros, i) * (1 - p) ** (2 * zeros - i) * p**i for i in high))

    def _norms(self, zeros: int) -> Norms:
        sizes = [math.comb(zeros, i) for i in range(self.order + 1)]
        value = [abs(int(one)) for one in self.whole[zeros]]
        return Norms(
            sum(size * v for size, v in zip(sizes, value, strict=True)),
            sum(size * v * v for size, v in zip(sizes, value, strict=True)),
            max(v for size, v in zip(sizes, value, strict=True) if size),
        )
