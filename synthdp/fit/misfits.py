"""Noisy tables without misfits: values that do not fit the schema, counted in cells of their own and never released.

A row that is a misfit in one column keeps its other columns.  Each margin is therefore taken from all rows that fit in its
own columns, and scaled to the total number of rows: misfits count as if they were spread like the values that fit.
Post-processing of noisy tables; knows no row and no model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from synthdp.arrays import BoolArray, Clique, FloatArray
from synthdp.distribution.contingency import NoisyTable, table_shape, table_size
from synthdp.fit.graphical.consistency import Effects, NoisyEffect, make_consistent, pooled_effects
from synthdp.measurements import beyond_noise
from synthdp.queries.interactions import Interactions
from synthdp.queries.marginals import Marginals
from synthdp.queries.trigonometric import Factor, Indicator, TensorBasis

LEAST_FIT = 0.02
"""Smallest share of rows assumed to fit: it limits how far noise is scaled up."""

LEAST_STDDEV = 1e-9
"""Noise of a huge budget may round to none at all; a table is never taken for exact."""


def misfit_rows(tables: Sequence[NoisyTable], kept: Sequence[BoolArray]) -> FloatArray:
    """Return the estimated rows that are misfits in each column, (d,); 0 where noise explains them.

    Parameters
    ----------
    tables
        Independent noisy tables over all cells.
    kept
        Per column, which of its cells hold values that fit, (cells,).
    """
    shape = [len(cells) for cells in kept]
    found, precision = np.zeros(len(kept)), np.zeros(len(kept))
    for table in tables:
        counts = table.counts.reshape(table_shape(shape, table.clique))
        for axis, j in enumerate(table.clique):
            dropped = np.flatnonzero(~kept[j])
            if len(dropped):
                inside = counts.take(dropped, axis=axis)
                weight = 1 / (inside.size * table.stddev**2)
                found[j] += weight * inside.sum()
                precision[j] += weight
    known = precision > 0
    rows = np.divide(found, precision, out=np.zeros(len(kept)), where=known)
    stddev = np.where(known, 1 / np.sqrt(np.where(known, precision, 1.0)), math.inf)
    bounds = np.array([beyond_noise(one, max(1, int(known.sum()))) for one in stddev])
    return np.where(known & (rows > bounds), rows, 0.0)


def without_misfits(table: NoisyTable, kept: Sequence[BoolArray], misfits: FloatArray, *, total: float) -> NoisyTable:
    """Return a table as it would be if the misfits were spread like the values that fit; 0 in their cells.

    Parameters
    ----------
    table
        Over all cells.
    kept
        Per column, which of its cells hold values that fit.
    misfits
        (d,) estimated rows that are misfits, 0 for none.
    total
        Number of rows.

    Returns
    -------
    A table whose effect of each set of columns is that of the rows that fit in these columns, scaled to ``total``; the
    table itself where all its cells are kept.
    """
    inside = np.ix_(*(kept[j] for j in table.clique))
    shape = table_shape([len(cells) for cells in kept], table.clique)
    if all(kept[j].all() for j in table.clique):
        return table
    counts = table.counts.reshape(shape)
    found = np.zeros(shape)
    if not any(misfits[j] > 0 for j in table.clique):
        found[inside] = counts[inside]
        return NoisyTable(clique=table.clique, counts=found.ravel(), stddev=table.stddev)
    sizes = [int(kept[j].sum()) for j in table.clique]
    cells = math.prod(sizes)
    whole = np.full(sizes, total / cells)
    largest = 1.0
    for size in range(1, len(shape) + 1):
        for part in itertools.combinations(range(len(shape)), size):
            columns = tuple(table.clique[axis] for axis in part)
            scale = total / fitting_rows(table, columns, kept, misfits, total=total)
            largest = max(largest, scale)
            margin = counts.sum(axis=tuple(axis for axis in range(len(shape)) if axis not in part))
            effect = margin[np.ix_(*(kept[table.clique[axis]] for axis in part))] * scale
            for axis in range(effect.ndim):
                effect = effect - effect.mean(axis=axis, keepdims=True)
            spread = math.prod(sizes[axis] for axis in part) / cells
            whole += effect.reshape([sizes[axis] if axis in part else 1 for axis in range(len(shape))]) * spread
    found[inside] = whole
    return NoisyTable(clique=table.clique, counts=found.ravel(), stddev=table.stddev * largest)


def noisy_tables(queries: Marginals, answers: FloatArray, stddev: float) -> list[NoisyTable]:
    """Return the answers to marginals as tables, each with its columns in increasing order."""
    found = []
    for clique, counts in zip(queries.cliques, queries.split(answers), strict=True):
        shaped = counts.reshape([queries.domain.shape[j] for j in clique])
        flat = shaped.transpose(np.argsort(clique, kind="stable")).ravel()
        found.append(NoisyTable(clique=tuple(sorted(clique)), counts=flat, stddev=max(stddev, LEAST_STDDEV)))
    return found


def noisy_effects(queries: Interactions, answers: FloatArray, stddev: float) -> list[NoisyEffect]:
    """Return the answers to interactions, each with its columns in increasing order and its own noise."""
    found = []
    for clique, values, shape, scale in zip(
        queries.cliques, queries.split(answers), queries.shapes, queries.scales, strict=True
    ):
        flat = values.reshape(shape).transpose(np.argsort(clique, kind="stable")).ravel()
        found.append(NoisyEffect(clique=tuple(sorted(clique)), values=flat, stddev=stddev / scale))
    return found


def fitting_effects(effects: Sequence[NoisyEffect], misfits: FloatArray, *, total: float) -> list[NoisyEffect]:
    """Return effects, of the rows that fit in their columns, as they would be if all rows did.

    Misfits are taken to strike each column independently: an effect says nothing of the rows that it leaves out.

    Parameters
    ----------
    effects
        Independent noisy effects over the cells that are kept.
    misfits, total
        As in `without_misfits`.
    """
    found = []
    for effect in effects:
        fit = math.prod(1 - min(float(misfits[j]) / max(total, 1.0), 1 - LEAST_FIT) for j in effect.clique)
        found.append(NoisyEffect(clique=effect.clique, values=effect.values / fit, stddev=effect.stddev / fit))
    return found


def fitting_pool(
    tables: Sequence[NoisyTable],
    effects: Sequence[NoisyEffect],
    kept: Sequence[BoolArray],
    misfits: FloatArray,
    *,
    total: float,
) -> Effects:
    """Return what tables over all cells and effects over kept ones say together, without misfits; all as above."""
    fitting = [kept_cells(without_misfits(table, kept, misfits, total=total), kept) for table in tables]
    sizes = [int(cells.sum()) for cells in kept]
    return pooled_effects(fitting, sizes, total=total, effects=fitting_effects(effects, misfits, total=total))


def answers_without_misfits(
    queries: Marginals, tables: Sequence[NoisyTable], misfits: FloatArray, *, total: float
) -> tuple[FloatArray, FloatArray]:
    """Return the answers to marginals as they would be without misfits, in their own order.

    Parameters
    ----------
    queries
        The marginals.
    tables
        What `noisy_tables` made of their answers.
    misfits, total
        As in `without_misfits`.

    Returns
    -------
    The answers, and the standard deviation of the noise in each, (k,) each.
    """
    kept = [axis.releasable for axis in queries.domain.axes]
    found = [without_misfits(table, kept, misfits, total=total) for table in tables]
    shapes = [[queries.domain.shape[j] for j in table.clique] for table in found]
    counts = [
        table.counts.reshape(shape).transpose(np.argsort(np.argsort(clique, kind="stable"), kind="stable")).ravel()
        for table, shape, clique in zip(found, shapes, queries.cliques, strict=True)
    ]
    return np.concatenate(counts), np.repeat([table.stddev for table in found], queries.sizes)


def make_fitting(
    tables: Sequence[NoisyTable],
    kept: Sequence[BoolArray],
    misfits: FloatArray,
    *,
    total: float,
    effects: Sequence[NoisyEffect] = (),
) -> tuple[NoisyTable, ...]:
    """Return tables without misfits that agree, as `make_consistent` does; all parameters as above."""
    alone = fitting_effects(effects, misfits, total=total)
    if all(cells.all() for cells in kept):
        return make_consistent(tables, [len(cells) for cells in kept], total=total, effects=alone)
    fitting = [kept_cells(without_misfits(table, kept, misfits, total=total), kept) for table in tables]
    agreed = make_consistent(fitting, [int(cells.sum()) for cells in kept], total=total, effects=alone)
    return tuple(all_cells(table, kept) for table in agreed)


def with_misfits(
    table: FloatArray, clique: Clique, kept: Sequence[BoolArray], misfits: FloatArray, *, total: float
) -> FloatArray:
    """Put misfits back into a table without any, flat, as if they struck each column independently."""
    shape = table_shape([len(cells) for cells in kept], clique)
    counts = table.reshape(shape)
    for axis, j in enumerate(clique):
        dropped = np.flatnonzero(~kept[j])
        if not len(dropped) or misfits[j] <= 0:
            continue
        share = min(float(misfits[j]) / max(total, 1.0), 1.0)
        struck = counts.sum(axis=axis, keepdims=True) * share
        counts = counts * (1 - share)
        place = [slice(None)] * len(shape)
        place[axis] = slice(int(dropped[0]), int(dropped[0]) + 1)
        counts[tuple(place)] += struck
    return np.asarray(counts.ravel(), np.float64)


def kept_cells(table: NoisyTable, kept: Sequence[BoolArray]) -> NoisyTable:
    """Return the kept cells of a table alone."""
    shape = table_shape([len(cells) for cells in kept], table.clique)
    inside = table.counts.reshape(shape)[np.ix_(*(kept[j] for j in table.clique))]
    return NoisyTable(clique=table.clique, counts=inside.ravel(), stddev=table.stddev)


def all_cells(table: NoisyTable, kept: Sequence[BoolArray]) -> NoisyTable:
    """Return a table of kept cells with a 0 in all others."""
    shape = [len(cells) for cells in kept]
    found = np.zeros(table_size(shape, table.clique))
    mask = np.ones(1, np.bool_)
    for j in table.clique:
        mask = np.logical_and.outer(mask, kept[j]).ravel()
    found[mask] = table.counts
    return NoisyTable(clique=table.clique, counts=found, stddev=table.stddev)


def fitting_rows(
    table: NoisyTable, columns: Clique, kept: Sequence[BoolArray], misfits: FloatArray, *, total: float
) -> float:
    """Return the rows that fit in some columns of a table, by inclusion and exclusion: few noisy cells are added up.

    Parameters
    ----------
    table
        Over all cells.
    columns
        Some of its columns.
    kept, misfits, total
        As in `without_misfits`.
    """
    counts = table.counts.reshape(table_shape([len(cells) for cells in kept], table.clique))
    struck = [j for j in columns if misfits[j] > 0]
    rows = total - sum(float(misfits[j]) for j in struck)
    least = max(rows, LEAST_FIT * total, 1.0)
    for size in range(2, len(struck) + 1):
        for some in itertools.combinations(struck, size):
            inside = counts
            for j in some:
                inside = inside.take(np.flatnonzero(~kept[j]), axis=table.clique.index(j))
            rows += (-1) ** size * float(inside.sum())
    most = total - max((float(misfits[j]) for j in struck), default=0.0)
    return max(min(rows, most), least)


def averages_without_misfits(
    basis: TensorBasis, averages: FloatArray, misfits: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the averages of products as they would be if misfits were spread like the values that fit.

    Parameters
    ----------
    basis
        The products; those that are 1 for misfits only come out 0.
    averages
        (k,) their noisy averages over all rows.
    misfits
        (d,) shares of the rows that are misfits in each column, 0 for none.

    Returns
    -------
    The averages, and how many times as large the noise in each is, (k,) each.
    """
    kept = [axis.releasable for axis in basis.domain.axes]
    together = {
        tuple(sorted(factor.column for factor in term)): float(average)
        for term, average in zip(basis.terms, averages, strict=True)
        if len(term) == 2 and all(_is_misfit(factor, kept) for factor in term)
    }
    scale = np.ones(basis.k)
    found = np.array(averages, np.float64)
    for i, term in enumerate(basis.terms):
        struck = tuple(sorted(factor.column for factor in term if misfits[factor.column] > 0))
        if any(_is_misfit(factor, kept) for factor in term):
            found[i] = 0.0
        elif struck:
            scale[i] = 1 / _fitting_share(struck, misfits, together)
    return found * scale, scale


def _is_misfit(factor: Factor, kept: Sequence[BoolArray]) -> bool:
    return isinstance(factor, Indicator) and not kept[factor.column][factor.cell]


def _fitting_share(struck: Clique, misfits: FloatArray, together: Mapping[Clique, float]) -> float:
    """Return the share of rows that fit in one or two columns, by how many misfits they have in common if that is known."""
    shares = [float(misfits[j]) for j in struck]
    independent = math.prod(1 - share for share in shares)
    if len(struck) != 2:
        return max(independent, LEAST_FIT)
    common = together.get(struck, math.prod(shares))
    return max(min(1 - sum(shares) + common, 1 - max(shares)), 1 - sum(shares), LEAST_FIT)
