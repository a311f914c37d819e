"""Tables of three columns over few bins of each, candidates of the last round: relations that no pair shows.

Only the interaction of the three columns is measured, as one record moves it less than the whole table.  The relations
of the triple's pairs are known by then.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from synthdp.arrays import MEAN_ABS, Clique, narrow
from synthdp.curator import Curator
from synthdp.distribution.explicit import Explicit
from synthdp.domain.domain import Domain
from synthdp.mechanisms.adaptive.energies import energies, explained_by_chance
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.merging import merged_groups
from synthdp.mechanisms.adaptive.screening import at_least_rare, distances_from
from synthdp.mechanisms.adaptive.selection import MAX_TRIPLES, Candidate
from synthdp.mechanisms.adaptive.shares import SCREEN, score_noise, signal
from synthdp.mechanisms.column_rounding import BEYOND
from synthdp.mechanisms.workload import Workload
from synthdp.queries.marginals import Marginals, weighted_tables

MOST_LEVELS = 12
"""Most bins of a column in a table of three columns.  A safety limit of the table's number of cells, then 1 728 at most."""

MOST_SCREEN_UNNAMED = 0.002
"""Largest fraction of the remaining budget that scoring triples may cost if the user names no target and no workload.
If scoring would cost more, no triple is considered.  A larger value scores triples in data of more columns or fewer rows
too, and leaves less budget for measuring.  Tuned on two data sets of many rows: at 0 the three-way error changes by
+2.5 +- .4 %, the error of pairs by -7.9 +- 1.1 % (docs/benchmarks/planner.md).
"""


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
    most = (SCREEN if _named(workload) else MOST_SCREEN_UNNAMED) * known.left.share
    return triples if _screening_share(known, len(triples)) <= most else []


def _named(workload: Workload) -> bool:
    """Return whether the user named a target or a workload, so that scoring triples may cost more."""
    return workload.target is not None or workload.weights is not None


def _screening_share(known: Knowledge, triples: int) -> float:
    """Return the share of the whole budget at which the scores of this many triples have the noise `score_noise`."""
    return triples / (score_noise(3) * signal(known.left, known.total)) ** 2


def _with_axes(known: Knowledge, workload: Workload, *, share: float, tables: int) -> Knowledge:
    """Return the plan's state with one more merge level, whose bins are for triples.

    An ordered column has so few bins, but at least 3, that an average cell is significant: it holds `BEYOND` stddevs of
    its noise if ``tables`` triples share ``share`` of the budget.  The target, or any categorical column without a
    target, has up to `MOST_LEVELS` bins.
    """
    stddev = known.left.table_stddev(share / tables)
    goal, axes = workload.target, known.domain.axes
    kept = 1 if goal is None else min(MOST_LEVELS, axes[goal].size)
    groups = (known.total / (BEYOND * stddev * kept)) ** (1 / 3 if goal is None else 1 / 2)
    few = int(np.clip(math.floor(groups), 3, MOST_LEVELS))  # two bins cannot show what rises and falls
    merged = []
    for j, (axis, margin) in enumerate(zip(axes, known.margins, strict=True)):
        whole = j == goal or (goal is None and not axis.grid.ordered)
        merged.append(axis.merged(merged_groups(axis, margin, MOST_LEVELS if whole else few)))
    return replace(known, coarser=(*known.coarser, Domain(tuple(merged))))


def screen_triples(
    known: Knowledge,
    account: Curator,
    workload: Workload,
    *,
    share: float,
    model: Explicit,
    triples: Sequence[Clique],
    past: Sequence[Candidate],
) -> tuple[list[Candidate], Knowledge]:
    """Score triples by the noisy L1 distance of their tables over merged bins from a weighted sample of the model.

    Returns the triples as candidates, with the relation estimated from their scores, and the plan's state after the
    cost.  Merged bins are made for triples that get ``share`` of the whole budget together; see `_with_axes`.

    Costs at most the fraction `SCREEN` of ``share``, for the curator's neighbours.

    Chance and the errors that remain in the triple's pairs explain a part of each score, since the triple's interaction
    would not remove these errors.  ``past`` holds the candidates of earlier rounds, among them the pairs.
    """
    known = _with_axes(known, workload, share=share, tables=len(triples))
    errors = left_over(past, known)
    share = min(_screening_share(known, len(triples)), SCREEN * share)
    level = len(known.coarser)
    domain = known.axes(level)
    codes = np.empty(model.codes.shape, np.min_scalar_type(max(domain.shape) - 1), order="F")
    for j, groups in enumerate(known.groups(level)):
        codes[:, j] = narrow(groups, domain.shape[j]).take(model.codes[:, j])
    weights = model.weights * (known.total / model.weights.sum())
    tables = Marginals(domain, tuple(triples))
    modelled, squares = (weighted_tables(codes, domain.shape, triples, one) for one in (weights, weights**2))
    after, found, expected = distances_from(
        known, account, tables, modelled, share=share, step="screening of triples against the model, merged bins"
    )
    # A pair is part of len(domain) - 2 triples; a triple that nobody named has that much less weight.
    weight = 1.0 if _named(workload) else 1 / (len(domain) - 2)
    explained = []
    for triple, likely, square in zip(triples, expected, squares, strict=True):
        chance = explained_by_chance(likely, square)
        pairs = itertools.combinations(triple, 2)
        explained.append(math.sqrt(chance**2 + sum(errors.get(pair, 0.0) ** 2 for pair in pairs)))
    said = energies(found.answers, np.array(explained), found.stddev, total=known.total, order=3)
    candidates = []
    for triple, one, likely in zip(triples, said, expected, strict=True):
        noise = known.relative_noise(triple, level)
        if noise > 0:  # 0 if a column has one bin
            matters = weight * workload.weight(triple)
            candidates.append(Candidate(triple, one, at_least_rare(likely), matters, level, noise))
    # These distances are not stored: a reader of the release takes stored distances as distances from independence.
    return candidates, replace(known, left=after.left)


def left_over(past: Sequence[Candidate], known: Knowledge) -> dict[Clique, float]:
    """Return, for each pair, the L1 error in rows that remains in its table over the merged bins of triples.

    The error of a measured pair is its noise, summed within merged bins.  The error of any other pair is the distance
    that its score suggests.  Scores of triples are corrected by these errors.

    Parameters
    ----------
    past
        The candidates of earlier rounds, as they are now.
    known
        The plan's state, whose last merge level is for triples.
    """
    shape = known.coarser[-1].shape
    found: dict[Clique, float] = {}
    for one in (one for one in past if len(one.clique) == 2):
        if one.known > 0:
            cells = float(((one.variances * one.known) ** 1.5).sum())
            merged = min(cells, math.prod(shape[j] for j in one.clique))
            found[one.clique] = MEAN_ABS * math.sqrt(cells * merged / one.known)
        elif one.level == 0:
            found.setdefault(one.clique, one.relation.expected)
    return found
