"""Counts, shares, sums, means and correlations answered from noisy sums alone, with exact standard errors.

Measured statistics (a table, parities, monomials) are noisy numbers with independent noise; they determine the table of
some columns linearly.  A question is a linear function of that table, or a ratio of two such functions.  The correlation
of two columns is a weighted sum of the noisy counts of their table.  A fit makes strong relations weaker where the noise in
a cell is about as large as the rows there; the sum over all cells has much less noise, and is not weakened.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from synthdp.answers.answers import MEASURED, NORMAL, Answers, with_intervals
from synthdp.answers.direct import GLSEstimates
from synthdp.answers.expressions import Node, columns_of, comparisons_of, points_where, truth
from synthdp.answers.grouping import QuestionBinning, groups_of, numbers_of
from synthdp.answers.questions import Count, Marginal, Mean, Share, Sum
from synthdp.arrays import AnyArray, BoolArray, FloatArray
from synthdp.domain.axis import Axis
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements
from synthdp.queries.products import ProductSums, TellsTables
from synthdp.schema.schema import Schema

MOST_NUMBERS = 2**24
"""Most entries (answers times cells) of one question's weight matrix.  A safety limit: 128 MB."""

EXACT = 1e-6
"""Largest error of a least-squares fit of a question's weights by measured functions at which the question is answered.
A tolerance."""


@dataclass(frozen=True, slots=True, eq=False)
class NoisySums:
    """Holds the noisy answers of a release without a model, from which tables of its columns are computed.

    Parameters
    ----------
    schema
        The columns that questions may name.
    measurements
        The noisy answers.
    row_count
        The number of rows, and the stddev of its error.
    """

    schema: Schema
    measurements: tuple[Measurements, ...]
    row_count: tuple[float, float]

    def sums_of(self, names: Sequence[str]) -> ProductSums:
        """Return the noisy table of some columns from the measurement with the least noise.

        Raises
        ------
        ParameterError
            If no measurement covers these columns together.
        """
        known = [
            sums
            for measured in self.measurements
            if isinstance(measured.queries, TellsTables)
            and (sums := measured.queries.sums_of(names, measured.answers, measured.stddev, rows=self.row_count))
            is not None
        ]
        if not known:
            if len(names) > 1:
                raise ParameterError(
                    f"columns {', '.join(names)} were not measured together: ask about fewer columns at once"
                )
            raise ParameterError(f"no marginal of column {names[0]!r} was measured: ask about other columns")
        return min(known, key=lambda sums: sums.noise)


def answered(source: NoisySums, question: object) -> Answers:
    """Return the answer to a count, share, sum, mean or marginal from noisy sums alone, with exact standard errors.

    A sum or mean of a column released in bins uses the middle of each bin; half of the widest bin bounds the bias.

    Raises
    ------
    ParameterError
        If the question is of another kind, or is no function of the measured statistics.
    """
    match question:
        case Marginal():
            return _counts(source, question.columns, None, dict(question.bins))
        case Count(None, (), None):
            total, stddev = source.row_count
            return with_intervals({}, np.array([total]), np.array([stddev]), [MEASURED], lowest=0.0)
        case Count(weight=None):
            return _counts(source, question.by, question.where, {})
        case Share(weight=None) | Sum(weight=None) | Mean(weight=None):
            return _ratio_or_sum(source, question)
    raise ParameterError(
        "this release holds no synthetic table, so it answers only count, share, sum, mean and marginal, without "
        "weight: for other questions, release a synthetic table"
    )


def missing_rows(sums: ProductSums, rows: float) -> float:
    """Return the number of rows out of the column's domain, which a one-column table does not count.

    It is the number of rows minus the sum of the noisy table.
    """
    basis = _Basis.of(sums.features[0], sums.axes[0])
    counted = basis.solved[sums.axes[0].releasable].sum(axis=0) @ sums.values
    return rows - float(counted)


