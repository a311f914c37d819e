"""Estimate the counts of bins that have nothing to do with each other: levels, or values far apart.

The prior of a bin's count, common to all bins, is a mixture of 0 and of exponential laws of many means, or of normal laws,
too, fitted to the noisy counts by maximum likelihood (Kiefer and Wolfowitz 1956).  Of all estimates of the right sum, that
of least expected total variation distance has the quantile of one common level of each bin's posterior.  With a flat prior
this would be the projection on the simplex.  Post-processing of noisy answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from synthdp.arrays import FloatArray, IntArray
from synthdp.queries.contingency import project_to_simplex

STEPS = 40
"""Iterations of expectation-maximization when the prior is fitted.  A numerical tolerance."""

HEAP = 1 / 3
"""Standard deviation of each normal component of the prior, relative to its mean.  Derived: hardly any mass is below 0,
and the means, each twice the one before, leave no gap.
"""

PSEUDO = 0.1
"""Pseudo-count of bins added to each component of the prior when it is fitted, so that none vanishes.  Tuned; no sweep
is on record.
"""

REACH, PLACES = 7.0, 57
"""A posterior is computed within REACH standard deviations of the count, at PLACES evenly spaced points.  Tolerances: a
normal law has 1e-12 outside, and points are a quarter of a standard deviation apart.
"""

MOST_ODDS, NEAR = 20.0, 1e-12
"""The quantile level common to all bins is searched for within log odds of ± MOST_ODDS, to a precision of NEAR.
Numerical tolerances.
"""

RARE = -600.0
"""Log of a probability below which a truncated normal tail is computed in logs, since dividing would underflow.  A
numerical tolerance.
"""

MOST_BINS, FINENESS = 256, 64
"""With more bins than MOST_BINS, bins share one posterior if asinh(count / stddev) agrees to 1 / FINENESS. A safety
limit of time, and a tolerance.
"""


class SeparateBins(NamedTuple):
    """Estimated rows in bins that are unrelated to each other, and how well their prior explains the noisy counts.

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
    """Estimate counts of unrelated bins (levels, or values far apart) by empirical Bayes with a sparse prior.

    Parameters
    ----------
    counts
        (k,) noisy counts.
    stddev
        Standard deviation of their noise, > 0.
    total
        Number of rows, > 0.
    """
    return _Posteriors.of(counts, stddev, total=total, heaps=False).estimates()[0]


