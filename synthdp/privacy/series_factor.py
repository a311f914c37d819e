"""How many periods share noise: a lower triangular matrix F of whole numbers, and its cost to a unit.

The sum x_s of a statistic over the rows of period s never gets noise by itself.  The answer in period t is y_t = sum
over s <= t of F_ts x_s, plus fresh noise.  All answers y determine x = F^-1 y.  Prefix sums x_1 + ... + x_t then have
far less noise than sums of single noisy answers (Denisov, McMahan, Rush, Smith, Thakurta 2022).  A unit with rows in
the periods P changes y by at most sqrt(1_P' |F'F| 1_P) times its change of a single sum.

Arithmetic of matrices, without rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize

from synthdp.arrays import FloatArray, IntArray, frozen

UNIT = 2**10
"""Denominator of a factor's entries, which are multiples of 1 / UNIT.  Finer entries lower no variance by a thousandth,
coarser ones raise it.  A numerical tolerance."""

MOST_PATTERNS = 200_000
"""Largest number of sets of periods whose costs are computed one by one; beyond it a bound is used.  A safety limit of
time."""

FITTED_PATTERNS = 1_000
"""Largest number of sets of periods for which a factor is optimised numerically; beyond it a standard factor is used.
A safety limit of time.
"""

SHARPNESS = (4, 16, 64, 200)
"""Orders p of the p-norms that smoothly approximate a maximum, in successive fits of a factor.  A higher order is
nearer to the maximum but less smooth, so each fit starts from the one before.  At 200 the norm of `FITTED_PATTERNS` costs
is at most 3.5 % above the largest cost.  A numerical tolerance.
"""

STEPS, MEMORY = 1500, 30
"""Most L-BFGS steps of each fit, and the number of past steps it remembers.  Safety limits of time and memory."""


def prefix_sums(periods: int) -> FloatArray:
    """Return the (periods, periods) lower triangular matrix of ones, which turns per-period sums into running totals."""
    return np.tril(np.ones((periods, periods)))


@lru_cache(maxsize=64)
def optimal_factor(periods: int, at_most: int = 1, first: float = 1.0, merged: int = 1) -> IntArray:
    """Return the integer matrix by which a series' answers combine periods, for running totals of least maximal variance.

    This is a matrix mechanism: totals are decoded from noisy products.  Variances are compared at one privacy cost of a
    unit.

    Parameters
    ----------
    periods
        Number of columns, >= 1.
    at_most
        Most periods in which a unit may have rows.
    first
        Largest cost of a unit of the first column, as a fraction of the cost of other units, 0 < first <= 1.
    merged
        Number of periods that the first column stands for.

    Returns
    -------
    (periods, periods) whole numbers, in multiples of 1 / `UNIT`, lower triangular with a positive diagonal.
    """
    patterns = _patterns(periods, at_most, merged)
    limits = np.where(patterns[:, 0] > 0, first, 1.0)
    starts = [_square_root(periods, first), np.eye(periods)]
    if len(patterns) <= FITTED_PATTERNS:
        weighed = patterns / np.sqrt(limits)[:, None]
        starts = [_fitted(start, weighed) for start in starts]
    elif at_most > 1:
        starts.append(optimal_factor(periods, 1, first, merged) / UNIT)
    best = min(starts, key=lambda factor: _badness(factor, patterns, limits))
    scaled = best * (UNIT / np.abs(np.diag(best)).max())
    found = np.rint(np.tril(scaled)).astype(np.int64)
    return frozen(found)


def cost_matrix(factor: IntArray, columns: Sequence[int], *, first_rows: int) -> FloatArray:
    """Return the (T, T) privacy cost matrix of one plan's answers in all periods, relative to its first answer's cost.

    Parameters
    ----------
    factor
        Matrix of one plan of questions, in whole numbers.
    columns
        For each period of the series its column, -1 for periods that the plan does not read.
    first_rows
        Number of periods of the first column in which one unit may have rows: the first answer's cost allows for these.

    Returns
    -------
    (T, T) matrix K: a unit with rows in the periods P costs at most 1_P' K 1_P.
    """
    gram = np.abs(factor.T @ factor) / float(int(factor[0, 0]) ** 2 * first_rows**2)
    place = np.asarray(columns)
    inside = place >= 0
    return np.asarray(gram[np.ix_(place, place)] * np.outer(inside, inside), np.float64)


def worst_cost(costs: FloatArray, at_most: int) -> float:
    """Return the largest cost of one unit over all sets of at most ``at_most`` periods, or an upper bound on it.

    The cost of the set P is the sum of K over P x P.  The entries of K are at least 0, so that larger sets cost more.
    Up to `MOST_PATTERNS` sets are tried one by one.  Beyond, the cost is bounded by the largest sums of a row's
    diagonal and its largest other entries.
    """
    periods = len(costs)
    size = min(at_most, periods)
    if math.comb(periods, size) <= MOST_PATTERNS:
        return max(
            float(costs[np.ix_(chosen, chosen)].sum()) for chosen in itertools.combinations(range(periods), size)
        )
    others = np.sort(costs * (1 - np.eye(periods)), axis=1)[:, ::-1][:, : size - 1]
    return float(np.sort(np.diag(costs) + others.sum(axis=1))[-size:].sum())


def prefix_covariance(factor: IntArray) -> FloatArray:
    """Return the (periods, periods) covariance of all running totals, in multiples of the noise variance of one answer.

    Plans forecast errors from it, and changes between periods get error bars.
    """
    decoder = prefix_sums(len(factor)) @ np.linalg.inv(factor.astype(np.float64))
    return np.asarray(decoder @ decoder.T, np.float64)


def _patterns(periods: int, at_most: int, merged: int) -> FloatArray:
    """Return all maximal sets of periods that a unit may have rows in, (sets, columns), as weights of columns.

    A unit has rows in ``at_most`` of the periods.  Each row of the result is one set; the first column stands for
    ``merged`` periods, so its weight is a fraction.  If more than `FITTED_PATTERNS` sets share one weight of the first
    column, none is listed: the result then has one row more than `FITTED_PATTERNS`, all 0.
    """
    if at_most == 1:
        return np.eye(periods)
    found = []
    for in_first in range(min(at_most, merged) + 1):
        later = min(at_most - in_first, periods - 1)
        if math.comb(periods - 1, later) > FITTED_PATTERNS:
            return np.zeros((FITTED_PATTERNS + 1, periods))
        for chosen in itertools.combinations(range(1, periods), later):
            pattern = np.zeros(periods)
            pattern[[*chosen]] = 1.0
            pattern[0] = in_first / min(at_most, merged)
            found.append(pattern)
    return np.array(found)


def _square_root(periods: int, first: float) -> FloatArray:
    """Return a start of the fit: the matrix square root of the running totals, with columns scaled to norm 1.

    The first column has the norm sqrt(``first``), as its units may cost only the part ``first``.
    """
    entries = [math.comb(2 * k, k) / 4**k for k in range(periods)]
    root = np.array([[entries[t - s] if t >= s else 0.0 for s in range(periods)] for t in range(periods)])
    norms = np.sqrt((root**2).sum(axis=0))
    limits = np.ones(periods)
    limits[0] = math.sqrt(first)
    return np.asarray(root / norms * limits)


def _badness(factor: FloatArray, patterns: FloatArray, limits: FloatArray) -> float:
    """Return a factor's badness: the largest variance of a running total times the largest cost of a set of periods.

    Factors are compared by it.  The cost of each set in ``patterns`` is divided by its entry of ``limits``.  Where
    ``patterns`` is all 0, as sets are too many, a bound for a unit with rows in every period stands for the largest
    cost.
    """
    gram = np.abs(factor.T @ factor)
    if not patterns.any():  # too many to list: a bound
        costs = np.asarray([worst_cost(gram, len(gram))])
    else:
        costs = np.einsum("pi,ij,pj->p", patterns, gram, patterns) / limits
    decoder = prefix_sums(len(factor)) @ np.linalg.inv(factor)
    return float((decoder**2).sum(axis=1).max() * costs.max())


def _fitted(start: FloatArray, patterns: FloatArray) -> FloatArray:
    """Return the factor with the least product of maximal variance and maximal cost, by L-BFGS from ``start``.

    ``patterns`` (sets, periods) holds the columns' weights in each set of periods whose cost counts.  Maxima are
    approximated by p-norms of rising order.
    """
    periods = len(start)
    inside = np.tril_indices(periods)
    prefixes = prefix_sums(periods)
    factor = start

    def value(entries: FloatArray, order: int) -> tuple[float, FloatArray]:
        found = np.zeros((periods, periods))
        found[inside] = entries
        inverse = np.linalg.inv(found)
        decoder = prefixes @ inverse
        variances, by_variance = _soft_largest((decoder**2).sum(axis=1), order)
        gram = found.T @ found
        sign = np.sign(gram)
        costs, by_cost = _soft_largest(np.einsum("pi,ij,pj->p", patterns, gram * sign, patterns), order)
        slope = -2 * (decoder.T * by_variance) @ decoder @ inverse.T
        weight = (patterns.T * by_cost) @ patterns * sign
        slope += 2 * found @ weight
        return variances + costs, np.asarray(slope[inside], np.float64)

    for order in SHARPNESS:
        result = minimize(
            value, factor[inside], args=(order,), jac=True, method="L-BFGS-B",
            options={"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": 1e-12, "gtol": 1e-9, "maxcor": MEMORY},
        )  # fmt: skip
        factor = np.zeros((periods, periods))
        factor[inside] = result.x
    return factor * np.sign(np.diag(factor))


def _soft_largest(values: FloatArray, order: int) -> tuple[float, FloatArray]:
    """Return the logarithm of the p-norm (p = ``order``) of positive numbers, and its gradient, (n,).

    It is a smooth maximum, which L-BFGS can minimise.
    """
    largest = float(values.max())
    powers = (values / largest) ** order
    total = float(powers.sum())
    return math.log(largest) + math.log(total) / order, powers / total / values


def largest_first(spent: FloatArray, costs: FloatArray, at_most: int, *, mu: float) -> float:
    """Return the largest mu for a plan's first answers that keeps all plans together within the budget ``mu``.

    Parameters
    ----------
    spent
        (T, T) what earlier plans cost, as a square of mu.
    costs
        (T, T) what the plan costs, in multiples of the square of its first answers' mu.
    at_most
        Most periods in which a unit may have rows.
    mu
        The whole.

    Returns
    -------
    The largest number that keeps `worst_cost` within the whole, up to about 1e-8 of the whole by rounding; 0 if earlier
    plans cost more.
    """
    low, high = 0.0, mu**2 / float(np.diag(costs).max())
    for _ in range(60):
        middle = (low + high) / 2
        if worst_cost(spent + middle * costs, at_most) <= mu**2:
            low = middle
        else:
            high = middle
    return math.sqrt(low)
