"""Tables of three columns over few bins of each, measured with the last batch: relations that no pair shows.

Only the interaction of the three columns is measured, as one record moves it less than the whole table.  The relations
of the triple's pairs are known by then.  First the batch is measured with a fraction of its budget.  Then the triples
are scored against the model fitted so far.  The rest of the budget goes to the triples of largest gain, or to a second
measurement of the batch.  So if no triple gains more than its noise, only the scores are wasted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from synthdp.arrays import MEAN_ABS, Clique, narrow
from synthdp.curator import Curator
from synthdp.distribution.explicit import Explicit
from synthdp.domain.domain import Domain
from synthdp.mechanisms.adaptive.energies import energies, explained_by_chance
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.measuring import measure_tables
from synthdp.mechanisms.adaptive.merging import SEEN, merged_groups
from synthdp.mechanisms.adaptive.screening import LEAST_EXPECTED, Screening, distances_from
from synthdp.mechanisms.adaptive.selection import MAX_TRIPLES, Batch, Candidate, Planner
from synthdp.mechanisms.adaptive.shares import signal
from synthdp.mechanisms.workload import Workload
from synthdp.privacy.loss import ROUNDING
from synthdp.queries.marginals import Marginals, weighted_tables

LEVEL = 2
"""Merge level of the bins in triples.  Level 0 has unmerged coarse bins, and level 1 has the merged bins of pairs.
Derived: one more than the level of pairs."""

GROUPS = (3, 8)
"""Fewest and most merged bins of a column in a table of three columns.  More bins show finer relations; fewer bins have
better filled cells.  Tuned: half and twice of them change the three-way error of two tables of many rows by -.1 and 0 %
(docs/benchmarks/constants.md); the upper one also limits the time."""

MOST_LEVELS = 12
"""Most bins, in a table of three columns, of the target column, or, without a target, of each categorical column.  A
safety limit of the table's number of cells."""

FILLED = 3.5
"""Rows in an average cell of a triple's table, in stddevs of its noise if all triples were measured.  It determines the
number of merged bins per column.  A larger value makes fewer bins, which noise hides less and which show less.  Tuned:
half and twice of it change the three-way error of two tables of many rows by +.1 and -.2 %
(docs/benchmarks/constants.md)."""

SCORE_NOISE = 0.02
"""Standard deviation aimed at in the noisy score of a triple, as a fraction of the rows.  A smaller one finds weaker
triples, and leaves less to measure them.  Tuned: half and twice of it change the three-way error of three tables
with a target by 0 and +.2 % (docs/benchmarks/constants.md).
"""

MOST_SCREEN, MOST_SCREEN_UNNAMED = 0.08, 0.002
"""Largest fraction of the remaining budget that scoring triples may cost: the first if the user names a target or a
workload, else the second.  If it would cost more, no triple is considered.  Larger ones consider triples of more
columns or fewer rows, at the cost of all tables.  Tuned: `MOST_SCREEN`: half and twice of it change the three-way
error of three tables with a target by 0 and +.1 % (docs/benchmarks/constants.md).
"""

RESERVE = 0.5
"""Fraction of the last batch's budget that is held back until triples are scored.  It then goes to the triples that pay,
or to measuring the batch's tables once more.  More leaves more for triples, but scores them against a noisier model.
Tuned: half and twice of it change the three-way error of two tables of many rows by +.2 and +6.0 %
(docs/benchmarks/constants.md)."""


