"""Questions about one attribute of persons, answered by its noisy table: unbiased, with a closed-form error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.answers.grouping import leaf_means, numbers_of
from synthdp.answers.leaves import FineBinEstimates, Histogram, effective_counts, gls_fine_bins, intraclass_correlation
from synthdp.answers.questions import Count, Mean, Share, Sum
from synthdp.answers.related.known import MeasuredDatabase, noisy_person_tables
from synthdp.answers.related.resolved import Asked
from synthdp.answers.related.terms import ROWS, Term, column_of, points_met
from synthdp.arrays import FloatArray
from synthdp.domain.axis import Axis
from synthdp.domain.histories import Layout
from synthdp.measurements import Measurements
from synthdp.queries.person_tables import Kind


def by_noisy_table(
    layout: Layout, measurements: Sequence[Measurements], known: MeasuredDatabase, asked: Asked
) -> tuple[float, float] | None:
    """Return the answer and standard error of a question about one attribute of persons; ``None`` for other questions.

    A condition that cuts a bin is answered from the parts of the bin, if these were measured.  Otherwise values inside
    the bin are taken to be as uneven as adjacent bins are, and this variance is added.
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
    noisy = _counted(measurements, term)
    schema = layout.schema.tables[layout.schema.root]
    if noisy is None or (term.child < 0 and term.name not in schema):
        return None
    inside = points_met(layout, term, question.where).astype(np.float64)
    match question:
        case Count():
            values = inside
        case Share():
            values = inside * points_met(layout, term, question.condition)
        case _:
            numbers, there = numbers_of(column_of(layout, term))
            inside = inside * there
            values = inside * numbers
    if isinstance(question, Count | Sum):
        means = noisy.means(layout, term, values)
        return float(means @ noisy.leaves.counts), noisy.error(layout, term, values)
    below, above = (noisy.means(layout, term, one) for one in (inside, values))
    rows = max(float(below @ noisy.leaves.counts), 1.0)
    used = values[inside > 0]
    ratio = float(np.clip(above @ noisy.leaves.counts / rows, used.min(initial=0.0), used.max(initial=0.0)))
    return ratio, noisy.error(layout, term, values - ratio * inside) / rows


@dataclass(frozen=True, slots=True, eq=False)
class _Counted:
    """Holds the counts of a person's attribute, combined from all its noisy tables by least squares.

    Parameters
    ----------
    axis
        The fine bins: standard bins, and parts of bins that were split.
    leaves
        Counts of the fine bins.
    """

    axis: Axis
    leaves: FineBinEstimates

    def means(self, layout: Layout, term: Term, values: FloatArray) -> FloatArray:
        """Return the mean of ``values``, (releasable,), over the grid points of each fine bin, (fine bins,).

        A fine bin of a number of child rows holds one number of rows, whose value is taken.
        """
        if term.summary != ROWS:
            return leaf_means(self.axis, values)
        rows = layout.rows_of_count(term.child)
        possible = rows < len(values)
        possible[-1] = False  # the last cell never occurs
        return np.where(possible, values[np.minimum(rows, len(values) - 1)], 0.0)

    def error(self, layout: Layout, term: Term, values: FloatArray) -> float:
        """Return the standard error of a function summed over persons; ``values`` holds it at each grid point.

        It includes noise and the unknown positions of persons inside fine bins.
        """
        means, squares = (self.means(layout, term, one) for one in (values, values**2))
        uneven = (
            intraclass_correlation(self.leaves, self.axis) if term.summary != ROWS and self.axis.grid.ordered else 0.0
        )
        inside = float(np.maximum(squares - means**2, 0.0) @ effective_counts(self.leaves.counts, uneven))
        return float(np.sqrt(float(self.leaves.variances(means[None])[0]) + inside))


def _counted(measurements: Sequence[Measurements], term: Term) -> _Counted | None:
    """Return the noisy counts of a person's attribute from all its noisy tables; ``None`` if no table has it.

    A question about this attribute alone then needs no model.  The counts are over the finest bins that the tables
    distinguish.
    """
    found: list[tuple[Axis, FloatArray, float]] = []
    for layout, table, noisy, stddev in noisy_person_tables(measurements):
        axis = layout.axis(0, term.name)
        own = (table.kind, table.table, table.attribute, noisy.size) == (Kind.ONE, 0, term.name, axis.size)
        if own and (not found or _is_of_parts(axis)):
            found.append((axis, noisy.ravel(), stddev))
    if not found:
        return None
    starts = np.unique(np.concatenate([axis.starts for axis, _, _ in found]))
    inside = [axis.cells_of(starts.astype(np.uint32)).astype(np.int64) for axis, _, _ in found]
    _, leaf = np.unique(np.column_stack(inside), axis=0, return_inverse=True)
    first = found[0][0]
    fine = Axis(first.name, first.column, starts, leaf.ravel())
    of_leaf = np.unique(fine.cells, return_index=True)[1]
    histograms = [Histogram(cell[of_leaf], counts, sd) for cell, (_, counts, sd) in zip(inside, found, strict=True)]
    return _Counted(fine, gls_fine_bins(histograms))


def _is_of_parts(axis: Axis) -> bool:
    """Return whether an axis divides bins into runs of adjacent grid points, and not into classes of round numbers.

    Classes of round numbers cut every bin, so a table of them is not combined with others.
    """
    return bool((np.bincount(axis.cells, minlength=axis.size)[:-1] == 1).all())
