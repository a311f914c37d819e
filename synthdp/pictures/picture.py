"""A picture for a notebook: the charts of the report, one at a time, as an SVG that stands alone."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from synthdp.errors import DataError, ParameterError
from synthdp.figures import in_per_cent, shortened, width_of
from synthdp.markup import render
from synthdp.measurements import Measurements
from synthdp.pictures.charts import WIDTH, bars, heat_map, histogram
from synthdp.pictures.columns import column_view
from synthdp.pictures.pairs import PairView, drawn_indices, pair_view
from synthdp.pictures.view import ColumnView
from synthdp.sampling.synthetic_model import SyntheticModel

MARGIN = 8.0
LINE = 16.0
NOTED = "share of rows in per cent, with 95 % intervals"
DRAWN = "share of synthetic rows in per cent"
SHARED = "synthetic rows, per cent; each row adds up to 100"
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart that a notebook shows, and that can be saved.

    An SVG made by the code that draws the report, so that a notebook and the report show the same, and neither needs a
    plotting library.  To draw something of your own, take the numbers from ``release.answer(...)``, a DataFrame.

    Parameters
    ----------
    title
        What it shows.
    chart
        The chart, for a page.
    note
        What stands below it.
    stamp
        A warning that stands above it, also in a saved file; none for what is made of a release.
    """

    title: str
    chart: str
    note: str = ""
    stamp: str = ""

    def __repr__(self) -> str:
        return f"{self.stamp + ': ' if self.stamp else ''}picture of {self.title}"

    def _repr_html_(self) -> str:
        """Return the picture for a notebook."""
        return f"<div>{self._repr_svg_()}</div>"

    def _repr_svg_(self) -> str:
        """Return the picture as an SVG document with its title, note and stamp."""
        found = _SIZE.search(self.chart)
        wide, tall = (float(part) for part in found.groups()) if found else (WIDTH, 0.0)
        stamp, note = (_lines(text, wide) for text in (self.stamp, self.note))
        top = 28 + (10 + LINE * len(stamp)) * bool(stamp)
        document = render(
            "picture.svg", width=wide + MARGIN, height=top + tall + LINE * len(note) + MARGIN, top=top, tall=tall,
            stamp=stamp, title=shortened(self.title, wide - MARGIN, 13.5), wide=wide, chart=self.chart, note=note,
        )  # fmt: skip
        return _NO_XML.sub("\ufffd", document)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the picture to an SVG file.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        try:
            Path(path).write_text(self._repr_svg_(), encoding="utf-8")
        except OSError as error:
            raise DataError(f"'{path}' cannot be written: {error.strerror}") from None


def picture_of(
    model: SyntheticModel, measurements: tuple[Measurements, ...], column: str, by: str | None = None
) -> Picture:
    """Return the picture of a column of a release, or of its shares within groups of another one."""
    if by is None:
        view = column_view(model, measurements, column)
        beyond = [f"{in_per_cent(view.beyond)} beyond"] if view.beyond else []
        note = " · ".join([*filter(None, [view.derived, view.summary]), *beyond, _what(view)])
        return Picture(title=column, chart=column_chart(view, _name(column)), note=note)
    if column == by:
        raise ParameterError("by must be another column")
    pair = pair_view(model, drawn_indices(model), column, by)
    return Picture(title=pair.title, chart=pair_chart(pair, _name(pair.title)), note=SHARED)


def _what(view: ColumnView) -> str:
    """Return what the bars of a column's chart are."""
    return NOTED if any(bar.low == bar.low for bar in view.numbers) else DRAWN  # not NaN


def _name(title: str) -> str:
    """Return a name for the text of a chart that is not that of another one in the same page."""
    return f"synthdp-{zlib.crc32(title.encode()):08x}"


def _lines(text: str, width: float) -> list[str]:
    """Return a text in lines of a width."""
    lines: list[str] = []
    for word in text.split():
        if lines and width_of(f"{lines[-1]} {word}") <= width - MARGIN:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def column_chart(view: ColumnView, name: str) -> str:
    """Return the chart of a column's view; ``name`` is that of its title in the page."""
    title = f"{view.name}: {_what(view)}"
    if view.ordered:
        return histogram(view.bars, view.ticks, title=title, name=name, logarithmic=view.is_logarithmic)
    return bars(view.bars, title=title, name=name)


def pair_chart(view: PairView, name: str) -> str:
    """Return the chart of a pair's view."""
    return heat_map(view.rows, view.columns, view.shares.tolist(), title=view.title, name=name)