def triples_that_matter(known: Knowledge, workload: Workload) -> list[Clique]:
    """Return the sets of three columns that may be measured: all within the workload, each with the target, if any.

    The list is empty if there are more than `MAX_TRIPLES`, if scoring would cost too much, or if noise is Laplace.
    Columns with out-of-domain rows are left out, since interactions do not count these rows.

    Parameters
    ----------
    known
        The plan's state, with coarse bins of every column and the remaining budget.
    workload
        The workload, by which tables are weighted.
    """
    if known.left.exponent != 0.5:
        return []
    sizes = [int(kept.sum()) for kept in known.kept]
    fitting = {j for j, size in enumerate(sizes) if size > 1 and known.misfits[j] == 0}
    wished = [tuple(range(len(sizes)))] if workload.weights is None else [clique for clique, _ in workload.weights]
    goal = set() if workload.target is None else {workload.target}
    others = 3 - len(goal)
    if not goal <= fitting or any(math.comb(len(clique), others) > MAX_TRIPLES for clique in wished):
        return []
    inside = [fitting & set(clique) - goal for clique in wished if goal <= set(clique)]
    found = {rest for columns in inside for rest in itertools.combinations(sorted(columns), others)}
    triples: list[Clique] = sorted(tuple(sorted(goal | set(rest))) for rest in found)
    if len(triples) > MAX_TRIPLES:
        return []
    most = (MOST_SCREEN if _named(workload) else MOST_SCREEN_UNNAMED) * known.left.share
    return triples if _screening_share(known, len(triples)) <= most else []


def _named(workload: Workload) -> bool:
    """Return whether the user named a target or a workload, so that scoring triples may cost more."""
    return workload.target is not None or workload.weights is not None


def _screening_share(known: Knowledge, triples: int) -> float:
    """Return the share of the whole budget at which the scores of this many triples have the noise `SCORE_NOISE`."""
    return triples / (SCORE_NOISE * signal(known.left, known.total)) ** 2


def measure_with_triples(
    known: Knowledge,
    account: Curator,
    workload: Workload,
    batch: Batch,
    candidates: Sequence[Candidate],
    *,
    share: float,
    triples: Sequence[Clique],
    planner: Planner,
    model: Callable[[Knowledge], Explicit],
) -> Knowledge:
    """Measure a batch of tables, and also the triples whose expected gain exceeds their noise.

    The fraction `RESERVE` of the batch's budget is held back until the triples are scored against the model.  Costs the
    shares of the batch, or at most ``share`` if it is empty, for the curator's neighbours.

    Parameters
    ----------
    known, account, batch, candidates
        As in `measure_tables`.
    workload
        The workload, by which tables are weighted.
    share
        Share of the budget for triples if the batch is empty.
    triples
        The triples that may be measured.
    planner
        Chooses among the triples.
    model
        Function from the plan's state to weighted rows fitted to it.
    """
    whole = sum(batch.shares.values()) or share
    known = measure_tables(known, account, batch.times(1 - RESERVE), candidates)
    triples = [triple for triple in triples if triple not in known.tree]
    if not triples:
        return measure_tables(known, account, batch.times(RESERVE), candidates)
    known = _with_axes(known, workload, share=RESERVE * whole, tables=len(triples))
    noisy = left_over(candidates, batch, known)
    screening = min(_screening_share(known, len(triples)), MOST_SCREEN * whole)
    scores, known = _screen(
        known, account, workload, share=screening, model=model(known), triples=triples, left_over=noisy
    )
    waited = RESERVE * whole - screening
    chosen = [one for one in candidates if one in batch]

    def gain_of_batch(rest: float) -> float:
        """Return the decrease of the batch's weighted L1 error, in rows, if the share ``rest`` goes to the batch too."""
        parts = ((1 - RESERVE) * whole, (1 - RESERVE) * whole + rest)
        stddevs = (
            [known.left.table_stddev(batch.shares[one.clique] * part / whole) for one in chosen] for part in parts
        )
        without, found = (sum(one.gain(stddev) for one, stddev in zip(chosen, some, strict=True)) for some in stddevs)
        return found - without

    more = planner.choose_next_tables(
        scores,
        known.left,
        share=waited,
        base=[*known.zeros, *known.tree],
        shape=known.domain.shape,
        beside=gain_of_batch,
    )
    known = measure_tables(known, account, more, scores)
    rest = waited - sum(more.shares.values())
    return measure_tables(known, account, batch.times(rest / whole), candidates) if rest > ROUNDING else known


