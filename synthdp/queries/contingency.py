"""Contingency tables over a few columns: cell numbers, counts, noisy counts, the simplex.

The nouns that queries, distributions and fits share.  A table is flat in C order over its clique's columns.  Knows
no model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, AnyArray, Clique, Codes, FloatArray, IntArray, Table, frozen
from synthdp.checks import check_number
from synthdp.errors import ParameterError

Shape: TypeAlias = tuple[int, ...]
"""The number of codes of each column."""

LEAST_STDDEV = 1e-9
"""Least standard deviation given to a table, in rows.  A numerical tolerance: the noise of a huge budget may round to
0, and fits divide by it.
"""

_NORMALISED = 1e-12
"""Weights whose sum is this close to 1 are not divided by it, so that a saved model is read back unchanged.  A
tolerance.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyTable:
    """A noisy table of some columns: estimated counts, or the estimate of their interaction without margins.

    The noise is independent with one scale in every cell; for an interaction it is centred, as the counts are.

    Parameters
    ----------
    clique
        The table's columns, strictly increasing.
    counts
        (cells,) estimated counts in rows, flat in C order; any sign.
    stddev
        Standard deviation of the noise of one cell, in rows, > 0.
    groups
        For a table of merged codes: for each column of the clique the group of every code, (codes,) each, numbered from
        0.  The cells then belong to groups.  ``None`` if no codes are merged.
    alone
        Whether only the interaction was measured: the counts are then centred along every axis (over the cells that a
        released row may have, 0 in others), and do not contain margins.

    Raises
    ------
    ParameterError
        If the clique is not strictly increasing, the counts are not finite, or ``stddev`` is not positive and finite.
    """

    clique: Clique
    counts: Table
    stddev: float
    groups: tuple[IntArray, ...] | None = None
    alone: bool = False

    def __post_init__(self) -> None:
        check_clique(self.clique)
        counts = np.array(self.counts, dtype=np.float64)
        if counts.ndim != 1 or not np.isfinite(counts).all():
            raise ParameterError(f"counts of clique {self.clique} must be a one-dimensional array of finite numbers")
        check_number("stddev", self.stddev, above=0)
        object.__setattr__(self, "counts", frozen(counts))
        object.__setattr__(self, "stddev", float(self.stddev))

    @property
    def parts(self) -> Iterable[Clique]:
        """The sets of columns whose main effect or interaction the table measures, for fits.

        They are all non-empty subsets of the clique; only the clique if ``alone`` is true.
        """
        return (self.clique,) if self.alone else subsets_of(self.clique)

    @property
    def merged_cells(self) -> IntArray | None:
        """(cells without merging,) the cell of this table that holds each cell of the table of all codes.

        A model sums its cells by it to predict ``counts``.  ``None`` if no codes are merged.
        """
        return None if self.groups is None else merged_cells(self.groups)

    def shape(self, shape: Sequence[int]) -> Shape:
        """Return the sizes of the table's axes, given the number of codes of every column of the domain."""
        if self.groups is None:
            return table_shape(shape, self.clique)
        return tuple(int(groups.max()) + 1 for groups in self.groups)


@runtime_checkable
class TellsNoisyTables(Protocol):
    """Queries whose answers are contingency tables or interactions, so that a fit can use them as such."""

    def noisy_tables(self, answers: FloatArray, stddev: float) -> list[NoisyTable]:
        """Return (k,) noisy answers as tables in rows over the queries' domain, for fits; columns in increasing order.

        ``stddev`` is the noise standard deviation of each answer, in the unit of the answers.
        """
        ...


def ordered(clique: Clique, counts: AnyArray, shape: Sequence[int]) -> FloatArray:
    """Return a table whose axes are a clique's columns, transposed to increasing column order, as (cells,) flat counts.

    `NoisyTable` takes no other order; ``shape`` has the sizes of the axes as given.
    """
    return np.asarray(counts.reshape(shape).transpose(np.argsort(clique, kind="stable")), np.float64).ravel()


def merged_cells(groups: Sequence[IntArray]) -> IntArray:
    """Return, for each cell of a table, (cells,), its cell after codes are merged into groups; both flat in C order.

    Counts of the merged table are sums of counts by the result.

    Parameters
    ----------
    groups
        For each column the group of every code, (codes,) each.
    """
    cells = np.zeros(1, np.int64)
    for of_code in groups:
        cells = np.add.outer(cells * (int(of_code.max()) + 1), of_code).ravel()
    return cells


def normalised(weights: FloatArray) -> FloatArray:
    """Return weights divided by their positive sum, same shape; unchanged if the sum is 1 except for rounding."""
    total = weights.sum()
    return weights if abs(total - 1) < _NORMALISED else np.asarray(weights / total, np.float64)


def subsets_of(clique: Clique) -> Iterable[Clique]:
    """Yield the non-empty subsets of a clique, the smallest first: the effects that make up its table."""
    for size in range(1, len(clique) + 1):
        yield from combinations(clique, size)


