"""How wrong a model's answers can be: tables drawn from the model, measured with fresh noise, fitted again.

The parametric bootstrap.  Draws rows and noise of post-processing only: everything here is a function of what was
released.  It sees the noise, the fit's shrinkage, the chance that a finite table differs from its model, and relations
that were not measured, as strong as `Misfit` takes them to be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from synthdp.answers.direct import Direct
from synthdp.answers.grouping import Grouping
from synthdp.answers.misfit import Misfit
from synthdp.arrays import BoolArray, Clique, Codes, FloatArray, IntArray
from synthdp.distribution.contingency import NoisyTable, cell_index, contingency
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.markov_random_field import Graphical
from synthdp.distribution.protocol import Distribution
from synthdp.domain.refinement import Refinement
from synthdp.fit.graphical.consistency import pooled_total
from synthdp.fit.graphical.max_entropy import MaxEntropy
from synthdp.fit.graphical.raking import RakedTable, rake_rows
from synthdp.fit.misfits import make_fitting
from synthdp.randomness import Generator, generator
from synthdp.sampling.synthetic_model import SyntheticModel

REPLICATES = 24
"""Tables drawn; a standard error then has a relative error of about 1 / sqrt(2 * 24) = 14 %."""

MOST_ROWS = 200_000
"""Most rows of a drawn table; fewer rows than the real table has make the error bars wider, never narrower."""

POOL = 200_000
"""Rows drawn from the model to choose a replicate's from; but at least twice, at most four times as many as it needs."""

RAKING_SWEEPS = 4

