"""Tables of children and cells with given sums both ways: the nearest one, and the nearest in whole numbers.

The two programs of the census bureau's TopDown algorithm (Abowd et al. 2022; arXiv 2401.18024), for some parents at once.
Post-processing of noisy counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from synthdp.arrays import BoolArray, FloatArray, IntArray

ROUNDS = 300
"""Most iterations of the alternating projections.  A safety limit of time."""

SETTLED = 1e-7
"""The projections stop when every sum is met to this fraction of all rows.  A numerical tolerance."""

TOGETHER = 10
"""Number of parents whose tables one linear program rounds.  More make each program slower, fewer make more programs.
Tuned; not measured."""

WHOLE = 1e-9
"""A number this close to a whole number counts as whole.  A numerical tolerance."""


def nearest_tables(
    target: FloatArray, variance: FloatArray, rows: FloatArray, cells: FloatArray, possible: BoolArray
) -> FloatArray:
    """Return the tables x >= 0 of given sums with the least sum of (x - target)^2 / variance.

    By Dykstra's alternating projections (1983) onto the tables of given row sums and of given column sums.

    Parameters
    ----------
    target
        (parents, children, k) estimates.
    variance
        (parents, children, k) of their errors, > 0.
    rows
        (parents, children) sums of each child, >= 0.
    cells
        (parents, k) sums over children, of the same totals.
    possible
        (parents, children, k) where x may be above 0.
    """
    v = np.where(possible, variance, 0.0)
    x = np.where(possible, target, 0.0)
    first, second = np.zeros_like(x), np.zeros_like(x)
    tolerance = SETTLED * max(float(rows.sum()), 1.0)
    for _ in range(ROUNDS):
        y = _onto_sums(x + first, v, rows)
        first = x + first - y
        x = _onto_sums((y + second).swapaxes(1, 2), v.swapaxes(1, 2), cells).swapaxes(1, 2)
        second = y + second - x
        if np.abs(x.sum(axis=2) - rows).max() < tolerance:
            break
    return np.asarray(x)


def _onto_sums(target: FloatArray, variance: FloatArray, sums: FloatArray) -> FloatArray:
    """Project onto numbers >= 0 of given sums, weighted by 1 / variance: a step of Dykstra's projections.

    Along the last axis; ``sums`` has the other axes.  The result is max(target - t * variance, 0) with the right t for
    each sum.  It is 0 where the variance is 0: no row is possible there.
    """
    ratio = np.divide(target, variance, out=np.full(target.shape, -np.inf), where=variance > 0)
    order = np.argsort(-ratio, axis=-1, kind="stable")
    by = np.take_along_axis(ratio, order, axis=-1)
    mass = np.cumsum(np.take_along_axis(np.where(variance > 0, target, 0.0), order, axis=-1), axis=-1)
    spread = np.maximum(np.cumsum(np.take_along_axis(variance, order, axis=-1), axis=-1), 1e-300)
    level = (mass - sums[..., None]) / spread
    last = np.maximum((by > level).sum(axis=-1) - 1, 0)
    t = np.take_along_axis(level, last[..., None], axis=-1)
    return np.asarray(np.maximum(np.where(variance > 0, target - t * variance, 0.0), 0.0))


def controlled_rounding(tables: FloatArray, rows: IntArray, cells: IntArray) -> IntArray | None:
    """Return whole numbers >= 0 of given sums with the least sum of |x - tables|; ``None`` if the solver finds none.

    A linear program whose vertices are whole, as its matrix is totally unimodular; solved by the simplex of HiGHS.

    Parameters
    ----------
    tables
        (parents, children, k) >= 0, whose sums are nearly the given ones.
    rows, cells
        (parents, children) and (parents, k) sums, in whole numbers, of the same totals.
    """
    blocks = [slice(start, start + TOGETHER) for start in range(0, len(tables), TOGETHER)]
    found = [_rounded(tables[some], rows[some], cells[some]) for some in blocks]
    whole = [one for one in found if one is not None]
    return np.concatenate(whole) if len(whole) == len(found) else None


def _rounded(tables: FloatArray, rows: IntArray, cells: IntArray) -> IntArray | None:
    """Do `controlled_rounding` for a few parents in one linear program; ``None`` if it finds no exact solution."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    near = np.rint(tables)
    base = np.where(np.abs(tables - near) < WHOLE, near, np.floor(tables))
    part = np.maximum(tables - base, 0.0)
    if (base.sum(axis=2) == rows).all() and (base.sum(axis=1) == cells).all():
        return np.asarray(base, np.int64)
    up, down = np.flatnonzero(part > WHOLE), np.flatnonzero(base >= 1)
    where, sign = np.append(up, down), np.append(np.ones(len(up)), -np.ones(len(down)))
    parents, children, k = tables.shape
    of_row, of_cell = where // k, where // (children * k) * k + where % k
    at = np.arange(len(where))
    places = np.append(of_row, parents * children + of_cell), np.append(at, at)
    sums = coo_array((np.append(sign, sign), places), shape=(parents * (children + k), len(at)))
    wanted = np.append((rows - base.sum(axis=2)).ravel(), (cells - base.sum(axis=1)).ravel())
    cost = np.append(1 - 2 * part.ravel()[up], np.ones(len(down)))
    found: Any = linprog(cost, A_eq=sums.tocsc(), b_eq=wanted, bounds=(0, 1), method="highs-ds")  # type: ignore[call-overload]  # sparse is taken
    if found.x is None or not found.success:
        return None
    change = np.bincount(where, sign * np.rint(found.x), minlength=base.size)
    moved = base + change.reshape(tables.shape)
    exact = (moved.sum(axis=2) == rows).all() and (moved.sum(axis=1) == cells).all() and (moved >= 0).all()
    return np.asarray(moved, np.int64) if exact else None
