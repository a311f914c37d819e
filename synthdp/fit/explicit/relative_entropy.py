"""The relative entropy of weights to a prior, piecewise linear: a sum of L1 terms, so that a linear program can hold it.

Between the kinks w = q · prior the function w · log(w / prior) is replaced by its chords; below the first kink and beyond
the last it goes on in straight lines.  It is never below the relative entropy inside the kinks, and 0 at the prior alone.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from synthdp.arrays import FloatArray, Weights, frozen

MANY_POINTS = 1000
"""Beyond so many points an answer is a sum over many of them, and coarse pieces do."""

FINE = (-3, -2, -1, -2 / 3, -1 / 3, 0, 1 / 3, 2 / 3, 1, 2, 3)
COARSE = (-1, 0, 1)


class Pieces(NamedTuple):
    """Multiples of the prior, from 0 to infinity, and the price of one more unit of weight between each two of them."""

    kinks: FloatArray
    slopes: FloatArray

    def widths(self, prior: Weights) -> FloatArray:
        """Return the (m, pieces) widths; a point without a prior costs the last price from the start."""
        widths = np.where(prior > 0, prior, 0.0)[:, None] * np.diff(self.kinks)[:-1]
        return np.column_stack([widths, np.full(len(prior), np.inf)])


@cache
def pieces(points: int) -> Pieces:
    """Return the pieces for a number of points."""
    inside = np.exp2(np.array(FINE if points <= MANY_POINTS else COARSE, np.float64))
    values = np.append(0.0, inside * np.log(inside))
    chords = np.diff(values) / np.diff(np.append(0.0, inside))
    return Pieces(
        kinks=frozen(np.concatenate([[0.0], inside, [np.inf]])),
        slopes=frozen(np.append(chords, np.log(inside[-1]) + 1.0)),
    )


def relative_entropy(weights: Weights, prior: Weights) -> float:
    """Return the piecewise linear relative entropy of weights to a prior, both (m,) with sum 1."""
    kinks, slopes = pieces(len(prior))
    filled = np.clip(weights[:, None] - prior[:, None] * kinks[:-1], 0.0, pieces(len(prior)).widths(prior))
    return max(float((filled @ slopes).sum()), 0.0)


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
    prices = (pull * pieces(len(prior)).slopes - rewards[:, None]).ravel()
    widths = pieces(len(prior)).widths(prior).ravel()
    order = np.argsort(prices, kind="stable")
    below = np.minimum(np.cumsum(widths[order]), 1.0)  # the cheapest segments first, until all weight is placed
    return float(np.diff(below, prepend=0.0) @ prices[order])
