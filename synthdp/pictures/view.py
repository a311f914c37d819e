"""The contents of a column's picture, and its axis: round ends, bins and marks, for numbers and times."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from math import nan

import numpy as np

from synthdp.figures import in_figures, multiples, round_step, width_of
from synthdp.schema.column import Quantity

LOG_FROM = 60.0
"""Percentage of rows in one bin of a histogram from which its axis is logarithmic.  A plain axis would hide the other
bins.  A convention."""

FEWEST_FOR_LOG = 6
"""Fewest bins of a histogram with a logarithmic axis.  A few bars can be read on a plain axis too.  A convention."""


@dataclass(frozen=True, slots=True)
class Bar:
    """The percentage of rows with one level or in one bin.

    Parameters
    ----------
    label
        Name of the level or bin.
    share
        Percentage of rows.
    low, high
        A 95 % interval of the percentage; NaN if it is not known.
    beside
        Percentage in a second table, for comparison; NaN if there is none.
    """

    label: str
    share: float
    low: float = nan
    high: float = nan
    beside: float = nan


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnView:
    """The contents of one column's picture.

    Parameters
    ----------
    name, kind, source
        Name and description of the column, and the source of its bounds or levels.
    bars
        Drawn bars: the bins of a histogram in their order, or levels.
    ticks
        Marks of a histogram's axis: the place, from 0 to the number of bins, and the text.
    ordered
        Whether the picture is a histogram; else it is a bar chart of levels.
    apart
        Bars that are not drawn: missing and special values, values beyond the shown range, rare levels.
    misfits
        Percentage of values out of the declared domain and its standard error, or None if it was not measured.
    derived
        Text on how the column follows from others; "" for a modelled column.
    summary
        The median, or the number of levels, as a short text.
    beyond
        Percentage of rows beyond the drawn range.
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
        """Percentage of each drawn bin or level, in order."""
        return [bar.share for bar in self.bars]

    @property
    def numbers(self) -> tuple[Bar, ...]:
        """All bars of the view: drawn bars, then values that are not drawn."""
        return (*self.bars, *self.apart)

    @property
    def is_logarithmic(self) -> bool:
        """Whether the percentages of a histogram differ too much for a plain axis."""
        return self.ordered and len(self.bars) >= FEWEST_FOR_LOG and max(self.shares) > LOG_FROM

    @property
    def says_misfits(self) -> bool:
        """Whether significantly many values are out of the declared domain: over 3 standard errors and 0.1 %.

        Noise alone exceeds 3 standard errors in one of some 700 columns, and 0.1 % is the last digit of a shown percentage.
        """
        return self.misfits is not None and self.misfits[0] > max(3 * self.misfits[1], 0.1)


COARSEST, FINEST = 8, 40
"""Bounds on the requested number of bins of an axis.  Round steps can give two bins more, or only two fifths.  Fewer
bins hide the shape of a distribution; more show noise.  A convention."""

SINGLE = 60
"""Number of values up to which each value has its own bin, if the number of bins is not reduced.  More bins would be
too thin to see.  A convention."""

MARKS = 7
"""Marks of an axis of numbers, about.  More would crowd the axis.  A convention."""

MOST_MARKED = 290.0
"""Total width of the texts of all marks on an axis, at most, in pixels.  More would let the texts touch.  A
convention."""

TAILS = (0.005, 0.025, 0.05)
"""Fractions of rows that a picture may leave out at each end, in the order in which they are tried.  The first that
leaves the deciles far enough apart (`SPREAD`) is taken, so that few rows are left out.  A convention."""

SPREAD = 1 / 4
"""Smallest distance of the first and the last decile, as a fraction of the range that a picture shows.  Where it is
smaller, most rows would share one bar, and the picture leaves out rows at the ends (`TAILS`).  A convention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotAxis:
    """An axis of bins of equal width.

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
        """Ends of the bins, (count + 1), increasing; floats without rounding errors in their text."""
        return [float(f"{self.start + self.step * k:.15g}") for k in range(self.count + 1)]

    def place(self, value: float) -> int:
        """Return the number of a value's bin, which lies outside of 0 to ``count`` - 1 for values beyond the axis.

        A value that lies below an end by a rounding error (1e-9 of a bin) belongs to the bin above.
        """
        return math.floor((value - self.start) / self.step + 1e-9)

    def marks(self) -> tuple[tuple[float, str], ...]:
        """Return (place, text) of round values on the axis; places are counted in bins, from 0 to ``count``."""
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
    """Return an axis of bins with round ends that hold all values from ``low`` to ``high``.

    Parameters
    ----------
    low, high
        Smallest and largest value.
    spacing
        Distance of adjacent values; 0 for real numbers.
    most
        Requested number of bins; it is moved to `COARSEST` or `FINEST` if it is beyond.
    """
    finest = SINGLE if spacing and high - low < SINGLE * spacing else FINEST
    bins = finest if most >= FINEST else max(most, COARSEST)
    # at least 1e-12 of the values, so that floats tell the ends of bins apart; 1e-9 allows for rounding errors below
    step = round_step(max((high - low) / bins, spacing, 1e-12 * max(abs(low), abs(high), 1e-300)))
    if spacing:
        step = spacing * math.ceil(step / spacing - 1e-9)
    start = step * math.floor(low / step + 1e-9)
    single = bool(spacing) and step < 1.5 * spacing  # a step is a whole multiple of the spacing: here it is the spacing
    steps = (high - start) / step
    count = math.floor(steps + 1e-9) + 1 if spacing else max(1, math.ceil(steps - 1e-9))
    return PlotAxis(start=start, step=step, count=count, single=single)


