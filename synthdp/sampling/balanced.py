"""Rows of a distribution whose tables of few columns are nearer to the distribution's than chance would make them.

A finite sample is a large part of the error of a good model.  More rows than wanted are drawn and halved, keeping of two
similar rows the one that the tables lack.  Where there is time, these are tables of groups and of what is inside them.
Knows no model: it takes anything that samples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from synthdp.arrays import BoolArray, Clique, Codes, IntArray
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
    tables = _tables(shape, len(differ))
    keep_second = _decide(first[differ].astype(np.int64), second[differ].astype(np.int64), shape, tables, rng)
    kept = np.array(first, order="F")
    kept[differ[keep_second]] = second[differ[keep_second]]
    return kept[rng.permutation(len(kept))]


def _kept_inside(codes: Codes, cells: Codes, shape: Sequence[int], inside: Inside, rng: Generator) -> IntArray:
    """Return the places of the half of rows that stays, by tables of groups and by pairs of classes inside them."""
    d = len(shape)
    of_cells = [classes[cells[:, j]] for j, classes in enumerate(inside.classes)]
    both = np.column_stack([*of_cells, codes]).astype(np.int64)
    sizes = [*(int(classes.max()) + 1 for classes in inside.classes), *shape]
    order = np.lexsort(both.T)  # by groups first, inside them by classes
    first, second = order[0::2], order[1::2]
    differ = rng.permutation(np.flatnonzero((both[first] != both[second]).any(axis=1)))
    fine = (pair for pair in itertools.combinations(range(d), 2) if any(inside.several[j] for j in pair))
    most = max(len(differ), FEWEST_CELLS)
    tables = [
        *(tuple(d + j for j in table) for table in _tables(shape, len(differ))),
        *((a, b) for a, b in fine if sizes[a] * sizes[b] <= most),
    ]
    keep_second = _decide(both[first[differ]], both[second[differ]], sizes, tables, rng)
    kept = first.copy()
    kept[differ[keep_second]] = second[differ[keep_second]]
    return np.asarray(kept[rng.permutation(len(kept))])


def _decide(first: Codes, second: Codes, shape: Sequence[int], tables: Sequence[Clique], rng: Generator) -> BoolArray:
    """Return for each pair of rows whether the second one stays, by tables of two and three columns."""
    columns, factors, starts, cells = _numbering(shape, tables)
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


def _tables(shape: Sequence[int], decisions: int) -> list[Clique]:
    """Return the tables of two and three columns that so many decisions can balance."""
    most = {2: max(decisions, FEWEST_CELLS), 3: decisions // DECISIONS_A_CELL}
    if 2 * math.comb(len(shape), 3) * decisions > WORK_OF_TRIPLES:
        del most[3]
    return [
        clique
        for ways, cells in most.items()
        for clique in itertools.combinations(range(len(shape)), ways)
        if math.prod(shape[j] for j in clique) <= cells
    ]


def _numbering(shape: Sequence[int], tables: Sequence[Clique]) -> tuple[IntArray, IntArray, IntArray, int]:
    """Return a number for every cell of tables of two and three columns.

    Returns
    -------
    For each of t tables its columns, (t, 3), and the factors of their codes, which are 0 for a column too many; where
    its cells begin, (t,); and how many there are in all.
    """
    columns, factors = np.zeros((len(tables), 3), np.int64), np.zeros((len(tables), 3), np.int64)
    for i, clique in enumerate(tables):
        columns[i, : len(clique)] = clique
        factors[i, : len(clique)] = [math.prod(shape[j] for j in clique[k + 1 :]) for k in range(len(clique))]
    cells = np.array([math.prod(shape[j] for j in clique) for clique in tables], np.int64)
    return columns, factors, np.cumsum(cells) - cells, int(cells.sum())
