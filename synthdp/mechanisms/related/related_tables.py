"""Synthetic persons with all their rows, from noisy tables of persons and a log-linear model that is fitted to them.

The program asks the curator in four steps.  First it measures counts and one-way tables, twice where noise is large for
so few persons.  Then it measures each attribute against itself in the row before.  Then it scores every other table of
two attributes.  Last, it measures the tables whose gain exceeds their noise.  The rest is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from synthdp.arrays import BoolArray, FloatArray
from synthdp.checks import whole
from synthdp.curator import Curator
from synthdp.distribution.history_model import IMPOSSIBLE, Conditional, Factor, Histories
from synthdp.domain.histories import NO_PARENT_ROW, Layout, Order
from synthdp.domain.refinement import Refinement
from synthdp.errors import ParameterError
from synthdp.fit.history_scaling import LAST, Key, Target, fit_histories
from synthdp.fit.person_shrinkage import independent_share, shrunk, towards
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.shares import SCREEN
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.column_histograms import one_way_share
from synthdp.mechanisms.column_sizes import past_the_largest
from synthdp.mechanisms.mechanism import HasPrivacyCost
from synthdp.mechanisms.preflight import first_that_works, last_of, salvaged
from synthdp.mechanisms.related.asked_tables import (
    Counted,
    count_groupings,
    fineness,
    grouping_of,
    in_order,
    measure,
    person_tables,
)
from synthdp.mechanisms.related.attribute_columns import (
    AttributeColumn,
    cells_and_refinements,
    first_column,
    first_estimate,
    round_columns,
    split_columns,
)
from synthdp.mechanisms.related.choosing import (
    CLEARLY,
    Attribute,
    always,
    attributes,
    beyond_shared,
    candidates,
    groups_that_pay,
    one_way,
    over,
    related,
    relations_wished,
    unusual,
    weights_of,
    worth_measuring,
)
from synthdp.mechanisms.related.triples import pair_of_others, regrouped, triples
from synthdp.mechanisms.survey_weights import refuse_weights
from synthdp.mechanisms.workload import Workload
from synthdp.privacy.budget import COUNT_SHARE
from synthdp.privacy.loss import Remaining, Spend
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.queries.person_tables import Grouping, Kind, PersonDistances, PersonTable, each_once
from synthdp.queries.persons import (
    Persons,
    mean_by_precision,
    pair_shares,
    pairs_of,
    symmetric,
    symmetric_stddev,
)
from synthdp.randomness import Generator, RandomState, generator
from synthdp.release import Release
from synthdp.sampling.database_model import DatabaseModel, format_of_database
from synthdp.sampling.possible_rules import check_rules
from synthdp.schema.database import DatabaseSchema

ONE_WAYS = 0.2
"""Share of the budget for the first measurement of the one-way tables, before their noise relative to the number of persons
is known.  A second one follows if `times_of_one_ways` exceeds 1.  More makes columns better, and relations worse.  Tuned:
half of it changes the error of pairs of a row's columns of two panels by +12.2 %, and twice of it, which a second
measurement gives where noise is large, by -24.5 % (docs/benchmarks/constants.md)."""

ALL_PERIODS = 0.75
"""Fraction of the share of a column with periods for its counts over all periods together; the rest is for its counts by
group of periods, whose sums are noisier.  A larger one makes columns better, and changes over time worse.  Tuned on
nlswork at epsilon .3, 1 and 5, four releases each: 0, 1/4, 1/2, 3/4 and .9 leave errors of .237, .176, .172, .158 and
.150; .103, .092, .090, .083 and .085; .048, .046, .046, .043 and .044 in columns, and at epsilon 5 of .102, .100, .099,
.099 and .104 in pairs of a row's columns.
"""

FACTORS = 12
"""If an attribute depends on more than FACTORS tables, the last fit takes proportionally more sweeps, since it converges
more slowly.  A convention."""

MOST_LONGER = 2.0
"""The last fit takes at most this multiple of its usual sweeps.  A safety limit of time."""

MOST_DRAWN = 100_000
"""Most rows, over all tables, that are drawn in one sweep of the fit, approximately.  A safety limit of time and
memory.
"""

STAGES = ("one-way tables", "what stays", "screening", "tables", "fit")
"""Names of the stages that a progress callback receives, in order."""


@dataclass(frozen=True, slots=True)
class RelatedTables(HasPrivacyCost):
    """Synthetic persons with all their rows in several tables (docs/mechanisms/related-tables.md).

    Costs ``spend``, fixed before any row is read, for the curator's neighbours: a person with all rows.

    Parameters
    ----------
    workload, target
        Relations that matter most, in the form that `DatabaseRelease` takes.
    spend
        The whole cost.
    particles
        Most persons that are drawn in a sweep of the fit.
    sweeps
        Number of sweeps of the first fit (to one-way tables and each attribute against itself) and of the fit to all
        tables.
    on_progress
        Called at the start of each stage, with public numbers only.
    """

    gaussian: ClassVar[bool] = True
    workload: Any = None
    target: str | None = None
    spend: Spend = Remaining()
    particles: int = 12_000
    sweeps: tuple[int, int] = (16, 40)
    on_progress: ProgressCallback = silent

    def __post_init__(self) -> None:
        whole("particles", self.particles, least=50)
        if len(self.sweeps) != 2 or min(self.sweeps) < 1:
            raise ParameterError(
                "sweeps, how often the fit goes over all noisy tables in its first and its last stage, "
                "must be two whole numbers of at least 1"
            )

    def prepare(self, curator: Curator) -> None:
        """Raise an error if the declared rules contradict each other, so that no rows could obey them.

        Costs nothing.
        """
        check_rules(curator.layout)

    @salvaged(lambda _, curator, measured: single_attributes(curator, measured))
    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[DatabaseModel]:
        """Ask the curator, fit, and return a model to sample.

        Costs ``spend``, for the curator's neighbours.

        Parameters
        ----------
        curator
            A curator of several tables.
        random_state
            Seed of the synthetic persons of the fit; it never reaches noise.

        Raises
        ------
        SchemaError
            If no rows obey all rules, or a column is a survey weight; nothing is spent then.
        """
        layout, rng = curator.layout, generator(random_state)
        check_tables(layout.schema)
        relations_wished(layout.schema, self.workload, self.target)
        loss = curator.cost(self.spend)
        account = curator.open_account(loss)
        budget = BudgetAllocation.of(account)
        known, stopped = last_of(self._learn(account, layout, budget, rng))
        self._tell("fit")
        sweeps = round(self.sweeps[1] * float(np.clip(known.most_factors / FACTORS, 1, MOST_LONGER)))
        known, failed = first_that_works(lambda: self._fit(known, rng, sweeps=sweeps), lambda: known)
        model = DatabaseModel(
            layout=known.layout, histories=known.model, total=known.total,
            formats=format_of_database(layout.schema), refinements=known.refinements,
        )  # fmt: skip
        obeyed, unsaid = first_that_works(lambda: model.obedience_notes(rng), lambda: ())
        receipt = curator.receipt(notes=(*model.notes, *obeyed))
        release = Release(
            mechanism="related tables", output=model, loss=loss, receipt=receipt, measurements=known.answers
        )
        release = release.salvaged("a stage of choosing tables", stopped).salvaged("the fit to all answers", failed)
        return release.salvaged("a look at how rules are obeyed", unsaid)

    def _learn(self, account: Curator, layout: Layout, budget: BudgetAllocation, rng: Generator) -> Iterator[_Known]:
        """Measure every attribute, then each against itself in another row, then the tables chosen by score.

        Yields the state after each stage, so that a release can still be made if a later one fails.
        """
        known, columns = self._one_ways(account, layout, budget)
        yield known
        known = _with_leaves(account, known, columns)
        yield known
        stays = always(known.layout, known.groupings)
        if stays:
            self._tell("what stays")
            share = share_of_stays(known.left.share)
            known = self._stays(account, known, stays, rng, share=share)
            yield known
            known = self._fit(known, rng, sweeps=self.sweeps[0], last=0)
        others = candidates(known.layout, known.groupings)
        if others:
            self._tell("screening")
            share = min(SCREEN, known.left.share / 2)
            wished = relations_wished(layout.schema, self.workload, self.target)
            persons = self._persons(known, rng)
            finer = [over(known.groupings, one, "fine") for one in others]
            chosen, gains, known = _screened(
                account, known, [others, finer], persons, wished.with_rest(), share=share,
                step="two-attribute marginals",
            )  # fmt: skip
            yield known
            self._tell("tables")
            threes = triples(
                known.layout, known.groupings, *_beside_named(known.layout, chosen, gains, others, wished), wished,
                persons=known.total, noise=lambda many: _noise_of_threes(known.left, many),
            )  # fmt: skip
            share = known.left.share / 2 if threes else known.left.share
            known = self._measured(account, known, chosen, rng, share=share, step="two-attribute marginals")
            yield known
            if threes:
                yield from self._threes(account, known, threes, chosen, wished, rng)

    def _threes(
        self, account: Curator, known: _Known, threes: Sequence[PersonTable], pairs: Sequence[PersonTable], wished: Workload,
        rng: Generator,
    ) -> Iterator[_Known]:  # fmt: skip
        """Score tables of three attributes against the model, and measure those whose gain exceeds their noise.

        Yields the state after each stage.
        """
        named = wished.weights is not None
        if named:  # else equal groups are as good, with less noise (docs/benchmarks/insurer.md)
            fitted = [known.target_of(pair) for pair in pairs]
            threes = [regrouped(three, pairs, fitted) for three in threes]
        known = self._fit(known, rng, sweeps=self.sweeps[0], last=0)
        share = SCREEN * known.left.share
        persons = self._persons(known, rng)
        chosen, _, known = _screened(
            account, known, [threes], persons, wished, share=share, step="three-attribute marginals"
        )
        yield known
        yield self._measured(
            account, known, chosen, rng, share=known.left.share, step="three-attribute marginals", margins=named
        )

    def _one_ways(
        self, account: Curator, layout: Layout, budget: BudgetAllocation
    ) -> tuple[_Known, tuple[AttributeColumn, ...]]:
        """Measure the number of persons, unusual persons, numbers of child rows, and every attribute.

        Return the state of the plan after these answers, and the noisy estimates of each attribute.  Costs once to twice
        the shares of `one_way_tables`, for the curator's neighbours.
        """
        self._tell("one-way tables")
        tables, shares = one_way_tables(layout)
        odd, every = len(unusual(layout)), attributes(layout)
        found, counted, left = measure(account, layout, tables, shares, budget, step="one-way marginals of persons")
        total, answers, first = _persons([noisy for noisy, _ in counted]), [found], counted
        more = times_of_one_ways(layout, shares, budget, total=total) - 1
        if more > 0:  # how large the noise is for so many persons was not known before
            again, counted_again, left = measure(
                account, layout, tables, [share * more for share in shares], left,
                step="one-way marginals of persons, second round",
            )  # fmt: skip
            answers.append(again)
            counted = [mean_by_precision(*both) for both in zip(counted, counted_again, strict=True)]
            total = _persons([noisy for noisy, _ in counted])
        rows = rows_by_table(layout, tables[odd:], counted[odd:], total=total)
        ones: dict[Key, FloatArray] = {}
        columns = []
        begin = len(tables) - len(every)
        together = {(table.table, table.attribute): i for i, table in enumerate(tables[:begin]) if i >= odd}
        of_groups: dict[int, FloatArray] = {}
        for i, one in enumerate(every, start=begin):
            at, releasable = together.get((one.table, one.name)), _releasable(layout, one)
            if one.counts >= 0 and layout.tables[one.counts].order is not Order.PATTERN:
                releasable = releasable & ~past_the_largest(counted[i][0][0], counted[i][1])
            counts = first_estimate(
                layout.axis(one.table, one.name), counted[i], None if at is None else counted[at],
                by_root=one.table == 0, total=total, releasable=releasable,
                of_groups=None if at is None else of_groups.get(one.table),
            )  # fmt: skip
            ones[one.table, one.name] = counts
            if one.name == layout.tables[one.table].period:
                of_groups[one.table] = _shares_of_groups(layout, one.table, counts[0])
            if one.counts < 0:
                share = shares[i] + (0.0 if at is None else shares[at])
                columns.append(first_column(
                    one, layout.axis(one.table, one.name), counts, counted[i][1], share,
                    first_stddev=first[i][1] * math.sqrt(shares[i] / share), total=rows[one.table],
                ))  # fmt: skip
        known = _Known(layout, {}, {}, {}, {}, Histories(layout, {}), {}, total, left, tuple(answers))
        return known.with_ones(ones, columns), tuple(columns)

    def _persons(self, known: _Known, rng: Generator) -> Persons:
        """Return persons drawn from the model so far, which new tables are compared with."""
        return known.model.draw(self._drawn(known), rng)

    def _drawn(self, known: _Known) -> int:
        """Return the number of persons that are drawn in one sweep of the fit.

        The number is the estimated number of persons, at least 50 and at most ``particles``; fewer if persons have many
        rows, to limit time.
        """
        return int(np.clip(round(known.total), 50, max(50, min(self.particles, MOST_DRAWN / known.rows_of_person))))

    def _measured(
        self, account: Curator, known: _Known, tables: Sequence[PersonTable], rng: Generator, *, share: float, step: str,
        margins: bool = False,
    ) -> _Known:  # fmt: skip
        """Measure tables, shrink them towards the model so far, and add them to it as factors.

        Costs ``share`` of the whole budget.  With ``margins``, a table of three attributes also makes a factor of its
        two given attributes; see `pair_of_others`.
        """
        found, counted, left = measure(
            account, known.layout, tables, _by_size(known, tables, share), known.left, step=f"{step} of persons"
        )
        persons = self._persons(known, rng)
        factors = [
            one for table, noisy in zip(tables, counted, strict=True) for one in _factors(known, table, noisy, persons)
        ]
        made = known.with_factors(factors)
        for table, (counts, stddev) in zip(tables, counted, strict=True):
            pair = pair_of_others(known.layout, table, counts, stddev) if margins else None
            if pair is not None and not made.has_factor(pair[0]):
                made = made.with_factors(_factors(known, pair[0], pair[1:], persons))
        return replace(made, left=left, answers=(*known.answers, found))

    def _stays(
        self, account: Curator, known: _Known, tables: Sequence[PersonTable], rng: Generator, *, share: float
    ) -> _Known:
        """Measure each attribute against itself in another row, and again if the result is significant.

        Costs at most ``share`` of the whole budget; the unused part is left for other tables.
        """
        first, counted, left = measure(
            account, known.layout, tables, _by_size(known, tables, share / 2), known.left,
            step="lag-one marginals of persons",
        )  # fmt: skip
        known = self._with_independence(known, tables, counted, rng)
        persons, answers = self._persons(known, rng), [first]
        some = [
            i for i, (table, (noisy, stddev)) in enumerate(zip(tables, counted, strict=True))
            if _stands_out(known, table, noisy, stddev, persons)
        ]  # fmt: skip
        if some:
            clear = [tables[i] for i in some]
            shares = _by_size(known, clear, share / 2)
            again, more, left = measure(
                account, known.layout, clear, shares, left, step="lag-one marginals of persons, again"
            )
            answers.append(again)
            for i, one in zip(some, more, strict=True):
                counted[i] = mean_by_precision(counted[i], one)
        factors = [
            one for table, noisy in zip(tables, counted, strict=True) for one in _factors(known, table, noisy, persons)
        ]
        made = known.with_factors(factors)
        return replace(made, left=left, answers=(*known.answers, *answers))

    def _with_independence(
        self, known: _Known, tables: Sequence[PersonTable], counted: Counted, rng: Generator
    ) -> _Known:
        """Return the state with the share of rows that are independent draws, for each order that allows equal periods.

        See `independent_share`.
        """
        mine = {i: (one.table, one.attribute) for i, one in enumerate(tables) if one.kind is Kind.ENTRY}
        mine = {i: key for i, key in mine.items() if not known.layout.tables[key[0]].unique}
        if not mine:
            return known
        known = known.with_independent(dict.fromkeys(mine.values(), 1.0))
        persons = self._persons(known, rng)
        return known.with_independent(
            {key: independent_share(*counted[i], tables[i].tabulate(persons)) for i, key in mine.items()}
        )

    def _fit(self, known: _Known, rng: Generator, *, sweeps: int, last: float = LAST) -> _Known:
        """Return the state with its model fitted to all tables measured so far.

        ``last`` is the fraction of the sweeps that draw all persons; 0 is for a quick, less exact fit between stages.
        """
        model = fit_histories(
            known.model,
            known.ones,
            known.targets,
            persons=self._drawn(known),
            total=known.total,
            sweeps=sweeps,
            rng=rng,
            last=last,
        )
        return replace(known, model=model)

    def _tell(self, stage: str) -> None:
        """Call the progress callback when a stage of `STAGES` begins, so that a user sees how far the release is."""
        self.on_progress(Progress(stage=stage, done=STAGES.index(stage), total=len(STAGES)))


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """The state of the program: all noisy answers, the model and the budget so far; each stage returns a new one.

    Parameters
    ----------
    layout
        The record of a person, with the bins of the model.
    ones
        By table and attribute the one-way table that the model is fitted to, in persons.
    stddevs
        By table and column the noise in a standard bin, in persons.
    groupings
        Groups of bins by table and attribute.
    refinements
        By table and column the distribution of rows within bins.
    model
        The distribution of persons so far.
    targets
        By table and attribute, for each factor the table that it is fitted to.
    total
        Number of persons.
    left
        The rest of the budget.
    answers
        The noisy answers.
    """

    layout: Layout
    ones: Mapping[Key, FloatArray]
    stddevs: Mapping[Key, float]
    groupings: Mapping[Key, Mapping[str, Grouping]]
    refinements: Mapping[Key, Refinement]
    model: Histories
    targets: Mapping[Key, tuple[Target, ...]]
    total: float
    left: BudgetAllocation
    answers: tuple[Measurements, ...]

    @property
    def rows_of_person(self) -> float:
        """Estimated mean number of rows of a person over all tables; it limits how many persons are drawn at once."""
        found = [1.0]
        for i, table in enumerate(self.layout.tables[1:], start=1):
            counts = self.ones[table.parent, table.count].sum(axis=0)
            mean = float(counts @ self.layout.rows_of_count(i)[: len(counts)]) / max(float(counts.sum()), 1e-9)
            found.append(found[table.parent] * mean)
        return sum(found)

    @property
    def most_factors(self) -> int:
        """The largest number of tables that one attribute's law depends on; the more, the more sweeps the fit needs."""
        return max((len(one.factors) for one in self.model.conditionals.values()), default=0)

    def with_ones(self, ones: Mapping[Key, FloatArray], columns: Sequence[AttributeColumn]) -> _Known:
        """Return the state with one-way tables of all attributes, and with a model of independent attributes.

        Parameters
        ----------
        ones
            By table and attribute, in persons, by standard bin; for columns, ``columns`` are used instead.
        columns
            Noisy estimates of each column.
        """
        layout, refinements = cells_and_refinements(self.layout, columns)
        found = dict(ones) | {one.key: one.by_cell(refinements[one.key]) for one in columns}
        groupings: dict[Key, Mapping[str, Grouping]] = {}
        groups = fineness(self.total, self.left.table_stddev(self.left.share / 2))
        stddevs = {one.key: one.stddev for one in columns}
        conditionals = {}
        for one in attributes(layout):
            key, releasable = (one.table, one.name), _releasable(layout, one)
            found[key] = found[key] + 1e-9 * releasable
            conditionals[key] = _alone(one, found[key], releasable)
            if one.counts >= 0:
                groupings[key] = count_groupings(layout, one.counts)
                continue
            axis = layout.axis(*key)
            made = {
                many: grouping_of(axis, found[key], stddevs[key], groups=many, name=str(many))
                for many in {*groups.values()}
            }
            groupings[key] = {str(name): made[many] for name, many in groups.items()}
        return replace(
            self, layout=layout, ones=found, stddevs=stddevs, groupings=groupings, refinements=refinements,
            model=Histories(layout, conditionals),
        )  # fmt: skip

    def target_of(self, table: PersonTable) -> Target:
        """Return the target counts of a measured table, in persons: the noisy counts shrunk towards the model.

        The model's factor of this table is fitted to them.
        """
        key = table.table, table.attribute
        both = zip(self.model.conditionals[key].factors, self.targets[key], strict=True)
        return next(target for factor, target in both if factor.table is table)

    def has_factor(self, table: PersonTable) -> bool:
        """Return whether the model has a factor of the same attributes and kind as a table, so that it needs no other."""
        return any(
            one.table.name == table.name for one in self.model.conditionals[table.table, table.attribute].factors
        )

    def with_independent(self, shares: Mapping[Key, float]) -> _Known:
        """Return the state with other shares of rows whose periods are independent draws, by table and period."""
        conditionals = dict(self.model.conditionals)
        for key, share in shares.items():
            conditionals[key] = replace(conditionals[key], independent=share)
        return replace(self, model=Histories(self.layout, conditionals))

    def with_factors(self, factors: Sequence[tuple[PersonTable, Target]]) -> _Known:
        """Return the state with tables added to the model as neutral factors, and with their targets.

        The next fit moves the factors towards the targets.
        """
        conditionals, targets = dict(self.model.conditionals), dict(self.targets)
        for table, target in factors:
            key = table.table, table.attribute
            one = conditionals[key]
            factor = Factor(table, np.zeros(table.sizes(self.layout)))
            conditionals[key] = replace(one, factors=(*one.factors, factor))
            targets[key] = (*targets.get(key, ()), target)
        return replace(self, model=Histories(self.layout, conditionals), targets=targets)


