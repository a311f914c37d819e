"""The flagship: adaptively chosen marginals, made one distribution by maximum entropy on a junction tree.

A program that asks the curator: total, one-ways, second moments of the numbers, a screening of all pairs, the pairs worth
their noise, and, where the data can bear it, a second look at what the model still gets wrong.  The rest is
post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.curator.curator import Curator
from synthdp.distribution.contingency import Clique, NoisyTable, project_to_simplex
from synthdp.distribution.markov_random_field import Graphical
from synthdp.distribution.protocol import Distribution
from synthdp.domain.discretize import domain_of
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.fit.graphical.consistency import make_consistent, pooled_total
from synthdp.fit.graphical.max_entropy import MaxEntropy
from synthdp.fit.graphical.moment_matching import NoisyProducts
from synthdp.fit.graphical.raking import Particles
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.coarsening import coarse_table, coarsen, group_target
from synthdp.mechanisms.adaptive.one_ways import OneWay, OneWayTree
from synthdp.mechanisms.adaptive.screening import screen_model, screen_pairs
from synthdp.mechanisms.adaptive.second_moments import measure_products
from synthdp.mechanisms.adaptive.selection import Candidate, Plan, Planner
from synthdp.mechanisms.adaptive.shrinkage import best_ridge
from synthdp.mechanisms.budget import Purse
from synthdp.mechanisms.workload import Wish, Workload, workload_of
from synthdp.privacy.loss import PureDP, Remaining, Spend
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.queries.marginals import Marginals, one_ways
from synthdp.queries.total import Total
from synthdp.randomness import Generator, RandomState, generator
from synthdp.release import Release
from synthdp.sampling.structural_zeros import check_rules, pinned_leaves, structural_zeros
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat

TOTAL_SHARE = 0.005
"""Share of the budget for a first estimate of the number of rows, on which the other shares depend."""

ROUNDS = ([1.0], [0.7, 0.3], [0.5, 0.5])
"""Parts of what is left after the one-ways for each round of tables, by the signal."""

ROUND_SIGNALS = (7_500.0, 15_000.0)
"""Signals (rows / stddev of a table measured with the whole budget) above which the next entry of ROUNDS pays."""

SCREENS = (0.07, 0.1, 0.1)
"""Part of the first and of the second round that goes to its screening."""

DEEP_SHARE = 0.75
"""The deeper levels of the one-way trees may cost this much of the first level's share."""

ONE_WAY_LEVEL = 0.1
"""Share of the first level of the one-ways when its noise, summed over a column, is .2 % of the rows."""

ONE_WAYS = (0.1, 0.8)
"""Least and largest share of the first level of the one-ways."""

LEAST_SHARE = 0.02
"""A part of the budget that is worth measuring the one-ways again for, when nothing else was."""

MODEL_SAMPLE = 300_000
"""Most rows drawn from the model to screen against."""

STAGES = ("one-ways", "pairs", "second stage", "fit")


