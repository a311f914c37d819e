"""Estimate the counts of bins that have nothing to do with each other: levels, or values far apart.

The prior of a bin's count, common to all bins, is a mixture of 0 and of exponential laws of many means, or of normal laws,
too, fitted to the noisy counts by maximum likelihood (Kiefer and Wolfowitz 1956).  Of all estimates of the right sum, that
of least expected total variation distance has the quantile of one common level of each bin's posterior.  With a flat prior
this would be the projection on the simplex.  Post-processing of noisy answers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import log_ndtr, ndtr

from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.queries.contingency import project_to_simplex

STEPS = 40
"""Iterations of expectation-maximization when the prior is fitted.  A numerical tolerance."""

HEAP = 1 / 3
"""Standard deviation of each normal component of the prior, relative to its mean.  Derived: hardly any mass is below 0,
and the means, each twice the one before, leave no gap.
"""

PSEUDO = 0.1
"""Pseudo-count of bins added to each component of the prior when it is fitted, so that none vanishes.  A larger one
draws the prior towards all components alike, a smaller one fits few counts too closely.  Tuned; no sweep is on
record.
"""

REACH, PLACES = 7.0, 29
"""A posterior is computed within REACH standard deviations of the count, at PLACES evenly spaced points.  Tolerances: a
normal law has 1e-12 outside.  Points are half a standard deviation apart: estimates of 300 histograms were off by .06
stddevs at most.
"""

MOST_ODDS, NEAR = 20.0, 1e-12
"""The quantile level common to all bins is searched for within log odds of ± MOST_ODDS, to a precision of NEAR.
Numerical tolerances.
"""

UNLIKELY = 1e-14
"""A component of the prior is left out of a bin's posterior if its probability there is smaller.  A tolerance."""

RARE = -600.0
"""Log of a probability below which a truncated normal tail is computed in logs, since dividing would underflow.  A
numerical tolerance.
"""

MOST_BINS, FINENESS = 256, 64
"""With more bins than MOST_BINS, bins share one posterior if asinh(count / stddev) agrees to 1 / FINENESS. A safety
limit of time, and a tolerance.
"""

MOST_AT_ONCE = 1 << 22
"""Histograms are estimated together as long as their posteriors have fewer numbers than this: 32 MB.  A safety limit of
memory.
"""


class NoisyHistogram(NamedTuple):
    """Noisy counts of the bins of one column.

    Parameters
    ----------
    counts
        (k,) noisy counts.
    stddev
        Standard deviation of their noise, > 0.
    total
        Number of rows, > 0.
    """

    counts: FloatArray
    stddev: float
    total: float


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


def separate_and_heaped_bins(histograms: Sequence[NoisyHistogram]) -> list[tuple[SeparateBins, SeparateBins]]:
    """Estimate the counts of unrelated bins (levels, or values far apart) twice, by empirical Bayes with sparse priors.

    The first prior has exponential laws; the second has normal laws, too, for filled bins that hold about as much as
    each other.  The caller weighs both by their evidence.  Histograms are independent of each other: many at once only
    take less time than one by one.
    """
    classed = [_Classes.of(one) for one in histograms]
    batches = _batches(classed)
    found = {
        i: both for places in batches for i, both in zip(places, _estimates([classed[i] for i in places]), strict=True)
    }
    return [found[i] for i in range(len(histograms))]


