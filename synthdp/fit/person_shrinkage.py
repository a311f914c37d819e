"""Noisy tables of persons, shrunk towards expected tables, with smoothed margins and rare cells set to 0.

A table of nine by nine groups has 64 numbers beyond its margins.  Three parameters describe most of the relation of two
numbers: association of large with large, of near with near, and of equal with equal.
"""

from __future__ import annotations

import math

import numpy as np

from synthdp.arrays import FloatArray

SMALL = 5
"""Tables with fewer rows or columns than this are shrunk by one factor, others by singular values.  The shrinker of
singular values is optimal only in the limit of large tables.  Tuned: half and twice of it change pairs in a row of
two panels by +1.8 and -1.2 % (docs/benchmarks/constants.md).
"""


def shrunk(gap: FloatArray, stddev: float) -> FloatArray:
    """Return a noisy table's differences from its expectation, (m, n), shrunk towards 0 by how far noise explains them.

    Large tables shrink singular values, by the optimal shrinker for the Frobenius norm (Gavish, Donoho 2017).  Small
    tables use the positive-part rule of James and Stein.

    Parameters
    ----------
    gap
        (m, n) differences.
    stddev
        Standard deviation of the noise in each cell.
    """
    m, n = gap.shape
    if min(m, n) < SMALL:
        return gap * max(0.0, 1 - gap.size * stddev**2 / max(float((gap**2).sum()), 1e-9))
    u, s, v = np.linalg.svd(gap, full_matrices=False)
    s = s / stddev
    inside = np.maximum((s**2 - m - n) ** 2 - 4.0 * m * n, 0)
    kept = np.where(s > math.sqrt(m) + math.sqrt(n), np.sqrt(inside) / np.maximum(s, 1e-9), 0)
    return np.asarray((u * (kept * stddev)) @ v, np.float64)


def towards(
    noisy: FloatArray, expected: FloatArray, stddev: float, *, same: bool = False, ordered: tuple[int, int] = (0, 0)
) -> FloatArray:
    """Return a noisy table, (m, n), shrunk towards an expected one.

    The margins of the expected table are taken, unless a difference is significant.  Between two numbers, an
    association of few parameters is fitted first; Stein's estimate of the risk chooses how many.  The noisy table is
    then shrunk towards the fit.

    Parameters
    ----------
    noisy, expected
        (m, n) counts; the total is taken from ``noisy``.
    stddev
        Standard deviation of the noise in each cell.
    same
        Whether both axes have the same groups of one attribute.
    ordered
        Number of groups of each axis that are of numbers; they come first, from the smallest to the largest.
    """
    now = expected * max(float(noisy.sum()), 1.0) / max(float(expected.sum()), 1e-9)
    gap = noisy - now
    margins = []
    for axis in (1, 0):
        a, b = gap.sum(axis=axis), now.sum(axis=axis)
        kept = max(0.0, 1 - len(a) * gap.shape[axis] * stddev**2 / max(float((a**2).sum()), 1e-9))
        margin = np.maximum(b + kept * a, 0)
        margins.append(margin / max(float(margin.sum()), 1e-9) * now.sum())
    now = associated(noisy, now, margins, stddev, features(now.shape, ordered, same=same))
    table = np.maximum(now + shrunk(noisy - now, stddev), 0)
    return raked(table + 1e-3 * np.outer(*margins) / max(float(now.sum()), 1e-9), margins)


SWEEPS = 30
"""Iterations of proportional fitting of a table to its margins.  A safety limit of time."""

ROUNDS, STRONGEST = 8, 12.0
"""ROUNDS is the largest number of Gauss-Newton steps when an association is fitted.  STRONGEST bounds its parameters,
which are added to logarithms of counts: exp(12) is about 160 000, so no count overflows.  Numerical tolerances."""

LEAST_GROUPS = 3
"""An association is fitted only to numbers with at least this many groups.  Derived: two groups are at -1 and 1, where
the closeness -|a - b| is a b - 1.  So the first two patterns of an association would be the same."""

