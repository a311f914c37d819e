"""Distances between a table's marginals and public expectations, by which a plan is screened."""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Codes, IntArray, Totals
from synthdp.checks import whole
from synthdp.errors import ParameterError
from synthdp.queries.marginals import Marginals
from synthdp.queries.norms import LARGEST_DENOMINATOR, LARGEST_EXPECTATION, Norms, RecordBounds, expectations
from synthdp.queries.protocol import check_overflow
from synthdp.queries.score import Score


@dataclass(frozen=True, slots=True, eq=False)
class MarginalDistances(Score):
    """For each clique the L1 distance, in rows, between its table and an expected one.

    By the triangle inequality a record changes each distance by at most 1 when added and 2 when replaced.  Not linear:
    the tables are summed over rows first, the distances taken at the end.

    Parameters
    ----------
    queries
        The tables.
    expected
        (queries.k,) expected counts as whole multiples of 1 / ``denominator``.
    denominator
        The whole number that stands for one row.
    """

    queries: Marginals
    expected: IntArray
    denominator: int

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "denominator", whole("denominator", self.denominator, least=1, most=LARGEST_DENOMINATOR)
        )
        most = LARGEST_EXPECTATION // max(self.queries.sizes)  # what a table's cells are off by adds up
        object.__setattr__(self, "expected", expectations("expected", self.expected, most=most))
        if self.expected.shape != (self.queries.k,):
            raise ParameterError("expected must have one whole number per cell")
        check_overflow(self)

    @property
    def k(self) -> int:
        """Number of distances."""
        return len(self.queries.cliques)

    @property
    def bounds(self) -> RecordBounds:
        """Every distance moves by at most one row, or two when a record is replaced."""
        return RecordBounds.of(Norms.within(self.k, self.denominator))

    def add_sums(self, totals: Totals, codes: Codes, *, adding: AbstractContextManager[object]) -> None:
        """Add the counts of some rows; see `AddingStatistic`."""
        self.queries.add_sums(totals, codes, adding=adding)

    @property
    def cells_added(self) -> int:
        """Number of the counts."""
        return self.queries.k

    def finish(self, sums: Totals) -> Totals:
        """Return the distances, (k,), in multiples of 1 / ``denominator``."""
        offsets = self.queries.offsets  # table by table: all cells together may be many times what one has
        parts = [slice(*ends) for ends in itertools.pairwise(offsets.tolist())]
        return np.array([np.abs(sums[part] * self.denominator - self.expected[part]).sum() for part in parts], np.int64)
