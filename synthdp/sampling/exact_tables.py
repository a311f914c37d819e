"""Sampled rows with exact marginals: values of rows are changed, from cells with too many rows to cells with too few.

No private row is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import BoolArray, Clique, Codes, FloatArray, IntArray, frozen
from synthdp.errors import ParameterError
from synthdp.queries.contingency import cell_index, check_clique, contingency, rounded_to_sum, table_shape, table_size
from synthdp.randomness import Generator

ATTEMPTS = 20
"""Largest number of rounds in which a row is searched for each move from a cell with too many rows to one with too few.
Moves without a row by then take any free row of their cell, or are dropped if rules forbid combinations.  A safety
limit of time."""

EXCHANGES, AT_ONCE = 40, 12
"""EXCHANGES is the largest number of rounds in which pairs of rows exchange a value of one column.  Pairs are formed among
rows that agree in the table's other columns (a stratum).  In a round at most one in AT_ONCE of a stratum's pairs with
different values exchanges them, but at least one may: gaps are counted once a round, so more would overshoot.  A safety
limit of time, and a numerical tolerance; both from `benchmarks/utility/places.py`."""

CANDIDATES = 24
"""Number of random rows that are compared for each move.  A safety limit of time: more rows find a better one
(`benchmarks/utility/places.py`)."""

TEMPER = 0.5
"""Factor on the sum of log ratios of several column pairs, which partly say the same.  Tuned by
`benchmarks/utility/places.py`: half and twice of it change the errors of tables of places of another table by 0 and +.2 %
(docs/benchmarks/constants.md)."""

MOST_CELLS = 250_000
"""Most cells of a two-column table by which rows are chosen for moves; larger tables are not used.  A safety limit of
memory."""

HALF = 0.5
"""Pseudo-count, in rows, added to each cell before a logarithm is taken.  More would hide relations of rare cells; less
lets an empty cell decide alone.  A convention."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExactTable:
    """Holds the exact number of rows in each cell of a marginal, which the sampled rows must reproduce.

    Parameters
    ----------
    clique
        The positions of the marginal's columns, strictly increasing.
    counts
        (cells,) rows, >= 0, flat in C order.

    Raises
    ------
    ParameterError
        If the clique is not strictly increasing, or a count is negative.
    """

    clique: Clique
    counts: IntArray

    def __post_init__(self) -> None:
        check_clique(self.clique)
        counts = np.array(self.counts, np.int64)
        if counts.ndim != 1 or (counts < 0).any():
            raise ParameterError(
                f"counts of clique {self.clique} must be a one-dimensional array of numbers of at least 0"
            )
        object.__setattr__(self, "counts", frozen(counts))

    @property
    def rows(self) -> int:
        """Return the total number of rows, the sum of all counts."""
        return int(self.counts.sum())


def in_order(tables: Sequence[ExactTable]) -> list[ExactTable]:
    """Return the tables in the order in which rows should be moved to them.

    The next table has the largest fraction of columns in earlier tables; of equal ones, the fewest columns.  All tables
    can be matched exactly if each shares with all earlier tables only columns of one of them (the running intersection
    property).
    """
    left = sorted(tables, key=lambda one: len(one.clique))
    ordered: list[ExactTable] = []
    touched: set[int] = set()
    while left:
        chosen = max(left, key=lambda one: (len(touched & set(one.clique)) / len(one.clique), -len(one.clique)))
        left.remove(chosen)
        ordered.append(chosen)
        touched |= set(chosen.clique)
    return ordered


