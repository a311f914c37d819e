"""Tables of two numbers by few parameters: how strongly large goes with large, near with near, equal with equal.

A table of nine by nine groups has 64 numbers beyond its margins, and most of what relates two numbers is said by three.
Post-processing of noisy tables.
"""

from __future__ import annotations

import numpy as np

from synthdp.arrays import FloatArray

SWEEPS = 30
"""Iterations of proportional fitting of a table to its margins.  A safety limit of time."""

ROUNDS, STRONGEST = 8, 12.0
"""Most Gauss-Newton steps when an association is fitted, and the bound on its parameters.  Numerical tolerances."""

LEAST_GROUPS = 3
"""An association is fitted only to numbers with at least this many groups.  Fewer groups have hardly more cells than
an association has parameters.  Tuned; not measured.
"""

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
    ``ordered`` is how many groups of each axis are numbers.  Empty if it is below `LEAST_GROUPS` on either.
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
    """Fit the expected table plus a few association parameters to a noisy table, as many as reduce the estimated risk.

    Least squares by Gauss and Newton; how many parameters, by Stein's estimate of the risk.

    Parameters
    ----------
    noisy, now
        (m, n) counts, and what is expected of them.
    margins
        Sums of the rows, (m,), and of the columns, (n,), which a table with an association has.
    stddev
        Of the noise in each cell.
    shapes
        What each parameter adds to the logarithms, (m, n) each; they are tried in this order.
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
