"""What the adaptive plan knows between two questions: noisy answers, and what follows from them.  Sees no row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from synthdp.arrays import BoolArray, Clique, FloatArray, IntArray
from synthdp.distribution.protocol import Distribution
from synthdp.domain.domain import Domain
from synthdp.domain.refinement import Refinement
from synthdp.fit.consistency import GLSEffects, gls_total
from synthdp.fit.moment_matching import NoisyProducts
from synthdp.fit.out_of_domain import OutOfDomain, pooled_repeats
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.coarsening import coarse_table, coarsen_columns
from synthdp.mechanisms.adaptive.column_tree import OneWay
from synthdp.mechanisms.adaptive.energies import variance_of_margin
from synthdp.mechanisms.adaptive.merging import merged_domain
from synthdp.mechanisms.adaptive.shares import ONE_WAYS_KNOWN, signal
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.protocol import NO_RELATION
from synthdp.queries.contingency import NoisyTable, project_to_simplex
from synthdp.randomness import Generator
from synthdp.sampling.exact_tables import ExactTable
from synthdp.sampling.structural_zeros import structural_zeros
from synthdp.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlaceLevel:
    """The noisy tables measured at one step of a hierarchy of places, such as districts.

    Parameters
    ----------
    groups
        (cells of the column of places,) the place of each.
    tables
        Noisy tables of the places and another column each.
    """

    groups: IntArray
    tables: tuple[NoisyTable, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Knowledge:
    """Everything the adaptive mechanism has learned so far: noisy answers and what follows from them.

    Immutable: each stage returns a new one.

    Parameters
    ----------
    left
        The rest of the budget.
    measured
        All noisy answers that the release is made of, in order.
    total
        The number of rows, exact or estimated; at least 1.
    columns
        Noisy estimates of each column.
    refinements
        The groups of each column, and how they are divided into its leaves.
    domain
        The groups as axes, one a column.
    coarser
        The same columns with ever fewer groups, see `merged_domain`.
    zeros
        For the columns of each rule, which combinations of groups may occur, flat in C order.
    tables
        Measured tables of several columns, over their groups.
    merged
        Measured tables of merged groups.
    ridges
        For the cliques of both, how far the table is trusted, see `best_ridge`.
    tree
        Measured cliques that are to lie in the junction tree.
    off_tree
        Measured cliques that are not.
    products
        Noisy second moments of columns that have numbers, a question each.
    effects
        Main effects and interactions that were measured alone.
    in_cells
        Whether all of them were, so that the model is fitted to every combination of groups.
    in_groups
        Whether each group of related columns is fitted on its own, as independent of the others.
    places
        Tables of places within places, the coarsest step first.
    """

    left: BudgetAllocation
    measured: tuple[Measurements, ...]
    total: float
    columns: tuple[OneWay, ...]
    refinements: tuple[Refinement, ...]
    domain: Domain
    coarser: tuple[Domain, ...]
    zeros: Mapping[Clique, BoolArray]
    tables: tuple[NoisyTable, ...] = ()
    merged: tuple[NoisyTable, ...] = ()
    ridges: Mapping[Clique, float] = field(default_factory=dict)
    tree: tuple[Clique, ...] = ()
    off_tree: tuple[Clique, ...] = ()
    products: tuple[NoisyProducts, ...] = ()
    effects: tuple[NoisyTable, ...] = ()
    in_cells: bool = False
    in_groups: bool = False
    places: tuple[PlaceLevel, ...] = ()

    @classmethod
    def of_columns(
        cls,
        schema: Schema,
        columns: tuple[OneWay, ...],
        *,
        target: float,
        rows: int | None,
        left: BudgetAllocation,
        measured: tuple[Measurements, ...],
        pinned: Sequence[AbstractSet[int]] = (),
    ) -> Knowledge:
        """Return the first knowledge, after one histogram of every column was measured.

        Parameters
        ----------
        schema
            With its rules.
        columns, left, measured
            Noisy estimates of each column, the rest of the budget, and all noisy answers so far.
        target
            Number of rows that a coarse bin should hold.
        rows
            The number of rows where it is public; ``None`` to estimate it from the one-way tables.
        pinned
            For each column, leaves that must have groups of their own, besides the ones that rules name.
        """
        refinements = coarsen_columns(schema, columns, target, pinned=pinned)
        domain = Domain(tuple(refinement.coarse() for refinement in refinements))
        known = cls(
            left=left, measured=measured, total=1.0, columns=columns, refinements=refinements, domain=domain,
            coarser=(), zeros=structural_zeros(schema, domain),
        )  # fmt: skip
        total = gls_total(known.one_way_tables)[0] if rows is None else float(rows)
        known = replace(known, total=max(1.0, total))
        return replace(known, coarser=(merged_domain(domain, known.margins),))

    @property
    def one_way_tables(self) -> tuple[NoisyTable, ...]:
        """The estimated rows in the groups of each column as tables of one column, misfits included."""
        both = zip(self.columns, self.refinements, strict=True)
        return tuple(coarse_table(column, refinement, j) for j, (column, refinement) in enumerate(both))

    @property
    def kept(self) -> list[BoolArray]:
        """Per column, (groups,): which groups a released row may have.

        Others hold only misfits (rows outside the domain).
        """
        return [axis.releasable for axis in self.domain.axes]

    @property
    def misfits(self) -> FloatArray:
        """(columns,) estimated rows whose value lies outside the declared domain of the column.

        0 where noise explains them.
        """
        return np.array([column.misfits for column in self.columns])

    @property
    def out_of_domain(self) -> OutOfDomain:
        """The rows outside of some column's domain, in the form that removes them from measured tables."""
        return OutOfDomain(releasable=tuple(self.kept), rows=self.misfits, total=self.total)

    @property
    def margins(self) -> list[FloatArray]:
        """Per column, (groups,): estimated rows in its groups, misfits included, >= 0, all with the same sum.

        Tables of independent columns, from which scores are measured, are made of them.
        """
        return [project_to_simplex(table.counts, max(self.total, 1.0)) for table in self.one_way_tables]

    @property
    def margin_variances(self) -> list[FloatArray]:
        """Per column, (groups,): variance of the error of `margins`; see `variance_of_margin`.

        It tells how much of a noisy score the errors of margins explain.
        """
        every = zip(self.columns, self.refinements, self.margins, strict=True)
        return [
            variance_of_margin(one.coarse_cell, column.first_bin, column.stddev, rows) for column, one, rows in every
        ]

    @property
    def pooled_effects(self) -> GLSEffects:
        """Least-squares estimates of main effects and interactions from all answers, over releasable groups.

        A fit over all cells takes these instead of tables.
        """
        return self.out_of_domain.pooled((*self.one_way_tables, *self.tables, *self.effects))

    @property
    def relations(self) -> str:
        """A sentence for the receipt: which tables of several columns were measured, and how noisy they are.

        `NO_RELATION` if none was, and no products either.
        """
        tables = (*self.tables, *self.merged, *self.effects)
        said = []
        for order, word in ((2, "pair"), (3, "triple")):
            noise = {one.clique: one.stddev for one in tables if len(one.clique) == order}
            if noise:
                low, high = min(noise.values()), max(noise.values())
                spread = f"{low:,.3g}" if high < 1.05 * low else f"{low:,.3g} to {high:,.3g}"
                said.append(f"{len(noise)} {word}{'s' * (len(noise) > 1)} of columns (noise ± {spread} rows in a cell)")
        if self.products:
            least = min(one.stddev for one in self.products)
            said.append(f"rank correlations of numeric columns (noise ± {least:.2g})")
        if not said:
            return NO_RELATION
        return "relations that were measured: " + "; ".join(said)

    def with_answers(self, answers: Measurements, *, left: BudgetAllocation) -> Knowledge:
        """Return the knowledge with one more set of noisy answers stored, and ``left`` as the remaining budget."""
        return replace(self, measured=(*self.measured, answers), left=left)

    def with_total(self, rows: float, stddev: float) -> Knowledge:
        """Return the knowledge after one more noisy count of rows, averaged with the earlier estimate by precision.

        The number of rows stays at least 1.
        """
        before, noise = gls_total(self.one_way_tables)
        precisions = noise**-2, stddev**-2
        total = (before * precisions[0] + rows * precisions[1]) / sum(precisions)
        return replace(self, total=max(1.0, total))

    def with_table(self, table: NoisyTable, *, ridge: float) -> Knowledge:
        """Return the knowledge with one more noisy table or interaction; ``ridge`` says how little the fit trusts it.

        A repeated clique takes the new ridge.
        """
        ridges = {**self.ridges, table.clique: ridge}
        if table.groups is not None:
            return replace(self, merged=tuple(pooled_repeats([*self.merged, table])), ridges=ridges)
        if table.alone:
            return replace(self, effects=(*self.effects, table), ridges=ridges)
        return replace(self, tables=(*self.tables, table), ridges=ridges)

    def axes(self, level: int) -> Domain:
        """Return the columns' groups at a level of merging.

        0 for the groups themselves, 1 and more for ever coarser ones.
        """
        return self.coarser[level - 1] if level else self.domain

    def noise_of_pair(self, clique: Clique, level: int) -> float:
        """Return the noise in what is measured of some columns, relative to a whole table of equal cost.

        It is below 1 if only their interaction is measured, to which one record contributes less.

        The interaction is measured with Gaussian noise where the one-ways are known well.  The whole table (1.0) is
        measured where rows lie outside of the domain, since interactions leave them out.  It also is where one-ways are
        noisy, since it improves them.  0 means that there is nothing to measure.
        """
        axes = self.axes(level).axes
        sizes = [int(np.count_nonzero(axes[j].width)) for j in clique]
        if min(sizes) < 2:
            return 0.0
        if self.left.exponent != 0.5 or any(self.misfits[j] > 0 for j in clique):
            return 1.0 if len(clique) < 3 else 0.0
        if level == 0 and signal(self.left, self.total) < ONE_WAYS_KNOWN:
            return 1.0
        return math.sqrt(math.prod(1 - 1 / size for size in sizes))

    def groups(self, clique: Clique, level: int) -> tuple[IntArray, ...]:
        """Return, for each column of a clique, the coarser group of each group, (groups,).

        Noisy tables over coarser groups are stored with them.  ``level`` is the level of merging, from 1 on.
        """
        found = [self.coarser[level - 1].axes[j].groups_of(self.domain.axes[j]) for j in clique]
        return tuple(groups for groups in found if groups is not None)

    def with_cliques(self, *, tree: Mapping[Clique, float], off_tree: Mapping[Clique, float]) -> Knowledge:
        """Return the knowledge with more measured cliques marked as inside or outside of the junction tree.

        Of the mappings only the keys count; cliques marked before are not repeated.
        """
        return replace(
            self,
            tree=tuple(dict.fromkeys([*self.tree, *tree])),
            off_tree=tuple(dict.fromkeys([*self.off_tree, *off_tree])),
        )


