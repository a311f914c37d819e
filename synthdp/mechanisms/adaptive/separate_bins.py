"""Estimate the counts of bins that have nothing to do with each other: levels, or values far apart.

The prior of a bin's count, common to all bins, is a mixture of 0 and of exponential laws of many means, or of normal laws,
too, fitted to the noisy counts by maximum likelihood (Kiefer and Wolfowitz 1956).  Of all estimates of the right sum, that
of least expected total variation distance has the quantile of one common level of each bin's posterior.  With a flat prior
this would be the projection on the simplex.  Post-processing of noisy answers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from synthdp.arrays import FloatArray, IntArray
from synthdp.queries.contingency import project_to_simplex

STEPS = 40
"""Steps of the fit of the prior.  A numerical tolerance."""

HEAP = 1 / 3
"""Standard deviation of a normal law, in parts of its mean: hardly any of it is below 0, and the means, each twice the one
before, leave no gap.  Derived."""

PSEUDO = 0.1
"""Bins that each law of the mixture is taken to have beforehand."""

REACH, PLACES = 7.0, 57
"""A posterior is looked at within so many stddevs of the count, at so many places."""

MOST_ODDS, NEAR = 20.0, 1e-12
"""The common level is searched for within such log odds, and found as near.  Numerical tolerances."""

MOST_BINS, FINENESS = 256, 64
"""More bins than this share a posterior where asinh of their counts in stddevs agrees to 1 / FINENESS."""


class SeparateBins(NamedTuple):
    """Estimates of bins.

    Parameters
    ----------
    rows
        (k,) estimated rows, >= 0, with the right sum.
    evidence
        (k,) how likely each count is, against an empty bin: logarithm of the ratio.
    """

    rows: FloatArray
    evidence: FloatArray


def separate_bins(counts: FloatArray, stddev: float, *, total: float) -> SeparateBins:
    """Estimate the counts of bins.

    Parameters
    ----------
    counts
        (k,) noisy counts.
    stddev
        Standard deviation of their noise, > 0.
    total
        Number of rows, > 0.
    """
    return _Posteriors.of(counts, stddev, total=total, heaps=False).estimates()


def separate_and_heaped_bins(counts: FloatArray, stddev: float, *, total: float) -> tuple[SeparateBins, SeparateBins]:
    """Estimate the counts of bins as `separate_bins` does, and with normal laws in the prior, too.

    The second is for filled bins that hold about as much as each other.  Parameters as above.
    """
    posteriors = _Posteriors.of(counts, stddev, total=total, heaps=True)
    return posteriors.estimates(len(posteriors.tails) // 2), posteriors.estimates()


class _Posteriors(NamedTuple):
    """What counts say under each law of the prior, in stddevs of the noise.

    Parameters
    ----------
    counts, total
        As given.
    noisy, rows
        The same in stddevs.
    y, which, held
        (c,) counts that stand for all, (k,) which of them stands for each, and (c,) how many bins each stands for.
    density
        (laws + 1, c) logarithm of the density of each count against that of empty bins; the first law is that of these.
    places
        (c, places) counts, increasing.
    tails
        (laws, c, places) the chance that a bin's count is larger, under each law but that of empty bins.
    """

    counts: FloatArray
    total: float
    noisy: FloatArray
    rows: float
    y: FloatArray
    which: IntArray
    held: FloatArray
    density: FloatArray
    places: FloatArray
    tails: FloatArray

    @classmethod
    def of(cls, counts: FloatArray, stddev: float, *, total: float, heaps: bool) -> _Posteriors:
        noisy, rows = counts / stddev, total / stddev
        y, which = _classes(noisy)
        held = np.bincount(which, minlength=len(y)).astype(np.float64)
        sizes = np.asarray(0.5 * 2.0 ** np.arange(2 + max(0, math.ceil(math.log2(rows)))), np.float64)
        density, centre, spread = _exponential(y, sizes)
        if heaps:
            others = _normal(y, sizes)
            density, centre, spread = (np.vstack(both) for both in zip((density, centre, spread), others, strict=True))
        cut = log_ndtr(centre / spread)
        density = np.vstack([np.zeros(len(y)), density + cut])
        start = np.maximum(y - REACH, 0.0)
        places = start[:, None] + np.linspace(0, 1, PLACES) * (np.maximum(y, 0.0) + REACH - start)[:, None]
        tails = (centre[:, :, None] - places) / spread[:, :, None]
        log_ndtr(tails, out=tails)
        tails -= cut[:, :, None]
        np.exp(np.minimum(tails, 0.0, out=tails), out=tails)
        return cls(counts, total, noisy, rows, y, which, held, density, places, tails)

    def estimates(self, laws: int | None = None) -> SeparateBins:
        """Estimate the counts under a prior of the first so many laws; default: of all."""
        tails = self.tails[:laws]
        density = self.density[: len(tails) + 1]
        top = density.max(axis=0)
        chances, likelihood = _prior(np.exp(density - top), self.held)
        beyond = np.einsum("lc,lcp->cp", chances[1:], tails)
        found = _common_quantile(self.places, beyond, self.held, self.rows)[self.which]
        moved = np.where(found > 0, np.maximum(found + self.noisy - self.y[self.which], 0.0), 0.0)
        held_now = float(moved.sum())
        some = held_now > 0
        estimate = moved * (self.total / held_now) if some else project_to_simplex(self.counts, self.total)
        return SeparateBins(estimate, (top + np.log(likelihood))[self.which])


def _exponential(y: FloatArray, means: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what counts say under exponential laws of these means, in stddevs of the noise.

    Returns
    -------
    The logarithm of their density against that of empty bins, before the posterior is cut off at 0, (laws, k); and the
    posterior, a normal law so cut off: its centre, (laws, k), and its standard deviation, (laws, 1).
    """
    centre = y - 1 / means[:, None]
    density = 0.5 * (centre**2 + math.log(2 * math.pi)) - np.log(means)[:, None]
    return density, centre, np.ones((len(means), 1))


