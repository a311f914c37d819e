"""Questions about one attribute of persons, answered by its noisy table: unbiased, with an error that is arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.answers.expressions import Node, comparisons_of, points_where, truth
from synthdp.answers.grouping import leaf_means, numbers_of
from synthdp.answers.leaves import LeafCounts
from synthdp.answers.questions import Count, Mean, Share, Sum
from synthdp.answers.related.asked import Asked
from synthdp.answers.related.known import Known
from synthdp.answers.related.terms import ROWS, Term, column_of
from synthdp.answers.uneven import clumped, unevenness
from synthdp.arrays import FloatArray
from synthdp.domain.axis import Axis
from synthdp.domain.grid import grid_of
from synthdp.domain.histories import Layout
from synthdp.measurements import Measurements
from synthdp.queries.related.person_tables import Kind, PersonTables
from synthdp.schema.schema import Schema

_SAME = 1e-12
"""Variance of a function within a cell below which it is the same all over it (a tolerance)."""


def by_noisy_table(
    layout: Layout, measurements: Sequence[Measurements], known: Known, asked: Asked
) -> tuple[float, float] | None:
    """Return answer and standard error of a question about one attribute of persons; ``None`` for any other.

    A condition that cuts a cell is answered by the parts that it was split into, where it was.  Within a cell that was not,
    values are taken as spread as unevenly as neighbouring cells are, and the variance that this leaves is added.
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
    levels = _levels(layout, measurements, term)
    schema = layout.schema.tables[layout.schema.root]
    if not levels or (term.child < 0 and term.name not in schema):
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
    cells = _cells(layout, term, levels, inside, values)
    if isinstance(question, Count | Sum):
        uneven = float(np.maximum(cells.squares - cells.above**2, 0.0) @ cells.held)
        return float(cells.above @ cells.counts), float(
            np.hypot(np.linalg.norm(cells.stddev * cells.above), uneven**0.5)
        )
    rows = max(float(cells.below @ cells.counts), 1.0)
    used = values[inside > 0]
    ratio = float(np.clip(cells.above @ cells.counts / rows, used.min(initial=0.0), used.max(initial=0.0)))
    centred = _cells(layout, term, levels, inside, values - ratio * inside)
    slope = centred.above / rows
    uneven = float(np.maximum(centred.squares - centred.above**2, 0.0) @ centred.held) / rows**2
    return ratio, float(np.hypot(np.linalg.norm(centred.stddev * slope), uneven**0.5))


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """One noisy table of an attribute: of its standard cells, or of the parts of those that were split.

    Parameters
    ----------
    axis
        The cells; of parts the last one is all the rest.
    counts, stddev
        (cells,) noisy counts of persons, and their noise.
    uneven
        How unevenly the rows of a cell may lie, see `unevenness`.
    """

    axis: Axis
    counts: FloatArray
    stddev: float
    uneven: float


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """The cells of all levels that a question is answered by, each with the means of what is asked over it, (k,) each."""

    counts: FloatArray
    stddev: FloatArray
    held: FloatArray
    below: FloatArray
    above: FloatArray
    squares: FloatArray


def _levels(layout: Layout, measurements: Sequence[Measurements], term: Term) -> list[_Level]:
    """Return the noisy tables of an attribute of persons, that of its standard cells first."""
    found: list[_Level] = []
    for one in measurements:
        queries = one.queries
        if not isinstance(queries, PersonTables):
            continue
        for table, noisy, unit in zip(queries.tables, queries.split(one.answers), queries.ones, strict=True):
            axis = queries.layout.axis(0, term.name)
            if (table.kind, table.table, table.attribute, noisy.size) != (Kind.ONE, 0, term.name, axis.size):
                continue
            if found and not _is_of_parts(axis):
                continue
            stddev = float(one.stddev * queries.denominator / unit)
            leaves = LeafCounts(noisy.ravel(), np.full(noisy.size, stddev**2))
            uneven = unevenness(leaves, axis) if term.summary != ROWS and axis.grid.ordered else 0.0
            found.append(_Level(axis, noisy.ravel(), stddev, uneven))
    return found


def _is_of_parts(axis: Axis) -> bool:
    """Whether all cells but the last are runs of neighbours, as parts of cells are; classes of round numbers are not."""
    return bool((np.bincount(axis.cells, minlength=axis.size)[:-1] == 1).all())


def _cells(layout: Layout, term: Term, levels: Sequence[_Level], inside: FloatArray, values: FloatArray) -> _Cells:
    """Return the cells that answer a question: parts, where a condition cuts a cell that was split.

    Parameters
    ----------
    inside, values
        (releasable grid points,) whether each counts, and what it adds.
    """
    parts = []
    open_points = np.ones(len(inside), np.bool_)
    for number, level in enumerate(levels):
        below, above, squares = (_by_cell(layout, term, level.axis, one) for one in (inside, values, values**2))
        cut = (squares - above**2 > _SAME) | (below - below**2 > _SAME)
        used = np.ones(len(below), np.bool_)
        if term.summary != ROWS:
            cell = level.axis.cells_of(np.arange(len(inside), dtype=np.uint32)).astype(np.int64)
            used = np.bincount(cell, open_points, level.axis.size) > 0
            if number:
                used[-1] = False
            if number + 1 < len(levels):
                finer = levels[number + 1].axis
                split = finer.cells_of(np.arange(len(inside), dtype=np.uint32)) != finer.size - 1
                open_points &= split & cut[cell] & used[cell]
                used &= np.bincount(cell, open_points, level.axis.size) == 0
        held = clumped(level.counts, level.uneven)
        stddev = np.full(len(used), level.stddev)
        parts.append([one[used] for one in (level.counts, stddev, held, below, above, squares)])
        if term.summary == ROWS or not open_points.any() or number + 1 == len(levels):
            break
    return _Cells(*(np.concatenate(one) for one in zip(*parts, strict=True)))


def _where(layout: Layout, term: Term, node: Node | None) -> FloatArray:
    """Return 1 for the grid points of a term at which a condition holds, else 0."""
    column = column_of(layout, term)
    if node is None:
        return np.ones(grid_of(column).releasable)
    names = {one.column for one in comparisons_of(node)}
    schema = Schema(dict.fromkeys(names, column))
    found = {one: points_where(one, schema) for one in comparisons_of(node)}
    return truth(node, found).astype(np.float64)


def _by_cell(layout: Layout, term: Term, axis: Axis, values: FloatArray) -> FloatArray:
    """Return the mean of a function of grid points over each cell of a noisy table."""
    if term.summary != ROWS:
        return leaf_means(axis, values)
    rows = layout.rows_of_count(term.child)
    possible = rows < len(values)
    possible[-1] = False  # the last cell never occurs
    return np.where(possible, values[np.minimum(rows, len(values) - 1)], 0.0)
