"""A question about several tables, expressed as sums over persons, and the answers from these sums.

`Asked` determines the table whose rows are counted: the lowest table that the question names, or the table ``of``.  The
module uses persons drawn from a model, with weights; it adds no noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from synthdp.answers.expressions import Both, Node, comparisons_of, truth
from synthdp.answers.grouping import groups_of
from synthdp.answers.moments import (
    check_numbers,
    check_order,
    check_weight,
    moment,
    pearson,
    positive,
    value_range,
)
from synthdp.answers.question_partition import MOST_CELLS
from synthdp.answers.questions import (
    Correlation,
    Count,
    Marginal,
    Mean,
    Quantile,
    Share,
    Sum,
    Variance,
)
from synthdp.answers.related.terms import ROWS, Drawn, Term, axis_of_term, column_of, deepest, points_met, term_of
from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.domain.histories import Layout
from synthdp.errors import ParameterError
from synthdp.schema.column import Column

Asking = Marginal | Count | Share | Sum | Mean | Variance | Correlation | Quantile
"""Type of the questions that a release of several tables can answer."""


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Holds the amounts that the rows of some persons add to the sums of a question.

    Parameters
    ----------
    owner
        (n,) the person of each counted row.
    group
        (n,) position of the answer that the row belongs to.
    values
        (n, features) amount that the row adds to each sum.
    labels
        By grouping column, the label of each answer.
    size
        Number of answers.
    """

    owner: IntArray
    group: IntArray
    values: FloatArray
    labels: dict[str, list[Any]]
    size: int

    def sums(self, weights: FloatArray) -> FloatArray:
        """Return the sums over rows, (features, size), with persons weighted by ``weights``, (persons,).

        Each replicate of the bootstrap has other weights, and so other sums.
        """
        of_row = weights[self.owner]
        return np.stack([np.bincount(self.group, of_row * one, self.size) for one in self.values.T])


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Holds a question about several tables, with its names resolved and the table whose rows are counted.

    Parameters
    ----------
    layout
        The tables.
    question
        The question.
    of
        Position of the table whose rows are counted; -1 for the lowest table that the question names.

    Attributes
    ----------
    terms
        By name in the question, its meaning.
    """

    layout: Layout
    question: Asking
    of: int
    terms: dict[str, Term] = field(init=False)

    def __post_init__(self) -> None:
        names = _names(self.question)
        terms = {name: term_of(self.layout, name) for name in names}
        object.__setattr__(self, "terms", terms)
        if self.of < 0:
            object.__setattr__(self, "of", deepest(self.layout, {one.table for one in terms.values()}, of=None))
        for node in _conditions(self.question):
            self._level(node)
        for name in [*_values(self.question), *_groups(self.question)]:
            if terms[name].table != self.of and terms[name].table not in self.layout.ancestors(self.of):
                below, above = self.layout.schema.names[terms[name].table], self.layout.schema.names[self.of]
                raise ParameterError(
                    f"a row of {above!r} can have several values of {name!r}, one per row of {below!r}: ask for "
                    f"a summary, such as '{below}.rows' or '{name if '.' in name else f'{below}.{name}'}.mean'"
                )
        self._check_columns()

    def column(self, name: str) -> Column | None:
        """Return the declaration of a named column; ``None`` for a number or a summary of child rows."""
        term = self.terms[name]
        return None if term.child >= 0 else column_of(self.layout, term)

    def value_range(self, name: str) -> tuple[float, float]:
        """Return the least and the largest value that a named number may have in one row.

        A row has at most ``at_most`` child rows, and a sum over none is 0.
        """
        term = self.terms[name]
        if term.child < 0 or term.summary == ROWS:
            return value_range(column_of(self.layout, term))
        least, most = value_range(column_of(self.layout, Term(term.child, term.name)))
        if term.summary != "sum":
            return least, most
        rows = self.layout.tables[term.child].at_most
        return min(0.0, rows * least), max(0.0, rows * most)

    def features(self, drawn: Drawn) -> Features:
        """Return the amounts that the rows of drawn persons add to the question's sums."""
        question = self.question
        inside = self._met(drawn, getattr(question, "where", None))
        group, labels, size = self._grouped(drawn)
        there = inside & (group >= 0)
        columns = [np.ones(len(there))]
        match question:
            case Share():
                both = question.condition if question.where is None else Both(question.condition, question.where)
                columns.append(self._met(drawn, both).astype(np.float64))
            case Sum() | Mean() | Variance():
                value, known = self._numbers(drawn, question.column)
                there &= known
                columns += [value, value**2]
            case Correlation():
                (a, known_a), (b, known_b) = (self._numbers(drawn, name) for name in question.columns)
                there &= known_a & known_b
                a, b = (one - (one[there].mean() if there.any() else 0.0) for one in (a, b))
                columns = [a**i * b**j for i in range(3) for j in range(3)]
            case Quantile():
                value, known = self._numbers(drawn, question.column)
                there &= known
                columns.append(value)
        weight = getattr(question, "weight", None)
        if weight is not None:
            times, known = self._numbers(drawn, weight)
            there &= known
            columns = [times * one for one in columns]
        rows = np.flatnonzero(there)
        values = np.column_stack([one[rows] for one in columns])
        return Features(drawn.places(self.of, 0)[rows], group[rows], values, labels, size)

    def answer(self, sums: FloatArray) -> FloatArray:
        """Return the answers, (size,), computed from sums, (features, size)."""
        match self.question:
            case Share():
                return np.asarray(sums[1] / positive(sums[0]))
            case Sum() | Mean() | Variance():
                return moment(self.question, sums)
            case Correlation():
                return pearson(sums.reshape(3, 3, -1))
        return np.asarray(sums[0])

    def one_column(self) -> Term | None:
        """Return the only column that a question for counts or shares names; ``None`` for other questions."""
        terms = {*self.terms.values()}
        if (
            not isinstance(self.question, Marginal | Count | Share)
            or len(terms) != 1
            or len(_groups(self.question)) > 1
        ):
            return None
        (term,) = terms
        return term if term.child < 0 else None

    def pairs_of_columns(self) -> Iterator[tuple[Term, Term]]:
        """Yield the pairs of columns or numbers of rows that the question relates, of one row or of a row and one above.

        The second is always a column, and of the lower table.  If no noisy answer is about a pair, the answer's error
        is bounded by the strongest relations of the pair.
        """
        terms = [
            one for one in dict.fromkeys(self.terms.values())
            if one.summary in ("", ROWS) and one.name in self.layout.tables[one.table].axes
        ]  # fmt: skip
        for fixed, moved in itertools.permutations(terms, 2):
            first = terms.index(fixed) < terms.index(moved) or fixed.child >= 0
            beside = fixed.table == moved.table and first
            if moved.child < 0 and (beside or fixed.table in self.layout.ancestors(moved.table)):
                yield fixed, moved

    def order(self, drawn: Drawn, term: Term) -> FloatArray:
        """Return a number for each row of a term's table, (rows,), by which the question distinguishes the rows.

        The number is how many of the question's conditions on the term the row meets; without conditions, the term's
        value if the question sums it, else its group.  The strongest relations pair rows in this order.
        """
        names = [name for name, one in self.terms.items() if one == term]
        compared = [one for node in _conditions(self.question) for one in comparisons_of(node) if one.column in names]
        if compared:
            return np.asarray(sum(drawn.holds(one, term).astype(np.float64) for one in compared))
        if {*names} & {*_values(self.question)}:
            return drawn.numbers(term)[0]
        return drawn.groups(term, None)[0].astype(np.float64)

    def answers_of_points(self, term: Term) -> IntArray:
        """Return for each grid point of ``term`` the position of the answer that counts its rows, (releasable,).

        The position is -1 if no answer counts them.
        """
        nodes = _conditions(self.question)
        met = points_met(self.layout, term, nodes[-1] if nodes else None)
        bins = dict(self.question.bins) if isinstance(self.question, Marginal) else {}
        for name in _groups(self.question):
            groups, _ = groups_of(column_of(self.layout, term), axis_of_term(self.layout, term), bins.get(name))
            return np.where(met, groups[: len(met)], -1)
        return np.where(met, 0, -1)

    def _met(self, drawn: Drawn, node: Node | None) -> BoolArray:
        """Return which rows of the counted table meet a condition, (rows,); all rows without a condition.

        A condition on a table below is met if any of the row's rows there meets it.
        """
        if node is None:
            return np.ones(drawn.rows(self.of), np.bool_)
        level = self._level(node)
        found = {
            one: drawn.holds(one, self.terms[one.column])[drawn.places(level, self.terms[one.column].table)]
            for one in comparisons_of(node)
        }
        holds = truth(node, found)
        if level == self.of:
            return holds
        met = np.zeros(drawn.rows(self.of), np.bool_)
        met[drawn.places(level, self.of)[holds]] = True
        return met

    def _level(self, node: Node) -> int:
        """Return the position of the lowest table in a condition: the condition is evaluated on each row of this table."""
        return deepest(self.layout, {self.terms[one.column].table for one in comparisons_of(node)}, of=self.of)

    def _numbers(self, drawn: Drawn, name: str) -> tuple[FloatArray, BoolArray]:
        """Return a named number for each row of the counted table, and whether the row has one, (rows,) each."""
        term = self.terms[name]
        values, there = drawn.numbers(term)
        places = drawn.places(self.of, term.table)
        return values[places], there[places]

    def _grouped(self, drawn: Drawn) -> tuple[IntArray, dict[str, list[Any]], int]:
        """Return the position of each row's answer, (rows,), the labels of the answers, and the number of answers.

        The position is -1 for a row without an answer.
        """
        names = _groups(self.question)
        bins = dict(self.question.bins) if isinstance(self.question, Marginal) else {}
        found = []
        for name in names:
            groups, labels = drawn.groups(self.terms[name], bins.get(name))
            found.append((groups[drawn.places(self.of, self.terms[name].table)], labels))
        shape = [len(labels) for _, labels in found]
        if math.prod(shape) > MOST_CELLS:
            raise ParameterError(f"this question has {math.prod(shape)} answers; ask for at most {MOST_CELLS}")
        group = np.zeros(drawn.rows(self.of), np.int64)
        nowhere = np.zeros(len(group), np.bool_)
        for one, labels in found:
            group, nowhere = group * len(labels) + one, nowhere | (one < 0)
        each = np.indices(shape).reshape(len(shape), math.prod(shape))
        listed = {name: [found[i][1][g] for g in row] for i, (name, row) in enumerate(zip(names, each, strict=True))}
        return np.where(nowhere, -1, group), listed, math.prod(shape)

    def _check_columns(self) -> None:
        """Raise ParameterError unless the question's statistic exists for its columns and its weight can weight rows.

        Numbers and summaries of child rows have every statistic, but cannot weight rows.
        """
        question = self.question
        weight = getattr(question, "weight", None)
        for name in _values(question)[: None if weight is None else -1]:
            column = self.column(name)
            if column is not None and isinstance(question, Quantile):
                check_order(name, column)
            elif column is not None:
                check_numbers(name, column, type(question).__name__.lower())
        if weight is not None and (column := self.column(weight)) is None:
            raise ParameterError(f"{weight!r} summarises rows, so it cannot be a weight: name a column of numbers")
        if weight is not None and column is not None:
            check_weight(weight, column, of=getattr(question, "column", None))


def _values(question: Asking) -> list[str]:
    """Return the names of the columns whose numbers a question uses, including its weight; none for an unweighted count."""
    found: list[str] = []
    match question:
        case Sum() | Mean() | Variance() | Quantile():
            found = [question.column]
        case Correlation():
            found = [*question.columns]
    weight = getattr(question, "weight", None)
    return found if weight is None else [*found, weight]


def _groups(question: Asking) -> Sequence[str]:
    """Return the names of the columns that a question groups by."""
    return question.columns if isinstance(question, Marginal) else question.by


def _conditions(question: Asking) -> list[Node]:
    """Return a question's conditions; a share's condition is joined with its ``where``."""
    where = getattr(question, "where", None)
    found = [] if where is None else [where]
    if isinstance(question, Share):
        found.append(question.condition if where is None else Both(question.condition, where))
    return found


def _names(question: Asking) -> list[str]:
    """Return all names in a question, each once, to look each name up in the schema."""
    compared = [one.column for node in _conditions(question) for one in comparisons_of(node)]
    return [*dict.fromkeys([*_values(question), *_groups(question), *compared])]
