"""How well each of many small tables answers for a large one: the scores of the net mechanism, and its candidates."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, Codes, IntArray, Totals, frozen
from synthdp.checks import whole
from synthdp.errors import ParameterError
from synthdp.queries.norms import Norms, RecordBounds, largest
from synthdp.queries.protocol import CHUNK_CELLS, LinearQueries, check_overflow
from synthdp.queries.score import Score

_EXACT = 2**53


def multiset_count(cells: int, size: int) -> int:
    """Return the number of multisets of ``size`` among ``cells``: C(cells + size - 1, size)."""
    return math.comb(cells + size - 1, size)


def multisets(cells: int, size: int) -> IntArray:
    """Return every multiset of ``size`` among ``cells`` as counts, (C(cells + size - 1, size), cells).

    In lexicographic order, whichever of two ways is shorter: each is its elements, with repetition, or, by stars and
    bars, a choice of cells - 1 bars among size + cells - 1 places.
    """
    if size < cells:
        chosen = itertools.combinations_with_replacement(range(cells), size)
        elements = np.fromiter(itertools.chain.from_iterable(chosen), np.int64).reshape(-1, size)[::-1]
        counts = np.zeros((len(elements), cells), np.int64)
        np.add.at(counts, (np.arange(len(elements))[:, None], elements), 1)
        return counts
    if cells == 1:
        return np.full((1, 1), size, np.int64)
    places = size + cells - 1
    flat = itertools.chain.from_iterable(itertools.combinations(range(places), cells - 1))
    bars = np.fromiter(flat, np.int64).reshape(-1, cells - 1)
    counts = np.empty((len(bars), cells), np.int64)
    counts[:, 0] = bars[:, 0]
    counts[:, 1:-1] = np.diff(bars, axis=1) - 1
    counts[:, -1] = places - 1 - bars[:, -1]
    return counts


@dataclass(frozen=True, slots=True, eq=False)
class NetScores(Score):
    """The score -max_q |m q(D) - N q(y)| of every multiset y of m cells, for a public number N of rows.

    Divided by m N it is minus the largest error of y's averages.  One record moves q(D) by at most the largest change
    of a query, hence every score by at most m times that.  No feature matrix of rows by candidates exists: the scores
    are a function of the sums.

    Parameters
    ----------
    queries
        What the candidates are judged by.
    cells
        (c, d) codes of the cells that candidates are made of.
    candidates
        (k, c) counts, each row with the same sum m.
    rows
        N: the number of rows, or a public estimate of it; clipped where scores would not fit in 64 bits.
    """

    queries: LinearQueries
    cells: Codes
    candidates: IntArray
    rows: int

    def __post_init__(self) -> None:
        candidates = np.asarray(self.candidates, np.int64)
        counts = candidates.ndim == 2 and candidates.shape[1] == len(self.cells) and candidates.min(initial=0) >= 0
        if not counts or len(np.unique(candidates.sum(1))) != 1:
            raise ParameterError("candidates must be counts of the cells, all with the same sum")
        object.__setattr__(self, "candidates", frozen(candidates.view()))
        rows = min(whole("rows", self.rows, least=1), (LARGEST_WHOLE - 1) // max(1, self.bounds.one.linf))
        object.__setattr__(self, "rows", rows)
        check_overflow(self)

    @property
    def size(self) -> int:
        """The size m of every candidate."""
        return int(self.candidates[0].sum())

    @property
    def k(self) -> int:
        """Number of candidates."""
        return len(self.candidates)

    @property
    def denominator(self) -> int:
        """The whole number that stands for one row in one query's sum."""
        return self.queries.denominator * self.size

    @property
    def bounds(self) -> RecordBounds:
        """Every score moves by at most m times the largest change of a query."""
        bounds = self.queries.bounds
        one, swap = (Norms.within(self.k, norms.linf * self.size) for norms in (bounds.one, bounds.swap))
        return RecordBounds(one, swap)

    def finish(self, sums: Totals) -> Totals:
        """Return the score of every candidate, (k,), in blocks of bounded memory."""
        target = self.size * self.queries.finish(sums)
        values = self.rows * self.queries.features(self.cells)
        if largest(values) * self.size < _EXACT:  # float products of such whole numbers are exact, and fast
            values = values.astype(np.float64)
        worst = np.empty(self.k, np.int64)
        step = max(1, CHUNK_CELLS // (8 * self.queries.k))
        for start in range(0, self.k, step):
            answers = self.candidates[start : start + step].astype(values.dtype) @ values
            errors = answers.astype(np.int64)
            errors -= target
            worst[start : start + step] = np.abs(errors, out=errors).max(axis=1)
        return -worst
