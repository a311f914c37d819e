"""Levels as texts that can be counted, and the levels that noisy counts of such texts leave."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np

from synthdp.arrays import LARGEST_WHOLE
from synthdp.domain.encoder import Numbers, RawColumn, labels_of_numbers
from synthdp.schema.columns import Level

OTHERS = ("other", "other values", "(other)", "(other values)")
"""Names for the category of all other values, in order of preference: the first that is no label of the data is used.
"""


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
