"""The fit of the adaptive plan: one distribution from all noisy tables and second moments.  Post-processing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from synthdp.arrays import BoolArray, Clique
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.markov_random_field import Graphical
from synthdp.distribution.protocol import Distribution
from synthdp.fit.listed_entropy import ListedEntropy
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.fit.out_of_domain import consistent_merged
from synthdp.fit.raking import Particles
from synthdp.mechanisms.adaptive.component_fit import fit_components
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.queries.contingency import NoisyTable, table_shape
from synthdp.randomness import Generator


def consistent_tables(known: Knowledge) -> list[NoisyTable]:
    """Return all measured tables with misfits removed and made to agree.

    Each has its noise multiplied by its ridge, which is how little the fit trusts it.
    """
    measured = (*known.one_way_tables, *known.tables)
    tables = [
        *known.out_of_domain.consistent((*measured, *known.effects)),
        *consistent_merged(measured, known.merged, known.out_of_domain),
    ]
    return [replace(table, stddev=table.stddev * known.ridges.get(table.clique, 1.0)) for table in tables]


def fit_tree(known: Knowledge, settings: MaxEntropy) -> Graphical:
    """Fit one-ways and the tables inside the junction tree by maximum entropy; other answers are ignored.

    Rows are drawn from it, which further fits weight and scores are measured from.
    """
    inside = [table for table in consistent_tables(known) if len(table.clique) == 1 or table.clique in known.tree]
    return settings.fit(inside, known.domain.shape, total=known.total, allowed=known.zeros).model


def fit_cells(known: Knowledge, settings: ListedEntropy) -> Explicit:
    """Fit all measured main effects and interactions by maximum entropy over every possible combination of groups.

    For small domains, whose cells can all be listed.
    """
    kept = known.kept
    shape = [int(groups.sum()) for groups in kept]
    possible = np.ones(shape, np.bool_)
    for clique, mask in known.zeros.items():
        possible &= _spread(mask.reshape(table_shape(known.domain.shape, clique)), clique, kept)
    weights = settings.fit(known.pooled_effects, possible=possible.ravel())
    cells = np.flatnonzero(weights)
    codes = np.unravel_index(cells, shape)
    of_group = [np.flatnonzero(groups) for groups in kept]
    return Explicit(
        shape=known.domain.shape,
        codes=np.column_stack([groups[code] for groups, code in zip(of_group, codes, strict=True)]),
        weights=weights[cells],
    )


def _spread(mask: BoolArray, clique: Clique, kept: Sequence[BoolArray]) -> BoolArray:
    """Reshape a mask over some columns' groups to an axis for each column, so that it broadcasts over all.

    So the masks of all rules combine into one.  Only kept groups remain; the other columns have axes of size 1.
    """
    inside = mask[np.ix_(*(np.flatnonzero(kept[j]) for j in clique))]
    order = np.argsort(clique, kind="stable")
    sizes = dict(zip(clique, inside.shape, strict=True))
    return np.asarray(inside.transpose(order).reshape([sizes.get(j, 1) for j in range(len(kept))]))


def fit_distribution(
    known: Knowledge, *, settings: MaxEntropy, particles: Particles, listed: ListedEntropy, rng: Generator
) -> Distribution:
    """Fit a distribution to everything that was measured, by the method that suits it.

    All cells where interactions were measured; group by group for wide tables; else a junction tree, and weighted rows
    in addition where tables outside of the tree or second moments were measured.

    Parameters
    ----------
    known
        The noisy answers and estimates so far.
    settings
        Settings of the tree's fit.
    particles
        Settings of the fit by weighted rows.
    listed
        Settings of the fit to all cells.
    rng
        Source of the rows.
    """
    if known.in_cells:
        return fit_cells(known, listed)
    if known.in_groups:
        return fit_components(known, settings=settings, particles=particles, rng=rng)
    if set(known.off_tree) <= set(known.tree) and not known.products:
        return fit_tree(known, settings)
    return fit_rows(known, settings=settings, particles=particles, rng=rng)


def fit_rows(known: Knowledge, *, settings: MaxEntropy, particles: Particles, rng: Generator) -> Explicit:
    """Fit a junction tree, draw rows, and weight them to match tables outside of the tree and second moments, too."""
    model = fit_tree(known, settings)
    return particles.fit(model, consistent_tables(known), total=known.total, rng=rng, products=known.products)
