"""Marginals: how many rows fall in each cell of the contingency tables of some columns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.sparse import csr_array

from synthdp.arrays import (
    LARGEST_WHOLE,
    Answers,
    AnyArray,
    Clique,
    Codes,
    Features,
    FloatArray,
    IntArray,
    Totals,
    frozen,
)
from synthdp.codec import file_form
from synthdp.domain.domain import Domain, domain_with_misfits
from synthdp.errors import ParameterError
from synthdp.queries.contingency import LEAST_STDDEV, NoisyTable, checked_cliques, ordered, table_shape
from synthdp.queries.linear import FittingRows, LinearFamily, Subset
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.queries.products import ProductSums
from synthdp.queries.protocol import LinearQueries, Statistic

MOST_CELLS = 65_536
"""Most cells of a table from which several smaller ones are summed: 2^16, so that a cell's number takes two bytes.  A
safety limit of memory."""

FEW_TABLES = 2
"""Up to this many tables are summed from a larger one one by one; more are summed together by matrix products.  A safety
limit of time: the counts are the same."""

SLAB = 1 << 20
"""Rows counted at a time, so that packed columns of all of them are never in memory.  A safety limit of memory."""


def count_tables(codes: Codes, shape: Sequence[int], cliques: Sequence[Clique]) -> Totals:
    """Return how many rows fall in each cell of the tables of some cliques, one flat table after the other.

    Several columns are packed into one number, as many as fit one byte.  One pass over two such numbers counts the
    joint table of their columns; the tables of pairs between them are sums of it.  With few rows, where a joint table
    costs more than the rows, fewer columns are packed.  Packing does not change the counts.

    Parameters
    ----------
    codes
        (n, d) cell codes; column-major is fastest.
    shape
        Numbers of cells of the d columns.
    cliques
        Different columns of each table, in the order of its axes.

    Returns
    -------
    (total cells,) counts.
    """
    totals = np.zeros(sum(math.prod(shape[j] for j in clique) for clique in cliques), np.int64)
    add_tables(totals, codes, shape, cliques, adding=nullcontext())
    return totals


def add_tables(
    totals: Totals,
    codes: Codes,
    shape: Sequence[int],
    cliques: Sequence[Clique],
    *,
    adding: AbstractContextManager[object],
) -> None:
    """Add the counts that `count_tables` returns to ``totals`` in place, so that no second array of all cells is made.

    Parameters
    ----------
    totals
        (total cells,) counts so far.
    codes, shape
        (n, d) cell codes, and the numbers of cells of the d columns.
    cliques
        Different columns of each table, in the order of its axes.
    adding
        Held while a table is added: a lock where several threads add to the same counts.
    """
    ends = np.cumsum([0, *(math.prod(shape[j] for j in clique) for clique in cliques)])
    for start in range(0, len(codes), SLAB):
        for i, table in _tables(codes[start : start + SLAB], shape, cliques):
            with adding:
                totals[ends[i] : ends[i + 1]] += table


def weighted_tables(
    codes: Codes, shape: Sequence[int], cliques: Sequence[Clique], weights: FloatArray
) -> list[FloatArray]:
    """Return the sum of the rows' weights in each cell of the tables of some cliques, (cells,) each, flat in C order.

    Columns are packed as in `count_tables`, so that few passes over the rows serve all tables.  Packing changes the
    order of summation, and so the rounding errors.

    Parameters
    ----------
    codes, shape
        (n, d) cell codes, and the numbers of cells of the d columns.
    cliques
        Different columns of each table, in the order of its axes.
    weights
        (n,) weights of the rows.
    """
    found = dict(_tables(codes, shape, cliques, weights))
    return [np.asarray(found[i], np.float64) for i in range(len(cliques))]


def _tables(
    codes: Codes, shape: Sequence[int], cliques: Sequence[Clique], weights: FloatArray | None = None
) -> Iterator[tuple[int, AnyArray]]:
    """Yield the position of every clique and its flat table, (cells,); cliques of fewer columns come first.

    A table holds counts of rows, or sums of their ``weights``, (n,).
    """
    most_cells = min(MOST_CELLS, len(codes))
    for ways in sorted({len(clique) for clique in cliques}):
        members = [i for i, clique in enumerate(cliques) if len(clique) == ways]
        columns = sorted({j for i in members for j in cliques[i]})
        packs = pack(columns, shape, math.floor(most_cells ** (1 / ways) + 1e-9))
        yield from _tables_in_packs(codes, shape, cliques, members, packs, weights)


def _tables_in_packs(
    codes: Codes, shape: Sequence[int], cliques: Sequence[Clique], members: Sequence[int], packs: Sequence[Clique],
    weights: FloatArray | None,
) -> Iterator[tuple[int, AnyArray]]:  # fmt: skip
    """Yield the positions and flat tables, (cells,), of the cliques at ``members``, counted from packed columns.

    One count of the joint table serves all cliques whose columns lie in the same packs.
    """
    pack_of = {j: p for p, columns in enumerate(packs) for j in columns}
    groups: dict[Clique, list[int]] = {}
    for i in members:
        groups.setdefault(tuple(sorted({pack_of[j] for j in cliques[i]})), []).append(i)
    packed: dict[int, AnyArray] = {}
    for group, inside in sorted(groups.items()):
        columns = tuple(j for p in group for j in packs[p])
        size = math.prod(shape[j] for j in columns)
        if len(inside) == 1 or size > MOST_CELLS:
            for i in inside:
                yield i, _count(_ravel(codes, shape, cliques[i]), math.prod(shape[j] for j in cliques[i]), weights)
            continue
        for p in group:
            if p not in packed:
                packed[p] = _ravel(codes, shape, packs[p])
        sizes = [math.prod(shape[j] for j in packs[p]) for p in group]
        table = _count(_combine([packed[p] for p in group], sizes), size, weights).reshape([shape[j] for j in columns])
        if len(group) == len(cliques[inside[0]]) > 1 and len(inside) > FEW_TABLES:
            yield from _between_packs(table, [packs[p] for p in group], shape, {i: cliques[i] for i in inside})
        else:
            for i in inside:
                yield i, margin_of(table, columns, cliques[i])


def _between_packs(
    table: AnyArray, packs: Sequence[Clique], shape: Sequence[int], cliques: Mapping[int, Clique]
) -> Iterator[tuple[int, AnyArray]]:
    """Yield the position and flat table, (cells,), of cliques with one column in each pack, from the packs' joint table.

    All are summed at once: each axis is multiplied by the indicators of its columns' codes.  Sums of counts are whole
    numbers below 2^53, so they are exact.
    """
    sums: AnyArray = table.reshape([math.prod(shape[j] for j in pack) for pack in packs]).astype(np.float64)
    axis: dict[int, int] = {}
    cells: dict[int, slice] = {}
    for p, columns in enumerate(packs):
        sizes = [shape[j] for j in columns]
        sums = np.tensordot(
            sums, _indicators(tuple(sizes)), axes=(0, 0)
        )  # sums the first axis; what is left comes last
        ends = np.cumsum([0, *sizes]).tolist()
        axis |= dict.fromkeys(columns, p)
        cells |= {j: slice(*ends[at : at + 2]) for at, j in enumerate(columns)}
    if table.dtype != np.float64:
        sums = np.rint(sums).astype(np.int64)
    for i, clique in cliques.items():
        inside = sums[tuple(cells[j] for j in sorted(clique, key=axis.__getitem__))]
        yield i, inside.transpose([axis[j] for j in clique]).ravel()


@cache
def _indicators(sizes: tuple[int, ...]) -> FloatArray:
    """Return, for each cell of a table, one indicator of its code for each axis, side by side: (cells, sum of sizes)."""
    cells = np.indices(sizes).reshape(len(sizes), -1)
    return np.concatenate([np.eye(size)[cell] for size, cell in zip(sizes, cells, strict=True)], axis=1)


def pack(columns: Sequence[int], shape: Sequence[int], cells: int) -> list[Clique]:
    """Divide columns into packs whose joint tables have at most ``cells`` cells; a larger column is a pack by itself.

    One count of a few packs then serves all tables between their columns.  First fit, largest first.
    """
    packs: list[list[int]] = []
    sizes: list[int] = []
    for j in sorted(columns, key=lambda j: (-shape[j], j)):
        at = next((p for p, size in enumerate(sizes) if size * shape[j] <= cells), len(packs))
        if at == len(packs):
            packs.append([])
            sizes.append(1)
        packs[at].append(j)
        sizes[at] *= shape[j]
    return [tuple(columns) for columns in packs]


def margin_of(table: AnyArray, columns: Clique, kept: Clique) -> AnyArray:
    """Return the flat table, (cells,), of the columns ``kept`` in their order, summed from a table with axes ``columns``."""
    axes = [columns.index(j) for j in kept]
    rest = tuple(axis for axis in range(len(columns)) if axis not in axes)
    order = np.argsort(np.argsort(axes, kind="stable"), kind="stable")
    return np.asarray(table.sum(axis=rest).transpose(order)).ravel()


def _ravel(codes: Codes, shape: Sequence[int], columns: Clique) -> AnyArray:
    """Return the cell number of each row in the table of some columns, (rows,), in C order."""
    return _combine([codes[:, j] for j in columns], [shape[j] for j in columns])


def _combine(parts: Sequence[AnyArray], sizes: Sequence[int]) -> AnyArray:
    """Return one flat number per row, (rows,), in C order, from several numbers; number i is below ``sizes[i]``.

    The type is the narrowest that holds them, because packed columns of many rows are in memory at once.
    """
    dtype = np.min_scalar_type(max(math.prod(sizes) - 1, 0, *sizes[1:]))  # holds every number and every factor
    if dtype == np.uint64:
        dtype = np.dtype(np.int64)  # what bincount takes
    flat = parts[0].astype(dtype)
    for part, size in zip(parts[1:], sizes[1:], strict=True):
        flat *= dtype.type(size)
        np.add(flat, part, out=flat, casting="unsafe")
    return flat


def _count(cells: AnyArray, size: int, weights: FloatArray | None) -> AnyArray:
    """Return the (size,) numbers of rows of each cell as integers, or the sums of their weights as floats."""
    if weights is not None:
        return np.bincount(cells, weights, minlength=size)
    return np.bincount(cells, minlength=size).astype(np.int64, copy=False)


@file_form("Marginals", short="marginals")
@dataclass(frozen=True, slots=True, eq=False)
class Marginals(LinearFamily):
    """The contingency tables of several cliques of columns, one after the other, each flat in C order.

    One record lies in one cell of each table.  So adding it changes c counts by 1, one in each of c tables: l1 = l2^2 =
    c.

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
        object.__setattr__(self, "cliques", checked_cliques(self.cliques, len(self.domain)))
        if not self.cliques:
            raise ParameterError("cliques must hold at least one clique")
        if self.k >= LARGEST_WHOLE:
            raise ParameterError(
                f"the marginals have {self.k} cells together, and must have fewer than {LARGEST_WHOLE}: use fewer "
                "columns"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each table."""
        shape = self.domain.shape
        return tuple(math.prod([shape[j] for j in clique]) for clique in self.cliques)

    @property
    def k(self) -> int:
        """Number of cells of all tables together."""
        return sum(self.sizes)

    @property
    def cells_added(self) -> int:
        """Length of the array of counts that `add_sums` adds to: all cells."""
        return self.k

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity: a record adds 1 to one cell of each table; replacing it may also take 1 from another cell."""
        c = len(self.cliques)
        return RecordBounds(Norms(c, c, 1), _moves(2 * sum(size > 1 for size in self.sizes)))

    @property
    def offsets(self) -> IntArray:
        """(c + 1,) position in the answers at which each of c tables begins, then the number of all cells."""
        return frozen(np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64))

    def cells(self, codes: Codes) -> IntArray:
        """Return the position in the answers of each row's cell in every table, (n, c), where `features` are 1."""
        flat = [self.domain.ravel(codes, clique) for clique in self.cliques]
        return np.column_stack(flat) + self.offsets[:-1]

    def features(self, codes: Codes) -> Features:
        """Return what each row adds to each cell, (n, k): 1 in one cell of each table, else 0."""
        features = np.zeros((len(codes), self.k), np.int64)
        np.put_along_axis(features, self.cells(codes), 1, axis=1)
        return features

    def sparse_features(self, codes: Codes) -> csr_array:
        """Return what each row adds to each cell, (n, k), as a sparse matrix; see `SparseFeatures`."""
        cells = self.cells(codes)
        starts = np.arange(0, cells.size + 1, cells.shape[1])  # each row lies in one cell of each table
        return csr_array((np.ones(cells.size), cells.ravel(), starts), shape=(len(codes), self.k))

    def sums(self, codes: Codes) -> Totals:
        """Return the number of given rows in each cell of all tables, (k,)."""
        return count_tables(codes, self.domain.shape, self.cliques)

    @property
    def counted(self) -> Marginals:
        """The tables whose counts determine the answers, here these tables themselves; see `counted_tables`."""
        return self

    def of_tables(self, counts: Totals) -> Totals:
        """Return the answers computed from the counts of `counted`, which are the answers themselves."""
        return counts

    def add_sums(self, totals: Totals, codes: Codes, *, adding: AbstractContextManager[object]) -> None:
        """Add the number of given rows in each cell to ``totals``, (k,), in place, holding the lock ``adding``."""
        add_tables(totals, codes, self.domain.shape, self.cliques, adding=adding)

    def split(self, answers: AnyArray) -> list[AnyArray]:
        """Cut a (k,) vector of all answers into one flat table per clique, (cells,) each."""
        return np.split(answers, self.offsets[1:-1])

    def noisy_tables(self, answers: FloatArray, stddev: float) -> list[NoisyTable]:
        """Return (k,) noisy answers as one table per clique, for a fit."""
        return [
            NoisyTable(
                clique=tuple(sorted(clique)),
                counts=ordered(clique, counts, table_shape(self.domain.shape, clique)),
                stddev=max(stddev, LEAST_STDDEV),
            )
            for clique, counts in zip(self.cliques, self.split(answers), strict=True)
        ]

    def sums_of(
        self,
        names: Sequence[str],
        answers: Answers,
        stddev: float,
        *,
        rows: tuple[float, float],  # noqa: ARG002
    ) -> ProductSums | None:
        """Return the noisy table of the columns ``names``, summed from the smallest table in ``answers`` that has them all.

        Return ``None`` if no table has all of them.  So questions about these columns need no further measurement.

        Parameters
        ----------
        names
            Names of the columns, in the order of the result's axes.
        answers
            (k,) noisy counts of all tables, one after the other.
        stddev
            Standard deviation of the noise in each count; it grows with the number of counts that are summed.
        rows
            Not used: the tables count the rows themselves.
        """
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
    """Return the norms of a change by 1 in each of ``cells`` counts.

    Replacing a row changes up to two counts of each table: it leaves one cell and enters another.
    """
    return Norms(cells, cells, min(cells, 1))


