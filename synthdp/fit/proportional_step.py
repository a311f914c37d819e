"""The one update of both fits of graphical models: the exact step of one table's log-potential, the others held fixed.

`best_ridge` chooses how far the step trusts a table.  `max_entropy` applies the step to beliefs on a junction tree,
`raking` to weighted rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.fit.consistency import centred
from synthdp.queries.contingency import NoisyTable, Shape

_TINY = 1e-300
"""Smallest expected count whose logarithm is taken.  A numerical tolerance."""
_MAX_STEPS = 100
"""Most Newton iterations of one step.  They converge quadratically, so only a faulty step reaches the limit.  A safety
limit."""
_SETTLED = 1e-6
"""An iteration has converged if each cell's log-count changes by less than this, and the total misses by less than this
fraction.  A numerical tolerance."""
_LARGEST = 600.0
"""Exponents are capped at this, so that exp does not overflow; a cell with a larger one had no rows in the model.  A
numerical tolerance."""
_NEAR = 0.1
"""The scale s that all cells share is corrected only when Newton's correction of each cell's log-count is below this;
farther off, its linear approximation is poor.  A numerical tolerance."""
_FEW_STEPS = 4
"""Rounds of proportional fitting that give a table without interaction the margins of a noisy table.  Few rounds do, as
the result only shows how strong interactions are.  A numerical tolerance."""

RIDGES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Ridges that are tried for a table, in multiples of its noise; the larger, the less the fit trusts the table.  A grid:
its steps of about two are a tolerance."""


class Step(NamedTuple):
    """The change of a log-potential, and the factor by which it scales each cell of the table, (cells,) each."""

    change: FloatArray
    factor: FloatArray


def proportional_step(
    expected: FloatArray, potential: FloatArray, target: FloatArray, *, ridge: float, total: float
) -> Step:
    """Minimise the regularised dual over one table's log-potential θ, exactly.

    Solves ``s * expected * exp(step) + ridge * (θ + step) = target`` in every cell.  The scale s is such that the first
    term sums to ``total``.  With u = log(s * expected * exp(step) / ridge) the equation is exp(u) + u = z + log s.  Its
    left side is convex and increasing in u, so Newton's method converges from any start above the root.  Its first step
    from the model's own counts leads there.

    Parameters
    ----------
    expected
        (cells,) the model's counts, >= 0, with sum ``total``.
    potential
        (cells,) the log-potential θ now.
    target
        (cells,) the counts to approach, of any sign.
    ridge
        Weight of ½‖θ‖² (the v of the method), > 0, in rows.
    total
        Number of rows, > 0.

    Returns
    -------
    The change of θ, and the factor of each cell.
    """
    offset = np.log(np.maximum(expected, _TINY)) - math.log(ridge)
    z = target / ridge - potential + offset
    wanted = total / ridge  # what the sum of exp(u) must be
    lowest, highest = (w + math.log(w) - float(z.max()) for w in (wanted / z.size, wanted))
    shift = min(max(0.0, lowest), highest)
    u = offset
    for step in range(_MAX_STEPS):
        power = np.exp(u)
        slope = 1 / (1 + power)
        excess = (power + u - z - shift) * slope
        missing = wanted - float(power.sum())
        farthest = float(np.abs(excess).max())
        settled = farthest < _SETTLED and abs(missing) < _SETTLED * wanted
        change = 0.0
        if farthest < _NEAR:
            change = (missing + float(power @ excess)) / float(power @ slope)
            change = min(max(shift + change, lowest), highest) - shift
        shift += change
        u = u + (change * slope - excess)
        if step == 0 or abs(change) > 1:
            u = np.minimum(u, _above(z + shift))
        if settled:  # and squared by the step just taken
            break
    factor = np.exp(np.minimum(u - offset, _LARGEST))
    kept = float(expected @ factor)
    if not kept > 0:  # the target lies where the model has no mass, and nowhere else: it stays as it is
        return Step(np.zeros(expected.size), np.ones(expected.size))
    factor *= total / kept
    return Step(u - offset - shift, factor)


