"""The measuring stages of the adaptive plan: the tables of a batch, and the one-ways once more with what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from synthdp.curator.curator import Curator
from synthdp.distribution.contingency import NoisyTable
from synthdp.domain.domain import Domain
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.selection import Batch, Candidate
from synthdp.mechanisms.adaptive.shrinkage import best_ridge
from synthdp.queries.marginals import Marginals, one_ways


def measure_tables(known: Knowledge, account: Curator, batch: Batch, candidates: Sequence[Candidate]) -> Knowledge:
    """Measure every table of a batch with its own noise.

    Costs the shares of the batch, for the curator's neighbours.

    Parameters
    ----------
    known
        What was learned so far.
    account
        Whom to ask.
    batch
        The tables and their shares.
    candidates
        Those that the batch was chosen from; they say what the model expected of each table.
    """
    expected = {candidate.clique: candidate.expected for candidate in candidates}
    for clique, share in batch.shares.items():
        part, left = known.left.take(share)
        step = "marginals of several columns: " + " × ".join(known.domain.names[j] for j in clique)
        found = account.measure(Marginals(known.domain, (clique,)), spend=part.loss, step=step)
        table = NoisyTable(clique=clique, counts=found.answers, stddev=found.stddev)
        ridge = best_ridge(found.answers, expected[clique], found.stddev)
        known = known.with_answers(found, left=left).with_table(table, ridge=ridge)
    return known.with_cliques(tree=batch.tree, off_tree=batch.off_tree)


def measure_one_ways_again(known: Knowledge, account: Curator) -> Knowledge:
    """Spend what is left on the first histogram of every column.

    Costs all that is left, for the curator's neighbours.
    """
    queries = one_ways(Domain(tuple(column.first for column in known.columns)))
    part, left = known.left.take(known.left.share)
    found = account.measure(queries, spend=part.loss, step="one-way marginals, again")
    columns = tuple(
        column.pooled(np.asarray(counts, np.float64), found.stddev, total=known.total)
        for column, counts in zip(known.columns, queries.split(found.answers), strict=True)
    )
    refinements = tuple(
        replace(refinement, weights=column.weights)
        for refinement, column in zip(known.refinements, columns, strict=True)
    )
    return replace(known.with_answers(found, left=left), columns=columns, refinements=refinements)
