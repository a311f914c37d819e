"""The relative entropy of weights to a prior, piecewise linear: a sum of L1 terms, so that a linear program can hold it.

Between the kinks w = q · prior the function w · log(w / prior) is replaced by its chords; below the first kink and beyond
the last it goes on in straight lines.  It is never below the relative entropy inside the kinks, and 0 at the prior alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import numpy as np

from synthdp.arrays import FloatArray, Weights, frozen

MANY_POINTS = 1000
COLUMNS = 1500
"""Beyond so many points the pieces are coarse; below, an octave next to the prior has about so many over all points.

Within a piece nothing says where a weight should be.  An answer is a sum over points: the more points it has, the less
that matters; and the fewer there are, the cheaper fine pieces are.
"""

MOST_STEPS, LEAST_STEPS = 100, 3


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
    above = below = np.array([0.5])
    if points <= MANY_POINTS:
        steps = min(max(COLUMNS // points, LEAST_STEPS), MOST_STEPS)
        below = _exponents(max(steps // 2**octave, 1) for octave in range(3))
        above = _exponents(max(steps // 2**octave, 2) for octave in range(8))  # what is far above its prior has a mass
    inside = np.exp2(np.concatenate([-below[::-1], [0.0], above]))
    values = np.append(0.0, inside * np.log(inside))
    chords = np.diff(values) / np.diff(np.append(0.0, inside))
    return Pieces(
        kinks=frozen(np.concatenate([[0.0], inside, [np.inf]])),
        slopes=frozen(np.append(chords, np.log(inside[-1]) + 1.0)),
    )


def _exponents(steps: Iterable[int]) -> FloatArray:
    """Return powers of 2 with so many steps in each octave."""
    return np.concatenate([octave + np.arange(1, n + 1) / n for octave, n in enumerate(steps)])


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
