"""Second moments of numeric columns: mean products of the scores of every two columns, for a small share of the budget.

The products are the first terms of the polynomial basis on pairs of columns.  Where the table of a pair gains less than
its noise, one mean product often gains more.  `fit.moment_matching` fits all products together with the tables.  The
significant products are measured again, each clipped on its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy.special import expit

from synthdp.arrays import Clique, FloatArray, IntArray
from synthdp.curator import Curator
from synthdp.domain.domain import Domain
from synthdp.domain.refinement import Refinement
from synthdp.fit.moment_matching import NoisyProducts
from synthdp.mechanisms.adaptive.energies import TYPICAL, EstimatedRelation
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.measuring import DENOMINATOR, ask
from synthdp.mechanisms.adaptive.shares import SCREEN
from synthdp.mechanisms.column_rounding import BEYOND
from synthdp.mechanisms.workload import Workload
from synthdp.queries.products import ClippedProducts, PairProducts, Products

FARTHEST = 20.0
"""Largest rank score of a value, in standard deviations of the ranks; larger scores are clipped. Ranks of a column with
nearly all rows in one bin have hardly any spread. Scores of its rare bins would grow without limit. A safety limit."""

NORM = 1.4
"""The products of a row's scores are clipped to an L2 norm of NORM times their root mean square under independence,
which bounds the sensitivity.  A larger value clips fewer rows, but needs more noise.  Tuned: half and twice of it
change the three-way error of five tables by +.3 and +.9 % (docs/benchmarks/constants.md).
"""

AIM = 0.01
"""Standard deviation of the noise in a correlation at which no more budget is spent.  A tolerance: chance alone moves a
correlation of 10 000 rows as much."""

MOST_STRONG = 6
"""Most products that are measured a second time.  A larger value leaves more noise in each product.  Tuned (ablation in
docs/benchmarks/planner.md): half and twice of it change the three-way error of five tables by +.5 and +.5 %
(docs/benchmarks/constants.md).  Without a limit, releases keep .83 of hmeq's strong correlations instead of .87, and .86
of credit's instead of .91."""

MOST_COLUMNS = 32
"""Most scored columns for which products are measured. 32 columns have 496 products.  The noise in each product grows
with the root of their number.  A safety limit."""


def measure_second_moments(known: Knowledge, account: Curator, workload: Workload) -> Knowledge:
    """Measure the mean product of rank scores (a rank correlation) of every two columns.

    Nothing is measured if the noise in a product would exceed a typical correlation (`TYPICAL`).  Nor is anything with
    fewer than 2 or more than `MOST_COLUMNS` scored columns.

    Costs at most twice the fraction `SCREEN` of the remaining budget, for the curator's neighbours.  The second
    half is for measuring the strongest products again.

    Parameters
    ----------
    known
        The plan's state, with coarse bins of every column and the remaining budget.
    account
        The curator that answers.
    workload
        The workload.  Columns of weight 0 have no score, nor have columns with out-of-domain values.
    """
    pairs = zip(known.refinements, known.margins, strict=True)
    fits = known.misfits == 0  # out-of-domain rows would shrink products by an unknown factor
    scored = {j: scores(*pair) for j, pair in enumerate(pairs) if workload.weight((j,)) > 0 and fits[j]}
    found = {j: score for j, score in scored.items() if score is not None}
    if not 2 <= len(found) <= MOST_COLUMNS:
        return known
    norm = int(NORM * math.sqrt(math.comb(len(found), 2)) * DENOMINATOR**2)
    domain = Domain(tuple(known.domain.axes[j] for j in found))
    queries = ClippedProducts(domain, tuple(found.values()), DENOMINATOR, norm)
    if _noise_of_products(known, queries) > TYPICAL[2]:
        return known
    known = _measure_products(known, account, queries, step="pairwise products of rank scores")
    return _measure_strongest(known, account)


