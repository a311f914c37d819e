"""Noisy scores of candidate tables: how far the data is from what a model expects of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from synthdp.arrays import Codes, FloatArray
from synthdp.curator.curator import Curator
from synthdp.distribution.contingency import Clique, table_size
from synthdp.domain.domain import Domain
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.selection import MEAN_ABS, Candidate
from synthdp.mechanisms.budget import Purse
from synthdp.mechanisms.workload import Workload
from synthdp.queries.marginals import Marginals
from synthdp.queries.scores.distances import MarginalDistances

UNIT = 256
"""Expected counts are rounded to this fraction of a row."""

MAX_CELLS = 200_000
"""Most cells of a candidate table of three columns."""

MAX_TRIPLES = 3000
"""Tables of three columns are candidates when there are at most so many."""


class Screening(NamedTuple):
    """Candidates with their scores, and the noisy distances that the scores come from.

    Costs nothing: a record of what was measured.
    """

    candidates: list[Candidate]
    measured: tuple[Measurements, ...] = ()


def screen_pairs(
    curator: Curator, purse: Purse, *, share: float, domain: Domain, one_way: Sequence[FloatArray], workload: Workload
) -> Screening:
    """Score all pairs of columns against independence.

    Costs ``share`` of the purse, for the curator's neighbours.

    Parameters
    ----------
    curator, purse, share
        Whom to ask, and what for.
    domain
        Coarse axes.
    one_way
        Estimated counts of each column, with one sum.
    workload
        What matters; pairs of weight 0 are not asked.
    """
    pairs = [p for p in itertools.combinations(range(len(domain)), 2) if workload.weight(p) > 0]
    if not pairs:
        return Screening([])
    total = max(float(one_way[0].sum()), 1.0)
    expected = [np.outer(one_way[a], one_way[b]).ravel() / total for a, b in pairs]
    found = _distances(curator, purse, share, domain, pairs, expected, step="screening of pairs")
    candidates = [
        Candidate(pair, float(error), table, workload.weight(pair))
        for pair, error, table in zip(pairs, shrunk(found.answers, found.stddev), expected, strict=True)
    ]
    return Screening(candidates, (found,))


def screen_model(
    curator: Curator,
    purse: Purse,
    *,
    share: float,
    domain: Domain,
    sample: Codes,
    total: float,
    workload: Workload,
) -> list[Candidate]:
    """Score all pairs and, if they are not too many, triples against rows drawn from a model.

    Half of the L1 distance that the finite sample alone would cause is deducted.

    Costs ``share`` of the purse, for the curator's neighbours.

    Parameters
    ----------
    curator, purse, share
        Whom to ask, and what for.
    domain
        Coarse axes.
    sample
        (m, d) codes drawn from the model.
    total
        Estimated number of private rows.
    workload
        What matters.
    """
    shape = domain.shape
    ways = [2, 3] if len(shape) * (len(shape) - 1) * (len(shape) - 2) // 6 <= MAX_TRIPLES else [2]
    cliques = [c for way in ways for c in itertools.combinations(range(len(shape)), way)]
    cliques = [c for c in cliques if table_size(shape, c) <= MAX_CELLS and workload.weight(c) > 0]
    if not cliques:
        return []
    ratio = max(total, 1.0) / len(sample)
    tables = Marginals(domain, tuple(cliques))
    expected = tables.split(tables.sums(sample) * ratio)
    found = _distances(curator, purse, share, domain, cliques, expected, step="screening against the model")
    errors = shrunk(found.answers, found.stddev)
    sampling = [np.minimum(MEAN_ABS * np.sqrt(table * ratio), table).sum() for table in expected]
    return [
        Candidate(clique, float(error - noise / 2), np.maximum(table, 0.02), workload.weight(clique))
        for clique, error, table, noise in zip(cliques, errors, expected, sampling, strict=True)
    ]


def _distances(
    curator: Curator,
    purse: Purse,
    share: float,
    domain: Domain,
    cliques: Sequence[Clique],
    expected: Sequence[FloatArray],
    *,
    step: str,
) -> Measurements:
    whole = np.rint(np.concatenate(expected) * UNIT).astype(np.int64)
    queries = MarginalDistances(Marginals(domain, tuple(cliques)), whole, UNIT)
    return curator.measure(queries, spend=purse.part(share), step=step)


def shrunk(scores: FloatArray, stddev: float) -> FloatArray:
    """Draw noisy scores towards their mean, by as much as their spread is noise (James and Stein 1961).

    Without it the best of many candidates would be the luckiest.

    Costs nothing: post-processing.

    Parameters
    ----------
    scores
        (k,) noisy scores.
    stddev
        Of their noise.
    """
    mean = float(scores.mean())
    signal = max(0.0, float(scores.var()) - stddev**2)
    return mean + (scores - mean) * (signal / (signal + stddev**2))
