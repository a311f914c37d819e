"""Second moments of the numbers of a table: products of the scores of every two columns, for a small share of the budget.

The first terms of the polynomial basis on pairs of columns.  Where a table of a pair is not worth its noise, one number
often is; `fit.product_tilt` fits them all beside the tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.curator.curator import Curator
from synthdp.domain.domain import Domain
from synthdp.domain.refinement import Refinement
from synthdp.fit.graphical.moment_matching import NoisyProducts
from synthdp.measurements import Measurements
from synthdp.mechanisms.budget import Purse
from synthdp.mechanisms.workload import Workload
from synthdp.queries.products import ClippedProducts

RESOLUTION = 64
"""Scores are whole multiples of 1 / RESOLUTION standard deviations."""

FARTHEST = 20.0
"""Largest score, in standard deviations."""

NORM = 2.5
"""A row's products are clipped at this multiple of their root mean square norm if the columns were independent."""

MOST_SHARE = 0.05
"""Most of the budget that is spent on products."""

AIM = 0.01
"""Noise in a correlation below which no more is spent."""

MOST_NOISE = 0.12
"""Noise in a correlation above which nothing is spent: it could hardly be told from chance."""

MOST_COLUMNS = 32
"""With more columns than this there are too many products."""


class Products(NamedTuple):
    """What was measured, as the fit needs it and as it was answered, and the share of the purse that it took.

    Costs nothing: a record of noisy answers.
    """

    noisy: NoisyProducts
    answers: Measurements
    spent: float


def measure_products(
    curator: Curator,
    purse: Purse,
    *,
    left: float,
    refinements: Sequence[Refinement],
    margins: Sequence[FloatArray],
    total: float,
    workload: Workload,
) -> Products | None:
    """Measure the products of all columns that have scores, or nothing where noise would drown them.

    Costs at most ``left`` times `MOST_SHARE` of the purse, for the curator's neighbours.

    Parameters
    ----------
    curator, purse
        Whom to ask, and the whole budget.
    left
        Share of the purse that is left.
    refinements
        Of all columns, coarse cells and leaves.
    margins
        Estimated counts of their coarse cells.
    total
        Estimated number of rows.
    workload
        What matters; columns of weight 0 have no score.
    """
    scored = {j: scores(refinements[j], margins[j]) for j in range(len(margins)) if workload.weight((j,)) > 0}
    found = {j: score for j, score in scored.items() if score is not None}
    if not 2 <= len(found) <= MOST_COLUMNS:
        return None
    norm = int(NORM * math.sqrt(math.comb(len(found), 2)) * RESOLUTION**2)
    domain = Domain(tuple(refinements[j].coarse() for j in found))
    queries = ClippedProducts(domain, tuple(found.values()), RESOLUTION, norm)
    most = MOST_SHARE * left
    noise = purse.stddev(queries.bounds, most, k=queries.k) / queries.unit / total
    if noise > MOST_NOISE:
        return None
    share = most * min(1.0, noise / AIM) ** (1 / purse.exponent)
    answers = curator.measure(queries, spend=purse.part(share), step="products of columns")
    noisy = NoisyProducts(
        queries=queries, columns=tuple(found), means=answers.answers / total, stddev=answers.stddev / total
    )
    return Products(noisy, answers, share)


def scores(refinement: Refinement, margin: FloatArray) -> IntArray | None:
    """Return the standardised mean value of each coarse cell, or None for a column without order.

    A column of two cells has an order.  Cells without values, as the missing one, get 0: the mean.

    Costs nothing: post-processing.

    Parameters
    ----------
    refinement
        The column's coarse cells and their leaves.
    margin
        (coarse,) their estimated counts.
    """
    fine, cell, coarse = refinement.fine, refinement.coarse_cell, len(margin)
    values, mass = np.arange(coarse, dtype=np.float64), np.ones(coarse)
    if fine.grid.ordered:
        weights = np.where(np.isfinite(fine.points), refinement.weights, 0.0)
        mass = np.asarray(np.bincount(cell, weights=weights, minlength=coarse))
        moment = np.bincount(cell, weights=weights * np.nan_to_num(fine.points), minlength=coarse)
        values = np.divide(moment, mass, out=np.zeros(coarse), where=mass > 0)
    elif coarse != 2:
        return None
    share = np.where(mass > 0, margin, 0.0)
    if share.sum() <= 0:
        return None
    share = share / share.sum()
    centred = np.where(mass > 0, values - share @ values, 0.0)
    spread = math.sqrt(share @ centred**2)
    if spread <= 0:
        return None
    return np.rint(np.clip(centred / spread, -FARTHEST, FARTHEST) * RESOLUTION).astype(np.int64)
