"""Several families of queries over one domain, asked together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from synthdp.arrays import Codes, Features, Totals
from synthdp.codec import file_form
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.linear import LinearFamily
from synthdp.queries.norms import RecordBounds
from synthdp.queries.protocol import LinearQueries, check_overflow


@file_form("Stack")
@dataclass(frozen=True, slots=True, eq=False)
class Stack(LinearFamily):
    """The answers of several families, one after the other.

    Parameters
    ----------
    parts
        Families over the same domain; all are brought to the largest denominator, which must be a multiple of each.
    """

    parts: tuple[LinearQueries, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts or any(part.domain is not self.parts[0].domain for part in self.parts):
            raise ParameterError("a stack needs one or more families over the same domain")
        if any(self.denominator % part.denominator for part in self.parts):
            raise ParameterError("the largest denominator of a stack must be a multiple of every other")
        check_overflow(self)

    @property
    def domain(self) -> Domain:
        """The common axes."""
        return self.parts[0].domain

    @property
    def k(self) -> int:
        """Number of queries in all."""
        return sum(part.k for part in self.parts)

    @property
    def denominator(self) -> int:
        """The largest denominator."""
        return max(part.denominator for part in self.parts)

    @property
    def bounds(self) -> RecordBounds:
        """The parts' bounds added, each brought to the common denominator."""
        scaled = (part.bounds.times(self.denominator // part.denominator) for part in self.parts)
        return reduce(RecordBounds.plus, scaled)

    def features(self, codes: Codes) -> Features:
        """Return the parts' features side by side, (n, k)."""
        return np.hstack([part.features(codes) * (self.denominator // part.denominator) for part in self.parts])

    def sums(self, codes: Codes) -> Totals:
        """Return the parts' sums one after the other."""
        return np.concatenate(
            [part.finish(part.sums(codes)) * (self.denominator // part.denominator) for part in self.parts]
        )
