"""Polynomials for symmetric queries: Chebyshev's construction, the optimal one, and how to divide noise among degrees.

Thaler, Ullman, Vadhan (2012) approximate a conjunction by a low-degree polynomial in the number of false literals. In
the basis of parities a linear program finds the best polynomial for a given noise. Public arithmetic only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from synthdp.arrays import FloatArray, IntArray, frozen
from synthdp.checks import check_whole
from synthdp.errors import SolverFailedError
from synthdp.fit.explicit.linear_program import optimum

NOISE_WEIGHT = 2.0
"""Price of one stddev of noise, in units of bias, when a polynomial is chosen for an answer.  Derived: half the width of
a 95 % interval is the bound on the bias plus 1.96 stddevs, so that nearly the narrowest interval is chosen."""

_NEGLIGIBLE = 1e-9
"""Prices of a coefficient, error per unit of its size, below this value are 0 in the linear program. They are beyond a
solver's precision. A numerical tolerance."""


class Coefficients(NamedTuple):
    """Coefficients b, (p,), of a function f in a basis K, and their largest error max |K b - f| on the points."""

    values: FloatArray
    error: float


def best_coefficients(K: FloatArray, f: FloatArray, *, noise: FloatArray | None = None) -> Coefficients:
    """Return b that minimises max |K b - f| + sum_i noise_i |b_i|, with its largest error, by a linear program.

    The program is solved for b_i times the root of the largest |K_i|. Columns with sizes from 1 to 1e15, as parities'
    sums have, then stay within double precision.

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
        raise SolverFailedError(
            "no approximating polynomial could be computed in double precision: give a smaller order or fewer inputs",
            status="infeasible",
        )
    b = found.x[:p] / size
    return Coefficients(frozen(b), float(np.abs(K @ b - f).max()))


@cache
def krawtchouk_sums(k: int, order: int) -> tuple[tuple[int, ...], ...]:
    """Return the sums of all parities of each degree, by the number of true bits: exact, (k + 1) rows of order + 1.

    Entry (m, i) is the sum over subsets S of k bits with |S| = i of prod_{j in S} (-1)^{bit j}, where m bits are 1:
    K_i(m) = sum_j (-1)^j C(m, j) C(k - m, i - j). So a symmetric f with f(m) = sum_i b_i K_i(m) has the Fourier
    coefficient b_i on every parity of degree i.

    Notes
    -----
    By the recurrence (i + 1) K_{i+1}(m) = (k - 2m) K_i(m) - (k - i + 1) K_{i-1}(m).
    """
    rows: list[tuple[int, ...]] = []
    for m in range(k + 1):
        row = [0, 1]
        for i in range(order):
            row.append(((k - 2 * m) * row[-1] - (k - i + 1) * row[-2]) // (i + 1))
        rows.append(tuple(row[1:]))
    return tuple(rows)


@cache
def krawtchouk(k: int, order: int) -> FloatArray:
    """Return K_i(m), the sum of all parities of degree i on k bits where m bits are 1, (k + 1, order + 1).

    Row m and column i are `krawtchouk_sums`, as floats, which linear programs need.
    """
    return frozen(np.array(krawtchouk_sums(k, order), np.float64))


def fourier_coefficients(values: Sequence[float]) -> FloatArray:
    """Return the Fourier coefficient of a symmetric function at each degree, (k + 1,), from exact arithmetic.

    Parameters
    ----------
    values
        (k + 1,) the function by the number of true bits.

    Notes
    -----
    b_i = 2^-k sum_m C(k, m) f(m) K_m(i), since C(k, i) K_m(i) = C(k, m) K_i(m).  The sums cancel, so they are exact.
    """
    k = len(values) - 1
    exact = [Fraction(float(value)) for value in values]
    sums = [sum((f * size for f, size in zip(exact, row, strict=True)), Fraction(0)) for row in krawtchouk_sums(k, k)]
    return np.array([float(total / 2**k) for total in sums], np.float64)


def level_sizes(d: int, order: int) -> tuple[int, ...]:
    """Return the number of subsets of d bits of each size from 0 to ``order``: how many parities each degree has."""
    return tuple(math.comb(d, i) for i in range(order + 1))


def odd_overlaps(d: int, order: int, flips: Iterable[int]) -> list[list[int]]:
    """Return how many subsets of each size change their parity when some bits are flipped.

    A replaced row with f flipped bits changes just these parities, so their sensitivity is a maximum over f.

    There is a row per number f of flipped bits and a column per size i from 0 to ``order``. An entry counts the
    i-subsets that contain an odd number of the f flipped bits: sum over odd j of C(f, j) C(d - f, i - j).
    """
    return [
        [sum(math.comb(f, j) * math.comb(d - f, i - j) for j in range(1, i + 1, 2)) for i in range(order + 1)]
        for f in flips
    ]


def ranks(subsets: IntArray, d: int) -> IntArray:
    """Return each subset's position among all of its size in lexicographic order, (n,), from (n, i) sorted rows.

    Noisy sums of a size are stored in this order, so a rank is where a subset's sum lies.
    """
    n, size = subsets.shape
    place = np.zeros(n, np.int64)
    before = np.full(n, -1, np.int64)
    for j in range(size):
        chosen = subsets[:, j]
        table = _binomials(d, size - j)
        place += table[d - 1 - before] - table[d - chosen]
        before = chosen
    return place


@lru_cache(maxsize=256)
def subsets_of(d: int, size: int) -> IntArray:
    """Return all subsets of range(d) of one size in lexicographic order, (C(d, size), size)."""
    every = list(itertools.combinations(range(d), size))
    return frozen(np.array(every, np.int64).reshape(len(every), size))


@cache
def _binomials(d: int, size: int) -> IntArray:
    """Return n choose ``size`` for n from 0 to d, (d + 1,), from which `ranks` adds up a subset's position."""
    return frozen(np.array([math.comb(n, size) for n in range(d + 1)], np.int64))


