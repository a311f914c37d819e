"""The default mechanism: noisy marginals, chosen by noisy scores, and a maximum-entropy fit on a junction tree.

The program asks the curator for the number of rows, for one-way marginals, and for second moments of numeric columns.
Then it measures one or two batches of tables.  Each batch needs a noisy score of every candidate, and then noisy counts
of the tables whose expected gain exceeds their noise.  Triples over merged bins may be measured with the last batch.
Each stage takes the plan's state and returns it with the new noisy answers.  All other steps are post-processing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from synthdp.arrays import Clique
from synthdp.checks import check_number, check_share, check_whole
from synthdp.curator import Curator
from synthdp.distribution.distribution import Distribution
from synthdp.distribution.explicit import Explicit
from synthdp.fit.consistency import gls_total
from synthdp.fit.listed_entropy import ListedEntropy
from synthdp.fit.max_entropy import MODEL_SWEEPS, MaxEntropy
from synthdp.fit.raking import FEWEST_PARTICLES, Particles
from synthdp.mechanisms.adaptive.coarse_triples import screen_triples, triples_that_matter
from synthdp.mechanisms.adaptive.energies import EstimatedRelation
from synthdp.mechanisms.adaptive.fitting import consistent_tables, fit_distribution, fit_rows, fit_tree
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.measuring import measure_interactions, measure_one_ways_again, measure_tables
from synthdp.mechanisms.adaptive.optimum import Optimum, optimum_of
from synthdp.mechanisms.adaptive.screening import screen_against_independence, screen_against_model, with_noise
from synthdp.mechanisms.adaptive.second_moments import measure_second_moments, with_likely_products
from synthdp.mechanisms.adaptive.selection import Candidate, Planner
from synthdp.mechanisms.adaptive.shares import FIRST_COUNT_SHARE, rounds_of, screening_part
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.column_groups import group_target
from synthdp.mechanisms.column_histograms import OneWayTree, one_way_share
from synthdp.mechanisms.column_rounding import measure_roundness
from synthdp.mechanisms.column_shapes import with_declared_shapes
from synthdp.mechanisms.column_tree import OneWay
from synthdp.mechanisms.mechanism import HasPrivacyCost
from synthdp.mechanisms.preflight import check_tables, first_that_works, last_of, salvaged
from synthdp.mechanisms.public_hooks import NothingPublic, Public
from synthdp.mechanisms.row_count import RowCount, count_rows_from
from synthdp.mechanisms.workload import Workload, WorkloadSpec, weighted_too, workload_of
from synthdp.privacy.loss import ROUNDING, Remaining, Spend
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.randomness import Generator, RandomState, generator
from synthdp.release import Release
from synthdp.sampling.exact_tables import ExactTable, in_order
from synthdp.sampling.structural_zeros import check_rules
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.schema import Schema

SCREENING_SWEEPS = 3
"""Passes over all measured tables when the rows are weighted that candidate tables are scored against.  A safety limit of
time: this fit only serves the scores."""

STAGES = ("one-ways", "pairs", "second stage", "fit")
"""Names of the stages that a progress callback gets, in order."""


@dataclass(frozen=True, slots=True)
class AdaptiveMarginals(HasPrivacyCost):
    """Synthetic rows from adaptively chosen marginals (docs/mechanisms/adaptive-marginals.md).

    Costs ``spend``, fixed before any row is read, for the curator's neighbours.

    Parameters
    ----------
    workload
        Marginals or sets of column names, perhaps with weights, that should be accurate; default: all alike.  Pairs
        outside of the workload keep a fifth of the budget for pairs (`selection.KEPT`).
    target
        Name of a column whose relations matter most.
    spend
        The privacy loss of the whole release.
    one_ways
        Settings of the one-way marginals.
    planner
        Limits of the junction tree and of the batches of tables.
    screen
        Fraction of each round's budget that goes to its screening, above 0 and below 1.  The default is .1, and more
        where scores would be noisy.
    second_stage
        Fraction of the budget left after the one-ways that goes to the second round, at least 0 and below 1.  The
        default is 0 for few rows or a small budget, else .3.
    fit
        Settings of the maximum-entropy fit.
    particles
        Settings of the weighted rows that fit off-tree cliques and second moments.
    listed
        Settings of the fit over all cells of the domain.  This fit is used if all interactions are measured, which
        needs few cells and little noise.
    wide
        Tables of more columns than this, >= 1, are screened over few bins of each column and planned in one round.
        Each connected component of columns is then fitted on its own, which takes less time.
    places
        Name of a column of places.  Its levels are counted with every other column at each step of its hierarchy.
        Synthetic rows have whole numbers that add up at every step (`synthdp.mechanisms.places`).
    public
        Rows of a public table, and exact totals.  The model follows public rows where noisy answers have no information
        and do not contradict these rows.
    on_progress
        Callback at the start of each stage; it gets public numbers only.

    Raises
    ------
    ParameterError
        If a setting is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame(np.random.default_rng(1).random((1000, 3)) < 0.3, columns=["a", "b", "c"])
    >>> schema = sd.Schema({name: sd.Boolean() for name in table})
    >>> curator = sd.Curator(table, schema=schema, budget=sd.ApproxDP(1.0, 1e-6))
    >>> release = sd.AdaptiveMarginals().release(curator)
    >>> release.sample(100, random_state=0).shape
    (100, 3)
    """

    gaussian: ClassVar[bool] = True
    keeps_classes: ClassVar[bool] = True
    workload: Workload | Mapping[Any, float] | WorkloadSpec | None = None
    target: str | None = None
    spend: Spend = Remaining()
    one_ways: OneWayTree = field(default_factory=OneWayTree)
    planner: Planner = field(default_factory=Planner)
    screen: float | None = None
    second_stage: float | None = None
    fit: MaxEntropy = field(default_factory=MaxEntropy)
    particles: Particles = field(default_factory=Particles)
    listed: ListedEntropy = field(default_factory=ListedEntropy)
    wide: int = 128
    places: str | None = None
    public: Public = field(default_factory=NothingPublic)
    on_progress: ProgressCallback = silent

    def __post_init__(self) -> None:
        check_whole("wide", self.wide)
        if self.screen is not None:
            check_share("screen", self.screen)
        if self.second_stage is not None:
            check_number("second_stage", self.second_stage, least=0, below=1)

    def output_schema(self, schema: Schema) -> Schema:
        """Return the schema unchanged: all columns are released.

        Raises
        ------
        ParameterError, SchemaError
            If the workload or the target names a column that the schema lacks, or the schema's rules contradict each
            other.
        """
        self._checked(schema)
        return schema

    def prepare(self, curator: Curator) -> None:
        """Raise an error before anything is spent if the first histograms have too many cells for the budget.

        See `check_tables`. Costs nothing.
        """
        known = ((name, column) for name, column in curator.schema.items() if column.is_complete)
        check_tables(curator, tuple(self.one_ways.first_axis(*one) for one in known), spend=self.spend)

    @salvaged()
    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[SyntheticModel]:
        """Ask the curator, fit, and return a model to sample.

        Costs ``spend``, for the curator's neighbours.

        Parameters
        ----------
        curator
            The curator, with a complete schema.
        random_state
            Seed of the rows that are drawn from models; noise does not depend on it.
        """
        workload = self._checked(curator.schema)
        rng = generator(random_state)
        loss = curator.cost(self.spend)
        known, stopped = last_of(self._learn(curator.open_account(loss), workload, rng))
        self._tell("fit")
        (distribution, exact), failed = first_that_works(
            lambda: self._fitted(known, workload, rng),
            lambda: (fit_tree(known, consistent_tables(known), self.fit), ()),
        )
        model = SyntheticModel.of(
            curator.schema, known.domain, distribution, total=known.total, refinements=known.refinements, exact=exact
        )
        said = [known.relations] * (len(known.domain) > 1)
        receipt = curator.receipt(notes=(*model.notes, *said, *self.public.notes(curator.schema)))
        release = Release(
            mechanism="adaptive marginals", output=model, loss=loss, receipt=receipt, measurements=known.measured
        )
        return release.salvaged("a stage of choosing tables", stopped).salvaged("the fit to all answers", failed)

    def _fitted(
        self, known: Knowledge, workload: Workload, rng: Generator
    ) -> tuple[Distribution, tuple[ExactTable, ...]]:
        """Return the distribution fitted to all noisy answers and to public data, and tables to keep exactly.

        Synthetic rows must reproduce the exact tables: public totals, and whole-number counts by the column ``places``.
        """

        def alone() -> Distribution:
            """Return the model of the noisy answers, without public data."""
            return fit_distribution(known, settings=self.fit, particles=self.particles, listed=self.listed, rng=rng)

        found, exact = self.public.fitted(known, alone=alone, rng=rng), self.public.exact(known)
        if self.places is not None and known.places:
            from synthdp.mechanisms.places import with_exact_places

            place = known.domain.names.index(self.places)
            found, exact = with_exact_places(known, found, workload, exact, place=place, rng=rng)
        return found, tuple(in_order(exact))

    def _checked(self, schema: Schema) -> Workload:
        """Return the workload for a table of this schema; raise an error if workload and schema contradict each other.

        See `output_schema`.
        """
        workload = workload_of(self.workload, schema.names, target=self.target)
        if self.places is not None:
            from synthdp.mechanisms.places import check_places

            check_places(self.places, schema)
        check_rules(schema)
        return weighted_too(workload, schema).with_rest()

    def _learn(self, account: Curator, workload: Workload, rng: Generator) -> Iterator[Knowledge]:
        """Count rows, measure every column, then select and measure tables until the budget is spent.

        Yields the plan's state after each stage, so that a release can still be made if a later stage fails.
        """
        count, budget = count_rows_from(account, BudgetAllocation.of(account), share=FIRST_COUNT_SHARE)
        known = self._measure_columns(account, budget, count)
        yield known
        columns = len(known.domain)
        if columns == 1:
            yield measure_one_ways_again(known, account)
            return
        apart = int((known.misfits > 0).sum()) < 2  # no interaction counts rows out of domain in two columns
        best = self._optimum_of_groups(known, workload) if apart and self.places is None else None
        if best is not None and best.pays:
            self._tell("pairs")
            yield measure_interactions(known, account, best)
            return
        if self.places is not None:
            from synthdp.mechanisms.places import measure_places

            self._tell("pairs")
            place = known.domain.names.index(self.places)
            known = measure_places(known, account, workload, place=place, tree_cells=self.planner.tree_cells)
            yield known
        if columns > self.wide:
            from synthdp.mechanisms.wide_tables import measure_wide

            self._tell("pairs")
            known = measure_wide(known, account, workload, screen=self.screen)
            yield known
        else:
            if known.total <= self.particles.size:  # the model weights at most this many rows
                known = measure_second_moments(known, account, workload)
                yield known
            for after in self._rounds(known, account, workload, rng):
                known = after
                yield known
        yield measure_one_ways_again(known, account) if known.left.share > ROUNDING else known

    def _rounds(self, known: Knowledge, account: Curator, workload: Workload, rng: Generator) -> Iterator[Knowledge]:
        """Score tables of several columns, choose among them, and measure the chosen ones, in one to three rounds.

        Later rounds score tables against a model of the answers so far, so that only relations which the model lacks
        get high scores.  The last round may also measure tables of earlier rounds again, where that gains more.

        Yields the plan's state after each round.  In the last state each noisy mean product (second moment) is
        multiplied by the probability that its columns are related.
        """
        triples = triples_that_matter(known, workload)
        rounds = rounds_of(
            known.left, total=known.total, second_stage=self.second_stage, triples=bool(triples),
            fitted=bool(known.places),
        )  # fmt: skip
        pairs = sum(workload.weight(pair) > 0 for pair in itertools.combinations(range(len(known.domain)), 2))
        whole, candidates, related = known.left.share, list[Candidate](), dict[Clique, EstimatedRelation]()
        for number, (against, part) in enumerate(rounds, 1):
            self._tell("pairs" if against == "independence" else "second stage")
            # SELECT
            limit, before, last = whole * part, known.left.share, number == len(rounds)
            scored = screening_part(known.left, share=limit, pairs=pairs, total=known.total)
            share = limit * (scored if self.screen is None else self.screen)
            if share == 0:
                break
            if against == "independence":
                candidates, known = screen_against_independence(known, account, workload, share=share)
                related = {one.clique: one.relation for one in candidates}
            else:
                model, measured = self._rows_of_model(known, rng), [one for one in candidates if one.known > 0]
                if against == "model":
                    more, known = screen_against_model(known, account, workload, share=share, model=model)
                    candidates = [*measured, *more]
                else:
                    some = [one for one in triples if one not in known.tree]
                    more, known = screen_triples(
                        known, account, workload, share=limit, model=model, triples=some, past=candidates
                    )
                    candidates = [*candidates, *more]
            now = with_noise([one for one in candidates if last or one.known == 0], known, merged=last)
            batch = self.planner.choose_with_rest(
                now, known.left, share=limit - (before - known.left.share), base=[*known.zeros, *known.tree],
                shape=known.domain.shape, wished=None if known.places else workload.wishes,
            )  # fmt: skip
            # MEASURE
            known = measure_tables(known, account, batch)
            candidates = batch.after(candidates, known.left)
            yield known
        yield with_likely_products(known, related)

    def _measure_columns(self, account: Curator, budget: BudgetAllocation, count: RowCount) -> Knowledge:
        """Measure one histogram per column and merge its fine bins into coarse bins for larger tables.

        Returns the plan's state.
        """
        self._tell("one-ways")
        schema, total = account.schema, count.rows
        ways = self.one_ways if self.places is None else replace(self.one_ways, flat=(schema[self.places],))
        cells = [len(ways.plain_starts(column)) for column in schema.values()]
        share = one_way_share(cells, budget, total=total)
        tree = ways.suited(budget, share=share, columns=len(schema), total=total)
        most = min(2 * share, budget.share)  # finer bins cost no more than the first ones
        columns, left, answers = tree.measure(account, budget, share=share, most=most, total=total, stddev=count.stddev)
        columns, left, counted = measure_roundness(account, left, columns)
        columns = self.public.columns(with_declared_shapes(columns), total=total)
        _, part = rounds_of(left, total=total, second_stage=self.second_stage)[0]
        pairs = max(ROUNDING, left.share * part)
        target = group_target(total, left.table_stddev(pairs / (2 * len(columns))), wide=len(columns) > self.wide)
        known = Knowledge.of_columns(
            schema, columns, target=self.public.rows_per_group(target, total=total), left=left,
            pinned=self._pinned(columns), measured=(*count.measurements, *answers, *counted),
            rows=account.rows if account.adjacency.rows_are_public else None,
        )  # fmt: skip
        return self.public.added_to(known)

    def _pinned(self, columns: tuple[OneWay, ...]) -> list[frozenset[int]]:
        """Return, for each column, the fine bins that must stay coarse bins of their own, as sets of bin numbers.

        Synthetic rows get exact counts of these bins: all levels of the column ``places``, and values that public
        totals name.
        """
        return [
            leaves | set(np.flatnonzero(column.axis.releasable).tolist()) if column.axis.name == self.places else leaves
            for leaves, column in zip(self.public.pinned(columns), columns, strict=True)
        ]

    def _optimum_of_groups(self, known: Knowledge, workload: Workload) -> Optimum | None:
        """Return the best unbiased plan for measuring all interactions of the columns over their coarse bins.

        The plan replaces the rounds of chosen tables if its expected error is small (`Optimum.pays`).  ``None`` without
        Gaussian noise, for a domain of too many cells or a workload of too many tables, or if no two columns vary.
        """
        pooled = known.pooled_effects
        counted = gls_total(known.one_way_tables)[1] ** -2
        return optimum_of(
            pooled.shape, workload, known.left, total=known.total, most_cells=self.listed.max_cells,
            known={**pooled.precisions, (): counted},
        )  # fmt: skip

    def _rows_of_model(self, known: Knowledge, rng: Generator) -> Explicit:
        """Return weighted rows of the model fitted so far, which candidate tables are scored against."""
        size = int(min(self.particles.size, max(3 * known.total, FEWEST_PARTICLES)))
        particles = replace(self.particles, size=size, sweeps=SCREENING_SWEEPS)
        return fit_rows(known, settings=MaxEntropy(max_sweeps=MODEL_SWEEPS), particles=particles, rng=rng)

    def _tell(self, stage: str) -> None:
        """Call the progress callback when a stage of `STAGES` begins, so that a user sees how far the release is."""
        self.on_progress(Progress(stage=stage, done=STAGES.index(stage), total=len(STAGES)))
