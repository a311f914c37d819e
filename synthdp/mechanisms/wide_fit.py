"""The fit of a wide table: each connected component of columns is fitted on its own.  Post-processing of noisy answers.

One fit of all columns would take too much time and memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.arrays import MEAN_ABS, BoolArray, Clique
from synthdp.distribution.components import Components, Product
from synthdp.distribution.distribution import Distribution
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.markov_random_field import Graphical
from synthdp.fit.max_entropy import MODEL_SWEEPS, MaxEntropy
from synthdp.fit.out_of_domain import OutOfDomain
from synthdp.fit.raking import FEWEST_PARTICLES, MOST_SWEEPS, Particles
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.queries.contingency import NoisyTable, Shape, project_to_simplex
from synthdp.randomness import Generator

LEAST_EFFECTIVE = 0.05
"""Least effective sample size of the fitted weighted rows, as a fraction of their number.  With less, few rows carry
most of the weight, and half of the tables outside of the tree are dropped before the next try.  A numerical tolerance.
"""


def fit_components(known: Knowledge, *, settings: MaxEntropy, particles: Particles, rng: Generator) -> Components:
    """Fit each connected component of columns on its own, and return the product, in which components are independent.

    A wide table is too large for one fit.

    Parameters
    ----------
    known
        The noisy answers and estimates so far.
    settings
        Settings of the junction trees' fits.
    particles
        Settings of the fit by weighted rows, for components with tables off their junction tree.
    rng
        Random generator of the rows.
    """
    shape = known.domain.shape
    one_ways = known.one_way_tables
    groups = related([*known.zeros, *known.tree], len(shape))
    of_column = {j: g for g, columns in enumerate(groups) for j in columns}
    tables: list[list[NoisyTable]] = [[one_ways[j] for j in columns] for columns in groups]
    for table in known.tables:
        tables[of_column[table.clique[0]]].append(table)
    # for many components: with few rows and many sweeps the measured tables are still accurate
    of_groups = replace(
        particles, size=min(particles.size, FEWEST_PARTICLES), sweeps=max(particles.sweeps, MOST_SWEEPS)
    )
    parts: list[Distribution] = []
    for columns, measured in zip(groups, tables, strict=True):
        parts.append(_Component.of(known, columns, measured).fit(settings, of_groups, rng))
    alone = tuple(j for j in range(len(shape)) if j not in of_column)
    if alone:
        margins = [_in_domain_tables(known, (j,), [one_ways[j]])[0].counts for j in alone]
        total = max(known.total, settings.total_floor)
        rows = [project_to_simplex(margin, total) for margin in margins]
        parts.append(Product(shape=tuple(shape[j] for j in alone), margins=rows))
    return Components(shape=shape, columns=(*groups, *([alone] if alone else [])), parts=parts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Component:
    """The noisy answers about one connected component; cliques hold positions of columns within the component."""

    shape: Shape
    tables: list[NoisyTable]
    tree: frozenset[Clique]
    zeros: dict[Clique, BoolArray]
    total: float

    @classmethod
    def of(cls, known: Knowledge, columns: Clique, tables: list[NoisyTable]) -> _Component:
        """Return the noisy answers about a component's columns, with their tables and rules, to be fitted on their own."""
        place = {j: i for i, j in enumerate(columns)}
        ridges = {at_place(place, clique): ridge for clique, ridge in known.ridges.items() if clique[0] in place}
        return cls(
            shape=tuple(known.domain.shape[j] for j in columns),
            tables=[
                replace(table, stddev=table.stddev * ridges.get(table.clique, 1.0))
                for table in _in_domain_tables(known, columns, tables)
            ],
            tree=frozenset(at_place(place, clique) for clique in known.tree if clique[0] in place),
            zeros={at_place(place, clique): mask for clique, mask in known.zeros.items() if clique[0] in place},
            total=known.total,
        )

    def fit(self, settings: MaxEntropy, particles: Particles, rng: Generator) -> Distribution:
        """Fit this component: a junction tree, or weighted rows if tables outside of the tree exceed their noise.

        If the effective number of rows is too small, the weaker half of these tables is dropped and the fit repeated.
        """
        inside = [table for table in self.tables if len(table.clique) == 1 or table.clique in self.tree]
        beside = [table for table in self.tables if len(table.clique) > 1 and table.clique not in self.tree]
        if not beside:
            return self._tree(settings, inside)
        model = self._tree(replace(settings, max_sweeps=min(settings.max_sweeps, MODEL_SWEEPS)), inside)
        left_out = sorted(
            ((_beyond_noise(model, table, self.total), i) for i, table in enumerate(beside)), reverse=True
        )
        more = [beside[i] for gain, i in left_out if gain > 0]
        while more:
            found = particles.fit(model, [*inside, *more], total=self.total, rng=rng)
            if effective_rows(found) >= LEAST_EFFECTIVE * particles.size:
                return found
            more = more[: len(more) // 2]
        return self._tree(settings, inside)

    def _tree(self, settings: MaxEntropy, tables: list[NoisyTable]) -> Graphical:
        """Fit a junction tree by maximum entropy to tables that lie inside the tree."""
        return settings.fit(tables, self.shape, total=self.total, allowed=self.zeros).model


def effective_rows(distribution: Explicit) -> float:
    """Return the effective sample size of weighted rows: 1 / sum of squared weights (Kish 1965), for weights of sum 1.

    If it is too small, the fit is repeated with fewer tables; see `LEAST_EFFECTIVE`.
    """
    return float(1 / (distribution.weights**2).sum())


def _beyond_noise(model: Graphical, table: NoisyTable, total: float) -> float:
    """Return the L1 distance, in rows, of a noisy table from the model, less the mean distance that noise makes.

    Tables outside of the junction tree are fitted too if the result is above 0, the largest first.
    """
    distance = float(np.abs(table.counts - model.marginal(table.clique) * total).sum())
    noise = MEAN_ABS * table.stddev * table.counts.size
    return distance - noise


def _in_domain_tables(known: Knowledge, columns: Clique, tables: list[NoisyTable]) -> list[NoisyTable]:
    """Return noisy tables of some columns, with out-of-domain rows removed and common margins made equal.

    Their cliques hold positions within ``columns``.
    """
    place = {j: i for i, j in enumerate(columns)}
    local = [replace(table, clique=at_place(place, table.clique)) for table in tables]
    releasable = tuple(known.domain.axes[j].releasable for j in columns)
    out = OutOfDomain(releasable=releasable, rows=known.misfits[list(columns)], total=known.total)
    return list(out.consistent(local))


def at_place(place: Mapping[int, int], clique: Clique) -> Clique:
    """Translate a clique of table columns to positions within a component; ``place`` maps column to position."""
    return tuple(place[j] for j in clique)


def related(cliques: Sequence[Clique], columns: int) -> list[Clique]:
    """Return the connected components of columns joined by cliques; columns in no clique are left out.

    Each component is fitted on its own.
    """
    group: dict[int, set[int]] = {}
    for clique in cliques:
        union = set(clique).union(*(group[j] for j in clique if j in group))
        group.update(dict.fromkeys(union, union))
    return [tuple(sorted(group[j])) for j in range(columns) if j in group and j == min(group[j])]