_SWEEPS = 2000
"""Number of multiplicative updates in `least_worst_use`. More come nearer to the least cost, and take more time. A
numerical tolerance."""
_ROUNDING = 1e-6
"""Excess of an exact error over the linear program's error, relative to |f|, beyond which its solution is rejected. A
numerical tolerance."""


def chebyshev_conjunction(k: int, degree: int) -> FloatArray:
    """Return the paper's polynomial for a conjunction of k literals, by the number of true ones; (k + 1,).

    Where s literals are false, it is q(s) = T_t(x(s)) / T_t(x(0)); x maps [1, k] to [1, -1], and x(0) = (k + 1) /
    (k - 1). It is 1 at s = 0, and at most 1 / T_t(x(0)) elsewhere (Thaler, Ullman, Vadhan 2012, section 4; Nisan,
    Szegedy 1994).

    Raises
    ------
    ParameterError
        If ``k`` or ``degree`` is below 1, or ``degree`` above ``k``.
    """
    check_whole("degree", degree, most=k)
    false = np.arange(k, -1, -1)
    if k == 1:
        return np.asarray(1.0 - false, np.float64)
    chebyshev = np.polynomial.chebyshev.Chebyshev.basis(degree)
    return np.asarray(chebyshev((k + 1 - 2 * false) / (k - 1)) / chebyshev((k + 1) / (k - 1)), np.float64)


def chebyshev_degree(k: int, error: float) -> int:
    """Return the least degree, at most k, at which `chebyshev_conjunction` is within ``error`` of the conjunction."""
    for degree in range(1, k):
        if math.cosh(degree * math.acosh((k + 1) / (k - 1))) * error >= 1:
            return degree
    return k