def separate_and_heaped_bins(counts: FloatArray, stddev: float, *, total: float) -> tuple[SeparateBins, SeparateBins]:
    """Estimate the counts of bins twice: as `separate_bins` does, and with a prior that suits bins of similar size.

    The second adds normal laws to the prior, for filled bins that hold about as much as each other.  Parameters as
    above.
    """
    posteriors = _Posteriors.of(counts, stddev, total=total, heaps=True)
    separate, heaped = posteriors.estimates(len(posteriors.tails) // 2, len(posteriors.tails))
    return separate, heaped


class _Posteriors(NamedTuple):
    """Posterior of every bin's count under each component of the prior, in standard deviations of the noise.

    Parameters
    ----------
    counts, total
        As given.
    noisy, rows
        The same in stddevs.
    y, which, held
        (c,) counts that stand for all, (k,) which of them stands for each, and (c,) how many bins each stands for.
    density
        (laws + 1, c) logarithm of the density of each count against its density in an empty bin; empty ones come first.
    places
        (c, places) counts, increasing.
    tails
        (laws, c, places) the chance that a bin's count is larger, under each law but the first.
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
        """Compute the posteriors under exponential components, and, if ``heaps``, under normal ones, too."""
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
        rare = cut < RARE
        some = log_ndtr(tails[rare]) - cut[rare][:, None]
        ndtr(tails, out=tails)  # takes half of the time of its logarithm
        tails /= np.exp(np.maximum(cut, RARE))[:, :, None]
        tails[rare] = np.exp(some)
        np.minimum(tails, 1.0, out=tails)
        return cls(counts, total, noisy, rows, y, which, held, density, places, tails)

    def estimates(self, *laws: int) -> list[SeparateBins]:
        """Estimate the counts once for each number in ``laws``, with a prior of that many first components.

        Default: all.
        """
        densities = [self.density[: many + 1] for many in laws or (len(self.tails),)]
        tops = [density.max(axis=0) for density in densities]
        priors = _priors([np.exp(one - top) for one, top in zip(densities, tops, strict=True)], self.held)
        return [self._estimate(*prior, top) for prior, top in zip(priors, tops, strict=True)]

    def _estimate(self, chances: FloatArray, likelihood: FloatArray, top: FloatArray) -> SeparateBins:
        """Estimate the counts from each component's probability, (laws, c), and each class's likelihood, (c,).

        Likelihoods are relative to e^top.
        """
        beyond = np.einsum("lc,lcp->cp", chances[1:], self.tails[: len(chances) - 1])
        found = _common_quantile(self.places, beyond, self.held, self.rows)[self.which]
        moved = np.where(found > 0, np.maximum(found + self.noisy - self.y[self.which], 0.0), 0.0)
        held_now = float(moved.sum())
        some = held_now > 0
        estimate = moved * (self.total / held_now) if some else project_to_simplex(self.counts, self.total)
        return SeparateBins(estimate, (top + np.log(likelihood))[self.which])


def _exponential(y: FloatArray, means: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the likelihood and posterior of counts under exponential laws of these means, in stddevs of the noise.

    Returns
    -------
    The logarithm of their density against the one in empty bins, before the posterior is cut off at 0, (laws, k); and the
    posterior, a normal law so cut off: its centre, (laws, k), and its standard deviation, (laws, 1).
    """
    centre = y - 1 / means[:, None]
    density = 0.5 * (centre**2 + math.log(2 * math.pi)) - np.log(means)[:, None]
    return density, centre, np.ones((len(means), 1))


def _normal(y: FloatArray, means: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what `_exponential` does, under normal laws of these means and standard deviations `HEAP` times them."""
    mean = means[:, None]
    variance = (HEAP * mean) ** 2
    density = 0.5 * (y**2 - (y - mean) ** 2 / (1 + variance) - np.log1p(variance))
    return density, (y * variance + mean) / (1 + variance), np.sqrt(variance / (1 + variance))


def _classes(noisy: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return representative counts, (c,), and which of them stands for each bin, (k,).

    This saves time with many bins.
    """
    if len(noisy) <= MOST_BINS:
        return noisy, np.arange(len(noisy))
    code, which = np.unique(np.rint(np.arcsinh(noisy) * FINENESS), return_inverse=True)
    return np.sinh(code / FINENESS), which


def _priors(likelihoods: Sequence[FloatArray], held: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Fit the component weights of several mixture priors at once, by expectation-maximization.

    Parameters
    ----------
    likelihoods
        For each mixture, (laws, k) of each class of bins under each law, relative to the largest.
    held
        (k,) bins of each class.

    Returns
    -------
    For each, (laws, k) the chance of each law for each class of bins, and (k,) their likelihood.
    """
    together, every = block_diag(*likelihoods), np.tile(held, len(likelihoods))
    ends = np.cumsum([0, *map(len, likelihoods)])
    bins = held.sum() + PSEUDO * np.diff(ends)  # what the shares of a mixture add up to before they are divided by it
    sums = np.repeat(bins, np.diff(ends))
    shares = 1 / np.repeat(np.diff(ends), np.diff(ends))
    for _ in range(STEPS):
        shares = (shares * (together @ (every / (shares @ together))) + PSEUDO) / sums
    found = []
    for mine, likelihood in zip(np.split(shares, ends[1:-1]), likelihoods, strict=True):
        joint = (mine / mine.sum())[:, None] * likelihood
        whole = joint.sum(axis=0)
        found.append((joint / whole, whole))
    return found


def _common_quantile(places: FloatArray, beyond: FloatArray, held: FloatArray, rows: float) -> FloatArray:
    """Return each class's posterior quantile at one common level, chosen so that they sum to the number of rows, (k,).

    These estimates have the least expected total variation distance.

    Parameters
    ----------
    places
        (k, places) counts, increasing in even steps.
    beyond
        (k, places) the chance that a bin's count is larger, decreasing.
    held
        (k,) bins of each class.
    rows
        What they hold together.
    """
    last = places.shape[1] - 1
    start, step = places[:, 0], (places[:, -1] - places[:, 0]) / last
    chances, first = beyond.ravel(), np.arange(len(places)) * (last + 1)
    ends = np.hstack([beyond, np.full((len(places), 1), -1.0)])  # no level is below the end

    @cache  # both ends are looked at twice, and so is what is returned
    def quantiles(log_odds: float) -> FloatArray:
        """Return the quantile of this level of each class of bins, (k,)."""
        level = 1 / (1 + math.exp(-log_odds))
        after = (ends <= level).argmax(axis=1)
        at = np.minimum(np.maximum(after, 1), last)
        above, under = chances.take(first + at - 1), chances.take(first + at)
        part = np.minimum(np.maximum((above - level) / np.maximum(above - under, 1e-300), 0.0), 1.0)
        return np.where(after == 0, start, start + (at - 1 + part) * step)

    def too_many(log_odds: float) -> float:
        """Return by how many rows the quantiles of this level are too many."""
        return float(quantiles(log_odds) @ held) - rows

    if too_many(MOST_ODDS) >= 0:  # the lower the chance beyond a quantile, the larger it is
        return quantiles(MOST_ODDS)
    if too_many(-MOST_ODDS) <= 0:
        return quantiles(-MOST_ODDS)
    return quantiles(brentq(too_many, -MOST_ODDS, MOST_ODDS, xtol=NEAR))
