"""Tables of two numbers by few parameters: how strongly large goes with large, near with near, equal with equal.

A table of nine by nine groups has 64 numbers beyond its margins, and most of what relates two numbers is said by three.
Post-processing of noisy tables.
"""

from __future__ import annotations

import numpy as np

from synthdp.arrays import FloatArray

SWEEPS = 30
"""Of iterative proportional fitting to the margins.  A safety limit."""

ROUNDS, STRONGEST = 8, 12.0
"""Most Gauss-Newton steps to an association, and bounds of its parameters.  A numerical tolerance."""

LEAST_GROUPS = 3
"""Groups that a number must have for it.  Tuned; not measured."""

ONE_STEP = 0.05
"""By how much a parameter is moved to see what it does.  A numerical tolerance."""


def raked(table: FloatArray, margins: list[FloatArray]) -> FloatArray:
    """Return a table brought to the sums of its rows and of its columns by iterative proportional fitting."""
    for _ in range(SWEEPS):
        table = table * (margins[0] / np.maximum(table.sum(axis=1), 1e-12))[:, None]
        table *= (margins[1] / np.maximum(table.sum(axis=0), 1e-12))[None]
    return np.asarray(table, np.float64)


def features(shape: tuple[int, ...], ordered: tuple[int, int], *, same: bool) -> list[FloatArray]:
    """Return what the logarithms of a table of two numbers may have besides, (m, n) each, the most likely first."""
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
    """Return the expected table with the association that the noisy one shows, of as many parameters as pay.

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