MOST_POINTS = 50_000
"""Most support points that are raked; more are thinned by controlled rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Replicate:
    """One table drawn from the model, and the model fitted to its noisy tables.

    Parameters
    ----------
    leaves
        (m, d) rows of the table, as leaves of the model's axes.
    weight
        Real rows that each stands for.
    fitted
        What the release would have made of it.
    total
        The number of rows that it would have estimated.
    seed
        Of everything else that is drawn for it.
    """

    leaves: Codes
    weight: float
    fitted: Distribution
    total: float
    seed: int


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Replicates of a release, drawn when first needed.

    Parameters
    ----------
    direct
        The release's model and noisy tables.
    random_state
        Seed of the replicates, which are then always the same.
    size
        Number of replicates.
    """

    direct: Direct
    random_state: int = 0
    size: int = REPLICATES

    @property
    def model(self) -> SyntheticModel:
        """The released model."""
        return self.direct.model

    @cached_property
    def replicates(self) -> list[Replicate]:
        """The drawn tables and their fits."""
        rng = generator(self.random_state)
        rows = int(min(MOST_ROWS, max(1.0, self.direct.total[0])))
        pool = self._pool(max(2 * rows, min(4 * rows, POOL)), rng)
        return [self._replicate(pool[self._chosen(pool, rows, rng)], rng) for _ in range(self.size)]

    def coarse(self, leaves: Codes) -> Codes:
        """Return the coarse cells in which leaves lie, (m, d)."""
        return np.column_stack([r.coarse_cell[leaves[:, j]] for j, r in enumerate(self.model.refinements)])

    def refinement(self, replicate: Replicate, column: int) -> Refinement:
        """Return the refinement of a column that the release would have made of a replicate."""
        refinement = self.model.refinements[column]
        leaves = self.direct.leaves(column)
        if leaves is None:
            return refinement
        rng = generator(replicate.seed + 2 * column)
        counts = np.bincount(replicate.leaves[:, column], minlength=refinement.fine.size) * replicate.weight
        noise = np.sqrt(np.diag(leaves.covariance)) * rng.standard_normal(len(counts))
        return Refinement(refinement.fine, refinement.coarse_cell, np.maximum(counts + noise, 0.0))

    def rows(self, replicate: Replicate, groupings: tuple[Grouping, ...]) -> FloatArray:
        """Return the counts of a replicate's rows by the groups of some columns, shaped by them."""
        drawn = []
        for grouping in groupings:
            column = grouping.column
            rng = generator(replicate.seed + 2 * column + 1)
            drawn.append(draw(grouping.leaf_share, replicate.leaves[:, column], rng))
        shape = [len(grouping.labels) + 1 for grouping in groupings]
        codes = np.column_stack(drawn)
        counts = contingency(codes, shape, tuple(range(len(shape)))).reshape(shape)
        return np.asarray(counts[tuple(slice(0, -1) for _ in shape)] * replicate.weight)

    def _pool(self, rows: int, rng: Generator) -> Codes:
        """Draw rows of the model, (rows, d) leaves; leaves that may hold rows for all that is known hold some."""
        codes = self.model.distribution.sample(rows, rng)
        found = np.empty(codes.shape, np.min_scalar_type(max(r.fine.size for r in self.model.refinements)), order="F")
        for j in range(codes.shape[1]):
            found[:, j] = draw_leaves(self._hedged(j), codes[:, j], rng)
        return found

    def _hedged(self, column: int) -> Refinement:
        """Return a column's refinement with each leaf's expected count, where the released one has the likeliest."""
        refinement, leaves = self.model.refinements[column], self.direct.leaves(column)
        if leaves is None:
            return refinement
        stddev = np.sqrt(np.maximum(np.diag(leaves.covariance), 1e-12))
        score = np.maximum(refinement.weights, leaves.counts) / stddev
        density = np.exp(-(score**2) / 2) / math.sqrt(2 * math.pi)
        return replace(refinement, weights=stddev * (density + score * ndtr(score)))

    def _chosen(self, pool: Codes, rows: int, rng: Generator) -> IntArray:
        """Draw rows of the pool, with relations that the release did not measure put in."""
        weights = self._misfit.weights(pool, rng)
        steps = np.cumsum(weights if weights.sum() > 0 else np.ones(len(pool)))
        return np.asarray(np.searchsorted(steps, rng.random(rows) * steps[-1], side="right"))

    @cached_property
    def _misfit(self) -> Misfit:
        return Misfit.of(self.direct)

    def _replicate(self, leaves: Codes, rng: Generator) -> Replicate:
        codes = self.coarse(leaves)
        weight = max(1.0, self.direct.total[0]) / len(codes)
        tables = [self._measured(table, codes, weight, rng) for table in self._tables]
        total = self.direct.total[0] if self.direct.total_is_public else pooled_total(tables)[0]
        fitted = self._fit(tables, max(total, 1.0))
        return Replicate(leaves, weight, fitted, max(total, 1.0), int(rng.integers(2**62)))

    @cached_property
    def _start(self) -> Explicit | None:
        """The support points from which a replicate's fit goes on, or None if the model lists none."""
        listed = self.model.distribution
        if not isinstance(listed, Explicit) or len(listed.codes) <= MOST_POINTS:
            return listed if isinstance(listed, Explicit) else None
        codes = listed.sample(MOST_POINTS, generator(self.random_state))
        return Explicit(shape=listed.shape, codes=codes, weights=np.ones(len(codes)))

    @cached_property
    def _tables(self) -> list[NoisyTable]:
        """The tables that the release's model was fitted to: coarse one-ways, then the measured ones."""
        found = []
        for column, refinement in enumerate(self.model.refinements):
            first = self.direct.first_level(column)
            leaves = self.direct.leaves(column)
            if first is None or leaves is None:
                continue
            groups = self.model.domain.shape[column]
            counts = np.bincount(refinement.coarse_cell, weights=leaves.counts, minlength=groups).astype(np.float64)
            stddev = first[2] * max(1.0, first[0].size / groups) ** 0.5
            found.append(NoisyTable(clique=(column,), counts=counts, stddev=stddev))
        return found + self.direct.fitting

    def _measured(self, table: NoisyTable, codes: Codes, weight: float, rng: Generator) -> NoisyTable:
        exact = contingency(codes, self.model.domain.shape, table.clique) * weight
        noisy = exact + table.stddev * rng.standard_normal(len(exact))
        return NoisyTable(clique=table.clique, counts=noisy, stddev=table.stddev)

    def _fit(self, tables: list[NoisyTable], total: float) -> Distribution:
        consistent = self._consistent(tables, total)
        if self._start is not None:
            return self._raked(self._start, consistent, total)
        distribution = self.model.distribution
        allowed = _zeros(distribution) if isinstance(distribution, Graphical) else {}
        return MaxEntropy().fit(consistent, self.model.domain.shape, total=total, allowed=allowed).model

    def _consistent(self, tables: list[NoisyTable], total: float) -> tuple[NoisyTable, ...]:
        """Return tables that agree, 0 in the cells that no released row may have."""
        return make_fitting(tables, self.direct.kept, np.zeros(len(self.direct.kept)), total=total)

    def _raked(self, start: Explicit, tables: tuple[NoisyTable, ...], total: float) -> Explicit:
        """Go on from the released weights to a replicate's tables, with the potentials that the released ones imply."""
        weights = start.weights * total
        raked = [
            RakedTable(cells=index, counts=table.counts, potential=theta.copy(), ridge=_ridge(table))
            for table, (index, theta) in zip(tables, self._implied, strict=True)
        ]
        for _ in range(RAKING_SWEEPS):
            weights = rake_rows(weights, raked[::-1], total=total)
        return Explicit(shape=start.shape, codes=start.codes, weights=weights)

    @cached_property
    def _implied(self) -> list[tuple[IntArray, FloatArray]]:
        """For each table the cells of the support points, and the potential at which the fit was at rest."""
        start, shape = self._start, self.model.domain.shape
        total = max(self.direct.total[0], 1.0)
        found: list[tuple[IntArray, FloatArray]] = []
        if start is None:
            return found
        for table in self._consistent(self._tables, total):
            gap = table.counts - start.marginal(table.clique) * total
            found.append((cell_index(start.codes, shape, table.clique).astype(np.int64), gap / _ridge(table)))
        return found


def draw(shares: FloatArray, cells: Codes, rng: Generator) -> IntArray:
    """Draw a column of a (cells, k) table of shares for each row's cell; k where the shares leave something over."""
    drawn = np.full(len(cells), shares.shape[1], np.int64)
    order = np.argsort(cells, kind="stable")
    ends = np.searchsorted(cells[order], np.arange(len(shares) + 1))
    uniform = rng.random(len(cells))
    for cell in range(len(shares)):
        rows = order[ends[cell] : ends[cell + 1]]
        if len(rows):
            steps = np.cumsum(shares[cell])
            if abs(steps[-1] - 1) < 1e-9:
                steps[np.flatnonzero(shares[cell])[-1] :] = 1.0
            drawn[rows] = np.searchsorted(steps, uniform[rows], side="right")
    return drawn


def draw_leaves(refinement: Refinement, cells: Codes, rng: Generator) -> IntArray:
    """Draw the leaf of every coarse cell of a column."""
    table = refinement.table()
    sums = table.sum(axis=1, keepdims=True)
    return draw(table / np.where(sums > 0, sums, 1.0), cells, rng)


def _ridge(table: NoisyTable) -> float:
    return MaxEntropy().ridge_of(table)


def _zeros(model: Graphical) -> dict[Clique, BoolArray]:
    """Return the combinations that the model leaves possible, for the cliques where it leaves some out."""
    return {c: np.isfinite(theta) for c, theta in model.potentials.items() if not np.isfinite(theta).all()}