def best_ridge(counts: FloatArray, expected: FloatArray, stddev: float) -> float:
    """Return the ridge of a table, in multiples of its noise, with the least estimated risk.

    A ridge of v moves a cell from its expected count m towards the noisy count y.  The fraction of the way is s = m /
    (m + v).  The squared error of this linear rule has an unbiased estimate: sum (1 - s)^2 (y - m)^2 + 2 s sigma^2
    (Stein 1981).  Each cell is weighted by 1 / (m + sigma), which makes squares comparable to absolute errors.

    Parameters
    ----------
    counts
        (cells,) noisy counts y, in rows.
    expected
        (cells,) counts m under the model before this table was measured, in rows, >= 0.
    stddev
        Standard deviation sigma of the noise of a cell, in rows.
    """
    weight = 1 / (expected + stddev)
    squared = (counts - expected) ** 2
    risks = []
    for ridge in RIDGES:
        trust = expected / (expected + ridge * stddev)
        risks.append(float((weight * ((1 - trust) ** 2 * squared + 2 * trust * stddev**2)).sum()))
    return RIDGES[int(np.argmin(risks))]


def common_ridge(tables: Sequence[NoisyTable], shape: Shape) -> float:
    """Return one ridge for the interactions of many tables of one number of columns, in multiples of their noise.

    One table says little about how strong such interactions are, and many tables together say it well.  The risk is
    estimated as in `best_ridge` and summed over tables.  Expected counts have the margins of a table, and no interaction
    of all of its columns.

    Parameters
    ----------
    tables
        Whole tables of two or more columns, consistent with each other, not empty; ``stddev`` is the noise of a cell of
        the interaction, in rows.
    shape
        Number of codes of each column.
    """
    risks = np.zeros(len(RIDGES))
    for table in tables:
        counts = table.counts.reshape(table.shape(shape))
        expected = _without_interaction(counts)
        squared, noise = centred(counts - expected) ** 2, table.stddev**2 * math.prod(1 - 1 / n for n in counts.shape)
        weight = 1 / (expected + table.stddev)
        for i, ridge in enumerate(RIDGES):
            trust = expected / (expected + ridge * table.stddev)
            risks[i] += (weight * ((1 - trust) ** 2 * squared + 2 * trust * noise)).sum()
    return RIDGES[int(np.argmin(risks))]


def _without_interaction(counts: FloatArray) -> FloatArray:
    """Return counts with the margins of a table and without an interaction of all of its columns, of the same shape.

    The margins leave out one column each, and have at least one row in each cell.  A table's difference from these
    counts is its interaction, for which a ridge is chosen.
    """
    margins = [np.maximum(counts.sum(axis=axis, keepdims=True), 1.0) for axis in range(counts.ndim)]
    expected = np.ones(counts.shape)
    for _ in range(_FEW_STEPS):
        for axis, margin in enumerate(margins):
            expected *= margin / expected.sum(axis=axis, keepdims=True)
    return expected


def _above(z: FloatArray) -> FloatArray:
    """Return an upper bound on the root u of exp(u) + u = z, from which Newton's method starts: z, or log z above 1."""
    return np.where(z < 1, z, np.log(np.maximum(z, 1)))


