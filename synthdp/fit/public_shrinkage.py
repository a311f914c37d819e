"""How far private counts may be from public ones, estimated from noisy answers (empirical Bayes).  Post-processing.

Let x be the private count of a cell in which public rows expect the count m.  Then E (x - m)^2 = v m + t.  Here v is
the number of private rows for each effective public row, so v m is the sampling error of public rows, which is known.
The bias t is any further squared difference.  A noisy answer y has E (y - m)^2 = v m + t + sigma^2, so answers that
were paid for already estimate t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import truncnorm

from synthdp.arrays import FloatArray
from synthdp.measurements import UNLIKELY


def bias(counts: FloatArray, expected: FloatArray, stddev: float, *, ratio: float, free: int | None = None) -> float:
    """Return the bias t: the mean over cells of the squared difference of private and public counts, in squared rows.

    Noise and the sampling error of public rows are subtracted.  The larger the bias, the less public counts are
    trusted.  It is 0 if chance explains the whole difference.

    Parameters
    ----------
    counts
        (k,) noisy private counts y.
    expected
        (k,) counts m that the public table expects, >= 0.
    stddev
        Standard deviation of the noise of a count.
    ratio
        Number v of private rows for each effective public row, > 0.
    free
        Number of cells that may differ, if both tables have the same margins; default: all k.
    """
    cells = len(counts) if free is None else max(free, 1)
    squares = float(((counts - expected) ** 2).sum()) / cells
    known = stddev**2 + ratio * float(expected.mean())
    # a sum of squares of so many normal numbers exceeds it with probability UNLIKELY (Laurent, Massart 2000, lemma 1)
    part = math.log(1 / UNLIKELY) / cells
    most = 1 + 2 * math.sqrt(part) + 2 * part
    return squares - known if squares > most * known else 0.0


def dispersion(
    counts: FloatArray, expected: FloatArray, stddev: float, *, ratio: float, free: int | None = None
) -> float:
    """Return the mean variance of private counts around public ones, divided by the mean public count; >= ``ratio``.

    The result is v + t / m, for v = ``ratio``, the `bias` t and the mean m of ``expected``.  The larger it is, the less
    public counts are trusted.

    Parameters
    ----------
    counts, expected, stddev, ratio, free
        As for `bias`.
    """
    mean = float(expected.mean())
    return ratio if mean <= 0 else ratio + bias(counts, expected, stddev, ratio=ratio, free=free) / mean


def smoothed_ratio(tables: Sequence[tuple[FloatArray, FloatArray, float, int]], *, ratio: float) -> float:
    """Return v such that private counts have variance v m around the counts m that smoothed public rows expect.

    Smoothed public rows that have the private one-way marginals are nearer to private counts than plain public rows, so
    v lies between 0 and ``ratio``.  The smaller it is, the more public counts are trusted.  Each table estimates it as
    the mean of (y - m)^2 - sigma^2, divided by the mean of m.  These estimates are averaged by precision.  The result
    is the posterior mean under a uniform prior on v, or ``ratio`` if no table has expected rows.

    Parameters
    ----------
    tables
        For each table the noisy private counts y, the expected counts m, the noise stddev sigma, and the number of
        cells that may differ.
    ratio
        The ratio v of public rows that are not smoothed, > 0; see `bias`.
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
    """Return (k,) averages of noisy private counts and public counts, and their root mean square error in rows.

    The weight of a private count is (v m + t) / (v m + t + sigma^2).

    Parameters
    ----------
    counts
        (k,) noisy private counts.
    expected
        (k,) counts m that the public table expects, >= 0.
    stddev
        Standard deviation sigma of the noise of a count.
    ratio
        Number v of private rows for each effective public row, > 0.  The bias t is estimated by `bias`.
    """
    variance = ratio * np.maximum(expected, 0.0) + bias(counts, expected, stddev, ratio=ratio)
    trust = variance / (variance + stddev**2)
    error = math.sqrt(float((trust * stddev**2).mean()))
    return expected + trust * (counts - expected), max(error, LEAST_ERROR * stddev)


LEAST_ERROR = 1e-6
"""Least error that `combined` returns, in stddevs of the noise, since a noisy table needs a positive stddev.  A numerical
tolerance."""


def shrunk_to(counts: FloatArray, expected: FloatArray) -> FloatArray:
    """Return public counts, (k,), shrunk towards the counts that a simpler model of the same rows expects.

    By chance alone the squared deviation, divided by the expected count, is 1 per cell on average.  Only the excess is
    real (a Dirichlet prior around the expected shares, fitted by moments).

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

    `shrunk_to` keeps this fraction of each count's deviation.  It is 0 if no cell has an expected row.
    """
    possible = expected > 0
    if not possible.any():
        return 0.0
    chance = float(((counts - expected)[possible] ** 2 / expected[possible]).mean())
    return max(0.0, 1 - 1 / chance) if chance > 0 else 0.0