def _with_leaves(account: Curator, known: _Known, columns: Sequence[AttributeColumn]) -> _Known:
    """Split heavy bins of numbers, and measure digit preference; return the state with the finer columns.

    Costs at most as much as the first measurement of the columns, and `COUNT_SHARE` of the whole budget.
    """
    standard = known.layout
    columns, left, deep = split_columns(account, standard, columns, known.left)
    columns, left, classes = round_columns(account, standard, columns, left)
    answers = (*known.answers, *deep, *classes)
    return replace(known.with_ones(known.ones, columns), left=left, answers=answers)


def _by_size(known: _Known, tables: Sequence[PersonTable], share: float) -> list[float]:
    """Divide a share of the budget among tables by their numbers of cells, for the least noise of all together.

    Shares are proportional to the power 2/3 of the number: then the summed absolute Gaussian noise of all cells is
    least.
    """
    sizes = np.array([math.prod(table.sizes(known.layout)) ** (2 / 3) for table in tables])
    return (share * sizes / sizes.sum()).tolist()  # type: ignore[no-any-return]


def _stands_out(known: _Known, table: PersonTable, noisy: FloatArray, stddev: float, persons: Persons) -> bool:
    """Return whether an attribute's table against itself in another row differs significantly from no relation.

    Only then is it measured again, with more budget.
    """
    scale = known.total / len(persons)
    if table.kind in (Kind.STAY, Kind.ALIKE):
        now = table.tabulate(persons) * scale
        return related(noisy, now * max(0.0, float(noisy.sum())) / max(float(now.sum()), 1e-9), stddev) or (
            abs(float(noisy.sum() - now.sum())) > CLEARLY * stddev * math.sqrt(noisy.size)
        )
    if table.symmetric:
        noisy, stddev = symmetric(noisy), symmetric_stddev(stddev, len(noisy))
    rows, columns = (np.maximum(noisy.sum(axis=axis), 0) for axis in (1, 0))
    return related(noisy, np.outer(rows, columns) / max(float(rows.sum()), 1e-9), stddev)


