"""Counts of places within places, from the whole down to the finest level, that add up exactly.

For each parent the number of rows of each child is fitted first, then each table of children by cells.  The fit is
least squares between noisy counts and the counts expected from the parent's shares, rounded to whole numbers.  Each
level solves the two programs of the census bureau's TopDown algorithm (Abowd et al.  2022; arXiv 2401.18024): the
nearest table with given sums, and the nearest in whole numbers.  Post-processing of noisy counts; no row is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.queries.contingency import project_to_simplex, rounded_to_sum

PRIOR_CHILDREN = 10
"""Weight of the variance pooled over all cells when one cell's variance over places is estimated, as a number of places.
A larger value draws cells of few places more towards the pooled variance.  Tuned: half and twice of it change the errors
of tables of places by +.1 and 0 % (docs/benchmarks/constants.md)."""

LEAST_VARIANCE = 1e-6
"""Least variance of an estimate, as a fraction of the noise's variance, so that no weight is infinite.  A numerical
tolerance."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyPlaces:
    """Noisy tables of the places of one level.

    Parameters
    ----------
    parents
        (places,) the place of the level above that holds each.
    rows
        (places,) estimated rows of each place.
    kept
        (places,) whether rows may lie in the place.
    tables
        For each table its (places, k) noisy counts and the standard deviation of their noise.
    possible
        For each table whether its cells may hold rows, (places, k).
    """

    parents: IntArray
    rows: FloatArray
    kept: BoolArray
    tables: Mapping[int, tuple[FloatArray, float]]
    possible: Mapping[int, BoolArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlaceCounts:
    """Whole numbers of rows of the places of one level.

    Parameters
    ----------
    rows
        (places,) rows of each place.
    tables
        For each table (places, k) rows, whose sums over cells are ``rows``.
    """

    rows: IntArray
    tables: Mapping[int, IntArray]


def descended(whole: PlaceCounts, levels: Sequence[NoisyPlaces]) -> list[PlaceCounts]:
    """Return whole numbers of rows of every level, such that children add up to their parent in every table.

    A table for which no whole numbers have the required sums is left out from that level on.

    Parameters
    ----------
    whole
        One place that holds all rows.
    levels
        From the coarsest to the finest.
    """
    found: list[PlaceCounts] = []
    above = whole
    for level in levels:
        rows = np.zeros(len(level.parents), np.int64)
        for parent, total in enumerate(above.rows):
            children = np.flatnonzero((level.parents == parent) & level.kept)
            if len(children):
                rows[children] = _rows_of_children(level, children, int(total))
        tables = {}
        for name in level.tables:
            if name in above.tables:
                made = _table(level, name, rows, above.tables[name])
                if made is not None:
                    tables[name] = made
        above = PlaceCounts(rows=rows, tables=tables)
        found.append(above)
    return found


def _rows_of_children(level: NoisyPlaces, children: IntArray, total: int) -> IntArray:
    """Divide a place's rows among its children in whole numbers, nearest to the children's estimates, (children,)."""
    return rounded_to_sum(project_to_simplex(level.rows[children], float(total)), total)


def _table(level: NoisyPlaces, name: int, rows: IntArray, above: IntArray) -> IntArray | None:
    """Return whole numbers of rows of all places by the cells of one table, (places, k).

    The numbers add up to ``rows`` of each place and to the parents' table ``above``.  Return ``None`` if a parent has
    no solution.
    """
    counts, stddev = level.tables[name]
    shares = above / np.maximum(above.sum(axis=1, keepdims=True), 1)
    expected = rows[:, None] * shares[level.parents]
    estimate, variance = shrunken(counts, expected, stddev)
    found = np.zeros(counts.shape, np.int64)
    for parent in range(len(above)):
        children = np.flatnonzero(level.parents == parent)
        if not len(children):
            continue
        possible = level.possible[name][children]
        sums = rows[children][None, :], above[parent][None, :]
        near = nearest_tables(
            estimate[children][None],
            variance[children][None],
            sums[0].astype(np.float64),
            sums[1].astype(np.float64),
            possible[None],
        )
        made = controlled_rounding(near, *sums)
        if made is None or (made[0][~possible] > 0).any():
            return None
        found[children] = made[0]
    return found


def shrunken(counts: FloatArray, expected: FloatArray, stddev: float) -> tuple[FloatArray, FloatArray]:
    """Return noisy counts shrunk towards expected ones, and the variances of their errors, (places, k) each.

    A shrunk count is the posterior mean if a count is normal around the expected m with standard deviation c m (Fay and
    Herriot 1979).  The c of each cell is estimated over all places from the squared deviations of noisy counts from m,
    minus the variance of the noise.

    Parameters
    ----------
    counts
        (places, k) noisy counts.
    expected
        (places, k) counts expected from the shares of the places above, >= 0.
    stddev
        Standard deviation of the noise of a count.
    """
    excess, size = (counts - expected) ** 2 - stddev**2, expected**2
    pooled = max(float(excess.sum()), 0.0) / max(float(size.sum()), 1e-300)
    cells = size.sum(axis=0)
    own = np.maximum(excess.sum(axis=0) + PRIOR_CHILDREN * pooled * cells / len(counts), 0.0)
    ratio = own / np.maximum(cells * (1 + PRIOR_CHILDREN / len(counts)), 1e-300)
    spread = ratio * size
    variance = np.maximum(spread * stddev**2 / np.maximum(spread + stddev**2, 1e-300), LEAST_VARIANCE * stddev**2)
    return expected + spread / (spread + stddev**2) * (counts - expected), variance


def divided(places: PlaceCounts, by: int, relations: Mapping[int, FloatArray]) -> dict[int, IntArray]:
    """Return whole-number tables of places by one column and each other, (places, values, k).

    Summed over either column, a table is the place's table of the other one.  The tables are not measured: within a
    place the two columns are related as in the whole.  Tables without a solution in whole numbers are left out.

    Parameters
    ----------
    places
        Rows and tables of the places of the finest level.
    by
        A table's name: its column divides the places.
    relations
        For each other table its cells' shares at each value of that column, in the whole, (values, k).
    """
    found, values = {}, places.tables[by]
    share = values / np.maximum(places.rows[:, None], 1)
    for name, relation in relations.items():
        if name not in places.tables:
            continue
        cells = places.tables[name]
        expected = np.outer(relation.sum(axis=1), relation.sum(axis=0)) / max(float(relation.sum()), 1e-300)
        odds = np.divide(relation, expected, out=np.ones(relation.shape), where=expected > 0)
        target = share[:, :, None] * cells[:, None, :] * odds
        possible = (values > 0)[:, :, None] & (cells > 0)[:, None, :]
        variance = np.maximum(target, LEAST_VARIANCE)
        near = nearest_tables(target, variance, values.astype(np.float64), cells.astype(np.float64), possible)
        made = controlled_rounding(near, values, cells)
        if made is not None:
            found[name] = made
    return found


ROUNDS = 300
"""Most iterations of the alternating projections.  A safety limit of time."""

SETTLED = 1e-7
"""The projections stop when every sum is met to this fraction of all rows.  A numerical tolerance."""

TOGETHER = 10
"""Number of parents whose tables one linear program rounds to whole numbers.  A safety limit of time: each parent's own
part of the program is the same."""

WHOLE = 1e-9
"""A number this close to a whole number counts as whole.  A numerical tolerance."""


def nearest_tables(
    target: FloatArray, variance: FloatArray, rows: FloatArray, cells: FloatArray, possible: BoolArray
) -> FloatArray:
    """Return the tables x >= 0 of given sums with the least sum of (x - target)^2 / variance.

    Dykstra's alternating projections (1983) project onto the tables of given row sums and onto those with given column
    sums.

    Parameters
    ----------
    target
        (parents, children, k) estimates.
    variance
        (parents, children, k) variances of their errors, > 0.
    rows
        (parents, children) sums of each child, >= 0.
    cells
        (parents, k) sums over children, with the same totals.
    possible
        (parents, children, k) whether x may be above 0.
    """
    v = np.where(possible, variance, 0.0)
    x = np.where(possible, target, 0.0)
    first, second = np.zeros_like(x), np.zeros_like(x)
    tolerance = SETTLED * max(float(rows.sum()), 1.0)
    for _ in range(ROUNDS):
        y = _onto_sums(x + first, v, rows)
        first = x + first - y
        x = _onto_sums((y + second).swapaxes(1, 2), v.swapaxes(1, 2), cells).swapaxes(1, 2)
        second = y + second - x
        if np.abs(x.sum(axis=2) - rows).max() < tolerance:
            break
    return np.asarray(x)


def _onto_sums(target: FloatArray, variance: FloatArray, sums: FloatArray) -> FloatArray:
    """Return the numbers >= 0 of given sums that are nearest to ``target``, weighted by 1 / variance (a projection).

    Sums are along the last axis; ``sums`` has the other axes.  The result is max(target - t * variance, 0) with the
    right t for each sum.  A number of variance 0 becomes 0, since no row is possible there.
    """
    ratio = np.divide(target, variance, out=np.full(target.shape, -np.inf), where=variance > 0)
    order = np.argsort(-ratio, axis=-1, kind="stable")
    by = np.take_along_axis(ratio, order, axis=-1)
    mass = np.cumsum(np.take_along_axis(np.where(variance > 0, target, 0.0), order, axis=-1), axis=-1)
    spread = np.maximum(np.cumsum(np.take_along_axis(variance, order, axis=-1), axis=-1), 1e-300)
    level = (mass - sums[..., None]) / spread
    last = np.maximum((by > level).sum(axis=-1) - 1, 0)
    t = np.take_along_axis(level, last[..., None], axis=-1)
    return np.asarray(np.maximum(np.where(variance > 0, target - t * variance, 0.0), 0.0))


def controlled_rounding(tables: FloatArray, rows: IntArray, cells: IntArray) -> IntArray | None:
    """Return whole numbers >= 0 of given sums with the least sum of |x - tables|; ``None`` if the solver finds none.

    The linear program's vertices are whole, since its matrix is totally unimodular; the simplex of HiGHS solves it.

    Parameters
    ----------
    tables
        (parents, children, k) >= 0, whose sums are nearly the given ones.
    rows, cells
        (parents, children) and (parents, k) sums, in whole numbers, with the same totals.
    """
    blocks = [slice(start, start + TOGETHER) for start in range(0, len(tables), TOGETHER)]
    found = [_rounded(tables[some], rows[some], cells[some]) for some in blocks]
    whole = [one for one in found if one is not None]
    return np.concatenate(whole) if len(whole) == len(found) else None


def _rounded(tables: FloatArray, rows: IntArray, cells: IntArray) -> IntArray | None:
    """Return whole-number tables of a few parents, (parents, children, k), near given ones and with given sums.

    ``rows``, (parents, children), and ``cells``, (parents, k), are the sums.  One linear program rounds all of them,
    see `controlled_rounding`.  Return ``None`` if the program finds no exact solution.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    near = np.rint(tables)
    base = np.where(np.abs(tables - near) < WHOLE, near, np.floor(tables))
    part = np.maximum(tables - base, 0.0)
    if (base.sum(axis=2) == rows).all() and (base.sum(axis=1) == cells).all():
        return np.asarray(base, np.int64)
    up, down = np.flatnonzero(part > WHOLE), np.flatnonzero(base >= 1)
    where, sign = np.append(up, down), np.append(np.ones(len(up)), -np.ones(len(down)))
    parents, children, k = tables.shape
    of_row, of_cell = where // k, where // (children * k) * k + where % k
    at = np.arange(len(where))
    places = np.append(of_row, parents * children + of_cell), np.append(at, at)
    sums = coo_array((np.append(sign, sign), places), shape=(parents * (children + k), len(at)))
    wanted = np.append((rows - base.sum(axis=2)).ravel(), (cells - base.sum(axis=1)).ravel())
    cost = np.append(1 - 2 * part.ravel()[up], np.ones(len(down)))
    found: Any = linprog(cost, A_eq=sums.tocsc(), b_eq=wanted, bounds=(0, 1), method="highs-ds")  # type: ignore[call-overload]  # sparse is taken
    if found.x is None or not found.success:
        return None
    change = np.bincount(where, sign * np.rint(found.x), minlength=base.size)
    moved = base + change.reshape(tables.shape)
    exact = (moved.sum(axis=2) == rows).all() and (moved.sum(axis=1) == cells).all() and (moved >= 0).all()
    return np.asarray(moved, np.int64) if exact else None
