"""Query families made of other families: several one after the other, some queries of one, or one on in-domain rows only."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from synthdp.arrays import BoolArray, Codes, Features, IntArray, Totals, frozen
from synthdp.codec import file_form
from synthdp.domain.domain import Domain, domain_with_misfits
from synthdp.errors import ParameterError
from synthdp.queries.linear import LinearFamily
from synthdp.queries.marginals import Marginals
from synthdp.queries.norms import Norms, RecordBounds
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
            raise ParameterError("parts must hold at least one set of queries, and all parts must have the same domain")
        if any(self.denominator % part.denominator for part in self.parts):
            raise ParameterError("the denominator of each of parts must divide the largest of these denominators")
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
        """The whole number that stands for 1 in an answer, for exact sums: the largest of the parts' denominators."""
        return max(part.denominator for part in self.parts)

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity: the parts' bounds added, each scaled to the common denominator."""
        scaled = (part.bounds.times(self.denominator // part.denominator) for part in self.parts)
        return reduce(RecordBounds.plus, scaled)

    def features(self, codes: Codes) -> Features:
        """Return the parts' features of each row side by side, (n, k), scaled to the common denominator."""
        return np.hstack([part.features(codes) * (self.denominator // part.denominator) for part in self.parts])

    def sums(self, codes: Codes) -> Totals:
        """Return the parts' sums over some rows, one after the other, (k,), scaled to the common denominator."""
        return np.concatenate(
            [part.finish(part.sums(codes)) * (self.denominator // part.denominator) for part in self.parts]
        )


@file_form("Subset")
@dataclass(frozen=True, slots=True, eq=False)
class Subset(LinearFamily):
    """The queries of a family at some positions.

    Parameters
    ----------
    family
        All queries.
    positions
        (k,) positions of the chosen queries in ``family``.
    """

    family: LinearQueries
    positions: IntArray

    def __post_init__(self) -> None:
        positions = np.atleast_1d(self.positions)
        known = positions.size and positions.dtype.kind in "iu"
        if not known or positions.min() < 0 or positions.max() >= self.family.k:
            raise ParameterError(f"positions must be one or more whole numbers from 0 to {self.family.k - 1}")
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
        """The sensitivity: the family's bounds, or what its largest change allows in k queries, if that is less."""
        return RecordBounds(self._at_most(self.family.bounds.one), self._at_most(self.family.bounds.swap))

    def features(self, codes: Codes) -> Features:
        """Return the features of each row under the chosen queries, (n, k)."""
        return self.family.features(codes)[:, self.positions]

    def sums(self, codes: Codes) -> Totals:
        """Return the sums of the chosen queries over some rows, (k,)."""
        return self.family.finish(self.family.sums(codes))[self.positions]

    def _at_most(self, norms: Norms) -> Norms:
        """Return bounds on how far a record moves the chosen queries, from the bounds ``norms`` for all queries.

        A query may be chosen several times.
        """
        repeats = int(np.unique(self.positions, return_counts=True)[1].max())
        return Norms.within(self.k, norms.linf, l1=norms.l1 * repeats, l2_squared=norms.l2_squared * repeats)


@file_form("FittingRows")
@dataclass(frozen=True, slots=True, eq=False)
class FittingRows(LinearFamily):
    """The queries of a family, of the rows alone whose values all fit the schema.

    Parameters
    ----------
    family
        The queries.  Cells of the family's axes keep their numbers; where an axis joins misfits with other values, misfits
        get a cell of their own.

    Attributes
    ----------
    domain
        The family's axes with misfits apart.
    """

    family: LinearQueries
    domain: Domain = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain", domain_with_misfits(self.family.domain))

    @property
    def k(self) -> int:
        """Number of queries."""
        return self.family.k

    @property
    def denominator(self) -> int:
        """The family's denominator."""
        return self.family.denominator

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity: the family's bounds; replacing a row by one that does not fit is like removing it."""
        bounds = self.family.bounds
        return RecordBounds(bounds.one, bounds.swap.either(bounds.one))

    def features(self, codes: Codes) -> Features:
        """Return the family's features, (n, k), and 0 where a row does not fit."""
        fits = self._fits(codes)
        found = np.zeros((len(codes), self.k), np.int64)
        found[fits] = self.family.features(codes[fits])
        return found

    def sums(self, codes: Codes) -> Totals:
        """Return the family's sums, (k,), over the given rows whose values all fit the schema."""
        return self.family.finish(self.family.sums(codes[self._fits(codes)]))

    def _fits(self, codes: Codes) -> BoolArray:
        """Return a (rows,) mask of rows that are in domain in every column."""
        fits = np.ones(len(codes), np.bool_)
        for j, axis in enumerate(self.domain.axes):
            fits &= axis.releasable[codes[:, j]]
        return fits


def counted_apart(queries: LinearQueries) -> LinearQueries:
    """Return queries that do not count values outside of the domain together with others; the same if they never did.

    Of `Marginals` a row with such a value still counts in the tables of its other columns; to other queries it adds 0.
    """
    domain = domain_with_misfits(queries.domain)
    if domain is queries.domain:
        return queries
    if not isinstance(queries, Marginals):
        return FittingRows(queries)
    tables = Marginals(domain, queries.cliques)
    cells = [
        np.ravel_multi_index(
            np.ix_(*(np.arange(queries.domain.shape[j]) for j in clique)), [domain.shape[j] for j in clique]
        )
        for clique in queries.cliques
    ]
    return Subset(tables, np.concatenate([c.ravel() + first for c, first in zip(cells, tables.offsets, strict=False)]))
