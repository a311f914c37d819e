"""Rows of a distribution whose tables of few columns are nearer to the distribution's than chance would make them.

A finite sample is a large part of the error of a good model.  More rows than wanted are drawn and halved, keeping of two
similar rows the one that the tables lack.  Knows no model: it takes anything that samples.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, Codes, IntArray
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
    pairs = math.comb(len(distribution.shape), 2)
    work = rows * (pairs + WORK_OF_ROW)
    halvings = min(MOST_HALVINGS, int(math.log2(1 + WORK // work))) if rows > 1 and pairs > 0 else 0
    codes = distribution.sample(rows * 2**halvings, rng, given=given)
    for _ in range(halvings):
        codes = halved(codes, distribution.shape, rng)
    return codes


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
    first, second = (np.asfortranarray(codes[rows]) for rows in _similar(codes, shape))
    differ = rng.permutation(np.flatnonzero((first != second).any(axis=1)))
    keep_second = differ[_decide(first[differ], second[differ], shape, rng)]
    first[keep_second] = second[keep_second]
    return first[rng.permutation(len(first))]


def _similar(codes: Codes, shape: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Pair equal rows; of those left the ones equal but in the column of most codes, then but in two columns, and so on."""
    by = np.argsort(shape, kind="stable")
    left = np.lexsort(codes.T[by[::-1]])
    ordered = codes[left][:, by]
    alike = np.logical_and.accumulate(ordered[1:] == ordered[:-1], axis=1).sum(axis=1)  # columns that neighbours share
    pairs = []
    for least in range(len(shape), -1, -1):
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


def _decide(first: Codes, second: Codes, shape: Sequence[int], rng: Generator) -> BoolArray:
    """Return for each pair of rows whether the second one stays."""
    tables = _numbering(shape, len(first))
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
        turned = some * _excess(surplus, cells) > 2 * np.diff(cells.begins)
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
    """

    first: AnyArray
    second: AnyArray
    begins: IntArray


def _cells_that_differ(first: Codes, second: Codes, tables: _Tables) -> _Cells:
    numbers = [np.repeat(tables.begins[:, None], len(first), axis=1) for _ in range(2)]
    for number, rows in zip(numbers, (first, second), strict=True):
        codes = rows.T.astype(np.int32)
        for columns, factors in zip(tables.columns, tables.factors, strict=True):
            number += codes.take(columns, axis=0) * factors[:, None]
    a, b = (np.ascontiguousarray(number.T) for number in numbers)
    differ = a != b
    return _Cells(a[differ], b[differ], np.append(0, np.cumsum(differ.sum(axis=1))))


def _excess(surplus: AnyArray, cells: _Cells) -> IntArray:
    """Return how much more the first row's cells have kept than the second's, of each pair."""
    sums = np.append(0, np.cumsum(surplus.take(cells.first) - surplus.take(cells.second)))
    return np.diff(sums[cells.begins])


def _add(surplus: AnyArray, cells: _Cells, change: AnyArray) -> None:
    each = np.repeat(change, np.diff(cells.begins))
    at = np.flatnonzero(each)
    np.add.at(surplus, cells.first[at], each[at])  # fast for vectors alone, all of one type
    np.subtract.at(surplus, cells.second[at], each[at])


def _numbering(shape: Sequence[int], decisions: int) -> _Tables:
    """Return the tables of two and three columns that so many decisions can balance."""
    most = {2: max(decisions, FEWEST_CELLS), 3: decisions // DECISIONS_A_CELL}
    if math.comb(len(shape), 3) * decisions > WORK_OF_TRIPLES:
        del most[3]
    few = [
        clique
        for ways, cells in most.items()
        for clique in itertools.combinations(range(len(shape)), ways)
        if math.prod(shape[j] for j in clique) <= cells
    ]
    ends = list(itertools.accumulate((math.prod(shape[j] for j in clique) for clique in few), initial=0))
    del few[bisect.bisect_right(ends, MOST_CELLS) - 1 :]
    columns, factors = np.zeros((3, len(few)), np.int32), np.zeros((3, len(few)), np.int32)
    for i, clique in enumerate(few):
        columns[: len(clique), i] = clique
        factors[: len(clique), i] = [math.prod(shape[j] for j in clique[k + 1 :]) for k in range(len(clique))]
    return _Tables(columns, factors, np.array(ends[: len(few)], np.int32), ends[len(few)])
