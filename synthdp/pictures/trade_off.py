"""The picture of accuracy against epsilon: this module computes the geometry, and a template draws it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from synthdp.figures import multiples, round_step
from synthdp.markup import render

WIDTH, TOP, BOTTOM, LEFT, RIGHT = 420.0, 14.0, 170.0, 44.0, 400.0
"""Width of the picture, and the edges of the chart in it, in SVG units (pixels at its usual size).  A convention."""

LEVELS = 4
"""Horizontal lines of the picture, about.  More would crowd the axis.  A convention."""


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
        return LEFT + 20 + (math.log(epsilon) - low) / (high - low) * (RIGHT - LEFT - 40)

    def down(error: float) -> float:
        return BOTTOM - 100 * error / max(marks[-1], top) * (BOTTOM - TOP)

    found = [(across(epsilon), down(error)) for epsilon, error in points]
    return render(
        "trade_off.svg", name=name, title=title, width=WIDTH, bottom=BOTTOM, left=LEFT, right=RIGHT,
        levels=[(down(mark / 100), f"{mark:g}") for mark in marks], independent=down(independent),
        line="M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in found),
        points=[
            (x, y, f"ε = {epsilon:g}: {100 * error:.2g} of 100 rows", f"{epsilon:g}", epsilon == recommended)
            for (x, y), (epsilon, error) in zip(found, points, strict=True)
        ],
    )  # fmt: skip
