"""The report of a series of releases as one HTML page: estimates over time with intervals, and the privacy cost."""

from __future__ import annotations

from collections.abc import Sequence

from synthdp.answers.over_time import OverTime
from synthdp.figures import precise_to
from synthdp.markup import render
from synthdp.pictures.over_time_chart import chart_over_time
from synthdp.privacy.receipt import Receipt
from synthdp.report.html_page import promise_of


def series_page(shown: Sequence[tuple[str, OverTime]], *, receipt: Receipt, title: str) -> str:
    """Return the report of a series of releases as an HTML page.

    Parameters
    ----------
    shown
        Names and time series of the shown counts, with one estimate a period.
    receipt
        Receipt of the whole series.
    title
        Title of the page.
    """
    charts = []
    for number, (name, one) in enumerate(shown):
        frame = one.to_frame(least=0.0)
        table = [
            {
                "name": row.period, "estimate": precise_to(row.estimate, row.standard_error),
                "lower": precise_to(row.lower, row.standard_error), "upper": precise_to(row.upper, row.standard_error),
            }
            for row in frame.itertuples()
        ]  # fmt: skip
        charts.append((name, chart_over_time(one, title=f"{name} over time", name=f"time-{number}"), table))
    return render(
        "series.html", title=title, promise=promise_of(receipt), loss=receipt.total, charts=charts, receipt=receipt
    )
