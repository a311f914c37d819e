"""Answers with error bars to questions about several tables.

The estimate is the model's, from many persons drawn from it.  A question about one attribute of persons alone is
answered from the attribute's noisy table.  Only the released model and its noisy answers are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from synthdp.answers.answers import MEASURED, MODEL, STUDENT, Answers, format_values, show_errors, with_intervals
from synthdp.answers.bootstrap import root_mean_square
from synthdp.answers.moments import ends_of_values
from synthdp.answers.questions import (
    Correlation,
    Count,
    Marginal,
    Mean,
    Quantile,
    Question,
    Share,
    Sum,
    Variance,
)
from synthdp.answers.related.known import MeasuredDatabase, by_noisy_table
from synthdp.answers.related.replicates import DatabaseReplicates, pool_size, refitted
from synthdp.answers.related.resolved import Asked, Asking, Features
from synthdp.answers.related.terms import Drawn, Term
from synthdp.answers.related.unfit import unproven_places
from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements
from synthdp.queries.person_tables import Kind
from synthdp.randomness import generator
from synthdp.sampling.database_model import DatabaseModel

PERSONS, ROWS = 30_000, 120_000
"""Most persons drawn for the estimates, and about the most rows.  A safety limit of time."""

FEWEST = 5_000
"""Fewest persons drawn for the estimates, whatever the limit on drawn rows: with 5 000 persons the sampling error of a share
is at most .007.  A tolerance."""

NOTHING = "no synthetic row meets the conditions of this question, so it has no answer: ask about more rows"
"""Error text for a question whose conditions no synthetic row meets."""

BLOCKS = 12
"""Number of parts of the drawn persons; the spread of the parts' answers gives the sampling error.  A part of few persons
has undefined answers.  A tolerance: the relative error of a stddev from 12 parts is 1 / sqrt(2 (BLOCKS - 1)) = 21 %."""


def answer(
    model: DatabaseModel, measurements: Sequence[Measurements], question: Question, *, of: str | None = None
) -> Any:
    """Return the answer to a question about the private tables, with error bars, computed from the released data alone.

    Parameters
    ----------
    model
        The released model.
    measurements
        The noisy answers that the model was fitted to.
    question
        A question made by `marginal`, `count`, `share`, `sum`, `mean`, `variance`, `correlation` or `quantile`.  Names
        are columns, or ``table.column`` if several tables have the name.  ``visits.rows`` is the number of rows of
        ``visits`` that belong to a row of its parent.  ``visits.cost.mean`` (or ``sum``, ``min``, ``max``, ``first``,
        ``last``) summarises these rows.
    of
        The table whose rows are counted: ``of="persons"`` counts persons with at least one row that meets a condition.
        Default: the lowest table that the question names, joined with the tables above; the persons if it names none.

    Returns
    -------
    A pandas DataFrame, see `Answers`.

    Raises
    ------
    ParameterError
        If the question names an unknown column or tables whose rows are not joined, or no synthetic row meets its
        conditions.
    """
    return asker(model, tuple(measurements)).ask(question, of=of).to_frame()


@lru_cache(maxsize=2)
def asker(model: DatabaseModel, measurements: tuple[Measurements, ...]) -> DatabaseAsker:
    """Return the object that answers questions about one release; recent ones are cached with their replicates."""
    return DatabaseAsker(model, measurements)


class DatabaseAsker:
    """Answers questions about one release of several tables.

    Parameters
    ----------
    model, measurements
        The released model and the noisy answers that it was fitted to.
    random_state
        Seed of the persons that are drawn; equal questions get equal answers.
    """

    def __init__(self, model: DatabaseModel, measurements: tuple[Measurements, ...], *, random_state: int = 0) -> None:
        self.model, self.random_state = model, random_state
        self.known = MeasuredDatabase.of(measurements, model.layout)
        self.measurements = measurements

    def ask(self, question: Question, *, of: str | None = None) -> Answers:
        """Return the answer to one question; see `answer`."""
        if not isinstance(question, Asking):
            raise ParameterError(
                "a release of several tables answers marginal, count, share, sum, mean, variance, correlation and "
                "quantile only: draw rows with sample() for other questions"
            )
        names = self.model.schema.names
        if of is not None and of not in names:
            raise ParameterError(f"there is no table {of!r}; there are: {', '.join(names)}")
        asked = Asked(self.model.layout, question, -1 if of is None else names.index(of))
        if isinstance(question, Quantile):
            return self._quantile(asked, question)
        measured = by_noisy_table(self.model.layout, self.measurements, self.known, asked)
        if measured is not None:
            found = self._shown(asked, {}, np.array([measured[0]]), np.array([measured[1]]), [MEASURED])
            left_out = ~np.isnan(self._left_out(asked, 1))
            return replace(found, lower=np.where(left_out, 0.0, found.lower)) if left_out.any() else found
        features = asked.features(self.persons)
        estimate, beside = self._estimated(asked, features)
        stddev = np.hypot(self._error(asked, features, estimate), np.hypot(beside, self._untold(asked, features)))
        return self._shown(asked, features.labels, estimate, stddev, [MODEL] * features.size)

    @cached_property
    def persons(self) -> Drawn:
        """Return persons drawn from the model once; estimates that no noisy table gives are counted on these persons.

        About `ROWS` rows are drawn, but at least `FEWEST` and at most `PERSONS` persons.
        """
        rng = generator(self.random_state)
        some = self.model.draw(500, rng)[0]
        rows = sum(len(one) for one in some.tables) / 500
        many = int(np.clip(ROWS / max(rows, 1.0), FEWEST, PERSONS))
        return Drawn(self.model, self.model.draw(many, rng)[0], rng)

    @cached_property
    def weights(self) -> FloatArray:
        """Return the weight of each drawn person, (persons,), in private persons.

        It is the mean of the model's weights and of weights raked to the noisy tables.  The model smooths the tables, which
        moves what is rare; noisy counts below 0 are raked as if they were 0, which moves means.
        """
        return np.asarray((self._of_model + self._raked) / 2)

    @cached_property
    def _of_model(self) -> FloatArray:
        """Return equal weights of the drawn persons, (persons,), in private persons: answers are then the model's."""
        return np.full(len(self.persons), self.known.total / len(self.persons))

    @cached_property
    def _raked(self) -> FloatArray:
        """Return weights of the drawn persons, (persons,), raked to the noisy tables that the model smooths."""
        total = np.array([self.known.total])
        return refitted(self.persons.persons, self.known.measured, self._of_model, total)[:, 0]

    @cached_property
    def replicates(self) -> DatabaseReplicates:
        """Return the bootstrap replicates, for standard errors."""
        rng = generator(self.random_state + 1)
        rows = sum(self.persons.rows(i) for i in range(len(self.model.schema.names))) / len(self.persons)
        drawn = Drawn(self.model, self.model.draw(pool_size(rows), rng)[0], rng)
        return DatabaseReplicates.of(drawn, self.known, rng)

    def _estimated(self, asked: Asked, features: Features) -> tuple[FloatArray, FloatArray]:
        """Return the model's answers, and errors that replicates do not show, (size,) each.

        The first error is due to the finite number of drawn persons.  The persons are divided into `BLOCKS` parts, and the
        spread of the parts' answers gives the error.  The second error is the difference between the model's answer and
        the answer by the noisy tables, since either may be nearer to the truth.
        """
        persons, weights = len(self.persons), self.weights
        block = np.arange(persons) * BLOCKS // persons
        in_block = self.known.total / np.bincount(block, weights)
        parts = [asked.answer(features.sums(weights * in_block[b] * (block == b))) for b in range(BLOCKS)]
        estimate = asked.answer(features.sums(weights))
        chance = root_mean_square([part - estimate for part in parts], features.size) / BLOCKS**0.5
        by_model, by_tables = (asked.answer(features.sums(one)) for one in (self._of_model, self._raked))
        return estimate, np.nan_to_num(np.hypot(chance, by_tables - by_model))

    def _error(self, asked: Asked, features: Features, estimate: FloatArray) -> FloatArray:
        """Return the standard errors of the answers, (size,), from the bootstrap replicates.

        For a correlation they include the relation inside bins; for counts and shares, rare rows that noise hides.
        """
        mine = asked.features(self.replicates.drawn)
        stddev = self.replicates.errors(lambda weights: asked.answer(mine.sums(weights)), features.size)
        match asked.question:
            case Correlation():
                stddev = np.fmax(stddev, self._unmeasured_correlation(asked))
                return np.asarray(np.hypot(stddev, self._attenuated(asked, estimate)))
            case (Marginal() | Count() | Share()) as question if getattr(question, "weight", None) is None:
                return self._with_unseen(asked, features, np.nan_to_num(stddev))
            case Mean() | Variance() as question:
                return self._with_unseen_values(asked, question, features, stddev)
        return stddev

    def _untold(self, asked: Asked, features: Features) -> FloatArray:
        """Return the error of relations that no noisy answer is about, (size,), though the question names both columns.

        The model then takes the columns to be independent.  The answer is bounded by their strongest relations, in which
        the rows of one column follow the order of the other one, or its reverse (Fréchet 1951).  The error is the larger
        difference, as half of an interval.
        """
        found = np.zeros(features.size)
        now = asked.answer(features.sums(self._of_model))
        for fixed, moved in asked.pairs_of_columns():
            if frozenset({(fixed.table, fixed.name), (moved.table, moved.name)}) in self.known.told:
                continue
            given = asked.order(self.persons, fixed)[self.persons.places(moved.table, fixed.table)]
            own, rng = asked.order(self.persons, moved), generator(self.random_state)
            ties = rng.random((2, len(own)))
            places, values = np.lexsort((ties[0], given)), np.lexsort((ties[1], own))
            for one in (values, values[::-1]):
                indices = np.empty_like(values)
                indices[places] = self.persons.indices(moved.table, moved.name)[one]
                strongest = asked.features(self.persons.with_indices(moved.table, moved.name, indices))
                apart = np.abs(asked.answer(strongest.sums(self._of_model)) - now)
                found = np.fmax(found, apart / STUDENT)
        return found

    def _with_unseen(self, asked: Asked, features: Features, stddev: FloatArray) -> FloatArray:
        """Return standard errors, (size,), that include rare rows hidden by noise, which no drawn person has.

        An answer near 0 would otherwise have no error.  A share's error is in fractions, a count's in rows.
        """
        sums = features.sums(self.weights)
        counted = sums[1] if isinstance(asked.question, Share) else sums[0]
        unseen = self._unseen_rows(asked, np.nan_to_num(self._left_out(asked, features.size)) / STUDENT)
        unseen *= np.exp(-counted / np.maximum(unseen, 1e-9))
        drawn = np.maximum(counted - asked.features(self.replicates.drawn).sums(self.replicates.base)[-1], 0.0)
        scale = np.maximum(sums[0], 1.0) if isinstance(asked.question, Share) else 1.0
        return np.asarray(np.sqrt(stddev**2 + (unseen**2 + drawn) / scale**2))

    def _with_unseen_values(
        self, asked: Asked, question: Mean | Variance, features: Features, stddev: FloatArray
    ) -> FloatArray:
        """Return standard errors, (size,), of means and variances, where noise hides most of the rows or of the children.

        If no more rows are there than noise hides, the answer may be anything that the column can hold.  A mean of
        numbers of child rows has the noise of these numbers.
        """
        sums = features.sums(self.weights)
        unseen, term = self._unseen_rows(asked, 0.0), asked.terms[question.column]
        if term.child >= 0:
            hidden = unseen * np.exp(-np.abs(sums[1]) / np.maximum(unseen, 1e-9)) / np.maximum(sums[0], 1.0)
            return np.asarray(np.hypot(stddev, hidden))
        if asked.column(question.column) is None:
            return stddev
        least, most = _widest(asked)
        widest = (most - least) / (2 * STUDENT)
        return np.where(sums[0] <= STUDENT * unseen, np.fmax(stddev, widest), stddev)

    def _unseen_rows(self, asked: Asked, left_out: FloatArray | float) -> FloatArray:
        """Return how many rows of each answer noise may hide, (size,) or (): hidden persons times rows of a person.

        Hidden persons are the noise stddev of the question's least noisy column, plus ``left_out``, the persons whose
        value the release removed.  Rows of a person are counted in the question's table or in a named table below it,
        where a person has more rows on average.  A condition may be met by any row below.
        """
        below = {one.table for one in asked.terms.values() if asked.of in asked.layout.ancestors(one.table)}
        each = max(self._rows_each(table) for table in {asked.of, *below})
        noise = self.known.unseen([*asked.terms.values()], asked.layout) * self.known.total
        return np.asarray((noise + left_out) * max(each, 1.0))

    def _left_out(self, asked: Asked, size: int) -> FloatArray:
        """Return the noisy number of persons, (size,), of each answer that counts only values that the release removed.

        A value is removed if noise alone explains its count, so the model's answer is 0.  The number is NaN for other
        answers.
        """
        found = np.full(size, np.nan)
        term = asked.one_column()
        hidden = {} if term is None else self._hidden.get((term.table, term.name), {})
        if term is None or not hidden:
            return found
        answer = asked.answers_of_points(term)
        known = np.isin(np.arange(len(answer)), [*hidden])
        for one in {*answer[known].tolist()} - {-1, *answer[~known].tolist()}:
            found[one] = sum(max(hidden[int(point)], 0.0) for point in np.flatnonzero(answer == one))
        return found

    @cached_property
    def _hidden(self) -> dict[tuple[int, str], dict[int, float]]:
        """Noisy numbers of persons with values that the release removed, by table and column, and by grid point."""
        layout, found = self.model.layout, dict[tuple[int, str], dict[int, float]]()
        for ((table, column), index), count in unproven_places(layout, self.measurements).items():
            key = layout.position(table), column
            cell = layout.axis(*key).cell_of_alone(index)
            if cell is not None and self.model.histories.never_draws(key, cell):
                found.setdefault(key, {})[index] = count.rows
        return found

    def _rows_each(self, table: int) -> float:
        """Return the mean number of a table's rows per drawn person, over the persons who have any row there.

        Noise on a number of persons is multiplied by this mean to give noise on a number of rows.
        """
        rows = np.bincount(self.persons.places(table, 0), minlength=len(self.persons)).astype(np.float64)
        return float(self.weights @ rows) / max(float(self.weights @ (rows > 0)), 1.0)

    def _attenuated(self, asked: Asked, estimate: FloatArray) -> FloatArray:
        """Return the error of a correlation, (size,), from the relation inside bins, which the model lacks.

        For normal variables, bins show a fraction of the correlation: the square root of the product of both variances
        between bins.  The relation inside bins is taken as uniform, from none to twice the expected one.
        """
        if not isinstance(asked.question, Correlation):
            return np.zeros(len(estimate))
        shares = [self._between(asked.terms[name]) for name in asked.question.columns]
        lost = 1 / max(float(np.sqrt(np.prod(shares))), 0.25) - 1
        return np.minimum(math.sqrt(4 / 3) * np.abs(estimate) * lost, 1.0)

    def _unmeasured_correlation(self, asked: Asked) -> float:
        """Return the standard error of a correlation whose table was scored and not measured, at most 1; 0 for others.

        Most relations are weak, but noise in a score may hide a strong one, so that the noise counts in full.  The distance
        of the table from independence, as a share, is 2 / pi times a weak correlation of normal variables.  As in
        replicates, half of the variance of the unmeasured relation is taken to be a linear trend, which makes the
        correlation.  Replicates, which weigh whole persons, show a smaller error.
        """
        places = frozenset((one.table, one.name) for one in asked.terms.values() if one.child < 0)
        found = [one for one in self.known.scored if one.table.kind in (Kind.ROW, Kind.PARENT) and one.pair == places]
        if not found:
            return 0.0
        owners = np.unique(self.persons.places(found[0].table.table, 0))
        hidden = max(math.hypot(one.distance, one.stddev) for one in found)
        distance = hidden / max(float(self.weights[owners].sum()), 1.0)
        return min(math.pi / 2 * distance * math.sqrt(0.5), 1.0)

    def _between(self, term: Term) -> float:
        """Return the fraction of a number's variance between the groups in which its pairs were measured.

        The root of it is the part of a correlation that a model can show.  The part is 1 if no pairs were measured, and
        for a summary of child rows.
        """
        groupings = [
            one.table.grouping for one in self.known.measured
            if (one.table.table, one.table.attribute) == (term.table, term.name) and one.table.other_grouping is not None
        ]  # fmt: skip
        if term.child >= 0 or not groupings:
            return 1.0
        values, there = self.persons.numbers(term)
        rows = self.persons.persons.tables[term.table]
        group = max(groupings, key=lambda one: one.size).of(rows[term.name], rows.group)
        label = (group * (int(rows.group.max(initial=0)) + 1) + rows.group)[there]
        values = values[there] - values[there].mean()
        many, sums = np.bincount(label), np.bincount(label, values)
        return float((sums**2 / np.maximum(many, 1)).sum() / max(float((values**2).sum()), 1e-12))

    def _shown(
        self, asked: Asked, labels: dict[str, list[Any]], estimate: FloatArray, stddev: FloatArray, basis: list[str]
    ) -> Answers:
        """Return estimates as answers, with intervals restricted to possible values of the statistic."""
        estimate, stddev = _without_gaps(asked, estimate, stddev)
        match asked.question:
            case Share():
                return with_intervals(labels, estimate, stddev, basis, lowest=0.0, highest=1.0)
            case Correlation():
                return with_intervals(labels, estimate, stddev, basis, lowest=-1.0, highest=1.0)
            case Sum() | Mean() as question:
                lowest, highest = ends_of_values(question, *asked.value_range(question.column))
                column = asked.column(question.column)
                return with_intervals(labels, estimate, stddev, basis, lowest=lowest, highest=highest, column=column)
            case Variance() | Marginal() | Count():
                return with_intervals(labels, estimate, stddev, basis, lowest=0.0)
        return with_intervals(labels, estimate, stddev, basis)

    def _quantile(self, asked: Asked, question: Quantile) -> Answers:
        """Return the answer to quantiles, from the drawn persons.

        Intervals use the error of the fraction of rows below.
        """
        features = asked.features(self.persons)
        mine, replicates = asked.features(self.replicates.drawn), self.replicates
        shares = np.array(question.q)
        found: list[list[FloatArray]] = [[], [], []]
        for group in range(features.size):
            some = np.flatnonzero(features.group == group)
            some = some[np.argsort(features.values[some, 1], kind="stable")]
            values, weights = features.values[some, 1], self.weights[features.owner[some]]
            if not len(values):
                least, most = _widest(asked)
                for one, value in zip(found, ((least + most) / 2, least, most), strict=True):
                    one.append(np.full(len(shares), value))
                continue
            estimate = _at(values, weights, shares)
            own = mine.group == group
            below = _Below(mine.owner[own], mine.values[own, 1][:, None] <= estimate)
            error = replicates.errors(below.parts, len(shares))
            chance = np.sqrt(shares * (1 - shares) * (weights**2).sum()) / weights.sum()
            all_below = _Below(features.owner[some], values[:, None] <= estimate)
            apart = all_below.parts(self._raked) - all_below.parts(self._of_model)
            half = STUDENT * np.sqrt(np.nan_to_num(error) ** 2 + chance**2 + apart**2)
            for one, wanted in zip(found, (shares, shares - half, shares + half), strict=True):
                one.append(_at(values, weights, wanted))
        if not len(features.owner):
            raise ParameterError(NOTHING)
        ends = [np.concatenate(one) for one in found]
        labels = {name: [label for label in each for _ in shares] for name, each in features.labels.items()}
        labels["q"] = [float(q) for q in question.q] * features.size
        column, error = asked.column(question.column), (ends[2] - ends[1]) / (2 * STUDENT)
        if column is not None:
            ends, error = [format_values(column, one) for one in ends], show_errors(column, error)
        return Answers(
            labels=labels,
            estimate=ends[0],
            stddev=error,
            lower=ends[1],
            upper=ends[2],
            basis=[MODEL] * len(labels["q"]),
        )


