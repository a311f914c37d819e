"""The pictures as matplotlib charts, for users who want to change a picture or save it as PNG or PDF."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy.special import ndtri

from synthdp.answers.answers import LEVEL
from synthdp.answers.over_time import OverTime
from synthdp.errors import ParameterError
from synthdp.pictures.column_views import PairView
from synthdp.pictures.view import Bar, ColumnView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draw: TypeAlias = "Callable[[Axes], None]"
"""A function that draws one chart into matplotlib axes."""

MARK, BAND, BESIDE = "#0072b2", "#d55e00", "#57606a"
"""Colours of bars, of intervals and of a compared table, as in the SVG.  A convention (Okabe, Ito 2008)."""

WIDE, TALL = 4.6, 2.8
"""Width and height of one chart, in inches.  A convention."""

IN_A_ROW = 3
"""Charts next to each other, at most.  More would not fit the width of a page.  A convention."""


def figure_of(panels: Sequence[Draw], *, title: str, stamp: str = "") -> Figure:
    """Return a matplotlib figure with one chart for each panel.

    ``stamp`` is a warning that stands in red above the title, if it is given.

    Raises
    ------
    ParameterError
        If matplotlib is not installed, or there is nothing to draw.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ParameterError("figure() needs matplotlib: pip install matplotlib") from None
    if not panels:
        raise ParameterError(f"the picture of {title} cannot be drawn by matplotlib: save the picture as SVG")
    across = min(IN_A_ROW, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(WIDE * across, TALL * down), layout="constrained")
    charts = figure.subplots(down, across, squeeze=False).ravel()
    for chart, draw in zip(charts, panels, strict=False):
        draw(chart)
        chart.spines[["top", "right"]].set_visible(False)
    for chart in charts[len(panels) :]:
        chart.set_axis_off()
    head = f"{stamp}\n{title}" if stamp else title
    if stamp or len(panels) > 1:
        figure.suptitle(head, color="#b00020" if stamp else "black")
    return figure


def column_panel(view: ColumnView) -> Draw:
    """Return a function that draws a column's percentages of rows with 95 % intervals."""

    def draw(chart: Axes) -> None:
        shown = view.bars
        places, shares = np.arange(len(shown)), np.array([bar.share for bar in shown])
        beside = np.array([bar.beside for bar in shown])
        errors = _errors(shown)
        chart.set_title(view.name)
        if view.ordered:
            chart.bar(places + 0.5, shares, width=1.0, color=MARK, yerr=errors, ecolor=BAND)
            if np.isfinite(beside).any():
                chart.stairs(beside, np.arange(len(shown) + 1), color=BESIDE, baseline=None)
            chart.set_xticks([place for place, _ in view.ticks], [text for _, text in view.ticks])
            chart.set_ylabel("% of rows")
            if view.is_logarithmic:
                chart.set_yscale("log")
            return
        chart.barh(places, shares, height=0.7, color=MARK, xerr=errors, ecolor=BAND)
        chart.plot(beside, places, "|", color=BESIDE, markersize=12)
        chart.set_yticks(places, [bar.label for bar in shown])
        chart.invert_yaxis()
        chart.set_xlabel("% of rows")

    return draw


def _errors(shown: Sequence[Bar]) -> Any:
    """Return the distances of bars to the ends of their intervals, (2, bars), or ``None`` if no interval is known.

    Distances are in per cent, 0 for bars without an interval, as matplotlib's error bars need them.
    """
    found = np.array([(bar.share - bar.low, bar.high - bar.share) for bar in shown]).T
    return np.nan_to_num(np.maximum(found, 0)) if np.isfinite(found).any() else None


def pair_panel(view: PairView) -> Draw:
    """Return a function that draws a column's percentages within the groups of another column."""

    def draw(chart: Axes) -> None:
        chart.set_title(view.title)
        image = chart.imshow(100 * view.shares, cmap="Blues", vmin=0, vmax=100, aspect="auto")
        chart.set_xticks(range(len(view.columns)), view.columns, rotation=45, ha="right")
        chart.set_yticks(range(len(view.rows)), view.rows)
        chart.figure.colorbar(image, ax=chart, label="% of the row")

    return draw


def over_time_panel(shown: OverTime, *, title: str) -> Draw:
    """Return a function that draws an estimate by period, with two bands of 95 % intervals.

    The inner band is for single periods, and the outer band for all periods together.
    """

    def draw(chart: Axes) -> None:
        places, errors = np.arange(1, len(shown.estimates) + 1), shown.standard_errors
        chart.set_title(title)
        for width, alpha in ((shown.band(), 0.15), (float(ndtri(0.5 + LEVEL / 2)), 0.3)):
            low, high = shown.estimates - width * errors, shown.estimates + width * errors
            chart.fill_between(places, low, high, color=MARK, alpha=alpha, linewidth=0)
        chart.plot(places, shown.estimates, "o-", color=MARK)
        chart.set_xlabel("period")

    return draw


def trade_off_panel(
    points: Sequence[tuple[float, float]], *, independent: float, recommended: float, title: str
) -> Draw:
    """Return a function that draws the expected error, in rows of 100, against epsilon; errors are given as fractions.

    ``independent`` is the error of columns without relations, a dashed line.  ``recommended``, one of the epsilons, is
    marked.
    """

    def draw(chart: Axes) -> None:
        losses, errors = np.array(points).T
        chart.set_title(title)
        chart.plot(losses, 100 * errors, "o-", color=MARK)
        chart.plot(recommended, 100 * dict(points)[recommended], "o", color=BAND, label="recommended")
        chart.axhline(100 * independent, color=BESIDE, linestyle="--", label="columns without relations")
        chart.set_xscale("log")
        chart.set_xticks(losses, [f"{loss:g}" for loss in losses])
        chart.minorticks_off()
        chart.set_xlabel("ε")
        chart.set_ylabel("of 100 rows")
        chart.legend(frameon=False)

    return draw
