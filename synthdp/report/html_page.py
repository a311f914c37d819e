"""The report of a release, and of a series, as one HTML page.

No script, no network, for light and dark screens, paper and phones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.answers.expected_errors import expected_errors
from synthdp.answers.relations import Relations, ShownRelation, associations
from synthdp.arrays import FloatArray, GridIndices
from synthdp.errors import ParameterError
from synthdp.figures import in_figures, in_per_cent, precise_to
from synthdp.markup import render
from synthdp.pictures.column_views import column_views, drawn_indices, pair_view
from synthdp.pictures.picture import column_chart, heat_map, scale_legend, triangle
from synthdp.privacy.neighbors import Neighbors
from synthdp.privacy.receipt import Receipt, loss_of, noise_of, step_of
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.release import Release
from synthdp.report.card import card_rows, privacy_card
from synthdp.report.dictionary import NOT_SAID, dictionary_rows
from synthdp.report.guidelines import ORDERS, PUBLISHER, About
from synthdp.report.verdicts import column_verdicts
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.tables.format import TableFormat

if TYPE_CHECKING:
    from synthdp.answers.over_time import OverTime

SHOWN_ROWS = 8
"""Synthetic rows that the page shows, as examples of what rows look like.  More would push the results down.  A
convention."""

MOST_COLUMNS = 60
"""Columns of the shown rows, at most.  More would make their table too wide to read.  A convention."""

ASSOCIATED = 12
"""Columns in the heat map, at most; with more columns the strongest pairs are shown.  More would make its names too
small to read.  A convention."""

STRONGEST = 10
"""Pairs of columns that the page lists, at most.  More would list ever weaker relations.  A convention."""

DRAWN = 6
"""Pairs of columns with a picture, at most.  More would make the page longer, with ever weaker relations.  A
convention."""

UNFIT = (
    "learning or deciding anything about one person: every row is made up, even a row that looks like somebody",
    "counts of small groups, rare events and largest values: the noise is as large as such counts",
    "relations of columns that this page does not list: where the synthetic rows show one, it is noise or chance",
    "standard errors and tests as if the rows were real: these ignore the noise; use release.analyse and release.answer",
)
"""Texts on uses for which a synthetic table is unfit."""

HEADS = ("meaning", "unit", "values", "missing", "known_from")
"""Fields of the data dictionary that the page shows, unless a field is empty or not stated for all columns."""

STAGES = ("columns", "accuracy", "pairs of columns")
"""Stages that the progress callback receives, in order."""


def report_page(
    release: Release[Any],
    *,
    fingerprint: str,
    title: str | None = None,
    target: str | None = None,
    about: About | None = None,
    on_progress: ProgressCallback = silent,
) -> str:
    """Return the report of a release as an HTML page.

    Parameters
    ----------
    release
        Release whose output is a synthetic model.
    fingerprint
        The release's short name, see `release_files.fingerprint`.
    title
        Title of the page; default: a general title.
    target
        A column whose relations are shown first.
    about
        The publisher's statements about the table.
    on_progress
        Called at the start of each stage.

    Raises
    ------
    ParameterError
        If the release is not a synthetic table, or has no such target.
    """
    model = release.output
    if not isinstance(model, SyntheticModel):
        raise ParameterError(
            f"a release by {release.mechanism} holds no synthetic table, which a report needs: query it in Python "
            "with its method answer()"
        )
    if target is not None and target not in model.schema.outputs:
        raise ParameterError(f"target ({target!r}) must be a column of the release: {', '.join(model.schema.outputs)}")

    def tell(stage: str) -> None:
        on_progress(Progress(stage=stage, done=STAGES.index(stage), total=len(STAGES)))

    tell("columns")
    views = column_views(model, release.measurements)
    charts = [(view, column_chart(view, f"chart-{i}")) for i, view in enumerate(views)]
    tell("accuracy")
    errors = sorted(expected_errors(model, release.measurements), key=lambda view: view.order)
    tell("pairs of columns")
    relations = Relations(model, release.measurements)
    indices = drawn_indices(model)
    names, matrix = associations(model, indices)
    listed = relations.listed(names, matrix)
    dictionary = _dictionary(model, about)
    return render(
        "report.html",
        title=title or "A synthetic table and its privacy card",
        published=_published(about),
        dictionary=dictionary,
        heads=[head for head in HEADS if any(row[head] not in ("", NOT_SAID) for row in dictionary)],
        verdicts=column_verdicts(relations.direct),
        relations=listed,
        unfit=UNFIT,
        promise=promise_of(release.receipt),
        loss=release.receipt.total,
        facts=_facts(release, model, fingerprint),
        table=_table(model),
        card=card_of(release, fingerprint),
        columns=charts,
        others=_others(model),
        pairs=_pairs(model, indices, names, matrix, listed, target),
        errors=[
            {"words": ORDERS[view.order], "distance": view.distance, "like_rows": view.like_rows} for view in errors
        ],
        spend=spend_of(release),
        rules=[constraint.in_words() for constraint in model.schema.constraints],
        citation=citation_of(release, fingerprint),
        per_cent=in_per_cent,
        not_said=NOT_SAID,
    )


def card_page(release: Release[Any], *, fingerprint: str) -> str:
    """Return the privacy card of a release and its privacy cost by step, as an HTML page."""
    return render("card.html", title="Privacy card", card=card_of(release, fingerprint), spend=spend_of(release))


def promise_of(receipt: Receipt) -> str:
    """Return the privacy guarantee as one sentence without a full stop: the best odds of a guess about a row or unit.

    A definition without such odds gives a general sentence.
    """
    unit = None if receipt.adjacency.unit is None else receipt.adjacency.quoted_unit
    if receipt.odds is None:
        return f"Differential privacy protects {'each row' if unit is None else f'each {unit}'} of the real table"
    who, were = ("a given row", "was") if unit is None else (f"the rows of a given {unit}", "were")
    added = receipt.adjacency.neighbors is Neighbors.ADD_REMOVE
    thought = (
        f"it equally likely that {who} {were} or {were} not in the real table"
        if added
        else f"two versions of {who} equally likely"
    )
    return (
        f"Someone who thinks {thought} can guess right with a probability of at most {receipt.odds:.1%} after seeing the "
        "release, whatever else they know about the real table"
    )


def _facts(release: Release[Any], model: SyntheticModel, fingerprint: str) -> list[str]:
    """Return the facts at the top of the page, a line each: rows, columns, mechanism and fingerprint."""
    public = release.receipt.adjacency.rows_are_public
    columns = len(model.schema.outputs)
    return [
        f"{'' if public else 'about '}{model.rows:,} row{'s' * (model.rows != 1)}",
        f"{columns:,} column{'s' * (columns != 1)}",
        f"mechanism: {release.mechanism}",
        f"fingerprint of the release: {fingerprint}",
    ]


def _table(model: SyntheticModel) -> dict[str, Any]:
    """Return a few synthetic rows for the page, which show what rows look like.

    Keys: "heads" (name, and whether numeric), "rows" (texts, ``None`` if missing), "columns" (number of all columns).
    """
    names = [name for name, _ in model.format.dtypes]
    form = TableFormat.default(model.schema).in_order(names)
    frame = model.sample(SHOWN_ROWS, random_state=0, format=form)
    shown = names[:MOST_COLUMNS]
    columns = [texts_of(frame[name].tolist(), frame[name].isna().tolist()) for name in shown]
    numeric = [model.schema.outputs[name].quantity == "number" for name in shown]
    heads = [{"name": name, "numeric": is_number} for name, is_number in zip(shown, numeric, strict=True)]
    return {"heads": heads, "rows": list(zip(*columns, strict=True)), "columns": len(names)}


def texts_of(values: Sequence[Any], missing: Sequence[bool]) -> list[str | None]:
    """Return values as short texts, ``None`` for missing values; floats have six digits, midnight is left out."""
    texts = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in values]
    shown = [
        in_figures(value).replace(",", "")
        if "e" in text and isinstance(value, float)
        else text.removesuffix(" 00:00:00")
        for value, text in zip(values, texts, strict=True)
    ]
    return [None if gone else text for text, gone in zip(shown, missing, strict=True)]


def _others(model: SyntheticModel) -> list[tuple[str, str]]:
    """Return (name, description) of each column without a picture: identifiers, whose labels mean nothing."""
    return [(name, column.in_words()) for name, column in model.schema.outputs.items() if column.names_rows]


def card_of(release: Release[Any], fingerprint: str) -> list[tuple[str, list[str]]]:
    """Return the privacy card of a release as (title, lines)."""
    return card_rows(privacy_card(release, fingerprint=fingerprint))


def _published(about: About | None) -> list[str]:
    """Return lines about publisher, intended use and contact; fields that the publisher left open are left out."""
    known = about or About()
    said = [("Published by", known.publisher), ("Meant for", known.use), ("Questions to", known.contact)]
    return [f"{what} {text}" for what, text in said if text != PUBLISHER]


def _dictionary(model: SyntheticModel, about: About | None) -> list[dict[str, str]]:
    """Return the data dictionary of the table, with the publisher's units and meanings."""
    said = about or About()
    return dictionary_rows(model.schema, units=said.units, meanings=said.meanings)


