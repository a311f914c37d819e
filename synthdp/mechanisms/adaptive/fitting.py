"""The fit of the plan: one distribution from all noisy tables and second moments.  Post-processing of noisy answers.

To save time and memory, each connected component of a wide table's columns is fitted on its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from synthdp.arrays import BoolArray, Clique, FloatArray
from synthdp.distribution.distribution import Distribution
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.junction_tree import TreePlanner
from synthdp.distribution.markov_random_field import Graphical
from synthdp.fit.consistency import GLSEffects
from synthdp.fit.listed_entropy import ListedEntropy
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.fit.out_of_domain import consistent_merged
from synthdp.fit.proportional_step import common_ridge
from synthdp.fit.raking import FEWEST_PARTICLES, Particles
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.queries.contingency import NoisyTable, Shape, table_shape
from synthdp.randomness import Generator


def consistent_tables(known: Knowledge) -> list[NoisyTable]:
    """Return all measured tables and interactions, with out-of-domain rows removed and common margins made equal.

    Each table's noise is multiplied by its ridge, so that the fit gives the table less weight.
    """
    measured, out_of_domain = (*known.one_way_tables, *known.tables), known.out_of_domain
    tables = [*out_of_domain.consistent(measured), *consistent_merged(measured, known.merged, out_of_domain)]
    return [replace(table, stddev=table.stddev * known.ridges.get(table.clique, 1.0)) for table in tables]


def fit_tree(known: Knowledge, tables: Iterable[NoisyTable], settings: MaxEntropy) -> Graphical:
    """Fit one-ways and the tables inside the junction tree by maximum entropy; other tables are ignored.

    Further fits weight rows drawn from this model, and candidate tables are scored against such rows.
    """
    inside = [table for table in tables if len(table.clique) == 1 or table.clique in known.tree]
    return settings.fit(inside, known.domain.shape, total=known.total, allowed=known.zeros).model


def fit_cells(
    effects: GLSEffects,
    zeros: Mapping[Clique, BoolArray],
    settings: ListedEntropy,
    *,
    shape: Shape,
    kept: Sequence[BoolArray],
) -> Explicit:
    """Fit all main effects and interactions by maximum entropy over every possible combination of coarse bins.

    The fit is for small domains, whose cells can all be listed.  Cells without weight are left out.

    Parameters
    ----------
    effects
        Least-squares estimates of main effects and interactions, over releasable coarse bins.
    zeros
        For the columns of each rule, which combinations of coarse bins may occur.
    settings
        Settings of the fit.
    shape
        Number of coarse bins of each column.
    kept
        Per column, (coarse bins,): which coarse bins a released row may have.
    """
    sizes = [int(groups.sum()) for groups in kept]
    possible = np.ones(sizes, np.bool_)
    for clique, mask in zeros.items():
        possible &= _broadcast_mask(mask.reshape(table_shape(shape, clique)), clique, kept)
    weights = settings.fit(effects, possible=possible.ravel())
    cells = np.flatnonzero(weights)
    codes = np.unravel_index(cells, sizes)
    of_group = [np.flatnonzero(groups) for groups in kept]
    return Explicit(
        shape=shape,
        codes=np.column_stack([groups[code] for groups, code in zip(of_group, codes, strict=True)]),
        weights=weights[cells],
    )


def _broadcast_mask(mask: BoolArray, clique: Clique, kept: Sequence[BoolArray]) -> BoolArray:
    """Reshape a mask over some columns' coarse bins to an axis for each column, so that it broadcasts over all columns.

    So the masks of all rules combine into one.  Only releasable bins (``kept``) remain; the other columns have axes of
    size 1.
    """
    inside = mask[np.ix_(*(np.flatnonzero(kept[j]) for j in clique))]
    order = np.argsort(clique, kind="stable")
    sizes = dict(zip(clique, inside.shape, strict=True))
    return np.asarray(inside.transpose(order).reshape([sizes.get(j, 1) for j in range(len(kept))]))


def fit_distribution(
    known: Knowledge, *, settings: MaxEntropy, particles: Particles, listed: ListedEntropy, rng: Generator
) -> Distribution:
    """Fit a distribution to all noisy answers, by the method that suits them.

    If all interactions were measured, the fit is over all cells, if there are few enough to list them.  A wide table is
    fitted by connected component.  Any other table gets a junction tree, whose rows are weighted if tables outside of
    the tree or second moments were measured.

    Parameters
    ----------
    known
        The noisy answers and estimates so far.
    settings
        Settings of the junction tree's fit.
    particles
        Settings of the fit by weighted rows.
    listed
        Settings of the fit to all cells.
    rng
        Random generator of the rows.
    """
    if known.in_cells:
        pooled = known.pooled_effects
        if listed.fits(pooled.shape):
            return fit_cells(pooled, known.zeros, listed, shape=known.domain.shape, kept=known.kept)
        known = _with_strongest_in_tree(known, pooled)
    if known.in_groups:
        from synthdp.mechanisms.wide_fit import fit_components

        return fit_components(known, settings=settings, particles=particles, rng=rng)
    tables = consistent_tables(known)
    if known.products or any(len(table.clique) > 1 and table.clique not in known.tree for table in tables):
        return fit_rows(known, settings=settings, particles=particles, rng=rng)
    return fit_tree(known, tables, settings)


def _with_strongest_in_tree(known: Knowledge, pooled: GLSEffects) -> Knowledge:
    """Return the answers with a junction tree of the strongest tables, for a domain of too many cells to list them.

    Rows are later drawn from the tree and weighted to match all tables, so the tree has fewer cells than there are such
    rows.  All pairs get one common ridge, and all triples, since one table says little of the strength of such
    relations.  ``pooled`` holds the least-squares estimates.
    """
    planner, found = TreePlanner(known.domain.shape), dict[int, list[NoisyTable]]()
    for table in consistent_tables(known):
        inside = NoisyTable(clique=table.clique, counts=pooled.table(table.clique), stddev=table.stddev)
        found.setdefault(len(table.clique), []).append(inside)
    margins = {table.clique[0]: np.maximum(table.counts, 1.0) for table in found.pop(1)}
    tables = sorted(itertools.chain(*found.values()), key=lambda one: _information(one, margins), reverse=True)
    rules, tree = list(known.zeros), list[Clique]()
    for table in tables:
        if planner.cells([*rules, *tree, table.clique]) <= FEWEST_PARTICLES:
            tree.append(table.clique)
    ridges = {order: common_ridge(some, pooled.shape) for order, some in found.items()}
    return replace(
        known,
        tree=tuple(tree),
        ridges={**known.ridges, **{table.clique: ridges[len(table.clique)] for table in tables}},
    )


def _information(table: NoisyTable, margins: Mapping[int, FloatArray]) -> float:
    """Return the relative entropy of a noisy table to independent columns, in nats.

    ``margins`` holds the counts of each single column, in rows, all above 0.
    """
    alone = np.ones(1)
    for column in table.clique:
        alone = np.multiply.outer(alone, margins[column] / margins[column].sum()).ravel()
    shares = np.maximum(table.counts, 1.0)
    shares /= shares.sum()
    return float((shares * np.log(shares / alone)).sum())


def fit_rows(known: Knowledge, *, settings: MaxEntropy, particles: Particles, rng: Generator) -> Explicit:
    """Fit a junction tree, draw rows, and weight them to match tables outside of the tree and second moments, too.

    The weighted rows keep relations that the tree has no room for.
    """
    tables = consistent_tables(known)
    model = fit_tree(known, tables, settings)
    return particles.fit(model, tables, total=known.total, rng=rng, products=known.products)