class Public(Protocol):
    """What the mechanism may take from public data (a public table, exact totals).

    Each method is called at one stage; all are post-processing and cost nothing.
    """

    def notes(self, schema: Schema, /) -> tuple[str, ...]:
        """Return the sentences with which a receipt says what public data was used."""
        ...

    def columns(self, columns: tuple[OneWay, ...], /, *, total: float) -> tuple[OneWay, ...]:
        """Return the estimates of single columns, improved by public data about them."""
        ...

    def rows_per_group(self, target: float, /, *, total: float) -> float:
        """Return how many rows a group of values should hold.

        Public data may allow finer groups than ``target``, which noise alone allows.
        """
        ...

    def pinned(self, columns: Sequence[OneWay], /) -> Sequence[AbstractSet[int]]:
        """Return, for each column, the leaves that must not be merged with others, as public totals name them.

        Empty if there are none.
        """
        ...

    def added_to(self, known: Knowledge, /) -> Knowledge:
        """Return the knowledge with public tables of several columns added, and the number of rows that these tell."""
        ...

    def fitted(self, known: Knowledge, /, *, alone: Callable[[], Distribution], rng: Generator) -> Distribution:
        """Return the model of all noisy answers and public data; calling ``alone`` fits the noisy answers alone."""
        ...

    def exact(self, known: Knowledge, /) -> tuple[ExactTable, ...]:
        """Return the public tables that synthetic rows must reproduce exactly."""
        ...