def _pairs(
    model: SyntheticModel,
    indices: Mapping[str, GridIndices],
    names: Sequence[str],
    matrix: FloatArray,
    listed: Sequence[ShownRelation],
    target: str | None,
) -> dict[str, Any] | None:
    """Return the page's data about pairs of columns, or ``None`` for a single column: list, heat map and pictures.

    Only the relations in ``listed`` are coloured in the heat map; pictures of the ``target`` column's pairs come first.
    Keys: "strongest" and "more" (listed, and how many are not), "chart" and "legend" (the heat map's SVG), "drawn"
    (pictures); "columns", "shown" (numbers of columns, all and in the heat map), "target" (whether there is one).
    """
    if len(names) < 2:
        return None
    first = names.index(target) if target in names else None
    places = [
        (one, names.index(one.columns[0]), names.index(one.columns[1])) for one in listed
    ]  # in the order of names
    matrix = _of_listed(matrix, [(i, j) for _, i, j in places])
    shown = _most_related(np.nan_to_num(matrix), first)
    drawn = sorted(places, key=lambda one: first not in one[1:])[:DRAWN]
    views = [pair_view(model, indices, *_within(model, names[i], names[j], target)) for _, i, j in drawn]
    title = "Association of each two columns in the release"
    return {
        "columns": len(names),
        "shown": len(shown),
        "target": first is not None,
        "strongest": [(one, names[i], names[j]) for one, i, j in places[:STRONGEST]],
        "more": max(0, len(places) - STRONGEST),
        "chart": triangle([names[i] for i in shown], matrix[np.ix_(shown, shown)].tolist(), title=title, name="heat"),
        "legend": scale_legend(name="legend"),
        "drawn": [
            (view, heat_map(view.rows, view.columns, view.shares.tolist(), title=view.title, name=f"pair-{i}"))
            for i, view in enumerate(views)
        ],
    }


