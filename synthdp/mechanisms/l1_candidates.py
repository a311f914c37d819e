"""Support points for a fit over listed rows, and how likely each is before the fit.  Post-processing of noisy answers.

Few possible rows are listed, with the weights of independent columns.  Where there are too many, rows are drawn from a
junction tree of the strongest noisy pairs: candidates, not the solver, decide how good a fit over drawn rows can be.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import BoolArray, Clique, Codes, FloatArray, Weights
from synthdp.distribution.junction_tree import TreePlanner, junction_tree
from synthdp.distribution.markov_random_field import Graphical
from synthdp.domain.domain import Domain
from synthdp.domain.refinement import Refinement
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.mechanisms.adaptive.column_tree import OneWay
from synthdp.queries.contingency import NoisyTable, cell_index
from synthdp.randomness import Generator

LEAST_MARGIN = 1e-6
"""Smallest share of rows that the prior gives a cell of one column, even where noisy one-ways say 0.  Rules may forbid
all other cells.  A numerical tolerance.
"""

TREE_CELLS = 400_000
"""Most cells of the junction tree that candidate rows are drawn from.  A safety limit of memory."""

TREE_SWEEPS = 8
"""Passes of the junction tree's fit, whose rows are fitted again anyway.  A numerical tolerance: 5, 8 and 20 give fifteen
columns of Adult errors of .0784, .0775 and .0785, four releases each."""

PAIRS_PER_COLUMN = 4
"""At most this many pairs per column are tried for the junction tree, the pairs that tell most.  A safety limit of time."""

MEAN_OVER_STDDEV = math.sqrt(2 / math.pi)
"""Mean absolute value of Gaussian noise over its standard deviation, √(2 / π).  It says how much of a pair's distance
from independence noise alone makes.  Derived.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """The support points over which an L1 fit chooses weights, with their prior weights.

    Parameters
    ----------
    codes
        (m, d) different rows.
    prior
        (m,) their weights before the fit, with sum 1.
    drawn
        Number of rows that were drawn; 0 where all possible rows are listed.
    origin
        Text on their origin, for the receipt.
    """

    codes: Codes
    prior: Weights
    drawn: int
    origin: str

    @property
    def prior_of(self) -> str:
        """Where the prior weights come from, in words for the receipt."""
        return "the draws" if self.drawn else "independent columns"


def independent(margins: Sequence[FloatArray], possible: Mapping[Clique, BoolArray]) -> Graphical:
    """Return the distribution of independent columns with these margins, conditioned on possible combinations only.

    Shares below `LEAST_MARGIN` are raised to it first.  It tells which rows are worth listing, and is the model where
    no pair is measured.
    """
    masks = {clique: np.where(mask, 0.0, -np.inf) for clique, mask in possible.items()}
    for j, margin in enumerate(margins):  # impossible cells of one column are masked too: a floor everywhere is safe
        masks[(j,)] = masks.get((j,), 0.0) + np.log(np.maximum(margin, LEAST_MARGIN))
    return Graphical.calibrated(junction_tree(tuple(len(margin) for margin in margins), [*masks]), masks)


def margin_of(column: OneWay, refinement: Refinement) -> FloatArray:
    """Return the share of rows in each group of a column, (groups,); 0 in groups that may not be released.

    It is the prior of a fit.  All releasable groups are alike where the column seems to have no rows.
    """
    mass = np.bincount(refinement.coarse_cell, weights=column.weights)
    releasable = refinement.coarse().releasable
    return np.where(releasable, mass / mass.sum() if mass.sum() > 0 else 1 / releasable.sum(), 0.0)


def listed(
    margins: Sequence[FloatArray], product: Graphical, possible: Mapping[Clique, BoolArray], most: int
) -> Candidates | None:
    """Return all possible rows, without cells of hardly any mass, as candidates with a prior of independent columns.

    ``None`` if the cells that are left have more than ``most`` combinations, rules not counted, or if none is possible;
    rows are then drawn.
    """
    likely = [np.flatnonzero(product.marginal((j,)) > 2 * LEAST_MARGIN) for j in range(len(product.shape))]
    if math.prod(len(cells) for cells in likely) > most:
        return None
    rows = np.array(list(itertools.product(*likely)), np.int64)
    for clique, mask in possible.items():
        rows = rows[mask[cell_index(rows, product.shape, clique)]]
    if not len(rows):
        return None
    prior = np.ones(len(rows))
    for j, margin in enumerate(margins):
        prior *= np.maximum(margin, LEAST_MARGIN)[rows[:, j]]
    return Candidates(codes=rows, prior=prior / prior.sum(), drawn=0, origin="all possible rows")


def drawn(model: Graphical, count: int, rng: Generator, *, origin: str) -> Candidates:
    """Return the distinct rows of a sample from a model as candidates, weighted by how often each was drawn.

    ``count`` rows are drawn.
    """
    rows, times = np.unique(model.sample(count, rng), axis=0, return_counts=True)
    return Candidates(codes=rows, prior=times / times.sum(), drawn=count, origin=origin)


def tree_of_pairs(
    tables: Sequence[NoisyTable], domain: Domain, possible: Mapping[Clique, BoolArray], *, total: float
) -> Graphical:
    """Fit by maximum entropy the pairs that tell most, as many as make a small junction tree.

    Candidate rows are drawn from the model that is returned.

    Parameters
    ----------
    tables
        Consistent one-ways and pairs, without misfits.
    domain
        Their axes.
    possible
        Mask of the combinations that can occur.
    total
        Number of rows.
    """
    gains = _gains(tables)
    planner, chosen = TreePlanner(domain.shape), [*possible]
    tried = sorted((pair for pair in gains if gains[pair] > 0), key=lambda pair: -gains[pair])
    for pair in tried[: PAIRS_PER_COLUMN * len(domain)]:
        if planner.cells([*chosen, pair]) <= TREE_CELLS:
            chosen.append(pair)
    inside = [table for table in tables if len(table.clique) == 1 or table.clique in chosen]
    return MaxEntropy(max_sweeps=TREE_SWEEPS).fit(inside, domain.shape, total=total, allowed=possible).model


def _gains(tables: Sequence[NoisyTable]) -> dict[Clique, float]:
    """Return each pair's L1 distance from independence, in rows, minus what its noise alone makes of it.

    The junction tree takes the pairs of the largest gains.  Noise is taken to make at most a cell's expected count.
    """
    margins = {table.clique[0]: np.maximum(table.counts, 0.0) for table in tables if len(table.clique) == 1}
    gains: dict[Clique, float] = {}
    for table in tables:
        if len(table.clique) == 2:
            first, second = (margins[j] for j in table.clique)
            alone = np.outer(first, second).ravel() / max(float(first.sum()), 1e-9)
            noise = np.minimum(MEAN_OVER_STDDEV * table.stddev, alone)
            gains[table.clique] = float(np.abs(table.counts - alone).sum() - noise.sum())
    return gains
