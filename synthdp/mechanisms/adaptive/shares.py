"""How the adaptive plan divides its budget among its stages.  Arithmetic on public numbers and noisy answers.

All shares are fractions of the whole budget, unless a name says of what else they are a part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.mechanisms.adaptive.column_tree import OneWay
from synthdp.mechanisms.adaptive.energies import MEAN_ABS
from synthdp.mechanisms.allocation import BudgetAllocation

FIRST_COUNT_SHARE = 0.005
"""Share of the budget for a first noisy count of rows, since the other shares depend on it.  More makes the division
of the budget surer, and leaves less to divide.  Tuned; no sweep is on record.
"""

ONE_WAY_LEVEL, ONE_WAY_LEVEL_ALONE = 0.1, 0.13
"""Share of the budget for the first histograms of all columns when their noise, summed over a column, is .2 % of the
rows; ONE_WAY_LEVEL_ALONE where no later table improves them, as only the interactions of pairs are measured.  More
noise raises it, by .22 for each factor of ten, as columns have to come out right first.
"""

ONE_WAYS = (0.1, 0.8)
"""Least and largest share of the first level of the one-ways.  The least keeps columns right where noise is low, the
largest leaves something for relations where it is high.  Tuned; no sweep is on record.
"""

DEEP_SHARE = 0.75
"""The deeper levels of the one-way histograms may together cost at most this fraction of the first level's share.
More finds more single values within bins, and leaves less for relations.  Tuned; ablation in
docs/benchmarks/planner.md.
"""

ROUNDS = ([1.0], [0.7, 0.3], [0.5, 0.5])
"""Fractions of the budget left after the one-ways for each round of measuring tables: the more signal, the more for a
second round, whose scores are against a fitted model.  Tuned; ablation in docs/benchmarks/planner.md.
"""

ROUNDS_WITH_TRIPLES = [0.4, 0.6]
"""Used in place of the two-round entries of `ROUNDS` if triples over merged bins may be measured, which happens in
round 2.  More for the second round finds more triples, but its scores are against a noisier model.  Tuned; not
measured.
"""

ROUND_SIGNALS = (7_500.0, 15_000.0)
"""Signals (rows / stddev of a table measured with the whole budget) above which the second and the third entry of
`ROUNDS` are used.  Higher ones give more tables a single round.  Tuned with `ROUNDS`.
"""

ONE_WAYS_KNOWN = 1_500.0
"""Signal (rows / stddev of a table measured with the whole budget) above which only a pair's interaction is measured.
Its margins then tell little that is new.  Below it whole tables are measured, which improve the margins too.
"""

SCREENS = (0.07, 0.1)
"""Fraction of the first and of the second round's budget that goes to scoring candidate tables.  More chooses tables
better, and measures them worse.  Tuned; ablation in docs/benchmarks/planner.md.
"""

SCORE_NOISE, MOST_SCREEN, LOUDEST_SCORE = 0.05, 0.2, 0.3
"""The stddev of a pair's score that screening aims at, as a fraction of the rows (tuned); the largest share of a round that
screening costs (tuned); and the largest stddev of a score, as a fraction of the rows, at which pairs are screened at all:
few pairs score above .5 without noise, so beyond it noise alone would choose.  A smaller first or a larger second one
spends more on scores, and less on tables.  The value .3 is not measured.
"""

ONE_WAYS_IN_TABLES = 0.1
"""Factor by which the gain of re-measuring one-ways is multiplied when compared with the gain of tables.  It would else
be overestimated: a column's error is counted in each of its pairs; most pairs have a larger error, their missing
relation, and squares add.  Tuned on Adult at epsilon .1; swept on hmeq, flchain and Wage (docs/benchmarks/planner.md):
relations lose by more.
"""

LEAST_SHARE = 0.02
"""Least share of the budget for which the one-ways are measured again at the end.  With less, their noise would
hardly fall.  Tuned; no sweep is on record.
"""


def one_way_share(cells: Sequence[int], budget: BudgetAllocation, *, total: float) -> float:
    """Return the budget share of the first histograms of all columns: larger where their noise is large for the rows.

    Half of what is left where there is one column alone.

    Parameters
    ----------
    cells
        Number of cells of the first histogram of each column.
    budget
        The rest of the budget.
    total
        Estimated number of rows.
    """
    if len(cells) == 1:
        return budget.share * 0.5
    noise = budget.table_stddev(1 / len(cells)) * float(np.mean(cells)) / total
    level = ONE_WAY_LEVEL if signal(budget, total) < ONE_WAYS_KNOWN else ONE_WAY_LEVEL_ALONE
    return float(np.clip(level + 0.22 * math.log10(noise / 0.002), *ONE_WAYS))


def parts_of_rounds(budget: BudgetAllocation, *, total: float, second_stage: float | None) -> list[float]:
    """Return the fraction of the budget left after the one-ways for each round of measuring tables.

    Parameters
    ----------
    budget
        The rest of the budget.
    total
        Estimated number of rows.
    second_stage
        The part of the second round, 0 for none; ``None`` to decide by the signal.
    """
    if second_stage is not None:
        return [1 - second_stage, second_stage] if second_stage > 0 else [1.0]
    return ROUNDS[sum(signal(budget, total) > limit for limit in ROUND_SIGNALS)]


def signal(budget: BudgetAllocation, total: float) -> float:
    """Return the number of rows in standard deviations of the noise of a table that costs the whole budget.

    It measures how favourable the privacy budget is; several decisions depend on it.
    """
    return total / budget.table_stddev(1.0)


def gain_of_one_ways(columns: Sequence[OneWay], weights: Sequence[float]) -> Callable[[float], float]:
    """Return the function from the noise of a second measurement of the one-ways to what it would gain, both in rows.

    The noise is the standard deviation of a bin of every column's first histogram.  The gain is the decrease of the L1
    error of all pairs, weighted by the pairs' weights.  Noise hurts a bin by no more than the rows in it, as
    `selection.Candidate.pays` has it for tables.

    Parameters
    ----------
    columns
        Noisy estimates of each column.
    weights
        For each column the sum of the weights of the pairs that it is in.
    """
    binned = [
        np.bincount(one.first_bin, weights=one.weights, minlength=one.first.size).astype(np.float64) for one in columns
    ]

    def hurt(stddev: float, rows: FloatArray) -> float:
        """Return the expected L1 error of noise of this standard deviation, in rows, over the bins of a column."""
        return float(np.minimum(MEAN_ABS * stddev, rows).sum())

    now = [hurt(one.stddev, rows) for one, rows in zip(columns, binned, strict=True)]

    def gain(stddev: float) -> float:
        """Return the gain from a second measurement with this noise."""
        both = ((one.stddev**-2 + stddev**-2) ** -0.5 for one in columns)
        each = zip(weights, now, both, binned, strict=True)
        return sum((weight * (before - hurt(after, rows)) for weight, before, after, rows in each), start=0.0)

    return gain


def screening_part(budget: BudgetAllocation, number: int, *, share: float, pairs: int, total: float) -> float:
    """Return the fraction of a round's budget, from 0 to below 1, for scoring candidates.

    0 where scores would be noise alone.

    It is larger than usual where scores would be noisy: strong relations still show, and are worth more than scores
    cost.

    Parameters
    ----------
    budget
        The rest of the budget.
    number
        Number of the round, from 0.
    share
        Share of the budget for the round.
    pairs
        Candidates of two columns.
    total
        Estimated number of rows.
    """
    least = SCREENS[number]
    if pairs < 2:
        return least
    noise = budget.table_stddev(share / pairs) / total
    part = float(np.clip((noise / SCORE_NOISE) ** (1 / budget.exponent), least, MOST_SCREEN))
    return part if noise * part**-budget.exponent < LOUDEST_SCORE else 0.0