def _factors(
    known: _Known, table: PersonTable, counted: tuple[FloatArray, float], persons: Persons
) -> list[tuple[PersonTable, Target]]:
    """Return the model factors that a noisy table makes, each with the table that it is fitted to.

    Each such target is the noisy counts, shrunk towards the model so far.  Counts of equal values are shrunk towards
    one fraction of all pairs of rows.  A table of siblings also makes the factor with its axes exchanged, since either
    of two rows may be drawn first.
    """
    noisy, stddev = counted
    scale = known.total / len(persons)
    now = table.tabulate(persons) * scale
    if table.symmetric:
        noisy, now, stddev = symmetric(noisy), symmetric(now), symmetric_stddev(stddev, len(noisy))
    if table.kind in (Kind.STAY, Kind.ALIKE):
        pairs = _pairs_by_first_value(table, persons) * scale
        now = pairs * min(1.0, max(0.0, float(noisy.sum())) / max(float(pairs.sum()), 1e-9))
        counts = np.maximum(now + shrunk(noisy - now, stddev), 0)
    else:
        same = table.other == table.attribute and table.kind in (Kind.STEP, Kind.BEFORE, Kind.SIBLING)
        counts = towards(noisy, now, stddev, same=same, ordered=_ordered(table))
    found = [(table, Target(counts, stddev))]
    if table.kind is Kind.SIBLING and not table.symmetric:  # of two rows either may be drawn first
        found.append((table.mirrored, Target(counts.T, stddev)))
    return found


