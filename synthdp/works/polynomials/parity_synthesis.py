"""From noisy parities to a synthetic table: pair tables on a spanning forest, candidates from it, weights on them.

The forest's maximum-entropy model supplies candidate rows; multiplicative weights then bring the candidates' parities
within the noise of the measured ones, of every level.  Post-processing: costs nothing.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, Clique, Codes, FloatArray, IntArray
from synthdp.distribution.contingency import NoisyTable
from synthdp.fit.explicit.multiplicative_weights import MultiplicativeWeights
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.graphical.consistency import make_consistent
from synthdp.fit.graphical.max_entropy import MaxEntropy
from synthdp.mechanisms.cell_model import CellModel
from synthdp.randomness import Generator, RandomState, generator
from synthdp.schema.schema import Schema
from synthdp.works.polynomials.binarized import Binarized
from synthdp.works.polynomials.krawtchouk import ranks, subsets_of
from synthdp.works.polynomials.parities import Parities

MAX_ENTRIES = 30_000_000
"""Most entries (parities times candidates) of the fit: the lowest levels in full, then a random part of the next."""

_LEAST_STDDEV = 1e-3


def fit_parities(
    schema: Schema,
    parities: Parities,
    levels: tuple[FloatArray, ...],
    stddevs: FloatArray,
    *,
    rows: float,
    candidates: int = 10_000,
    random_state: RandomState = None,
) -> CellModel:
    """Return weights on candidate rows that explain noisy parities.

    Parameters
    ----------
    schema
        The columns.
    parities
        What was measured.
    levels
        Per level, the noisy sums.
    stddevs
        (order + 1,) of their noise.
    rows
        Number of rows, known or estimated.
    candidates
        How many rows to draw as a support.
    random_state
        Of the candidates.
    """
    bits, rng = parities.bits, generator(random_state)
    view = _Tables(bits, levels, stddevs, rows)
    tables = view.forest() if parities.order >= 2 else [view.one_way(j) for j in range(len(bits.domain))]
    allowed: dict[Clique, BoolArray] = {(j,): axis.releasable for j, axis in enumerate(bits.domain.axes)}
    consistent = make_consistent(tables, bits.domain.shape, total=rows)
    model = MaxEntropy().fit(consistent, bits.domain.shape, total=rows, allowed=allowed).model
    codes = model.sample(candidates, rng)
    problem = _problem(bits, codes, levels, stddevs, rows, rng)
    weights = MultiplicativeWeights().solve(problem).weights
    return CellModel.of(schema, bits.domain, codes, weights, total=rows)


class _ColumnMap(NamedTuple):
    """The indicators of a column's cells as combinations of 1 and its bits' signs."""

    bits: IntArray
    table: FloatArray
    """(cells, 1 + bits)."""


class _Tables:
    """Contingency tables of one and two columns, linear in the noisy parities."""

    def __init__(self, bits: Binarized, levels: tuple[FloatArray, ...], stddevs: FloatArray, rows: float) -> None:
        self.d, self.levels, self.stddevs, self.rows = bits.d, levels, stddevs, rows
        self.columns = [_column_map(bits, j) for j in range(len(bits.domain))]

    def one_way(self, j: int) -> NoisyTable:
        column = self.columns[j]
        sums = np.append(self.rows, self.levels[1][column.bits])
        spread = np.append(0.0, np.full(len(column.bits), self.stddevs[1]))
        return _noisy((j,), column.table @ sums, (column.table**2) @ spread**2)

    def pair(self, a: int, b: int) -> NoisyTable:
        """Return the table of columns a < b."""
        first, second = self.columns[a], self.columns[b]
        sums = np.empty((len(first.bits) + 1, len(second.bits) + 1))
        variance = np.empty_like(sums)
        sums[0, 0], variance[0, 0] = self.rows, 0.0
        sums[1:, 0], sums[0, 1:] = self.levels[1][first.bits], self.levels[1][second.bits]
        variance[1:, 0] = variance[0, 1:] = self.stddevs[1] ** 2
        both = np.array(list(itertools.product(first.bits, second.bits)), np.int64)
        sums[1:, 1:] = self.levels[2][ranks(np.sort(both, axis=1), self.d)].reshape(len(first.bits), -1)
        variance[1:, 1:] = self.stddevs[2] ** 2
        counts = first.table @ sums @ second.table.T
        return _noisy((a, b), counts.ravel(), (first.table**2 @ variance @ (second.table**2).T).ravel())

    def forest(self) -> list[NoisyTable]:
        """Return all one-ways and the pairs of a maximum spanning forest by dependence beyond noise (Chow, Liu 1968)."""
        singles = [self.one_way(j) for j in range(len(self.columns))]
        margins = [np.maximum(table.counts, 0.0) / max(np.maximum(table.counts, 0.0).sum(), 1.0) for table in singles]
        pairs = [self.pair(a, b) for a, b in itertools.combinations(range(len(self.columns)), 2)]
        scores = [_dependence(table, margins, self.rows) for table in pairs]
        tree = list(range(len(singles)))
        chosen: list[NoisyTable] = []
        for i in np.argsort(-np.array(scores), kind="stable"):
            a, b = (_root(tree, j) for j in pairs[i].clique)
            if scores[i] <= 0:
                break
            if a != b:
                tree[a] = b
                chosen.append(pairs[i])
        return [*singles, *chosen]


def _dependence(table: NoisyTable, margins: list[FloatArray], rows: float) -> float:
    """L1 distance of a pair table from independence, beyond what noise explains, in rows."""
    a, b = table.clique
    apart = np.abs(table.counts - rows * np.outer(margins[a], margins[b]).ravel()).sum()
    return float(apart - np.sqrt(2 / np.pi) * table.stddev * len(table.counts))


def _root(tree: list[int], j: int) -> int:
    while tree[j] != j:
        j = tree[j]
    return j


def _column_map(bits: Binarized, j: int) -> _ColumnMap:
    own = bits.of_column(j)
    releasable = bits.domain.axes[j].releasable
    signs = np.array([1.0 - 2.0 * bits.bits[i].cells for i in own])
    features = np.vstack([np.ones(len(releasable)), signs])
    table = np.zeros((len(releasable), len(features)))
    table[releasable] = np.linalg.pinv(features[:, releasable])
    return _ColumnMap(own, table)


def _noisy(clique: Clique, counts: FloatArray, variance: FloatArray) -> NoisyTable:
    return NoisyTable(clique=clique, counts=counts, stddev=max(float(np.sqrt(variance.mean())), _LEAST_STDDEV))


def _problem(
    bits: Binarized, codes: Codes, levels: tuple[FloatArray, ...], stddevs: FloatArray, rows: float, rng: Generator
) -> FitProblem:
    """Return the fit of the lowest levels, as many as memory allows, and of some parities of the next.

    Chosen at random: the largest ones would be those with the largest noise.
    """
    signs = 1 - 2 * bits.matrix(codes).astype(np.int8)
    left = max(MAX_ENTRIES // len(codes), bits.d)
    features: list[AnyArray] = []
    averages: list[FloatArray] = []
    spreads: list[FloatArray] = []
    for level in range(1, len(levels)):
        chosen = _some(len(levels[level]), left, rng)
        subsets = subsets_of(bits.d, level)[chosen]
        product = signs[:, subsets[:, 0]]
        for j in range(1, level):
            product = product * signs[:, subsets[:, j]]
        features.append(product.T.astype(np.float64))
        averages.append(levels[level][chosen] / rows)
        spreads.append(np.full(len(chosen), stddevs[level] / rows))
        left -= len(chosen)
        if left <= 0:
            break
    return FitProblem(A=np.vstack(features), b=np.concatenate(averages), stddev=np.concatenate(spreads))


def _some(size: int, count: int, rng: Generator) -> IntArray:
    return np.arange(size) if size <= count else np.sort(rng.choice(size, count, replace=False))
