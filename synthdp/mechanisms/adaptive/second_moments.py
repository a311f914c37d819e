"""Second moments of the numbers of a table: products of the scores of every two columns, for a small share of the budget.

The first terms of the polynomial basis on pairs of columns.  Where a table of a pair is not worth its noise, one number
often is; `fit.graphical.moment_matching` fits them all beside the tables.  Those that stand out are asked again, each
clipped by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import expit

from synthdp.arrays import Clique, FloatArray, IntArray
from synthdp.curator import Curator
from synthdp.domain.domain import Domain
from synthdp.domain.refinement import Refinement
from synthdp.fit.graphical.moment_matching import NoisyProducts
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.energies import Relation
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.workload import Workload
from synthdp.queries.products import ClippedProducts, PairProducts, Products

RESOLUTION = 64
"""Scores are whole multiples of 1 / RESOLUTION standard deviations.  A numerical tolerance."""

FARTHEST = 20.0
"""Largest score, in standard deviations.  A safety limit."""

NORM = 1.4
"""A row's products are clipped at this multiple of their root mean square norm if the columns were independent."""

MOST_SHARE = 0.05
"""Most of the budget that is spent on products."""

AIM = 0.01
"""Noise in a correlation below which no more is spent."""

MOST_NOISE = 0.1
"""Noise in a correlation above which nothing is spent: it could hardly be told from chance."""

STRONG, MOST_STRONG = 3.0, 6
"""Products of so many standard deviations of their noise are strong; and how many of them are measured again."""

AIM_OF_STRONG = 0.03
"""Noise in the correlation of strong ones below which no more is spent."""

MOST_COLUMNS = 32
"""With more columns than this there are too many products.  A safety limit."""


def measure_second_moments(known: Knowledge, account: Curator, workload: Workload) -> Knowledge:
    """Measure the products of all columns that have scores, or nothing where noise would drown them.

    Costs at most `MOST_SHARE` of what is left, for the curator's neighbours.

    Parameters
    ----------
    known
        With groups of every column, and what is left of the budget.
    account
        Whom to ask.
    workload
        What matters; columns of weight 0 have no score, nor have those with misfits.
    """
    pairs = zip(known.refinements, known.margins, strict=True)
    fits = known.misfits == 0  # rows with misfits would weaken products by a share that no answer says
    scored = {j: scores(*pair) for j, pair in enumerate(pairs) if workload.weight((j,)) > 0 and fits[j]}
    found = {j: score for j, score in scored.items() if score is not None}
    if not 2 <= len(found) <= MOST_COLUMNS:
        return known
    norm = int(NORM * math.sqrt(math.comb(len(found), 2)) * RESOLUTION**2)
    domain = Domain(tuple(known.domain.axes[j] for j in found))
    queries = ClippedProducts(domain, tuple(found.values()), RESOLUTION, norm)
    most = MOST_SHARE * known.left.share
    noise = known.left.stddev(queries.bounds, most, k=queries.k) / queries.denominator / known.total
    if noise > MOST_NOISE:
        return known
    part, left = known.left.take(most * min(1.0, noise / AIM) ** (1 / known.left.exponent))
    answers = account.measure(queries, spend=part.loss, step="pairwise products of rank scores")
    products = _mean_products(known, queries, answers)
    known = replace(known.with_answers(answers, left=left), products=(products,))
    return _measure_strongest(known, account, products)


def likely_products(
    products: Sequence[NoisyProducts], related: Mapping[Clique, Relation], unknown: Relation, *, total: float
) -> tuple[NoisyProducts, ...]:
    """Return products times how likely it is that the columns are related: a product of noise alone relates columns, too.

    Parameters
    ----------
    products
        Noisy means, the same pair perhaps by several questions.
    related
        What scores say of pairs.
    unknown
        What to think of other pairs.
    total
        Number of rows.
    """
    log_odds: dict[Clique, float] = {}
    for asked in products:
        for pair, mean in zip(_pairs(asked), asked.means, strict=True):
            one = related.get(pair, unknown)
            start = math.log(max(1 - one.none, 1e-300)) - math.log(max(one.none, 1e-300))
            ratio = 1 + (one.distance / total / asked.stddev) ** 2  # a correlation is about the distance it makes
            evidence = 0.5 * (mean / asked.stddev) ** 2 * (1 - 1 / ratio) - 0.5 * math.log(ratio)
            log_odds[pair] = log_odds.get(pair, start) + evidence
    return tuple(
        replace(asked, means=asked.means * np.array([expit(log_odds[pair]) for pair in _pairs(asked)]))
        for asked in products
    )


