"""Noisy scores of candidate tables: the distance between their counts and those that a model expects."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from synthdp.arrays import Clique, Codes, FloatArray, IntArray
from synthdp.curator import Curator
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.energies import energies, explained_by_chance
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.selection import MAX_TRIPLES, Candidate
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.workload import Workload
from synthdp.queries.contingency import table_size
from synthdp.queries.distances import MarginalDistances
from synthdp.queries.marginals import Marginals

DENOMINATOR = 256
"""Expected counts are rounded to multiples of 1 / DENOMINATOR rows, so that scores are whole numbers, as exact noise
needs.  A numerical tolerance.
"""

MAX_CELLS = 200_000
"""Most cells of a candidate table, of two or three columns, that is scored against a model; larger ones are not.  A
safety limit of time and memory.
"""

MAX_PAIR_CELLS = 4_000_000
"""Most cells of a table of two columns that is scored against independence, or measured in wide tables and for places;
larger ones are not.  A safety limit of time and memory.
"""


LEAST_EXPECTED = 0.02
"""Least count that the model is taken to expect in any cell, where none of its drawn rows lies in it.  Such a cell is
rare, not impossible.  A numerical tolerance.
"""


class Screening(NamedTuple):
    """The scored candidates of a round, and the knowledge after their noisy scores were paid for."""

    candidates: list[Candidate]
    known: Knowledge


def screen_against_independence(known: Knowledge, account: Curator, workload: Workload, *, share: float) -> Screening:
    """Score all pairs of columns by the noisy L1 distance of their tables from independence.

    Returns the pairs as candidates, with what the scores say of each relation, and the knowledge after the cost.
    Costs ``share`` of the whole budget, for the curator's neighbours, unless no pair matters.

    Parameters
    ----------
    known
        The noisy answers and estimates so far, and the rest of the budget.
    account
        The curator that answers.
    workload
        The workload; pairs of weight 0 are not scored.
    share
        Share of the budget for the scores.
    """
    pairs = [
        pair
        for pair in itertools.combinations(range(len(known.domain)), 2)
        if workload.weight(pair) > 0 and table_size(known.domain.shape, pair) <= MAX_PAIR_CELLS
    ]
    if not pairs:
        return Screening([], known)
    margins = known.margins
    total = max(float(margins[0].sum()), 1.0)
    tables = (np.outer(margins[a], margins[b]).ravel() / total for a, b in pairs)
    asked = Marginals(known.domain, tuple(pairs))
    found, expected, left = distances_from(known, account, asked, tables, share=share, step="screening of pairs")
    variances = known.margin_variances
    noise = [variance_of_product(pair, margins, variances, total=total) for pair in pairs]
    chance = [explained_by_chance(table, margins=one) for table, one in zip(expected, noise, strict=True)]
    said = energies(found.answers, np.array(chance), found.stddev, total=total, columns=len(known.domain))
    candidates = [
        Candidate(pair, one, table, workload.weight(pair), margins=variance)
        for pair, one, table, variance in zip(pairs, said, expected, noise, strict=True)
    ]
    return Screening(candidates, known.with_answers(found, left=left))


def variance_of_product(
    clique: Clique, margins: Sequence[FloatArray], variances: Sequence[FloatArray], *, total: float
) -> FloatArray:
    """Return the variance, by noise in the margins, of each cell of an expected table of independent columns, (cells,).

    A score has to exceed what this noise explains.

    Parameters
    ----------
    clique
        Positions of the table's columns.
    margins, variances
        The estimated rows in the groups of every column, and the variance of their errors.
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
    known: Knowledge, account: Curator, workload: Workload, *, share: float, sample: Codes
) -> Screening:
    """Score pairs and, if few enough, triples by the noisy L1 distance of their tables from rows drawn from a model.

    Returns them as candidates, with what the scores say of each relation, and the knowledge after the cost.
    Costs ``share`` of the whole budget, for the curator's neighbours, unless no candidate matters.

    Parameters
    ----------
    known, account, workload, share
        As in `screen_against_independence`.
    sample
        (m, d) groups of rows drawn from the model.
    """
    shape = known.domain.shape
    ways = [2, 3] if math.comb(len(shape), 3) <= MAX_TRIPLES else [2]
    cliques = [c for way in ways for c in itertools.combinations(range(len(shape)), way)]
    cliques = [c for c in cliques if table_size(shape, c) <= MAX_CELLS and workload.weight(c) > 0]
    if not cliques:
        return Screening([], known)
    ratio = max(known.total, 1.0) / len(sample)
    tables = Marginals(known.domain, tuple(cliques))
    out_of_domain = known.out_of_domain
    modelled = (
        out_of_domain.add(counts * ratio, clique)
        for clique, counts in zip(cliques, tables.split(tables.sums(sample)), strict=True)
    )
    found, expected, left = distances_from(
        known, account, tables, modelled, share=share, step="screening against the model"
    )
    done = [*(table.clique for table in known.tables), *(effect.clique for effect in known.effects)]
    measured = {inside for clique in done for way in ways for inside in itertools.combinations(sorted(clique), way)}
    candidates = []
    for order in ways:
        some = [i for i, clique in enumerate(cliques) if len(clique) == order]
        chance = np.array([explained_by_chance(expected[i], expected[i] * ratio) for i in some])
        said = energies(found.answers[some], chance, found.stddev, total=known.total, columns=len(shape), order=order)
        candidates += [
            Candidate(
                cliques[i],
                one,
                np.maximum(expected[i], LEAST_EXPECTED, out=expected[i]),  # perhaps hundreds of thousands of cells each
                workload.weight(cliques[i]),
                fresh=cliques[i] not in measured,
            )
            for i, one in zip(some, said, strict=True)
        ]
    # Not stored with the release: its readers take stored distances for distances from independence.
    return Screening(candidates, replace(known, left=left))


def distances_from(
    known: Knowledge,
    account: Curator,
    tables: Marginals,
    expected: Iterable[FloatArray],
    *,
    share: float,
    step: str,
) -> tuple[Measurements, list[FloatArray], BudgetAllocation]:
    """Measure the L1 distance of each of the data's tables from an expected one, with noise.

    Returns the noisy distances, in rows, the expected tables as rounded for the query, and the remaining budget.  Costs
    ``share`` of the whole budget, for the curator's neighbours.
    """
    queries = MarginalDistances(tables, _rounded(tables, expected), DENOMINATOR)
    cost, left = known.left.take(share)
    found = account.measure(queries, spend=cost.loss, step=step)
    return found, [table / DENOMINATOR for table in tables.split(queries.expected)], left


def _rounded(tables: Marginals, expected: Iterable[FloatArray]) -> IntArray:
    """Return the cells of all expected tables, (all cells,), in whole multiples of 1 / `DENOMINATOR` rows.

    Tables are converted one by one, since there may be millions of cells.
    """
    whole = np.empty(tables.k, np.int64)
    for part, table in zip(tables.split(whole), expected, strict=True):
        part[:] = np.rint(table * DENOMINATOR)
    return whole
