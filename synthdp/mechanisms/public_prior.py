"""What a public table adds to the adaptive plan: its columns, its relations, and how far noisy answers bear them out.

Post-processing of noisy answers and public rows.  Asks nothing and costs nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.arrays import BoolArray, Clique, Codes, FloatArray, IntArray
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.protocol import Distribution
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.domain.public_rows import UNKNOWN, PublicRows
from synthdp.fit.graphical.consistency import centred
from synthdp.fit.graphical.raking import RakedTable, rake_rows
from synthdp.fit.public.public_shrinkage import combined, dispersion
from synthdp.fit.public.smoothed import MODEL_ROWS, SmoothedRows, smoothed_rows
from synthdp.mechanisms.adaptive.column_tree import OneWay
from synthdp.mechanisms.adaptive.fitting import consistent_tables
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.queries.contingency import NoisyTable, Shape, cell_index
from synthdp.randomness import Generator, generator

PUBLIC_GROUPS = 20
"""Groups that a column may have at least: public rows tell of many where noise lets few be measured.  Tuned: at epsilon .1
on Adult's published sample 20 has .076 and none .081."""

INSIDE = 2.0
"""Noise of a leaf below the first histogram, in multiples of its noise.  Derived: `OneWayTree.deep`."""

SWEEPS = 8
"""Rounds over all noisy tables.  Tuned: by 4 the three-way error is within a hundredth of that by 16."""

ONE_WAY_RIDGE = 0.05
"""Ridge of a one-way, in multiples of its error.  Derived: as in the fit without public rows."""

FIRST_SWEEPS = 3
"""Rounds over the one-ways before tables of several columns are compared.  Tuned; not measured."""

ALONE, LEAST_ALONE = 0.5, 0.005
"""Share of rows that come from the model of noisy answers alone, in parts of how far these are trusted; and the least, so
that no cell that they fill is without rows.  Tuned: on Adult's published sample shares of 0, .15, .3, .5 had three-way
errors of .055, .053, .0525, .053 at epsilon 1 and .066, .065, .066, .068 at .3."""

SEED = 0
"""Of the smoothing of public rows, which is the same each time.  A convention."""

BORNE_OUT = 0.8
"""Public relations are used where noisy tables are nearer to them than to none by this factor of squares.  Tuned: by
`benchmarks/utility/public.py`, on shuffled and biased tables."""


def with_public_columns(columns: Sequence[OneWay], public: PublicRows, *, total: float) -> tuple[OneWay, ...]:
    """Return what is known of every column with a public table: counts between the noisy and the public ones.

    Parameters
    ----------
    columns
        What noisy answers say.
    public
        The public rows.
    total
        Estimated number of private rows.
    """
    return tuple(_with_public_column(column, public, total) for column in columns)


def _with_public_column(column: OneWay, public: PublicRows, total: float) -> OneWay:
    """Return a column's noisy counts combined with a public table's, to the extent that the two agree."""
    counts = _inside(public, column.first)
    if counts is None or not counts.sum():
        return column
    scale = max(total - column.misfits, 1.0) / counts.sum()
    kept, expected = column.first.releasable, counts * scale
    ratio = max(total, 1.0) / public.effective
    found, error = combined(column.counts[kept], expected[kept], column.stddev, ratio=ratio)
    pooled = column.counts.copy()
    pooled[kept] = found
    cells, leaves = column.first_bin, _inside(public, column.axis)
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


def _inside(public: PublicRows, axis: Axis) -> FloatArray | None:
    """Return the public rows in each cell that a released row may have; 0 in the others."""
    counts = public.counts(axis)
    return None if counts is None else np.where(axis.releasable, counts, 0).astype(np.float64)


