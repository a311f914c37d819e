"""Models of a schema with rules, made as the flagship makes them: structural zeros, coarse groups, uneven weights."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from synthdp.distribution.explicit import Explicit
from synthdp.distribution.junction_tree import junction_tree
from synthdp.distribution.markov_random_field import Graphical
from synthdp.domain.domain import Domain, axis_of
from synthdp.domain.grid import labels_of
from synthdp.domain.refinement import Refinement
from synthdp.sampling.structural_zeros import structural_zeros
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.columns import Boolean, Categorical, Integer
from synthdp.schema.constraints import CalendarDate, Combinations, Forbidden, Iff, Implies, LessEqual
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


SMALL = {
    "a": st.builds(Integer, st.integers(0, 2), st.integers(3, 6), nullable=st.booleans()),
    "b": st.builds(Integer, st.integers(-2, 1), st.integers(2, 4), nullable=st.booleans()),
    "c": st.builds(Integer, st.integers(0, 1), st.integers(2, 3), special=st.sampled_from([(), (9,), (1,), (-1, 2)])),
    "f": st.just(Boolean()) | st.just(Boolean(nullable=True)),
    "l": st.just(Categorical(["u", "v", "w"])) | st.just(Categorical(["u", "v"], other="o")),
}
DATE = {
    "y": st.builds(Integer, st.integers(1899, 1900), st.integers(1901, 1904), nullable=st.booleans()),
    "m": st.builds(Integer, st.integers(1, 4), st.integers(5, 6), special=st.sampled_from([(), (9,), (4,)])),
    "d": st.builds(Integer, st.integers(27, 29), st.integers(30, 31), nullable=st.booleans()),
}


@st.composite
def small_schemas(draw):
    """Draw schemas of few values with up to six rules of all kinds, which may contradict each other."""
    columns = {name: draw(column) for name, column in SMALL.items()}

    def some(name):
        column = columns[name]
        levels = (
            [column.lower, column.upper, (column.lower, column.lower + 1), (column.upper - 1, column.upper)]
            if isinstance(column, Integer)
            else list(labels_of(column))
        )
        levels += [None] if column.nullable else []
        return draw(st.lists(st.sampled_from(levels), min_size=1, max_size=3))

    def values(names):
        return {name: some(name) for name in names}

    rules = []
    for _ in range(draw(st.integers(1, 6))):
        names = draw(st.permutations([*SMALL]))
        orders = [name for name in names if isinstance(columns[name], Integer)]
        listed = tuple(names[: draw(st.integers(2, 3))])
        rules.append(
            draw(
                st.sampled_from(
                    [
                        LessEqual(orders[0], orders[1]),
                        Forbidden(values(names[:2])),
                        Forbidden(values(names[:3])),
                        Implies(values(names[:1]), values(names[1:2])),
                        Implies(values(names[:2]), values(names[2:4])),
                        Iff(values(names[:1]), values(names[1:3])),
                        Combinations(listed, [[some(name) for name in listed] for _ in range(draw(st.integers(1, 5)))]),
                    ]
                )
            )
        )
    return Schema(columns, constraints=rules)


@st.composite
def dated_schemas(draw):
    """Draw schemas of a date, with and without a year."""
    columns = {name: draw(column) for name, column in DATE.items()}
    return Schema(columns, constraints=[CalendarDate(draw(st.sampled_from(["y", None])), "m", "d")])
