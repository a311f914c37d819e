"""Noisy tables of persons brought nearer to the truth by what is known of them besides: shrinkage, margins, rare cells."""

from __future__ import annotations

import math

import numpy as np

from synthdp.arrays import FloatArray

SMALL = 5
"""Tables with fewer rows or columns are shrunk as a whole."""

SWEEPS = 30
"""Of iterative proportional fitting to the margins."""

ROUNDS, STRONGEST = 8, 12.0
"""Most Gauss-Newton steps to an association, and bounds of its parameters."""


def shrunk(gap: FloatArray, stddev: float) -> FloatArray:
    """Return noisy differences from an expectation, shrunk towards none.

    Singular values by the optimal shrinker for the Frobenius norm (Gavish, Donoho 2017); small tables by the positive-part
    rule of James and Stein.

    Parameters
    ----------
    gap
        (m, n) differences.
    stddev
        Of the noise in each cell.
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
    """Return a noisy table shrunk towards an expected one, whose margins it keeps as far as noise does not deny them.

    Between two numbers the table is first brought to an association of few parameters, as many as Stein's estimate of the
    risk asks for, and then shrunk towards that.

    Parameters
    ----------
    noisy, expected
        (m, n) counts; the total is taken from ``noisy``.
    stddev
        Of the noise in each cell.
    same
        Whether both axes have the same groups of one attribute.
    ordered
        How many groups of each axis, the first ones, are of numbers, from the smallest to the largest.
    """
    now = expected * max(float(noisy.sum()), 1.0) / max(float(expected.sum()), 1e-9)
    gap = noisy - now
    margins = []
    for axis in (1, 0):
        a, b = gap.sum(axis=axis), now.sum(axis=axis)
        kept = max(0.0, 1 - len(a) * gap.shape[axis] * stddev**2 / max(float((a**2).sum()), 1e-9))
        margin = np.maximum(b + kept * a, 0)
        margins.append(margin / max(float(margin.sum()), 1e-9) * now.sum())
    now = _associated(noisy, now, margins, stddev, _features(now.shape, ordered, same=same))
    table = np.maximum(now + shrunk(noisy - now, stddev), 0)
    return _raked(table + 1e-3 * np.outer(*margins) / max(float(now.sum()), 1e-9), margins)


def _raked(table: FloatArray, margins: list[FloatArray]) -> FloatArray:
    for _ in range(SWEEPS):
        table = table * (margins[0] / np.maximum(table.sum(axis=1), 1e-12))[:, None]
        table *= (margins[1] / np.maximum(table.sum(axis=0), 1e-12))[None]
    return np.asarray(table, np.float64)


def _features(shape: tuple[int, ...], ordered: tuple[int, int], *, same: bool) -> list[FloatArray]:
    """Return what the logarithms of a table of two numbers may have besides, (m, n) each, the most likely first."""
    found: list[FloatArray] = []
    if min(ordered) < 3:
        return found
    first, second = (
        np.where(np.arange(n) < k, 2 * np.arange(n) / (k - 1) - 1, 0.0) for n, k in zip(shape, ordered, strict=True)
    )
    inside = np.outer(np.arange(shape[0]) < ordered[0], np.arange(shape[1]) < ordered[1])
    found.append(np.outer(first, second))
    found.append(-np.abs(first[:, None] - second) * inside)
    if same:
        found.append(np.eye(*shape))
    beyond = np.outer(np.arange(shape[0]) >= ordered[0], np.arange(shape[1]) >= ordered[1])
    if beyond.any():
        found.append(beyond * 1.0)
    return found


def _associated(
    noisy: FloatArray, now: FloatArray, margins: list[FloatArray], stddev: float, features: list[FloatArray]
) -> FloatArray:
    """Return the expected table with the association that the noisy one shows, of as many parameters as pay."""
    best, risk, theta = now, float(((noisy - now) ** 2).sum()), np.zeros(0)

    def table(theta: FloatArray) -> FloatArray:
        logs = sum((t * f for t, f in zip(theta, features, strict=False)), np.zeros(now.shape))
        return _raked((now + 1e-3) * np.exp(logs), margins)

    for used in range(1, len(features) + 1):
        theta = np.append(theta, 0.0)
        found = table(theta)
        for _ in range(ROUNDS):
            slopes = np.column_stack([(table(theta + 0.05 * one) - found).ravel() / 0.05 for one in np.eye(used)])
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


def by_period(noisy: FloatArray, stddev: float, *, least: float) -> FloatArray:
    """Return a noisy one-way table by group of periods, shrunk towards no change from one to the next.

    Parameters
    ----------
    noisy
        (groups, cells) counts.
    stddev
        Of the noise in each cell.
    least
        Cells whose total is below so many standard deviations of it are empty.
    """
    rows = len(noisy)
    total = noisy.sum(axis=0)
    total = np.where(total < least * stddev * math.sqrt(rows), 0, total)
    if total.sum() <= 0:
        total = np.maximum(noisy.sum(axis=0), 0) + 1e-9
    level = np.maximum(noisy.sum(axis=1), stddev)
    base = np.outer(level, total / total.sum())
    gap = shrunk(noisy - base, stddev) if rows > 1 else np.zeros_like(base)
    return np.asarray(np.maximum(base + gap, 0) * (total > 0), np.float64)
