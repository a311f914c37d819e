"""How badly the tables released so far answer each query: the score by which boosting draws queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Codes, IntArray, Totals, frozen
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.protocol import LinearQueries, Norms, RecordBounds


@dataclass(frozen=True, slots=True, eq=False)
class BoostingScores:
    """The score -sum over rounds of clip(centre - |q(D) - e|, -h, h) of every query.

    A round counts +h where its table is accurate (error at most centre - h), -h where it is not (at least centre + h),
    and falls linearly between: the attenuated reweighting of Dwork, Rothblum, Vadhan 2010, section 4.2, in whole
    numbers.  One record moves each of the t terms by at most what it moves the query.

    Parameters
    ----------
    queries
        The k queries.
    expected
        (t, k) sums that each round's table predicts, in whole multiples of 1 / (``queries.unit`` * ``resolution``).
    centre, halfwidth
        In the same multiples.
    resolution
        How much finer than a query's unit the expectations are.
    """

    queries: LinearQueries
    expected: IntArray
    centre: int
    halfwidth: int
    resolution: int = 1

    def __post_init__(self) -> None:
        expected = np.array(self.expected, np.int64)
        if expected.ndim != 2 or expected.shape[1] != self.queries.k or not len(expected):
            raise ParameterError("expected must have a row per round and a whole number per query")
        if self.halfwidth < 1 or self.resolution < 1:
            raise ParameterError("halfwidth and resolution must be at least 1")
        object.__setattr__(self, "expected", frozen(expected))

    @property
    def domain(self) -> Domain:
        """The queries' axes."""
        return self.queries.domain

    @property
    def k(self) -> int:
        """Number of queries."""
        return self.queries.k

    @property
    def unit(self) -> int:
        """The whole number that stands for 1 in a query's sum."""
        return self.queries.unit * self.resolution

    @property
    def bounds(self) -> RecordBounds:
        """Every term moves by no more than the query."""
        return RecordBounds(self._scores(self.queries.bounds.one), self._scores(self.queries.bounds.swap))

    def sums(self, codes: Codes) -> Totals:
        """Return the sums of the queries."""
        return self.queries.sums(codes)

    def finish(self, sums: Totals) -> Totals:
        """Return the scores, (k,)."""
        errors = np.abs(self.queries.finish(sums) * self.resolution - self.expected)
        return np.asarray(-np.clip(self.centre - errors, -self.halfwidth, self.halfwidth).sum(axis=0), np.int64)

    def _scores(self, norms: Norms) -> Norms:
        linf = norms.linf * self.resolution * len(self.expected)
        return Norms(self.k * linf, self.k * linf * linf, linf)
