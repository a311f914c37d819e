"""The one update of both fits: the exact step of one table's potential, everything else held fixed.

Called by `ipf` on beliefs and by `raking` on weighted rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from synthdp.arrays import BoolArray, FloatArray

_TINY = 1e-300
"""Floor of an expected count.  A numerical tolerance."""
_MAX_STEPS = 100
"""Newton iterations.  A numerical tolerance."""
_SETTLED = 1e-6
"""Convergence tolerance.  A numerical tolerance."""
_LARGEST = 600.0  # exponent of a cell that has no mass worth scaling
"""Clip of an exponent.  A numerical tolerance."""
_NEAR = 0.1  # the scale is adjusted once every cell is this near to its root
"""Distance at which Newton replaces bisection.  A numerical tolerance."""


class Step(NamedTuple):
    """The change of a potential, and the factor by which it scales each cell of the normalised table; (cells,)."""

    change: FloatArray
    factor: FloatArray


def proportional_step(
    expected: FloatArray, potential: FloatArray, target: FloatArray, *, ridge: float, total: float
) -> Step:
    """Minimise the regularised dual over one table's potential θ, exactly.

    Solves ``s * expected * exp(step) + ridge * (θ + step) = target`` in every cell, with the scale s for
    which the first term sums to ``total``.  With u = log(s * expected * exp(step) / ridge) this reads
    exp(u) + u = z + log s, which is convex and increasing in u: Newton's method from above the root never
    fails, and its first step, from the model's own counts, ends there.

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
    The change of θ and what it does to the table.
    """
    offset = np.log(np.maximum(expected, _TINY)) - math.log(ridge)
    z = target / ridge - potential + offset
    wanted = total / ridge  # what the sum of exp(u) must be
    lowest, highest = (w + math.log(w) - float(z.max()) for w in (wanted / z.size, wanted))
    shift = min(max(0.0, lowest), highest)
    u = offset
    for step in range(_MAX_STEPS):
        power = np.exp(u)
        slope = 1 / (1 + power)
        excess = (power + u - z - shift) * slope
        missing = wanted - float(power.sum())
        farthest = float(np.abs(excess).max())
        settled = farthest < _SETTLED and abs(missing) < _SETTLED * wanted
        change = 0.0
        if farthest < _NEAR:
            change = (missing + float(power @ excess)) / float(power @ slope)
            change = min(max(shift + change, lowest), highest) - shift
        shift += change
        u = u + (change * slope - excess)
        if step == 0 or abs(change) > 1:
            u = np.minimum(u, _above(z + shift))
        if settled:  # and squared by the step just taken
            break
    factor = np.exp(np.minimum(u - offset, _LARGEST))
    kept = float(expected @ factor)
    if not kept > 0:  # the target lies where the model has no mass, and nowhere else: it stays as it is
        return Step(np.zeros(expected.size), np.ones(expected.size))
    factor *= total / kept
    return Step(u - offset - shift, factor)


def _above(z: FloatArray) -> FloatArray:
    """Return a bound from above on the root of exp(u) + u = z: z itself, and log z once z exceeds 1."""
    return np.where(z < 1, z, np.log(np.maximum(z, 1)))


def rake(
    expected: FloatArray,
    potential: FloatArray,
    target: FloatArray,
    *,
    cells: BoolArray,
    ridge: float,
    total: float,
) -> FloatArray:
    """Change ``potential`` in place by the exact step in some ``cells`` (a mask); return the factors, 1 elsewhere."""
    if cells.all():
        step = proportional_step(expected, potential, target, ridge=ridge, total=total)
        potential += step.change
        return step.factor
    step = proportional_step(expected[cells], potential[cells], target[cells], ridge=ridge, total=total)
    potential[cells] += step.change
    factor = np.ones(expected.size)
    factor[cells] = step.factor
    return factor