class _Classes(NamedTuple):
    """A histogram in standard deviations of its noise, its bins in classes that share a posterior.

    Parameters
    ----------
    histogram
        As given.
    noisy
        (k,) its noisy counts, in standard deviations.
    rows
        Number of rows, in standard deviations.
    y, which, held
        (c,) counts that stand for all, (k,) which of them stands for each, and (c,) how many bins each stands for.
    """

    histogram: NoisyHistogram
    noisy: FloatArray
    rows: float
    y: FloatArray
    which: IntArray
    held: FloatArray

    @classmethod
    def of(cls, histogram: NoisyHistogram) -> _Classes:
        """Return a histogram in stddevs of its noise, with bins of like counts in classes if there are many bins."""
        noisy, rows = histogram.counts / histogram.stddev, histogram.total / histogram.stddev
        y, which = _classes(noisy)
        return cls(histogram, noisy, rows, y, which, np.bincount(which, minlength=len(y)).astype(np.float64))

    @property
    def laws(self) -> int:
        """How many exponential laws the prior has: of means 1/2, 1, 2, ... stddevs of noise, up to all rows."""
        return 2 + max(0, math.ceil(math.log2(self.rows)))

    def estimate(self, quantiles: FloatArray, evidence: FloatArray) -> SeparateBins:
        """Return each bin's estimated rows, scaled to the right sum, and evidence, from the values of classes, (c,) each."""
        found = quantiles[self.which]
        moved = np.where(found > 0, np.maximum(found + self.noisy - self.y[self.which], 0.0), 0.0)
        held_now, (counts, _, total) = float(moved.sum()), self.histogram
        rows = moved * (total / held_now) if held_now > 0 else project_to_simplex(counts, total)
        return SeparateBins(rows, evidence[self.which])


