"""How far public counts are from private ones, told from noisy answers: empirical Bayes.  Post-processing.

A private count x of a cell in which public rows expect m is x = m + e with E e^2 = v m + t: v, the rows of the private table
for each effective row of the public one, is the sampling error of the latter and known; t is what else sets them apart.  A
noisy answer y has E (y - m)^2 = v m + t + sigma^2, so that answers tell t for nothing.
"""

from __future__ import annotations

import math

import numpy as np

from synthdp.arrays import FloatArray

SURPRISE = 4.0
"""A difference that chance makes with probability exp(-SURPRISE) or less is a difference.  Tuned: 2 takes noise for one in
one of three releases at epsilon .1."""


def bias(counts: FloatArray, expected: FloatArray, stddev: float, *, ratio: float) -> float:
    """Return the mean square by which private counts differ from public ones, beyond noise and the public sampling error.

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
    """
    cells = len(counts)
    squares = float(((counts - expected) ** 2).mean())
    known = stddev**2 + ratio * float(expected.mean())
    # of a sum of squares of so many normal numbers (Laurent, Massart 2000, lemma 1)
    most = 1 + 2 * math.sqrt(SURPRISE / cells) + 2 * SURPRISE / cells
    return squares - known if squares > most * known else 0.0


def dispersion(counts: FloatArray, expected: FloatArray, stddev: float, *, ratio: float) -> float:
    """Return the variance of private counts about public ones, in multiples of the latter, on average; >= ``ratio``.

    Parameters
    ----------
    counts, expected, stddev, ratio
        As for `bias`.
    """
    mean = float(expected.mean())
    return ratio if mean <= 0 else ratio + bias(counts, expected, stddev, ratio=ratio) / mean


def combined(counts: FloatArray, expected: FloatArray, stddev: float, *, ratio: float) -> tuple[FloatArray, float]:
    """Return counts between noisy private and public ones, weighed by precision, and the standard deviation of their error.

    Parameters
    ----------
    counts, expected, stddev, ratio
        As for `bias`; the weight of a private count is (v m + t) / (v m + t + sigma^2).
    """
    variance = ratio * np.maximum(expected, 0.0) + bias(counts, expected, stddev, ratio=ratio)
    trust = variance / (variance + stddev**2)
    error = math.sqrt(float((trust * stddev**2).mean()))
    return expected + trust * (counts - expected), max(error, LEAST_ERROR * stddev)


LEAST_ERROR = 1e-6
"""Least error in multiples of the noise, as a positive one is needed.  A numerical tolerance."""


def shrunk_to(counts: FloatArray, expected: FloatArray) -> FloatArray:
    """Return public counts drawn towards what a simpler model of the same rows expects.

    Under a Dirichlet prior about the expected shares, fitted by its moments: of the squared deviation in multiples of the
    expected counts, which is 1 a cell by chance alone, the excess is real.

    Parameters
    ----------
    counts
        (k,) counts of the public rows.
    expected
        (k,) counts under the simpler model, >= 0.
    """
    return expected + share_kept(counts, expected) * (counts - expected)


def share_kept(counts: FloatArray, expected: FloatArray) -> float:
    """Return which part of a deviation from a simpler model is real, 0 to 1; see `shrunk_to`."""
    possible = expected > 0
    if not possible.any():
        return 0.0
    chance = float(((counts - expected)[possible] ** 2 / expected[possible]).mean())
    return max(0.0, 1 - 1 / chance) if chance > 0 else 0.0
