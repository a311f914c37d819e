"""The linear program that chooses a polynomial: approximation error against noise.  Public numbers only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from synthdp.arrays import FloatArray, frozen
from synthdp.errors import InternalError
from synthdp.fit.moments.small_lp import minimise


class Coefficients(NamedTuple):
    """Coefficients b (p,) of a function, and its largest error max |K b - f| on the points."""

    values: FloatArray
    error: float


def best_coefficients(K: FloatArray, f: FloatArray, *, noise: FloatArray | None = None) -> Coefficients:
    """Return b that minimises max |K b - f| + sum_i noise_i |b_i|.

    Parameters
    ----------
    K
        (m, p) basis functions at the points.
    f
        (m,) the function to approximate.
    noise
        (p,) price of a unit of each coefficient; default: free.
    """
    m, p = K.shape
    price = np.zeros(p) if noise is None else np.asarray(noise, np.float64)
    # Variables: b, |b|, gamma.
    one, zero, eye, column = np.ones((m, 1)), np.zeros((m, p)), np.eye(p), np.zeros((p, 1))
    found = minimise(
        np.concatenate([np.zeros(p), price, [1.0]]),
        rows=np.block([[K, zero, -one], [-K, zero, -one], [eye, -eye, column], [-eye, -eye, column]]),
        limits=np.concatenate([f, -f, np.zeros(2 * p)]),
        free=p,
    )
    if found is None:
        raise InternalError("a program that always has a solution had none")
    b = found.x[:p]
    return Coefficients(frozen(b), float(np.abs(K @ b - f).max()))
