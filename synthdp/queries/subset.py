"""Some queries of a family, asked without the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Codes, Features, IntArray, Totals, frozen
from synthdp.codec import file_form
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.linear import LinearFamily
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.queries.protocol import LinearQueries


@file_form("Subset")
@dataclass(frozen=True, slots=True, eq=False)
class Subset(LinearFamily):
    """The queries of a family at some positions.

    Parameters
    ----------
    family
        All queries.
    positions
        (k,) which of them.
    """

    family: LinearQueries
    positions: IntArray

    def __post_init__(self) -> None:
        positions = np.atleast_1d(self.positions)
        known = positions.size and positions.dtype.kind in "iu"
        if not known or positions.min() < 0 or positions.max() >= self.family.k:
            raise ParameterError(f"positions must be one or more numbers below {self.family.k}")
        object.__setattr__(self, "positions", frozen(positions.astype(np.int64)))

    @property
    def domain(self) -> Domain:
        """The family's axes."""
        return self.family.domain

    @property
    def k(self) -> int:
        """Number of chosen queries."""
        return len(self.positions)

    @property
    def denominator(self) -> int:
        """The family's denominator."""
        return self.family.denominator

    @property
    def bounds(self) -> RecordBounds:
        """The family's bounds, or what its largest change allows in k queries, if that is less."""
        return RecordBounds(self._at_most(self.family.bounds.one), self._at_most(self.family.bounds.swap))

    def features(self, codes: Codes) -> Features:
        """Return the chosen features, (n, k)."""
        return self.family.features(codes)[:, self.positions]

    def sums(self, codes: Codes) -> Totals:
        """Return the chosen sums, (k,)."""
        return self.family.finish(self.family.sums(codes))[self.positions]

    def _at_most(self, norms: Norms) -> Norms:
        repeats = int(np.unique(self.positions, return_counts=True)[1].max())
        return Norms.within(self.k, norms.linf, l1=norms.l1 * repeats, l2_squared=norms.l2_squared * repeats)
