"""The relative entropy of weights to a prior, piecewise linear: a sum of L1 terms, so that a linear program can hold it.

Between the kinks w = q · prior the function w · log(w / prior) is replaced by its chords; below the first kink and beyond
the last it goes on in straight lines.  It is never below the relative entropy inside the kinks, and 0 at the prior alone.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from synthdp.arrays import FloatArray, IntArray, Weights, frozen

BELOW, ABOVE = 6, 20
"""Octaves below and above the prior that have pieces.

Rows of strongly related columns are thousands of times likelier than independent columns would have them.
"""

LEAST_STEPS, MOST_STEPS, STEPS_OF_ALL = 8, 100, 1500
"""Pieces of an octave, and about how many an octave has over all points where these are few.

Within a piece nothing says where a weight should be.  An answer is a sum over points: the more points it has, the less
that matters.
"""

_HALVINGS = 80


class Pieces(NamedTuple):
    """Multiples of the prior, from 0 to infinity, and the price of one more unit of weight between each two of them.

    ``values`` are q log q at all kinks but the last, where the chords meet it.
    """

    kinks: FloatArray
    slopes: FloatArray
    values: FloatArray


@cache
def pieces(points: int) -> Pieces:
    """Return the pieces for a number of points."""
    steps = min(max(STEPS_OF_ALL // points, LEAST_STEPS), MOST_STEPS)
    inside = np.exp2(np.arange(-BELOW * steps, ABOVE * steps + 1) / steps)
    values = np.append(0.0, inside * np.log(inside))
    chords = np.diff(values) / np.diff(np.append(0.0, inside))
    return Pieces(
        kinks=frozen(np.concatenate([[0.0], inside, [np.inf]])),
        slopes=frozen(np.append(chords, np.log(inside[-1]) + 1.0)),
        values=frozen(values),
    )


def piece_of(weights: Weights, prior: Weights) -> IntArray:
    """Return the piece in which each weight lies; the last for points without a prior."""
    ratio = np.divide(weights, prior, out=np.full(len(prior), np.inf), where=prior > 0)
    chosen = pieces(len(prior))
    at = np.searchsorted(chosen.kinks, ratio, side="right") - 1
    return np.asarray(np.minimum(at, len(chosen.slopes) - 1), np.int64)


def relative_entropy(weights: Weights, prior: Weights) -> float:
    """Return the piecewise linear relative entropy of weights to a prior, both (m,) with sum 1."""
    at, chosen = piece_of(weights, prior), pieces(len(prior))
    beyond = weights - prior * chosen.kinks[at]
    return max(float((prior * chosen.values[at] + beyond * chosen.slopes[at]).sum()), 0.0)


def least_pulled(rewards: FloatArray, prior: Weights, pull: float) -> float:
    """Return the least pull · relative entropy − rewards'w over all weights w with sum 1.

    It is the largest z + the least over all w >= 0 of pull · relative entropy − (rewards + z)'w, which every z bounds from
    below; at the best z the cheapest pieces of all points together have the weight 1.

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
    chosen = pieces(len(prior))
    prices = pull * chosen.slopes
    low, high = (price - float(rewards.max()) for price in (prices[0], prices[-1]))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        filled = chosen.kinks[np.searchsorted(prices[:-1], rewards + middle)]
        low, high = (middle, high) if float(prior @ filled) < 1 else (low, middle)
    at = np.searchsorted(prices[:-1], rewards + low)
    return float(low + prior @ (pull * chosen.values[at] - (rewards + low) * chosen.kinks[at]))
