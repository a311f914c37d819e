"""The relative entropy of weights to a prior, piecewise linear: a sum of L1 terms, so that a linear program can hold it.

Between the kinks w = q · prior the function w · log(w / prior) is replaced by its chords; below the first kink and beyond
the last it goes on in straight lines.  It is never below the relative entropy inside the kinks, and 0 at the prior alone.
"""

from __future__ import annotations

import numpy as np

from synthdp.arrays import FloatArray, Weights

KINKS = np.array([0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, np.inf])
"""Multiples of the prior between which the price of weight is constant."""


def _slopes() -> FloatArray:
    inside = KINKS[1:-1]
    values = np.append(0.0, inside * np.log(inside))
    chords = np.diff(values) / np.diff(KINKS[:-1])
    return np.append(chords, np.log(inside[-1]) + 1.0)


SLOPES = _slopes()
"""(segments,) price of one more unit of weight between two kinks; increasing."""


def relative_entropy(weights: Weights, prior: Weights) -> float:
    """Return the piecewise linear relative entropy of weights to a prior, both (m,) with sum 1."""
    filled = np.clip(weights[:, None] - prior[:, None] * KINKS[:-1], 0.0, _widths(prior))
    return max(float((filled @ SLOPES).sum()), 0.0)


def least_pulled(rewards: FloatArray, prior: Weights, pull: float) -> float:
    """Return the least pull · relative entropy − rewards'w over all weights w with sum 1.

    Parameters
    ----------
    rewards
        (m,) what a unit of weight earns at each point.
    prior
        (m,) the prior.
    pull
        Price of the relative entropy, >= 0.
    """
    if pull == 0:
        return -float(rewards.max())
    if np.isinf(pull):
        return -float(rewards @ prior)
    prices = (pull * SLOPES - rewards[:, None]).ravel()
    widths = _widths(prior).ravel()
    order = np.argsort(prices, kind="stable")
    below = np.minimum(np.cumsum(widths[order]), 1.0)  # the cheapest segments first, until all weight is placed
    return float(np.diff(below, prepend=0.0) @ prices[order])


def _widths(prior: Weights) -> FloatArray:
    """Return the (m, segments) widths; a point without a prior costs the last price from the start."""
    positive = np.where(prior > 0, prior, 1.0)[:, None]
    widths = np.where(prior[:, None] > 0, positive * np.diff(KINKS), 0.0)
    widths[:, -1] = np.inf
    return np.asarray(widths, np.float64)
