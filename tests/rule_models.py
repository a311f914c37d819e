"""Models of a schema with rules, made as the flagship makes them: structural zeros, coarse groups, uneven weights."""

from __future__ import annotations

import numpy as np

from synthdp.distribution.explicit import Explicit
from synthdp.distribution.junction_tree import junction_tree
from synthdp.distribution.markov_random_field import Graphical
from synthdp.domain.discretize import axis_of
from synthdp.domain.domain import Domain
from synthdp.domain.refinement import Refinement
from synthdp.sampling.structural_zeros import structural_zeros
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat


def model_of(schema: Schema, *, coarse: int = 4, bins: int = 16, seed: int = 0, particles: int = 0) -> SyntheticModel:
    """Return a model with random log-potentials on every rule's columns and random weights inside coarse cells.

    Parameters
    ----------
    schema
        With its rules.
    coarse
        Coarse cells of an ordered column; the fine ones are ``bins``.
    bins
        Fine cells of an ordered column.
    seed
        Of the potentials and weights.
    particles
        If above 0, the distribution is an explicit one of so many rows drawn from the tree.
    """
    rng = np.random.default_rng(seed)
    refinements = tuple(_refinement(name, column, coarse, bins, rng) for name, column in schema.items())
    domain = Domain(tuple(refinement.coarse() for refinement in refinements))
    zeros = {c: np.where(mask, 0.0, -np.inf) for c, mask in structural_zeros(schema, domain).items()}
    potentials = {c: zero + rng.normal(0, 1, len(zero)) for c, zero in zeros.items()}
    for j, axis in enumerate(domain.axes):
        potentials[(j,)] = np.where(axis.releasable, rng.normal(0, 0.5, axis.size), -np.inf)
    distribution = Graphical.calibrated(junction_tree(domain.shape, list(potentials)), potentials)
    if particles:
        codes = distribution.sample(particles, rng)
        distribution = Explicit(shape=domain.shape, codes=codes, weights=rng.random(particles))
    return SyntheticModel(
        schema=schema, domain=domain, distribution=distribution, refinements=refinements, total=1000.0,
        format=TableFormat.default(schema),
    )  # fmt: skip


def _refinement(name, column, coarse, bins, rng):
    fine = axis_of(name, column, bins=bins)
    regular = int((fine.starts < fine.grid.regular).sum())
    groups = np.arange(fine.size)
    groups[:regular] = np.arange(regular) * coarse // regular if fine.grid.ordered else np.arange(regular)
    groups = np.unique(groups, return_inverse=True)[1]
    groups[~fine.releasable] = groups[regular - 1]
    weights = rng.random(fine.size) * (rng.random(fine.size) < 0.8)
    return Refinement(fine, np.unique(groups, return_inverse=True)[1], weights)
