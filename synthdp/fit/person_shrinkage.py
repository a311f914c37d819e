"""Noisy tables of persons, smoothed and shrunk towards expected tables, with rare cells set to 0.  Post-processing.

Noise that is cut at 0 leaves persons in empty cells far from all others.  They distort means, changes and correlations.
So the logarithm of a histogram of numbers is smooth along its cells.  Stein's unbiased estimate of the risk (1981),
which the known noise allows, chooses how smooth, and whether groups of periods share a shape.

A table of nine by nine groups has 64 numbers beyond its margins.  Three parameters describe most of the relation of two
numbers: association of large with large, of near with near, and of equal with equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from synthdp.arrays import BoolArray, FloatArray

ROUGHNESS = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""Grid of penalties on squared second differences of log-counts, in squared stddevs of the noise; the one with the least
estimated risk is used.  A numerical tolerance."""

APART = 3.0
"""Number of standard deviations of the noise beyond which persons are taken to be there.  A cell that differs from the
smooth curve by more is a point mass: it is not smoothed.  The longest run of cells at an end whose total is less is a
tail: its cells may all be empty.  A larger value smooths smaller point masses away and takes more of a tail for noise; a
smaller one keeps noise as point masses and persons.  A tolerance: noise alone exceeds it in .3 % of cells.
"""

RISING = 1e3
"""Penalty on upward bends within a tail, in the unit of `ROUGHNESS`: rows are assumed to thin out steadily there.  A
numerical tolerance of a constraint, as such bends are nearly forbidden: half and twice of it change the error of pairs
of a row's columns of two panels by +.7 and -.9 % (docs/benchmarks/constants.md)."""

LOWEST, HIGHEST = -12.0, 12.0
"""Bounds on the logarithms of cells' counts, where counts are in stddevs of the noise.  A numerical tolerance: counts are
then from 6e-6 to 160 000 stddevs."""

STEPS, LEAST_STEP, CLOSE = 25, 0.05, 0.01
"""Most Newton steps; the shortest step as a fraction of a full one; and the decrease of the penalised squared error, in
squared stddevs of the noise, below which steps end. Numerical tolerances."""

SMALL = 5
"""Tables with fewer rows or columns than this are shrunk by one factor, others by singular values.  The shrinker of
singular values is optimal only in the limit of large tables.  Tuned: half and twice of it change the error of pairs of a
row's columns of two panels by +1.8 and -1.2 % (docs/benchmarks/constants.md)."""


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
    fewer than three cells, which have no second difference, get the result of ``otherwise``.

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
    if noisy.shape[1] < 3 or stddev <= 0:
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

    The logarithm of an estimate minus ``offset`` is smooth.  Point masses, which differ from it by more than `APART`,
    keep their noisy counts.  All counts are in stddevs of the noise.
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
    """Return which cells, (groups, cells), lie in a tail whose total may be noise only.

    A tail is the longest run of cells at an end whose total, in stddevs of its noise, is below `APART`.  There is
    none in a histogram without significant cells, which would be one tail.
    """
    found = np.zeros(y.shape, np.bool_)
    root = np.sqrt(np.arange(1, y.shape[1] + 1))
    for side in (slice(None), slice(None, None, -1)):
        sure = np.cumsum(y[:, side], axis=1) / root >= APART
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


def independent_share(noisy: FloatArray, stddev: float, independent: FloatArray) -> float:
    """Return the share of a parent's rows whose periods are independent draws in order, from 0 to 1.

    Among independent rows, first rows are frequent in early periods and rare in late ones.  If all rows follow soon after
    the first, first rows are equally frequent in all periods.  The share is a slope, by least squares: of the noisy
    numbers of first rows on the expected numbers, both beyond an equal part of all rows.  The share is shrunk towards 1 by
    how far noise explains the difference (the positive-part rule of James and Stein).

    Parameters
    ----------
    noisy
        (groups + 1, groups) noisy counts of rows by the previous row's period, or none in the last entry, and their own.
    stddev
        Standard deviation of the noise in each cell.
    independent
        Expected counts of independent rows, up to a factor.
    """
    part = float(np.clip(noisy[-1].sum() / max(float(noisy.sum()), 1e-9), 0.0, 1.0))
    first = noisy[-1] - part * noisy.sum(axis=0)
    wanted = independent[-1] - independent[-1].sum() / max(float(independent.sum()), 1e-9) * independent.sum(axis=0)
    wanted = wanted * max(float(noisy.sum()), 0.0) / max(float(independent.sum()), 1e-9)
    size = max(float((wanted**2).sum()), 1e-9)
    variance = stddev**2 * ((1 - part) ** 2 + (len(noisy) - 1) * part**2) / size
    short = float(np.clip(1 - float(first @ wanted) / size, 0.0, 1.0))
    return 1 - short * max(0.0, 1 - variance / max(short**2, 1e-9))