def _normal(y: FloatArray, means: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the same under normal laws of these means, each of which has `HEAP` times its mean as standard deviation."""
    mean = means[:, None]
    variance = (HEAP * mean) ** 2
    density = 0.5 * (y**2 - (y - mean) ** 2 / (1 + variance) - np.log1p(variance))
    return density, (y * variance + mean) / (1 + variance), np.sqrt(variance / (1 + variance))


def _classes(noisy: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return counts that stand for all, and which of them stands for each."""
    if len(noisy) <= MOST_BINS:
        return noisy, np.arange(len(noisy))
    code, which = np.unique(np.rint(np.arcsinh(noisy) * FINENESS), return_inverse=True)
    return np.sinh(code / FINENESS), which


def _prior(likelihood: FloatArray, held: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Fit the mixture by expectation and maximization.

    Parameters
    ----------
    likelihood
        (laws, k) of each class of bins under each law, relative to the largest.
    held
        (k,) bins of each class.

    Returns
    -------
    (laws, k) the chance of each law for each class of bins, and (k,) their likelihood.
    """
    shares = np.full(len(likelihood), 1 / len(likelihood))
    for _ in range(STEPS):
        shares = shares * (likelihood @ (held / (shares @ likelihood))) + PSEUDO
        shares /= shares.sum()
    joint = shares[:, None] * likelihood
    whole = joint.sum(axis=0)
    return joint / whole, whole


def _common_quantile(places: FloatArray, beyond: FloatArray, held: FloatArray, rows: float) -> FloatArray:
    """Return the quantiles of one level whose sum is nearest to the number of rows.

    Parameters
    ----------
    places
        (k, places) counts, increasing.
    beyond
        (k, places) the chance that a bin's count is larger, decreasing.
    held
        (k,) bins of each class.
    rows
        What they hold together.
    """
    each, last = np.arange(len(places)), places.shape[1] - 1
    ends = np.hstack([beyond, np.full((len(places), 1), -1.0)])  # no level is below the end

    def quantiles(log_odds: float) -> FloatArray:
        level = 1 / (1 + math.exp(-log_odds))
        after = (ends <= level).argmax(axis=1)
        at = np.minimum(np.maximum(after, 1), last)
        above, under = beyond[each, at - 1], beyond[each, at]
        part = np.minimum(np.maximum((above - level) / np.maximum(above - under, 1e-300), 0.0), 1.0)
        found = places[each, at - 1] + part * (places[each, at] - places[each, at - 1])
        return np.where(after == 0, places[:, 0], found)

    def too_many(log_odds: float) -> float:
        return float(quantiles(log_odds) @ held) - rows

    if too_many(MOST_ODDS) >= 0:  # the lower the chance beyond a quantile, the larger it is
        return quantiles(MOST_ODDS)
    if too_many(-MOST_ODDS) <= 0:
        return quantiles(-MOST_ODDS)
    return quantiles(brentq(too_many, -MOST_ODDS, MOST_ODDS, xtol=NEAR))
