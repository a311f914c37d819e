"""How badly the tables released so far answer each query: the score by which boosting draws queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthdp.arrays import IntArray, Totals
from synthdp.checks import whole
from synthdp.errors import ParameterError
from synthdp.queries.norms import (
    LARGEST_DENOMINATOR,
    LARGEST_EXPECTATION,
    Norms,
    RecordBounds,
    expectations,
)
from synthdp.queries.protocol import LinearQueries, check_overflow
from synthdp.queries.score import Score


@dataclass(frozen=True, slots=True, eq=False)
class BoostingScores(Score):
    """The score -sum over rounds of clip(centre - |q(D) - e|, -h, h) of every query.

    A round counts +h where its table is accurate (error at most centre - h), -h where it is not (at least centre + h),
    and falls linearly between: the attenuated reweighting of Dwork, Rothblum, Vadhan 2010, section 4.2, in whole
    numbers.  One record moves each of the t terms by at most what it moves the query.

    Parameters
    ----------
    queries
        The k queries.
    expected
        (t, k) sums that each round's table predicts, in whole multiples of 1 / (``queries.denominator`` * ``resolution``).
    centre, halfwidth
        In the same multiples; clipped, as expectations are, where no sum of rows is near.
    resolution
        How much finer than a query's denominator the expectations are.
    """

    queries: LinearQueries
    expected: IntArray
    centre: int
    halfwidth: int
    resolution: int = 1

    def __post_init__(self) -> None:
        expected = expectations("expected", self.expected)
        if expected.ndim != 2 or expected.shape[1] != self.queries.k or not len(expected):
            raise ParameterError("expected must have a row per round and a whole number per query")
        object.__setattr__(self, "expected", expected)
        object.__setattr__(self, "resolution", whole("resolution", self.resolution, least=1, most=LARGEST_DENOMINATOR))
        most = LARGEST_EXPECTATION // len(expected)  # the scores of all rounds add up within 64 bits
        object.__setattr__(self, "centre", min(whole("centre", self.centre), most))
        object.__setattr__(self, "halfwidth", min(whole("halfwidth", self.halfwidth, least=1), most))
        check_overflow(self)

    @property
    def denominator(self) -> int:
        """The whole number that stands for 1 in a query's sum."""
        return self.queries.denominator * self.resolution

    @property
    def bounds(self) -> RecordBounds:
        """Every term moves by no more than the query."""
        bounds, factor = self.queries.bounds, self.resolution * len(self.expected)
        one, swap = (Norms.within(self.k, norms.linf * factor) for norms in (bounds.one, bounds.swap))
        return RecordBounds(one, swap)

    def finish(self, sums: Totals) -> Totals:
        """Return the scores, (k,)."""
        errors = np.abs(self.queries.finish(sums) * self.resolution - self.expected)
        return np.asarray(-np.clip(self.centre - errors, -self.halfwidth, self.halfwidth).sum(axis=0), np.int64)
