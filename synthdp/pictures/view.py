"""What a picture of one column shows: shares of rows with intervals, in the form that charts draw.  Data only."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

LOG_FROM = 60.0
"""A histogram one of whose bins holds more than this, in per cent, has a logarithmic axis: the others would vanish."""

FEWEST_FOR_LOG = 6


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
