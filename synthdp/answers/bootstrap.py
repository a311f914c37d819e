"""Errors of a model's answers by the parametric bootstrap.

Tables are drawn from the model, measured with new noise, and fitted again.

Everything is post-processing, a function of released data.  The error includes the noise, the shrinkage of the fit, the
chance in a finite table, and unmeasured relations of the strength that `Misspecification` assumes.

All replicates share one pool of points drawn from the model.  A replicate's table and its fit are two columns of
weights of these points.  So all replicates are computed together, and a table of groups needs one pass over the
points.
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

from synthdp.answers.answers import STUDENT
from synthdp.answers.direct import GLSEstimates
from synthdp.answers.grouping import QuestionBinning
from synthdp.answers.misspecification import UNMEASURED, Misspecification
from synthdp.answers.refitted_points import MomentTargets, refitted
from synthdp.answers.unmeasured_relations import leaf_mass
from synthdp.arrays import Codes, FloatArray, IntArray, Sparse
from synthdp.domain.refinement import Refinement
from synthdp.fit.consistency import gls_total
from synthdp.fit.out_of_domain import OutOfDomain, merged_in_domain
from synthdp.queries.contingency import NoisyTable, cell_index, table_shape
from synthdp.randomness import Generator, generator
from synthdp.sampling.synthetic_model import SyntheticModel

REPLICATES = 24
"""Number of bootstrap tables; a standard error then has a relative error of about 14 %, 1 / sqrt(2 * 24).  More tables
lower this error by their square root only, in proportional time and memory.  A safety limit of time."""

POINTS, FEWEST_POINTS = 12_000, 5_000
"""Most (POINTS) and fewest points in a pool that all replicates share; rarer combinations of values do not occur in the
pool.  Safety limits of time and memory: half and twice of `POINTS` change widths of intervals by +.8 and 0 %
(docs/benchmarks/constants.md)."""

MOST_CODES = 150_000
"""Most points times columns: wide tables have fewer points, but at least `FEWEST_POINTS`, so that a first answer takes
about a second.  A safety limit."""

NEARLY_WHOLE = 1e-9
"""Largest gap between the sum of a row's shares in `draw` and 1 that counts as rounding error.  A larger gap is the
chance that no column is drawn.  A numerical tolerance."""


@dataclass(frozen=True, slots=True, eq=False)
class Replicates:
    """Holds tables drawn from a model and the fits to their noisy answers, as weights of one pool of points.

    Parameters
    ----------
    codes, leaves
        (m, d) coarse bins and fine bins of the points.
    rows
        (m, 1 + size) weight of each point, in rows: in the model, then in each drawn table with the effects that no fit
        can recover.
    drawn
        (m, size) weight of each point in each drawn table without these effects, as the fits use them.
    fitted
        (m, 1 + size) weight of each point in the model, then in the fit to each table.
    """

    codes: Codes
    leaves: Codes
    rows: FloatArray
    drawn: FloatArray
    fitted: FloatArray


MOST_TOGETHER = 64
"""Most columns for which one pool serves all questions.  A safety limit of memory."""

NEAREST = 30
"""Columns in the pool of a question about more columns than `MOST_TOGETHER`: its own and related columns.  More show more
of a refit's errors but leave fewer points.  A safety limit of time: half and twice of it change no interval of a table of
150 columns (docs/benchmarks/constants.md)."""

POOLS = 4
"""Number of cached pools for a wide table, so that further questions about the same columns are fast.  A safety limit
of memory."""


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Parametric bootstrap of a release: tables drawn from its model and fitted again, to estimate errors.

    Parameters
    ----------
    direct
        The release's model and noisy tables.
    random_state
        Seed of the replicates; equal seeds give equal errors.
    size
        Number of replicates.
    points
        Number of points in the pool; default: `POINTS`, or fewer for many columns.
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
        """Return the random relations that stand for relations which the release did not measure."""
        return Misspecification.of(self.direct)

    @cached_property
    def replicates(self) -> Replicates:
        """Return the drawn tables and their fits, as weights of one pool of points; computed once."""
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
        """Yield 1 + size pairs (fitted, drawn) of tables of groups, in rows; the differences are errors of a release.

        A table has an axis for each grouping, of its groups.  With powers of values an axis has three times as many
        entries: rows, sums of values, and sums of squares.

        The first pair is the released model itself: its distribution, and its pool of points.  Their difference is the
        error of the pool.  All pairs contain it, so callers subtract it.
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
        """Return each point's cells in a table of groups, and what a row there adds to them: two lists of (m,) arrays.

        Both lists have one entry for each combination of powers of values.  A row adds 1 to its cell of rows, its value
        or its square to the others, and 0 if it is in no group.
        """
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
        """Yield 1 + size pairs (fitted, drawn) of means of functions, (q,) each, from values at the points, (m, q).

        Their differences are errors of a release.  The first pair is the released model itself, as in `tables`.
        """
        sums = [(w.T @ values) / np.maximum(w.sum(axis=0), 1e-300)[:, None] for w in self.weights(columns)]
        return zip(*sums, strict=True)

    def weights(self, columns: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Return the weight of each point in rows, in every fit and in every drawn table, (m, 1 + size) each.

        The weights of fits are divided among the fine bins of ``columns`` by the fine-bin counts of each replicate.
        """
        found = self.replicates
        ratio = np.ones(found.rows.shape)
        for j in columns:
            share = leaf_shares_of(self.direct.model.refinements[self.direct.place(j)], self.leaf_counts(j))
            ratio *= (share / np.maximum(share[:, :1], 1e-300))[self.leaves(j)]
        return found.fitted * ratio, found.rows

    def leaves(self, column: int) -> Codes:
        """Return the fine bin of each point in a column of the release, (m,)."""
        return self.replicates.leaves[:, self.direct.place(column)]

    def leaf_counts(self, column: int) -> FloatArray:
        """Return the fine-bin counts, in rows, that releases of the drawn tables would estimate, (fine bins, 1 + size).

        The first column is the release's own estimate, by which the points were drawn.
        """
        if column not in self._leaf_counts:
            self._leaf_counts[column] = self._counted(self.direct.place(column))
        return self._leaf_counts[column]

    @cached_property
    def _leaf_counts(self) -> dict[int, FloatArray]:
        """Return the cache of `leaf_counts`: by column, the (fine bins, 1 + size) counts in rows."""
        return {}

    def _counted(self, column: int) -> FloatArray:
        """Return the fine-bin counts, in rows, of the column at this position of the pool, (fine bins, 1 + size).

        The first column is the release's estimate. Each further one adds a replicate's sampling error and noise to it.
        """
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
        """Return a column's refinement with fine-bin weights E[max(N, 0)], with N normal around the noisy count.

        These weights are positive even for a noisy count of 0 or less, so fine bins that may have rows get points
        too.
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
        """Return the noisy tables of merged bins that the model was fitted to, over releasable bins, for the refits."""
        return merged_in_domain(self.direct.merged, self.direct.out_of_domain)

    @property
    def _tables(self) -> list[NoisyTable]:
        """Return the tables that the model was fitted to: one-way marginals of coarse bins, then the measured tables.

        Models follow either smoothed one-way counts or, in old releases, noisy counts; the counts closer to the model
        are used.  Columns without a histogram have no one-way table here.
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
    """Creates and caches the bootstraps of a release: one for all columns, or several for a wide table.

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
        """Return a bootstrap whose pool contains the given columns, from the cache if possible, as it takes time.

        ``columns`` are positions in the release.  The pool of a wide table has only these and related columns.
        """
        if len(self.direct.model.domain) <= MOST_TOGETHER:
            return self._whole
        asked = set(columns)
        found = next((one for had, one in reversed(self._kept) if asked <= had), None)
        if found is None:
            from synthdp.answers.column_subset import ColumnSubset, nearest_columns

            some = nearest_columns(self.direct, sorted(asked), NEAREST)
            found = Bootstrap(ColumnSubset.of(self.direct, some), self.random_state)
            self._kept.append((frozenset(some), found))
            del self._kept[:-POOLS]
        return found

    @cached_property
    def _whole(self) -> Bootstrap:
        """Return the bootstrap of the whole model, drawn at the first question that needs it."""
        return Bootstrap(self.direct, self.random_state)

    @cached_property
    def _kept(self) -> list[tuple[frozenset[int], Bootstrap]]:
        """Return the cached bootstraps of a wide table, the last `POOLS` of them, each with the set of its columns."""
        return []


def draw(shares: Sparse, rows: Codes, rng: Generator) -> IntArray:
    """Draw one column of a sparse (r, k) array for each given row number, (n,), with the row's shares as probabilities.

    The draw is -1, no column, with the probability by which the row's sum is below 1.  Points of a bootstrap get their
    fine bins inside coarse bins in this way, and their groups inside fine bins.
    """
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
    """Draw a fine bin inside each row's coarse bin, (n,), by the refinement's weights: a model has coarse bins only."""
    share = leaf_shares_of(refinement, refinement.weights[:, None])[:, 0]
    used = np.flatnonzero(share)
    shape = (int(refinement.coarse_cell.max()) + 1, len(share))
    return draw(sparse.csr_array((share[used], (refinement.coarse_cell[used], used)), shape=shape), cells, rng)


def leaf_shares_of(refinement: Refinement, weights: FloatArray) -> FloatArray:
    """Return each fine bin's share of its coarse bin, (fine bins, r), from weights of that shape.

    If all weights of a coarse bin are 0, shares are in proportion to the number of grid points.
    """
    width = np.where(refinement.fine.releasable, refinement.fine.width, 0).astype(np.float64)
    weights = np.where(refinement.fine.releasable[:, None], weights, 0.0)
    cell = refinement.coarse_cell
    into: Sparse = sparse.csr_array((np.ones(len(cell)), (cell, np.arange(len(cell)))))
    weights = np.where((into @ weights)[cell] > 0, weights, width[:, None])
    return np.asarray(weights / np.maximum(into @ weights, 1e-300)[cell])


def group_shares(grouping: QuestionBinning, leaf_counts: FloatArray) -> FloatArray:
    """Return what fraction of each coarse bin lies in each group, (r, coarse bins, powers * groups), for r replicates.

    Fractions follow the columns of fine-bin counts, (fine bins, r), so each replicate divides its coarse bins by its own
    counts.  If the question sums numbers, means of values and of squares within the group follow, as more powers.
    """
    refinement = grouping.refinement
    share, entries = leaf_shares_of(refinement, leaf_counts), sparse.coo_array(grouping.leaf_powers)
    cells, groups = int(refinement.coarse_cell.max()) + 1, grouping.leaf_powers.shape[1]
    leaf, group = entries.coords
    places = (refinement.coarse_cell[leaf] * groups + group, leaf)
    into: Sparse = sparse.csr_array((entries.data, places), shape=(cells * groups, len(share)))
    return np.ascontiguousarray((into @ share).T).reshape(-1, cells, groups)


def root_mean_square(errors: Sequence[FloatArray], size: int) -> FloatArray:
    """Return the root mean square of errors over replicates, (size,), the bootstrap's standard errors.

    NaN are left out; it is NaN if all are.
    """
    squares = np.square(np.reshape(errors, (-1, size)))
    known = ~np.isnan(squares)
    sums = np.where(known, squares, 0.0).sum(axis=0)
    return np.asarray(np.sqrt(np.divide(sums, known.sum(axis=0), out=np.full(size, np.nan), where=known.any(axis=0))))


CORRELATION_STDDEV = UNMEASURED / math.sqrt(3)
"""Assumed stddev of an unmeasured correlation, as a fraction of the largest that the pair's screened L1 distance allows.
Derived: the correlation is assumed to be evenly distributed, up to the strength `UNMEASURED`, in either direction."""


def unmeasured_correlation_errors(bootstrap: Bootstrap, columns: Sequence[int]) -> FloatArray:
    """Return the standard errors of correlations that were not measured, (k, k); 0 for measured pairs.

    Let z and w be the standardised values of two columns.  Suppose that a table differs from the model's by rho z w
    times the product of its margins.  Then its correlation differs by rho, and its L1 distance is rho E|z| E|w|. So the
    screened distance, divided by E|z| E|w|, bounds the error of the correlation; the bound is at most 1.  The standard
    error is the fraction `CORRELATION_STDDEV` of the bound.  Where nothing was measured of any relation, a correlation
    may be anything from -1 to 1.
    """
    direct, found = bootstrap.direct, np.zeros((len(columns), len(columns)))
    places = [direct.place(column) for column in columns]
    sizes = [mean_size(direct.model, j) for j in places]
    for x, y in itertools.combinations(range(len(columns)), 2):
        if places[x] != places[y] and not direct.has((places[x], places[y])):
            most = bootstrap.misfit.strengths[places[x], places[y]] / max(sizes[x] * sizes[y], 1e-12)
            told = CORRELATION_STDDEV * min(1.0, most)
            found[x, y] = found[y, x] = told if direct.tells_relations else 1 / STUDENT
    return found


def mean_size(model: SyntheticModel, column: int) -> float:
    """Return the mean absolute standardised value of a column under the model: at most 1, smaller with outliers.

    The value converts an L1 distance to the largest correlation that the distance allows.  It is 0 for a column with a
    single value.
    """
    points = model.refinements[column].fine.points
    mass = np.where(np.isnan(points), 0.0, leaf_mass(model, column))
    mass = mass / max(float(mass.sum()), 1e-300)
    values = np.nan_to_num(points)
    values = values - mass @ values
    return float(mass @ np.abs(values)) / max(float(np.sqrt(mass @ values**2)), 1e-300)
