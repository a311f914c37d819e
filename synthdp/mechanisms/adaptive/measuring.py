"""The measuring stages of the plan: one question, the tables of a batch, all interactions, and the one-ways again."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from synthdp.arrays import Clique
from synthdp.curator import Curator
from synthdp.domain.domain import Domain
from synthdp.fit.consistency import centred, gls_total
from synthdp.fit.out_of_domain import merged_tables
from synthdp.fit.proportional_step import best_ridge
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.optimum import Optimum
from synthdp.mechanisms.adaptive.selection import Batch, Candidate
from synthdp.mechanisms.column_tree import pooled_each
from synthdp.queries.contingency import NoisyTable
from synthdp.queries.interactions import Interactions
from synthdp.queries.linear import Total
from synthdp.queries.marginals import Marginals, one_ways
from synthdp.queries.protocol import Statistic

DENOMINATOR = 256
"""Expected counts, scores of ranks and weights of interactions are rounded to multiples of 1 / DENOMINATOR, since exact
noise is added to whole numbers.  A numerical tolerance."""

LARGEST_FEATURE = 2**28
"""Most that one row adds to the weighted sums of an interaction.  A safety limit: 2^28 times fewer than 2^35 rows stays
within 63 bits.
"""


def ask(
    known: Knowledge, account: Curator, queries: Statistic, *, share: float, step: str
) -> tuple[Knowledge, Measurements]:
    """Measure queries for a share of the whole budget; return the plan's state with the noisy answers, and the answers.

    Costs ``share``, for the curator's neighbours.
    """
    part, left = known.left.take(share)
    found = account.measure(queries, spend=part.loss, step=step)
    return known.with_answers(found, left=left), found


def measure_each(
    known: Knowledge, account: Curator, domain: Domain, shares: Mapping[Clique, float], *, step: str
) -> tuple[Knowledge, list[Measurements]]:
    """Measure tables over the bins of a domain, each for its own share of the whole budget.

    Returns the plan's state with the answers, and the answers in the order of ``shares``, which maps cliques to shares.
    The rows are read once.  Costs the shares, for the curator's neighbours.
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
    return known, found


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
        known = _measure_alike(known, account, batch, [one for one in ours if one.noise >= 1])
        known = _measure_alike(known, account, batch, [one for one in ours if one.noise < 1])
    return known.with_tree(one.clique for one in batch.shares if one.clique in batch.tree)


def _measure_alike(known: Knowledge, account: Curator, batch: Batch, chosen: Sequence[Candidate]) -> Knowledge:
    """Measure candidates of one merge level, either all as whole tables or all as interactions in one question.

    Each table gets the ridge of least estimated risk against the model.  Costs the candidates' shares of the budget,
    for the curator's neighbours.
    """
    if not chosen:
        return known
    level = chosen[0].level
    domain = known.axes(level)
    shares = {one.clique: batch.shares[one] for one in chosen}
    of = f"of several columns{', merged bins' if level else ''}"
    if chosen[0].noise >= 1:
        known, found = measure_each(known, account, domain, shares, step=f"marginals {of}")
    else:
        noise = {one.clique: known.left.table_stddev(shares[one.clique]) * one.noise for one in chosen}
        step = f"interactions {of}: {_names(domain, shares)}"
        queries = weighted_interactions(domain, noise)
        known, answers = ask(known, account, queries, share=sum(shares.values()), step=step)
        found = [answers]
    tables = merged_tables(found, known.domain) if level else [table for one in found for table in one.tables]
    for candidate, table in zip(chosen, tables, strict=True):
        known = known.with_table(table, ridge=_ridge(known, candidate, table))
    return known


def _names(domain: Domain, cliques: Collection[Clique]) -> str:
    """Return the column names of cliques as text for the ledger, such as "age × sex, age × work".

    Of more than three cliques only the number is returned, for space.
    """
    if len(cliques) > 3:
        return f"{len(cliques)} sets of columns"
    return ", ".join(" × ".join(domain.names[j] for j in clique) for clique in cliques)


def _ridge(known: Knowledge, candidate: Candidate, table: NoisyTable) -> float:
    """Return the ridge of a measured table or interaction, as a multiple of its noise; see `best_ridge`.

    The table is averaged, by precision, with earlier measurements of the same cells, since the fit uses the average.
    `best_ridge` needs a whole table: the counts of an interaction are its deviations, added to the counts that the model
    expects.
    """
    cells = (table.clique, table.alone, table.counts.size)
    before = (*known.tables, *known.merged)
    answers = [*(one for one in before if (one.clique, one.alone, one.counts.size) == cells), table]
    precisions = np.array([one.stddev**-2 for one in answers])
    counts = np.average([one.counts for one in answers], axis=0, weights=precisions)
    stddev = float(precisions.sum() ** -0.5)
    if candidate.noise >= 1:
        return best_ridge(counts, candidate.expected, stddev)
    axes = [known.axes(candidate.level).axes[j] for j in candidate.clique]
    inside = np.ix_(*(np.flatnonzero(axis.releasable) for axis in axes))
    expected, found = (one.reshape([axis.size for axis in axes])[inside] for one in (candidate.expected, counts))
    counts = expected + centred(found - expected)
    return best_ridge(counts.ravel(), expected.ravel(), stddev)


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
        share = known.left.share * best.total_share
        known, count = ask(known, account, Total(known.domain), share=share, step="number of rows, again")
        before, noise = gls_total(known.one_way_tables)
        rows = np.average([before, count.answers[0]], weights=[noise**-2, count.stddev**-2])
        known = replace(known, total=max(1.0, float(rows)))
    queries = weighted_interactions(known.domain, best.stddevs)
    step = f"interactions of up to {max(len(clique) for clique in best.stddevs)} columns"
    known, found = ask(known, account, queries, share=known.left.share, step=step)
    return replace(known, tables=(*known.tables, *found.tables), in_cells=True)


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
    axes = tuple(column.first for column in known.columns)
    queries = one_ways(Domain(axes))
    known, found = ask(known, account, queries, share=known.left.share, step="one-way marginals, again")
    counts = [np.asarray(one, np.float64) for one in queries.split(found.answers)]
    noise = 0.0 if account.adjacency.rows_are_public else gls_total(known.one_way_tables)[1]
    columns = tuple(pooled_each(known.columns, axes, counts, found.stddev, total=known.total, total_stddev=noise))
    refinements = tuple(
        refinement.reweighted(column.weights) for refinement, column in zip(known.refinements, columns, strict=True)
    )
    return replace(known, columns=columns, refinements=refinements)
