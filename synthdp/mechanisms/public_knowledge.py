"""The public knowledge that the adaptive plan uses: rows of another table, and exact totals.

A public table's columns and relations are weighted by how far noisy answers confirm them.  Post-processing of noisy
answers and public rows: it asks nothing and costs nothing.  Without public knowledge every method of `PublicKnowledge`
returns its input.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.arrays import BoolArray, Clique, Codes, FloatArray, IntArray
from synthdp.distribution.distribution import Distribution
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.junction_tree import TreePlanner
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.domain.public_rows import UNKNOWN, PublicRows, PublicTotals
from synthdp.fit.consistency import centred
from synthdp.fit.public_shrinkage import combined, dispersion, smoothed_ratio
from synthdp.fit.raking import RakedTable, rake_rows, raked_exactly
from synthdp.fit.smoothed_rows import MODEL_ROWS, SmoothedRows, smoothed_rows
from synthdp.mechanisms.adaptive.fitting import consistent_tables
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.column_tree import OneWay
from synthdp.queries.contingency import NoisyTable, Shape, cell_index
from synthdp.randomness import Generator, generator
from synthdp.sampling.exact_tables import ExactTable
from synthdp.schema.schema import Schema

PUBLIC_GROUPS = 32
"""Least number of coarse bins of a column if there are public rows, which support more bins than noisy answers alone.
Derived: the default of `OneWayTree.bins`, so that public rows can show each bin of the first histogram."""

INSIDE = 2.0
"""Assumed noise of a fine bin's count, as a multiple of the first histogram's.  Derived: the default of
`OneWayTree.deep`, the noise of deeper histograms, which count fine bins."""

SWEEPS = 8
"""Passes over all noisy tables when public rows are raked to them.  A numerical tolerance: by 4 the three-way error is
within a hundredth of that by 16."""

ONE_WAY_RIDGE = 0.05
"""How closely rows are raked to one-way marginals: the ridge, in multiples of their error; smaller is closer.  Derived:
equal to the ridge of the fit without public rows."""

FIRST_SWEEPS = 3
"""Passes over the one-way marginals before public relations are compared with noisy tables of several columns.  More
bring the margins of public rows nearer to the noisy ones, but take longer.  A numerical tolerance."""

LEAST_ALONE = 0.005
"""Least fraction of the fitted rows that come from a model without public rows.  A safety limit: no cell with noisy counts
is without rows."""

SEED = 0
"""Seed of the random smoothing of public rows, fixed so that its result is the same each time.  A convention."""


def with_public_columns(columns: Sequence[OneWay], public: PublicRows, *, total: float) -> tuple[OneWay, ...]:
    """Combine each column's noisy counts with a public table's, weighted by noise and by how far the two agree.

    Parameters
    ----------
    columns
        Noisy estimates of each column.
    public
        The public rows.
    total
        Estimated number of private rows.
    """
    return tuple(_with_public_column(column, public, total) for column in columns)


def _with_public_column(column: OneWay, public: PublicRows, total: float) -> OneWay:
    """Return a column with its noisy counts averaged with a public table's, weighted by noise and by how far the two agree.

    The column is unchanged if the public table has no rows with the column.
    """
    counts = _public_counts(public, column.first)
    if counts is None or not counts.sum():
        return column
    scale = max(total - column.misfits, 1.0) / counts.sum()
    kept, expected = column.first.releasable, counts * scale
    ratio = max(total, 1.0) / public.effective
    found, error = combined(column.counts[kept], expected[kept], column.stddev, ratio=ratio)
    pooled = column.counts.copy()
    pooled[kept] = found
    cells, leaves = column.first_bin, _public_counts(public, column.axis)
    rows = np.maximum(np.where(kept, pooled, 0.0), 0.0)
    # a leaf holds what noisy and public counts say together, and leaves of a bin together what the bin does
    shown = leaves * scale if leaves is not None else column.weights
    inside, _ = combined(column.weights, shown, INSIDE * column.stddev, ratio=ratio)
    inside = np.where(column.axis.releasable, np.maximum(inside, 0.0), 0.0)
    whole = np.bincount(cells, weights=inside, minlength=len(rows))
    spread = np.where(whole[cells] > 0, inside, np.where(column.axis.releasable, column.axis.width, 0))
    whole = np.bincount(cells, weights=spread, minlength=len(rows))
    weights = spread * (rows / np.maximum(whole, 1e-300))[cells]
    return replace(column, weights=weights, counts=pooled, stddev=error)


def _public_counts(public: PublicRows, axis: Axis) -> FloatArray | None:
    """Return the number of public rows in each bin of an axis, (axis.size,); 0 in bins that are never released.

    A column's noisy counts are averaged with these numbers.  Return ``None`` if the public table lacks the column.
    """
    counts = public.counts(axis)
    return None if counts is None else np.where(axis.releasable, counts, 0).astype(np.float64)


def fit_with_public(
    known: Knowledge, public: PublicRows, *, alone: Callable[[], Distribution], rng: Generator
) -> Distribution:
    """Fit public rows to all noisy answers; return ``alone()`` if noisy tables contradict the public relations.

    Also return ``alone()`` if a wide table is fitted by groups of columns, or if no public columns are related.

    The objective has two terms.  One is the relative entropy to smoothed public rows, times their effective number.
    The other is the squared deviation from noisy tables, divided by the variance of their noise.  This is the
    posterior mode under a Dirichlet prior around the public table.  Each noisy table itself estimates the effective
    number (`fit.public_shrinkage`).  The more weight noisy tables get, the more rows of the model fitted without public
    rows are added.

    Parameters
    ----------
    known
        The noisy answers and estimates so far.
    public
        The public rows.
    alone
        Fits the noisy answers without public rows.
    rng
        Source of the rows of both models.
    """
    if known.in_groups:
        return alone()
    margins = [np.where(kept, margin, 0.0) for kept, margin in zip(known.kept, known.margins, strict=True)]
    margins = [margin if margin.sum() > 0 else kept * 1.0 for kept, margin in zip(known.kept, margins, strict=True)]
    return fit_tables_with_public(
        lambda: consistent_tables(known), public, domain=known.domain, ridges=known.ridges, margins=margins,
        zeros=known.zeros, total=max(known.total, 1.0), alone=alone, rng=rng,
    )  # fmt: skip


def fit_tables_with_public(
    tables_of: Callable[[], Sequence[NoisyTable]], public: PublicRows, *, domain: Domain, ridges: Mapping[Clique, float],
    margins: Sequence[FloatArray], zeros: Mapping[Clique, BoolArray], total: float, alone: Callable[[], Distribution],
    rng: Generator,
) -> Distribution:  # fmt: skip
    """Fit public rows to consistent noisy tables; return ``alone()`` if these contradict the public relations.

    Also return ``alone()`` if no public columns are related.  See `fit_with_public`.

    Parameters
    ----------
    tables_of
        Makes the noisy tables, each with its noise times its ridge.
    public
        The public rows.
    domain
        The domain of the tables.
    ridges
        Factors by which the noise of some tables was multiplied.
    margins
        (k_j,) counts of each column's codes.
    zeros
        For some cliques, whether each combination may occur.
    total
        Estimated number of private rows, at least 1.
    alone
        Fits the noisy tables without public rows.
    rng
        Source of the rows of both models.
    """
    shape = domain.shape
    base = _smoothed(public, domain, margins, zeros)
    if not base.related:
        return alone()
    tables, ratio = tables_of(), total / public.effective
    one_ways = [_Noisy(domain, ridges, table) for table in tables if len(table.clique) == 1]
    several = [_Noisy(domain, ridges, table) for table in tables if len(table.clique) > 1]
    others = alone()
    drawn = others.sample(MODEL_ROWS, rng)
    codes = np.vstack([base.codes, drawn])

    def mixed(share: float) -> FloatArray:
        return np.concatenate([base.weights * (1 - share), np.full(len(drawn), share / len(drawn))]) * total

    weights = mixed(LEAST_ALONE)
    raked = [one.raked(codes) for one in one_ways]
    for _ in range(FIRST_SWEEPS):
        weights = rake_rows(weights, raked, total=total)
    expected = [one.expected(codes, weights) for one in several]
    if not _borne_out(several, expected, margins, total):
        return others
    told = [(one.target(m), m, one.stddev, one.free) for one, m in zip(several, expected, strict=True)]
    ratio = smoothed_ratio(told, ratio=ratio)
    ratios = [dispersion(y, m, stddev, ratio=ratio, free=free) for y, m, stddev, free in told]
    weights = mixed(max(LEAST_ALONE, _mean_trust(several, expected, ratios)))
    raked = [one.raked(codes, ridge=one.stddev**2 / found) for one, found in zip(several, ratios, strict=True)]
    raked += [one.raked(codes) for one in one_ways]
    for _ in range(SWEEPS):
        weights = rake_rows(weights, raked, total=total)
    return Explicit(shape=shape, codes=codes, weights=weights)


def _smoothed(
    public: PublicRows, domain: Domain, margins: Sequence[FloatArray], zeros: Mapping[Clique, BoolArray]
) -> SmoothedRows:
    """Return the smoothed distribution of public rows over the model's bins, computed once and then cached.

    A later period of a series has the same bins as the period before.
    """
    codes, told = public.codes(domain), hashlib.sha256(repr((domain.shape, sorted(zeros))).encode())
    drawn = list(margins) if (codes == UNKNOWN).any() else [np.ones(size) for size in domain.shape]
    for one in (codes, *(zeros[clique] for clique in sorted(zeros)), *drawn):
        told.update(np.ascontiguousarray(one).tobytes())
    key = told.digest()
    if key not in public.kept:
        public.kept.clear()
        public.kept[key] = smoothed_rows(codes, domain.shape, drawn, zeros=zeros, rng=generator(SEED))
    kept: SmoothedRows = public.kept[key]
    return kept


@dataclass(frozen=True, slots=True, eq=False)
class _Noisy:
    """A noisy table in the form in which weighted rows are raked to it."""

    domain: Domain
    ridges: Mapping[Clique, float]
    table: NoisyTable

    @property
    def stddev(self) -> float:
        """Stddev of a cell's noise, in rows.

        The table's own stddev contains a factor (ridge) of the fit without public rows, which is divided out.
        """
        return self.table.stddev / self.ridges.get(self.table.clique, 1.0)

    @property
    def free(self) -> int:
        """Degrees of freedom of the table given its one-way margins; of an interaction, given all of its margins.

        The squared distance of private counts from public ones is divided by this number, since margins are fitted.
        """
        sizes = [size - 1 for size in self._shape]
        return math.prod(sizes) if self.table.alone else math.prod(self._shape) - 1 - sum(sizes)

    def cells(self, codes: Codes) -> IntArray:
        """Return the cell of the table that each row lies in, (m,), by which weighted rows are counted and raked.

        ``codes``, (m, d), are the coarse bins of the rows.
        """
        cells, merged = cell_index(codes, self.domain.shape, self.table.clique), self.table.merged_cells
        return np.asarray(cells if merged is None else merged[cells], np.int64)

    def expected(self, codes: Codes, weights: FloatArray) -> FloatArray:
        """Return the sum of the rows' weights in each cell, (cells,), to be compared with the noisy counts."""
        return np.asarray(np.bincount(self.cells(codes), weights, minlength=self.table.counts.size), np.float64)

    def target(self, expected: FloatArray) -> FloatArray:
        """Return the counts to fit, (cells,); a lone interaction gets the margins of ``expected``."""
        if not self.table.alone:
            return self.table.counts
        return self.table.counts + expected - centred(expected.reshape(self._shape)).ravel()

    def raked(self, codes: Codes, *, ridge: float | None = None) -> RakedTable:
        """Return the table with the cells of some rows, for `rake_rows`.

        A larger ridge lets weights stay farther from the counts; default: `ONE_WAY_RIDGE` times the noise.
        """
        return RakedTable(
            cells=self.cells(codes),
            counts=self.table.counts,
            potential=np.zeros(self.table.counts.size),
            ridge=ONE_WAY_RIDGE * self.table.stddev if ridge is None else ridge,
            alone=self._shape if self.table.alone else None,
        )

    @property
    def _shape(self) -> Shape:
        """Number of codes of each of the table's columns, by which the flat counts are shaped."""
        return self.table.shape(self.domain.shape)


