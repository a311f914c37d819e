"""The one update of both fits: the exact step of one table's potential, everything else held fixed.

Called by `max_entropy` on beliefs and by `particles` on weighted rows.
"""

from __future__ import annotations

import math

import numpy as np

from synthdp.arrays import FloatArray

_TINY = 1e-300
_NEWTON_STEPS = 30
_MAX_SHIFT = 3.0


def proportional_step(
    expected: FloatArray, potential: FloatArray, target: FloatArray, *, ridge: float, total: float
) -> FloatArray:
    """Minimise the regularised dual over one table's potential θ, exactly.

    Solves ``s * expected * exp(step) + ridge * (θ + step) = target`` in every cell, with the scale s for
    which the first term sums to ``total``.  With u = log(s * expected * exp(step) / ridge) this reads
    exp(u) + u = z + log s, which is convex and increasing in u: Newton's method from above the root never
    fails.

    Parameters
    ----------
    expected
        (cells,) the model's counts, >= 0, with sum ``total``.
    potential
        (cells,) the log-potential θ now.
    target
        (cells,) the counts to approach, of any sign.
    ridge
        Weight of ½‖θ‖² (the v of the method), > 0, in rows.
    total
        Number of rows, > 0.

    Returns
    -------
    (cells,) the change of θ.
    """
    offset = np.log(np.maximum(expected, _TINY)) - math.log(ridge)
    z = target / ridge - potential + offset
    wanted, shift = total / ridge, 0.0
    u = np.where(z < 1, z, np.log(np.maximum(z, 1)))  # at or above the root of exp(u) + u = z
    for iteration in range(_NEWTON_STEPS):
        power = np.exp(u)
        slope = 1 / (1 + power)
        excess = (power + u - z - shift) * slope
        gain = power * slope
        missing = wanted - power.sum()
        change = 0.0
        if iteration >= 2:  # first bring the cells near their roots for s = 1
            change = float((missing + (power * excess).sum()) / gain.sum())
            change = max(-_MAX_SHIFT, min(_MAX_SHIFT, change))
        u += change * slope - excess
        shift += change
        if iteration >= 3 and abs(missing) < 1e-7 * wanted and np.abs(excess).max() < 1e-7:
            break
    return u - offset - shift
