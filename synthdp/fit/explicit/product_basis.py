"""Bases of product form on a grid that is never listed: each query is a product of one table per column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from synthdp.arrays import Codes, FloatArray, IntArray, frozen
from synthdp.errors import ParameterError

Term: TypeAlias = Mapping[int, FloatArray]
"""Column -> (N_j,) values at its grid points; columns that are absent count as 1."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ProductBasis:
    """k queries on a product grid; query i at a grid point g is the product over its columns j of ``terms[i][j][g_j]``.

    Parameters
    ----------
    axes
        d vectors: the (N_j,) grid values of each column.
    terms
        k mappings from a column to its (N_j,) table.

    Raises
    ------
    ParameterError
        If there is no axis or no term, an axis is empty, or a table does not fit its axis. Also if a term names a
        column that does not exist, or a value is not finite.
    """

    axes: tuple[FloatArray, ...]
    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        axes = tuple(frozen(np.array(axis, dtype=np.float64)) for axis in self.axes)
        if not axes or not self.terms:
            raise ParameterError("axes and terms must not be empty")
        for j, axis in enumerate(axes):
            if axis.ndim != 1 or axis.size == 0:
                raise ParameterError(f"axis {j} must be a vector of at least one grid value")
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "terms", tuple(self._checked(i, term) for i, term in enumerate(self.terms)))

    def _checked(self, i: int, term: Term) -> Term:
        """Return a term with float tables; raise ParameterError unless they fit the axes."""
        tables = {j: frozen(np.array(table, dtype=np.float64)) for j, table in sorted(term.items())}
        for j, table in tables.items():
            if not 0 <= j < self.d:
                raise ParameterError(f"term {i} names column {j}; there are columns 0 to {self.d - 1}")
            if table.shape != self.axes[j].shape:
                raise ParameterError(f"term {i}, column {j} must have shape {self.axes[j].shape}, not {table.shape}")
            if not np.isfinite(table).all():
                raise ParameterError(f"term {i}, column {j} must be finite")
        return MappingProxyType(tables)

    @property
    def d(self) -> int:
        """Return the number of columns."""
        return len(self.axes)

    @property
    def k(self) -> int:
        """Return the number of queries."""
        return len(self.terms)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of grid points of each column."""
        return tuple(axis.size for axis in self.axes)

    @property
    def order(self) -> int:
        """Return the largest number of columns in one query."""
        return max(len(term) for term in self.terms)

    @cached_property
    def tables(self) -> tuple[tuple[IntArray, FloatArray], ...]:
        """For each column, the positions of the queries that use it, (queries,), and their (queries, N_j) tables.

        So the features of points are computed column by column, without columns that a query does not use.
        """
        return tuple(self._tables_of(j) for j in range(self.d))

    @cached_property
    def shared(self) -> tuple[tuple[tuple[int, IntArray, FloatArray], ...], ...]:
        """For each column j, the columns that share a query with it, so that scores along j can be updated quickly.

        Each is (column, positions among the queries of j, that column's tables at these positions).
        """
        return tuple(self._partners_of(j) for j in range(self.d))

    def _partners_of(self, j: int) -> tuple[tuple[int, IntArray, FloatArray], ...]:
        """Return one entry of `shared`: the columns that share queries with column j."""
        rows, _ = self.tables[j]
        partners = []
        for column, (used_by, values) in enumerate(self.tables):
            _, here, there = np.intersect1d(rows, used_by, assume_unique=True, return_indices=True)
            if column != j and here.size:
                partners.append((column, here, values[there]))
        return tuple(partners)

    def _tables_of(self, j: int) -> tuple[IntArray, FloatArray]:
        """Return one entry of `tables`: the queries that use column j, and their tables of it."""
        rows = np.array([i for i, term in enumerate(self.terms) if j in term], dtype=np.int64)
        tables = [self.terms[i][j] for i in rows]
        return frozen(rows), frozen(np.array(tables).reshape(rows.size, self.shape[j]))

    def features(self, codes: Codes) -> FloatArray:
        """Return the (k, n) features of n grid points given as (n, d) codes."""
        values = np.ones((self.k, codes.shape[0]))
        for j, (rows, table) in enumerate(self.tables):
            values[rows] *= table[:, codes[:, j]]
        return values

    def column_matrix(self, j: int) -> FloatArray:
        """Return the (k, N_j) tables of column ``j``, a row per query, which products over columns multiply.

        A row is all ones where its query does not use the column.
        """
        matrix = np.ones((self.k, self.shape[j]))
        rows, table = self.tables[j]
        matrix[rows] = table
        return matrix