def all_cliques(domain: Domain, order: int) -> tuple[Clique, ...]:
    """Return all sets of ``order`` columns, as increasing positions."""
    return tuple(itertools.combinations(range(len(domain)), order))


def one_ways(domain: Domain) -> Marginals:
    """Return the table of every single column."""
    return Marginals(domain, all_cliques(domain, 1))


def marginals(domain: Domain, cliques: Iterable[Sequence[str]]) -> Marginals:
    """Return the tables of cliques given by column names."""
    return Marginals(domain, tuple(domain.index(*clique) for clique in cliques))


@runtime_checkable
class OfTables(Statistic, Protocol):
    """A statistic that is computed from counts of tables alone, so that any source that counts tables can answer it."""

    @property
    def counted(self) -> Marginals:
        """The tables whose counts of rows determine the answers."""
        ...

    def of_tables(self, counts: Totals) -> Totals:
        """Return the (k,) answers from the counts of rows in all cells, one flat table after the other."""
        ...


def counted_tables(statistic: Statistic) -> Marginals | None:
    """Return the tables from whose counts a statistic can be computed; ``None`` if it names none."""
    return statistic.counted if isinstance(statistic, OfTables) else None


def counted_apart(queries: LinearQueries) -> LinearQueries:
    """Return queries that do not count out-of-domain values together with others; ``queries`` if no value is out of domain.

    In `Marginals` a row with an out-of-domain value still counts in the tables of its other columns.  To any other
    queries such a row adds 0.
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
