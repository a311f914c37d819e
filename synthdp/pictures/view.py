"""What a picture of a column shows, and its axes: round ends, bins between them, marks, of numbers and of times."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from math import nan

import numpy as np

from synthdp.figures import in_figures, multiples, round_step, width_of
from synthdp.schema.column import Quantity

LOG_FROM = 60.0
"""A histogram one of whose bins holds more than this, in per cent, has a logarithmic axis: the others would vanish.
A convention."""

FEWEST_FOR_LOG = 6
"""Fewest bars that make a logarithmic axis.  A convention."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One level or bin.

    Parameters
    ----------
    label
        Its name.
    share
        Of rows, in per cent.
    low, high
        A 95 % interval; NaN if it is not known.
    beside
        The share in another table that it is compared with; NaN if there is none.
    """

    label: str
    share: float
    low: float = nan
    high: float = nan
    beside: float = nan


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnView:
    """What is shown of one column.

    Parameters
    ----------
    name, kind, source
        The column, what it holds in words, and where its bounds or levels are known from.
    bars
        What is drawn: the bins of a histogram in their order, or levels.
    ticks
        Marks of a histogram's axis: the place, from 0 to the number of bins, and the text.
    ordered
        Whether it is a histogram.
    apart
        Values that are not drawn: missing ones, special ones, those beyond the range that is shown, rare levels.
    misfits
        Share of values that did not fit the schema in per cent, and its standard error, if it was measured.
    derived
        How the column follows from others, in words; nothing for one that is modelled.
    summary
        In a few words: the median, or the number of levels.
    beyond
        Share of rows in per cent beyond the range that is drawn.
    """

    name: str
    kind: str = ""
    source: str | None = None
    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...] = ()
    ordered: bool
    apart: tuple[Bar, ...] = ()
    misfits: tuple[float, float] | None = None
    derived: str = ""
    summary: str = ""
    beyond: float = 0.0

    @property
    def shares(self) -> list[float]:
        """Share of each bin or level that is drawn, in per cent."""
        return [bar.share for bar in self.bars]

    @property
    def numbers(self) -> tuple[Bar, ...]:
        """All that is known: what is drawn, and what is not."""
        return (*self.bars, *self.apart)

    @property
    def is_logarithmic(self) -> bool:
        """Whether the shares differ too much for a plain axis."""
        return self.ordered and len(self.bars) >= FEWEST_FOR_LOG and max(self.shares) > LOG_FROM

    @property
    def says_misfits(self) -> bool:
        """Whether more values did not fit the schema than noise explains."""
        return self.misfits is not None and self.misfits[0] > max(3 * self.misfits[1], 0.1)


COARSEST, FINEST = 8, 40
"""A range is divided into at most this many bins and two, and at least into about two fifths of that.  A convention."""

SINGLE = 60
"""This many values have a bin each, if bins need not be few.  A convention."""

MARKS = 7
"""Most marks of an axis of numbers.  A convention."""

MOST_MARKED = 290.0
"""Px that the texts of all marks may fill together.  A convention."""

TAILS = (0.005, 0.025, 0.05)
"""Share of rows beyond each end of the range that is shown; the first that spreads the others is taken.  A convention."""

SPREAD = 1 / 4
"""Least part of a range between the first and the last decile; else the others would be one bar.  A convention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotAxis:
    """Even bins.

    Parameters
    ----------
    start, step, count
        The bins are ``start + step * k <= x < start + step * (k + 1)`` for 0 <= k < count.
    single
        Whether each bin holds one value, whose mark stands below its middle.
    """

    start: float
    step: float
    count: int
    single: bool = False

    @property
    def ends(self) -> list[float]:
        """The ends of the bins, increasing."""
        return [float(f"{self.start + self.step * k:.15g}") for k in range(self.count + 1)]

    def place(self, value: float) -> int:
        """Return the number of the bin that holds a value, which may lie beyond the axis."""
        return math.floor((value - self.start) / self.step + 1e-9)

    def marks(self) -> tuple[tuple[float, str], ...]:
        """Return round values on the axis: their places, from 0 to ``count``, and texts."""
        ends = self.ends
        last = ends[-2] if self.single else ends[-1]
        step = round_step(max(self.step, (last - ends[0]) / MARKS))
        while True:
            values = multiples(step, ends[0], last)
            texts = [in_figures(value) for value in values]
            if len(texts) <= 2 or sum(width_of(text) + 8 for text in texts) <= MOST_MARKED:
                break
            step = round_step(1.5 * step)
        shift = 0.5 if self.single else 0.0
        places = ((value - ends[0]) / self.step + shift for value in values)  # rounded, where bins are very narrow
        return tuple((min(max(place, 0.0), self.count), text) for place, text in zip(places, texts, strict=True))


