"""The model of a later period of a series, fitted to new answers to the same questions.  Post-processing.

The first period's plan chose the questions, and left a model with coarse bins.  A later period has new answers.  So its
margins, the ridge of each table, the junction tree and the weighted rows are new, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from synthdp.answers.direct import GLSEstimates
from synthdp.arrays import MEAN_ABS, BoolArray, Clique, FloatArray
from synthdp.distribution.components import Components
from synthdp.distribution.distribution import Distribution
from synthdp.distribution.junction_tree import TreePlanner
from synthdp.domain.public_rows import PublicRows
from synthdp.domain.refinement import Refinement
from synthdp.fit.consistency import centred
from synthdp.fit.listed_entropy import ListedEntropy
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.fit.moment_matching import NoisyProducts
from synthdp.fit.out_of_domain import OutOfDomain, consistent_merged
from synthdp.fit.proportional_step import best_ridge, proportional_step
from synthdp.fit.raking import Particles
from synthdp.fit.smoothing import estimated
from synthdp.measurements import SIGNIFICANT, Measurements
from synthdp.mechanisms.adaptive.adaptive_marginals import AdaptiveMarginals
from synthdp.mechanisms.adaptive.fitting import fit_cells
from synthdp.mechanisms.adaptive.selection import Planner
from synthdp.mechanisms.column_sizes import far_beyond
from synthdp.mechanisms.public_knowledge import fit_tables_with_public
from synthdp.mechanisms.wide_fit import at_place, related
from synthdp.queries.contingency import LEAST_STDDEV, NoisyTable, Shape, project_to_simplex, table_size
from synthdp.randomness import Generator
from synthdp.sampling.structural_zeros import structural_zeros
from synthdp.sampling.synthetic_model import SyntheticModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Refit:
    """Fits the model of a later period to the new answers, keeping the plan's coarse bins.

    Parameters
    ----------
    fit, particles, listed
        Settings of the junction tree, of the weighted rows, and of the fit over all cells; see `AdaptiveMarginals`.
    public
        Rows of a public table; the model follows them where noisy answers agree with them.
    """

    fit: MaxEntropy = field(default_factory=MaxEntropy)
    particles: Particles = field(default_factory=Particles)
    listed: ListedEntropy = field(default_factory=ListedEntropy)
    public: PublicRows | None = None

    def __call__(self, before: SyntheticModel, measurements: Sequence[Measurements], rng: Generator) -> SyntheticModel:
        """Return the model fitted to the answers of a later period, over the coarse bins of an earlier model.

        Parameters
        ----------
        before
            The model of the first period's plan, whose coarse bins are kept.
        measurements
            The later period's answers to the plan's questions.
        rng
            Random generator of the weighted rows.
        """
        said = GLSEstimates(before, tuple(measurements))
        total = max(1.0, said.total[0])
        refinements = tuple(_refined(said, j, total) for j in range(len(before.domain)))
        model = replace(before, refinements=refinements, total=total)
        return replace(model, distribution=self._distribution(model, said, total, rng))

    def _distribution(self, model: SyntheticModel, said: GLSEstimates, total: float, rng: Generator) -> Distribution:
        """Fit a distribution to a period's tables.

        The fit is over all cells, in one junction tree, or, for a wide table, per connected component.
        """
        zeros = structural_zeros(model.schema, model.domain)
        if any(len(effect.clique) == 1 for effect in said.measured_alone):  # all interactions were measured
            effects = replace(said.effects, total=total)
            return fit_cells(effects, zeros, self.listed, shape=model.domain.shape, kept=said.kept)
        one_ways = [_one_way(said, model, j) for j in range(len(model.domain))]
        margins = [project_to_simplex(table.counts, total) for table in one_ways]
        none = OutOfDomain(releasable=tuple(said.kept), rows=np.zeros(len(margins)), total=total)
        fitting = none.consistent([*one_ways, *said.fitting, *said.fitting_effects])
        merged = consistent_merged([*one_ways, *said.fitting], said.merged, none)
        shape = model.domain.shape
        tables, strengths, ridges = [], {}, {}
        for one in (*fitting, *merged):
            if len(one.clique) == 1:
                tables.append(one)
                continue
            expected = _independent(one, margins, total)
            counts = expected + centred((one.counts - expected).reshape(one.shape(shape))).ravel()
            ridge = best_ridge(counts if one.alone else one.counts, expected, one.stddev)
            tables.append(replace(one, stddev=one.stddev * ridge))
            ridges[one.clique] = ridge
            noise = np.minimum(MEAN_ABS * one.stddev, expected).sum()
            strengths[one.clique] = float(np.abs(one.counts - expected * (not one.alone)).sum() - noise)
        wide = len(shape) > AdaptiveMarginals().wide
        if not wide or said.products:
            alone = partial(self._joined, tables, strengths, zeros, shape, total, said.products, rng)
            if self.public is None or wide:
                return alone()
            return fit_tables_with_public(
                lambda: tables, self.public, domain=model.domain, ridges=ridges, zeros=zeros, total=total, alone=alone,
                rng=rng, margins=[np.where(kept, one, 0.0) for kept, one in zip(said.kept, margins, strict=True)],
            )  # fmt: skip
        parts: list[Distribution] = []
        joined = related([*strengths, *zeros], len(shape))
        alone_columns = {*range(len(shape))} - {j for columns in joined for j in columns}
        groups = tuple(sorted([*joined, *((j,) for j in alone_columns)]))
        for columns in groups:
            place = {j: i for i, j in enumerate(columns)}
            mine = [replace(one, clique=at_place(place, one.clique)) for one in tables if one.clique[0] in place]
            strong = {at_place(place, clique): value for clique, value in strengths.items() if clique[0] in place}
            masks = {at_place(place, clique): mask for clique, mask in zeros.items() if clique[0] in place}
            parts.append(self._joined(mine, strong, masks, tuple(shape[j] for j in columns), total, (), rng))
        return Components(shape=shape, columns=groups, parts=tuple(parts))

    def _joined(
        self, tables: Sequence[NoisyTable], strengths: Mapping[Clique, float], zeros: Mapping[Clique, BoolArray],
        shape: Shape, total: float, products: Sequence[NoisyProducts], rng: Generator,
    ) -> Distribution:  # fmt: skip
        """Fit the strongest tables as a junction tree, then weight rows drawn from it to match all other answers.

        Without other answers the tree is returned.  ``strengths`` holds how strong the relation in each table is;
        ``zeros`` masks the cells that rules allow; ``products`` are noisy answers that are no tables.
        """
        inside = _tree([*zeros], strengths, shape)
        of_tree = [one for one in tables if len(one.clique) == 1 or (one.clique in inside and not one.alone)]
        tree = self.fit.fit(of_tree, shape, total=total, allowed=zeros).model
        if len(of_tree) == len(tables) and not products:
            return tree
        return self.particles.fit(tree, tables, total=total, rng=rng, products=products)


def _tree(base: Sequence[Clique], strengths: Mapping[Clique, float], shape: Sequence[int]) -> set[Clique]:
    """Choose the cliques of the junction tree: the strongest first, up to `Planner.tree_cells` cells in the tree.

    Structural zeros, ``base``, are always included, as no row may break a rule.
    """
    planner, taken, most = TreePlanner(shape), list(base), Planner().tree_cells
    for clique in sorted(strengths, key=lambda one: -strengths[one]):
        if table_size(shape, clique) <= most and planner.cells([*taken, clique]) <= most:
            taken.append(clique)
    return set(taken)


def _independent(table: NoisyTable, margins: Sequence[FloatArray], total: float) -> FloatArray:
    """Return the expected rows of a table's cells if its columns were independent, (cells,), >= 0.

    The distance of the measured table from these rows measures the strength of its relation, and determines its ridge.
    """
    found = np.ones(1)
    groups = table.groups or (None,) * len(table.clique)
    for j, of in zip(table.clique, groups, strict=True):
        margin = margins[j] if of is None else np.bincount(of, weights=margins[j])
        found = np.multiply.outer(found, margin / total).ravel()
    return np.asarray(found * total, np.float64)


def _one_way(said: GLSEstimates, model: SyntheticModel, column: int) -> NoisyTable:
    """Return the counts of a column's coarse bins as a noisy table, estimated by least squares from all its answers.

    If the column was not measured, all coarse bins have equal counts, with a noise as large as the number of rows.
    """
    refinement, groups = model.refinements[column], model.domain.shape[column]
    leaves, first = said.leaves(column), said.first_level(column)
    if leaves is None or first is None:
        return NoisyTable(clique=(column,), counts=np.full(groups, said.total[0] / groups), stddev=said.total[0])
    counts = np.asarray(np.bincount(refinement.coarse_cell, weights=leaves.counts, minlength=groups), np.float64)
    stddev = first[2] * max(1.0, first[0].size / groups) ** 0.5
    return NoisyTable(clique=(column,), counts=counts, stddev=max(stddev, LEAST_STDDEV))


def _refined(said: GLSEstimates, column: int, total: float) -> Refinement:
    """Return a column's coarse and fine bins with new weights of the fine bins, estimated from this period's answers.

    The refinement is unchanged if the column was not measured.
    """
    refinement = said.model.refinements[column]
    leaves, first = said.leaves(column), said.first_level(column)
    if leaves is None or first is None:
        return refinement
    axis, counts, stddev = first
    fine = refinement.fine
    cell = axis.cells_of(fine.first_points.astype(np.uint32)).astype(np.int64)
    inside = max(total - float(said.misfits[column]), 1.0)
    fits = axis.releasable & ~far_beyond(axis, counts, stddev, inside, total_stddev=said.total[1])
    plain = len(axis.starts) == axis.size and axis.grid.ordered
    neighbours = int((fits & (axis.starts < axis.grid.regular)).sum()) if plain else 0
    rows = np.zeros(axis.size)
    rows[fits] = estimated(counts[fits], stddev, total=inside, neighbours=neighbours)
    weights = np.zeros(fine.size)
    noise = np.sqrt(np.maximum(leaves.variance, LEAST_STDDEV))
    for one in np.flatnonzero(rows > 0):
        at = np.flatnonzero((cell == one) & fine.releasable)
        if len(at) == 1:
            weights[at] = rows[one]
        elif len(at):
            prior = np.maximum(refinement.weights[at], 1e-9 * max(float(refinement.weights[at].sum()), 1.0))
            weights[at] = _divided(float(rows[one]), prior, leaves.counts[at], float(np.sqrt((noise[at] ** 2).mean())))
    return refinement.reweighted(weights)


def _divided(total: float, prior: FloatArray, counts: FloatArray, stddev: float) -> FloatArray:
    """Divide the estimated count of a bin among its fine bins by their noisy counts and by their earlier weights.

    A fine bin with a count clearly above its expectation keeps this count, since a ridge would bias a point mass.  The
    other fine bins share the remaining rows, by a regularised tilt.  If the kept counts have too large a sum, they are
    cut down evenly.

    Parameters
    ----------
    total
        Estimated count of the bin, in rows.
    prior
        (k,) earlier weights of the fine bins, relative to each other, > 0.
    counts
        (k,) noisy counts of the fine bins, in rows.
    stddev
        Standard deviation of the noise of ``counts``, in rows.

    Returns
    -------
    (k,) estimated rows, >= 0, with sum ``total``.
    """
    prior = prior * total / prior.sum()
    atom = counts > prior + SIGNIFICANT * stddev
    estimate = np.where(atom, counts, 0.0)
    if atom.all() or estimate.sum() > total:
        return project_to_simplex(estimate, total)
    rest, left = ~atom, total - estimate.sum()
    share = prior[rest] * left / prior[rest].sum()
    if left > 1e-6:
        step = proportional_step(share, np.zeros(len(share)), counts[rest], ridge=stddev, total=left)
        share = share * step.factor
    estimate[rest] = share
    return estimate