def _with_axes(known: Knowledge, workload: Workload, *, share: float, tables: int) -> Knowledge:
    """Return the plan's state with one more merge level, whose bins are for triples.

    The bins are so few that an average cell holds `FILLED` stddevs of its noise if ``tables`` triples share ``share``
    of the budget.
    """
    stddev = known.left.table_stddev(share / tables)
    goal, axes = workload.target, known.domain.axes
    kept = 1 if goal is None else min(MOST_LEVELS, axes[goal].size)
    groups = (known.total / (FILLED * stddev * kept)) ** (1 / 3 if goal is None else 1 / 2)
    few = int(np.clip(math.floor(groups), *GROUPS))
    merged = []
    for j, (axis, margin) in enumerate(zip(axes, known.margins, strict=True)):
        whole = j == goal or (goal is None and not axis.grid.ordered)
        merged.append(axis.merged(merged_groups(axis, margin, MOST_LEVELS if whole else few)))
    return replace(known, coarser=(*known.coarser, Domain(tuple(merged))))


def _screen(
    known: Knowledge,
    account: Curator,
    workload: Workload,
    *,
    share: float,
    model: Explicit,
    triples: Sequence[Clique],
    left_over: Mapping[Clique, float],
) -> Screening:
    """Score triples by the noisy L1 distance of their tables over merged bins from a weighted sample of the model.

    Costs ``share`` of the whole budget, for the curator's neighbours.

    Chance and ``left_over`` explain a part of each score.  ``left_over`` holds the errors, in rows, that remain in the
    triple's pairs.  The triple's interaction would not remove these errors.
    """
    domain = known.axes(LEVEL)
    every = tuple(range(len(domain)))
    codes = np.empty(model.codes.shape, np.min_scalar_type(max(domain.shape) - 1), order="F")
    for j, of in zip(every, known.groups(every, LEVEL), strict=True):
        codes[:, j] = narrow(of, domain.shape[j]).take(model.codes[:, j])
    weights = model.weights * (known.total / model.weights.sum())
    tables = Marginals(domain, tuple(triples))
    modelled, squares = (weighted_tables(codes, domain.shape, triples, one) for one in (weights, weights**2))
    found, expected, left = distances_from(
        known, account, tables, modelled, share=share, step="screening of triples against the model, merged bins"
    )
    # A pair is part of len(domain) - 2 triples; a triple that nobody named has that much less weight.
    weight = 1.0 if _named(workload) else 1 / (len(domain) - 2)
    explained = []
    for triple, likely, square in zip(triples, expected, squares, strict=True):
        chance = explained_by_chance(likely, square)
        pairs = itertools.combinations(triple, 2)
        explained.append(math.sqrt(chance**2 + sum(left_over.get(pair, 0.0) ** 2 for pair in pairs)))
    said = energies(
        found.answers, np.array(explained), found.stddev, total=known.total, columns=len(domain), order=3
    )  # fmt: skip
    candidates = []
    for triple, one, likely in zip(triples, said, expected, strict=True):
        noise = math.sqrt(math.prod(1 - 1 / int(domain.axes[j].releasable.sum()) for j in triple))
        if noise > 0:  # 0 if a column has one bin
            most, matters = np.maximum(likely, LEAST_EXPECTED), weight * workload.weight(triple)
            candidates.append(Candidate(triple, one, most, matters, LEVEL, noise))
    # These distances are not stored: a reader of the release takes stored distances as distances from independence.
    return Screening(candidates, replace(known, left=left))


def left_over(candidates: Sequence[Candidate], batch: Batch, known: Knowledge) -> dict[Clique, float]:
    """Return, for each pair, the L1 error in rows that remains in its table over the merged bins of triples.

    The error of a measured pair is its noise, summed within merged bins.  The error of any other pair is the distance
    that its score suggests.  Scores of triples are corrected by these errors.

    Parameters
    ----------
    candidates
        The candidates, with their noisy scores.
    batch
        The batch of pairs that was measured.
    known
        The plan's state, with the merge level of triples.
    """
    shape = known.axes(LEVEL).shape
    found: dict[Clique, float] = {}
    for one in candidates:
        if len(one.clique) != 2:
            continue
        if one in batch:
            stddev = known.left.table_stddev(batch.shares[one.clique]) * one.noise
            cells = one.cells(stddev / one.noise)
            found[one.clique] = (
                MEAN_ABS * stddev * math.sqrt(cells * min(cells, math.prod(shape[j] for j in one.clique)))
            )
        elif one.clique not in batch.shares and one.level == 0:
            found[one.clique] = SEEN * one.relation.expected
    return found