def rows_by_table(layout: Layout, tables: Sequence[PersonTable], counted: Counted, *, total: float) -> list[float]:
    """Return the estimated number of persons with a row in each table, averaged over one-way tables by precision.

    The fine bins of a table's columns are scaled to this number.  For a child of the root, the noisy counts of persons
    by number of rows are also averaged.  Tables in which a row counts 1/sqrt(m) do not add up to persons, and are used
    only if there are no others.
    """
    found = [total]
    for i, of in enumerate(layout.tables[1:], start=1):
        sums, precisions, even = [], [], []
        for table, (noisy, stddev) in zip(tables, counted, strict=True):
            if table.table == i and table.even(layout):
                even.append(float(noisy.sum()))
            elif table.table == i:
                sums.append(float(noisy.sum()))
                precisions.append(1 / (noisy.size * max(stddev, 1e-9) ** 2))
            elif of.parent == 0 and table.table == 0 and table.attribute == of.count:
                some = layout.rows_of_count(i)[: noisy.shape[1]] > 0
                sums.append(float(noisy[0, some].sum()))
                precisions.append(1 / (int(some.sum()) * max(stddev, 1e-9) ** 2))
        mean = float(np.average(sums, weights=precisions)) if sums else float(np.mean(even)) if even else 0.0
        found.append(max(1.0, mean))
    return found