def newton_coefficients(values: FloatArray) -> FloatArray:
    """Return a with f = sum_i a_i C(s, i), where s literals are false: the differences of f at s = 0; (k + 1,).

    In multilinear monomials, a_|S| is the coefficient of "all literals of S are false".  So counts of the monomials
    answer the query.

    Parameters
    ----------
    values
        (k + 1,) f by the number of true literals.
    """
    differences = np.array(values[::-1], np.float64)
    for i in range(1, len(differences)):
        differences[i:] = differences[i:] - differences[i - 1 : -1]
    return differences


@lru_cache(maxsize=4096)
def optimal_coefficients(values: tuple[float, ...], order: int, noise: tuple[float, ...]) -> Coefficients:
    """Return the Fourier coefficients, (order + 1,), of the best polynomial for a symmetric query, and its error.

    The best polynomial minimises its largest error plus sum_i noise_i |b_i|. At order >= k the exact polynomial is
    taken, unless another is better by more than the linear program's rounding. Where double precision does not suffice
    for a degree (about 100), a lower degree is taken. The returned error is exact for the rounded coefficients.

    Parameters
    ----------
    values
        (k + 1,) the query by the number of true literals.
    order
        Largest degree of the polynomial.
    noise
        (order + 1,) price of each coefficient.
    """
    k, price = len(values) - 1, np.array(noise)
    found = _of_degree(values, order, price)
    if order < k:
        return found
    exact = _checked(values, np.pad(fourier_coefficients(values), (0, order - k)))
    slack = 1e-7 * (1 + float(price @ np.abs(exact.values)))
    better = found.error + price @ np.abs(found.values) < exact.error + price @ np.abs(exact.values) - slack
    return found if better else exact


def _of_degree(values: tuple[float, ...], order: int, price: FloatArray) -> Coefficients:
    """Return the best coefficients, (order + 1,), of the largest degree up to ``order`` that can be solved.

    The degree is halved until the linear program succeeds in double precision. The best constant is returned where it
    is better, since the program may fall short of it by its tolerance.
    """
    k, f = len(values) - 1, np.array(values)
    middle = (float(f.max()) + float(f.min())) / 2
    constant = _checked(values, np.pad(np.array([middle]), (0, order)))
    for degree in (order >> halvings for halvings in range(int(order).bit_length())):
        try:
            found = best_coefficients(krawtchouk(k, degree), f, noise=price[: degree + 1])
        except SolverFailedError:
            continue
        checked = _checked(values, np.pad(found.values, (0, order - degree)))
        if checked.error <= found.error + _ROUNDING * float(np.abs(f).max()):
            return min(checked, constant, key=lambda one: one.error + float(price @ np.abs(one.values)))
    return constant


def _checked(values: tuple[float, ...], b: FloatArray) -> Coefficients:
    """Return coefficients with their largest error, computed in exact arithmetic, since floats would cancel."""
    exact = [Fraction(float(one)) for one in b]
    errors = [
        abs(sum((one * size for one, size in zip(exact, row, strict=True)), Fraction(0)) - Fraction(float(value)))
        for row, value in zip(krawtchouk_sums(len(values) - 1, len(b) - 1), values, strict=True)
    ]
    return Coefficients(frozen(b), float(max(errors)))


def least_worst_use(costs: FloatArray, use: FloatArray) -> FloatArray:
    """Return v > 0 that minimises sum_i costs_i / v_i subject to use @ v <= 1 in every row, (p,).

    The v are squared weights of the parities' degrees that give an answer the least variance at a given L2 sensitivity.
    The dual, the maximum over the simplex of (sum_i sqrt(costs_i (use'lambda)_i))^2, is solved by multiplicative
    updates that never decrease it (Silvey, Titterington, Torsney 1978). The result is feasible after any number of
    updates.

    Parameters
    ----------
    costs
        (p,) numbers above 0.
    use
        (r, p) numbers of at least 0, no column all 0.
    """
    share = np.full(len(use), 1 / len(use))
    for _ in range(_SWEEPS):
        v = np.sqrt(costs / (share @ use))
        used = use @ v
        share = share * used / (share @ used)
    v = np.sqrt(costs / (share @ use))
    return np.asarray(v / (use @ v).max(), np.float64)
