"""Makes noisy tables agree: the exact generalised least squares estimate of all of them at once.

This estimate is the first step of a fit, before `max_entropy`.  The estimate is linear in the noisy counts; counts may
be negative.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.arrays import Clique, FloatArray, Table
from synthdp.checks import check_number
from synthdp.errors import ParameterError
from synthdp.queries.contingency import (
    NoisyTable,
    Shape,
    check_clique,
    check_shape,
    check_tables,
    subsets_of,
    table_shape,
    table_size,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GLSEffects:
    """Main effects and interactions of a set of noisy tables, each averaged by precision over the tables, given the total.

    A table of counts over clique c splits orthogonally into one effect for each A ⊆ c.  The effect of A is the margin
    on A, centred along every axis and spread evenly over the other columns (analysis of variance).  White noise in the
    table is white noise in every effect, independent between effects.  So least squares, under the constraint that all
    tables are margins of one table, averages each effect separately, by precision (Xiao et al.  2023, ResidualPlanner,
    theorem 5).

    Parameters
    ----------
    shape
        Number of codes of each column.
    total
        The sum of every table, in rows; taken as exact.
    effects
        For each non-empty A in some table, the averaged effect on the margin of A, shaped by A's columns.
    precisions
        1 / variance of one cell of that margin before centring.
    """

    shape: Shape
    total: float
    effects: Mapping[Clique, FloatArray]
    precisions: Mapping[Clique, float]

    def table(self, clique: Clique) -> Table:
        """Return the estimated table of ``clique``, (cells,) in rows: the sum of the total and its effects.

        Effects without a measured table are taken as 0.
        """
        check_clique(clique, self.shape)
        cells = table_size(self.shape, clique)
        estimate = np.full(table_shape(self.shape, clique), self.total / cells)
        for part in subsets_of(clique):
            if part in self.effects:
                inside = [self.shape[a] if a in part else 1 for a in clique]
                spread = table_size(self.shape, part) / cells
                estimate += self.effects[part].reshape(inside) * spread
        return estimate.ravel()

    def stddev(self, clique: Clique) -> float:
        """Return the standard deviation of one cell of ``table(clique)``, in rows.

        Raises
        ------
        ParameterError
            If some effect of ``clique`` was not measured: the estimate then has an unknown bias.
        """
        check_clique(clique, self.shape)
        cells = table_size(self.shape, clique)
        variance = 0.0
        for part in subsets_of(clique):
            if part not in self.precisions:
                raise ParameterError(f"clique ({clique}) must lie within a measured marginal")
            spread = table_size(self.shape, part) / cells
            centred = math.prod(1 - 1 / self.shape[a] for a in part)
            variance += spread**2 * centred / self.precisions[part]
        return math.sqrt(variance)


def gls_effects(tables: Iterable[NoisyTable], shape: Sequence[int], *, total: float) -> GLSEffects:
    """Return every main effect and interaction, averaged by precision over all tables that include its columns.

    Tables made of these effects agree on all margins, and are the least-squares estimate.

    Parameters
    ----------
    tables
        Independent noisy tables, and interactions without marginals; a clique may occur more than once, with different
        noise.
    shape
        Number of codes of each column.
    total
        The number of rows, as estimated from noisy answers.  The tables' own totals are discarded.

    Raises
    ------
    ParameterError
        If a table does not fit ``shape``, or ``total`` is not finite.
    """
    sizes = check_shape(shape)
    check_number("total", total)
    weighted: dict[Clique, FloatArray] = {}
    precisions: dict[Clique, float] = {}
    for noisy in tables:
        check_tables([noisy], sizes)
        table = noisy.counts.reshape(table_shape(sizes, noisy.clique))
        for part in noisy.parts:
            of_table = table_size(sizes, part) / (noisy.counts.size * noisy.stddev**2)
            precision = noisy.stddev**-2 if noisy.alone else of_table
            weighted[part] = weighted.get(part, 0.0) + precision * _effect(table, noisy.clique, part)
            precisions[part] = precisions.get(part, 0.0) + precision
    pooled = {part: value / precisions[part] for part, value in weighted.items()}
    return GLSEffects(shape=sizes, total=float(total), effects=pooled, precisions=precisions)


def make_consistent(tables: Iterable[NoisyTable], shape: Sequence[int], *, total: float) -> tuple[NoisyTable, ...]:
    """Return estimates of the tables that sum to ``total`` and agree on every margin they share, of any order.

    For tables of one and two columns: all estimates of each column's margin are averaged by precision; every table is
    shifted additively to these margins; repeated tables are averaged by precision.

    Parameters
    ----------
    tables
        Independent noisy tables, and interactions without marginals; a clique may occur more than once.
    shape
        Number of codes of each column.
    total
        The number of rows, as estimated from noisy answers.  The tables' own totals are discarded.

    Returns
    -------
    The one-way tables of all columns in a table, by column; then the other cliques of tables in order of first
    appearance; then cliques of several columns that lie in no other clique and whose interactions alone were measured.
    ``stddev`` is the noise scale that sets a fit's ridge.  For a one-way table it is the noise of the average.  For
    another table it is the noise of the average of its repeats, or of its own interaction, without the gain from other
    tables.  (`GLSEffects.stddev` is the error of the estimate itself.)
    """
    noisy = list(tables)
    pooled = gls_effects(noisy, shape, total=total)
    repeats: dict[Clique, float] = {}
    alone: dict[Clique, float] = {}
    for table in noisy:
        found = alone if table.alone else repeats
        if table.alone or len(table.clique) > 1:
            found[table.clique] = found.get(table.clique, 0.0) + table.stddev**-2
    inside = {part for clique in alone for part in subsets_of(clique) if part != clique}
    repeats |= {c: precision for c, precision in alone.items() if len(c) > 1 and c not in repeats and c not in inside}
    one_ways = {part: pooled.precisions[part] for part in sorted(pooled.precisions) if len(part) == 1}
    return tuple(
        NoisyTable(clique=clique, counts=pooled.table(clique), stddev=precision**-0.5)
        for clique, precision in (one_ways | repeats).items()
    )


def make_merged_consistent(tables: Iterable[NoisyTable], pooled: GLSEffects) -> tuple[NoisyTable, ...]:
    """Return tables of merged codes, shifted so that their total and one-way margins agree with all other answers.

    The shift is additive and even along the other axes, so interactions stay as they were measured.  The margins of
    such a table are not averaged with others, since tables of all codes have them too.  An interaction without its
    marginal is unchanged.

    Parameters
    ----------
    tables
        Independent noisy tables of merged codes, one for each clique.
    pooled
        Effects estimated from all other answers, including the main effects of all their columns.
    """
    return tuple(
        table if table.alone else replace(table, counts=_with_margins(table, pooled).ravel()) for table in tables
    )


def _with_margins(table: NoisyTable, pooled: GLSEffects) -> FloatArray:
    """Return one merged table, shaped, with the total and margins of ``pooled`` and its own interaction, in rows.

    The gap of each margin is spread evenly over the other axes, which leaves the interaction unchanged.
    """
    shape = table.shape(pooled.shape)
    counts = table.counts.reshape(shape)
    counts = counts + (pooled.total - counts.sum()) / counts.size
    for axis, (j, groups) in enumerate(zip(table.clique, table.groups or (), strict=True)):
        wanted = np.bincount(groups, weights=pooled.table((j,)))
        gap = wanted - counts.sum(axis=tuple(other for other in range(len(shape)) if other != axis))
        inside = [size if other == axis else 1 for other, size in enumerate(shape)]
        counts = counts + gap.reshape(inside) * (len(wanted) / counts.size)
    return np.asarray(counts)


def gls_total(tables: Iterable[NoisyTable]) -> tuple[float, float]:
    """Return the number of rows estimated from all tables' sums, averaged by precision, and its standard deviation.

    All tables are then made to have this total.

    Raises
    ------
    ParameterError
        If there is no table.
    """
    pairs = [(table.counts.sum(), 1 / (table.counts.size * table.stddev**2)) for table in tables]
    precision = sum(weight for _, weight in pairs)
    if precision == 0:
        raise ParameterError("tables must hold at least one table")
    return float(sum(value * weight for value, weight in pairs) / precision), precision**-0.5


def _effect(table: FloatArray, clique: Clique, part: Clique) -> FloatArray:
    """Return the main effect or interaction of ``part`` in a shaped table of ``clique``, shaped by the part's columns.

    The effect is the margin on ``part``, centred along every axis; `gls_effects` averages effects over tables.
    """
    margin: FloatArray = table.sum(axis=tuple(axis for axis, a in enumerate(clique) if a not in part))
    return centred(margin)


def centred(table: FloatArray) -> FloatArray:
    """Return a shaped table minus its mean along every axis in turn, which leaves its highest interaction."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table