def with_likely_products(known: Knowledge, related: Mapping[Clique, EstimatedRelation]) -> Knowledge:
    """Return the plan's state with each noisy product multiplied by the probability that its columns are related.

    Without this factor, pure noise would make the fit relate unrelated columns.  A pair that was never scored is as
    likely related as not, with a typical distance, as in the prior of scores.

    Parameters
    ----------
    known
        The plan's state, with noisy mean products; a pair may be in several questions.
    related
        The relation of each scored pair: its probability and its distance.
    """
    unknown = EstimatedRelation(0.5, TYPICAL[2] * known.total)
    log_odds: dict[Clique, float] = {}
    for asked in known.products:
        for pair, mean in zip(_pairs(asked), asked.means, strict=True):
            one = related.get(pair, unknown)
            start = math.log(max(1 - one.none, 1e-300)) - math.log(max(one.none, 1e-300))
            # A correlation is about as large as its L1 distance.
            ratio = 1 + (one.distance / known.total / asked.stddev) ** 2
            evidence = 0.5 * (mean / asked.stddev) ** 2 * (1 - 1 / ratio) - 0.5 * math.log(ratio)
            log_odds[pair] = log_odds.get(pair, start) + evidence
    products = tuple(
        replace(asked, means=asked.means * np.array([expit(log_odds[pair]) for pair in _pairs(asked)]))
        for asked in known.products
    )
    return replace(known, products=products)


def _pairs(products: NoisyProducts) -> list[Clique]:
    """Return the pair of table columns of each product, each pair sorted, in the order of the answers.

    The relation of each product's columns is looked up by this pair.
    """
    left, right = products.queries.pairs
    both = (sorted((products.columns[a], products.columns[b])) for a, b in zip(left, right, strict=True))
    return [(a, b) for a, b in both]


def _noise_of_products(known: Knowledge, queries: Products) -> float:
    """Return the standard deviation of the noise in a mean product if the fraction `SCREEN` of the budget is spent.

    The budget is the remaining budget.  If the noise is too large, nothing is spent; if it is smaller than needed, less
    is spent.
    """
    most = SCREEN * known.left.share
    return known.left.stddev(queries.bounds, most, k=queries.k) / queries.denominator / known.total


def _measure_products(known: Knowledge, account: Curator, queries: Products, *, step: str) -> Knowledge:
    """Measure mean products over the rows and return the plan's new state.

    The noise stddev of each mean is `AIM` if the fraction `SCREEN` of the remaining budget buys it, else larger.
    Costs at most that fraction, for the curator's neighbours.
    """
    less = min(1.0, _noise_of_products(known, queries) / AIM) ** (1 / known.left.exponent)
    known, answers = ask(known, account, queries, share=SCREEN * known.left.share * less, step=step)
    products = NoisyProducts(
        queries=queries,
        columns=known.domain.index(*queries.domain.names),
        means=answers.answers / known.total,
        stddev=answers.stddev / known.total,
    )
    return replace(known, products=(*known.products, products))


def _measure_strongest(known: Knowledge, account: Curator) -> Knowledge:
    """Measure the significant products once more, each clipped on its own, and return the plan's new state.

    Few products of a row have a small norm, so that the noise is lower.  Costs at most the fraction `SCREEN` of the
    remaining budget, for the curator's neighbours.
    """
    products = known.products[-1]
    size = np.abs(products.means)
    strongest = [i for i in np.argsort(-size, kind="stable")[:MOST_STRONG] if size[i] > BEYOND * products.stddev]
    if products.stddev <= AIM or not strongest:
        return known
    asked = products.queries
    left_side, right_side = asked.pairs
    chosen = tuple((int(left_side[i]), int(right_side[i])) for i in strongest)
    queries = PairProducts(asked.domain, asked.scores, chosen, DENOMINATOR, int(NORM * DENOMINATOR**2))
    step = "pairwise products of rank scores, strongest pairs"
    return _measure_products(known, account, queries, step=step)


def scores(refinement: Refinement, margin: FloatArray) -> IntArray | None:
    """Return the score of each coarse bin of a column: its standardised mid-rank, in multiples of 1 / DENOMINATOR.

    Ranks have no tails, so products of scores can be clipped near their usual norm, with half the noise of products of
    values.  Bins without a value, such as the bin of missing values, get 0, the mean.

    Parameters
    ----------
    refinement
        The coarse bins of the column and the fine bins in each.
    margin
        (coarse bins,) estimated rows.

    Returns
    -------
    (coarse bins,) whole numbers; ``None`` for a column of more than two bins without an order, and for a column without
    spread.
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
    share = share / max(share.sum(), 1e-300)
    order = np.argsort(values, kind="stable")
    ranks = np.empty(groups)
    ranks[order] = np.cumsum(share[order]) - share[order] / 2
    centred = np.where(mass > 0, ranks - share @ ranks, 0.0)
    spread = math.sqrt(share @ centred**2)
    if spread <= 0:
        return None
    return np.rint(np.clip(centred / spread, -FARTHEST, FARTHEST) * DENOMINATOR).astype(np.int64)
