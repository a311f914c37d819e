"""Rows of a distribution whose tables of few columns are nearer to the distribution's than chance would make them.

A finite sample is a large part of the error of a good model.  More rows than wanted are drawn and halved, keeping of two
similar rows the one that the tables lack.  Knows no model: it takes anything that samples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from synthdp.arrays import BoolArray, Codes, IntArray
from synthdp.distribution.protocol import Distribution, Evidence
from synthdp.randomness import Generator

BLOCKS, MOST_AT_ONCE = 500, 32
"""Pairs of rows are decided in so many blocks, or more where a block, decided on the same tables, would have too many."""

FEWEST_CELLS = 1000
"""Tables with more cells than this and than rows are left out: hardly a cell of theirs is met twice."""

DECISIONS_A_CELL = 32
"""Tables of three columns are balanced where there are so many decisions for each of their cells: else pairs lose by it."""

WORK, WORK_OF_TRIPLES = 45_000_000, 10_000_000
"""Most table cells looked up: about a second; and most of tables of three columns in one halving.  Beyond it rows are plain
draws, whose error is small by then."""

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

    Rows are sorted and paired with their neighbours.  Of two equal rows it does not matter which goes.  The other pairs are
    decided one after another, in random order: the row goes whose cells have kept more than their half so far (vector
    balancing by the greedy rule).  The rule is symmetric under exchanging all decisions, and the first is a coin, so that
    every row stays with probability 1/2, exactly.

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
    codes = codes[np.lexsort(codes.T)]
    first, second = codes[0::2], codes[1::2]
    differ = rng.permutation(np.flatnonzero((first != second).any(axis=1)))
    keep_second = _decide(first[differ].astype(np.int64), second[differ].astype(np.int64), shape, rng)
    kept = np.array(first, order="F")
    kept[differ[keep_second]] = second[differ[keep_second]]
    return kept[rng.permutation(len(kept))]


def _decide(first: Codes, second: Codes, shape: Sequence[int], rng: Generator) -> BoolArray:
    """Return for each pair of rows whether the second one stays."""
    columns, factors, starts, cells = _numbering(shape, len(first))
    surplus = np.zeros(cells)
    coins = rng.random(len(first)) - 0.5  # surpluses are whole numbers: a coin decides ties only
    keep = np.zeros(len(first), np.bool_)
    block = min(MOST_AT_ONCE, 1 + len(first) // BLOCKS)
    for at in range(0, len(first), block):
        here = slice(at, at + block)
        a, b = (starts + (rows[here].take(columns, 1) * factors).sum(axis=2) for rows in (first, second))
        keep[here] = surplus.take(a).sum(axis=1) - surplus.take(b).sum(axis=1) + coins[here] > 0
        sign = np.repeat(np.where(keep[here], -1.0, 1.0), len(starts))
        np.add.at(surplus, a.ravel(), sign)  # fast for vectors alone
        np.subtract.at(surplus, b.ravel(), sign)
    return keep


def _numbering(shape: Sequence[int], decisions: int) -> tuple[IntArray, IntArray, IntArray, int]:
    """Return a number for every cell of the tables of two and three columns that so many decisions can balance.

    Returns
    -------
    For each of t tables its columns, (t, 3), and the factors of their codes, which are 0 for a column too many; where
    its cells begin, (t,); and how many there are in all.
    """
    most = {2: max(decisions, FEWEST_CELLS), 3: decisions // DECISIONS_A_CELL}
    if 2 * math.comb(len(shape), 3) * decisions > WORK_OF_TRIPLES:
        del most[3]
    few = [
        clique
        for ways, cells in most.items()
        for clique in itertools.combinations(range(len(shape)), ways)
        if math.prod(shape[j] for j in clique) <= cells
    ]
    columns, factors = np.zeros((len(few), 3), np.int64), np.zeros((len(few), 3), np.int64)
    for i, clique in enumerate(few):
        columns[i, : len(clique)] = clique
        factors[i, : len(clique)] = [math.prod(shape[j] for j in clique[k + 1 :]) for k in range(len(clique))]
    cells = np.array([math.prod(shape[j] for j in clique) for clique in few], np.int64)
    return columns, factors, np.cumsum(cells) - cells, int(cells.sum())
