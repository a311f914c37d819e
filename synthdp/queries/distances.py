"""Distances of a table's marginals from public expectations, by which plans are screened: of a few cliques, or of all pairs.

Each is a function of the sums of linear queries, so that no matrix of rows by candidates exists.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import ssyrk

from synthdp.arrays import AnyArray, Codes, IntArray, Totals
from synthdp.checks import whole
from synthdp.codec import DocumentSource, Store, file_form
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.marginals import Marginals
from synthdp.queries.norms import (
    LARGEST_DENOMINATOR,
    LARGEST_EXPECTATION,
    Norms,
    RecordBounds,
    expectations,
    whole_numbers,
)
from synthdp.queries.protocol import LinearQueries, check_overflow


class Score:
    """Base of statistics that are computed in ``finish`` from the sums of linear ``queries``, such as distances."""

    __slots__ = ()

    queries: LinearQueries

    @property
    def domain(self) -> Domain:
        """The queries' axes."""
        return self.queries.domain

    @property
    def k(self) -> int:
        """Number of queries."""
        return self.queries.k

    def sums(self, codes: Codes) -> Totals:
        """Return the sums of ``queries`` over some rows, (queries.k,)."""
        return self.queries.sums(codes)


@file_form("distances")
@dataclass(frozen=True, slots=True, eq=False)
class MarginalDistances(Score):
    """For each clique the L1 distance, in rows, between its table and an expected one.

    By the triangle inequality a record changes each distance by at most 1 when added and 2 when replaced.  Not linear:
    the tables are summed over rows first, the distances taken at the end.

    Parameters
    ----------
    queries
        The tables.
    expected
        (queries.k,) expected counts as whole multiples of 1 / ``denominator``.
    denominator
        The whole number that stands for one row.
    """

    queries: Marginals
    expected: IntArray
    denominator: int

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "denominator", whole("denominator", self.denominator, least=1, most=LARGEST_DENOMINATOR)
        )
        most = LARGEST_EXPECTATION // max(self.queries.sizes)  # what a table's cells are off by adds up
        object.__setattr__(self, "expected", expectations("expected", self.expected, most=most))
        if self.expected.shape != (self.queries.k,):
            raise ParameterError(f"expected must be {self.queries.k} whole numbers, one per cell")
        check_overflow(self)

    def to_saved(self, store: Store) -> dict[str, Any]:
        """Return what a file stores: the tables' fields and the expected counts."""
        return {**store.fields(self.queries), "expected": store.put(self.expected), "unit": self.denominator}

    @classmethod
    def of_saved(cls, document: Mapping[str, Any], source: DocumentSource) -> MarginalDistances:
        """Read the distances from a file."""
        expected = source.arrays[document["expected"]]
        return cls(source.fields(Marginals, document), expected, source.read(document["unit"], int))

    @property
    def k(self) -> int:
        """Number of distances."""
        return len(self.queries.cliques)

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity: one record moves every distance by at most 1 row, a replaced one by 2."""
        return RecordBounds.of(Norms.within(self.k, self.denominator))

    @property
    def counted(self) -> Marginals:
        """The tables from whose counts the distances follow; see `counted_tables`."""
        return self.queries

    def of_tables(self, counts: Totals) -> Totals:
        """Return the distances, (k,) as of `finish`, from the counts of rows, (queries.k,), that `counted` asks for."""
        return self.finish(counts)

    def add_sums(self, totals: Totals, codes: Codes, *, adding: AbstractContextManager[object]) -> None:
        """Count some rows in each cell of ``queries``, and add the counts to ``totals``, (queries.k,), in place.

        The lock ``adding`` is held while ``totals`` changes, since several threads add to it.
        """
        self.queries.add_sums(totals, codes, adding=adding)

    @property
    def cells_added(self) -> int:
        """Length of the array of counts of rows that `add_sums` adds to: all cells of the tables."""
        return self.queries.k

    def finish(self, sums: Totals) -> Totals:
        """Return each table's L1 distance from the expected one, (k,), in multiples of 1 / ``denominator`` rows."""
        offsets = self.queries.offsets  # table by table: all cells together may be many times what one has
        parts = [slice(*ends) for ends in itertools.pairwise(offsets.tolist())]
        return np.array([np.abs(sums[part] * self.denominator - self.expected[part]).sum() for part in parts], np.int64)


