"""The optimal unbiased noise for a workload of marginals, known in closed form before any cost (Xiao et al. 2023).

Arithmetic on public numbers and noisy answers: the sizes of columns, the workload, and the precision of earlier
answers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy.sparse import csr_matrix

from synthdp.arrays import MEAN_ABS, Clique, FloatArray
from synthdp.mechanisms.adaptive.selection import DIVISIONS, KEPT, MAX_TRIPLES
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.workload import Workload
from synthdp.queries.contingency import subsets_of, table_size
from synthdp.queries.interactions import norms_of_one, norms_of_swap
from synthdp.queries.norms import Norms, RecordBounds

LARGEST, LARGEST_OF_FEW, FEW_CELLS = 0.1, 0.5, 16
"""All interactions are measured, instead of chosen tables, only if noise alone would cause at most this mean total
variation distance: LARGEST in general, LARGEST_OF_FEW where tables have at most FEW_CELLS cells on average.  Tuned on
Adult's columns, whickham, vocab and default (docs/benchmarks/nltcs.md).  On NLTCS, with 8 cells a table and a distance of
.4, chosen tables have 2.2 times the three-way error of all interactions.  On five tables of few cells that chose no
constant, .8 is as good as .5, and .2 worse.  On whickham, with more cells a table, chosen tables have 8 +- 3 % less error
above a distance of .1.
"""

LEAST_PART = 0.1
"""Least precision bought for an effect, as a fraction of the precision it would get without earlier answers.  So even
an effect that is precise already is measured.  A larger value spends more on effects that are precise already.  Without
it the three-way error of eight tables changes by +.1 +- .4 %, of three columns of Adult by +1.2 +- .1 %."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optimum:
    """The plan of least error for measuring all main effects and interactions, and the error that it leaves.

    Parameters
    ----------
    stddevs
        For each clique the noise stddev in a cell of its effect before centring, in rows.
    total_share
        Fraction of the plan's budget that goes to the number of rows.
    error
        Mean total variation distance that this noise alone causes in the workload's tables, by weight.
    mean_cells
        Mean number of cells of the workload's tables, by weight.
    """

    stddevs: Mapping[Clique, float]
    total_share: float
    error: float
    mean_cells: float

    @property
    def pays(self) -> bool:
        """Whether to measure all interactions: the error is small, or moderate and tables have few cells.

        A table of many cells has most of its rows in few of them.  For such tables, tables chosen by noisy scores are
        better until the noise is small (docs/mechanisms/adaptive-marginals.md).
        """
        return self.error <= (LARGEST_OF_FEW if self.mean_cells <= FEW_CELLS else LARGEST)

    def added_to(self, precisions: Mapping[Clique, float]) -> dict[Clique, float]:
        """Return the precision (1 / variance) of each effect from this plan and from earlier answers together.

        A second plan then buys only the precision that is still missing.
        """
        both = {*precisions, *self.stddevs}
        return {
            one: precisions.get(one, 0.0) + (self.stddevs[one] ** -2 if one in self.stddevs else 0.0) for one in both
        }

    def with_rest(self, rest: Optimum, part: float, weight: float) -> Optimum:
        """Return one plan that measures both this plan's effects and ``rest``, a plan for tables outside of the workload.

        So a release keeps some accuracy for tables that the user did not name.  ``rest`` costs the fraction ``part`` of
        mu squared.  Its tables have the fraction ``weight`` of the weight of all tables, by which the errors of both
        plans are averaged.  Both fractions are below 1.
        """
        return Optimum(
            stddevs={one: precision**-0.5 for one, precision in rest.added_to(self.added_to({})).items()},
            total_share=(1 - part) * self.total_share + part * rest.total_share,
            error=(1 - weight) * self.error + weight * rest.error,
            mean_cells=(1 - weight) * self.mean_cells + weight * rest.mean_cells,
        )


