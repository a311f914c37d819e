"""Second moments of the numbers of a table: products of the scores of every two columns, for a small share of the budget.

The first terms of the polynomial basis on pairs of columns.  Where a table of a pair is not worth its noise, one number
often is; `fit.moment_matching` fits them all beside the tables.  Those that stand out are asked again, each
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
from synthdp.fit.moment_matching import NoisyProducts
from synthdp.mechanisms.adaptive.energies import Relation
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.workload import Workload
from synthdp.queries.products import ClippedProducts, PairProducts, Products

RESOLUTION = 64
"""Rank scores of values are rounded to multiples of 1 / RESOLUTION standard deviations, so that their products are
whole numbers.  A numerical tolerance.
"""

FARTHEST = 20.0
"""Largest rank score of a value, in standard deviations; larger ones are clipped.  A safety limit."""

NORM = 1.4
"""The products of a row's scores are clipped to an L2 norm of NORM times their root mean square under independence,
which bounds the sensitivity.  A larger one clips fewer rows, but needs more noise.  Tuned; no sweep is on record.
"""

MOST_SHARE = 0.05
"""Largest fraction of the remaining budget spent on products of all pairs, and once more on the strongest pairs.
More makes correlations better, and the tables of pairs worse.  Tuned; no sweep is on record.
"""

AIM = 0.01
"""Standard deviation of the noise in a correlation that is good enough, so that no more is spent.  A tolerance: chance
alone moves a correlation of 10 000 rows as much.
"""

MOST_NOISE = 0.1
"""If the noise in a correlation would exceed this standard deviation, nothing is spent: few correlations would stand
out.  A larger one also spends where only strong correlations would show.  Tuned; no sweep is on record.
"""

STRONG, MOST_STRONG = 3.0, 6
"""A product is measured a second time if it exceeds STRONG standard deviations of its noise, at most MOST_STRONG of
them.  A smaller STRONG would ask again of mere noise, a larger MOST_STRONG leave more noise in each.  Tuned; ablation
in docs/benchmarks/planner.md.
"""

AIM_OF_STRONG = 0.03
"""Standard deviation of the noise in the strongest correlations that is good enough, so that no more is spent on
them.  A smaller one makes them surer, and leaves less for tables.  Tuned; no sweep is on record.
"""

MOST_COLUMNS = 32
"""With more columns than this no products are measured, as there would be too many.  A safety limit."""


def measure_second_moments(known: Knowledge, account: Curator, workload: Workload) -> Knowledge:
    """Measure the mean product of rank scores (a rank correlation) of every two columns.

    Nothing where noise would drown them, nor with fewer than 2 or more than `MOST_COLUMNS` scored columns.

    Costs at most twice `MOST_SHARE` of what is left, as the strongest are measured again, for the curator's neighbours.

    Parameters
    ----------
    known
        With groups of every column, and what is left of the budget.
    account
        The curator that answers.
    workload
        The workload; columns of weight 0 have no score, nor have columns with out-of-domain values.
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
    if _noise(known, queries) > MOST_NOISE:
        return known
    known = _measured(known, account, queries, aim=AIM, step="pairwise products of rank scores")
    return _measure_strongest(known, account)


def likely_products(
    products: Sequence[NoisyProducts], related: Mapping[Clique, Relation], unknown: Relation, *, total: float
) -> tuple[NoisyProducts, ...]:
    """Return the noisy products, each times the probability that its columns are related.

    Else pure noise would make the fit relate unrelated columns.

    Parameters
    ----------
    products
        Noisy means, the same pair perhaps by several questions.
    related
        The relation of each scored pair: its probability and its distance.
    unknown
        The relation that any other pair is taken to have.
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
    """Return the pair of table columns of each product, each pair sorted, in the order of the answers.

    The relation that noisy scores show is looked up by this pair.
    """
    left, right = products.queries.pairs
    both = (sorted((products.columns[a], products.columns[b])) for a, b in zip(left, right, strict=True))
    return [(a, b) for a, b in both]


def _noise(known: Knowledge, queries: Products) -> float:
    """Return the standard deviation of the noise in a mean product if `MOST_SHARE` of what is left is spent.

    Nothing is spent where it is too large, and less where it is small enough.
    """
    most = MOST_SHARE * known.left.share
    return known.left.stddev(queries.bounds, most, k=queries.k) / queries.denominator / known.total


def _measured(known: Knowledge, account: Curator, queries: Products, *, aim: float, step: str) -> Knowledge:
    """Measure mean products over the rows, with noise ``aim`` if `MOST_SHARE` of what is left suffices, else more.

    Costs at most that fraction, for the curator's neighbours.
    """
    less = min(1.0, _noise(known, queries) / aim) ** (1 / known.left.exponent)
    part, left = known.left.take(MOST_SHARE * known.left.share * less)
    answers = account.measure(queries, spend=part.loss, step=step)
    products = NoisyProducts(
        queries=queries,
        columns=known.domain.index(*queries.domain.names),
        means=answers.answers / known.total,
        stddev=answers.stddev / known.total,
    )
    return replace(known.with_answers(answers, left=left), products=(*known.products, products))


def _measure_strongest(known: Knowledge, account: Curator) -> Knowledge:
    """Measure the products that stand out of their noise once more, each clipped on its own.

    Few products of a row have a small norm, so that the noise is lower.  Costs at most `MOST_SHARE` of what is left,
    for the curator's neighbours.
    """
    products = known.products[-1]
    size = np.abs(products.means)
    strongest = [i for i in np.argsort(-size, kind="stable")[:MOST_STRONG] if size[i] > STRONG * products.stddev]
    if products.stddev <= AIM_OF_STRONG or not strongest:
        return known
    asked = products.queries
    left_side, right_side = asked.pairs
    chosen = tuple((int(left_side[i]), int(right_side[i])) for i in strongest)
    queries = PairProducts(asked.domain, asked.scores, chosen, RESOLUTION, int(NORM * RESOLUTION**2))
    step = "pairwise products of rank scores, strongest pairs"
    return _measured(known, account, queries, aim=AIM_OF_STRONG, step=step)


def scores(refinement: Refinement, margin: FloatArray) -> IntArray | None:
    """Return the score of each group of a column: its standardised mid-rank, in multiples of 1 / RESOLUTION.

    Ranks have no tails, so that products of scores can be clipped near their usual norm, at half the noise that
    products of values need.  Groups without a value, such as the missing one, get 0, the mean.

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
