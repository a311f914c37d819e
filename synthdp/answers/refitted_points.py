"""Fits to the noisy answers of many drawn tables at once, each as weights of one pool of points.

The steps are those of `fit`: noisy tables are made consistent, then weights are raked to them in turn.
Consistency is linear, so the noise of consistent tables is drawn directly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from synthdp.answers.grouping import numbered
from synthdp.arrays import AnyArray, Clique, Codes, FloatArray, IntArray, Sparse
from synthdp.fit.consistency import (
    gls_effects,
    make_consistent,
    make_merged_consistent,
)
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.fit.moment_matching import LONGEST, NoisyProducts
from synthdp.parallel import in_order
from synthdp.queries.contingency import NoisyTable, Shape, cell_index, subsets_of, table_shape
from synthdp.randomness import Generator

SWEEPS = 4
"""Number of passes over all tables when a bootstrap replicate is fitted.  A numerical tolerance: half and twice of it
change widths of intervals by -.5 and +.3 % (docs/benchmarks/constants.md)."""

TOGETHER = 12
"""Number of replicates that one thread fits at once.  A safety limit of memory."""

NEWTON_STEPS = 4
"""Number of Newton steps for one cell's equation; started from above, each step squares the error.  A numerical
tolerance."""

LEAST_RIDGE = 0.01
"""Smallest ridge of mean products, as a multiple of the products' variance, and smallest such variance, because the fit
is stopped early.  A numerical tolerance."""

_TINY = 1e-30
"""Smallest weight of a point, so that no logarithm or division fails.  A numerical tolerance."""


@dataclass(frozen=True, slots=True, eq=False)
class _Raked:
    """Holds one table in the fits of all replicates: each point's cell, the targets and the potentials.

    Arrays are in single precision, because an error bar needs few digits and half the bytes take half the time.
    """

    place: IntArray
    sums: Sparse
    target: AnyArray  # in multiples of the ridge
    potential: AnyArray
    ridge: float
    alone: Shape | None = None  # sizes of the axes if only an interaction is to be reached; targets then have all cells

    def of(self, some: slice) -> _Raked:
        """Return this table for some replicates only, which one thread fits; its potentials are a copy."""
        target, potential = (np.ascontiguousarray(part[:, some]) for part in (self.target, self.potential))
        return replace(self, target=target, potential=potential)


@dataclass(frozen=True, slots=True, eq=False)
class MomentTargets:
    """Holds the mean products that the fits of all replicates must reach, in single precision.

    Parameters
    ----------
    products
        (m, k) clipped products of the points.
    target
        (k, r) noisy means of each drawn table.
    coefficients
        (k, r) coefficients of the exponential tilt of each fit's weights, changed in place.
    ridge
        (k, 1) ridge of the coefficients.
    slope
        (k, k) derivative of the means by the coefficients in the released model, plus the ridge.
    """

    products: AnyArray
    target: AnyArray
    coefficients: AnyArray
    ridge: AnyArray
    slope: FloatArray

    @classmethod
    def of(
        cls, questions: Sequence[NoisyProducts], codes: Codes, rows: FloatArray, rng: Generator
    ) -> MomentTargets | None:
        """Return the noisy mean products that the replicates' fits must reach, with ridges and first coefficients.

        ``codes``, (m, d), are the points, and ``rows``, (m, r), their weights in each drawn table.  None if the
        released fit did not use the products.

        The ridge of a query is c times the variance of its products, with c the ratio of noise variance to signal
        variance.  A fit with this ridge leaves the part c / (1 + c) of the gap between noisy means and the means
        without the tilt.  So c is estimated as g / (s - g), from the mean square g of the remaining gaps and the noise
        variance s.
        """
        kept, gaps, ridges, noise = [], [], [], []
        for noisy in questions:
            products = noisy.of_codes(codes).of_rows(slice(None))
            gap, variance = noisy.means - products.mean(axis=0, dtype=np.float64), noisy.stddev**2
            left_over = float((gap**2).mean())
            if left_over < variance:
                kept.append(products)
                gaps.append(gap)
                ridge = max(left_over / (variance - left_over), LEAST_RIDGE)
                ridges.append(ridge * np.maximum(products.var(axis=0, dtype=np.float64), LEAST_RIDGE))
                noise.append(noisy.stddev * rng.standard_normal((len(gap), rows.shape[1])))
        if not kept:
            return None
        together, every = np.concatenate(kept, axis=1), np.concatenate(ridges)
        centred = together - together.mean(axis=0, dtype=np.float64).astype(np.float32)
        slope = centred.T @ centred / len(codes) + np.diag(every)
        means = together.T @ (rows / rows.sum(axis=0)).astype(np.float32)
        start = np.repeat((np.concatenate(gaps) / every)[:, None], rows.shape[1], axis=1)
        return cls(
            together, (means + np.concatenate(noise)).astype(np.float32), start.astype(np.float32),
            every.astype(np.float32)[:, None], slope,
        )  # fmt: skip

    def of_some(self, some: slice) -> MomentTargets:
        """Return the targets for some replicates, which one thread fits; the coefficients are a copy."""
        return replace(self, target=self.target[:, some], coefficients=self.coefficients[:, some].copy())

    def factors(self, share: AnyArray) -> AnyArray:
        """Return the factors of the weights, (m, r), after one Newton step of the coefficients, in place.

        ``share`` are the current weights, (m, r), each column with sum 1.
        """
        gap = self.target - self.products.T @ share - self.ridge * self.coefficients
        change = np.linalg.solve(self.slope, gap).astype(np.float32)
        exponent = self.products @ change
        shorter = LONGEST / np.maximum(np.abs(exponent).max(axis=0), LONGEST)
        self.coefficients[...] += shorter * change
        return np.asarray(np.exp(shorter * exponent))


def refitted(
    tables: Sequence[NoisyTable],
    shape: Shape,
    codes: Codes,
    rows: FloatArray,
    *,
    weight: float,
    total_stddev: float,
    rng: Generator,
    merged: Sequence[NoisyTable] = (),
    products: MomentTargets | None = None,
) -> FloatArray:
    """Return weights of the points, (m, r), fitted to new noisy answers of each drawn table, as in a release.

    Parameters
    ----------
    tables
        The released noisy tables, and effects measured alone; each replicate gets new noise.
    shape
        Number of codes of each column.
    codes
        (m, d) codes of the points.
    rows
        (m, r) weight of each point in each drawn table, in rows; all columns have the same sum.
    weight
        Weight of each point in the released model, in rows.
    total_stddev
        Stddev of the error of the number of rows.
    rng
        Source of the noise.
    merged
        Released noisy tables of merged codes; each replicate gets new noise.
    products
        Mean products that the fits must reach in addition to the tables.
    """
    count = rows.shape[1]
    total = weight * len(codes)
    totals = np.maximum(total + total_stddev * rng.standard_normal(count), 1.0)
    pooled = gls_effects(tables, shape, total=total)
    noise = {part: _centred(_white(rng, (*table_shape(shape, part), count), precision**-0.5))
             for part, precision in pooled.precisions.items()}  # fmt: skip
    raked = []
    agreed = make_consistent(tables, shape, total=total)
    for table in (*agreed, *make_merged_consistent(merged, pooled)):
        key = cell_index(codes, shape, table.clique).astype(np.int64)
        key = key if table.merged_cells is None else table.merged_cells[key]
        place, first = numbered(key)
        cells = key[first]
        sums = sums_of(place, len(cells))
        ridge = MaxEntropy().ridge_of(table)
        if table.alone:
            raked.append(_raked_alone(table, key, shape, rows, weight, ridge, rng))
            continue
        size, of_table = table.counts.size, noise
        if table.groups is not None:
            of_table = _merged_noise(table, noise, _white(rng, (*table.shape(shape), count), table.stddev))
        target = sums @ rows + (totals - total) / size + _noise_at(cells, table, shape, of_table)
        rest = (table.counts[cells] - np.bincount(place) * weight) / ridge
        potential = np.repeat(rest[:, None], count, axis=1).astype(np.float32)
        raked.append(_Raked(place, sums, (target / ridge).astype(np.float32), potential, ridge))
    blocks = [slice(begin, begin + TOGETHER) for begin in range(0, count, TOGETHER)]

    def fit(some: slice) -> AnyArray:
        matched = None if products is None else products.of_some(some)
        return _fit([one.of(some) for one in raked], weight / total * totals[some], matched)

    found = in_order(fit, blocks)
    return np.concatenate(list(found), axis=1, dtype=np.float64)


def _raked_alone(
    table: NoisyTable, place: IntArray, shape: Shape, rows: FloatArray, weight: float, ridge: float, rng: Generator
) -> _Raked:
    """Return the targets and potentials of a table whose interaction alone was measured, with noise for each replicate.

    The fits then reach the interaction and leave the margins where they are.  ``place`` is each point's cell, (m,), and
    ``rows`` the drawn rows of each point in each replicate, (m, r).  All points have the same ``weight`` in the model.
    ``ridge`` is the ridge of the potentials, in rows.
    """
    axes, count = table.shape(shape), rows.shape[1]
    sums = sums_of(place, table.counts.size)
    drawn = (sums @ rows).reshape(*axes, count)
    target = _centred(drawn + _white(rng, drawn.shape, table.stddev))
    modelled = _centred((np.bincount(place, minlength=table.counts.size) * weight).reshape(*axes, 1)).ravel()
    potential = np.repeat(((table.counts - modelled) / ridge)[:, None], count, axis=1).astype(np.float32)
    return _Raked(place, sums, (target / ridge).reshape(-1, count).astype(np.float32), potential, ridge, axes)


def _fit(raked: Sequence[_Raked], weight: FloatArray, products: MomentTargets | None) -> AnyArray:
    """Return the points' weights, (m, r), raked to all tables from equal weights, (r,) one per replicate."""
    count, totals = len(raked[0].place), weight * len(raked[0].place)
    weights = np.tile(weight.astype(np.float32), (count, 1))
    for _ in range(SWEEPS):
        if products is not None:
            weights *= products.factors(weights / weights.sum(axis=0))
        for one in reversed(raked):
            weights *= _factors(one, one.sums @ weights).take(one.place, axis=0)
        # A table whose noise leaves no rows in any cell takes every weight to 0, and nothing would bring them back.
        np.maximum(weights, _TINY, out=weights)
        weights *= (totals / weights.sum(axis=0)).astype(np.float32)
    return weights


