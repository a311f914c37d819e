"""Estimate histograms from noisy counts by empirical Bayes: as smooth, or as sparse, as the counts suggest.

Three priors are fitted to the noisy counts.  Under the first, bins are unrelated.  Under the second, filled bins may
have about equal counts, as the years of a survey do.  Under the third, neighbouring bins have similar counts.  The
estimate is the mean of the three posterior estimates, weighted by the likelihood of the counts under each prior.  With
little noise the counts hardly change.  Post-processing of noisy answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from synthdp.arrays import FloatArray
from synthdp.fit.separate_bins import NoisyHistogram, SeparateBins, separate_and_heaped_bins
from synthdp.queries.contingency import project_to_simplex

SPREADS = 2.0 ** np.arange(-1, 6)
"""Standard deviations of nonzero Haar coefficients under the prior that are tried, in multiples of the noise.  A grid:
its steps are a tolerance."""

SHARES = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.95])
"""Fractions of nonzero Haar coefficients of one scale under the prior that are tried.  A grid: its steps are a
tolerance."""

FAR = 400.0
"""A Haar coefficient stays unshrunk if its square exceeds this multiple of the noise variance, since it belongs to a
point mass.  A tolerance: noise moves the coefficient by at most a twentieth."""

LARGEST_EXPONENT = 600.0
"""Exponents of likelihood ratios are capped at this, so that exp does not overflow.  A numerical tolerance."""

LEAST_BINS = 3
"""Fewest bins to which a prior is fitted.  Fewer bins have too little information on a prior common to all.  A
convention."""

LEAST_NOISE = 1e-7
"""Noise stddev below this fraction of the rows counts as none, and counts are not smoothed.  A numerical tolerance."""


class SmoothedHistogram(NamedTuple):
    """Smoothed estimates of neighbouring bins, and the fit of the smooth prior to the noisy counts.

    Parameters
    ----------
    rows
        (k,) estimates in rows, which may be negative, with about the same sum as the counts.
    evidence
        Logarithm of the counts' likelihood ratio against empty bins.
    """

    rows: FloatArray
    evidence: float


def estimated(counts: FloatArray, stddev: float, *, total: float, neighbours: int) -> FloatArray:
    """Estimate a histogram from noisy counts: the mean of a sparse, a heaped and a smooth estimate, by likelihood.

    See the module's docstring for the three priors.  A histogram of fewer than `LEAST_BINS` bins, or with hardly any
    noise, is only projected to counts of the right sum.

    Parameters
    ----------
    counts
        (k,) noisy counts, in rows.
    stddev
        Standard deviation of the noise of a count, in rows.
    total
        Number of rows, > 0.
    neighbours
        Number of the first bins that are adjacent and of equal width; 0 for levels without an order.

    Returns
    -------
    (k,) estimated rows, >= 0, with sum ``total``.
    """
    return estimated_each([NoisyHistogram(counts, stddev, total)], [neighbours])[0]


def estimated_each(histograms: Sequence[NoisyHistogram], neighbours: Sequence[int]) -> list[FloatArray]:
    """Return the estimated rows of each noisy histogram, (k,): the mean of a sparse, a heaped and a smooth estimate.

    The mean is weighted by the three likelihoods.  A histogram of fewer than `LEAST_BINS` bins, or with hardly any
    noise, is only projected to counts of the right sum.  ``neighbours`` holds, for each histogram, the number of its
    first bins that are adjacent and of equal width.  Many histograms together take less time than one by one.
    """
    noisy = [
        i for i, one in enumerate(histograms) if len(one.counts) >= LEAST_BINS and one.stddev >= LEAST_NOISE * one.total
    ]
    found = dict(zip(noisy, separate_and_heaped_bins([histograms[i] for i in noisy]), strict=True))
    return [
        _mean_of_all(one, *found[i], neighbours=many) if i in found else project_to_simplex(one.counts, one.total)
        for i, (one, many) in enumerate(zip(histograms, neighbours, strict=True))
    ]


def _mean_of_all(
    histogram: NoisyHistogram, separate: SeparateBins, heaps: SeparateBins, *, neighbours: int
) -> FloatArray:
    """Return the mean of the three estimates of a histogram, (k,), weighted by the likelihood of the counts under each.

    Without more than `LEAST_BINS` neighbouring bins there is no smooth estimate, and the mean is over two.
    """
    counts, stddev, total = histogram
    rows = [separate.rows, heaps.rows]
    evidence = [float(separate.evidence.sum()), float(heaps.evidence.sum())]
    if neighbours > LEAST_BINS:
        alike = smoothed(counts[:neighbours], stddev)
        rows.append(project_to_simplex(np.concatenate([alike.rows, counts[neighbours:]]), total))
        evidence.append(alike.evidence + float(separate.evidence[neighbours:].sum()))
    return np.asarray(softmax(evidence) @ np.array(rows), np.float64)


def smoothed(counts: FloatArray, stddev: float) -> SmoothedHistogram:
    """Smooth the noisy counts of neighbouring bins by shrinking Haar wavelet coefficients (empirical Bayes).

    Returns the estimates, (k,), which may be negative, and the log-likelihood ratio of the counts against empty bins.

    Haar coefficients of one scale are 0 or normal, with a common share and stddev (Johnstone and Silverman 2005).  The
    estimate is averaged over all shifts (Coifman and Donoho 1995), so that no border between bins is special.

    Parameters
    ----------
    counts
        (k,) noisy counts of neighbouring bins of equal width, in rows, k >= 2.
    stddev
        Standard deviation of the noise of a count, in rows, > 0.
    """
    k = len(counts)
    size = 2 ** math.ceil(math.log2(k))
    rest = np.concatenate([counts, counts[::-1]])[
        np.arange(2 * size) % (2 * k)
    ]  # mirrored, so that the two ends are not neighbours
    shrunk, evidence = [], 0.5 * k * (float(counts.mean()) / stddev) ** 2
    steps = [2**level for level in range(int(math.log2(size)))]
    for step in steps:  # all shifts together: the difference of every bin and the bin `step` ahead
        ahead = np.concatenate([rest[step:], rest[:step]])
        estimate, likelihood = _posterior_mean((rest - ahead) / math.sqrt(2), stddev)
        rest = (rest + ahead) / math.sqrt(2)
        shrunk.append(estimate)
        evidence += likelihood * k / (2 * step)  # mirrored and repeated bins add no evidence
    for step, detail in zip(reversed(steps), reversed(shrunk), strict=True):
        other = rest - detail
        other = np.concatenate([other[-step:], other[:-step]])
        rest = (rest + detail + other) / math.sqrt(8)  # the mean over the two pairs of each bin
    return SmoothedHistogram(rest[:k], evidence)


def _posterior_mean(detail: FloatArray, stddev: float) -> tuple[FloatArray, float]:
    """Return posterior means of Haar coefficients of one scale, (coefficients,), and their mean log-likelihood ratio.

    Both are for the likeliest prior on the grid of `SPREADS` and `SHARES`.  The ratio is against coefficients of 0.
    Very large coefficients stay unshrunk; see `FAR`.
    """
    square = (detail / stddev) ** 2
    variance = 1 + SPREADS[:, None] ** 2
    exponent = np.minimum(0.5 * square * (1 - 1 / variance), LARGEST_EXPONENT)
    filled = SHARES[:, None] * (np.exp(exponent) / np.sqrt(variance))[:, None]  # (spreads, shares, coefficients)
    evidence = filled + (1 - SHARES[:, None])
    likelihood = np.log(evidence).mean(axis=2)
    i, j = np.unravel_index(likelihood.argmax(), likelihood.shape)
    kept = filled[i, j] / evidence[i, j] * (1 - 1 / variance[i])
    return detail * np.where(square > FAR, 1.0, kept), float(likelihood[i, j])
