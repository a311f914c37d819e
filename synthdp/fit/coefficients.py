"""The linear program that chooses a polynomial: approximation error against noise.

Works on public numbers only.  Solved by HiGHS through SciPy: the programs have a few rows and a handful of columns, so
the modelling layer of `l1_highs` (0.4 s a call) would cost a hundred times the solve.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from synthdp.arrays import FloatArray, frozen
from synthdp.errors import SolverFailedError


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

    Raises
    ------
    SolverFailedError
        If HiGHS finds no optimum.
    """
    m, p = K.shape
    price = np.zeros(p) if noise is None else np.asarray(noise, np.float64)
    # Variables: b, |b|, gamma.
    one, zero = np.ones((m, 1)), np.zeros((m, p))
    eye, column = np.eye(p), np.zeros((p, 1))
    rows = np.block([[K, zero, -one], [-K, zero, -one], [eye, -eye, column], [-eye, -eye, column]])
    limits = np.concatenate([f, -f, np.zeros(2 * p)])
    cost = np.concatenate([np.zeros(p), price, [1.0]])
    bounds = [(None, None)] * p + [(0.0, None)] * (p + 1)
    found = linprog(cost, A_ub=rows, b_ub=limits, bounds=bounds, method="highs")
    if found.status != 0:
        raise SolverFailedError(f"no polynomial was found: {found.message}", status=str(found.message))
    b = np.asarray(found.x[:p], np.float64)
    return Coefficients(frozen(b), float(np.abs(K @ b - f).max()))