def _mean_trust(several: Sequence[_Noisy], expected: Sequence[FloatArray], ratios: Sequence[float]) -> float:
    """Return the weight of noisy counts against public ones, from 0 to 1, averaged over rows and tables; 0 without tables.

    For each table, ``expected`` holds the counts m that smoothed public rows expect, and ``ratios`` the variance of
    private counts as a multiple of m.  The weight is the fraction of the fitted rows that come from a model without
    public rows.
    """
    trusts = [
        float((m * m * ratio / (m * ratio + one.stddev**2)).sum() / max(m.sum(), 1e-300))
        for one, m, ratio in zip(several, expected, ratios, strict=True)
    ]
    return float(np.mean(trusts)) if trusts else 0.0


def _borne_out(
    several: Sequence[_Noisy], expected: Sequence[FloatArray], margins: Sequence[FloatArray], total: float
) -> bool:
    """Return whether noisy tables of pairs are nearer to the public relations than to independence, beyond their noise.

    The answer is True if no pair was measured, since public relations are then all that is known.
    """
    public = none = chance = 0.0
    for one, modelled in zip(several, expected, strict=True):
        if len(one.table.clique) != 2:
            continue
        a, b = one.table.clique
        product = np.outer(margins[a] / margins[a].sum(), margins[b] / margins[b].sum()).ravel() * total
        merged = one.table.merged_cells
        product = product if merged is None else np.asarray(np.bincount(merged, product), np.float64)
        weight = 1 / (product + one.stddev)
        public += float((weight * ((one.target(modelled) - modelled) ** 2 - one.stddev**2)).sum())
        none += float((weight * ((one.target(product) - product) ** 2 - one.stddev**2)).sum())
        chance += float((weight**2).sum()) * 2 * one.stddev**4
    return public <= none + math.sqrt(chance)


