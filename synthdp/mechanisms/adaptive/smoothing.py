"""Estimate histograms from noisy counts by empirical Bayes: as smooth, or as sparse, as the counts themselves say.

A prior is fitted to the noisy counts by maximum likelihood, then each count is replaced by its posterior mean.  With
little noise the counts hardly change.  Post-processing of noisy answers.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.special import log_ndtr

from synthdp.arrays import FloatArray

SPREADS = tuple(2.0**i for i in range(-1, 6))
"""Stddevs of the Haar coefficients that are tried, as multiples of the noise."""

SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.95)
"""Shares that are tried: of the Haar coefficients of one scale, or of the levels of a column, that are not 0."""

MEANS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Mean counts of the levels that occur that are tried, as multiples of the mean over all levels."""

FAR_BELOW = 100.0
"""A count so many stddevs below 0 says no more than one that is less so."""

FAR = 400.0
"""A coefficient whose square exceeds this multiple of the noise variance belongs to a point mass and is kept."""


def smoothed(counts: FloatArray, stddev: float) -> FloatArray:
    """Estimate the counts of neighbouring bins.

    Haar coefficients of one scale are 0 or normal, with a common share and stddev (Johnstone and Silverman 2005); the
    estimate is averaged over all shifts (Coifman and Donoho 1995), so that no border between bins is special.

    Parameters
    ----------
    counts
        (k,) noisy counts of neighbouring bins of equal width.
    stddev
        Standard deviation of their noise.

    Returns
    -------
    (k,) estimates, which may be negative, with about the same sum.
    """
    k = len(counts)
    if k < 4:
        return counts
    size = 2 ** math.ceil(math.log2(k))
    mirrored = np.concatenate([counts, counts[::-1]])[np.arange(2 * size) % (2 * k)]  # no end meets the other
    details, rest = _analysis(np.stack([np.roll(mirrored, -shift) for shift in range(size)]), int(math.log2(size)))
    back = _synthesis([_posterior_mean(detail, stddev) for detail in details], rest)
    return np.asarray(np.mean([np.roll(row, shift)[:k] for shift, row in enumerate(back)], axis=0), np.float64)


def thinned(counts: FloatArray, stddev: float) -> FloatArray:
    """Estimate the counts of the levels of a nominal column.

    The prior of a level's count: 0 with some probability, else exponential; both parameters are common to all levels.

    Parameters
    ----------
    counts
        (k,) noisy counts.
    stddev
        Standard deviation of their noise.

    Returns
    -------
    (k,) estimates, >= 0; their sum is not kept.
    """
    if len(counts) < 3:
        return counts
    counts = np.maximum(counts, -FAR_BELOW * stddev)
    mean = max(float(counts.mean()), stddev / len(counts))
    absent = -0.5 * (counts / stddev) ** 2 - math.log(stddev * math.sqrt(2 * math.pi))
    best, estimate = -math.inf, counts
    for share, tau in itertools.product((*SHARES, 1.0), [factor * mean for factor in MEANS]):
        # an exponential prior makes the posterior a normal law of mean y - sigma^2 / tau, cut off at 0
        z = counts / stddev - stddev / tau
        present = math.log(share / tau) + 0.5 * (stddev / tau) ** 2 - counts / tau + log_ndtr(z)
        evidence = np.logaddexp(present, absent + math.log(max(1.0 - share, 1e-300)))
        if float(evidence.sum()) > best:
            best = float(evidence.sum())
            hazard = np.exp(-0.5 * z**2 - 0.5 * math.log(2 * math.pi) - log_ndtr(z))
            estimate = np.exp(present - evidence) * stddev * np.maximum(z + hazard, 0.0)
    return np.asarray(estimate, np.float64)


def _posterior_mean(detail: FloatArray, stddev: float) -> FloatArray:
    """Shrink the coefficients of one scale."""
    square = (detail / stddev) ** 2
    zero = np.exp(-0.5 * square)
    best, estimate = -math.inf, detail
    for spread in SPREADS:
        variance = 1 + spread**2
        normal = np.exp(-0.5 * square / variance) / math.sqrt(variance)
        for share in SHARES:
            evidence = share * normal + (1 - share) * zero
            likelihood = float(np.log(np.maximum(evidence, 1e-300)).mean())
            if likelihood > best:
                best = likelihood
                chance = share * normal / np.maximum(evidence, 1e-300)
                estimate = detail * np.where(square > FAR, 1.0, chance * spread**2 / variance)
    return np.asarray(estimate, np.float64)


def _analysis(rows: FloatArray, levels: int) -> tuple[list[FloatArray], FloatArray]:
    """Return the orthonormal Haar coefficients of every row, finest first, and what is left."""
    details = []
    for _ in range(levels):
        even, odd = rows[:, ::2], rows[:, 1::2]
        details.append((even - odd) / math.sqrt(2))
        rows = (even + odd) / math.sqrt(2)
    return details, rows


def _synthesis(details: list[FloatArray], rest: FloatArray) -> FloatArray:
    for detail in reversed(details):
        both = np.empty((len(rest), 2 * rest.shape[1]))
        both[:, ::2] = (rest + detail) / math.sqrt(2)
        both[:, 1::2] = (rest - detail) / math.sqrt(2)
        rest = both
    return rest