def _classes(noisy: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return representative counts, (c,), and which of them stands for each bin, (k,); all in stddevs of the noise.

    This saves time with more than `MOST_BINS` bins; of fewer each stands for itself.
    """
    if len(noisy) <= MOST_BINS:
        return noisy, np.arange(len(noisy))
    code, which = np.unique(np.rint(np.arcsinh(noisy) * FINENESS), return_inverse=True)
    return np.sinh(code / FINENESS), which


def _batches(classed: Sequence[_Classes]) -> Iterator[list[int]]:
    """Yield positions of histograms to be estimated in one array, of equally many laws and about as many classes."""
    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, one in enumerate(classed):
        alike[one.laws, (len(one.y) - 1).bit_length()].append(i)
    for (laws, bits), members in alike.items():
        most = max(1, MOST_AT_ONCE // (2 * laws * 2**bits * PLACES))
        yield from (members[first : first + most] for first in range(0, len(members), most))


def _estimates(classed: Sequence[_Classes]) -> Iterator[tuple[SeparateBins, SeparateBins]]:
    """Yield the two estimates of each histogram; all have equally many laws, so that arrays hold them together.

    The first prior has exponential laws alone, the second normal ones, too.
    """
    m, c, laws = len(classed), max(len(one.y) for one in classed), classed[0].laws
    y, held = np.zeros((2, m, c))  # classes that are missing hold no bins
    for i, one in enumerate(classed):
        y[i, : len(one.y)], held[i, : len(one.y)] = one.y, one.held
    sizes = np.asarray(0.5 * 2.0 ** np.arange(laws), np.float64)
    both = zip(_exponential(y, sizes), _normal(y, sizes), strict=True)
    density, centre, spread = (np.concatenate(pair, axis=1) for pair in both)
    cut = log_ndtr(centre / spread)
    density = np.concatenate([np.zeros((m, 1, c)), density + cut], axis=1)
    used = np.ones((2, m, 2 * laws + 1), np.bool_)
    used[0, :, laws + 1 :] = False  # the first prior has no normal laws
    each = np.where(used[..., None], density, -np.inf)
    top = each.max(axis=2)
    chances, likelihood = _priors(np.exp(each - top[:, :, None]), held, used)
    start = np.maximum(y - REACH, 0.0)
    places = start[..., None] + np.linspace(0, 1, PLACES) * (np.maximum(y, 0.0) + REACH - start)[..., None]
    beyond = _chances_beyond(places, chances[:, :, 1:], centre, spread, cut)
    rows = np.array([one.rows for one in classed])
    found = _common_quantiles(np.broadcast_to(places, beyond.shape), beyond, held, rows)
    evidence = top + np.log(likelihood)
    for i, one in enumerate(classed):
        size = len(one.y)
        separate, heaped = (one.estimate(found[k, i, :size], evidence[k, i, :size]) for k in range(2))
        yield separate, heaped


def _exponential(y: FloatArray, means: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the likelihood and posterior of counts under exponential laws of these means, in stddevs of the noise.

    Parameters
    ----------
    y
        (m, c) counts.
    means
        (laws,).

    Returns
    -------
    The logarithm of their density against the one in empty bins, before the posterior is cut off at 0, (m, laws, c); and
    the posterior, a normal law so cut off: its centre and its standard deviation, (m, laws, c) each.
    """
    centre = y[:, None] - 1 / means[:, None]
    density = 0.5 * (centre**2 + math.log(2 * math.pi)) - np.log(means)[:, None]
    return density, centre, np.ones_like(centre)


def _normal(y: FloatArray, means: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what `_exponential` does, under normal laws of these means and standard deviations `HEAP` times them.

    That is the log density of counts against empty bins, and the posterior's centre and stddev, (m, laws, c) each.
    """
    mean, y = means[:, None], y[:, None]
    variance = (HEAP * mean) ** 2
    density = 0.5 * (y**2 - (y - mean) ** 2 / (1 + variance) - np.log1p(variance))
    centre = (y * variance + mean) / (1 + variance)
    return density, centre, np.broadcast_to(np.sqrt(variance / (1 + variance)), centre.shape)


def _priors(likelihoods: FloatArray, held: FloatArray, used: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Fit the component weights of many mixture priors at once, by expectation-maximization.

    Parameters
    ----------
    likelihoods
        (..., laws, c) of each class of bins under each law, relative to the largest; 0 under laws that are not used.
    held
        (m, c) bins of each class.
    used
        (..., laws) whether a mixture has the law.

    Returns
    -------
    (..., laws, c) the chance of each law for each class of bins, and (..., c) their likelihood.
    """
    pseudo = PSEUDO * used
    bins = held.sum(axis=-1)[:, None] + pseudo.sum(axis=-1, keepdims=True)  # so many there are with the pseudo-counts
    shares = used / used.sum(axis=-1, keepdims=True)
    for _ in range(STEPS):
        mixed = (shares[..., None, :] @ likelihoods)[..., 0, :]
        shares = (shares * (likelihoods @ (held / mixed)[..., None])[..., 0] + pseudo) / bins
    joint = shares[..., None] * likelihoods
    whole = joint.sum(axis=-2)
    return joint / whole[..., None, :], whole


def _chances_beyond(
    places: FloatArray, chances: FloatArray, centre: FloatArray, spread: FloatArray, cut: FloatArray
) -> FloatArray:
    """Return the posterior chance that a bin's count is larger than each of some places, (mixtures, m, c, places).

    Quantiles of the counts are found by it.

    Parameters
    ----------
    places
        (m, c, places) counts.
    chances
        (mixtures, m, laws, c) the chance of each law but the law of empty bins.
    centre, spread
        (m, laws, c) of the posterior under each law, a normal law cut off at 0.
    cut
        (m, laws, c) logarithm of the part of it that is not cut off.
    """
    m, c, points = places.shape
    likely = np.swapaxes((chances > UNLIKELY).any(axis=0), 1, 2)  # most laws are out of the question for most counts
    i, k, law = np.nonzero(likely)
    tails = (centre[i, law, k][:, None] - places[i, k]) / spread[i, law, k][:, None]
    whole = cut[i, law, k]
    rare = whole < RARE
    some = log_ndtr(tails[rare]) - whole[rare][:, None]
    ndtr(tails, out=tails)  # takes half of the time of its logarithm
    tails /= np.exp(np.maximum(whole, RARE))[:, None]
    tails[rare] = np.exp(some)
    np.minimum(tails, 1.0, out=tails)
    ends = np.append(0, np.cumsum(likely.sum(axis=2)))
    size = (m * c, len(tails))
    sums = [csr_array((one[i, law, k], np.arange(len(tails)), ends), shape=size) @ tails for one in chances]
    return np.stack(sums).reshape(-1, m, c, points)


def _common_quantiles(places: FloatArray, beyond: FloatArray, held: FloatArray, rows: FloatArray) -> FloatArray:
    """Return each class's posterior quantile at one common level of its histogram, (..., m, c).

    The level is chosen so that the quantiles sum to the number of rows.  Such estimates have the least expected total
    variation distance.

    Parameters
    ----------
    places
        (..., m, c, places) counts, increasing in even steps.
    beyond
        (..., m, c, places) the chance that a bin's count is larger, decreasing.
    held
        (m, c) bins of each class.
    rows
        (m,) what they hold together.
    """
    last = places.shape[-1] - 1
    start, step = places[..., 0], (places[..., -1] - places[..., 0]) / last
    ends = np.concatenate([beyond, np.full((*beyond.shape[:-1], 1), -1.0)], axis=-1)  # no level is below the end
    chances, first = ends.ravel(), np.arange(start.size).reshape(start.shape) * (last + 2)

    def quantiles(log_odds: FloatArray) -> FloatArray:
        """Return the quantile of each class of bins at the level of its histogram, (..., m, c)."""
        level = (1 / (1 + np.exp(-log_odds)))[..., None]
        after = (ends <= level[..., None]).argmax(axis=-1)
        at = first + np.minimum(np.maximum(after, 1), last)
        above, under = chances.take(at - 1), chances.take(at)
        part = np.minimum(np.maximum((above - level) / np.maximum(above - under, 1e-300), 0.0), 1.0)
        return np.where(after == 0, start, start + (at - first - 1 + part) * step)

    def too_many(log_odds: FloatArray) -> FloatArray:
        """Return by how many rows the quantiles are too many, (..., m): the lower the level, the larger they are."""
        return np.asarray((quantiles(log_odds) * held).sum(axis=-1) - rows, np.float64)

    return quantiles(_roots(too_many, np.full(start.shape[:-1], MOST_ODDS)))


def _roots(function: Callable[[FloatArray], FloatArray], end: FloatArray) -> FloatArray:
    """Return a root of each of many decreasing functions between -end and end, or the end that is nearer to one.

    The quantile levels of many histograms are found by it.  Chandrupatla (1997): inverse quadratic interpolation where
    that is safe, else bisection, of all at once.

    Parameters
    ----------
    function
        Takes an argument of each function and returns the values of all.
    end
        One for each function, > 0.
    """
    newest, other = -end, end.copy()
    high, low = function(newest), function(other)
    newest, other = np.where(low >= 0, other, newest), np.where(high <= 0, newest, other)
    before, value = other.copy(), low.copy()
    part = np.full(end.shape, 0.5)
    while True:
        at = newest + part * (other - newest)
        found = function(at)
        same = np.sign(found) == np.sign(high)
        before, value = np.where(same, newest, other), np.where(same, high, low)
        other, low = np.where(same, other, newest), np.where(same, low, high)
        newest, high = at, found
        other = np.where(high == 0, newest, other)
        least = 0.5 * NEAR / np.maximum(np.abs(other - newest), NEAR)
        if np.all(least >= 0.5):
            return newest
        with np.errstate(all="ignore"):  # where interpolation is not safe, its result is not taken
            apart, share = (newest - other) / (before - other), (high - low) / (value - low)
            inverse = high / (low - high) * value / (low - value) + (before - newest) / (other - newest) * high / (
                value - high
            ) * low / (value - low)
            safe = (share**2 < apart) & ((1 - share) ** 2 < 1 - apart)
        part = np.clip(np.where(safe, inverse, 0.5), least, 1 - least)
