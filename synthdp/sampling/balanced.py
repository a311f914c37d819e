"""Balanced sampling: rows whose low-order tables are nearer to the distribution's than those of independent draws.

Sampling error is a large part of the error of a good model.  So more rows than wanted are drawn and repeatedly halved.
Of two similar rows, the row that brings the tables closer to half of the counts stays.  If time allows, the tables
include finer intervals inside coarse bins.  Every distribution that can be sampled will do.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, Clique, Codes, IntArray, narrow
from synthdp.distribution.distribution import Distribution, Evidence
from synthdp.randomness import Generator

MOST_AT_ONCE = 64
"""Most row pairs in one batch; all pairs of a batch are decided from the same counts.  Below this limit a batch has half as
many pairs as a table has cells in the mean.  Larger batches are faster and balance less.  A tolerance: with 64, tables of
50 and more cells lose 2 % of what balancing gains."""

FEWEST_BATCHES = 100
"""Least number of batches in which the pairs of rows of one halving (one step that keeps a row of each pair) are decided;
with fewer pairs, each is a batch.  A safety limit of time: without it the three-way error of small samples (500 to 1 300
rows) is 1 to 2 % larger; 500 batches take twice the time and gain no more."""

FEWEST_CELLS = 1000
"""A table is balanced only if it has at most this many cells, or at most as many cells as there are row pairs.  In a larger
table most cells hold one row at most, which nothing can balance.  A safety limit of time for samples of few rows."""

CELLS_A_DECISION = 8
"""Rows are not halved if two-column tables have more than this many cells for each pair of rows to decide.  A safety
limit of time: at 13 cells a pair, halving takes 5 % off the error of these tables but as long as the fit; at 2 cells it
takes off a third."""

LOOKS = 2
"""Number of times that the decisions of the last halving, which row of each pair stays, are revised.  A revision reuses
stored cell numbers and takes a tenth of the time of a sample.  A safety limit of time: two more revisions take off less
than .3 % of the error."""

WORK, WORK_OF_TRIPLES = 45_000_000, 8_000_000
"""Most table cells that all halvings look up together (about 0.4 seconds), and most for three-column tables in one halving.
Samples of more rows than the first allows are plain draws, as their sampling error is small. Both grow in proportion to
``balance``. Safety limits of time: twice the second takes 1 % off the error of Adult, for .2 seconds."""

MOST_CELLS, REMEMBERED = 2**24 - 1, 5_000_000
"""First, the most cells of all balanced tables together, 2^24 - 1: 32-bit floats hold cell numbers up to 2^24 exactly
(derived).  Second, the most cell numbers that are stored to revise decisions, 80 MB.  A safety limit of memory."""

NUMBERED = 150_000
"""Number of cell numbers that are computed in one block, about what a processor's cache holds.  A safety limit of time:
the sampled rows are the same for any value."""

WORK_OF_ROW = 15
"""Time to draw and sort one row, in cell lookups.  A safety limit of time with `WORK`: it limits the halvings of tables
with few columns."""

MOST_HALVINGS = 4
"""Most halvings.  A later halving halves the imbalance of an earlier one, so one more gains little, for twice the rows.  A
safety limit of time."""

MOST_BALANCE = 16.0
"""Largest value of the ``balance`` parameter: at most this many times the usual time is spent.  A safety limit."""

WORK_INSIDE = 2_000_000
"""Most cells of tables of intervals inside coarse bins that one halving looks up.  A halving has twice the rows of the
next one, so only the last halvings stay within it.  A safety limit of time."""


LEAST_ALIKE = 0.5
"""Intervals inside coarse bins are balanced if at least this fraction of the pairs of rows lie in the same coarse bins.
Tables of coarse bins are the same whichever row of such a pair stays, so that finer tables may decide.  A tolerance: at
fractions near 1 the variance of fine tables falls by a fourth, at .5 to .8 it stays within a tenth
(docs/benchmarks/sweep.md)."""


class Inside(NamedTuple):
    """Holds how fine bins are drawn inside coarse bins, and the intervals inside coarse bins that are balanced.

    Parameters
    ----------
    draw
        Function that returns (n, d) fine bins for (n, d) coarse bins, each fine bin inside its coarse bin.
    classes
        For each column, the (fine bins,) interval of each fine bin; two-column tables of intervals are balanced.
    several
        For each column, whether some coarse bin holds fine bins of several intervals.
    """

    draw: Callable[[Codes], Codes]
    classes: Sequence[IntArray]
    several: Sequence[bool]


def balanced_inside(
    distribution: Distribution,
    rows: int,
    rng: Generator,
    inside: Inside,
    *,
    given: Evidence | None = None,
    balance: float = 1.0,
) -> tuple[Codes, Codes | None]:
    """Draw rows whose low-order tables are close to the distribution's.

    Up to 16 times as many rows are drawn and then halved.  Where most pairs of rows share their coarse bins, the last
    halvings also balance intervals inside these bins, if there is time.  Each row of a pair is equally likely to stay,
    so expected counts are the distribution's.

    Parameters
    ----------
    distribution
        The distribution to draw from.
    rows
        The number of rows, >= 1.
    rng
        Source of randomness.
    inside
        The fine bins and the intervals inside coarse bins.
    given
        Evidence, as in `Distribution.sample`.
    balance
        Limit of work, as a multiple of the usual work, >= 0; 0 for plain draws.

    Returns
    -------
    (rows, d) coarse bins and (rows, d) fine bins; ``None`` in place of the fine bins if no halving balances
    them, so that they are still to be drawn.
    """
    shape = distribution.shape
    halvings = _halvings(rows, shape, balance)
    most_inside = min(halvings, _halvings_inside(rows, len(shape), balance)) if halvings and any(inside.several) else 0
    codes = distribution.sample(rows * 2**halvings, rng, given=given)
    cells: Codes | None = None
    for left in reversed(range(halvings)):
        if cells is None:
            pairs = _similar(codes, shape, np.argsort(shape, kind="stable"))
            if left >= most_inside or pairs.equal < LEAST_ALIKE * len(pairs.first):
                codes = codes[_kept_outside(codes, pairs, shape, rng, left=left, balance=balance)]
                continue
            cells = inside.draw(codes)
        kept = _kept_inside(codes, cells, shape, inside, rng, left=left, balance=balance)
        codes, cells = codes[kept], cells[kept]
    return codes, cells


def _halvings(rows: int, shape: Sequence[int], balance: float) -> int:
    """Return the number of halvings, 0 to 4: as many as `WORK` allows, since each needs twice the rows of the next.

    The number is 0 if the tables are too large to gain (`CELLS_A_DECISION`), for one row or column, and for ``balance``
    0.
    """
    if rows == 1 or len(shape) < 2 or balance == 0:
        return 0
    if sum(_cells_of_pairs(shape, rows)) > CELLS_A_DECISION * rows * max(balance, 1.0):
        return 0
    work = rows * (math.comb(len(shape), 2) + WORK_OF_ROW)
    return min(MOST_HALVINGS, int(math.log2(1 + balance * WORK / work)))


def _halvings_inside(rows: int, columns: int, balance: float) -> int:
    """Return how many halvings may also balance intervals inside coarse bins; they are the last ones.

    Each of them may look up at most `WORK_INSIDE` times ``balance`` cells.  ``rows`` is the number of rows that are
    wanted, of at least two columns; ``balance`` is above 0.
    """
    work = 2 * math.comb(columns, 2) * rows
    return max(0, 1 + math.floor(math.log2(balance * WORK_INSIDE / work)))


def _cells_of_pairs(shape: Sequence[int], decisions: int) -> list[int]:
    """Return the number of cells of each two-column table that is small enough to balance by ``decisions`` pairs of rows.

    The caller compares the sum with `CELLS_A_DECISION` to decide whether rows are halved.
    """
    sizes = (a * b for a, b in itertools.combinations(shape, 2))
    return [size for size in sizes if size <= max(decisions, FEWEST_CELLS)]


def halved(codes: Codes, shape: Sequence[int], rng: Generator, *, left: int = 0, balance: float = 1.0) -> Codes:
    """Return half of the rows, (m, d) codes of (2m, d), such that two-column counts stay near half of the input's.

    Rows are paired by similarity, and one row of each pair stays.  A cell has a surplus if more than half of its rows
    have stayed so far.  Of each pair, the row whose cells have the larger surplus goes (greedy vector balancing).
    Pairs are decided in batches, in random order.  Then decisions are revised if that lowers the sum of squared
    surpluses.  The rules treat both rows of a pair alike, so every row stays with probability exactly 1/2.

    Parameters
    ----------
    codes
        (2 m, d) codes with d >= 2.
    shape
        Number of codes of each column.
    rng
        Source of randomness.
    left
        Number of halvings that follow.  Each divides this halving's imbalance by 2, so earlier halvings may be coarser.
    balance
        Limit of work, as a multiple of the usual work, > 0.

    Returns
    -------
    (m, d) codes in random order.
    """
    pairs = _similar(codes, shape, np.argsort(shape, kind="stable"))
    return codes[_kept_outside(codes, pairs, shape, rng, left=left, balance=balance)]


def _kept_outside(
    codes: Codes, pairs: _Pairs, shape: Sequence[int], rng: Generator, *, left: int, balance: float
) -> IntArray:
    """Return the positions of the rows that stay, (m,) of (2m,): one halving that balances tables of coarse bins alone.

    ``left`` and ``balance`` are parameters of `halved`.
    """
    tables = _numbering(shape, _balanced_tables(shape, pairs.different, left=left, balance=balance))
    return _kept(codes, pairs, tables, rng, left=left, balance=balance)


def _kept_inside(
    codes: Codes, cells: Codes, shape: Sequence[int], inside: Inside, rng: Generator, *, left: int, balance: float
) -> IntArray:
    """Return the positions of the rows that stay, (m,) of (2m,): one halving that balances intervals inside coarse bins too.

    The two-column tables of intervals are added to the tables of coarse bins.  ``left`` and ``balance`` are parameters
    of `halved`.
    """
    d = len(shape)
    of_cells = [classes[cells[:, j]] for j, classes in enumerate(inside.classes)]
    both = np.column_stack([*of_cells, codes]).astype(np.int32)
    sizes = [*(int(classes.max()) + 1 for classes in inside.classes), *shape]
    groups_first = np.array([*(d + np.argsort(shape, kind="stable")), *np.argsort(sizes[:d], kind="stable")])
    pairs = _similar(both, sizes, groups_first)
    fine = (pair for pair in itertools.combinations(range(d), 2) if any(inside.several[j] for j in pair))
    most, coarse = (
        max(pairs.different, FEWEST_CELLS),
        _balanced_tables(shape, pairs.different, left=left, balance=balance),
    )
    cliques = [
        *(tuple(d + j for j in clique) for clique in coarse),
        *((a, b) for a, b in fine if sizes[a] * sizes[b] <= most),
    ]
    return _kept(both, pairs, _numbering(sizes, cliques), rng, left=left, balance=balance)


class _Pairs(NamedTuple):
    """Holds pairs of similar rows; one row of each pair can go.

    Parameters
    ----------
    first, second
        (m,) positions of the rows; pairs of equal rows come first.
    equal
        Number of pairs of equal rows.
    """

    first: IntArray
    second: IntArray
    equal: int

    @property
    def different(self) -> int:
        """Return the number of pairs whose rows are not equal, so that it matters which row goes."""
        return len(self.first) - self.equal


def _similar(codes: Codes, shape: Sequence[int], order: IntArray) -> _Pairs:
    """Return pairs of similar rows such that every row is in one pair; the number of rows must be even.

    A halving keeps one row of each pair, and similar rows can stand for each other.  Equal rows are paired first.  Then
    rows are paired that agree in all columns except the last of ``order``, then except the last two, and so on.
    ``order`` holds all columns' positions.
    """
    columns = [np.ascontiguousarray(narrow(codes[:, j], shape[j])) for j in order]
    left = np.lexsort(columns[::-1])  # numbers of one or two bytes are sorted by their digits: three times as fast
    alike = np.zeros(len(left) - 1, np.int16)  # columns that neighbours share
    same = np.ones(len(left) - 1, np.bool_)
    for column in columns:
        ordered = column[left]
        same &= ordered[1:] == ordered[:-1]
        alike += same
    pairs = []
    for least in range(len(columns), -1, -1):
        begins = np.concatenate([[0], 1 + np.flatnonzero(alike < least), [len(left)]])
        place = np.arange(len(left)) - begins[:-1].repeat(begins[1:] - begins[:-1])
        at = np.flatnonzero((alike >= least) & (place[:-1] % 2 == 0))
        pairs.append((left[at], left[at + 1]))
        alone = np.ones(len(left), np.bool_)
        alone[at] = alone[at + 1] = False
        others = np.flatnonzero(alone)
        if not len(others):
            break
        left, alike = left[others], np.minimum.reduceat(alike[: others[-1]], others[:-1])
    first, second = zip(*pairs, strict=True)
    return _Pairs(np.concatenate(first), np.concatenate(second), len(first[0]))


def _kept(codes: Codes, pairs: _Pairs, tables: _Tables, rng: Generator, *, left: int, balance: float) -> IntArray:
    """Return the positions of the rows that stay, (m,), one of each of m pairs, in random order if no halving follows.

    Pairs of different rows are decided in random order.  A halving that follows sorts the rows, so that order is lost.
    ``left`` and ``balance`` are parameters of `halved`.
    """
    looks = 0 if left else max(LOOKS, round(LOOKS * balance))
    at_once = max(1, min(tables.at_once * 2**left, pairs.different // FEWEST_BATCHES))
    differ = pairs.equal + rng.permutation(pairs.different)
    first, second = pairs.first[differ], pairs.second[differ]
    keep_second = _decide(codes[first], codes[second], tables, rng, at_once=at_once, looks=looks)
    kept = np.concatenate([pairs.first[: pairs.equal], np.where(keep_second, second, first)])
    return kept if left else kept[rng.permutation(len(kept))]


def _decide(first: Codes, second: Codes, tables: _Tables, rng: Generator, *, at_once: int, looks: int) -> BoolArray:
    """Return for each pair of rows whether the second row stays, (pairs,), chosen to keep all tables balanced.

    The first batch and ties are decided by coin tosses.  A batch has ``at_once`` pairs; all decisions are revised
    ``looks`` times.
    """
    surplus = np.zeros(tables.cells, np.int32)
    kept = np.where(
        rng.random(len(first)) < 0.5, np.int32(1), np.int32(-1)
    )  # 1 is the first row; coins decide ties only
    again: list[tuple[AnyArray, _Cells]] = []
    remembered = 0
    for at, cells in _blocks_of_cells(first, second, tables, at_once):
        some = kept[at : at + len(cells.counts)]
        some[some * _excess(surplus, cells) > 0] *= -1
        _add(surplus, cells, some.repeat(cells.counts))
        if looks and remembered + len(cells.first) <= REMEMBERED:
            remembered += len(cells.first)
            again.append((some, cells))
    for some, cells in again * looks:
        turned = some * _excess(surplus, cells) > 2 * cells.counts
        if turned.any():
            some[turned] *= -1
            of_turned = turned.repeat(cells.counts)
            few = _Cells(cells.first[of_turned], cells.second[of_turned], cells.begins, cells.counts[turned])
            _add(surplus, few, 2 * some[turned].repeat(few.counts))
    return kept < 0


class _Tables(NamedTuple):
    """Holds the numbers of the cells of all balanced tables.

    A cell's number is the sum over columns of factor times code, plus the offset of its table.

    Parameters
    ----------
    factors
        (d + 1, t) factor of each column in each table, 0 for columns not in the table; the last row holds the offsets.
    cells
        Total number of cells, at most `MOST_CELLS`.
    """

    factors: AnyArray
    cells: int

    @property
    def at_once(self) -> int:
        """Return the number of row pairs in one batch: half the cells of a mean table, up to 64.

        All pairs of a batch are decided from the same counts, so larger batches are faster but balance less.
        """
        of_mean: int = self.cells // (2 * max(self.factors.shape[1], 1))
        return min(max(of_mean, 1), MOST_AT_ONCE)


class _Cells(NamedTuple):
    """Holds, for each pair of rows, the cells that only one of the two rows lies in: a decision changes their counts alone.

    Parameters
    ----------
    first, second
        Cell numbers of the first rows, pair after pair, and of the second rows.
    begins
        (pairs + 1,) position of each pair's first cell, then the total.
    counts
        (pairs,) number of cells of each pair, equal for both rows.
    """

    first: IntArray
    second: IntArray
    begins: IntArray
    counts: IntArray


def _blocks_of_cells(first: Codes, second: Codes, tables: _Tables, at_once: int) -> Iterator[tuple[int, _Cells]]:
    """Yield batches of at most ``at_once`` pairs: the position of the batch's first pair, and the cells of its pairs.

    Cell numbers are computed for many batches by one matrix product, for speed.
    """
    many = at_once * max(1, NUMBERED // (at_once * max(tables.factors.shape[1], 1)))
    ones = np.ones((min(many, len(first)), 1), np.float32)
    for start in range(0, len(first), many):
        some = slice(start, start + many)
        a, b = (np.hstack([rows[some], ones[: len(rows[some])]]) @ tables.factors for rows in (first, second))
        differ = a != b
        places = np.flatnonzero(differ)
        of_first, of_second = (numbers.take(places).astype(np.int64) for numbers in (a, b))
        counts = np.count_nonzero(differ, axis=1)
        ends = np.concatenate([[0], counts.cumsum()])
        for at in range(0, len(counts), at_once):
            begins = ends[at : at + at_once + 1]
            here = slice(begins[0], begins[-1])
            yield start + at, _Cells(of_first[here], of_second[here], begins - begins[0], counts[at : at + at_once])


def _excess(surplus: AnyArray, cells: _Cells) -> IntArray:
    """Return for each pair the summed surplus of the first row's cells minus the second row's, (pairs,), in rows.

    The surplus of a cell is its number of rows that stayed minus its rows that went.  If the result is above 0, the
    first row should go, else the second.
    """
    sums = np.zeros(len(cells.first) + 1, np.int64)
    excess = surplus.take(cells.first)
    excess -= surplus.take(cells.second)
    excess.cumsum(out=sums[1:])
    at = sums.take(cells.begins)
    return np.asarray(at[1:] - at[:-1], np.int64)


def _add(surplus: AnyArray, cells: _Cells, change: AnyArray) -> None:
    """Add ``change`` to the surplus of the first rows' cells and subtract it from the second rows' cells, in place.

    ``change`` records decisions: 1 for a first row that stays, -1 for one that goes; twice as much for a decision that
    is reversed.
    """
    np.add.at(surplus, cells.first, change)  # fast for vectors alone, all of one type
    np.subtract.at(surplus, cells.second, change)


def _balanced_tables(shape: Sequence[int], decisions: int, *, left: int, balance: float) -> list[Clique]:
    """Return the two- and three-column tables that are small enough to be balanced by ``decisions`` pairs of rows.

    Three-column tables are balanced if time allows.  Earlier halvings have more pairs, and their imbalance counts less.
    ``left`` and ``balance`` are parameters of `halved`.
    """
    most = {2: max(decisions, FEWEST_CELLS)}
    work = math.comb(len(shape), 3) * decisions * 4**left
    if work <= balance * WORK_OF_TRIPLES:
        most[3] = decisions
    return [
        clique
        for ways, cells in most.items()
        for clique in itertools.combinations(range(len(shape)), ways)
        if math.prod(shape[j] for j in clique) <= cells
    ]


def _numbering(shape: Sequence[int], cliques: Sequence[Clique]) -> _Tables:
    """Return the numbers of the cells of the first tables that together have at most `MOST_CELLS` cells.

    One matrix product then numbers the cells of all tables.  Later tables are not balanced.
    """
    ends = list(itertools.accumulate((math.prod(shape[j] for j in clique) for clique in cliques), initial=0))
    few = cliques[: bisect.bisect_right(ends, MOST_CELLS) - 1]
    factors = np.zeros((len(shape) + 1, len(few)), np.float32)
    for i, clique in enumerate(few):
        factor = 1
        for j in reversed(clique):
            factors[j, i] = factor
            factor *= shape[j]
    factors[-1] = ends[: len(few)]
    return _Tables(factors, ends[len(few)])
