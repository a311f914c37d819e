"""Charts of an estimate over time with its intervals, and of accuracy against epsilon.

This module computes the geometry, and a template draws it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from synthdp.answers.answers import LEVEL
from synthdp.answers.over_time import OverTime
from synthdp.arrays import FloatArray
from synthdp.figures import in_figures, multiples, precise_to, round_step, width_of
from synthdp.markup import render
from synthdp.pictures.axes import over_time_panel
from synthdp.pictures.picture import Picture

WIDTH, TOP, BOTTOM, RIGHT, GAP = 480.0, 8.0, 190.0, 470.0, 8.0
"""Width, top, bottom and right edge of the chart, and the gap next to its texts, in SVG units (pixels at its usual
size).  A convention."""

LEVELS, MOST_TICKS = 4, 12
"""Horizontal lines of a picture, about, and labels of periods, at most.  More would crowd the axes.  A convention."""

NOTE = "line: estimates; dark band: 95 % intervals of single periods; light band: of all periods at once"
"""Text of the key of the picture."""


def chart_over_time(shown: OverTime, *, title: str, name: str) -> str:
    """Return the chart of estimates over time as inline SVG; intervals are cut at 0.

    Parameters
    ----------
    shown
        Estimates with standard errors, one a period.
    title
        Description of the picture for readers who do not see it.
    name
        Unique HTML id of the title in the page.
    """
    errors, wide = shown.standard_errors, shown.band()
    low: FloatArray = np.maximum(shown.estimates - wide * errors, 0.0)
    high: FloatArray = shown.estimates + wide * errors
    bottom, top = min(float(low.min()), 0.0), float(high.max())
    step = round_step(max(top - bottom, 1e-9) / LEVELS)
    marks = multiples(step, bottom, top + step)
    left = GAP + max(width_of(in_figures(mark)) for mark in marks)
    place: FloatArray = np.linspace(left + GAP, RIGHT - GAP, max(2, len(errors)))[: len(errors)]

    def height(values: FloatArray) -> FloatArray:
        return np.asarray(BOTTOM - (values - marks[0]) / (marks[-1] - marks[0]) * (BOTTOM - TOP), np.float64)

    near = float(ndtri(0.5 + LEVEL / 2)) * errors
    band = [height(np.maximum(shown.estimates + side * near, 0.0)) for side in (-1, 1)]
    every = max(1, -(-len(errors) // MOST_TICKS))
    return render(
        "over_time.svg", name=name, title=title, width=WIDTH, bottom=BOTTOM, left=left, right=RIGHT,
        levels=[(float(height(np.array(mark))), in_figures(mark)) for mark in marks],
        outer=_area(place, height(low), height(high)), inner=_area(place, *band),
        line="M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in zip(place, height(shown.estimates), strict=True)),
        points=[
            (x, y, f"{period}: {precise_to(value, error)} ± {precise_to(1.96 * error, error)}")
            for x, y, period, value, error in zip(
                place, height(shown.estimates), shown.names, shown.estimates, errors, strict=True
            )
        ],
        ticks=[(place[i], str(i + 1)) for i in range(0, len(errors), every)],
    )  # fmt: skip


def picture_over_time(shown: OverTime, title: str) -> Picture:
    """Return the picture of an estimate over time; a notebook shows it, and its ``save`` writes it."""
    chart = chart_over_time(shown, title=title, name="synthdp-over-time")
    return Picture(title=title, chart=chart, note=NOTE, panels=(over_time_panel(shown, title=title),))


def _area(place: FloatArray, low: FloatArray, high: FloatArray) -> str:
    """Return the SVG path of a band between two lines."""
    there = [*zip(place, low, strict=True), *reversed([*zip(place, high, strict=True)])]
    return "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in there) + "Z"


TRADE_WIDTH, TRADE_TOP, TRADE_BOTTOM, TRADE_LEFT, TRADE_RIGHT = 420.0, 14.0, 170.0, 44.0, 400.0
"""Width of the picture of a trade-off, and the edges of the chart in it, in SVG units (pixels at its
usual size).  A convention."""


def trade_off_chart(
    points: Sequence[tuple[float, float]], *, independent: float, recommended: float, title: str, name: str
) -> str:
    """Return the chart of the expected error against epsilon as inline SVG; epsilon has a logarithmic scale.

    Parameters
    ----------
    points
        Two or more pairs of epsilon and expected error, a fraction of all rows; epsilons strictly increase.
    independent
        Error of a model with independent columns, which is drawn as a dashed line.
    recommended
        Epsilon of the marked point.
    title
        Description of the picture for readers who do not see it.
    name
        Unique HTML id of the title in the page.
    """
    top = 100 * max(independent, *(error for _, error in points))
    marks = multiples(round_step(max(top, 1e-6) / LEVELS), 0.0, 1.05 * top)
    low, high = math.log(points[0][0]), math.log(points[-1][0])

    def across(epsilon: float) -> float:
        return TRADE_LEFT + 20 + (math.log(epsilon) - low) / (high - low) * (TRADE_RIGHT - TRADE_LEFT - 40)

    def down(error: float) -> float:
        return TRADE_BOTTOM - 100 * error / max(marks[-1], top) * (TRADE_BOTTOM - TRADE_TOP)

    found = [(across(epsilon), down(error)) for epsilon, error in points]
    return render(
        "trade_off.svg", name=name, title=title, width=TRADE_WIDTH, bottom=TRADE_BOTTOM, left=TRADE_LEFT, right=TRADE_RIGHT,
        levels=[(down(mark / 100), f"{mark:g}") for mark in marks], independent=down(independent),
        line="M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in found),
        points=[
            (x, y, f"ε = {epsilon:g}: {100 * error:.2g} of 100 rows", f"{epsilon:g}", epsilon == recommended)
            for (x, y), (epsilon, error) in zip(found, points, strict=True)
        ],
    )  # fmt: skip
