"""Estimate histograms from noisy counts by empirical Bayes: as smooth, or as sparse, as the counts suggest.

Three priors are fitted to the noisy counts.  Under the first, bins are unrelated.  Under the second, filled bins may
have about equal counts, as the years of a survey do.  Under the third, neighbouring bins have similar counts.  The
estimate is the mean of the three posterior estimates, weighted by the likelihood of the counts under each prior.  With
little noise the counts hardly change.  Post-processing of noisy answers.

Under the first two priors all bins share the prior of a bin's count.  It is a mixture of 0 and of exponential laws of
many means, and in the second also of normal laws.  Its weights are fitted to the noisy counts by maximum likelihood
(Kiefer and Wolfowitz 1956).  Estimates must have the right sum.  The estimate of least expected total variation
distance takes the quantile of each bin's posterior at one common level.  With a flat prior it would be the projection
on the simplex.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import log_ndtr, ndtr, softmax

from synthdp.arrays import BoolArray, FloatArray, IntArray
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

STEPS = 40
"""Iterations of expectation-maximization when the prior is fitted.  A numerical tolerance."""

HEAP = 1 / 3
"""Standard deviation of each normal component of the prior, relative to its mean.  Derived: hardly any mass is below 0,
and the means, each twice the previous mean, leave no gap."""

REACH, PLACES = 7.0, 29
"""A posterior is computed within REACH standard deviations of the noise around the count, at PLACES evenly spaced
points.  Tolerances: a normal law has 1e-12 outside.  Points are half a standard deviation apart: estimates of 300
histograms were off by .06 stddevs at most."""

MOST_ODDS, NEAR = 20.0, 1e-12
"""The quantile level common to all bins is searched between log odds of -MOST_ODDS and MOST_ODDS, to a precision of NEAR.
Numerical tolerances: levels are from 2e-9 to 1 - 2e-9."""

UNLIKELY = 1e-14
"""A component of the prior with a posterior probability below this is left out of a bin's posterior, to save time.  A
tolerance."""

RARE = -600.0
"""If the log of a truncated normal law's mass is below this, its tail is computed in logs, since dividing would
underflow.  A numerical tolerance."""

MOST_BINS, FINENESS = 256, 64
"""In histograms of more than MOST_BINS bins, bins share one posterior if their asinh(count / stddev) agrees to 1 /
FINENESS. A safety limit of time, and a tolerance."""

MOST_AT_ONCE = 1 << 22
"""Histograms are estimated together as long as their posteriors have fewer numbers than this: 32 MB. A safety limit of
memory."""


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
    """Estimate a histogram from noisy counts: the mean of three posterior estimates, weighted by likelihood.

    The first prior has many empty bins, the second has filled bins of about equal counts, and the third has
    similar neighbours.  A histogram of fewer than `LEAST_BINS` bins, or with hardly any noise, is only projected to
    counts of the right sum.

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
    """Return the estimated rows of each noisy histogram, (k,), as `estimated` does.

    Many histograms together take less time than one by one.  ``neighbours`` holds, for each histogram, the number of
    its first bins that are adjacent and of equal width.
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
    """Return the mean of the three estimates of a histogram, (k,) in rows, weighted by the counts' likelihood under each.

    Without more than `LEAST_BINS` adjacent bins there is no smooth estimate, and the mean is over two.
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


class NoisyHistogram(NamedTuple):
    """Noisy counts of the bins of one column, with their noise and the number of rows.

    Parameters
    ----------
    counts
        (k,) noisy counts, in rows.
    stddev
        Standard deviation of the noise of a count, in rows, > 0.
    total
        Number of rows in all bins, > 0.
    """

    counts: FloatArray
    stddev: float
    total: float


class SeparateBins(NamedTuple):
    """Estimated rows in bins that are unrelated to each other, and the fit of their prior to the noisy counts.

    Parameters
    ----------
    rows
        (k,) estimated rows, >= 0, with the histogram's number of rows as sum.
    evidence
        (k,) log of the likelihood ratio of each count, under the prior against an empty bin.
    """

    rows: FloatArray
    evidence: FloatArray