MOST_ENTRIES = 2**25
"""Most entries of the indicator matrix that is multiplied at once: 128 MiB in single precision.  A safety limit of
memory.
"""

MOST_ROWS = 2**14
"""Most rows multiplied at once: sums of this many ones are exact in single precision (below 2^24). A safety limit."""


def indicators(shape: Sequence[int]) -> int:
    """Return the number of indicators by which `add_pair_counts` counts rows: one constant, and one for each other cell.

    The first cell of each column has no indicator, because its counts are differences of the other counts.
    """
    return 1 + sum(size - 1 for size in shape)


def add_pair_counts(
    totals: Totals, codes: Codes, shape: Sequence[int], *, adding: AbstractContextManager[object]
) -> None:
    """Count, for every two indicators, the rows that have both, and add this to the upper triangle of ``totals``.

    The indicators are the constant one, then for each column in turn one for every cell but the first.  From their
    counts `pair_tables` computes the counts of all pairs of cells.  One matrix product counts all pairs at once.

    Parameters
    ----------
    totals
        (k * k,) counts so far, k the number of `indicators`.
    codes
        (n, d) cell codes.
    shape
        Numbers of cells of the d columns.
    adding
        Held while counts are added: a lock where several threads add to the same ones.
    """
    size = indicators(shape)
    counts = totals.reshape(size, size)
    step = max(1, min(MOST_ROWS, MOST_ENTRIES // size))
    for start in range(0, len(codes), step):
        some = codes[start : start + step]
        ones = np.empty((size, len(some)), np.float32)
        ones[0] = 1
        place = 1
        for j, cells in enumerate(shape):
            column = np.ascontiguousarray(some[:, j])
            for cell in range(1, cells):
                ones[place] = column == cell
                place += 1
        product = ssyrk(1.0, ones.T, trans=1, lower=1).T.astype(np.int32)
        with adding:
            np.add(counts, product, out=counts)


def pair_tables(totals: Totals, shape: Sequence[int]) -> Iterator[tuple[Totals, IntArray]]:
    """Yield, for each column but the last, its tables with all later columns side by side, from `add_pair_counts`.

    Parameters
    ----------
    totals
        (k * k,) what `add_pair_counts` counted.
    shape
        Numbers of cells of the d columns, at least 2 each.

    Yields
    ------
    The counts, (cells of the column, all cells of all later columns); and where each later column begins.
    """
    size = indicators(shape)
    counts = totals.reshape(size, size)
    ends = np.cumsum([1, *(cells - 1 for cells in shape)])
    margins = [_with_first(counts[0, ends[j] : ends[j + 1]], counts[0, 0]) for j in range(len(shape))]
    for j in range(len(shape) - 1):
        block = counts[ends[j] : ends[j + 1], ends[j + 1] :]
        block = np.vstack([counts[0, ends[j + 1] :] - block.sum(axis=0), block])
        inner = ends[j + 1 : -1] - ends[j + 1]
        first = margins[j][:, None] - np.add.reduceat(block, inner, axis=1)
        yield np.insert(block, inner, first, axis=1), inner + np.arange(len(inner))


def _with_first(counts: AnyArray, total: int) -> AnyArray:
    """Return a column's counts of all cells, (cells,), from counts of all but the first, which indicators leave out.

    The count of the first is ``total`` minus the others.
    """
    return np.concatenate([[total - counts.sum()], counts])


LARGEST_UNIT = 2**16
"""Largest denominator of `PairDistances`: with expected rows below `LARGEST_SUM` no distance exceeds 63 bits.  A safety
limit.
"""

LARGEST_SUM = 2**60
"""Most expected rows, in multiples of 1 / denominator: far more than any table has.  A safety limit, so that sums fit
63 bits.
"""


@file_form("pair distances")
@dataclass(frozen=True, slots=True, eq=False)
class PairDistances:
    """For every two columns the L1 distance, in rows, between their table and independent columns'.

    The expected table of a pair is the outer product of two margins, which are public numbers.  By the triangle inequality
    a record changes each distance by at most 1 when added and 2 when replaced (docs/proofs/wide-screening.md).  Counting
    takes one symmetric matrix product, however many pairs there are; nothing is stored for a pair but its distance.

    Parameters
    ----------
    domain
        Two or more axes of at least 2 cells each.
    margins
        For each axis its (size,) expected rows, >= 0, in whole multiples of 1 / ``denominator``; all with one sum.
    denominator
        The whole number that stands for one row.

    Raises
    ------
    ParameterError
        If the margins do not fit the domain.
    """

    domain: Domain
    margins: tuple[IntArray, ...]
    denominator: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "denominator", whole("denominator", self.denominator, least=1, most=LARGEST_UNIT))
        object.__setattr__(self, "margins", tuple(whole_numbers("margins", margin) for margin in self.margins))
        shape = self.domain.shape
        if len(shape) < 2 or min(shape) < 2 or [margin.shape for margin in self.margins] != [(k,) for k in shape]:
            raise ParameterError(
                "margins must hold one array of whole numbers per column, with one number per cell, for at least "
                "two columns of at least two cells"
            )
        if any(margin.min() < 0 or margin.max() > LARGEST_SUM // len(margin) for margin in self.margins):
            raise ParameterError("margins must be at least 0, and their sums must fit in 63 bits")
        if len({int(margin.sum()) for margin in self.margins}) > 1 or not self.margins[0].any():
            raise ParameterError("margins must all have the same sum, which must be above 0")
        check_overflow(self)

    def to_saved(self, store: Store) -> dict[str, Any]:
        """Return what a file stores; the denominator is called ``unit`` there."""
        return {"domain": store.write(self.domain), "margins": store.write(self.margins), "unit": self.denominator}

    @classmethod
    def of_saved(cls, document: Mapping[str, Any], source: DocumentSource) -> PairDistances:
        """Read the distances from a file."""
        margins = source.read(document["margins"], tuple[IntArray, ...])
        return cls(source.read(document["domain"], Domain), margins, source.read(document["unit"], int))

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """The positions of the two columns of each distance, (k,) each, in the order of the answers."""
        left, right = np.triu_indices(len(self.domain), 1)
        return left, right

    @property
    def k(self) -> int:
        """Number of pairs."""
        return math.comb(len(self.domain), 2)

    @property
    def cells_added(self) -> int:
        """Number of counts of rows, one per pair of indicators: (1 + cells beyond the first of each column) squared."""
        return indicators(self.domain.shape) ** 2

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity: one record moves every distance by at most 1 row, a replaced one by 2."""
        return RecordBounds.of(Norms.within(self.k, self.denominator))

    def sums(self, codes: Codes) -> Totals:
        """Return how many of some rows have each pair of indicators, (cells_added,); `finish` makes distances of it."""
        totals = np.zeros(self.cells_added, np.int64)
        self.add_sums(totals, codes, adding=nullcontext())
        return totals

    def add_sums(self, totals: Totals, codes: Codes, *, adding: AbstractContextManager[object]) -> None:
        """Count some rows in the cells of all pairs of columns, and add the counts to ``totals`` in place.

        ``totals`` is laid out as `add_pair_counts` says.  The lock ``adding`` is held while it changes, since several
        threads add to it.
        """
        add_pair_counts(totals, codes, self.domain.shape, adding=adding)

    def finish(self, sums: Totals) -> Totals:
        """Return the L1 distance of each pair's table from independent columns', (k,), in 1 / ``denominator`` rows."""
        found = [
            np.add.reduceat(np.abs(counts * self.denominator - self._expected(j)).sum(axis=0), starts)
            for j, (counts, starts) in enumerate(pair_tables(sums, self.domain.shape))
        ]
        return np.concatenate(found, dtype=np.int64)

    def _expected(self, column: int) -> IntArray:
        """Return the tables of a column with all later columns if columns were independent, (its cells, all of theirs).

        The tables are outer products of the public margins, side by side.  They are rounded to whole multiples of
        1 / ``denominator``, so that distances are whole numbers, as exact sensitivity and discrete noise need.
        """
        total = float(self.margins[column].sum())
        later = np.concatenate(self.margins[column + 1 :])
        return np.asarray(np.rint(np.outer(self.margins[column], later / total)), np.int64)
