"""A distribution from public rows alone: the rows themselves, and rows of a model of their pairs, as weighted rows.

Nothing private enters, so nothing is noisy but the public sample.  `fit.raking` then moves the weights to what
was measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import MEAN_ABS, BoolArray, Clique, Codes, FloatArray, IntArray
from synthdp.distribution.junction_tree import TreePlanner
from synthdp.distribution.markov_random_field import Graphical
from synthdp.domain.public_rows import UNKNOWN
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.fit.public_shrinkage import share_kept, shrunk_to
from synthdp.fit.raking import RakedTable, rake_rows
from synthdp.queries.contingency import NoisyTable, Shape, cell_index, contingency, table_size
from synthdp.randomness import Generator

TREE_CELLS = 2e5
"""Most cells of the junction tree that is fitted to public pairs.  A safety limit of time: each sweep of the fit passes
over all cells."""

MODEL_ROWS = 50_000
"""Number of rows drawn from the junction tree of public pairs.  A safety limit of time: errors by 30 000 and 100 000
differ by less than a hundredth."""

MOST_PAIRS = 400
"""Most pairs of columns that the drawn rows are raked to, those farthest from independence.  A safety limit of time."""

MOST_CELLS = 2**20
"""Pairs and triples with more cells than this are not used.  A safety limit of memory."""

SWEEPS = 6
"""Passes over the public pairs when the drawn rows are raked.  More come closer to the pairs, and take more time.  A
numerical tolerance."""

RIDGE = 5.0
"""Largest ridge of a public pair in the fit, in public rows.  A tolerance: 1, 3 and 10 give .079, .078, .077 on Adult's
published sample.  Half and twice of it change no release of two tables with public rows."""

RIDGE_PART = 1 / 600
"""Largest ridge of a public pair in the fit, as a fraction of all public rows.  Tuned: half and twice of it change the
three-way error of two tables with public rows by -.4 and -.3 % (docs/benchmarks/constants.md)."""

HELD_OUT = 0.5
"""Fraction of the public rows held out to decide how much of the others is kept unsmoothed.  A convention: halves.  With .25
the three-way error of two tables with public rows is .2 ± .1 % larger (docs/benchmarks/constants.md)."""

ONE_WAY_RIDGE = 0.05
"""How closely drawn rows are raked to the public counts of one column: the ridge, in rows; smaller is closer.  Derived:
equal to the ridge in `SETTLED`, whose one-way tables have a stddev of 1 row."""

TRIPLES = 60
"""Number of three-column tables that decide how much of the public rows is kept unsmoothed.  A safety limit of time."""

SETTLED = MaxEntropy(max_sweeps=12, ridge_one_way=0.05)
"""Settings of the maximum-entropy fit to public tables; they have no noise, so that 12 sweeps suffice.  A numerical
tolerance.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SmoothedRows:
    """Weighted rows that stand for a public table.

    Parameters
    ----------
    shape
        Number of codes of each column.
    codes
        (m, d) rows.
    weights
        (m,) >= 0, with sum 1.
    related
        Number of pairs of columns that are related in the public table, beyond chance.
    """

    shape: Shape
    codes: Codes
    weights: FloatArray
    related: int


def smoothed_rows(
    codes: IntArray,
    shape: Shape,
    margins: list[FloatArray],
    *,
    zeros: Mapping[Clique, BoolArray],
    rng: Generator,
) -> SmoothedRows:
    """Return a smooth distribution from public rows, since a few rows leave many combinations without any.

    The distribution is a maximum-entropy junction tree of pairs of columns, raked to all pairs that are related beyond
    chance.  The public rows themselves are mixed in with a weight.  The weight is larger if their tables of three
    columns predict held-out rows better than the pairs alone.

    Parameters
    ----------
    codes
        (n, d) public rows; `UNKNOWN` where a value is not known.
    shape
        Number of codes of each column.
    margins
        (k_j,) shares that unknown values of each column are drawn from.
    zeros
        For some cliques, which combinations may occur.
    rng
        Source of the rows.
    """
    rows = _filled(codes, margins, zeros, shape, rng)
    held_out = rng.permutation(len(rows)) < HELD_OUT * len(rows)
    part = _model_of_pairs(rows[~held_out], shape, zeros, rng)
    share = _share_of_rows(rows[~held_out], rows[held_out], part, shape, rng)
    model = _model_of_pairs(rows, shape, zeros, rng)
    whole = np.concatenate([np.full(len(rows), share / max(len(rows), 1)), model.weights * (1 - share)])
    return SmoothedRows(
        shape=shape, codes=np.vstack([rows, model.codes]), weights=whole / whole.sum(), related=model.related
    )


