"""Dependence of columns inside coarse bins, by a Gaussian copula.

A model has the joint distribution of coarse bins, but no dependence between the positions inside two bins.  Independent
draws inside the bins would weaken the correlation of numeric columns.  Here every ordered column has a latent normal
score, and the row's bin limits the range of the score.  The correlations of the scores reproduce the observed
correlations of the bins (polychoric correlations, by Pearson's tetrachoric series).  The values already drawn for a bin
are then permuted among the rows of the bin, in the order of the scores.

No row leaves its bin and no value leaves its column.  So tables of bins and single columns stay as they were.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from synthdp.arrays import AnyArray, BoolArray, Codes, FloatArray, GridIndices
from synthdp.domain.refinement import Refinement
from synthdp.randomness import Generator

ROWS = 20_000
"""Most rows from which the correlations of bins are estimated.  A safety limit of time."""

LEAST_LOST = 0.02
"""Smallest loss of correlation for which a column is reordered.  The loss is the correlation of two columns' scores times
the fraction that their bins do not show, which independent draws inside bins lose.  A tolerance: a smaller value reorders
more columns, for a smaller gain.  Half and twice of it change the three-way error of five tables by 0 and 0 %
(docs/benchmarks/constants.md)."""

MOST_COLUMNS, WORK = 32, 3_000_000
"""Most columns that are reordered together, and most scores (rows times columns) that are drawn, which takes about a
second.  The columns with the largest loss of correlation are chosen.  A safety limit of time."""

FEWEST_ROWS = math.ceil(1 / LEAST_LOST**2)
"""Fewest rows from which correlations of bins are estimated: the standard error of a correlation is then `LEAST_LOST`.
Derived.  A smaller sample would find relations by chance, and its rows would follow them."""

LARGEST = 0.995
"""Largest absolute correlation of two latent scores; correlations are searched up to it, since the series converges
slowly near 1. A numerical tolerance."""

TERMS = 24
"""Terms of the tetrachoric series. Terms fall with the powers of a correlation; later terms matter only near 1.
A numerical tolerance."""

ROUNDS, PARTS = 10, 8
"""The correlation of two columns' scores is found from the tetrachoric series (`TERMS`) in ROUNDS rounds.  Each round
divides the interval that holds the correlation into PARTS, which leaves 2^-30 of it.  A numerical tolerance; eight parts
at once take half the time of thirty bisections."""

FARTHEST = 8.0
"""Largest absolute value of a latent score, in standard deviations, so that the ends of the outermost bins are finite.
A numerical tolerance: a normal score lies beyond once in 10^15."""

LEAST_EIGENVALUE = 0.005
"""Smallest eigenvalue of the matrix of score correlations, and smallest conditional variance of a score.  Correlations
estimated pair by pair need not be positive definite.  A numerical tolerance."""


class Scores(NamedTuple):
    """Holds the latent normal scores of one ordered column, by coarse bin.

    Parameters
    ----------
    low, high
        (groups,) limits of the scores of each bin; infinite for bins of special or missing values.
    mean
        (groups,) mean score of each bin; 0 for bins of special or missing values.
    valued
        (groups,) whether a bin mostly holds regular values rather than special or missing ones.
    series
        (TERMS,) expected products of a Hermite polynomial of the score and the bin's mean score.  Multiplied by another
        column's, they are the coefficients of the tetrachoric series.
    """

    low: FloatArray
    high: FloatArray
    mean: FloatArray
    valued: BoolArray
    series: FloatArray

    @property
    def shown(self) -> float:
        """Return the fraction of the score variance between bins, above 0 and at most 1; the rest is within bins."""
        return float(self.series[0])


def dealt_out(
    refinements: Sequence[Refinement],
    codes: Codes,
    indices: Sequence[GridIndices],
    rng: Generator,
    *,
    learned_from: Codes | None = None,
) -> dict[int, GridIndices]:
    """Return the grid points of rows, permuted within bins so that numeric columns are correlated inside the bins too.

    The correlations inside bins are extrapolated from the correlations of the bins.

    Parameters
    ----------
    refinements
        The division of each column's grid points into coarse bins.
    codes
        (n, d) coarse bins of the rows.
    indices
        For each column, the (n,) grid points of the rows.
    rng
        Source of the scores.
    learned_from
        (m, d) coarse bins of rows of the same distribution, among them all of ``codes``, from which the distribution of
        the scores is estimated.  By default ``codes``.

    Returns
    -------
    By position of the column, the (n,) grid points of the columns that changed.
    """
    rows = codes if learned_from is None else learned_from
    found = ((j, _scores(refinement, rows[:, j])) for j, refinement in enumerate(refinements))
    scores = {j: score for j, score in found if score is not None}
    most = min(MOST_COLUMNS, WORK // max(len(codes), 1))
    some, correlations = _related(scores, refinements, rows[:ROWS], most=most)
    shown = np.array([scores[j].shown for j in some])
    # A column's mean score in a group stands for its score until that is drawn: it varies, and with others, so much less.
    covariances = correlations * np.outer(shown, shown)
    np.fill_diagonal(covariances, shown)
    known = np.empty((len(codes), len(some)), np.float32)
    for t, j in enumerate(some):
        known[:, t] = scores[j].mean[codes[:, j]]
    dealt: dict[int, GridIndices] = {}
    for t, j in enumerate(some):
        others = np.arange(len(some)) != t
        with_others = correlations[others, t] * np.where(np.arange(len(some)) < t, 1.0, shown)[others]
        slope = np.linalg.solve(covariances[np.ix_(others, others)], with_others)
        rest = math.sqrt(max(1.0 - float(slope @ with_others), LEAST_EIGENVALUE))
        middle = known[:, others] @ slope.astype(np.float32)
        known[:, t] = _within(scores[j], codes[:, j], middle, rest, rng)
        covariances[t] = covariances[:, t] = correlations[t] * np.where(np.arange(len(some)) < t, 1.0, shown)
        covariances[t, t] = 1.0
        if _holds_several(refinements[j]):
            dealt[j] = _in_order(refinements[j], scores[j], codes[:, j], indices[j], known[:, t])
    return dealt


def _scores(refinement: Refinement, group: AnyArray) -> Scores | None:
    """Return a column's latent normal scores by coarse bin; the limits of a bin hold as many rows as ``group``, (n,), does.

    Return ``None`` if the column is not ordered, or if fewer than two bins hold its regular values.
    """
    fine, groups = refinement.fine, int(refinement.coarse_cell.max()) + 1
    if not fine.grid.ordered:
        return None
    starts = refinement.fine.first_points
    regular = starts < fine.grid.regular
    of_values = np.bincount(refinement.coarse_cell, weights=refinement.weights * regular, minlength=groups)
    valued = of_values > 0.5 * np.bincount(refinement.coarse_cell, weights=refinement.weights, minlength=groups)
    rows = np.bincount(group, minlength=groups) * valued
    if np.count_nonzero(rows) < 2:
        return None
    first = np.full(groups, fine.grid.size)
    np.minimum.at(first, refinement.coarse_cell, starts)
    order = np.argsort(first, kind="stable")
    passed = np.zeros(groups)
    passed[order] = np.cumsum(rows[order])
    low, high = ndtri((passed - rows) / rows.sum()), ndtri(passed / rows.sum())
    share = rows / rows.sum()
    mean = np.divide(_density(low) - _density(high), share, out=np.zeros(groups), where=rows > 0)
    return Scores(
        low=np.where(valued, low, -np.inf), high=np.where(valued, high, np.inf), mean=mean, valued=valued,
        series=_series(low, high, mean),
    )  # fmt: skip


def _related(
    scores: dict[int, Scores], refinements: Sequence[Refinement], codes: Codes, *, most: int
) -> tuple[list[int], FloatArray]:
    """Return the columns worth reordering, and the correlations of their scores, (columns, columns).

    The columns worth reordering lose more than `LEAST_LOST` of a correlation when rows are drawn inside bins at random.
    Return at most ``most``, and columns whose bins determine most of their scores first.
    """
    places = sorted(scores, key=lambda j: -scores[j].shown)
    if len(places) < 2:
        return [], np.zeros((0, 0))
    means = np.column_stack([scores[j].mean[codes[:, j]] for j in places])
    valued = np.column_stack([scores[j].valued[codes[:, j]] for j in places]).astype(np.float64)
    squares = (means**2).T @ valued  # of each column, where another one has a value
    of_groups = (means.T @ means) / np.maximum(np.sqrt(squares * squares.T), 1e-9)
    root = np.sqrt([scores[j].shown for j in places])
    shown = np.outer(root, root)
    correlations = _of_scores(of_groups * shown, np.array([scores[j].series for j in places]))
    several = np.array([_holds_several(refinements[j]) for j in places])
    lost = np.abs(correlations) * (1 - shown) * (several[:, None] | several)
    np.fill_diagonal(lost, 0.0)
    loss = lost.max(axis=1)
    some = np.sort(np.argsort(-loss, kind="stable")[: min(most, int((loss > LEAST_LOST).sum()))])
    return [places[i] for i in some], _possible(correlations[np.ix_(some, some)])


def _series(low: FloatArray, high: FloatArray, mean: FloatArray) -> FloatArray:
    """Return the expected product of each normalised Hermite polynomial of the score and the bin's mean score, (TERMS,).

    ``low``, ``high`` and ``mean``, (groups,) each, are the limits and the mean of the scores of each bin.  The products
    of two columns' series are the coefficients of the tetrachoric series in powers of the correlation.
    """
    ends = np.clip([low, high], -FARTHEST, FARTHEST)
    before, now = np.zeros(ends.shape), _density(ends)
    found = np.empty(TERMS)
    for n in range(1, TERMS + 1):  # the integral of He_n times the density is -He_(n-1) times the density
        found[n - 1] = mean @ (now[0] - now[1]) / math.sqrt(n)
        before, now = now, (ends * now - math.sqrt(n - 1) * before) / math.sqrt(n)
    return found


def _of_scores(covariances: FloatArray, series: FloatArray) -> FloatArray:
    """Return the score correlations for which bins' mean scores have the given covariances, (columns, columns).

    The tetrachoric series, with the products of two columns' ``series``, (columns, TERMS), as coefficients, gives the
    covariance.  It increases with the correlation, and is solved for each pair by dividing intervals.  The diagonal is
    0.
    """
    i, j = np.nonzero(np.triu(covariances, 1))
    wanted, terms = covariances[i, j, None], (series[i] * series[j]).T[:, :, None]
    low, width = np.full((len(i), 1), -LARGEST), 2 * LARGEST
    for _ in range(ROUNDS if len(i) else 0):
        tried = low + np.arange(1, PARTS) * (width / PARTS)
        found = np.zeros(tried.shape)
        for term in terms[::-1]:
            found = (found + term) * tried
        width /= PARTS
        low += width * np.count_nonzero(found < wanted, axis=1, keepdims=True)
    correlations = np.zeros(covariances.shape)
    correlations[i, j] = correlations[j, i] = low[:, 0] + width / 2
    return correlations


def _possible(correlations: FloatArray) -> FloatArray:
    """Return a positive definite correlation matrix, (k, k), near to correlations that were estimated pair by pair.

    Normal scores cannot be drawn with any other matrix.  Eigenvalues below `LEAST_EIGENVALUE` are raised, and the
    diagonal stays 1.
    """
    np.fill_diagonal(correlations, 1.0)
    values, vectors = np.linalg.eigh(correlations)
    nearest = (vectors * np.maximum(values, LEAST_EIGENVALUE)) @ vectors.T
    scale = np.sqrt(np.diag(nearest))
    return np.asarray(nearest / np.outer(scale, scale), np.float64)


def _within(scores: Scores, group: AnyArray, middle: AnyArray, spread: float, rng: Generator) -> FloatArray:
    """Draw one normal score per row, (n,), truncated to the limits of the row's bin.

    ``middle``, (n,), is the mean before truncation, ``spread`` the standard deviation.
    """
    low, high = scores.low[group], scores.high[group]
    below, above = ndtr((low - middle) / spread), ndtr((high - middle) / spread)
    drawn = middle + spread * ndtri(below + (above - below) * rng.random(len(group)))
    return np.asarray(np.clip(np.clip(drawn, low, high), -FARTHEST, FARTHEST), np.float64)


def _in_order(
    refinement: Refinement, scores: Scores, group: AnyArray, indices: GridIndices, drawn: AnyArray
) -> GridIndices:
    """Return the grid points, (rows,), with the values of every bin permuted into the order of the rows' scores.

    Missing and special values stay with their rows.  ``group`` is each row's bin, ``indices`` its grid point, and
    ``drawn`` its score.
    """
    rows = np.flatnonzero(scores.valued[group] & (indices < refinement.fine.grid.regular))
    by_value, by_score = (rows[np.lexsort((key[rows], group[rows]))] for key in (indices, drawn))
    dealt = indices.copy()
    dealt[by_score] = indices[by_value]
    return dealt


def _holds_several(refinement: Refinement) -> bool:
    """Return whether some coarse bin holds several regular grid points; only then can a permutation change anything."""
    fine = refinement.fine
    width = np.where(fine.first_points < fine.grid.regular, fine.width, 0) * (refinement.weights > 0)
    return bool(np.bincount(refinement.coarse_cell, weights=width).max() > 1)


def _density(score: FloatArray) -> FloatArray:
    """Return the standard normal density at each score, by which the mean score between two limits is computed."""
    return np.asarray(np.exp(-(score**2) / 2) / math.sqrt(2 * math.pi), np.float64)
