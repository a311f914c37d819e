"""Statistics of record keys for the curator: sparse queries' totals, distances from guesses, and the row count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from synthdp.arrays import IntArray, Totals
from synthdp.errors import ParameterError
from synthdp.queries.linear import Counting
from synthdp.queries.norms import Norms, RecordBounds, expectations
from synthdp.queries.supports import DENOMINATOR, SparseQuery


@dataclass(frozen=True, slots=True, eq=False)
class SparseCounts:
    """The totals of several sparse queries as one statistic; make one by `of`.

    Parameters
    ----------
    columns
        Columns whose values make up the key.
    keys
        Every key on which some query is not zero, once.
    values
        (k, m) sparse matrix of the queries' values on these keys, in 1024ths.
    bounds
        The exact sensitivity. Supports are public, so the largest contribution of one key can be computed.
    """

    columns: tuple[str, ...]
    keys: tuple[str, ...]
    values: csr_array
    bounds: RecordBounds

    @classmethod
    def of(cls, queries: Sequence[SparseQuery]) -> SparseCounts:
        """Return the statistic of some queries' totals; no row is read.

        The statistic holds the queries' values on every key where any is not zero, as one sparse matrix, and the exact
        sensitivity.

        Raises
        ------
        ParameterError
            If there is no query, or the queries are about different columns.
        """
        columns = common_columns(queries)
        place: dict[str, int] = {}
        supports = [query.support() for query in queries]
        where = [np.array([place.setdefault(key, len(place)) for key in s.keys], np.int64) for s in supports]
        ends = np.concatenate([[0], np.cumsum([len(part) for part in where])])
        values = csr_array(
            (np.concatenate([support.values for support in supports]), np.concatenate(where), ends),
            shape=(len(queries), len(place)),
        )
        return cls(columns, tuple(place), values, _exact_bounds(values))

    @property
    def k(self) -> int:
        """Return the number of queries."""
        return int(self.values.shape[0])

    @property
    def denominator(self) -> int:
        """Return 1024: totals are whole numbers of 1024ths, as queries' values are."""
        return DENOMINATOR

    def key_totals(self, counts: Mapping[str, int]) -> Totals:
        """Return each query's total, (k,), in 1024ths of a row, from the count of each key."""
        occurring = np.fromiter((counts.get(key, 0) for key in self.keys), np.int64, len(self.keys))
        return np.asarray(self.values @ occurring, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Deviations:
    """The absolute distances of sparse queries' totals from guesses, as scores for selecting the worst guess.

    Parameters
    ----------
    queries
        The k queries.
    guesses
        (k,) guessed totals, in 1024ths.
    """

    queries: SparseCounts
    guesses: IntArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "guesses", expectations("guesses", self.guesses))
        if self.guesses.shape != (self.queries.k,):
            raise ParameterError("guesses must hold one whole number per query")

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns whose values make up the key."""
        return self.queries.columns

    @property
    def k(self) -> int:
        """Return the number of queries."""
        return self.queries.k

    @property
    def denominator(self) -> int:
        """Return 1024: distances are whole numbers of 1024ths of a row."""
        return DENOMINATOR

    @property
    def bounds(self) -> RecordBounds:
        """Return the sensitivity of the queries: |q - guess| moves no more than q."""
        return self.queries.bounds

    def key_totals(self, counts: Mapping[str, int]) -> Totals:
        """Return each query's |total - guess|, (k,), in 1024ths of a row, from the count of each key."""
        return np.asarray(np.abs(self.queries.key_totals(counts) - self.guesses), np.int64)


@dataclass(frozen=True, slots=True)
class KeyTotal(Counting):
    """The number of rows, whatever their keys.

    Parameters
    ----------
    columns
        Columns whose values make up the key.
    """

    columns: tuple[str, ...]

    @property
    def k(self) -> int:
        """Return the number of answers, 1."""
        return 1

    @property
    def bounds(self) -> RecordBounds:
        """Return norms of 1 for an added and for a replaced row.

        A replaced row changes nothing; the norm is stated as 1, since noise needs a positive scale.
        """
        return RecordBounds(Norms(1, 1, 1), Norms(1, 1, 1))

    def key_totals(self, counts: Mapping[str, int]) -> Totals:
        """Return the number of rows, (1,), as the sum of all keys' counts."""
        return np.array([sum(counts.values())], np.int64)


def common_columns(queries: Sequence[SparseQuery]) -> tuple[str, ...]:
    """Return the columns that all queries are about.

    Raises
    ------
    ParameterError
        If there is no query, or the queries' columns differ.
    """
    if not queries:
        raise ParameterError("queries must hold at least one sparse query")
    columns = queries[0].columns
    if any(query.columns != columns for query in queries):
        raise ParameterError("all sparse queries must have the same columns, in the same order")
    return columns


def _exact_bounds(values: csr_array) -> RecordBounds:
    """Return the sensitivity of the queries' totals, for an added and for a replaced row, in 1024ths.

    They are the largest norms of one key's values over all queries, and of the difference of two keys' values. All
    values are at least 0. So a difference has linf at most the larger linf.  Its l1 is at most the sum of both, and its
    l2^2 at most the sum of both squares. None exceeds what k coordinates of size linf can make.
    """
    k, linf = int(values.shape[0]), int(values.max()) if values.nnz else 0
    # Values are at most 1024: 64 bits hold the squares of 2^40 queries.
    l1, squares = _largest_two(values.sum(axis=0)), _largest_two(values.multiply(values).sum(axis=0))
    one, swap = (Norms.within(k, linf, l1=sum(l1[:i]), l2_squared=sum(squares[:i])) for i in (1, 2))
    return RecordBounds(one, swap)


def _largest_two(sums: IntArray) -> list[int]:
    """Return the largest two of the keys' sums of values, the largest first, or the only one, to bound sensitivities.

    An added record has one key, and a replaced record two.
    """
    return [int(value) for value in np.sort(np.asarray(sums, np.int64).ravel())[::-1][:2]]
