"""Distances between the tables of all pairs of many columns and those of independent columns, for little time and memory."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Codes, IntArray, Totals
from synthdp.checks import whole
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.norms import Norms, RecordBounds, whole_numbers
from synthdp.queries.pair_counts import add_pair_counts, indicators, pair_tables
from synthdp.queries.protocol import check_overflow

LARGEST_UNIT = 2**16
"""Largest denominator: with expected rows below `LARGEST_SUM` no distance leaves 63 bits."""

LARGEST_SUM = 2**60
"""Most expected rows in multiples of 1 / denominator: far more than any table has."""


@dataclass(frozen=True, slots=True, eq=False)
class PairDistances:
    """For every two columns the L1 distance, in rows, between their table and that of independent columns.

    The expected table of a pair is the outer product of two margins, which are public numbers.  By the triangle inequality
    a record changes each distance by at most 1 when added and 2 when replaced (docs/proofs/wide-screening.md).  Counting
    takes one symmetric matrix product, however many pairs there are; nothing is stored for a pair but its distance.

    Parameters
    ----------
    domain
        Two or more axes of at least 2 cells each.
    margins
        For each axis its (size,) expected rows, >= 0, in whole multiples of 1 / ``denominator``; all with one sum.
    denominator
        The whole number that stands for one row.

    Raises
    ------
    ParameterError
        If the margins do not fit the domain.
    """

    domain: Domain
    margins: tuple[IntArray, ...]
    denominator: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "denominator", whole("denominator", self.denominator, least=1, most=LARGEST_UNIT))
        object.__setattr__(self, "margins", tuple(whole_numbers("margins", margin) for margin in self.margins))
        shape = self.domain.shape
        if len(shape) < 2 or min(shape) < 2 or [margin.shape for margin in self.margins] != [(k,) for k in shape]:
            raise ParameterError(
                "margins must have one whole number for each cell of two or more axes of several cells"
            )
        if any(margin.min() < 0 or margin.max() > LARGEST_SUM // len(margin) for margin in self.margins):
            raise ParameterError("margins must be at least 0 and within 63 bits")
        if len({int(margin.sum()) for margin in self.margins}) > 1 or not self.margins[0].any():
            raise ParameterError("margins must have one sum above 0")
        check_overflow(self)

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """The two columns of each distance, in order."""
        left, right = np.triu_indices(len(self.domain), 1)
        return left, right

    @property
    def k(self) -> int:
        """Number of pairs."""
        return math.comb(len(self.domain), 2)

    @property
    def cells_added(self) -> int:
        """Number of counts, (1 + cells beyond the first of each column) squared."""
        return indicators(self.domain.shape) ** 2

    @property
    def bounds(self) -> RecordBounds:
        """Every distance moves by at most one row, or two when a record is replaced."""
        return RecordBounds.of(Norms.within(self.k, self.denominator))

    def sums(self, codes: Codes) -> Totals:
        """Return the counts of pairs of cells in some rows, which add up over rows."""
        totals = np.zeros(self.cells_added, np.int64)
        self.add_sums(totals, codes, adding=nullcontext())
        return totals

    def add_sums(self, totals: Totals, codes: Codes, *, adding: AbstractContextManager[object]) -> None:
        """Add the counts of some rows; see `AddingStatistic`."""
        add_pair_counts(totals, codes, self.domain.shape, adding=adding)

    def finish(self, sums: Totals) -> Totals:
        """Return the distances, (k,), in multiples of 1 / ``denominator``."""
        found = [
            np.add.reduceat(np.abs(counts * self.denominator - self._expected(j)).sum(axis=0), starts)
            for j, (counts, starts) in enumerate(pair_tables(sums, self.domain.shape))
        ]
        return np.concatenate(found, dtype=np.int64)

    def _expected(self, column: int) -> IntArray:
        """Return the expected tables of a column with all later ones, side by side, in whole multiples."""
        total = float(self.margins[column].sum())
        later = np.concatenate(self.margins[column + 1 :])
        return np.asarray(np.rint(np.outer(self.margins[column], later / total)), np.int64)
