"""The report as one HTML page: no script, no network, light and dark, screen and paper, keyboard and phone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from synthdp.errors import ParameterError
from synthdp.privacy.loss import combined
from synthdp.release import Release
from synthdp.report.card import card_rows, privacy_card
from synthdp.report.content import ColumnView, ErrorView, associations, column_views, expected_errors
from synthdp.report.svg import bars, heat_map, histogram, scale_legend
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.constraints import Constraint, Forbidden, Implies, LessEqual

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What a browser may load for the page: nothing."""

MOST_ASSOCIATED = 60
"""Columns in the heat map, the first ones, when there are more."""


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
        If the release is no synthetic table.
    """
    model = release.output
    if not isinstance(model, SyntheticModel):
        raise ParameterError(f"a release by {release.mechanism} is no synthetic table: it has no report")
    title = title or "A synthetic table and its privacy card"
    columns = column_views(model, release.measurements)
    sections = [
        _overview(release, model, fingerprint, title),
        _section("card", "Privacy card", _card(release, fingerprint)),
        _section(
            "columns", "Columns", COLUMNS_NOTE + "".join(_column(view, i) for i, view in enumerate(columns)), "wide"
        ),
        _section("pairs", "Pairs of columns", _pairs(model)),
        _section("error", "How accurate it is", _errors(expected_errors(model, release.measurements))),
        _section("spend", "What was spent on what", _spend(release)),
    ]
    if model.schema.constraints:
        sections.append(_section("rules", "Rules that every row obeys", _rules(model.schema.constraints)))
    sections.append(_section("cite", "How to cite", _cite(release, fingerprint)))
    skip = '<a class="skip" href="#card">Skip to the privacy card</a>\n'
    return _html(title, f"{skip}<main>\n{''.join(sections)}</main>")


def card_page(release: Release[Any], *, fingerprint: str) -> str:
    """Return the privacy card of a release, and what was spent on what, as HTML."""
    card = _section("card", "Privacy card", _card(release, fingerprint))
    return _html("Privacy card", f"<main>\n{card}{_section('spend', 'What was spent on what', _spend(release))}</main>")


def _html(title: str, body: str) -> str:
    style = resources.files("synthdp.report").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title>\n<style>\n{style}</style></head>\n'
        f"<body>\n{body}\n</body></html>\n"
    )


COLUMNS_NOTE = (
    '<p class="note">Share of rows by level or cell, estimated from noisy counts. Lines and bands are 95 % intervals: they '
    "cover the noise that protects people, nothing else. Each chart has its numbers below it.</p>"
)


def _overview(release: Release[Any], model: SyntheticModel, fingerprint: str, title: str) -> str:
    facts = [
        ("Rows", f"about {model.rows:,}" if not release.receipt.adjacency.rows_are_public else f"{model.rows:,}"),
        ("Columns", str(len(model.schema))),
        ("Promise", str(release.loss)),
        ("Protects", str(release.receipt.adjacency).replace("add or remove ", "").replace("replace ", "")),
        ("Release", fingerprint),
    ]
    listed = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    nav = "".join(
        f'<a href="#{anchor}">{text}</a>'
        for anchor, text in (
            ("card", "Privacy card"), ("columns", "Columns"), ("pairs", "Pairs"), ("error", "Accuracy"), ("cite", "Cite"),
        )
    )  # fmt: skip
    return (
        f'<header><h1>{escape(title)}</h1><p class="lead">Everything on this page was computed from a differentially '
        "private release, not from the original rows: it may be published.</p>"
        f'<dl class="facts">{listed}</dl><nav aria-label="Sections">{nav}</nav></header>\n'
    )


def _card(release: Release[Any], fingerprint: str) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(title)}</th><td>{"<br>".join(escape(line) for line in lines)}</td></tr>'
        for title, lines in card_rows(privacy_card(release, fingerprint=fingerprint))
    )
    return f'<table class="card"><tbody>{rows}</tbody></table>'


def _column(view: ColumnView, number: int) -> str:
    name = f"chart-{number}"
    title = f"{view.name}: share of rows in per cent, with 95 % intervals"
    numbers = (view.labels, view.shares, view.lower, view.upper)
    if view.ordered:
        chart = histogram(*numbers, title=title, name=name, unit=" %", axis=view.name)
    else:
        chart = bars(*numbers, title=title, name=name, unit=" %")
    missing = ""
    if view.missing is not None:
        share, low, high = view.missing
        missing = f"; missing {share:.1f} %" + (f" ({low:.1f} to {high:.1f})" if math.isfinite(low + high) else "")
    rows = "".join(
        f'<tr><th scope="row">{escape(label)}</th><td>{v:.2f}</td><td>{_number(low)}</td><td>{_number(high)}</td></tr>'
        for label, v, low, high in zip(view.labels, view.shares, view.lower, view.upper, strict=True)
    )
    return (
        f'<figure class="column"><figcaption><h3>{escape(view.name)}</h3><p>{escape(view.kind)}<br>'
        f"{escape(view.summary + missing)}</p></figcaption>{chart}"
        f'<details><summary>Numbers</summary><div class="scroll" tabindex="0" role="region" aria-label="numbers of '
        f'{escape(view.name)}"><table><thead><tr><th scope="col">{"cell" if view.ordered else "level"}</th>'
        '<th scope="col">% of rows</th><th scope="col">from</th><th scope="col">to</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div></details></figure>"
    )


def _number(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "unknown"


def _pairs(model: SyntheticModel) -> str:
    names, matrix = associations(model)
    if len(names) < 2:
        return "<p>There is one column only.</p>"
    shown = names[:MOST_ASSOCIATED]
    left_out = f" Of {len(names)} columns the first {len(shown)} are shown." if len(names) > len(shown) else ""
    strongest = sorted(((matrix[i, j], names[j], names[i]) for i in range(len(names)) for j in range(i)), reverse=True)[
        :10
    ]
    rows = "".join(
        f'<tr><th scope="row">{escape(a)} and {escape(b)}</th><td>{value:.2f}</td></tr>' for value, a, b in strongest
    )
    chart = heat_map(shown, matrix.tolist(), title="Association of each two columns in the release", name="heat")
    return (
        f'<p class="note">How closely two columns go together in the release (Cramér\'s V): 0, not at all; 1, one says the '
        f"other. Numbers are grouped into a few cells each. A pair that the release did not measure shows what the measured "
        f"ones imply.{left_out}</p>"
        f'<figure class="heat-figure"><div class="scroll" tabindex="0" role="region" aria-label="heat map">{chart}</div>'
        f"{scale_legend(name='legend')}</figure>"
        '<details open><summary>The strongest pairs</summary><table><thead><tr><th scope="col">columns</th>'
        f'<th scope="col">association</th></tr></thead><tbody>{rows}</tbody></table></details>'
    )


def _errors(views: Sequence[ErrorView]) -> str:
    if not views:
        return "<p>The release keeps no noisy tables from which its error could be told.</p>"
    words = {1: "single columns", 2: "pairs of columns", 3: "triples of columns"}
    rows = "".join(
        f'<tr><th scope="row">{words[view.order]}</th><td>{view.distance:.3f}</td><td>{view.like_rows:,}</td></tr>'
        for view in views
    )
    best = max(views, key=lambda view: view.order)
    return (
        f"<p>Tables of {words[best.order]} from the release are about as accurate as those of a random sample of "
        f"<strong>{best.like_rows:,} rows</strong> of the real table would be, as far as noise, the fit and chance go, and "
        "relations that the release did not measure, taken to be as strong as its screening leaves room for.</p>"
        '<table><thead><tr><th scope="col">tables of</th><th scope="col">mean distance (total variation)</th>'
        f'<th scope="col">like a random sample of … rows</th></tr></thead><tbody>{rows}</tbody></table>'
    )


def _spend(release: Release[Any]) -> str:
    rows = []
    for items in release.receipt.groups():
        step = items[0].step if len(items) == 1 else f"{items[0].step.partition(':')[0]} ({len(items)} tables)"
        low, high = min(i.stddev for i in items), max(i.stddev for i in items)
        noise = f"{low:.4g}" if high - low < 1e-3 * high else f"{low:.4g} to {high:.4g}"
        sensitivity = f"{max(i.sensitivity for i in items):.4g}"
        loss = str(combined([item.loss for item in items]))
        cells = [items[0].mechanism, str(sum(i.answers for i in items)), sensitivity, noise, loss]
        rows.append(
            f'<tr><th scope="row">{escape(step)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        )
    heads = ("step", "noise", "numbers", "sensitivity", "standard deviation", "cost")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="spend">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _rules(constraints: Sequence[Constraint]) -> str:
    return f"<ul>{''.join(f'<li>{escape(_rule(constraint))}</li>' for constraint in constraints)}</ul>"


def _rule(constraint: Constraint) -> str:
    match constraint:
        case LessEqual(left, right):
            return f"{left} is at most {right}"
        case Forbidden(values):
            return f"never {_conditions(values)}"
        case Implies(when, then):
            return f"where {_conditions(when)}: {_conditions(then)}"


def _conditions(values: Mapping[str, Any]) -> str:
    return " and ".join(f"{name} is {' or '.join(map(_value, given))}" for name, given in values.items())


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"from {value[0]} to {value[1]}"
    return "missing" if value is None else str(value)


def _cite(release: Release[Any], fingerprint: str) -> str:
    versions = dict(release.receipt.versions)
    text = (
        f"Differentially private synthetic table, release {fingerprint} ({release.loss}; {release.receipt.adjacency}), "
        f"made with synthdp {versions.get('synthdp', '')}, mechanism: {release.mechanism}."
    )
    return (
        f"<blockquote>{escape(text)}</blockquote><p>Analyses of synthetic rows should say so, and use the intervals of the "
        "release (<code>release.answer</code>), not those of the rows: rows can be drawn without end, information "
        "cannot.</p>"
    )


def _section(anchor: str, title: str, body: str, kind: str = "") -> str:
    return f'<section id="{anchor}" class="{kind}"><h2>{title}</h2><div class="body">{body}</div></section>\n'
