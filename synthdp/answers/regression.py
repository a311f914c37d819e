"""Coefficients of linear regressions, from rows drawn from the model, with bootstrap errors.

Rows are needed, not tables: a regression of many columns has no table that is small enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from synthdp.answers.answers import MODEL, Answers, with_intervals
from synthdp.answers.bootstrap import Bootstrap, draw_leaves, root_mean_square
from synthdp.answers.derived import grouping_of, modelled_column
from synthdp.answers.expressions import comparisons_of, points_where, truth
from synthdp.answers.grouping import Grouping, numbers_of
from synthdp.answers.questions import Regression
from synthdp.arrays import AnyArray, BoolArray, Codes, FloatArray, IntArray
from synthdp.domain.grid import labels_of
from synthdp.errors import ParameterError
from synthdp.randomness import generator
from synthdp.sampling.synthetic_model import SyntheticModel

POINTS = 100_000
"""Rows drawn from a model to estimate coefficients; what their number leaves open is part of the error."""

MOST_COEFFICIENTS = 80

COLLINEAR = 1e-7
"""A column whose variance that earlier columns do not explain is below this part of it has no coefficient."""


@dataclass(frozen=True, eq=False)
class Points:
    """Rows drawn from a model as grid indices of its columns, each column when it is first needed.

    Parameters
    ----------
    model
        Whose columns they are in.
    leaves_of
        From a column to the leaves of the rows.
    seed
        Of the grid points within leaves.
    """

    model: SyntheticModel
    leaves_of: Callable[[int], AnyArray]
    seed: int

    def indices(self, column: int) -> IntArray:
        """Return the grid index of each row in a column."""
        if column not in self._indices:
            leaves, rng = self.leaves_of(column), generator(self.seed + column)
            self._indices[column] = self.model.refinements[column].fine.indices_in(leaves, rng).astype(np.int64)
        return self._indices[column]

    @cached_property
    def _indices(self) -> dict[int, IntArray]:
        return {}

    @classmethod
    def of_model(cls, model: SyntheticModel, seed: int) -> Points:
        """Return rows that have the model's law."""
        codes: Codes = model.distribution.sample(POINTS, generator(seed))
        return cls(model, lambda j: draw_leaves(model.refinements[j], codes[:, j], generator(seed + j)), seed)

    @classmethod
    def of_pool(cls, bootstrap: Bootstrap, seed: int) -> Points:
        """Return the points that the replicates of a bootstrap share."""
        return cls(bootstrap.direct.model, lambda j: bootstrap.replicates.leaves[:, j], seed)


