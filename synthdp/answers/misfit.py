"""How far the truth may be from a fitted model where nothing was measured: random relations of plausible strength.

The bootstrap's tables are drawn from the model with such relations put in; what the release measured, the fit to a table
finds again, and what it did not, stays as error.  Strengths come from the release's own screening; sees no row.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from synthdp.answers.direct import Direct
from synthdp.arrays import Clique, Codes, FloatArray, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.grid import has_labels
from synthdp.queries.scores.distances import MarginalDistances
from synthdp.randomness import Generator
from synthdp.sampling.synthetic_model import SyntheticModel

RANK = 4
"""Random functions of a column; a relation is a sum of so many products."""

WAVES = 6
"""Cosines in a random function of an ordered column."""

WITHIN = 0.5
"""Chosen, like `TRIPLES`, so that intervals of Adult hold the truth as often as they say (docs/explanation/answers.md).

Strength of what a pair's measured cells do not show, as a part of the strength of the pair's whole relation."""

TRIPLES = 0.5
"""Strength of the relations of three columns beyond their pairs, as a part of the mean strength of what pairs leave."""

RELATIONS = 200
"""Most relations of pairs that are put in at once: of wide tables some by chance, in proportion stronger."""

TOGETHER = 16
"""Most columns whose relations in threes are put in at once."""

STRONGEST = 3.0
"""Largest standard deviation of the relative change of a row's weight by all relations together; chosen on hmeq."""


@dataclass(frozen=True, eq=False)
class Misfit:
    """Random relations that a release's measurements leave open.

    Parameters
    ----------
    direct
        The release.
    strengths
        (d, d) mean relative change of a pair's cells: its L1 distance from the model, as a part of the rows.
    triples
        The same for every three columns.
    """

    direct: Direct
    strengths: FloatArray
    triples: float

    @classmethod
    def of(cls, direct: Direct) -> Misfit:
        """Return the relations that the screening of a release leaves open."""
        d = len(direct.model.domain)
        strengths = np.zeros((d, d))
        beyond = []
        for (a, b), whole in _relations(direct).items():
            known = _dependence(direct.model, (a, b))
            left = math.sqrt(max(whole**2 - known**2, 0.0))
            beyond.append(left)
            strengths[a, b] = strengths[b, a] = max(left, WITHIN * max(whole, known))
        return cls(direct, strengths, TRIPLES * float(np.mean(beyond or [0.0])))

    def weights(self, leaves: Codes, rng: Generator) -> FloatArray:
        """Return for rows, (n, d) leaves, how many times as often they occur as the model says; >= 0."""
        model = self.direct.model
        masses = [leaf_mass(model, j) for j in range(leaves.shape[1])]
        functions = [
            _random_functions(refinement.fine, mass, rng)
            for refinement, mass in zip(model.refinements, masses, strict=True)
        ]
        change = np.zeros(len(leaves))
        pairs = np.argwhere(np.triu(self.strengths) > 0)
        chosen = pairs[rng.permutation(len(pairs))[:RELATIONS]]
        for a, b in chosen.tolist():
            relation = functions[a] @ functions[b].T
            relation *= self.strengths[a, b] / max(float(masses[a] @ np.abs(relation) @ masses[b]), 1e-12)
            if self.direct.has((a, b)):
                relation -= self._between_cells(relation, a, b, masses)
            change += relation[leaves[:, a], leaves[:, b]]
        change *= math.sqrt(len(pairs) / max(len(chosen), 1))
        if self.triples > 0:
            columns = rng.permutation(leaves.shape[1])[:TOGETHER].tolist()
            change += self.triples * _triple_products([functions[j] for j in columns], leaves[:, columns])
        return np.maximum(1 + change * min(1.0, STRONGEST / max(float(change.std()), 1e-12)), 0.0)

    def _between_cells(self, relation: FloatArray, a: int, b: int, masses: list[FloatArray]) -> FloatArray:
        """Return the mean of a relation over each two coarse cells, put on their leaves: what the release measured."""
        found = relation
        for j in (a, b):
            cells = self.direct.model.refinements[j].coarse_cell
            inside = (cells[None, :] == np.arange(cells.max() + 1)[:, None]) * masses[j]
            found = ((inside @ found) / np.maximum(inside.sum(axis=1), 1e-300)[:, None])[cells].T
        return found