def moved_to_tables(
    codes: Codes,
    shape: Sequence[int],
    tables: Sequence[ExactTable],
    rng: Generator,
    *,
    allowed: Mapping[Clique, BoolArray] | None = None,
) -> Codes:
    """Return a copy of the rows, (n, d) codes, changed so that they have the given marginals exactly.

    Tables are matched in turn.  Moves change only columns that no earlier table has, in as few rows as possible.  A row
    is more likely to move if its other values fit the new cell.  Without rules, if a table has all columns of the table
    before, rows first exchange values so that fewer need to move.  The table before stays exact.  A table can stay
    inexact in two cases: it shares columns of several earlier tables, or rules forbid the moves.

    Parameters
    ----------
    codes
        (n, d) rows, as bin codes.
    shape
        Number of codes of each column.
    tables
        The marginals, in the order of `in_order`, each of n rows.
    rng
        Decides which rows move, and where to.
    allowed
        By clique, a mask of the allowed cells, flat in C order.
    """
    found = np.array(codes, order="F")
    touched: set[int] = set()
    for number, table in enumerate(tables):
        moving = tuple(j for j in table.clique if j not in touched)
        shared = tuple(sorted(set(table.clique) & touched))
        if number and len(shared) > 1 and not allowed and shared == tables[number - 1].clique:
            later = [
                one for one in tables[number:] if set(shared) < set(one.clique) and len(one.clique) == len(shared) + 1
            ]
            by = max(shared, key=lambda j: next(i for i, one in enumerate(tables) if j in one.clique))
            _exchange(found, tuple(shape), shared, by, later, rng)
        if moving:
            _Move(found, tuple(shape), table, moving, allowed or {}).make(rng)
        touched |= set(table.clique)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Move:
    """Changes the ``moving`` columns of rows, in place, until the rows have one exact table."""

    codes: Codes
    shape: tuple[int, ...]
    table: ExactTable
    moving: Clique
    allowed: Mapping[Clique, BoolArray]

    def make(self, rng: Generator) -> None:
        """Move the surplus rows of cells with too many rows to cells with too few, in place.

        Rows keep their values of the fixed columns.
        """
        fixed = tuple(j for j in self.table.clique if j not in self.moving)
        order = [self.table.clique.index(j) for j in (*fixed, *self.moving)]
        wanted = self.table.counts.reshape(table_shape(self.shape, self.table.clique)).transpose(order)
        wanted = wanted.reshape(table_size(self.shape, fixed), -1)
        inside = wanted.shape[1]
        cell = cell_index(self.codes, self.shape, fixed).astype(np.int64) * inside
        cell += cell_index(self.codes, self.shape, self.moving)
        gap = np.bincount(cell, minlength=wanted.size).reshape(wanted.shape) - wanted
        few = np.minimum(np.maximum(gap, 0).sum(axis=1), np.maximum(-gap, 0).sum(axis=1))
        source, target = (_of_each(np.maximum(one, 0), few, rng) for one in (gap, -gap))
        if len(source):
            self._assign(cell, source, target, inside, rng)

    def _assign(self, cell: IntArray, source: IntArray, target: IntArray, inside: int, rng: Generator) -> None:
        """Choose a different row for each move from a source cell to a target cell, and change its codes.

        A row is drawn from random candidates, with probability proportional to the exponential of its `_fit_of`.
        Without rules, moves left after `ATTEMPTS` rounds take the remaining rows in order.

        ``cell`` holds the cell of each row, (n,): the number of the fixed columns' cell times ``inside``, plus the
        number of the moving columns' cell.  ``inside`` is the number of cells of the moving columns.
        """
        order = np.argsort(cell, kind="stable")
        counts = np.bincount(cell, minlength=int(max(source.max(), cell.max())) + 1)
        first = np.cumsum(counts) - counts
        values = np.column_stack(np.unravel_index(target % inside, table_shape(self.shape, self.moving)))
        affinity = self._affinity()
        free, left = np.ones(len(cell), np.bool_), np.arange(len(source))
        for _ in range(ATTEMPTS):
            bucket = source[left, None]
            place = first[bucket] + (rng.random((len(left), CANDIDATES)) * counts[bucket]).astype(np.int64)
            rows = order[place]
            score = rng.gumbel(size=rows.shape) + self._fit_of(rows, values[left], affinity)
            score[~free[rows]] = -np.inf
            score[~self._obeys(rows, values[left])] = -np.inf
            best = np.argmax(score, axis=1)
            some = np.arange(len(left))
            good = np.isfinite(score[some, best])
            chosen = np.where(good, rows[some, best], -1)
            _, one_each = np.unique(chosen, return_index=True)
            taken = one_each[chosen[one_each] >= 0]
            free[chosen[taken]] = False
            self.codes[chosen[taken][:, None], np.array(self.moving)] = values[left[taken]]
            left = np.delete(left, taken)
            if not len(left):
                return
        if not self.allowed:  # what is left takes the rows that are free, in order
            unused = order[free[order]]
            rows = unused[np.isin(cell[unused], source[left])]
            sizes = np.bincount(cell[rows], minlength=len(counts))
            start = np.cumsum(sizes) - sizes
            by = np.argsort(source[left], kind="stable")
            asked = np.bincount(source[left], minlength=len(counts))
            rank = np.arange(len(left)) - (np.cumsum(asked) - asked)[source[left][by]]
            chosen = rows[start[source[left][by]] + rank]
            self.codes[chosen[:, None], np.array(self.moving)] = values[left[by]]

    def _affinity(self) -> list[tuple[int, int, FloatArray]]:
        """Return log ratios of observed to independent counts, for pairs of an outside column and a moving column.

        By them a row is moved whose other values go with its new ones, so that relations stay.  Each entry holds the
        outside column, the position of the moving column in ``moving``, and the (codes, codes) log ratios.
        """
        found = []
        staying = [j for j in range(len(self.shape)) if j not in self.table.clique]
        for place, moved in enumerate(self.moving):
            for j in staying:
                if self.shape[j] * self.shape[moved] <= MOST_CELLS:
                    both = contingency(self.codes, self.shape, (j, moved)).reshape(self.shape[j], -1)
                    expected = np.outer(both.sum(axis=1), both.sum(axis=0)) / len(self.codes)
                    found.append((j, place, np.log((both + HALF) / (expected + HALF))))
        return found

    def _fit_of(self, rows: IntArray, values: IntArray, affinity: Sequence[tuple[int, int, FloatArray]]) -> FloatArray:
        """Return how well candidate rows' other values go with the moves' new values, (moves, candidates).

        The result is the rise of the sum over ``affinity`` of the log ratios of observed to independent counts; see
        `_affinity`.  A sum over several pairs of columns is multiplied by `TEMPER`.
        """
        score = np.zeros(rows.shape)
        for j, place, table in affinity:
            others, now = self.codes[rows, j], self.codes[rows, self.moving[place]]
            score += table[others, values[:, place, None]] - table[others, now]
        return score * (TEMPER if len(affinity) > 1 else 1.0)

    def _obeys(self, rows: IntArray, values: IntArray) -> BoolArray:
        """Return whether candidate rows would lie in allowed cells after their move, (moves, candidates).

        All would if there are no rules.
        """
        good = np.ones(rows.shape, np.bool_)
        if self.allowed:
            moved = np.array(self.codes[rows.ravel()], np.int64)
            moved[:, np.array(self.moving)] = np.repeat(values, rows.shape[1], axis=0)
            for clique, mask in self.allowed.items():
                if set(clique) & set(self.moving):
                    good &= mask[cell_index(moved, self.shape, clique)].reshape(rows.shape)
        return good


