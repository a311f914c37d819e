"""Marginals: how many rows fall in each cell of the tables of some columns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, Answers, AnyArray, Clique, Codes, Features, IntArray, Totals, frozen
from synthdp.codec import file_form
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.counting import add_tables, count_tables
from synthdp.queries.linear import LinearFamily
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.queries.product_sums import ProductSums
from synthdp.queries.protocol import Statistic


@file_form("Marginals", short="marginals")
@dataclass(frozen=True, slots=True, eq=False)
class Marginals(LinearFamily):
    """The contingency tables of several cliques of columns, one after the other, each flat in C order.

    One record lies in one cell of each table, so adding it changes c tables by one count: l1 = l2^2 = c.

    Parameters
    ----------
    domain
        The axes.
    cliques
        Positions of the columns of each table.
    """

    domain: Domain
    cliques: tuple[Clique, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "cliques", tuple(tuple(int(j) for j in clique) for clique in self.cliques))
        for clique in self.cliques:
            if not clique or len(set(clique)) < len(clique) or not all(0 <= j < len(self.domain) for j in clique):
                raise ParameterError(f"a clique ({clique}) must be different positions below {len(self.domain)}")
        if not self.cliques:
            raise ParameterError("a set of marginals needs at least one clique")
        if self.k >= LARGEST_WHOLE:
            raise ParameterError(f"the tables have {self.k} cells, more than can be numbered: use fewer columns")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each table."""
        return tuple(math.prod(self.domain.shape[j] for j in clique) for clique in self.cliques)

    @property
    def k(self) -> int:
        """Number of cells in all."""
        return sum(self.sizes)

    @property
    def cells_added(self) -> int:
        """Number of cells in all."""
        return self.k

    @property
    def bounds(self) -> RecordBounds:
        """One cell of each table changes by 1; a replaced record leaves one cell and enters another, if there is one."""
        c = len(self.cliques)
        return RecordBounds(Norms(c, c, 1), _moves(2 * sum(size > 1 for size in self.sizes)))

    @property
    def offsets(self) -> IntArray:
        """(c + 1,) where each table begins and ends."""
        return frozen(np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64))

    def cells(self, codes: Codes) -> IntArray:
        """Return each row's cell in every table, (n, c), counted through all tables."""
        flat = [self.domain.ravel(codes, clique) for clique in self.cliques]
        return np.column_stack(flat) + self.offsets[:-1]

    def features(self, codes: Codes) -> Features:
        """Return the indicator of each row's cells, (n, k)."""
        features = np.zeros((len(codes), self.k), np.int64)
        np.put_along_axis(features, self.cells(codes), 1, axis=1)
        return features

    def sums(self, codes: Codes) -> Totals:
        """Return the counts, (k,)."""
        return count_tables(codes, self.domain.shape, self.cliques)

    @property
    def counted(self) -> Marginals:
        """The tables themselves; see `counted_tables`."""
        return self

    def of_tables(self, counts: Totals) -> Totals:
        """Return the answers by the counts of `counted`: these."""
        return counts

    def add_sums(self, totals: Totals, codes: Codes, *, adding: AbstractContextManager[object]) -> None:
        """Add the counts of some rows to ``totals``, (k,); see `AddingStatistic`."""
        add_tables(totals, codes, self.domain.shape, self.cliques, adding=adding)

    def split(self, answers: AnyArray) -> list[AnyArray]:
        """Cut a vector of all answers into one flat table per clique."""
        return np.split(answers, self.offsets[1:-1])

    def sums_of(
        self,
        names: Sequence[str],
        answers: Answers,
        stddev: float,
        *,
        rows: tuple[float, float],  # noqa: ARG002
    ) -> ProductSums | None:
        """Return the table of some columns from the smallest table that has them all; see `TellsTables`."""
        if not set(names) <= set(self.domain.names):
            return None
        wanted = self.domain.index(*names)
        having = [i for i, clique in enumerate(self.cliques) if set(wanted) <= set(clique)]
        if not having:
            return None
        chosen = min(having, key=lambda i: self.sizes[i])
        clique = self.cliques[chosen]
        table = self.split(answers)[chosen].reshape([self.domain.shape[j] for j in clique])
        others = tuple(i for i, j in enumerate(clique) if j not in wanted)
        merged = math.prod(table.shape[i] for i in others)
        left = [j for j in clique if j in wanted]
        counts = table.sum(axis=others).transpose([left.index(j) for j in wanted])
        axes = [self.domain.axes[j] for j in wanted]
        return ProductSums.of_cells(axes, counts, np.full(counts.shape, merged * stddev**2))


def _moves(cells: int) -> Norms:
    """Return the norms of changes by one row in some cells."""
    return Norms(cells, cells, min(cells, 1))


def all_cliques(domain: Domain, order: int) -> tuple[Clique, ...]:
    """Return all sets of ``order`` columns."""
    return tuple(itertools.combinations(range(len(domain)), order))


def one_ways(domain: Domain) -> Marginals:
    """Return the table of every single column."""
    return Marginals(domain, all_cliques(domain, 1))


def marginals(domain: Domain, cliques: Iterable[Sequence[str]]) -> Marginals:
    """Return the tables of cliques given by column names."""
    return Marginals(domain, tuple(domain.index(*clique) for clique in cliques))


@runtime_checkable
class OfTables(Statistic, Protocol):
    """A statistic whose answers are a function of the counts of some tables: whoever holds rows knows how to count those."""

    @property
    def counted(self) -> Marginals:
        """The tables."""
        ...

    def of_tables(self, counts: Totals) -> Totals:
        """Return the (k,) answers by the counts of the tables."""
        ...


def counted_tables(statistic: Statistic) -> Marginals | None:
    """Return the tables of which a statistic is a function, as it says itself; ``None`` if it says nothing."""
    return statistic.counted if isinstance(statistic, OfTables) else None
