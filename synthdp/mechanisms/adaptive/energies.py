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
"""Derived: E|Z| of a standard normal, √(2 / π)."""

OF_MARGINS = 0.5
"""Assumed squared error of a column's estimated rows, relative to the squared error of its noisy counts; 1 means no gain.

Tuned.  Measured on Adult's columns at epsilon .1: .01 to 1.5, .3 in the median."""

DISTANCES = np.geomspace(0.003, 1.5, 36)
"""Distances of relations that are tried, in parts of the rows: from what never pays to nearly the largest, 2.  A grid: its
steps of a fifth are a tolerance, below what a score tells."""

SIZES = np.geomspace(0.01, 0.6, 10)
"""Means of the distances of relations that are tried, in parts of the rows.  A grid: its steps are a tolerance."""

TYPICAL, SPREAD = {2: 0.12, 3: 0.03}, 0.8
"""The most likely mean beforehand, of pairs and of what triples have beyond them, and the deviation of its logarithm.
Tuned on Adult and hmeq; scores of more than a few pairs outweigh it."""

NONE = np.array([0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995])
"""Shares of unrelated candidates that are tried.  A grid: its steps are a tolerance."""

RELATIVES = 6.0
"""Columns that a column is related to beforehand, on average, but at most half of them.  Tuned."""

MISSTATED = 0.15
"""Relative error of what chance and margins are thought to explain of a score.
Measured: .042 for .045, .11 for .10 to .12 on shuffled columns."""


EVEN = 0.5
"""Candidates that likelier have no relation than one count as unrelated.  A convention."""

QUANTILES = ndtri((np.arange(20) + 0.5) / 20)
"""Of the noise of a score, for the chance that a relation is seen.  A tolerance: steps of 5 %."""


class Relation(NamedTuple):
    """What is known of one relation.

    Parameters
    ----------
    none
        How likely it is that there is none.
    distance
        How far it moves the table, in rows, if there is one.
    """

    none: float
    distance: float

    @property
    def expected(self) -> float:
        """How far it moves the table on average; nothing where there is likelier none than one."""
        return (1 - self.none) * self.distance if self.none <= EVEN else 0.0


def prior_of(columns: int, order: int) -> FloatArray:
    """Return how likely each share of `NONE` with each size of `SIZES` is before any score, (shares, sizes), of sum 1."""
    related = min(0.5, RELATIVES / max(1, columns - 1))
    shares = NONE ** (1 / related - 2) * np.gradient(NONE)  # a beta law of that mean
    sizes = np.exp(-0.5 * (np.log(SIZES / TYPICAL[order]) / SPREAD) ** 2)
    both = np.outer(shares, sizes)
    return np.asarray(both / both.sum(), np.float64)


def laws() -> FloatArray:
    """Return how likely each of `DISTANCES` is for a relation, given each of `SIZES`; rows of sum 1."""
    found = np.exp(-DISTANCES / SIZES[:, None]) * np.gradient(DISTANCES)
    return np.asarray(found / found.sum(axis=1, keepdims=True), np.float64)


def energies(
    scores: FloatArray, explained: FloatArray, stddev: float, *, total: float, columns: int, order: int = 2
) -> list[Relation]:
    """Estimate the relations of candidates by their noisy scores.

    Parameters
    ----------
    scores
        (k,) noisy distances, in rows.
    explained
        (k,) the distances that chance and noise in margins would make, on average.
    stddev
        Of the noise of a score.
    total
        Number of rows, > 0.
    columns
        How many there are.
    order
        Of the candidates: 2 or 3 columns.
    """
    told = _Told.by(scores / total, explained / total, stddev / total)
    posterior = _posterior(told, columns, order)
    none = told.none(posterior)
    mass = ((posterior * (1 - NONE[:, None]) / told.either).sum(axis=1) @ laws()) * told.some
    distance = total * (mass @ DISTANCES) / np.maximum(mass.sum(axis=1), 1e-300)
    return [Relation(*one) for one in zip(none.tolist(), distance.tolist(), strict=True)]


def seen(distances: FloatArray, explained: FloatArray, stddev: float, *, total: float, columns: int) -> FloatArray:
    """Return how likely relations of some sizes are told from none at least: where no other columns are related.

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
    """How likely scores are, each in parts of the likeliest cause of it.

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
        """Return what scores say, all in parts of the rows."""
        chance = np.maximum(explained, 1e-12)
        spread = np.hypot(stddev, MISSTATED * chance) + 1e-12
        some = -0.5 * ((scores[:, None] - np.hypot(DISTANCES, chance[:, None])) / spread[:, None]) ** 2
        nothing = -0.5 * (np.maximum(scores - chance, 0.0) / spread) ** 2  # nearer than chance: as likely as any can be
        top = np.maximum(some.max(axis=1), nothing)
        some, nothing = np.exp(some - top[:, None]), np.exp(nothing - top)
        related = (1 - NONE[:, None]) * (some @ laws().T)[:, None, :]
        return cls(some, nothing, NONE[:, None] * nothing[:, None, None] + related + 1e-300)

    def none(self, posterior: FloatArray) -> FloatArray:
        """Return how likely it is that there is no relation, (k,), by how likely shares and sizes are."""
        found = (posterior * NONE[:, None] * self.nothing[:, None, None] / self.either).sum(axis=(1, 2))
        return np.asarray(found, np.float64)


def _posterior(told: _Told, columns: int, order: int) -> FloatArray:
    """Return how likely each share of `NONE` with each size of `SIZES` is after all scores, of sum 1."""
    posterior = np.log(prior_of(columns, order)) + np.log(told.either).sum(axis=0)
    posterior = np.exp(posterior - posterior.max())
    return np.asarray(posterior / posterior.sum(), np.float64)


def before_scores(total: float, columns: int) -> Relation:
    """Return what is to be thought of two columns whose score nobody asked for."""
    return Relation(float(prior_of(columns, 2).sum(axis=1) @ NONE), TYPICAL[2] * total)


def explained_by_chance(
    expected: FloatArray, rows_of_model: FloatArray | float = 0.0, margins: FloatArray | float = 0.0
) -> float:
    """Return how far a table is from what is expected of it, on average, if nothing but chance and noise moves it.

    Parameters
    ----------
    expected
        (cells,) expected rows.
    rows_of_model
        Variance of the expectation itself, where it is that of drawn rows.
    margins
        Variance of a cell of the expectation by noise in the margins that it was made of.
    """
    drawn = MEAN_ABS * np.sqrt(rows_of_model)
    scatter = np.minimum(MEAN_ABS * np.sqrt(expected + rows_of_model), 2 * expected + drawn)
    return float(np.sqrt(scatter**2 + MEAN_ABS**2 * np.asarray(margins)).sum())


def variance_of_margin(group: IntArray, first_bin: IntArray, stddev: float, rows: FloatArray) -> FloatArray:
    """Return the variance of the error of a column's estimated groups: noise of the bins, no more than the rows in a group.

    Parameters
    ----------
    group, first_bin
        (leaves,) the group of each leaf, and the bin of the first histogram that holds it.
    stddev
        Of the noise of a bin, in rows.
    rows
        (groups,) the estimated rows.
    """
    leaves = np.bincount(first_bin)
    bins = np.bincount(group, weights=1 / leaves[first_bin], minlength=len(rows))
    return np.asarray(OF_MARGINS * np.minimum(bins * stddev**2, np.maximum(rows, 1.0) ** 2), np.float64)