def _shares_of_groups(layout: Layout, table: int, counts: FloatArray) -> FloatArray:
    """Return the share of persons in each group of periods, (groups,), by the estimated persons in each period's bin.

    Columns counted by group of periods are scaled to these shares, which have less noise than sums over bins.
    """
    of = layout.tables[table]
    found = np.bincount(of.group_of_period, counts, of.groups)
    return np.asarray(found / max(float(found.sum()), 1e-9))


def check_tables(schema: DatabaseSchema) -> None:
    """Raise SchemaError if a table has a column that a release of several tables does not support: a survey weight."""
    for name, table in schema.tables.items():
        refuse_weights(table, by="several tables", table=name)


def single_attributes(curator: Curator, measured: tuple[Measurements, ...]) -> tuple[DatabaseModel, tuple[str, ...]]:
    """Return a model of persons with independent attributes, from the first answers alone, and a note that says so.

    Used if a later stage fails.  Without any answer all values are equally likely.
    """
    layout = curator.layout
    if measured:
        every = each_once(table for one in measured for table in one.person_tables)
        noisy = [one.counts for one in every[: len(measured[0].person_tables)]]
        total, said = _persons(noisy), "values are independent of each other: no relation between them is in the tables"
    else:
        noisy = [np.zeros(one.sizes(layout)) for one in one_way_tables(layout)[0]]
        total, said = max(1.0, curator.about_rows), "nothing was measured: all values are equally likely"
    conditionals = {}
    for one, counts in zip(attributes(layout), noisy[-len(attributes(layout)) :], strict=True):
        releasable = _releasable(layout, one)
        conditionals[one.table, one.name] = _alone(one, np.maximum(counts, 0) * releasable, releasable)
    model, formats = Histories(layout, conditionals), format_of_database(layout.schema)
    return DatabaseModel(layout=layout, histories=model, total=total, formats=formats), (said,)


