"""How far each query of a table is from a public expectation, by which a mechanism finds the worst one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthdp.arrays import IntArray, Totals
from synthdp.checks import whole
from synthdp.errors import ParameterError
from synthdp.queries.norms import LARGEST_DENOMINATOR, RecordBounds, expectations
from synthdp.queries.protocol import LinearQueries, check_overflow
from synthdp.queries.score import Score


@dataclass(frozen=True, slots=True, eq=False)
class QueryDistances(Score):
    """The distances |q(D) - e| of k linear queries from k expected sums.

    By the triangle inequality each moves by no more than its query.

    Parameters
    ----------
    queries
        The k queries.
    expected
        (k,) expected sums as whole multiples of 1 / (``queries.denominator`` * ``resolution``).
    resolution
        How much finer than a query's denominator the expectations are.
    """

    queries: LinearQueries
    expected: IntArray
    resolution: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "resolution", whole("resolution", self.resolution, least=1, most=LARGEST_DENOMINATOR))
        object.__setattr__(self, "expected", expectations("expected", self.expected))
        if self.expected.shape != (self.queries.k,):
            raise ParameterError("expected must have one whole number per query")
        check_overflow(self)

    @property
    def denominator(self) -> int:
        """The whole number that stands for 1."""
        return self.queries.denominator * self.resolution

    @property
    def bounds(self) -> RecordBounds:
        """Those of the queries, in the finer denominator."""
        return self.queries.bounds.times(self.resolution)

    def finish(self, sums: Totals) -> Totals:
        """Return the distances, (k,)."""
        return np.asarray(np.abs(self.queries.finish(sums) * self.resolution - self.expected), np.int64)
