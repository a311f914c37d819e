"""The measuring stages of the adaptive plan: the tables of a batch, and the one-ways once more with what is left."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from synthdp.arrays import Clique
from synthdp.curator import Curator
from synthdp.domain.domain import Domain
from synthdp.fit.graphical.consistency import centred
from synthdp.fit.out_of_domain import merged_tables, pooled_repeats
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.optimum import Optimum
from synthdp.mechanisms.adaptive.selection import Batch, Candidate
from synthdp.mechanisms.adaptive.shrinkage import best_ridge
from synthdp.queries.contingency import NoisyTable
from synthdp.queries.interactions import Interactions
from synthdp.queries.linear import Total
from synthdp.queries.marginals import Marginals, one_ways

LEAST_WEIGHT = 64
"""Weight of the noisiest interaction: others are as many times larger, in whole numbers, as their noise is to be smaller.
A numerical tolerance."""

_MERGED = ", merged bins"

MOST_NAMED = 3
"""Most pairs of one question that its line on the receipt names.  A convention."""

LARGEST_FEATURE = 2**28
"""Most that a row adds to an interaction, so that no sum leaves 63 bits.
A safety limit; derived: 2^28 times the rows of a table below 2^35."""


def measure_tables(known: Knowledge, account: Curator, batch: Batch, candidates: Sequence[Candidate]) -> Knowledge:
    """Measure every table of a batch with its own noise, in at most two passes over the rows for each level of merging.

    Of a candidate that says so by its noise the interaction is measured alone.

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
    chosen = {candidate.clique: candidate for candidate in candidates if candidate in batch}
    for level in range(1 + len(known.coarser)):
        ours = [chosen[clique] for clique in batch.shares if chosen[clique].level == level]
        known = _measure_marginals(known, account, batch, [one for one in ours if one.noise >= 1])
        known = _measure_alone(known, account, batch, [one for one in ours if one.noise < 1])
    return known.with_cliques(tree=batch.tree, off_tree=batch.off_tree)


def _measure_marginals(known: Knowledge, account: Curator, batch: Batch, chosen: Sequence[Candidate]) -> Knowledge:
    """Measure the tables of candidates at one level of merging, each with its own noise.

    Costs their shares, for the curator's neighbours.
    """
    if not chosen:
        return known
    level = chosen[0].level
    domain = known.axes(level)
    parts, left = [], known.left
    for candidate in chosen:
        part, left = left.take(batch.shares[candidate.clique])
        parts.append(part.loss)
    found = account.measure_each(
        [Marginals(domain, (one.clique,)) for one in chosen],
        spends=parts,
        steps=[f"marginals of several columns{_MERGED if level else ''}: {_names(domain, [c.clique])}" for c in chosen],
    )
    for candidate, answers in zip(chosen, found, strict=True):
        groups = known.groups(candidate.clique, level) if level else None
        table = NoisyTable(clique=candidate.clique, counts=answers.answers, stddev=answers.stddev, groups=groups)
        known = known.with_answers(answers, left=left)
        before = known.merged if level else known.tables
        pooled = pooled_repeats([*(one for one in before if one.clique == table.clique), table])[0]
        known = known.with_table(table, ridge=best_ridge(pooled.counts, candidate.expected, pooled.stddev))
    return known


def _measure_alone(known: Knowledge, account: Curator, batch: Batch, chosen: Sequence[Candidate]) -> Knowledge:
    """Measure the interactions of pairs at one level of merging, in one question, each with the noise its share buys.

    Costs their shares, for the curator's neighbours.
    """
    if not chosen:
        return known
    level = chosen[0].level
    domain, shares = known.axes(level), {one.clique: batch.shares[one.clique] for one in chosen}
    noise = {one.clique: known.left.table_stddev(shares[one.clique]) * one.noise for one in chosen}
    part, left = known.left.take(sum(shares.values()))
    queries = weighted_interactions(domain, noise)
    found = account.measure(
        queries,
        spend=part.loss,
        step=f"interactions of several columns{_MERGED if level else ''}: {_named(domain, shares)}",
    )
    known = known.with_answers(found, left=left)
    effects = found.tables
    tables = merged_tables([found], known.domain) if level else effects
    for candidate, effect, table in zip(chosen, effects, tables, strict=True):
        ridge = _ridge_of_interaction(domain, candidate, _with_earlier(known, effect, level))
        known = known.with_table(table, ridge=ridge)
    return known


def _names(domain: Domain, cliques: Iterable[Clique]) -> str:
    return ", ".join(" × ".join(domain.names[j] for j in clique) for clique in cliques)


def _named(domain: Domain, cliques: Collection[Clique]) -> str:
    """Return the names of a few pairs, of more how many there are."""
    return _names(domain, cliques) if len(cliques) <= MOST_NAMED else f"{len(cliques)} of them"


def _with_earlier(known: Knowledge, effect: NoisyTable, level: int) -> NoisyTable:
    """Return an interaction averaged with earlier answers to the same question, by precision."""
    answers = [one for one in (known.merged if level else known.effects) if one.clique == effect.clique] + [effect]
    precisions = np.array([one.stddev**-2 for one in answers])
    counts = np.average([one.counts for one in answers], axis=0, weights=precisions)
    return replace(effect, counts=counts, stddev=float(precisions.sum() ** -0.5))


def _ridge_of_interaction(domain: Domain, candidate: Candidate, effect: NoisyTable) -> float:
    """Return the ridge of the table that has the margins expected of a candidate, and an interaction that was measured."""
    axes = [domain.axes[j] for j in effect.clique]
    inside = np.ix_(*(np.flatnonzero(axis.releasable) for axis in axes))
    shape = [axis.size for axis in axes]
    expected, found = candidate.expected.reshape(shape)[inside], effect.counts.reshape(shape)[inside]
    counts = expected + centred(found - expected)
    return best_ridge(counts.ravel(), expected.ravel(), effect.stddev)


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
    return replace(known.with_answers(found, left=left), effects=tuple(found.tables), in_cells=True)


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
        refinement.reweighted(column.weights) for refinement, column in zip(known.refinements, columns, strict=True)
    )
    return replace(known.with_answers(found, left=left), columns=columns, refinements=refinements)
