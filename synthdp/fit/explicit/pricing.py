"""Pricing for column generation: grid points that would improve a linear program with dual vector y.

The queries are bases of product form on a grid that is never listed: each is a product of one table per column.
The score of a grid point g is (A'y)_g, where A holds the queries' values at all grid points.  A pricer searches a grid,
perhaps far too large to list, for points of high score.  It also returns an upper bound on all scores if it can prove
one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Protocol, TypeAlias

import numpy as np

from synthdp.arrays import BoolArray, Codes, FloatArray, IntArray, frozen
from synthdp.checks import check_whole
from synthdp.errors import ParameterError
from synthdp.randomness import Generator

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


_CHUNK = 1 << 21
"""Most scores in memory at once while a grid is enumerated: 16 MB.  A safety limit of memory."""

ROUNDING = 1e-12
"""Relative difference up to which two scores count as equal, since processors add terms in different orders.  A numerical
tolerance."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Priced:
    """Distinct grid points, the highest score first, and an upper bound on the scores of all grid points.

    Parameters
    ----------
    codes
        (c, d) codes of grid points.
    scores
        (c,) their scores (A'y)_g, descending.
    bound
        A proven upper bound on all scores; infinite if the search was heuristic.
    """

    codes: Codes
    scores: FloatArray
    bound: float


def exceeds(scores: FloatArray, threshold: float) -> BoolArray:
    """Return which scores, (c,), exceed a threshold by more than rounding: points that improve the linear program."""
    return scores > threshold + ROUNDING * np.maximum(1.0, np.abs(scores))


class Pricer(Protocol):
    """Searches a grid for points of high score."""

    def price(
        self, basis: ProductBasis, y: FloatArray, *, incumbents: Codes, threshold: float, count: int, rng: Generator
    ) -> Priced:
        """Return up to ``count`` grid points g of high score (A'y)_g, with a bound on all scores.

        Column generation adds these points to its linear program.

        Parameters
        ----------
        basis
            The k queries on the grid.
        y
            (k,) dual vector.
        incumbents
            (c, d) points that carry weight now, a good place to start from.
        threshold
            The score that a point must exceed to help, by more than rounding: see `exceeds`.
        count
            The most points to return.
        rng
            Randomness of a heuristic search.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Enumeration:
    """Scores every grid point: exact, for grids of at most ``max_points`` points.

    The columns are split in two halves.  The queries' products over each half form a (k, points) matrix, so that all
    scores are one matrix product, computed in chunks.
    """

    max_points: int = 2_000_000

    def price(
        self, basis: ProductBasis, y: FloatArray, *, incumbents: Codes, threshold: float, count: int, rng: Generator
    ) -> Priced:
        """Return the grid points of highest score, with the largest score as bound; see `Pricer.price`.

        Of all points that agree in the first half of the columns only the best is returned.
        """
        del incumbents, threshold, rng
        points = math.prod(basis.shape)
        if points > self.max_points:
            raise ParameterError(
                f"the grid has {points} points, more than max_points ({self.max_points}): raise max_points, or use fewer "
                "points"
            )
        cut = _balanced_cut(basis.shape)
        left = _half(basis, range(cut)) * y[:, None]
        right = _half(basis, range(cut, basis.d))
        best = np.empty(left.shape[1], dtype=np.int64)
        scores = np.empty(left.shape[1])
        step = max(1, _CHUNK // right.shape[1])
        for start in range(0, left.shape[1], step):
            block = left[:, start : start + step].T @ right
            best[start : start + step] = block.argmax(axis=1)
            scores[start : start + step] = block.max(axis=1)
        top = np.argsort(-scores, kind="stable")[:count]
        flat = top * right.shape[1] + best[top]
        codes = np.stack(np.unravel_index(flat, basis.shape), axis=1)
        return Priced(codes=codes, scores=scores[top], bound=float(scores[top[0]]))


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateAscent:
    """Improves one column at a time from many starts at once: a heuristic, for grids of any size.

    Half of the starts are points with weight in the linear program, with one column redrawn; the others are uniform.
    """

    restarts: int = 64
    max_sweeps: int = 30

    def __post_init__(self) -> None:
        check_whole("restarts", self.restarts)
        check_whole("max_sweeps", self.max_sweeps)

    def price(
        self, basis: ProductBasis, y: FloatArray, *, incumbents: Codes, threshold: float, count: int, rng: Generator
    ) -> Priced:
        """Return the points where the ascents ended, the highest score first; see `Pricer.price`.

        They are local maxima, which bound no other score: the bound is infinite.
        """
        del threshold
        codes = self._starts(basis, incumbents=incumbents, rng=rng)
        for _ in range(self.max_sweeps):
            before = codes.copy()
            for j in rng.permutation(basis.d):
                codes[:, j] = _line_scores(basis, y, codes, j=int(j)).argmax(axis=1)
            if (codes == before).all():
                break
        found = np.unique(codes, axis=0)
        scores = y @ basis.features(found)
        top = np.argsort(-scores, kind="stable")[:count]
        return Priced(codes=found[top], scores=scores[top], bound=math.inf)

    def _starts(self, basis: ProductBasis, *, incumbents: Codes, rng: Generator) -> IntArray:
        """Return (restarts, d) codes of start points: half are points with weight, one column redrawn; half uniform.

        The first are near points that earned a weight, the others find maxima far from all of these points.
        """
        starts = uniform_codes(basis.shape, self.restarts, rng=rng)
        known = min(self.restarts // 2, incumbents.shape[0])
        redrawn = rng.integers(basis.d, size=known)
        fresh = starts[np.arange(known), redrawn]
        starts[:known] = rng.permutation(incumbents, axis=0)[:known]
        starts[np.arange(known), redrawn] = fresh
        return starts


def uniform_codes(shape: tuple[int, ...], count: int, *, rng: Generator) -> IntArray:
    """Return (count, d) codes of grid points drawn uniformly, from which a search starts."""
    return np.stack([rng.integers(size, size=count) for size in shape], axis=1)


def _balanced_cut(shape: tuple[int, ...]) -> int:
    """Return how many columns the first half of a grid has, so that the larger half has as few points as possible.

    Tables of the queries are built for each half, and the larger one takes most memory.
    """
    sizes = [max(math.prod(shape[:cut]), math.prod(shape[cut:])) for cut in range(1, len(shape) + 1)]
    return 1 + int(np.argmin(sizes))


def _half(basis: ProductBasis, columns: range) -> FloatArray:
    """Return the (k, points) products of the queries' tables of ``columns`` at all their joint grid points, in C order.

    The scores of a grid are one matrix product of two such halves.
    """
    products = np.ones((basis.k, 1))
    for j in columns:
        products = (products[:, :, None] * basis.column_matrix(j)[:, None, :]).reshape(basis.k, -1)
    return products


def _line_scores(basis: ProductBasis, y: FloatArray, codes: IntArray, *, j: int) -> FloatArray:
    """Return the score of each of n points at every code of column ``j``, up to a constant of the point, (n, N_j).

    The points keep their other codes, (n, d).  Queries without the column add the constant, which is left out.
    Coordinate ascent sets the column to the code with the largest score.
    """
    rows, table = basis.tables[j]
    others = np.repeat(y[rows][:, None], codes.shape[0], axis=1)
    for column, shared, values in basis.shared[j]:
        others[shared] *= values[:, codes[:, column]]
    return others.T @ table
