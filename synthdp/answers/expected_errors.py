"""The expected errors of a release's marginals, by the bootstrap, and the random samples that would be as accurate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.answers.answer import answer_engine
from synthdp.answers.bootstrap import Bootstrap
from synthdp.arrays import Clique, Codes, FloatArray
from synthdp.distribution.distribution import systematic_counts
from synthdp.measurements import Measurements
from synthdp.queries.contingency import cell_index, table_size
from synthdp.randomness import Generator, generator
from synthdp.sampling.synthetic_model import SyntheticModel

REPLICATES = 4
"""Bootstrap replicates over which expected errors are averaged.  More make the mean steadier and take longer.  A safety
limit of time."""

CLIQUES = 60
"""Marginals of each order over which expected errors are averaged, at most.  More make the mean steadier, and take
longer.  A safety limit of time."""

MOST_TABLE = 200_000
"""Cells of a marginal that enters the mean expected errors, at most; larger marginals are left out.  A safety limit of
memory."""

FEWEST_POINTS, MOST_POINTS, MOST_CODES = 6_000, 60_000, 900_000
"""Fewest and most pool points of the bootstrap for expected errors, and most codes (points times columns).

The pool has two points for each row, as rare combinations need, within these limits; at least `FEWEST_POINTS`.  More
points make errors more exact, and take more time and memory.  A convention."""


SEED = 0
"""Seed of the bootstrap, so that the page of a release is always the same.  A convention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorView:
    """The expected error of the marginals of one order.

    Parameters
    ----------
    order
        Number of columns.
    distance
        Mean expected total variation distance between marginals of the release and of the real table.
    like_rows
        Size of a random sample of the real rows with the same expected distance.
    tables
        Number of marginals in the mean.
    """

    order: int
    distance: float
    like_rows: int
    tables: int


def expected_errors(model: SyntheticModel, measurements: tuple[Measurements, ...]) -> list[ErrorView]:
    """Return the expected errors of marginals of one, two and three columns, an `ErrorView` each, by the bootstrap.

    An `ErrorView` holds the mean total variation distance, a fraction of the rows, over some marginals, and their
    number.  It also says how many rows of a random sample would be as accurate.  The list is empty if the mechanism
    does not report its noise.
    """
    direct = answer_engine(model, measurements).direct
    if direct.leaves(0) is None:
        return []
    rows = model.rows
    points = max(min(2 * rows, MOST_POINTS, MOST_CODES // len(model.domain)), FEWEST_POINTS)
    found = Bootstrap(direct, SEED, size=REPLICATES, points=points).replicates
    order = np.lexsort(found.codes.T[::-1])
    codes, rng = found.codes[order], generator(SEED)
    pairs = [
        (real[order] / real.sum(), systematic_counts(fitted[None, order], np.array([rows]), rng)[0] / rows)
        for real, fitted in zip(found.rows.T[1:], found.fitted.T[1:], strict=True)
        if real.sum() > 0  # of a table of a few rows the noise may leave none
    ]
    if not pairs:
        return []
    views = []
    for size in range(1, min(3, len(model.domain)) + 1):
        cliques = _some_cliques(model.domain.shape, size, rng)
        distances = [_distance(codes, pairs, model.domain.shape, clique) for clique in cliques]
        if distances:
            distance, spread = np.mean(distances, axis=0).tolist()
            like_rows = round((spread / max(2 * distance, 1e-9)) ** 2)
            views.append(ErrorView(order=size, distance=distance, like_rows=like_rows, tables=len(cliques)))
    return views


def _some_cliques(shape: tuple[int, ...], order: int, rng: Generator) -> list[Clique]:
    """Return at most `CLIQUES` random sets of ``order`` columns whose marginals have at most `MOST_TABLE` cells.

    The page states the mean of their expected errors.
    """
    cliques = [c for c in itertools.combinations(range(len(shape)), order) if table_size(shape, c) <= MOST_TABLE]
    chosen = rng.permutation(len(cliques))[:CLIQUES]
    return [cliques[i] for i in chosen]


def _distance(
    codes: Codes, pairs: Sequence[tuple[FloatArray, FloatArray]], shape: tuple[int, ...], clique: Clique
) -> tuple[float, float]:
    """Return the mean total variation distance of a clique's marginals, and their mean spread.

    Each pair in ``pairs`` holds weights of the points, real and released.  The spread is the sum of sqrt(2 p (1 - p) /
    pi) over cells: sqrt(k) times the L1 error of a random sample of k rows.  Both are means over the replicates.  The
    spread tells which sample would be as accurate.
    """
    cells, size = cell_index(codes, shape, clique), table_size(shape, clique)
    distance = spread = 0.0
    for real, released in pairs:
        p, q = (np.bincount(cells, weights, minlength=size) for weights in (real, released))
        distance += 0.5 * float(np.abs(p - q).sum())
        spread += float(np.sqrt(2 / math.pi * np.maximum(p * (1 - p), 0.0)).sum())
    return distance / len(pairs), spread / len(pairs)
