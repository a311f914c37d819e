"""Smooth noisy histograms of ordered columns, as far as their noise makes it pay.  Post-processing of noisy answers."""

from __future__ import annotations

import math

import numpy as np

from synthdp.arrays import FloatArray

THRESHOLDS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
"""Thresholds that are tried, in stddevs."""


def smoothed(counts: FloatArray, stddev: float) -> FloatArray:
    """Return a histogram whose Haar coefficients are drawn towards 0 by a threshold, averaged over all shifts.

    The threshold is the one of least estimated risk (Donoho and Johnstone 1995, SureShrink; Coifman and Donoho 1995 for
    the average over shifts); 0 leaves the counts alone.

    Costs nothing: post-processing.

    Parameters
    ----------
    counts
        (k,) noisy counts of neighbouring cells of equal width.
    stddev
        Of their noise.
    """
    k = len(counts)
    if k < 4 or stddev <= 0:
        return counts
    size = 2 ** math.ceil(math.log2(k))
    ring = np.concatenate([counts, counts[::-1]])[
        np.arange(2 * size) % (2 * k)
    ]  # mirrored, so that no end meets another
    shifted = np.stack([np.roll(ring, -shift) for shift in range(size)])
    details, rest = _analysis(shifted, levels=int(math.log2(size)))
    best, least = 0.0, math.inf
    for threshold in THRESHOLDS:
        bound = threshold * stddev
        risk = sum(
            float(
                (np.minimum(detail**2, bound**2) - 2 * stddev**2 * (np.abs(detail) <= bound)).mean() * detail.shape[1]
            )
            for detail in details
        )
        if risk < least:
            best, least = bound, risk
    shrunk = [np.sign(detail) * np.maximum(np.abs(detail) - best, 0.0) for detail in details]
    back = _synthesis(shrunk, rest)
    return np.asarray(np.mean([np.roll(row, shift)[:k] for shift, row in enumerate(back)], axis=0), np.float64)


def _analysis(rows: FloatArray, *, levels: int) -> tuple[list[FloatArray], FloatArray]:
    """Return the orthonormal Haar coefficients of every row, finest first, and what is left."""
    details = []
    for _ in range(levels):
        even, odd = rows[:, ::2], rows[:, 1::2]
        details.append((even - odd) / math.sqrt(2))
        rows = (even + odd) / math.sqrt(2)
    return details, rows


def _synthesis(details: list[FloatArray], rest: FloatArray) -> FloatArray:
    for detail in reversed(details):
        both = np.empty((len(rest), 2 * rest.shape[1]))
        both[:, ::2] = (rest + detail) / math.sqrt(2)
        both[:, 1::2] = (rest - detail) / math.sqrt(2)
        rest = both
    return rest
