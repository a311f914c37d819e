"""Counts of conjunctions of few bits, as a statistic: the monomials of Thaler, Ullman, Vadhan (2012).

Kept beside `parities` for comparison and teaching: the sensitivity is the same, but the answers need coefficients whose
absolute sum explodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Answers, AnyArray, Codes, Features, Totals
from synthdp.checks import check_whole, whole
from synthdp.codec import file_form
from synthdp.domain.domain import Domain
from synthdp.queries.linear import LinearFamily
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.queries.product_sums import ProductSums
from synthdp.works.polynomials.binarized import Binarized
from synthdp.works.polynomials.column_sums import column_sums
from synthdp.works.polynomials.krawtchouk import level_sizes, subsets_of
from synthdp.works.polynomials.subset_counts import all_ones_counts


@file_form("Monomials")
@dataclass(frozen=True, slots=True, eq=False)
class Monomials(LinearFamily):
    """For every set S of at most t bits, the number of rows where all of them are 0.

    A row with z zeros adds 1 to sum_i C(z, i) counts, at most all M of them.  Replacing a row x by y changes
    N(x) + N(y) - 2 N(x and y) counts, largest for all zeros against none (N is superadditive): M - 1, the empty set
    stays.

    Parameters
    ----------
    bits
        The d bits.
    order
        t.
    """

    bits: Binarized
    order: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", whole("order", self.order))
        check_whole("order", self.order, most=self.bits.d)

    @property
    def domain(self) -> Domain:
        """The columns that are read."""
        return self.bits.domain

    @property
    def sizes(self) -> tuple[int, ...]:
        """(t + 1,) number of sets of each size."""
        return level_sizes(self.bits.d, self.order)

    @property
    def k(self) -> int:
        """Number of counts: M = sum_i C(d, i)."""
        return sum(self.sizes)

    @property
    def bounds(self) -> RecordBounds:
        """Exact where every combination of bits can occur, else upper bounds."""
        m = self.k
        return RecordBounds(Norms(m, m, 1), Norms(m - 1, m - 1, 1))

    def features(self, codes: Codes) -> Features:
        """Return the indicators of every row, (n, k)."""
        zero = ~self.bits.matrix(codes)
        levels = [zero[:, subsets_of(self.bits.d, level)].all(axis=2) for level in range(self.order + 1)]
        return np.concatenate(levels, axis=1).astype(np.int64)

    def sums(self, codes: Codes) -> Totals:
        """Return the counts by popcounts of bit-packed columns, (k,)."""
        return np.concatenate(all_ones_counts([~column for column in self.bits.columns(codes)], order=self.order))

    def split(self, values: AnyArray) -> list[AnyArray]:
        """Cut a vector of all counts into one per size."""
        return np.split(values, np.cumsum(self.sizes)[:-1])

    def sums_of(
        self, names: Sequence[str], answers: Answers, stddev: float, *, rows: tuple[float, float]
    ) -> ProductSums | None:
        """Return what noisy answers say of the table of some columns; see `TellsTables`.

        A number of rows that is known better than its noisy count stands in its place.
        """
        levels, variances = self.split(answers), [stddev**2] * (self.order + 1)
        if rows[1] < stddev:
            levels[0], variances[0] = np.array([rows[0]]), rows[1] ** 2
        return column_sums(self.bits, names, levels, variances, of_bit=lambda one: np.where(one, 0.0, 1.0))
