"""Noisy histograms of numbers, smoothed to the extent that the noise asks for it: a tail of noise is no tail of persons.

Cells that are empty but for noise, cut at 0, leave persons far from all others, who spoil means, changes and correlations.
Here the logarithm of a histogram is smooth along its cells.  How smooth, and whether groups of periods share a shape, is
chosen by Stein's unbiased estimate of the risk (1981), as the noise is known.  Post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from synthdp.arrays import BoolArray, FloatArray

ROUGHNESS = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""Grid of smoothing penalties on squared second differences of log-counts, in units of the noise; the one of least
estimated risk is used.  A numerical tolerance.
"""

UNSURE = 3.5
"""A tail is the longest run of cells at an end whose total stays below this many standard deviations of its noise.
Such cells may be empty.  A larger one takes more of a tail for noise, a smaller one leaves noise as a tail of
persons.  Tuned; not measured.
"""

APART = 3.5
"""A cell that differs from the smooth curve by at least this many standard deviations of the noise is a point mass
and is not smoothed.  A larger one smooths smaller heaps away, a smaller one keeps noise as heaps.  Tuned; not
measured.
"""

RISING = 1e3
"""Penalty on upward bends within a tail, where rows are assumed to thin out steadily.  So large that it nearly
forbids them; with a smaller one noise would make bumps.  Tuned; not measured.
"""

LOWEST, HIGHEST = -12.0, 12.0
"""Bounds on the log-counts of cells, in units of the noise.  A numerical tolerance."""

STEPS, LEAST_STEP, CLOSE = 25, 0.05, 0.01
"""Most Newton steps, the shortest step length, and the gain below which the steps end.  Numerical tolerances."""

LEAST_CELLS = 5
"""Histograms with fewer cells are not smoothed.  With fewer, second differences say too little of a shape.  Tuned;
not measured.
"""


