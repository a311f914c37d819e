"""The fit of the adaptive plan: one distribution from all noisy tables and second moments.  Post-processing."""

from __future__ import annotations

from dataclasses import replace

from synthdp.distribution.contingency import NoisyTable
from synthdp.distribution.markov_random_field import Graphical
from synthdp.distribution.protocol import Distribution
from synthdp.fit.graphical.max_entropy import MaxEntropy
from synthdp.fit.graphical.raking import Particles
from synthdp.fit.misfits import make_fitting
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.randomness import Generator


def consistent_tables(known: Knowledge) -> list[NoisyTable]:
    """Return all tables without misfits, made to agree, each with the noise scale that sets its ridge."""
    measured = [*known.one_way_tables, *known.tables]
    tables = make_fitting(measured, known.kept, known.misfits, total=known.total)
    return [replace(table, stddev=table.stddev * known.ridges.get(table.clique, 1.0)) for table in tables]


def fit_tree(known: Knowledge, settings: MaxEntropy) -> Graphical:
    """Fit the one-ways and the tables of the junction tree by maximum entropy."""
    inside = [table for table in consistent_tables(known) if len(table.clique) == 1 or table.clique in known.tree]
    return settings.fit(inside, known.domain.shape, total=known.total, allowed=known.zeros).model


def fit_distribution(known: Knowledge, *, settings: MaxEntropy, particles: Particles, rng: Generator) -> Distribution:
    """Fit everything that is known: the tree, then weighted rows where cliques off the tree or products are known.

    Parameters
    ----------
    known
        What was learned.
    settings
        Of the tree's fit.
    particles
        Of the weighted rows.
    rng
        Source of the rows.
    """
    model = fit_tree(known, settings)
    if set(known.off_tree) <= set(known.tree) and known.products is None:
        return model
    return particles.fit(model, consistent_tables(known), total=known.total, rng=rng, products=known.products)