def check_clique(clique: Clique, shape: Sequence[int] | None = None) -> None:
    """Raise ParameterError unless ``clique`` is strictly increasing and, given ``shape``, inside it."""
    if any(a >= b for a, b in pairwise(clique)) or (clique and clique[0] < 0):
        raise ParameterError(f"clique ({clique}) must hold strictly increasing column indices")
    if shape is not None and clique and clique[-1] >= len(shape):
        raise ParameterError(f"clique ({clique}) must hold column indices from 0 to {len(shape) - 1}")


def checked_cliques(cliques: Iterable[Iterable[int]], columns: int) -> tuple[Clique, ...]:
    """Return sets of column positions as tuples of integers; raise ParameterError for a set that is none.

    A set must hold at least one position, none twice, and all from 0 to below ``columns``.
    """
    found = tuple(tuple(map(int, clique)) for clique in cliques)
    for clique in found:
        if not clique or len(set(clique)) < len(clique) or min(clique) < 0 or max(clique) >= columns:
            raise ParameterError(
                f"clique ({clique}) must hold one or more different column positions from 0 to {columns - 1}"
            )
    return found


def check_shape(shape: Sequence[int]) -> Shape:
    """Return ``shape`` as a tuple of positive integers, or raise ParameterError."""
    sizes = tuple(int(k) for k in shape)
    if any(k < 1 for k in sizes):
        raise ParameterError(f"shape ({sizes}) must be at least 1 for every column")
    return sizes


def check_tables(tables: Iterable[NoisyTable], shape: Sequence[int]) -> None:
    """Raise ParameterError unless every table's clique and length agree with ``shape``."""
    for table in tables:
        check_clique(table.clique, shape)
        cells = math.prod(table.shape(shape))
        if table.groups is not None and tuple(map(len, table.groups)) != table_shape(shape, table.clique):
            raise ParameterError(
                f"groups of clique {table.clique} must hold one array per column, with a group for every code of "
                "the column"
            )
        if table.counts.size != cells:
            raise ParameterError(
                f"counts of clique {table.clique} (length {table.counts.size}) must have length {cells}"
            )


def table_size(shape: Sequence[int], clique: Iterable[int]) -> int:
    """Return the number of cells in the table of ``clique``, exactly; 1 for the empty clique."""
    return math.prod(int(shape[j]) for j in clique)


def table_shape(shape: Sequence[int], clique: Iterable[int]) -> Shape:
    """Return the sizes of the axes of the table of ``clique``."""
    return tuple(int(shape[j]) for j in clique)


def cell_index(codes: Codes, shape: Sequence[int], clique: Clique) -> AnyArray:
    """Return the flat cell, in C order, of every row in the table of ``clique``.

    Parameters
    ----------
    codes
        (n, d) codes, any integer type; Fortran order is fastest.
    shape
        Number of codes of each column.
    clique
        Columns of the table.

    Returns
    -------
    (n,) flat C-order cells, in the smallest integer type (unsigned up to 32 bits, else int64) that holds
    the table's size.

    Raises
    ------
    ParameterError
        If the table has more than 2**62 cells.
    """
    size = table_size(shape, clique)
    if size > LARGEST_WHOLE:
        raise ParameterError(f"clique ({clique}) has more than 2**62 cells: name fewer columns")
    dtype = np.min_scalar_type(size) if size < 2**32 else np.dtype(np.int64)
    index = np.zeros(len(codes), dtype)
    for j in clique:
        index *= dtype.type(shape[j])
        np.add(index, codes[:, j], out=index, casting="unsafe")
    return index


def contingency(codes: Codes, shape: Sequence[int], clique: Clique, weights: FloatArray | None = None) -> Table:
    """Count the rows (or sum their ``weights`` (n,)) in every cell of ``clique``; (cells,) float64."""
    index = cell_index(codes, shape, clique)
    counts = np.bincount(index, weights=weights, minlength=table_size(shape, clique))
    return counts.astype(np.float64, copy=False)


def project_to_simplex(values: FloatArray, total: float) -> FloatArray:
    """Return the nearest non-negative vector to ``values`` (k,) with sum ``total``, in Euclidean distance.

    A ``total`` of at most 0 gives zeros.  Held, Wolfe and Crowder (1974): one threshold, found by sorting.
    """
    if total <= 0:
        return np.zeros(len(values))
    descending = np.sort(values)[::-1]
    thresholds = (np.cumsum(descending) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(descending > thresholds)[-1]
    projected: FloatArray = np.maximum(values - thresholds[last], 0.0)
    return projected


def rounded_to_sum(estimates: FloatArray, total: int) -> IntArray:
    """Return integers, (k,), nearest to estimates that add up to ``total``, by the largest remainder method."""
    found = np.floor(estimates).astype(np.int64)
    found[np.argsort(found - estimates, kind="stable")[: total - int(found.sum())]] += 1
    return np.asarray(found)
