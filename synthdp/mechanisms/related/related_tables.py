"""Synthetic persons with all their rows: one-way tables, what stays, what a screening chooses, and a fit by histories.

The program asks the curator four times, whatever the tables hold: for counts and one-way tables; for what every attribute
has to do with itself one row before; for a noisy score of every other table of two attributes; for the tables that pay.
The rest is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from synthdp.arrays import BoolArray, FloatArray
from synthdp.checks import whole
from synthdp.curator.curator import Curator
from synthdp.distribution.histories import IMPOSSIBLE, Conditional, Factor, Histories
from synthdp.domain.histories import NO_PARENT_ROW, Layout
from synthdp.errors import InternalError, ParameterError
from synthdp.fit.related.scaling import Target, fit_histories
from synthdp.fit.related.shrinkage import by_period, towards
from synthdp.fit.related.smoothing import smoothed
from synthdp.measurements import Measurements
from synthdp.mechanisms.budget import BudgetAllocation
from synthdp.mechanisms.preflight import first_that_works, last_of, salvaged
from synthdp.mechanisms.protocol import Spender
from synthdp.mechanisms.related.candidates import (
    Attribute,
    always,
    attributes,
    candidates,
    one_way,
    unusual,
)
from synthdp.mechanisms.related.groupings import GROUPS, count_groupings, grouping_of
from synthdp.privacy.loss import Remaining, Spend
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.queries.related.person_tables import Grouping, Kind, PersonDistances, PersonTable, PersonTables
from synthdp.queries.related.persons import Persons, whole_of_table
from synthdp.queries.related.siblings import pair_shares, pairs_of, symmetric, symmetric_stddev
from synthdp.randomness import Generator, RandomState, generator
from synthdp.release import Release
from synthdp.sampling.database_model import DatabaseModel, format_of_database
from synthdp.sampling.possible_rules import check_rules

UNUSUAL, COUNTS, ONE_WAYS, STAYS, SCREENING, CHOSEN = 0.01, 0.06, 0.2, 0.3, 0.1, 0.33
"""Shares of the budget: for what is unusual, counts, one-way tables, what stays, scores, and tables that are chosen."""

UNIT, FINER = 2**20, 8
"""About the whole number that stands for one person in the table with the least noise, and at least how many times what the
weights of a person's rows add up to."""

MOST_CHOSEN = 60
"""Most tables that the screening chooses."""

WORTH = 0.5
"""Part of the mean absolute noise of a table by which its score must exceed the model's misfit to be worth measuring."""

MOST_DRAWN = 100_000
"""About how many rows of all tables are drawn in a sweep of the fit at most."""

STAGES = ("one-way tables", "what stays", "screening", "tables", "fit")
"""What a progress callback is told, in order."""