def rake(
    expected: FloatArray,
    potential: FloatArray,
    target: FloatArray,
    *,
    cells: BoolArray,
    ridge: float,
    total: float,
) -> FloatArray:
    """Update ``potential`` in place by `proportional_step` in masked ``cells``; return all cells' factors, (cells,).

    Cells outside of the mask have factor 1.
    """
    if cells.all():
        step = proportional_step(expected, potential, target, ridge=ridge, total=total)
        potential += step.change
        return step.factor
    step = proportional_step(expected[cells], potential[cells], target[cells], ridge=ridge, total=total)
    potential[cells] += step.change
    factor = np.ones(expected.size)
    factor[cells] = step.factor
    return factor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """The cheapest exchange of log-potential between two tables, one of whose cliques contains the other.

    What one table gains the other loses, so the model stays the same; only the ridges' penalty on the potentials
    changes.

    Parameters
    ----------
    inner, outer
        Positions of the two tables; the clique of the first lies in the other's.
    inner_cells, outer_cells
        The possible cells of each.
    inner_groups, outer_groups
        The group of each of these cells: all cells of a group gain, or lose, the same.
    inner_ridge, outer_ridge
        Ridges of their potentials, in rows.
    excess
        (groups,) by how many rows the inner table's counts exceed the outer's: 0 for consistent tables, except for
        impossible cells.
    curvature
        (groups,) second derivative of the penalty; infinite for groups without anything to exchange.
    """

    inner: int
    outer: int
    inner_cells: IntArray
    outer_cells: IntArray
    inner_groups: IntArray
    outer_groups: IntArray
    inner_ridge: float
    outer_ridge: float
    excess: FloatArray
    curvature: FloatArray

    def make(self, potentials: Sequence[FloatArray]) -> None:
        """Exchange log-potential between the two tables such that the ridges' penalty is least, exactly.

        ``potentials`` change in place.
        """
        inner, outer, groups = potentials[self.inner], potentials[self.outer], len(self.excess)
        held = self.outer_ridge * np.bincount(self.outer_groups, outer[self.outer_cells], groups)
        held -= self.inner_ridge * np.bincount(self.inner_groups, inner[self.inner_cells], groups)
        moved = (held + self.excess) / self.curvature
        inner[self.inner_cells] += moved[self.inner_groups]
        outer[self.outer_cells] -= moved[self.outer_groups]


def exchanges(
    tables: Sequence[NoisyTable], ridges: Sequence[float], possible: Sequence[BoolArray], shape: Shape
) -> list[Exchange]:
    """Return the possible exchanges between tables whose cliques contain each other, the largest inner cliques first.

    Exchanges lower the ridges' penalty without a change of the model.

    Parameters
    ----------
    tables
        One for each clique.  Interactions measured without their marginal exchange nothing.
    ridges
        Ridges of their potentials, in rows.
    possible
        (cells,) for each table, whether its cells have a potential.
    shape
        Number of codes of each column.
    """
    place = {table.clique: i for i, table in enumerate(tables) if not table.alone}
    pairs = [
        (place[inside], place[clique])
        for clique in place
        for size in range(1, len(clique))
        for inside in itertools.combinations(clique, size)
        if inside in place and tables[place[inside]].groups is None
    ]
    found = []
    for i, j in sorted(pairs, key=lambda pair: -len(tables[pair[0]].clique)):
        axes = [tables[j].clique.index(a) for a in tables[i].clique]
        of_inner, of_outer = _groups(tables[j], axes, shape)
        (a, x), (b, y) = ((np.flatnonzero(p), g[p]) for p, g in ((possible[i], of_inner), (possible[j], of_outer)))
        groups = 1 + int(max(of_inner.max(), of_outer.max()))
        both = [np.bincount(one, minlength=groups) for one in (x, y)]
        excess = np.bincount(x, tables[i].counts[a], groups) - np.bincount(y, tables[j].counts[b], groups)
        some = (both[0] > 0) & (both[1] > 0)
        found.append(
            Exchange(
                inner=i, outer=j, inner_cells=a, outer_cells=b, inner_groups=x, outer_groups=y,
                inner_ridge=ridges[i], outer_ridge=ridges[j], excess=np.where(some, excess, 0.0),
                curvature=np.where(some, ridges[i] * both[0] + ridges[j] * both[1], np.inf),
            )
        )  # fmt: skip
    return found


def _groups(outer: NoisyTable, axes: Sequence[int], shape: Shape) -> tuple[IntArray, IntArray]:
    """Return the group of each cell of an inner table, (inner cells,), and of each cell of the outer one, (outer cells,).

    Cells of one group agree in the inner table's columns.  In a group, what the inner cell's potential gains the outer
    cells' potentials lose, and the model stays the same (`Exchange`).  ``axes`` are the positions of the inner table's
    columns among the outer one's; codes that the outer table has merged are in one group.
    """
    sizes = outer.shape(shape)
    kept = [sizes[axis] for axis in axes]
    every = np.zeros(1, np.int64)
    for axis in axes:
        codes = np.arange(sizes[axis]) if outer.groups is None else outer.groups[axis]
        every = np.add.outer(every * sizes[axis], codes).ravel()
    numbers = np.arange(int(np.prod(kept))).reshape([size if a in axes else 1 for a, size in enumerate(sizes)])
    return every, np.broadcast_to(numbers, sizes).ravel()