def _of_listed(matrix: FloatArray, pairs: Sequence[tuple[int, int]]) -> FloatArray:
    """Return a (k, k) matrix of associations with ``nan``, which a heat map leaves blank, outside the given pairs."""
    found = np.full(matrix.shape, np.nan)
    for i, j in pairs:
        found[i, j] = found[j, i] = matrix[i, j]
    return found


def _most_related(matrix: FloatArray, first: int | None) -> list[int]:
    """Return the positions of the heat map's columns: the target, its most related columns, then the strongest pairs.

    The target and its most related columns take half of the places.  Without a target the strongest pairs take all.
    """
    d = len(matrix)
    chosen = [] if first is None else [first]
    if first is not None:
        related = sorted(set(range(d)) - {first}, key=lambda j: -matrix[first, j])
        chosen += related[: ASSOCIATED // 2 - 1]
    pairs = sorted(((i, j) for i in range(d) for j in range(i)), key=lambda pair: -matrix[pair])
    for pair in pairs:
        more = [j for j in sorted(pair) if j not in chosen]
        if len(chosen) + len(more) <= ASSOCIATED:
            chosen += more
    return sorted(chosen, key=lambda j: (j != first, j))


def _within(model: SyntheticModel, a: str, b: str, target: str | None) -> tuple[str, str]:
    """Return two columns as (shown, conditioning): the picture shows shares of the first within groups of the second.

    The first is the target, or else the column with fewer bins.
    """
    sizes = {name: model.domain.shape[model.domain.index(name)[0]] for name in (a, b)}
    shown = target if target in sizes else min(sizes, key=lambda name: sizes[name])
    return str(shown), b if shown == a else a


def spend_of(release: Release[Any]) -> dict[str, Any]:
    """Return the privacy cost as texts: "rows" by kind of step, and "sentences" about the total, for the page's table.

    A row is (step, [noise law, answers, noise, loss]).
    """
    rows = []
    for items in release.receipt.groups():
        answers = f"{sum(i.answers for i in items):,}"
        rows.append((step_of(items), [items[0].mechanism, answers, noise_of(items), loss_of(items)]))
    together = [f"All steps together cost {release.receipt.together}"] * bool(rows)
    return {"rows": rows, "sentences": [f"{text}." for text in (*together, *release.receipt.explained)]}


def citation_of(release: Release[Any], fingerprint: str) -> str:
    """Return the sentence by which to cite a release."""
    versions = dict(release.receipt.versions)
    return (
        f"Differentially private synthetic table, release {fingerprint} ({release.receipt.total}; "
        f"{release.receipt.adjacency}), made with synthdp {versions.get('synthdp', '')}, mechanism: {release.mechanism}."
    )


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
    from synthdp.pictures.line_charts import chart_over_time

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