def _factors(table: _Raked, expected: AnyArray) -> AnyArray:
    """Return the factors of a table's cells, (cells, r), after a step of its potentials in place: `proportional_step`.

    Weights of the points are multiplied by the factors. Factors are up to a common scale, which the caller normalises.
    """
    offset = np.log(np.maximum(expected, _TINY) / table.ridge)
    target = table.target
    if table.alone is not None:  # its margins are to stay where they are
        interaction = _centred(expected.reshape(*table.alone, -1).copy()).reshape(expected.shape)
        target = target + (expected - interaction) / np.float32(table.ridge)
    z = target - table.potential + offset
    change = root_of(z) - offset
    table.potential[...] += change
    return np.asarray(np.exp(change))


def root_of(z: AnyArray) -> AnyArray:
    """Return the root u of exp(u) + u = z for each number, by `NEWTON_STEPS` of Newton's method from above the root."""
    u = np.where(z < 1, z, np.log(np.maximum(z, 1)))
    for _ in range(NEWTON_STEPS):
        power = np.exp(u)
        u -= (power + u - z) / (1 + power)
    return u


def _noise_at(cells: IntArray, table: NoisyTable, shape: Shape, noise: Mapping[Clique, AnyArray]) -> FloatArray:
    """Return the noise, in rows, of some cells of a consistent table in each of r replicates, (cells, r).

    It is the sum of the noise of the table's effects, each spread evenly over the cells of its margin.
    """
    clique, sizes = table.clique, table.shape(shape)
    codes = np.unravel_index(cells, sizes)
    found = np.zeros(())
    for part in subsets_of(clique):
        if part in noise:
            axes = [clique.index(j) for j in part]
            spread = math.prod(sizes[axis] for axis in axes) / math.prod(sizes)
            found = found + spread * noise[part][tuple(codes[axis] for axis in axes)]
    return np.asarray(found, np.float64)