def _persons(noisy: Sequence[FloatArray]) -> float:
    """Return the estimated number of persons with a root row, at least 1.

    The number is the sum of some cells of the first noisy table, the table of persons' states.
    """
    states = noisy[0][0]
    alive = states[[cell for cell in range(len(states) - 1) if not cell & NO_PARENT_ROW]]
    return max(1.0, float(alive.sum()))


def _releasable(layout: Layout, one: Attribute) -> BoolArray:
    """Return which bins of an attribute may be drawn, (bins,); numbers of rows above the declared most may not."""
    releasable = layout.axis(one.table, one.name).releasable
    if one.counts >= 0:
        releasable = releasable & (layout.rows_of_count(one.counts) <= layout.tables[one.counts].at_most)
    return releasable


def _alone(one: Attribute, counts: FloatArray, releasable: BoolArray) -> Conditional:
    """Return the law of an attribute that depends on nothing else, by estimated counts, (periods, bins).

    Every attribute starts with this law; factors are added later.  The law holds log-probabilities: small ones for
    releasable bins without persons, and `IMPOSSIBLE` for bins that may not be released.
    """
    logs = np.log((counts + 1e-3) / (counts + 1e-3).sum(axis=1, keepdims=True))
    return Conditional(one.table, one.name, np.where(releasable, logs, IMPOSSIBLE))


