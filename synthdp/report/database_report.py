"""The report of a release of several tables as one HTML page: a part for each table, and a part for each relation.

It is made from the release alone: from synthetic persons and from the noisy marginals.
Significant relations between columns of several tables come from the noisy person marginals alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from synthdp.answers.related.known import noisy_person_tables
from synthdp.answers.related.unfit import unusual_persons
from synthdp.answers.relations import LEAST_ASSOCIATION, centred, cramers_v, deviation
from synthdp.arrays import AnyArray, FloatArray, IntArray
from synthdp.domain.derive import derive
from synthdp.domain.encoder import Numbers, RawColumn, rows_of
from synthdp.domain.histories import STATE
from synthdp.figures import in_figures, in_per_cent
from synthdp.markup import render
from synthdp.pictures.column_views import PairView, computed_view, grouped, pair_of_values
from synthdp.pictures.picture import column_chart, heat_map
from synthdp.pictures.view import ColumnView
from synthdp.queries.person_tables import Kind, PersonTable
from synthdp.randomness import generator
from synthdp.release import Release
from synthdp.report.html_page import SHOWN_ROWS, card_of, citation_of, promise_of, spend_of, texts_of
from synthdp.sampling.database_model import DatabaseModel, DrawnRows, outer_schema
from synthdp.schema.columns import Column, Integer
from synthdp.schema.relation import Relation
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat

PERSONS = 10_000
"""Synthetic persons behind the pictures and examples of the page.  More would show rarer values, and take longer.  A
convention."""

DRAWN = 3
"""Pictures of pairs of columns for each kind of pair in each relation, at most.  More would make the page of many
tables very long.  A convention."""

MEAN_ABS = 0.8
"""Mean absolute value of a standard normal variable, rounded, which turns the stddev of noise into its expected size.
Derived: sqrt(2 / pi)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePart:
    """The page's data about one table.

    Parameters
    ----------
    name, about
        Name of the table, and a sentence that describes its rows.
    heads, rows
        Name of each column and whether it holds numbers, and a few synthetic rows as texts.
    columns
        Picture of each column, its chart as SVG, and a phrase about its noise.
    """

    name: str
    about: str
    heads: Sequence[Mapping[str, Any]]
    rows: Sequence[Sequence[str | None]]
    columns: Sequence[tuple[ColumnView, str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationPart:
    """The page's data about one relation.

    Parameters
    ----------
    name, about
        Names of the two tables, and lines about the relation.
    view, chart
        Histogram of the rows of a parent row, and its chart as SVG.
    above, before
        Related columns of parent and child row, and of a row and its previous row (or any sibling row without an
        order): the strongest pairs with Cramér's V, and pictures.
    ordered
        Whether the rows of a parent row have an order.
    """

    name: str
    about: Sequence[str]
    view: ColumnView
    chart: str
    above: tuple[Sequence[tuple[float, str]], Sequence[tuple[PairView, str]]]
    before: tuple[Sequence[tuple[float, str]], Sequence[tuple[PairView, str]]]
    ordered: bool


def database_page(release: Release[DatabaseModel], *, fingerprint: str, title: str | None = None) -> str:
    """Return the report of a release of several tables as an HTML page.

    Parameters
    ----------
    release
        Release whose output is a `DatabaseModel`.
    fingerprint
        The release's short name, see `release_files.fingerprint`.
    title
        Title of the page; default: a general title.
    """
    model = release.output
    drawn = model.drawn_rows(PERSONS, generator(0))  # a fixed seed: the page of a release is always the same
    noise = _noise(release)
    tables = [_table(model, drawn, name, noise) for name in model.schema.tables]
    clear = clear_pairs(release)
    relations = [_relation(model, drawn, one, number, clear) for number, one in enumerate(model.schema.relations)]
    public = release.receipt.adjacency.rows_are_public
    return render(
        "database.html",
        title=title or "Synthetic tables and their privacy card",
        promise=promise_of(release.receipt),
        loss=release.receipt.total,
        facts=[
            f"{'' if public else 'about '}{model.rows:,} rows of {model.schema.root}",
            f"{len(model.schema.tables)} tables",
            f"mechanism: {release.mechanism}",
            f"fingerprint of the release: {fingerprint}",
        ],
        tables=tables,
        relations=relations,
        unusual=unusual_persons(release.output.layout, release.measurements),
        rules=list(model.schema.obeyed),
        card=card_of(release, fingerprint),
        spend=spend_of(release),
        citation=citation_of(release, fingerprint),
        per_cent=in_per_cent,
    )


def _table(model: DatabaseModel, drawn: DrawnRows, name: str, noise: Mapping[tuple[str, str], float]) -> TablePart:
    """Return the page's part about one table: its first rows, the pictures of its columns, and their noise."""
    outer = outer_schema(model.schema, name)
    raw = drawn.columns[name]
    shown = [column for column, _ in model.formats[name].dtypes]
    form = TableFormat.default(outer).in_order(shown)
    few = {column: rows_of(one, np.arange(min(SHOWN_ROWS, drawn.rows(name)))) for column, one in raw.items()}
    frame = form.build(outer, few)
    texts = [texts_of(frame[column].tolist(), frame[column].isna().tolist()) for column in shown]
    values = _with_derived(outer, raw)
    views = [
        _column(outer, column, values[column], noise.get((name, column)), f"chart-{name}-{i}")
        for i, column in enumerate(shown)
        if not outer.outputs[column].names_rows
    ]
    relation = model.schema.relation_to(name)
    about = (
        "One row is one person: with all rows of all tables, the unit of privacy."
        if relation is None
        else f"Rows of {relation.parent}, at most {relation.at_most} of each"
        + (f", in the order of {relation.order}." if relation.order is not None else ", in no order.")
    )
    return TablePart(
        name=name, about=about, rows=list(zip(*texts, strict=True)), columns=views,
        heads=[{"name": one, "numeric": outer.outputs[one].quantity == "number"} for one in shown],
    )  # fmt: skip


def _column(outer: Schema, name: str, raw: RawColumn, noise: float | None, anchor: str) -> tuple[ColumnView, str, str]:
    """Return the picture of one column, its chart as SVG, and a phrase about its noise.

    ``outer`` is the `outer_schema` of the column's table, and ``raw`` the column's synthetic values.  ``noise`` is the
    distance from `_noise`, ``None`` for a computed column.  ``anchor`` is the chart's id on the page.
    """
    column = outer.outputs[name]
    view = replace(computed_view(outer, name, raw), kind=column.in_words(), source=column.source)
    said = "computed from other columns" if noise is None else f"noise alone moves it by about {in_per_cent(noise)}"
    return view, column_chart(view, anchor), said


def _with_derived(outer: Schema, raw: Mapping[str, RawColumn]) -> dict[str, RawColumn]:
    """Return raw columns by name, together with the columns that the schema derives from them."""
    found = dict(raw)
    for rule in outer.derived.values():
        found[rule.column] = derive(outer, rule, found)
    return found


def _relation(
    model: DatabaseModel, drawn: DrawnRows, relation: Relation, number: int, clear: frozenset[Key]
) -> RelationPart:
    """Return the page's part about one relation: rows per parent row, and the related columns across it."""
    child, parent = relation.child, relation.parent
    above = drawn.parents[child]
    many = np.bincount(above, minlength=drawn.rows(parent))
    counted = Schema({"rows": Integer(0, max(relation.at_most, 1))})
    view = replace(
        computed_view(counted, "rows", Numbers(many)), name=f"rows of {child}", kind=f"rows of one row of {parent}"
    )
    schemas = {name: outer_schema(model.schema, name) for name in (parent, child)}
    raw = {name: _with_derived(schemas[name], drawn.columns[name]) for name in (parent, child)}
    pairs = [
        (f"{parent}.{a}", f"{child}.{b}", (schemas[parent].outputs[a], rows_of(raw[parent][a], above)),
         (schemas[child].outputs[b], raw[child][b]))
        for a, b in itertools.product(_told(schemas[parent]), _told(schemas[child]))
        if (parent, a, child, b) in clear
    ]  # fmt: skip
    return RelationPart(
        name=f"{parent} and {child}", about=_about(relation, many), view=view,
        chart=column_chart(view, f"rows-{number}"), above=_strongest(pairs, f"above-{number}"),
        before=_strongest(_steps(relation, schemas[child], raw[child], above, clear), f"before-{number}"),
        ordered=relation.order is not None,
    )  # fmt: skip


_Pair = tuple[str, str, tuple[Column, RawColumn], tuple[Column, RawColumn]]
"""Names of two columns, then each column with its raw values, row by row aligned."""


def _steps(
    relation: Relation, schema: Schema, raw: Mapping[str, RawColumn], above: IntArray, clear: frozenset[Key]
) -> list[_Pair]:
    """Return each column paired with itself in the previous row of the same parent, if the relation is significant.

    Without an order of rows, the rows come shuffled, so that the previous row is any other row.
    """
    later = np.flatnonzero(np.diff(above) == 0) + 1 if len(above) else np.zeros(0, np.int64)
    said = "in another row" if relation.order is None else "before"
    return [
        (f"{name} {said}", name, (schema.outputs[name], rows_of(raw[name], later - 1)),
         (schema.outputs[name], rows_of(raw[name], later)))
        for name in _told(schema)
        if (relation.child, name, relation.child, name) in clear
    ]  # fmt: skip


def _strongest(pairs: Sequence[_Pair], anchor: str) -> tuple[list[tuple[float, str]], list[tuple[PairView, str]]]:
    """Return (Cramér's V, names) of the strongest pairs, and pictures of the pairs that are strong enough to see.

    Twice `DRAWN` pairs are listed, at most; pairs without rows are left out.  The identifiers of the pictures in the
    page begin with ``anchor``.
    """
    found = []
    for first, second, a, b in pairs:
        if not a[1].rows:
            continue
        codes = [grouped(*one)[0] for one in (a, b)]
        kept = (codes[0] >= 0) & (codes[1] >= 0)
        shape = [int(one.max(initial=0)) + 1 for one in codes]
        table = np.bincount(codes[0][kept] * shape[1] + codes[1][kept], minlength=shape[0] * shape[1]).reshape(shape)
        found.append((cramers_v(table), first, second, a, b))
    found.sort(key=lambda one: -one[0])
    views = [
        pair_of_values({first: a, second: b}, second, first)
        for value, first, second, a, b in found[:DRAWN]
        if value >= LEAST_ASSOCIATION
    ]
    drawn = [
        (view, heat_map(view.rows, view.columns, view.shares.tolist(), title=view.title, name=f"{anchor}-{i}"))
        for i, view in enumerate(views)
    ]
    return [(value, f"{first} and {second}") for value, first, second, _, _ in found[: 2 * DRAWN]], drawn


def _told(schema: Schema) -> list[str]:
    """Return the names of the columns that the page shows: all columns but identifiers."""
    return [name for name, column in schema.outputs.items() if not column.names_rows]


def _about(relation: Relation, many: AnyArray) -> list[str]:
    """Return lines about one relation: key, most rows of a parent row, order, mean number, parent rows with none.

    ``many`` holds each synthetic parent row's number of rows.
    """
    lines = [
        f"joined by {' and '.join(relation.keys)}",
        f"at most {relation.at_most} rows of {relation.child} for each row of {relation.parent}",
    ]
    if relation.order is not None:
        lines.append(f"in the order of {relation.order}" + (", each at most once" if relation.unique else ""))
    none = float(np.mean(many == 0)) if len(many) else 1.0
    mean = float(many.mean()) if len(many) else 0.0
    return [*lines, f"{in_figures(mean, digits=3)} rows on average", f"{in_per_cent(100 * none)} have none"]


def _noise(release: Release[DatabaseModel]) -> dict[tuple[str, str], float]:
    """Return the expected total variation distance, in per cent, that noise alone causes in each column's counts.

    The key is (table, column).  The distance is an upper bound: only the first table of a column counts, over its own
    bins, and later tables lower the error.
    """
    layout = release.output.layout
    found: dict[tuple[str, str], float] = {}
    for _, table, counts, stddev in noisy_person_tables(release.measurements):
        if table.kind is Kind.ONE:
            total = max(float(counts.sum()), stddev)
            moved = min(1.0, 0.5 * counts.size * MEAN_ABS * stddev / total)
            found.setdefault((layout.schema.names[table.table], table.attribute), 100 * moved)
    return found


Key = tuple[str, str, str, str]
"""Table and column of the parent row or of the other row, then table and column of the row."""

SAME = (Kind.STEP, Kind.BEFORE, Kind.SIBLING, Kind.ENTRY)
"""Kinds of person marginals that count pairs of rows of one table, in which relations between these rows are looked
for."""


def clear_pairs(release: Release[DatabaseModel]) -> frozenset[Key]:
    """Return the pairs of columns with a significant relation, beyond noise and chance, as (table, column) twice.

    The page shows only these pairs.  First is the column of the parent row, or of the other row of the table; second
    the column of the row itself.  A person counts at most once in each marginal, so a test for that number of
    independent rows is conservative.
    """
    measured = [one[1:] for one in noisy_person_tables(release.measurements)]
    names = release.output.layout.schema.names
    rows = {(one.table, one.attribute): counts.sum(axis=0) for one, counts, _ in measured if one.kind is Kind.ONE}
    found = set()
    for one, counts, stddev in measured:
        if one.attribute == STATE:
            continue
        child = names[one.table]
        if one.kind in (Kind.STAY, Kind.ALIKE):
            if _more_alike(counts.ravel(), rows.get((one.table, one.attribute)), stddev):
                found.add((child, one.attribute, child, one.attribute))
        elif (one.kind is Kind.PARENT or one.kind in SAME) and _stands_out(one, counts, stddev, len(measured)):
            above = names[one.above] if one.kind is Kind.PARENT else child
            found.add((above, one.other, child, one.attribute))
    return frozenset(found)


def _stands_out(one: PersonTable, counts: FloatArray, stddev: float, tests: int) -> bool:
    """Return whether a marginal of two columns differs significantly from independence.

    The significance is corrected for ``tests`` simultaneous tests.  A marginal with one bin or without rows does not.
    ``stddev`` is the noise of one count.
    """
    if min(counts.shape) < 2:
        return False
    counts = (counts + counts.T) / 2 if one.symmetric else counts  # of two rows in no order
    margins = [np.maximum(counts.sum(axis=axis), 0.0) for axis in (1, 0)]
    if min(float(margin.sum()) for margin in margins) <= 0:
        return False
    p, q = (margin / margin.sum() for margin in margins)
    total = max(float(counts.sum()), 1.0)
    return deviation(centred(counts), stddev**2, (p, q), (math.inf, math.inf), np.outer(p, q), total).stands_out(tests)


SURE = 5.0
"""Standard deviations by which the count of equal values must exceed chance to be significant.  The limit is high
because many columns are tested.  Less would report chance; more overlooks columns that repeat a little.  A tolerance.
"""


def _more_alike(same: FloatArray, rows: FloatArray | None, stddev: float) -> bool:
    """Return whether two rows have the same value significantly more often than two rows drawn at random.

    Without the counts of single rows, any significant count of equal values is enough.  ``same`` and ``rows`` (bins,)
    count pairs of equal values and single rows; ``stddev`` is the noise of one count.
    """
    if rows is None or len(rows) != len(same):
        return float(same.sum()) > SURE * stddev * math.sqrt(len(same))
    total = max(float(rows.sum()), 1.0)
    shares = np.maximum(rows, 0.0) / max(float(np.maximum(rows, 0.0).sum()), 1e-300)
    return float(same.sum()) - total * float(shares @ shares) > SURE * math.sqrt(len(same) * stddev**2 + total)
