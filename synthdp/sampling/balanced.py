"""Rows of a distribution whose tables of pairs are nearer to the distribution's than chance would make them.

A finite sample is a large part of the error of a good model.  More rows than wanted are drawn and halved, keeping of two
similar rows the one that the tables lack.  Knows no model: it takes anything that samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthdp.arrays import BoolArray, Codes
from synthdp.distribution.protocol import Distribution, Evidence
from synthdp.randomness import Generator

BLOCK = 32
"""Pairs of rows that are decided at once, on the same tables."""

FEWEST_CELLS = 1000
"""Tables with more cells than this and than rows are left out: hardly a cell of theirs is met twice."""

WORK = 10_000_000
"""Most table cells looked up: about half a second.  Beyond it rows are plain draws, whose error is small by then."""


def balanced_sample(distribution: Distribution, rows: int, rng: Generator, *, given: Evidence | None = None) -> Codes:
    """Draw rows, four or two times as many as wanted, and halve them; (rows, d) codes.

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
    lookups = rows * len(distribution.shape) * (len(distribution.shape) - 1) // 2
    halvings = 2 if 3 * lookups <= WORK else 1 if lookups <= WORK else 0
    if rows == 1 or lookups == 0:
        halvings = 0
    codes = distribution.sample(rows * 2**halvings, rng, given=given)
    for _ in range(halvings):
        codes = halved(codes, distribution.shape, rng)
    return codes


def halved(codes: Codes, shape: Sequence[int], rng: Generator) -> Codes:
    """Keep one of every two similar rows, so that the tables of pairs of columns stay in proportion.

    Rows are sorted and paired with their neighbours.  Pairs are decided one after another, in random order: the row goes
    whose cells have kept more than their half so far (vector balancing by the greedy rule).  The rule is symmetric under
    exchanging all decisions, and the first is a coin, so that every row stays with probability 1/2, exactly.

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
    order = rng.permutation(len(first))
    keep_second = _decide(first[order].astype(np.int64), second[order].astype(np.int64), shape, rng)
    kept = np.empty((len(first), codes.shape[1]), codes.dtype, order="F")
    kept[:] = np.where(keep_second[:, None], second[order], first[order])
    return kept


def _decide(first: Codes, second: Codes, shape: Sequence[int], rng: Generator) -> BoolArray:
    """Return for each pair of rows whether the second one stays."""
    sizes = np.asarray(shape, np.int64)
    left, right = np.triu_indices(len(shape), 1)
    few = sizes[left] * sizes[right] <= max(len(first), FEWEST_CELLS)
    left, right = left[few], right[few]
    width = sizes[right]
    cells = sizes[left] * width
    start = np.cumsum(cells) - cells
    surplus = np.zeros(int(cells.sum()))
    coins = rng.random(len(first)) - 0.5  # surpluses are whole numbers: a coin decides ties only
    keep = np.zeros(len(first), np.bool_)
    for at in range(0, len(first), BLOCK):
        here = slice(at, at + BLOCK)
        a, b = (rows[here].take(left, 1) * width + rows[here].take(right, 1) + start for rows in (first, second))
        keep[here] = surplus.take(a).sum(axis=1) - surplus.take(b).sum(axis=1) + coins[here] > 0
        sign = np.repeat(np.where(keep[here], -1.0, 1.0), len(left))
        np.add.at(surplus, a.ravel(), sign)  # fast for vectors alone
        np.subtract.at(surplus, b.ravel(), sign)
    return keep