@dataclass(frozen=True, slots=True)
class RelatedTables(Spender):
    """Synthetic persons with all their rows in several tables (docs/mechanisms/related-tables.md).

    Costs ``spend``, fixed before any row is read, for the curator's neighbours: a person with all rows.

    Parameters
    ----------
    spend
        The whole cost.
    particles
        Most persons that are drawn in a sweep of the fit.
    sweeps
        Of the first fit, to one-way tables and what stays, and of the second, to all tables.
    on_progress
        Called at the start of each stage, with public numbers only.
    """

    gaussian: ClassVar[bool] = True
    spend: Spend = Remaining()
    particles: int = 20_000
    sweeps: tuple[int, int] = (22, 34)
    on_progress: ProgressCallback = silent

    def __post_init__(self) -> None:
        whole("particles", self.particles, least=50)
        if len(self.sweeps) != 2 or min(self.sweeps) < 1:
            raise ParameterError("sweeps must be two whole numbers of at least 1")

    @salvaged(lambda _, curator, measured: single_attributes(curator, measured))
    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[DatabaseModel]:
        """Ask the curator, fit, and return a model to sample.

        Costs ``spend``, for the curator's neighbours.

        Parameters
        ----------
        curator
            Of several tables.
        random_state
            Seed of the synthetic persons of the fit; it never reaches noise.

        Raises
        ------
        SchemaError
            If no rows obey all rules; nothing is spent then.
        """
        layout, rng = curator.layout, generator(random_state)
        check_rules(layout)
        loss = curator.cost(self.spend)
        account = curator.open_account(loss)
        budget = BudgetAllocation.of(account)
        known, stopped = last_of(self._learn(account, layout, budget, rng))
        self._tell("fit")
        _, failed = first_that_works(lambda: self._fit(known, rng, sweeps=self.sweeps[1]), lambda: None)
        model = DatabaseModel(
            layout=layout, histories=known.model, total=known.total, formats=format_of_database(layout.schema)
        )
        receipt = curator.receipt(notes=model.notes)
        release = Release(
            mechanism="related tables", output=model, loss=loss, receipt=receipt, measurements=known.answers
        )
        return release.salvaged("a stage of choosing tables", stopped).salvaged("the fit to all answers", failed)

    def _learn(self, account: Curator, layout: Layout, budget: BudgetAllocation, rng: Generator) -> Iterator[_Known]:
        """Measure every attribute, what stays, and what a screening chooses; yields what is known after each stage."""
        known = self._one_ways(account, layout, budget)
        yield known
        stays = always(layout, known.groupings)
        if stays:
            self._tell("what stays")
            known = self._measured(account, known, stays, rng, share=STAYS, step="what stays")
            yield known
            self._fit(known, rng, sweeps=self.sweeps[0])
        others = candidates(layout, known.groupings)
        if others:
            self._tell("screening")
            chosen, known = _screened(account, known, others, self._persons(known, rng), share=SCREENING)
            yield known
            self._tell("tables")
            yield self._measured(account, known, chosen, rng, share=known.left.share, step="tables of two")

    def _one_ways(self, account: Curator, layout: Layout, budget: BudgetAllocation) -> _Known:
        """Measure how many persons there are, what is unusual of them, counts, and every attribute."""
        self._tell("one-way tables")
        every, odd = attributes(layout), len(unusual(layout))
        tables, shares = one_way_tables(layout)
        part, left = budget.take(sum(shares))
        queries = person_tables(layout, tables, shares)
        found = account.measure(queries, spend=part.loss, step="one-way tables of persons")
        noisy = queries.split(found.answers)
        stddevs = found.stddev * queries.denominator / queries.ones
        known = _Known(layout, Histories(layout, {}), {}, {}, {}, _persons(noisy), left, (found,), ())
        for one, counted, stddev in zip(every, noisy[odd:], stddevs[odd:], strict=True):
            known.add(one, counted, float(stddev))
        return known

    def _persons(self, known: _Known, rng: Generator) -> Persons:
        return known.model.draw(self._drawn(known), rng)

    def _drawn(self, known: _Known) -> int:
        """Return how many persons are drawn in a sweep: fewer, the more rows each has."""
        return int(np.clip(round(known.total), 50, max(50, min(self.particles, MOST_DRAWN / known.rows_of_person))))

    def _measured(
        self, account: Curator, known: _Known, tables: Sequence[PersonTable], rng: Generator, *, share: float, step: str
    ) -> _Known:
        """Measure tables, shrink them towards the model so far, and make them factors of it.

        Costs ``share`` of the whole budget.
        """
        sizes = [math.prod(table.sizes(known.layout)) ** (2 / 3) for table in tables]
        part, left = known.left.take(share)
        queries = person_tables(known.layout, tables, sizes)
        found = account.measure(queries, spend=part.loss, step=f"{step} of persons")
        stddevs = found.stddev * queries.denominator / queries.ones
        persons = self._persons(known, rng)
        scale = known.total / len(persons)
        for table, noisy, stddev in zip(tables, queries.split(found.answers), stddevs, strict=True):
            now = table.tabulate(persons) * scale
            if table.symmetric:
                noisy, now = symmetric(noisy), symmetric(now)
                stddev = symmetric_stddev(float(stddev), len(noisy))
            if table.kind in (Kind.STAY, Kind.ALIKE):
                came = _came(table, persons) * scale
                now = came * min(1.0, max(0.0, float(noisy.sum())) / max(float(came.sum()), 1e-9))
                counts = towards_stay(noisy, now, float(stddev))
            else:
                same = table.other == table.attribute and table.kind in (Kind.STEP, Kind.BEFORE, Kind.SIBLING)
                counts = towards(noisy, now, float(stddev), same=same, ordered=_ordered(table))
            factors = [(table, counts)]
            if table.kind is Kind.SIBLING and not table.symmetric:  # of two rows either may be drawn first
                factors.append((table.mirrored, counts.T))
            for of, wanted in factors:
                factor = Factor(of, np.zeros(of.sizes(known.layout)))
                known.model.conditionals[of.table, of.attribute].factors.append(factor)
                known.targets[id(factor)] = Target(wanted, float(stddev))
        return replace(known, left=left, answers=(*known.answers, found), chosen=(*known.chosen, *tables))

    def _fit(self, known: _Known, rng: Generator, *, sweeps: int) -> None:
        fit_histories(
            known.model,
            known.ones,
            known.targets,
            persons=self._drawn(known),
            total=known.total,
            sweeps=sweeps,
            rng=rng,
        )

    def _tell(self, stage: str) -> None:
        self.on_progress(Progress(stage=stage, done=STAGES.index(stage), total=len(STAGES)))


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """What the program has learned.

    Parameters
    ----------
    layout, model
        The record of a person, and the law of the persons so far.
    ones
        By table and attribute the one-way table that the model is fitted to, in persons.
    groupings
        Groups of cells by table and attribute.
    targets
        By the identity of its factor, the table of each factor.
    total
        Number of persons.
    left
        What may still be spent.
    answers
        What was measured.
    chosen
        The tables of two attributes that are in the model.
    """

    layout: Layout
    model: Histories
    ones: dict[tuple[int, str], FloatArray]
    groupings: dict[tuple[int, str], Mapping[str, Grouping]]
    targets: dict[int, Target]
    total: float
    left: BudgetAllocation
    answers: tuple[Measurements, ...]
    chosen: tuple[PersonTable, ...]

    @property
    def rows_of_person(self) -> float:
        """About how many rows of all tables a person has."""
        found = [1.0]
        for i, table in enumerate(self.layout.tables[1:], start=1):
            counts = self.ones[table.parent, table.count].sum(axis=0)
            mean = float(counts @ self.layout.rows_of_count(i)[: len(counts)]) / max(float(counts.sum()), 1e-9)
            found.append(found[table.parent] * mean)
        return sum(found)

    def add(self, one: Attribute, noisy: FloatArray, stddev: float) -> None:
        """Take the noisy one-way table of an attribute: its groups, and its law before any relation is known."""
        axis, releasable = self.layout.axis(one.table, one.name), _releasable(self.layout, one)
        root = one.table == 0
        least = 2.0 if one.counts >= 0 and noisy.shape[1] > 9 else 1.0 if root else 1.5 if noisy.shape[1] <= 30 else 0.7

        def plain(noisy: FloatArray) -> FloatArray:
            if root:
                return np.asarray(np.maximum(noisy, 0) * (noisy >= least * stddev))
            return by_period(noisy, stddev, least=least)

        counts = plain(noisy)
        if one.counts < 0 and axis.grid.ordered:
            regular = axis.regular
            counts[:, :regular] = smoothed(noisy[:, :regular], stddev, plain)
        counts = counts * releasable
        if counts.sum() <= 0:
            counts = np.ones_like(counts) * releasable
        if root:
            counts = counts * (self.total / counts.sum())
        counts = counts + 1e-9 * releasable
        key = one.table, one.name
        self.ones[key] = counts
        self.model.conditionals[key] = _alone(one, counts, releasable)
        if one.counts >= 0:
            self.groupings[key] = count_groupings(self.layout, one.counts)
        else:
            self.groupings[key] = {
                str(name): grouping_of(axis, counts, stddev, groups=groups, name=name)
                for name, groups in GROUPS.items()
            }


