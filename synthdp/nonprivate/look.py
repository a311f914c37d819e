"""A NON-PRIVATE look at one column, for the person who may see its rows and declares its schema from public knowledge.

Nothing here has noise.  Only the page's child process may import it; the page shows the result and does not store it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthdp.errors import DataError
from synthdp.figures import in_figures, round_step
from synthdp.nonprivate.draft_reading import Seen, csv_of, read_table
from synthdp.pictures.view import ROUND_TIMES
from synthdp.schema.columns import RESOLUTIONS, Column, Datetime, Duration
from synthdp.schema.csv_format import CsvFormat
from synthdp.tables.source import Source, TextSource
from synthdp.tables.sources.csv import CsvSource

FREQUENT_SHARE, FREQUENT_ROWS = 0.001, 20
"""Fraction of the rows and number of rows that a shown value must have: a rarer value could point at a person.  Safety
limits."""

MOST_SHOWN = 150
"""Values that are shown, at most.  A safety limit of space."""

BARS, INNER = 16, (0.02, 0.98)
"""Bars of a histogram, roughly, and the quantiles between which it is drawn.  The tails beyond could point at persons.
More bars would have few rows each.  A convention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The missing values, histogram and frequent values of one column, without noise: as private as the rows.

    Parameters
    ----------
    missing
        Fraction of the rows without a value.
    bars
        Start, end and fraction of the rows of each bar in the middle of a column of numbers or times; else empty.
    levels
        Frequent values as texts, each with its fraction of the rows, sorted by value.  Of numbers and times only the
        most frequent values, in the order of frequency.
    rarer
        Number of different values that ``levels`` leaves out.
    """

    missing: float
    bars: tuple[tuple[str, str, float], ...]
    levels: tuple[tuple[str, float], ...]
    rarer: int


def count_uneven(source: Source) -> int:
    """Return the number of rows of a CSV file that have more or fewer fields than its header.  NOT private.

    The number is 0 for any other source.  A release reads such a row too: absent fields are missing values, and extra
    fields are dropped.
    """
    if not isinstance(source, CsvSource):
        return 0
    width = len(source.names) + len(source.unnamed)
    with source.records() as records:
        next(records, None)
        return sum(len(record) != width for record in records)


def look(source: Source, name: str, csv: CsvFormat | None = None) -> Look:
    """Return a `Look` at the rows of one column.  NOT private.

    Parameters
    ----------
    source
        The table.
    name
        The column.
    csv
        For a file of texts: which texts are missing values.

    Raises
    ------
    DataError
        If the table has no such column, or the column cannot be read.
    """
    if name not in source.names:
        raise DataError(f"the table has no column {name!r}: give the name of a column of the table")
    told = None if csv is None else csv.missing
    read = csv_of(source, told) if isinstance(source, TextSource) else None
    seen, kinds = read_table(source, [name], read, sure=told is not None)
    if name not in seen:
        raise DataError(f"column {name!r} has a type that cannot be read: convert it to numbers, texts or times")
    one, kind = seen[name], kinds[name]
    missing = one.missing / one.rows if one.rows else 0.0
    least = max(FREQUENT_ROWS, FREQUENT_SHARE * one.rows)
    often, shown = one.frequent(least)[:MOST_SHOWN], _as_people_write(kind, one.counts)
    levels = [(_shown(shown, value), one.counts[value] / one.rows) for value in often]
    levels = levels[:BARS] if kind.measured else sorted(levels)
    return Look(
        missing=missing,
        bars=_bars(one, kind) if kind.measured else (),
        levels=tuple(levels),
        rarer=len(one.counts) - len(levels),
    )


def _bars(seen: Seen, kind: Column) -> tuple[tuple[str, str, float], ...]:
    """Return the histogram bars between the quantiles `INNER`: (start, end, fraction of the rows).

    Starts and ends are texts of round numbers, or of round times.  Return no bars for less than two different values or
    fewer than `FREQUENT_ROWS` rows.
    """
    if len(seen.counts) < 2 or seen.present < FREQUENT_ROWS:
        return ()
    values, counts = np.array(sorted(seen.counts), np.float64), np.array([seen.counts[v] for v in sorted(seen.counts)])
    shares = np.cumsum(counts) / counts.sum()
    low, high = (float(values[min(int(np.searchsorted(shares, q)), len(values) - 1)]) for q in INNER)
    if low == high:
        return ()
    edges = _round_times(low, high) if kind.quantity in ("moment", "clock") else []
    if not edges:
        step = round_step((high - low) / BARS)
        step = max(step, 1.0) if kind.whole or kind.temporal else step
        first, last = math.floor(low / step), math.ceil(high / step)
        edges = (np.arange(first, last + 2) * step).tolist()
    inside, _ = np.histogram(values, edges, weights=counts)
    shown = _as_people_write(kind, edges)
    texts = [_shown(shown, edge) if kind.temporal else in_figures(edge, digits=6) for edge in edges]
    return tuple((*ends, count / seen.rows) for *ends, count in zip(texts, texts[1:], inside.tolist(), strict=False))


def _round_times(low: float, high: float) -> list[float]:
    """Return the edges, in microseconds, of at most `BARS` + 1 bars from ``low`` to ``high``, at round times.

    The bars are the narrowest that are few enough.  Return no edges if ``low`` and ``high`` are less than `BARS`
    seconds or more than some thousand years apart.
    """
    if high - low < BARS * RESOLUTIONS["s"]:
        return []
    for unit, steps in ROUND_TIMES:
        first, last = (int(np.datetime64(int(end), "us").astype(f"M8[{unit}]").astype(np.int64)) for end in (low, high))
        for step in steps:
            if last // step - first // step <= BARS:
                edges = np.arange(first // step, last // step + 2) * step
                return edges.astype(f"M8[{unit}]").astype("M8[us]").astype(np.int64).astype(np.float64).tolist()
    return []


def _as_people_write(kind: Column, micros: Iterable[float]) -> Column:
    """Return a kind of column that shows all of these times in full, and no more digits than they need.

    Days have no time of day, and lengths of time are in seconds, as they are typed.  Any other kind is returned as it is.
    """
    if kind.quantity not in ("moment", "length"):
        return kind
    ticks = np.array([int(one) for one in micros], np.int64)
    usual = ("D", "min", "s", "ms", "us") if kind.quantity == "moment" else ("s", "ms", "us")
    resolution = next(name for name in usual if not (ticks % RESOLUTIONS[name]).any())
    return Datetime(resolution=resolution) if kind.quantity == "moment" else Duration(resolution=resolution)


def _shown(kind: Column, value: Any) -> str:
    """Return a value as text for the page, times as people write them; a day ends at 24:00:00."""
    if kind.quantity == "clock" and value == RESOLUTIONS["D"]:
        return "24:00:00"
    return str(kind.shown(value)) if kind.temporal else str(value)