class _Asked(NamedTuple):
    """Holds a question with its columns, groups, labels and condition resolved to noisy sums."""

    sums: ProductSums
    names: tuple[str, ...]
    labels: dict[str, list[Any]]
    groups: tuple[FloatArray, ...]
    """For each column (groups_j, cells_j) masks; a column without grouping has one group of all cells."""
    inside: FloatArray | None
    """(cells_1, ..., cells_d) 1 for cells that meet the condition, else 0; ``None`` without a condition."""


def _asked(
    source: NoisySums, by: Sequence[str], where: Node | None, bins: dict[str, Any], *, more: Sequence[str] = ()
) -> _Asked:
    """Return a question resolved to noisy sums, with its groups, labels and condition.

    ``more`` names its columns outside ``by`` and ``where``, such as the column of a sum.  Raise ParameterError if no
    measurement covers its columns.
    """
    names = tuple(dict.fromkeys([*by, *sorted(columns_of(where) if where else ()), *more]))
    for name in names:
        if name not in source.schema.outputs:
            raise ParameterError(f"there is no column {name!r}; this release has: {', '.join(source.schema.outputs)}")
    sums = source.sums_of(names)
    groups, labels = [], []
    for name, axis in zip(names, sums.axes, strict=True):
        if name not in by:
            groups.append(np.ones((1, axis.size)))
            continue
        of_point, named = groups_of(axis.column, axis, bins.get(name))
        of_cell = _of_cells(axis, of_point)
        groups.append((of_cell == np.arange(len(named))[:, None]).astype(np.float64))
        labels.append(list(named))
    cells = itertools.product(*labels)
    shown = {name: list(of_name) for name, of_name in zip(by, zip(*cells, strict=True), strict=True)} if labels else {}
    return _Asked(sums, names, shown, tuple(groups), None if where is None else _inside(source, sums, names, where))


def _counts(source: NoisySums, by: Sequence[str], where: Node | None, bins: dict[str, Any]) -> Answers:
    """Return the answer to a count or marginal, with error bars from noise alone."""
    asked = _asked(source, by, where, bins)
    estimate, stddev = _linear(asked, asked.inside)
    return with_intervals(asked.labels, estimate, stddev, [MEASURED] * len(estimate), lowest=0.0)


def _ratio_or_sum(source: NoisySums, question: Share | Sum | Mean) -> Answers:
    """Return the answer to a share, sum or mean; the error of a ratio is of first order."""
    if isinstance(question, Share):
        more: tuple[str, ...] = tuple(sorted(columns_of(question.condition)))
        asked = _asked(source, question.by, question.where, {}, more=more)
        values, there, half = _inside(source, asked.sums, asked.names, question.condition), np.ones(()), 0.0
        column = None
    else:
        column = source.schema.outputs.get(question.column)
        if column is None:
            raise ParameterError(
                f"there is no column {question.column!r}; this release has: {', '.join(source.schema.outputs)}"
            )
        if column.quantity == "label" or column.temporal:
            what = "sum" if isinstance(question, Sum) else "mean"
            raise ParameterError(f"column {question.column!r} must hold numbers to have a {what}: name another column")
        asked = _asked(source, question.by, question.where, {}, more=(question.column,))
        place = asked.names.index(question.column)
        middle, there, half = _numbers(asked.sums.axes[place])
        shape = [-1 if i == place else 1 for i in range(len(asked.names))]
        values, there = middle.reshape(shape), there.reshape(shape)
    inside = there if asked.inside is None else asked.inside * there
    inside = np.broadcast_to(inside, [axis.size for axis in asked.sums.axes])
    numerator, noise = _linear(asked, inside * values)
    denominator, _ = _linear(asked, inside)
    basis = [MEASURED] * len(numerator)
    if isinstance(question, Sum):
        of_sum = half * np.maximum(denominator, 0.0) if half else None
        return with_intervals(asked.labels, numerator, noise, basis, bias=of_sum)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(denominator > 0, numerator / denominator, np.nan)
        # the first-order error of N / D is that of N - r D, over D
        noise = np.array(
            [_linear(asked, inside * (values - r), only=i)[1][0] for i, r in enumerate(np.nan_to_num(ratio))]
        )
        stddev = noise / denominator
    numbers = values[there > 0] if values.shape == there.shape else values
    lowest, highest = (0.0, 1.0) if column is None else (float(numbers.min()), float(numbers.max()))
    bias = np.full(len(ratio), half) if half else None
    return with_intervals(asked.labels, ratio, stddev, basis, lowest=lowest, highest=highest, bias=bias)


