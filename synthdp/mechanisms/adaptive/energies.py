"""How strongly columns are related: an empirical-Bayes estimate from the noisy scores of all candidate tables.

A score is the noisy L1 distance of a table from its expected counts.  It has three causes.  The first is a relation.  A
candidate has none with a probability common to all candidates; otherwise its strength is exponentially distributed.
The second cause is chance, together with noise in the margins.  The third cause is the noise of the score.  Both
parameters, the fraction unrelated and the mean strength, are averaged over a grid by their likelihood given all scores.
So candidates that noise explains count as unrelated.  If few columns are related, a candidate needs a larger score.
Post-processing of noisy answers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from synthdp.arrays import MEAN_ABS, FloatArray, IntArray

OF_MARGINS = 0.5
"""Assumed squared error of a column's estimated rows, as a multiple of the noise variance of its raw counts.  The
multiple is below 1 because estimates are smoothed.  A larger value lets noisy margins explain more of a score.  On
Adult's columns at epsilon .1 it is .01 to 1.5, .3 in the median.  Tuned: half and twice of it change the three-way
error of five tables by +.6 and +1.2 % (docs/benchmarks/constants.md)."""

DISTANCES = np.geomspace(0.003, 1.5, 36)
"""Grid of possible strengths of a relation, and of their means, each the mean of an exponential law; scores determine the
weight of each law.  A strength is the L1 distance of a table from its expected counts, as a fraction of the rows.  The grid
runs from strengths never worth measuring to nearly the largest possible strength, 2.  Steps of a fifth are finer than the
noise of a score (a tolerance)."""

TYPICAL, SPREAD = {2: 0.12, 3: 0.03}, 0.8
"""Log-normal prior of the mean strength of relations, as a fraction of the rows: TYPICAL is its mode for pairs and for
triples (beyond their pairs), SPREAD its standard deviation on the log scale.  Scores of more than a few pairs outweigh
it.  Tuned on Adult and hmeq: half and twice of TYPICAL change the three-way error of five tables by 0 and +.1 %, of
SPREAD by +.1 and +.4 % (docs/benchmarks/constants.md)."""

NONE = np.array([0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995])
"""Grid of the fraction of candidates whose columns are not related; scores determine the weight of each value.  Its
steps are a tolerance."""

MISSTATED = 0.15
"""Relative error of the part of a score that is attributed to chance and to noisy margins, which is only estimated.
With a larger value, scores near that part are weaker evidence of a relation.  Measured on shuffled columns, whose scores
have no other part: scores of .042 and .11 of the rows, for attributed parts of .045 and .10 to .12.  At 0 the error of
deciles grows by 1.2 +- .5 % on three tables that were not used (docs/benchmarks/planner.md)."""


class EstimatedRelation(NamedTuple):
    """The estimated relation of some columns: the probability that there is none, and its strength if there is one.

    Parameters
    ----------
    none
        Probability that there is no relation.
    distance
        L1 distance by which the relation moves the table, in rows, if there is one.
    """

    none: float
    distance: float

    @property
    def expected(self) -> float:
        """Expected L1 distance, in rows, by which the relation moves the table; 0 unless a relation is likely (>= .5).

        Candidates with 0 are not measured.
        """
        return (1 - self.none) * self.distance if self.none <= 0.5 else 0.0


def prior_of(order: int) -> FloatArray:
    """Return the prior of each fraction unrelated (`NONE`) and mean strength (`DISTANCES`), (shares, sizes), sum 1.

    The prior is for candidates of ``order`` columns, 2 or 3.  No fraction is preferred.  All scores together update it.
    """
    sizes = np.exp(-0.5 * (np.log(DISTANCES / TYPICAL[order]) / SPREAD) ** 2)
    both = np.outer(np.gradient(NONE), sizes)
    return np.asarray(both / both.sum(), np.float64)


def laws() -> FloatArray:
    """Return the exponential law over `DISTANCES` for each mean in it, (sizes, distances); each row sums to 1.

    The strength of a relation has one of these laws as its prior.  Likelihoods of scores are averaged by them.
    """
    found = np.exp(-DISTANCES / DISTANCES[:, None]) * np.gradient(DISTANCES)
    return np.asarray(found / found.sum(axis=1, keepdims=True), np.float64)


def energies(
    scores: FloatArray, explained: FloatArray, stddev: float, *, total: float, order: int = 2
) -> list[EstimatedRelation]:
    """Estimate by empirical Bayes, from noisy scores, whether each candidate's columns are related and how strongly.

    Returns, for each candidate, the probability of no relation, and the mean distance in rows if there is a relation.
    The expected gain of measuring a candidate depends on both.

    Parameters
    ----------
    scores
        (k,) noisy distances, in rows.
    explained
        (k,) mean distances, in rows, that chance and noise in margins alone would make.
    stddev
        Standard deviation of the noise of a score, in rows.
    total
        Number of rows, > 0.
    order
        Number of columns of a candidate, 2 or 3.
    """
    likelihoods = ScoreLikelihoods.by(scores / total, explained / total, stddev / total)
    posterior = posterior_of(likelihoods, order)
    none = likelihoods.none(posterior)
    mass = ((posterior * (1 - NONE[:, None]) / likelihoods.either).sum(axis=1) @ laws()) * likelihoods.some
    distance = total * (mass @ DISTANCES) / np.maximum(mass.sum(axis=1), 1e-300)
    return [EstimatedRelation(*one) for one in zip(none.tolist(), distance.tolist(), strict=True)]


class ScoreLikelihoods(NamedTuple):
    """Likelihoods of noisy scores with and without a relation, each divided by the largest value for its score.

    Parameters
    ----------
    some, nothing
        (k, distances) likelihood with a relation of each strength in `DISTANCES`, and (k,) likelihood without a
        relation.
    either
        (k, shares, sizes) mean likelihood for each fraction in `NONE` and each mean strength in `DISTANCES`.
    """

    some: FloatArray
    nothing: FloatArray
    either: FloatArray

    @classmethod
    def by(cls, scores: FloatArray, explained: FloatArray, stddev: float) -> ScoreLikelihoods:
        """Return the likelihoods of k scores: with a relation of each strength, with no relation, and on average.

        Scores, the part that chance explains, (k,) each, and the stddev of the noise are fractions of the rows.
        """
        chance = np.maximum(explained, 1e-12)
        spread = np.hypot(stddev, MISSTATED * chance) + 1e-12
        some = -0.5 * ((scores[:, None] - np.hypot(DISTANCES, chance[:, None])) / spread[:, None]) ** 2
        nothing = -0.5 * (np.maximum(scores - chance, 0.0) / spread) ** 2  # 1 for a score below chance
        top = np.maximum(some.max(axis=1), nothing)
        some, nothing = np.exp(some - top[:, None]), np.exp(nothing - top)
        related = (1 - NONE[:, None]) * (some @ laws().T)[:, None, :]
        return cls(some, nothing, NONE[:, None] * nothing[:, None, None] + related + 1e-300)

    def none(self, posterior: FloatArray) -> FloatArray:
        """Return the probability of no relation given each of k scores, (k,), averaged over ``posterior``.

        ``posterior``, (shares, sizes), is the joint posterior of `NONE` and of mean strengths; see `posterior_of`.
        """
        found = (posterior * NONE[:, None] * self.nothing[:, None, None] / self.either).sum(axis=(1, 2))
        return np.asarray(found, np.float64)


def posterior_of(likelihoods: ScoreLikelihoods, order: int) -> FloatArray:
    """Return the joint posterior of `NONE` and of mean strengths given all scores, (shares, sizes), with sum 1.

    The estimates of each candidate are averaged over this posterior.
    """
    posterior = np.log(prior_of(order)) + np.log(likelihoods.either).sum(axis=0)
    posterior = np.exp(posterior - posterior.max())
    return np.asarray(posterior / posterior.sum(), np.float64)


def explained_by_chance(
    expected: FloatArray, rows_of_model: FloatArray | float = 0.0, margins: FloatArray | float = 0.0
) -> float:
    """Return the mean L1 distance, in rows, of a table from its expected counts if only sampling and noise cause it.

    A score is evidence of a relation only beyond this distance.

    Parameters
    ----------
    expected
        (cells,) expected counts, in rows.
    rows_of_model
        Variance of the expected counts, in squared rows, if they are counts of rows drawn from a model; (cells,) or one
        number.
    margins
        Variance of the expected counts, in squared rows, by noise in the margins that they are products of; (cells,) or
        one number.
    """
    drawn = MEAN_ABS * np.sqrt(rows_of_model)
    scatter = np.minimum(MEAN_ABS * np.sqrt(expected + rows_of_model), 2 * expected + drawn)
    return float(np.sqrt(scatter**2 + MEAN_ABS**2 * np.asarray(margins)).sum())


def variance_of_margin(group: IntArray, first_bin: IntArray, stddev: float, rows: FloatArray) -> FloatArray:
    """Return the error variance of a column's estimated rows per coarse bin, (coarse bins,), in squared rows.

    The variance is `OF_MARGINS` times the summed noise variance of the bins.  It is capped at `OF_MARGINS` times the
    squared rows in the coarse bin, which count as at least 1.  The variance determines how much of a score noisy
    margins explain.

    Parameters
    ----------
    group, first_bin
        (fine bins,) the coarse bin of each fine bin, and the bin of the first histogram that holds it.
    stddev
        Standard deviation of the noise of a bin of the first histogram, in rows.
    rows
        (coarse bins,) estimated rows.
    """
    leaves = np.bincount(first_bin)
    bins = np.bincount(group, weights=1 / leaves[first_bin], minlength=len(rows))
    return np.asarray(OF_MARGINS * np.minimum(bins * stddev**2, np.maximum(rows, 1.0) ** 2), np.float64)
