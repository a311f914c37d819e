"""A picture for a notebook: a chart of the report as a complete SVG document.

Bare numbers in the functions that draw are lengths in SVG units, or fractions of a bar or of a box: conventions of the
layout.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from synthdp.errors import ParameterError
from synthdp.figures import in_per_cent, multiples, round_step, shortened, width_of
from synthdp.files import writing
from synthdp.markup import render
from synthdp.measurements import Measurements
from synthdp.pictures.column_views import PairView, column_view, column_views, drawn_indices, pair_view
from synthdp.pictures.view import Bar, ColumnView
from synthdp.sampling.synthetic_model import SyntheticModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from synthdp.pictures.axes import Draw  # a report needs none of them

ACROSS, GRID_GAP = 3, 16.0
"""Charts next to each other in the picture of all columns, and the gap between them, in SVG units (pixels at its usual
size).  A convention."""

DOTS = 150
"""Resolution of a saved PNG, in dots per inch.  Less would blur texts, more makes larger files.  A convention."""

WIDTH = 360.0
"""Width of a picture in SVG units (pixels at its usual size), the unit of all lengths of this module.  A convention."""


MOST_LABEL = 150.0
"""Width of a bar's label, at most, in SVG units; longer labels are cut, to leave bars room.  A convention."""

GAP = 6.0
"""Distance between label and bar, in SVG units.  A convention."""


def bars(shown: Sequence[Bar], *, title: str, name: str) -> str:
    """Return a chart of horizontal bars as SVG, one bar a level, with intervals as lines and percentages as texts.

    A second bar below each bar shows the percentage in a compared table, if there is one.
    """
    labels = [shortened(bar.label, MOST_LABEL) for bar in shown]
    shares = [in_per_cent(bar.share) for bar in shown]
    left = GAP + max(width_of(label) for label in labels) + GAP
    right = WIDTH - GAP - max(width_of(share) for share in shares) - GAP
    scale, two = (right - left) / _top(shown), any(math.isfinite(bar.beside) for bar in shown)
    step = min(max(150.0 / len(shown), 26.0 if two else 20.0), 34.0)
    thick = step * (0.36 if two else 0.65)
    marks = [
        {
            "about": _about(bar),
            "label": label,
            "share": share,
            "y": step * i,
            "length": max(scale * bar.share, 0.5),
            "beside": scale * bar.beside if math.isfinite(bar.beside) else None,
            "interval": (left + scale * bar.low, left + scale * bar.high)
            if math.isfinite(bar.low + bar.high)
            else None,
        }
        for i, (bar, label, share) in enumerate(zip(shown, labels, shares, strict=True))
    ]
    return render(
        "bars.svg", name=name, title=title, width=WIDTH, left=left, label=left - GAP, end=WIDTH - GAP, marks=marks,
        height=step * len(shown), step=step, thick=thick, above=(step - thick * (1.8 if two else 1.0)) / 2,
    )  # fmt: skip


def histogram(
    shown: Sequence[Bar], marks: Sequence[tuple[float, str]], *, title: str, name: str, logarithmic: bool = False
) -> str:
    """Return a histogram as SVG: upright bars without gaps, one a bin, with their intervals.

    Parameters
    ----------
    shown
        Bins in their order.
    marks
        Places, from 0 to the number of bins, and texts of the marks below.
    title, name
        Description of the picture for readers who do not see it, and its unique HTML id in the page.
    logarithmic
        Whether the axis of shares is logarithmic.
    """
    height, above = 118.0, 20.0
    levels = decades(shown) if logarithmic else _levels(_top(shown))
    texts = [f"{level:g}\u00a0%" for level in levels]
    left, right, bottom = GAP + max(width_of(text) for text in texts) + 4, WIDTH - 12.0, above + height
    if marks and marks[-1][0] > 0.9 * len(shown):
        right = min(right, WIDTH - 2 - width_of(marks[-1][1]) / 2)
    step = (right - left) / len(shown)
    thick = min(0.4 * step, 8.0)

    def tall(share: float) -> float:
        if logarithmic:
            span = math.log(levels[-1] / levels[0])
            return height * min(max(math.log(max(share, 1e-300) / levels[0]) / span, 0.0), 1.0)
        return height * min(share / levels[-1], 1.0)

    drawn = [
        {
            "about": _about(bar),
            "x": left + step * i + min(0.4, step / 8),
            "wide": max(step - min(0.8, step / 4), 0.6),
            "tall": max(tall(bar.share), 0.5 * (bar.share > 0)),
            "band": (
                left + step * (i + 0.5) - thick / 2,
                bottom - tall(bar.high),
                thick,
                tall(bar.high) - tall(bar.low),
            )
            if math.isfinite(bar.low + bar.high) and tall(bar.high) - tall(bar.low) > 0.3
            else None,
        }
        for i, bar in enumerate(shown)
        if bar.label
    ]
    beside = [(left + step * i, bottom - tall(bar.beside)) for i, bar in enumerate(shown) if math.isfinite(bar.beside)]
    return render(
        "histogram.svg", name=name, title=title, width=WIDTH, left=left, right=right, bottom=bottom, step=step,
        marks=drawn, beside=beside, unit="share of rows, logarithmic" if logarithmic else "share of rows",
        levels=[(bottom - tall(level), text) for level, text in zip(levels, texts, strict=True)],
        ticks=[(left + step * place, *_placed(left + step * place, text)) for place, text in marks],
    )  # fmt: skip


