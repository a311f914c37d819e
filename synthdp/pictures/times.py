"""Marks of an axis of times: beginnings of years, months, days and so on, and lengths in whole units.  Microseconds in."""

from __future__ import annotations

import numpy as np

from synthdp.figures import in_figures, multiples, round_step, width_of
from synthdp.pictures.axes import MOST_MARKED
from synthdp.schema.column import Quantity

MARKS = 4
_STEPS = (
    ("s", (1, 5, 15, 30)), ("m", (1, 5, 15, 30)), ("h", (1, 3, 6, 12)), ("D", (1, 2, 7, 14)), ("M", (1, 2, 3, 6)),
    ("Y", (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)  # fmt: skip
_LENGTHS = (("d", 86_400e6), ("h", 3_600e6), ("min", 60e6), ("s", 1e6), ("µs", 1.0))


def marks_between(low: int, high: int, quantity: Quantity) -> list[tuple[float, str]]:
    """Return a few round times from ``low`` to ``high``: their places, from 0 to 1, and texts.

    Parameters
    ----------
    low, high
        Microseconds: since 1970, since midnight, or a length.
    quantity
        Which of these, as `Column.quantity`.
    """
    span = max(high - low, 1)
    found = _lengths(low, high) if quantity == "length" else _moments(low, high, clock=quantity == "clock")
    while sum(width_of(text) + 8 for _, text in found) > MOST_MARKED and len(found) > 1:
        found = found[::2]
    return [((time - low) / span, text) for time, text in found]


def _moments(low: int, high: int, *, clock: bool) -> list[tuple[int, str]]:
    for unit, steps in _STEPS:
        ends = [int(np.datetime64(end, "us").astype(f"M8[{unit}]").astype(np.int64)) for end in (low, high)]
        for step in steps:
            counts = range(-(-ends[0] // step) * step, ends[1] + 1, step)
            if len(counts) <= MARKS + 1:
                times = np.array(counts, np.int64).astype(f"M8[{unit}]")
                exact = times.astype("M8[us]").astype(np.int64).tolist()
                texts = [_text(str(time), clock=clock) for time in times]
                return [(time, text) for time, text in zip(exact, texts, strict=True) if low <= time <= high]
    return []


def _text(time: str, *, clock: bool) -> str:
    """Return what numpy writes, without what is the same for all marks."""
    day, _, moment = time.partition("T")
    if not moment:
        return "0:00" if clock else day
    moment = f"{moment}:00" if ":" not in moment else moment
    return moment if clock else f"{day[5:]} {moment}"


def _lengths(low: int, high: int) -> list[tuple[int, str]]:
    name, size = next((one for one in _LENGTHS if (high - low) / one[1] >= 2), _LENGTHS[-1])
    step = round_step(max((high - low) / size, 1.0) / MARKS)
    found = {f"{in_figures(value)} {name}": round(value * size) for value in multiples(step, low / size, high / size)}
    return sorted((time, text) for text, time in found.items() if low <= time <= high)
