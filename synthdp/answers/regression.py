"""Coefficients of linear regressions, from rows drawn from the model, with bootstrap errors.

Rows are drawn because the joint table of many columns would be too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from synthdp.answers.answers import MODEL, Answers, with_intervals
from synthdp.answers.bootstrap import (
    Bootstrap,
    BootstrapCache,
    draw_leaves,
    root_mean_square,
    unmeasured_correlation_errors,
)
from synthdp.answers.direct import GLSEstimates
from synthdp.answers.expressions import comparisons_of, points_where, truth
from synthdp.answers.grouping import QuestionBinning, numbers_of
from synthdp.answers.moments import check_numbers
from synthdp.answers.question_partition import grouping_of, modelled_column
from synthdp.answers.questions import Regression
from synthdp.arrays import AnyArray, BoolArray, Codes, FloatArray, IntArray
from synthdp.domain.grid import labels_of
from synthdp.errors import ParameterError
from synthdp.randomness import generator
from synthdp.sampling.synthetic_model import SyntheticModel

POINTS = 60_000
"""Rows drawn from a model to estimate regression coefficients; the sampling error of these rows is part of the standard
error.  A safety limit of time: the sampling error of a mean is 1 / sqrt(POINTS) = .4 % of a column's standard deviation.
"""

MOST_COEFFICIENTS = 80
"""Most coefficients of one regression.  A safety limit of time."""

_AT_ONCE = 2**20
"""Most products of columns held in memory at once: 8 MB. A safety limit."""

LEAST_EIGENVALUE, HALVINGS = 0.05, 6
"""Smallest eigenvalue that a correlation matrix must keep after a random change, or its own if that is less; a
numerical tolerance.  Otherwise the change is halved, at most HALVINGS times, a safety limit."""

COLLINEAR = 1e-7
"""Fraction of a column's variance that earlier columns must leave unexplained for the column to get a coefficient.  A
numerical tolerance."""


@dataclass(frozen=True, eq=False)
class Points:
    """Holds rows drawn from a model; grid points are drawn column by column when needed.

    Parameters
    ----------
    model
        The model.
    leaves_of
        Function from a column's position to the fine bins of the rows, (m,).
    seed
        Seed of the grid points inside fine bins.
    """

    model: SyntheticModel
    leaves_of: Callable[[int], AnyArray]
    seed: int

    def indices(self, column: int) -> IntArray:
        """Return the grid point of each row in a column, (m,)."""
        if column not in self._indices:
            leaves, rng = self.leaves_of(column), generator(self.seed + column)
            self._indices[column] = self.model.refinements[column].fine.indices_in(leaves, rng).astype(np.int64)
        return self._indices[column]

    @cached_property
    def _indices(self) -> dict[int, IntArray]:
        """Return the cache of `indices`: by column, the (m,) grid points of the rows, drawn only once."""
        return {}

    @classmethod
    def of_model(cls, model: SyntheticModel, seed: int) -> Points:
        """Return `POINTS` rows drawn from the model, for the estimates."""
        codes: Codes = model.distribution.sample(POINTS, generator(seed))
        return cls(model, lambda j: draw_leaves(model.refinements[j], codes[:, j], generator(seed + j)), seed)

    @classmethod
    def of_pool(cls, model: SyntheticModel, bootstrap: Bootstrap, seed: int) -> Points:
        """Return the points that all replicates of a bootstrap share, as rows, for the errors."""
        return cls(model, bootstrap.leaves, seed)


@dataclass(frozen=True, eq=False)
class Regressions:
    """Answers regression questions about one release.

    Parameters
    ----------
    direct
        GLS estimates of the release, with its model.
    pools
        The bootstraps of the release.
    seed
        Seed of the drawn rows; equal questions get equal answers.
    """

    direct: GLSEstimates
    pools: BootstrapCache
    seed: int

    @property
    def model(self) -> SyntheticModel:
        """Return the released model."""
        return self.direct.model

    @cached_property
    def drawn(self) -> Points:
        """Return rows drawn from the model, for the estimates."""
        return Points.of_model(self.model, self.seed)

    def pool(self, bootstrap: Bootstrap) -> Points:
        """Return the points of a bootstrap, for the errors; the last bootstrap's points are cached."""
        if not self._pool or self._pool[0][0] is not bootstrap:
            self._pool[:] = [(bootstrap, Points.of_pool(self.model, bootstrap, self.seed))]
        return self._pool[0][1]

    @cached_property
    def _pool(self) -> list[tuple[Bootstrap, Points]]:
        """Return the cache of `pool`: at most one bootstrap, the last, with its points."""
        return []

    def answer(self, question: Regression) -> Answers:
        """Return the coefficients of a regression with standard errors, group after group."""
        response, terms = question.formula
        columns = [self._column(name, response=name == response) for name in (response, *terms)]
        names = ["intercept", *(label for name in terms for label in self._labels(name))]
        if len(names) > MOST_COEFFICIENTS:
            raise ParameterError(f"this regression has {len(names)} coefficients; ask for at most {MOST_COEFFICIENTS}")
        grouped = [grouping_of(self.model, name, None) for name in question.by]
        compared = [
            modelled_column(self.model, comparison.column)[0]
            for comparison in (() if question.where is None else comparisons_of(question.where))
        ]
        cells = list(np.ndindex(*(len(grouping.labels) for grouping in grouped)))
        if len(cells) * len(names) > MOST_COEFFICIENTS**2:
            raise ParameterError("this regression has too many groups: group by fewer columns, or use fewer terms")
        labels: dict[str, list[object]] = {
            name: [grouping.labels[cell[at]] for cell in cells for _ in names]
            for at, (name, grouping) in enumerate(zip(question.by, grouped, strict=True))
        }
        estimate, stddev = np.empty((2, len(cells), len(names)))
        known = self.direct.leaves(0) is not None
        bootstrap = self.pools.of([*columns, *compared, *(grouping.column for grouping in grouped)])
        for row, cell in enumerate(cells):
            inside = [
                self._inside(points, question, columns) & _of_cell(points, grouped, cell)
                for points in ([self.drawn, self.pool(bootstrap)] if known else [self.drawn])
            ]
            design = self._design(self.drawn, question, inside[0])
            estimate[row] = design.fit()
            errors = list(self._errors(question, bootstrap, inside[1], columns)) if known else []
            stddev[row] = np.hypot(root_mean_square(errors, len(names)), design.errors())
            stddev[row] = np.hypot(stddev[row], self._of_variances(terms, estimate[row], design))
        labels["term"] = [*names] * len(cells)
        return with_intervals(labels, estimate.ravel(), stddev.ravel(), [MODEL] * estimate.size)

    def _errors(
        self, question: Regression, bootstrap: Bootstrap, inside: BoolArray, columns: list[int]
    ) -> Iterator[FloatArray]:
        """Yield for each bootstrap replicate the coefficients of its fit minus the coefficients of its table, (p,)."""
        design = self._design(self.pool(bootstrap), question, inside)
        fitted, rows = (weights[inside, 1:] for weights in bootstrap.weights(columns))
        yield from design.fits(fitted) - design.fits(rows, self._unmeasured_stddevs(question, bootstrap))

    def _unmeasured_stddevs(self, question: Regression, bootstrap: Bootstrap) -> FloatArray:
        """Return the stddevs of unmeasured correlations, (p + 1, p + 1), in the order of the columns of `Design`.

        Each replicate changes correlations at random with these stddevs.  They are 0 for levels of a categorical column
        and for the intercept.
        """
        names, places, at = (*question.formula.terms, question.formula.response), {}, 1
        for name in names:
            j, column = modelled_column(self.model, name)
            if column.quantity != "label":
                places[at] = j
            at += len(self._labels(name))
        found = np.zeros((at, at))
        found[np.ix_(list(places), list(places))] = unmeasured_correlation_errors(bootstrap, list(places.values()))
        return found

    def _of_variances(self, terms: Sequence[str], coefficients: FloatArray, design: Design) -> FloatArray:
        """Return the standard errors of coefficients, (p,), due to noise in the variance of their terms.

        A coefficient is a covariance over a variance, and noise may hide the few rows far out that make most of one.
        The intercept, which is the first, gets the error that the errors of the other coefficients imply.  Coefficients
        of levels have 0.
        """
        errors = np.zeros(len(coefficients))
        at = 1
        for name in terms:
            j, _ = modelled_column(self.model, name)
            size = len(self._labels(name))
            if self.model.schema[name].quantity != "label":
                errors[at] = abs(coefficients[at]) * self.direct.variance_error(j)
            at += size
        errors[0] = math.sqrt(float(np.nansum((errors[1:] * design.centre[1:-1]) ** 2)))
        return errors

    def _column(self, name: str, *, response: bool) -> int:
        """Return a column's position in the model; raise ParameterError if a regression cannot use it."""
        j, column = modelled_column(self.model, name)
        if column.temporal:
            raise ParameterError(
                f"column {name!r} holds {column.holds}, which a regression cannot use: name another column"
            )
        if response and column.quantity == "label":
            raise ParameterError(
                f"column {name!r} has levels, so it cannot be the response of a regression: name a column of numbers"
            )
        if column.quantity != "label":
            check_numbers(name, column, "regression")
        return j

    def _labels(self, name: str) -> list[str]:
        """Return the names of a column's coefficients: one for each level but the first, or one for a number."""
        column = self.model.schema[name]
        return [f"{name}[{level}]" for level in labels_of(column)[1:]] if column.quantity == "label" else [name]

    def _inside(self, points: Points, question: Regression, columns: list[int]) -> BoolArray:
        """Return a mask of the points without missing values in the formula's columns that meet the condition, (m,)."""
        schema, names = self.model.schema, self.model.domain.names
        inside = np.logical_and.reduce([numbers_of(schema[names[j]])[1][points.indices(j)] > 0 for j in columns])
        if question.where is not None:
            found = {c: points_where(c, schema)[points.indices(self.model.domain.index(c.column)[0])]
                     for c in comparisons_of(question.where)}  # fmt: skip
            inside &= truth(question.where, found)
        return np.asarray(inside, np.bool_)

    def _design(self, points: Points, question: Regression, inside: BoolArray) -> Design:
        """Return the standardised design matrix of the points in ``inside``: intercept, terms and response.

        A categorical column has one column of 0 and 1 for each level but the first.
        """
        parts = [np.ones((1, int(inside.sum())))]
        for name in (*question.formula.terms, question.formula.response):
            j, column = modelled_column(self.model, name)
            values = numbers_of(column)[0][points.indices(j)[inside]]
            levels = np.arange(1, len(labels_of(column))) if column.quantity == "label" else None
            parts.append(values[None, :] if levels is None else (values == levels[:, None]).astype(np.float64))
        return Design.of(np.concatenate(parts).T)