def _linear(asked: _Asked, weights: FloatArray | None, *, only: int | None = None) -> tuple[FloatArray, FloatArray]:
    """Return weighted sums over the cells of each answer's group, and their stddevs, (answers,) each.

    Parameters
    ----------
    asked
        The question.
    weights
        (cells_1, ..., cells_d) weight of a row in each cell; ``None`` for weight 1.
    only
        Position of a single answer to compute; default: all answers.
    """
    sums, shape = asked.sums, tuple(len(group) for group in asked.groups)
    groups = asked.groups
    if only is not None:
        at = np.unravel_index(only, shape)
        groups = tuple(group[[i]] for group, i in zip(groups, at, strict=True))
        shape = (1,) * len(shape)
    bases = [_Basis.of(features, axis) for features, axis in zip(sums.features, sums.axes, strict=True)]
    if weights is None:  # the function of a cell is a product over columns
        used = [
            basis.of_functions(group, axis)
            for basis, group, axis in zip(bases, groups, sums.axes, strict=True)
        ]  # fmt: skip
        estimate, variance = sums.values, sums.variance
        for coefficients in used:  # the first axis becomes the last one
            estimate = np.tensordot(estimate, coefficients, axes=(0, 1))
            variance = np.tensordot(variance, coefficients**2, axes=(0, 1))
        return np.asarray(estimate).ravel(), np.sqrt(np.asarray(variance).ravel())
    cells = math.prod(axis.size for axis in sums.axes)
    if math.prod(shape) * cells > MOST_NUMBERS:
        raise ParameterError(
            f"this question has {math.prod(shape)} answers, each a sum over {cells} cells, which is too many: name fewer "
            "columns, or ask without a condition"
        )
    table = np.asarray(weights, np.float64)[None]
    for j, group in enumerate(groups):  # (answers so far, cells_1, ..., cells_d)
        spread = group.reshape(1, len(group), *(-1 if i == j else 1 for i in range(len(groups))))
        table = (table[:, None] * spread).reshape(-1, *table.shape[1:])
    for basis, axis in zip(bases, sums.axes, strict=True):
        table = np.tensordot(table, basis.solved, axes=(1, 0))
        if basis.projection is not None and np.abs(_off(asked, weights, axis)).max() > EXACT:
            raise _undecided(axis)
    flat = table.reshape(len(table), -1)
    estimate, variance = flat @ sums.values.ravel(), flat**2 @ sums.variance.ravel()
    return np.asarray(estimate), np.sqrt(np.asarray(variance))


def _off(asked: _Asked, weights: FloatArray, axis: Axis) -> FloatArray:
    """Return the error of a weighting of cells after least-squares projection on one column's measured functions.

    Its shape is (cells of the other columns, ..., groups, cells) of this column.  A nonzero error means that the
    measurements do not determine the answer, and the caller refuses the question.  Call it for inexact projections
    only.
    """
    place = next(i for i, one in enumerate(asked.sums.axes) if one is axis)
    basis = _Basis.of(asked.sums.features[place], axis)
    kept = np.moveaxis(np.asarray(weights, np.float64), place, -1) * axis.releasable
    grouped = kept[..., None, :] * asked.groups[place]
    return np.asarray(grouped if basis.projection is None else grouped @ basis.projection - grouped)


