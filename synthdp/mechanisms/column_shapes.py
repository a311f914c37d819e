"""Columns of numbers with a declared shape: noisy histograms are drawn towards the shape if counts agree with it.

Post-processing of noisy counts and the schema; costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from synthdp.arrays import FloatArray
from synthdp.fit.smoothing import smoothed
from synthdp.mechanisms.column_tree import OneWay

PLACES = 40
"""Grid points tried for each of a law's two parameters in one round of the search.  A numerical tolerance: the last of
three rounds has steps a hundredth as wide as the first."""

ZOOMS = 3
"""Rounds of the grid search for a law's parameters; each searches a range a tenth as wide around the best so far.  A
numerical tolerance, with `PLACES`."""

SAMPLE = 1.0
"""Variance of a true count around its expectation under the declared law, as a multiple of that expectation.  Derived:
1 as in a Poisson count, since rows are drawn from the law one by one.
"""

FEWEST = 3
"""Fewest bins that a shape is fitted to.  Derived: a law has two parameters, and fits two bins whatever they hold."""


def with_declared_shapes(columns: tuple[OneWay, ...]) -> tuple[OneWay, ...]:
    """Draw the noisy counts of each column with a declared shape (``like=``) towards it, and return all columns.

    The better the counts agree with the shape, the nearer to it they are drawn.
    """
    return tuple(_shaped(column) for column in columns)


def _shaped(column: OneWay) -> OneWay:
    """Return one column with its noisy counts drawn towards its declared shape.

    A column without a declared shape, or with fewer than `FEWEST` bins, is returned unchanged.
    """
    like = getattr(column.axis.column, "like", None)
    regular = column.first.regular
    if like is None or regular < FEWEST:
        return column
    counts = column.counts[:regular]
    expected = expected_counts(counts, _edges(column, regular), like, stddev=column.stddev)
    from synthdp.fit.public_shrinkage import combined

    found, _ = combined(counts, expected, column.stddev, ratio=SAMPLE)
    pooled = column.counts.copy()
    pooled[:regular] = found
    return column.redistributed(pooled)


def _edges(column: OneWay, regular: int) -> FloatArray:
    """Return the edges of a numeric column's bins, (bins + 1,), in the column's unit, with the lower bound at 0.

    The lower bound is at 0 because declared laws begin there.
    """
    grid = column.first.grid
    starts = column.first.starts[:regular]
    span = float(getattr(column.axis.column, "upper", 1) or 0) - float(getattr(column.axis.column, "lower", 0) or 0)
    return np.asarray(np.append(starts, grid.regular) / grid.regular * max(span, 1e-300), np.float64)


def expected_counts(counts: FloatArray, edges: FloatArray, like: str, *, stddev: float) -> FloatArray:
    """Fit the declared family of shapes to noisy counts and return the expected counts, (bins,), in rows.

    The noisy counts are then drawn towards the expected counts.

    Parameters
    ----------
    counts
        (bins,) noisy counts.
    edges
        (bins + 1,) borders of the bins, in the column's unit, from 0 on.
    like
        The family: a law with two parameters, which are fitted by least squares, or an order of bins.
    stddev
        Standard deviation of the noise of a count, in rows.
    """
    total, widths = max(float(counts.sum()), 0.0), np.diff(edges)
    if like == "smooth":
        return np.asarray(np.maximum(smoothed(counts, max(stddev, 1e-9)).rows, 0.0), np.float64)
    if like in ("increasing", "decreasing"):
        way = 1 if like == "increasing" else -1
        return np.asarray(np.maximum(_isotonic_heights((counts / widths)[::way], widths[::way])[::way] * widths, 0.0))
    if like == "uniform":
        return np.asarray(total * widths / widths.sum(), np.float64)
    return total * _fitted(counts, total, edges, like)


def _isotonic_heights(heights: FloatArray, widths: FloatArray) -> FloatArray:
    """Return the nearest non-decreasing heights (counts per width), (bins,), by least squares weighted with ``widths``.

    The method is pooling of adjacent violators.  Counts of a column that is declared increasing or decreasing are drawn
    towards these heights.
    """
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(heights, weights=widths).x, np.float64)


def _fitted(counts: FloatArray, total: float, edges: FloatArray, like: str) -> FloatArray:
    """Fit a law's parameters by grid search in least squares; return the law's probability of each bin, (bins,).

    Each of `ZOOMS` rounds searches a range a tenth as wide around the best law so far.  ``total`` is the sum of the
    noisy ``counts``, and the other parameters are as in `expected_counts`.
    """
    below = _CDF[like]
    span, narrow = edges[-1], float(np.diff(edges).min())
    if like == "lognormal":
        centre, wide = np.log([narrow / 10, span]), np.log([0.05, 4.0])
    elif like == "normal":
        centre, wide = np.array([0.0, span]), np.log([narrow / 10, 2 * span])
    else:
        centre, wide = np.log([narrow / 10, 10 * span]), np.zeros(2)
    best = np.full(len(counts), 1 / len(counts))
    for _ in range(ZOOMS):
        place, log_scale = np.meshgrid(
            np.linspace(centre[0], centre[1], PLACES), np.linspace(wide[0], wide[1], PLACES if wide.any() else 1)
        )
        at = below(edges[None, :], place.reshape(-1, 1), log_scale.reshape(-1, 1))
        shares = np.diff(at, axis=1)
        shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
        nearest = int(((total * shares - counts) ** 2).sum(axis=1).argmin())
        best = shares[nearest]
        centre, wide = (
            _narrowed_range(float(grid.ravel()[nearest]), ends) for grid, ends in ((place, centre), (log_scale, wide))
        )
    return np.asarray(best, np.float64)


def _narrowed_range(value: float, ends: FloatArray) -> FloatArray:
    """Return a range around a value, (2,), a tenth as wide as ``ends``, for the next round of the grid search."""
    half = float(ends[1] - ends[0]) / 20
    return np.array([value - half, value + half])


def _lognormal(x: FloatArray, place: FloatArray, log_scale: FloatArray) -> FloatArray:
    """Return the probability that a log-normal value is at most x, in the arguments' common shape.

    The logarithm of the value is normal, with mean ``place`` and stddev exp(``log_scale``).
    """
    return np.asarray(ndtr((np.log(np.maximum(x, 1e-300)) - place) / np.exp(log_scale)))


def _normal(x: FloatArray, place: FloatArray, log_scale: FloatArray) -> FloatArray:
    """Return the probability that a normal value is at most x, in the arguments' common shape.

    The normal law has mean ``place`` and stddev exp(``log_scale``).
    """
    return np.asarray(ndtr((x - place) / np.exp(log_scale)))


def _exponential(x: FloatArray, place: FloatArray, _: FloatArray) -> FloatArray:
    """Return the probability that an exponential value is at most x, in the common shape of x and ``place``.

    The exponential law has mean exp(``place``).
    """
    return np.asarray(-np.expm1(-x / np.exp(place)))


_CDF: dict[str, Callable[[FloatArray, FloatArray, FloatArray], FloatArray]] = {
    "lognormal": _lognormal, "normal": _normal, "exponential": _exponential,
}  # fmt: skip
"""The cumulative distribution function of each declared law, by the name that ``like=`` takes."""
