"""Tables of three columns over few groups of each, beside the last batch of tables: what no pair tells.

Of such a table the interaction of all three columns is measured alone, which one record moves less than the table; what
its pairs have to do with each other is known by then.  Whether any is worth its noise is found out on the way: the batch
is measured with a part of what it may cost, the triples are scored against the model that this gives, and what is left
goes to the triples of most gain, or to the same tables once more.  So where triples tell nothing, only their scores are
lost.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from synthdp.arrays import Clique
from synthdp.curator import Curator
from synthdp.distribution.explicit import Explicit
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.mechanisms.adaptive.energies import MEAN_ABS, energies, explained_by_chance
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.measuring import measure_tables
from synthdp.mechanisms.adaptive.merging import SEEN, merged_groups
from synthdp.mechanisms.adaptive.screening import Screening, distances_from
from synthdp.mechanisms.adaptive.selection import MAX_TRIPLES, Batch, Candidate, Planner
from synthdp.mechanisms.adaptive.shares import signal
from synthdp.mechanisms.workload import Workload
from synthdp.privacy.loss import ROUNDING
from synthdp.queries.contingency import cell_index
from synthdp.queries.marginals import Marginals

LEVEL = 2
"""The level of merging of triples.  Derived: one more than the level of pairs."""

GROUPS = (3, 8)
"""Fewest and most groups of a column in a triple."""

MOST_LEVELS = 12
"""Most groups of the target, and without one of a column without an order.  A safety limit."""

FILLED = 3.5
"""A column has so many groups that a typical cell of a triple holds this many times the noise if all are measured."""

SCORE_NOISE = 0.02
"""Noise of a triple's score, in parts of the rows."""

MOST_SCREEN, MOST_SCREEN_UNNAMED = 0.08, 0.002
"""Part of what is left beyond which triples are no candidates: of those that a target or a workload names, and else."""

RESERVE = 0.5
"""Fraction of the last batch's budget that is held back until triples are scored.

That part then goes to triples, or to a second measurement of the batch.  Tuned; not measured."""

LEAST_EXPECTED = 0.02
"""Rows that a cell is thought to hold at least, where no row of the model lies in it.  A numerical tolerance."""


def triples_that_matter(known: Knowledge, workload: Workload) -> list[Clique]:
    """Return the triples that matter, with the target if there is one; none where scores would cost too much.

    None either with Laplace noise, or of a column with misfits: an interaction says nothing of such rows.

    Parameters
    ----------
    known
        With groups of every column, and what is left of the budget.
    workload
        What matters.
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
    return workload.target is not None or workload.weights is not None


def _screening_share(known: Knowledge, triples: int) -> float:
    """Return the share of the budget for which the scores of so many triples have a noise of `SCORE_NOISE`."""
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
    """Measure a batch of tables, and beside it those triples that are worth their noise.

    Costs the shares of the batch, or of an empty one at most ``share``, for the curator's neighbours.

    Parameters
    ----------
    known, account, batch, candidates
        As in `measure_tables`.
    workload
        What matters.
    share
        What triples may cost where no pair tells anything.
    triples
        Those that may be measured.
    planner
        Chooses among them.
    model
        Fits weighted rows to what is known.
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
        """Return what the batch gains if so much more of what waited goes to it."""
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
    """Return what is known with the axes of so many triples, which may cost a share, as one more level of merging."""
    stddev = known.left.table_stddev(share / tables)
    goal, axes = workload.target, known.domain.axes
    kept = 1 if goal is None else min(MOST_LEVELS, axes[goal].size)
    groups = (known.total / (FILLED * stddev * kept)) ** (1 / 3 if goal is None else 1 / 2)
    few = int(np.clip(math.floor(groups), *GROUPS))
    merged = []
    for j, (axis, margin) in enumerate(zip(axes, known.margins, strict=True)):
        whole = j == goal or (goal is None and not axis.grid.ordered)
        of = merged_groups(axis, margin, MOST_LEVELS if whole else few, ends=1.0)
        merged.append(Axis(axis.name, axis.column, axis.starts, of[axis.cells]))
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
    """Score triples over their groups by their distance from weighted rows; costs ``share`` of the whole budget.

    What rows of the model would scatter, and what is left over of the errors of the triple's pairs, which its interaction
    would not take away, explain a part of a score.
    """
    domain = known.axes(LEVEL)
    every = tuple(range(len(domain)))
    codes = np.column_stack([of[model.codes[:, j]] for j, of in zip(every, known.groups(every, LEVEL), strict=True)])
    weights = model.weights * (known.total / model.weights.sum())
    tables = Marginals(domain, tuple(triples))
    cells = [cell_index(codes, domain.shape, triple) for triple in triples]
    modelled = [
        np.bincount(c, weights, minlength=size).astype(np.float64) for c, size in zip(cells, tables.sizes, strict=True)
    ]
    found, expected, left = distances_from(
        known, account, tables, modelled, share=share, step="screening of triples against the model, merged bins"
    )
    # A pair lies in all tables of three columns that hold it: so much more it matters where nobody named any.
    weight = 1.0 if _named(workload) else 1 / (len(domain) - 2)
    explained = []
    for triple, likely, c in zip(triples, expected, cells, strict=True):
        chance = explained_by_chance(likely, np.bincount(c, weights**2, minlength=len(likely)).astype(np.float64))
        pairs = itertools.combinations(triple, 2)
        explained.append(math.sqrt(chance**2 + sum(left_over.get(pair, 0.0) ** 2 for pair in pairs)))
    said = energies(
        found.answers, np.array(explained), found.stddev, total=known.total, columns=len(domain), order=3
    )  # fmt: skip
    candidates = []
    for triple, one, likely in zip(triples, said, expected, strict=True):
        noise = math.sqrt(math.prod(1 - 1 / int(domain.axes[j].releasable.sum()) for j in triple))
        if noise > 0:  # else a column has one group
            most, matters = np.maximum(likely, LEAST_EXPECTED), weight * workload.weight(triple)
            candidates.append(Candidate(triple, one, most, matters, LEVEL, noise))
    # Not stored with the release: its readers take stored distances for distances from independence.
    return Screening(candidates, replace(known, left=left))


def left_over(candidates: Sequence[Candidate], batch: Batch, known: Knowledge) -> dict[Clique, float]:
    """Return for pairs the error that is left in their table over the groups of triples, in rows.

    Of a pair in the batch it is the noise of its table, added up in these groups; of another one its score.

    Parameters
    ----------
    candidates
        With their noisy scores.
    batch
        What was measured of them.
    known
        With the axes of triples.
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