def decades(shown: Sequence[Bar]) -> list[float]:
    """Return the powers of ten of a logarithmic axis of percentages, up to 100.

    The smallest power, from 0.001 to 1, is at most the typical half interval (or the smallest bar without intervals):
    intervals hide smaller bars.
    """
    halves = sorted((bar.high - bar.low) / 2 for bar in shown if math.isfinite(bar.high - bar.low))
    least = min((bar.share for bar in shown if bar.share > 0), default=1.0)
    floor = max(halves[len(halves) // 2] if halves else least, 1e-3)
    lowest = min(max(math.floor(math.log10(floor)), -3), 0)
    return [10.0**power for power in range(lowest, 3)]


def triangle(names: Sequence[str], values: Sequence[Sequence[float]], *, title: str, name: str) -> str:
    """Return the lower triangle of a symmetric (k, k) matrix as SVG: squares for values from 0 to 1.

    Larger values are darker.  A ``nan`` is a relation that noise or chance explains: its square is blank.
    """
    rows, columns = names[1:], names[:-1]
    cells = [
        (i, j, min(max(value, 0.0), 1.0), f"{columns[j]} and {rows[i]}: {value:.2f}", f"{value:.2f}".removeprefix("0"))
        if value == value
        else (i, j, 0.0, f"{columns[j]} and {rows[i]}: nothing beyond noise", "")
        for i in range(len(rows))
        for j in range(i + 1)
        for value in [values[i + 1][j]]
    ]
    return _grid(rows, columns, cells, side=(34.0, 28.0), title=title, name=name)


def heat_map(
    rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]], *, title: str, name: str
) -> str:
    """Return a (rows, columns) table of fractions as SVG: boxes with a percentage, darker for larger values."""
    cells = [
        (i, j, value, f"{row}, {column}: {100 * value:.1f} %", f"{100 * value:.0f}")
        for i, row in enumerate(rows)
        for j, column in enumerate(columns)
        for value in [min(max(values[i][j], 0.0), 1.0)]
    ]
    labels = max(min(width_of(row), 112.0) for row in rows)
    wide, tall = min((WIDTH - labels - 3 * GAP) / len(columns), 80.0), min(max(130.0 / len(rows), 19.0), 28.0)
    return _grid(rows, columns, cells, side=(wide, tall), title=title, name=name, width=WIDTH)


def scale_legend(*, name: str) -> str:
    """Return the colour key of a heat map as SVG, from 0 to 1."""
    return render("scale.svg", name=name)


def _grid(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[tuple[int, int, float, str, str]],
    *,
    side: tuple[float, float],
    title: str,
    name: str,
    width: float = 0.0,
) -> str:
    """Return a grid of boxes as SVG, with row names on the left and column names below; wide names are aslant.

    A cell is (row, column, value from 0 to 1, description, text); a larger value is darker.  ``side`` is the width and
    height of a box, ``width`` the least of the grid, in SVG units.
    """
    across, down = side
    before = [shortened(row, 112.0) for row in rows]
    left = GAP + max(width_of(row) for row in before) + GAP
    straight = all(width_of(column) <= across - 4 for column in columns)
    below = [column if straight else shortened(column, min(112.0, (left + across / 2) * 1.3)) for column in columns]
    deep = 20.0 if straight else 16.0 + 0.8 * max(width_of(column) for column in below)
    marks = [
        {
            "about": about,
            "x": left + across * j,
            "y": down * i,
            "value": value,
            "text": text if across >= width_of(text, 10.0) else "",
            "shade": "value on" if value > 0.55 else "value off",
        }
        for i, j, value, about, text in cells
    ]
    return render(
        "grid.svg", name=name, title=title, marks=marks, across=across - 1, down=down - 1, straight=straight,
        width=max(width, left + across * len(columns) + GAP), height=down * len(rows) + deep, left=left - 5,
        rows=[(down * i + down / 2 + 4, row) for i, row in enumerate(before)],
        columns=[(left + across * (j + 0.5), down * len(rows), column) for j, column in enumerate(below)],
    )  # fmt: skip


