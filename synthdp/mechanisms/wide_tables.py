"""Wide tables: one screening of all pairs of columns over few bins each, then one batch of all tables that gain enough.

Where columns are many, most pairs of columns are unrelated.  The related pairs are still more than one junction tree
holds.  Every pair with a significant score is considered for measuring.  The tables with a significant interaction join
columns to connected components, which `wide_fit.fit_components` fits one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from synthdp.arrays import MEAN_ABS, Clique, FloatArray, IntArray
from synthdp.curator import Curator
from synthdp.distribution.junction_tree import TreePlanner
from synthdp.domain.domain import Domain
from synthdp.fit.proportional_step import best_ridge
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.measuring import DENOMINATOR, ask
from synthdp.mechanisms.adaptive.merging import MERGED
from synthdp.mechanisms.adaptive.screening import MAX_PAIR_CELLS
from synthdp.mechanisms.adaptive.shares import screening_part
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.wide_fit import related
from synthdp.mechanisms.workload import Workload
from synthdp.queries.contingency import NoisyTable, table_size
from synthdp.queries.distances import PairDistances
from synthdp.queries.marginals import Marginals

SCREENED_CELLS = 3000
"""Most screening bins of all columns together, not counting the first of each column.  A safety limit of time, which
grows with the square of this number."""

CANDIDATES = 24
"""Most pairs per column, on average, that are considered for measuring: the pairs with the best scores.  A safety limit
of time."""

CLEAR = 5.0
"""Least excess of a measured interaction that is kept for the fit.  The excess is its sum of squares beyond the part
that noise and chance explain, in standard deviations of that part.  A larger value loses weaker relations; a smaller
one fits more noise.  Not measured."""

MAX_REJECTIONS = 40
"""Most pairs of a connected component that are tried for its junction tree without finding room there.  Later pairs are
weaker, and each try takes time.  A safety limit of time."""

CELLS_A_COLUMN = 2_000
"""Most cells of a connected component's junction tree, per column of the component.  A safety limit of time."""


def measure_wide(known: Knowledge, account: Curator, workload: Workload, *, screen: float | None) -> Knowledge:
    """Score all pairs of a wide table over few bins each, and measure the tables that gain enough, in one batch.

    Costs all of the remaining budget if any pair gains more than its noise hides, else the cost of the scores, for the
    curator's neighbours.

    Parameters
    ----------
    known
        Noisy estimates of every column, and the remaining budget.
    account
        The curator that answers.
    workload
        The workload; pairs of weight 0 are not measured.
    screen
        Fraction of the remaining budget that goes to the screening; ``None`` to decide by its noise.
    """
    known = replace(known, in_groups=True)
    columns = [j for j, size in enumerate(known.domain.shape) if size > 1 and workload.weight((j,)) > 0]
    if len(columns) < 2:
        return known
    margins = known.margins
    queries = screening_queries(known, columns, margins)
    if screen is None:
        screen = screening_part(known.left, share=known.left.share, pairs=queries.k, total=known.total)
    if screen == 0:
        return known
    known, found = ask(known, account, queries, share=known.left.share * screen, step="screening of pairs")
    left_columns, right_columns = (np.array(columns)[side] for side in queries.pairs)
    pairs = standing_out(found.answers, found.stddev, most=CANDIDATES * len(columns))
    cliques: list[Clique] = [(int(left_columns[i]), int(right_columns[i])) for i in pairs]
    errors = {
        clique: float(found.answers[i])
        for i, clique in zip(pairs, cliques, strict=True)
        if workload.weight(clique) > 0 and table_size(known.domain.shape, clique) <= MAX_PAIR_CELLS
    }
    chosen = worth_measuring(errors, margins, workload, known.left)
    return known if not chosen else _measure(known, account, chosen, margins)


