"""The numbers of a report about several columns: associations, and the error expected of marginals.

All from a release; post-processing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.answers.answer import asker
from synthdp.answers.error_bars.bootstrap import Bootstrap
from synthdp.arrays import Clique, Codes, FloatArray, GridIndices, IntArray
from synthdp.distribution.contingency import cell_index, table_size
from synthdp.distribution.systematic import systematic_counts
from synthdp.measurements import Measurements
from synthdp.randomness import Generator, generator
from synthdp.sampling.synthetic_model import SyntheticModel

REPLICATES = 4
CLIQUES = 60
MOST_TABLE = 200_000
FEWEST_POINTS, MOST_POINTS, MOST_CODES = 6_000, 60_000, 900_000
"""Of the pool in which the error of whole tables is found: of small tables two for each row, as rare combinations need.

At most so many codes, points times columns: of wide tables fewer points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorView:
    """The error expected of the marginals of one order.

    Parameters
    ----------
    order
        Number of columns.
    distance
        Mean total variation distance between the release's tables and the real ones, by chance and noise.
    like_rows
        So many rows drawn at random from the real table would be as far off.
    tables
        How many tables the mean is over.
    """

    order: int
    distance: float
    like_rows: int
    tables: int


def associations(model: SyntheticModel, indices: Mapping[str, GridIndices]) -> tuple[list[str], FloatArray]:
    """Return the columns and how closely each two go together in synthetic rows: Cramér's V with Bergsma's correction."""
    kept = [axis for axis in model.domain.axes if not model.schema[axis.name].names_rows]
    codes = [axis.cells_of(indices[axis.name]).astype(np.int64) for axis in kept]
    matrix = np.eye(len(kept))
    for a, b in itertools.combinations(range(len(kept)), 2):
        shape = (kept[a].size, kept[b].size)
        table = np.bincount(codes[a] * shape[1] + codes[b], minlength=shape[0] * shape[1]).reshape(shape)
        matrix[a, b] = matrix[b, a] = cramers_v(table)
    return [axis.name for axis in kept], matrix


def cramers_v(table: IntArray) -> float:
    """Return the association of two columns from their table of counts, from 0 to 1; corrected for chance (Bergsma 2013)."""
    of_rows, of_columns = table.sum(axis=1), table.sum(axis=0)
    rows, columns = np.count_nonzero(of_rows), np.count_nonzero(of_columns)
    n = float(of_rows.sum())
    if min(rows, columns) < 2:
        return 0.0
    expected = np.outer(of_rows, of_columns) / n
    difference = np.divide((table - expected) ** 2, expected, out=np.zeros(table.shape), where=expected > 0)
    phi = max(0.0, float(difference.sum()) / n - (rows - 1) * (columns - 1) / (n - 1))
    smaller = min(rows - (rows - 1) ** 2 / (n - 1), columns - (columns - 1) ** 2 / (n - 1)) - 1
    return min(1.0, math.sqrt(phi / smaller)) if smaller > 0 else 0.0  # as many groups as rows say nothing


def expected_errors(
    model: SyntheticModel, measurements: tuple[Measurements, ...], *, random_state: int = 0
) -> list[ErrorView]:
    """Return the error expected of marginals of one, two and three columns, by the bootstrap."""
    direct = asker(model, measurements).direct
    if direct.leaves(0) is None:
        return []
    rows = model.rows
    points = max(min(2 * rows, MOST_POINTS, MOST_CODES // len(model.domain)), FEWEST_POINTS)
    found = Bootstrap(direct, random_state, size=REPLICATES, points=points).replicates
    order = np.lexsort(found.codes.T[::-1])
    codes, rng = found.codes[order], generator(random_state)
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
    cliques = [c for c in itertools.combinations(range(len(shape)), order) if table_size(shape, c) <= MOST_TABLE]
    chosen = rng.permutation(len(cliques))[:CLIQUES]
    return [cliques[i] for i in chosen]


def _distance(
    codes: Codes, pairs: Sequence[tuple[FloatArray, FloatArray]], shape: tuple[int, ...], clique: Clique
) -> tuple[float, float]:
    """Return for pairs of weights of points, real and released, the mean distance of their tables of a clique.

    Also the mean sum of sqrt(2 p (1 - p) / pi): sqrt(k) times the L1 error of a random sample of k rows.
    """
    cells, size = cell_index(codes, shape, clique), table_size(shape, clique)
    distance = spread = 0.0
    for real, released in pairs:
        p, q = (np.bincount(cells, weights, minlength=size) for weights in (real, released))
        distance += 0.5 * float(np.abs(p - q).sum())
        spread += float(np.sqrt(2 / math.pi * np.maximum(p * (1 - p), 0.0)).sum())
    return distance / len(pairs), spread / len(pairs)
