"""How far sums of Chebyshev polynomials move when a record is replaced: the constants, and the bounds made of them.

Pure functions of t and d.  Each is proven in ``docs/proofs/chebyshev-sensitivity.md`` and tested against brute force.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.queries.norms import Norms

_ROUNDING = 1 + 1e-9
"""Factor above 1 that covers the rounding of floating-point bounds and features."""

_FEW_DEGREES = 32
_STEPS_OF_FEW, _STEPS_OF_MANY = 1024, 64
"""Points per degree of the grids on [0, π] on which kernels are looked at."""

_AT_ONCE = 2**20


def tensor_swap(t: int, d: int, *, denominator: int) -> Norms:
    """Return bounds on the change of the rounded tensor features when a record is replaced."""
    return rounded_swap(tensor_swap_l1(t, d), tensor_swap_l2_squared(t, d), k=t**d - 1, denominator=denominator)


def moments_swap(p: int, d: int, *, denominator: int) -> Norms:
    """Return bounds on the change of rounded T_1 ... T_p of each of d columns when a record is replaced.

    Exact: (p + 1 + κ) d in L1, and d times the largest squared change of one column; for p = 2, 25/8 d and 5.1446 d.
    They also hold with one more indicator per cell without a point, in whose place all T are 0 (docs/proofs).
    """
    l1, l2_squared = tensor_swap_l1(p + 1, 1) * d, tensor_swap_l2_squared(p + 1, 1) * d
    return rounded_swap(l1, l2_squared, k=p * d, denominator=denominator)


def rounded_swap(l1: float, l2_squared: float, *, k: int, denominator: int) -> Norms:
    """Return whole-number bounds from real ones: rounding moves each of k differences by at most 1."""
    return Norms.within(
        k,
        2 * denominator,
        l1=math.ceil((l1 * denominator + k) * _ROUNDING),
        l2_squared=math.ceil((math.sqrt(l2_squared) * denominator + math.sqrt(k)) ** 2 * _ROUNDING),
    )


def tensor_swap_l1(t: int, d: int) -> float:
    """Return the largest L1 change of the real tensor features when a record is replaced: t^(d-1) (t + κ_t), exact.

    The paper prints t^d, which is right at t = 2 only, where κ is 0.
    """
    return float(t ** (d - 1) * (t + least_kernel(t)))


def tensor_swap_l2_squared(t: int, d: int) -> float:
    """Return a bound on the squared Euclidean change of the real tensor features when a record is replaced.

    t^(d-1) times that of one column, at least 2 t^d if d > 1; exact if t is even or d is 1, else above the truth by
    less than a factor 1 / (1 - t^-d).
    """
    one = largest_square(t)
    return one if d == 1 else float(t ** (d - 1) * max(2.0 * t, one))


@lru_cache(maxsize=1024)
def least_kernel(t: int) -> float:
    """Return κ_t, an upper bound on −min of D(u) = 1 + cos u + ... + cos (t-1)u, too large by at most 1e-4 t.

    Between the points of a grid of step h, D falls below their least value by at most h^2/8 max|D''|.
    """
    most = _most_on_grid(lambda u: -dirichlet(u, t), t)
    return max(0.0, most + _step(t) ** 2 / 8 * _curvature(t))


@lru_cache(maxsize=1024)
def largest_square(t: int) -> float:
    """Return an upper bound, too large by at most 4e-4 t, on max over x, y of sum_{m<t} (T_m(x) - T_m(y))^2.

    It is attained at x = 1, where it is max over w of (3t - 4 D(w) + D(2w)) / 2.
    """
    most = _most_on_grid(lambda w: (3 * t - 4 * dirichlet(w, t) + dirichlet(2 * w, t)) / 2, t)
    return min(4.0 * (t - 1), most + _step(t) ** 2 / 2 * _curvature(t))


def dirichlet(u: FloatArray, t: int) -> FloatArray:
    """Return D(u) = 1 + cos u + ... + cos (t-1)u."""
    half = np.sin(u / 2)
    flat = np.abs(half) < 1e-9
    values = 0.5 + np.sin((t - 0.5) * u) / (2 * np.where(flat, 1.0, half))
    return np.where(flat, float(t), values)


def _most_on_grid(function: Callable[[FloatArray], FloatArray], t: int) -> float:
    """Return the largest value on a grid of [0, π]; the functions are even and 2π-periodic."""
    count = round(math.pi / _step(t))
    starts = range(0, count + 1, _AT_ONCE)
    grids = (np.arange(a, min(a + _AT_ONCE, count + 1), dtype=np.float64) * (math.pi / count) for a in starts)
    return max(float(function(np.asarray(grid, np.float64)).max()) for grid in grids)


def _step(t: int) -> float:
    return math.pi / (t * (_STEPS_OF_FEW if t <= _FEW_DEGREES else _STEPS_OF_MANY))


def _curvature(t: int) -> float:
    """Return max|D''| = 1 + 4 + ... + (t-1)^2."""
    return (t - 1) * t * (2 * t - 1) / 6