def separate_and_heaped_bins(histograms: Sequence[NoisyHistogram]) -> list[tuple[SeparateBins, SeparateBins]]:
    """Estimate the counts of unrelated bins (levels, or values far apart) twice, by empirical Bayes with sparse priors.

    The first prior has exponential laws.  The second also has normal laws, for filled bins with about equal counts.
    The caller weights both estimates by their evidence.  Histograms are independent of each other, but many at once
    take less time than one by one.
    """
    classed = [_ClassedHistogram.of(one) for one in histograms]
    batches = _batches(classed)
    found = {
        i: both for places in batches for i, both in zip(places, _estimates([classed[i] for i in places]), strict=True)
    }
    return [found[i] for i in range(len(histograms))]


class _ClassedHistogram(NamedTuple):
    """A histogram in standard deviations of its noise, with its bins in classes that share a posterior.

    Parameters
    ----------
    histogram
        The histogram, in rows.
    noisy
        (k,) noisy counts, in standard deviations of the noise.
    rows
        Number of rows, in standard deviations of the noise.
    y, which, held
        (c,) representative count of each class, (k,) class of each bin, and (c,) number of bins in each class.
    """

    histogram: NoisyHistogram
    noisy: FloatArray
    rows: float
    y: FloatArray
    which: IntArray
    held: FloatArray

    @classmethod
    def of(cls, histogram: NoisyHistogram) -> _ClassedHistogram:
        """Return a histogram in stddevs of its noise, with its bins in classes.

        In a histogram of more than `MOST_BINS` bins, bins of nearly equal counts share a class, since one posterior
        for all of them saves time.
        """
        noisy, rows = histogram.counts / histogram.stddev, histogram.total / histogram.stddev
        y, which = _classes(noisy)
        return cls(histogram, noisy, rows, y, which, np.bincount(which, minlength=len(y)).astype(np.float64))

    @property
    def laws(self) -> int:
        """Number of exponential laws in the prior, with means 1/2, 1, 2, ... stddevs of noise, up to all rows."""
        return 2 + max(0, math.ceil(math.log2(self.rows)))

    def estimate(self, quantiles: FloatArray, evidence: FloatArray) -> SeparateBins:
        """Return each bin's estimated rows and evidence from its class's quantile and evidence, (c,) each.

        Quantiles are in stddevs of the noise.  The estimated rows are scaled to the histogram's number of rows.
        """
        found = quantiles[self.which]
        moved = np.where(found > 0, np.maximum(found + self.noisy - self.y[self.which], 0.0), 0.0)
        held_now, (counts, _, total) = float(moved.sum()), self.histogram
        rows = moved * (total / held_now) if held_now > 0 else project_to_simplex(counts, total)
        return SeparateBins(rows, evidence[self.which])