def optimum(
    sizes: Sequence[int],
    workload: Mapping[Clique, float],
    *,
    sensitivity: Mapping[Clique, float],
    known: Mapping[Clique, float],
    mu: float,
    total: float,
) -> Optimum:
    """Return the unbiased plan of least total error for a workload of marginals.

    The plan is the noise of each effect, the fraction of the cost for the number of rows, and the remaining error.

    Let v_S be the noise variance in a cell of the effect of S before centring.  The variance of the table of A, summed
    over its cells, is a sum over the subsets S of A. Its term is v_S, times n_j - 1 for each j in S, times 1 / n_j for
    each j of A outside S. Measuring the effect costs c_S / v_S of mu^2, where c_S is its squared sensitivity.  A
    weighted sum of total variances is a sum of b_S v_S. The sum is least for v_S proportional to sqrt(c_S / b_S)
    (Lagrange).  Earlier precision is deducted, down to the fraction `LEAST_PART`.  The weights are iterated so that the
    sum of the tables' total variation distances is least, not of their variances.  A table's distance is proportional
    to the square root of its cells times its total variance.

    Parameters
    ----------
    sizes
        Number of bins of each column.
    workload
        Weights, > 0, of the tables in the plan.
    sensitivity
        c_S for each non-empty S within a table of the workload.  The empty S is the number of rows; it is left out if
        that number is public.
    known
        Precisions, 1 / v_S, of effects that were measured before.
    mu
        The largest cost, as the mu of Gaussian DP.
    total
        Estimated number of rows.
    """
    effects = sorted(sensitivity, key=lambda s: (len(s), s))
    at = {s: i for i, s in enumerate(effects)}
    entries = [
        (a, at[s], math.prod(sizes[j] - 1 for j in s) * table_size(sizes, s) / table_size(sizes, table))
        for a, table in enumerate(workload)
        for s in ((), *subsets_of(table))
        if s in at
    ]
    rows, columns, values = zip(*entries, strict=True)
    spread = csr_matrix((values, (rows, columns)), shape=(len(workload), len(effects)))
    cells = np.array([table_size(sizes, table) for table in workload], np.float64)
    weights = np.array(list(workload.values()), np.float64)
    costs = np.array([sensitivity[s] for s in effects])
    before = np.array([known.get(s, 0.0) for s in effects])
    slopes, transposed = weights.copy(), spread.T
    for _ in range(DIVISIONS):
        added = _precisions(costs, np.asarray(transposed @ slopes), before, mu**2)
        variances = np.asarray(spread @ (1 / (before + added)))
        slopes = weights * np.sqrt(cells / np.maximum(variances, 1e-300))
    distances = 0.5 * MEAN_ABS * np.sqrt(cells * variances) / max(total, 1.0)
    return Optimum(
        stddevs={s: float(added[i] ** -0.5) for s, i in at.items() if s and added[i] > 0},
        total_share=float(added[at[()]]) * sensitivity[()] / mu**2 if () in at else 0.0,
        error=float(weights @ distances / weights.sum()),
        mean_cells=float(weights @ cells / weights.sum()),
    )


def _precisions(costs: FloatArray, slopes: FloatArray, before: FloatArray, spend: float) -> FloatArray:
    """Return the precision (1 / variance) to add to each effect, (effects,), at the total cost ``spend``.

    The sum of slopes / precision is then least; ``slopes`` are the weights of the effects' variances in the error.
    Without earlier answers the best precision is level * wanted, with wanted = sqrt(slopes / costs) and one level for
    all effects.  With the precision ``before``, an effect gets max(level * wanted - before, LEAST_PART * level *
    wanted).  The total cost, the sum of costs * precision, is convex and piecewise linear in the level.  So each linear
    piece gives the level at which it reaches ``spend``, and the least of these levels is the solution.
    """
    wanted = np.sqrt(slopes / np.where(costs > 0, costs, np.inf))
    starts = np.divide(before, wanted, out=np.full(len(before), np.inf), where=wanted > 0)
    order = np.argsort(starts, kind="stable")
    rises, falls = np.cumsum((costs * wanted)[order]), np.cumsum((costs * before)[order])
    rise = LEAST_PART * float(rises[-1])
    lines = (spend + falls) / (rise + (1 - LEAST_PART) * rises)
    level = min(spend / rise, float(lines.min()))
    return np.maximum(level * wanted - before, LEAST_PART * level * wanted)


