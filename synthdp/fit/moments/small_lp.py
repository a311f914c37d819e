"""Linear programs with a handful of columns, solved by HiGHS through SciPy.

They take milliseconds; the modelling layer of `l1_highs` would take 0.4 s a call.  Knows nothing of what they mean.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from synthdp.arrays import FloatArray
from synthdp.errors import SolverFailedError

_INFEASIBLE = 2


class Minimum(NamedTuple):
    """A minimiser (m,) and the minimum."""

    x: FloatArray
    value: float


def minimise(
    cost: FloatArray,
    *,
    rows: FloatArray,
    limits: FloatArray,
    equal: tuple[FloatArray, FloatArray] | None = None,
    free: int = 0,
) -> Minimum | None:
    """Return the minimum of cost'x subject to rows x <= limits, or ``None`` if no x satisfies them.

    Parameters
    ----------
    cost
        (m,) prices.
    rows, limits
        (p, m) and (p,).
    equal
        More constraints that hold with equality.
    free
        How many of the first variables may be negative; all others are >= 0.

    Raises
    ------
    SolverFailedError
        If HiGHS ends with neither.
    """
    bounds = [(None, None)] * free + [(0.0, None)] * (len(cost) - free)
    A_eq, b_eq = equal if equal is not None else (None, None)
    found = linprog(cost, A_ub=rows, b_ub=limits, A_eq=A_eq, b_eq=b_eq, bounds=bounds, method="highs")
    if found.status == _INFEASIBLE:
        return None
    if found.status != 0 or found.x is None or found.fun is None:
        raise SolverFailedError(f"a linear program failed: {found.message}", status=str(found.message))
    return Minimum(np.asarray(found.x, np.float64), float(found.fun))