def one_way_tables(layout: Layout) -> tuple[list[PersonTable], list[float]]:
    """Return the first tables that are measured and the budget share of each.

    The tables are unusual persons, then columns over all periods, then all attributes, by group of periods where
    `one_way` says so.  A column is counted over all periods only if a sum over groups of periods would be noisier.  A
    sum is not noisier where each of m rows counts 1/sqrt(m) (`PersonTable.even`).

    Shares are of the whole budget; they grow with the cube root of a table's cells.  Columns together get `ONE_WAYS`;
    numbers of rows get as much for as many cells, and at most as much as columns together.
    """
    odd, every = unusual(layout), attributes(layout)
    ones = [one_way(layout, one) for one in every]
    sizes = [math.prod(table.sizes(layout)) ** (1 / 3) for table in ones]
    of_odd = [0.7 * COUNT_SHARE, *[0.3 * COUNT_SHARE / max(1, len(odd) - 1)] * (len(odd) - 1)]
    columns = sum(size for size, one in zip(sizes, every, strict=True) if one.counts < 0)
    of_ones = [ONE_WAYS * size / max(columns, sum(sizes) / 2) for size in sizes]
    both = [i for i, one in enumerate(ones) if one.by_period and not one.even(layout)]
    together = [replace(ones[i], other="") for i in both]
    of_together = [ALL_PERIODS * of_ones[i] for i in both]
    for i in both:
        of_ones[i] *= 1 - ALL_PERIODS
    return [*odd, *together, *ones], [*of_odd, *of_together, *of_ones]


def times_of_one_ways(layout: Layout, shares: Sequence[float], budget: BudgetAllocation, *, total: float) -> float:
    """Return the share of the budget for one-way tables of persons, as a multiple of their first shares; at least 1.

    A single table's share is s = a / (a + 1), where a and 1 are the weights of columns and of relations.  Here relations
    across rows have to be measured as well, with a weight of 1, too: the columns' share is a / (a + 2) = s / (2 - s).
    All one-way tables together get at most half of the budget, so that relations have as much.

    Parameters
    ----------
    layout
        The record of a person.
    shares
        First shares of the tables, of the whole budget; the columns' sum is `ONE_WAYS`.
    budget
        The whole budget.
    total
        Estimated number of persons.
    """
    cells = [math.prod(one_way(layout, one).sizes(layout)) for one in attributes(layout)]
    share = one_way_share(cells, budget, total=total)
    return max(1.0, min(share / (2 - share) / ONE_WAYS, 0.5 / sum(shares)))


