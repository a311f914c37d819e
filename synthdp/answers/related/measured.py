"""Questions about one attribute of persons, answered by its noisy table: unbiased, with an error that is arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthdp.answers.expressions import Node, comparisons_of, points_where, truth
from synthdp.answers.grouping import leaf_means, numbers_of
from synthdp.answers.questions import Count, Mean, Share, Sum
from synthdp.answers.related.asked import Asked
from synthdp.answers.related.known import Known
from synthdp.answers.related.terms import ROWS, Term, column_of
from synthdp.arrays import FloatArray
from synthdp.domain.grid import grid_of
from synthdp.domain.histories import Layout
from synthdp.measurements import Measurements
from synthdp.queries.related.person_tables import Kind, PersonTables
from synthdp.schema.schema import Schema


def by_noisy_table(
    layout: Layout, measurements: Sequence[Measurements], known: Known, asked: Asked
) -> tuple[float, float] | None:
    """Return answer and standard error of a question about one attribute of persons; ``None`` for any other.

    Within a cell values are taken as spread evenly, and the variance that this leaves is added.
    """
    question = asked.question
    if not isinstance(question, Count | Share | Sum | Mean) or question.by or question.weight is not None or asked.of:
        return None
    if isinstance(question, Count) and question.where is None:
        return known.total, known.total_stddev
    terms = {*asked.terms.values()}
    if len(terms) != 1:
        return None
    (term,) = terms
    if term.table != 0 or (term.child >= 0 and term.summary != ROWS):
        return None
    noisy = _noisy(layout, measurements, term)
    schema = layout.schema.tables[layout.schema.root]
    if noisy is None or (term.child < 0 and term.name not in schema):
        return None
    inside = _where(layout, term, question.where)
    match question:
        case Count():
            values = inside
        case Share():
            values = inside * _where(layout, term, question.condition)
        case _:
            numbers, there = numbers_of(column_of(layout, term))
            inside = inside * there
            values = inside * numbers
    below, above, squares = (_by_cell(layout, term, one) for one in (inside, values, values**2))
    counts, stddev = noisy
    held = np.maximum(counts, 0.0)
    if isinstance(question, Count | Sum):
        uneven = float(np.maximum(squares - above**2, 0.0) @ held)
        return float(above @ counts), float(np.hypot(stddev * np.linalg.norm(above), uneven**0.5))
    rows = max(float(below @ counts), 1.0)
    used = values[inside > 0]
    ratio = float(np.clip(above @ counts / rows, used.min(initial=0.0), used.max(initial=0.0)))
    centred = _by_cell(layout, term, (values - ratio * inside) ** 2)
    slope = (above - ratio * below) / rows
    uneven = float(np.maximum(centred - (above - ratio * below) ** 2, 0.0) @ held) / rows**2
    return ratio, float(np.hypot(stddev * np.linalg.norm(slope), uneven**0.5))


def _noisy(layout: Layout, measurements: Sequence[Measurements], term: Term) -> tuple[FloatArray, float] | None:
    """Return the noisy table of an attribute of persons, and the standard deviation of its cells."""
    for one in measurements:
        if not isinstance(one.queries, PersonTables):
            continue
        parts = one.queries.split(one.answers)
        for table, noisy, unit in zip(one.queries.tables, parts, one.queries.ones, strict=True):
            cells = layout.axis(0, term.name).size
            if table.kind is Kind.ONE and table.table == 0 and table.attribute == term.name and noisy.size == cells:
                return noisy.ravel(), float(one.stddev * one.queries.denominator / unit)
    return None


def _where(layout: Layout, term: Term, node: Node | None) -> FloatArray:
    """Return 1 for the grid points of a term at which a condition holds, else 0."""
    column = column_of(layout, term)
    if node is None:
        return np.ones(grid_of(column).releasable)
    names = {one.column for one in comparisons_of(node)}
    schema = Schema(dict.fromkeys(names, column))
    found = {one: points_where(one, schema) for one in comparisons_of(node)}
    return truth(node, found).astype(np.float64)


def _by_cell(layout: Layout, term: Term, values: FloatArray) -> FloatArray:
    """Return the mean of a function of grid points over each cell of the noisy table."""
    axis = layout.axis(0, term.name)
    if term.summary != ROWS:
        return leaf_means(axis, values)
    rows = layout.rows_of_count(term.child)
    possible = rows < len(values)
    possible[-1] = False  # the last cell never occurs
    return np.where(possible, values[np.minimum(rows, len(values) - 1)], 0.0)