def towards(
    noisy: FloatArray, expected: FloatArray, stddev: float, *, same: bool = False, ordered: tuple[int, int] = (0, 0)
) -> FloatArray:
    """Return a noisy table, (m, n), shrunk towards an expected one.

    The margins of the result lie between the expected and the noisy ones: at the expected ones if noise explains the
    difference (the rule of James and Stein).  Between two numbers, an association of few parameters is fitted first;
    Stein's estimate of the risk chooses how many.  The noisy table is then shrunk towards the fit.

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

ROUNDS, STRONGEST = 30, 12.0
"""ROUNDS is the largest number of Gauss-Newton steps when an association is fitted: a safety limit, as slopes of six
categories take some 13.  STRONGEST bounds its parameters, which are added to logarithms of counts: exp(12) is about 160 000,
so no count overflows.  A numerical tolerance."""

LEAST_GROUPS = 3
"""An association is fitted only to numbers with at least this many groups.  Derived: two groups are at -1 and 1, where
the closeness -|a - b| is a b - 1.  So the first two patterns of an association would be the same."""

ONE_STEP = 0.05
"""Step of the forward differences by which an association's slope in each parameter is computed.  A parameter multiplies
a pattern in the logarithms of counts.  Its values are at most 2 in size, so a step changes counts by about 10 % at most.
A numerical tolerance: a smaller step is more exact, but rounds more."""


def raked(table: FloatArray, margins: list[FloatArray]) -> FloatArray:
    """Return tables, (..., m, n), whose rows and columns are rescaled in turn to given margins, by `SWEEPS` iterations.

    ``margins`` are the sums of their rows, (m,), and of their columns, (n,).
    """
    for _ in range(SWEEPS):
        table = table * (margins[0] / np.maximum(table.sum(axis=-1), 1e-12))[..., None]
        table *= (margins[1] / np.maximum(table.sum(axis=-2), 1e-12))[..., None, :]
    return np.asarray(table, np.float64)


def features(shape: tuple[int, ...], ordered: tuple[int, int], *, same: bool) -> list[FloatArray]:
    """Return the patterns that a log-table may have beyond its margins, (patterns, m, n) each, likeliest first.

    Between two numbers the patterns are linear-by-linear association, closeness, equality (if ``same``), and special
    values with each other.  Between a number and categories each category has a slope, and all slopes are one entry (row
    effects, Goodman 1979).  So Poisson numbers of rows keep their mean in each category, though noise hides the largest
    numbers.  ``ordered`` is the number of groups of each axis that are numbers.  The list is empty if a number has fewer
    than `LEAST_GROUPS`.
    """
    first, second = (_scores(n, k) for n, k in zip(shape, ordered, strict=True))
    if min(ordered) == 0 and max(ordered) >= LEAST_GROUPS and min(shape) > 1:
        others = np.eye(shape[0] if ordered[0] == 0 else shape[1])[1:]
        return [others[:, :, None] * second if ordered[0] == 0 else first[:, None] * others[:, None]]
    if min(ordered) < LEAST_GROUPS:
        return []
    found = [np.outer(first, second)]
    inside = np.outer(np.arange(shape[0]) < ordered[0], np.arange(shape[1]) < ordered[1])
    found.append(-np.abs(first[:, None] - second) * inside)
    if same:
        found.append(np.eye(shape[0], shape[1], dtype=np.float64))
    beyond = np.outer(np.arange(shape[0]) >= ordered[0], np.arange(shape[1]) >= ordered[1])
    if beyond.any():
        found.append(beyond.astype(np.float64))
    return [np.asarray(one[None], np.float64) for one in found]


def _scores(size: int, ordered: int) -> FloatArray:
    """Return the score of each group, (size,), evenly spaced from -1 to 1 for ordered groups, which come first, else 0.

    Associations of two numbers are products of such scores.
    """
    return np.asarray(np.where(np.arange(size) < ordered, 2 * np.arange(size) / max(ordered - 1, 1) - 1, 0.0))


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
        Terms of the parameters in the logarithms, (parameters, m, n) each.  The arrays are tried in this order, and all
        terms of an array together.
    """
    best, risk, theta = now, float(((noisy - now) ** 2).sum()), np.zeros(0)
    every = np.concatenate(shapes) if shapes else np.zeros((0, *now.shape))

    def table(theta: FloatArray) -> FloatArray:
        logs = np.tensordot(theta, every[: theta.shape[-1]], axes=1)
        return raked((now + 1e-3) * np.exp(logs), margins)

    for used in np.cumsum([len(one) for one in shapes]).tolist():
        theta = np.append(theta, np.zeros(used - len(theta)))
        found = table(theta)
        for _ in range(ROUNDS):
            slopes = (table(theta + ONE_STEP * np.eye(used)) - found).reshape(used, -1).T / ONE_STEP
            move = np.linalg.lstsq(
                slopes.T @ slopes + 1e-6 * np.trace(slopes.T @ slopes) * np.eye(used),
                slopes.T @ (noisy - found).ravel(),
                rcond=None,
            )[0]
            before, length = float(((noisy - found) ** 2).sum()), 1.0
            while True:  # a full step may go too far where counts are small
                new = np.clip(theta + length * move, -STRONGEST, STRONGEST)
                then = table(new)
                gain = before - float(((noisy - then) ** 2).sum())
                if gain >= 0 or length < LEAST_STEP:
                    break
                length /= 2
            if gain < 1e-3 * stddev**2:
                break
            theta, found = new, then
        now_risk = float(((noisy - found) ** 2).sum()) + 2 * used * stddev**2
        if now_risk < risk:
            best, risk = found, now_risk
    return best
