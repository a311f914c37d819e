"""How strongly columns are related, by noisy scores of all of them: not at all, or by a law that is fitted to the scores.

A score is the distance of a table from what is expected of it.  It has three causes: a relation, of which there is none
with a probability that all candidates share, and else an exponentially distributed one; what chance and noisy margins
explain; and the noise of the score.  Shares and sizes of relations are averaged over a grid, by how likely they make all
scores (empirical Bayes).  So candidates that are not told from nothing count as nothing, and where hardly any column is
related to another, more is asked of each.  Post-processing of noisy answers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from synthdp.arrays import FloatArray, IntArray

MEAN_ABS = math.sqrt(2 / math.pi)
"""The mean of |Z| for a standard normal Z, √(2 / π): turns a standard deviation into the mean absolute error it causes.
Derived.
"""

OF_MARGINS = 0.5
"""Assumed squared error of a column's estimated rows, in multiples of the noise variance of its raw counts; smoothing
makes it less than 1.  A larger one lets noisy margins explain more of a score.

Tuned.  Measured on Adult's columns at epsilon .1: .01 to 1.5, .3 in the median.
"""

DISTANCES = np.geomspace(0.003, 1.5, 36)
"""Grid of possible strengths of a relation: the L1 distance of a table from what independence or the model expects, as
a fraction of the rows.  From strengths never worth measuring to nearly the largest possible, 2; steps of a fifth are
finer than a noisy score can tell apart (a tolerance).
"""

SIZES = np.geomspace(0.01, 0.6, 10)
"""Grid of mean strengths of relations: each is the mean of an exponential law over `DISTANCES`, which the scores choose
among.  Its steps are a tolerance.
"""

TYPICAL, SPREAD = {2: 0.12, 3: 0.03}, 0.8
"""Log-normal prior of the mean strength of relations, as a fraction of the rows: TYPICAL is its mode for pairs and for
triples (beyond their pairs), SPREAD its standard deviation on the log scale.  Tuned on Adult and hmeq; scores of more
than a few pairs outweigh it.
"""

NONE = np.array([0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995])
"""Grid of the fraction of candidates whose columns are not related at all, which the scores choose among.  Its steps
are a tolerance.
"""

RELATIVES = 6.0
"""Prior mean of the number of columns that a column is related to, at most half of them.  More let weaker scores
count as relations, fewer take them for noise; many scores outweigh it.  Tuned.
"""

MISSTATED = 0.15
"""Relative error of the part of a score that is attributed to chance and to noisy margins, which is only estimated. A
larger one lets scores near that part say less of a relation.  Measured: .042 for .045, .11 for .10 to .12 on shuffled
columns.
"""


EVEN = 0.5
"""A candidate whose probability of no relation exceeds this counts as unrelated.  A convention: likelier than not."""

QUANTILES = ndtri((np.arange(20) + 0.5) / 20)
"""Twenty equally likely values of standard normal noise, over which the chance that a relation shows in its noisy score
is averaged.  A tolerance: steps of 5 %.
"""


class Relation(NamedTuple):
    """What a noisy score says of the relation of some columns: whether there is one, and how strong.

    Parameters
    ----------
    none
        Probability that there is no relation.
    distance
        L1 distance by which a relation moves the table, in rows.
    """

    none: float
    distance: float

    @property
    def expected(self) -> float:
        """Expected L1 distance, in rows, that the relation moves the table; 0 if there is likelier none than one."""
        return (1 - self.none) * self.distance if self.none <= EVEN else 0.0


def prior_of(columns: int, order: int) -> FloatArray:
    """Return the prior of each fraction unrelated (`NONE`) and mean strength (`SIZES`), (shares, sizes), of sum 1.

    It is for candidates of ``order`` columns, 2 or 3, of a table of ``columns``.  All scores together update it.
    """
    related = min(0.5, RELATIVES / max(1, columns - 1))
    shares = NONE ** (1 / related - 2) * np.gradient(NONE)  # a beta law of that mean
    sizes = np.exp(-0.5 * (np.log(SIZES / TYPICAL[order]) / SPREAD) ** 2)
    both = np.outer(shares, sizes)
    return np.asarray(both / both.sum(), np.float64)


def laws() -> FloatArray:
    """Return the exponential law over `DISTANCES` for each mean in `SIZES`, (sizes, distances); each row sums to 1.

    By it the strengths of relations are spread, and the likelihoods of scores are averaged.
    """
    found = np.exp(-DISTANCES / SIZES[:, None]) * np.gradient(DISTANCES)
    return np.asarray(found / found.sum(axis=1, keepdims=True), np.float64)


def energies(
    scores: FloatArray, explained: FloatArray, stddev: float, *, total: float, columns: int, order: int = 2
) -> list[Relation]:
    """Estimate by empirical Bayes, from noisy scores, whether each candidate's columns are related and how strongly.

    A relation is the probability that there is none, and the mean distance in rows if there is one.

    Parameters
    ----------
    scores
        (k,) noisy distances, in rows.
    explained
        (k,) the distances that chance and noise in margins would make, on average.
    stddev
        Standard deviation of the noise of a score.
    total
        Number of rows, > 0.
    columns
        Number of columns.
    order
        Number of columns of a candidate, 2 or 3.
    """
    told = _Told.by(scores / total, explained / total, stddev / total)
    posterior = _posterior(told, columns, order)
    none = told.none(posterior)
    mass = ((posterior * (1 - NONE[:, None]) / told.either).sum(axis=1) @ laws()) * told.some
    distance = total * (mass @ DISTANCES) / np.maximum(mass.sum(axis=1), 1e-300)
    return [Relation(*one) for one in zip(none.tolist(), distance.tolist(), strict=True)]


def seen(distances: FloatArray, explained: FloatArray, stddev: float, *, total: float, columns: int) -> FloatArray:
    """Return the chance, (k,), that a noisy score shows a relation of a given size, if no other columns are related.

    A plan foresees by it which relations a release will find.  A lower bound, since more relations make each likelier.

    Parameters
    ----------
    distances
        (k,) how far each candidate's relation moves its table, in rows.
    explained, stddev, total, columns
        As in `energies`; candidates are pairs.

    Returns
    -------
    (k,) chances.
    """
    noise, chance = stddev / total, explained / total
    posterior = _posterior(_Told.by(chance, chance, noise), columns, 2)
    spread = np.hypot(noise, MISSTATED * chance)
    found: FloatArray = np.zeros(len(distances))
    for quantile in QUANTILES:
        likely = np.hypot(distances / total, chance) + quantile * spread
        found += _Told.by(likely, chance, noise).none(posterior) <= EVEN
    return found / len(QUANTILES)


class _Told(NamedTuple):
    """Likelihoods of noisy scores with and without a relation, each divided by its largest value.

    Parameters
    ----------
    some, nothing
        (k, distances) if there is a relation of each of `DISTANCES`, and (k,) if there is none.
    either
        (k, shares, sizes) on average, for each of `NONE` and of `SIZES`.
    """

    some: FloatArray
    nothing: FloatArray
    either: FloatArray

    @classmethod
    def by(cls, scores: FloatArray, explained: FloatArray, stddev: float) -> _Told:
        """Return the likelihoods of k scores: with a relation of each strength, with none, and on average.

        Shapes are (k, distances), (k,) and (k, shares, sizes); the third is for each of `NONE` and of `SIZES`.
        Scores, the part chance explains, and noise are fractions of the rows.
        """
        chance = np.maximum(explained, 1e-12)
        spread = np.hypot(stddev, MISSTATED * chance) + 1e-12
        some = -0.5 * ((scores[:, None] - np.hypot(DISTANCES, chance[:, None])) / spread[:, None]) ** 2
        nothing = -0.5 * (np.maximum(scores - chance, 0.0) / spread) ** 2  # nearer than chance: as likely as any can be
        top = np.maximum(some.max(axis=1), nothing)
        some, nothing = np.exp(some - top[:, None]), np.exp(nothing - top)
        related = (1 - NONE[:, None]) * (some @ laws().T)[:, None, :]
        return cls(some, nothing, NONE[:, None] * nothing[:, None, None] + related + 1e-300)

    def none(self, posterior: FloatArray) -> FloatArray:
        """Return the posterior probability of no relation, (k,), averaged over the joint posterior (shares, sizes)."""
        found = (posterior * NONE[:, None] * self.nothing[:, None, None] / self.either).sum(axis=(1, 2))
        return np.asarray(found, np.float64)


def _posterior(told: _Told, columns: int, order: int) -> FloatArray:
    """Return the posterior of `NONE` and `SIZES` together given all scores, (shares, sizes), of sum 1.

    What is said of each candidate's relation is averaged over it.
    """
    posterior = np.log(prior_of(columns, order)) + np.log(told.either).sum(axis=0)
    posterior = np.exp(posterior - posterior.max())
    return np.asarray(posterior / posterior.sum(), np.float64)


def before_scores(total: float, columns: int) -> Relation:
    """Return the prior belief about a pair of columns that was never scored, by which its noisy products are weighed.

    It is the mean chance of no relation, and a typical distance in rows of a relation.
    """
    return Relation(float(prior_of(columns, 2).sum(axis=1) @ NONE), TYPICAL[2] * total)


def explained_by_chance(
    expected: FloatArray, rows_of_model: FloatArray | float = 0.0, margins: FloatArray | float = 0.0
) -> float:
    """Return the mean L1 distance, in rows, of a table from its expectation if only sampling and noise move it.

    A score has to exceed this before it suggests a relation.

    Parameters
    ----------
    expected
        (cells,) expected rows.
    rows_of_model
        Variance of the expectation itself, where drawn rows stand for the model.
    margins
        Variance of a cell of the expectation by noise in the margins that it was made of.
    """
    drawn = MEAN_ABS * np.sqrt(rows_of_model)
    scatter = np.minimum(MEAN_ABS * np.sqrt(expected + rows_of_model), 2 * expected + drawn)
    return float(np.sqrt(scatter**2 + MEAN_ABS**2 * np.asarray(margins)).sum())


def variance_of_margin(group: IntArray, first_bin: IntArray, stddev: float, rows: FloatArray) -> FloatArray:
    """Return the variance, (groups,), of the error of a column's estimated rows per group.

    It is `OF_MARGINS` times the summed noise of the bins, capped at the squared rows in the group, which are taken as
    at least 1.  It tells how much of a score noisy margins explain.

    Parameters
    ----------
    group, first_bin
        (leaves,) the group of each leaf, and the bin of the first histogram that holds it.
    stddev
        Standard deviation of the noise of a bin, in rows.
    rows
        (groups,) the estimated rows.
    """
    leaves = np.bincount(first_bin)
    bins = np.bincount(group, weights=1 / leaves[first_bin], minlength=len(rows))
    return np.asarray(OF_MARGINS * np.minimum(bins * stddev**2, np.maximum(rows, 1.0) ** 2), np.float64)