def leaf_mass(model: SyntheticModel, column: int) -> FloatArray:
    """Return the part of the model's rows in each leaf of a column, (leaves,)."""
    refinement = model.refinements[column]
    table = refinement.table()
    inside = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300)
    return np.asarray(model.distribution.marginal((column,)) @ inside)


def _relations(direct: Direct) -> dict[Clique, float]:
    """Return for each pair of columns about how far from independent it is: an L1 distance as a part of the rows."""
    pairs = list(itertools.combinations(range(len(direct.model.domain)), 2))
    rows = max(direct.total[0], 1.0)
    for measured in direct.measurements:
        asked = measured.queries
        if isinstance(asked, MarginalDistances) and asked.domain is direct.model.domain:
            offsets = asked.queries.offsets[:-1]
            expected = np.add.reduceat(np.sqrt(2 / math.pi * asked.expected / asked.denominator), offsets)
            distances = np.sqrt(np.maximum(_shrunk(measured.answers, measured.stddev) ** 2 - expected**2, 0.0))
            return dict(zip(asked.queries.cliques, (distances / rows).tolist(), strict=True))
    known = {pair: _dependence(direct.model, pair) for pair in pairs}
    typical = float(np.mean(list(known.values()) or [0.0]))
    return {pair: known[pair] if direct.has(pair) else typical for pair in pairs}


def _dependence(model: SyntheticModel, pair: Clique) -> float:
    """Return how far from independent two columns are in the model: an L1 distance as a part of the rows."""
    table = model.distribution.marginal(pair).reshape([model.domain.shape[j] for j in pair])
    return float(np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0))).sum())


def _shrunk(scores: FloatArray, stddev: float) -> FloatArray:
    """Draw noisy scores towards their mean, by as much as their spread is noise (James and Stein 1961)."""
    mean = float(scores.mean())
    signal = max(0.0, float(scores.var()) - stddev**2)
    return mean + (scores - mean) * (signal / (signal + stddev**2))


def _random_functions(axis: Axis, mass: FloatArray, rng: Generator) -> FloatArray:
    """Return random functions of a column's leaves with mean 0, (leaves, RANK): smooth ones where leaves have an order."""
    values = rng.standard_normal((axis.size, RANK))
    if not has_labels(axis.column):
        order = np.argsort(_first_units(axis), kind="stable")
        regular = order[_first_units(axis)[order] < axis.grid.regular]
        place = (np.cumsum(mass[regular]) - mass[regular] / 2) / max(float(mass[regular].sum()), 1e-300)
        waves = np.arange(1, WAVES + 1)
        heights = rng.standard_normal((WAVES, RANK)) / waves[:, None]
        values[regular] = np.cos(math.pi * place[:, None] * waves) @ heights
    return np.asarray(values - mass @ values)


def _first_units(axis: Axis) -> IntArray:
    first = np.zeros(axis.size, np.int64)
    first[axis.cells[::-1]] = axis.starts[::-1]
    return first


def _triple_products(functions: list[FloatArray], leaves: Codes) -> FloatArray:
    """Return the sum over all three columns of the products of their functions, by Newton's identity; (n,)."""
    sums = np.zeros((3, RANK, len(leaves)))
    for j, function in enumerate(functions):
        for power in range(3):
            sums[power] += (function ** (power + 1)).T[:, leaves[:, j]]
    first, second, third = sums
    return np.asarray(((first * first - 3 * second) * first + 2 * third).sum(axis=0) / (6 * math.sqrt(RANK)))
