"""Heaps far from all other numbers, such as 99999 for "more" or -1 for "no answer": bins of the look at powers of two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.curator.noisy_ranges import (
    EXPONENTS,
    POWER_BINS,
    NoisyCounts,
    clear_ends,
    coarse_range,
    power_bins,
    stretched,
)

NINES = tuple(10.0**digits - 1 for digits in range(1, 10))
"""9, 99, 999 and so on, which stand for "no answer" by custom.  Derived: 10^digits - 1."""

CODES = (-1.0, *(-nines for nines in NINES[:6]), *NINES[1:])
"""Numbers that stand for something else, by custom: each has a bin of its own, in which no other number is counted.
Tuned; not measured."""

MAGNITUDE_BINS = POWER_BINS + len(CODES)
"""Bins of the first look: powers of two, then codes."""

ZERO = 2 * EXPONENTS
"""The bin of zero among `POWER_BINS`.  Derived: the bins of negative powers come before it."""

FAR_BELOW = 16.0
"""A negative code is far from other numbers if they span this many times its size, or at most half of what lies between:
-1 beside 0 to 64, -9 beside 1 to 3.  Tuned; not measured."""

FAR_FROM_ZERO = 16.0
"""Zero is far from numbers that begin or end at least so far from it, and at most four times as far.
Tuned; not measured."""


def magnitude_bins(values: FloatArray) -> FloatArray:
    """Return the bin of each number: its code's bin, or the bin of its power of two."""
    bins = power_bins(values)
    for i, code in enumerate(CODES):
        bins[values == code] = POWER_BINS + i
    return bins


def without_heaps(counts: NoisyCounts) -> tuple[NoisyCounts, tuple[float, ...]]:
    """Return the counts of powers of two, and the heaps among zero and the codes that are far from the other numbers.

    A code that is clear, but not far, is counted in its power; so are all if nothing else is clear.  A code that noise may
    explain is counted nowhere.

    Parameters
    ----------
    counts
        Of `magnitude_bins`.
    """
    rows, codes = counts.rows[:POWER_BINS].copy(), counts.rows[POWER_BINS:]
    clear = counts.clear()
    seen = [code for code, found in zip(CODES, clear[POWER_BINS:], strict=True) if found]
    zero = rows[ZERO] * bool(clear[ZERO])
    rows[ZERO] -= zero
    apart = bool(zero) and _zero_is_far(_like(counts, rows))
    rows[ZERO] += 0.0 if apart else zero
    heaps = tuple(sorted([*_are_far(seen, _like(counts, rows)), *[0.0] * apart]))
    for code in set(seen) - set(heaps):
        rows[int(power_bins(np.array(code)))] += codes[CODES.index(code)]
    return _like(counts, rows), heaps


def except_heaps(values: FloatArray, heaps: Sequence[float]) -> FloatArray:
    """Return the numbers that are no heaps."""
    return values[~np.isin(values, heaps)] if len(heaps) else values


def _are_far(seen: Sequence[float], counts: NoisyCounts) -> list[float]:
    """Return which numbers are far from the range of others, by the others' powers of two; none if there are no others."""
    found = coarse_range(counts)
    if found is None:
        return []
    lower, upper = stretched(counts, *found)
    return [code for code in seen if _is_far(code, lower, upper)]


def _zero_is_far(counts: NoisyCounts) -> bool:
    """Return whether zero is far from the numbers that are not zero."""
    lower, upper = clear_ends(counts) or (0.0, 0.0)
    near, far = sorted((abs(lower), abs(upper)))
    return lower * upper > 0 and near >= FAR_FROM_ZERO and far <= 4 * near


def _is_far(code: float, lower: float, upper: float) -> bool:
    """Return whether a number is far from a range of others."""
    if lower <= code <= upper:
        return False
    distance, width = max(lower - code, code - upper), upper - lower
    return code > 0 or width >= FAR_BELOW * abs(code) or distance >= 2 * width


def _like(counts: NoisyCounts, rows: FloatArray) -> NoisyCounts:
    """Return noisy counts with other rows and the same noise."""
    return NoisyCounts(rows=rows, stddev=counts.stddev, law=counts.law)