def share_of_stays(left: float) -> float:
    """Return the budget share for each attribute against itself in another row, of the share that is left.

    It is half of the rest after scores; the other half is for the tables that the scores choose.
    """
    return max(left - SCREEN, left / 2) / 2


def _ordered(table: PersonTable) -> tuple[int, int]:
    """Return how many groups of a table's first and of its second axis have an order (`in_order`); (0, 0) to smooth none.

    Noisy tables of two ordered attributes are smoothed.  A table of a category by the number of child rows is smoothed
    too, such as the claims of a kind of policy.
    """
    first, second = table.other_grouping, table.grouping
    if first is None:
        return 0, 0
    both = in_order(first), in_order(second)
    by_category = table.kind is Kind.ROW and "many" in (first.name, second.name)
    return both if min(both) > 0 or by_category else (0, 0)


def _pairs_by_first_value(table: PersonTable, persons: Persons) -> FloatArray:
    """Return the weight of all row pairs by the first row's value, (groups, 1); one person's pairs add up to at most 1.

    Without a relation the same fraction of the pairs of every value has equal values.  So noisy numbers of pairs of
    equal values are shrunk towards one fraction of these weights.
    """
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


def _screened(
    account: Curator,
    known: _Known,
    divisions: Sequence[Sequence[PersonTable]],
    persons: Persons,
    wished: Workload,
    *,
    share: float,
    step: str,
) -> tuple[list[PersonTable], list[float], _Known]:
    """Score tables by their noisy distance from persons of the model, and return those worth their noise, at least one.

    Costs ``share`` of the whole budget.  ``divisions`` holds the tables of the same relations over coarser and finer
    groups; each relation is measured over the groups that pay most.  The gain and the noise of a table are multiplied by
    its weight in the workload.

    Returns
    -------
    The tables, the gain of each in persons, and the state after the scores were paid for.
    """
    tables = [*dict.fromkeys(table for some in divisions for table in some)]
    weights = weights_of(known.layout, divisions[0], wished)
    layout, scale = known.layout, known.total / len(persons)
    queries = person_tables(layout, tables, [1.0] * len(tables))
    expected = queries.sums_of(persons) * scale
    part, left = known.left.take(share)
    scores = PersonDistances(queries, np.rint(expected).astype(np.int64))
    found = account.measure(scores, spend=part.loss, step=f"scores of {step} of persons")
    ones, noise = queries.ones, found.stddev * queries.denominator / queries.ones
    now = [part_ / one for part_, one in zip(np.split(expected, queries.offsets[1:-1]), ones, strict=True)]
    floor = np.array([0.8 * np.sqrt(one + 1).sum() for one in now])
    scored = found.answers * queries.denominator / ones - floor
    counts = {i: one.count for i, one in enumerate(layout.tables) if one.parent >= 0}
    place = {table: i for i, table in enumerate(tables)}
    at = np.array([[place[table] for table in some] for some in divisions])
    gains = np.array([beyond_shared(scored[mine], some, counts) for mine, some in zip(at, divisions, strict=True)])
    sizes = np.array([math.prod(table.sizes(layout)) for table in tables], np.float64)[at]
    best = groups_that_pay(gains, sizes, weights, left), np.arange(len(weights))
    gains, at = gains[best], at[best]
    picked, order = worth_measuring(gains, sizes[best], weights, left)
    chosen = [int(i) for i in picked if gains[i] > noise[at[i]] and weights[i] > 0] or [int(order[0])]
    known = replace(known, left=left, answers=(*known.answers, found))
    return [tables[at[i]] for i in chosen], [float(gains[i]) for i in chosen], known


def _beside_named(
    layout: Layout, chosen: list[PersonTable], gains: list[float], scored: Sequence[PersonTable], wished: Workload
) -> tuple[list[PersonTable], list[float]]:
    """Return the tables of two attributes that tables of three may combine, and their gains.

    These are the chosen tables and, with a workload, all scored tables that the workload names.  A user may know of an
    effect of two attributes together on a third that no two of the three show.
    """
    if wished.weights is None:
        return chosen, gains
    weights = weights_of(layout, scored, wished)
    named = [one for one, weight in zip(scored, weights, strict=True) if weight > 0 and one not in chosen]
    return [*chosen, *named], [*gains, *[0.0] * len(named)]


def _noise_of_threes(left: BudgetAllocation, many: int) -> float:
    """Return the noise in a cell of a three-attribute table, in persons, if ``many`` such tables share the budget.

    By this noise, tables whose gain it would hide are left out before any table is scored.
    """
    return left.table_stddev(left.share / 2 * (1 - SCREEN) / many)
