"""How the adaptive plan divides its budget among its stages.  Arithmetic on public numbers and noisy answers.

All shares are fractions of the whole budget, unless a name says of what else they are a part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from synthdp.mechanisms.adaptive.column_tree import OneWay
from synthdp.mechanisms.adaptive.energies import MEAN_ABS, OF_MARGINS, explained_by_chance
from synthdp.mechanisms.adaptive.selection import Candidate
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


def gain_of_one_ways(columns: Sequence[OneWay], pairs: Sequence[Candidate], stddev: float) -> float:
    """Return by how much less noise in the one-ways would decrease the errors of all pairs, in rows, by weight.

    A pair's table is wrong by its relation and chance, and by what is wrong in its two columns; these add in squares, since
    they have nothing to do with each other.  Estimates of bins are nearer than noisy counts, and by no more wrong than the
    rows in them.

    Parameters
    ----------
    columns
        What is known of each column.
    pairs
        Candidates; those of other than two columns, or over merged groups, are left out.
    stddev
        Of the noise of a second measurement of the first histogram of every column, in rows.
    """
    pairs = [one for one in pairs if len(one.clique) == 2 and one.level == 0]
    if not pairs:
        return 0.0
    wrong, part = [], MEAN_ABS * math.sqrt(OF_MARGINS)
    for column in columns:
        rows = np.bincount(column.first_bin, weights=column.weights, minlength=column.first.size)
        both = (column.stddev**-2 + stddev**-2) ** -0.5
        wrong.append([float(np.minimum(part * noise, rows).sum()) for noise in (column.stddev, both)])
    square = np.array([[one.relation.expected**2 + explained_by_chance(one.expected) ** 2] for one in pairs])
    square = square + (np.array(wrong) ** 2)[np.array([one.clique for one in pairs])].sum(axis=1)
    before, after = np.sqrt(square).T
    return float(np.array([one.weight for one in pairs]) @ (before - after))


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
