"""Estimate histograms from noisy counts by empirical Bayes: as smooth, or as sparse, as the counts themselves say.

Three priors are fitted to the noisy counts.  Under the first, bins have nothing to do with each other; under the second,
filled ones may hold about as much as each other, as the years of a survey do; under the third, neighbours resemble each
other.  The estimate is a mean of those of all, weighted by how likely the counts are under each.  With little noise the
counts hardly change.  Post-processing of noisy answers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from synthdp.arrays import FloatArray
from synthdp.distribution.contingency import project_to_simplex
from synthdp.mechanisms.adaptive.separate_bins import separate_bins

SPREADS = tuple(2.0**i for i in range(-1, 6))
"""Stddevs of the Haar coefficients that are tried, as multiples of the noise."""

SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.95)
"""Shares of the Haar coefficients of one scale that are not 0 that are tried."""

FAR = 400.0
"""A coefficient whose square exceeds this multiple of the noise variance belongs to a point mass and is kept."""

LARGEST_EXPONENT = 600.0
"""Likelihood ratios beyond exp of this are taken for it.  A numerical tolerance."""

ODDS = 20.0
"""Bins are taken to resemble each other, as neighbours or as heaps, only as far as the counts are so many times as likely
then.

A column of few values far apart loses more by smoothing than a smooth one by its absence.
"""

LEAST_BINS = 3
"""Fewer bins than so many say nothing of a prior."""

LEAST_NOISE = 1e-7
"""Noise below this part of the rows is none.  A numerical tolerance."""


class Smooth(NamedTuple):
    """Estimates of neighbouring bins.

    Parameters
    ----------
    rows
        (k,) estimates, which may be negative, with about the same sum as the counts.
    evidence
        How likely the counts are, against empty bins: logarithm of the ratio.
    """

    rows: FloatArray
    evidence: float


def estimated(counts: FloatArray, stddev: float, *, total: float, neighbours: int) -> FloatArray:
    """Estimate a histogram.

    Parameters
    ----------
    counts
        (k,) noisy counts.
    stddev
        Standard deviation of their noise.
    total
        Number of rows, > 0.
    neighbours
        How many of the first bins are neighbours of equal width; 0 for levels without an order.

    Returns
    -------
    (k,) estimated rows, >= 0, with sum ``total``.
    """
    if len(counts) < LEAST_BINS or stddev < LEAST_NOISE * total:
        return project_to_simplex(counts, total)
    separate = separate_bins(counts, stddev, total=total)
    heaps = separate_bins(counts, stddev, total=total, heaps=True)
    rows = [separate.rows, heaps.rows]
    evidence = [float(separate.evidence.sum()) + math.log(ODDS), float(heaps.evidence.sum())]
    if neighbours > LEAST_BINS:
        alike = smoothed(counts[:neighbours], stddev)
        rows.append(project_to_simplex(np.concatenate([alike.rows, counts[neighbours:]]), total))
        evidence.append(alike.evidence + float(separate.evidence[neighbours:].sum()))
    return np.asarray(softmax(evidence) @ np.array(rows), np.float64)


def smoothed(counts: FloatArray, stddev: float) -> Smooth:
    """Estimate the counts of neighbouring bins.

    Haar coefficients of one scale are 0 or normal, with a common share and stddev (Johnstone and Silverman 2005); the
    estimate is averaged over all shifts (Coifman and Donoho 1995), so that no border between bins is special.

    Parameters
    ----------
    counts
        (k,) noisy counts of neighbouring bins of equal width, k >= 2.
    stddev
        Standard deviation of their noise, > 0.
    """
    k = len(counts)
    size = 2 ** math.ceil(math.log2(k))
    mirrored = np.concatenate([counts, counts[::-1]])[np.arange(2 * size) % (2 * k)]  # no end meets the other
    details, rest = _analysis(np.stack([np.roll(mirrored, -shift) for shift in range(size)]), int(math.log2(size)))
    shrunk, evidence = [], 0.5 * k * (float(counts.mean()) / stddev) ** 2
    for detail in details:
        estimate, likelihood = _posterior_mean(detail, stddev)
        shrunk.append(estimate)
        evidence += likelihood * detail.shape[1] * k / (2 * size)  # what is mirrored or repeated says nothing new
    back = _synthesis(shrunk, rest)
    rows = np.mean([np.roll(row, shift)[:k] for shift, row in enumerate(back)], axis=0)
    return Smooth(np.asarray(rows, np.float64), evidence)


def _posterior_mean(detail: FloatArray, stddev: float) -> tuple[FloatArray, float]:
    """Shrink the coefficients of one scale; also return their mean log-likelihood, against coefficients of 0."""
    square = (detail / stddev) ** 2
    best, estimate = -math.inf, detail
    for spread in SPREADS:
        variance = 1 + spread**2
        exponent = np.minimum(0.5 * square * (1 - 1 / variance), LARGEST_EXPONENT)
        normal = np.exp(exponent) / math.sqrt(variance)
        for share in SHARES:
            evidence = share * normal + (1 - share)
            likelihood = float(np.log(evidence).mean())
            if likelihood > best:
                best = likelihood
                chance = share * normal / evidence
                estimate = detail * np.where(square > FAR, 1.0, chance * spread**2 / variance)
    return np.asarray(estimate, np.float64), best


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