def _without_gaps(asked: Asked, estimate: FloatArray, stddev: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return estimates and errors, with the widest possible interval in place of undefined answers.

    An answer is undefined if no drawn person has a row for it.  The estimate is then the middle of that interval.

    Raises
    ------
    ParameterError
        If all answers are undefined, or an undefined answer has no bounds.
    """
    gaps = ~(np.isfinite(estimate) & np.isfinite(stddev))
    if not gaps.any():
        return estimate, stddev
    if gaps.all():
        raise ParameterError(NOTHING)
    least, most = _widest(asked)
    return np.where(gaps, (least + most) / 2, estimate), np.where(gaps, (most - least) / (2 * STUDENT), stddev)


def _widest(asked: Asked) -> tuple[float, float]:
    """Return the smallest and the largest possible value of an answer; raise ParameterError if it has no bounds.

    The two are the interval of an answer without synthetic rows, and their middle is its estimate.
    """
    match asked.question:
        case Share():
            return 0.0, 1.0
        case Correlation():
            return -1.0, 1.0
        case Mean() | Variance() | Quantile() as question:
            least, most = asked.value_range(question.column)
            return (0.0, (most - least) ** 2 / 4) if isinstance(question, Variance) else (least, most)
    raise ParameterError(NOTHING)


@dataclass(frozen=True, slots=True, eq=False)
class _Below:
    """Holds a mask of the rows below some values, (n, q), and the person of each row, (n,)."""

    owner: IntArray
    below: BoolArray

    def parts(self, weights: FloatArray) -> FloatArray:
        """Return the weighted fraction of rows below each value, (q,), whose error gives the errors of quantiles."""
        of_row = weights[self.owner]
        return np.asarray(of_row @ self.below / max(float(of_row.sum()), 1e-12))


def _at(values: FloatArray, weights: FloatArray, shares: FloatArray) -> FloatArray:
    """Return weighted quantiles of sorted values, (q,).

    Each is the smallest value at which the cumulative weight reaches its probability.
    """
    reached = np.cumsum(weights) / weights.sum()
    place = np.searchsorted(reached, np.clip(shares, 0.0, 1.0) - 1e-12)
    return np.asarray(values[np.minimum(place, len(values) - 1)])
