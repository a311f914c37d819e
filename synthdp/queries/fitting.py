"""Queries of the rows that fit the schema: a row with a value that does not fit counts in none of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from synthdp.arrays import BoolArray, Codes, Features, Totals
from synthdp.codec import file_form
from synthdp.domain.domain import Domain
from synthdp.domain.universe import domain_with_misfits
from synthdp.queries.linear import LinearFamily
from synthdp.queries.marginals import Marginals
from synthdp.queries.norms import RecordBounds
from synthdp.queries.protocol import LinearQueries
from synthdp.queries.subset import Subset


@file_form("FittingRows")
@dataclass(frozen=True, slots=True, eq=False)
class FittingRows(LinearFamily):
    """The queries of a family, of the rows alone whose values all fit the schema.

    Parameters
    ----------
    family
        The queries.  Its cells keep their numbers; where its domain joins misfits with other values, they get a cell of
        their own.

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
        """The family's bounds; to replace a row by a misfit is to remove it."""
        bounds = self.family.bounds
        return RecordBounds(bounds.one, bounds.swap.either(bounds.one))

    def features(self, codes: Codes) -> Features:
        """Return the family's features, (n, k), and 0 where a row does not fit."""
        fits = self._fits(codes)
        found = np.zeros((len(codes), self.k), np.int64)
        found[fits] = self.family.features(codes[fits])
        return found

    def sums(self, codes: Codes) -> Totals:
        """Return the sums over the rows that fit, (k,)."""
        return self.family.finish(self.family.sums(codes[self._fits(codes)]))

    def _fits(self, codes: Codes) -> BoolArray:
        fits = np.ones(len(codes), np.bool_)
        for j, axis in enumerate(self.domain.axes):
            fits &= axis.releasable[codes[:, j]]
        return fits


def counted_apart(queries: LinearQueries) -> LinearQueries:
    """Return queries that count no misfit where their domain joins misfits with other values, else the same queries.

    A row with a misfit still counts in the tables of its other columns.
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
