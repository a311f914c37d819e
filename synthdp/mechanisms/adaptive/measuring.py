"""The measuring stages of the adaptive plan: the tables of a batch, and the one-ways once more with what is left."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from synthdp.arrays import Clique, FloatArray
from synthdp.curator.curator import Curator
from synthdp.distribution.contingency import NoisyTable
from synthdp.domain.domain import Domain
from synthdp.fit.graphical.consistency import centred
from synthdp.fit.merged import merged_tables
from synthdp.fit.misfits import noisy_effects
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.optimum import Optimum
from synthdp.mechanisms.adaptive.selection import Batch, Candidate
from synthdp.mechanisms.adaptive.shrinkage import best_ridge
from synthdp.queries.interactions import Interactions
from synthdp.queries.marginals import Marginals, one_ways
from synthdp.queries.total import Total

LEAST_WEIGHT = 64
"""Weight of the noisiest interaction: others are as many times larger, in whole numbers, as their noise is to be smaller."""

_MERGED = ", of merged groups"

MOST_NAMED = 3
"""Most pairs of one question that its line on the receipt names."""

LARGEST_FEATURE = 2**28
"""Most that a row adds to an interaction, so that no sum leaves 63 bits."""


def measure_tables(known: Knowledge, account: Curator, batch: Batch, candidates: Sequence[Candidate]) -> Knowledge:
    """Measure every table of a batch with its own noise, in one pass over the rows for each level of merging.

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
    expected = {(candidate.clique, candidate.level): candidate.expected for candidate in candidates}
    for level in range(1 + len(known.coarser)):
        shares = {clique: share for clique, share in batch.shares.items() if batch.levels.get(clique, 0) == level}
        quiet = {
            clique: share for clique, share in shares.items() if level and known.noise_of_merged(clique, level) < 1
        }
        loud = {clique: share for clique, share in shares.items() if clique not in quiet}
        known, found = _measure_marginals(known, account, loud, level)
        known, merged = _measure_merged_interactions(known, account, quiet, level)
        for table in (*found, *merged):
            model = expected[table.clique, level]
            counts = table.counts if table.clique in loud else _with_margins_of(model, table)
            known = known.with_table(table, ridge=best_ridge(counts, model, table.stddev))
    return known.with_cliques(tree=batch.tree, off_tree=batch.off_tree)


def _measure_marginals(
    known: Knowledge, account: Curator, shares: Mapping[Clique, float], level: int
) -> tuple[Knowledge, list[NoisyTable]]:
    """Measure tables at one level of merging, each with its own noise.

    Costs the shares, for the curator's neighbours.
    """
    if not shares:
        return known, []
    domain = known.coarser[level - 1] if level else known.domain
    parts, left = [], known.left
    for share in shares.values():
        part, left = left.take(share)
        parts.append(part.loss)
    found = account.measure_each(
        [Marginals(domain, (clique,)) for clique in shares],
        spends=parts,
        steps=[f"marginals of several columns{_MERGED if level else ''}: {_names(domain, [c])}" for c in shares],
    )
    tables = []
    for clique, answers in zip(shares, found, strict=True):
        known = known.with_answers(answers, left=left)
        groups = known.groups(clique, level) if level else None
        tables.append(NoisyTable(clique=clique, counts=answers.answers, stddev=answers.stddev, groups=groups))
    return known, tables


def _measure_merged_interactions(
    known: Knowledge, account: Curator, shares: Mapping[Clique, float], level: int
) -> tuple[Knowledge, list[NoisyTable]]:
    """Measure interactions of merged groups, in one question, each with the noise that its share buys.

    Costs the shares, for the curator's neighbours.
    """
    if not shares:
        return known, []
    domain = known.coarser[level - 1]
    noise = {c: known.left.table_stddev(share) * known.noise_of_merged(c, level) for c, share in shares.items()}
    part, left = known.left.take(sum(shares.values()))
    found = account.measure(
        weighted_interactions(domain, noise),
        spend=part.loss,
        step=f"interactions of several columns{_MERGED}: {_named(domain, shares)}",
    )
    return known.with_answers(found, left=left), merged_tables([found], known.domain)


def _names(domain: Domain, cliques: Iterable[Clique]) -> str:
    return ", ".join(" × ".join(domain.names[j] for j in clique) for clique in cliques)


def _named(domain: Domain, cliques: Collection[Clique]) -> str:
    """Return the names of a few pairs, of more how many there are."""
    return _names(domain, cliques) if len(cliques) <= MOST_NAMED else f"{len(cliques)} of them"


def _with_margins_of(expected: FloatArray, interaction: NoisyTable) -> FloatArray:
    """Return the table that has the margins of an expected one and an interaction that was measured."""
    shape = [int(groups.max()) + 1 for groups in interaction.groups or ()]
    return expected + centred((interaction.counts - expected).reshape(shape)).ravel()


def measure_interactions(known: Knowledge, account: Curator, best: Optimum) -> Knowledge:
    """Measure the number of rows again, then main effects and interactions, all at once, each with its own noise.

    Costs all that is left, for the curator's neighbours.

    Parameters
    ----------
    known
        What was learned so far.
    account
        Whom to ask.
    best
        Which noise each may have.
    """
    if best.total_share > 0:
        part, left = known.left.take(known.left.share * best.total_share)
        count = account.measure(Total(known.domain), spend=part.loss, step="number of rows, again")
        known = known.with_total(float(count.answers[0]), count.stddev).with_answers(count, left=left)
    queries = weighted_interactions(known.domain, best.stddevs)
    orders = max(len(clique) for clique in best.stddevs)
    part, left = known.left.take(known.left.share)
    found = account.measure(queries, spend=part.loss, step=f"interactions of up to {orders} columns")
    effects = noisy_effects(queries, found.answers, found.stddev)
    return replace(known.with_answers(found, left=left), effects=(*known.effects, *effects))


def weighted_interactions(domain: Domain, stddevs: Mapping[Clique, float]) -> Interactions:
    """Return interactions of such weights that equal noise in all answers is noise of these ratios in the effects.

    Weights are whole numbers, so the ratios are off by at most one part in twice `LEAST_WEIGHT`, unless they are too far
    apart for sums of 63 bits.
    """
    kept = [int(axis.releasable.sum()) for axis in domain.axes]
    sizes = {clique: [kept[j] for j in clique] for clique in stddevs}
    wanted = {clique: 1 / (stddev * math.prod(sizes[clique])) for clique, stddev in stddevs.items()}
    largest = max(weight * math.prod(n - 1 for n in sizes[clique]) for clique, weight in wanted.items())
    unit = min(LEAST_WEIGHT / min(wanted.values()), LARGEST_FEATURE / max(largest, 1e-300))
    return Interactions(domain, tuple(wanted), tuple(max(1, round(weight * unit)) for weight in wanted.values()))


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
