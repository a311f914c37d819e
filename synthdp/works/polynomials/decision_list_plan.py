"""Polynomials for decision lists, and how to share noise among their coefficients.

The best polynomial of a degree for each pattern of outputs, by linear programs that are solved once; scales per order that
make an answer's noise least.  Public arithmetic only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from synthdp.arrays import FloatArray, frozen
from synthdp.domain.discretize import domain_of
from synthdp.fit.moments.coefficients import best_coefficients
from synthdp.privacy.calibration import calibrate
from synthdp.privacy.loss import PrivacyLoss
from synthdp.privacy.neighbors import Adjacency
from synthdp.works.polynomials.decision_lists import decision_list_schema
from synthdp.works.polynomials.krawtchouk import level_sizes
from synthdp.works.polynomials.list_coefficients import ListCoefficients, ListStatistic, list_values, subset_parities
from synthdp.works.polynomials.polynomials import least_worst_use, optimal_coefficients
from synthdp.works.polynomials.prefix_coefficients import PrefixCoefficients

PREFIX_SCALE = 2**12
"""The same for long lists, whose coefficients are sums."""

FINEST_SCALE = 2**20
"""The whole number that stands for 1 in the coefficients with the largest weight."""

ROW_SHARE = 1 / 64
"""Part of the squared sensitivity that the number of rows takes where it is private."""


class PatternTable(NamedTuple):
    """Coefficients of all lists of r rules that ask for true."""

    values: FloatArray
    """(2^(r+1), 2^r) by pattern of outputs and set of rules."""
    error: float
    """Largest distance of a polynomial from its list, over all patterns and inputs."""


@lru_cache(maxsize=64)
def pattern_table(r: int, order: int) -> PatternTable:
    """Return the best polynomials of degree ``order`` for list(y) - 1/2, one per pattern of outputs.

    Minimises the largest error over the 2^r inputs by a linear program; a pattern's complement takes the negative.
    """
    targets = list_values(r) - 0.5
    masks, parities = subset_parities(r, min(order, r))
    values = np.zeros(targets.shape)
    last = len(targets) - 1
    for pattern in range(len(targets) // 2):
        if order >= r:
            b = targets[pattern] @ parities / 2**r
        else:
            b = best_coefficients(parities.astype(np.float64), targets[pattern]).values
        values[pattern, masks] = b
        values[last - pattern] = -values[pattern]
    errors = np.abs(values[:, masks] @ parities.T - targets)
    return PatternTable(frozen(values), float(errors.max()))


class PrefixTable(NamedTuple):
    """Polynomials for "none of the first i rules applies", i = 1, ..., k."""

    values: FloatArray
    """(k, t + 1) the coefficient of each order."""
    error: float
    """Bound on the distance of a list's polynomial from the list: the sum of the prefixes' errors."""


@lru_cache(maxsize=64)
def prefix_table(length: int, order: int) -> PrefixTable:
    """Return the best polynomials of degree ``order`` for all prefixes, exact where a prefix is no longer than that.

    An output changes at most once after each rule, so a list is off by at most the sum of all errors.
    """
    found = [
        optimal_coefficients((1.0,) + (0.0,) * i, min(order, i), (0.0,) * (min(order, i) + 1))
        for i in range(1, length + 1)
    ]
    values = np.array([np.pad(one.values, (0, order + 1 - len(one.values))) for one in found])
    return PrefixTable(frozen(values), float(sum(one.error for one in found)))


class ListPlan(NamedTuple):
    """What a release measures, the bound on its bias, and the standard deviation of an answer in rows."""

    statistic: ListStatistic
    error: float
    stddev: float


def plan_at(variables: Sequence[str], length: int, order: int, adjacency: Adjacency, loss: PrivacyLoss) -> ListPlan:
    """Return the plan of a degree with the least noise, among scales that suit one law of noise each.

    Coefficients of high order are many but small, so they take a small share of the sensitivity: with the largest
    squares of each order as use, `least_worst_use` divides an L2 sensitivity best.  The others are for pure losses:
    cube roots for Laplace noise, equal largest coefficients for K-norm noise.

    Parameters
    ----------
    variables, length
        Of the lists.
    order
        Degree of the polynomials.
    adjacency, loss
        What is to be promised.
    """
    patterns = [pattern_table(r, order) for r in range(length + 1)]
    values, errors = [pattern.values for pattern in patterns], [pattern.error for pattern in patterns]
    stacked = _stacked(values)
    count = np.array(level_sizes(len(variables), order), np.float64)
    candidates = (
        np.ones(order + 1),
        np.sqrt(least_worst_use(count, _by_order(np.square(stacked), order))),
        np.cbrt(count / _by_order(np.abs(stacked), order).max(axis=0)),
        1 / np.array([np.abs(stacked[:, _sizes(length) == i]).max() for i in range(order + 1)]),
    )
    domain = domain_of(decision_list_schema(variables, length=length))
    error = max(errors[: len(variables) + 1])

    def plan(weights: FloatArray) -> ListPlan:
        scales = np.maximum(1, np.rint(FINEST_SCALE * weights / weights.max())).astype(int)
        squares = _by_order(np.square(stacked), order) @ scales.astype(np.float64) ** 2
        row_scale = 0 if adjacency.rows_are_public else max(1, round(math.sqrt(ROW_SHARE * squares.max())))
        statistic = ListCoefficients(domain, len(variables), order, tuple(scales.tolist()), tuple(values), row_scale)
        noise = calibrate(adjacency.sensitivity(statistic), loss, k=statistic.k)
        return ListPlan(
            statistic, error, noise.noise.stddev / noise.resolution * math.sqrt(float((count / scales**2.0).sum()))
        )

    return min((plan(weights) for weights in candidates), key=lambda plan: plan.stddev)


def plan_prefixes(
    variables: Sequence[str], length: int, order: int, adjacency: Adjacency, loss: PrivacyLoss
) -> ListPlan:
    """Return the plan of a degree for long lists, from polynomials for their prefixes; parameters as in `plan_at`.

    The scales are equal, or suit the orders' largest squares, whichever has less noise.
    """
    table = prefix_table(length, order)
    count = np.array(level_sizes(len(variables), order), np.float64)
    domain = domain_of(decision_list_schema(variables, length=length))

    def statistic(weights: FloatArray, row_scale: int) -> PrefixCoefficients:
        scales = 2 * np.maximum(1, np.rint(PREFIX_SCALE * weights / weights.max() / 2)).astype(int)
        return PrefixCoefficients(domain, len(variables), order, tuple(scales.tolist()), table.values, row_scale)

    def plan(weights: FloatArray) -> ListPlan:
        alone = statistic(weights, 0)
        share = math.sqrt(ROW_SHARE * alone.bounds.one.l2_squared)
        chosen = alone if adjacency.rows_are_public else statistic(weights, max(1, round(share)))
        noise = calibrate(adjacency.sensitivity(chosen), loss, k=chosen.k)
        spread = math.sqrt(float((count / np.array(chosen.scales, np.float64) ** 2).sum()))
        return ListPlan(chosen, table.error, noise.noise.stddev / noise.resolution * spread)

    alternating = np.array([sum(1 << j for j in range(0, length + 1, 2))])
    constant, last = statistic(np.ones(order + 1), 0).of_patterns(alternating, length)
    sets = np.array([[math.comb(j, size - 1) for j in range(length)] for size in range(1, order + 1)])
    use = np.append(constant.astype(np.float64) ** 2, (last[0, 1:].astype(np.float64) ** 2 * sets).sum(axis=1))
    use = np.maximum(use, use.max() * 1e-6)
    candidates = np.ones(order + 1), np.sqrt(least_worst_use(count, use[None, :]))
    return min((plan(weights) for weights in candidates), key=lambda plan: plan.stddev)


def _stacked(values: Sequence[FloatArray]) -> FloatArray:
    """Return the coefficients of all patterns of all lengths, (patterns, 2^k), 0 where a list has no such rule."""
    width = values[-1].shape[1]
    return np.vstack([np.pad(one, ((0, 0), (0, width - one.shape[1]))) for one in values])


def _by_order(coefficients: FloatArray, order: int) -> FloatArray:
    """Return the sums over the coefficients of each order, (patterns, order + 1)."""
    sizes = _sizes(int(math.log2(coefficients.shape[1])))
    return np.stack([coefficients[:, sizes == i].sum(axis=1) for i in range(order + 1)], axis=1)


def _sizes(length: int) -> FloatArray:
    return np.bitwise_count(np.arange(2**length)).astype(np.float64)