@dataclass(frozen=True, slots=True)
class NothingPublic:
    """Nothing is public: every hook returns what it was given."""

    def notes(self, _schema: Schema, /) -> tuple[str, ...]:
        """Return no notes, as there is nothing public."""
        return ()

    def columns(self, columns: tuple[OneWay, ...], /, *, total: float) -> tuple[OneWay, ...]:  # noqa: ARG002
        """Return the columns unchanged, as there is nothing public."""
        return columns

    def rows_per_group(self, target: float, /, *, total: float) -> float:  # noqa: ARG002
        """Return the target unchanged, as there is nothing public."""
        return target

    def pinned(self, _columns: Sequence[OneWay], /) -> Sequence[AbstractSet[int]]:
        """Return nothing, as no public total names a value."""
        return ()

    def added_to(self, known: Knowledge, /) -> Knowledge:
        """Return the knowledge unchanged, as there is nothing public."""
        return known

    def fitted(self, _known: Knowledge, /, *, alone: Callable[[], Distribution], rng: Generator) -> Distribution:  # noqa: ARG002
        """Return the model of the noisy answers alone, as there is nothing public."""
        return alone()

    def exact(self, _known: Knowledge, /) -> tuple[ExactTable, ...]:
        """Return no tables, as there is nothing public that rows must reproduce."""
        return ()
