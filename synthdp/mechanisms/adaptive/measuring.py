"""The measuring stages of the plan: the tables of a batch, and a second measurement of the one-ways."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from synthdp.arrays import Clique
from synthdp.curator import Curator
from synthdp.domain.domain import Domain
from synthdp.fit.consistency import centred
from synthdp.fit.out_of_domain import merged_tables
from synthdp.fit.proportional_step import best_ridge
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.optimum import Optimum
from synthdp.mechanisms.adaptive.screening import DENOMINATOR
from synthdp.mechanisms.adaptive.selection import Batch, Candidate
from synthdp.mechanisms.column_tree import pooled_each
from synthdp.queries.contingency import NoisyTable
from synthdp.queries.interactions import Interactions
from synthdp.queries.linear import Total
from synthdp.queries.marginals import Marginals, one_ways

_MERGED = ", merged bins"
"""Added to a step's name in the ledger if its tables are over merged bins."""

LARGEST_FEATURE = 2**28
"""Most that one row adds to the weighted sums of an interaction.  A safety limit: 2^28 times fewer than 2^35 rows stays
within 63 bits.
"""


def measure_tables(known: Knowledge, account: Curator, batch: Batch) -> Knowledge:
    """Measure every table of a batch, or its interaction only, with its own noise; return the plan's new state.

    The rows are read in at most two passes per merge level.  A candidate with ``noise`` below 1 is measured as an
    interaction, without its margins; any other candidate as a whole table.  Costs the shares of the batch, for the
    curator's neighbours.

    Parameters
    ----------
    known
        The noisy answers and estimates so far, and the remaining budget.
    account
        The curator that answers.
    batch
        The tables, with the counts that the model expected of each, and their shares.
    """
    for level in range(1 + len(known.coarser)):
        ours = [one for one in batch.shares if one.level == level]
        known = _measure_marginals(known, account, batch, [one for one in ours if one.noise >= 1])
        known = _measure_interactions_only(known, account, batch, [one for one in ours if one.noise < 1])
    inside = [one.clique for one in batch.shares if one.clique in batch.tree]
    return known.with_cliques(
        tree=inside, off_tree=[one.clique for one in batch.shares if one.clique not in batch.tree]
    )


def _measure_marginals(known: Knowledge, account: Curator, batch: Batch, chosen: Sequence[Candidate]) -> Knowledge:
    """Measure the whole tables of candidates at one merge level, each with its own noise.

    Each table gets the ridge of least estimated risk against the model.  Costs the tables' shares of the budget, for
    the curator's neighbours.
    """
    if not chosen:
        return known
    level = chosen[0].level
    domain = known.axes(level)
    shares = {one.clique: batch.shares[one] for one in chosen}
    step = f"marginals of several columns{_MERGED if level else ''}"
    known, tables = measure_each(known, account, domain, shares, step=step)
    for candidate, plain in zip(chosen, tables, strict=True):
        table = replace(plain, groups=known.groups(plain.clique, level) if level else None)
        pooled = _averaged_with_earlier(known, table)
        known = known.with_table(table, ridge=best_ridge(pooled.counts, candidate.expected, pooled.stddev))
    return known


def measure_each(
    known: Knowledge, account: Curator, domain: Domain, shares: Mapping[Clique, float], *, step: str
) -> tuple[Knowledge, list[NoisyTable]]:
    """Measure tables over the bins of a domain, each for its own share of the whole budget.

    Returns the plan's state with the answers, and the noisy tables in the order of ``shares``, which maps cliques to
    shares.  Costs the shares, for the curator's neighbours.
    """
    parts, left = [], known.left
    for share in shares.values():
        part, left = left.take(share)
        parts.append(part.loss)
    queries = [Marginals(domain, (clique,)) for clique in shares]
    steps = [f"{step}: {_names(domain, [clique])}" for clique in shares]
    found = account.measure_each(queries, spends=parts, steps=steps)
    for answers in found:
        known = known.with_answers(answers, left=left)
    both = zip(shares, found, strict=True)
    return known, [NoisyTable(clique=clique, counts=one.answers, stddev=one.stddev) for clique, one in both]


def _measure_interactions_only(
    known: Knowledge, account: Curator, batch: Batch, chosen: Sequence[Candidate]
) -> Knowledge:
    """Measure only the interactions of candidates at one merge level, each with its own noise, in one question.

    Costs the candidates' shares of the budget, for the curator's neighbours.
    """
    if not chosen:
        return known
    level = chosen[0].level
    domain, shares = known.axes(level), {one.clique: batch.shares[one] for one in chosen}
    noise = {one.clique: known.left.table_stddev(shares[one.clique]) * one.noise for one in chosen}
    part, left = known.left.take(sum(shares.values()))
    queries = weighted_interactions(domain, noise)
    step = f"interactions of several columns{_MERGED if level else ''}: {_receipt_names(domain, shares)}"
    found = account.measure(queries, spend=part.loss, step=step)
    known = known.with_answers(found, left=left)
    effects = found.tables
    tables = merged_tables([found], known.domain) if level else effects
    for candidate, effect, table in zip(chosen, effects, tables, strict=True):
        ridge = _ridge_of_interaction(domain, candidate, _averaged_with_earlier(known, effect))
        known = known.with_table(table, ridge=ridge)
    return known