def single_attributes(curator: Curator, measured: tuple[Measurements, ...]) -> tuple[DatabaseModel, tuple[str, ...]]:
    """Return persons whose attributes are independent of each other, by the first answers alone."""
    layout, queries = curator.layout, measured[0].queries
    if not isinstance(queries, PersonTables):
        raise InternalError("the first question about persons is for their one-way tables")
    noisy, model = queries.split(measured[0].answers), Histories(layout, {})
    for one, counts in zip(attributes(layout), noisy[len(unusual(layout)) :], strict=True):
        releasable = _releasable(layout, one)
        model.conditionals[one.table, one.name] = _alone(one, np.maximum(counts, 0) * releasable, releasable)
    formats = format_of_database(layout.schema)
    made = DatabaseModel(layout=layout, histories=model, total=_persons(noisy), formats=formats)
    return made, ("values are independent of each other: no relation between them is in the tables",)


def _persons(noisy: Sequence[FloatArray]) -> float:
    """Return about how many persons there are, by the table of their states; at least 1."""
    states = noisy[0][0]
    alive = states[[cell for cell in range(len(states) - 1) if not cell & NO_PARENT_ROW]]
    return max(1.0, float(alive.sum()))


def _releasable(layout: Layout, one: Attribute) -> BoolArray:
    """Return which cells of an attribute are drawn: no more rows than a parent row may have, whatever noise says."""
    releasable = layout.axis(one.table, one.name).releasable
    if one.counts >= 0:
        releasable = releasable & (layout.rows_of_count(one.counts) <= layout.tables[one.counts].at_most)
    return releasable


def _alone(one: Attribute, counts: FloatArray, releasable: BoolArray) -> Conditional:
    """Return the law of an attribute before any relation is known, by estimated counts."""
    logs = np.log((counts + 1e-3) / (counts + 1e-3).sum(axis=1, keepdims=True))
    return Conditional(one.table, one.name, np.where(releasable, logs, IMPOSSIBLE))


