"""The report as one HTML page: no script, no network, light and dark, screen and paper, keyboard and phone."""

from __future__ import annotations

from typing import Any

from synthdp.errors import ParameterError
from synthdp.markup import render
from synthdp.privacy.loss import combined
from synthdp.release import Release
from synthdp.report.card import card_rows, privacy_card
from synthdp.report.charts import bars, heat_map, histogram, scale_legend
from synthdp.report.content import ColumnView, associations, column_views, expected_errors
from synthdp.sampling.synthetic_model import SyntheticModel

MOST_ASSOCIATED = 60
"""Columns in the heat map, the first ones, when there are more."""

STRONGEST = 10
"""Pairs of columns that are listed below the heat map."""

ORDERS = {1: "single columns", 2: "pairs of columns", 3: "triples of columns"}


def report_page(release: Release[Any], *, fingerprint: str, title: str | None = None) -> str:
    """Return the report of a release as HTML.

    Parameters
    ----------
    release
        Whose output is a synthetic model.
    fingerprint
        Its short name, see `storage.fingerprint`.
    title
        Of the page; default: a general one.

    Raises
    ------
    ParameterError
        If the release is not a synthetic table.
    """
    model = release.output
    if not isinstance(model, SyntheticModel):
        raise ParameterError(f"a release by {release.mechanism} is not a synthetic table: it has no report")
    views = column_views(model, release.measurements)
    return render(
        "report.html",
        title=title or "A synthetic table and its privacy card",
        facts=_facts(release, model, fingerprint),
        card=_card(release, fingerprint),
        columns=[(view, _chart(view, f"chart-{i}")) for i, view in enumerate(views)],
        pairs=_pairs(model),
        errors=[
            {"words": ORDERS[view.order], "distance": view.distance, "like_rows": view.like_rows}
            for view in sorted(expected_errors(model, release.measurements), key=lambda view: view.order)
        ],
        spend=_spend(release),
        rules=[constraint.in_words() for constraint in model.schema.constraints],
        citation=_citation(release, fingerprint),
    )


def card_page(release: Release[Any], *, fingerprint: str) -> str:
    """Return the privacy card of a release, and what was spent on what, as HTML."""
    return render("card.html", title="Privacy card", card=_card(release, fingerprint), spend=_spend(release))


def _facts(release: Release[Any], model: SyntheticModel, fingerprint: str) -> list[tuple[str, str]]:
    adjacency = release.receipt.adjacency
    return [
        ("Rows", f"{'' if adjacency.rows_are_public else 'about '}{model.rows:,}"),
        ("Columns", str(len(model.schema.outputs))),
        ("Promise", str(release.receipt.total)),
        ("Protects", str(adjacency).replace("add or remove ", "").replace("replace ", "")),
        ("Release", fingerprint),
    ]


def _card(release: Release[Any], fingerprint: str) -> list[tuple[str, list[str]]]:
    return card_rows(privacy_card(release, fingerprint=fingerprint))


def _chart(view: ColumnView, name: str) -> str:
    title = f"{view.name}: share of rows in per cent, with 95 % intervals"
    numbers = (view.labels, view.shares, view.lower, view.upper)
    if view.ordered:
        return histogram(*numbers, title=title, name=name, unit=" %", axis=view.name)
    return bars(*numbers, title=title, name=name, unit=" %")


def _pairs(model: SyntheticModel) -> dict[str, Any] | None:
    names, matrix = associations(model)
    if len(names) < 2:
        return None
    shown = names[:MOST_ASSOCIATED]
    pairs = [(matrix[i, j], names[j], names[i]) for i in range(len(names)) for j in range(i)]
    return {
        "columns": len(names),
        "shown": len(shown),
        "strongest": sorted(pairs, reverse=True)[:STRONGEST],
        "chart": heat_map(shown, matrix.tolist(), title="Association of each two columns in the release", name="heat"),
        "legend": scale_legend(name="legend"),
    }


def _spend(release: Release[Any]) -> list[tuple[str, list[str]]]:
    rows = []
    for items in release.receipt.groups():
        step = items[0].step if len(items) == 1 else f"{items[0].step.partition(':')[0]} ({len(items)} tables)"
        low, high = min(i.stddev for i in items), max(i.stddev for i in items)
        noise = f"{low:.4g}" if high - low < 1e-3 * high else f"{low:.4g} to {high:.4g}"
        sensitivity = f"{max(i.sensitivity for i in items):.4g}"
        loss = str(combined([item.loss for item in items]))
        rows.append((step, [items[0].mechanism, str(sum(i.answers for i in items)), sensitivity, noise, loss]))
    return rows


def _citation(release: Release[Any], fingerprint: str) -> str:
    versions = dict(release.receipt.versions)
    return (
        f"Differentially private synthetic table, release {fingerprint} ({release.receipt.total}; "
        f"{release.receipt.adjacency}), made with synthdp {versions.get('synthdp', '')}, mechanism: {release.mechanism}."
    )
