"""From a question to numbers with error bars: by the noisy tables where they say it, else by the model.

The last step of post-processing; sees the released model and the noisy answers it was made of, nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from synthdp.answers.answers import MEASURED, MODEL, NORMAL, Answers, show_errors, show_values, with_intervals
from synthdp.answers.bootstrap import Bootstrap, draw_leaves
from synthdp.answers.derived import about_modelled_columns, grouping_of, modelled_column
from synthdp.answers.direct import Direct
from synthdp.answers.expressions import Comparison, Node, columns_of, comparisons_of, truth, units_where
from synthdp.answers.grouping import Grouping, leaf_means, numbers_of
from synthdp.answers.points import averages, points_in, unit_points, values_at
from synthdp.answers.quantiles import quantile_intervals
from synthdp.answers.questions import Count, Marginal, Mean, Quantile, Question, Smooth
from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.distribution.protocol import Distribution
from synthdp.domain.grid import grid_of, has_labels
from synthdp.domain.refinement import Refinement
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements
from synthdp.randomness import Generator, generator
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.column import Column

MOST_CELLS = 1_000_000
POINTS = 50_000
"""Rows drawn from a model to average a smooth function over."""

_AT_ONCE = 2**23


def answer(model: SyntheticModel, measurements: Sequence[Measurements], question: Question) -> Any:
    """Answer a question about the private table from what was released, with error bars.

    Parameters
    ----------
    model
        The released model.
    measurements
        The noisy answers it was made of.
    question
        Made by `marginal`, `count`, `mean`, `quantile` or `smooth`.

    Returns
    -------
    A pandas DataFrame, see `Answers`.

    Raises
    ------
    ParameterError
        If the question names unknown columns, or needs too large a table.
    """
    return asker(model, tuple(measurements)).ask(question).to_frame()


@lru_cache(maxsize=1)
def asker(model: SyntheticModel, measurements: tuple[Measurements, ...]) -> Asker:
    """Return what answers questions about one release; the last one is kept, with its bootstrap."""
    return Asker(model, measurements)


class Asker:
    """Answers questions about one release.

    Parameters
    ----------
    model, measurements
        The release.
    random_state
        Seed of the bootstrap and of the points for smooth functions; equal questions get equal answers.
    """

    def __init__(self, model: SyntheticModel, measurements: tuple[Measurements, ...], *, random_state: int = 0) -> None:
        self.model, self.random_state = model, random_state
        self.direct = Direct(model, measurements)
        self.bootstrap = Bootstrap(self.direct, random_state)

    def ask(self, question: Question) -> Answers:
        """Answer one question; see `answer`."""
        question = about_modelled_columns(question, self.model.schema)
        match question:
            case Marginal():
                return self._marginal(question)
            case Count(None):
                total, stddev = self.direct.total
                return with_intervals(
                    {}, np.array([total]), np.array([stddev * (stddev > 1e-3)]), [MEASURED], lowest=0.0
                )
            case Count():
                return self._count(question)
            case Mean():
                return self._mean(question)
            case Quantile():
                return self._quantile(question)
            case Smooth():
                return self._smooth(question)
        raise ParameterError("a question must be made by marginal, count, mean, quantile or smooth")

    def _marginal(self, question: Marginal) -> Answers:
        bins = dict(question.bins)
        groupings = [grouping_of(self.model, name, bins.get(name)) for name in question.columns]
        if len({grouping.column for grouping in groupings}) < len(groupings):
            raise ParameterError("two columns of this marginal are looked up by one column: ask for one of them")
        shape = [len(grouping.labels) for grouping in groupings]
        if math.prod(shape) > MOST_CELLS:
            raise ParameterError(f"this marginal has {math.prod(shape)} cells; ask for at most {MOST_CELLS}")
        cells = np.indices(shape).reshape(len(shape), -1)
        labels_of_cells = {
            name: [grouping.labels[g] for g in row]
            for name, grouping, row in zip(question.columns, groupings, cells, strict=True)
        }
        order = np.argsort([grouping.column for grouping in groupings])
        ordered = tuple(groupings[i] for i in order)
        flat = np.arange(math.prod(shape)).reshape(shape).transpose(order).ravel()  # cells of the ordered table
        estimate, stddev, measured = self._cells(ordered)
        back = np.empty(len(flat), np.int64)
        back[flat] = np.arange(len(flat))
        basis = [MEASURED if one else MODEL for one in measured[back]]
        return with_intervals(labels_of_cells, estimate[back], stddev[back], basis, lowest=0.0)

    def _cells(self, groupings: tuple[Grouping, ...]) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return estimate, error and whether it was measured, of every cell of a table of groups, flat."""
        if len(groupings) == 1 and self.direct.leaves(groupings[0].column) is not None:
            units = (groupings[0].groups[None, :] == np.arange(len(groupings[0].labels))[:, None]).astype(np.float64)
            estimate, stddev = self._one_way(groupings[0].column, units)
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
            by_model, error = self._by_model(groupings, lambda table: table.ravel()[rest])
            estimate[rest], stddev[rest] = by_model, error
        return estimate, stddev, measured

    def _count(self, question: Count) -> Answers:
        groupings, where = self._condition(question.where)
        estimate, stddev, basis = self._counted(groupings, where)
        return with_intervals({}, estimate, stddev, [basis], lowest=0.0)

    def _counted(self, groupings: tuple[Grouping, ...], where: BoolArray) -> tuple[FloatArray, FloatArray, str]:
        clique = tuple(grouping.column for grouping in groupings)
        if len(clique) == 1 and self.direct.leaves(clique[0]) is not None:
            units = where[groupings[0].groups].astype(np.float64)[None, :]
            return *self._one_way(clique[0], units), MEASURED
        if self.direct.has(clique):
            weights = _contract(where.astype(np.float64), groupings)[None, :]
            if _whole(weights).all():
                return *self.direct.linear(clique, weights), MEASURED
        return *self._by_model(groupings, lambda table: np.array([table[where].sum()])), MODEL

    def _mean(self, question: Mean) -> Answers:
        j, column = modelled_column(self.model, question.column)
        if column.quantity == "label":
            raise ParameterError(f"column {question.column!r} has levels, which have no mean")
        values, there = numbers_of(column)
        own = self._own_condition(question.where, question.column)
        if own is not None and self.direct.leaves(j) is not None:
            estimate, stddev = self._average(j, there.astype(np.bool_) & own, values)
            return with_intervals({}, estimate, stddev, [MEASURED], column=column)
        groupings, where, at = self._with_leaves(question.where, j)
        axis = [len(groupings[at].labels) if i == at else 1 for i in range(len(groupings))]
        leaf_value = _group_means(groupings[at], values).reshape(axis)

        def mean_of(table: FloatArray) -> FloatArray:
            inside = np.where(where, table, 0.0)
            return np.array([(inside * leaf_value).sum() / max(float(inside.sum()), 1e-9)])

        return with_intervals({}, *self._by_model(groupings, mean_of), [MODEL], column=column)

    def _quantile(self, question: Quantile) -> Answers:
        j, column = modelled_column(self.model, question.column)
        if has_labels(column) and not column.ordered:
            raise ParameterError(f"column {question.column!r} has levels without order, which have no quantiles")
        shares = np.array(question.q)
        labels = {"q": list(question.q)}
        _, there = numbers_of(column)
        own = self._own_condition(question.where, question.column)
        leaves = self.direct.leaves(j)
        if own is not None and leaves is not None:
            bounds = quantile_intervals(leaves, self.model.refinements[j].fine, shares, there.astype(np.bool_) & own)
            shown = [show_values(column, one) for one in bounds]
            stddev = (bounds[2] - bounds[1]) / (2 * NORMAL)
            error = show_errors(column, stddev)
            basis = [MEASURED] * len(shares)
            return Answers(labels=labels, estimate=shown[0], stddev=error, lower=shown[1], upper=shown[2], basis=basis)
        groupings, where, at = self._with_leaves(question.where, j)
        values = _group_means(groupings[at], numbers_of(column)[0])
        others = tuple(i for i in range(len(groupings)) if i != at)

        def quantiles_of(table: FloatArray) -> FloatArray:
            mass = np.where(where, table, 0.0).sum(axis=others)
            order = np.argsort(values, kind="stable")
            steps = np.cumsum(mass[order])
            place = np.searchsorted(steps, shares * max(float(steps[-1]), 1e-9))
            return np.asarray(values[order][np.minimum(place, len(order) - 1)], np.float64)

        estimate, stddev = self._by_model(groupings, quantiles_of)
        return with_intervals(labels, estimate, stddev, [MODEL] * len(shares), column=column)

    def _smooth(self, question: Smooth) -> Answers:
        numeric = [name for name, column in self.model.schema.items() if column.quantity == "number"]
        names = list(question.columns or numeric)
        if not names:
            raise ParameterError("a smooth question needs columns of numbers, and the release has none")
        columns = []
        for name in names:
            j, column = modelled_column(self.model, name)
            if has_labels(column):
                raise ParameterError(f"column {name!r} has levels, which are no points of [-1, 1]")
            columns.append(j)
        function = question.function
        if len(columns) == 1 and callable(function) and self.direct.leaves(columns[0]) is not None:
            values = values_at(function, unit_points(self.model.schema[names[0]])[:, None])
            return with_intervals({}, *self._average(columns[0], np.ones(len(values), np.bool_), values), [MEASURED])

        def average(leaves: Sequence[IntArray], rng: Generator) -> FloatArray:
            points = [
                points_in(self.model.refinements[j].fine, leaf, rng) for j, leaf in zip(columns, leaves, strict=True)
            ]
            return averages(function, np.column_stack(points))

        def average_of(distribution: Distribution, refinements: Sequence[Refinement], rng: Generator) -> FloatArray:
            codes = distribution.sample(POINTS, rng)
            return average([draw_leaves(r, codes[:, j], rng) for j, r in zip(columns, refinements, strict=True)], rng)

        rng = generator(self.random_state)
        estimate = average_of(self.model.distribution, [self.model.refinements[j] for j in columns], rng)
        errors = []
        for replicate in self._replicates():
            own = generator(replicate.seed)
            exact = average([replicate.leaves[:, j] for j in columns], own)
            refined = [self.bootstrap.refinement(replicate, j) for j in columns]
            errors.append(average_of(replicate.fitted, refined, own) - exact)
        return with_intervals({}, estimate, _root_mean_square(errors, len(estimate)), [MODEL] * len(estimate))

    def _average(self, column: int, inside: BoolArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Answer the mean of a function of one column's units over some: a ratio of sums, with its first-order error."""
        some = inside.astype(np.float64)
        sums, _ = self._one_way(column, np.stack([some, some * values]))
        rows = max(float(sums[0]), 1.0)
        estimate = float(np.clip(sums[1] / rows, values.min(), values.max()))
        _, stddev = self._one_way(column, (some * (values - estimate) / rows)[None, :])
        return np.array([estimate]), stddev

    def _one_way(self, column: int, units: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Answer sums over rows of functions of one column's units, (q, releasable).

        Within a leaf rows are taken as spread evenly; the variance that this leaves is part of the error.
        """
        leaves = self.direct.leaves(column)
        if leaves is None:
            raise ParameterError("the release keeps no noisy table of this column")
        axis = self.model.refinements[column].fine
        means = np.array([leaf_means(axis, one) for one in units])
        squares = np.array([leaf_means(axis, one * one) for one in units])
        spread = np.maximum(squares - means**2, 0.0) @ np.maximum(leaves.counts, 0.0)
        variance = np.einsum("ij,jk,ik->i", means, leaves.covariance, means, optimize=True) + spread
        return means @ leaves.counts, np.sqrt(np.maximum(variance, 0.0))

    def _by_model(
        self, groupings: tuple[Grouping, ...], function: Callable[[FloatArray], FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Answer a function of the table of groups from the model, with bootstrap errors."""
        shares = [grouping.cell_share for grouping in groupings]
        estimate = function(self._table(self.model.distribution, groupings, shares) * self.direct.total[0])
        errors = []
        for replicate in self._replicates():
            refined = [
                self._shares(grouping, self.bootstrap.refinement(replicate, grouping.column)) for grouping in groupings
            ]
            fitted = self._table(replicate.fitted, groupings, refined) * replicate.total
            errors.append(function(fitted) - function(self.bootstrap.rows(replicate, groupings)))
        return estimate, _root_mean_square(errors, len(estimate))

    def _replicates(self) -> list[Any]:
        return self.bootstrap.replicates if self.direct.leaves(0) is not None else []

    def _shares(self, grouping: Grouping, refinement: Refinement) -> FloatArray:
        table = refinement.table()
        mass = table.sum(axis=1, keepdims=True)
        return np.asarray(table @ grouping.leaf_share / np.where(mass > 0, mass, 1.0))

    def _table(
        self, distribution: Distribution, groupings: tuple[Grouping, ...], shares: Sequence[FloatArray]
    ) -> FloatArray:
        clique = tuple(grouping.column for grouping in groupings)
        table = distribution.marginal(clique).reshape([self.model.domain.shape[j] for j in clique])
        for share in shares:  # the first axis becomes the last one
            table = np.tensordot(table, share, axes=(0, 0))
        return table

    def _condition(self, node: Node | None) -> tuple[tuple[Grouping, ...], BoolArray]:
        """Return the groups of the columns of a condition, ordered by column, and where it holds."""
        groupings, where, _ = self._with_leaves(node, None)
        return groupings, where

    def _with_leaves(self, node: Node | None, leafy: int | None) -> tuple[tuple[Grouping, ...], BoolArray, int]:
        """Also put the leaves of one column apart; return which axis it is."""
        comparisons = list(comparisons_of(node)) if node is not None else []
        names = {comparison.column for comparison in comparisons}
        columns = {modelled_column(self.model, name)[0] for name in names} | ({leafy} if leafy is not None else set())
        groupings, found = [], {}
        ordered = sorted(columns)
        for axis, j in enumerate(ordered):
            name = self.model.domain.names[j]
            column = self.model.schema[name]
            mine = [comparison for comparison in dict.fromkeys(comparisons) if comparison.column == name]
            masks = [units_where(comparison, self.model.schema) for comparison in mine]
            key = self._leaf_key(j, column) if j == leafy else np.zeros(grid_of(column).releasable, np.int64)
            for mask in masks:
                key = np.unique(2 * key + mask, return_inverse=True)[1]
            kept = key if j != leafy else np.where(numbers_of(column)[1] > 0, key, -1)
            numbers, first, groups = np.unique(kept, return_index=True, return_inverse=True)
            if numbers[0] == -1:
                groups, first = groups - 1, first[1:]
            grouping = Grouping(
                column=j, groups=groups, labels=tuple(range(len(first))), refinement=self.model.refinements[j]
            )
            groupings.append(grouping)
            for comparison, mask in zip(mine, masks, strict=True):
                shape = [1] * len(ordered)
                shape[axis] = len(first)
                found[comparison] = mask[first].reshape(shape)
        shape = [len(grouping.labels) for grouping in groupings]
        if math.prod(shape) > MOST_CELLS:
            raise ParameterError("this question divides its columns too finely: ask with fewer columns or comparisons")
        where = np.ones(shape, np.bool_) if node is None else np.broadcast_to(truth(node, found), shape)
        return tuple(groupings), where, ordered.index(leafy) if leafy is not None else -1

    def _leaf_key(self, j: int, column: Column) -> IntArray:
        units = np.arange(grid_of(column).releasable, dtype=np.uint32)
        return self.model.refinements[j].fine.cells_of(units).astype(np.int64)

    def _own_condition(self, node: Node | None, name: str) -> BoolArray | None:
        """Return a condition on one column's own units, or None if it needs others."""
        if node is None:
            return np.ones(grid_of(self.model.schema[name]).releasable, np.bool_)
        if columns_of(node) != {name}:
            return None
        masks: dict[Comparison, BoolArray] = {c: units_where(c, self.model.schema) for c in comparisons_of(node)}
        return truth(node, masks)


def _whole(weights: FloatArray) -> BoolArray:
    """Return which rows of weights hold nothing but 0 and 1."""
    return np.asarray(((np.abs(weights) < 1e-9) | (np.abs(weights - 1) < 1e-9)).all(axis=1))


def _contract(where: FloatArray, groupings: Sequence[Grouping]) -> FloatArray:
    """Return the part of each combination of coarse cells for which a condition on groups holds, flat."""
    table = where
    for grouping in groupings:
        table = np.tensordot(table, grouping.cell_share, axes=(0, 1))
    return table.ravel()


def _group_means(grouping: Grouping, values: FloatArray) -> FloatArray:
    """Return the mean value of the units of each group."""
    inside = grouping.groups >= 0
    size = np.bincount(grouping.groups[inside], minlength=len(grouping.labels))
    total = np.bincount(grouping.groups[inside], weights=values[inside], minlength=len(grouping.labels))
    return np.asarray(total / np.maximum(size, 1))


def _root_mean_square(errors: Sequence[FloatArray], size: int) -> FloatArray:
    if not errors:
        return np.full(size, np.nan)
    return np.asarray(np.sqrt(np.mean(np.square(errors), axis=0)))
