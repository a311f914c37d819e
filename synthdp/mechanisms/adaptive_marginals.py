"""The flagship: adaptively chosen marginals, made one distribution by maximum entropy on a junction tree.

A program that asks the curator: total, one-ways, a screening of all pairs, the pairs worth their noise, and, where the
data can bear it, a second look at what the model still gets wrong.  Everything else is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.distribution.clique_tables import Clique, NoisyTable, project_to_simplex
from synthdp.distribution.graphical import Graphical
from synthdp.distribution.protocol import Distribution
from synthdp.domain.discretize import domain_of
from synthdp.domain.domain import Domain
from synthdp.domain.refinement import Refinement
from synthdp.errors import ParameterError
from synthdp.fit.consistency import make_consistent, pooled_total
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.fit.particles import Particles
from synthdp.measurements import Measurements
from synthdp.mechanisms.coarsening import coarse_table, coarsen, group_target
from synthdp.mechanisms.one_ways import OneWay, OneWayTree
from synthdp.mechanisms.planning import Plan, Planner
from synthdp.mechanisms.protocol import Release
from synthdp.mechanisms.purse import Purse
from synthdp.mechanisms.screening import screen_model, screen_pairs
from synthdp.mechanisms.structural import pinned_leaves, structural_zeros
from synthdp.mechanisms.workload import Workload, workload_of
from synthdp.privacy.curator import Curator
from synthdp.privacy.loss import PureDP, Remaining, Spend
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.queries.marginals import Marginals
from synthdp.queries.total import Total
from synthdp.randomness import Generator, RandomState, generator
from synthdp.sampling import SyntheticModel
from synthdp.tables.format import TableFormat

TOTAL_SHARE = 0.005
"""Share of the budget for a first estimate of the number of rows, on which the other shares depend."""

SECOND_STAGE_SIGNAL = 10_000.0
"""A second stage pays when rows / stddev of a table measured with the whole budget exceed this."""

SECOND_SCREEN = 0.1
"""Part of the second stage that goes to its screening."""

MODEL_SAMPLE = 300_000
"""Most rows drawn from the model to screen against."""

LEAST_SHARE = 1e-6
"""What a single column, which spends all on itself, leaves for pairs that it has not."""

STAGES = ("one-ways", "pairs", "second stage", "fit")


@dataclass(frozen=True, slots=True)
class AdaptiveMarginals:
    """Synthetic rows from adaptively chosen marginals (docs/mechanisms/adaptive-marginals.md).

    Costs ``spend``, fixed before any row is read, for the curator's neighbours.

    Parameters
    ----------
    workload
        Sets of column names, perhaps with weights, that should come out right; default: all alike.
    target
        Name of a column whose relations matter most.
    spend
        The whole cost.
    one_ways
        How single columns are measured.
    planner
        Limits of the junction tree.
    screen
        Share of the budget for screening all pairs; default .05, or .2 with Laplace noise.
    second_stage
        Share for the second stage; default: none for few rows or little budget, else up to .4.
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
    """

    workload: Workload | Mapping[Any, float] | Sequence[Any] | None = None
    target: str | None = None
    spend: Spend = Remaining()
    one_ways: OneWayTree = OneWayTree()
    planner: Planner = Planner()
    screen: float | None = None
    second_stage: float | None = None
    fit: MaxEntropy = MaxEntropy()
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

    def release(
        self,
        curator: Curator,
        *,
        random_state: RandomState = None,
        format: TableFormat | None = None,  # noqa: A002
    ) -> Release[SyntheticModel]:
        """Ask the curator, fit, and return a model to sample.

        Costs ``spend``, for the curator's neighbours.

        Parameters
        ----------
        curator
            With a complete schema.
        random_state
            Seed of the particles; it never reaches noise.
        format
            Outer form of the synthetic tables; default: pandas.
        """
        loss = curator.cost(self.spend)
        workload = workload_of(self.workload, curator.schema.names, target=self.target)
        run = _Run(self, curator.open_account(loss), workload, generator(random_state))
        model = run.model(format or TableFormat.default(curator.schema))
        receipt = curator.receipt(total=loss)
        return Release(
            mechanism="adaptive marginals", output=model, loss=loss, receipt=receipt, measurements=tuple(run.measured)
        )


class _Run:
    """One run of the program: the account, what was measured so far, and the shares that are left."""

    def __init__(self, settings: AdaptiveMarginals, account: Curator, workload: Workload, rng: Generator) -> None:
        self.settings, self.account, self.workload, self.rng = settings, account, workload, rng
        self.purse = Purse(account.budget, account.adjacency)  # type: ignore[arg-type]
        self.measured: list[Measurements] = []
        self.left = 1.0

    def model(self, format: TableFormat) -> SyntheticModel:  # noqa: A002
        total = self.first_total()
        columns = self.measure_one_ways(total)
        second = self.second_share(total)
        screen = self.screen_share() * (len(columns) > 1)
        pairs = max(self.left - screen - second, LEAST_SHARE)
        domain, refinements, tables, total = self.coarse(columns, pairs, total)
        zeros = structural_zeros(self.account.schema, domain)
        tree: list[Clique] = []
        extras: list[Clique] = []
        if len(columns) > 1:
            self.progress("pairs")
            candidates = screen_pairs(
                self.account, self.purse, share=screen, domain=domain, one_way=_margins(tables, total),
                workload=self.workload,
            )  # fmt: skip
            base = [*zeros]
            plan = self.settings.planner.plan(candidates, self.purse, share=pairs, base=base, shape=domain.shape)
            tables += self.measure(domain, plan)
            tree += plan.tree
            if second > 0:
                self.progress("second stage")
                plan = self.second_plan(domain, tables, zeros, total, share=second, base=[*base, *tree])
                tables += self.measure(domain, plan)
                tree += plan.tree
                extras = [clique for clique in plan.extras if clique not in tree]
        self.progress("fit")
        distribution = self.fit(tables, domain, zeros, total, extras)
        return SyntheticModel(
            schema=self.account.schema, domain=domain, distribution=distribution, refinements=refinements, total=total,
            format=format,
        )  # fmt: skip

    def first_total(self) -> float:
        if self.account.adjacency.rows_are_public:
            return float(self.account.rows)
        domain = domain_of(self.account.schema, bins=1)
        found = self.account.measure(Total(domain), spend=self.purse.part(TOTAL_SHARE), step="number of rows")
        self.measured.append(found)
        self.left -= TOTAL_SHARE
        return max(1.0, float(found.answers[0]))

    def measure_one_ways(self, total: float) -> list[OneWay]:
        self.progress("one-ways")
        share = self.one_way_share(total)
        columns, spent, answers = self.settings.one_ways.measure(self.account, self.purse, share=share, total=total)
        self.measured += answers
        self.left -= spent
        return columns

    def one_way_share(self, total: float) -> float:
        """More for one-ways when their noise is large for the number of rows."""
        schema = self.account.schema
        if len(schema) == 1:
            return self.left
        cells = np.mean(domain_of(schema, bins=self.settings.one_ways.bins).shape)
        noise = self.purse.table_stddev(1 / len(schema)) * float(cells) / total
        return float(np.clip(0.15 + 0.22 * math.log10(noise / 0.002), 0.1, 0.6))

    def screen_share(self) -> float:
        if self.settings.screen is not None:
            return self.settings.screen
        return 0.2 if isinstance(self.purse.budget, PureDP) else 0.05

    def second_share(self, total: float) -> float:
        if self.settings.second_stage is not None:
            return self.settings.second_stage
        if len(self.account.schema) < 3 or total < SECOND_STAGE_SIGNAL * self.purse.table_stddev(1.0):
            return 0.0
        return 0.4 * self.left / 0.85

    def coarse(
        self, columns: list[OneWay], pairs: float, total: float
    ) -> tuple[Domain, tuple[Refinement, ...], list[NoisyTable], float]:
        """Return coarse axes, their refinements, their noisy one-way tables, and the total that these say."""
        target = group_target(total, self.purse.table_stddev(pairs / (2 * len(columns))))
        pinned = pinned_leaves(self.account.schema, [column.axis for column in columns])
        refinements = tuple(coarsen(column, target, pinned=pinned[j]) for j, column in enumerate(columns))
        domain = Domain(tuple(refinement.coarse() for refinement in refinements))
        tables = [coarse_table(column, refinements[j], j) for j, column in enumerate(columns)]
        if not self.account.adjacency.rows_are_public:
            total = max(1.0, pooled_total(tables)[0])
        return domain, refinements, tables, total

    def measure(self, domain: Domain, plan: Plan) -> list[NoisyTable]:
        tables = []
        for clique, share in plan.shares.items():
            step = "marginals of several columns: " + " × ".join(domain.names[j] for j in clique)
            found = self.account.measure(Marginals(domain, (clique,)), spend=self.purse.part(share), step=step)
            self.measured.append(found)
            tables.append(NoisyTable(clique=clique, counts=found.answers, stddev=found.stddev))
        return tables

    def second_plan(
        self,
        domain: Domain,
        tables: list[NoisyTable],
        zeros: Mapping[Clique, Any],
        total: float,
        *,
        share: float,
        base: Sequence[Clique],
    ) -> Plan:
        """Screen pairs and triples against the model so far, and plan what to measure of them."""
        model = self.tree_model(tables, domain, zeros, total, tours=8)
        rows = int(min(MODEL_SAMPLE, 3 * max(1.0, total)))
        candidates = screen_model(
            self.account, self.purse, share=share * SECOND_SCREEN, domain=domain, sample=model.sample(rows, self.rng),
            total=total, workload=self.workload,
        )  # fmt: skip
        planner = Planner(tree_cells=self.settings.planner.tree_cells, max_extras=40, max_batch=40)
        return planner.plan(candidates, self.purse, share=share * (1 - SECOND_SCREEN), base=base, shape=domain.shape)

    def fit(
        self,
        tables: list[NoisyTable],
        domain: Domain,
        zeros: Mapping[Clique, Any],
        total: float,
        extras: Sequence[Clique],
    ) -> Distribution:
        on_tree = [table for table in tables if table.clique not in extras]
        consistent = make_consistent(tables, domain.shape, total=total)
        model = self._fit_tree(
            [t for t in consistent if t.clique not in extras], domain, zeros, total, self.settings.fit
        )
        if len(on_tree) == len(tables):
            return model
        return self.settings.particles.fit(model, consistent, total=total, rng=self.rng)

    def tree_model(
        self, tables: list[NoisyTable], domain: Domain, zeros: Mapping[Clique, Any], total: float, *, tours: int
    ) -> Graphical:
        consistent = make_consistent(tables, domain.shape, total=total)
        return self._fit_tree(list(consistent), domain, zeros, total, MaxEntropy(max_tours=tours))

    def _fit_tree(
        self,
        tables: Sequence[NoisyTable],
        domain: Domain,
        zeros: Mapping[Clique, Any],
        total: float,
        settings: MaxEntropy,
    ) -> Graphical:
        return settings.fit(tables, domain.shape, total=total, allowed=zeros).model

    def progress(self, stage: str) -> None:
        self.settings.on_progress(Progress(stage=stage, done=STAGES.index(stage), total=len(STAGES)))


def _margins(tables: Sequence[NoisyTable], total: float) -> list[FloatArray]:
    return [project_to_simplex(table.counts, max(total, 1.0)) for table in tables]
