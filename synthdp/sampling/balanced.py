"""Rows of a distribution whose tables of few columns are nearer to the distribution's than chance would make them.

A finite sample is a large part of the error of a good model.  More rows than wanted are drawn and halved, keeping of two
similar rows the one that the tables lack.  Where there is time, these are tables of groups and of what is inside them.
Knows no model: it takes anything that samples.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, Clique, Codes, IntArray
from synthdp.distribution.protocol import Distribution, Evidence
from synthdp.randomness import Generator

BLOCKS, MOST_AT_ONCE = 500, 32
"""Pairs of rows are decided in so many blocks, or more where a block, decided on the same tables, would have too many."""

FEWEST_CELLS = 1000
"""Tables with more cells than this and than rows are left out: hardly a cell of theirs is met twice."""

DECISIONS_A_CELL = 4
"""Tables of three columns are balanced where there are so many decisions for each of their cells."""

MOST_LOOKS = 5
"""How often decisions are looked at again at most; the last looks turn few."""

WORK, WORK_OF_TRIPLES = 45_000_000, 18_000_000
"""Most table cells looked up: about a second; and most of tables of three columns in one halving.  Beyond it rows are plain
draws, whose error is small by then."""

MOST_CELLS, REMEMBERED = 20_000_000, 10_000_000
"""Most cells of all tables; and most that are remembered, of rows and tables, to look at decisions again: 80 MB each.  All
looks together look up twice as many."""

WORK_OF_ROW = 15
"""To draw and sort a row takes as long as so many lookups."""

MOST_HALVINGS = 4
"""Times that rows are halved at most."""


WORK_INSIDE = 2_000_000
"""Most table cells inside groups that are looked up in one halving.  The last halvings, of the fewest rows, tell most."""


class Inside(NamedTuple):
    """What is inside the groups that codes stand for.

    Parameters
    ----------
    draw
        Returns (n, d) cells for (n, d) codes, each of them inside its code's group.
    classes
        For each column which of few classes each cell is in; tables of these are balanced.
    several
        For each column whether some group holds cells of several classes.
    """

    draw: Callable[[Codes], Codes]
    classes: Sequence[IntArray]
    several: Sequence[bool]


def balanced_sample(distribution: Distribution, rows: int, rng: Generator, *, given: Evidence | None = None) -> Codes:
    """Draw rows, up to sixteen times as many as wanted, and halve them; (rows, d) codes.

    Expectations are those of the distribution: which row of a pair goes is as likely one as the other.

    Parameters
    ----------
    distribution
        To draw from.
    rows
        How many, >= 1.
    rng
        Source of randomness.
    given
        Evidence, as in `Distribution.sample`.
    """
    halvings = _halvings(rows, len(distribution.shape))
    codes = distribution.sample(rows * 2**halvings, rng, given=given)
    for _ in range(halvings):
        codes = halved(codes, distribution.shape, rng)
    return codes


def balanced_inside(
    distribution: Distribution, rows: int, rng: Generator, inside: Inside, *, given: Evidence | None = None
) -> tuple[Codes, Codes | None]:
    """Draw rows as `balanced_sample` does, the last halvings of which look inside groups, too.

    Parameters
    ----------
    distribution, rows, rng, given
        As above.
    inside
        What is inside the groups.

    Returns
    -------
    (rows, d) codes and (rows, d) cells; ``None`` in place of the cells where no halving has the time to look at them.
    """
    shape = distribution.shape
    halvings = _halvings(rows, len(shape))
    last = min(halvings, _halvings_inside(rows, len(shape))) if any(inside.several) else 0
    codes = distribution.sample(rows * 2**halvings, rng, given=given)
    for _ in range(halvings - last):
        codes = halved(codes, shape, rng)
    if last == 0:
        return codes, None
    cells = inside.draw(codes)
    for _ in range(last):
        kept = _kept_inside(codes, cells, shape, inside, rng)
        codes, cells = codes[kept], cells[kept]
    return codes, cells


def _halvings(rows: int, columns: int) -> int:
    """Return how often rows are halved in all."""
    pairs = math.comb(columns, 2)
    work = rows * (pairs + WORK_OF_ROW)
    return min(MOST_HALVINGS, int(math.log2(1 + WORK // work))) if rows > 1 and pairs > 0 else 0


def _halvings_inside(rows: int, columns: int) -> int:
    """Return how many halvings may look inside groups: one that leaves m rows decides m times, between two in each table."""
    work = 2 * math.comb(columns, 2) * rows
    return sum(work * 2**number <= WORK_INSIDE for number in range(MOST_HALVINGS))


def halved(codes: Codes, shape: Sequence[int], rng: Generator) -> Codes:
    """Keep one of every two similar rows, so that the tables of pairs of columns stay in proportion, and of three if few.

    Of two equal rows it does not matter which goes.  The other pairs are decided one after another, in random order: the
    row goes whose cells have kept more than their half so far (vector balancing by the greedy rule).  Then decisions are
    looked at again, and turned where that lessens the squares of what cells have kept too much or too little.  Both rules
    are symmetric under exchanging all decisions, and ties are coins, so that every row stays with probability 1/2, exactly.

    Parameters
    ----------
    codes
        (2 m, d) codes with d >= 2.
    shape
        Number of codes of each column.
    rng
        Source of randomness.

    Returns
    -------
    (m, d) codes in random order.
    """
    first, second = (np.asfortranarray(codes[rows]) for rows in _similar(codes[:, np.argsort(shape, kind="stable")]))
    differ = rng.permutation(np.flatnonzero((first != second).any(axis=1)))
    tables = _numbering(shape, _balanced_tables(shape, len(differ)))
    keep_second = differ[_decide(first[differ], second[differ], tables, rng)]
    first[keep_second] = second[keep_second]
    return first[rng.permutation(len(first))]


def _kept_inside(codes: Codes, cells: Codes, shape: Sequence[int], inside: Inside, rng: Generator) -> IntArray:
    """Return the places of the half of rows that stays, by tables of groups and by pairs of classes inside them."""
    d = len(shape)
    of_cells = [classes[cells[:, j]] for j, classes in enumerate(inside.classes)]
    both = np.column_stack([*of_cells, codes]).astype(np.int32)
    sizes = [*(int(classes.max()) + 1 for classes in inside.classes), *shape]
    groups_first = [*(d + np.argsort(shape, kind="stable")), *np.argsort(sizes[:d], kind="stable")]
    first, second = _similar(both[:, groups_first])
    differ = rng.permutation(np.flatnonzero((both[first] != both[second]).any(axis=1)))
    fine = (pair for pair in itertools.combinations(range(d), 2) if any(inside.several[j] for j in pair))
    most = max(len(differ), FEWEST_CELLS)
    cliques = [
        *(tuple(d + j for j in clique) for clique in _balanced_tables(shape, len(differ))),
        *((a, b) for a, b in fine if sizes[a] * sizes[b] <= most),
    ]
    keep_second = differ[_decide(both[first[differ]], both[second[differ]], _numbering(sizes, cliques), rng)]
    first[keep_second] = second[keep_second]
    return np.asarray(first[rng.permutation(len(first))])


def _similar(ordered: Codes) -> tuple[IntArray, IntArray]:
    """Pair equal rows; of those left the ones equal but in the last column, then but in the last two, and so on."""
    columns = ordered.shape[1]
    left = np.lexsort(ordered.T[::-1])
    ordered = ordered[left]
    alike = np.logical_and.accumulate(ordered[1:] == ordered[:-1], axis=1).sum(axis=1)  # columns that neighbours share
    pairs = []
    for least in range(columns, -1, -1):
        begins = np.append(0, 1 + np.flatnonzero(alike < least))
        place = np.arange(len(left)) - np.repeat(begins, np.diff(np.append(begins, len(left))))
        at = np.flatnonzero((alike >= least) & (place[:-1] % 2 == 0))
        pairs.append((left[at], left[at + 1]))
        others = np.delete(np.arange(len(left)), np.append(at, at + 1))
        if not len(others):
            break
        left, alike = left[others], np.minimum.reduceat(alike[: others[-1]], others[:-1])
    first, second = zip(*pairs, strict=True)
    return np.concatenate(first), np.concatenate(second)


def _decide(first: Codes, second: Codes, tables: _Tables, rng: Generator) -> BoolArray:
    """Return for each pair of rows whether the second one stays."""
    surplus = np.zeros(tables.cells, np.int32)
    kept = np.where(rng.random(len(first)) < 0.5, 1, -1).astype(np.int32)  # 1 is the first row; coins decide ties only
    size = min(MOST_AT_ONCE, 1 + len(first) // BLOCKS)
    again: list[tuple[AnyArray, _Cells]] = []
    remembered = 0
    for at in range(0, len(first), size):
        some = kept[at : at + size]
        cells = _cells_that_differ(first[at : at + size], second[at : at + size], tables)
        some[some * _excess(surplus, cells) > 0] *= -1
        _add(surplus, cells, some)
        if remembered + len(cells.first) <= REMEMBERED:
            remembered += len(cells.first)
            again.append((some, cells))
    for some, cells in again * min(MOST_LOOKS, 2 * REMEMBERED // max(remembered, 1)):
        turned = some * _excess(surplus, cells) > 2 * cells.counts
        if turned.any():
            some[turned] *= -1
            _add(surplus, cells, 2 * some * turned)
    return kept < 0


class _Tables(NamedTuple):
    """A number for every cell of some tables: the sum of factors times codes of three columns, and where its table begins.

    Parameters
    ----------
    columns, factors
        (3, t); factors are 0 for a column too many.
    begins
        (t,) numbers of the tables' first cells.
    cells
        How many cells there are in all.
    """

    columns: AnyArray
    factors: AnyArray
    begins: AnyArray
    cells: int


class _Cells(NamedTuple):
    """Cells of tables that hold but one row of a pair.

    Parameters
    ----------
    first, second
        Those of the first rows, pair after pair, and those of the second rows.
    begins
        Where each pair's begin; then the last ones' end.
    counts
        How many each pair has, of either row.
    """

    first: AnyArray
    second: AnyArray
    begins: IntArray
    counts: IntArray


def _cells_that_differ(first: Codes, second: Codes, tables: _Tables) -> _Cells:
    numbers = [np.repeat(tables.begins[:, None], len(first), axis=1) for _ in range(2)]
    for number, rows in zip(numbers, (first, second), strict=True):
        codes = rows.T.astype(np.int32)
        for columns, factors in zip(tables.columns, tables.factors, strict=True):
            number += codes.take(columns, axis=0) * factors[:, None]
    a, b = (np.ascontiguousarray(number.T) for number in numbers)
    differ = a != b
    counts = differ.sum(axis=1)
    return _Cells(a[differ], b[differ], np.append(0, counts.cumsum()), counts)


def _excess(surplus: AnyArray, cells: _Cells) -> IntArray:
    """Return how much more the first row's cells have kept than the second's, of each pair."""
    sums = np.zeros(len(cells.first) + 1, np.int64)
    np.cumsum(surplus.take(cells.first) - surplus.take(cells.second), out=sums[1:])
    at = sums.take(cells.begins)
    return np.asarray(at[1:] - at[:-1], np.int64)


def _add(surplus: AnyArray, cells: _Cells, change: AnyArray) -> None:
    each = change.repeat(cells.counts)
    at = each.nonzero()[0]
    np.add.at(surplus, cells.first[at], each[at])  # fast for vectors alone, all of one type
    np.subtract.at(surplus, cells.second[at], each[at])


def _balanced_tables(shape: Sequence[int], decisions: int) -> list[Clique]:
    """Return the tables of two and three columns that so many decisions can balance."""
    most = {2: max(decisions, FEWEST_CELLS), 3: decisions // DECISIONS_A_CELL}
    if math.comb(len(shape), 3) * decisions > WORK_OF_TRIPLES:
        del most[3]
    return [
        clique
        for ways, cells in most.items()
        for clique in itertools.combinations(range(len(shape)), ways)
        if math.prod(shape[j] for j in clique) <= cells
    ]


def _numbering(shape: Sequence[int], cliques: Sequence[Clique]) -> _Tables:
    """Return numbers for the cells of tables of two and three columns, the first that have `MOST_CELLS` together."""
    ends = list(itertools.accumulate((math.prod(shape[j] for j in clique) for clique in cliques), initial=0))
    few = cliques[: bisect.bisect_right(ends, MOST_CELLS) - 1]
    columns, factors = np.zeros((3, len(few)), np.int32), np.zeros((3, len(few)), np.int32)
    for i, clique in enumerate(few):
        columns[: len(clique), i] = clique
        factors[: len(clique), i] = [math.prod(shape[j] for j in clique[k + 1 :]) for k in range(len(clique))]
    return _Tables(columns, factors, np.array(ends[: len(few)], np.int32), ends[len(few)])