def axis_between(low: float, high: float, *, spacing: float = 0.0, most: int = FINEST) -> PlotAxis:
    """Return bins that hold all values from ``low`` to ``high``.

    Parameters
    ----------
    low, high
        The range, both inclusive.
    spacing
        The distance of neighbouring values; 0 if they may be any numbers.
    most
        Bins, about, if they are not too few or too many.
    """
    finest = SINGLE if spacing and high - low < SINGLE * spacing else FINEST
    bins = finest if most >= FINEST else max(most, COARSEST)
    step = round_step(max((high - low) / bins, spacing, 1e-12 * max(abs(low), abs(high), 1e-300)))
    if spacing:
        step = spacing * math.ceil(step / spacing - 1e-9)
    start = step * math.floor(low / step + 1e-9)
    single = bool(spacing) and step < 1.5 * spacing
    steps = (high - start) / step
    count = math.floor(steps + 1e-9) + 1 if spacing else max(1, math.ceil(steps - 1e-9))
    return PlotAxis(start=start, step=step, count=count, single=single)


def zoomed(lower: float, upper: float, quantiles: Mapping[float, float]) -> tuple[float, float]:
    """Return the range to show of a column: all of it, unless nearly all rows would share a few bins.

    Parameters
    ----------
    lower, upper
        The bounds of the column.
    quantiles
        By their shares: `TAILS` from either end, and the first and last decile.
    """
    deciles = quantiles[0.1], quantiles[0.9]
    ranges = [(lower, upper), *((quantiles[tail], quantiles[1 - tail]) for tail in TAILS)]
    ranges = [(max(a, lower), min(b, upper)) for a, b in ranges if math.isfinite(a) and math.isfinite(b)]
    for low, high in ranges:
        if low < high and deciles[1] - deciles[0] >= SPREAD * (high - low):
            return low, high
    return next(((low, high) for low, high in ranges[1:] if low < high), (lower, upper))


TIME_MARKS = 4
"""Most marks of an axis of times.  A convention."""

_STEPS = (
    ("s", (1, 5, 15, 30)), ("m", (1, 5, 15, 30)), ("h", (1, 3, 6, 12)), ("D", (1, 2, 7, 14)), ("M", (1, 2, 3, 6)),
    ("Y", (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)  # fmt: skip
"""Round steps of a time axis, by unit.  A convention."""

_LENGTHS = (("d", 86_400e6), ("h", 3_600e6), ("min", 60e6), ("s", 1e6), ("µs", 1.0))
"""Units of lengths of time, in microseconds.  A convention."""


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
    """Return the marks of an axis of moments: microseconds and text."""
    for unit, steps in _STEPS:
        ends = [int(np.datetime64(end, "us").astype(f"M8[{unit}]").astype(np.int64)) for end in (low, high)]
        for step in steps:
            counts = range(-(-ends[0] // step) * step, ends[1] + 1, step)
            if len(counts) <= TIME_MARKS + 1:
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
    """Return the marks of an axis of lengths of time: microseconds and text."""
    name, size = next((one for one in _LENGTHS if (high - low) / one[1] >= 2), _LENGTHS[-1])
    step = round_step(max((high - low) / size, 1.0) / TIME_MARKS)
    found = {f"{in_figures(value)} {name}": round(value * size) for value in multiples(step, low / size, high / size)}
    return sorted((time, text) for text, time in found.items() if low <= time <= high)