def _merged_noise(table: NoisyTable, noise: Mapping[Clique, AnyArray], white: AnyArray) -> dict[Clique, AnyArray]:
    """Return the noise of a merged table's effects, by part of its clique: an axis for each column, then r replicates.

    For single columns it comes from the tables of all codes, from which the merged table takes its margins.  Other
    effects have the merged table's own noise, ``white``.
    """
    found = {}
    for part in subsets_of(table.clique):
        axes = tuple(table.clique.index(j) for j in part)
        others = tuple(axis for axis in range(len(table.clique)) if axis not in axes)
        found[part] = _centred(white.sum(axis=others) if others else white.copy())
        if len(part) == 1 and part in noise and table.groups is not None:
            groups = table.groups[axes[0]]
            found[part] = np.zeros((int(groups.max()) + 1, white.shape[-1]))
            np.add.at(found[part], groups, noise[part])
    return found


def sums_of(place: IntArray, size: int) -> Sparse:
    """Return the sparse matrix, (size, values), that sums values by their place: points' weights to a table's cells."""
    entries = (np.ones(len(place), np.float32), place, np.arange(len(place) + 1))
    return sparse.csc_array(entries, shape=(size, len(place)))


def _white(rng: Generator, shape: tuple[int, ...], stddev: float) -> AnyArray:
    """Return independent normal noise of a given shape and stddev, in single precision to save time."""
    found = rng.standard_normal(shape, np.float32)
    found *= np.float32(stddev)
    return found


def _centred(values: AnyArray) -> AnyArray:
    """Return values, changed in place, without the means along every axis except the last: an interaction alone.

    The last axis holds the replicates.  The margins, which other tables determine, are then 0.
    """
    for axis in range(values.ndim - 1):
        values -= values.mean(axis=axis, keepdims=True)
    return values