def screening_queries(known: Knowledge, columns: Sequence[int], margins: Sequence[FloatArray]) -> PairDistances:
    """Return the query of all pairs' L1 distances from independence, over a few screening bins of each column.

    Screening bins merge a column's coarse bins, so that cells are well filled.
    """
    most = int(np.clip(1 + SCREENED_CELLS // len(columns), 2, MERGED))
    axes, expected = [], []
    for j in columns:
        axis, margin = known.domain.axes[j], margins[j]
        bucket = buckets(margin, most, ordered=axis.grid.ordered)
        axes.append(axis.merged(bucket))
        expected.append(np.asarray(np.bincount(bucket, weights=margin), np.float64))
    return PairDistances(Domain(tuple(axes)), whole_margins(expected, DENOMINATOR), DENOMINATOR)


def whole_margins(margins: Sequence[FloatArray], denominator: int) -> tuple[IntArray, ...]:
    """Return margins as whole numbers of 1 / ``denominator`` rows, (bins,) each, all with the same sum of at least 1.

    ``margins`` holds estimated rows, with one common sum.  `PairDistances` needs whole numbers, since its noise is
    exact.  It also needs one sum, since each product of two margins has to be a table of all rows.
    """
    total = max(1, round(float(margins[0].sum()) * denominator))
    found = []
    for margin in margins:
        steps = np.rint(np.cumsum(margin) * (total / max(float(margin.sum()), 1e-300))).astype(np.int64)
        steps[-1] = total
        found.append(np.diff(np.minimum(steps, total), prepend=0))
    return tuple(found)


def buckets(margin: FloatArray, most: int, *, ordered: bool) -> IntArray:
    """Return the screening bin of each coarse bin of a column, (coarse bins,): two or more, about equally filled.

    Screening bins of an ordered column hold neighbours.  If one coarse bin holds nearly all rows, it is one screening
    bin, and all others together are the other.

    Parameters
    ----------
    margin
        (coarse bins,) estimated rows of two or more coarse bins.
    most
        Most screening bins, >= 2.
    ordered
        Whether a screening bin has to hold neighbours.
    """
    if len(margin) <= most:
        return np.arange(len(margin))
    if ordered:
        middle = np.cumsum(margin) - margin / 2
        part = middle / max(float(margin.sum()), 1e-300)
        found = np.minimum(most * part, most - 1).astype(np.int64)  # an empty last bin would get `most`
    else:
        found, filled = np.zeros(len(margin), np.int64), np.zeros(most)
        for group in np.argsort(-margin, kind="stable"):
            found[group] = int(np.argmin(filled))
            filled[found[group]] += margin[group]
    numbered = np.unique(found, return_inverse=True)[1].astype(np.int64)
    if numbered.max() == 0:  # one coarse bin holds nearly all rows
        numbered = (np.arange(len(margin)) != int(np.argmax(margin))).astype(np.int64)
    return numbered


def standing_out(distances: FloatArray, stddev: float, *, most: int) -> IntArray:
    """Return positions of the significant noisy distances, the largest first, at most ``most``.

    Noise alone exceeds the threshold in at most about one pair for every two columns.
    """
    columns = math.sqrt(2 * len(distances)) + 1
    threshold = stddev * math.sqrt(2 * math.log(max(columns, 8.0) / 2))
    order = np.argsort(-distances, kind="stable")[:most]
    return np.asarray(order[distances[order] > threshold], np.int64)


def worth_measuring(
    errors: dict[Clique, float], margins: Sequence[FloatArray], workload: Workload, budget: BudgetAllocation
) -> list[Clique]:
    """Choose the pairs whose tables, measured with equal noise, together gain most beyond the error that noise hides.

    The list is empty if no pair gains anything.

    Parameters
    ----------
    errors
        For each candidate the L1 distance of its table from independence, in rows.
    margins
        (coarse bins,) estimated rows of each column.
    workload
        The workload, whose weights multiply the gains.
    budget
        The remaining budget, which all tables together may cost.
    """
    if not errors:
        return []
    weights = {clique: workload.weight(clique) for clique in errors}
    cliques = sorted(errors, key=lambda clique: -weights[clique] * errors[clique])
    expected = [np.outer(margins[a], margins[b]) / max(float(margins[a].sum()), 1.0) for a, b in cliques]
    best: tuple[float, IntArray] = (0.0, np.zeros(0, np.int64))
    for size in sorted({*np.unique(np.geomspace(1, len(cliques), 24).astype(int)).tolist(), len(cliques)}):
        noise = MEAN_ABS * budget.table_stddev(budget.share / size)
        gains = np.array([
            weights[clique] * (errors[clique] - float(np.minimum(noise, table).sum()))
            for clique, table in zip(cliques[:size], expected, strict=False)
        ])  # fmt: skip
        gain = float(gains[gains > 0].sum())
        if gain > best[0]:
            best = (gain, np.flatnonzero(gains > 0))
    return [cliques[i] for i in best[1]]


def _measure(known: Knowledge, account: Curator, cliques: Sequence[Clique], margins: Sequence[FloatArray]) -> Knowledge:
    """Measure all chosen tables with equal noise for the whole remaining budget, and return the plan's new state.

    Only tables with a significant interaction are kept for the fit.  Costs the remaining budget, for the curator's
    neighbours.
    """
    queries = Marginals(known.domain, tuple(cliques))
    step = f"marginals of two columns: {len(cliques)} pairs of {len(known.domain)} columns"
    known, found = ask(known, account, queries, share=known.left.share, step=step)
    tables, ridges, strengths = [], {}, {}
    for clique, counts in zip(cliques, queries.split(found.answers), strict=True):
        a, b = clique
        expected = np.outer(margins[a], margins[b]).ravel() / max(known.total, 1.0)
        table = NoisyTable(clique=clique, counts=np.asarray(counts, np.float64), stddev=found.stddev)
        strength = interaction_strength(table, known.domain.shape, total=known.total)
        if strength > 0:
            tables.append(table)
            ridges[clique] = best_ridge(table.counts, expected, found.stddev)
            strengths[clique] = strength
    known = replace(known, tables=(*known.tables, *tables), ridges={**known.ridges, **ridges})
    return known.with_tree(plan_components(strengths, list(known.zeros), known.domain.shape))


def interaction_strength(table: NoisyTable, shape: Sequence[int], *, total: float) -> float:
    """Return the sum of squares of a pair's interaction beyond noise and chance, in squared rows.

    The result is 0 if noise and chance explain the interaction, by `CLEAR`.  Only tables above 0 are fitted, and the
    strongest join the junction tree first.

    Parameters
    ----------
    table
        A noisy table of two columns.
    shape
        Number of coarse bins of each column.
    total
        Estimated number of rows, which determines the chance variance of a cell.
    """
    counts = table.counts.reshape([shape[j] for j in table.clique])
    centred = counts - counts.mean(axis=0) - counts.mean(axis=1, keepdims=True) + counts.mean()
    free = (counts.shape[0] - 1) * (counts.shape[1] - 1)
    variance = table.stddev**2 + max(total, 0.0) / counts.size
    excess = float((centred**2).sum()) - free * variance
    return excess if excess > CLEAR * math.sqrt(2 * free) * variance else 0.0


def plan_components(strengths: dict[Clique, float], base: Sequence[Clique], shape: Sequence[int]) -> list[Clique]:
    """Return the measured pairs that are to lie inside of junction trees, one tree per connected component.

    In each component a spanning forest of the strongest pairs comes first (Chow and Liu 1968).  Further pairs join the
    tree as long as it stays small (`CELLS_A_COLUMN`).

    Parameters
    ----------
    strengths
        Strength of each measured pair, in squared rows; see `interaction_strength`.
    base
        Cliques that are in a junction tree already.
    shape
        Number of coarse bins of each column.
    """
    tree: list[Clique] = []
    for columns in related([*base, *strengths], len(shape)):
        inside = set(columns)
        fixed = [clique for clique in base if clique[0] in inside]
        pairs = sorted((c for c in strengths if c[0] in inside), key=lambda c: -strengths[c])
        joining = joining_cliques(pairs, fixed)
        taken, rejections = [*fixed, *joining], 0
        place = {j: i for i, j in enumerate(columns)}
        planner = TreePlanner([shape[j] for j in columns])
        local = [tuple(place[j] for j in clique) for clique in taken]
        for pair in (p for p in pairs if p not in set(joining)):
            more = tuple(place[j] for j in pair)
            if rejections < MAX_REJECTIONS and planner.cells([*local, more]) <= CELLS_A_COLUMN * len(columns):
                taken.append(pair)
                local.append(more)
            else:
                rejections += 1
        tree += taken[len(fixed) :]
    return tree


def joining_cliques(cliques: Sequence[Clique], base: Sequence[Clique]) -> list[Clique]:
    """Return the cliques of a greedy spanning forest (Kruskal's algorithm, in the given order).

    A clique is taken if all its columns lie in different connected components; the components start from ``base``.  So
    direct relations are preferred to indirect ones.
    """
    root: dict[int, int] = {}

    def find(column: int) -> int:
        """Return the root column of the connected component of ``column``."""
        while column in root:
            column = root[column]
        return column

    def join(clique: Clique) -> None:
        """Join the connected components of a clique's columns."""
        first, *others = {find(column) for column in clique}
        root.update(dict.fromkeys(others, first))

    for clique in base:
        join(clique)
    joining = []
    for clique in cliques:
        if len({find(column) for column in clique}) == len(clique):
            join(clique)
            joining.append(clique)
    return joining