def zoomed(lower: float, upper: float, quantiles: Mapping[float, float]) -> tuple[float, float]:
    """Return the range of a column that its picture shows: all of it, unless nearly all rows would share a few bins.

    Parameters
    ----------
    lower, upper
        Bounds of the column.
    quantiles
        Quantiles by level: `TAILS` from either end, and the first and last decile.
    """
    deciles = quantiles[0.1], quantiles[0.9]
    ranges = [(lower, upper), *((quantiles[tail], quantiles[1 - tail]) for tail in TAILS)]
    ranges = [(max(a, lower), min(b, upper)) for a, b in ranges if math.isfinite(a) and math.isfinite(b)]
    for low, high in ranges:
        if low < high and deciles[1] - deciles[0] >= SPREAD * (high - low):
            return low, high
    return next(((low, high) for low, high in ranges[1:] if low < high), (lower, upper))


TIME_MARKS = 4
"""Marks of an axis of times, about.  Fewer than `MARKS`, because texts of times are longer.  A convention."""

ROUND_TIMES = (
    ("s", (1, 5, 15, 30)), ("m", (1, 5, 15, 30)), ("h", (1, 3, 6, 12)), ("D", (1, 2, 7, 14)), ("M", (1, 2, 3, 6)),
    ("Y", (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)  # fmt: skip
"""Round steps of an axis of moments, by numpy's unit, the finest unit first.  A convention."""

_LENGTHS = (("d", 86_400e6), ("h", 3_600e6), ("min", 60e6), ("s", 1e6), ("µs", 1.0))
"""Units of durations with their microseconds.  A convention."""


def marks_between(low: int, high: int, quantity: Quantity) -> list[tuple[float, str]]:
    """Return (place, text) of a few round times from ``low`` to ``high``; places are fractions of the range, 0 to 1.

    Parameters
    ----------
    low, high
        Microseconds: since 1970, since midnight, or a length.
    quantity
        "moment" for microseconds since 1970, "clock" since midnight, "length" for a duration.
    """
    span = max(high - low, 1)
    found = _lengths(low, high) if quantity == "length" else _moments(low, high, clock=quantity == "clock")
    while sum(width_of(text) + 8 for _, text in found) > MOST_MARKED and len(found) > 1:
        found = found[::2]
    return [((time - low) / span, text) for time, text in found]


def _moments(low: int, high: int, *, clock: bool) -> list[tuple[int, str]]:
    """Return (microseconds, text) of the marks of an axis of moments or of times of day, all within the range.

    The finest round steps that give few marks are taken.
    """
    for unit, steps in ROUND_TIMES:
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
    """Return the text of an axis mark from numpy's text of a time: a day, or month, day, hour and minute.

    Times of day (``clock``) have no day.  The year is left out of marks within a day, which stand close together.
    """
    day, _, moment = time.partition("T")
    if not moment:
        return "0:00" if clock else day
    moment = f"{moment}:00" if ":" not in moment else moment
    return moment if clock else f"{day[5:]} {moment}"


def _lengths(low: int, high: int) -> list[tuple[int, str]]:
    """Return (microseconds, text) of the marks of an axis of durations, all within the range.

    The unit of the marks is the longest that fits twice into the range.
    """
    name, size = next((one for one in _LENGTHS if (high - low) / one[1] >= 2), _LENGTHS[-1])
    step = round_step(max((high - low) / size, 1.0) / TIME_MARKS)
    found = {f"{in_figures(value)} {name}": round(value * size) for value in multiples(step, low / size, high / size)}
    return sorted((time, text) for text, time in found.items() if low <= time <= high)