def optimum_of(
    sizes: Sequence[int],
    workload: Workload,
    budget: BudgetAllocation,
    *,
    total: float,
    most_cells: int,
    known: Mapping[Clique, float] = MappingProxyType({}),
) -> Optimum | None:
    """Return the optimal plan for a budget and a workload, or ``None`` where no such plan applies.

    The plan applies to Gaussian noise, workloads of at most `MAX_TRIPLES` tables, and domains of at most ``most_cells``
    cells, or of any number of cells if tables have at most `FEW_CELLS` cells on average.  At least one table must have
    two columns that vary.  Tables that the user's workload does not contain get the fraction `KEPT` of the budget.

    Parameters
    ----------
    sizes
        Number of bins of each column.
    workload
        The workload.  The plan has its tables of three columns, or of two if only two columns vary.  The plan has
        smaller tables of the workload if no larger one contains them.
    budget
        The remaining budget.
    total
        Estimated number of rows.
    most_cells
        Most cells of a domain to which the plan applies, if its tables have many cells; 1 for none.
    known
        Precisions of effects that were measured before.
    """
    varying = [j for j, n in enumerate(sizes) if n > 1]
    order = min(3, len(varying))  # as elsewhere in the plan, no table has more columns
    if budget.exponent != 0.5 or math.comb(len(varying), order) > MAX_TRIPLES:
        return None
    tables: dict[Clique, float] = {}
    for ways in range(order, 0, -1):
        held = {part for table in tables for part in subsets_of(table)}
        every = itertools.combinations(varying, ways)
        tables |= {c: weight for c in every if c not in held and (weight := workload.weight(c)) > 0}
    if max(map(len, tables), default=0) < 2:
        return None
    mean_cells = np.average([table_size(sizes, table) for table in tables], weights=[*tables.values()])
    if math.prod(sizes) > most_cells and mean_cells > min(FEW_CELLS, most_cells):
        return None
    effects = list(dict.fromkeys(part for table in tables for part in subsets_of(table)))
    public = budget.adjacency.rows_are_public
    sensitivity = {part: _squared_sensitivity(sizes, part, swap=public) for part in effects}
    sensitivity |= {} if public else {(): 1.0}
    unit = RecordBounds(Norms(1, 1, 1), Norms(1, 1, 1))
    mu = 1 / budget.stddev(unit, budget.share, k=len(effects))
    rest = {table: weight for table, weight in tables.items() if not workload.wishes(table)}
    ours = {table: weight for table, weight in tables.items() if table not in rest}

    def best(some: Mapping[Clique, float], before: Mapping[Clique, float], part: float) -> Optimum:
        """Return the best plan for some tables at the fraction ``part`` of mu squared, given the precisions ``before``."""
        inside = {(), *(one for table in some for one in subsets_of(table))}
        costs = {one: cost for one, cost in sensitivity.items() if one in inside}
        return optimum(sizes, some, sensitivity=costs, known=before, mu=mu * math.sqrt(part), total=total)

    if not rest or not ours:
        return best(tables, known, 1.0)
    first = best(ours, known, 1 - KEPT)
    return first.with_rest(best(rest, first.added_to(known), KEPT), KEPT, sum(rest.values()) / sum(tables.values()))


def _squared_sensitivity(sizes: Sequence[int], clique: Clique, *, swap: bool) -> float:
    """Return the squared L2 sensitivity of an effect to one record, or to a swap if ``swap``.

    An effect's cells are a marginal's, centred along every axis.  A swap replaces one record by another.  Divided by
    the noise variance of a cell, the result is the effect's cost in mu squared.
    """
    shape = tuple(sizes[j] for j in clique)
    norms = norms_of_swap(shape) if swap else norms_of_one(shape)
    return norms.l2_squared / math.prod(shape) ** 2
