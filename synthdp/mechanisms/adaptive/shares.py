"""How the adaptive plan divides its budget among its stages.  Arithmetic on public numbers and noisy answers.

All shares are fractions of the whole budget, unless a name says of what else they are a part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from synthdp.mechanisms.adaptive.column_tree import OneWay
from synthdp.mechanisms.adaptive.energies import MEAN_ABS
from synthdp.mechanisms.allocation import BudgetAllocation

FIRST_COUNT_SHARE = 0.005
"""Share of a first estimate of the number of rows, on which the other shares depend."""

ONE_WAY_LEVEL, ONE_WAY_LEVEL_ALONE = 0.1, 0.13
"""Share of the first level of the one-ways when its noise, summed over a column, is .2 % of the rows; and where nothing else
tells of them, since of pairs the interactions alone are measured."""

ONE_WAYS = (0.1, 0.8)
"""Least and largest share of the first level of the one-ways."""

DEEP_SHARE = 0.75
"""The deeper levels of the one-way trees may cost this much of the first level's share."""

ROUNDS = ([1.0], [0.7, 0.3], [0.5, 0.5])
"""Parts of what the one-ways leave for each round of tables, by the signal."""

ROUNDS_WITH_TRIPLES = [0.4, 0.6]
"""Fractions of what the one-ways leave, for round 1 and round 2, if triples over merged bins compete in round 2.

Used in place of the entry of two rounds of `ROUNDS`.  Tuned; not measured."""

ROUND_SIGNALS = (7_500.0, 15_000.0)
"""Signals (rows / stddev of a table measured with the whole budget) above which the next entry of ROUNDS pays."""

ONE_WAYS_KNOWN = 1_500.0
"""Such a signal above which a pair's interaction alone is measured, since its margins tell little that is new."""

SCREENS = (0.07, 0.1)
"""Part of the first and of the second round that goes to its screening."""

SCORE_NOISE, MOST_SCREEN, LOUDEST_SCORE = 0.05, 0.2, 0.3
"""The stddev of a pair's score that screening aims at, as a fraction of the rows (tuned); the largest share of a round that
screening costs (tuned); and the largest stddev of a score, as a fraction of the rows, at which pairs are screened at all:
few pairs score above .5 without noise, so beyond it noise alone would choose.  The value .3 is not measured."""

ONE_WAYS_IN_TABLES = 0.1
"""What one-ways gain counts so much beside what tables gain: it is counted in every pair of a column, in most of which the
relation that is missing is the larger error, and squares add.

Tuned on Adult at epsilon .1; swept on hmeq, flchain and Wage (docs/benchmarks/planner.md): relations lose by more."""

LEAST_SHARE = 0.02
"""A share that is worth measuring the one-ways again for, when nothing else was."""


def one_way_share(cells: Sequence[int], budget: BudgetAllocation, *, total: float) -> float:
    """Return the share of the first level of the one-ways: more where their noise is large for the number of rows.

    Parameters
    ----------
    cells
        Of the first histogram of each column.
    budget
        What is left.
    total
        Estimated number of rows.
    """
    if len(cells) == 1:
        return budget.share * 0.5
    noise = budget.table_stddev(1 / len(cells)) * float(np.mean(cells)) / total
    level = ONE_WAY_LEVEL if signal(budget, total) < ONE_WAYS_KNOWN else ONE_WAY_LEVEL_ALONE
    return float(np.clip(level + 0.22 * math.log10(noise / 0.002), *ONE_WAYS))


def parts_of_rounds(budget: BudgetAllocation, *, total: float, second_stage: float | None) -> list[float]:
    """Return the part of what the one-ways leave that goes to each round of tables.

    Parameters
    ----------
    budget
        What is left.
    total
        Estimated number of rows.
    second_stage
        The part of the second round, 0 for none; ``None`` to decide by the signal.
    """
    if second_stage is not None:
        return [1 - second_stage, second_stage] if second_stage > 0 else [1.0]
    return ROUNDS[sum(signal(budget, total) > limit for limit in ROUND_SIGNALS)]


def signal(budget: BudgetAllocation, total: float) -> float:
    """Return so many rows, in standard deviations of the noise of a table that costs the whole budget."""
    return total / budget.table_stddev(1.0)


def gain_of_one_ways(columns: Sequence[OneWay], weights: Sequence[float], stddev: float) -> float:
    """Return by how much less noise in the one-ways would decrease the errors of all pairs, in rows, by weight.

    Noise hurts a bin by no more than the rows in it, as `selection.Candidate.cells` has it for tables.

    Parameters
    ----------
    columns
        What is known of each column.
    weights
        For each column the sum of the weights of the pairs that it is in.
    stddev
        Of the noise of a second measurement of the first histogram of every column, in rows.
    """
    gain = 0.0
    for column, weight in zip(columns, weights, strict=True):
        rows = np.bincount(column.first_bin, weights=column.weights, minlength=column.first.size)
        both = (column.stddev**-2 + stddev**-2) ** -0.5
        noise = [float(np.minimum(MEAN_ABS * one, rows).sum()) for one in (column.stddev, both)]
        gain += weight * (noise[0] - noise[1])
    return gain


def screening_part(budget: BudgetAllocation, number: int, *, share: float, pairs: int, total: float) -> float:
    """Return the part of a round, 0 or 1, that goes to its screening: 0 where scores would be noise alone.

    It is more than usual where scores would be loud: strong relations are seen through some noise, and are worth more than
    what scores cost.

    Parameters
    ----------
    budget
        What is left.
    number
        Of the round.
    share
        What the round may cost.
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
