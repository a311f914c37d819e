"""Symmetric functions of k bits in the Fourier basis: Krawtchouk polynomials, overlaps, and the numbering of subsets.

Arithmetic under `parities`: knows neither tables nor noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np

from synthdp.arrays import FloatArray, IntArray, frozen


@cache
def krawtchouk_sums(k: int, order: int) -> tuple[tuple[int, ...], ...]:
    """Return the sums of all parities of each level, by the number of true bits: exact, (k + 1) rows of order + 1.

    Entry (m, i) is the sum over subsets S of k bits with |S| = i of prod_{j in S} (-1)^{bit j}, where m bits are 1:
    K_i(m) = sum_j (-1)^j C(m, j) C(k - m, i - j).  So a symmetric f with f(m) = sum_i b_i K_i(m) has the Fourier
    coefficient b_i on every parity of order i.

    Notes
    -----
    By the recurrence (i + 1) K_{i+1}(m) = (k - 2m) K_i(m) - (k - i + 1) K_{i-1}(m).
    """
    rows: list[tuple[int, ...]] = []
    for m in range(k + 1):
        row = [0, 1]
        for i in range(order):
            row.append(((k - 2 * m) * row[-1] - (k - i + 1) * row[-2]) // (i + 1))
        rows.append(tuple(row[1:]))
    return tuple(rows)


@cache
def krawtchouk(k: int, order: int) -> FloatArray:
    """Return `krawtchouk_sums` in floating point, (k + 1, order + 1)."""
    return frozen(np.array(krawtchouk_sums(k, order), np.float64))


def fourier_coefficients(values: Sequence[float]) -> FloatArray:
    """Return the Fourier coefficient of a symmetric function on each level, (k + 1,), each to the last digit.

    Parameters
    ----------
    values
        (k + 1,) the function by the number of true bits.

    Notes
    -----
    b_i = 2^-k sum_m C(k, m) f(m) K_m(i), since C(k, i) K_m(i) = C(k, m) K_i(m).  The sums cancel, so they are exact.
    """
    k = len(values) - 1
    exact = [Fraction(float(value)) for value in values]
    sums = [sum((f * size for f, size in zip(exact, row, strict=True)), Fraction(0)) for row in krawtchouk_sums(k, k)]
    return np.array([float(total / 2**k) for total in sums], np.float64)


def level_sizes(d: int, order: int) -> tuple[int, ...]:
    """Return how many subsets of d bits each level from 0 to ``order`` has."""
    return tuple(math.comb(d, i) for i in range(order + 1))


def odd_overlaps(d: int, order: int, flips: Iterable[int]) -> list[list[int]]:
    """Return how many subsets of each level change their parity when some bits are flipped.

    Row per number f of flipped bits, column per level i from 0 to ``order``: the number of i-subsets that meet the f
    flipped bits in an odd number, sum over odd j of C(f, j) C(d - f, i - j).
    """
    return [
        [sum(math.comb(f, j) * math.comb(d - f, i - j) for j in range(1, i + 1, 2)) for i in range(order + 1)]
        for f in flips
    ]


def ranks(subsets: IntArray, d: int) -> IntArray:
    """Return the place of subsets among all of their size in lexicographic order; (n, i) sorted rows -> (n,)."""
    n, size = subsets.shape
    place = np.zeros(n, np.int64)
    before = np.full(n, -1, np.int64)
    for j in range(size):
        chosen = subsets[:, j]
        table = _binomials(d, size - j)
        place += table[d - 1 - before] - table[d - chosen]
        before = chosen
    return place


def subsets_of(d: int, size: int) -> IntArray:
    """Return all subsets of range(d) of one size in lexicographic order, (C(d, size), size)."""
    every = list(itertools.combinations(range(d), size))
    return np.array(every, np.int64).reshape(len(every), size)


@cache
def _binomials(d: int, size: int) -> IntArray:
    return frozen(np.array([math.comb(n, size) for n in range(d + 1)], np.int64))
