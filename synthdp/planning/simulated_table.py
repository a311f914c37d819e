"""Simulated rows for a schema, for a dry run: skewed columns that a few common factors tie together.

How closely real columns hang together cannot be known without reading them; what is assumed instead stands here.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaincinv, ndtr

from synthdp.arrays import FloatArray, GridIndices
from synthdp.domain.grid import grid_of
from synthdp.randomness import Generator
from synthdp.schema.columns import Column
from synthdp.schema.schema import Schema

LOADINGS = (0.95, 0.9, 0.7, 0.1)
"""How much of each assumed column, in turn, a common factor explains: from nearly all to nothing."""

FACTORS = 2
"""Common factors of the assumed table."""

ZIPF = 2.4
"""Exponent of the assumed frequencies of levels."""

SHAPE = (1.2, 3.3)
"""Of the beta law that numbers are assumed to have between their bounds."""

AT_LOWEST = 0.95
"""Share of rows at the lowest value, in every third column of numbers, as in amounts that few people have.

These are set so that the predicted errors of two public tables, Adult and hmeq, come near those measured at epsilon .1, 1
and 10 (benchmarks/utility/plans.py).
"""

MISSING = 0.06
"""Share of missing values in columns that may have some."""


def simulated_table(schema: Schema, rows: int, rng: Generator) -> dict[str, GridIndices]:
    """Return simulated rows, (rows,) grid points for each column; a function of the schema and the seed alone."""
    factors = rng.standard_normal((rows, FACTORS))
    indices: dict[str, GridIndices] = {}
    numbers = 0
    for j, (name, column) in enumerate(schema.items()):
        loading = LOADINGS[j % len(LOADINGS)]
        own = rng.standard_normal(rows)
        latent = loading * factors[:, (j // 2) % FACTORS] + math.sqrt(1 - loading**2) * own
        numbers += grid_of(column).ordered
        mass = AT_LOWEST if grid_of(column).ordered and numbers % 3 == 0 else 0.0
        indices[name] = _column(column, ndtr(latent), mass, rng)
    return indices


def _column(column: Column, uniform: FloatArray, mass: float, rng: Generator) -> GridIndices:
    grid = grid_of(column)
    if grid.ordered:
        above = np.maximum(uniform - mass, 0.0) / (1 - mass)
        chosen = (betaincinv(*SHAPE, above) * grid.regular).astype(np.int64)
    else:
        weights = 1 / np.arange(1, grid.regular + 1) ** ZIPF
        steps = np.cumsum(weights / weights.sum())
        chosen = np.searchsorted(steps, uniform)
    chosen = np.minimum(chosen, grid.regular - 1)
    if grid.null is not None:
        chosen = np.where(rng.random(len(uniform)) < MISSING, grid.null, chosen)
    return np.asarray(chosen.astype(np.uint32))
