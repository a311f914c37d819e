"""The linear program that chooses a polynomial: approximation error against noise.  Public numbers only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from synthdp.arrays import FloatArray, frozen
from synthdp.errors import SolverFailedError
from synthdp.fit.explicit.linear_program import optimum

_NEGLIGIBLE = 1e-9
"""Prices below it are taken as 0: they are beyond a solver's tolerance, and only upset it."""


class Coefficients(NamedTuple):
    """Coefficients b (p,) of a function, and its largest error max |K b - f| on the points."""

    values: FloatArray
    error: float


def best_coefficients(K: FloatArray, f: FloatArray, *, noise: FloatArray | None = None) -> Coefficients:
    """Return b that minimises max |K b - f| + sum_i noise_i |b_i|.

    The program is solved for b_i times the root of the largest |K_i|: then columns of sizes from 1 to 1e15 (levels of
    parities are) stay within what a solver in double precision can tell apart.

    Parameters
    ----------
    K
        (m, p) basis functions at the points.
    f
        (m,) the function to approximate.
    noise
        (p,) price of each coefficient's absolute value; default: free.

    Raises
    ------
    SolverFailedError
        If the columns are so different in size that the solver finds no solution, though there always is one.
    """
    m, p = K.shape
    largest = np.abs(K).max(axis=0)
    size = np.sqrt(np.where(largest > 0, largest, 1.0))
    price = np.zeros(p) if noise is None else np.asarray(noise, np.float64) / size
    price = np.where(price < _NEGLIGIBLE, 0.0, price)
    scaled = K / size
    # Variables: size * b, its absolute value, gamma.
    one, zero, eye, column = np.ones((m, 1)), np.zeros((m, p)), np.eye(p), np.zeros((p, 1))
    found = optimum(
        np.concatenate([np.zeros(p), price, [1.0]]),
        rows=np.block([[scaled, zero, -one], [-scaled, zero, -one], [eye, -eye, column], [-eye, -eye, column]]),
        limits=np.concatenate([f, -f, np.zeros(2 * p)]),
        free=p,
    )
    if found is None:
        raise SolverFailedError("a polynomial could not be found in double precision", status="infeasible")
    b = found.x[:p] / size
    return Coefficients(frozen(b), float(np.abs(K @ b - f).max()))
