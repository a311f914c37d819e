"""How badly the tables released so far answer each query: the score by which boosting draws queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Codes, IntArray, Totals
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.norms import (
    LARGEST_EXPECTATION,
    LARGEST_SUM,
    LARGEST_UNIT,
    Norms,
    RecordBounds,
    expectations,
    whole,
)
from synthdp.queries.protocol import LinearQueries, check_overflow


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
        expected = expectations("expected", self.expected)
        if expected.ndim != 2 or expected.shape[1] != self.queries.k or not len(expected):
            raise ParameterError("expected must have a row per round and a whole number per query")
        object.__setattr__(self, "expected", expected)
        for name in ("halfwidth", "resolution"):
            object.__setattr__(self, name, whole(name, getattr(self, name), least=1, most=LARGEST_UNIT))
        centre = whole("centre", self.centre)
        object.__setattr__(self, "centre", min(centre, LARGEST_EXPECTATION))
        if self.halfwidth * len(expected) >= LARGEST_SUM:
            raise ParameterError(f"halfwidth ({self.halfwidth}) must be less: the scores do not fit in 64 bits")
        check_overflow(self)

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
        bounds, factor = self.queries.bounds, self.resolution * len(self.expected)
        one, swap = (Norms.within(self.k, norms.linf * factor) for norms in (bounds.one, bounds.swap))
        return RecordBounds(one, swap)

    def sums(self, codes: Codes) -> Totals:
        """Return the sums of the queries."""
        return self.queries.sums(codes)

    def finish(self, sums: Totals) -> Totals:
        """Return the scores, (k,)."""
        errors = np.abs(self.queries.finish(sums) * self.resolution - self.expected)
        return np.asarray(-np.clip(self.centre - errors, -self.halfwidth, self.halfwidth).sum(axis=0), np.int64)