ONE_STEP = 0.05
"""Step of the finite differences by which the slope in a parameter is computed.  A numerical tolerance."""


def raked(table: FloatArray, margins: list[FloatArray]) -> FloatArray:
    """Return a table, (m, n), whose rows and columns are rescaled in turn to given margins, by `SWEEPS` iterations.

    ``margins`` are the sums of its rows, (m,), and of its columns, (n,).
    """
    for _ in range(SWEEPS):
        table = table * (margins[0] / np.maximum(table.sum(axis=1), 1e-12))[:, None]
        table *= (margins[1] / np.maximum(table.sum(axis=0), 1e-12))[None]
    return np.asarray(table, np.float64)


def features(shape: tuple[int, ...], ordered: tuple[int, int], *, same: bool) -> list[FloatArray]:
    """Return the patterns that a log-table of two numbers may have beyond its margins, (m, n) each, likeliest first.

    They are linear-by-linear association, closeness, equality (if ``same``), and special values with each other.
    ``ordered`` is the number of groups of each axis that are numbers.  The list is empty if either is below
    `LEAST_GROUPS`.
    """
    found: list[FloatArray] = []
    if min(ordered) < LEAST_GROUPS:
        return found
    first, second = (
        np.where(np.arange(n) < k, 2 * np.arange(n) / (k - 1) - 1, 0.0) for n, k in zip(shape, ordered, strict=True)
    )
    inside = np.outer(np.arange(shape[0]) < ordered[0], np.arange(shape[1]) < ordered[1])
    found.append(np.asarray(np.outer(first, second), np.float64))
    found.append(np.asarray(-np.abs(first[:, None] - second) * inside, np.float64))
    if same:
        found.append(np.eye(shape[0], shape[1], dtype=np.float64))
    beyond = np.outer(np.arange(shape[0]) >= ordered[0], np.arange(shape[1]) >= ordered[1])
    if beyond.any():
        found.append(beyond.astype(np.float64))
    return found


def associated(
    noisy: FloatArray, now: FloatArray, margins: list[FloatArray], stddev: float, shapes: list[FloatArray]
) -> FloatArray:
    """Fit the expected table plus a few association parameters to a noisy table, by least squares (Gauss-Newton).

    The number of parameters is the one of least estimated risk (Stein).

    Parameters
    ----------
    noisy, now
        (m, n) noisy and expected counts.
    margins
        Sums of the rows, (m,), and of the columns, (n,), of the result.
    stddev
        Standard deviation of the noise in each cell.
    shapes
        Term of each parameter in the logarithms, (m, n) each; they are tried in this order.
    """
    best, risk, theta = now, float(((noisy - now) ** 2).sum()), np.zeros(0)

    def table(theta: FloatArray) -> FloatArray:
        logs = sum((t * f for t, f in zip(theta, shapes, strict=False)), np.zeros(now.shape))
        return raked((now + 1e-3) * np.exp(logs), margins)

    for used in range(1, len(shapes) + 1):
        theta = np.append(theta, 0.0)
        found = table(theta)
        for _ in range(ROUNDS):
            slopes = np.column_stack(
                [(table(theta + ONE_STEP * one) - found).ravel() / ONE_STEP for one in np.eye(used)]
            )
            move = np.linalg.lstsq(
                slopes.T @ slopes + 1e-6 * np.trace(slopes.T @ slopes) * np.eye(used),
                slopes.T @ (noisy - found).ravel(),
                rcond=None,
            )[0]
            move *= min(1.0, 1.0 / max(float(np.abs(move).max()), 1e-9))
            new = np.clip(theta + move, -STRONGEST, STRONGEST)
            then = table(new)
            if ((noisy - then) ** 2).sum() >= ((noisy - found) ** 2).sum() - 1e-3 * stddev**2:
                break
            theta, found = new, then
        now_risk = float(((noisy - found) ** 2).sum()) + 2 * used * stddev**2
        if now_risk < risk:
            best, risk = found, now_risk
    return best
