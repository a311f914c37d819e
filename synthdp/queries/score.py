"""What scores share: each is a function of the sums of linear queries, so that no matrix of rows by candidates exists."""

from __future__ import annotations

from synthdp.arrays import Codes, Totals
from synthdp.domain.domain import Domain
from synthdp.queries.protocol import LinearQueries


class Score:
    """A score per query, computed in ``finish`` from the sums of ``queries``, with ``denominator`` and ``bounds``."""

    __slots__ = ()

    queries: LinearQueries

    @property
    def domain(self) -> Domain:
        """The queries' axes."""
        return self.queries.domain

    @property
    def k(self) -> int:
        """Number of queries."""
        return self.queries.k

    def sums(self, codes: Codes) -> Totals:
        """Return the sums of the queries over some rows."""
        return self.queries.sums(codes)
