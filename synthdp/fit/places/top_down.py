"""Counts of places within places, from the whole down to the finest level, that add up exactly.

For each parent the number of rows of each child, then each table of children by cells: least squares between noisy counts
and what the parent's shares let expect, made whole.  Post-processing of noisy counts; knows no row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.fit.places.transport import controlled_rounding, nearest_tables
from synthdp.queries.contingency import project_to_simplex

PRIOR_CHILDREN = 10
"""Weight of the common variation of all cells when a cell's own variation is estimated, counted in children.  More
draws cells of few places towards the common variation, less trusts what few places say.  Tuned; not measured.
"""

LEAST_VARIANCE = 1e-6
"""Least variance of an estimate, as a fraction of the noise's variance, so that no weight is infinite.  A numerical
tolerance.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyPlaces:
    """Noisy tables of the places of one level.

    Parameters
    ----------
    parents
        (places,) the place of the level above that each lies in.
    rows
        (places,) estimated rows of each place.
    kept
        (places,) which of them rows may lie in.
    tables
        For each table its (places, k) noisy counts and the standard deviation of their noise.
    possible
        For each table which cells may hold rows, (places, k).
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
        For each table (places, k) rows, whose sums are ``rows``.
    """

    rows: IntArray
    tables: Mapping[int, IntArray]


def descended(whole: PlaceCounts, levels: Sequence[NoisyPlaces]) -> list[PlaceCounts]:
    """Return whole-number rows of every level, such that children add up to their parent in every table.

    A table for which no whole numbers have the required sums is left out from that level on.

    Parameters
    ----------
    whole
        One place, which holds all.
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
    near = project_to_simplex(level.rows[children], float(total))
    found = np.floor(near).astype(np.int64)
    found[np.argsort(found - near, kind="stable")[: total - int(found.sum())]] += 1
    return np.asarray(found)


def _table(level: NoisyPlaces, name: int, rows: IntArray, above: IntArray) -> IntArray | None:
    """Return whole-number rows of all places by the cells of one table, (places, k).

    They add up to ``rows`` of each place and to the parents' table ``above``.  ``None`` if a parent has no solution.
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
    """Shrink noisy counts towards expected ones.

    Return the estimates and the variances of their errors, (places, k) each.

    The posterior mean where x is normal about the expected m with standard deviation c m (Fay and Herriot 1979): c of
    each cell is told by how far noisy counts lie from m beyond noise, over all places.

    Parameters
    ----------
    counts
        (places, k) noisy counts.
    expected
        (places, k) what the shares of the places above let expect, >= 0.
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

    Their sums are the places' tables.  Nothing is measured of them: within a place the two columns are related as in
    the whole.  Tables that cannot be made whole are left out.

    Parameters
    ----------
    places
        Of the finest level.
    by
        A table's name: its column divides the places.
    relations
        For each other table how its cells go with the values of that column in the whole, (values, k) shares.
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