class _Basis(NamedTuple):
    """Holds the expression of functions of a column's cells by the measured functions."""

    solved: FloatArray
    """(cells, f) each cell's indicator as a combination of the functions, by least squares."""
    projection: FloatArray | None
    """(cells, cells) least-squares projection of the cells' indicators; ``None`` if it is exact."""

    @classmethod
    def of(cls, features: FloatArray, axis: Axis) -> _Basis:
        """Return the basis of a column: the matrix from measured functions, (f, cells), to counts of cells.

        The projection is stored only if least squares does not reproduce the cells exactly.
        """
        solved = np.zeros((axis.size, len(features)))
        if features.shape[0] == features.shape[1] and np.array_equal(features, np.eye(len(features))):
            solved[axis.releasable] = features[axis.releasable]
            return cls(solved, None)
        solved[axis.releasable] = np.linalg.pinv(features[:, axis.releasable])
        projection = solved @ features
        exact = np.diag(axis.releasable.astype(np.float64))
        projection[:, ~axis.releasable] = 0.0
        return cls(solved, None if np.abs(projection - exact).max() < EXACT else projection)

    def of_functions(self, functions: FloatArray, axis: Axis) -> FloatArray:
        """Return the coefficients, (q, f), that express functions of cells, (q, cells), by the measured functions.

        Raise ParameterError if the expression is inexact.
        """
        kept = functions * axis.releasable
        if self.projection is not None and np.abs(kept @ self.projection - kept).max() > EXACT:
            raise _undecided(axis)
        return np.asarray(kept @ self.solved)


def _undecided(axis: Axis) -> ParameterError:
    """Return the error for a question that distinguishes values which the measurements do not distinguish."""
    return ParameterError(
        f"what was released of column {axis.name!r} does not tell apart the values that the question tells apart"
    )


def _inside(source: NoisySums, sums: ProductSums, names: Sequence[str], where: Node) -> FloatArray:
    """Return 1 for combinations of cells that meet a condition, else 0, (cells_1, ..., cells_d): weights of a sum."""
    found: dict[Any, BoolArray] = {}
    for comparison in comparisons_of(where):
        place = names.index(comparison.column)
        of_cell = _of_cells(sums.axes[place], points_where(comparison, source.schema).astype(np.int64)) > 0
        found[comparison] = of_cell.reshape([-1 if i == place else 1 for i in range(len(names))])
    shape = [axis.size for axis in sums.axes]
    if math.prod(shape) > MOST_NUMBERS:
        raise ParameterError(
            f"the columns of this condition have {math.prod(shape)} cells together, which is too many: name fewer "
            "columns in the condition"
        )
    allowed = [
        axis.releasable.reshape([-1 if i == j else 1 for i in range(len(shape))]) for j, axis in enumerate(sums.axes)
    ]
    holds = np.broadcast_to(truth(where, found), shape) & reduce(np.logical_and, allowed)
    return np.asarray(holds, np.float64)


def _of_cells(axis: Axis, of_point: AnyArray) -> AnyArray:
    """Return one integer per cell, (cells,), from integers per grid point; -1 in cells that may not be released.

    Raise ParameterError if the grid points of a cell differ, because the measurements cannot cut a bin.
    """
    low, high = _ends(axis, of_point.astype(np.float64))
    if (low[axis.releasable] != high[axis.releasable]).any():
        raise ParameterError(
            f"the condition on column {axis.name!r} must not cut one of its {int(axis.releasable.sum())} bins in two: "
            "compare with a bin edge, such as a marginal of the column shows"
        )
    return np.asarray(np.where(axis.releasable, low, -1)).astype(np.int64)