def _exchange(
    codes: Codes, shape: tuple[int, ...], shared: Clique, by: int, tables: Sequence[ExactTable], rng: Generator
) -> None:
    """Exchange the values of column ``by`` between rows, in place, to bring the rows closer to the tables matched next.

    Paired rows agree in the other shared columns, so the table of ``shared`` does not change.  All other columns keep
    their values.  Random pairs are formed, and the pairs that lower the sum of squared gaps most are exchanged.

    Parameters
    ----------
    codes
        (n, d) rows, changed in place; their table of the ``shared`` columns does not change.
    shape
        Number of codes of each column.
    shared
        Columns that all tables have.
    by
        The shared column whose values are exchanged.
    tables
        The tables to come closer to, each of the shared columns and one more column.
    rng
        Draws the pairs.
    """
    alike = tuple(j for j in shared if j != by)
    stratum = cell_index(codes, shape, alike).astype(np.int64)
    others = [next(j for j in one.clique if j not in shared) for one in tables]
    wanted = []
    for one, other in zip(tables, others, strict=True):
        axes = [one.clique.index(j) for j in (*alike, by, other)]
        counts = one.counts.reshape(table_shape(shape, one.clique)).transpose(axes)
        wanted.append(counts.reshape(table_size(shape, alike), shape[by], shape[other]))
    for _ in range(EXCHANGES):
        mixed = rng.permutation(len(codes))
        order = mixed[np.argsort(stratum[mixed], kind="stable")]
        first, second = order[:-1:2], order[1::2]
        good = (stratum[first] == stratum[second]) & (codes[first, by] != codes[second, by])
        first, second = first[good], second[good]
        place, a, b = stratum[first], codes[first, by], codes[second, by]
        change = np.zeros(len(first))
        for counts, other in zip(wanted, others, strict=True):
            cell = (stratum * shape[by] + codes[:, by]) * shape[other] + codes[:, other]
            gap = np.bincount(cell, minlength=counts.size).reshape(counts.shape) - counts
            u, v = codes[first, other], codes[second, other]
            change += np.where(u != v, gap[place, a, v] - gap[place, a, u] + gap[place, b, u] - gap[place, b, v] + 2, 0)
        rank = np.lexsort((change, place))
        ours = np.arange(len(rank)) - np.searchsorted(place[rank], place[rank])
        most = np.maximum(np.bincount(place, minlength=len(wanted[0])) // AT_ONCE, 1)
        taken = rank[(ours < most[place[rank]]) & (change[rank] < 0)]
        if not len(taken):
            return
        codes[first[taken], by], codes[second[taken], by] = b[taken], a[taken]


def _of_each(surplus: IntArray, few: IntArray, rng: Generator) -> IntArray:
    """Return cell numbers, each repeated as often as its surplus, in random order: the source or target cells of moves.

    At most ``few[stratum]`` are returned for each stratum, a row of ``surplus``, so that there are as many sources as
    targets.
    """
    cells = np.repeat(np.arange(surplus.size), surplus.ravel())
    cells = rng.permutation(cells)
    stratum = cells // surplus.shape[1]
    by = np.argsort(stratum, kind="stable")
    sizes = surplus.sum(axis=1)
    rank = np.arange(len(cells)) - (np.cumsum(sizes) - sizes)[stratum[by]]
    return np.asarray(cells[by][rank < few[stratum[by]]], np.int64)


def exact_counts(estimates: FloatArray, rows: int) -> IntArray:
    """Return integers, (k,), near to estimates and with a given sum, by the largest remainder method.

    Parameters
    ----------
    estimates
        (k,) estimated rows, >= 0, with a positive sum; they are rescaled to ``rows``.
    rows
        The wanted sum, >= 0.
    """
    return rounded_to_sum(estimates * (rows / estimates.sum()), rows)