def _classes(noisy: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the representative count of each class, (c,), and the class of each bin, (k,).

    Counts are in stddevs of the noise.  Classes save time in histograms of more than `MOST_BINS` bins; with fewer, each
    bin is its own class.
    """
    if len(noisy) <= MOST_BINS:
        return noisy, np.arange(len(noisy))
    code, which = np.unique(np.rint(np.arcsinh(noisy) * FINENESS), return_inverse=True)
    return np.sinh(code / FINENESS), which


def _batches(classed: Sequence[_ClassedHistogram]) -> Iterator[list[int]]:
    """Yield positions of histograms to be estimated in one array: equally many laws, and about as many classes."""
    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, one in enumerate(classed):
        alike[one.laws, (len(one.y) - 1).bit_length()].append(i)
    for (laws, bits), members in alike.items():
        most = max(1, MOST_AT_ONCE // (2 * laws * 2**bits * PLACES))
        yield from (members[first : first + most] for first in range(0, len(members), most))


def _estimates(classed: Sequence[_ClassedHistogram]) -> Iterator[tuple[SeparateBins, SeparateBins]]:
    """Yield the two estimates of each histogram; all have equally many laws, so that arrays hold them together.

    The first estimate has a prior of exponential laws, the second a prior of exponential and normal laws.
    """
    m, c, laws = len(classed), max(len(one.y) for one in classed), classed[0].laws
    y, held = np.zeros((2, m, c))  # padding: classes without bins
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
    chances, likelihood = _fit_priors(np.exp(each - top[:, :, None]), held, used)
    start = np.maximum(y - REACH, 0.0)
    places = start[..., None] + np.linspace(0, 1, PLACES) * (np.maximum(y, 0.0) + REACH - start)[..., None]
    beyond = _tail_chances(places, chances[:, :, 1:], centre, spread, cut)
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
        (m, c) noisy counts of the classes of m histograms.
    means
        (laws,) means of the exponential laws.

    Returns
    -------
    The log density of the counts against empty bins, before the posterior is cut off at 0, (m, laws, c); and the centre
    and the stddev of the posterior, a normal law that is cut off at 0, (m, laws, c) each.
    """
    centre = y[:, None] - 1 / means[:, None]
    density = 0.5 * (centre**2 + math.log(2 * math.pi)) - np.log(means)[:, None]
    return density, centre, np.ones_like(centre)


def _normal(y: FloatArray, means: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the same results as `_exponential`, for normal laws of these means and stddevs of `HEAP` times the mean.

    The results are the log density of counts against empty bins, and the posterior's centre and stddev, (m, laws, c)
    each.
    """
    mean, y = means[:, None], y[:, None]
    variance = (HEAP * mean) ** 2
    density = 0.5 * (y**2 - (y - mean) ** 2 / (1 + variance) - np.log1p(variance))
    centre = (y * variance + mean) / (1 + variance)
    return density, centre, np.broadcast_to(np.sqrt(variance / (1 + variance)), centre.shape)


def _fit_priors(likelihoods: FloatArray, held: FloatArray, used: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Fit the component weights of many mixture priors at once, by expectation-maximization.

    The bins of one histogram share a mixture, so each class of bins counts as often as it has bins.  One bin is added, in
    equal parts for all components, so that no weight becomes 0 (Perks 1947).  Arrays begin with the axes of priors and of
    m histograms, written as (...).

    Parameters
    ----------
    likelihoods
        (..., laws, c) likelihood of each class's count under each law, relative to the largest; 0 under laws that the
        mixture does not have.
    held
        (m, c) number of bins in each class.
    used
        (..., laws) whether the mixture has the law.

    Returns
    -------
    (..., laws, c) posterior chance of each law for each class, and (..., c) likelihood of each class's count.
    """
    shares = pseudo = used / used.sum(axis=-1, keepdims=True)
    bins = held.sum(axis=-1)[:, None] + 1  # with the bin that is added
    for _ in range(STEPS):
        mixed = (shares[..., None, :] @ likelihoods)[..., 0, :]
        shares = (shares * (likelihoods @ (held / mixed)[..., None])[..., 0] + pseudo) / bins
    joint = shares[..., None] * likelihoods
    whole = joint.sum(axis=-2)
    return joint / whole[..., None, :], whole


def _tail_chances(
    places: FloatArray, chances: FloatArray, centre: FloatArray, spread: FloatArray, cut: FloatArray
) -> FloatArray:
    """Return the posterior chance that a bin's count is larger than each of some values, (mixtures, m, c, places).

    The quantiles of the counts are computed from these chances.  There are m histograms with c classes of bins each; all
    bins of a class have one posterior (`_ClassedHistogram`).

    Parameters
    ----------
    places
        (m, c, places) the values for each class, in stddevs of the noise.
    chances
        (mixtures, m, laws, c) posterior chance of each law except the law of empty bins.
    centre, spread
        (m, laws, c) centre and stddev of the posterior under each law, a normal law cut off at 0.
    cut
        (m, laws, c) logarithm of the normal law's probability above 0.
    """
    m, c, points = places.shape
    likely = np.swapaxes((chances > UNLIKELY).any(axis=0), 1, 2)  # most laws are impossible for most counts
    i, k, law = np.nonzero(likely)
    tails = (centre[i, law, k][:, None] - places[i, k]) / spread[i, law, k][:, None]
    whole = cut[i, law, k]
    rare = whole < RARE
    some = log_ndtr(tails[rare]) - whole[rare][:, None]
    ndtr(tails, out=tails)  # ndtr takes half of the time of log_ndtr
    tails /= np.exp(np.maximum(whole, RARE))[:, None]
    tails[rare] = np.exp(some)
    np.minimum(tails, 1.0, out=tails)
    ends = np.append(0, np.cumsum(likely.sum(axis=2)))
    size = (m * c, len(tails))
    sums = [csr_array((one[i, law, k], np.arange(len(tails)), ends), shape=size) @ tails for one in chances]
    return np.stack(sums).reshape(-1, m, c, points)


def _common_quantiles(places: FloatArray, beyond: FloatArray, held: FloatArray, rows: FloatArray) -> FloatArray:
    """Return each class's posterior quantile at one common level of its histogram, (..., m, c), in stddevs of noise.

    The level is chosen so that the quantiles sum to the number of rows.  These estimates have the least expected total
    variation distance.

    Parameters
    ----------
    places
        (..., m, c, places) values, increasing in even steps.
    beyond
        (..., m, c, places) chance that a bin's count is larger than the value, decreasing.
    held
        (m, c) number of bins in each class.
    rows
        (m,) number of rows of each histogram, in stddevs of its noise.
    """
    last = places.shape[-1] - 1
    start, step = places[..., 0], (places[..., -1] - places[..., 0]) / last
    ends = np.concatenate([beyond, np.full((*beyond.shape[:-1], 1), -1.0)], axis=-1)  # -1 is below every level
    chances, first = ends.ravel(), np.arange(start.size).reshape(start.shape) * (last + 2)

    def quantiles(log_odds: FloatArray) -> FloatArray:
        """Return the quantile of each class at the level of its histogram, (..., m, c)."""
        level = (1 / (1 + np.exp(-log_odds)))[..., None]
        after = (ends <= level[..., None]).argmax(axis=-1)
        at = first + np.minimum(np.maximum(after, 1), last)
        above, under = chances.take(at - 1), chances.take(at)
        part = np.minimum(np.maximum((above - level) / np.maximum(above - under, 1e-300), 0.0), 1.0)
        return np.where(after == 0, start, start + (at - first - 1 + part) * step)

    def too_many(log_odds: FloatArray) -> FloatArray:
        """Return the excess of the quantiles' sum over the number of rows, (..., m); it falls as the level rises."""
        return np.asarray((quantiles(log_odds) * held).sum(axis=-1) - rows, np.float64)

    return quantiles(_roots(too_many, np.full(start.shape[:-1], MOST_ODDS)))


def _roots(function: Callable[[FloatArray], FloatArray], end: FloatArray) -> FloatArray:
    """Return a root of each of many decreasing functions between -end and end, or the end that is nearer to a root.

    The quantile levels of many histograms are such roots.  The method is Chandrupatla's (1997): inverse quadratic
    interpolation where that is safe, else bisection, for all functions at once.

    Parameters
    ----------
    function
        Takes an array with an argument for each function, and returns the array of their values.
    end
        End of the interval of each function, > 0.
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
        with np.errstate(all="ignore"):  # invalid where interpolation is unsafe; not used there
            apart, share = (newest - other) / (before - other), (high - low) / (value - low)
            inverse = high / (low - high) * value / (low - value) + (before - newest) / (other - newest) * high / (
                value - high
            ) * low / (value - low)
            safe = (share**2 < apart) & ((1 - share) ** 2 < 1 - apart)
        part = np.clip(np.where(safe, inverse, 0.5), least, 1 - least)