def _names(domain: Domain, cliques: Iterable[Clique]) -> str:
    """Return the column names of cliques as text for the ledger, such as "age × sex, age × work"."""
    return ", ".join(" × ".join(domain.names[j] for j in clique) for clique in cliques)


def _receipt_names(domain: Domain, cliques: Collection[Clique]) -> str:
    """Return the names of sets of columns as text for a receipt; of more than three sets only their number, for space."""
    return _names(domain, cliques) if len(cliques) <= 3 else f"{len(cliques)} sets of columns"


def _averaged_with_earlier(known: Knowledge, table: NoisyTable) -> NoisyTable:
    """Return a noisy table or interaction averaged, by precision, with earlier measurements of the same cells.

    The average has less noise than the new measurement, so the fit's trust in the table (its ridge) is chosen
    from the average.
    """
    before, cells = (*known.tables, *known.merged, *known.effects), (table.clique, table.alone, table.counts.size)
    answers = [*(one for one in before if (one.clique, one.alone, one.counts.size) == cells), table]
    precisions = np.array([one.stddev**-2 for one in answers])
    counts = np.average([one.counts for one in answers], axis=0, weights=precisions)
    return replace(table, counts=counts, stddev=float(precisions.sum() ** -0.5))


def _ridge_of_interaction(domain: Domain, candidate: Candidate, effect: NoisyTable) -> float:
    """Return the ridge of a measured interaction, as a multiple of its noise; see `best_ridge`.

    `best_ridge` needs a whole table.  Its counts are the interaction's deviations added to the counts that the model
    expects.
    """
    axes = [domain.axes[j] for j in effect.clique]
    inside = np.ix_(*(np.flatnonzero(axis.releasable) for axis in axes))
    shape = [axis.size for axis in axes]
    expected, found = candidate.expected.reshape(shape)[inside], effect.counts.reshape(shape)[inside]
    counts = expected + centred(found - expected)
    return best_ridge(counts.ravel(), expected.ravel(), effect.stddev)


def measure_interactions(known: Knowledge, account: Curator, best: Optimum) -> Knowledge:
    """Measure the number of rows again, then all main effects and interactions of an optimal plan in one question.

    Each effect has the noise stddev that the plan gives it.  Costs the whole remaining budget, for the curator's
    neighbours.  A plan with the share 0 for the number of rows leaves the earlier estimate as it is.

    Parameters
    ----------
    known
        The noisy answers and the state of the allocation so far.
    account
        The curator that answers.
    best
        The plan: noise stddevs by effect, and the share for the number of rows.
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
    """Return the query of interactions, weighted so that one noise for all answers gives effects noise in given ratios.

    The ratios are the ratios of ``stddevs``, in rows, by effect.  Weights are whole numbers, and the least of them is
    `DENOMINATOR`, so rounding changes a weight by at most 1 / (2 `DENOMINATOR`) of itself.  Rounding changes more if
    the stddevs differ so much that sums would exceed 63 bits, since weights are then smaller.
    """
    kept = [int(axis.releasable.sum()) for axis in domain.axes]
    sizes = {clique: [kept[j] for j in clique] for clique in stddevs}
    wanted = {clique: 1 / (stddev * math.prod(sizes[clique])) for clique, stddev in stddevs.items()}
    largest = max(weight * math.prod(n - 1 for n in sizes[clique]) for clique, weight in wanted.items())
    unit = min(DENOMINATOR / min(wanted.values()), LARGEST_FEATURE / max(largest, 1e-300))
    return Interactions(domain, tuple(wanted), tuple(max(1, round(weight * unit)) for weight in wanted.values()))


def measure_one_ways_again(known: Knowledge, account: Curator) -> Knowledge:
    """Measure every column's first histogram a second time with the remaining budget, and average both measurements.

    Costs the whole remaining budget, for the curator's neighbours.
    """
    queries = one_ways(Domain(tuple(column.first for column in known.columns)))
    part, left = known.left.take(known.left.share)
    found = account.measure(queries, spend=part.loss, step="one-way marginals, again")
    counts = [np.asarray(one, np.float64) for one in queries.split(found.answers)]
    columns = tuple(pooled_each(known.columns, counts, found.stddev, total=known.total))
    refinements = tuple(
        refinement.reweighted(column.weights) for refinement, column in zip(known.refinements, columns, strict=True)
    )
    return replace(known.with_answers(found, left=left), columns=columns, refinements=refinements)