EXACT = 0.01
"""Standard deviation, in rows, assumed for exact public totals where a positive number is needed.  Totals that are this
close to whole numbers count as whole.  A numerical tolerance.
"""

TREE_CELLS = 1e5
"""Most cells that the junction tree may have with public totals of several columns; others are fitted outside of it.  A
safety limit.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicKnowledge:
    """Public rows and public totals, as the adaptive mechanism uses them.

    See `synthdp.mechanisms.public_hooks.Public`.

    Parameters
    ----------
    rows
        Rows of a public table.
    totals
        Exact numbers of rows.
    """

    rows: PublicRows | None = None
    totals: tuple[PublicTotals, ...] = ()

    def notes(self, schema: Schema) -> tuple[str, ...]:
        """Return the receipt's sentences on which public data was used."""
        return (*([] if self.rows is None else [self.rows.note(schema)]), *(one.note() for one in self.totals))

    def columns(self, columns: tuple[OneWay, ...], *, total: float) -> tuple[OneWay, ...]:
        """Return the estimates of single columns, improved by public rows and set to public totals."""
        if self.rows is not None:
            columns = with_public_columns(columns, self.rows, total=total)
        exact = {one.names[0]: one for one in self.totals if len(one.names) == 1}
        return tuple(
            _exactly(column, exact[column.axis.name]) if column.axis.name in exact else column for column in columns
        )

    def rows_per_group(self, target: float, *, total: float) -> float:
        """Return how many rows a coarse bin should hold, so that a column of ``total`` rows has enough bins.

        Noisy answers alone allow bins of ``target`` rows.  Public rows show the shape of finer bins too, so with them
        a column has at least `PUBLIC_GROUPS` bins.
        """
        return target if self.rows is None else min(target, total / PUBLIC_GROUPS)

    def pinned(self, columns: Sequence[OneWay]) -> list[frozenset[int]]:
        """Return, for each column, the fine bins that public totals name.

        These fine bins must stay coarse bins of their own, so that synthetic rows can have the totals.
        """
        found: list[frozenset[int]] = []
        for column in columns:
            points = [
                one.points[:, one.names.index(column.axis.name)] for one in self.totals if column.axis.name in one.names
            ]
            leaves = column.axis.cells_of(np.concatenate(points).astype(np.uint32)) if points else np.zeros(0, np.int64)
            found.append(frozenset(int(leaf) for leaf in leaves))
        return found

    def added_to(self, known: Knowledge) -> Knowledge:
        """Return the plan's state with the public totals: the number of rows, and exact tables of several columns."""
        if not self.totals:
            return known
        known = replace(known, total=max(1.0, self.totals[0].rows))
        planner = TreePlanner(known.domain.shape)
        for one in self.totals:
            clique, counts = one.table(known.domain)
            if len(clique) > 1:
                fits = planner.cells([*known.zeros, *known.tree, clique]) <= TREE_CELLS
                known = known.with_table(NoisyTable(clique=clique, counts=counts, stddev=EXACT), ridge=1.0)
                known = known.with_tree([clique] if fits else [])
        return known

    def fitted(self, known: Knowledge, *, alone: Callable[[], Distribution], rng: Generator) -> Distribution:
        """Return the model of all noisy answers, fitted together with public rows if there are any.

        The model is then raked so that it has the public totals exactly.

        Parameters
        ----------
        known
            The noisy answers and estimates, with the totals.
        alone
            Fits the noisy answers without public rows.
        rng
            Source of rows.
        """
        found = alone() if self.rows is None else fit_with_public(known, self.rows, alone=alone, rng=rng)
        if not self.totals:
            return found
        tables = [one.table(known.domain) for one in self.totals]
        return raked_exactly(found, tables, zeros=known.zeros, rng=rng, rows=known.total)

    def exact(self, known: Knowledge) -> tuple[ExactTable, ...]:
        """Return the whole-number public totals as tables that synthetic rows must reproduce exactly.

        Public totals that no rows could have, such as fractions, are left out.
        """
        tables = [one.table(known.domain) for one in self.totals]
        return tuple(
            ExactTable(clique=clique, counts=np.rint(counts).astype(np.int64))
            for clique, counts in tables
            if (np.abs(counts - np.rint(counts)) < EXACT).all()
        )


def _exactly(column: OneWay, totals: PublicTotals) -> OneWay:
    """Return a column whose estimated rows are exact public totals, in fine bins and in bins of the first histogram.

    No budget is needed for such a column.  It has no out-of-domain rows.
    """
    return replace(
        column, weights=totals.on(column.axis), counts=totals.on(column.first), stddev=EXACT, misfits=0.0
    )  # fmt: skip
