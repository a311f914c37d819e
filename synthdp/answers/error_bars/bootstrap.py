"""How wrong a model's answers can be: tables drawn from the model, measured with fresh noise, fitted again.

The parametric bootstrap.  Draws rows and noise of post-processing only: everything here is a function of what was
released.  It sees the noise, the fit's shrinkage, the chance that a finite table differs from its model, and relations
that were not measured, as strong as `Misspecification` takes them to be.

All replicates share one pool of points drawn from the model.  A replicate's table and its fit are two columns of weights
of these points, so that all replicates are computed together, and a table of groups costs one look at the points.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.special import ndtr

from synthdp.answers.direct import GLSEstimates
from synthdp.answers.error_bars.misspecification import Misspecification
from synthdp.answers.error_bars.random_functions import leaf_mass
from synthdp.answers.error_bars.refitted_points import MomentTargets, refitted
from synthdp.answers.grouping import QuestionBinning
from synthdp.arrays import Codes, FloatArray, IntArray, Sparse
from synthdp.domain.refinement import Refinement
from synthdp.fit.graphical.consistency import gls_total
from synthdp.fit.out_of_domain import OutOfDomain, merged_in_domain
from synthdp.queries.contingency import NoisyTable, cell_index, table_shape
from synthdp.randomness import Generator, generator
from synthdp.sampling.synthetic_model import SyntheticModel

REPLICATES = 24
"""Number of bootstrap tables: a standard error then has a relative error of about 14 %. Derived: 1 / sqrt(2 * 24)."""

POINTS, FEWEST_POINTS = 12_000, 5_000
"""Most (POINTS) and fewest points of the model in a pool that all replicates share; combinations rarer than one point
are not seen.  `POINTS`: tuned; not measured.  `FEWEST_POINTS`: safety limit.
"""

MOST_CODES = 150_000
"""Most points times columns: wide tables have fewer points, at least `FEWEST_POINTS`, so that a first answer takes a
second.  A safety limit.
"""

NEARLY_WHOLE = 1e-9
"""Shares that sum to 1 within this leave no remainder.  A numerical tolerance."""


@dataclass(frozen=True, slots=True, eq=False)
class Replicates:
    """Tables drawn from a model and the fits to their noisy answers, as weights of one pool of points.

    Parameters
    ----------
    codes, leaves
        (m, d) coarse cells and leaves of the points.
    rows
        (m, 1 + size) rows that each point stands for in the model, then in each drawn table, with what no fit could find
        of it put in.
    drawn
        (m, size) the same of each drawn table without that: what the fit was made to.
    fitted
        (m, 1 + size) rows that it stands for in the model, then in the fit to each table.
    """

    codes: Codes
    leaves: Codes
    rows: FloatArray
    drawn: FloatArray
    fitted: FloatArray


MOST_TOGETHER, NEAREST = 64, 30
"""With more columns than MOST_TOGETHER, each question gets a pool of only NEAREST columns: its own and related ones.
`MOST_TOGETHER`: safety limit.  `NEAREST`: tuned; not measured.
"""

POOLS = 4
"""Pools kept for a wide table, so that further questions about the same columns are fast.  A safety limit of memory."""


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Parametric bootstrap of a release: tables drawn from its model and fitted again, to estimate errors of answers.

    Parameters
    ----------
    direct
        The release's model and noisy tables.
    random_state
        Seed of the replicates, which are then always the same.
    size
        Number of replicates.
    points
        Number of points in their pool; default: `POINTS`, fewer of many columns.
    """

    direct: GLSEstimates
    random_state: int = 0
    size: int = REPLICATES
    points: int = 0

    def __post_init__(self) -> None:
        if self.points == 0:
            fitting = MOST_CODES // len(self.direct.model.domain)
            object.__setattr__(self, "points", max(FEWEST_POINTS, min(POINTS, fitting)))

    @cached_property
    def misfit(self) -> Misspecification:
        """The relations that the release did not measure and that may exist."""
        return Misspecification.of(self.direct)

    @cached_property
    def replicates(self) -> Replicates:
        """The drawn tables and their fits, as weights of one pool of points; computed once."""
        rng, model, tables = generator(self.random_state), self.direct.model, self._tables
        total = max(1.0, self.direct.total[0])
        weight = total / self.points
        codes = model.distribution.sample(self.points, rng)
        leaves = np.empty(codes.shape, np.min_scalar_type(max(r.fine.size for r in model.refinements)), order="F")
        for j in range(codes.shape[1]):
            leaves[:, j] = draw_leaves(self._hedged(j), codes[:, j], rng)
        rows = np.full((self.points, 1 + self.size), weight)
        misfit = self.misfit
        for r, likely in enumerate(misfit.weights(leaves, rng, self.size), start=1):
            drawn = rng.poisson(weight * likely / max(float(likely.mean()), 1e-12)).astype(np.float64)
            rows[:, r] = drawn * (total / max(float(drawn.sum()), 1.0))
        stddev = 0.0 if self.direct.total_is_public else gls_total(tables)[1]
        kept = self.direct.kept
        none = OutOfDomain(releasable=tuple(kept), rows=np.zeros(len(kept)), total=total)
        fitting = [none.inside(table) for table in (*tables, *self.direct.fitting_effects)]
        places = np.column_stack([np.maximum(np.cumsum(k) - 1, 0)[codes[:, j]] for j, k in enumerate(kept)])
        shape = tuple(int(k.sum()) for k in kept)
        fitted = refitted(
            fitting, shape, places, rows[:, 1:], weight=weight, total_stddev=stddev, rng=rng,
            merged=self._merged, products=MomentTargets.of(self.direct.products, codes, rows[:, 1:], rng),
        )  # fmt: skip
        drawn_rows = np.array(rows[:, 1:], order="F")
        rows[:, 1:] = misfit.unrecovered_rows(leaves, rows[:, 1:], rng)
        rows *= total / np.maximum(rows.sum(axis=0), 1e-300)
        # By replicate: `tables` reads one after the other.
        together = np.column_stack([rows[:, :1], fitted])
        return Replicates(codes, leaves, np.asfortranarray(rows), drawn_rows, np.asfortranarray(together))

    def tables(self, groupings: tuple[QuestionBinning, ...]) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield pairs (fitted, drawn) of tables of groups, in rows; their difference is an error of the release.

        The first pair is of the model itself: by the law of its rows, and by the points that stand for it.  What lies
        between these two lies between every other pair's, and is no error.
        """
        found, clique = self.replicates, tuple(self.direct.place(grouping.column) for grouping in groupings)
        sizes = table_shape(self.direct.model.domain.shape, clique)
        cells = cell_index(found.codes, self.direct.model.domain.shape, clique)
        places, weights = self._entries(groupings)
        shape = [grouping.leaf_powers.shape[1] for grouping in groupings]
        shares = [group_shares(grouping, self.leaf_counts(grouping.column)) for grouping in groupings]
        for r in range(self.size + 1):
            of_cells = np.bincount(cells, found.fitted[:, r], minlength=math.prod(sizes))
            table = np.asarray(of_cells.reshape(sizes), np.float64)
            for share in shares:  # the first axis becomes the last one
                table = np.tensordot(table, share[r], axes=(0, 0))
            rows = np.zeros(math.prod(shape))
            for place, weight in zip(places, weights, strict=True):
                rows += np.bincount(place, found.rows[:, r] * weight, minlength=len(rows))
            yield table, rows.reshape(shape)

    def _entries(self, groupings: tuple[QuestionBinning, ...]) -> tuple[list[IntArray], list[FloatArray]]:
        """Return where in a table of groups each point is counted, and with which weight; once per power of values."""
        places, weights = [np.zeros(self.points, np.int64)], [np.ones(self.points)]
        for grouping in groupings:
            leaves, count = self.leaves(grouping.column).astype(np.int64), len(grouping.labels)
            drawn = draw(grouping.leaf_share, leaves, generator(self.random_state + 1 + 2 * grouping.column))
            inside = drawn >= 0
            entries = [np.maximum(drawn, 0) + power * count for power in range(grouping.powers)]
            share = grouping.leaf_share[leaves, entries[0]]
            values = [
                np.where(inside, grouping.leaf_powers[leaves, e] / np.where(inside, share, 1.0), 0.0) for e in entries
            ]
            places = [place * (grouping.powers * count) + entry for place in places for entry in entries]
            weights = [weight * value for weight in weights for value in values]
        return places, weights

    def averages(self, values: FloatArray, columns: Sequence[int]) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield pairs as `tables` does, of averages of functions given by their values at the points, (m, q)."""
        sums = [(w.T @ values) / np.maximum(w.sum(axis=0), 1e-300)[:, None] for w in self.weights(columns)]
        return zip(*sums, strict=True)

    def weights(self, columns: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Return how many rows each point stands for in every fit and in every drawn table, (m, 1 + size) each.

        Those of the fits are divided among the leaves of some columns as releases would have divided them.
        """
        found = self.replicates
        ratio = np.ones(found.rows.shape)
        for j in columns:
            share = leaf_shares_of(self.direct.model.refinements[self.direct.place(j)], self.leaf_counts(j))
            ratio *= (share / np.maximum(share[:, :1], 1e-300))[self.leaves(j)]
        return found.fitted * ratio, found.rows

    def leaves(self, column: int) -> Codes:
        """Return the leaf of each point in a column of the release, (m,)."""
        return self.replicates.leaves[:, self.direct.place(column)]

    def leaf_counts(self, column: int) -> FloatArray:
        """Return the leaf counts that releases of the drawn tables would have estimated, (leaves, 1 + size).

        The first column is the release's own, by which the points were drawn.
        """
        if column not in self._leaf_counts:
            self._leaf_counts[column] = self._counted(self.direct.place(column))
        return self._leaf_counts[column]

    @cached_property
    def _leaf_counts(self) -> dict[int, FloatArray]:
        """A cache of `leaf_counts` by column."""
        return {}

    def _counted(self, column: int) -> FloatArray:
        """Compute `leaf_counts` for a column of the pool: the estimate, then each replicate's with its own noise."""
        refinement, leaves = self._hedged(column), self.direct.leaves(column)
        share = leaf_shares_of(refinement, refinement.weights[:, None])[:, 0]
        law = self.direct.model.distribution.marginal((column,))[refinement.coarse_cell] * share
        counts = np.repeat((law * self.direct.total[0])[:, None], 1 + self.size, axis=1)
        if leaves is None:
            return counts
        places = (self.replicates.leaves[:, column], np.arange(self.points))
        of_leaf: Sparse = sparse.csr_array((np.ones(self.points), places), shape=(len(counts), self.points))
        drawn = of_leaf @ self.replicates.rows
        rng = generator(self.random_state + 2 + 2 * column)
        noise = np.sqrt(leaves.variance)[:, None] * rng.standard_normal((len(counts), self.size))
        counts[:, 1:] = np.maximum(counts[:, 1:] + drawn[:, 1:] - drawn[:, :1] + noise, 0.0)
        return counts

    def _hedged(self, column: int) -> Refinement:
        """Return a column's refinement with expected leaf counts instead of the likeliest.

        So leaves that seem empty but may not be get points, too.
        """
        refinement, leaves = self.direct.model.refinements[column], self.direct.leaves(column)
        if leaves is None:
            return refinement
        stddev = np.sqrt(np.maximum(leaves.variance, 1e-12))
        score = np.maximum(refinement.weights, leaves.counts) / stddev
        density = np.exp(-(score**2) / 2) / math.sqrt(2 * math.pi)
        return replace(refinement, weights=stddev * (density + score * ndtr(score)))

    @property
    def _merged(self) -> list[NoisyTable]:
        """The tables of merged cells that the model was fitted to, over the cells that are kept."""
        return merged_in_domain(self.direct.merged, self.direct.out_of_domain)

    @property
    def _tables(self) -> list[NoisyTable]:
        """The tables that the model was fitted to: one-ways of groups, then the measured ones.

        A model follows estimated rows in single columns, or noisy counts in old releases: whichever is nearer to it is
        taken.
        """
        found = []
        total = max(1.0, self.direct.total[0])
        for column, refinement in enumerate(self.direct.model.refinements):
            first = self.direct.first_level(column)
            leaves = self.direct.leaves(column)
            if first is None or leaves is None:
                continue
            groups = self.direct.model.domain.shape[column]
            noisy, estimated = (
                np.bincount(refinement.coarse_cell, weights=rows, minlength=groups).astype(np.float64)
                for rows in (leaves.counts, refinement.weights)
            )
            estimated *= total / max(float(estimated.sum()), 1e-300)
            model = self.direct.model.distribution.marginal((column,)) * total
            counts = min(estimated, noisy, key=lambda rows: float(np.abs(rows - model).sum()))
            stddev = first[2] * max(1.0, first[0].size / groups) ** 0.5
            found.append(NoisyTable(clique=(column,), counts=counts, stddev=stddev))
        return found + self.direct.fitting


@dataclass(frozen=True, eq=False)
class BootstrapCache:
    """The bootstraps of a release: one of all columns, or for a wide table one per set of columns asked about.

    Parameters
    ----------
    direct
        The release.
    random_state
        Seed of the replicates.
    """

    direct: GLSEstimates
    random_state: int

    def of(self, columns: Iterable[int]) -> Bootstrap:
        """Return a bootstrap whose pool has some columns, reusing an existing one if possible."""
        if len(self.direct.model.domain) <= MOST_TOGETHER:
            return self._whole
        asked = set(columns)
        found = next((one for had, one in reversed(self._kept) if asked <= had), None)
        if found is None:
            from synthdp.answers.error_bars.column_subset import ColumnSubset, nearest_columns

            some = nearest_columns(self.direct, sorted(asked), NEAREST)
            found = Bootstrap(ColumnSubset.of(self.direct, some), self.random_state)
            self._kept.append((frozenset(some), found))
            del self._kept[:-POOLS]
        return found

    @cached_property
    def _whole(self) -> Bootstrap:
        """The bootstrap of the whole model."""
        return Bootstrap(self.direct, self.random_state)

    @cached_property
    def _kept(self) -> list[tuple[frozenset[int], Bootstrap]]:
        """The pools made so far for a wide table, each with its columns."""
        return []


def draw(shares: Sparse, rows: Codes, rng: Generator) -> IntArray:
    """Draw one column for each given row of a sparse (r, k) array of shares; -1 for the remainder of the shares."""
    entries = sparse.csr_array(shares)
    entries.sort_indices()
    counts = np.diff(entries.indptr)
    place = np.repeat(np.arange(len(counts)), counts)
    steps = np.cumsum(np.append(0.0, entries.data))
    inside = steps[1:] - steps[entries.indptr[:-1]][place]
    last = entries.indptr[1:][counts > 0] - 1
    inside[last] = np.where(np.abs(inside[last] - 1) < NEARLY_WHOLE, 1.0, inside[last])
    wanted = rows.astype(np.int64) + rng.random(len(rows))
    found = np.searchsorted(place + np.minimum(inside, 1.0), wanted, side="right")
    drawn = np.append(entries.indices, -1)[found]
    return np.where(found < entries.indptr[1:][rows], drawn, -1).astype(np.int64)


def draw_leaves(refinement: Refinement, cells: Codes, rng: Generator) -> IntArray:
    """Draw a leaf for every coarse cell of a column, (n,), in proportion to the refinement's weights."""
    share = leaf_shares_of(refinement, refinement.weights[:, None])[:, 0]
    used = np.flatnonzero(share)
    shape = (int(refinement.coarse_cell.max()) + 1, len(share))
    return draw(sparse.csr_array((share[used], (refinement.coarse_cell[used], used)), shape=shape), cells, rng)


def leaf_shares_of(refinement: Refinement, weights: FloatArray) -> FloatArray:
    """Return each leaf's share of its coarse cell, (leaves, r), from weights of that shape; even if all are 0."""
    width = np.where(refinement.fine.releasable, refinement.fine.width, 0).astype(np.float64)
    weights = np.where(refinement.fine.releasable[:, None], weights, 0.0)
    cell = refinement.coarse_cell
    into: Sparse = sparse.csr_array((np.ones(len(cell)), (cell, np.arange(len(cell)))))
    weights = np.where((into @ weights)[cell] > 0, weights, width[:, None])
    return np.asarray(weights / np.maximum(into @ weights, 1e-300)[cell])


def group_shares(grouping: QuestionBinning, leaf_counts: FloatArray) -> FloatArray:
    """Return `QuestionBinning.cell_share` for each column of leaf counts, (r, cells, powers * groups)."""
    refinement = grouping.refinement
    share, entries = leaf_shares_of(refinement, leaf_counts), sparse.coo_array(grouping.leaf_powers)
    cells, groups = int(refinement.coarse_cell.max()) + 1, grouping.leaf_powers.shape[1]
    leaf, group = entries.coords
    places = (refinement.coarse_cell[leaf] * groups + group, leaf)
    into: Sparse = sparse.csr_array((entries.data, places), shape=(cells * groups, len(share)))
    return np.ascontiguousarray((into @ share).T).reshape(-1, cells, groups)


def root_mean_square(errors: Sequence[FloatArray], size: int) -> FloatArray:
    """Return the root mean square of errors, (size,), over the known ones (not NaN); NaN where none is."""
    squares = np.square(np.reshape(errors, (-1, size)))
    known = ~np.isnan(squares)
    sums = np.where(known, squares, 0.0).sum(axis=0)
    return np.asarray(np.sqrt(np.divide(sums, known.sum(axis=0), out=np.full(size, np.nan), where=known.any(axis=0))))


CORRELATION_STDDEV = 0.3
"""Standard deviation assumed for an unmeasured correlation, as a fraction of the largest that the pair's screened L1
distance allows.  Tuned on Males and DoctorAUS (docs/benchmarks/answers.md).
"""


def unmeasured_correlation_errors(bootstrap: Bootstrap, columns: Sequence[int]) -> FloatArray:
    """Return the standard errors of correlations that were not measured, (k, k); 0 for measured pairs.

    A table that differs from the model's by rho z w times the product of its margins, with z and w the standardised
    values of two columns, has a correlation that differs by rho and an L1 distance of rho E|z| E|w|. Of the distance
    that the screening leaves a pair, the correlation may thus be off by as much as the distance over E|z| E|w|, and by
    1.
    """
    direct, found = bootstrap.direct, np.zeros((len(columns), len(columns)))
    places = [direct.place(column) for column in columns]
    sizes = [mean_size(direct.model, j) for j in places]
    for x, y in itertools.combinations(range(len(columns)), 2):
        if places[x] != places[y] and not direct.has((places[x], places[y])):
            most = bootstrap.misfit.strengths[places[x], places[y]] / max(sizes[x] * sizes[y], 1e-12)
            found[x, y] = found[y, x] = CORRELATION_STDDEV * min(1.0, most)
    return found


def mean_size(model: SyntheticModel, column: int) -> float:
    """Return the mean absolute standardised value of a column under the model: at most 1, less with outliers.

    It converts an L1 distance to the largest correlation it allows.
    """
    points = model.refinements[column].fine.points
    mass = np.where(np.isnan(points), 0.0, leaf_mass(model, column))
    mass = mass / max(float(mass.sum()), 1e-300)
    values = np.nan_to_num(points)
    values = values - mass @ values
    return float(mass @ np.abs(values)) / max(float(np.sqrt(mass @ values**2)), 1e-300)