@dataclass(frozen=True, slots=True)
class AdaptiveMarginals:
    """Synthetic rows from adaptively chosen marginals (docs/mechanisms/adaptive-marginals.md).

    Costs ``spend``, fixed before any row is read, for the curator's neighbours.

    Parameters
    ----------
    workload
        Marginals or sets of column names, perhaps with weights, that should come out right; default: all alike.
    target
        Name of a column whose relations matter most.
    spend
        The whole cost.
    one_ways
        How single columns are measured.
    planner
        Limits of the junction tree.
    screen
        Part of each round of tables that goes to its screening; default .07 and .1, or .2 with Laplace noise.
    second_stage
        Part of what the one-ways leave that goes to the second round; default: none for few rows or little budget,
        else .3 or .4.
    fit
        Settings of the maximum-entropy fit.
    particles
        Settings of the tables beyond the tree.
    on_progress
        Called at the start of each stage, with public numbers only.

    Raises
    ------
    ParameterError
        If a share is outside [0, 1).

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

    workload: Workload | Mapping[Any, float] | Wish | None = None
    target: str | None = None
    spend: Spend = Remaining()
    one_ways: OneWayTree = field(default_factory=OneWayTree)
    planner: Planner = field(default_factory=Planner)
    screen: float | None = None
    second_stage: float | None = None
    fit: MaxEntropy = field(default_factory=MaxEntropy)
    particles: Particles = field(default_factory=Particles)
    on_progress: ProgressCallback = silent

    def __post_init__(self) -> None:
        for name in ("screen", "second_stage"):
            share = getattr(self, name)
            if share is not None and not 0 <= share < 1:
                raise ParameterError(f"{name} ({share}) must be at least 0 and below 1")

    @property
    def loss(self) -> Spend:
        """The whole cost, known before any data is seen.  Costs nothing: a statement."""
        return self.spend

    def output_schema(self, schema: Schema) -> Schema:
        """Return the schema as it is: all columns come out.  Costs nothing: public.

        Raises
        ------
        ParameterError, SchemaError
            If the workload or the target names no column of it, or its rules contradict each other.
        """
        workload_of(self.workload, schema.names, target=self.target)
        check_rules(schema)
        return schema

    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[SyntheticModel]:
        """Ask the curator, fit, and return a model to sample.

        Costs ``spend``, for the curator's neighbours.

        Parameters
        ----------
        curator
            With a complete schema.
        random_state
            Seed of the particles; it never reaches noise.
        """
        self.output_schema(curator.schema)
        rng = generator(random_state)
        loss = curator.cost(self.spend)
        workload = workload_of(self.workload, curator.schema.names, target=self.target)
        run = _Run(self, curator.open_account(loss), workload, rng)
        model = run.model()
        receipt = curator.receipt(total=loss)
        return Release(
            mechanism="adaptive marginals", output=model, loss=loss, receipt=receipt, measurements=tuple(run.measured)
        )


class _Run:
    """One run of the program: the account, what was measured so far, and the share that is left."""

    def __init__(self, settings: AdaptiveMarginals, account: Curator, workload: Workload, rng: Generator) -> None:
        self.settings, self.account, self.workload, self.rng = settings, account, workload, rng
        self.purse = Purse(account.budget, account.adjacency)  # type: ignore[arg-type]
        self.measured: list[Measurements] = []
        self.left = 1.0
        self.tables: list[NoisyTable] = []
        self.ridges: dict[Clique, float] = {}
        self.tree: list[Clique] = []
        self.extras: list[Clique] = []
        self.products: NoisyProducts | None = None

    def model(self) -> SyntheticModel:
        self.total = self.first_total()
        columns = self.measure_one_ways()
        rounds = self.rounds() if len(columns) > 1 else []
        self.coarsen(columns, max(LEAST_SHARE, self.left * (rounds[0] if rounds else 1.0)))
        if rounds:
            self.measure_products()
        for number, share in enumerate(self.left * np.array(rounds)):
            self.progress("second stage" if number else "pairs")
            self.round(number, float(share))
        if self.left > LEAST_SHARE:
            self.measure_again(columns)
        self.progress("fit")
        return SyntheticModel(
            schema=self.account.schema, domain=self.domain, distribution=self.distribution(),
            refinements=self.refinements, total=self.total,
            format=TableFormat.default(self.account.schema),
        )  # fmt: skip

    def first_total(self) -> float:
        if self.account.adjacency.rows_are_public:
            return max(1.0, float(self.account.rows))
        domain = domain_of(self.account.schema, bins=1)
        found = self.account.measure(Total(domain), spend=self.purse.part(TOTAL_SHARE), step="number of rows")
        self.measured.append(found)
        self.left -= TOTAL_SHARE
        return max(1.0, float(found.answers[0]))

    def measure_one_ways(self) -> list[OneWay]:
        self.progress("one-ways")
        share = self.one_way_share()
        most = min(share * (1 + DEEP_SHARE), self.left)
        columns, spent, answers = self.settings.one_ways.measure(
            self.account, self.purse, share=share, most=most, total=self.total
        )
        self.measured += answers
        self.left -= spent
        return columns

    def one_way_share(self) -> float:
        """More for one-ways when their noise is large for the number of rows."""
        schema = self.account.schema
        if len(schema) == 1:
            return self.left * 0.5
        cells = np.mean(domain_of(schema, bins=self.settings.one_ways.bins).shape)
        noise = self.purse.table_stddev(1 / len(schema)) * float(cells) / self.total
        return float(np.clip(ONE_WAY_LEVEL + 0.22 * math.log10(noise / 0.002), *ONE_WAYS))

    def rounds(self) -> list[float]:
        """Shares of what is left for each round."""
        if self.settings.second_stage is not None:
            second = self.settings.second_stage
            return [1 - second, second] if second > 0 else [1.0]
        signal = self.total / self.purse.table_stddev(1.0)
        return ROUNDS[sum(signal > limit for limit in ROUND_SIGNALS)]

    def coarsen(self, columns: list[OneWay], pairs: float) -> None:
        """Settle the coarse axes, their refinements, their noisy one-way tables, and the total that these say."""
        schema = self.account.schema
        target = group_target(self.total, self.purse.table_stddev(pairs / (2 * len(columns))))
        pinned = pinned_leaves(schema, [column.axis for column in columns])
        self.refinements = tuple(coarsen(column, target, pinned=pinned[j]) for j, column in enumerate(columns))
        self.domain = Domain(tuple(refinement.coarse() for refinement in self.refinements))
        self.zeros = structural_zeros(schema, self.domain)
        self.tables += [coarse_table(column, self.refinements[j], j) for j, column in enumerate(columns)]
        if not self.account.adjacency.rows_are_public:
            self.total = max(1.0, pooled_total(self.tables)[0])

    def measure_products(self) -> None:
        """Measure the second moments of the numbers, if their noise is small enough to learn from."""
        if self.total > self.settings.particles.size:  # the rows would outnumber the particles that are tilted
            return
        found = measure_products(
            self.account, self.purse, left=self.left, refinements=self.refinements,
            margins=_margins(self.tables, self.total), total=self.total, workload=self.workload,
        )  # fmt: skip
        if found is not None:
            self.products = found.noisy
            self.measured.append(found.answers)
            self.left -= found.spent

    def measure_again(self, columns: list[OneWay]) -> None:
        """Spend what no other table was worth on the one-ways."""
        queries = one_ways(Domain(tuple(column.first for column in columns)))
        found = self.account.measure(queries, spend=self.purse.part(self.left), step="one-way marginals, again")
        self.measured.append(found)
        self.left = 0.0
        both = [
            column.pooled(np.asarray(counts, np.float64), found.stddev, total=self.total)
            for column, counts in zip(columns, queries.split(found.answers), strict=True)
        ]
        self.refinements = tuple(
            replace(refinement, weights=column.weights)
            for refinement, column in zip(self.refinements, both, strict=True)
        )
        several = [table for table in self.tables if len(table.clique) > 1]
        self.tables = [coarse_table(column, self.refinements[j], j) for j, column in enumerate(both)] + several

    def round(self, number: int, share: float) -> None:
        """Screen, plan and measure, for a share of the purse."""
        screening = share * self.screen_share(number)
        if number == 0:
            candidates, answers = screen_pairs(
                self.account, self.purse, share=screening, domain=self.domain,
                one_way=_margins(self.tables, self.total), workload=self.workload,
            )  # fmt: skip
            self.measured += answers
        else:
            rows = int(min(MODEL_SAMPLE, 3 * max(1.0, self.total)))
            sample = self.graphical(MaxEntropy(max_tours=8)).sample(rows, self.rng)
            candidates = screen_model(
                self.account, self.purse, share=screening, domain=self.domain, sample=sample, total=self.total,
                workload=self.workload,
            )  # fmt: skip
        planner = self.settings.planner
        base = [*self.zeros, *self.tree]
        plan = planner.plan(candidates, self.purse, share=share - screening, base=base, shape=self.domain.shape)
        self.measure(plan, {candidate.clique: candidate for candidate in candidates})
        self.left -= (screening if candidates else 0.0) + sum(plan.shares.values())

    def screen_share(self, number: int) -> float:
        if self.settings.screen is not None:
            return self.settings.screen
        return 0.2 if isinstance(self.purse.budget, PureDP) else SCREENS[number]

    def measure(self, plan: Plan, candidates: Mapping[Clique, Candidate]) -> None:
        for clique, share in plan.shares.items():
            step = "marginals of several columns: " + " × ".join(self.domain.names[j] for j in clique)
            found = self.account.measure(Marginals(self.domain, (clique,)), spend=self.purse.part(share), step=step)
            self.measured.append(found)
            self.tables.append(NoisyTable(clique=clique, counts=found.answers, stddev=found.stddev))
            self.ridges[clique] = best_ridge(found.answers, candidates[clique].expected, found.stddev)
        self.tree += [clique for clique in plan.tree if clique not in self.tree]
        self.extras += [clique for clique in plan.extras if clique not in self.extras]

    def consistent(self) -> list[NoisyTable]:
        """Return the tables made to agree, each with the noise scale that sets its ridge."""
        return [
            replace(table, stddev=table.stddev * self.ridges.get(table.clique, 1.0))
            for table in make_consistent(self.tables, self.domain.shape, total=self.total)
        ]

    def graphical(self, settings: MaxEntropy) -> Graphical:
        inside = [table for table in self.consistent() if len(table.clique) == 1 or table.clique in self.tree]
        return settings.fit(inside, self.domain.shape, total=self.total, allowed=self.zeros).model

    def distribution(self) -> Distribution:
        model = self.graphical(self.settings.fit)
        if set(self.extras) <= set(self.tree) and self.products is None:
            return model
        return self.settings.particles.fit(
            model, self.consistent(), total=self.total, rng=self.rng, products=self.products
        )

    def progress(self, stage: str) -> None:
        self.settings.on_progress(Progress(stage=stage, done=STAGES.index(stage), total=len(STAGES)))


def _margins(tables: Sequence[NoisyTable], total: float) -> list[FloatArray]:
    return [project_to_simplex(table.counts, max(total, 1.0)) for table in tables]