def _top(shown: Sequence[Bar]) -> float:
    """Return the largest share, interval end or compared share of some bars, at most 100 %: the end of their axis.

    The result is above 0 also for bars without rows, since lengths are divided by it.
    """
    ends = [end for bar in shown for end in (bar.share, bar.high, bar.beside) if math.isfinite(end)]
    return min(max([*ends, 1e-9]), 100.0)


def _levels(top: float) -> list[float]:
    """Return round levels of an axis from 0 to at least ``top``, both in per cent."""
    step = round_step(top / 5)
    return multiples(step, 0.0, step * math.ceil(top / step - 1e-9))


def _placed(x: float, text: str) -> tuple[str, str]:
    """Return (SVG text anchor, text) of a mark at ``x``, in SVG units: the anchor keeps the text inside the picture."""
    half = width_of(text) / 2
    return ("end" if x + half > WIDTH - 2 else "start" if x - half < 2 else "middle"), text


def _about(bar: Bar) -> str:
    """Return the text that a bar shows under the mouse pointer."""
    known = f" (95 % interval {bar.low:.4g} to {bar.high:.4g})" if math.isfinite(bar.low + bar.high) else ""
    beside = f"; beside it {bar.beside:.4g} %" if math.isfinite(bar.beside) else ""
    return f"{bar.label}: {bar.share:.4g} %{known}{beside}"


MARGIN = 8.0
"""Margin of the picture, in SVG units.  A convention."""

LINE = 16.0
"""Height of a line of text, in SVG units.  A convention."""

NOTED = "share of rows in per cent, with 95 % intervals"
"""Text of the key of a picture with intervals."""

DRAWN = "share of synthetic rows in per cent"
"""Text of the key of a picture of synthetic rows."""

SHARED = "synthetic rows, per cent; each row adds up to 100"
"""Text of the key of a picture of two columns."""

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML does not allow; a picture replaces them."""

_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
"""The width and height in the text of an SVG picture."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart that a notebook shows and that can be saved.

    It is an SVG by the code that draws the report.  So a notebook and the report agree, and neither needs a plotting
    library.  For your own charts, take the numbers from ``release.answer(...)``, a DataFrame.

    Parameters
    ----------
    title
        Title of the picture.
    chart
        The chart as inline SVG.
    note
        Text below the chart.
    stamp
        Warning above the chart, also in a saved file; "" for a picture of a release.
    panels
        Functions that draw the charts with matplotlib.

    """

    title: str
    chart: str
    note: str = ""
    stamp: str = ""
    panels: tuple[Draw, ...] = field(default=(), compare=False, repr=False)

    def __repr__(self) -> str:
        return f"{self.stamp + ': ' if self.stamp else ''}picture of {self.title}"

    def _repr_html_(self) -> str:
        """Return the picture as HTML for a notebook."""
        return f"<div>{self._repr_svg_()}</div>"

    def _repr_svg_(self) -> str:
        """Return the picture as an SVG document with its title, note and stamp."""
        wide, tall = _size(self.chart)
        stamp, note = (_lines(text, wide) for text in (self.stamp, self.note))
        top = 28 + (10 + LINE * len(stamp)) * bool(stamp)
        document = render(
            "picture.svg", width=wide + MARGIN, height=top + tall + LINE * len(note) + MARGIN, top=top, tall=tall,
            stamp=stamp, title=shortened(self.title, wide - MARGIN, 13.5), wide=wide, chart=self.chart, note=note,
        )  # fmt: skip
        return _NO_XML.sub("\ufffd", document)

    def figure(self) -> Figure:
        """Return the picture as a new matplotlib figure with the same numbers, which you may change.

        Raises
        ------
        ParameterError
            If matplotlib is not installed.
        """
        from synthdp.pictures.axes import figure_of

        return figure_of(self.panels, title=self.title, stamp=self.stamp)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the picture to a file: a matplotlib figure for the endings .png, .pdf, .jpg and .jpeg, else SVG.

        Raises
        ------
        DataError
            If the file cannot be written.
        ParameterError
            If matplotlib is needed and not installed.
        """
        with writing(path):
            if Path(path).suffix.lower() in {".png", ".pdf", ".jpg", ".jpeg"}:
                self.figure().savefig(path, dpi=DOTS)
            else:
                Path(path).write_text(self._repr_svg_(), encoding="utf-8")


