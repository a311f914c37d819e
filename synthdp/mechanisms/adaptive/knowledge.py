"""The state of the plan between two questions: noisy answers, and estimates made from them.  No code here sees a row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np

from synthdp.arrays import BoolArray, Clique, FloatArray, IntArray
from synthdp.domain.domain import Domain
from synthdp.domain.refinement import Refinement
from synthdp.fit.consistency import GLSEffects, gls_total
from synthdp.fit.moment_matching import NoisyProducts
from synthdp.fit.out_of_domain import OutOfDomain, pooled_repeats
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.energies import variance_of_margin
from synthdp.mechanisms.adaptive.merging import merged_domain
from synthdp.mechanisms.adaptive.shares import ONE_WAYS_KNOWN, signal
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.column_groups import coarse_table, coarsen_columns
from synthdp.mechanisms.column_tree import OneWay
from synthdp.mechanisms.mechanism import NO_RELATION
from synthdp.queries.contingency import NoisyTable, project_to_simplex
from synthdp.sampling.structural_zeros import structural_zeros
from synthdp.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlaceLevel:
    """The noisy tables measured at one step of a hierarchy of places, such as the step of districts.

    Parameters
    ----------
    groups
        (cells of the column of places,) the place of this step that each cell belongs to.
    tables
        Noisy tables, each of the places and one other column.
    """

    groups: IntArray
    tables: tuple[NoisyTable, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Knowledge:
    """The state of the plan: all noisy answers so far, and the estimates made from them.

    The state is immutable; each stage returns a new one.

    Parameters
    ----------
    left
        The remaining budget.
    measured
        All noisy answers that the release consists of, in order.
    total
        The number of rows, exact or estimated; at least 1.
    columns
        Noisy estimates of each column.
    refinements
        The coarse bins of each column, and the fine bins in each.
    domain
        The coarse bins as axes, one per column.
    coarser
        Per merge level, from 1 on, the same columns with fewer and fewer merged bins; see `merged_domain`.
    zeros
        For the columns of each rule, which combinations of coarse bins may occur, flat in C order.
    tables
        Measured tables over the coarse bins of several columns, and interactions that were measured without their margins.
    merged
        Measured tables and interactions over merged bins.
    ridges
        For each measured clique the factor by which the fit multiplies its noise; see `best_ridge`.
    tree
        Measured cliques that are to lie in the junction tree; other measured cliques are fitted outside of it.
    products
        Noisy second moments of columns that have scores, one entry per question.
    in_cells
        Whether all main effects and interactions were measured, so that the model is fitted over every combination of
        coarse bins.
    in_groups
        Whether each connected component of columns is fitted on its own, as independent of the others.
    places
        Tables of places at each step of their hierarchy, the coarsest step first.
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
    products: tuple[NoisyProducts, ...] = ()
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
        """Return the first state of the plan, after one histogram of every column was measured.

        Parameters
        ----------
        schema
            The schema, with its rules.
        columns, left, measured
            Noisy estimates of each column, the rest of the budget, and all noisy answers so far.
        target
            Number of rows that a coarse bin should hold.
        rows
            The number of rows where it is public; ``None`` to estimate it from the one-way tables.
        pinned
            For each column, fine bins that must be coarse bins of their own, in addition to fine bins that rules name.
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
        """The estimated rows in the coarse bins of each column, as tables of one column, which a fit has to meet.

        Out-of-domain rows are included, as in tables of several columns.
        """
        both = zip(self.columns, self.refinements, strict=True)
        return tuple(coarse_table(column, refinement, j) for j, (column, refinement) in enumerate(both))

    @property
    def kept(self) -> list[BoolArray]:
        """Per column, (coarse bins,): which coarse bins a released row may have.

        The other bins hold only out-of-domain rows.
        """
        return [axis.releasable for axis in self.domain.axes]

    @property
    def misfits(self) -> FloatArray:
        """(columns,) estimated rows whose value lies outside the declared domain of the column.

        The estimate is 0 where noise explains the rows.
        """
        return np.array([column.misfits for column in self.columns])

    @property
    def out_of_domain(self) -> OutOfDomain:
        """The estimated out-of-domain rows of all columns, in the form that removes them from measured tables."""
        return OutOfDomain(releasable=tuple(self.kept), rows=self.misfits, total=self.total)

    @property
    def margins(self) -> list[FloatArray]:
        """Per column, (coarse bins,): estimated rows, out-of-domain rows included, >= 0, all with the same sum.

        Their products are the expected tables of independent columns, from which distances are scored.
        """
        return [project_to_simplex(table.counts, max(self.total, 1.0)) for table in self.one_way_tables]

    @property
    def margin_variances(self) -> list[FloatArray]:
        """Per column, (coarse bins,): variance of the error of `margins`, in squared rows; see `variance_of_margin`.

        The variance determines how much of a noisy score the errors of margins explain.
        """
        every = zip(self.columns, self.refinements, self.margins, strict=True)
        return [
            variance_of_margin(one.coarse_cell, column.first_bin, column.stddev, rows) for column, one, rows in every
        ]

    @property
    def pooled_effects(self) -> GLSEffects:
        """Least-squares estimates of main effects and interactions from all answers, over releasable coarse bins.

        A fit over all cells takes these effects instead of tables.
        """
        return self.out_of_domain.pooled((*self.one_way_tables, *self.tables))

    @property
    def relations(self) -> str:
        """A sentence for the receipt on the measured tables of several columns, with their noise in rows.

        The sentence is `NO_RELATION` if neither tables of several columns nor products were measured.
        """
        tables = (*self.tables, *self.merged)
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
        """Return the state with one more set of noisy answers stored, and ``left`` as the remaining budget."""
        return replace(self, measured=(*self.measured, answers), left=left)

    def with_table(self, table: NoisyTable, *, ridge: float) -> Knowledge:
        """Return the state with one more noisy table or interaction; the fit multiplies its noise by ``ridge``.

        A repeated clique takes the new ridge.
        """
        ridges = {**self.ridges, table.clique: ridge}
        if table.groups is not None:
            return replace(self, merged=tuple(pooled_repeats([*self.merged, table])), ridges=ridges)
        return replace(self, tables=(*self.tables, table), ridges=ridges)

    def axes(self, level: int) -> Domain:
        """Return the axes of all columns at a merge level.

        Level 0 has the coarse bins; levels from 1 on have fewer and fewer merged bins.
        """
        return self.coarser[level - 1] if level else self.domain

    def relative_noise(self, clique: Clique, level: int) -> float:
        """Return the noise of the planned measurement of a clique, relative to a whole table of equal cost.

        The value is below 1 if only the clique's interaction is measured, to which one record contributes less.  An
        interaction is measured if noise is Gaussian and the one-ways are accurate.  The whole table (1.0) is measured
        if some rows are out of domain, since interactions leave these out.  A table over coarse bins (level 0) is also
        measured whole if the one-ways are noisy, since it improves them.  The value is 0 if a column has one bin, since
        then nothing is measured.
        """
        sizes = [int(self.axes(level).axes[j].releasable.sum()) for j in clique]
        if min(sizes) < 2:
            return 0.0
        if self.left.exponent != 0.5 or any(self.misfits[j] > 0 for j in clique):
            return 1.0
        if level == 0 and signal(self.left, self.total) < ONE_WAYS_KNOWN:
            return 1.0
        return math.sqrt(math.prod(1 - 1 / size for size in sizes))

    def groups(self, level: int) -> list[IntArray]:
        """Return, for every column, the merged bin of each coarse bin, (coarse bins,).

        ``level`` is the merge level, from 1 on.  Merged bins are unions of coarse bins, so each coarse bin lies in one.
        """
        both = zip(self.coarser[level - 1].axes, self.domain.axes, strict=True)
        return [groups for merged, axis in both if (groups := merged.groups_of(axis)) is not None]

    def with_tree(self, cliques: Iterable[Clique]) -> Knowledge:
        """Return the state with more measured cliques that are to lie in the junction tree; none is repeated."""
        return replace(self, tree=tuple(dict.fromkeys([*self.tree, *cliques])))