def one_way_tables(layout: Layout) -> tuple[list[PersonTable], list[float]]:
    """Return the first tables that are measured, what is unusual of persons before all others, and the share of each."""
    odd, every = unusual(layout), attributes(layout)
    ones = [one_way(layout, one) for one in every]
    counts = [one.counts >= 0 and one.table == 0 for one in every]
    sizes = [math.prod(table.sizes(layout)) ** (1 / 3) for table in ones]
    whole_of = {
        kind: sum(size for size, one in zip(sizes, counts, strict=True) if one is kind) for kind in (True, False)
    }
    shares = [0.7 * UNUSUAL, *[0.3 * UNUSUAL / max(1, len(odd) - 1)] * (len(odd) - 1)]
    for size, one in zip(sizes, counts, strict=True):
        shares.append((COUNTS if one else ONE_WAYS) * size / whole_of[one])
    return [*odd, *ones], shares


def person_tables(layout: Layout, tables: Sequence[PersonTable], shares: Sequence[float]) -> PersonTables:
    """Return tables with multipliers such that equal noise is noise of variance 1 / share in each."""
    largest = max(shares)
    unit = max(UNIT, FINER * max(whole_of_table(layout, table.table) for table in tables))
    multipliers = [
        max(1, round(unit * math.sqrt(share / largest) / whole_of_table(layout, table.table)))
        for table, share in zip(tables, shares, strict=True)
    ]
    return PersonTables(layout, tuple(tables), tuple(multipliers))


def _ordered(table: PersonTable) -> tuple[int, int]:
    """Return how many groups of each axis of a table of two attributes are of numbers."""
    first, second = table.other_grouping, table.grouping
    return (0 if first is None else int(first.ranked.sum())), int(second.ranked.sum())


def _came(table: PersonTable, persons: Persons) -> FloatArray:
    """Return, for a table of staying, the weights of all steps by the value that they come from; so of pairs alike."""
    rows = persons.tables[table.table]
    if table.kind is Kind.ALIKE:
        first, second = pairs_of(rows)
        weights = pair_shares(persons, table.table, ordered=False)[second] / persons.whole(table.table)
        groups = table.grouping.of(rows[table.attribute][first], rows.group[first])
        return np.asarray(np.bincount(groups, weights, table.grouping.size)[:, None], np.float64)
    later = rows.later
    before = table.grouping.of(rows[table.attribute][later - 1], rows.group[later - 1])
    weights = persons.step_shares(table.table, 1)[later] / persons.whole(table.table)
    return np.asarray(np.bincount(before, weights, table.grouping.size)[:, None], np.float64)


def towards_stay(noisy: FloatArray, expected: FloatArray, stddev: float) -> FloatArray:
    """Return how often each value stays, shrunk towards one rate for all."""
    gap = noisy - expected
    kept = max(0.0, 1 - gap.size * stddev**2 / max(float((gap**2).sum()), 1e-9))
    return np.maximum(expected + kept * gap, 0)


def _screened(
    account: Curator, known: _Known, tables: Sequence[PersonTable], persons: Persons, *, share: float
) -> tuple[list[PersonTable], _Known]:
    """Return the tables whose distance from the model so far is worth their noise, at least the one with the best score.

    Costs ``share`` of the whole budget.
    """
    layout, scale = known.layout, known.total / len(persons)
    queries = person_tables(layout, tables, [1.0] * len(tables))
    expected = queries.sums_of(persons) * scale
    part, left = known.left.take(share)
    scores = PersonDistances(queries, np.rint(expected).astype(np.int64))
    found = account.measure(scores, spend=part.loss, step="scores of tables of two of persons")
    ones, noise = queries.ones, found.stddev * queries.denominator / queries.ones
    now = [part_ / one for part_, one in zip(np.split(expected, queries.offsets[1:-1]), ones, strict=True)]
    floor = np.array([0.8 * np.sqrt(one + 1).sum() for one in now])
    gains = found.answers * queries.denominator / ones - floor
    sizes = np.array([math.prod(table.sizes(layout)) for table in tables], np.float64)
    order = np.argsort(-gains / np.sqrt(sizes), kind="stable")[:MOST_CHOSEN]
    best, picked = -math.inf, order[:0]
    for j in range(1, len(order) + 1):
        some = order[:j]
        shares = sizes[some] ** (2 / 3)
        stddev = np.array([left.table_stddev(left.share * one / shares.sum()) for one in shares])
        gained = np.maximum(gains[some] - WORTH * sizes[some] * stddev, -0.2 * np.maximum(gains[some], 0)).sum()
        if gained > best:
            best, picked = float(gained), some
    chosen = [tables[i] for i in picked if gains[i] > noise[i]] or [tables[order[0]]]
    return chosen, replace(known, left=left, answers=(*known.answers, found))
