"""Numbers as people read them, lines of a terminal, round steps of axes, and about how wide a text is."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np

LARGEST_PLAIN, LEAST_PLAIN = 1e15, 1e-4
"""Numbers of at least the first absolute value, and numbers other than 0 below the second, are written with an
exponent, since plain digits would be many.  A convention."""

FIRST_GROUPED = 10_000
"""Numbers from here on get commas between groups of three digits; below, 2,013 would not look like a year.  A
convention."""

WIDTH = 80
"""Characters of a line on a terminal.  More would break lines of usual terminals.  A convention."""

LEAST_NAME = 20
"""Least width, in characters, of the first column of a text table, which is wrapped.  Less would cut names into short
lines; more makes wide tables wider still.  A convention."""

_NARROW, _THIN = frozenset(" ijlIft.,:;'|!()[]{}/\\-r"), 0.42
"""Narrow letters, and their width as a fraction of the font size: rather too large for usual
sans-serif fonts, so that labels of pictures do not overlap.  A convention."""

_BROAD, _WIDE = frozenset("mwMW@%—…&"), 1.0
"""Broad letters, and their width as a fraction of the font size: rather too large for usual
sans-serif fonts, so that labels of pictures do not overlap.  A convention."""


def in_figures(value: float, *, digits: int = 15) -> str:
    """Return a number as text for people, with at most ``digits`` significant digits: 0.25, 2013, 1,350,000.

    Below `FIRST_GROUPED` the whole part is always kept.  From there on no decimals are shown, and an ``int`` is not
    rounded.  Before an exponent there are at most four digits.

    Examples
    --------
    >>> [in_figures(value) for value in (0.25, 2013, 1350000, 1e-7, -12345.6)]
    ['0.25', '2013', '1,350,000', '1e-07', '-12,346']
    """
    size = abs(value)
    if not math.isfinite(value) or size >= LARGEST_PLAIN or 0 < size < LEAST_PLAIN:
        return f"{value:.{min(digits, 4)}g}"
    if size >= FIRST_GROUPED:
        return f"{value if isinstance(value, int) else float(f'{value:.{digits}g}'):,.0f}"
    shown = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e" in shown else shown


def precise_to(value: float, error: float) -> str:
    """Return a number as text, rounded to the second significant digit of its error: further digits mean nothing.

    Without a positive, finite error it has at most six significant digits.
    """
    if not 0 < error < math.inf:
        return in_figures(value, digits=6)
    places = 1 - math.floor(math.log10(error))
    return in_figures(round(value, min(places, 12)))


def in_per_cent(share: float) -> str:
    """Return ``share``, a percentage, as text with one decimal (69.7 %); "< 0.1 %" if 0 < ``share`` < 0.05."""
    return "< 0.1\u00a0%" if 0 < share < 0.05 else f"{share:.1f}\u00a0%"


def entry(name: str, text: str) -> list[str]:
    """Return the lines of a named entry for a terminal: the name, and its text wrapped beside it, at most `WIDTH` wide."""
    starts = {"initial_indent": f"  {name:<10}  ", "subsequent_indent": " " * 14}
    return wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False, **starts)  # type: ignore[arg-type]


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = ()) -> list[str]:
    """Return a table for a terminal: the first cell of a row is wrapped where the line would be wider than `WIDTH`.

    Words are not broken, so that one of more than `LEAST_NAME` letters can make a line wider.

    Parameters
    ----------
    heads
        (k,) heads; the first names the entry.
    rows
        Rows of k cells.
    left
        Positions of cells that are set flush left; the others are flush right.
    """
    widths = [max(map(len, column)) for column in zip(heads[1:], *(row[1:] for row in rows), strict=True)]
    most = max(WIDTH - 4 - sum(widths) - 2 * len(widths), LEAST_NAME)
    layout: Any = {"subsequent_indent": "  ", "break_long_words": False, "break_on_hyphens": False}
    names = [wrap(row[0], most, **layout) or [""] for row in rows]
    first = max([len(heads[0]) - 2, *(len(part) for name in names for part in name)])

    def line(cells: Sequence[str]) -> str:
        sides = ["<" if j in left else ">" for j in range(1, len(cells) + 1)]
        return "".join(f"  {cell:{side}{width}}" for cell, side, width in zip(cells, sides, widths, strict=True))

    lines = [f"  {heads[0]:<{first + 2}}{line(heads[1:])}".rstrip()]
    for (head, *rest), row in zip(names, rows, strict=True):
        lines += [f"    {head:<{first}}{line(row[1:])}".rstrip(), *(f"    {part}" for part in rest)]
    return lines


def round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is at least ``least``, for the ticks of an axis."""
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * one for one in (1, 2, 5, 10) if power * one >= least * (1 - 1e-9))
    return float(f"{step:.3g}")


def multiples(step: float, low: float, high: float) -> list[float]:
    """Return the multiples of a step from ``low`` to ``high``, both inclusive, such as the ticks of an axis."""
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.15g}") for k in range(first, last + 1)]


def width_of(text: str, size: float = 11.0) -> float:
    """Return the approximate width of a text in px, rather too large, so that labels of pictures do not overlap."""
    return size * sum(_advance(letter) for letter in text)


def shortened(text: str, width: float, size: float = 11.0) -> str:
    """Return a text cut to a width in px, so that it fits in a picture, with an ellipsis if anything is cut."""
    if width_of(text, size) <= width:
        return text
    steps = np.cumsum([_advance(letter) for letter in text]) * size + size
    return text[: int(np.searchsorted(steps, width))].rstrip() + "…"


def _advance(letter: str) -> float:
    """Return a letter's approximate width as a fraction of the font size, for usual sans-serif fonts."""
    if letter in _NARROW:
        return _THIN
    if letter in _BROAD:
        return _WIDE
    if unicodedata.combining(letter):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.3
    return 0.78 if letter.isupper() else 0.65
