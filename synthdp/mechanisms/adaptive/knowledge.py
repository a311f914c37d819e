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
from synthdp.fit.graphical.consistency import GLSEffects, gls_total
from synthdp.fit.graphical.moment_matching import NoisyProducts
from synthdp.fit.out_of_domain import OutOfDomain, pooled_repeats
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.coarsening import coarse_table, coarsen_columns
from synthdp.mechanisms.adaptive.column_tree import OneWay
from synthdp.mechanisms.adaptive.energies import variance_of_margin
from synthdp.mechanisms.adaptive.merging import merged_domain
from synthdp.mechanisms.adaptive.shares import ONE_WAYS_KNOWN, signal
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.queries.contingency import NoisyTable, project_to_simplex
from synthdp.randomness import Generator
from synthdp.sampling.exact_tables import ExactTable
from synthdp.sampling.structural_zeros import structural_zeros
from synthdp.schema.schema import Schema

NO_RELATION = (
    "no relation between columns was measured: synthetic columns have nothing to do with each other; a larger budget, more "
    "rows or fewer columns would tell some"
)
"""What a receipt says where all noisy answers are about single columns; a plan foretells it as weak or poor."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlaceLevel:
    """Tables of the places of one step of a hierarchy.

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
    """The state of the adaptive plan; each stage returns a new one.

    Parameters
    ----------
    left
        What is left of the budget.
    measured
        All noisy answers that the release is made of, in order.
    total
        The number of rows, exact or estimated; at least 1.
    columns
        What is known of each column.
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
        """Return what is known when every column was measured on its own.

        Parameters
        ----------
        schema
            With its rules.
        columns, left, measured
            As above.
        target
            How many rows a group should hold.
        rows
            The number of rows where it is public; ``None`` to estimate it from the one-way tables.
        pinned
            For each column, leaves that must have groups of their own beside those that rules name.
        """
        refinements = coarsen_columns(schema, columns, target, pinned=pinned)
        domain = Domain(tuple(refinement.coarse() for refinement in refinements))
        known = cls(
            left=left, measured=measured, total=1.0, columns=columns, refinements=refinements, domain=domain,
            coarser=(), zeros=structural_zeros(schema, domain),
        )  # fmt: skip
        total = gls_total(known.one_way_tables)[0] if rows is None else float(rows)
        known = replace(known, total=max(1.0, total))
        return replace(known, coarser=(merged_domain(refinements, known.margins),))

    @property
    def one_way_tables(self) -> tuple[NoisyTable, ...]:
        """The noisy one-way tables of the groups, one a column."""
        both = zip(self.columns, self.refinements, strict=True)
        return tuple(coarse_table(column, refinement, j) for j, (column, refinement) in enumerate(both))

    @property
    def kept(self) -> list[BoolArray]:
        """Per column, which of its groups a released row may have; the others hold misfits, and only if there are any."""
        return [axis.releasable for axis in self.domain.axes]

    @property
    def misfits(self) -> FloatArray:
        """(d,) estimated rows whose value does not fit the column; 0 where noise explains them."""
        return np.array([column.misfits for column in self.columns])

    @property
    def out_of_domain(self) -> OutOfDomain:
        """The rows whose value does not fit a column, and what is measured without them."""
        return OutOfDomain(releasable=tuple(self.kept), rows=self.misfits, total=self.total)

    @property
    def margins(self) -> list[FloatArray]:
        """The estimated rows in the groups of each column, misfits among them, >= 0; every column has the same sum."""
        return [project_to_simplex(table.counts, max(self.total, 1.0)) for table in self.one_way_tables]

    @property
    def margin_variances(self) -> list[FloatArray]:
        """The variance of the error of `margins`: noise of the bins, which hurts a group by no more than the rows in it."""
        every = zip(self.columns, self.refinements, self.margins, strict=True)
        return [
            variance_of_margin(one.coarse_cell, column.first_bin, column.stddev, rows) for column, one, rows in every
        ]

    @property
    def pooled_effects(self) -> GLSEffects:
        """What all answers together say of main effects and interactions, over the groups that a released row may have."""
        return self.out_of_domain.pooled((*self.one_way_tables, *self.tables, *self.effects))

    @property
    def relations(self) -> str:
        """What was measured of several columns together, and how noisy it is, in a sentence for the receipt."""
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
        """Return what is known after one more question, which left so much of the budget."""
        return replace(self, measured=(*self.measured, answers), left=left)

    def with_total(self, rows: float, stddev: float) -> Knowledge:
        """Return what is known with one more noisy number of rows beside that of the one-ways."""
        before, noise = gls_total(self.one_way_tables)
        precisions = noise**-2, stddev**-2
        total = (before * precisions[0] + rows * precisions[1]) / sum(precisions)
        return replace(self, total=max(1.0, total))

    def with_table(self, table: NoisyTable, *, ridge: float) -> Knowledge:
        """Return what is known with one more table or interaction; a repeated clique takes the new ridge."""
        ridges = {**self.ridges, table.clique: ridge}
        if table.groups is not None:
            return replace(self, merged=tuple(pooled_repeats([*self.merged, table])), ridges=ridges)
        if table.alone:
            return replace(self, effects=(*self.effects, table), ridges=ridges)
        return replace(self, tables=(*self.tables, table), ridges=ridges)

    def axes(self, level: int) -> Domain:
        """Return the groups of all columns at a level of merging, 0 for none."""
        return self.coarser[level - 1] if level else self.domain

    def noise_of_pair(self, clique: Clique, level: int) -> float:
        """Return the noise of what is measured of a pair at a level of merging, in multiples of a table's of equal cost.

        With Gaussian noise that is the interaction alone, as one-ways are known: one record moves it less than a table.
        It says nothing of rows with misfits; where there are any, the table is measured.  So it is where nothing is merged
        and one-ways are noisy, since it tells of these, too.  0 where a column has one group.
        """
        sizes = [int(self.axes(level).axes[j].releasable.sum()) for j in clique]
        if min(sizes) < 2:
            return 0.0
        if self.left.exponent != 0.5 or any(self.misfits[j] > 0 for j in clique):
            return 1.0 if len(clique) < 3 else 0.0
        if level == 0 and signal(self.left, self.total) < ONE_WAYS_KNOWN:
            return 1.0
        return math.sqrt(math.prod(1 - 1 / size for size in sizes))

    def groups(self, clique: Clique, level: int) -> tuple[IntArray, ...]:
        """Return the coarser group of each group of some columns, (groups,) each, at a level of merging, from 1 on."""
        found = [self.coarser[level - 1].axes[j].groups_of(self.domain.axes[j]) for j in clique]
        return tuple(groups for groups in found if groups is not None)

    def with_cliques(self, *, tree: Mapping[Clique, float], off_tree: Mapping[Clique, float]) -> Knowledge:
        """Return the same with more cliques inside and outside the junction tree."""
        return replace(
            self,
            tree=tuple(dict.fromkeys([*self.tree, *tree])),
            off_tree=tuple(dict.fromkeys([*self.off_tree, *off_tree])),
        )


class Public(Protocol):
    """What is public; post-processing of noisy answers, which costs nothing."""

    def notes(self, schema: Schema, /) -> tuple[str, ...]:
        """Return what a receipt says of it."""
        ...

    def columns(self, columns: tuple[OneWay, ...], /, *, total: float) -> tuple[OneWay, ...]:
        """Return what is known of each column with what is public of it."""
        ...

    def rows_per_group(self, target: float, /, *, total: float) -> float:
        """Return how many rows a group should hold, where noise alone would have ``target``."""
        ...

    def pinned(self, columns: Sequence[OneWay], /) -> Sequence[AbstractSet[int]]:
        """Return for each column the leaves that must stay groups of their own; none for no column."""
        ...

    def added_to(self, known: Knowledge, /) -> Knowledge:
        """Return what is known with public tables of several columns."""
        ...

    def fitted(self, known: Knowledge, /, *, alone: Callable[[], Distribution], rng: Generator) -> Distribution:
        """Return the model of all answers with what is public; ``alone`` makes that of the answers."""
        ...

    def exact(self, known: Knowledge, /) -> tuple[ExactTable, ...]:
        """Return the tables that rows are to have exactly."""
        ...


@dataclass(frozen=True, slots=True)
class NothingPublic:
    """Nothing is public: every hook returns what it was given."""

    def notes(self, _schema: Schema, /) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    def columns(self, columns: tuple[OneWay, ...], /, *, total: float) -> tuple[OneWay, ...]:  # noqa: ARG002
        """Return the columns."""
        return columns

    def rows_per_group(self, target: float, /, *, total: float) -> float:  # noqa: ARG002
        """Return the target."""
        return target

    def pinned(self, _columns: Sequence[OneWay], /) -> Sequence[AbstractSet[int]]:
        """Return nothing."""
        return ()

    def added_to(self, known: Knowledge, /) -> Knowledge:
        """Return what is known."""
        return known

    def fitted(self, _known: Knowledge, /, *, alone: Callable[[], Distribution], rng: Generator) -> Distribution:  # noqa: ARG002
        """Return the model of the answers."""
        return alone()

    def exact(self, _known: Knowledge, /) -> tuple[ExactTable, ...]:
        """Return nothing."""
        return ()
