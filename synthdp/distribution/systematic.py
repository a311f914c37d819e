"""Systematic sampling: counts within one of their expectations, in every group of rows.

The only way rows are drawn from tables.  Knows no model; `markov_random_field`, `explicit` and `product` call it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from synthdp.arrays import AnyArray, FloatArray, IntArray
from synthdp.randomness import Generator

_SMALL_GROUP = 256  # rows; smaller groups are shuffled all together, larger ones each on its own, which is faster


def systematic_counts(probabilities: FloatArray, totals: IntArray, rng: Generator) -> IntArray:
    """Round ``totals[:, None] * probabilities`` at random to whole numbers that sum to ``totals``.

    Parameters
    ----------
    probabilities
        (g, k) non-negative weights of each group, with a positive sum; they need not be normalised.
    totals
        (g,) rows of each group.
    rng
        Source of one uniform offset a group.

    Returns
    -------
    (g, k) counts with the right expectation; each differs from it by less than one, as does each sum over
    neighbouring cells.  A cell of probability 0 has count 0, exactly.
    """
    cumulative = np.cumsum(probabilities, axis=1)
    cumulative /= cumulative[:, -1:]  # the last entry is 1 exactly, also where trailing cells have probability 0
    cumulative *= totals[:, None]
    cumulative += rng.random(len(totals))[:, None]
    bounds = np.minimum(cumulative.astype(np.int64), totals[:, None])
    bounds[:, 1:] -= bounds[:, :-1].copy()
    return bounds


def multinomial_counts(probabilities: FloatArray, totals: IntArray, rng: Generator) -> IntArray:
    """Draw the counts of ``totals`` independent rows of each group; parameters as for `systematic_counts`."""
    normalised = probabilities / probabilities.sum(axis=1, keepdims=True)
    return rng.multinomial(totals, normalised).astype(np.int64, copy=False)


def draw_within_groups(
    probabilities: FloatArray, group: AnyArray, rng: Generator, *, independent: bool = False
) -> AnyArray:
    """Draw for each row a cell from its group's distribution, systematically within each group.

    Parameters
    ----------
    probabilities
        (g, k) weights; groups without rows may have any weights.
    group
        (n,) group of each row, in ``range(g)``.
    rng
        Source of randomness.
    independent
        Draw each row on its own instead: counts then scatter as a multinomial law says.

    Returns
    -------
    (n,) cells in the smallest unsigned type.  Within a group the counts are systematic and their assignment
    to rows is a uniformly random one, so that rows that are exchangeable stay so.
    """
    k = probabilities.shape[1]
    totals = np.bincount(group, minlength=len(probabilities))
    present = np.flatnonzero(totals)
    rounding = multinomial_counts if independent else systematic_counts
    counts = rounding(probabilities[present], totals[present], rng)
    cells = np.tile(np.arange(k, dtype=np.min_scalar_type(max(k - 1, 0))), len(present))
    values = np.repeat(cells, counts.ravel())
    ends = np.cumsum(totals[present])
    if len(present) * _SMALL_GROUP > len(group):
        order = rng.permutation(len(group))
        order = order[np.argsort(group[order], kind="stable")]
    else:
        for first, end in pairwise([0, *ends.tolist()]):
            rng.shuffle(values[first:end])
        if len(present) <= 1:
            return values
        radix = group.astype(np.uint16, copy=False) if len(totals) <= 2**16 else group
        order = np.argsort(radix, kind="stable")
    drawn = np.empty_like(values)
    drawn[order] = values
    return drawn
