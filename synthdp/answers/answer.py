"""Answers to questions as numbers with error bars: from measured tables where possible, else from the model.

This is the last step of post-processing.  It uses only the released model and the noisy answers that the model was
fitted to.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from synthdp.answers.answers import (
    MEASURED,
    MODEL,
    NORMAL,
    STUDENT,
    Answers,
    format_values,
    show_errors,
    with_intervals,
)
from synthdp.answers.bootstrap import (
    BootstrapCache,
    draw_leaves,
    root_mean_square,
    unmeasured_correlation_errors,
)
from synthdp.answers.direct import GLSEstimates
from synthdp.answers.expressions import Both, Comparison, Node, columns_of, comparisons_of, points_where, truth
from synthdp.answers.grouping import QuestionBinning, numbers_of
from synthdp.answers.misfit_shares import unproven_points
from synthdp.answers.moments import (
    ClassWeights,
    Slope,
    Weighable,
    averages,
    check_numbers,
    check_order,
    check_weight,
    ends_of,
    has_classes,
    moment,
    pearson,
    points_in,
    points_of_grid,
    positive,
    values_at,
    values_of,
    weighed,
)
from synthdp.answers.noisy_sums import NoisySums, answered, combined, measured_correlation, missing_rows
from synthdp.answers.one_column import (
    SortedSupport,
    average,
    count_in_bins,
    quantile_intervals,
    reached_by,
    share_in_bins,
    summed,
)
from synthdp.answers.question_partition import (
    MOST_CELLS,
    QuestionPartition,
    about_modelled_columns,
    grouping_of,
    modelled_column,
    partition_for,
)
from synthdp.answers.questions import (
    Correlation,
    Count,
    Marginal,
    Mean,
    Moments,
    Quantile,
    Question,
    Regression,
    Share,
    Smooth,
    Sum,
    Variance,
)
from synthdp.answers.unmeasured_relations import farthest, is_product, rearranged
from synthdp.arrays import AnyArray, BoolArray, Clique, FloatArray
from synthdp.domain.grid import grid_of
from synthdp.errors import ParameterError
from synthdp.measurements import SIGNIFICANT, Measurements
from synthdp.queries.products import TellsTables
from synthdp.randomness import generator
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.column import Column

if TYPE_CHECKING:
    from synthdp.answers.regression import Regressions

POINTS = 50_000
"""Rows drawn from a model to average a smooth function over them.  More rows take longer.  A tolerance: the sampling
error of a mean is 1 / sqrt(POINTS) = .4 % of the function's standard deviation."""

SAMPLED = 200_000
"""Rows drawn from a model to estimate a table that is too large to compute; the stddev of a cell's share is at most
about 0.001.  A safety limit of time; derived: 1 / (2 sqrt(SAMPLED))."""

_AT_ONCE = 2**23
"""Most entries, answers times cells, of a weight matrix in memory at once: 64 MB.  More take more memory, fewer are
slower.  A safety limit."""


def answer(model: SyntheticModel, measurements: Sequence[Measurements], question: Question) -> Any:
    """Return the answer to a question about the private table, with error bars, computed from the released data alone.

    Parameters
    ----------
    model
        The released model.
    measurements
        The noisy answers that the model was fitted to.
    question
        A question made by `marginal`, `count`, `share`, `sum`, `mean`, `variance`, `correlation`, `regression`,
        `quantile` or `smooth`.

    Returns
    -------
    A pandas DataFrame, see `Answers`.

    Raises
    ------
    ParameterError
        If the question names unknown columns, or needs too large a table.
    """
    return answer_engine(model, tuple(measurements)).ask(question).to_frame()


@lru_cache(maxsize=4)
def answer_engine(model: SyntheticModel, measurements: tuple[Measurements, ...]) -> AnswerEngine:
    """Return the object that answers questions about one release; recent ones are cached with their bootstraps."""
    return AnswerEngine(model, measurements)


