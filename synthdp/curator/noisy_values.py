"""Levels and sentinel values, such as 99999 for "more" or -1 for "no answer", that noisy counts of values show.

Levels are counted as texts.  Numbers far from all others are counted in bins of discovery's first histogram of a column,
so that they do not widen the column's range.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, FloatArray
from synthdp.curator.noisy_ranges import (
    EXPONENTS,
    POWER_BINS,
    NoisyCounts,
    clear_ends,
    coarse_range,
    power_bins,
    stretched,
)
from synthdp.domain.encoder import Numbers, RawColumn, labels_of_numbers
from synthdp.schema.columns import Level

NINES = tuple(10.0**digits - 1 for digits in range(1, 10))
"""9, 99, 999 and so on: sentinel values that surveys use for "no answer".  Derived: 10^digits - 1."""

CODES = (-1.0, *(-nines for nines in NINES[:6]), *NINES[1:])
"""Customary sentinel values, which stand for "no answer" and the like.  Each gets a histogram bin of its own, so that it
does not widen the range of the true numbers.  A convention of surveys and of other programs."""

MAGNITUDE_BINS = POWER_BINS + len(CODES)
"""Number of bins of the first histogram of a numeric column.  Derived: one for each power of two, one for each of `CODES`.
"""

ZERO = 2 * EXPONENTS
"""The index of the bin of zero among `POWER_BINS`.  Derived: the bins of negative powers come before it."""

FAR = 16.0
"""A negative sentinel such as -1 is far from the other numbers if their range is at least this many times its size.  A
negative sentinel is also far if its distance from the other numbers is at least twice their range, as -9 from 1 to 3.
Zero is far from numbers of one sign that differ by a factor of at most four and are at least this large.  A smaller
value declares more values special, also true ones.  A convention, as `CODES` is: half and twice of it change the
three-way error of three undeclared tables with missing values by 0 % (docs/benchmarks/constants.md)."""


def magnitude_bins(values: FloatArray) -> FloatArray:
    """Return the histogram bin of each number, (n,): a customary sentinel's own bin, else the bin of its power of two.

    Sentinels such as 9999 then do not widen the range of the true numbers.
    """
    bins = power_bins(values)
    for i, code in enumerate(CODES):
        bins[values == code] = POWER_BINS + i
    return bins


def without_heaps(counts: NoisyCounts) -> tuple[NoisyCounts, tuple[float, ...]]:
    """Return the noisy counts of powers of two without sentinel values, and the sentinel values that were found.

    A value is a sentinel if its count is significant and it lies far from the other numbers; zero may be one.  A
    significant value that is not far is counted in its power of two, and so are all if no other number is significant.
    Values with an insignificant count are dropped.

    Parameters
    ----------
    counts
        Noisy counts of the bins of `magnitude_bins`.
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
    """Return the numbers, (others,), that are not among the sentinel values ``heaps``, which would widen a range."""
    return values[~np.isin(values, heaps)] if len(heaps) else values


def _are_far(seen: Sequence[float], counts: NoisyCounts) -> list[float]:
    """Return which of the values ``seen`` lie far from the range of the other numbers, so that they are special values.

    ``counts`` holds noisy counts of the other numbers by powers of two.  If none is significant, no value is far.
    """
    found = coarse_range(counts)
    if found is None:
        return []
    lower, upper = stretched(counts, *found)
    return [code for code in seen if _is_far(code, lower, upper)]


def _zero_is_far(counts: NoisyCounts) -> bool:
    """Return whether zero lies far from all other numbers, so that it must not widen their range; see `FAR`.

    ``counts`` holds noisy counts of the other numbers by powers of two.  If none is significant, zero is not far.
    """
    lower, upper = clear_ends(counts) or (0.0, 0.0)
    near, far = sorted((abs(lower), abs(upper)))
    return lower * upper > 0 and near >= FAR and far <= 4 * near


def _is_far(code: float, lower: float, upper: float) -> bool:
    """Return whether a sentinel value lies far from the range [lower, upper] of the other numbers.

    Positive sentinels (99, 999 ...) are far if they are outside at all; negative ones by `FAR`.
    """
    if lower <= code <= upper:
        return False
    distance, width = max(lower - code, code - upper), upper - lower
    return code > 0 or width >= FAR * abs(code) or distance >= 2 * width


def _like(counts: NoisyCounts, rows: FloatArray) -> NoisyCounts:
    """Return counts with new ``rows``, (k,), and the noise of ``counts``, for a histogram without some of its bins."""
    return NoisyCounts(rows=rows, stddev=counts.stddev, law=counts.law)


OTHERS = ("other", "other values", "(other)", "(other values)")
"""Names for the category of all other values, in order of preference: the first that is no label of the data is used.
A convention."""


def different_levels(levels: Iterable[Level]) -> tuple[Level, ...]:
    """Return the labels, sorted, without duplicates: of labels that are equal or have the same text, the first is kept.

    Callers pass the most frequent first.  1 and "1" have the same text, 1 and True are equal; a schema can hold only
    one.
    """
    texts: set[str] = set()
    different: dict[Level, None] = {}
    for level in levels:
        if str(level) not in texts and level not in different:
            texts.add(str(level))
            different[level] = None
    return tuple(sorted(different, key=lambda level: (type(level).__name__, level)))


def label_for_others(wanted: str, levels: tuple[Level, ...]) -> str:
    """Return a name for the category of all other values that is no label itself: ``wanted`` if it is free.

    Else it is the first free name of `OTHERS`, or ``wanted`` with a number.
    """
    texts = {str(level) for level in levels}
    return next(label for label in (wanted, *OTHERS, *(f"{wanted} {i}" for i in range(2, 2**10))) if label not in texts)


def level_counts(raw: RawColumn) -> dict[str, int]:
    """Return how often each label occurs, keyed by its JSON text, so that labels of all types can be counted together.

    Values that cannot be labels, such as infinities and numbers beyond `LARGEST_WHOLE`, are left out.  A whole float is
    keyed as an integer, because a missing value elsewhere may have made the column float.
    """
    if isinstance(raw, Numbers):
        raw = labels_of_numbers(raw)
    counts = np.bincount(raw.codes[raw.codes >= 0], minlength=len(raw.levels))
    keyed: dict[str, int] = {}
    for level, count in zip(raw.levels, counts, strict=True):
        plain = level.item() if isinstance(level, np.generic) else level
        if not count or not isinstance(plain, (str, bool, int, float)):
            continue
        if isinstance(plain, (int, float)) and not -LARGEST_WHOLE <= plain <= LARGEST_WHOLE:
            continue
        if isinstance(plain, float):
            plain = int(plain) if plain.is_integer() else plain
        key = json.dumps(str(plain) if isinstance(plain, str) else plain, ensure_ascii=False)
        keyed[key] = keyed.get(key, 0) + int(count)
    return keyed
