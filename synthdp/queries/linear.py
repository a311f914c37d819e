"""What families of statistics share, so that each states its record map and its norms and nothing else."""

from __future__ import annotations

import numpy as np

from synthdp.arrays import Codes, Totals
from synthdp.queries.protocol import CHUNK_CELLS, LinearQueries


class Counting:
    """A statistic that counts rows, unless it says which whole number stands for 1."""

    __slots__ = ()

    @property
    def denominator(self) -> int:
        """Rows are whole: 1."""
        return 1


class LinearFamily(Counting):
    """A family of linear queries that gives ``domain``, ``k``, ``bounds`` and ``features``.

    It gives a ``denominator`` too where its features are fractions, and ``sums`` where there is a faster way than by
    ``features``.
    """

    __slots__ = ()

    def sums(self: LinearQueries, codes: Codes) -> Totals:
        """Return the exact integer sums over some rows, (k,)."""
        return sum_features(self, codes)

    def finish(self, sums: Totals) -> Totals:
        """Return the sums unchanged."""
        return sums


def sum_features(queries: LinearQueries, codes: Codes) -> Totals:
    """Return the exact integer sum of features over rows, in chunks of bounded memory."""
    rows = max(1, CHUNK_CELLS // max(1, queries.k))
    total = np.zeros(queries.k, np.int64)
    for start in range(0, len(codes), rows):
        total += queries.features(codes[start : start + rows]).sum(axis=0, dtype=np.int64)
    return total
