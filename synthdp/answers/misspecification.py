"""Random relations of plausible strength, which stand for relations that a release did not measure.

The bootstrap's tables are drawn from the model with such relations added.  The fit to a table recovers measured
relations, and the others remain as error.  The strengths come from the release's own screening; no private row is
used.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtri

from synthdp.answers.direct import GLSEstimates
from synthdp.answers.refitted_points import sums_of
from synthdp.answers.unmeasured_relations import RANK, RandomFunctions
from synthdp.arrays import AnyArray, BoolArray, Clique, Codes, FloatArray, IntArray
from synthdp.distribution.components import Components
from synthdp.distribution.explicit import Explicit
from synthdp.domain.axis import Axis
from synthdp.measurements import beyond_noise
from synthdp.randomness import Generator, generator
from synthdp.sampling.synthetic_model import SyntheticModel

EXPONENTS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)
"""Candidate exponents by which a measured relation may be stronger than in the model.  Each cell's ratio to independence
is raised to 1 plus the exponent.  Relations between two of them are interpolated.  A numerical tolerance: half and twice
of them change widths of intervals by -.4 and +.5 % (docs/benchmarks/constants.md)."""

SWEEPS = 6
"""Iterations of proportional fitting that restore the margins of a strengthened table, see `EXPONENTS`.  A numerical
tolerance."""

SLIGHT = 0.005
"""Smallest excess of a noisy table's distance from independence over the model's, as a fraction of the model's distance,
at which a pair is corrected.  A tolerance: a smaller excess changes no answer that can be seen; half and twice of it
change widths of intervals by 0 and +.6 % (docs/benchmarks/constants.md)."""


@dataclass(frozen=True, slots=True, eq=False)
class AttenuationCorrection:
    """Holds tables of a pair with a stronger relation than in the model, and their agreement with noisy counts.

    Fits weaken relations (attenuation), and the error bars must include this.

    Parameters
    ----------
    changes
        (k, bins of the first column, of the second) relative changes of the model's cells; the first table is
        unchanged.
    lacking
        (k,) excess of the noisy table over each table, along its difference from independence, in stddevs of noise;
        decreasing.
    """

    changes: FloatArray
    lacking: FloatArray

    @classmethod
    def of(cls, fitted: FloatArray, noisy: FloatArray, stddev: float) -> AttenuationCorrection | None:
        """Return tables of a pair with ever stronger relations, and how far the noisy table exceeds each of them.

        ``fitted`` and ``noisy`` are in rows, (bins of each column).  None if the noisy table shows no stronger relation
        than the fitted one.  Let A be the table of independent columns and t the ratio of the fitted table to A. The
        tables are A t^(1 + e) for each e of `EXPONENTS`, raked to the fitted margins.  A noisy table exceeds a table T by
        <noisy - T, T - A> / (stddev |T - A|) stddevs of noise, the field ``lacking``.
        """
        rows, columns = fitted.sum(axis=1), fitted.sum(axis=0)
        alone = np.outer(rows, columns) / max(float(fitted.sum()), 1e-300)
        ratio = np.divide(fitted, alone, out=np.zeros(fitted.shape), where=alone > 0)
        changes, lacking = [], []
        for exponent in EXPONENTS:
            table = fitted * ratio**exponent
            for _ in range(SWEEPS if exponent else 0):
                table *= _parts(rows, table.sum(axis=1))[:, None]
                table *= _parts(columns, table.sum(axis=0))
            apart = table - alone
            size = float(np.sqrt((apart**2).sum()))
            if size == 0:
                return None
            lacking.append(float(((noisy - table) * apart).sum()) / (stddev * size))
            changes.append(np.divide(table, fitted, out=np.ones(fitted.shape), where=fitted > 0) - 1)
            if not changes[1:] and (lacking[0] < -2 or lacking[0] * stddev < SLIGHT * size):
                return None
        return cls(np.stack(changes), np.minimum.accumulate(lacking))

    def change(self, deviation: float) -> FloatArray:
        """Return the relative change of the model's cells, (bins of each column), that makes the relation stronger.

        The noisy table exceeds the changed table by ``deviation`` stddevs of noise, a normal draw of each replicate.
        The change is interpolated between the tables of this object, and is at most the last table's.
        """
        at = float(np.interp(-deviation, -self.lacking, np.arange(len(self.lacking))))
        low = min(int(at), len(self.lacking) - 2)
        return np.asarray(self.changes[low] + (at - low) * (self.changes[low + 1] - self.changes[low]))


def _parts(wanted: FloatArray, found: FloatArray) -> FloatArray:
    """Return wanted / found cell by cell, the factors of a step of proportional fitting; 0 where found is 0."""
    return np.divide(wanted, found, out=np.zeros(wanted.shape), where=found > 0)


PREDICTORS = 8
"""Number of columns that predict another column: the columns that explain most of its variance.  A safety limit of time:
fewer understate the relations inside bins; half and twice of it change widths of intervals by -1.4 and -.8 %
(docs/benchmarks/constants.md)."""

RIDGE = 1e-3
"""Ridge of the regressions in `within_bin_tilts`, as a fraction of the summed squares of the predictors.  A numerical
tolerance: it hardly shrinks coefficients, and keeps regressions on nearly collinear predictors solvable."""


def within_bin_tilts(model: SyntheticModel, leaves: Codes) -> FloatArray:
    """Return relative changes of row weights, (m, k), as if relations continued inside each column's bins.

    Let x be an ordered column's normal scores by rank. It is predicted by least squares from the means of x in the bins
    of each of a few other columns. Let p be the prediction, s^2 the variance of x - p, and bars means over the rows of
    one bin of x. If x given p were normal, its density in the bin would change by the factor exp((x - x_bar) (p -
    p_bar) / s^2). The result is that exponent, clipped to [-1, 1].

    Parameters
    ----------
    model
        The model.
    leaves
        (m, d) fine bins of rows drawn from the model.

    Returns
    -------
    (m, k) float32 changes, for each of k ordered columns whose values vary inside bins.
    """
    cells = np.stack([r.coarse_cell[leaves[:, j]] for j, r in enumerate(model.refinements)])
    sizes = model.domain.shape
    ordered = [j for j, r in enumerate(model.refinements) if not r.fine.column.labelled]
    found = []
    for j in ordered:
        values, inside = _normal_scores(model.refinements[j].fine, leaves[:, j])
        x, there = values[leaves[:, j]], inside[leaves[:, j]]
        x = x - x[there].mean() if there.any() else x
        own = _means(cells[j], sizes[j], x)
        gap = np.where(there, x - own[cells[j]], 0.0)
        if not (gap @ gap > 1e-9 * (x @ x)):
            continue
        means = [np.zeros(0) if i == j else _means(cells[i][there], sizes[i], x[there]) for i in range(len(sizes))]
        explained = [0.0 if i == j else float((m[cells[i]] ** 2).mean()) for i, m in enumerate(means)]
        chosen = np.argsort(-np.array(explained), kind="stable")[: min(PREDICTORS, len(sizes) - 1)]
        if not len(chosen):
            continue
        features = np.stack([means[i][cells[i]] for i in chosen])
        gram = features @ features.T
        ridge = RIDGE * (float(np.trace(gram)) + 1e-300) * np.eye(len(gram))
        weights = np.linalg.solve(gram + ridge, features @ np.where(there, x, 0.0))
        prediction = weights @ features
        rest = float(((x - prediction)[there] ** 2).mean())
        beyond = prediction - _means(cells[j], sizes[j], prediction)[cells[j]]
        found.append(np.clip(gap * beyond / max(rest, 1e-300), -1.0, 1.0))
    return np.stack(found, axis=1).astype(np.float32) if found else np.zeros((len(leaves), 0), np.float32)


def _normal_scores(axis: Axis, leaves: Codes) -> tuple[FloatArray, BoolArray]:
    """Return each fine bin's normal score by rank, and whether it holds numbers, (fine bins,) each.

    `within_bin_tilts` takes columns as normal, which scores are whatever the numbers are.  Bins without numbers have 0.
    """
    there = ~np.isnan(axis.points)
    order = np.argsort(np.where(there, axis.points, np.inf), kind="stable")[: int(there.sum())]
    counts = np.bincount(leaves, minlength=axis.size)[order] + 0.0
    below = np.cumsum(counts) - counts / 2
    scores = np.zeros(axis.size)
    scores[order] = ndtri(np.clip(below / max(float(counts.sum()), 1.0), 0.5 / len(leaves), 1 - 0.5 / len(leaves)))
    return scores, there


def _means(cells: IntArray, size: int, values: FloatArray) -> FloatArray:
    """Return the mean of row values in each bin, (size,), by which a column predicts them; 0 in bins without rows."""
    counts = np.bincount(cells, minlength=size)
    return np.bincount(cells, values, size) / np.maximum(counts, 1)


UNMEASURED = 0.5
"""Assumed strength of unmeasured relations, as a fraction of measured ones: of a pair inside its bins, of the pair's whole
relation; and of three columns beyond their pairs, of the mean strength of unmeasured pairs.  More makes intervals wider
than needed; less makes them miss the truth.  Tuned, so that intervals on Adult cover the truth at their nominal rate
(docs/mechanisms/error-bars.md).  Half and twice of it change widths of intervals by -.9 and -1.6 % in the first use.  In the
second they change them by -2.7 and -1.5 % (docs/benchmarks/constants.md)."""

RELATIONS = 200
"""Most random pair relations per replicate; for more pairs, a random selection is made stronger in proportion.  A
safety limit of time."""

TOGETHER = 16
"""Most columns in the random three-column relations of one replicate.  A safety limit of time."""

MOST_PAIRS, ROWS = 300, 20_000
"""Most pairs whose dependence in the model is computed exactly; for more pairs it is estimated from ROWS drawn rows.
Safety limits of time."""

SMALL_PRODUCT = 2**18
"""Most multiplications in one matrix product; a larger product would start threads, which takes longer than the
product.  A safety limit of time."""

FEW = 8
"""A matrix is multiplied as a sparse matrix if fewer than 1 / FEW of its entries are nonzero.  A safety limit of
time."""

MAX_NEAR_EMPTY_FACTOR = 3.0
"""Largest factor by which a replicate multiplies the rows of a near-empty bin, so that a tiny model count cannot become
a huge one.  A safety limit."""

MAX_TREND_FACTOR = 2.0
"""Upper end of the uniform factor by which a replicate multiplies a trend inside a column's bins.  Other columns predict
the trend and its direction, so the factor is at least 0 and has mean 1.  Derived: a uniform law from 0 with mean 1 ends
at 2."""

MOST_EXCESS = 3.0
"""Largest relative change of a cell, (new - old) / old, when excess dependence is removed: it becomes at most four
times as large, so that a nearly empty cell stays small.  A numerical tolerance."""


@dataclass(frozen=True, eq=False)
class Misspecification:
    """Random relations that a release did not measure but that may exist; replicates of the bootstrap include them.

    Parameters
    ----------
    direct
        The release.
    strengths
        (d, d) assumed L1 distance of each pair's table from the model's, as a fraction of the rows.
    triples
        Assumed L1 distance for every three columns, as a fraction of the rows.
    excess
        By unmeasured pair with more dependence in the model than its score shows, relative changes of its cells that
        remove the excess.  Maximum entropy creates such dependence between two causes of one effect.
    sharper
        By measured pair, the correction for its attenuation in the model.
    """

    direct: GLSEstimates
    strengths: FloatArray
    triples: float
    excess: dict[Clique, FloatArray] = field(default_factory=dict)
    sharper: dict[Clique, AttenuationCorrection] = field(default_factory=dict)

    @classmethod
    def of(cls, direct: GLSEstimates) -> Misspecification:
        """Return the assumed strengths of unmeasured relations, derived from a release's noisy scores and tables.

        A pair's strength is the root of the difference of two squares: its estimated distance from independence, and
        the model's.  It is at least the fraction `UNMEASURED` of the larger distance.  This least strength holds for a
        measured pair whose distance is larger in the model.
        """
        d = len(direct.model.domain)
        strengths = np.zeros((d, d))
        beyond: list[float] = []
        excess: dict[Clique, FloatArray] = {}
        tables: dict[Clique, FloatArray] = {}
        dependences = _dependences(direct.model, tables)
        for (a, b), whole in _relations(direct, dependences).items():
            known = dependences[a, b]
            beyond_it = whole**2 - known**2
            left = math.sqrt(max(beyond_it, 0.0) if direct.has((a, b)) else abs(beyond_it))
            beyond.append(left)
            strengths[a, b] = strengths[b, a] = max(left, UNMEASURED * max(whole, known))
            if known > whole and len(dependences) <= MOST_PAIRS and not direct.has((a, b)):
                excess[a, b] = (1 - whole / known) * _towards_independence(tables[a, b])
        return cls(direct, strengths, UNMEASURED * float(np.mean(beyond or [0.0])), excess, _sharper(direct, tables))

    def weights(self, leaves: Codes, rng: Generator, size: int = 1) -> Iterator[FloatArray]:
        """Yield, ``size`` times, relative row weights, (n,) >= 0, with new random relations; 1 means no change."""
        return (np.maximum(1 + change, 0.0) for change in self.changes(leaves, rng, size))

    def unrecovered_rows(self, leaves: Codes, rows: FloatArray, rng: Generator) -> FloatArray:
        """Return corrected row weights of n pool points in r replicates, (n, r), in rows.

        The correction adds two effects that a refit cannot recover.  Measured pairs may be more strongly associated
        than in the model, and near-empty bins may be empty.  The first effect keeps one-way marginals unchanged.

        Parameters
        ----------
        leaves
            (n, d) fine bins of the points.
        rows
            (n, r) weight of each point in each drawn table, in rows.
        rng
            Source of the random effects.
        """
        cells = [r.coarse_cell[leaves[:, j]] for j, r in enumerate(self.direct.model.refinements)]
        size = int(rows.shape[1])
        found: AnyArray = np.ones(rows.shape, np.float32)
        for (a, b), one in self.sharper.items():
            changes = np.stack([one.change(z).ravel() for z in rng.standard_normal(size)], axis=1, dtype=np.float32)
            found += changes.take(cells[a] * one.changes.shape[2] + cells[b], axis=0)
        drawn = rows.astype(np.float32)
        found = np.maximum(found, 0.0) * drawn
        for j in sorted({j for pair in self.sharper for j in pair}):
            into: Any = sums_of(cells[j], self.direct.model.domain.shape[j])
            before, after = into @ drawn, into @ found
            found *= np.divide(before, after, out=np.ones_like(after), where=after > 0).take(cells[j], axis=0)
        for j, cell in enumerate(cells):
            factors = _faint(self.direct, j, rng, size)
            if (factors != 1).any():
                fewer = found * factors.astype(np.float32).take(cell, axis=0)
                found = np.where(fewer.sum(axis=0) > 0, fewer, found)  # a table has a row in some cell, whichever it is
        return np.asarray(found, np.float64)

    def changes(self, leaves: Codes, rng: Generator, size: int = 1) -> Iterator[FloatArray]:
        """Yield, ``size`` times, the relative change of row weights, (n,), by new random relations; 0 means no change.

        The relations stand for unmeasured ones.  ``leaves``, (n, d), are the fine bins of the rows.
        """
        columns, refinements = RandomFunctions.of(self.direct.model), self.direct.model.refinements
        place = np.ascontiguousarray((leaves + columns.starts).T)
        pairs = np.argwhere(np.triu(self.strengths) > 0)
        measured = np.array([self.direct.has((a, b)) for a, b in pairs.tolist()], np.bool_)
        systematic = np.zeros(len(leaves))
        for (a, b), table in self.excess.items():
            systematic += table[refinements[a].coarse_cell[leaves[:, a]], refinements[b].coarse_cell[leaves[:, b]]]
        within = within_bin_tilts(self.direct.model, leaves)
        for _ in range(size):
            functions = columns.drawn(rng)
            chosen = rng.permutation(len(pairs))[:RELATIONS]
            whole, known = np.zeros(self.strengths.shape), np.zeros(self.strengths.shape)
            if len(chosen):
                a, b = pairs[chosen].T
                height = self.strengths[a, b] / np.maximum(columns.sizes(functions, a, b), 1e-12)
                height *= math.sqrt(len(pairs) / len(chosen))
                whole[a, b], known[a, b] = height, height * measured[chosen]
            some = rng.permutation(leaves.shape[1])[:TOGETHER]
            change = systematic + within @ rng.uniform(0, MAX_TREND_FACTOR, within.shape[1])
            for values, means in zip(_by_rank(functions), _by_rank(columns.between(functions)), strict=True):
                at = values.take(place)
                change += _quadratic(at, whole)
                if known.any():
                    change -= _quadratic(means.take(place), known)
                if self.triples > 0:
                    change += self.triples / math.sqrt(RANK) * _triple_products(at[some])
            yield change


def _relations(direct: GLSEstimates, known: dict[Clique, float]) -> dict[Clique, float]:
    """Return each pair's estimated L1 distance from independence, as a fraction of the rows.

    The distance is from noisy scores if each pair has one.  Otherwise it is from the model for measured pairs, and a
    mean for others.  What the model lacks of it, replicates add at random.
    """
    found = direct.screened
    if found is not None and found.distances:
        return found.distances
    typical = float(np.mean(list(known.values()) or [0.0])) if found is None else found.typical
    return {pair: known[pair] if direct.has(pair) else typical for pair in known}


def _dependences(model: SyntheticModel, tables: dict[Clique, FloatArray]) -> dict[Clique, float]:
    """Return each pair's L1 distance from independence in the model, as a fraction of the rows.

    For more than `MOST_PAIRS` pairs, the distance is estimated from drawn rows, without the part that chance alone
    gives; else the model's tables are stored in ``tables``.  `Misspecification.of` compares it with the pair's
    estimated distance.
    """
    shape, pairs = model.domain.shape, list(itertools.combinations(range(len(model.domain)), 2))
    distribution, rows = model.distribution, math.inf
    if len(pairs) > MOST_PAIRS:
        codes = distribution.sample(ROWS, generator(0))
        distribution, rows = Explicit(shape=shape, codes=codes, weights=np.ones(ROWS)), ROWS
    found: dict[Clique, float] = dict.fromkeys(pairs, 0.0)
    if isinstance(model.distribution, Components):  # columns of different groups are independent
        pairs = [pair for columns in model.distribution.columns for pair in itertools.combinations(columns, 2)]
    for a, b in pairs:
        table = distribution.marginal((a, b)).reshape(shape[a], shape[b])
        if math.isinf(rows):
            tables[a, b] = table
        distance = float(np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0))).sum())
        found[a, b] = math.sqrt(max(distance**2 - 2 * table.size / (math.pi * rows), 0.0))
    return found


def _towards_independence(table: FloatArray) -> FloatArray:
    """Return the relative change of a pair's cells, (a, b), that makes the columns independent; 0 in empty cells.

    The change is at most `MOST_EXCESS`.  Replicates apply part of it where the model has more dependence than the
    scores show.
    """
    alone = np.outer(table.sum(axis=1), table.sum(axis=0))
    change = np.divide(alone - table, table, out=np.zeros(table.shape), where=table > 0)
    return np.minimum(change, MOST_EXCESS)


def _sharper(direct: GLSEstimates, tables: dict[Clique, FloatArray]) -> dict[Clique, AttenuationCorrection]:
    """Return the corrections for measured pairs whose relation is stronger in the noisy table than in the model.

    A refit draws relations towards independence as the release did, so no replicate would show that error otherwise.
    """
    found: dict[Clique, AttenuationCorrection] = {}
    for table in direct.fitting:
        if len(table.clique) != 2:
            continue
        shape = [direct.model.domain.shape[j] for j in table.clique]
        share = tables.get(table.clique)
        fitted = direct.model.distribution.marginal(table.clique).reshape(shape) if share is None else share
        one = AttenuationCorrection.of(
            np.asarray(fitted * max(direct.total[0], 1.0)), table.counts.reshape(shape), table.stddev
        )
        if one is not None:
            found[table.clique] = one
    return found


def _faint(direct: GLSEstimates, column: int, rng: Generator, size: int) -> FloatArray:
    """Return random factors for the rows of a column's near-empty coarse bins, (bins, size); 1 for other bins.

    Models have no negative counts, so bins that are truly empty have some rows in a model.  A bin is near-empty if noise
    alone may make its count.
    """
    leaves, cell = direct.leaves(column), direct.model.refinements[column].coarse_cell
    factors = np.ones((direct.model.domain.shape[column], size))
    if leaves is None:
        return factors
    modelled = direct.model.distribution.marginal((column,)) * direct.total[0]
    of_cell = sums_of(cell, len(factors))
    stddev = np.sqrt(leaves.variances(of_cell))
    low = (modelled > 0) & (modelled < beyond_noise(1.0, len(factors)) * stddev)
    noisy = (of_cell @ leaves.counts)[low, None] + stddev[low, None] * rng.standard_normal((int(low.sum()), size))
    factors[low] = np.clip(noisy / np.maximum(modelled[low, None], 1e-12), 0.0, MAX_NEAR_EMPTY_FACTOR)
    return factors


def _by_rank(functions: FloatArray) -> AnyArray:
    """Return functions of the fine bins, transposed to (RANK, fine bins), so that each is contiguous in memory.

    Single precision saves time.
    """
    return np.ascontiguousarray(functions.T, np.float32)


def _quadratic(values: AnyArray, heights: FloatArray) -> AnyArray:
    """Return for each point the sum over pairs of columns of height times product of values, (n,).

    It is the change of the point's weight by random relations of pairs.

    ``values`` is (d, n), ``heights`` is (d, d), 0 below the diagonal.
    """
    factors: Any = heights.astype(np.float32).T
    found, step = np.empty(values.shape[1], np.float32), max(64, SMALL_PRODUCT // len(values) ** 2)
    if FEW * np.count_nonzero(heights) < heights.size:
        factors, step = sparse.csr_array(factors), values.shape[1]
    for begin in range(0, values.shape[1], step):
        some = values[:, begin : begin + step]
        products = factors @ some
        products *= some
        products.sum(axis=0, out=found[begin : begin + step])
    return found


def _triple_products(values: AnyArray) -> AnyArray:
    """Return for each point the sum over triples of columns of the product of values, (n,).

    It is the shape of random relations of three columns.  Newton's identity makes this fast.
    """
    squares = values * values
    first, second, third = values.sum(axis=0), squares.sum(axis=0), (squares * values).sum(axis=0)
    return np.asarray(((first * first - 3 * second) * first + 2 * third) / 6)