def _pairs(products: NoisyProducts) -> list[Clique]:
    """Return the columns of each product, in order."""
    left, right = products.queries.pairs
    both = (sorted((products.columns[a], products.columns[b])) for a, b in zip(left, right, strict=True))
    return [(a, b) for a, b in both]


def _mean_products(known: Knowledge, queries: Products, answers: Measurements) -> NoisyProducts:
    return NoisyProducts(
        queries=queries,
        columns=known.domain.index(*queries.domain.names),
        means=answers.answers / known.total,
        stddev=answers.stddev / known.total,
    )


def _measure_strongest(known: Knowledge, account: Curator, products: NoisyProducts) -> Knowledge:
    """Measure the products that stand out from their noise again, each clipped by itself: few products of a row are short.

    Costs at most `MOST_SHARE` of what is left, for the curator's neighbours.
    """
    size = np.abs(products.means)
    strongest = [i for i in np.argsort(-size, kind="stable")[:MOST_STRONG] if size[i] > STRONG * products.stddev]
    if products.stddev <= AIM_OF_STRONG or not strongest:
        return known
    asked = products.queries
    left_side, right_side = asked.pairs
    chosen = tuple((int(left_side[i]), int(right_side[i])) for i in strongest)
    queries = PairProducts(asked.domain, asked.scores, chosen, RESOLUTION, int(NORM * RESOLUTION**2))
    most = MOST_SHARE * known.left.share
    noise = known.left.stddev(queries.bounds, most, k=queries.k) / queries.denominator / known.total
    part, left = known.left.take(most * min(1.0, noise / AIM_OF_STRONG) ** (1 / known.left.exponent))
    answers = account.measure(queries, spend=part.loss, step="pairwise products of rank scores, strongest pairs")
    again = _mean_products(known, queries, answers)
    return replace(known.with_answers(answers, left=left), products=(*known.products, again))


def scores(refinement: Refinement, margin: FloatArray) -> IntArray | None:
    """Return the score of each group of a column: its standardised rank, in multiples of 1 / RESOLUTION.

    That of its middle row, by the estimated rows: ranks have no tails, so that products of them are clipped near their
    usual norm, at half the noise that products of values need.  Groups without a value, such as the missing one, get 0,
    which is the mean.

    Parameters
    ----------
    refinement
        The groups of the column and their leaves.
    margin
        (groups,) their estimated rows.

    Returns
    -------
    (groups,) whole numbers; None for a column of more than two groups that has no order, and for one without spread.
    """
    fine, group, groups = refinement.fine, refinement.coarse_cell, len(margin)
    values, mass = np.arange(groups, dtype=np.float64), np.ones(groups)
    if fine.grid.ordered:
        weights = np.where(np.isfinite(fine.points), refinement.weights, 0.0)
        mass = np.asarray(np.bincount(group, weights=weights, minlength=groups))
        moment = np.bincount(group, weights=weights * np.nan_to_num(fine.points), minlength=groups)
        values = np.divide(moment, mass, out=np.zeros(groups), where=mass > 0)
    elif groups != 2:
        return None
    share = np.where(mass > 0, margin, 0.0)
    if share.sum() <= 0:
        return None
    share = share / share.sum()
    order = np.argsort(values, kind="stable")
    ranks = np.empty(groups)
    ranks[order] = np.cumsum(share[order]) - share[order] / 2
    centred = np.where(mass > 0, ranks - share @ ranks, 0.0)
    spread = math.sqrt(share @ centred**2)
    if spread <= 0:
        return None
    return np.rint(np.clip(centred / spread, -FARTHEST, FARTHEST) * RESOLUTION).astype(np.int64)
