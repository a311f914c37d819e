"""Weighted rows of a model that have given tables exactly: iterative proportional fitting.  Post-processing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from synthdp.arrays import BoolArray, Clique, FloatArray, IntArray
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.protocol import Distribution
from synthdp.queries.contingency import cell_index
from synthdp.randomness import Generator

ROWS, MOST_ROWS = 100_000, 300_000
"""Fewest and most rows drawn from a model before they are raked to totals; between, twice the number of the table's
rows.  More keep the relations of the model better, but take more time and memory.  Tuned; not measured.
"""

SWEEPS, SETTLED = 500, 1e-9
"""Most rounds of raking, and the largest error of a total, as a fraction of all rows, at which it ends.  Numerical
tolerances.
"""

LARGE, FEW_SWEEPS = 2_000, 12
"""If the totals have more than LARGE cells, only FEW_SWEEPS rounds are made.  A safety limit of time; sampled rows are
moved to the totals exactly later.
"""

SPARE = 1e-3
"""Fraction of all weight given to rows that are made up where a total has rows and the model has none.  Raking sets it
right where totals ask for more; a larger one would disturb the model more.  Tuned; not measured.
"""


def raked_exactly(
    model: Distribution,
    totals: Sequence[tuple[Clique, FloatArray]],
    *,
    zeros: Mapping[Clique, BoolArray],
    rng: Generator,
    rows: float = ROWS,
) -> Explicit:
    """Return weighted rows of a model that have public totals exactly, by iterative proportional fitting.

    Where totals have rows and the model has none, rows of the model are given the values that are missing, unless a
    rule forbids it.  Totals that rules forbid are missed, and totals of very many cells are met only nearly; see
    `LARGE`.

    Parameters
    ----------
    model
        What to keep as near as possible, in relative entropy.
    totals
        For some cliques the (cells,) rows, which agree with each other; all sums are the same.
    zeros
        For some cliques, which combinations may occur.
    rng
        Source of rows, where the model is no list of them.
    rows
        About how many rows the table has.
    """
    shape = model.shape
    if isinstance(model, Explicit):
        codes, weights = np.asarray(model.codes), np.asarray(model.weights)
    else:
        size = int(min(max(ROWS, 2 * rows), MOST_ROWS))
        codes = np.asarray(model.sample(size, rng))
        weights = np.full(size, 1 / size)
    for clique, counts in totals:
        there = np.bincount(cell_index(codes, shape, clique), weights, minlength=len(counts)) > 0
        empty = np.flatnonzero((counts > 0) & ~there)
        if len(empty):
            each = -(-len(codes) // (10 * len(empty)))
            made = codes[rng.choice(len(codes), size=each * len(empty), p=weights)].astype(np.int64)
            values = np.unravel_index(np.repeat(empty, each), [shape[j] for j in clique])
            for j, value in zip(clique, values, strict=True):
                made[:, j] = value
            allowed = np.ones(len(made), np.bool_)
            for rule, mask in zeros.items():
                allowed &= mask[cell_index(made, shape, rule)]
            made = made[allowed]
            weights = np.concatenate([weights * (1 - SPARE), np.full(len(made), SPARE / max(len(made), 1))])
            codes = np.vstack([codes, made.astype(codes.dtype)])
    cells: list[IntArray] = [np.asarray(cell_index(codes, shape, clique), np.int64) for clique, _ in totals]
    sweeps = SWEEPS if sum(len(counts) for _, counts in totals) <= LARGE else FEW_SWEEPS
    for _ in range(sweeps):
        moved = 0.0
        for (_, counts), cell in zip(totals, cells, strict=True):
            wanted = counts / counts.sum()
            now = np.bincount(cell, weights, minlength=len(counts))
            moved = max(moved, float(np.abs(wanted - now).max()))
            weights = weights * np.divide(wanted, now, out=np.zeros(len(now)), where=now > 0)[cell]
        if moved < SETTLED:
            break
    return Explicit(shape=shape, codes=codes, weights=weights)