class AnswerEngine:
    """Answers questions about one release, from its measured tables if these decide a question, else from its model.

    Parameters
    ----------
    model, measurements
        The released model and the noisy answers that it was fitted to.
    random_state
        Seed of the bootstrap and of the points for smooth functions; equal questions get equal answers.
    """

    def __init__(self, model: SyntheticModel, measurements: tuple[Measurements, ...], *, random_state: int = 0) -> None:
        self.model, self.random_state = model, random_state
        self.direct = GLSEstimates(model, measurements)
        self.pools = BootstrapCache(self.direct, random_state)
        self._last: tuple[Clique, FloatArray] | None = None

    def ask(self, question: Question) -> Answers:
        """Return the answer to one question; see `answer`.

        If the model's answer has no known error, noisy sums that determine the answer are used instead, if there are
        any.
        """
        question = about_modelled_columns(question, self.model.schema)
        found = self._by_tables_or_model(question)
        if not np.isnan(np.asarray(found.stddev, np.float64)).all():
            return found
        with suppress(ParameterError):
            return answered(NoisySums(self.model.schema, self._whole_sums, self.direct.total), question)
        return found

    @cached_property
    def _whole_sums(self) -> tuple[Measurements, ...]:
        """Return the measurements whose tables count all rows, by which `ask` answers if the model's error is unknown.

        Measurements that miss out-of-domain rows would give biased answers, so they are left out.
        """
        rows, spread = self.direct.total
        kept = []
        for measured in self.direct.measurements:
            if not isinstance(measured.queries, TellsTables):
                continue
            for name in self.model.schema:
                sums = measured.queries.sums_of((name,), measured.answers, measured.stddev, rows=(rows, spread))
                if sums is not None and abs(missing_rows(sums, rows)) > SIGNIFICANT * math.hypot(
                    spread, sums.noise**0.5
                ):
                    break
            else:
                kept.append(measured)
        return tuple(kept)

    def _by_tables_or_model(self, question: Question) -> Answers:
        """Return the answer to a question, from measured tables if these decide it, else from the model."""
        match question:
            case Marginal():
                return self._marginal(question)
            case (
                Count(weight=str(weight))
                | Share(weight=str(weight))
                | Sum(weight=str(weight))
                | Mean(weight=str(weight))
            ) if self._in_classes(weight):
                return self._weighed(question, weight)
            case Count(weight=str(weight)):
                self._weight(weight)
                return self._moments(Sum(weight, question.where, question.by))
            case Count(None, ()):
                total, stddev = self.direct.total
                return with_intervals(
                    {}, np.array([total]), np.array([stddev * (stddev > 1e-3)]), [MEASURED], lowest=0.0
                )
            case Count():
                return self._count(question)
            case Share():
                return self._share(question)
            case Sum() | Mean() | Variance():
                return self._moments(question)
            case Correlation():
                return self._correlation(question)
            case Regression():
                return self._regressions.answer(question)
            case Quantile():
                return self._quantile(question)
            case Smooth():
                return self._smooth(question)
        raise ParameterError(
            "a question must be made by a function of synthdp, such as count('age >= 40'): marginal, count, share, sum, "
            "mean, variance, correlation, regression, quantile or smooth"
        )

    @cached_property
    def _regressions(self) -> Regressions:
        """Return the solver of regressions, created at the first such question."""
        from synthdp.answers.regression import Regressions

        return Regressions(self.direct, self.pools, self.random_state)

    def _marginal(self, question: Marginal) -> Answers:
        """Return the answer to a marginal: the estimated count of each combination of groups, with its error."""
        bins = dict(question.bins)
        groupings = [grouping_of(self.model, name, bins.get(name)) for name in question.columns]
        if len({grouping.column for grouping in groupings}) < len(groupings):
            raise ParameterError(
                "two columns of this marginal are derived from the same column: leave one of the two out"
            )
        shape = [len(grouping.labels) for grouping in groupings]
        if math.prod(shape) > MOST_CELLS:
            raise ParameterError(
                f"this marginal has {math.prod(shape)} cells, more than {MOST_CELLS}: name fewer columns, or "
                "ask for fewer bins"
            )
        cells = np.indices(shape).reshape(len(shape), -1)
        labels_of_cells = {
            name: [grouping.labels[g] for g in row]
            for name, grouping, row in zip(question.columns, groupings, cells, strict=True)
        }
        order = np.argsort([grouping.column for grouping in groupings], kind="stable")
        ordered = tuple(groupings[i] for i in order)
        flat = np.arange(math.prod(shape)).reshape(shape).transpose(order).ravel()  # cells of the ordered table
        estimate, stddev, measured = self._cells(ordered)
        back = np.empty(len(flat), np.int64)
        back[flat] = np.arange(len(flat))
        basis = [MEASURED if one else MODEL for one in measured[back]]
        return with_intervals(labels_of_cells, estimate[back], stddev[back], basis, lowest=0.0)

    def _cells(self, groupings: tuple[QuestionBinning, ...]) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return each cell's count, its standard error, and whether measured tables alone determine it, (cells,) each.

        Counts and errors are in rows.  In a marginal of several columns, the model gives the count of each cell that
        contains only a part of a coarse bin.
        """
        if len(groupings) == 1 and self.direct.leaves(groupings[0].column) is not None:
            estimate, stddev = count_in_bins(self.direct, groupings[0].column, groupings[0].leaf_share.T)
            return estimate, stddev, np.ones(len(estimate), np.bool_)
        shape = [len(grouping.labels) for grouping in groupings]
        size = math.prod(shape)
        estimate, stddev, measured = np.zeros(size), np.full(size, np.nan), np.zeros(size, np.bool_)
        clique = tuple(grouping.column for grouping in groupings)
        if self.direct.has(clique):
            width = math.prod(len(grouping.cell_share) for grouping in groupings)
            step = max(1, _AT_ONCE // width)
            for begin in range(0, size, step):
                block = np.arange(begin, min(size, begin + step))
                weights = np.ones((len(block), 1))
                for grouping, g in zip(groupings, np.unravel_index(block, shape), strict=True):
                    share = grouping.cell_share.T[g]
                    weights = (weights[:, :, None] * share[:, None, :]).reshape(len(block), -1)
                whole = _whole(weights)
                measured[block] = whole
                found = self.direct.linear(clique, weights[whole])
                estimate[block[whole]], stddev[block[whole]] = found
        if not measured.all():
            rest = ~measured
            by_model, error = self._counted_by_model(groupings, lambda table: table.ravel()[rest])
            estimate[rest], stddev[rest] = by_model, error
        return estimate, stddev, measured

    def _count(self, question: Count) -> Answers:
        """Return the answer to a count, by groups or of all rows."""
        if question.where is None and question.by:
            return self._marginal(Marginal(question.by))
        division = self._divided(question, [question.where])
        estimate, stddev, basis = self._counted(division)
        found = with_intervals(division.labels, estimate, stddev, [basis] * division.size, lowest=0.0)
        return self._down_to_none(found, division)

    def _down_to_none(self, found: Answers, division: QuestionPartition) -> Answers:
        """Return the answer with the interval extended to 0, if the count is about values that the release removed.

        The release removes a value if noise alone explains its count.  Private rows may have the value, or none may.
        """
        if len(division.groupings) != 1 or division.size != 1:
            return found
        (grouping,) = division.groupings
        points = np.flatnonzero((grouping.groups >= 0) & division.holds[0][grouping.groups])
        name = self.model.domain.names[grouping.column]
        if not len(points) or any((name, int(point)) not in self._unproven for point in points):
            return found
        return replace(found, lower=np.zeros(1))

    @cached_property
    def _unproven(self) -> frozenset[tuple[str, int]]:
        """Return the (column, grid point) pairs that have probability 0 because noise alone explains their counts.

        An answer about them alone gets an interval from 0; see `_down_to_none`.
        """
        found = []
        for name, index in unproven_points(self.model, self.direct.measurements):
            (j,) = self.model.domain.index(name)
            refinement = self.model.refinements[j]
            cell = refinement.fine.cell_of_alone(index)
            if cell is not None and (
                refinement.weights[cell] <= 0
                or self.model.distribution.marginal((j,))[refinement.coarse_cell[cell]] <= 0
            ):
                found.append((name, index))
        return frozenset(found)

    def _counted(self, division: QuestionPartition) -> tuple[FloatArray, FloatArray, str]:
        """Return the counts of a partition in rows, their errors, (answers,) each, and the basis: measured or model.

        Measured tables answer if they determine the counts; else the model does.
        """
        groupings, where = division.groupings, division.holds[0]
        clique = tuple(grouping.column for grouping in groupings)
        if len(clique) == 1 and division.size == 1 and self.direct.leaves(clique[0]) is not None:
            share = (groupings[0].leaf_share @ where.astype(np.float64))[None, :]
            return *count_in_bins(self.direct, clique[0], sparse.csr_array(share)), MEASURED
        if self.direct.has(clique) and division.size == 1:
            weights = _contract(where.astype(np.float64), groupings)[None, :]
            if _whole(weights).all():
                return *self.direct.linear(clique, weights), MEASURED
        return *self._counted_by_model(groupings, division.sums), MODEL

    def _share(self, question: Share) -> Answers:
        """Return the answer to a share: the fraction of rows that meet a condition, among all rows or rows of ``where``.

        Noisy counts give the answer if the question is about one column, without groups or weights; else the model does.
        """
        both = question.condition if question.where is None else Both(question.condition, question.where)
        weight = self._weight(question.weight)
        division = self._divided(question, [both, question.where], values=dict.fromkeys(weight, 0.0))
        if (
            len(division.groupings) == 1
            and not (question.by or weight)
            and self.direct.leaves(division.groupings[0].column) is not None
        ):
            own, groups = division.groupings[0].column, division.groupings[0].groups
            inside, holds = (mask[groups] for mask in division.holds[::-1])
            estimate, stddev, basis = *share_in_bins(self.direct, own, inside, holds), MEASURED
        else:
            power = 1 if weight else slice(None)  # of the weight
            of_some = lambda table: division.sums(table)[power] / positive(division.sums(table, 1)[power])  # noqa: E731
            estimate, stddev, basis = *self._by_model(division.groupings, of_some), MODEL
        found = with_intervals(division.labels, estimate, stddev, [basis] * division.size, lowest=0.0, highest=1.0)
        return self._down_to_none(found, division)

    def _in_classes(self, name: str) -> bool:
        """Return whether a column is a survey weight whose class means were measured.

        Weighted counts, shares, sums and means are then computed from the counts of the weight's classes.
        """
        return has_classes(modelled_column(self.model, name)[1])

    def _weighed(self, question: Weighable, weight: str) -> Answers:
        """Return the answer to a question about a population, with rows weighted by a survey weight.

        Only the mean weight of each class is measured; the errors of these means are part of the error.
        """
        (j,) = self._weight(weight, other_than=getattr(question, "column", None))
        conditions, values, ends = [question.where], {}, (0.0, math.inf)
        if isinstance(question, Share):
            both = question.condition if question.where is None else Both(question.condition, question.where)
            conditions, ends = [both, question.where], (0.0, 1.0)
        column = None
        if isinstance(question, Sum | Mean):
            summed, column = self._numbers(question.column, type(question).__name__.lower())
            values, ends = {summed: 0.0}, ends_of(question, column)
        division = self._divided(question, conditions, values=values, leaves_of=j)
        grouping = next(grouping for grouping in division.groupings if grouping.column == j)
        known = self.model.schema[self.model.domain.names[j]]
        classes = ClassWeights.of(known, grouping.groups, len(grouping.labels))

        def answered(table: FloatArray) -> Slope:
            return weighed(
                question, classes, lambda i: _by_class(division.sums(table, i), len(grouping.labels), bool(values))
            )

        estimate, stddev = self._by_model(division.groupings, lambda table: answered(table).estimate)
        found = answered(self._grouped(division.groupings))
        stddev = np.hypot(stddev, classes.error(found.slope, found.squares))
        return with_intervals(
            division.labels, estimate, stddev, [MODEL] * len(estimate), lowest=ends[0], highest=ends[1], column=column
        )  # fmt: skip

    def _moments(self, question: Moments) -> Answers:
        """Return the answer to a sum, mean or variance of a numeric column."""
        j, column = self._numbers(question.column, type(question).__name__.lower())
        values, there = numbers_of(column)
        shift = float(values[there > 0].mean()) if isinstance(question, Variance) else 0.0
        weight = [] if isinstance(question, Variance) else self._weight(question.weight, other_than=question.column)
        own = None if question.by or weight else self._own_condition(question.where, question.column)
        if own is not None and self.direct.leaves(j) is not None:
            inside = there.astype(np.bool_) & own
            found = (
                summed(self.direct, j, inside, values)
                if isinstance(question, Sum)
                else average(self.direct, j, inside, values)
            )
            if isinstance(question, Variance):
                found = average(self.direct, j, inside, (values - found[0][0]) ** 2)
            labels, basis = {}, [MEASURED]
        else:
            division = self._divided(question, [question.where], values={j: shift, **dict.fromkeys(weight, 0.0)})
            once = (slice(None), 1) if [j] < weight else 1  # each value times its weight
            found = self._by_model(
                division.groupings,
                lambda table: moment(question, division.sums(table)[once] if weight else division.sums(table)),
            )
            labels, basis = division.labels, [MODEL] * division.size
        if isinstance(question, Variance):
            return with_intervals(labels, *found, basis, lowest=0.0)
        lowest, highest = ends_of(question, column)
        return with_intervals(labels, *found, basis, lowest=lowest, highest=highest, column=column)

    def _correlation(self, question: Correlation) -> Answers:
        """Return the answer to a correlation of two numeric columns, by the model.

        If the table of both columns was measured, its noisy counts correct the model's correlation of all rows.  They
        do not count the rows of a group or condition, whose correlation comes from the model alone.  The error includes
        noise in the variances, and unmeasured correlations.
        """
        shifts = {}
        for name in question.columns:
            j, column = self._numbers(name, "correlation")
            values, there = numbers_of(column)
            shifts[j] = float(values[there > 0].mean())
        division = self._divided(question, [question.where], values=shifts)
        estimate, stddev = self._by_model(division.groupings, lambda table: pearson(division.sums(table)))
        of_variances = math.hypot(*(self.direct.variance_error(j) for j in shifts)) / 2
        stddev = np.hypot(stddev, np.abs(estimate) * of_variances)
        if len(shifts) > 1 and self.direct.leaves(0) is not None:
            columns = [grouping.column for grouping in division.groupings]
            pool = self.pools.of(columns)
            stddev = np.hypot(stddev, unmeasured_correlation_errors(pool, list(shifts))[0, 1])
        if question.where is None and len(division.groupings) == 2 and division.size == 1:
            law = self._law(tuple(grouping.column for grouping in division.groupings))
            counted = measured_correlation(self.direct, division.groupings, law)
            if counted is not None:
                estimate, stddev = combined(estimate, stddev, *counted)
        return with_intervals(division.labels, estimate, stddev, [MODEL] * division.size, lowest=-1.0, highest=1.0)

    def _weight(self, name: str | None, *, other_than: str | None = None) -> list[int]:
        """Return [position of the weight column in the model], or [] without a weight; callers append it to other columns.

        Raise ParameterError if the column cannot weight rows.
        """
        if name is None:
            return []
        j, column = modelled_column(self.model, name)
        check_weight(name, column, of=other_than)
        return [j]

    def _numbers(self, name: str, what: str) -> tuple[int, Column]:
        """Return the position and declaration of a column.

        Raise ParameterError if the statistic ``what`` needs other values.
        """
        j, column = modelled_column(self.model, name)
        check_numbers(name, column, what)
        return j, column

    def _quantile(self, question: Quantile) -> Answers:
        """Return the answer to quantiles of an ordered column."""
        j, column = modelled_column(self.model, question.column)
        check_order(question.column, column)
        shares = np.array(question.q)
        _, there = numbers_of(column)
        own = None if question.by else self._own_condition(question.where, question.column)
        leaves = self.direct.leaves(j)
        if own is not None and leaves is not None:
            bounds = quantile_intervals(
                leaves,
                self.model.refinements[j].fine,
                shares,
                there.astype(np.bool_) & own,
                spread=self.direct.spread(j),
            )
            shown = [format_values(column, one) for one in bounds]
            error = show_errors(column, (bounds[2] - bounds[1]) / (2 * NORMAL))
            return Answers(
                labels={"q": list(question.q)}, estimate=shown[0], stddev=error, lower=shown[1], upper=shown[2],
                basis=[MEASURED] * len(shares),
            )  # fmt: skip
        division = self._divided(question, [question.where], leaves_of=j)
        grouping = next(grouping for grouping in division.groupings if grouping.column == j)
        ladder = SortedSupport.of(grouping.groups, numbers_of(column)[0])

        def steps_of(table: FloatArray) -> FloatArray:
            """Return each answer's distribution function before each group, (answers, groups + 1); NaN without rows."""
            mass = division.sums(table).reshape(len(grouping.labels), -1)[ladder.groups]
            steps = np.cumsum(np.concatenate([np.zeros((1, mass.shape[1])), mass]), axis=0).T
            return steps / positive(steps[:, -1:])

        modelled = steps_of(self._grouped(division.groupings))
        reached = [reached_by(shares, np.nan_to_num(one)) for one in modelled]

        def below(table: FloatArray) -> FloatArray:
            """Return the fraction of a table's rows below the model's quantiles, (answers * q,)."""
            steps = steps_of(table)
            found = [a[at] + part * (a[at + 1] - a[at]) for a, (at, part) in zip(steps, reached, strict=True)]
            return np.asarray(found, np.float64).ravel()

        half = STUDENT * self._by_model(division.groupings, below)[1].reshape(len(modelled), -1)
        ends = [
            np.ravel([np.where(np.isnan(one[-1] + s), np.nan, ladder.at(np.nan_to_num(one), np.nan_to_num(shares + s)))
                      for one, s in zip(modelled, side, strict=True)])
            for side in (np.zeros_like(half), -half, half)
        ]  # fmt: skip
        shown = [format_values(column, one) for one in ends]
        labels: dict[str, list[Any]] = {
            name: [label for label in each for _ in shares] for name, each in division.labels.items()
        }
        labels["q"] = [float(q) for q in question.q] * len(modelled)
        return Answers(
            labels=labels, estimate=shown[0], stddev=show_errors(column, (ends[2] - ends[1]) / (2 * STUDENT)),
            lower=shown[1], upper=shown[2], basis=[MODEL] * len(ends[0]),
        )  # fmt: skip

    def _divided(
        self,
        question: Count | Share | Moments | Correlation | Quantile,
        conditions: Sequence[Node | None],
        *,
        values: Mapping[int, float] | None = None,
        leaves_of: int | None = None,
    ) -> QuestionPartition:
        """Return the partition of the rows by a question's groups and conditions.

        ``values`` and ``leaves_of`` are parameters of `partition_for`.  Raise ParameterError for columns that are not
        modelled.
        """
        for node in conditions:
            for comparison in () if node is None else comparisons_of(node):
                modelled_column(self.model, comparison.column)
        return partition_for(self.model, conditions, values=values or {}, leaves_of=leaves_of, by=question.by)

    def _smooth(self, question: Smooth) -> Answers:
        """Return the answer to a smooth question: the mean of each function of columns scaled to [-1, 1], and its error.

        The mean of a function of one column is over its noisy counts, if the column was measured.  Any other mean is
        over rows drawn from the model.
        """
        numeric = [name for name, column in self.model.schema.items() if column.quantity == "number"]
        names = list(question.columns or numeric)
        if not names:
            raise ParameterError(
                "a smooth question needs a column of numbers, but the release has none: ask another question"
            )
        columns = []
        for name in names:
            j, column = modelled_column(self.model, name)
            if column.labelled:
                raise ParameterError(
                    f"column {name!r} has levels, and a smooth question is about numbers: name columns of numbers"
                )
            columns.append(j)
        function = question.function
        if len(columns) == 1 and callable(function) and self.direct.leaves(columns[0]) is not None:
            values = values_at(function, points_of_grid(self.model.schema[names[0]])[:, None])
            return with_intervals(
                {}, *average(self.direct, columns[0], np.ones(len(values), np.bool_), values), [MEASURED]
            )

        rng = generator(self.random_state)
        refinements = [self.model.refinements[j] for j in columns]

        def points_of(leaves: Sequence[AnyArray]) -> FloatArray:
            return np.column_stack([points_in(r.fine, leaf, rng) for r, leaf in zip(refinements, leaves, strict=True)])

        codes = self.model.distribution.sample(POINTS, rng)
        drawn = [draw_leaves(r, codes[:, j], rng) for j, r in zip(columns, refinements, strict=True)]
        estimate = averages(function, points_of(drawn))
        errors: list[FloatArray] = []
        if self.direct.leaves(0) is not None:
            pool = self.pools.of(columns)
            values = values_of(function, points_of([pool.leaves(j) for j in columns]))
            errors = [fitted - rows for fitted, rows in pool.averages(values, columns)][1:]
        stddev = root_mean_square(errors, len(estimate))
        if errors and len(columns) > 1 and not self.direct.tells_relations:
            others = (averages(function, some) - estimate for some in rearranged(points_of(drawn)))
            stddev = stddev + np.max(np.abs(list(others)), axis=0) / STUDENT
        return with_intervals({}, estimate, stddev, [MODEL] * len(estimate))

    def _counted_by_model(
        self, groupings: tuple[QuestionBinning, ...], function: Callable[[FloatArray], FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``function`` of the model's table of groups, counts of rows, with bootstrap errors, (q,) each.

        Combinations that do not occur among the bootstrap's rows have a Poisson error: the variance is the expected
        count.
        """
        estimate, stddev = self._by_model(groupings, function)
        pairs = self._replicated(groupings)
        seen = [function(drawn) for _, drawn in itertools.islice(pairs, 1)]
        return estimate, np.sqrt(stddev**2 + np.maximum(estimate - seen[0], 0.0)) if seen else stddev

    def _by_model(
        self, groupings: tuple[QuestionBinning, ...], function: Callable[[FloatArray], FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``function`` of the model's table of groups (see `_grouped`), with bootstrap errors, (q,) each.

        The error includes the error of point masses in fine bins that the question cuts.
        """
        estimate = function(self._grouped(groupings))
        errors = [function(fitted) - function(drawn) for fitted, drawn in self._replicated(groupings)]
        stddev = root_mean_square([error - np.nan_to_num(errors[0]) for error in errors[1:]], len(estimate))
        bounds = self._of_heaps(groupings, function, estimate) + self._of_relations(groupings, function, estimate)
        return estimate, stddev + bounds / STUDENT

    def _of_relations(
        self, groupings: tuple[QuestionBinning, ...], function: Callable[[FloatArray], FloatArray], estimate: FloatArray
    ) -> FloatArray:
        """Return an error bound for answers, (answers,), for relations that the release did not measure at all.

        The bound is 0 for questions about one column.  It is also 0 if the release measured any relation of two
        columns, or a public table gave the model its relations.
        """
        clique = tuple(grouping.column for grouping in groupings)
        if len(clique) < 2 or self.direct.tells_relations or self.direct.leaves(0) is None:
            return np.zeros(len(estimate))
        margins = [self.model.distribution.marginal((column,)) for column in clique]
        if not is_product(self._law(clique), margins):
            return np.zeros(len(estimate))
        pool, rows = self.pools.of(clique), []
        for column, margin in zip(clique, margins, strict=True):
            leaves, cell = pool.leaf_counts(column), self.model.refinements[column].coarse_cell
            rows.append(np.array([np.bincount(cell, one, minlength=len(margin)) for one in leaves.T]).T)
        return farthest(groupings, rows, function, np.nan_to_num(estimate))

    def _of_heaps(
        self, groupings: tuple[QuestionBinning, ...], function: Callable[[FloatArray], FloatArray], estimate: FloatArray
    ) -> FloatArray:
        """Return an error bound for answers, (answers,), for point masses in the fine bins that the question cuts.

        The rows of such a bin may all lie on one side of the cut.
        """
        squares = np.zeros(len(estimate))
        for at, grouping in enumerate(groupings):
            uneven, heaped = self.direct.uneven(grouping.column), grouping.heaped()
            if uneven > 0 and heaped is not None:
                others = [
                    function(
                        self._grouped(
                            groupings, [share if i == at else one.cell_share for i, one in enumerate(groupings)]
                        )
                    )
                    for share in heaped
                ]
                squares += (uneven * np.fmax(*(np.abs(np.nan_to_num(other - estimate)) for other in others))) ** 2
        return np.asarray(np.sqrt(squares))

    def _replicated(self, groupings: tuple[QuestionBinning, ...]) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Return an iterator over pairs of tables of groups, in bootstrap replicates: of the fit, and of the drawn database.

        The first pair is the model's table and its table among the drawn rows that all replicates share (the pool).
        Their difference is in all pairs.  The iterator is empty if nothing was measured.
        """
        if self.direct.leaves(0) is None:
            return iter(())
        return self.pools.of(grouping.column for grouping in groupings).tables(groupings)

    def _grouped(
        self, groupings: tuple[QuestionBinning, ...], shares: Sequence[FloatArray] | None = None
    ) -> FloatArray:
        """Return the expected rows in each combination of groups under the model, with one axis per grouping.

        With powers of values an axis has three times as many entries: rows, sums of values, and sums of squares.
        ``shares`` replaces the fractions of coarse bins in each group.
        """
        clique = tuple(grouping.column for grouping in groupings)
        table = self._law(clique).reshape([self.model.domain.shape[j] for j in clique])
        for share in shares or [grouping.cell_share for grouping in groupings]:  # the first axis becomes the last one
            table = np.tensordot(table, share, axes=(0, 0))
        return np.asarray(table * self.direct.total[0])

    def _law(self, clique: Clique) -> FloatArray:
        """Return the model's probabilities for a table of some columns, flat; the last table is cached.

        Probabilities are estimated from a sample if the table is too large.
        """
        if self._last is None or self._last[0] != clique:
            try:
                law = self.model.distribution.marginal(clique)
            except ParameterError:  # columns far from each other in a wide model, with too many cells between them
                law = self._sampled.distribution.marginal(clique)
            self._last = clique, law
        return self._last[1]

    @cached_property
    def _sampled(self) -> SyntheticModel:
        """Return the model with a sample as its distribution: tables that are too large to compute are estimated from it."""
        codes = self.model.distribution.sample(SAMPLED, generator(self.random_state))
        return self.model.with_rows(codes, np.ones(SAMPLED))

    def _own_condition(self, node: Node | None, name: str) -> BoolArray | None:
        """Return a mask of one column's grid points that satisfy a condition, (releasable,); all without a condition.

        Return None if the condition names other columns.
        """
        if node is None:
            return np.ones(grid_of(self.model.schema[name]).releasable, np.bool_)
        if columns_of(node) != {name}:
            return None
        masks: dict[Comparison, BoolArray] = {c: points_where(c, self.model.schema) for c in comparisons_of(node)}
        return truth(node, masks)


def _by_class(sums: FloatArray, groups: int, several: bool) -> FloatArray:
    """Return flat sums in the shape (powers, groups of the weight, answers), for `moments.weighed`.

    There are three powers if ``several``: the rows of each class, sums of values, and sums of squares.  Else there are
    only rows.
    """
    return sums.reshape(3 if several else 1, groups, -1)


def _whole(weights: FloatArray) -> BoolArray:
    """Return which rows of a weight matrix, (q, cells), contain only 0 and 1, up to rounding, (q,).

    Such answers are sums of cells, which measured tables give without the model.
    """
    return np.asarray(((np.abs(weights) < 1e-9) | (np.abs(weights - 1) < 1e-9)).all(axis=1))


def _contract(where: FloatArray, groupings: Sequence[QuestionBinning]) -> FloatArray:
    """Return the fraction of each combination of coarse bins for which a condition on groups holds, (cells,).

    These are the weights by which a measured table of coarse bins counts the rows of the condition.
    """
    table = where
    for grouping in groupings:
        table = np.tensordot(table, grouping.cell_share, axes=(0, 1))
    return table.ravel()