def _ends(axis: Axis, of_point: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and the largest number among each cell's grid points, (cells,) each.

    Equal numbers show that a condition does not cut the cell.  The numbers are inf and -inf for a cell without grid
    points.
    """
    there = axis.starts < len(of_point)
    low, high = np.full(axis.size, np.inf), np.full(axis.size, -np.inf)
    np.minimum.at(low, axis.cells[there], np.minimum.reduceat(of_point, axis.starts[there]))
    np.maximum.at(high, axis.cells[there], np.maximum.reduceat(of_point, axis.starts[there]))
    return low, high


def _numbers(axis: Axis) -> tuple[FloatArray, FloatArray, float]:
    """Return each cell's middle number and whether it has numbers (1 or 0), (cells,) each, and the largest half width.

    A cell counts at its middle in sums and means; the half width bounds the error of that.  The middle is 0 without
    numbers.
    """
    values, present = numbers_of(axis.column)
    there = _of_cells(axis, present)
    low, high = _ends(axis, values)
    some = there > 0
    middle = np.where(some, (low + np.where(some, high, 0.0)) / 2, 0.0) if some.any() else np.zeros(axis.size)
    half = float((high[some] - low[some]).max(initial=0.0)) / 2
    return np.nan_to_num(middle), some.astype(np.float64), half


def measured_correlation(
    direct: GLSEstimates, groupings: Sequence[QuestionBinning], law: FloatArray
) -> tuple[float, float] | None:
    """Return the correlation of two columns from noisy counts alone, and its standard error.

    The noisy covariance is divided by the standard deviations between coarse bins under the model, which counts of single
    columns give with little noise.  For normal variables the relation inside bins is as strong as between them.  The error
    includes the noise, the error of the standard deviations, and a relation inside bins that is uniform from none to twice
    as strong.

    Parameters
    ----------
    direct
        The noisy tables.
    groupings
        The groupings of both columns, in the model's order: one group, with powers of values.
    law
        The model's probabilities of their coarse bins, flat.

    Returns
    -------
    ``None`` if the table of both columns was not measured, or if one of them does not vary.
    """
    clique = tuple(grouping.column for grouping in groupings)
    if not direct.has(clique):
        return None
    shares = [grouping.cell_share for grouping in groupings]
    table = law.reshape([len(share) for share in shares])
    here = float(shares[0][:, 0] @ table @ shares[1][:, 0])
    if here <= 0:
        return None
    centred, spreads, between = [], [], 1.0
    for share, margin in zip(shares, (table @ shares[1][:, 0], shares[0][:, 0] @ table), strict=True):
        rows, sums, squares = share.T
        mean = float(sums @ margin) / here
        variance = float(squares @ margin) / here - mean**2
        values = sums - mean * rows
        if variance <= 0:
            return None
        of_bins = np.divide(values**2, rows, out=np.zeros(len(rows)), where=rows > 0)
        centred.append(values)
        spreads.append(math.sqrt(variance))
        between *= float(of_bins @ margin) / here / variance
    covariance, noise = (float(found[0]) for found in direct.linear(clique, np.outer(*centred).reshape(1, -1)))
    scale = direct.total[0] * here * spreads[0] * spreads[1] * math.sqrt(between)
    estimate = covariance / scale
    inside = abs(estimate) * (1 - math.sqrt(between)) / math.sqrt(3)  # the stddev of that uniform law
    of_spreads = abs(estimate) * math.hypot(*(direct.variance_error(column) for column in clique)) / 2
    return estimate, math.hypot(noise / scale, inside, of_spreads)


def combined(estimate: FloatArray, stddev: FloatArray, counted: float, noise: float) -> tuple[FloatArray, FloatArray]:
    """Return correlations and their standard errors, (q,) each, from the model's answers and the noisy counts'.

    The estimate is the mean of both, weighted by precision.  Both rest on the same noise, so its standard error is the
    smaller one.  What the noisy counts contradict beyond their noise is an error of the model, too.  It moves the
    estimate only if their 95 % interval does not hold the model's answer: else noise alone would move weak relations.

    Parameters
    ----------
    estimate, stddev
        (q,) answers of the model and their standard errors.
    counted, noise
        The correlation by the noisy counts, and its standard error.
    """
    contradicted = np.maximum((counted - estimate) ** 2 - noise**2, 0.0)
    clearly = np.where(np.abs(counted - estimate) > NORMAL * noise, contradicted, 0.0)
    weight = (stddev**2 + clearly) / np.maximum(stddev**2 + clearly + noise**2, 1e-300)
    return estimate + weight * (counted - estimate), np.minimum(np.hypot(stddev, np.sqrt(contradicted)), noise)