def smoothed(noisy: FloatArray, stddev: float, otherwise: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Smooth the noisy histograms of one number, (groups, cells), to the degree that their noise requires.

    Those of few cells are left to ``otherwise``.  In a tail that may be noise alone, the lower of two estimates is
    taken: the best of all, and the best of the smooth ones.

    Parameters
    ----------
    noisy
        (groups, cells) counts; neighbouring cells are neighbours.
    stddev
        Standard deviation of the noise in each cell.
    otherwise
        Another estimator of such histograms; it is taken if its estimated risk is less.

    Returns
    -------
    (groups, cells) counts, at least 0.
    """
    if noisy.shape[1] < LEAST_CELLS or stddev <= 0:
        return otherwise(noisy)
    y = noisy / stddev
    probe = np.where(np.arange(y.size).reshape(y.shape) * 0.6180339887 % 1 < 0.5, 1.0, -1.0)
    plain = otherwise(noisy) / stddev
    moved = otherwise(noisy + 0.1 * stddev * probe) / stddev
    best, risk = plain, _risk(y, plain, float((probe * (moved - plain)).sum()) / 0.1)
    tail, least = plain, math.inf
    for found, freedom in _shapes(y):
        now = _risk(y, found, freedom)
        if now < least:
            tail, least = found, now
        if now < risk:
            best, risk = found, now
    return np.asarray(np.maximum(np.where(_ends(y), np.minimum(tail, best), best), 0) * stddev)


def _risk(y: FloatArray, found: FloatArray, freedom: float) -> float:
    """Return Stein's unbiased estimate of the total squared error of counts ``found``, up to a constant.

    The estimate of least risk is taken.  ``y`` are the noisy counts, (groups, cells) each in units of the noise;
    ``freedom`` is the estimate's degrees of freedom.
    """
    return float(((y - found) ** 2).sum()) + 2 * freedom


def _shapes(y: FloatArray) -> Iterator[tuple[FloatArray, float]]:
    """Yield smooth estimates of noisy histograms ``y``, (groups, cells) in units of the noise, and their freedom.

    Each group of periods is smoothed on its own, or all with a common shape; the degrees of freedom tell the risk.
    """
    yield from _smooth(y, np.zeros((1, y.shape[1])))
    if len(y) == 1:
        return
    together = y.sum(axis=0, keepdims=True) / math.sqrt(len(y))
    shapes = [*_smooth(together, np.zeros((1, y.shape[1])))]
    shape, freedom = min(shapes, key=lambda one: _risk(together, *one))
    shape = np.maximum(shape, math.exp(LOWEST))
    level = np.maximum(y.sum(axis=1), 1.0) / shape.sum()
    yield level[:, None] * shape, freedom + len(y) - 1
    yield from _smooth(y, np.log(level[:, None] * shape))


def _smooth(y: FloatArray, offset: FloatArray) -> Iterator[tuple[FloatArray, float]]:
    """Yield smooth estimates of ``y``, (groups, cells), one for each penalty in `ROUGHNESS`, and their freedom.

    The difference of their logarithms from ``offset`` is smooth, but point masses stay as they are.  All counts are
    in units of the noise; the degrees of freedom tell the risk.
    """
    offset = np.broadcast_to(offset, y.shape)
    ends = _ends(y)
    start = np.clip(np.log(np.maximum(y, 0.5)), LOWEST, HIGHEST)
    for rough in ROUGHNESS:
        weight = np.ones(y.shape)
        for _ in range(2):
            logs, freedom = _fit(y, weight, offset, ends, rough, start)
            found = np.exp(logs)
            atoms = (np.abs(y - found) > APART) & (weight > 0)
            if not atoms.any():
                break
            weight[atoms] = 0
        start = logs
        yield np.where(weight > 0, found, np.maximum(y, 0)), freedom + float((weight == 0).sum())


def _ends(y: FloatArray) -> BoolArray:
    """Return which cells, (groups, cells), lie in a tail whose total may be noise only; see `UNSURE`.

    None in a histogram where nothing stands out of the noise, as it would all be tail.
    """
    found = np.zeros(y.shape, np.bool_)
    root = np.sqrt(np.arange(1, y.shape[1] + 1))
    for side in (slice(None), slice(None, None, -1)):
        sure = np.cumsum(y[:, side], axis=1) / root >= UNSURE
        found[:, side] |= (np.cumsum(sure, axis=1) == 0) & sure.any(axis=1, keepdims=True)
    return found


def _fit(
    y: FloatArray, weight: FloatArray, offset: FloatArray, ends: BoolArray, rough: float, start: FloatArray
) -> tuple[FloatArray, float]:
    """Return the log-counts, (groups, cells), of least penalised squared error, and the fit's degrees of freedom.

    Counts are in units of the noise.  ``weight`` is 0 in cells that are left out, ``rough`` the penalty on bends of the
    log-counts minus ``offset``.  ``ends`` marks the tails, where upward bends cost `RISING`.
    """
    cells = y.shape[1]
    bend = np.diff(np.eye(cells), n=2, axis=0)
    penalty = rough * bend.T @ bend
    inside = ends[:, 1:-1]
    logs = start

    def loss(logs: FloatArray, hard: FloatArray) -> FloatArray:
        change = logs - offset
        error = (weight * (y - np.exp(logs)) ** 2).sum(axis=1)
        return np.asarray(error + ((change @ penalty) * change).sum(axis=1) + (hard * (logs @ bend.T) ** 2).sum(axis=1))

    for step in range(STEPS + 1):
        now = np.exp(logs)
        rising = logs @ bend.T
        hard = np.where(inside & (rising > 0), RISING, 0.0)
        whole = penalty + np.einsum("gr,rc,rd->gcd", hard, bend, bend)
        slope = -weight * now * (y - now) + (logs - offset) @ penalty + (hard * rising) @ bend
        curved = weight * now * np.maximum(2 * now - y, now) + 1e-4
        hessian = whole + curved[:, :, None] * np.eye(cells)
        if step == STEPS:
            break
        move = -np.linalg.solve(hessian, slope[:, :, None])[:, :, 0]
        move *= np.minimum(1.0, 2.0 / np.maximum(np.abs(move).max(axis=1, keepdims=True), 1e-9))
        before, length = loss(logs, hard), np.ones((len(y), 1))
        while True:
            new = np.clip(logs + length * move, LOWEST, HIGHEST)
            gain = before - loss(new, hard)
            worse = (gain < 0) & (length[:, 0] > 0)
            if not worse.any():
                break
            length[worse] = np.where(length[worse] > LEAST_STEP, length[worse] / 2, 0.0)
        logs = new
        if gain.max() < CLOSE:
            break
    kept = np.linalg.solve(hessian, (weight * now**2)[:, :, None] * np.eye(cells))
    return logs, float(np.trace(kept, axis1=1, axis2=2).sum())
