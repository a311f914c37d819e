"""Small charts as inline SVG: bars with error bands, curves, heat maps.  Pure functions from numbers to text.

Colours are named by CSS classes of the page, so that charts follow dark mode and print; every mark carries its value as a
title, every axis its label.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH = 360
_CHARACTER = 6.2  # average advance of an 11 px sans-serif letter, in px


def svg(body: Sequence[str], *, height: float, title: str, width: float = WIDTH, name: str) -> str:
    """Return a picture that scales with its place and says what it shows."""
    return (
        f'<svg class="chart" role="img" aria-labelledby="{name}" viewBox="0 0 {width:g} {height:g}" '
        f'preserveAspectRatio="xMidYMid meet"><title id="{name}">{escape(title)}</title>{"".join(body)}</svg>'
    )


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
    step, right = 19.0, 12.0
    across = WIDTH - left - right
    body = _vertical_grid(top, left=left, across=across, bottom=step * len(labels) + 4, unit=unit)
    for i, (label, value, low, high) in enumerate(zip(labels, values, lower, upper, strict=True)):
        y = 4 + step * i
        about = f"{label}: {value:,.4g}{unit}{_interval(low, high)}"
        known = math.isfinite(low + high)
        body.append(
            f"<g><title>{escape(about)}</title>"
            f'<text x="{left - 5:g}" y="{y + 12:g}" text-anchor="end">{escape(shorten(label, 22))}</text>'
            f'<rect class="bar" x="{left:g}" y="{y + 2:g}" width="{max(across * value / top, 0.5):.2f}" height="13"/>'
            f"{_whisker(left + across * low / top, left + across * high / top, y + 8.5) if known else ''}</g>"
        )
    return svg(body, height=step * len(labels) + 36, title=title, name=name)


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
    """Return upright bars without gaps, one a cell, with the band of their intervals; ``edges`` name the cells."""
    top = nice(max([*filter(math.isfinite, [*upper, *values]), 1e-9]))
    left, right, height = 40.0, 10.0, 130.0
    across = WIDTH - left - right
    step = across / len(values)
    body = []
    for tick in ticks(top):
        y = 8 + height * (1 - tick / top)
        body.append(f'<line class="grid" x1="{left:g}" x2="{WIDTH - right:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
        body.append(f'<text x="{left - 4:g}" y="{y + 4:.1f}" text-anchor="end">{tick:g}{unit}</text>')
    for i, (edge, value, low, high) in enumerate(zip(edges, values, lower, upper, strict=True)):
        x, tall = left + step * i, height * value / top
        about = f"{edge}: {value:,.4g}{unit}{_interval(low, high)}"
        band = (
            f'<rect class="band" x="{x + step * 0.25:.2f}" y="{8 + height * (1 - high / top):.2f}" '
            f'width="{step * 0.5:.2f}" height="{max(height * (high - low) / top, 0.8):.2f}"/>'
        )
        body.append(
            f'<g><title>{escape(about)}</title><rect class="bar" x="{x + 0.4:.2f}" y="{8 + height - tall:.2f}" '
            f'width="{max(step - 0.8, 0.6):.2f}" height="{max(tall, 0.5):.2f}"/>'
            f"{band if math.isfinite(low + high) else ''}</g>"
        )
    y = 8 + height
    first, last = edges[0].split(" to ")[0], edges[-1].split(" to ")[-1]
    body += [
        f'<line class="axis" x1="{left:g}" x2="{WIDTH - right:g}" y1="{y:g}" y2="{y:g}"/>',
        f'<text x="{left:g}" y="{y + 14:g}">{escape(first)}</text>',
        f'<text x="{WIDTH - right:g}" y="{y + 14:g}" text-anchor="end">{escape(last)}</text>',
        f'<text class="label" x="{left + across / 2:g}" y="{y + 28:g}" text-anchor="middle">{escape(axis)}</text>',
    ]
    return svg(body, height=y + 36, title=title, name=name)


def heat_map(names: Sequence[str], values: Sequence[Sequence[float]], *, title: str, name: str) -> str:
    """Return a symmetric matrix of numbers from 0 to 1 as squares, the darker the larger; the lower triangle only."""
    d = len(names)
    left = min(130.0, 10 + _CHARACTER * max(min(len(one), 18) for one in names))
    cell = max(5.0, min(34.0, (620 - left) / d))
    width, labelled = max(left + cell * d + 8, 250.0), cell >= 9
    body = []
    for i in range(d):
        if labelled:
            y = cell * i + cell / 2 + 4
            body.append(f'<text x="{left - 5:g}" y="{y:.1f}" text-anchor="end">{escape(shorten(names[i], 18))}</text>')
            x, y = left + cell * i + cell / 2 + 4, cell * d + 6
            body.append(
                f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="end" transform="rotate(-55 {x:.1f} {y:.1f})">'
                f"{escape(shorten(names[i], 14))}</text>"
            )
        for j in range(i):
            value = min(max(values[i][j], 0.0), 1.0)
            about = f"{names[i]} and {names[j]}: {value:.2f}"
            place = f'x="{left + cell * j:.1f}" y="{cell * i:.1f}" width="{cell - 1:.1f}" height="{cell - 1:.1f}"'
            body.append(f"<g><title>{escape(about)}</title>")
            body.append(f'<rect class="empty" {place}/><rect class="heat" {place} fill-opacity="{value:.3f}"/>')
            if cell >= 26:
                at = f'x="{left + cell * (j + 0.5) - 0.5:.1f}" y="{cell * (i + 0.5) + 3:.1f}"'
                shade = "on" if value > 0.55 else "off"
                shown = f"{value:.2f}".removeprefix("0")
                body.append(f'<text class="value {shade}" {at} text-anchor="middle">{shown}</text>')
            body.append("</g>")
    return svg(body, height=cell * d + (95 if labelled else 8), width=width, title=title, name=name)


def scale_legend(*, name: str) -> str:
    """Return the key of a heat map, 0 to 1."""
    body = [
        f'<rect class="empty" x="{30 + 20 * i}" y="2" width="20" height="12"/>'
        f'<rect class="heat" x="{30 + 20 * i}" y="2" width="20" height="12" fill-opacity="{i / 10:g}"/>'
        for i in range(11)
    ]
    body += ['<text x="24" y="12" text-anchor="end">0</text>', '<text x="256" y="12">1</text>']
    return svg(
        body, height=18, width=270, title="from 0, no association, to 1, one column determines the other", name=name
    )


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


def _vertical_grid(top: float, *, left: float, across: float, bottom: float, unit: str) -> list[str]:
    body = []
    for tick in ticks(top):
        x = left + across * tick / top
        anchor = "end" if tick == top else "middle"
        body.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="2" y2="{bottom:g}"/>')
        body.append(f'<text x="{x:.1f}" y="{bottom + 14:g}" text-anchor="{anchor}">{tick:g}{unit}</text>')
    body.append(
        f'<text class="label" x="{left + across / 2:.1f}" y="{bottom + 28:g}" text-anchor="middle">share of rows</text>'
    )
    return body


def _interval(low: float, high: float) -> str:
    """Return an interval in words; nothing where the release keeps no noisy table that would tell it."""
    return f" (95 % interval {low:,.4g} to {high:,.4g})" if math.isfinite(low + high) else ""


def _whisker(low: float, high: float, y: float) -> str:
    return (
        f'<path class="whisker" d="M{low:.2f} {y - 4:.1f}V{y + 4:.1f}M{low:.2f} {y:.1f}H{high:.2f}'
        f'M{high:.2f} {y - 4:.1f}V{y + 4:.1f}"/>'
    )
