"""How far public counts are from private ones, told from noisy answers: empirical Bayes.  Post-processing.

A private count x of a cell in which public rows expect m is x = m + e with E e^2 = v m + t: v, the rows of the private table
for each effective row of the public one, is the sampling error of the latter and known; t is what else sets them apart.  A
noisy answer y has E (y - m)^2 = v m + t + sigma^2, so that answers tell t for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import truncnorm

from synthdp.arrays import FloatArray

SURPRISE = 4.0
"""A difference counts as real only if chance makes it with probability at most exp(-SURPRISE).  A larger one trusts
public rows longer though they differ.  Tuned: with 2, noise counts as real in one of three releases at epsilon .1.
"""


def bias(counts: FloatArray, expected: FloatArray, stddev: float, *, ratio: float, free: int | None = None) -> float:
    """Return the mean over cells of the squared difference of private and public counts, in squared rows.

    Noise and sampling error are subtracted.  The larger this bias t, the less public counts are trusted; it is 0 if
    chance explains the whole difference.

    Parameters
    ----------
    counts
        (k,) noisy private counts y.
    expected
        (k,) counts m that the public table expects, >= 0.
    stddev
        Standard deviation of the noise of a count.
    ratio
        Private rows for each effective public one, > 0.
    free
        Cells that the margins leave free, where both counts have the same; default: all k.
    """
    cells = len(counts) if free is None else max(free, 1)
    squares = float(((counts - expected) ** 2).sum()) / cells
    known = stddev**2 + ratio * float(expected.mean())
    # of a sum of squares of so many normal numbers (Laurent, Massart 2000, lemma 1)
    most = 1 + 2 * math.sqrt(SURPRISE / cells) + 2 * SURPRISE / cells
    return squares - known if squares > most * known else 0.0


def dispersion(
    counts: FloatArray, expected: FloatArray, stddev: float, *, ratio: float, free: int | None = None
) -> float:
    """Return the mean variance of private counts around public ones, as a multiple of the latter; >= ``ratio``.

    The larger, the less public counts are trusted.

    Parameters
    ----------
    counts, expected, stddev, ratio, free
        As for `bias`.
    """
    mean = float(expected.mean())
    return ratio if mean <= 0 else ratio + bias(counts, expected, stddev, ratio=ratio, free=free) / mean


def smoothed_ratio(tables: Sequence[tuple[FloatArray, FloatArray, float, int]], *, ratio: float) -> float:
    """Return the variance of private counts around the counts that smoothed public rows expect, as a multiple v of these.

    It is estimated from all noisy tables, between 0 and ``ratio``; the smaller, the more public counts are trusted.
    Expected counts of smoothed public rows that have the private one-ways are nearer to the private ones than the
    public rows' own.  Each table tells (y - m)^2 - sigma^2 over m, by a sum of squares of normal numbers.  The tables'
    estimates are averaged by precision, and v is as likely to be anywhere in its range beforehand.  It is ``ratio``
    where no table tells anything.

    Parameters
    ----------
    tables
        Noisy private counts, expected ones, the standard deviation of the noise and the free cells, as for `bias`.
    ratio
        Ratio of public rows that are not smoothed, > 0; see `bias`.
    """
    told = precision = 0.0
    for counts, expected, stddev, free in tables:
        mean = float(expected.mean())
        if mean > 0 and free > 0:
            weight = free / 2 * (mean / (stddev**2 + ratio * mean)) ** 2
            told += weight * (float(((counts - expected) ** 2).sum()) / free - stddev**2) / mean
            precision += weight
    if precision == 0:
        return ratio
    centre, spread = told / precision, precision**-0.5
    return float(truncnorm.mean(-centre / spread, (ratio - centre) / spread, loc=centre, scale=spread))


def combined(counts: FloatArray, expected: FloatArray, stddev: float, *, ratio: float) -> tuple[FloatArray, float]:
    """Return noisy private counts averaged with public ones by precision, (k,), and their error.

    The error is the root mean square over the cells, in rows.

    Parameters
    ----------
    counts, expected, stddev, ratio
        As for `bias`.  The weight of a private count is (v m + t) / (v m + t + sigma^2), with v = ``ratio``, m =
        ``expected``, t the bias and sigma the noise.
    """
    variance = ratio * np.maximum(expected, 0.0) + bias(counts, expected, stddev, ratio=ratio)
    trust = variance / (variance + stddev**2)
    error = math.sqrt(float((trust * stddev**2).mean()))
    return expected + trust * (counts - expected), max(error, LEAST_ERROR * stddev)


LEAST_ERROR = 1e-6
"""Least standard deviation that `combined` returns, as a multiple of the noise's: a noisy table needs a positive one.
A numerical tolerance.
"""


def shrunk_to(counts: FloatArray, expected: FloatArray) -> FloatArray:
    """Return public counts, (k,), shrunk towards the counts that a simpler model of the same rows expects, by chance's part.

    Under a Dirichlet prior about the expected shares, fitted by its moments: of the squared deviation in multiples of
    the expected counts, which is 1 a cell by chance alone, the excess is real.

    Parameters
    ----------
    counts
        (k,) counts of the public rows.
    expected
        (k,) counts under the simpler model, >= 0.
    """
    return expected + share_kept(counts, expected) * (counts - expected)


def share_kept(counts: FloatArray, expected: FloatArray) -> float:
    """Return the fraction, 0 to 1, of the squared deviation from a simpler model that chance does not explain.

    `shrunk_to` keeps this fraction of each count's deviation.  It is 0 if nothing is expected in any cell.
    """
    possible = expected > 0
    if not possible.any():
        return 0.0
    chance = float(((counts - expected)[possible] ** 2 / expected[possible]).mean())
    return max(0.0, 1 - 1 / chance) if chance > 0 else 0.0