def picture_of(
    model: SyntheticModel, measurements: tuple[Measurements, ...], column: str | None = None, by: str | None = None
) -> Picture:
    """Return the picture of a release's column, of its fractions within another column's groups, or of all columns."""
    from synthdp.pictures.axes import column_panel, pair_panel

    if column is None:
        if by is not None:
            raise ParameterError("by divides the picture of one column into groups: give column too")
        return picture_of_all(column_views(model, measurements))
    if by is None:
        view = column_view(model, measurements, column)
        return Picture(
            title=column,
            chart=column_chart(view, _name(column)),
            note=" · ".join(filter(None, [_about_column(view), _what(view)])),
            panels=(column_panel(view),),
        )
    if column == by:
        raise ParameterError("by and column must be different columns")
    pair = pair_view(model, drawn_indices(model), column, by)
    return Picture(title=pair.title, chart=pair_chart(pair, _name(pair.title)), note=SHARED, panels=(pair_panel(pair),))


def picture_of_all(views: Sequence[ColumnView]) -> Picture:
    """Return one picture of several columns, `ACROSS` in a row."""
    from synthdp.pictures.axes import column_panel

    charts = [column_chart(view, _name(view.name)) for view in views]
    sizes = [_size(chart) for chart in charts]
    placed, y = [], 0.0
    for start in range(0, len(views), ACROSS):
        tall = max(height for _, height in sizes[start : start + ACROSS])
        for i in range(start, min(start + ACROSS, len(views))):
            x, note = (WIDTH + GRID_GAP) * (i - start), shortened(_about_column(views[i]), WIDTH)
            placed.append((x, y, *sizes[i], shortened(views[i].name, WIDTH - GRID_GAP), note, charts[i]))
        y += tall + 20 + LINE + GRID_GAP
    title = f"all {len(views)} columns"
    across = min(ACROSS, max(len(views), 1))
    chart = render(
        "side_by_side.svg", title=title, width=across * (WIDTH + GRID_GAP) - GRID_GAP, height=max(y, 1.0), charts=placed
    )
    return Picture(title=title, chart=chart, note=NOTED, panels=tuple(map(column_panel, views)))


def _size(chart: str) -> tuple[float, float]:
    """Return the width and the height of an SVG chart, in SVG units; the usual width and 0 if it does not say."""
    found = _SIZE.search(chart)
    wide, tall = (float(part) for part in found.groups()) if found else (WIDTH, 0.0)
    return wide, tall


def _about_column(view: ColumnView) -> str:
    """Return the note below a column's chart: derivation, summary and percentage beyond the shown range."""
    beyond = f"{in_per_cent(view.beyond)} beyond" if view.beyond else ""
    return " · ".join(filter(None, [view.derived, view.summary, beyond]))


def _what(view: ColumnView) -> str:
    """Return the text of the key of a column's chart, which explains intervals only if a bar has one."""
    return NOTED if any(bar.low == bar.low for bar in view.numbers) else DRAWN  # not NaN


def _name(title: str) -> str:
    """Return an HTML id for a chart's title, by which the chart points at it; equal titles have equal ids."""
    return f"synthdp-{zlib.crc32(title.encode()):08x}"


def _lines(text: str, width: float) -> list[str]:
    """Return a text broken into lines of at most ``width`` less the margin, in SVG units, as SVG text does not wrap.

    A longer word has a line of its own.
    """
    lines: list[str] = []
    for word in text.split():
        if lines and width_of(f"{lines[-1]} {word}") <= width - MARGIN:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def column_chart(view: ColumnView, name: str) -> str:
    """Return the SVG chart of a column's view; ``name`` is the HTML id of its title."""
    title = f"{view.name}: {_what(view)}"
    if view.ordered:
        return histogram(view.bars, view.ticks, title=title, name=name, logarithmic=view.is_logarithmic)
    return bars(view.bars, title=title, name=name)


def pair_chart(view: PairView, name: str) -> str:
    """Return the SVG chart of a pair's view; ``name`` is the HTML id of its title."""
    return heat_map(view.rows, view.columns, view.shares.tolist(), title=view.title, name=name)