def fit_with_public(
    known: Knowledge, public: PublicRows, *, alone: Callable[[], Distribution], rng: Generator
) -> Distribution:
    """Fit public rows to all noisy answers; or what these say alone, where they do not bear the public relations out.

    Minimises the relative entropy to smoothed public rows, in effective ones, plus the squared deviations from noisy
    tables, in multiples of their noise: the posterior mode under a Dirichlet prior about the public table.  How many
    effective rows there are is told by each noisy table itself (`fit.public.public_shrinkage`).  The more noisy tables are
    trusted, the more rows of the model of these alone join the public ones.

    Parameters
    ----------
    known
        What was learned.
    public
        The public rows.
    alone
        Fits the noisy answers without them.
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
    """Fit public rows to consistent noisy tables; see `fit_with_public`.

    Parameters
    ----------
    tables_of
        Makes the noisy tables, each with its noise times its ridge.
    public
        The public rows.
    domain
        What the tables count over.
    ridges
        By which the noise of some tables was multiplied.
    margins
        (k_j,) counts of each column's codes.
    zeros
        For some cliques, which combinations may occur.
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
    ratios = [dispersion(one.target(m), m, one.stddev, ratio=ratio) for one, m in zip(several, expected, strict=True)]
    weights = mixed(max(LEAST_ALONE, ALONE * _mean_trust(several, expected, ratios)))
    raked = [one.raked(codes, ridge=one.stddev**2 / found) for one, found in zip(several, ratios, strict=True)]
    raked += [one.raked(codes) for one in one_ways]
    for _ in range(SWEEPS):
        weights = rake_rows(weights, raked, total=total)
    return Explicit(shape=shape, codes=codes, weights=weights)


def _smoothed(
    public: PublicRows, domain: Domain, margins: Sequence[FloatArray], zeros: Mapping[Clique, BoolArray]
) -> SmoothedRows:
    """Return the smooth distribution of public rows over some groups of values, the same each time; kept with them.

    A later period of a series has the groups of the one before.
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
    """A noisy table, as weighted rows are raked to it."""

    domain: Domain
    ridges: Mapping[Clique, float]
    table: NoisyTable

    @property
    def stddev(self) -> float:
        """The noise of a cell, without the ridge of the fit that knows no public rows."""
        return self.table.stddev / self.ridges.get(self.table.clique, 1.0)

    def cells(self, codes: Codes) -> IntArray:
        cells, merged = cell_index(codes, self.domain.shape, self.table.clique), self.table.merged_cells
        return np.asarray(cells if merged is None else merged[cells], np.int64)

    def expected(self, codes: Codes, weights: FloatArray) -> FloatArray:
        """Return the weights of rows added up by cell."""
        return np.asarray(np.bincount(self.cells(codes), weights, minlength=self.table.counts.size), np.float64)

    def target(self, expected: FloatArray) -> FloatArray:
        """Return the counts, with the margins that are expected where only an interaction was measured."""
        if not self.table.alone:
            return self.table.counts
        return self.table.counts + expected - centred(expected.reshape(self._shape)).ravel()

    def raked(self, codes: Codes, *, ridge: float | None = None) -> RakedTable:
        """Return the table as raking takes it."""
        return RakedTable(
            cells=self.cells(codes),
            counts=self.table.counts,
            potential=np.zeros(self.table.counts.size),
            ridge=ONE_WAY_RIDGE * self.table.stddev if ridge is None else ridge,
            alone=self._shape if self.table.alone else None,
        )

    @property
    def _shape(self) -> Shape:
        return self.table.shape(self.domain.shape)


def _mean_trust(several: Sequence[_Noisy], expected: Sequence[FloatArray], ratios: Sequence[float]) -> float:
    """Return the weight of noisy counts against public ones, on the average row and table; 0 without tables."""
    trusts = [
        float((m * m * ratio / (m * ratio + one.stddev**2)).sum() / max(m.sum(), 1e-300))
        for one, m, ratio in zip(several, expected, ratios, strict=True)
    ]
    return float(np.mean(trusts)) if trusts else 0.0


def _borne_out(
    several: Sequence[_Noisy], expected: Sequence[FloatArray], margins: Sequence[FloatArray], total: float
) -> bool:
    """Say whether noisy tables of pairs are nearer to public relations than to independence, beyond their noise.

    Where none was measured, public relations are all there is.
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
    return public <= BORNE_OUT * none + math.sqrt(chance)
