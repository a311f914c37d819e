"""Noisy histograms of numbers, smoothed as much as the noise requires, so that noise leaves no persons in the tails.

Noise that is cut at 0 leaves persons in empty cells far from all others.  They distort means, changes and correlations.
Here the logarithm of a histogram is smooth along its cells.  Stein's unbiased estimate of the risk (1981), which the
known noise allows, chooses how smooth, and whether groups of periods share a shape.  Post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from synthdp.arrays import BoolArray, FloatArray

ROUGHNESS = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""Grid of penalties on squared second differences of log-counts, in squared stddevs of the noise; the one with the least
estimated risk is used.  A numerical tolerance."""

UNSURE = 3.5
"""A tail is the longest run of cells at an end whose total stays below this many standard deviations of its noise:
its cells may all be empty.  A larger value takes more of a tail for noise; a smaller one leaves noise as persons.
Tuned: half and twice of it change pairs in a row of two panels by -2.7 and -.3 % (docs/benchmarks/constants.md).
"""

APART = 3.5
"""A cell that differs from the smooth curve by more than this many stddevs of the noise is a point mass: it is not
smoothed.  A larger value smooths smaller point masses away; a smaller one keeps noise as point masses.  Tuned:
half and twice of it change pairs in a row of two panels by +2.1 and -3.8 % (docs/benchmarks/constants.md).
"""

RISING = 1e3
"""Penalty on upward bends within a tail, in the unit of `ROUGHNESS`: rows are assumed to thin out steadily there.  A
numerical tolerance of a constraint, as such bends are nearly forbidden: half and twice of it change pairs in a row of two
panels by +.7 and -.9 % (docs/benchmarks/constants.md)."""

LOWEST, HIGHEST = -12.0, 12.0
"""Bounds on the logarithms of cells' counts, where counts are in stddevs of the noise.  A numerical tolerance."""

STEPS, LEAST_STEP, CLOSE = 25, 0.05, 0.01
"""Most Newton steps; the shortest step as a fraction of a full one; and the decrease of the penalised squared error, in
squared stddevs of the noise, below which steps end. Numerical tolerances."""

LEAST_CELLS = 5
"""Histograms with fewer cells are not smoothed, since their second differences say too little of a shape.  Tuned: half
and twice of it change no release of two more panels (docs/benchmarks/constants.md)."""


def smoothed(
    noisy: FloatArray,
    stddev: float,
    otherwise: Callable[[FloatArray], FloatArray],
    *,
    shape: FloatArray | None = None,
) -> FloatArray:
    """Smooth the noisy histograms of one number, (groups of periods, cells), as much as their noise requires.

    The estimate with the least estimated risk is taken, among smooth ones and the result of ``otherwise``.  In a tail
    that may be noise alone, each cell gets the lower count of this estimate and the best smooth one.  Histograms of
    fewer than `LEAST_CELLS` cells get the result of ``otherwise``.

    Parameters
    ----------
    noisy
        (groups, cells) noisy counts of cells in the order of the number.
    stddev
        Standard deviation of the noise in each cell.
    otherwise
        Another estimator of such histograms.
    shape
        (1, cells) a histogram that all groups may share, with a positive sum; ``None`` for one group.

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
    for found, freedom in _shapes(y, shape):
        now = _risk(y, found, freedom)
        if now < least:
            tail, least = found, now
        if now < risk:
            best, risk = found, now
    return np.asarray(np.maximum(np.where(_ends(y), np.minimum(tail, best), best), 0) * stddev)


def _risk(y: FloatArray, found: FloatArray, freedom: float) -> float:
    """Return Stein's unbiased estimate of the total squared error of counts ``found``, up to a constant.

    ``y`` are the noisy counts, ``found`` the estimates, (groups, cells) each, in stddevs of the noise.  ``freedom`` is
    the estimate's degrees of freedom: the sum of derivatives of each estimate by its noisy count.
    """
    return float(((y - found) ** 2).sum()) + 2 * freedom


def _shapes(y: FloatArray, shape: FloatArray | None) -> Iterator[tuple[FloatArray, float]]:
    """Yield smooth estimates of noisy histograms ``y``, (groups, cells) in stddevs of the noise, with degrees of freedom.

    Each group of periods is smoothed by itself; then all get the given ``shape``, (1, cells), if there is one; then each
    is smoothed relative to that shape.  The caller computes the risk of each from the degrees of freedom.
    """
    yield from _smooth(y, np.zeros((1, y.shape[1])))
    if shape is not None:
        level = np.maximum(y.sum(axis=1), 1.0)[:, None] * (shape / shape.sum())
        yield level, float(len(y))
        yield from _smooth(y, np.log(np.maximum(level, math.exp(LOWEST))))


def _smooth(y: FloatArray, offset: FloatArray) -> Iterator[tuple[FloatArray, float]]:
    """Yield a smooth estimate of ``y``, (groups, cells), for each penalty in `ROUGHNESS`, with its degrees of freedom.

    The logarithm of an estimate minus ``offset`` is smooth; point masses keep their noisy counts.  All counts are in
    stddevs of the noise.
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

    There is none in a histogram without significant cells, which would be one tail.
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

    Parameters
    ----------
    y
        (groups, cells) noisy counts, in stddevs of the noise.
    weight
        (groups, cells) 0 for cells that are left out, else 1.
    offset
        (groups, cells) log-counts whose difference from the result is smooth.
    ends
        (groups, cells) whether a cell lies in a tail, where upward bends cost `RISING`.
    rough
        Penalty on squared second differences.
    start
        (groups, cells) log-counts to start from.
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
