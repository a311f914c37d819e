"""Noisy scores of candidate tables: the L1 distance between their counts and the counts that a model expects."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from synthdp.arrays import Clique, FloatArray
from synthdp.curator import Curator
from synthdp.distribution.explicit import Explicit
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.energies import energies, explained_by_chance
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.measuring import DENOMINATOR, ask
from synthdp.mechanisms.adaptive.selection import MAX_TRIPLES, Candidate
from synthdp.mechanisms.workload import Workload
from synthdp.queries.contingency import merged_cells, table_size
from synthdp.queries.distances import MarginalDistances
from synthdp.queries.marginals import Marginals, weighted_tables

MAX_CELLS = 200_000
"""Most cells of a candidate table, of two or three columns, that is scored against a model; larger tables are not
candidates.  A safety limit of time and memory."""

MAX_PAIR_CELLS = 4_000_000
"""Most cells of a table of two columns that is scored against independence, measured in wide data, or measured with the
column ``places``.  Pairs with larger tables are left out there.  At this limit one table of counts takes 32 MB. A safety
limit of time and memory."""


def screen_against_independence(
    known: Knowledge, account: Curator, workload: Workload, *, share: float
) -> tuple[list[Candidate], Knowledge]:
    """Score all pairs of columns by the noisy L1 distance of their tables from independence, to measure related pairs.

    Returns the pairs as candidates, with the relation estimated from their scores, and the plan's state with the scores.
    Costs ``share`` of the whole budget, for the curator's neighbours, unless no pair has weight.

    Parameters
    ----------
    known
        The noisy answers and estimates so far, and the remaining budget.
    account
        The curator that answers.
    workload
        The workload; pairs of weight 0 are not scored.
    share
        Share of the whole budget for the scores.
    """
    pairs = [
        pair
        for pair in itertools.combinations(range(len(known.domain)), 2)
        if workload.weight(pair) > 0 and table_size(known.domain.shape, pair) <= MAX_PAIR_CELLS
    ]
    if not pairs:
        return [], known
    margins, variances = known.margins, known.margin_variances
    tables = (np.outer(margins[a], margins[b]).ravel() / known.total for a, b in pairs)
    asked = Marginals(known.domain, tuple(pairs))
    known, found, expected = distances_from(known, account, asked, tables, share=share, step="screening of pairs")
    noise = [variance_of_product(pair, margins, variances, total=known.total) for pair in pairs]
    chance = [explained_by_chance(table, margins=one) for table, one in zip(expected, noise, strict=True)]
    said = energies(found.answers, np.array(chance), found.stddev, total=known.total)
    candidates = [
        Candidate(pair, one, table, workload.weight(pair), margins=variance)
        for pair, one, table, variance in zip(pairs, said, expected, noise, strict=True)
    ]
    return candidates, known


def variance_of_product(
    clique: Clique, margins: Sequence[FloatArray], variances: Sequence[FloatArray], *, total: float
) -> FloatArray:
    """Return the variance, by noise in the margins, of each cell of an expected table of independent columns, (cells,).

    The unit is squared rows.  A score is evidence of a relation only beyond the distance that this noise explains.

    Parameters
    ----------
    clique
        Positions of the table's columns.
    margins, variances
        For every column, (coarse bins,) estimated rows, and the variance of their errors in squared rows.
    total
        Number of rows.
    """
    found: FloatArray = np.zeros(())
    for noisy in clique:
        one = np.ones(1)
        for j in clique:
            one = np.outer(one, variances[j] if j == noisy else (margins[j] / total) ** 2).ravel()
        found = found + one
    return found


def screen_against_model(
    known: Knowledge, account: Curator, workload: Workload, *, share: float, model: Explicit
) -> tuple[list[Candidate], Knowledge]:
    """Score unmeasured pairs and, if few enough, triples by the noisy L1 distance of their tables from a model.

    A relation that the model already has gives no distance.  Returns the tables as candidates, with the relation
    estimated from their scores, and the plan's state after the cost.  Costs ``share`` of the whole budget, for the
    curator's neighbours, unless there is no candidate.

    Parameters
    ----------
    known, account, workload, share
        As in `screen_against_independence`.
    model
        Weighted rows of the model fitted so far.
    """
    shape = known.domain.shape
    ways = [2, 3] if math.comb(len(shape), 3) <= MAX_TRIPLES else [2]
    measured = {inside for one in known.tables for way in ways for inside in itertools.combinations(one.clique, way)}
    cliques = [c for way in ways for c in itertools.combinations(range(len(shape)), way) if c not in measured]
    cliques = [c for c in cliques if table_size(shape, c) <= MAX_CELLS and workload.weight(c) > 0]
    if not cliques:
        return [], known
    weights = model.weights * (known.total / model.weights.sum())
    out_of_domain = known.out_of_domain
    counts = weighted_tables(model.codes, shape, cliques, weights)
    modelled = (out_of_domain.add(one, clique) for clique, one in zip(cliques, counts, strict=True))
    tables = Marginals(known.domain, tuple(cliques))
    after, found, expected = distances_from(
        known, account, tables, modelled, share=share, step="screening against the model"
    )
    ratio = float(weights @ weights / weights.sum())  # variance of a cell of the model, per row
    candidates = []
    for order in ways:
        some = [i for i, clique in enumerate(cliques) if len(clique) == order]
        chance = np.array([explained_by_chance(expected[i], expected[i] * ratio) for i in some])
        said = energies(found.answers[some], chance, found.stddev, total=known.total, order=order)
        candidates += [
            Candidate(cliques[i], one, at_least_rare(expected[i]), workload.weight(cliques[i]))
            for i, one in zip(some, said, strict=True)
        ]
    # These distances are not stored: a reader of the release takes stored distances as distances from independence.
    return candidates, replace(known, left=after.left)


def distances_from(
    known: Knowledge, account: Curator, tables: Marginals, expected: Iterable[FloatArray], *, share: float, step: str
) -> tuple[Knowledge, Measurements, list[FloatArray]]:
    """Measure the L1 distance of each of the data's tables from an expected table, with noise: the candidates' scores.

    Returns the plan's state with the answers, the answers in rows, and the expected tables as rounded for the query.
    Tables are rounded one by one, since there may be millions of cells.  Costs ``share`` of the whole budget, for the
    curator's neighbours.
    """
    whole = np.empty(tables.k, np.int64)
    for part, table in zip(tables.split(whole), expected, strict=True):
        part[:] = np.rint(table * DENOMINATOR)
    known, found = ask(known, account, MarginalDistances(tables, whole, DENOMINATOR), share=share, step=step)
    return known, found, [table / DENOMINATOR for table in tables.split(whole)]


def at_least_rare(expected: FloatArray) -> FloatArray:
    """Raise expected counts, (cells,) in rows, to at least 1 / `DENOMINATOR`, in place, and return them.

    A cell without a row of the model then is rare, not impossible.  Smaller counts would be rounded to 0.
    """
    return np.maximum(expected, 1 / DENOMINATOR, out=expected)


def with_noise(candidates: Sequence[Candidate], known: Knowledge, *, merged: bool) -> list[Candidate]:
    """Return candidates with the noise of their planned measurement, and pairs over merged bins, too, if ``merged``.

    A pair over merged bins is cheaper to measure.  Its score is the score of the unmerged pair, at no cost, as a
    smooth relation is nearly as large over few bins.  Pairs that merging does not shrink have no such
    version.

    Parameters
    ----------
    candidates
        The candidates, with their noisy scores.
    known
        The plan's state, with the merged bins.
    merged
        Whether pairs over merged bins may be measured now.
    """
    groups = known.groups(1)
    found = []
    for one in candidates:
        if len(one.clique) != 2 or one.known > 0 or one.level > 0:
            found.append(one)
            continue
        found.append(replace(one, noise=known.relative_noise(one.clique, 0) or 1.0))
        noise = known.relative_noise(one.clique, 1)
        if not merged or noise == 0:  # 0: a column has one merged bin
            continue
        cells = merged_cells([groups[j] for j in one.clique])
        if cells.max() + 1 < len(one.expected):
            expected, margins = (
                np.bincount(cells, weights=np.broadcast_to(some, cells.shape)).astype(np.float64)
                for some in (one.expected, one.margins)
            )
            found.append(replace(one, expected=expected, level=1, margins=margins, noise=noise))
    return found