@dataclass(frozen=True, eq=False)
class Regressions:
    """Answers questions about the coefficients of regressions.

    Parameters
    ----------
    bootstrap
        Of the release.
    seed
        Of the points; equal questions get equal answers.
    """

    bootstrap: Bootstrap
    seed: int

    @property
    def model(self) -> SyntheticModel:
        """The released model."""
        return self.bootstrap.direct.model

    @cached_property
    def drawn(self) -> Points:
        """Rows of the model."""
        return Points.of_model(self.model, self.seed)

    @cached_property
    def pool(self) -> Points:
        """Points of the bootstrap."""
        return Points.of_pool(self.bootstrap, self.seed)

    def answer(self, question: Regression) -> Answers:
        """Return the coefficients, those of each group one after the other."""
        response, terms = question.formula
        columns = [self._column(name, response=name == response) for name in (response, *terms)]
        names = ["intercept", *(label for name in terms for label in self._labels(name))]
        if len(names) > MOST_COEFFICIENTS:
            raise ParameterError(f"this regression has {len(names)} coefficients; ask for at most {MOST_COEFFICIENTS}")
        grouped = [grouping_of(self.model, name, None) for name in question.by]
        for comparison in () if question.where is None else comparisons_of(question.where):
            modelled_column(self.model, comparison.column)
        cells = list(np.ndindex(*(len(grouping.labels) for grouping in grouped)))
        if len(cells) * len(names) > MOST_COEFFICIENTS**2:
            raise ParameterError("this regression has too many groups: ask for fewer")
        labels: dict[str, list[object]] = {
            name: [grouping.labels[cell[at]] for cell in cells for _ in names]
            for at, (name, grouping) in enumerate(zip(question.by, grouped, strict=True))
        }
        estimate, stddev = np.empty((2, len(cells), len(names)))
        known = self.bootstrap.direct.leaves(0) is not None
        for row, cell in enumerate(cells):
            inside = [
                self._inside(points, question, columns) & _of_cell(points, grouped, cell)
                for points in ([self.drawn, self.pool] if known else [self.drawn])
            ]
            design = self._design(self.drawn, question, inside[0])
            estimate[row], chance = _fit(design, np.ones(len(design)))
            errors = list(self._errors(question, inside[1], columns)) if known else []
            stddev[row] = np.hypot(root_mean_square(errors, len(names)), chance)
        labels["term"] = [*names] * len(cells)
        return with_intervals(labels, estimate.ravel(), stddev.ravel(), [MODEL] * estimate.size)

    def _errors(self, question: Regression, inside: BoolArray, columns: list[int]) -> Iterator[FloatArray]:
        """Yield for each replicate how far the coefficients of its fit are from those of its table."""
        design = self._design(self.pool, question, inside)
        fitted, rows = self.bootstrap.weights(columns)
        for r in range(1, rows.shape[1]):
            yield _fit(design, fitted[inside, r])[0] - _fit(design, rows[inside, r])[0]

    def _column(self, name: str, *, response: bool) -> int:
        j, column = modelled_column(self.model, name)
        if column.temporal:
            raise ParameterError(f"column {name!r} holds {column.holds}, which have no place in a regression")
        if response and column.quantity == "label":
            raise ParameterError(f"column {name!r} has levels, which a regression cannot explain: name one of numbers")
        return j

    def _labels(self, name: str) -> list[str]:
        column = self.model.schema[name]
        return [f"{name}[{level}]" for level in labels_of(column)[1:]] if column.quantity == "label" else [name]

    def _inside(self, points: Points, question: Regression, columns: list[int]) -> BoolArray:
        """Return which points have no missing value in a column of the formula and meet the condition."""
        schema, names = self.model.schema, self.model.domain.names
        inside = np.logical_and.reduce([numbers_of(schema[names[j]])[1][points.indices(j)] > 0 for j in columns])
        if question.where is not None:
            found = {c: points_where(c, schema)[points.indices(self.model.domain.index(c.column)[0])]
                     for c in comparisons_of(question.where)}  # fmt: skip
            inside &= truth(question.where, found)
        return np.asarray(inside, np.bool_)

    def _design(self, points: Points, question: Regression, inside: BoolArray) -> FloatArray:
        """Return the intercept, the terms and the response of some points, (m, p + 1)."""
        parts = [np.ones((int(inside.sum()), 1))]
        for name in (*question.formula.terms, question.formula.response):
            j, column = modelled_column(self.model, name)
            values = numbers_of(column)[0][points.indices(j)[inside]][:, None]
            levels = np.arange(1, len(labels_of(column))) if column.quantity == "label" else None
            parts.append(values if levels is None else (values == levels).astype(np.float64))
        return np.concatenate(parts, axis=1)


def _of_cell(points: Points, grouped: Sequence[Grouping], cell: tuple[int, ...]) -> BoolArray | bool:
    """Return which points are in one group of each column that a question groups by."""
    found: BoolArray | bool = True
    for grouping, group in zip(grouped, cell, strict=True):
        found = found & (grouping.groups[points.indices(grouping.column)] == group)
    return found


def _fit(design: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the coefficients of weighted least squares and their standard errors were the rows a random sample.

    NaN for what earlier columns explain already.  Columns are shifted and scaled first.
    """
    p = design.shape[1] - 1
    coefficients, errors, total = np.full(p, np.nan), np.full(p, np.nan), float(weight.sum())
    if total <= 0:
        return coefficients, errors
    centre = weight @ design / total
    centre[0] = 0.0
    scale = np.sqrt(weight @ (design - centre) ** 2 / total)
    scaled = (design - centre) / np.where(scale > 0, scale, 1.0)
    gram = (scaled * weight[:, None]).T @ scaled / total
    kept = _independent(gram[:p, :p])
    inverse = np.linalg.inv(gram[np.ix_(kept, kept)])
    found = inverse @ gram[kept, p]
    residual = scaled[:, p] - scaled[:, kept] @ found
    influence = (scaled[:, kept] * (residual * weight)[:, None]) @ inverse / total
    # In the units of the columns; the intercept is that of columns that are not shifted.
    back = np.diag(scale[p] / scale[kept])
    back[0, 1:] = -centre[kept[1:]] * scale[p] / scale[kept[1:]]
    coefficients[kept] = back @ found + np.where(kept == 0, centre[p], 0.0)
    errors[kept] = np.sqrt(((influence @ back.T) ** 2).sum(axis=0))
    return coefficients, errors


def _independent(gram: FloatArray) -> IntArray:
    """Return the columns that earlier ones do not explain, from their products."""
    kept: list[int] = []
    for j in range(len(gram)):
        left = gram[j, j]
        if kept:
            with_kept = gram[kept, j]
            left -= with_kept @ np.linalg.solve(gram[np.ix_(kept, kept)], with_kept)
        if left > COLLINEAR:
            kept.append(j)
    return np.array(kept, np.int64)