def _of_cell(points: Points, grouped: Sequence[QuestionBinning], cell: tuple[int, ...]) -> BoolArray | bool:
    """Return a mask of the points in one combination of the question's groups, (m,); True without grouping columns.

    Each combination gets a regression of its own.
    """
    found: BoolArray | bool = True
    for grouping, group in zip(grouped, cell, strict=True):
        found = found & (grouping.groups[points.indices(grouping.column)] == group)
    return found


@dataclass(frozen=True, eq=False)
class Design:
    """Holds the design matrix of a regression: intercept, terms and response, standardised for numerical accuracy.

    Parameters
    ----------
    columns
        (m, p + 1) the intercept, then columns with mean 0 and standard deviation 1.
    centre, scale
        (p + 1,) the number subtracted from each column, and its divisor.
    """

    columns: FloatArray
    centre: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, columns: FloatArray) -> Design:
        """Return the design, standardised for accuracy, from (m, p + 1) columns: intercept, p - 1 terms, response.

        All but the intercept get mean 0 and standard deviation 1.  Their means and divisors are kept, so that
        coefficients come out in the original units; a constant column is divided by 1.
        """
        centre = columns.mean(axis=0) if len(columns) else np.zeros(columns.shape[1])
        centre[0] = 0.0
        scaled = columns - centre
        scale = np.sqrt((scaled**2).mean(axis=0)) if len(columns) else np.ones(columns.shape[1])
        scale[scale == 0] = 1.0
        return cls(scaled / scale, centre, scale)

    def fit(self) -> FloatArray:
        """Return the least-squares coefficients, (p,); NaN for a term that is a linear function of earlier terms."""
        return self._solution.coefficients

    def fits(self, weights: FloatArray, open_to: FloatArray | None = None) -> FloatArray:
        """Return the weighted least-squares coefficients, (r, p), for each column of weights, (m, r).

        With ``open_to``, correlations are changed at random with these stddevs, (p + 1, p + 1).  A change is halved or
        dropped if the matrix would not be valid.
        """
        grams = self._products(weights)
        if open_to is not None and open_to.any():
            rng = generator(0)
            grams = np.array([_changed(gram, open_to * rng.standard_normal(open_to.shape)) for gram in grams])
        return np.array([self._solved(gram).coefficients for gram in grams])

    def errors(self) -> FloatArray:
        """Return the coefficients' standard errors, (p,), as if the points were a random sample.

        The errors are robust to unequal variance.
        """
        found = self._solution
        errors = np.full(self.columns.shape[1] - 1, np.nan)
        terms = self.columns[:, found.kept]
        scores = terms * (self.columns[:, -1] - terms @ found.scaled)[:, None]
        moved = found.back @ found.inverse / max(len(terms), 1)
        errors[found.kept] = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", moved, scores.T @ scores, moved), 0.0))
        return errors

    @cached_property
    def _solution(self) -> _Solution:
        """Return the solution of the unweighted normal equations, from which coefficients and their errors are read."""
        return self._solved(np.asarray(self.columns.T @ self.columns / max(len(self.columns), 1), np.float64))

    def _products(self, weights: FloatArray) -> FloatArray:
        """Return the weighted mean products of every two columns, (r, p + 1, p + 1), for each column of weights.

        Each replicate's normal equations are made of them, without its own pass over the points.
        """
        left, right = np.triu_indices(self.columns.shape[1])
        sums = np.zeros((len(left), weights.shape[1]))
        step = max(1, _AT_ONCE // len(left))
        for begin in range(0, len(weights), step):
            some = np.ascontiguousarray(self.columns[begin : begin + step].T)
            sums += (some[left] * some[right]) @ weights[begin : begin + step]
        found = np.empty((weights.shape[1], *[self.columns.shape[1]] * 2))
        found[:, left, right] = found[:, right, left] = (sums / np.maximum(weights.sum(axis=0), 1e-300)).T
        return found

    def _solved(self, gram: FloatArray) -> _Solution:
        """Return the solution of the normal equations, from mean products of columns, (p + 1, p + 1).

        Terms that depend on earlier ones have no coefficient (NaN).
        """
        p = len(gram) - 1
        kept = _independent(gram[:p, :p])
        inverse = np.asarray(np.linalg.inv(gram[np.ix_(kept, kept)]), np.float64)
        found = inverse @ gram[kept, p]
        back = np.diag(self.scale[p] / self.scale[kept])
        back[:1, 1:] = -self.centre[kept[1:]] * self.scale[p] / self.scale[kept[1:]]
        coefficients = np.full(p, np.nan)
        coefficients[kept] = back @ found + np.where(kept == 0, self.centre[p], 0.0)
        return _Solution(coefficients, kept, inverse, found, back)


class _Solution(NamedTuple):
    """Holds the solution of normal equations, in original and in standardised units.

    Parameters
    ----------
    coefficients
        (p,) coefficients in original units; NaN for a term that earlier terms determine.
    kept
        (q,) positions of the q linearly independent terms.
    inverse
        (q, q) inverse of their mean products.
    scaled
        (q,) their coefficients in standardised units.
    back
        (q, q) matrix from standardised to original units.
    """

    coefficients: FloatArray
    kept: IntArray
    inverse: FloatArray
    scaled: FloatArray
    back: FloatArray


def _changed(gram: FloatArray, change: FloatArray) -> FloatArray:
    """Return mean products, (p, p), after a change of correlations, halved until the matrix is valid.

    A correlation matrix with a negative eigenvalue describes no rows.  Products stay unchanged if no halving makes it
    valid.
    """
    scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    upper = np.triu(change, 1)
    change = (upper + upper.T) * np.outer(scale, scale)
    least = np.linalg.eigvalsh(gram)[0]
    for _ in range(HALVINGS):
        if np.linalg.eigvalsh(gram + change)[0] >= min(least, LEAST_EIGENVALUE):
            return gram + change
        change = change / 2
    return gram


def _independent(gram: FloatArray) -> IntArray:
    """Return the positions, (kept,), of columns that no earlier columns determine linearly, from mean products.

    The normal equations of these alone have a solution; the other terms get no coefficient.
    """
    kept: list[int] = []
    for j in range(len(gram)):
        left = gram[j, j]
        if kept:
            with_kept = gram[kept, j]
            left -= with_kept @ np.linalg.solve(gram[np.ix_(kept, kept)], with_kept)
        if left > COLLINEAR:
            kept.append(j)
    return np.array(kept, np.int64)