def _model_of_pairs(rows: IntArray, shape: Shape, zeros: Mapping[Clique, BoolArray], rng: Generator) -> SmoothedRows:
    """Return weighted rows, with weights of sum 1, of a model of the pairs of columns in public rows.

    Rows are drawn from a junction tree fitted to related pairs, and raked to the tables of all related pairs.
    """
    pairs, ridge = _public_pairs(rows, shape), min(RIDGE, max(len(rows), 1) * RIDGE_PART)
    one_ways = [contingency(rows, shape, (j,)) for j in range(len(shape))]
    chosen = _tree(pairs, shape, list(zeros))
    tables = [NoisyTable(clique=(j,), counts=counts, stddev=1.0) for j, counts in enumerate(one_ways)]
    tables += [NoisyTable(clique=clique, counts=pairs[clique].counts, stddev=ridge) for clique in chosen]
    model: Graphical = SETTLED.fit(tables, shape, total=float(max(len(rows), 1)), allowed=zeros).model
    drawn = model.sample(MODEL_ROWS, rng)
    weights = np.full(len(drawn), max(len(rows), 1) / len(drawn))
    raked = [_target(drawn, shape, clique, one.counts, ridge) for clique, one in list(pairs.items())[:MOST_PAIRS]]
    raked += [_target(drawn, shape, (j,), counts, ONE_WAY_RIDGE) for j, counts in enumerate(one_ways)]
    for _ in range(SWEEPS if pairs else 0):
        weights = rake_rows(weights, raked, total=float(len(rows)))
    return SmoothedRows(shape=shape, codes=drawn, weights=weights / weights.sum(), related=len(pairs))


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """A public pair's table, shrunk towards independence, and its L1 distance from independence beyond chance.

    Both are in rows.
    """

    counts: FloatArray
    excess: float


def _public_pairs(rows: IntArray, shape: Shape) -> dict[Clique, _Pair]:
    """Return the tables of all pairs of columns related beyond chance, those farthest from independence first.

    The tables are shrunk towards independence, by what chance explains.
    """
    found = {}
    margins = [contingency(rows, shape, (j,)) for j in range(len(shape))]
    for a, b in itertools.combinations(range(len(shape)), 2):
        if table_size(shape, (a, b)) > MOST_CELLS:
            continue
        counts = contingency(rows, shape, (a, b))
        expected = np.outer(margins[a], margins[b]).ravel() / max(len(rows), 1)
        chance = np.minimum(MEAN_ABS * np.sqrt(expected), 2 * expected).sum()
        excess = float(np.abs(counts - expected).sum() - chance)
        if excess > 0 and share_kept(counts, expected) > 0:
            found[a, b] = _Pair(shrunk_to(counts, expected), excess)
    return dict(sorted(found.items(), key=lambda item: -item[1].excess))


def _tree(pairs: Mapping[Clique, _Pair], shape: Shape, base: list[Clique]) -> list[Clique]:
    """Return the pairs that a junction tree of at most `TREE_CELLS` cells holds, beside the cliques of ``base``.

    Pairs that join columns come first (Chow and Liu 1968), then those farthest from independence.
    """
    planner, chosen, taken = TreePlanner(shape), list[Clique](), list(base)
    group = list(range(len(shape)))
    joining = []
    for a, b in pairs:
        if group[a] != group[b]:
            joining.append((a, b))
            group = [group[a] if one == group[b] else one for one in group]
    others = [clique for clique in list(pairs)[:MOST_PAIRS] if clique not in set(joining)]
    for clique in [*joining, *others]:
        if planner.cells([*taken, clique]) <= TREE_CELLS:
            chosen.append(clique)
            taken.append(clique)
    return chosen


def _share_of_rows(rows: IntArray, held_out: IntArray, model: SmoothedRows, shape: Shape, rng: Generator) -> float:
    """Return the weight, 0 to 1, of the public rows themselves, beside the model's, that predicts held-out rows best.

    The weight is found by least squares over the cells of some tables of three columns.  The weight is 0 if no pair is
    related or there is no such table.  A cell counts by one over the root of its expected rows: with equal weights only
    the few largest cells would matter, and with one over the rows empty cells would matter as much.
    """
    triples = [c for c in itertools.combinations(range(len(shape)), 3) if table_size(shape, c) <= MOST_CELLS]
    if not triples or not model.related or not len(held_out):
        return 0.0
    product = square = 0.0
    for i in rng.permutation(len(triples))[:TRIPLES]:
        clique = triples[i]
        modelled = contingency(model.codes, shape, clique, model.weights)
        gap = contingency(rows, shape, clique) / len(rows) - modelled
        missed = contingency(held_out, shape, clique) / len(held_out) - modelled
        weight = 1 / np.sqrt(modelled + 1 / len(rows))
        product += float((weight * gap * missed).sum())
        square += float((weight * gap**2).sum())
    return min(max(product / square, 0.0), 1.0) if square > 0 else 0.0


def _target(rows: Codes, shape: Shape, clique: Clique, counts: FloatArray, ridge: float) -> RakedTable:
    """Return a clique's public counts, as a target of raking: the weights of ``rows`` are fitted to it.

    Raking starts from potentials 0.  A larger ``ridge``, in rows, holds the potentials nearer to 0, so that the weights
    follow differences of a few rows less.
    """
    cells = cell_index(rows, shape, clique)
    return RakedTable(cells=cells, counts=counts, potential=np.zeros(counts.size), ridge=ridge)


def _filled(
    codes: IntArray, margins: list[FloatArray], zeros: Mapping[Clique, BoolArray], shape: Shape, rng: Generator
) -> IntArray:
    """Return public rows, (rows, d) codes, with unknown values drawn from their columns' margins.

    Rows that a rule forbids are dropped, as a model must not have them.
    """
    filled = codes.copy()
    for j, margin in enumerate(margins):
        at = np.flatnonzero(filled[:, j] == UNKNOWN)
        if len(at):
            filled[at, j] = rng.choice(len(margin), size=len(at), p=margin / margin.sum())
    allowed = np.ones(len(filled), np.bool_)
    for clique, mask in zeros.items():
        allowed &= mask[cell_index(filled, shape, clique)]
    return filled[allowed]
