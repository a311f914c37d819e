"""Small charts as inline SVG: bars with error bands, histograms, heat maps.  Here is the geometry; templates draw it.

Colours are classes of the page, so that charts follow dark mode and print.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from synthdp.markup import render

WIDTH = 360
_CHARACTER = 6.2  # average advance of an 11 px sans-serif letter, in px


def bars(
    labels: Sequence[str],
    values: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    *,
    title: str,
    name: str,
    unit: str,
) -> str:
    """Return horizontal bars, one a label, with the interval of each as a line."""
    top = nice(max([*filter(math.isfinite, [*upper, *values]), 1e-9]))
    left = min(150.0, 12 + _CHARACTER * max(min(len(label), 22) for label in labels))
    right, step = WIDTH - 12.0, 19.0
    scale = (right - left) / top
    marks = [
        {
            "about": about,
            "label": shorten(label, 22),
            "y": 4 + step * i,
            "length": max(scale * value, 0.5),
            "interval": (left + scale * low, left + scale * high) if math.isfinite(low + high) else None,
        }
        for i, (label, about, value, low, high) in enumerate(_marks(labels, values, lower, upper, unit))
    ]
    axis = [(left + scale * tick, f"{tick:g}{unit}", "end" if tick == top else "middle") for tick in ticks(top)]
    return render(
        "bars.svg", name=name, title=title, width=WIDTH, left=left, right=right, bottom=step * len(labels) + 4,
        marks=marks, ticks=axis,
    )  # fmt: skip


def histogram(
    edges: Sequence[str],
    values: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    *,
    title: str,
    name: str,
    axis: str,
    unit: str,
) -> str:
    """Return upright bars without gaps, one a bin, with the band of their intervals; ``edges`` name the bins."""
    top = nice(max([*filter(math.isfinite, [*upper, *values]), 1e-9]))
    left, right, height, above = 40.0, WIDTH - 10.0, 130.0, 8.0
    step, scale, bottom = (right - left) / len(values), height / top, above + height
    marks = [
        {
            "about": about,
            "x": left + step * i + 0.4,
            "wide": max(step - 0.8, 0.6),
            "tall": max(scale * value, 0.5),
            "band": (left + step * (i + 0.25), bottom - scale * high, step / 2, max(scale * (high - low), 0.8))
            if math.isfinite(low + high)
            else None,
        }
        for i, (_, about, value, low, high) in enumerate(_marks(edges, values, lower, upper, unit))
    ]
    return render(
        "histogram.svg", name=name, title=title, width=WIDTH, left=left, right=right, bottom=bottom, marks=marks,
        ticks=[(bottom - scale * tick, f"{tick:g}{unit}") for tick in ticks(top)],
        first=edges[0].split(" to ")[0], last=edges[-1].split(" to ")[-1], axis=axis,
    )  # fmt: skip


def heat_map(names: Sequence[str], values: Sequence[Sequence[float]], *, title: str, name: str) -> str:
    """Return a symmetric matrix of numbers from 0 to 1 as squares, the darker the larger; the lower triangle only."""
    d = len(names)
    left = min(130.0, 10 + _CHARACTER * max(min(len(one), 18) for one in names))
    side = max(5.0, min(34.0, (620 - left) / d))
    labelled, legible = side >= 9, side >= 26
    middle = [side * i + side / 2 + 4 for i in range(d)]
    marks = [
        {
            "about": f"{names[i]} and {names[j]}: {value:.2f}",
            "x": left + side * j,
            "y": side * i,
            "value": value,
            "text": f"{value:.2f}".removeprefix("0") if legible else "",
            "shade": "value on" if value > 0.55 else "value off",
        }
        for i in range(d)
        for j in range(i)
        for value in [min(max(values[i][j], 0.0), 1.0)]
    ]
    return render(
        "heat_map.svg", name=name, title=title, marks=marks, side=side - 1,
        width=max(left + side * d + 8, 250.0), height=side * d + (95 if labelled else 8),
        rows=[(left - 5, middle[i], shorten(names[i], 18)) for i in range(d) if labelled],
        columns=[(left + middle[i], side * d + 6, shorten(names[i], 14)) for i in range(d) if labelled],
    )  # fmt: skip


def scale_legend(*, name: str) -> str:
    """Return the key of a heat map, 0 to 1."""
    return render("scale.svg", name=name)


def nice(value: float) -> float:
    """Return the least of 1, 2, 2.5, 5 times a power of ten that is not below a positive value."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 2.5, 5, 10) if power * step >= value * (1 - 1e-12))


def ticks(top: float) -> list[float]:
    """Return 0, the middle and the top of an axis."""
    return [0.0, top / 2, top]


def shorten(text: str, most: int) -> str:
    """Return a text that fits."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _marks(
    labels: Sequence[str], values: Sequence[float], lower: Sequence[float], upper: Sequence[float], unit: str
) -> Iterator[tuple[Any, ...]]:
    """Yield each mark's label, what its title says, its value and the ends of its interval, which may be unknown (NaN)."""
    for label, value, low, high in zip(labels, values, lower, upper, strict=True):
        known = f" (95 % interval {low:,.4g} to {high:,.4g})" if math.isfinite(low + high) else ""
        yield label, f"{label}: {value:,.4g}{unit}{known}", value, low, high
